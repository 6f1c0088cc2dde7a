"""User actions on work: pause, resume, cancel, requeue, retry, skip, mark done, priority, next, last, set,
archive.

Every action checks first and changes afterwards, so that a refused one leaves the state untouched.
"""

from __future__ import annotations

from farm.core import ahead
from farm.core.apply import (
    BLOCKED,
    CANCELED,
    CLOCK,
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    SKIPPED,
    apply_job_state,
)
from farm.core.dependencies import move, requeue, settle
from farm.core.edit import set_fields
from farm.core.events import ActEvent
from farm.core.looks import ask_verify, void_requests
from farm.core.outcome import ActAnswer, Outcome
from farm.core.pace import running_us
from farm.core.rows import HistoryRow, JobStateRow
from farm.core.scout import SCOUT, review
from farm.core.shelves import raise_gone
from farm.core.state import Farm, Job, Step
from farm.core.submit import writer_of
from farm.model.coretime import core_hours_text
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.frames import FrameRange, format_indices
from farm.model.states import AttemptKind, UnitState

Targets = list[tuple[Step, tuple[int, ...] | None]]


def on_act(farm: Farm, event: ActEvent, out: Outcome) -> None:
    """Performs an action.

    Raises:
        UnknownName: No such job, step or frame.
        IllegalMove: Nothing at that address may make this move.
        CallError: The value is wrong.
    """
    job = farm.jobs.get(event.job)
    if job is None:
        raise_gone(farm, event.job)
    if event.action == "set":
        set_fields(farm, job, event, out)
        return
    handler = _ON_JOB.get(event.action)
    if handler is not None:
        if event.step:
            raise CallError(f"{event.action} works on a whole job", hint=f"say J{job.id}")
        handler(farm, job, event, out)
        return
    unit_handler = _ON_UNITS.get(event.action)
    if unit_handler is None:
        raise UnknownName(f"there is no action {event.action!r}")
    targets = _still_wanted(find_units(job, event.step, event.frames))
    unit_handler(farm, job, targets, event, out)


def find_units(job: Job, step_name: str, frames: str) -> Targets:
    """The steps and unit indices an address names; None instead of indices = the whole step.

    Raises:
        UnknownName: No such step, or frames the step does not have.
    """
    if not step_name:
        return [(step, None) for step in job.steps]
    step = job.step(step_name)
    if step is None:
        names = ", ".join(other.spec.name for other in job.steps)
        raise UnknownName(f"J{job.id} has no step {step_name!r}", hint=f"it has {names}")
    if not frames:
        return [(step, None)]
    if step.frames is None:
        raise UnknownName(f"{step.address} is one unit without frames", hint=f"say {step.address}")
    wanted = FrameRange.parse(frames)
    missing = wanted.difference(step.frames)
    if len(missing):
        raise UnknownName(f"{step.address} has no frames {missing}", hint=f"it has {step.frames}")
    index_of = step.frames.index_of
    return [(step, tuple(index_of(frame) for frame in wanted))]


def _still_wanted(targets: Targets) -> Targets:
    """The same without frames that were taken out of their step.

    Raises:
        UnknownName: Such a frame is named.
    """
    found: Targets = []
    for step, units in targets:
        if step.wanted is None or step.frames is None:
            found.append((step, units))
            continue
        wanted = step.wanted_units()
        if units is not None:
            gone = sorted(set(units) - set(wanted))
            if gone:
                frames = format_indices(step.frames, gone)
                raise UnknownName(
                    f"frames {frames} of {step.address} are not wanted any more",
                    hint=f"it has {step.spec.frames}; `farm set {step.address} frames=...` takes them back",
                )
            wanted = units
        found.append((step, wanted))
    return found


def _state_row(
    farm: Farm, job: Job, event: ActEvent, what: str, old: str, new: str, reason: str, out: Outcome
) -> None:
    row = JobStateRow(farm.next_seq(), job.id, event.now_us, what, old, new, reason, event.who)
    out.rows.append(row)
    apply_job_state(farm, row)


