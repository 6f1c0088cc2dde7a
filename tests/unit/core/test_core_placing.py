"""Placing: order, filters, resources, GPUs, chunk sizes, and nodes' lives as far as they concern it."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.match import refusal
from farm.core.outcome import DrainCommand
from farm.model.errors import IllegalMove, UnknownName
from farm.model.nodes import AppInfo
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step


def test_priority_first_then_age_then_step_order() -> None:
    rig = Rig()
    rig.submit(step("old", "1"), step("old2", "1"))
    rig.submit(step("low", "1"), priority=10)
    rig.submit(step("high", "1"), priority=90)
    rig.submit(step("young", "1"))
    rig.join(cores=9)
    names = [lease.step.spec.name for lease in rig.dispatch()]
    assert names == ["high", "old", "old2", "young", "low"]


def test_order_holds_between_steps_of_different_needs() -> None:
    rig = Rig()
    rig.submit(step("plain", "1-9"))
    rig.submit(step("picky", "1", resources=Resources(cores=1, ram_mib=8)), priority=60)
    rig.join(cores=1)
    assert rig.lease().step.spec.name == "picky"


def test_what_does_not_fit_lets_smaller_work_pass() -> None:
    rig = Rig()
    rig.submit(step("big", "1", resources=Resources(cores=4)), priority=90)
    rig.submit(step("small", "1-9"))
    rig.join(cores=3)
    assert [lease.step.spec.name for lease in rig.dispatch()] == ["small"] * 3


NODE: dict[str, Any] = {
    "cores": 4,
    "ram_mib": 1_000,
    "vram": (8_000, 24_000),
    "pool": "film",
    "site": "local",
}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"pools": ("tv", "web")}, "is in pool film, not tv or web"),
        ({"site": "cloud"}, "is at site local, not cloud"),
        ({"renderer": "nuke"}, "does not run the renderer nuke"),
        ({"renderer": "mitsuba"}, "has no mitsuba"),
        ({"renderer": "blender", "version": ">=5"}, "has blender 4.2.3, not >=5"),
        ({"attributes": {"os": "windows"}}, "has os=linux, not windows"),
        ({"attributes": {"rack": "*"}}, "has no attribute rack"),
        ({"resources": Resources(cores=5)}, "has 4 cores, not 5"),
        ({"resources": Resources(cores=1, ram_mib=1_001)}, "has 1000 MiB of memory, not 1001"),
        ({"resources": Resources(cores=1, gpus=2, vram_mib=10_000)}, "has 1 GPUs of 10000 MiB, not 2"),
        ({"pools": ("tv", "film")}, ""),
        ({"site": "local"}, ""),
        ({"renderer": "blender", "version": "4.2"}, ""),
        ({"attributes": {"os": "*"}}, ""),
        ({"resources": Resources(cores=4, ram_mib=1_000, gpus=2, vram_mib=8_000)}, ""),
    ],
)
def test_each_filter_keeps_work_from_a_node_and_says_why(fields: dict[str, Any], why: str) -> None:
    rig = Rig()
    node = rig.join(renderers=("command", "blender", "mitsuba"), **NODE)
    app = {"blender": "blender", "mitsuba": "mitsuba"}.get(fields.get("renderer", ""), "")
    rig.submit(step(frames="1", **fields), apps=(app,))
    shape = rig.step("J1/beauty").shape
    assert shape is not None
    assert refusal(shape, rig.node(node)) == why
    assert len(rig.dispatch()) == (0 if why else 1)


def test_one_of_several_installed_versions_is_enough() -> None:
    rig = Rig()
    rig.join(apps=(AppInfo("blender", "3.4.1"), AppInfo("blender", "4.2.3")))
    rig.submit(step(frames="1", renderer="blender", version="<4"), apps=("blender",))
    assert len(rig.dispatch()) == 1


def test_gpus_are_whole_large_enough_and_never_shared() -> None:
    rig = Rig()
    rig.join(cores=8, vram=(8_000, 24_000, 24_000))
    rig.submit(step("big", "1-9", resources=Resources(cores=1, gpus=1, vram_mib=20_000)), priority=60)
    rig.submit(step("any", "1-9", resources=Resources(cores=1, gpus=1)))
    assert [(lease.step.spec.name, lease.gpus) for lease in rig.dispatch()] == [
        ("big", (1,)),
        ("big", (2,)),
        ("any", (0,)),
    ]


def test_a_node_alike_but_with_another_gpu_free_is_looked_at_on_its_own() -> None:
    """Of two equal nodes one has only its small GPU free, the other only its large one."""
    rig = Rig()
    needs = {
        "small": Resources(cores=1, gpus=1, vram_mib=1),
        "large": Resources(cores=1, gpus=1, vram_mib=20_000),
    }
    first = rig.join("first", cores=3, vram=(8_000, 24_000))
    rig.submit(step("large", "1", resources=needs["large"]))
    busy_large = rig.lease()
    second = rig.join("second", cores=3, vram=(8_000, 24_000))
    rig.submit(step("small", "1", resources=needs["small"]))
    rig.submit(step("more", "1", resources=needs["small"]))
    leases = rig.dispatch()
    assert {(lease.node_id, lease.gpus) for lease in leases} == {(first, (0,)), (second, (0,))}
    rig.done(next(lease for lease in leases if lease.node_id == first))
    assert busy_large.node_id == first
    rig.submit(step("again", "1", resources=needs["large"]))
    assert [(lease.node_id, lease.gpus) for lease in rig.dispatch()] == [(second, (1,))]


def test_a_whole_slice_step_takes_its_node_alone() -> None:
    rig = Rig()
    rig.join("busy", cores=4)
    rig.submit(step("small", "1"))
    small = rig.lease()
    rig.submit(step("whole", "1-2", renderer="whole"), priority=90)
    assert rig.dispatch() == []
    rig.done(small)
    whole = rig.lease()
    assert whole.resources.cores == 4
    rig.submit(step("small2", "1"))
    assert rig.dispatch() == []


def test_memory_is_never_overbooked() -> None:
    rig = Rig()
    rig.join(cores=8, ram_mib=1_000)
    rig.submit(step(resources=Resources(cores=1, ram_mib=400)))
    assert len(rig.dispatch()) == 2


# ---------------------------------------------------------------- chunks


def test_a_chunk_takes_as_many_frames_as_asked() -> None:
    rig = Rig()
    rig.join(cores=2)
    rig.submit(step(frames="1-5", chunk=3))
    assert [lease.units for lease in rig.dispatch()] == [(0, 1, 2), (3, 4)]


def test_adaptive_chunks_scout_with_one_frame_then_fill_the_target_time() -> None:
    rig = Rig(chunk_target_us=60_000_000)
    rig.join(cores=1)
    rig.submit(step(frames="1-100", chunk="auto"))
    scout = rig.lease()
    assert scout.units == (0,)
    rig.done(scout, elapsed_s=6)
    assert rig.lease().units == tuple(range(1, 11))


def test_adaptive_chunks_shrink_near_the_end_so_that_nodes_finish_together() -> None:
    rig = Rig()
    for number in range(2):
        rig.join(f"n{number}")
    rig.submit(step(frames="1-9", chunk="auto"))
    for lease in rig.dispatch():
        rig.done(lease, elapsed_s=1)
    assert [len(lease.units) for lease in rig.dispatch()] == [2, 2]


def test_a_chunk_need_not_be_contiguous() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-5", chunk=5))
    rig.act("cancel", "J1/beauty/2,4")
    assert rig.lease().units == (0, 2, 4)


def test_a_retry_leases_only_the_frames_that_are_missing() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-5", chunk=5))
    lease = rig.lease()
    rig.done(lease, 0, 2, 4, closed=False)
    rig.fail(lease, "renderer", 1, 3)
    assert rig.lease().units == (1, 3)


def test_no_lease_carries_more_units_than_the_limit() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-10050", chunk=1_000_000))
    assert len(rig.lease().units) == 10_000


# ---------------------------------------------------------------- nodes


def test_a_drained_node_finishes_what_it_has_and_gets_no_more() -> None:
    rig = Rig()
    node = rig.join(cores=2)
    rig.submit(step(frames="1-9"))
    one, _ = rig.dispatch()
    answer = rig.node_act("node-drain", node, "new disk")
    assert answer.message == "ant finishes 2 attempts and takes no more"
    assert rig.commands(DrainCommand) == [DrainCommand(node, True, "new disk")]
    rig.done(one)
    assert rig.dispatch() == []
    rig.restart()
    rig.join(cores=2)
    assert rig.commands(DrainCommand) == [DrainCommand(node, True, "new disk")], "it is told again"
    assert rig.dispatch() == []
    rig.node_act("node-enable", node)
    assert len(rig.dispatch()) == 2


def test_forget_needs_a_node_that_is_gone_and_its_key_then_makes_a_new_one() -> None:
    rig = Rig()
    node = rig.join()
    with pytest.raises(IllegalMove, match="ant is online"):
        rig.node_act("node-forget", node)
    rig.wait(20)
    with pytest.raises(IllegalMove, match="ant is suspect"):
        rig.node_act("node-forget", node)
    rig.wait(41)
    rig.node_act("node-forget", node)
    with pytest.raises(UnknownName):
        rig.node_act("node-drain", node)
    rig.restart()
    assert rig.node(node).forgotten
    assert rig.join() == node + 1
    rig.restart()
    assert rig.core.farm.node_by_key["key-ant"].id == node + 1


def test_unknown_nodes_and_actions_are_refused() -> None:
    rig = Rig()
    node = rig.join()
    for action, number in (("node-drain", 99), ("node-paint", node)):
        with pytest.raises(UnknownName):
            rig.node_act(action, number)


def test_names_are_unique_among_live_nodes() -> None:
    rig = Rig()
    nodes = [rig.join("ant", key=f"k{number}") for number in range(3)]
    assert [rig.node(node).name for node in nodes] == ["ant", "ant-2", "ant-3"]
    assert rig.node(rig.join("ant", key="k1")).name == "ant-2", "who comes back keeps its name"
    rig.bye(nodes[0])
    assert rig.node(rig.join("ant", key="k9")).name == "ant", "a name of one that left is free"


def test_a_node_without_a_name_gets_one() -> None:
    rig = Rig()
    assert rig.node(rig.join("", key="a")).name == "node-1"
    assert rig.node(rig.join("node-1", key="b")).name == "node-1-2"


def test_a_node_that_comes_back_larger_is_used_in_full() -> None:
    rig = Rig()
    rig.join(cores=1)
    rig.submit(step(frames="1-9"))
    lease = rig.lease()
    rig.join(cores=3, running=[lease.attempt])
    assert len(rig.dispatch()) == 2


def test_a_million_frames_are_a_few_bytes_each_until_they_are_touched() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-1000000"))
    found = rig.step("J1/beauty")
    assert len(found.state) == 1_000_000
    assert (found.tries, found.notes, found.parked) == (None, {}, {})
    rig.fail(rig.lease(), "renderer")
    assert len(found.notes) == 1
