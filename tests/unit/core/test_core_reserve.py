"""Large requests get their turn: reservation with back-fill, and preemption where the policy allows it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from farm.core.events import PolicyEvent
from farm.core.outcome import LeaseCommand, StopCommand
from farm.model.failures import NODE_FAILURES_PER_STEP
from farm.model.policy import LimitRule, Policy, PreemptRule, SiteRule
from farm.model.resources import Resources
from tests.support.core_node_acts import set_
from tests.support.core_rig import Rig, step


def policy(rig: Rig, **fields: Any) -> None:
    """A wrangler sets the farm's policy."""
    rig.handle(PolicyEvent(rig.now_us, Policy(**fields), "", "wim"))


class Floor:
    """Runs a farm frame by frame: every attempt takes the seconds its step's name says (``small-10``)."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.running: list[tuple[int, int, LeaseCommand]] = []
        self.started: list[tuple[float, str]] = []

    def turn(self) -> None:
        """Places work, ends what is due next (with ticks on the way)."""
        rig = self.rig
        for lease in rig.dispatch():
            seconds = float(lease.step.spec.name.partition("-")[2])
            self.running.append((rig.now_us + int(seconds * 1e6), lease.attempt, lease))
            self.started.append((rig.now_us / 1e6, lease.step.spec.name))
        self.running.sort()
        end_us, _, lease = self.running[0]
        while rig.now_us + 1_000_000 < end_us:
            rig.wait(1.0, *rig.core.farm.nodes)
            if rig.core.farm.buckets:
                before = len(self.running)
                for more in rig.dispatch():
                    seconds = float(more.step.spec.name.partition("-")[2])
                    self.running.append((rig.now_us + int(seconds * 1e6), more.attempt, more))
                    self.started.append((rig.now_us / 1e6, more.step.spec.name))
                if len(self.running) > before:
                    self.running.sort()
                    end_us, _, lease = self.running[0]
        self.running.remove((end_us, lease.attempt, lease))
        rig.now_us = max(rig.now_us, end_us)
        rig.done(lease, elapsed_s=float(lease.step.spec.name.partition("-")[2]))


def crowded(large_cores: int = 4) -> tuple[Rig, Floor]:
    """A node of four cores full of small work, and a large request that never fits by itself."""
    rig = Rig()
    rig.join("a", 4)
    rig.submit(step("small-10", "1-200"))
    floor = Floor(rig)
    for _ in range(2):
        floor.turn()
    rig.now_us += 3_000_000  # ends of small frames never coincide from here on
    rig.submit(step("large-20", "1-2", resources=Resources(cores=large_cores)), priority=50)
    rig.act("priority", "J2", "51")
    return rig, floor


def test_without_a_reservation_a_large_request_would_starve() -> None:
    """The control: with reservations off it never starts though it comes first in order."""
    rig, floor = crowded()
    policy(rig, reservations=0)
    for _ in range(60):
        floor.turn()
    assert "large-20" not in [name for _, name in floor.started]


def test_a_large_request_starts_soon_after_its_reservation() -> None:
    rig, floor = crowded()
    asked_s = rig.now_us / 1e6
    while not any(name == "large-20" for _, name in floor.started):
        floor.turn()
        assert rig.now_us / 1e6 < asked_s + 120
    first_s = next(at for at, name in floor.started if name == "large-20")
    # 20 s until it is noticed, then at most two frames' time until the node is empty.
    assert first_s <= asked_s + 20 + 2 * 10 + 5


def test_all_its_frames_get_their_turn() -> None:
    rig, floor = crowded()
    for _ in range(60):
        floor.turn()
    assert sum(name == "large-20" for _, name in floor.started) == 2
    assert rig.core.farm.reservations == {}


def test_small_work_back_fills_only_if_it_ends_in_time() -> None:
    rig = Rig()
    rig.join("a", 4)
    rig.submit(step("long-100", "1-3"))
    rig.submit(step("short-10", "1-40"))
    floor = Floor(rig)
    # Everything was measured once, so that durations are known.
    for _ in range(6):
        floor.turn()
    rig.submit(step("large-20", "1", resources=Resources(cores=4)), priority=80)
    while not rig.core.farm.reservations and not any(name == "large-20" for _, name in floor.started):
        floor.turn()
    (kept,) = rig.core.farm.reservations.values()
    until_s = kept.at_us / 1e6
    made_s = rig.now_us / 1e6
    while not any(name == "large-20" for _, name in floor.started):
        floor.turn()
    late = [
        (at, name)
        for at, name in floor.started
        if at > made_s
        and name.startswith(("short", "long"))
        and at + float(name.partition("-")[2]) > until_s + 11
    ]
    begun = next(at for at, name in floor.started if name == "large-20")
    assert [one for one in late if one[0] < begun] == []


def test_work_of_higher_priority_overrides_a_reservation() -> None:
    rig, floor = crowded()
    while not rig.core.farm.reservations:
        floor.turn()
    rig.submit(step("urgent-5", "1"), priority=100)
    floor.turn()
    floor.turn()
    names = [name for _, name in floor.started]
    assert "urgent-5" in names
    assert "large-20" not in names[: names.index("urgent-5")]


def test_what_fits_beside_the_large_request_is_not_kept_out() -> None:
    rig, floor = crowded(large_cores=3)
    while not rig.core.farm.reservations:
        floor.turn()
    floor.turn()
    assert len(rig.node(1).attempts) >= 1


@pytest.mark.parametrize("end", ["cancel", "pause", "drain", "lost", "hours"])
def test_a_reservation_without_its_reason_is_dropped(end: str) -> None:
    rig, floor = crowded()
    while not rig.core.farm.reservations:
        floor.turn()
    if end == "drain":
        rig.node_act("node-drain", 1)
    elif end == "lost":
        rig.wait(70)
    elif end == "hours":
        set_(rig, 1, schedule="sat-sun")  # it is a Thursday
    else:
        rig.act(end, "J2")
    rig.wait(0.5)
    assert rig.core.farm.reservations == {}
    assert rig.node(1).reserved is None


def test_whole_nodes_are_reserved_too() -> None:
    rig = Rig()
    rig.join("a", 4)
    rig.submit(step("small-10", "1-200"))
    floor = Floor(rig)
    for _ in range(3):
        floor.turn()
    rig.submit(step("whole-15", "1", renderer="whole"), priority=51)
    for _ in range(40):
        floor.turn()
    assert "whole-15" in [name for _, name in floor.started]


# ---------------------------------------------------------------- nodes it may not go to


class Crowd:
    """Two nodes of four cores, lesser work that keeps both busy, and a large frame that failed on one."""

    def __init__(self, seed: int = 0, **fields: Any) -> None:
        self.rig = rig = Rig()
        if fields:
            policy(rig, **fields)
        self.nodes = (rig.join("ant", 4), rig.join("bee", 4))
        self.random = random.Random(seed)
        self.running: list[tuple[int, LeaseCommand]] = []
        rig.submit(step("large", "1", resources=Resources(cores=4)), priority=60)
        failed = rig.lease()
        self.failed_on = failed.node_id
        rig.submit(step("small", "1-3000"), priority=50)
        for place, lease in enumerate(rig.dispatch()):
            self.running.append((rig.now_us + (7 + 3 * place) * 1_000_000, lease))
        rig.fail(failed, "renderer")

    def second(self) -> list[LeaseCommand]:
        """Places work and lets a second pass; returns the leases of the large step."""
        rig = self.rig
        leases = rig.dispatch()
        for lease in leases:
            self.running.append((rig.now_us + int(self.random.uniform(8, 20) * 1e6), lease))
        rig.wait(1.0, *self.nodes)
        for end_us, lease in list(self.running):
            if end_us <= rig.now_us and lease.step.spec.name == "small":
                self.running.remove((end_us, lease))
                rig.done(lease, elapsed_s=12.0)
        return [lease for lease in leases if lease.step.spec.name == "large"]


@pytest.mark.parametrize("seed", range(4))
def test_no_node_is_kept_for_a_frame_that_failed_there(seed: int) -> None:
    """It would idle for ever: the frame goes to the other one, which gets its turn to run empty."""
    crowd = Crowd(seed)
    rig, begun_us = crowd.rig, crowd.rig.now_us
    idle_s = 0
    while not (found := crowd.second()):
        assert rig.now_us < begun_us + 60_000_000, "it starves"
        assert crowd.failed_on not in [kept.node_id for kept in rig.core.farm.reservations.values()]
        idle_s += not rig.node(crowd.failed_on).attempts
    assert found[0].node_id != crowd.failed_on
    assert idle_s <= 1


def test_no_work_is_stopped_on_a_node_that_the_frame_may_not_go_to() -> None:
    crowd = Crowd(preempt=PreemptRule(on=True, gap=5, at="now", after_s=5))
    rig, asked = crowd.rig, []
    for _ in range(10):
        crowd.second()
        asked += [stop.node_id for stop in stops(rig)]
    (other,) = [node for node in crowd.nodes if node != crowd.failed_on]
    assert asked
    assert set(asked) == {other}


def test_preemption_does_not_wait_until_a_node_that_is_no_use_to_it_is_busy_too() -> None:
    """The free node is where the frame failed; nothing overtakes it there, and it gets the other's room."""
    rig = Rig()
    policy(rig, preempt=PreemptRule(on=True, gap=5, at="now", after_s=5))
    nodes = rig.join("ant", 4), rig.join("bee", 4)
    rig.submit(step("large", "1", resources=Resources(cores=4)), priority=60)
    failed = rig.lease()
    rig.submit(step("low", "1", resources=Resources(cores=4)), priority=50)
    low = rig.lease()
    rig.fail(failed, "renderer")
    asked: list[StopCommand] = []
    for _ in range(8):
        assert rig.dispatch() == []
        rig.wait(1.0, *nodes)
        asked += stops(rig)
    assert [stop.node_id for stop in asked] == [low.node_id]
    rig.report(low)
    assert ("large", low.node_id) in [(lease.step.spec.name, lease.node_id) for lease in rig.dispatch()]


