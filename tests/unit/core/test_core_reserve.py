"""Large requests get their turn: reservation with back-fill, and preemption where the policy allows it."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.events import PolicyEvent
from farm.core.outcome import LeaseCommand, StopCommand
from farm.model.policy import Policy, PreemptRule
from farm.model.resources import Resources
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


@pytest.mark.parametrize("end", ["cancel", "pause", "drain", "lost"])
def test_a_reservation_without_its_reason_is_dropped(end: str) -> None:
    rig, floor = crowded()
    while not rig.core.farm.reservations:
        floor.turn()
    if end == "drain":
        rig.node_act("node-drain", 1)
    elif end == "lost":
        rig.wait(70)
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
