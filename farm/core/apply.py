"""Applies stored rows to the state: the one place where units, attempts and meters change.

Live events build a row and apply it; a restart applies the same rows again.  So what is replayed is what
happened.  Nothing here decides anything, and nothing here depends on the order of a dict that a restart
would build differently.  Moves of many units are applied by ``farm.core.apply_moves``, results and the end of
attempts by ``farm.core.apply_results``, rows of nodes and meters by ``farm.core.apply_nodes``.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from farm.core import meter, openings, shares
from farm.core.rows import (
    JobRow,
    JobStateRow,
    LeaseRow,
    SpecRow,
    StepEditRow,
    StepRow,
    VerifyRow,
)
from farm.core.sequence import scout_units
from farm.core.state import Attempt, Farm, Job, Node, Shape, Step, VerifyRequest
from farm.model.frames import FrameRange
from farm.model.jobs import AfterSpec, JobSpec, StepSpec
from farm.model.moment import moment_text, read_moment
from farm.model.outputs import PictureSpec
from farm.model.states import AttemptKind, NodeState, UnitState

BLOCKED, QUEUED, RUNNING, DONE, FAILED, SKIPPED, CANCELED = (state.value for state in UnitState)
_VERIFY = AttemptKind.VERIFY
_NO_TOKENS: dict[str, int] = {}
_RENDER = AttemptKind.RENDER
_COPY = AttemptKind.COPY
_KINDS = tuple(AttemptKind)
_ONLINE = NodeState.ONLINE
_SPECS = msgspec.msgpack.Decoder(tuple[PictureSpec | None, ...])
_JOB = msgspec.json.Decoder(JobSpec)
_STEP = msgspec.json.Decoder(StepSpec)
#: Who pauses a job until its time, and who resumes it then.
CLOCK = "clock"


def units_text(units: Iterable[int]) -> str:
    """Unit indices as compact text."""
    units = tuple(units)
    return str(units[0]) if len(units) == 1 else str(FrameRange.from_frames(units))


def units_of(text: str) -> tuple[int, ...]:
    """Unit indices of compact text."""
    return (int(text),) if text.isdecimal() else tuple(FrameRange.parse(text))


# ---------------------------------------------------------------- jobs and steps


def apply_job(farm: Farm, row: JobRow, spec: JobSpec | None = None) -> None:
    """Adds a job without steps."""
    job = Job(row.id, spec or _JOB.decode(row.spec), row.spec, row.submitted_us)
    job.user, job.project, job.priority = row.user, row.project, row.priority
    job.paused = bool(row.paused)
    if job.paused:
        job.paused_by, job.reason = row.user, "submitted paused"
    elif job.start_after and read_moment(job.start_after) > row.submitted_us:
        job.paused, job.paused_by, job.reason = True, CLOCK, starts_text(job.start_after)
        _note_start(farm, job)
    if not farm.share_origin_us:
        farm.share_origin_us = row.submitted_us
    shares.join_accounts(farm, job)
    farm.jobs[row.id] = job
    if job.scouting:
        farm.scouting[job.id] = job
    farm.next_job = max(farm.next_job, row.id + 1)
    if row.token:
        farm.tokens[token_key(row.user, row.token)] = row.id


def starts_text(start_after: str) -> str:
    """Why a job that starts later waits."""
    return f"starts {moment_text(read_moment(start_after))}"


def _note_start(farm: Farm, job: Job) -> None:
    """Keeps the list of jobs that wait for their time in step with the job."""
    if farm.starts:
        farm.starts = [entry for entry in farm.starts if entry[1] != job.id]
    if job.paused and job.paused_by == CLOCK and job.start_after:
        insort(farm.starts, (read_moment(job.start_after), job.id))


def _respec(job: Job, **changes: Any) -> None:
    """Keeps the job file in step with what was changed of the job: it may be submitted again."""
    job.spec = msgspec.structs.replace(job.spec, **changes)
    job.source = msgspec.json.encode(job.spec)


def token_key(user: str, token: str) -> str:
    """Client tokens count per user."""
    return f"{user}\0{token}"


def apply_step(farm: Farm, row: StepRow) -> None:
    """Adds a step to its job, with its dependencies and its place in the queue."""
    job = farm.jobs[row.job_id]
    step = Step(row.id, job, row.idx, row.app, bool(row.whole), UnitState(row.state))
    step.seq = row.seq
    job.steps.append(step)
    if row.state < 3:
        job.open_units += step.units
    farm.steps[row.id] = step
    farm.next_step = max(farm.next_step, row.id + 1)
    for need in step.spec.needs():
        for other in needed_steps(farm, job, need):
            step.wait_for(other, need)
    if job.spec.scout:
        step.scouts = scout_units(step, job.spec.scout)
    for output in step.spec.outputs:
        farm.patterns.setdefault(output.pattern, []).append(step)
    step.shape = shape_of(farm, step)
    requeue_shape(farm, step)


def needed_steps(farm: Farm, job: Job, need: AfterSpec) -> list[Step]:
    """The steps a need of a job's step names: one, or all of another job."""
    number = need.job_number()
    other = farm.jobs.get(number) if number else job
    steps = other.steps if other is not None else []
    return [step for step in steps if not need.step or step.spec.name == need.step]


