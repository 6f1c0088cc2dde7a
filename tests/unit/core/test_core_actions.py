"""What users may do to work, what that does at once, and what is refused without a trace."""

from __future__ import annotations

import pytest

from farm.core import invariants
from farm.core.outcome import StopCommand
from farm.core.rows import BulkRow, JobStateRow
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.jobs import AfterSpec
from farm.model.outputs import FileFacts
from farm.model.reports import DONE, FAILED, UnitReport
from farm.model.states import AttemptKind
from tests.support.core_rig import Rig, step
from tests.support.sim_agent import GOOD


def farm(frames: str = "1-4", *, nodes: int = 1, **fields: object) -> Rig:
    rig = Rig()
    for number in range(nodes):
        rig.join(f"n{number}")
    rig.submit(step(frames=frames, **fields))  # type: ignore[arg-type]
    return rig


# ---------------------------------------------------------------- refused, and nothing changed


@pytest.mark.parametrize(
    ("action", "address", "value", "error"),
    [
        ("pause", "J9", "", UnknownName),
        ("pause", "J1/beauty", "", CallError),
        ("eat", "J1", "", UnknownName),
        ("retry", "J1/comp", "", UnknownName),
        ("retry", "J1/beauty/9", "", UnknownName),
        ("retry", "J1/beauty/3-5", "", UnknownName),
        ("retry", "J1/beauty/x", "", CallError),
        ("retry", "J1", "", IllegalMove),
        ("skip", "J1/beauty/1", "", IllegalMove),
        ("cancel", "J1/beauty/2", "", IllegalMove),
        ("mark-done", "J1/beauty/2", "", IllegalMove),
        ("priority", "J1", "101", CallError),
        ("priority", "J1", "-1", CallError),
        ("priority", "J1", "high", CallError),
        ("archive", "J1", "", IllegalMove),
    ],
)
def test_refused_actions_leave_no_trace(
    action: str, address: str, value: str, error: type[Exception]
) -> None:
    rig = farm(nodes=2)
    _one, two = rig.dispatch()
    rig.done(two)
    before, seq = invariants.digest(rig.core.farm), rig.core.farm.seq
    with pytest.raises(error):
        rig.act(action, address, value)
    assert invariants.digest(rig.core.farm) == before
    assert rig.core.farm.seq == seq
    assert rig.states() == "RDQQ"


def test_a_refusal_says_what_is_there_and_what_could_be_done() -> None:
    rig = farm()
    with pytest.raises(IllegalMove) as caught:
        rig.act("retry", "J1")
    assert (
        str(caught.value)
        == "nothing there can be rendered again: all is queued (only failed, canceled units can)"
    )
    with pytest.raises(UnknownName) as caught_too:
        rig.act("skip", "J1/beauty/3-6")
    assert str(caught_too.value) == "J1/beauty has no frames 5-6 (it has 1-4)"


# ---------------------------------------------------------------- pause, resume, priority


def test_pause_drains_running_units_finish_and_no_new_ones_start() -> None:
    rig = farm()
    lease = rig.lease()
    answer = rig.act("pause", "J1", reason="too dark")
    assert answer.message == "J1 is paused; 1 running units finish"
    assert rig.commands(StopCommand) == []
    rig.done(lease)
    assert rig.states() == "DQQQ"
    assert rig.dispatch() == []
    assert rig.job().shown() == "paused"
    assert rig.job().reason == "too dark"
    rig.act("resume", "J1")
    assert rig.lease().units == (1,)


def test_a_job_submitted_paused_waits() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(), paused=True)
    assert rig.dispatch() == []
    rig.restart()
    assert rig.job().paused_by == "ann"
    rig.join()
    rig.act("resume", "J1")
    assert len(rig.dispatch()) == 1


def test_a_change_of_priority_reorders_what_waits_and_stops_nothing() -> None:
    rig = farm()
    rig.submit(step("other"))
    first = rig.lease()
    assert first.step.job.id == 1, "of equals the older goes first"
    rig.act("priority", "J2", "60")
    assert rig.commands(StopCommand) == []
    rig.done(first)
    second = rig.lease()
    assert second.step.job.id == 2
    rig.act("priority", "J2", "50")
    rig.done(second)
    assert rig.lease().step.job.id == 1


