"""What is learnt of frame times, start-ups and nodes' speeds, and what is expected from it."""

from __future__ import annotations

import random

import pytest

from farm.core import pace
from tests.support.core_rig import Rig, step


def finish(rig: Rig, lease: object, elapsed_s: float, start_s: float = 0.0) -> None:
    """A lease's units are done one after another, each in ``elapsed_s``, behind a start-up."""
    units = lease.units  # type: ignore[attr-defined]
    rig.now_us += int((start_s + elapsed_s * len(units)) * 1e6)
    rig.done(lease, elapsed_s=elapsed_s)  # type: ignore[arg-type]


def render(rig: Rig, times: dict[int, float], rounds: int) -> None:
    """Each node (by id) renders ``rounds`` leases, a frame in the seconds it takes."""
    for _ in range(rounds):
        leases = sorted(rig.dispatch(), key=lambda lease: times[lease.node_id])
        begun_us = rig.now_us
        for lease in leases:
            rig.now_us = begun_us + int(times[lease.node_id] * 1e6)
            rig.done(lease, elapsed_s=times[lease.node_id])


def test_nothing_is_known_before_the_first_frame_is_done_and_the_guess_says_so() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step())
    beauty = rig.step("J1/beauty")
    assert not pace.known(beauty)
    assert pace.frame_us(beauty, 0, rig.node(1)) == pace.GUESS_FRAME_US
    finish(rig, rig.lease(), 12.0)
    assert pace.known(beauty)
    assert pace.frame_us(beauty, 3, rig.node(1)) == pytest.approx(12e6)


def test_frames_that_cost_more_towards_the_end_are_expected_to() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-160"))
    beauty = rig.step("J1/beauty")
    for _ in range(160):
        lease = rig.lease()
        if lease.units[0] % 20 < 10:  # every other stretch of the shot stays unknown
            finish(rig, lease, 10.0 + lease.units[0])
        else:
            rig.fail(lease, "config")
        if rig.job().paused:
            rig.act("resume", "J1")
    for unit in range(0, 160, 7):
        assert pace.frame_us(beauty, unit) == pytest.approx((10 + unit) * 1e6, rel=0.25, abs=9e6), unit


def test_one_stuck_frame_hardly_changes_what_is_expected() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-30"))
    for number in range(30):
        finish(rig, rig.lease(), 3600.0 if number == 10 else 10.0)
    assert rig.step("J1/beauty").pace.mean_us() < 13e6


def test_start_up_is_what_a_chunk_took_beyond_its_frames() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-12", chunk=3))
    beauty = rig.step("J1/beauty")
    for _ in range(4):
        finish(rig, rig.lease(), 5.0, start_s=20.0)
    assert pace.start_us(beauty) == pytest.approx(20e6)
    assert pace.chunk_us(rig.core.farm, beauty, 3, rig.node(1)) == pytest.approx(35e6, rel=0.01)


def test_a_chunk_that_failed_says_nothing_of_start_up() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-4", chunk=2))
    lease = rig.lease()
    rig.now_us += 90_000_000
    rig.done(lease, 0, closed=False)
    rig.fail(lease, "renderer", 1)
    assert rig.step("J1/beauty").pace.starts == 0


def test_a_node_twice_as_fast_as_others_is_found_out_and_expected_to_be_on_other_steps() -> None:
    rig = Rig()
    times = {rig.join(name): seconds for name, seconds in (("ant", 20.0), ("bee", 20.0), ("cat", 10.0))}
    rig.submit(step(frames="1-60"))
    render(rig, times, 20)
    slow, fast = rig.node(1), rig.node(3)
    assert fast.speed / slow.speed == pytest.approx(2.0, rel=0.15)
    assert abs(slow.speed - 1.0) < 0.35, "speeds are relative to what others take, not to a clock"
    rig.submit(step(frames="1-10"))
    finish(rig, next(x for x in rig.dispatch() if x.node_id == 1), 40.0)
    other = rig.step("J2/beauty")
    assert pace.frame_us(other, 5, fast) == pytest.approx(20e6, rel=0.2)


def test_a_node_that_works_alone_is_compared_with_nobody() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-20"))
    for number in range(20):
        finish(rig, rig.lease(), 5.0 + number)
    assert rig.node(1).speed == 1.0
    assert rig.node(1).slow == (0.0, 0.0)


def test_frames_of_an_instant_say_nothing_of_speed() -> None:
    rig = Rig()
    times = {rig.join("ant"): 0.001, rig.join("bee"): 0.1}
    rig.submit(step(frames="1-40"))
    render(rig, times, 20)
    assert rig.node(1).speed == rig.node(2).speed == 1.0
    assert rig.step("J1/beauty").pace.frames == 40


def test_what_is_left_of_an_attempt_shrinks_with_its_frames_and_grows_when_one_is_late() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-20", chunk=5))
    for _ in range(3):
        finish(rig, rig.lease(), 10.0)
    lease = rig.lease()
    attempt = rig.core.farm.attempts[lease.attempt]
    assert pace.left_us(attempt, rig.now_us) == pytest.approx(50e6, rel=0.05)
    rig.now_us += 10_000_000
    rig.done(lease, lease.units[0], elapsed_s=10.0, closed=False)
    assert pace.left_us(attempt, rig.now_us) == pytest.approx(40e6, rel=0.05)
    late = [pace.left_us(attempt, rig.now_us + seconds * 1_000_000) for seconds in (5, 30, 60, 120)]
    assert late[0] < 40e6 < late[2] < late[3]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_all_that_was_learnt_survives_a_restart_to_the_last_bit(checkpoint: bool) -> None:
    rig, rng = Rig(), random.Random(3)
    nodes = [rig.join(name) for name in ("ant", "bee", "cat")]
    rig.submit(step(frames="1-60", chunk=2))
    for number in range(10):
        render(rig, {node: rng.uniform(3.0, 30.0) for node in nodes}, 1)
        if checkpoint and number == 5:
            rig.checkpoint()
    before = [pace.frame_us(rig.step("J1/beauty"), unit, rig.node(2)) for unit in range(60)]
    rig.restart()  # compares the digest, in which paces and speeds are
    assert [pace.frame_us(rig.step("J1/beauty"), unit, rig.node(2)) for unit in range(60)] == before