def _pause(farm: Farm, job: Job, event: ActEvent, out: Outcome) -> None:
    reason = event.reason or f"paused by {event.who}"
    if not job.paused or job.paused_by in (CLOCK, SCOUT):
        # A pause of somebody's lasts: no clock ends it.
        _state_row(farm, job, event, "paused", "paused" if job.paused else "", "paused", reason, out)
    running = job.counts()[RUNNING]
    out.reply = ActAnswer(
        1, f"J{job.id} is paused" + (f"; {running} running units finish" if running else "")
    )


def _resume(farm: Farm, job: Job, event: ActEvent, out: Outcome) -> None:
    if job.paused:
        _state_row(farm, job, event, "paused", "paused", "", event.reason or f"resumed by {event.who}", out)
        review(farm, job, event.now_us, out)
    if job.paused:
        out.reply = ActAnswer(1, f"J{job.id} waits: {job.reason}")
    else:
        out.reply = ActAnswer(1, f"J{job.id} goes on")


def _priority(farm: Farm, job: Job, event: ActEvent, out: Outcome) -> None:
    # ``int`` takes the digits of any script, which nobody can tell apart from letters.
    text = event.value
    priority = int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else -1
    if not 0 <= priority <= 100:
        raise CallError(f"a priority is 0 to 100, not {event.value!r}")
    old = job.priority
    if priority != old:
        reason = event.reason or f"set by {event.who}"
        _state_row(farm, job, event, "priority", str(old), str(priority), reason, out)
    out.reply = ActAnswer(1, f"J{job.id} has priority {priority} (had {old})")


def _archive(farm: Farm, job: Job, event: ActEvent, out: Outcome) -> None:
    if job.open_units:
        raise IllegalMove(f"J{job.id} still has work", hint="cancel it first")
    if not job.archived:
        _state_row(farm, job, event, "archived", "", "archived", event.reason or f"by {event.who}", out)
    out.reply = ActAnswer(1, f"J{job.id} is archived")


def _move_all(
    farm: Farm,
    targets: Targets,
    moves: tuple[tuple[int, int], ...],
    event: ActEvent,
    reason: str,
    out: Outcome,
    *,
    fresh: bool = False,
) -> int:
    """Makes the moves at the targets, then settles.

    A move to queued lands in blocked while a need is unmet.
    """
    total = 0
    olds = tuple(old for old, _ in moves)
    for step, units in targets:
        void_requests(farm, step, units, olds, event.now_us, out)
        for old, new in moves:
            mover = requeue if new == QUEUED else move
            total += mover(farm, step, units, old, new, reason, event.who, event.now_us, out, fresh=fresh)
    for step, _ in targets:
        settle(farm, step, event.now_us, out)
    return total


def _possible(targets: Targets, olds: tuple[int, ...], verb: str) -> None:
    """Raises IllegalMove when no unit at the targets is in one of these states."""
    seen: set[int] = set()
    for step, units in targets:
        present = (
            {state for state, count in enumerate(step.counts) if count}
            if units is None
            else {step.state[unit] for unit in units}
        )
        if present & set(olds):
            return
        seen |= present
    words = " and ".join(UnitState(state).word for state in sorted(seen)) or "nothing"
    can = ", ".join(UnitState(state).word for state in olds)
    raise IllegalMove(f"nothing there can be {verb}: all is {words}", hint=f"only {can} units can")


def _cancel(farm: Farm, job: Job, targets: Targets, event: ActEvent, out: Outcome) -> None:
    named = bool(event.frames)
    olds = (RUNNING, QUEUED, BLOCKED, FAILED) if named else (RUNNING, QUEUED, BLOCKED)
    _possible(targets, olds, "canceled")
    reason = event.reason or f"canceled by {event.who}"
    count = _move_all(farm, targets, tuple((old, CANCELED) for old in olds), event, reason, out)
    out.reply = ActAnswer(count, f"{count} units canceled")


def _retry(farm: Farm, job: Job, targets: Targets, event: ActEvent, out: Outcome) -> None:
    named = bool(event.frames) or (bool(event.step) and targets[0][0].frames is None)
    olds = (FAILED, CANCELED, SKIPPED, DONE) if named else (FAILED, CANCELED)
    _possible(targets, olds, "rendered again")
    if not job.open_units:
        for step, _ in targets:
            for output in step.spec.outputs:
                other = writer_of(farm, output.pattern, step.frames, job)
                if other is not None:
                    raise IllegalMove(
                        f"{other.address} is writing {output.pattern} now", hint="wait for it, or cancel it"
                    )
    reason = event.reason or f"to be rendered again, says {event.who}"
    if job.paused and job.paused_by == "farm":
        _state_row(farm, job, event, "paused", "paused", "", reason, out)
    count = _move_all(farm, targets, tuple((old, QUEUED) for old in olds), event, reason, out, fresh=True)
    out.reply = ActAnswer(count, f"{count} units will be rendered again")


