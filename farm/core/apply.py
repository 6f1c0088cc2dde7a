"""Applies stored rows to the state: the one place where units, attempts and meters change.

Live events build a row and apply it; a restart applies the same rows again.  So what is replayed is what
happened.  Nothing here decides anything, and nothing here depends on the order of a dict that a restart
would build differently.  Rows of nodes and meters are applied by ``farm.core.apply_nodes``.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from farm.core import meter
from farm.core.rows import (
    BulkRow,
    JobRow,
    JobStateRow,
    LeaseRow,
    ResultRow,
    SpecRow,
    StepRow,
    VerifyRow,
)
from farm.core.state import Attempt, Farm, Job, LostAttempt, Shape, Step, VerifyRequest
from farm.model.failures import RULES
from farm.model.frames import FrameRange
from farm.model.ids import attempt_folder
from farm.model.jobs import JobSpec
from farm.model.outputs import PictureSpec
from farm.model.states import AttemptKind, FailureClass, NodeState, UnitState

BLOCKED, QUEUED, RUNNING, DONE, FAILED, SKIPPED, CANCELED = (state.value for state in UnitState)
_VERIFY = AttemptKind.VERIFY
_RENDER = AttemptKind.RENDER
_KINDS = tuple(AttemptKind)
_ONLINE = NodeState.ONLINE
_SPECS = msgspec.msgpack.Decoder(tuple[PictureSpec | None, ...])
_JOB = msgspec.json.Decoder(JobSpec)
#: How many attempts that ended without their agent's word are remembered for adoption.
LOST_KEPT = 10_000
#: What a try that ran out of memory is taken to have had, when neither request nor measurement says.
RAM_LEAST_MIB = 512


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
    farm.jobs[row.id] = job
    farm.next_job = max(farm.next_job, row.id + 1)
    if row.token:
        farm.tokens[token_key(row.user, row.token)] = row.id


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
    by_name = {other.spec.name: other for other in job.steps}
    for name in step.spec.after:
        need = by_name[name]
        step.needs.append(need)
        need.dependants.append(step)
    step.unmet = sum(not need.satisfied for need in step.needs)
    for output in step.spec.outputs:
        farm.patterns.setdefault(output.pattern, []).append(step)
    step.shape = shape_of(farm, step)
    step.shape.push(step)


def shape_of(farm: Farm, step: Step) -> Shape:
    """The shape a step belongs to, made when it is the first of its kind."""
    spec, need = step.spec, step.resources
    key = (
        need.cores,
        need.ram_mib,
        need.gpus,
        need.vram_mib,
        frozenset(spec.pools),
        tuple(sorted(spec.attributes.items())),
        spec.site,
        spec.renderer,
        step.app,
        spec.version,
        step.whole,
    )
    shape = farm.shapes.get(key)
    if shape is None:
        shape = farm.shapes[key] = Shape(len(farm.shapes), key, step)
    return shape


def requeue_shape(step: Step) -> None:
    """Puts a step back in its shape's heap if it has leasable units (priority or pause changed)."""
    if step.shape is not None and step.leasable():
        step.shape.push(step)


def apply_job_state(farm: Farm, row: JobStateRow) -> None:
    """Priority, pause, archive."""
    job = farm.jobs[row.job_id]
    if row.what == "priority":
        job.priority = int(row.new)
    elif row.what == "paused":
        job.paused = row.new == "paused"
        job.paused_by = row.who if job.paused else ""
        job.reason = row.reason if job.paused else ""
    elif row.what == "archived":
        job.archived = row.new == "archived"
    for step in job.steps:
        requeue_shape(step)


# ---------------------------------------------------------------- leases


def apply_lease(farm: Farm, row: LeaseRow, units: tuple[int, ...] | None = None) -> Attempt:
    """Opens an attempt: its units run, its resources are taken, its node's meter is cut.

    Args:
        farm: The state.
        row: The lease.
        units: What ``row.units`` says, when the caller has it.
    """
    step, node = farm.steps[row.step_id], farm.nodes[row.node_id]
    if row.seq > node.meter_seq:
        meter.advance(node, row.at_us)
    attempt = reopen(farm, row, units)
    step.dirty = True
    step.last_us = row.at_us
    if attempt.kind is _VERIFY:
        attempt.verify = farm.verify.get(row.gang)
        if attempt.verify is not None:
            attempt.verify.leased = True
    else:
        for unit in attempt.open:
            step.set_state(unit, RUNNING)
        if not step.job.started_us:
            step.job.started_us = row.at_us
    return attempt


