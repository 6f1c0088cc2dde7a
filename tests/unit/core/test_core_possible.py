"""What can never run is said at submit: which step, what is in the way, and the nearest node."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core import invariants
from farm.core.events import PolicyEvent
from farm.model.errors import JobFileError
from farm.model.nodes import AppInfo
from farm.model.policy import LimitRule, Policy
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step


def submit(rig: Rig, *steps: Any, **job: Any) -> tuple[str, ...]:
    """Submits as people do; returns the warnings."""
    rig.submit(*steps, force=job.pop("force", False), **job)
    warnings: tuple[str, ...] = rig.out.reply.warnings
    return warnings


def rig_with(policy: Policy | None = None) -> Rig:
    rig = Rig()
    rig.join("ant", 4, vram=(8_000, 24_000), pool="film", apps=(AppInfo("blender", "4.2.3"),))
    rig.join("bee", 8, ram_mib=32_768, attributes={"os": "linux", "rack": "r2"})
    if policy is not None:
        rig.handle(PolicyEvent(rig.now_us, policy, "", "wim"))
    return rig


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        (
            {"resources": Resources(gpus=3)},
            "steps[0].resources.gpus",
            "asks for 3 GPUs, the largest node (ant) has 2",
        ),
        (
            {"resources": Resources(cores=9)},
            "steps[0].resources.cores",
            "asks for 9 cores, the largest node (bee) has 8",
        ),
        (
            {"resources": Resources(ram_mib=40_000)},
            "steps[0].resources.ram_mib",
            "asks for 40000 MiB of memory, the largest node (bee) has 32768",
        ),
        (
            {"resources": Resources(gpus=1, vram_mib=30_000)},
            "steps[0].resources.vram_mib",
            "asks for GPUs of 30000 MiB, the largest one (ant) has 24000",
        ),
        (
            {"resources": Resources(gpus=2, vram_mib=10_000)},
            "steps[0].resources.vram_mib",
            "nearest is ant, which has 1 GPUs",
        ),
        (
            {"resources": Resources(cores=8), "pools": ("film",)},
            "steps[0].pools",
            "nearest is bee, which is in pool (none), not film",
        ),
        ({"site": "mars"}, "steps[0].site", "is at site local, not mars"),
        (
            {"attributes": {"rack": "r9"}},
            "steps[0].attributes",
            "nearest is ant, which has no attribute rack",
        ),
        ({"renderer": "nuke"}, "steps[0]", "ant does not run the renderer nuke; bee does not"),
    ],
)
def test_what_no_node_can_take_is_refused(fields: dict[str, Any], place: str, words: str) -> None:
    rig = rig_with()
    before = invariants.digest(rig.core.farm)
    with pytest.raises(JobFileError) as caught:
        submit(rig, step(**fields))
    assert caught.value.path == place
    assert "step 'beauty'" in caught.value.message
    assert "no node can take it" in caught.value.message
    assert words in caught.value.message
    assert "--force" in caught.value.hint
    assert invariants.digest(rig.core.farm) == before


def test_a_version_nobody_has_is_refused() -> None:
    rig = rig_with()
    with pytest.raises(JobFileError, match=r"has blender 4\.2\.3, not >=5"):
        submit(rig, step(renderer="blender", version=">=5"), apps=("blender",))


def test_force_takes_it_with_a_warning() -> None:
    rig = rig_with()
    (warning,) = submit(rig, step(resources=Resources(gpus=3)), force=True)
    assert "asks for 3 GPUs" in warning
    assert rig.states() == "QQQQ"


def test_each_step_is_looked_at() -> None:
    rig = rig_with()
    with pytest.raises(JobFileError, match="step 'b'"):
        submit(rig, step("a"), step("b", resources=Resources(cores=99)))


def test_nodes_that_are_away_count_and_forgotten_ones_do_not() -> None:
    rig = Rig()
    big = rig.join("big", 64)
    rig.join("ant", 4)
    rig.bye(big)
    assert submit(rig, step(resources=Resources(cores=64))) == ()
    rig.node_act("node-forget", big)
    with pytest.raises(JobFileError, match="asks for 64 cores"):
        submit(rig, step("b", resources=Resources(cores=64)))


def test_drained_nodes_count() -> None:
    rig = Rig()
    rig.node_act("node-drain", rig.join("ant", 4))
    assert submit(rig, step(resources=Resources(cores=4))) == ()


def test_a_farm_without_nodes_takes_it_and_says_so() -> None:
    rig = Rig()
    (warning,) = submit(rig, step(resources=Resources(cores=64)))
    assert "no node yet" in warning


def test_frames_do_not_cost_anything() -> None:
    rig = rig_with()
    with pytest.raises(JobFileError):
        submit(rig, step(frames="1-5000000", resources=Resources(cores=99)))


# ---------------------------------------------------------------- the policy


POLICY = Policy(
    limits={"nuke": LimitRule(total=2), "maya": LimitRule(total=0)}, user_max_cores={"ann": 2, "*": 6}
)


def test_a_limit_nobody_named_is_refused_with_those_there_are() -> None:
    rig = rig_with(POLICY)
    with pytest.raises(JobFileError, match="no limit 'nukex'") as caught:
        submit(rig, step(limits={"nukex": 1}))
    assert caught.value.path == "steps[0].limits.nukex"
    assert "maya, nuke" in caught.value.hint


def test_more_of_a_limit_than_there_is_is_refused() -> None:
    rig = rig_with(POLICY)
    with pytest.raises(JobFileError, match="asks for 3 of limit nuke, which has 2"):
        submit(rig, step(limits={"nuke": 3}))
    assert submit(rig, step(limits={"nuke": 2})) == ()


def test_a_closed_limit_only_warns() -> None:
    rig = rig_with(POLICY)
    (warning,) = submit(rig, step(limits={"maya": 1}))
    assert "limit maya is closed" in warning


def test_a_step_larger_than_its_users_cap_is_refused() -> None:
    rig = rig_with(POLICY)
    with pytest.raises(JobFileError, match="ann may hold 2 at once"):
        submit(rig, step(resources=Resources(cores=3)))
    assert submit(rig, step(resources=Resources(cores=3)), user="bob") == ()
    with pytest.raises(JobFileError, match="max_cores of the job is 2"):
        submit(rig, step("b", resources=Resources(cores=3)), user="bob", max_cores=2)


def test_force_passes_the_policy_too() -> None:
    rig = rig_with(POLICY)
    warnings = submit(rig, step(limits={"nukex": 1}, resources=Resources(cores=3)), force=True)
    assert any("nukex" in warning for warning in warnings)
