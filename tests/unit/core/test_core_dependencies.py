"""Steps that wait for steps, and steps that look at existing files first."""

from __future__ import annotations

import pytest

from farm.core.outcome import StopCommand
from farm.core.rows import BulkRow, LeaseRow, VerifyRow
from farm.model.states import AttemptKind
from tests.support.core_rig import Rig, step


def chain(cores: int = 4) -> Rig:
    """beauty (2 frames) -> comp (2 frames) -> film (single)."""
    rig = Rig()
    rig.join(cores=cores)
    rig.submit(
        step(frames="1-2"), step("comp", "1-2", after=("beauty",)), step("film", None, after=("comp",))
    )
    return rig


def all_states(rig: Rig) -> str:
    return " ".join(rig.states(f"J1/{name}") for name in ("beauty", "comp", "film"))


def finish(rig: Rig) -> None:
    while leases := rig.dispatch():
        for lease in leases:
            rig.done(lease)


def test_a_step_is_blocked_until_every_unit_it_waits_for_is_done() -> None:
    rig = chain()
    assert all_states(rig) == "QQ BB B"
    one, two = rig.dispatch()
    rig.done(one)
    assert all_states(rig) == "DR BB B"
    out = rig.done(two)
    assert all_states(rig) == "DD QQ B"
    (row,) = [row for row in out.rows if isinstance(row, BulkRow)]
    assert row.reason == "J1/beauty is finished"
    finish(rig)
    assert all_states(rig) == "DD DD D"
    assert rig.job().shown() == "done"
    assert rig.job().ended_us == rig.now_us


def test_a_step_that_waits_for_two_starts_after_both() -> None:
    rig = Rig()
    rig.join(cores=4)
    rig.submit(step("a", None), step("b", None), step("c", None, after=("a", "b")))
    one, two = rig.dispatch()
    rig.done(two)
    assert rig.states("J1/c") == "B"
    rig.done(one)
    assert rig.states("J1/c") == "Q"


def test_failed_units_block_skipped_ones_do_not() -> None:
    rig = chain()
    one, two = rig.dispatch()
    rig.done(one)
    rig.fail(two, "config")
    assert all_states(rig) == "DF BB B"
    assert rig.job().shown() == "failed"
    rig.act("skip", "J1/beauty/2")
    assert all_states(rig) == "DS QQ B"


def test_rendering_a_done_frame_again_blocks_all_that_was_made_of_it() -> None:
    rig = chain()
    finish(rig)
    rig.act("retry", "J1/beauty/2")
    assert all_states(rig) == "DQ BB B"
    assert rig.job().ended_us == 0
    finish(rig)
    assert all_states(rig) == "DD DD D"


def test_running_dependants_are_stopped_first_and_not_leased_while_they_may_still_run() -> None:
    rig = chain()
    for lease in rig.dispatch():
        rig.done(lease)
    running = rig.dispatch()
    assert all_states(rig) == "DD RR B"
    rig.act("retry", "J1/beauty/1")
    assert all_states(rig) == "QD BB B"
    stops = {(stop.attempt, stop.units) for stop in rig.commands(StopCommand)}
    assert stops == {(lease.attempt, ()) for lease in running}
    rig.done(rig.lease())
    assert all_states(rig) == "DD QQ B"
    assert rig.dispatch() == [], "their stopped attempts have not ended yet"
    rig.done(running[0])
    assert rig.states("J1/comp") == "QQ", "what the stopped attempt made of the old picture does not count"
    assert len(rig.dispatch()) == 1


def test_a_dependants_failures_are_forgotten_when_its_input_is_made_anew() -> None:
    rig = chain()
    for lease in rig.dispatch():
        rig.done(lease)
    for _ in range(2):
        for lease in rig.dispatch():
            rig.fail(lease, "renderer") if lease.units == (0,) else rig.done(lease)
    for lease in rig.dispatch():
        rig.done(lease)
    rig.act("retry", "J1/beauty/1")
    finish_one = rig.lease()
    rig.done(finish_one)
    lease = next(lease for lease in rig.dispatch() if lease.units == (0,))
    rig.fail(lease, "renderer")
    assert rig.states("J1/comp")[0] == "Q", "one failure on the new input is not the third"


def test_canceled_dependants_stay_canceled() -> None:
    rig = chain()
    finish(rig)
    rig.act("retry", "J1/comp/1")
    rig.act("cancel", "J1/comp/1")
    rig.act("retry", "J1/beauty/1")
    assert all_states(rig) == "QD CB B"


def test_retry_of_a_blocked_steps_frame_lands_in_blocked() -> None:
    rig = chain()
    rig.act("cancel", "J1/comp")
    rig.act("retry", "J1/comp")
    assert all_states(rig) == "QQ BB B"


def test_marking_the_last_missing_frame_done_unblocks() -> None:
    rig = chain()
    one, two = rig.dispatch()
    rig.done(one)
    rig.fail(two, "config")
    rig.act("mark-done", "J1/beauty/2")
    rig.done(rig.lease())
    assert all_states(rig) == "DD QQ B"


