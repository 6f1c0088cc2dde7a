"""The steps from one list of slots to another: rows that go, move and come.

What belongs here: the plan.  What may not: why the lists differ (``order``), and Qt.

Each step is one that a Qt model may take: rows next to each other go or come, one row moves, or all rows that
stay are laid out anew.  The view after a step is part of it, so that whoever shows it is never out of step.

A view holds slots and, below zero, headers of groups.  Arrays by slot have room for these at their end, where
numbers below zero count from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from client_gui.store.table import Slots

Rows = npt.NDArray[np.int32]
NO_ROWS: Final[Rows] = np.empty(0, np.int32)
#: More single rows than this are not moved one by one: a layout costs less.
MOVES_MOST: Final = 8
#: More ranges than this do not go or come one by one: they are laid out at the end and go together.
RANGES_MOST: Final = 32


Header = TypeVar("Header", int, Slots)


def header_of(number: Header) -> Header:
    """What stands in a view for the header of a group with this number."""
    return -1 - number


def group_of(header: int) -> int:
    """The number of the group whose header this is."""
    return -1 - header


class StepKind(Enum):
    """What a step does."""

    REMOVE = "remove"
    INSERT = "insert"
    MOVE = "move"
    LAYOUT = "layout"


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step.

    Attributes:
        kind: What it does.
        view: The slots and headers shown after it.
        first, last: Rows that go (as they are before it), come (as they are after it), or the row that moves.
        to: Of MOVE: the row it is in afterwards.
        new_rows: Of LAYOUT: by old row, the row it is in afterwards; a permutation.
    """

    kind: StepKind
    view: Slots
    first: int = 0
    last: int = 0
    to: int = 0
    new_rows: Rows = field(default_factory=lambda: NO_ROWS)


def plan(old: Slots, new: Slots, moved: Slots | None) -> tuple[Step, ...]:
    """Steps from one view to another.

    Args:
        old: The view.
        new: What it should become.
        moved: Slots of which the place among the others may have changed; None = any.
    """
    # A job with a million frames is opened and left this way.
    if not len(old) or not len(new):
        kind, rows = (StepKind.INSERT, len(new)) if len(new) else (StepKind.REMOVE, len(old))
        return (Step(kind, new, 0, rows - 1),) if rows else ()
    if np.array_equal(old, new):
        return ()
    size = _room(old, new)
    before, after = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    before[old] = True
    after[new] = True
    going, coming = np.flatnonzero(~after[old]), np.flatnonzero(~before[new])
    old_stay, new_stay = old[after[old]], new[before[new]]
    removes, inserts = _ranges(going), _ranges(coming)
    if len(removes) + len(inserts) > RANGES_MOST:
        return _by_layout(old, new, old_stay, new_stay, old[going], new[coming])
    steps: list[Step] = []
    view = old
    for first, last in reversed(removes):
        view = np.concatenate([view[:first], view[last + 1 :]])
        steps.append(Step(StepKind.REMOVE, view, first, last))
    steps += _moves(old_stay, new_stay, moved)
    view = new_stay
    for first, last in inserts:
        view = np.concatenate([view[:first], new[first : last + 1], view[first:]])
        steps.append(Step(StepKind.INSERT, view, first, last))
    return tuple(steps)


def _room(*views: Slots) -> int:
    """How long arrays by slot are that have room for all slots and, from their end, all headers of views."""
    slots = max(int(view.max(initial=-1)) for view in views) + 1
    return slots + max(-int(view.min(initial=0)) for view in views)


def _ranges(rows: npt.NDArray[np.intp]) -> list[tuple[int, int]]:
    """Ascending rows as ranges, both ends included."""
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) != 1)
    firsts = rows[np.concatenate([[0], breaks + 1])]
    lasts = rows[np.concatenate([breaks, [len(rows) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _by_layout(
    old: Slots, new: Slots, old_stay: Slots, new_stay: Slots, going: Slots, coming: Slots
) -> tuple[Step, ...]:
    """Rows that go are laid out at the end and go together; those that come do it the other way round."""
    steps: list[Step] = []
    if len(going):
        aside = np.concatenate([new_stay, going])
        steps += _layout(old, aside)
        steps.append(Step(StepKind.REMOVE, new_stay, len(new_stay), len(old) - 1))
    else:
        steps += _layout(old_stay, new_stay)
    if len(coming):
        aside = np.concatenate([new_stay, coming])
        steps.append(Step(StepKind.INSERT, aside, len(new_stay), len(new) - 1))
        steps += _layout(aside, new)
    return tuple(steps)


def _layout(old: Slots, new: Slots) -> list[Step]:
    if np.array_equal(old, new):
        return []
    where = np.empty(_room(new), np.int32)
    where[new] = np.arange(len(new), dtype=np.int32)
    return [Step(StepKind.LAYOUT, new, 0, len(new) - 1, new_rows=where[old])]


def _moves(old: Slots, new: Slots, moved: Slots | None) -> list[Step]:
    if np.array_equal(old, new):
        return []
    if moved is None or not 0 < len(moved) <= 4 * MOVES_MOST:
        return _layout(old, new)
    hint = np.zeros(_room(new), np.bool_)
    hint[moved[moved <= int(new.max())]] = True
    if not np.array_equal(old[~hint[old]], new[~hint[new]]):
        return _layout(old, new)
    movers = _movers(old, new, hint)
    if len(movers) > MOVES_MOST:
        return _layout(old, new)
    steps: list[Step] = []
    view = old
    for slot in movers:
        first = int(np.flatnonzero(view == slot)[0])
        without = np.concatenate([view[:first], view[first + 1 :]])
        row = int(np.flatnonzero(new == slot)[0])
        # Right behind the one it follows in the end: that one stands or was placed before.
        to = int(np.flatnonzero(without == new[row - 1])[0]) + 1 if row else 0
        view = np.concatenate([without[:to], np.array([slot], np.int32), without[to:]])
        if to != first:
            steps.append(Step(StepKind.MOVE, view, first, first, to))
    return steps


def _movers(old: Slots, new: Slots, hint: npt.NDArray[np.bool_]) -> list[int]:
    """Slots that must move, in the order of where they go."""
    steady_old = dict(zip(old[hint[old]].tolist(), np.cumsum(~hint[old])[hint[old]].tolist(), strict=True))
    steady_new = dict(zip(new[hint[new]].tolist(), np.cumsum(~hint[new])[hint[new]].tolist(), strict=True))
    movers = {slot for slot, steady in steady_new.items() if steady_old[slot] != steady}
    out = np.zeros(len(hint), np.bool_)
    out[list(movers)] = True
    if not np.array_equal(old[~out[old]], new[~out[new]]):
        # Two that changed places between the same neighbours.
        movers = set(steady_new)
    return [slot for slot in steady_new if slot in movers]


def displaced(old: Slots, new: Slots, moved: npt.NDArray[np.bool_]) -> int:
    """How many of the slots that may have moved stand elsewhere among those that did not.

    Args:
        old, new: The same slots in two orders.
        moved: By slot, whether it may have moved.
    """
    slots_old, slots_new = old[moved[old]], new[moved[new]]
    steady_old = np.cumsum(~moved[old])[moved[old]][np.argsort(slots_old)]
    steady_new = np.cumsum(~moved[new])[moved[new]][np.argsort(slots_new)]
    elsewhere = int((steady_old != steady_new).sum())
    return elsewhere or int((slots_old != slots_new).sum())
