"""Jobs leave memory: into the archive by age, or for good when somebody deletes them.

What belongs here: which jobs may leave, the rows that tell of it, and what forgetting a job means for all
that pointed at it.  What may not: reading the archive (the broker does, from the store).

A job goes into the archive at a checkpoint only: its maps are in the store then and no row of it will ever
follow, so a restart need not know it.  What it cost stays in the sums of ``farm.shelved``, its token goes on
meaning it, and its number and those of its steps are never given again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from farm.core.apply import CLOCK, token_key, units_text
from farm.core.events import CheckpointEvent, DeleteEvent
from farm.core.outcome import ActAnswer, Outcome
from farm.core.rows import DeleteRow, HistoryRow, ShelfRow
from farm.core.shares import leave_accounts
from farm.core.state import Farm, Job, Step
from farm.model.errors import IllegalMove, UnknownName
from farm.model.states import UnitState

DONE, FAILED = UnitState.DONE.value, UnitState.FAILED.value
#: Most jobs that go into the archive at one checkpoint, so that none takes long.
SHELVE_MOST = 1_000
_DAY_US = 86_400_000_000


# ---------------------------------------------------------------- into the archive


def is_due(farm: Farm, now_us: int) -> bool:
    """Whether a checkpoint now would put a job into the archive, or clear a deleted one out of the store."""
    if farm.shelved.clearing:
        return True
    verified = _looked_at(farm)
    return any(_may_leave(farm, job, now_us, verified) for job in reversed(farm.jobs.values()))


def shelve(farm: Farm, event: CheckpointEvent, out: Outcome) -> None:
    """Puts the jobs into the archive that have been at rest for long enough.

    The caller has written the maps of all steps that changed.
    """
    verified = _looked_at(farm)
    gone: set[int] = set()
    count = 0
    # The newest first: who waits for another job came after it, and must go before it.
    for job in list(reversed(farm.jobs.values())) if farm.settings.archive_after_us else ():
        if count == SHELVE_MOST:
            break
        if not _may_leave(farm, job, event.now_us, verified):
            continue
        count += 1
        gone.update(step.id for step in job.steps)
        row = _shelf_row(job, farm.next_seq(), event.now_us)
        days = (event.now_us - _rests_since(job)) / _DAY_US
        reason = f"at rest for {days:.0f} days" if days >= 2 else f"at rest for {days * 24:.3g} hours"
        out.rows.append(row)
        told = HistoryRow(
            farm.next_seq(), event.now_us, job.id, "job", row.state, "archived", reason, "farm"
        )  # fmt: skip
        out.rows.append(told)
        apply_shelf(farm, row, lost=False)
    _forget_lost(farm, gone)
    farm.shelved.clearing.clear()


def _looked_at(farm: Farm) -> frozenset[int]:
    """Steps of which somebody asked to have files looked at."""
    return frozenset(request.step_id for request in farm.verify.values())


def _rests_since(job: Job) -> int:
    return job.ended_us or job.submitted_us


def _may_leave(farm: Farm, job: Job, now_us: int, verified: frozenset[int]) -> bool:
    after_us = farm.settings.archive_after_us
    return (
        bool(after_us)
        and job.open_units == 0
        and now_us - _rests_since(job) >= after_us
        and not any(step.attempts or step.id in verified for step in job.steps)
        # Also one at rest may be retried, and waits again then.
        and not any(edge.waiter.job is not job for step in job.steps for edge in step.dependants)
    )


def _shelf_row(job: Job, seq: int, now_us: int) -> ShelfRow:
    counts = job.counts()
    return ShelfRow(
        seq,
        job.id,
        now_us,
        job.spec.name,
        job.user,
        job.project,
        job.priority,
        job.spec.token,
        job.shown().value,
        job.reason or failure_reason(job),
        job.submitted_us,
        job.started_us,
        job.ended_us,
        sum(counts) - sum(step.left_out for step in job.steps),
        counts[DONE],
        counts[FAILED],
        sum(step.spend_nano for step in job.steps),
        sum(step.waste_nano for step in job.steps),
        sum(step.busy_us for step in job.steps),
        units_text(step.id for step in job.steps),
    )


def failure_reason(job: Job) -> str:
    """Why the first frame that failed did, "" when none has."""
    for step in job.steps:
        if step.counts[FAILED]:
            unit = step.state.find(FAILED)
            note = step.notes.get(unit)
            frame = step.frame_of(unit)
            where = f"{step.address}/{frame}" if frame is not None else step.address
            return f"{where}: {note.reason}" if note is not None else f"{where} has failed"
    return ""


def apply_shelf(farm: Farm, row: ShelfRow, *, lost: bool = True) -> None:
    """A job is in the archive from here on.

    Args:
        farm: The state.
        row: What is kept of it.
        lost: Forget its lost attempts, too; a caller with many jobs does that once.
    """
    job = farm.jobs.get(row.job_id)
    if job is not None:
        forget(farm, job, row.at_us)
        if lost:
            _forget_lost(farm, {step.id for step in job.steps})
    if row.token:
        farm.tokens[token_key(row.user, row.token)] = row.job_id
    farm.shelved.archive(row.project, row.user, row)


# ---------------------------------------------------------------- for good


def on_delete(farm: Farm, event: DeleteEvent, out: Outcome) -> None:
    """Deletes a job.

    Raises:
        UnknownName: There is no such job.
        IllegalMove: It still has work, something still runs, or another job waits for it.
    """
    job, shelf = farm.jobs.get(event.job), event.shelf
    if job is not None:
        _refuse_delete(farm, job)
        shelf = _shelf_row(job, 0, event.now_us)
    elif shelf is None or shelf.job_id != event.job:
        raise_gone(farm, event.job)
    row = DeleteRow(
        farm.next_seq(),
        shelf.job_id,
        event.now_us,
        shelf.name,
        shelf.user,
        shelf.project,
        shelf.token,
        int(job is None),
        shelf.done,
        shelf.spend_nano,
        shelf.waste_nano,
        shelf.busy_us,
        event.reason or f"deleted by {event.who}",
        event.who,
    )
    out.rows.append(row)
    what, seq = f"job {row.name}", farm.next_seq()
    out.rows.append(
        HistoryRow(seq, event.now_us, row.job_id, what, shelf.state, "deleted", row.reason, event.who)
    )
    apply_delete(farm, row)
    out.reply = ActAnswer(1, f"J{row.job_id} ({row.name}) is deleted; its pictures stay")


def _refuse_delete(farm: Farm, job: Job) -> None:
    if job.open_units:
        raise IllegalMove(f"J{job.id} still has work", hint="cancel it first")
    looked = _looked_at(farm)
    for step in job.steps:
        if step.attempts:
            running = ", ".join(attempt.address for attempt in step.attempts.values())
            raise IllegalMove(f"J{job.id} has not stopped yet: {running}", hint="wait until it has")
        if step.id in looked:
            raise IllegalMove(f"files of {step.address} are still to be verified", hint="wait for that")
        for edge in step.dependants:
            waiter = edge.waiter
            if waiter.job is not job and waiter.job.open_units:
                raise IllegalMove(f"{waiter.address} waits for {step.address}", hint="cancel that one first")


def apply_delete(farm: Farm, row: DeleteRow) -> None:
    """A job is gone for good; what it cost is not."""
    job = farm.jobs.get(row.job_id)
    if job is not None:
        forget(farm, job, row.at_us)
        _forget_lost(farm, {step.id for step in job.steps})
    key = token_key(row.user, row.token)
    if farm.tokens.get(key) == row.job_id:
        del farm.tokens[key]
    farm.shelved.delete(row.project, row.user, row, shelved=bool(row.shelved))
    farm.shelved.clearing[row.job_id] = None


def raise_gone(farm: Farm, number: int) -> NoReturn:
    """Says why a job is not in memory: there never was one, or it is archived or deleted.

    Raises:
        UnknownName: Always.
    """
    if 0 < number < farm.next_job:
        raise UnknownName(f"J{number} is archived or deleted", hint=f"see `farm job J{number}`")
    raise UnknownName(f"there is no job J{number}")


# ---------------------------------------------------------------- forgetting


def forget(farm: Farm, job: Job, at_us: int) -> None:
    """Takes a job at rest out of memory, with everything that points at it; lost attempts apart."""
    for step in job.steps:
        _forget_step(farm, step)
    if job.paused_by == CLOCK:
        farm.starts = [entry for entry in farm.starts if entry[1] != job.id]
    leave_accounts(farm, job, at_us)
    del farm.jobs[job.id]
    farm.scouting.pop(job.id, None)


def _forget_step(farm: Farm, step: Step) -> None:
    if step.line is not None and step.shape is not None:
        # The heap passes over it when it comes up.
        step.line = None
        step.shape.queue.look_again()
    for output in step.spec.outputs:
        writers = [other for other in farm.patterns.get(output.pattern, ()) if other is not step]
        if writers:
            farm.patterns[output.pattern] = writers
        else:
            farm.patterns.pop(output.pattern, None)
    for edge in step.needs:
        need = edge.need
        if need.job is not step.job:
            need.dependants.remove(edge)
            need.watched = any(one.by_frame or one.on_failure != "wait" for one in need.dependants)
    for edge in step.dependants:
        waiter = edge.waiter
        if waiter.job is not step.job:
            waiter.needs.remove(edge)
            if edge.by_frame:
                waiter.frame_needs.remove(edge)
            else:
                waiter.unmet -= not edge.met
    farm.passed.pop(step.id, None)
    farm.outbid.pop(step.id, None)
    kept = farm.reservations.pop(step.id, None)
    if kept is not None and (node := farm.nodes.get(kept.node_id)) is not None and node.reserved is kept:
        node.reserved = None
    farm.due.parked.pop(step.id, None)
    del farm.steps[step.id]


def _forget_lost(farm: Farm, steps: Iterable[int]) -> None:
    """Forgets attempts that ended without their agent's word: files kept of them are discarded if offered."""
    gone = frozenset(steps)
    if gone and farm.lost:
        farm.lost = {number: lost for number, lost in farm.lost.items() if lost.step_id not in gone}