def test_a_change_of_priority_keeps_old_new_reason_and_who() -> None:
    rig = farm()
    rig.act("priority", "J1", "75", reason="client is waiting", who="wim")
    (row,) = [row for row in rig.out.rows if isinstance(row, JobStateRow)]
    assert (row.what, row.old, row.new, row.reason, row.who) == (
        "priority",
        "50",
        "75",
        "client is waiting",
        "wim",
    )
    rig.restart()
    assert rig.job().priority == 75


# ---------------------------------------------------------------- cancel


def test_cancel_stops_what_runs_and_takes_what_waits() -> None:
    rig = farm()
    lease = rig.lease()
    answer = rig.act("cancel", "J1", reason="wrong shot")
    assert answer.changed == 4
    assert rig.commands(StopCommand) == [StopCommand(lease.node_id, lease.attempt, "wrong shot", ())]
    assert rig.states() == "CCCC"
    assert rig.job().shown() == "canceled"
    assert rig.node(1).cores_free == 0, "the node is free only once the agent says that it stopped"
    rig.report(lease, closed=True)
    assert rig.node(1).cores_free == 1


def test_cancel_of_part_of_a_chunk_drops_those_units_only() -> None:
    rig = farm(chunk=4)
    lease = rig.lease()
    rig.act("cancel", "J1/beauty/2-3")
    assert rig.commands(StopCommand) == [StopCommand(lease.node_id, lease.attempt, "canceled by ann", (1, 2))]
    assert rig.states() == "RCCR"
    rig.done(lease, 0, 1, 3)
    assert rig.states() == "DCCD", "the result of a unit that was taken back does not count"
    assert [row.unit for row in rig.stale()] == [1]


def test_cancel_of_named_frames_takes_failed_ones_too_and_of_a_job_leaves_them() -> None:
    rig = farm()
    rig.fail(rig.lease(), "config")
    rig.act("cancel", "J1")
    assert rig.states() == "FCCC"
    rig.act("cancel", "J1/beauty/1")
    assert rig.states() == "CCCC"


def test_every_move_keeps_old_new_reason_and_who() -> None:
    rig = farm()
    rig.act("cancel", "J1/beauty/2-3", reason="not needed", who="wim")
    (row,) = [row for row in rig.out.rows if isinstance(row, BulkRow)]
    assert (row.units, row.old, row.new, row.reason, row.who) == ("1-2", 1, 6, "not needed", "wim")


# ---------------------------------------------------------------- retry


def test_retry_gives_a_failed_frame_a_fresh_start() -> None:
    rig = farm("1")
    for _ in range(3):
        rig.fail(rig.lease(), "renderer")
    assert rig.states() == "F"
    rig.act("retry", "J1")
    for state in "QQF":
        rig.fail(rig.lease(), "renderer")
        assert rig.states() == state


def test_retry_of_a_job_takes_failed_and_canceled_frames_but_no_done_ones() -> None:
    rig = farm()
    rig.fail(rig.lease(), "config")
    rig.done(rig.lease())
    rig.act("cancel", "J1/beauty/3")
    assert rig.act("retry", "J1").changed == 2
    assert rig.states() == "QDQQ"


def test_retry_of_named_frames_renders_done_ones_again() -> None:
    rig = farm("1-2")
    rig.done(rig.lease())
    assert rig.act("retry", "J1/beauty/1").changed == 1
    assert rig.states() == "QQ"


def test_a_frame_is_not_leased_again_while_the_stopped_attempt_may_still_render_it() -> None:
    rig = farm("1", nodes=2)
    lease = rig.lease()
    rig.act("cancel", "J1")
    rig.act("retry", "J1")
    assert rig.states() == "Q"
    assert rig.dispatch() == []
    assert rig.job().shown() == "queued"
    rig.report(lease, UnitReport(0, 3), closed=True)
    assert rig.lease().units == (0,)


def test_it_is_leased_again_when_the_stopped_attempts_node_is_lost() -> None:
    rig = farm("1", nodes=2)
    lease = rig.lease()
    rig.act("cancel", "J1")
    rig.act("retry", "J1")
    rig.wait(61, 3 - lease.node_id)
    assert rig.lease().node_id == 3 - lease.node_id