def test_a_node_is_no_longer_kept_once_there_is_another_for_a_frame_that_failed_there() -> None:
    rig = Rig()
    ant = rig.join("ant", 4)
    rig.submit(step("large", "1", resources=Resources(cores=4)), priority=60)
    failed = rig.lease()
    rig.submit(step("small", "1-3000"), priority=50)
    rig.fail(failed, "renderer")
    rig.act("pause", "J1")
    running = rig.dispatch()
    rig.act("resume", "J1")
    while not rig.core.farm.reservations:
        rig.wait(1.0, ant)
        rig.done(running.pop(0))
        running += rig.dispatch()
        assert rig.now_us < 1_060_000_000
    (kept,) = rig.core.farm.reservations.values()
    assert kept.node_id == ant, "the only node, so it may go there again"
    bee = rig.join("bee", 4)
    rig.wait(0.5, ant, bee)
    assert rig.node(ant).reserved is None
    assert [kept.node_id for kept in rig.core.farm.reservations.values()] == [bee]


@pytest.mark.parametrize("why", ["site", "failures", "limit"])
def test_a_step_that_the_free_nodes_are_closed_to_gets_its_turn_at_the_others(why: str) -> None:
    """One node always has room but is no use to it; lesser work keeps the other busy frame by frame."""
    rig = Rig()
    rules: dict[str, dict[str, Any]] = {
        "site": {"sites": {"cloud": SiteRule(projects=("film",))}},
        "limit": {"limits": {"nuke": LimitRule(total=1, per="node")}},
    }
    policy(rig, **rules.get(why, {}))
    ant, bee = rig.join("ant", 4, site="cloud", pool="spare"), rig.join("bee", 4, pool="main")
    licence = {"nuke": 1} if why == "limit" else {}
    rig.submit(step("holder", "1", pools=("main",), limits=licence), priority=90)
    rig.lease()
    rig.submit(step("small", "1-3000", pools=("main",)), priority=50, project="advert")
    running = [
        (rig.now_us + (5 + 3 * place) * 1_000_000, lease) for place, lease in enumerate(rig.dispatch())
    ]
    rig.submit(
        step("large", "1", resources=Resources(cores=3), limits=licence), priority=60, project="advert"
    )
    if why == "failures":
        rig.step("J3/large").node_failures[ant] = NODE_FAILURES_PER_STEP
    begun_us, large = rig.now_us, None
    while large is None:
        rig.wait(1.0, ant, bee)
        for pair in [pair for pair in running if pair[0] <= rig.now_us]:
            running.remove(pair)
            rig.done(pair[1], elapsed_s=9.0)
        for lease in rig.dispatch():
            if lease.step.spec.name == "large":
                large = lease
            running.append((rig.now_us + 9_000_000, lease))
        assert rig.node(ant).reserved is None
        assert rig.now_us < begun_us + 60_000_000, "it starves"
    assert large.node_id == bee


