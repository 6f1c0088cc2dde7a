"""The order of work: every preset is a permutation, and what comes back to the queue is found again."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.sequence import first_queued, preset, queued_in_order, scout_units
from farm.core.state import Job, Step
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec, StepSpec
from farm.model.orders import read_order
from farm.model.states import UnitState
from tests.support.core_needs import work_order
from tests.support.core_rig import Rig, step

QUEUED, DONE = UnitState.QUEUED.value, UnitState.DONE.value
ORDERS = ("forward", "reverse", "first-last-middle", "coarse", "coarse:2", "coarse:3", "coarse:64", "listed")
RANGES = st.one_of(
    st.builds("{}-{}".format, st.integers(-20, 40), st.integers(-20, 40)),
    st.builds("{}-{}x{}".format, st.integers(0, 40), st.integers(0, 90), st.integers(1, 9)),
    st.lists(st.integers(-30, 60), min_size=1, max_size=25).map(lambda frames: ",".join(map(str, frames))),
)


def made(frames: str, order: str = "forward", scout: int = 0) -> Step:
    spec = JobSpec(
        overcrank_job=1,
        name="job",
        steps=(StepSpec(name="beauty", renderer="command", frames=frames, order=order),),
    )
    one = Step(1, Job(1, spec, b"", 0), 0, "", False, UnitState.QUEUED)
    one.scouts = scout_units(one, scout) if scout else ()
    return one


def numbers(one: Step) -> list[int]:
    assert one.frames is not None
    return [one.frames.frame_at(unit) for unit in queued_in_order(one)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("forward", [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("reverse", [9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ("first-last-middle", [1, 9, 5, 2, 3, 4, 6, 7, 8]),
        ("coarse:4", [1, 5, 9, 3, 7, 2, 4, 6, 8]),
        ("coarse:2", [1, 3, 5, 7, 9, 2, 4, 6, 8]),
    ],
)
@pytest.mark.parametrize("frames", ["1-9", "9-1", "5-9,1-4"])
def test_what_each_order_means_however_the_frames_are_written(
    order: str, expected: list[int], frames: str
) -> None:
    assert numbers(made(frames, order)) == expected


def test_listed_is_as_written_and_coarse_is_every_tenth_by_default() -> None:
    assert numbers(made("5,9,1-3", "listed")) == [5, 9, 1, 2, 3]
    assert numbers(made("1-35", "coarse"))[:7] == [1, 11, 21, 31, 6, 16, 26]


@given(frames=RANGES, order=st.sampled_from(ORDERS))
def test_every_preset_has_every_unit_once_in_the_order_the_rules_give(frames: str, order: str) -> None:
    one = made(frames, order)
    assert one.frames is not None
    found = list(queued_in_order(one))
    assert sorted(found) == list(range(one.units))
    assert found == work_order(one)
    assert sorted(preset(one.frames, *read_order(order))) == list(range(one.units))


@given(
    frames=RANGES,
    order=st.sampled_from(ORDERS),
    scout=st.integers(0, 5),
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 400)), max_size=40),
)
@settings(max_examples=60)
def test_what_is_queued_again_comes_back_at_its_place(
    frames: str, order: str, scout: int, moves: list[tuple[bool, int]]
) -> None:
    one = made(frames, order, scout)
    whole = list(queued_in_order(one))
    for back, number in moves:
        unit = first_queued(one) if not back else whole[number % len(whole)]
        if unit >= 0:
            one.set_state(unit, QUEUED if back else DONE)
        if number == 400:
            one.set_all(DONE, QUEUED)
        waiting = [unit for unit in whole if one.state[unit] == QUEUED]
        assert list(queued_in_order(one)) == waiting
        assert first_queued(one) == (waiting[0] if waiting else -1)


@given(frames=RANGES, count=st.integers(0, 60))
def test_scouts_are_spread_with_both_ends_and_the_middle(frames: str, count: int) -> None:
    one = made(frames)
    assert one.frames is not None
    scouts = scout_units(one, count)
    chosen = [one.frames.frame_at(unit) for unit in scouts]
    every = sorted(one.frames)
    assert len(set(chosen)) == len(chosen) == min(count, len(every))
    assert chosen == sorted(chosen)
    if count >= 2:
        assert {every[0], every[-1]} <= set(chosen)
    if count >= 3:
        assert every[(len(every) - 1) // 2] in chosen


def test_scouts_come_first_then_the_preset() -> None:
    assert numbers(made("1-9", "reverse", scout=3)) == [1, 5, 9, 8, 7, 6, 4, 3, 2]
    assert numbers(made("1-9", scout=3)) == [1, 5, 9, 2, 3, 4, 6, 7, 8]


def test_units_are_leased_in_the_order_of_their_step() -> None:
    rig = Rig()
    rig.join(cores=2)
    rig.submit(step(frames="1-5", order="first-last-middle"))
    leased = []
    while leases := rig.dispatch():
        for lease in leases:
            leased.append(lease.units[0] + 1)
            rig.done(lease)
    assert leased == [1, 5, 3, 2, 4]


def test_a_chunk_keeps_the_order() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-6", order="reverse", chunk=3))
    assert rig.lease().units == (5, 4, 3)


def test_an_order_changed_later_holds_for_what_is_left_and_over_a_restart() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-5"))
    lease = rig.lease()
    rig.act("set", "J1/beauty", '{"order": "reverse"}')
    rig.checkpoint()
    rig.restart()
    rig.join(running=[lease.attempt])
    rig.fail(lease, "renderer")
    assert first_queued(rig.step("J1/beauty")) == 4
    assert list(queued_in_order(rig.step("J1/beauty"))) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("order", ["forward", "coarse"])
def test_a_hundred_thousand_blocked_units_cost_a_search_nothing_much(order: str) -> None:
    """Found by a scan of bytes: a thousand searches over 200 000 units that wait take a moment."""
    one = made("1-200000", order)
    one.set_all(QUEUED, UnitState.BLOCKED.value)
    last = work_order_end(one)
    started = time.process_time()
    for _ in range(1000):
        one.set_state(last, QUEUED)
        assert first_queued(one) == last
        one.set_state(last, UnitState.BLOCKED.value)
        one.cursor = 0
    assert time.process_time() - started < 5.0


def work_order_end(one: Step) -> int:
    """The last unit in the step's order."""
    assert one.frames is not None
    return preset(FrameRange.parse(one.spec.frames or ""), *read_order(one.spec.order))[-1]