def test_other_frames_of_the_step_do_not_wait_with_it() -> None:
    rig = farm("1-2", nodes=2, chunk=1)
    _one, two = rig.dispatch()
    rig.act("cancel", "J1/beauty/1")
    rig.act("retry", "J1/beauty/1")
    rig.fail(two, "renderer")
    assert [lease.units for lease in rig.dispatch()] == [], (
        "the only other node is still busy with the stopped one"
    )
    rig.join("n2")
    assert [lease.units for lease in rig.dispatch()] == [(1,)]


def test_retry_of_an_ended_job_is_refused_while_another_writes_the_same_files() -> None:
    rig = farm("1", out=True)
    rig.done(rig.lease())
    rig.submit(step(frames="1-5", out=True))
    with pytest.raises(IllegalMove, match=r"J2/beauty is writing /out/beauty\.####\.exr now"):
        rig.act("retry", "J1/beauty/1")
    rig.act("cancel", "J2")
    rig.act("retry", "J1/beauty/1")
    assert rig.states() == "Q"


# ---------------------------------------------------------------- skip, mark done, archive


def test_skip_takes_what_did_not_run_and_satisfies_what_waits() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-2"), step("film", None, after=("beauty",)))
    rig.fail(rig.lease(), "config")
    rig.act("skip", "J1/beauty")
    assert rig.states() == "SS"
    assert rig.states("J1/film") == "Q"


def test_mark_done_verifies_first_and_a_good_file_makes_it_done() -> None:
    rig = farm("1-2", out=True)
    for _ in range(3):
        rig.fail(rig.lease(), "output")
    assert rig.states() == "FQ"
    assert rig.act("mark-done", "J1/beauty/1").changed == 1
    assert rig.states() == "FQ", "not before its file was looked at"
    verify = rig.dispatch()[0]
    assert (verify.kind, verify.units) == (1, (0,))
    rig.done(verify)
    assert rig.states() == "DQ"
    assert rig.results()[0].reason == "marked done, verified"


def test_mark_done_without_the_file_changes_nothing_and_says_why() -> None:
    rig = farm("1", out=True)
    rig.fail(rig.lease(), "config")
    rig.act("mark-done", "J1")
    rig.fail(rig.lease(), "output")
    assert rig.states() == "F"
    assert rig.step("J1/beauty").notes[0].reason == "because of output"
    assert rig.core.farm.verify == {}


@pytest.mark.parametrize("failure", ["", "sunspots", "output"])
def test_a_verify_that_fails_in_words_unknown_here_is_taken_all_the_same(failure: str) -> None:
    rig = farm("1", out=True)
    rig.act("cancel", "J1")
    rig.act("mark-done", "J1")
    rig.fail(rig.lease(), failure)
    assert rig.states() == "C"


def test_mark_done_of_a_running_frame_stops_its_attempt_once_the_file_is_verified() -> None:
    rig = farm("1", out=True, nodes=2)
    render = rig.lease()
    rig.act("mark-done", "J1")
    verify = rig.lease()
    assert verify.node_id != render.node_id
    rig.done(verify)
    assert rig.states() == "D"
    assert rig.commands(StopCommand) == [
        StopCommand(render.node_id, render.attempt, "its files are there and good", ())
    ]
    rig.done(render)
    assert len(rig.stale()) == 1, "whatever the stopped attempt reports is waste"
    assert rig.node(render.node_id).cores_free == 1


def test_mark_done_of_a_frame_that_gets_done_meanwhile_is_harmless() -> None:
    rig = farm("1", out=True, nodes=2)
    render = rig.lease()
    rig.act("mark-done", "J1")
    verify = rig.lease()
    rig.done(render)
    rig.fail(verify, "output")
    assert rig.states() == "D"
    assert rig.step("J1/beauty").notes == {}


def test_a_look_that_comes_late_does_not_count_for_a_frame_that_is_to_be_rendered_once_more() -> None:
    rig = Rig()
    for number in range(3):
        rig.join(f"n{number}")
    by_frame = (AfterSpec(step="sim", frames=True),)
    rig.submit(step("sim", "1-2"), step("beauty", "1-2", out=True, after=by_frame))
    first, sim = rig.dispatch()
    rig.done(first)
    render = rig.lease()
    assert (render.step.spec.name, render.units) == ("beauty", (0,))
    rig.act("mark-done", "J1/beauty/1")
    verify = rig.lease()
    assert verify.kind == AttemptKind.VERIFY
    rig.done(render)
    assert rig.core.farm.verify == {}
    rig.done(sim)
    rig.act("retry", "J1/sim/1")
    assert rig.states("J1/beauty")[0] == "B"
    rig.restart()
    rig.join("n2", running=[verify.attempt])
    rig.done(verify)
    assert rig.states("J1/beauty")[0] == "B", "its file was made of the earlier input"


