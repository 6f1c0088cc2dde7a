"""What people change while a farm works: jobs and steps, the policy, and jobs that start by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.model.errors import CallError, Denied, JobFileError, UnknownName
from farm.model.moment import moment_text
from farm.protocol.codec import decode_template
from tests.support.farmhouse import Farmhouse
from tests.support.hand_agent import HandAgent
from tests.support.truth import job_file
from tests.support.waiting import eventually


def _step(pattern: str, frames: str = "1-4", **fields: Any) -> dict[str, Any]:
    return {
        "name": "render",
        "renderer": "command",
        "frames": frames,
        "chunk": 1,
        "params": {"command": ["/bin/true", "{frame}"]},
    } | fields


@pytest.fixture
def hand(new_house: Callable[..., Farmhouse]) -> tuple[Farmhouse, HandAgent]:
    """A farm with one agent of two cores, driven by hand."""
    house = new_house()
    return house, HandAgent(house.access(house.key("agent", ""), house.endpoint), "hand", cores=2)


def _frames(agent: HandAgent) -> list[int]:
    return [frame for lease in agent.leases.values() for frame in lease.frames or ()]


def test_edits_reach_leases_lists_and_a_restarted_broker(
    hand: tuple[Farmhouse, HandAgent], tmp_path: Path
) -> None:
    house, agent = hand
    with agent:
        number = house.admin.submit(job_file(_step(str(tmp_path)))).job
        one, two = agent.wait_lease(2)
        step = f"J{number}/render"
        follow = house.client("artist", "root-watcher").subscribe(f"job:{number}", idle_s=0.05)
        mirror = next(follow)
        assert len(mirror.maps[step]) == 4
        before = decode_template(one.template)
        assert (before.job_name, before.timeout_s, before.frames) == ("test", 0.0, "1-4")

        reply = house.admin.set(f"J{number}", {"name": "longer", "priority": "60"})
        assert "name is longer (was test)" in reply.message
        house.admin.set(step, {"frames": "1-2,4,7-9", "timeout_s": 30, "resources.ram_mib": 16})
        eventually(lambda: len(next(follow).maps[step]) == 7, "followers have the map with the new frames")

        agent.report(one)
        agent.report(two)
        agent.wait_lease(4)
        later = [decode_template(lease.template) for lease in list(agent.leases.values())[2:]]
        assert {(t.job_name, t.timeout_s, t.frames) for t in later} == {("longer", 30.0, "1-4,7-9")}
        states = {row.frame: row.state for row in house.admin.frames(step).steps["render"]}
        assert states[3] == "canceled"
        assert set(states) == {1, 2, 3, 4, 7, 8, 9}
        reason = next(row.reason for row in house.admin.frames(step).steps["render"] if row.frame == 3)
        assert "1-2,4,7-9" in reason

        with pytest.raises(UnknownName, match="'speed' cannot be set") as caught:
            house.admin.set(step, {"chunk": "2", "speed": "9"})
        assert "resources.ram_mib" in caught.value.hint
        with pytest.raises(CallError, match="time zone"):
            house.admin.set(f"J{number}", {"start_after": "2030-01-31T18:00:00"})

    house.restart_broker()
    row = house.job(number)
    assert (row.name, row.priority) == ("longer", 60)
    assert row.steps[0].frames == "1-4,7-9"
    spec = house.admin.job(number, spec=True).spec
    assert b'"frames":"1-2,4,7-9"' in spec
    assert b'"timeout_s":30.0' in spec


def test_who_may_set_what(new_house: Callable[..., Farmhouse], tmp_path: Path) -> None:
    house = new_house()
    ada, bob, wim = (
        house.client("artist", "ada"),
        house.client("artist", "bob"),
        house.client("wrangler", "wim"),
    )
    number = ada.submit(job_file(_step(str(tmp_path)), user="ada")).job
    with pytest.raises(Denied, match="it belongs to ada"):
        bob.set(f"J{number}", {"name": "mine"})
    with pytest.raises(Denied, match="above 75"):
        ada.set(f"J{number}", {"priority": "90"})
    ada.set(f"J{number}", {"priority": "75"})
    wim.set(f"J{number}", {"priority": 90})
    with pytest.raises(Denied, match="wrangler"):
        ada.set_policy({"projects.film": "9"})
    assert ada.policy().values["half_life_h"] == "24"
    assert house.job(number).priority == 90


def test_the_policy_limits_leases_and_survives_a_restart(
    hand: tuple[Farmhouse, HandAgent], tmp_path: Path
) -> None:
    house, agent = hand
    wim = house.client("wrangler", "wim")
    with agent:
        with pytest.raises(JobFileError, match="no limit 'nuke'"):
            house.admin.submit(job_file(_step(str(tmp_path), limits={"nuke": 1})))
        wim.set_policy({"limits.nuke.total": "1", "projects.film": "3"}, reason="one licence is left")
        number = house.admin.submit(job_file(_step(str(tmp_path), limits={"nuke": 1}))).job
        (lease,) = agent.wait_lease()
        (limit,) = wim.policy().limits
        assert (limit.name, limit.used, limit.total) == ("nuke", 1, 1)
        assert limit.waiting == (f"J{number}/render",)
        agent.report(lease)
        agent.wait_lease(2)
        assert len(agent.leases) == 2, "never two at once"
        wim.set_policy({"limits.nuke.total": "5"})
        agent.wait_lease(3)
        with pytest.raises(UnknownName, match=r"no .limit\.nuke"):
            wim.set_policy({"limit.nuke": "5"})
    house.restart_broker()
    values = house.admin.policy().values
    assert (values["limits.nuke.total"], values["projects.film"]) == ("5", "3")
    told = house.farm("policy", "history").stdout
    assert "one licence is left" in told
    assert "limits.nuke.total" in told
    assert "limits" in house.farm("limits", "--json").stdout


def test_a_job_starts_when_its_time_has_come(hand: tuple[Farmhouse, HandAgent], tmp_path: Path) -> None:
    house, agent = hand
    with agent:
        at_s = int(time.time()) + 8  # so long that it is told of before it begins, on any machine
        when = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at_s))
        number = house.admin.submit(job_file(_step(str(tmp_path)), start_after=when)).job
        row = house.job(number)
        assert (row.state, row.reason) == ("paused", f"starts {moment_text(at_s * 1_000_000)}")
        assert not agent.leases
        agent.wait_lease(2)
        assert time.time() >= at_s
        moved = [row for row in house.admin.history(number).rows if row.what == "paused"]
        assert [(row.old, row.new, row.who) for row in moved] == [("paused", "", "clock")]


def test_scout_frames_come_first_and_the_rest_waits_for_a_word(
    hand: tuple[Farmhouse, HandAgent], tmp_path: Path
) -> None:
    house, agent = hand
    with agent:
        number = house.admin.submit(job_file(_step(str(tmp_path), "1-11"), scout=2)).job
        one, two = agent.wait_lease(2)
        assert sorted(_frames(agent)) == [1, 11]
        agent.report(one)
        agent.report(two)
        row = house.wait_job(number, "paused")
        assert "9 frames are left" in row.reason
        assert f"`farm resume J{number}`" in row.reason
        house.admin.act("resume", f"J{number}")
        agent.wait_lease(4)


def test_what_no_node_can_take_is_refused_at_submit(
    hand: tuple[Farmhouse, HandAgent], tmp_path: Path
) -> None:
    house, agent = hand
    job = job_file(_step(str(tmp_path), resources={"cores": 3}))
    early = house.admin.submit(job)
    assert "no node yet" in early.warnings[0]
    with agent:
        with pytest.raises(JobFileError, match=r"asks for 3 cores, the largest node \(hand\) has 2"):
            house.admin.submit(job)
        forced = house.admin.submit(job, force=True)
        assert "asks for 3 cores" in forced.warnings[0]
        assert house.job(forced.job).state == "queued"


def test_an_estimate_comes_from_work_like_it_and_submits_nothing(
    hand: tuple[Farmhouse, HandAgent], tmp_path: Path
) -> None:
    house, agent = hand
    job = job_file(_step(str(tmp_path), "1-4"), user="root")
    with agent:
        agent.beat()
        eventually(lambda: [row.name for row in house.nodes()] == ["hand"], "the node is known")
        nothing = house.admin.estimate(job)
        assert (nothing.frames, nothing.unknown, nothing.low_s) == (4, ("render",), None)
        assert not house.admin.jobs().jobs
        number = house.admin.submit(job).job
        told: set[int] = set()
        while len(told) < 4:
            lease = next(one for one in agent.wait_lease(len(told) + 1) if one.attempt not in told)
            agent.report(lease)
            told.add(lease.attempt)
        house.wait_job(number)
        known = house.admin.estimate(job_file(_step(str(tmp_path), "1-400"), user="root"))
        assert known.frames == 400
        assert known.unknown == ()
        assert known.low_s is not None
        assert known.high_s is not None
        assert known.low_s <= known.high_s
        assert known.cost_low_nano is not None
        assert len(house.admin.jobs().jobs) == 1
