"""Applies rows that move many units at once, because somebody or a need says so.

What belongs here: what such a move takes along: attempts that still render the units, what was counted
against them, what lost attempts kept of them.  What may not: which moves there are
(``farm.core.dependencies``, ``farm.core.actions``), and results (``farm.core.apply_results``).
"""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.apply import BLOCKED, QUEUED, RUNNING, requeue_shape, units_of
from farm.core.rows import BulkRow
from farm.core.state import Farm, Step
from farm.model.states import AttemptKind

_VERIFY = AttemptKind.VERIFY


def drop_from_attempts(step: Step, units: Iterable[int]) -> None:
    """Takes units from the attempts that render them, which may go on with them until they are closed."""
    moved = set(units)
    for attempt in step.attempts.values():
        if attempt.kind is _VERIFY:
            continue
        taken = [unit for unit in attempt.open if unit in moved]
        if taken:
            for unit in taken:
                del attempt.open[unit]
            attempt.dropped |= frozenset(taken)
            attempt.wasted = True
            step.dropping[attempt.id] = attempt
    if step.copies:
        for unit in moved:
            step.copies.pop(unit, None)
            step.copy_waits.pop(unit, None)


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
        drop_from_attempts(step, tuple(owned) if units is None else units)
    if row.fresh:
        _forget(step, row.old, units)
    if farm.lost and row.old != BLOCKED:
        _disown(farm, step, row.old, units)
    if units is None:
        step.set_all(row.old, row.new)
    else:
        for unit in units:
            step.set_state(unit, row.new)
    if units is None:
        # Of a part of the step people are told by its own row, not by the step.
        step.reason = row.reason
    step.last_us = row.at_us
    if step.wanted is not None:
        step.count_left_out()
    step.job.note_end(row.at_us)
    if row.new == QUEUED:
        for attempt in step.dropping.values():
            for unit in attempt.dropped:
                if step.state[unit] == QUEUED:
                    step.parked[unit] = 0
        requeue_shape(farm, step)


def _disown(farm: Farm, step: Step, old: int, units: tuple[int, ...] | None) -> None:
    """Lets nothing be adopted any more that a lost attempt made of these units.

    They are moved because somebody wants them anew, or because their input is made anew: what its folder
    holds of them is of before that.
    """
    state = step.state
    chosen = None if units is None else set(units)
    for number, lost in farm.lost.items():
        if lost.step_id != step.id:
            continue
        left = tuple(u for u in lost.units if (state[u] != old if chosen is None else u not in chosen))
        if len(left) < len(lost.units):
            farm.lost[number] = lost._replace(units=left)


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
