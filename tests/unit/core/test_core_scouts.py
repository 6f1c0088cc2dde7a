"""Scout frames: a few go first, and the job waits for somebody's word.

What belongs here: which frames scout, when the verdict comes, and when it must not be waited for.
"""

from __future__ import annotations

from typing import Any

import pytest

from farm.core import scout
from farm.model.jobs import AfterSpec, OnFailure
from tests.support.core_edits import edit, finish
from tests.support.core_rig import Rig, step


def test_scout_frames_are_spread_and_nothing_else_is_leased() -> None:
    rig = Rig()
    for number in range(5):
        rig.join(f"n{number}")
    rig.submit(step(frames="1-9"), scout=3)
    leases = rig.dispatch()
    assert [lease.units for lease in leases] == [(0,), (4,), (8,)]
    assert rig.states() == "RQQQRQQQR"


def test_the_job_waits_with_an_estimate_until_it_is_approved() -> None:
    rig = Rig()
    nodes = [rig.join(f"n{number}") for number in range(3)]
    rig.submit(step(frames="1-10"), scout=2)
    one, two = rig.dispatch()
    rig.wait(4, *nodes)
    rig.done(one, elapsed_s=2.0)
    assert not rig.job().paused
    rig.done(two, elapsed_s=4.0)
    job = rig.job()
    assert (job.shown().value, job.paused_by, job.scouting) == ("paused", "scout", False)
    for words in ("2 scout frames are done", "8 frames are left", "3.0 s a frame", "`farm resume J1`", "USD"):
        assert words in job.reason
    assert not rig.dispatch()
    rig.restart()
    for number in range(3):
        rig.join(f"n{number}")
    assert not rig.dispatch()
    rig.act("resume", "J1")
    assert len(rig.dispatch()) == 3
    finish(rig)


def test_a_scout_frame_that_fails_does_not_hold_up_the_verdict() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-9", attempts=1), scout=2)
    rig.fail(rig.lease(), "renderer")
    rig.done(rig.lease())
    assert rig.job().paused_by == "scout"
    assert "1 scout frames are done, 1 failed" in rig.job().reason


def test_a_scout_frame_is_tried_again_before_the_verdict() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-9"), scout=1)
    rig.fail(rig.lease(), "renderer")
    assert not rig.job().paused
    rig.done(rig.lease())
    assert rig.job().paused_by == "scout"


def test_a_job_of_nothing_but_scouts_is_not_held() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-3"), step("film", None, after=("beauty",)), scout=5)
    for _ in range(4):
        rig.done(rig.lease())
    assert rig.job().shown().value == "done"


def test_every_step_is_scouted_and_one_that_waits_is_not_waited_for() -> None:
    rig = Rig()
    for number in range(4):
        rig.join(f"n{number}")
    rig.submit(step("a", "1-5"), step("b", "1-5"), step("c", "1-5", after=("a",)), scout=2)
    leases = rig.dispatch()
    assert [(lease.step.spec.name, lease.units) for lease in leases] == [
        ("a", (0,)),
        ("a", (4,)),
        ("b", (0,)),
        ("b", (4,)),
    ]
    for lease in leases[:3]:
        rig.done(lease)
    assert not rig.job().paused
    rig.done(leases[3])
    assert rig.job().paused_by == "scout"


def test_a_pause_during_scouting_lasts_and_the_verdict_comes_after_it() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-5"), scout=1)
    lease = rig.lease()
    rig.act("pause", "J1")
    rig.done(lease)
    assert (rig.job().paused_by, rig.job().scouting) == ("ann", True)
    reply = rig.act("resume", "J1")
    assert rig.job().paused_by == "scout"
    assert "scout frames are done" in reply.message
    rig.restart()


def test_scouts_are_chosen_anew_when_frames_are_set() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-100"), scout=2)
    edit(rig, "J1/beauty", frames="11-20")
    assert rig.step("J1/beauty").scouts == (10, 19)
    rig.restart()
    assert rig.step("J1/beauty").scouts == (10, 19)


