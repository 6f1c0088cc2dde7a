"""Checkpoints and restarts: maps and sums are written now and then, rows after that are replayed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from farm.core import apply, apply_nodes, meter
from farm.core.events import CheckpointEvent
from farm.core.outcome import Outcome
from farm.core.rows import (
    BulkRow,
    CheckpointRow,
    JobRow,
    JobStateRow,
    LeaseRow,
    MeterRow,
    NodeRow,
    ResultRow,
    SpecRow,
    StepMapRow,
    StepRow,
    VerifyRow,
)
from farm.core.state import Farm, LostAttempt, Settings, Step, UnitNote
from farm.model.states import UnitState


class _StepExtra(msgspec.Struct):
    """What a step has beyond its two maps."""

    cursor: int
    attempt_no: int
    notes: dict[int, UnitNote]
    parked: dict[int, int]
    node_failures: dict[int, int]
    check_existing: bool
    done_timed: int
    busy_us: int
    spend_nano: int
    waste_nano: int
    last_us: int
    reason: str


class _OpenAttempt(msgspec.Struct, array_like=True):
    """What a lease row does not say of an open attempt."""

    id: int
    open: tuple[int, ...]
    dropped: tuple[int, ...]
    useful_us: int
    wasted: bool
    charge_nano: int
    verify: int


class _FarmExtra(msgspec.Struct):
    """What the farm has beyond its steps."""

    attempts: list[_OpenAttempt]
    lost: dict[int, tuple[int, int, int, int, tuple[int, ...]]]
    started: dict[int, int]
    ended: dict[int, int]


_ENCODE = msgspec.msgpack.Encoder().encode
_STEP = msgspec.msgpack.Decoder(_StepExtra)
_FARM = msgspec.msgpack.Decoder(_FarmExtra)


def on_checkpoint(farm: Farm, event: CheckpointEvent, out: Outcome) -> None:
    """Writes what changed since the last checkpoint."""
    for step in farm.steps.values():
        if step.dirty:
            step.dirty = False
            out.rows.append(_step_row(farm, step))
    for node in farm.nodes.values():
        if not node.forgotten:
            out.rows.append(meter.meter_row(farm, node))
    attempts = [
        _OpenAttempt(
            attempt.id,
            tuple(attempt.open),
            tuple(sorted(attempt.dropped)),
            attempt.useful_us,
            attempt.wasted,
            attempt.charge_nano,
            attempt.verify.id if attempt.verify is not None else 0,
        )
        for attempt in farm.attempts.values()
    ]
    extra = _FarmExtra(
        attempts,
        {n: (x.step_id, x.no, x.nonce, x.node_id, x.units) for n, x in farm.lost.items()},
        {job.id: job.started_us for job in farm.jobs.values() if job.started_us},
        {job.id: job.ended_us for job in farm.jobs.values() if job.ended_us},
    )
    farm.checkpoint_seq = farm.next_seq()
    out.rows.append(CheckpointRow(1, farm.checkpoint_seq, event.now_us, _ENCODE(extra)))


def _step_row(farm: Farm, step: Step) -> StepMapRow:
    extra = _StepExtra(
        step.cursor,
        step.attempt_no,
        step.notes,
        step.parked,
        step.node_failures,
        step.check_existing,
        step.done_timed,
        step.busy_us,
        step.spend_nano,
        step.waste_nano,
        step.last_us,
        step.reason,
    )
    tries = bytes(step.tries) if step.tries is not None else b""
    return StepMapRow(step.id, farm.next_seq(), bytes(step.state), tries, _ENCODE(extra))


# ---------------------------------------------------------------- restart


class Stored(msgspec.Struct):
    """What a restart starts from, less the rows to replay.

    Attributes:
        jobs, steps, nodes, meters, maps: The current row of each.
        checkpoint: The last checkpoint, None when there was none.
        states: All job state changes in order (they are few).
        specs: The last specification row of each step.
        verify: Verify requests that are not settled.
        open_leases: Lease rows of attempts the checkpoint names as open.
    """

    jobs: list[JobRow]
    steps: list[StepRow]
    nodes: list[NodeRow]
    meters: list[MeterRow]
    maps: list[StepMapRow]
    checkpoint: CheckpointRow | None
    states: list[JobStateRow]
    specs: list[SpecRow]
    verify: list[VerifyRow]
    open_leases: list[LeaseRow]


def restore(
    settings: Settings,
    stored: Stored,
    replay: Iterable[LeaseRow | ResultRow | BulkRow],
    last_seq: int,
    last_attempt: int,
) -> Farm:
    """Rebuilds the farm that wrote these rows; the caller then sends a RestartEvent."""
    farm = Farm(settings)
    for node in stored.nodes:
        apply_nodes.apply_node(farm, node)
    for job in stored.jobs:
        apply.apply_job(farm, job)
    for step in stored.steps:
        apply.apply_step(farm, step)
    for state in stored.states:
        apply.apply_job_state(farm, state)
    for spec in stored.specs:
        apply.apply_spec(farm, spec)
    for request in stored.verify:
        apply.apply_verify(farm, request)
    for map_row in stored.maps:
        _load_step(farm.steps[map_row.step_id], map_row)
    checkpoint = stored.checkpoint
    if checkpoint is not None:
        farm.checkpoint_seq = checkpoint.seq
        _load_extra(farm, _FARM.decode(checkpoint.extra), stored.open_leases)
    for meter_row in stored.meters:
        apply_nodes.apply_meter(farm, meter_row)
    for attempt in farm.attempts.values():
        attempt.charge_nano = farm.restored_charges.pop(attempt.id, attempt.charge_nano)
    for row in replay:
        if type(row) is LeaseRow:
            apply.apply_lease(farm, row)
        elif type(row) is ResultRow:
            apply.apply_result(farm, row)
        elif type(row) is BulkRow:
            apply.apply_bulk(farm, row)
    _finish(farm)
    farm.seq = last_seq
    farm.next_attempt = max(farm.next_attempt, last_attempt + 1)
    return farm


def _load_step(step: Step, row: StepMapRow) -> None:
    extra = _STEP.decode(row.extra)
    step.job.open_units -= sum(step.counts[:3])
    step.state = bytearray(row.state)
    step.tries = bytearray(row.tries) if row.tries else None
    step.counts = [row.state.count(state) for state in range(7)]
    step.job.open_units += sum(step.counts[:3])
    step.cursor, step.attempt_no = extra.cursor, extra.attempt_no
    step.notes, step.parked, step.node_failures = extra.notes, extra.parked, extra.node_failures
    step.check_existing = extra.check_existing
    step.done_timed, step.busy_us = extra.done_timed, extra.busy_us
    step.spend_nano, step.waste_nano = extra.spend_nano, extra.waste_nano
    step.last_us, step.reason = extra.last_us, extra.reason
    step.dirty = False
    apply.requeue_shape(step)


def _load_extra(farm: Farm, extra: _FarmExtra, leases: list[LeaseRow]) -> None:
    by_id = {lease.id: lease for lease in leases}
    for entry in extra.attempts:
        row = by_id[entry.id]
        step = farm.steps[row.step_id]
        # The units are in the maps already: open the attempt without moving them.
        attempt = apply.reopen(farm, row)
        attempt.open = dict.fromkeys(entry.open)
        attempt.dropped = set(entry.dropped)
        attempt.useful_us, attempt.wasted = entry.useful_us, entry.wasted
        attempt.charge_nano = entry.charge_nano
        step.attempt_no = max(step.attempt_no, row.no)
        attempt.verify = farm.verify.get(entry.verify)
        if attempt.verify is not None:
            attempt.verify.leased = True
    for number, (step_id, no, nonce, node_id, units) in extra.lost.items():
        farm.lost[number] = LostAttempt(step_id, no, nonce, node_id, units)
    for job_id, started_us in extra.started.items():
        farm.jobs[job_id].started_us = started_us
    for job_id, ended_us in extra.ended.items():
        farm.jobs[job_id].ended_us = ended_us


def _finish(farm: Farm) -> None:
    """Works out what follows from the maps: satisfied steps, unmet needs, rest, places in the queue."""
    done, skipped = UnitState.DONE, UnitState.SKIPPED
    for step in farm.steps.values():
        step.satisfied = step.counts[done] + step.counts[skipped] == step.units
    for step in farm.steps.values():
        step.unmet = sum(not need.satisfied for need in step.needs)
        apply.requeue_shape(step)
    for job in farm.jobs.values():
        job.told_rest = job.open_units == 0
