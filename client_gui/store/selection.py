"""What is selected, which row is the current one, and what stands at the top of the screen; by id.

What belongs here: sets of ids and the gestures that change them.  What may not: rows as numbers that are kept
(a row's number is true only until the next batch), and Qt.

Whatever the farm does, what somebody selected stays selected: also while it is filtered out or stands
elsewhere.  Only what is gone for good leaves the selection.

A selected group means all rows that are in it at the moment, those of a closed group, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from client_gui.store.groups import GroupKey
from client_gui.store.moves import Rows
from client_gui.store.order import Fits, Order
from client_gui.store.table import Change

Id = TypeVar("Id", bound=Hashable)
#: Ids and groups together.
Chosen = set[Any]
#: So many ids on either side are remembered in case the one at the top goes.
_AROUND: Final = 100


class Selection(Generic[Id]):
    """Selected ids, selected groups, the current one and where a range began.

    Attributes:
        ids: What is selected by itself, shown or not.
        groups: Groups that are selected with all their rows, whether they have any now or not.
        current: The current row, None for none; it need not be selected.
        anchor: Where a range that is drawn with shift begins.
        version: Counts up with every change.
    """

    def __init__(self) -> None:
        self.ids: set[Id] = set()
        self.groups: set[GroupKey] = set()
        self.current: Id | GroupKey | None = None
        self.anchor: Id | GroupKey | None = None
        self.version = 0

    def __len__(self) -> int:
        return len(self.ids) + len(self.groups)

    def __contains__(self, row_id: object) -> bool:
        return row_id in self.ids or row_id in self.groups

    # -- gestures --

    def click(self, row_id: Id | GroupKey) -> None:
        """Only this one."""
        self._choose({row_id}, row_id, row_id)

    def toggle(self, row_id: Id | GroupKey, order: Order[Id] | None = None) -> None:
        """This one too, or no longer; of a group that is selected, all others then are by themselves.

        Args:
            row_id: The row.
            order: What is shown, where rows may stand in groups.
        """
        group = order.group_of(row_id) if order is not None and not isinstance(row_id, GroupKey) else None
        if order is not None and group is not None and group in self.groups:
            inside = set(order.ids_of(order.slots_of(group)))
            chosen: Chosen = {*self.ids, *inside, *self.groups} - {row_id, group}
        else:
            chosen = {*self.ids, *self.groups} ^ {row_id}
        self._choose(chosen, row_id, row_id)

    def move_current(self, row_id: Id | GroupKey | None) -> None:
        """Makes a row the current one, without selecting it."""
        self._set(self.ids, self.groups, row_id, self.anchor)

    def extend(self, row_id: Id | GroupKey, order: Order[Id], *, add: bool = False) -> None:
        """Everything from where the range began to this one, as it is shown now.

        Where the beginning is not shown any more, the range begins at the current row, else here.  A group is
        in it when all of its rows are.

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
        rows = np.zeros(len(order), np.bool_)
        rows[first : last + 1] = True
        span = _chosen(order, rows, whole=last == first)
        kept: Chosen = {*self.ids, *self.groups} if add else set()
        self._choose(kept | span, row_id, begin)

    def select_all(self, order: Order[Id]) -> None:
        """Everything that fits the filter; where there are groups, all of these."""
        self._choose(_chosen(order, np.ones(len(order), np.bool_)), self.current, self.anchor)

    def select_where(self, order: Order[Id], fits: Fits, *, add: bool = False) -> int:
        """Everything that is shown and fits, e.g. ``TableFilter.fits``; returns how much that is."""
        rows = np.flatnonzero(order.view >= 0)
        rows = rows[fits(order.view[rows])]
        found = _there(order, rows.tolist())
        chosen: Chosen = {*self.ids, *self.groups, *found} if add else {*found}
        self._choose(chosen, self.current, self.anchor)
        return len(found)

    def invert(self, order: Order[Id]) -> None:
        """What fits the filter and was not selected; what does not fit stays as it is."""
        if order.groups is None:
            rows = np.ones(len(order), np.bool_)
            self._choose({*self.ids} ^ _chosen(order, rows), self.current, self.anchor)
            return
        was = set(self.acting(order))
        listed = set(order.ids_of(order.listed))
        chosen: Chosen = {*(self.ids - listed)}
        for key in order.groups_shown():
            inside = order.ids_of(order.slots_of(key))
            left = [one for one in inside if one not in was]
            # A group of which nothing was selected is selected as one.
            chosen.update([key] if len(left) == len(inside) else left)
        self._choose(chosen, self.current, self.anchor)

    def select(self, ids: Iterable[Id], groups: Iterable[GroupKey] = ()) -> None:
        """Just these."""
        self._set(set(ids), set(groups), self.current, self.anchor)

    def clear(self) -> None:
        """Nothing; the current row stays."""
        self._set(set(), set(), self.current, self.anchor)

    def take_rows(
        self,
        order: Order[Id],
        now: npt.NDArray[np.bool_],
        came: Iterable[int],
        went: Iterable[int],
        *,
        toggled: bool,
        ranged: bool,
    ) -> None:
        """Takes over what somebody chose in a table that knows rows alone, where rows stand in groups.

        A header that was chosen alone means its group, and so does one in a range with all of its rows.  A
        group of which a row was taken out is none any more: its other rows are selected by themselves.

        Args:
            order: What is shown.
            now: By row, whether it is selected now.
            came, went: Rows that were selected just now, or no longer are.
            toggled: Whether single rows were put in or taken out.
            ranged: Whether a range was drawn.
        """
        came_rows, went_rows = set(came), set(went)
        heads = np.flatnonzero(order.view < 0).tolist()
        ends = [*heads[1:], len(order)]
        chosen: Chosen = {one for one in self.ids if order.row_of(one) < 0}
        chosen.update(key for key in self.groups if order.row_of(key) < 0)
        single = now.copy()
        for head, end in zip(heads, ends, strict=True):
            key = order.key_at(head)
            whole = bool(now[head + 1 : end].all())
            if now[head]:
                # Qt may choose a row a second time: a key does, and a click on one that is chosen.
                again = key in self.groups and not toggled
                alone = (head in came_rows or again) and not ranged
                if whole or alone:
                    chosen.add(key)
                    single[head:end] = False
            elif toggled and key in self.groups and went_rows == {head}:
                single[head:end] = False
            single[head] = False
        chosen |= _there(order, np.flatnonzero(single).tolist())
        self._choose(chosen, self.current, self.anchor)

    # -- what is shown --

    def rows(self, order: Order[Id]) -> Rows:
        """Rows that are to be seen as selected, ascending: of ids, of groups, and all below these."""
        found = order.rows_of(self.ids)
        parts = [found]
        for key in self.groups:
            if (head := order.row_of(key)) >= 0:
                parts.append(np.array([head], np.int32))
                inside = order.rows_of_slots(order.slots_of(key))
                parts.append(inside[inside >= 0])
        if len(parts) == 1:
            return found
        return np.unique(np.concatenate(parts)).astype(np.int32)

    def shown(self, order: Order[Id]) -> list[Id]:
        """What is selected by itself and shown, in the order of the screen."""
        return [order.id_at(row) for row in order.rows_of(self.ids).tolist()]

    def count(self, order: Order[Id]) -> int:
        """How many are selected, by themselves or with their groups, and no fewer."""
        return len(self.ids) + sum(len(order.slots_of(key)) for key in self.groups)

    def hidden(self, order: Order[Id]) -> int:
        """How many are selected but not shown; whoever acts on the selection must be told.

        Rows of a closed group are shown as that group, if it is selected.
        """
        if not self.groups:
            return len(self.ids) - len(order.rows_of(self.ids))
        return sum(order.row_of(one) < 0 and order.group_of(one) not in self.groups for one in self.ids)

    def acting(self, order: Order[Id]) -> list[Id]:
        """All that is selected, by itself or with its group: in order, what does not fit the filter last."""
        if order.groups is None:
            found = self.shown(order)
        else:
            slots = order.slots_of_ids(self.ids)
            inside = [slots, *(order.slots_of(key) for key in self.groups)]
            found = order.ids_of(order.in_order(np.concatenate(inside)))
        if len(found) < len(self.ids):
            there = set(found)
            found += sorted((one for one in self.ids if one not in there), key=_by_number)
        return found

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
        ids = self.ids - gone if not gone.isdisjoint(self.ids) else self.ids
        self._set(ids, self.groups, current, anchor)
        return self.version != before

    def _choose(self, chosen: Chosen, current: Id | GroupKey | None, anchor: Id | GroupKey | None) -> None:
        groups = {one for one in chosen if isinstance(one, GroupKey)}
        self._set(chosen - groups if groups else chosen, groups, current, anchor)

    def _set(
        self,
        ids: set[Id],
        groups: set[GroupKey],
        current: Id | GroupKey | None,
        anchor: Id | GroupKey | None,
    ) -> None:
        if (ids, groups, current, anchor) != (self.ids, self.groups, self.current, self.anchor):
            self.ids, self.groups, self.current, self.anchor = ids, groups, current, anchor
            self.version += 1


