"""Which frames are shown in which order, and how the rows there are become those: worked out in one go.

What belongs here: filter, order and the steps between two orders.  What may not: Qt, and reading the farm:
this may run in another thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from client_gui.store.moves import Step, plan
from client_gui.views.job_parts.framecolumns import Col, sort_key
from client_gui.views.job_parts.frameset import FrameSet
from client_gui.views.job_parts.unitfilter import UnitSource, fitting
from farm.model.query import Query

Rows = npt.NDArray[np.int32]
NO_ROWS = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be shown.

    Attributes:
        query: What frames must fit; None = nothing.
        states: States they must have; none = any.
        column: By which they are sorted.
        down: Whether from the largest down.
    """

    query: Query | None = None
    states: frozenset[int] = frozenset()
    column: Col = Col.FRAME
    down: bool = False

    @property
    def plain(self) -> bool:
        """Whether all frames are shown as they come."""
        return not self.query and not self.states and self.column is Col.FRAME and not self.down


@dataclass(frozen=True, slots=True, eq=False)
class Arranged:
    """An order, and the way there.

    Attributes:
        units: Units by row.
        rows: Rows by unit, -1 for those that are not shown.
        steps: From the order before, each with its rows by unit.
    """

    units: Rows
    rows: Rows
    steps: list[tuple[Step, Rows]]


def arrange(wish: Wish, source: UnitSource, before: Rows) -> Arranged:
    """Works out an order, and the way there from the one before."""
    wanted = _wanted(wish, source)
    units = source.frames.units
    steps = [(step, rows_of(step.view, units)) for step in plan(before, wanted, None)]
    return Arranged(wanted, rows_of(wanted, units), steps)


def arranged_none(before: Rows) -> Arranged:
    """No frames at all."""
    return Arranged(NO_ROWS, NO_ROWS, [(step, NO_ROWS) for step in plan(before, NO_ROWS, None)])


def ascending(frames: FrameSet) -> bool:
    """Whether the units of a step come in the order of their numbers."""
    runs = frames.range.runs if frames.range is not None else ()
    return not runs or (len(runs) == 1 and runs[0].step > 0)


def rows_of(view: Rows, units: int) -> Rows:
    """Rows by unit."""
    rows = np.full(max(units, int(view.max(initial=-1)) + 1), -1, np.int32)
    rows[view] = np.arange(len(view), dtype=np.int32)
    return rows


def _wanted(wish: Wish, source: UnitSource) -> Rows:
    shown = np.arange(source.frames.units, dtype=np.int32)
    if wish.query:
        shown = shown[fitting(wish.query, source)]
    if wish.states:
        shown = shown[np.isin(source.states[shown], list(wish.states))]
    if wish.plain and ascending(source.frames):
        return shown
    key = sort_key(wish.column, source)
    if key is None:
        return shown[::-1].copy() if wish.down else shown
    values = key[shown]
    # What is not known comes last whichever way it is sorted.
    unknown = np.isnan(values)
    order = np.argsort(np.where(unknown, np.inf, -values if wish.down else values), kind="stable")
    return shown[order]