def shape_of(farm: Farm, step: Step) -> Shape:
    """The shape a step belongs to, made when it is the first of its kind."""
    spec, need = step.spec, step.resources
    key = (
        need.key(),
        step.limits,
        frozenset(spec.pools),
        tuple(sorted(spec.attributes.items())),
        spec.site,
        spec.renderer,
        bool(spec.pre or spec.post),
        step.app,
        spec.version,
        step.whole,
    )
    shape = farm.shapes.get(key)
    if shape is None:
        shape = farm.shapes[key] = Shape(farm.next_shape, key, step)
        farm.next_shape += 1
    return shape


def requeue_shape(farm: Farm, step: Step) -> None:
    """Puts a step back in its shape's queue if it has leasable units (priority or pause changed)."""
    if step.shape is not None and step.leasable():
        step.shape.push(farm, step)


def apply_job_state(farm: Farm, row: JobStateRow) -> None:
    """Priority, rank, pause, archive, project, cap, name, start, end of scouting."""
    job = farm.jobs[row.job_id]
    if row.what == "priority":
        job.priority = int(row.new)
        _respec(job, priority=job.priority)
    elif row.what == "rank":
        job.rank = int(row.new)
        _respec(job, rank=job.rank)
        for step in job.steps:
            step.leave_line()
    elif row.what == "project":
        job.project = row.new
        _respec(job, project=row.new)
        shares.join_accounts(farm, job)
    elif row.what == "max_cores":
        job.max_cores = int(row.new)
        _respec(job, max_cores=job.max_cores)
        shares.wake(farm, job.capped)
    elif row.what == "name":
        _respec(job, name=row.new)
    elif row.what == "start_after":
        job.start_after = row.new
        _respec(job, start_after=row.new or None)
        _note_start(farm, job)
    elif row.what == "scout":
        job.scouting = False
        farm.scouting.pop(job.id, None)
    elif row.what == "paused":
        job.paused = row.new == "paused"
        job.paused_by = row.who if job.paused else ""
        job.reason = row.reason if job.paused else ""
        _note_start(farm, job)
    elif row.what == "archived":
        job.archived = row.new == "archived"
    for step in job.steps:
        requeue_shape(farm, step)


def grown(frames: FrameRange, wanted: FrameRange) -> FrameRange:
    """All frames, and after them those that are wanted and new: positions keep their meaning.

    Raises:
        FrameRangeError: They are too many.
    """
    added = wanted.difference(frames)
    return FrameRange.parse(f"{frames},{added}") if len(added) else frames


def apply_step_edit(farm: Farm, row: StepEditRow) -> None:
    """Gives a step its new record: units are appended, its needs change; attempts keep what they hold.

    New units start blocked; rows of their own queue them, and cancel those that are not wanted any more.
    """
    step = farm.steps[row.step_id]
    job, spec = step.job, _STEP.decode(row.spec)
    steps = [*job.spec.steps]
    steps[step.index] = spec
    _respec(job, steps=tuple(steps))
    step.spec, step.resources, step.limits = spec, spec.resources, tuple(sorted(spec.limits.items()))
    step.last_us, step.dirty = row.at_us, True
    step.sequence, step.sequence_of, step.cursor = None, None, 0
    step.looked.clear()
    if step.rank != spec.rank:
        step.rank = spec.rank
        step.leave_line()
    wanted = spec.frame_range()
    if wanted is not None and step.frames is not None:
        _apply_frames(step, wanted, row.at_us)
    shape = shape_of(farm, step)
    if shape is not step.shape:
        if step.shape is not None:
            step.shape.queue.look_again()
        step.shape, step.line = shape, None
        farm.passed.pop(step.id, None)
    requeue_shape(farm, step)


def _apply_frames(step: Step, wanted: FrameRange, at_us: int) -> None:
    """Appends units for frames that are new, and notes which frames are wanted now."""
    assert step.frames is not None
    frames = grown(step.frames, wanted)
    more = len(frames) - step.units
    if more:
        step.frames, step.units = frames, len(frames)
        step.state.extend(bytes([BLOCKED]) * more)
        step.counts[BLOCKED] += more
        if step.before is not None:
            step.before += bytes([BLOCKED]) * more
        step.job.open_units += more
        step.job.note_end(at_us)
        if step.tries is not None:
            step.tries.extend(bytes(more))
        step.check_existing = step.spec.existing == "skip"
    step.wanted = None if len(wanted) == len(frames) else wanted
    if step.job.scouting:
        step.scouts = scout_units(step, step.job.spec.scout)
    step.count_left_out()


# ---------------------------------------------------------------- leases