def _requeue(farm: Farm, job: Job, targets: Targets, event: ActEvent, out: Outcome) -> None:
    """Stops what runs and queues it again; no try is spent.

    As when something that runs is canceled, a result that comes after this counts for nothing, also of a
    frame whose file is being moved to its place: it is leased again only once its attempt is known to have
    stopped, and whoever is leased it then writes the file that counts.
    """
    _possible(targets, (RUNNING,), "stopped")
    lost_us = sum(_lost_us(step, units, event.now_us) for step, units in targets)
    reason = event.reason or f"stopped and queued again by {event.who}"
    count = _move_all(farm, targets, ((RUNNING, QUEUED),), event, reason, out)
    frames = f"{count} {'unit is' if count == 1 else 'units are'} stopped and queued again"
    out.reply = ActAnswer(count, f"{frames}; {core_hours_text(lost_us)} lost", lost_us)


def _lost_us(step: Step, units: tuple[int, ...] | None, now_us: int) -> int:
    """What stopping what runs of some units throws away, in core-microseconds.

    Of an attempt that ends all that got no frame done; of one that goes on with others the frame it is at.
    """
    chosen = None if units is None else set(units)
    total = 0
    for attempt in step.attempts.values():
        if attempt.kind is AttemptKind.VERIFY or not attempt.open:
            continue
        hit = [unit for unit in attempt.open if chosen is None or unit in chosen]
        us = 0
        if len(hit) == len(attempt.open):
            us = now_us - attempt.started_us - attempt.useful_us
        elif hit and hit[0] == next(iter(attempt.open)):
            us = int(running_us(attempt, now_us))
        total += max(0, us) * attempt.cores
    return total


def _put(farm: Farm, job: Job, targets: Targets, event: ActEvent, out: Outcome) -> None:
    """Run next, run last."""
    _possible(targets, (BLOCKED, QUEUED), f"run {event.action}")
    step, units = targets[0]
    if not event.step:
        ahead.put_job(farm, job, event, out)
    elif event.frames and units is not None:
        ahead.put_frames(farm, step, units, event, out)
    else:
        ahead.put_step(farm, step, event, out)


def _skip(farm: Farm, job: Job, targets: Targets, event: ActEvent, out: Outcome) -> None:
    olds = (BLOCKED, QUEUED, FAILED)
    _possible(targets, olds, "skipped")
    reason = event.reason or f"skipped by {event.who}"
    count = _move_all(farm, targets, tuple((old, SKIPPED) for old in olds), event, reason, out)
    out.reply = ActAnswer(count, f"{count} units skipped")


def _mark_done(farm: Farm, job: Job, targets: Targets, event: ActEvent, out: Outcome) -> None:
    olds = (BLOCKED, QUEUED, RUNNING, FAILED, SKIPPED, CANCELED)
    _possible(targets, olds, "marked done")
    total = 0
    for step, units in targets:
        chosen = range(step.units) if units is None else units
        asked = tuple(unit for unit in chosen if step.state[unit] != DONE)
        if asked:
            ask_verify(farm, step, asked, "mark-done", event.who, event.now_us, out)
            total += len(asked)
    reason = event.reason or f"{event.who} says the files are there"
    out.rows.append(
        HistoryRow(
            farm.next_seq(), event.now_us, job.id, "mark-done", "", f"{total} units", reason, event.who
        )
    )
    out.reply = ActAnswer(total, f"{total} units are marked done once their files are verified")


_ON_JOB = {"pause": _pause, "resume": _resume, "priority": _priority, "archive": _archive}
_ON_UNITS = {
    "cancel": _cancel,
    "requeue": _requeue,
    "retry": _retry,
    "skip": _skip,
    "mark-done": _mark_done,
    "next": _put,
    "last": _put,
}
