"""Changing the frames of a step on the farm: they come, go, and come back.

What belongs here: which frames are rendered, stopped, canceled or kept when others are wanted.
"""

from __future__ import annotations

import json

import pytest

from farm.core import invariants
from farm.core.outcome import StopCommand
from farm.core.rows import BulkRow, StepEditRow
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.jobs import AfterSpec, OutputSpec
from farm.model.states import AttemptKind
from tests.support.core_edits import edit, farm, finish
from tests.support.core_rig import Rig, step

MINUTE_US = 60_000_000


def test_added_frames_come_after_the_old_ones_whatever_their_number() -> None:
    rig = farm("3-4", nodes=2)
    one, _ = rig.dispatch()
    rig.done(one)
    edit(rig, "J1/beauty", frames="1-5")
    beauty = rig.step("J1/beauty")
    assert str(beauty.frames) == "3-4,1-2,5"
    assert rig.states() == "DRQQQ"
    assert beauty.spec.frames == "1-5"
    rig.restart()
    assert rig.states() == "DRQQQ"
    finish(rig)


def test_frames_no_longer_wanted_are_canceled_and_running_ones_stopped() -> None:
    rig = farm("1-6", nodes=2)
    one, _two = rig.dispatch()
    rig.done(one)
    rig.dispatch()
    assert rig.states() == "DRRQQQ"
    edit(rig, "J1/beauty", frames="1,2,6")
    assert rig.states() == "DRCCCQ"
    (stop,) = rig.commands(StopCommand)
    assert stop.units == ()
    reasons = {row.reason for row in rig.out.rows if isinstance(row, BulkRow)}
    assert reasons == {"frames are 1,2,6 now, says ann"}
    rig.restart()
    assert rig.step("J1/beauty").left_out == 3


def test_a_job_that_was_made_shorter_ends_as_done_and_what_waits_for_it_goes_on() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-4"), step("film", None, after=("beauty",)))
    rig.done(rig.lease())
    edit(rig, "J1/beauty", frames="1-2")
    assert (rig.states(), rig.states("J1/film")) == ("DQCC", "B")
    rig.done(rig.lease())
    assert rig.states("J1/film") == "Q"
    assert rig.step("J1/beauty").shown().value == "done"
    rig.restart()
    rig.join()
    rig.done(rig.lease())
    assert rig.job().shown().value == "done"
    # Nobody wants the rest: it does not come back with the others.
    rig.act("retry", "J1/beauty/1-2")
    assert (rig.states(), rig.states("J1/film")) == ("QQCC", "B")
    with pytest.raises(UnknownName, match="not wanted any more"):
        rig.act("retry", "J1/beauty/3")
    finish(rig)
    with pytest.raises(IllegalMove):
        rig.act("retry", "J1/beauty")


def test_making_a_step_shorter_than_what_is_done_ends_it_at_once() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-3"), step("film", None, after=("beauty",)))
    rig.done(rig.lease())
    edit(rig, "J1/beauty", frames="1")
    assert (rig.states(), rig.states("J1/film")) == ("DCC", "Q")


def test_done_frames_that_are_not_wanted_are_not_rendered_again() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("plate", "1-2"), step(frames="1-3", after=("plate",)))
    finish(rig)
    assert rig.states() == "DDD"
    edit(rig, "J1/beauty", frames="1-2")
    assert (rig.states(), rig.step("J1/beauty").left_out) == ("DDD", 0)
    rig.act("retry", "J1/plate/1")
    assert rig.states() == "BBD", "frame 3 is not wanted, so its input does not matter"
    finish(rig)
    assert rig.job().shown().value == "done"
    rig.restart()


def test_frames_taken_back_are_queued_again_with_a_fresh_start() -> None:
    rig = farm("1-4", attempts=1)
    rig.fail(rig.lease(), "renderer")
    assert rig.states() == "FQQQ"
    edit(rig, "J1/beauty", frames="2-4")
    assert rig.states() == "CQQQ"
    edit(rig, "J1/beauty", frames="1-2")
    assert rig.states() == "QQCC"
    rig.fail(rig.lease(), "renderer")
    assert rig.states() == "FQCC", "its one attempt was given back to it"
    rig.restart()


def test_frames_a_user_canceled_stay_canceled() -> None:
    rig = farm("1-4")
    rig.act("cancel", "J1/beauty/2")
    edit(rig, "J1/beauty", frames="1-6")
    assert rig.states() == "QCQQQQ"


def test_added_frames_wait_for_what_the_step_waits_for() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("plate", "1"), step(frames="1-2", after=("plate",)))
    edit(rig, "J1/beauty", frames="1-3")
    assert rig.states() == "BBB"
    rig.done(rig.lease())
    assert rig.states() == "QQQ"


