"""Run next, run last: what people put before or behind other work of the same owner.

What belongs here: the place a job gets among its user's jobs, a step among its job's steps, frames among
their step's frames.  What may not: the order itself (``farm.core.order``, ``farm.core.sequence``).

Nobody else gains or loses by it: projects and users get their shares and priorities count as before, and
only whose turn it is within one user's work of a project at a priority changes.  All of it is part of the
job's and the steps' records, so ``farm set`` takes it back exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from farm.core.apply import BLOCKED, QUEUED, apply_job_state, apply_step_edit
from farm.core.events import ActEvent
from farm.core.outcome import ActAnswer, Outcome
from farm.core.rows import HistoryRow, JobStateRow, StepEditRow
from farm.core.state import Farm, Job, Step
from farm.model.errors import IllegalMove
from farm.model.frames import FrameRange
from farm.model.jobs import StepSpec
from farm.model.orders import RANK_MOST

LAST = "last"
#: Longest text of ranges that is kept exactly: all who follow the job are sent it.
_EXACT = 2_000
#: Longest text that is kept at all.
_MOST = 20_000


def put_job(farm: Farm, job: Job, event: ActEvent, out: Outcome) -> None:
    """Puts a job before (behind) all others of its user in its project at its priority.

    Raises:
        IllegalMove: One of them has the farthest rank there is.
    """
    others = [
        other
        for other in farm.jobs.values()
        if other is not job
        and other.open_units
        and other.user == job.user
        and other.project == job.project
        and other.priority == job.priority
    ]
    whose = f"{job.user or 'nobody'}'s jobs{f' in {job.project}' if job.project else ''}"
    side = "after" if event.action == LAST else "before"
    where = f"{side} all others of {whose} at priority {job.priority}"
    rank = _beyond(job.rank, [other.rank for other in others], event.action, f"J{job.id}")
    if rank == job.rank:
        out.reply = ActAnswer(0, f"J{job.id} goes {where} already (rank {rank})")
        return
    reason = event.reason or f"to run {event.action}, says {event.who}"
    row = JobStateRow(
        farm.next_seq(), job.id, event.now_us, "rank", str(job.rank), str(rank), reason, event.who
    )
    out.rows.append(row)
    old = job.rank
    apply_job_state(farm, row)
    out.reply = ActAnswer(1, f"J{job.id} goes {where} (rank {rank}, had {old})")


def put_step(farm: Farm, step: Step, event: ActEvent, out: Outcome) -> None:
    """Puts a step before (behind) all others of its job that could run.

    Raises:
        IllegalMove: It is the only one; or another has the farthest rank there is.
    """
    job = step.job
    if len(job.steps) == 1:
        hint = f"`farm {event.action} J{job.id}` moves the job"
        if step.frames is not None:
            hint += f", `farm {event.action} {step.address}/FRAMES` frames"
        raise IllegalMove(f"{step.address} is the only step of J{job.id}", hint=hint)
    others = [other.rank for other in job.steps if other is not step and any(other.counts[:3])]
    where = f"{'after' if event.action == LAST else 'before'} all other steps of J{job.id}"
    rank = _beyond(step.rank, others, event.action, step.address)
    if rank == step.rank:
        out.reply = ActAnswer(0, f"{step.address} goes {where} already (rank {rank})")
        return
    old = step.rank
    spec = msgspec.structs.replace(step.spec, rank=rank)
    _store(farm, step, spec, f"rank of {step.spec.name}", str(old), str(rank), event, out)
    out.reply = ActAnswer(1, f"{step.address} goes {where} (rank {rank}, had {old})")


def put_frames(farm: Farm, step: Step, units: Iterable[int], event: ActEvent, out: Outcome) -> None:
    """Puts those of some frames that wait before (behind) all others of their step, in the order given.

    Of very scattered ones all that were named are kept: others that are rendered again go there too.

    Raises:
        IllegalMove: Too many ranges.
    """
    assert step.frames is not None
    units = tuple(units)
    waiting = [step.frames.frame_at(unit) for unit in units if step.state[unit] in (QUEUED, BLOCKED)]
    named = FrameRange.from_frames(waiting)
    if len(str(named)) > _EXACT:
        asked = FrameRange.from_frames([step.frames.frame_at(unit) for unit in units])
        named = min(named, asked, key=lambda ranges: len(str(ranges)))
    first, last = _without(step.spec.first, named), _without(step.spec.last, named)
    if event.action == LAST:
        last = _joined(last, str(named))
    else:
        first = _joined(str(named), first)
    if len(first) > _MOST or len(last) > _MOST:
        raise IllegalMove(
            f"too many separate frames of {step.address} would go {event.action}",
            hint=f"name a range, or take back what was said before: `farm set {step.address} first= last=`",
        )
    spec = msgspec.structs.replace(step.spec, first=first, last=last)
    count = len(waiting)
    words = f"{count} {'frame goes' if count == 1 else 'frames go'}"
    where = f"{'after' if event.action == LAST else 'before'} the others of {step.address}"
    if spec == step.spec:
        out.reply = ActAnswer(0, f"{words} {where} already")
        return
    what = f"{event.action} of {step.spec.name}"
    old, new = (step.spec.last, spec.last) if event.action == LAST else (step.spec.first, spec.first)
    _store(farm, step, spec, what, old, new, event, out)
    scouts = "; scout frames go before them while the job scouts" if step.job.scouting else ""
    out.reply = ActAnswer(count, f"{words} {where}{scouts}")


# ---------------------------------------------------------------- inside


def _beyond(mine: int, others: Sequence[int], action: str, address: str) -> int:
    """The rank that lies before (behind) others; its own where it lies there already.

    What comes later has rank 0 and goes behind what is next and before what is last.
    """
    if action == LAST:
        edge = max([0, *others])
        rank = mine if mine > edge else edge + 1
    else:
        edge = min([0, *others])
        rank = mine if mine < edge else edge - 1
    if abs(rank) > RANK_MOST:
        raise IllegalMove(
            f"{address} cannot go farther than rank {RANK_MOST}",
            hint="set the rank of what stands there to a smaller figure, e.g. `farm set J12 rank=0`",
        )
    return rank


def _store(
    farm: Farm,
    step: Step,
    spec: StepSpec,
    what: str,
    old: str,
    new: str,
    event: ActEvent,
    out: Outcome,
) -> None:
    """Gives a step its new record, and tells people."""
    reason = event.reason or f"to run {event.action}, says {event.who}"
    row = StepEditRow(
        farm.next_seq(), step.id, event.now_us, msgspec.json.encode(spec), reason, event.who
    )  # fmt: skip
    out.rows.append(row)
    apply_step_edit(farm, row)
    out.rows.append(HistoryRow(farm.next_seq(), event.now_us, step.job.id, what, old, new, reason, event.who))


def _without(text: str, named: FrameRange) -> str:
    """The frames of a range less some others, in order."""
    rest = FrameRange.parse(text).difference(named) if text else None
    return str(rest) if rest else ""


def _joined(one: str, other: str) -> str:
    return str(FrameRange.parse(f"{one},{other}")) if one and other else one or other