def _by_number(row_id: Hashable) -> tuple[int, str]:
    """Sorts ids of any kind: numbers by number."""
    return (row_id, "") if isinstance(row_id, int) else (0, str(row_id))


def _there(order: Order[Id], rows: Iterable[int]) -> set[Id]:
    """Ids of rows on the screen that are no headers, less those that are gone and only still shown."""
    if not order.frozen:
        return {order.id_at(row) for row in rows}
    return {order.id_at(row) for row in rows if not order.is_gone(row)}


def _chosen(order: Order[Id], rows: npt.NDArray[np.bool_], *, whole: bool = False) -> Chosen:
    """What rows mean that are chosen together: a header means its group when all rows below it are chosen.

    Args:
        order: What is shown.
        rows: By row, whether it is chosen.
        whole: Whether a header means its group in any case.
    """
    if order.groups is None:
        return {*_there(order, np.flatnonzero(rows).tolist())}
    found: Chosen = set()
    single = rows.copy()
    heads = np.flatnonzero(order.view < 0).tolist()
    for head, end in zip(heads, [*heads[1:], len(order)], strict=True):
        if rows[head] and (whole or rows[head:end].all()) and not order.is_gone(head):
            found.add(order.key_at(head))
            single[head:end] = False
        single[head] = False
    return found | _there(order, np.flatnonzero(single).tolist())