def test_scout_frames_that_wait_for_ever_do_not_hold_the_job_unasked() -> None:
    """The scout frame waits for a frame canceled elsewhere, while others could go: somebody is asked."""
    rig = Rig()
    rig.join("a", 4)
    rig.submit(step("sim", "1-5"))
    rig.act("cancel", "J1/sim/3")
    after = (AfterSpec(step="sim", job="J1", frames=True),)
    rig.submit(step("beauty", "1-5", after=after), scout=1, priority=40)
    for lease in rig.dispatch():
        rig.done(lease)
    rig.wait(1.0, 1)
    job = rig.job(2)
    assert (job.paused, job.paused_by) == (True, "scout")
    assert "0 scout frames are done" in job.reason
    rig.act("resume", "J2")
    assert len(rig.dispatch()) == 4


def test_scout_frames_that_wait_for_frames_on_their_way_are_waited_for() -> None:
    rig = Rig()
    rig.join("a", 1)
    rig.submit(step("sim", "1-5"))
    after = (AfterSpec(step="sim", job="J1", frames=True),)
    rig.submit(step("beauty", "1-5", after=after), scout=1, priority=90)
    seen = []
    for _ in range(4):
        lease = rig.lease()
        seen.append(f"{lease.step.spec.name} {lease.step.frame_of(lease.units[0])}")
        rig.done(lease)
    scout = rig.step("J2/beauty").frame_of(rig.step("J2/beauty").scouts[0])
    assert seen == [f"sim {frame}" for frame in range(1, scout + 1)] + [f"beauty {scout}"]
    assert rig.job(2).paused_by == "scout"


def test_scout_frames_that_wait_for_ever_through_others_do_not_hold_the_job() -> None:
    rig = Rig()
    rig.join("a", 4)
    by_frame: dict[str, Any] = {"frames": True}
    rig.submit(step("sim", "1-5"), step("fx", "1-5", after=(AfterSpec(step="sim", **by_frame),)))
    rig.act("cancel", "J1/sim/3")
    rig.submit(step("beauty", "1-5", after=(AfterSpec(step="fx", job="J1", **by_frame),)), scout=1)
    for _ in range(3):
        for lease in rig.dispatch():
            rig.done(lease)
    rig.wait(1.0, 1)
    assert rig.job(2).paused_by == "scout"


# ---------------------------------------------------------------- what does not wait for ever


@pytest.mark.parametrize("by_frame", [True, False])
@pytest.mark.parametrize("choice", ["go", "skip", "cancel"])
def test_a_failure_that_holds_nothing_for_ever_does_not_end_scouting(
    choice: OnFailure, by_frame: bool
) -> None:
    """The scout frame waits, through another step, for one that failed in part, and that need goes on."""
    rig = Rig()
    node = rig.join()
    rig.submit(step("sim", "1-3", attempts=1), priority=90)
    rig.submit(
        step("fx", "1-3", after=(AfterSpec(job="J1", step="sim", frames=by_frame, on_failure=choice),)),
        priority=80,
    )
    rig.fail(rig.lease(), "renderer")
    after = (AfterSpec(job="J2", step="fx", frames=True),)
    rig.submit(step("beauty", "2-5", after=after), scout=1, priority=50)
    rig.wait(6, node)
    job = rig.job(3)
    told = rig.states("J3/beauty")
    if choice == "cancel" and not by_frame:
        # Frames 2 and 3 of fx were canceled with sim: the frames that need them do wait for ever.
        assert (told, job.paused_by) == ("BBQQ", "scout")
        return
    assert job.scouting
    assert not job.paused
    while not job.paused:
        lease = rig.lease()
        rig.done(lease)
        rig.wait(6, node)
        assert rig.now_us < 1_100_000_000
    assert job.reason.startswith("1 scout frames are done")