def test_blocks_and_unblocks_survive_a_restart() -> None:
    rig = chain()
    for lease in rig.dispatch():
        rig.done(lease)
    rig.checkpoint()
    running = rig.dispatch()
    rig.act("retry", "J1/beauty/1")
    rig.restart()
    rig.join(cores=4, running=[lease.attempt for lease in running])
    assert all_states(rig) == "QD BB B"
    for lease in running:
        rig.report(lease, closed=True)
    finish(rig)
    assert all_states(rig) == "DD DD D"


# ---------------------------------------------------------------- existing files


def existing(frames: str = "1-3", **fields: object) -> Rig:
    rig = Rig()
    rig.join(cores=2)
    rig.submit(step(frames=frames, out=True, existing="skip", **fields))  # type: ignore[arg-type]
    return rig


def test_existing_files_are_looked_at_by_an_agent_before_anything_is_rendered() -> None:
    rig = existing()
    assert rig.states() == "BBB"
    verify = rig.lease()
    assert (verify.kind, verify.units) == (AttemptKind.VERIFY, (0, 1, 2))
    assert rig.states() == "BBB"
    rig.done(verify, 1, closed=False)
    assert rig.states() == "BDB"
    assert rig.results()[0].reason == "already there, verified"
    rig.fail(verify, "output", 0, 2)
    assert rig.states() == "QDQ", "what is not there, or not good, is rendered"
    assert rig.step("J1/beauty").notes == {}, "nothing failed"
    assert [lease.kind for lease in rig.dispatch()] == [0, 0]


def test_all_there_is_a_job_done_without_rendering() -> None:
    rig = existing()
    rig.done(rig.lease())
    assert rig.job().shown() == "done"
    assert rig.step("J1/beauty").waste_nano == 0


def test_a_step_that_waits_looks_only_when_its_turn_comes_and_only_once() -> None:
    rig = Rig()
    rig.join(cores=4)
    rig.submit(step(frames="1"), step("comp", "1-2", after=("beauty",), out=True, existing="skip"))
    rig.done(rig.lease())
    rig.fail(rig.lease(), "output")
    assert rig.states("J1/comp") == "QQ"
    rig.act("retry", "J1/beauty/1")
    assert rig.states("J1/comp") == "BB"
    rig.restart()
    rig.join(cores=4)
    rig.done(rig.lease())
    assert rig.states("J1/comp") == "QQ", "its files are of the old input now"


def test_a_look_that_ends_after_its_input_was_taken_back_does_not_count() -> None:
    rig = Rig()
    rig.join(cores=4)
    rig.submit(step(frames="1"), step("comp", "1", after=("beauty",), out=True, existing="skip"))
    rig.done(rig.lease())
    verify = rig.lease()
    rig.act("retry", "J1/beauty/1")
    rig.done(verify)
    assert rig.states("J1/comp") == "B"
    rig.done(rig.lease())
    assert rig.states("J1/comp") == "Q"


@pytest.mark.parametrize(("action", "state"), [("cancel", "C"), ("skip", "S")])
def test_a_frame_canceled_or_skipped_while_its_file_is_looked_at_stays_so(action: str, state: str) -> None:
    rig = existing("1-2")
    verify = rig.lease()
    rig.act(action, "J1/beauty/1")
    rig.done(verify)
    assert rig.states() == state + "D"


def test_a_paused_job_looks_at_nothing() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(out=True, existing="skip"), paused=True)
    assert rig.dispatch() == []
    rig.act("resume", "J1")
    assert rig.lease().kind == AttemptKind.VERIFY


def test_a_job_canceled_before_the_look_leaves_no_request_behind() -> None:
    rig = existing()
    rig.act("cancel", "J1")
    assert rig.dispatch() == []
    assert rig.core.farm.verify == {}


def test_a_long_step_is_looked_at_by_several_leases() -> None:
    rig = existing("1-2500")
    requests = [row for row in rig.store.disk.tables[VerifyRow].values() if not row.done]
    assert [row.units for row in requests] == ["0-999", "1000-1999", "2000-2499"]
    leases = rig.dispatch()
    assert [lease.units[0] for lease in leases] == [0, 1000]
    rig.fail(leases[0], "output")
    assert rig.lease().units[0] == 2000


def test_each_look_is_tied_to_its_request_over_a_restart() -> None:
    rig = existing("1-2500")
    _one, _two = rig.dispatch()
    rig.wait(61)
    rig.join("bee", cores=2)
    again = rig.dispatch()
    assert [lease.units[0] for lease in again] == [0, 1000]
    rig.restart()
    rig.join("bee", cores=2, running=[lease.attempt for lease in again])
    rig.done(again[1])
    assert rig.states().count("D") == 1000
    rows = [row for row in rig.store.disk.tables[LeaseRow].values() if row.id == again[1].attempt]
    assert rig.core.farm.verify.get(rows[0].gang) is None, "its own request is settled, not the other's"
    assert len(rig.core.farm.verify) == 2
