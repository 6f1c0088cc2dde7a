"""Scout frames: a few go first, and the job waits for somebody's word.

What belongs here: which frames scout, when the verdict comes, and when it must not be waited for.
"""

from __future__ import annotations

from farm.model.jobs import AfterSpec
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
    by_frame = {"frames": True}
    rig.submit(step("sim", "1-5"), step("fx", "1-5", after=(AfterSpec(step="sim", **by_frame),)))
    rig.act("cancel", "J1/sim/3")
    rig.submit(step("beauty", "1-5", after=(AfterSpec(step="fx", job="J1", **by_frame),)), scout=1)
    for _ in range(3):
        for lease in rig.dispatch():
            rig.done(lease)
    rig.wait(1.0, 1)
    assert rig.job(2).paused_by == "scout"