@pytest.mark.parametrize("choice", ["go", "skip", "cancel"])
def test_what_goes_on_after_a_failure_still_waits_for_ever_for_what_never_ends(choice: OnFailure) -> None:
    """The step whose failure would not matter waits itself, for a frame that was canceled: it never ends."""
    rig = Rig()
    node = rig.join("a", 4)
    rig.submit(step("plate", "1-5"), step("sim", "1-5", after=(AfterSpec(step="plate", frames=True),)))
    rig.act("cancel", "J1/plate/3")
    after = (AfterSpec(job="J1", step="sim", frames=True, on_failure=choice),)
    rig.submit(step("beauty", "1-5", after=after), scout=1, priority=40)
    for _ in range(2):
        for lease in rig.dispatch():
            rig.done(lease)
    rig.wait(6, node)
    assert rig.states("J2/beauty") == "QQBQQ"
    assert rig.job(2).paused_by == "scout"


# ---------------------------------------------------------------- what a look costs


def chained(rig: Rig, length: int, *jobs: dict[str, Any]) -> None:
    """A chain of odd frames, each made of the one before, and jobs whose frames wait for those of it.

    What they have of even frames is free.
    """
    own = AfterSpec(step="chain", frames=True, offset=-2)
    rig.submit(step("chain", f"1-{2 * length - 1}:2", after=(own,)), priority=90)
    for fields in jobs:
        frames, after = fields.pop("frames"), AfterSpec(job="J1", step="chain", frames=True)
        rig.submit(step("beauty", frames, after=(after,)), **fields)


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What looks come by, as (step, unit)."""
    seen: list[tuple[int, int]] = []
    real = scout._next_of

    def counted(one: Any, unit: int, key: tuple[int, int], waiting: Any) -> bool:
        seen.append((one.id, unit))
        return real(one, unit, key, waiting)

    monkeypatch.setattr(scout, "_next_of", counted)
    return seen


def test_a_look_comes_by_each_frame_of_a_chain_once_for_all_jobs(visits: list[tuple[int, int]]) -> None:
    rig = Rig()
    node = rig.join()
    chained(rig, 200, *({"frames": "1,2,3-399:2", "scout": 20} for _ in range(5)))
    rig.wait(6, node)
    assert len(visits) == len(set(visits))
    assert len(visits) == 199 + 5 * 20, "the chain but for its first frame, and the scout frames"
    assert [rig.job(number).scouting for number in range(2, 7)] == [True] * 5


def test_changes_of_a_chain_do_not_walk_it_for_each_job_that_waits(visits: list[tuple[int, int]]) -> None:
    rig = Rig()
    node = rig.join()
    chained(rig, 200, *({"frames": "1,2,3-399:2", "scout": 1} for _ in range(5)))
    rig.wait(6, node)
    assert visits
    visits.clear()
    for _ in range(10):
        rig.done(rig.lease())
    assert rig.states("J2/beauty").startswith("QQQQQQ"), "each of them moved with every frame"
    assert visits == []


def test_a_look_ends_at_its_budget_and_the_others_get_their_turn(
    visits: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs in front wait at the far end of a chain; the last one's scout frame waits for ever."""
    monkeypatch.setattr(scout, "LOOK_MOST", 100)
    rig = Rig()
    node = rig.join()
    far = {"scout": 5, "frames": "301,302,303-599:2"}
    chained(rig, 300, *(dict(far) for _ in range(4)))
    rig.submit(step("sim", "1-5"))
    rig.act("cancel", "J6/sim/3")
    after = (AfterSpec(step="sim", job="J6", frames=True),)
    rig.submit(step("beauty", "1-6", after=after), scout=1, priority=90)
    last = rig.job(7)
    looks = 0
    while not last.paused:
        visits.clear()
        rig.wait(6, node)
        looks += 1
        assert len(visits) <= 100
        assert looks <= 5, "a look for each job before it at most"
    assert last.paused_by == "scout"
    assert looks > 1
    assert [rig.job(number).scouting for number in range(2, 6)] == [True] * 4