def reopen(farm: Farm, row: LeaseRow, units: tuple[int, ...] | None = None) -> Attempt:
    """Makes the attempt of a lease and takes its resources; moves no unit and cuts no meter."""
    number, step, node = row.id, farm.steps[row.step_id], farm.nodes[row.node_id]
    if units is None:
        units = units_of(row.units)
    attempt = Attempt(number, row.no, row.nonce, _KINDS[row.kind], step, node, units)
    attempt.cores = row.cores
    attempt.ram_mib = row.ram_mib
    attempt.share_ppm = row.share_ppm
    if row.gpus:
        attempt.gpus = tuple(int(index) for index in row.gpus.split(","))
        node.gpus_free = [index for index in node.gpus_free if index not in attempt.gpus]
    attempt.started_us = row.at_us
    if farm.restored_charges:
        attempt.charge_nano = farm.restored_charges.pop(number, 0)
    node.cores_free -= row.cores
    node.ram_free -= row.ram_mib
    node.attempts[number] = farm.attempts[number] = step.attempts[number] = attempt
    if number >= farm.next_attempt:
        farm.next_attempt = number + 1
    if row.no > step.attempt_no:
        step.attempt_no = row.no
    return attempt


# ---------------------------------------------------------------- results


def apply_result(farm: Farm, row: ResultRow) -> None:
    """Settles one unit of an attempt and, with ``closes``, the attempt."""
    attempt = farm.attempts[row.attempt_id]
    step, unit, new = attempt.step, row.unit, row.new
    step.last_us = row.at_us
    step.dirty = True
    if unit >= 0:
        attempt.open.pop(unit, None)
        if attempt.kind is _VERIFY and row.old == RUNNING and new != RUNNING:
            _drop_from_attempts(step, (unit,))
        if new != row.old:
            step.set_state(unit, new)
        step.job.note_end(row.at_us)
        if new == DONE:
            if attempt.kind is _RENDER:
                attempt.useful_us += row.elapsed_us
                step.done_timed += 1
                step.busy_us += row.elapsed_us
            if step.notes:
                step.notes.pop(unit, None)
        elif attempt.kind is not _VERIFY or row.failure:
            attempt.wasted = True
            note_failure(farm, step, unit, attempt, row)
        if new == QUEUED:
            requeue_shape(step)
    if row.closes:
        close_attempt(farm, attempt, row)


def note_failure(farm: Farm, step: Step, unit: int, attempt: Attempt, row: ResultRow) -> None:
    """Remembers why a unit is not done, where it failed and how often."""
    note = step.note(unit)
    note.reason = row.reason
    if row.lost:
        note.folders.append(attempt_folder(step.job.id, step.spec.name, attempt.no, attempt.nonce))
    if not row.failure:
        return
    note.failure = row.failure
    rule = RULES[FailureClass(row.failure)]
    if attempt.kind is _VERIFY:
        return
    if rule.attempts is not None:
        step.count_try(unit)
    else:
        note.counts[row.failure] = note.counts.get(row.failure, 0) + 1
    if rule.other_node:
        note.failed_on.add(attempt.node.id)
        if not rule.drains_node:
            failures = step.node_failures
            failures[attempt.node.id] = failures.get(attempt.node.id, 0) + 1
    if rule.bigger:
        if row.failure == FailureClass.OOM_RAM:
            note.ram_mib = max(note.ram_mib, 2 * max(attempt.ram_mib, row.ram_mib, RAM_LEAST_MIB))
        else:
            note.short_on.add(attempt.node.id)
    if rule.backoff_s and row.new == QUEUED:
        again = note.counts[row.failure] - 1
        wait_us = int(min(600.0, rule.backoff_s * 2 ** min(again, 10)) * 1e6)
        step.parked[unit] = row.at_us + wait_us


