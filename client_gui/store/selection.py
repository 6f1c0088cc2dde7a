"""What is selected, which row is the current one, and what stands at the top of the screen; by id.

What belongs here: sets of ids and the gestures that change them.  What may not: rows as numbers that are kept
(a row's number is true only until the next batch), and Qt.

Whatever the farm does, what somebody selected stays selected: also while it is filtered out or stands
elsewhere.  Only what is gone for good leaves the selection.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

import numpy as np

from client_gui.store.order import Fits, Order
from client_gui.store.table import Change

Id = TypeVar("Id", bound=Hashable)
#: So many ids on either side are remembered in case the one at the top goes.
_AROUND: Final = 100


class Selection(Generic[Id]):
    """Selected ids, the current one and where a range began.

    Attributes:
        ids: What is selected, shown or not.
        current: The current row, None for none; it need not be selected.
        anchor: Where a range that is drawn with shift begins.
        version: Counts up with every change.
    """

    def __init__(self) -> None:
        self.ids: set[Id] = set()
        self.current: Id | None = None
        self.anchor: Id | None = None
        self.version = 0

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, row_id: object) -> bool:
        return row_id in self.ids

    # -- gestures --

    def click(self, row_id: Id) -> None:
        """Only this one."""
        self._set({row_id}, row_id, row_id)

    def toggle(self, row_id: Id) -> None:
        """This one too, or no longer."""
        self._set(self.ids ^ {row_id}, row_id, row_id)

    def move_current(self, row_id: Id | None) -> None:
        """Makes a row the current one, without selecting it."""
        self._set(self.ids, row_id, self.anchor)

    def extend(self, row_id: Id, order: Order[Id], *, add: bool = False) -> None:
        """Everything from where the range began to this one, as it is shown now.

        Where the beginning is not shown any more, the range begins at the current row, else here.

        Args:
            row_id: The other end.
            order: What is shown.
            add: Keeps what was selected besides.
        """
        to = order.row_of(row_id)
        begin = next(
            (one for one in (self.anchor, self.current) if one is not None and order.row_of(one) >= 0), row_id
        )
        if to < 0:
            return
        first, last = sorted((order.row_of(begin), to))
        span = _there(order, range(first, last + 1))
        self._set(self.ids | span if add else span, row_id, begin)

    def select_all(self, order: Order[Id]) -> None:
        """Everything that is shown."""
        self._set(_there(order, range(len(order))), self.current, self.anchor)

    def select_where(self, order: Order[Id], fits: Fits, *, add: bool = False) -> int:
        """Everything that is shown and fits, e.g. ``TableFilter.fits``; returns how much that is."""
        rows = np.flatnonzero(fits(order.view))
        found = _there(order, rows.tolist())
        self._set(self.ids | found if add else found, self.current, self.anchor)
        return len(found)

    def invert(self, order: Order[Id]) -> None:
        """What is shown and was not selected; what is not shown stays as it is."""
        self._set(self.ids ^ _there(order, range(len(order))), self.current, self.anchor)

    def select(self, ids: Iterable[Id]) -> None:
        """Just these."""
        self._set(set(ids), self.current, self.anchor)

    def clear(self) -> None:
        """Nothing; the current row stays."""
        self._set(set(), self.current, self.anchor)

    # -- what is shown --

    def shown(self, order: Order[Id]) -> list[Id]:
        """What is selected and shown, in the order of the screen."""
        return [order.id_at(row) for row in order.rows_of(self.ids).tolist()]

    def hidden(self, order: Order[Id]) -> int:
        """How many are selected but not shown; whoever acts on the selection must be told."""
        return len(self.ids) - len(order.rows_of(self.ids))

    # -- changes --

    def apply(self, change: Change[Id], order: Order[Id]) -> bool:
        """Lets go of what is gone; the row below takes over as the current one, else the one above.

        To be called when the table has changed and the order's steps are not committed yet.

        Returns:
            Whether anything of it changed.
        """
        if not change.removed_ids:
            return False
        before = self.version
        gone = set(change.removed_ids)
        current = self.current
        if current is not None and current in gone:
            slot = change.removed[change.removed_ids.index(current)]
            current = _neighbour(order, int(order.rows_of_slots(np.array([slot], np.int32))[0]))
        anchor = current if self.anchor in gone else self.anchor
        self._set(self.ids - gone if not gone.isdisjoint(self.ids) else self.ids, current, anchor)
        return self.version != before

    def _set(self, ids: set[Id], current: Id | None, anchor: Id | None) -> None:
        if (ids, current, anchor) != (self.ids, self.current, self.anchor):
            self.ids, self.current, self.anchor = ids, current, anchor
            self.version += 1


def _there(order: Order[Id], rows: Iterable[int]) -> set[Id]:
    """Ids of rows on the screen, less those that are gone and only still shown."""
    if not order.frozen:
        return {order.id_at(row) for row in rows}
    return {order.id_at(row) for row in rows if not order.is_gone(row)}


def _neighbour(order: Order[Id], row: int) -> Id | None:
    """The next row below that is still there, else the next above."""
    if row < 0:
        return None
    for other in (*range(row + 1, len(order)), *range(row - 1, -1, -1)):
        if not order.is_gone(other):
            return order.id_at(other)
    return None


class ScrollAnchor(Generic[Id]):
    """What stands at the top of the screen, so that it still does after the list has changed.

    Attributes:
        offset: How far its upper edge is above the screen's, in pixels.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._row = 0
        self._below: list[Id] = []
        self._above: list[Id] = []

    def hold(self, order: Order[Id], row: int, offset: int = 0) -> None:
        """Takes note of what stands at the top; to be called when somebody scrolls.

        Args:
            order: What is shown.
            row: The first row of which anything can be seen.
            offset: How much of it is above the edge, in pixels.
        """
        row = max(0, min(row, len(order) - 1))
        self._row, self.offset = row, offset
        self._below = [order.id_at(one) for one in range(row, min(row + _AROUND, len(order)))]
        self._above = [order.id_at(one) for one in range(row - 1, max(-1, row - _AROUND), -1)]

    @property
    def row_id(self) -> Id | None:
        """What stands at the top; None for an empty list."""
        return self._below[0] if self._below else None

    def row(self, order: Order[Id]) -> int:
        """The row that belongs at the top now: its own, else the nearest that stood below it, or above.

        -1 for an empty list.  A list scrolled to its very top stays there, so that new rows can be seen.
        """
        if self._row == 0 and self.offset == 0:
            return 0 if len(order) else -1
        for row_id in (*self._below, *self._above):
            found = order.row_of(row_id)
            if found >= 0:
                return found
        return min(self._row, len(order) - 1)
