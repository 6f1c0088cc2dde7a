"""Jobs leave memory: into the archive by age, or for good; what they cost, their tokens and numbers stay."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core import invariants
from farm.core.checkpoint import BEFORE_ALL, Stored, restore, restore_shelved
from farm.core.events import DeleteEvent
from farm.core.outcome import ActAnswer, DiscardCommand
from farm.core.rows import HistoryRow, ShelfRow, StepMapRow
from farm.core.shelves import SHELVE_MOST, is_due
from farm.core.sums import total
from farm.model.errors import IllegalMove, JobFileError, UnknownName
from farm.model.jobs import AfterSpec
from tests.support.core_rig import RATE, Rig, step
from tests.support.core_stage import load

DAY_S = 86_400
#: Jobs at rest for two days leave.
TWO_DAYS_US = 2 * DAY_S * 1_000_000


def rig(**settings: Any) -> Rig:
    """A farm that archives after two days, with one node that costs nothing while it idles (it leaves)."""
    settings.setdefault("archive_after_us", TWO_DAYS_US)
    return Rig(**settings)


def finished(made: Rig, *steps: Any, **job: Any) -> int:
    """A job that one node renders; the node then leaves."""
    number = made.submit(*(steps or (step(frames="1-2"),)), **job)
    node = made.join()
    while leases := made.dispatch():
        for lease in leases:
            made.now_us += 3_600_000_000
            made.beat(node)
            made.done(lease)
    made.bye(node)
    return number


def shelved(made: Rig) -> list[int]:
    """Numbers of the jobs that the last event put into the archive."""
    return [row.job_id for row in made.out.rows if isinstance(row, ShelfRow)]


def delete(made: Rig, number: int, shelf: ShelfRow | None = None) -> ActAnswer:
    """Deletes a job."""
    reply: ActAnswer = made.handle(DeleteEvent(made.now_us, number, "", "wim", shelf)).reply
    return reply


def checked_restart(made: Rig) -> None:
    """A restart, and one that goes through all rows from the first: both give the farm as it is."""
    if made.store.meta("history_incomplete") is None:
        nothing = Stored(None, [], [], [], made.store.load().last_seq)
        again = restore(made.settings, nothing, made.store.replay(BEFORE_ALL))
        assert invariants.digest(again) == invariants.digest(made.core.farm)
    made.restart()


def test_a_job_leaves_when_it_was_at_rest_for_long_enough_and_not_before() -> None:
    made = rig()
    number = finished(made)
    made.wait(2 * DAY_S - 1)
    assert not is_due(made.core.farm, made.now_us)
    made.checkpoint()
    assert shelved(made) == []
    made.wait(1)
    assert is_due(made.core.farm, made.now_us)
    made.checkpoint()
    assert shelved(made) == [number]
    farm = made.core.farm
    assert (farm.jobs, farm.steps, farm.patterns) == ({}, {}, {})
    assert not is_due(farm, made.now_us)
    (row,) = [row for row in made.out.rows if isinstance(row, ShelfRow)]
    assert (row.name, row.user, row.state, row.units, row.done, row.failed) == ("job", "ann", "done", 2, 2, 0)
    assert (row.spend_nano, row.waste_nano, row.steps) == (2 * RATE, 0, "1")
    assert any(isinstance(one, HistoryRow) and one.new == "archived" for one in made.out.rows)
    checked_restart(made)


def test_without_the_option_nothing_leaves() -> None:
    made = rig(archive_after_us=0)
    finished(made)
    made.wait(4000 * DAY_S)
    assert not is_due(made.core.farm, made.now_us)
    made.checkpoint()
    assert shelved(made) == []


@pytest.mark.parametrize("state", ["queued", "paused", "running", "clock", "blocked"])
def test_what_has_work_left_stays(state: str) -> None:
    made = rig()
    node = made.join(cores=2)
    if state == "blocked":
        made.submit(step("first", "1", existing="skip"), step("next", "1", after=("first",)))
    elif state == "clock":
        made.submit(step(), start_after="2999-01-01T00:00:00Z")
    else:
        made.submit(step(frames="1"), paused=state == "paused")
    if state == "running":
        made.dispatch()
    made.bye(node) if state != "running" else None
    for _ in range(3 if state == "running" else 1):
        made.now_us += 20 * DAY_S * 1_000_000
        if state == "running":
            made.beat(node)
    made.checkpoint()
    assert shelved(made) == []
    assert len(made.core.farm.jobs) == 1


@pytest.mark.parametrize("ended", ["failed", "canceled", "skipped", "archived", "paused", "clock"])
def test_every_way_to_be_at_rest_counts(ended: str) -> None:
    made = rig()
    node = made.join()
    later = {"start_after": "2999-01-01T00:00:00Z"} if ended == "clock" else {}
    number = made.submit(step(frames="1-3", attempts=1), **later)
    if ended == "failed":
        for _ in range(3):
            made.fail(made.lease(), "renderer")
    elif ended == "skipped":
        made.act("skip", f"J{number}")
    else:
        if ended == "paused":
            made.act("pause", f"J{number}")
        made.act("cancel", f"J{number}")
    if ended == "archived":
        made.act("archive", f"J{number}")
    made.bye(node)
    made.wait(2 * DAY_S)
    made.checkpoint()
    assert shelved(made) == [number]
    checked_restart(made)


def test_a_frame_that_was_retried_starts_the_time_anew() -> None:
    made = rig()
    number = finished(made)
    made.wait(DAY_S)
    made.act("retry", f"J{number}/beauty/1")
    node = made.join()
    made.done(made.lease())
    made.bye(node)
    made.wait(DAY_S + 60)
    made.checkpoint()
    assert shelved(made) == []
    made.wait(DAY_S)
    made.checkpoint()
    assert shelved(made) == [number]


def test_an_attempt_that_has_not_stopped_and_a_look_at_files_keep_a_job() -> None:
    made = rig()
    node = made.join()
    made.submit(step(frames="1", out=True))
    lease = made.lease()
    made.act("cancel", "J1")
    made.now_us += 3 * TWO_DAYS_US
    made.checkpoint()
    assert shelved(made) == []
    made.release(lease)
    made.act("mark-done", "J1")
    made.checkpoint()
    assert shelved(made) == []
    made.bye(node)
    assert made.core.farm.verify


def test_what_another_job_waits_for_stays_until_that_one_leaves() -> None:
    made = rig()
    first = finished(made, step("sim", "1-2"))
    second = made.submit(step("look", "1-2", after=(AfterSpec(job=f"J{first}", step="sim"),)), paused=True)
    by_frame = AfterSpec(job=f"J{first}", step="sim", frames=True, on_failure="skip")
    third = made.submit(step("comp", "1-2", after=(by_frame,)), paused=True)
    made.wait(3 * DAY_S)
    made.checkpoint()
    assert shelved(made) == []
    made.act("cancel", f"J{second}")
    made.act("cancel", f"J{third}")
    made.wait(DAY_S)
    made.checkpoint()
    # They are at rest, but could be retried: then they would wait for it again.
    assert shelved(made) == []
    made.wait(DAY_S)
    made.checkpoint()
    assert shelved(made) == [third, second, first]
    checked_restart(made)


def test_a_job_whose_needs_stay_leaves_them_as_they_were() -> None:
    made = rig()
    first = made.submit(step("sim", "1-2"), paused=True)
    by_frame = AfterSpec(job=f"J{first}", step="sim", frames=True)
    second = made.submit(step("comp", "1-2", after=(by_frame, AfterSpec(job=f"J{first}", step="sim"))))
    made.act("cancel", f"J{second}")
    made.wait(2 * DAY_S)
    made.checkpoint()
    assert shelved(made) == [second]
    sim = made.step(f"J{first}/sim")
    assert (sim.dependants, sim.watched) == ([], False)
    checked_restart(made)
    made.act("resume", f"J{first}")
    node = made.join()
    for _ in range(2):
        made.done(made.lease())
    made.bye(node)


def test_its_token_goes_on_meaning_it_and_its_numbers_are_never_given_again() -> None:
    made = rig()
    one = finished(made, token="t1")
    two = finished(made, token="t2", user="bob")
    made.wait(2 * DAY_S)
    made.checkpoint()
    assert sorted(shelved(made)) == [one, two]
    for _ in range(2):
        assert made.submit(step(frames="1-2"), token="t1") == one
        assert made.submit(step(frames="1-2"), token="t2", user="bob") == two
        checked_restart(made)
    assert made.submit(step(frames="1-2"), token="t2") == 3, "tokens count per user"
    assert made.step("J3/beauty").id == 3
    made.act("cancel", "J3")
    checked_restart(made)


def test_money_stays_exact_by_project_and_user() -> None:
    made = rig()
    finished(made, user="ann", project="film")
    finished(made, user="ann", project="film")
    finished(made, user="bob", project="")
    node = made.join()
    made.submit(step(frames="1", attempts=1), user="ann", project="film")
    lease = made.lease()
    made.now_us += 1_234_567_891
    made.beat(node)
    made.fail(lease, "renderer")
    made.bye(node)
    before = sum(one.spend_nano for one in made.core.farm.steps.values())
    made.wait(2 * DAY_S)
    made.checkpoint()
    gone = made.core.farm.shelved
    assert gone.archived["film", "ann"].jobs == 3
    assert gone.archived["film", "ann"].frames == 4
    assert gone.archived["", "bob"].spend_nano == 2 * RATE
    assert total(gone.archived).spend_nano == gone.spend_nano == before
    assert total(gone.archived, ["ann"]).waste_nano == 1_234_567_891 * RATE // 3_600_000_000
    checked_restart(made)
    assert made.core.farm.shelved.spend_nano == before


def test_only_so_many_leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SHELVE_MOST == 1_000
    monkeypatch.setattr("farm.core.shelves.SHELVE_MOST", 2)
    made = rig()
    for _ in range(5):
        made.submit(step(frames="1"))
    for number in range(1, 6):
        made.act("cancel", f"J{number}")
    made.wait(2 * DAY_S)
    left = []
    while is_due(made.core.farm, made.now_us):
        made.checkpoint()
        left.append(shelved(made))
        checked_restart(made)
    assert left == [[5, 4], [3, 2], [1]]


def test_files_kept_of_a_lost_attempt_are_discarded_once_its_job_left() -> None:
    made = rig()
    node = made.join()
    made.submit(step(frames="1-2"))
    lease = made.lease()
    made.now_us += 10 * 60_000_000
    made.wait(0)
    assert made.core.farm.lost
    made.act("cancel", "J1")
    made.wait(2 * DAY_S)
    made.checkpoint()
    assert shelved(made) == [1]
    assert made.core.farm.lost == {}
    made.join()
    made.report(lease, kept=(0,))
    assert made.commands(DiscardCommand) == [DiscardCommand(node, lease.attempt)]
    checked_restart(made)


def test_a_job_of_the_archive_can_be_looked_at_as_it_was() -> None:
    made = rig()
    node = made.join()
    number = made.submit(step("sim", "1-4", attempts=1), step("comp", "1-4", after=("sim",)), token="t")
    made.act("priority", f"J{number}", "80")
    for turn in range(4):
        lease = made.lease()
        made.now_us += 60_000_000
        made.beat(node)
        made.done(lease) if turn else made.fail(lease, "renderer")
    made.act("set", f"J{number}/sim", '{"frames": "2-5"}')
    made.act("cancel", f"J{number}")
    made.bye(node)
    live = made.job(number)
    wanted = [
        (one.address, bytes(one.state), one.spend_nano, dict(one.notes), one.units) for one in live.steps
    ]
    counts, times = live.counts(), (live.started_us, live.ended_us, live.priority)
    made.wait(2 * DAY_S)
    made.checkpoint()
    made.restart()
    stored = made.store.shelved_job(number)
    assert stored is not None
    farm = restore_shelved(made.core.farm, stored)
    (job,) = farm.jobs.values()
    found = [(one.address, bytes(one.state), one.spend_nano, dict(one.notes), one.units) for one in job.steps]
    assert found == wanted
    assert (job.counts(), (job.started_us, job.ended_us, job.priority)) == (counts, times)
    assert job.archived
    assert farm.nodes is made.core.farm.nodes
    invariants.check(made.core.farm)


def test_nothing_acts_on_what_is_gone_and_no_new_job_waits_for_it() -> None:
    made = rig()
    number = finished(made)
    made.wait(2 * DAY_S)
    made.checkpoint()
    for action in ("retry", "cancel", "priority", "archive"):
        with pytest.raises(UnknownName, match=f"J{number} is archived or deleted"):
            made.act(action, f"J{number}", "5")
    with pytest.raises(UnknownName, match="there is no job J99"):
        made.act("cancel", "J99")
    with pytest.raises(JobFileError, match=f"J{number} is archived or deleted .*leave it out"):
        made.submit(step(after=(AfterSpec(job=f"J{number}"),)))
    # What it wrote may be written by another job now.
    assert made.submit(step(out=True)) == 2


# -- for good ------------------------------------------------------------------------------------------


def test_an_account_that_comes_after_one_that_went_never_meets_it_in_the_order_of_work() -> None:
    rig = Rig()
    rig.join("ant", cores=2)
    rig.submit(step(frames="1-6"), user="ann")
    rig.act("cancel", "J1")
    delete(rig, 1)
    rig.submit(step(frames="1-6"), user="ben")
    rig.act("cancel", "J2")
    delete(rig, 2)
    rig.restart()
    rig.join("ant", cores=2)
    rig.submit(step(frames="1-6"), user="cy")
    rig.submit(step(frames="1-6"), user="dan")
    assert [lease.step.job.user for lease in rig.dispatch()] == ["cy", "dan"]


def test_a_deleted_job_is_gone_at_once_and_for_good() -> None:
    made = rig()
    number = finished(made, token="t1", project="film")
    spent = made.step("J1/beauty").spend_nano
    made.checkpoint()
    assert delete(made, number).message == "J1 (job) is deleted; its pictures stay"
    (told,) = [row for row in made.out.rows if isinstance(row, HistoryRow)]
    assert (told.job_id, told.what, told.new, told.who) == (1, "job job", "deleted", "wim")
    farm = made.core.farm
    assert (farm.jobs, farm.steps, list(farm.shelved.clearing)) == ({}, {}, [1])
    assert farm.shelved.deleted["film", "ann"].spend_nano == spent > 0
    with pytest.raises(UnknownName, match="archived or deleted"):
        delete(made, number)
    checked_restart(made)
    assert list(made.core.farm.shelved.clearing) == [1], "its logs may still be there"
    assert is_due(made.core.farm, made.now_us)
    made.checkpoint()
    assert not is_due(made.core.farm, made.now_us)
    assert made.store.load().ground == []
    checked_restart(made)
    assert made.submit(step(), token="t1") == 2, "nothing means it any more"
    assert made.core.farm.shelved.deleted["film", "ann"].jobs == 1


def test_a_job_of_the_archive_is_deleted_by_what_was_kept_of_it() -> None:
    made = rig()
    number = finished(made, token="t1")
    made.wait(2 * DAY_S)
    made.checkpoint()
    shelf = made.store.shelf(number)
    assert shelf is not None
    with pytest.raises(UnknownName):
        delete(made, number)
    delete(made, number, shelf)
    gone = made.core.farm.shelved
    assert (gone.archived, gone.deleted["", "ann"].jobs) == ({}, 1)
    for write in (lambda: None, made.checkpoint):
        write()
        checked_restart(made)
    assert made.store.shelf(number) is None
    assert made.submit(step(), token="t1") == 2


def test_only_a_job_at_rest_that_nobody_waits_for_can_be_deleted() -> None:
    made = rig()
    node = made.join()
    made.submit(step("sim", "1"))
    with pytest.raises(IllegalMove, match=r"J1 still has work \(cancel it first\)"):
        delete(made, 1)
    lease = made.lease()
    made.act("cancel", "J1")
    with pytest.raises(IllegalMove, match="J1 has not stopped yet: J1/sim@1"):
        delete(made, 1)
    made.release(lease)
    waits = AfterSpec(job="J1", step="sim", on_failure="wait")
    made.submit(step("comp", "1", after=(waits,)))
    with pytest.raises(IllegalMove, match="J2/comp waits for J1/sim"):
        delete(made, 1)
    made.act("cancel", "J2")
    made.bye(node)
    delete(made, 1)
    # It is at rest, and waits for nothing any more if somebody retries it.
    comp = made.step("J2/comp")
    assert (comp.needs, comp.unmet) == ([], 0)
    for write in (lambda: None, made.checkpoint):
        write()
        checked_restart(made)
    made.act("retry", "J2")
    assert made.states("J2/comp") == "Q"
    checked_restart(made)


def test_files_that_are_looked_at_keep_a_job_from_being_deleted() -> None:
    made = rig()
    made.submit(step(frames="1", out=True))
    made.act("cancel", "J1")
    made.act("mark-done", "J1")
    with pytest.raises(IllegalMove, match="still to be verified"):
        delete(made, 1)


def test_a_job_made_and_deleted_between_two_checkpoints_leaves_only_its_cost() -> None:
    made = rig()
    made.checkpoint()
    finished(made)
    delete(made, 1)
    checked_restart(made)
    made.checkpoint()
    checked_restart(made)
    assert made.core.farm.next_job == 2
    assert made.core.farm.shelved.spend_nano == 2 * RATE


def test_a_checkpoint_after_a_job_left_writes_nothing_of_it() -> None:
    made = rig()
    finished(made)
    made.wait(2 * DAY_S)
    made.checkpoint()
    assert [row.step_id for row in made.out.rows if isinstance(row, StepMapRow)] == [1]
    made.checkpoint()
    assert [row for row in made.out.rows if isinstance(row, StepMapRow | ShelfRow)] == []
    assert invariants.digest(load(made.store, made.settings)) == invariants.digest(made.core.farm)
