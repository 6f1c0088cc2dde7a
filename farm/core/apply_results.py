"""Applies results to the state: a unit settled, a failure remembered, an attempt closed.

Like ``farm.core.apply``, of which it is a part: live results and a restart go through here alike, and nothing
is decided.
"""

from __future__ import annotations

from farm.core import meter, openings, shares
from farm.core.apply import DONE, QUEUED, RUNNING, requeue_shape
from farm.core.apply_moves import drop_from_attempts
from farm.core.pace import note_chunk, note_done
from farm.core.rows import ResultRow
from farm.core.state import Attempt, Farm, LostAttempt, Step
from farm.model.failures import BLAMES_NODE, RULES
from farm.model.ids import attempt_folder
from farm.model.states import AttemptKind, FailureClass

_VERIFY = AttemptKind.VERIFY
_RENDER = AttemptKind.RENDER
_COPY = AttemptKind.COPY
#: How many attempts that ended without their agent's word are remembered for adoption.
LOST_KEPT = 10_000
#: What a try that ran out of memory is taken to have had, when neither request nor measurement says.
RAM_LEAST_MIB = 512


def apply_result(farm: Farm, row: ResultRow) -> None:
    """Settles one unit of an attempt and, with ``closes``, the attempt."""
    attempt = farm.attempts[row.attempt_id]
    step, kind, unit, new, at_us = attempt.step, attempt.kind, row.unit, row.new, row.at_us
    step.last_us = at_us
    step.dirty = True
    if unit >= 0:
        attempt.open.pop(unit, None)
        if kind is _VERIFY and row.old == RUNNING and new != RUNNING:
            drop_from_attempts(step, (unit,))
        if new != row.old:
            step.set_state(unit, new)
        job = step.job
        if job.ended_us or not job.open_units:
            job.note_end(at_us)
        if new == DONE:
            if kind is _RENDER or kind is _COPY:
                node, elapsed_us = attempt.node, row.elapsed_us
                attempt.useful_us += elapsed_us
                step.done_timed += 1
                step.busy_us += elapsed_us
                note_done(step, node, unit, elapsed_us)
                if node.blame:
                    node.blame.clear()
            if step.notes:
                step.notes.pop(unit, None)
        elif kind is not _VERIFY or row.failure:
            attempt.wasted = True
            note_failure(farm, step, unit, attempt, row)
        if step.copies:
            _settle_copy(step, attempt, unit, new)
        if new == QUEUED:
            if step.dropping and any(unit in other.dropped for other in step.dropping.values()):
                step.parked[unit] = 0  # an attempt it was taken from may be rendering it still
            requeue_shape(farm, step)
    if row.closes:
        close_attempt(farm, attempt, row)


def _settle_copy(step: Step, attempt: Attempt, unit: int, new: int) -> None:
    """One of two attempts of a unit ended: what that means for the other."""
    copy = step.copies.get(unit)
    if copy is None or (attempt.kind is _VERIFY and new != DONE):
        return
    del step.copies[unit]
    if copy is attempt:
        step.copy_waits.pop(unit, None)
    elif new != RUNNING:
        # Not needed any more; it may still be rendering until it is closed.
        step.copy_waits.pop(unit, None)
        copy.open.pop(unit, None)
        copy.dropped |= {unit}
        copy.wasted = True
        step.dropping[copy.id] = copy


def note_failure(farm: Farm, step: Step, unit: int, attempt: Attempt, row: ResultRow) -> None:
    """Remembers why a unit is not done, where it failed and how often.

    Of a second copy only what concerns its node: the unit itself goes on in the first attempt.
    """
    second = step.copies.get(unit) is attempt if step.copies else False
    if second and not (row.lost or row.failure):
        return
    note = step.note(unit)
    if not second:
        note.reason = row.reason
    if row.lost:
        note.folders.append(attempt_folder(step.job.id, step.spec.name, attempt.no, attempt.nonce))
    if not row.failure:
        return
    rule = RULES[FailureClass(row.failure)]
    if not second:
        note.failure = row.failure
    if attempt.kind is _VERIFY:
        return
    if row.failure in BLAMES_NODE:
        attempt.node.blame[attempt.user] = (row.at_us, step.address)
    if second:
        pass
    elif rule.attempts is not None:
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
            note.vram_mib = max(note.vram_mib, _used_vram_mib(attempt))
    if rule.backoff_s and row.new == QUEUED:
        again = note.counts[row.failure] - 1
        wait_us = int(min(600.0, rule.backoff_s * 2 ** min(again, 10)) * 1e6)
        step.parked[unit] = row.at_us + wait_us
        farm.due.parked[step.id] = step


def _used_vram_mib(attempt: Attempt) -> int:
    """Memory of the smallest GPU an attempt had, the one that ran out; if it had none, of the largest."""
    memory = {gpu.index: gpu.vram_mib for gpu in attempt.node.facts.gpus}
    used = [memory[index] for index in attempt.gpus if index in memory]
    return min(used) if used else max(memory.values(), default=0)


def close_attempt(farm: Farm, attempt: Attempt, row: ResultRow) -> None:
    """Ends an attempt: the meter is cut, resources return, parked units wake."""
    node, step, number, at_us = attempt.node, attempt.step, attempt.id, row.at_us
    if attempt.kind is _RENDER and not attempt.wasted:
        note_chunk(step.pace, at_us - attempt.started_us - attempt.useful_us, node.speed)
    if at_us > node.metered_us:
        meter.advance(node, at_us)
    charge_nano, waste_nano = row.charge_nano, row.waste_nano
    attempt.charge_nano = charge_nano
    step.spend_nano += charge_nano
    if waste_nano:
        node.waste_nano += waste_nano
        step.waste_nano += waste_nano
    del node.attempts[number], farm.attempts[number], step.attempts[number]
    node.cores_free += attempt.cores
    node.ram_free += attempt.ram_mib
    if attempt.disk_mib:
        node.disk_free += attempt.disk_mib
    if attempt.tokens:
        for name, count in attempt.tokens.items():
            node.tokens_free[name] += count
    shares.settle_lease(farm, attempt, at_us)
    job = step.job
    job.cores -= attempt.cores
    job.holder.cores -= attempt.cores
    if attempt.limits or job.capped or job.holder.kept:
        shares.release(farm, attempt)
    if attempt.gpus:
        node.gpus_free = sorted({*node.gpus_free, *attempt.gpus})
    openings.settle(farm, node)
    if attempt.verify is not None:
        attempt.verify.leased = False
    if attempt.dropped:
        step.dropping.pop(number, None)
        _free_dropped(attempt, bool(row.lost))
        requeue_shape(farm, step)
    elif step.line is None:
        requeue_shape(farm, step)
    if row.lost:
        units = attempt.units
        if row.lost == 2:
            # Stopped, or of input that is made anew: what it did of these is not wanted, wherever it lies.
            units = tuple(unit for unit in units if unit not in attempt.dropped)
        farm.lost[number] = LostAttempt(step.id, attempt.no, attempt.nonce, node.id, units)
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
        if step.parked.get(unit) == 0 and not any(unit in other.dropped for other in step.dropping.values()):
            del step.parked[unit]
