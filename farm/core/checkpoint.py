"""Checkpoints and restarts: maps and sums are written now and then, rows after that are replayed.

What belongs here: what a checkpoint holds, and how a farm comes back from it.  A restart is the base (jobs,
steps and their changes up to the checkpoint, then its maps) and after it every later row in order of
``seq``, through the same functions that applied it the first time.  So what is replayed is what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from farm.core import apply, apply_moves, apply_nodes, apply_results, meter, pace, shares, shelves, tidy
from farm.core.drain import store_node
from farm.core.events import CheckpointEvent
from farm.core.outcome import Outcome
from farm.core.rows import (
    AnyRow,
    BulkRow,
    CheckpointRow,
    DeleteRow,
    JobRow,
    JobStateRow,
    LeaseRow,
    MeterRow,
    NodeMapRow,
    NodeRow,
    PolicyRow,
    ResultRow,
    SeenRow,
    ShelfRow,
    SpecRow,
    StepEditRow,
    StepMapRow,
    StepRow,
    VerifyRow,
)
from farm.core.specs import known_specs
from farm.core.state import Attempt, Farm, LostAttempt, Node, Settings, Step, UnitNote
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
    #: As in a SpecRow; empty while unknown or only held.
    specs: bytes = b""
    #: What ``pace.dump`` makes of its frame times.
    pace: bytes = b""


class _OpenAttempt(msgspec.Struct, array_like=True):
    """An open attempt: what its lease row said, and what became of it so far."""

    lease: LeaseRow
    open: tuple[int, ...]
    dropped: tuple[int, ...]
    useful_us: int
    wasted: bool
    charge_nano: int
    verify: int
    #: Held besides what the lease row says, and what its accounts were charged.
    disk_mib: int
    tokens: dict[str, int]
    limits: tuple[tuple[str, int], ...]
    rate: int
    charged: int


class _FarmExtra(msgspec.Struct):
    """What the farm has beyond its jobs, steps and nodes."""

    attempts: list[_OpenAttempt]
    lost: dict[int, tuple[int, int, int, int, tuple[int, ...]]]
    started: dict[int, int]
    ended: dict[int, int]
    verify: list[VerifyRow]
    next_job: int
    next_step: int
    next_attempt: int
    next_node: int
    #: What ``_more`` makes of the rest of the farm.
    more: bytes = b""


_ENCODE = msgspec.msgpack.Encoder().encode
_STEP = msgspec.msgpack.Decoder(_StepExtra)
_FARM = msgspec.msgpack.Decoder(_FarmExtra)
_NODE = msgspec.msgpack.Decoder(NodeRow)
_METER = msgspec.msgpack.Decoder(MeterRow)


def on_checkpoint(farm: Farm, event: CheckpointEvent, out: Outcome) -> None:
    """Writes what changed since the last checkpoint."""
    for step in farm.steps.values():
        if step.dirty:
            step.dirty = False
            out.rows.append(_step_row(farm, step))
    for node in farm.nodes.values():
        out.rows.append(_node_row(farm, node))
    shelves.shelve(farm, event, out)
    tidy.tidy(farm)
    extra = _FarmExtra(
        [_open_attempt(attempt) for attempt in farm.attempts.values()],
        {n: (x.step_id, x.no, x.nonce, x.node_id, x.units) for n, x in farm.lost.items()},
        {job.id: job.started_us for job in farm.jobs.values() if job.started_us},
        {job.id: job.ended_us for job in farm.jobs.values() if job.ended_us},
        [
            VerifyRow(
                asked.id,
                asked.id,
                asked.step_id,
                apply.units_text(asked.units),
                asked.purpose,
                asked.who,
                0,
                0,
            )
            for asked in farm.verify.values()
        ],
        farm.next_job,
        farm.next_step,
        farm.next_attempt,
        farm.next_node,
        _more(farm),
    )
    farm.checkpoint_seq = farm.next_seq()
    out.rows.append(CheckpointRow(1, farm.checkpoint_seq, event.now_us, _ENCODE(extra)))


def _node_row(farm: Farm, node: Node) -> NodeMapRow:
    rows, stored_us = Outcome(), node.seen_stored_us
    store_node(farm, node, rows)
    # When it was last heard of stays what rows of its own say: a restart charges up to that.
    node.seen_stored_us = stored_us
    node_row = msgspec.structs.replace(rows.rows[0], seen_us=stored_us)
    meter_row = meter.meter_row(farm, node)
    return NodeMapRow(node.id, meter_row.seq, _ENCODE(node_row), _ENCODE(meter_row))


def _open_attempt(attempt: Attempt) -> _OpenAttempt:
    verify = attempt.verify.id if attempt.verify is not None else 0
    lease = LeaseRow(
        attempt.id,
        0,
        attempt.step.id,
        attempt.no,
        attempt.node.id,
        attempt.nonce,
        attempt.kind.value,
        apply.units_text(attempt.units),
        attempt.cores,
        attempt.ram_mib,
        ",".join(map(str, attempt.gpus)),
        attempt.share_ppm,
        verify,
        attempt.started_us,
        UnitState.QUEUED.value,
        UnitState.RUNNING.value,
        "",
    )
    return _OpenAttempt(
        lease,
        tuple(attempt.open),
        tuple(sorted(attempt.dropped)),
        attempt.useful_us,
        attempt.wasted,
        attempt.charge_nano,
        verify,
        attempt.disk_mib,
        attempt.tokens,
        attempt.limits,
        attempt.rate,
        attempt.charged,
    )


def _step_row(farm: Farm, step: Step) -> StepMapRow:
    specs = known_specs(step)
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
        _ENCODE(specs) if specs is not None else b"",
        pace.dump(step),
    )
    tries = bytes(step.tries) if step.tries is not None else b""
    return StepMapRow(step.id, farm.next_seq(), bytes(step.state), tries, _ENCODE(extra))


def _more(farm: Farm) -> bytes:
    """What else the farm has that rows after the checkpoint do not bring back."""
    blame = {node.id: node.blame for node in farm.nodes.values() if node.blame}
    return _ENCODE(
        {
            "shares": shares.dump(farm),
            "speeds": pace.dump_speeds(farm),
            "blame": blame,
            "shelved": farm.shelved.dump(),
        }
    )


def _load_more(farm: Farm, more: bytes) -> None:
    """Takes back what ``_more`` made."""
    if more:
        saved = msgspec.msgpack.decode(more)
        shares.load(farm, saved["shares"])
        pace.load_speeds(farm, saved["speeds"])
        if "shelved" in saved:
            farm.shelved.load(saved["shelved"])
        for node_id, blame in saved.get("blame", {}).items():
            farm.nodes[node_id].blame = {user: (at_us, step) for user, (at_us, step) in blame.items()}


# ---------------------------------------------------------------- restart


#: Less than the number of any row (an upgrade may number rows below zero).
BEFORE_ALL = -(2**62)
#: Rows of things as such, which a restart applies from the first one on.
GroundRow = JobRow | StepRow | JobStateRow | StepEditRow | PolicyRow


class Stored(msgspec.Struct):
    """What a restart starts from, less the rows to replay.

    Attributes:
        checkpoint: The last checkpoint, None when there was none; everything but ``last_seq`` is empty then.
        ground: Jobs, steps and their changes up to the checkpoint, in order of ``seq``; without those of jobs
            in the archive.
        nodes, maps: The checkpoint of each node and step, likewise.
        last_seq: The greatest ``seq`` of any row, 0 when there is none.
        tokens: User, token and number of the jobs in the archive that have a token.
    """

    checkpoint: CheckpointRow | None
    ground: list[GroundRow]
    nodes: list[NodeMapRow]
    maps: list[StepMapRow]
    last_seq: int
    tokens: list[tuple[str, str, int]] = []

    @property
    def after(self) -> int:
        """The number after which rows are to be replayed."""
        return self.checkpoint.seq if self.checkpoint is not None else BEFORE_ALL


def restore(settings: Settings, stored: Stored, replay: Iterable[AnyRow]) -> Farm:
    """Rebuilds the farm that wrote these rows; the caller then sends a RestartEvent.

    Args:
        settings: Figures of the new farm.
        stored: Its base.
        replay: Every row after the base's checkpoint in order of ``seq``; kinds that change nothing may be
            among them or not.
    """
    farm = Farm(settings)
    _apply_all(farm, stored.ground)
    farm.tokens.update({apply.token_key(user, token): number for user, token, number in stored.tokens})
    if stored.checkpoint is not None:
        farm.checkpoint_seq = stored.checkpoint.seq
        for node_map in stored.nodes:
            apply_nodes.apply_node(farm, _NODE.decode(node_map.node))
            apply_nodes.apply_meter(farm, _METER.decode(node_map.meter))
        for step_map in stored.maps:
            _load_step(farm, farm.steps[step_map.step_id], step_map)
        _load_extra(farm, _FARM.decode(stored.checkpoint.extra))
    _apply_all(farm, replay)
    _finish(farm)
    farm.seq = stored.last_seq
    return farm


class ShelvedJob(msgspec.Struct):
    """Everything the store has of one job in the archive, but its history.

    Attributes:
        shelf: What was kept of it when it went there.
        ground: The job, its steps and their changes, in order of ``seq``.
        maps: The checkpoint of each of its steps.
    """

    shelf: ShelfRow
    ground: list[GroundRow]
    maps: list[StepMapRow]


def restore_shelved(live: Farm, stored: ShelvedJob) -> Farm:
    """A farm of its own with one job of the archive, to look at: nothing in it may be changed.

    Args:
        live: The farm whose nodes it ran on.
        stored: The job.

    Raises:
        KeyError: A step has no map: the store is damaged.
    """
    farm = Farm(live.settings)
    farm.policy, farm.seq = live.policy, live.seq
    _apply_all(farm, stored.ground)
    maps = {row.step_id: row for row in stored.maps}
    for step in farm.steps.values():
        _load_step(farm, step, maps[step.id])
    job, shelf = farm.jobs[stored.shelf.job_id], stored.shelf
    job.started_us, job.ended_us, job.archived = shelf.started_us, shelf.ended_us, True
    _finish(farm)
    farm.nodes = live.nodes
    return farm


#: How each kind of row is applied; kinds that are not here tell people something and change nothing.
_APPLY: dict[type, Callable[[Farm, Any], object]] = {
    JobRow: apply.apply_job,
    StepRow: apply.apply_step,
    JobStateRow: apply.apply_job_state,
    StepEditRow: apply.apply_step_edit,
    LeaseRow: apply.apply_lease,
    ResultRow: apply_results.apply_result,
    BulkRow: apply_moves.apply_bulk,
    SpecRow: apply.apply_spec,
    VerifyRow: apply.apply_verify,
    NodeRow: apply_nodes.apply_node,
    MeterRow: apply_nodes.apply_meter,
    SeenRow: apply_nodes.apply_seen,
    PolicyRow: shares.apply_policy,
    ShelfRow: shelves.apply_shelf,
    DeleteRow: shelves.apply_delete,
}


def _apply_all(farm: Farm, rows: Iterable[AnyRow]) -> None:
    known = _APPLY.get
    for row in rows:
        use = known(type(row))
        if use is not None:
            use(farm, row)


def _load_step(farm: Farm, step: Step, row: StepMapRow) -> None:
    extra = _STEP.decode(row.extra)
    step.job.open_units -= sum(step.counts[:3])
    step.state = bytearray(row.state)
    step.tries = bytearray(row.tries) if row.tries else None
    step.counts = [row.state.count(state) for state in range(7)]
    step.job.open_units += sum(step.counts[:3])
    step.count_left_out()
    step.cursor, step.attempt_no = extra.cursor, extra.attempt_no
    step.notes, step.parked, step.node_failures = extra.notes, extra.parked, extra.node_failures
    step.check_existing = extra.check_existing
    step.done_timed, step.busy_us = extra.done_timed, extra.busy_us
    step.spend_nano, step.waste_nano = extra.spend_nano, extra.waste_nano
    step.last_us, step.reason = extra.last_us, extra.reason
    pace.load(step, extra.pace)
    if extra.specs:
        apply.apply_spec(farm, SpecRow(row.seq, step.id, -1, extra.specs))
    step.dirty = False
    apply.requeue_shape(farm, step)


def _load_extra(farm: Farm, extra: _FarmExtra) -> None:
    for request in extra.verify:
        apply.apply_verify(farm, request)
    for entry in extra.attempts:
        # The units are in the maps already: open the attempt without moving them.
        lease = entry.lease
        step, node = farm.steps[lease.step_id], farm.nodes[lease.node_id]
        attempt = apply.reopen(farm, lease, step, node, apply.units_of(lease.units), entry)
        attempt.open = dict.fromkeys(entry.open)
        attempt.dropped = frozenset(entry.dropped)
        if attempt.dropped:
            attempt.step.dropping[attempt.id] = attempt
        attempt.useful_us, attempt.wasted = entry.useful_us, entry.wasted
        attempt.charge_nano = entry.charge_nano
        attempt.rate, attempt.charged = entry.rate, entry.charged
        attempt.verify = farm.verify.get(entry.verify)
        if attempt.verify is not None:
            attempt.verify.leased = True
    apply.find_copies(farm)
    for number, (step_id, no, nonce, node_id, units) in extra.lost.items():
        farm.lost[number] = LostAttempt(step_id, no, nonce, node_id, units)
    for job_id, started_us in extra.started.items():
        farm.jobs[job_id].started_us = started_us
    for job_id, ended_us in extra.ended.items():
        farm.jobs[job_id].ended_us = ended_us
    farm.next_job, farm.next_step = extra.next_job, extra.next_step
    farm.next_attempt, farm.next_node = extra.next_attempt, extra.next_node
    _load_more(farm, extra.more)


def _finish(farm: Farm) -> None:
    """Works out what follows from the maps: satisfied steps, unmet needs, rest, places in the queue."""
    done, skipped = UnitState.DONE, UnitState.SKIPPED
    for step in farm.steps.values():
        step.satisfied = step.counts[done] + step.counts[skipped] + step.left_out == step.units
        step.take_changes()
    for step in farm.steps.values():
        step.recount_needs()
        apply.requeue_shape(farm, step)
    for job in farm.jobs.values():
        job.told_rest = job.open_units == 0
