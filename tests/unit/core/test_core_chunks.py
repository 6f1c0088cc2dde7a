"""How many frames a lease takes: as asked, scouts, the target time, and less where more would be waste."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from farm.core import chunks
from farm.core.chunks import CHUNK_MOST, SCOUTS, SKIPPED_MOST, form_chunk, hunger, picky
from farm.core.outcome import LeaseCommand
from farm.core.state import Step
from tests.support.core_rig import Rig, step


def adaptive(frames: str, **fields: Any) -> Any:
    """A step with adaptive chunks."""
    return step(frames=frames, chunk="auto", **fields)


def finish(rig: Rig, lease: LeaseCommand, frame_s: float, start_s: float = 0.0) -> None:
    """A lease is done, in the time that takes."""
    rig.now_us += int((start_s + frame_s * len(lease.units)) * 1e6)
    rig.done(lease, elapsed_s=frame_s)


def taught(rig: Rig, frame_s: float, start_s: float = 0.0, frames: str = "1-20000", chunks: int = 6) -> None:
    """A step of which so many chunks were done; its next chunk is the one to look at."""
    rig.submit(adaptive(frames))
    for _ in range(chunks):
        finish(rig, rig.dispatch()[0], frame_s, start_s)


def test_a_chunk_asked_for_is_as_asked_and_no_larger_than_a_lease_may_be() -> None:
    rig = Rig()
    rig.join(cores=3)
    rig.submit(step(frames="1-25000", chunk=7), step(name="huge", frames="1-25000", chunk=20_000))
    farm, node = rig.core.farm, rig.node(1)
    assert len(form_chunk(farm, rig.step("J1/beauty"), node)) == 7
    assert len(form_chunk(farm, rig.step("J1/huge"), node)) == CHUNK_MOST


def test_one_frame_a_lease_until_the_first_is_done() -> None:
    rig = Rig()
    for name in ("ant", "bee", "cat", "dog"):
        rig.join(name)
    rig.submit(adaptive("1-1000"))
    leases = rig.dispatch()
    assert [lease.units for lease in leases] == [(0,), (1,), (2,), (3,)]
    finish(rig, leases[0], 10.0)
    assert len(rig.lease().units) > 1


@pytest.mark.parametrize(
    ("frame_s", "start_s", "low", "high"),
    [
        (1.0, 0.0, 110, 125),  # the target of 120 s
        (10.0, 5.0, 10, 13),
        (200.0, 0.0, 1, 1),  # a frame cannot be split
        (1.0, 30.0, 280, 310),  # start-up is a tenth at most, so it takes longer than the target
        (0.05, 0.0, 2300, 2500),
    ],
)
def test_then_enough_frames_for_the_target_time(frame_s: float, start_s: float, low: int, high: int) -> None:
    rig = Rig()
    rig.join()
    taught(rig, frame_s, start_s)
    assert low <= len(rig.lease().units) <= high


def test_start_up_that_is_endless_does_not_make_chunks_endless() -> None:
    rig = Rig()
    rig.join()
    taught(rig, 1.0, 3600.0)
    assert len(rig.lease().units) <= 5 * 120 + 1


def test_a_faster_node_gets_more_frames() -> None:
    rig = Rig()
    times = {rig.join("ant"): 8.0, rig.join("bee"): 2.0}
    rig.submit(adaptive("1-20000"))
    for _ in range(12):
        leases = sorted(rig.dispatch(), key=lambda lease: times[lease.node_id] * len(lease.units))
        begun_us = rig.now_us
        for lease in leases:
            rig.now_us = begun_us
            finish(rig, lease, times[lease.node_id])
    sizes = {lease.node_id: len(lease.units) for lease in rig.dispatch()}
    assert sizes[2] / sizes[1] == pytest.approx(4.0, rel=0.2)


def test_frames_that_grow_dearer_come_in_smaller_chunks() -> None:
    rig = Rig()
    rig.join()
    rig.submit(adaptive("1-1600"))
    sizes = {}
    while rig.job().open_units:
        lease = rig.lease()
        first = lease.units[0]
        sizes[first // 100] = len(lease.units)
        frame_s = 2.0 if first < 800 else 30.0
        finish(rig, lease, frame_s)
    assert sizes[5] > 40
    assert sizes[12] <= 6


def test_a_frame_that_failed_goes_alone_and_holds_up_no_others() -> None:
    rig = Rig()
    rig.join()
    taught(rig, 10.0)
    lease = rig.lease()
    rig.now_us += 20_000_000
    rig.done(lease, lease.units[0], elapsed_s=10.0, closed=False)
    rig.fail(lease, "renderer", lease.units[1], closed=False)
    rig.release(lease, *lease.units[2:])
    again = rig.lease()
    assert again.units == (lease.units[1],)
    finish(rig, again, 10.0)
    assert rig.lease().units[:3] == lease.units[2:5], "frames given back unrendered go together as before"


def test_chunks_are_smaller_on_machines_that_may_be_taken_away() -> None:
    sizes = {}
    for name, attributes in (("solid", {}), ("spot", {"preemptible": "yes"})):
        rig = Rig()
        rig.join(attributes=attributes)
        taught(rig, 2.0)
        sizes[name] = len(rig.lease().units)
    assert sizes["spot"] * 3 <= sizes["solid"]


def test_near_the_end_what_is_left_is_shared_by_all_nodes_that_can_take_it() -> None:
    rig = Rig()
    for number in range(9):
        rig.join(f"node{number}")
    rig.join("other", renderers=("blender",))
    rig.submit(adaptive("1-91"))
    scouts = rig.dispatch()
    rig.now_us += 1_000_000
    for lease in scouts:
        rig.done(lease)
    sizes = [len(lease.units) for lease in rig.dispatch()]
    assert len(sizes) == 9, "a node that cannot take it does not count, one that can gets some"
    assert max(sizes) <= 6 < 91 // 9 + 1


def test_work_of_others_keeps_chunks_long_but_only_of_the_same_priority_or_above() -> None:
    sizes = {}
    for priority in (10, 50, 90):
        rig = Rig()
        nodes = [rig.join(f"node{number}") for number in range(10)]
        rig.submit(step(name="other", frames="1-20000", chunk=1, pools=("none",)), priority=priority)
        rig.submit(step(name="much", frames="1-20000"), priority=priority, paused=True)
        rig.submit(adaptive("1-60"))
        first = rig.dispatch()
        rig.now_us += 4_000_000
        rig.done(next(lease for lease in first if lease.step.job.id == 3), elapsed_s=4.0)
        rig.act("resume", "J2")
        farm = rig.core.farm
        sizes[priority] = len(form_chunk(farm, rig.step("J3/beauty"), rig.node(nodes[0])))
    assert sizes[10] <= 3, "an urgent job is spread over the farm whatever waits behind it"
    assert sizes[50] == sizes[90] >= 25


def test_enough_scouts_let_other_jobs_of_the_same_priority_go_first() -> None:
    rig = Rig()
    for number in range(3 * SCOUTS):
        rig.join(f"node{number}")
    rig.submit(adaptive("1-100"))
    rig.submit(adaptive("1-100"))
    rig.submit(adaptive("1-100"), priority=40)
    jobs = [lease.step.job.id for lease in rig.dispatch()]
    assert jobs[: 2 * SCOUTS] == [1] * SCOUTS + [2] * SCOUTS
    assert 3 not in jobs, "no node idles, and none goes to a lower priority while a higher one waits"
    assert len(jobs) == 3 * SCOUTS


# ---------------------------------------------------------------- what all that waits needs


def test_what_all_that_waits_needs_is_found_by_a_look_at_some_hundreds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when very many wait for their back-off: each set-aside of the step pays for this look."""
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-20000"))
    one = rig.step("J1/beauty")
    one.parked.update(dict.fromkeys(range(19_000), rig.now_us + 10**9))
    for unit in range(19_000, 20_000):
        one.note(unit).ram_mib = 4_000
    looked = 0
    every = chunks.queued_in_order

    def counted(of: Step) -> Iterator[int]:
        nonlocal looked
        for unit in every(of):
            looked += 1
            yield unit

    monkeypatch.setattr(chunks, "queued_in_order", counted)
    for look in (hunger, picky):
        looked = 0
        look(rig.core.farm, one)
        assert looked <= SKIPPED_MOST + 2
    one.parked.clear()
    assert hunger(rig.core.farm, one) is None, "the first ones take any node"


def test_only_when_each_unit_that_may_go_keeps_off_a_node_does_the_first_say_where_to() -> None:
    rig = Rig()
    node = rig.join(ram_mib=16_000)
    rig.submit(step(frames="1-3"))
    farm, one = rig.core.farm, rig.step("J1/beauty")
    assert picky(farm, one) is None
    one.note(1).failed_on.add(node)
    one.note(2).ram_mib = 4_000
    assert picky(farm, one) is None, "the first frame goes anywhere"
    one.parked[0] = rig.now_us + 10**9
    found = picky(farm, one)
    assert found is not None
    assert (found.unit, found.ram_mib) == (1, 0)
    assert hunger(farm, one) is None, "the other one needs no more memory"
    one.parked[1] = rig.now_us + 10**9
    found = picky(farm, one)
    assert found is not None
    assert found == hunger(farm, one)
    assert (found.unit, found.ram_mib) == (2, 4_000)