# ---------------------------------------------------------------- preemption


def full(at: str, **fields: Any) -> tuple[Rig, LeaseCommand]:
    """A node busy with a chunk of eight frames of a low priority, and an urgent job."""
    rig = Rig()
    policy(rig, preempt=PreemptRule(on=True, gap=20, at=at, after_s=5, **fields))  # type: ignore[arg-type]
    rig.join("a", 2)
    rig.submit(step("low", "1-8", chunk=8, resources=Resources(cores=2)), priority=20)
    lease = rig.lease()
    rig.submit(step("urgent", "1", resources=Resources(cores=2)), priority=90)
    return rig, lease


def stops(rig: Rig) -> list[StopCommand]:
    """Stops the last event brought."""
    return rig.commands(StopCommand)


def test_preemption_is_off_by_default() -> None:
    rig = Rig()
    rig.join("a", 2)
    rig.submit(step("low", "1-8", chunk=8, resources=Resources(cores=2)), priority=20)
    rig.lease()
    rig.submit(step("urgent", "1", resources=Resources(cores=2)), priority=90)
    for _ in range(50):
        rig.wait(1.0, 1)
        rig.dispatch()
        assert stops(rig) == []


def test_preemption_at_the_frame_boundary_finishes_the_running_frame() -> None:
    rig, lease = full("frame")
    asked: list[StopCommand] = []
    for _ in range(8):
        rig.wait(1.0, 1)
        asked += stops(rig)
        assert rig.dispatch() == []
    (stop,) = asked
    assert stop.take_back
    assert "preempted by J2/urgent" in stop.reason
    rig.done(lease, 0, closed=False)
    rig.release(lease, *range(1, 8), why="preempted")
    assert rig.lease().step.spec.name == "urgent"
    assert rig.states("J1/low") == "DQQQQQQQ"
    assert rig.step("J1/low").tries is None