def _neighbour(order: Order[Id], row: int) -> Id | GroupKey | None:
    """The next row below that is still there, else the next above."""
    if row < 0:
        return None
    for other in (*range(row + 1, len(order)), *range(row - 1, -1, -1)):
        if not order.is_gone(other):
            return order.key_at(other)
    return None


class ScrollAnchor(Generic[Id]):
    """What stands at the top of the screen, so that it still does after the list has changed.

    Attributes:
        offset: How far its upper edge is above the screen's, in pixels.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._row = 0
        self._below: list[Id | GroupKey] = []
        self._above: list[Id | GroupKey] = []

    def hold(self, order: Order[Id], row: int, offset: int = 0) -> None:
        """Takes note of what stands at the top; to be called when somebody scrolls.

        Args:
            order: What is shown.
            row: The first row of which anything can be seen.
            offset: How much of it is above the edge, in pixels.
        """
        row = max(0, min(row, len(order) - 1))
        self._row, self.offset = row, offset
        self._below = [order.key_at(one) for one in range(row, min(row + _AROUND, len(order)))]
        self._above = [order.key_at(one) for one in range(row - 1, max(-1, row - _AROUND), -1)]

    @property
    def row_id(self) -> Id | GroupKey | None:
        """What stands at the top; None for an empty list."""
        return self._below[0] if self._below else None

    def row(self, order: Order[Id]) -> int:
        """The row that belongs at the top now: its own, else the nearest that stood below it, or above.

        For a row whose group was closed that is the group's header.  -1 for an empty list.  A list scrolled
        to its very top stays there, so that new rows can be seen.
        """
        if self._row == 0 and self.offset == 0:
            return 0 if len(order) else -1
        for row_id in (*self._below, *self._above):
            found = order.row_of(row_id)
            if found < 0 and not isinstance(row_id, GroupKey) and (group := order.group_of(row_id)):
                found = order.row_of(group)
            if found >= 0:
                return found
        return min(self._row, len(order) - 1)