def close_attempt(farm: Farm, attempt: Attempt, row: ResultRow) -> None:
    """Ends an attempt: the meter is cut, resources return, parked units wake."""
    node, step, number = attempt.node, attempt.step, attempt.id
    charge_nano, waste_nano = row.charge_nano, row.waste_nano
    if row.seq > node.meter_seq:
        if row.at_us > node.metered_us:
            meter.advance(node, row.at_us)
        node.waste_nano += waste_nano
    attempt.charge_nano = charge_nano
    step.spend_nano += charge_nano
    step.waste_nano += waste_nano
    del node.attempts[number], farm.attempts[number], step.attempts[number]
    node.cores_free += attempt.cores
    node.ram_free += attempt.ram_mib
    if attempt.gpus:
        node.gpus_free = sorted({*node.gpus_free, *attempt.gpus})
    if node.state is _ONLINE and node.enabled and node.cores_free > 0:
        farm.open_nodes[node.id] = node
    if attempt.verify is not None:
        attempt.verify.leased = False
    if attempt.dropped:
        _free_dropped(attempt, bool(row.lost))
        requeue_shape(step)
    elif step.heap_key is None:
        requeue_shape(step)
    if row.lost:
        farm.lost[number] = LostAttempt(step.id, attempt.no, attempt.nonce, node.id, attempt.units)
        while len(farm.lost) > LOST_KEPT:
            del farm.lost[next(iter(farm.lost))]


def _free_dropped(attempt: Attempt, lost: bool) -> None:
    """Units that were taken from an attempt that has ended now may be leased again."""
    step = attempt.step
    dropped = sorted(attempt.dropped)
    if lost:
        # Taken from it but perhaps still rendering: whoever publishes these next must fence it off too.
        folder = attempt_folder(step.job.id, step.spec.name, attempt.no, attempt.nonce)
        for unit in dropped:
            if step.state[unit] != DONE:
                step.note(unit).folders.append(folder)
    for unit in dropped:
        if step.parked.get(unit) == 0 and not any(unit in other.dropped for other in step.attempts.values()):
            del step.parked[unit]


# ---------------------------------------------------------------- many units at once


def _drop_from_attempts(step: Step, units: Iterable[int]) -> None:
    moved = set(units)
    for attempt in step.attempts.values():
        if attempt.kind is _VERIFY:
            continue
        for unit in [unit for unit in attempt.open if unit in moved]:
            del attempt.open[unit]
            attempt.dropped.add(unit)
            attempt.wasted = True


def apply_bulk(farm: Farm, row: BulkRow) -> None:
    """Moves many units; running ones are taken from their attempts and parked until those are closed."""
    step = farm.steps[row.step_id]
    step.dirty = True
    if row.old == row.new == BLOCKED:
        # Its existing files are being looked at; never again after that.
        step.check_existing = False
        step.reason, step.last_us = row.reason, row.at_us
        return
    units = None if row.units == "*" else units_of(row.units)
    if row.old == RUNNING:
        owned = (unit for attempt in step.attempts.values() for unit in attempt.open)
        _drop_from_attempts(step, tuple(owned) if units is None else units)
    if row.fresh:
        _forget(step, row.old, units)
    if units is None:
        step.set_all(row.old, row.new)
    else:
        for unit in units:
            step.set_state(unit, row.new)
    if units is None:
        # Of a part of the step people are told by its own row, not by the step.
        step.reason = row.reason
    step.last_us = row.at_us
    step.job.note_end(row.at_us)
    if row.new == QUEUED:
        for attempt in step.attempts.values():
            for unit in attempt.dropped:
                if step.state[unit] == QUEUED:
                    step.parked[unit] = 0
        requeue_shape(step)


def _forget(step: Step, old: int, units: tuple[int, ...] | None) -> None:
    """Gives units a fresh start: no spent attempts, no nodes to avoid; lost folders are kept."""
    state = step.state
    if step.tries is not None:
        if units is None:
            for unit, tries in enumerate(step.tries):
                if tries and state[unit] == old:
                    step.tries[unit] = 0
        else:
            for unit in units:
                step.tries[unit] = 0
    chosen = None if units is None else set(units)
    for unit in list(step.notes):
        if (chosen is None and state[unit] == old) or (chosen is not None and unit in chosen):
            folders = step.notes.pop(unit).folders
            if folders:
                step.note(unit).folders = folders
    step.node_failures.clear()


# ---------------------------------------------------------------- the rest


def apply_spec(farm: Farm, row: SpecRow) -> None:
    """Sets or drops the specification of a step's pictures."""
    step = farm.steps[row.step_id]
    step.specs = _SPECS.decode(row.specs) if row.specs else None
    step.spec_holder = None
    step.granted.clear()


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