def test_a_finished_job_comes_back_with_the_frames_that_are_added() -> None:
    rig = farm("1")
    rig.done(rig.lease())
    assert rig.job().ended_us
    rig.now_us += MINUTE_US
    edit(rig, "J1/beauty", frames="1-2")
    assert (rig.job().ended_us, rig.job().shown().value) == (0, "queued")
    assert "has work again" in rig.told()
    rig.done(rig.lease())
    assert rig.job().ended_us == rig.now_us


def test_existing_files_of_added_frames_are_looked_at_first() -> None:
    rig = farm("1-2", out=True, existing="skip")
    look = rig.lease()
    rig.done(look)
    assert rig.states() == "DD"
    edit(rig, "J1/beauty", frames="1-3")
    assert rig.states() == "DDB"
    look = rig.lease()
    assert look.units == (2,)
    rig.fail(look, "output")
    assert rig.states() == "DDQ"
    rig.restart()
    finish(rig)


def test_added_frames_may_not_be_written_by_another_job() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-4", out=True))
    rig.submit(step(frames="5-8", out=True))
    before = invariants.digest(rig.core.farm)
    with pytest.raises(IllegalMove, match="J2/beauty is writing"):
        edit(rig, "J1/beauty", frames="1-5")
    assert invariants.digest(rig.core.farm) == before
    edit(rig, "J2/beauty", frames="6-8")
    edit(rig, "J1/beauty", frames="1-5")
    assert rig.states() == "QQQQQ"


def test_one_file_cannot_hold_several_frames() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="7", outputs=(OutputSpec(pattern="/out/still.exr"),)))
    with pytest.raises(CallError, match="all 2 frames would write /out/still"):
        edit(rig, "J1/beauty", frames="7-8")
    edit(rig, "J1/beauty", frames="8")
    assert rig.states() == "CQ"


def test_a_single_step_has_no_frames_to_set() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("film", None))
    with pytest.raises(CallError, match="without frames"):
        edit(rig, "J1/film", frames="1-2")


def test_the_same_rows_again_give_the_same_state() -> None:
    rig = farm("1-4", nodes=2)
    rig.done(rig.dispatch()[0])
    edit(rig, "J1/beauty", frames="2-6")
    edit(rig, "J1/beauty", frames="9,1-2", resources__ram_mib=100)
    rig.checkpoint()
    edit(rig, "J1/beauty", frames="1-10")
    state = rig.states()
    rig.restart()
    assert rig.states() == state
    assert str(rig.step("J1/beauty").frames) == "1-6,9,7-8,10"
    from farm.core.apply import apply_step_edit

    rows = [row for row in rig.out.rows if isinstance(row, StepEditRow)]
    before = invariants.digest(rig.core.farm)
    for row in rows:
        apply_step_edit(rig.core.farm, row)
    assert invariants.digest(rig.core.farm) == before


def test_frames_that_were_there_already_stay_done_when_others_go_or_come() -> None:
    rig = Rig()
    rig.join(cores=4)
    each = (AfterSpec(step="sim", frames=True, offset=-1),)
    rig.submit(step("sim", "1-5", out=True, existing="skip", after=each))
    look = rig.lease()
    for unit in range(1, 5):
        rig.done(look, unit, closed=False)
    rig.fail(look, "output")
    assert rig.states("J1/sim") == "QDDDD"
    rig.act("set", "J1/sim", json.dumps({"frames": "1-2,4-5"}))
    assert rig.states("J1/sim") == "QDDDD", "nothing that is to be rendered was added"
    rig.act("set", "J1/sim", json.dumps({"frames": "1-2,4-7"}))
    assert rig.states("J1/sim")[:5] == "QDDDD"
    (render,) = [lease for lease in rig.dispatch() if lease.kind == AttemptKind.RENDER]
    rig.done(render, 0)
    assert rig.states("J1/sim")[:5] == "DDDDD"


def test_a_frame_rendered_again_takes_with_it_only_what_is_made_of_it_by_frames_that_are_wanted() -> None:
    rig = Rig()
    rig.join(cores=1)
    each = (AfterSpec(step="sim", frames=True, offset=-1),)
    rig.submit(step("sim", "1-5", after=each))
    for _ in range(5):
        rig.done(rig.lease())
    rig.act("set", "J1/sim", json.dumps({"frames": "1-2,4-5"}))
    assert rig.states("J1/sim") == "DDDDD"
    rig.act("retry", "J1/sim/1")
    assert rig.states("J1/sim") == "QBDDD"