def test_of_two_looks_at_a_frame_the_second_counts_no_more_once_the_first_found_it() -> None:
    rig = farm("1-2", out=True, existing="skip", nodes=2)
    rig.act("mark-done", "J1/beauty/1")
    first, second = rig.dispatch()
    rig.done(first, 0, closed=False)
    rig.done(first, 1)
    assert rig.states() == "DD"
    assert rig.core.farm.verify == {}
    rig.act("retry", "J1/beauty/1")
    rig.done(second)
    assert rig.states() == "QD", "it is to be rendered: a look from before says nothing of that"


def test_a_frame_whose_file_is_not_there_waits_until_the_attempt_it_was_taken_from_has_stopped() -> None:
    rig = Rig()
    rig.join(cores=4)
    each = (AfterSpec(step="sim", frames=True, offset=-1),)
    rig.submit(step("sim", "1-2", out=True, after=each))
    rig.done(rig.lease())
    late = rig.lease()
    assert late.units == (1,)
    rig.act("retry", "J1/sim/1")
    assert rig.states("J1/sim") == "QB"
    rig.act("mark-done", "J1/sim")
    look = next(lease for lease in rig.dispatch() if lease.kind == AttemptKind.VERIFY)
    there = UnitReport(0, DONE, files=(FileFacts("/out/x", 1, "00", 0, GOOD),))
    rig.report(look, there, UnitReport(1, FAILED, "output", "there is no such file"))
    assert rig.states("J1/sim") == "DQ"
    assert rig.dispatch() == [], "its first attempt may be rendering it still"
    rig.release(late)
    assert [lease.units for lease in rig.dispatch()] == [(1,)]


@pytest.mark.parametrize("newer", ["cancel", "skip", "retry"])
def test_what_a_user_wants_later_overrules_a_mark_done_that_still_looks(newer: str) -> None:
    rig = farm("1", out=True)
    rig.fail(rig.lease(), "config")
    rig.act("mark-done", "J1")
    verify = rig.lease()
    rig.act(newer, "J1/beauty/1")
    state = {"cancel": "C", "skip": "S", "retry": "Q"}[newer]
    assert rig.states() == state
    rig.restart()
    rig.join("n0", running=[verify.attempt])
    rig.done(verify)
    assert rig.states() == state
    assert rig.core.farm.verify == {}


def test_a_verify_whose_node_is_lost_goes_to_another_even_after_a_restart() -> None:
    rig = farm("1-2", out=True)
    rig.act("cancel", "J1")
    rig.act("mark-done", "J1")
    first = rig.lease()
    rig.done(first, 0, closed=False)
    rig.wait(61)
    assert rig.states() == "DC"
    rig.restart()
    rig.join("bee")
    again = rig.lease()
    assert (again.kind, again.units) == (1, (1,))
    rig.done(again)
    assert rig.states() == "DD"


def test_a_verify_given_back_unlooked_at_is_asked_of_another() -> None:
    rig = farm("1", out=True)
    rig.act("cancel", "J1")
    rig.act("mark-done", "J1")
    rig.release(rig.lease())
    assert rig.states() == "C"
    assert len(rig.core.farm.verify) == 1
    rig.done(rig.lease())
    assert rig.states() == "D"


def test_archive_hides_a_job_that_came_to_rest() -> None:
    rig = farm("1")
    rig.done(rig.lease())
    rig.act("archive", "J1")
    assert rig.job().archived
    rig.restart()
    assert rig.job().archived


@pytest.mark.parametrize("text", ["\u0663", "\u00b2", "-1", "101", "5 0", "1_0", "", "9" * 5_000])
def test_a_priority_is_a_plain_number(text: str) -> None:
    rig = Rig()
    rig.submit(step())
    with pytest.raises(CallError, match="0 to 100"):
        rig.act("priority", "J1", text)
    assert rig.job().priority == 50