def test_preemption_at_once_kills_and_counts_the_waste() -> None:
    rig, lease = full("now")
    asked: list[StopCommand] = []
    for _ in range(8):
        rig.wait(1.0, 1)
        asked += stops(rig)
    (stop,) = asked
    assert not stop.take_back
    assert rig.dispatch() == []  # until the agent says that it has stopped
    rig.report(lease)
    assert rig.lease().step.spec.name == "urgent"
    assert rig.step("J1/low").waste_nano > 0
    assert rig.step("J1/low").tries is None


def test_a_small_difference_of_priority_preempts_nobody() -> None:
    rig, _ = full("now")
    rig.act("priority", "J2", "39")
    for _ in range(30):
        rig.wait(1.0, 1)
        assert stops(rig) == []


def test_preemption_takes_the_node_that_loses_least() -> None:
    rig = Rig()
    policy(rig, preempt=PreemptRule(on=True, gap=20, at="now", after_s=5))
    rig.submit(step("low", "1-2", resources=Resources(cores=2)), priority=20)
    rig.join("old", 2)
    rig.lease()
    rig.wait(30.0, 1)
    rig.join("young", 2)
    rig.lease()
    rig.submit(step("urgent", "1", resources=Resources(cores=2)), priority=90)
    asked: list[StopCommand] = []
    for _ in range(8):
        rig.wait(1.0, 1, 2)
        asked += stops(rig)
    assert [rig.node(stop.node_id).name for stop in asked] == ["young"]