def apply_lease(farm: Farm, row: LeaseRow) -> None:
    """Opens an attempt: its units run, its resources are taken, its node's meter is cut."""
    begin(farm, row, farm.steps[row.step_id], farm.nodes[row.node_id], units_of(row.units))


def begin(farm: Farm, row: LeaseRow, step: Step, node: Node, units: tuple[int, ...]) -> None:
    """``apply_lease``, for who has at hand what the row names."""
    at_us = row.at_us
    if at_us > node.metered_us:
        meter.advance(node, at_us)
    attempt = reopen(farm, row, step, node, units)
    kind = attempt.kind
    step.dirty = True
    step.last_us = at_us
    if kind is _VERIFY:
        attempt.verify = farm.verify.get(row.gang)
        if attempt.verify is not None:
            attempt.verify.leased = True
        return
    shares.charge_lease(farm, attempt, at_us)
    if kind is _COPY:
        # Its unit runs already, and stays owed by the attempt that had it first.
        step.copies[units[0]] = attempt
        return
    for unit in units:
        step.run(unit)
    if not step.job.started_us:
        step.job.started_us = at_us


class Held(Protocol):
    """What an attempt holds besides its lease row."""

    @property
    def disk_mib(self) -> int: ...
    @property
    def tokens(self) -> dict[str, int]: ...
    @property
    def limits(self) -> tuple[tuple[str, int], ...]: ...


def reopen(
    farm: Farm, row: LeaseRow, step: Step, node: Node, units: tuple[int, ...], held: Held | None = None
) -> Attempt:
    """Makes the attempt of a lease and takes its resources; moves no unit and cuts no meter.

    Args:
        farm: The state.
        row: The lease.
        step, node, units: What the row names.
        held: What a checkpoint says it holds; None = what its step asks for now.
    """
    number, kind, cores, ram_mib = row.id, _KINDS[row.kind], row.cores, row.ram_mib
    if held is not None:
        disk_mib, tokens, limits = held.disk_mib, held.tokens, held.limits
    elif kind is _RENDER or kind is _COPY:
        need = step.resources
        disk_mib, tokens, limits = need.disk_mib, need.tokens, step.limits
    else:
        # What is adopted was rendered already, and is only moved to its place; a look needs no licence.
        disk_mib, tokens, limits = 0, _NO_TOKENS, () if kind is _VERIFY else step.limits
    attempt = Attempt(
        number,
        row.no,
        row.nonce,
        kind,
        step,
        node,
        units,
        {units[0]: None} if len(units) == 1 else dict.fromkeys(units),
        cores,
        ram_mib,
        row.share_ppm,
        row.at_us,
        disk_mib,
        tokens,
        limits,
    )
    if row.gpus:
        attempt.gpus = tuple(int(index) for index in row.gpus.split(","))
        node.gpus_free = [index for index in node.gpus_free if index not in attempt.gpus]
    node.cores_free -= cores
    node.ram_free -= ram_mib
    if disk_mib:
        node.disk_free -= disk_mib
    if tokens:
        for name, count in tokens.items():
            node.tokens_free[name] = node.tokens_free.get(name, 0) - count
    node.attempts[number] = farm.attempts[number] = step.attempts[number] = attempt
    job = step.job
    job.cores += cores
    job.holder.cores += cores
    if limits:
        shares.take_limits(farm, attempt)
    openings.settle(farm, node)
    if number >= farm.next_attempt:
        farm.next_attempt = number + 1
    if attempt.no > step.attempt_no:
        step.attempt_no = attempt.no
    return attempt


def find_copies(farm: Farm) -> None:
    """Tells, once all attempts are open again, which are second copies: those whose unit another one owes."""
    for copy in farm.attempts.values():
        if copy.kind is _COPY:
            for unit in copy.open:
                if any(unit in other.open for other in copy.step.attempts.values() if _owes(other, copy)):
                    copy.step.copies[unit] = copy


def _owes(other: Attempt, copy: Attempt) -> bool:
    return other is not copy and other.kind is not _VERIFY


# ---------------------------------------------------------------- the rest


def apply_spec(farm: Farm, row: SpecRow) -> None:
    """Sets or drops the specification of a step's pictures."""
    step = farm.steps[row.step_id]
    step.specs = _SPECS.decode(row.specs) if row.specs else None
    step.spec_holder = None
    step.granted.clear()
    step.dirty = True


def apply_verify(farm: Farm, row: VerifyRow) -> None:
    """Adds, narrows or settles a request to verify existing files."""
    known = farm.verify.get(row.id)
    if row.done:
        farm.verify.pop(row.id, None)
        for attempt in farm.steps[row.step_id].attempts.values():
            if attempt.verify is not None and attempt.verify is known:
                attempt.verify = None
    elif known is not None:
        known.units = units_of(row.units)
    else:
        farm.verify[row.id] = VerifyRequest(row.id, row.step_id, units_of(row.units), row.purpose, row.who)
