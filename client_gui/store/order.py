"""In which order the rows of a table are shown, kept as they change.

What belongs here: what is shown as one index map (row on the screen -> slot in the table), and the steps that
lead from there to what is to be shown.  What may not: what that is (``wanted``: filter, groups and sort), and
Qt; its models take the steps one by one.

A list that is sorted anew with every batch loses its selection and its place, or a great deal of time.  Here
whoever shows the list is told which rows went, came and moved, and nothing does while the view is frozen.

Groups are part of what is sorted by, before all columns.  A header is a row like any other, told in the same
steps; where a row has a slot, a header has a number below zero (``moves.header_of``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from client_gui.store.groups import Grouping, GroupKey, Groups
from client_gui.store.moves import NO_ROWS, Rows, Step, displaced, group_of, plan
from client_gui.store.sortkeys import SortKey
from client_gui.store.table import NO_MASKS, NO_SLOTS, Change, Masks, Slots, Table
from client_gui.store.wanted import Fits, Wanted

__all__ = ["Fits", "Order", "SortKey", "Update"]

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What to do to what is shown.

    Attributes:
        steps: One by one, in order; after each one ``Order.commit`` it.
        rows: Shown rows whose values changed, ascending, as they are after the steps.
        masks: For each of ``rows`` the column groups, as bits.
        headers: Rows of headers that say something else, ascending, as they are after the steps.
    """

    steps: tuple[Step, ...] = ()
    rows: Rows = field(default_factory=lambda: NO_ROWS)
    masks: Masks = field(default_factory=lambda: NO_MASKS)
    headers: Rows = field(default_factory=lambda: NO_ROWS)

    def __bool__(self) -> bool:
        return bool(self.steps or len(self.rows) or len(self.headers))


class Order(Generic[Id]):
    """The rows of a table that fit a filter, in an order, perhaps in groups.

    It has to be handed every change of the table, at once and in order; one that missed some is put right by
    ``rebuild``.

    Args:
        table: The table.
        sort: Columns to sort by, the first weighs most; rows that are equal in all of them stand by number,
            or in the order in which they came.

    Attributes:
        view: Slots in the order in which they are shown, with headers between them; not to be written to.
    """

    def __init__(self, table: Table[Id], sort: Sequence[SortKey] = ()) -> None:
        self._table = table
        self._wanted = Wanted(table)
        self._frozen = False
        #: Slots that were given another place while the view was frozen.
        self._moved: set[int] = set()
        self.view: Slots = NO_SLOTS
        self._row_of = np.zeros(0, np.int32)
        #: By number of a group: the row its header is in, -1 when it is not shown.
        self._header_row = np.zeros(0, np.int32)
        self._wanted.set_sort(sort)
        self._wanted.rebuild()
        self._show(self._wanted.view)

    # -- reading --

    def __len__(self) -> int:
        return len(self.view)

    @property
    def sort(self) -> tuple[SortKey, ...]:
        """What it is sorted by."""
        return self._wanted.sort

    @property
    def hidden(self) -> int:
        """How many rows of the table do not fit the filter."""
        return len(self._table) - len(self._wanted.listed)

    @property
    def listed(self) -> Slots:
        """Slots of all that fits the filter, in order, in closed groups, too; not to be written to."""
        return self._wanted.listed

    def slot_at(self, row: int) -> int:
        """The slot shown in a row; below zero for a header."""
        return int(self.view[row])

    def id_at(self, row: int) -> Id:
        """The id shown in a row that is no header.

        Raises:
            IndexError: There is no such row.
        """
        found: Id | None = self._table.ids[int(self.view[row])]
        assert found is not None
        return found

    def key_at(self, row: int) -> Id | GroupKey:
        """What is shown in a row: an id, or the group of a header.

        Raises:
            IndexError: There is no such row.
        """
        slot = int(self.view[row])
        return self.id_at(row) if slot >= 0 else self._wanted.key_of(group_of(slot))

    def ids(self) -> list[Id]:
        """Ids of all rows that are shown, in order."""
        ids = self._table.ids
        return [ids[slot] for slot in self.view.tolist() if slot >= 0]

    def ids_of(self, slots: Slots) -> list[Id]:
        """Ids of the rows in some slots, as far as there are any."""
        ids = self._table.ids
        return [row_id for slot in slots.tolist() if (row_id := ids[slot]) is not None]

    def slots_of_ids(self, ids: Iterable[Id]) -> Slots:
        """Slots of those ids that there are, in no particular order."""
        slot_of = self._table.slot
        return np.array([slot for row_id in ids if (slot := slot_of(row_id)) >= 0], np.int32)

    def in_order(self, slots: Slots) -> Slots:
        """Those of some slots that fit the filter, each once, in order."""
        return self._wanted.in_order(slots)

    def row_of(self, row_id: Id | GroupKey) -> int:
        """The row an id, or the header of a group, is shown in, -1 when it is not shown.

        A row that is gone (``is_gone``) is nobody's: not even when its id has come again since.
        """
        if isinstance(row_id, GroupKey):
            number = self.number_of(row_id)
            return int(self._header_row[number]) if 0 <= number < len(self._header_row) else -1
        slot = self._table.slot(row_id)
        return int(self._row_of[slot]) if 0 <= slot < len(self._row_of) else -1

    def rows_of(self, ids: Iterable[Id]) -> Rows:
        """Rows of those of some ids that are shown, ascending."""
        rows = self.rows_of_slots(self.slots_of_ids(ids))
        return np.sort(rows[rows >= 0])

    def rows_of_slots(self, slots: Slots) -> Rows:
        """Rows of some slots, -1 where one is not shown."""
        found = np.full(len(slots), -1, np.int32)
        known = slots < len(self._row_of)
        found[known] = self._row_of[slots[known]]
        return found

    # -- groups --

    @property
    def groups(self) -> Groups | None:
        """The groups, None when rows stand in none."""
        return self._wanted.groups

    def number_of(self, key: GroupKey) -> int:
        """The number of a group, -1 when there never was such a one."""
        return self._wanted.number_of(key)

    def group_of(self, row_id: Id) -> GroupKey | None:
        """The group a row that fits the filter is in, None when it is in none."""
        return self._wanted.group_of(row_id)

    def groups_shown(self) -> list[GroupKey]:
        """Groups that have rows, in order."""
        return self._wanted.group_keys()

    def slots_of(self, key: GroupKey) -> Slots:
        """Slots of the rows of a group, in order, shown or not."""
        return self._wanted.slots_of(key)

    def set_grouping(self, grouping: Grouping | None, closed: Iterable[str] = ()) -> Update:
        """Puts rows in groups, or in none.

        Args:
            grouping: What they are grouped by.
            closed: Names of groups whose rows are not shown.
        """
        self._wanted.set_grouping(grouping, closed)
        return self.rebuild()

    def close_groups(self, names: Iterable[str]) -> Update:
        """Makes these the groups whose rows are not shown; those of all others are."""
        if self._wanted.groups is None:
            return Update()
        self._wanted.close_groups(names)
        return self._replanned()

    # -- what is asked for --

    def set_filter(self, fits: Fits | None, bits: int = 0) -> Update:
        """Shows what fits.

        Args:
            fits: Says which slots fit; None shows everything.
            bits: Column groups whose changes may change that (``TableFilter.bits``).
        """
        self._wanted.set_filter(fits, bits)
        return self._replanned()

    def set_sort(self, sort: Sequence[SortKey]) -> Update:
        """Sorts by other columns."""
        self._wanted.set_sort(sort)
        return self.rebuild()

    def rebuild(self) -> Update:
        """Works everything out anew, after changes that were missed or when time has moved what fits."""
        self._wanted.rebuild()
        return self._replanned()

    def _replanned(self) -> Update:
        wanted, headers = self._wanted, NO_ROWS
        if self._frozen:
            self._moved.update(wanted.listed.tolist())
            steps: tuple[Step, ...] = ()
        else:
            steps = plan(self.view, wanted.view, None)
        if wanted.groups is not None:
            wanted.groups.take_changed()
            shown = self.view if self._frozen else wanted.view
            headers = np.flatnonzero(shown < 0).astype(np.int32)
        return Update(steps, headers=headers)

    # -- changes --

    def apply(self, change: Change[Id]) -> Update:
        """Takes a change of the table in.

        While the order is frozen the steps are none; rows that stay where they are still report new values.
        A row that went meanwhile is shown as it was.  If its id comes again that is another row, which is not
        shown yet and so not reported: it comes with the steps of ``thaw``.
        """
        moved = self._wanted.apply(change)
        if self._frozen:
            self._moved.update(moved.tolist())
            rows, masks = self._changed_rows(change, self._row_of)
            return Update((), rows, masks, self._changed_headers(self._header_row))
        steps = plan(self.view, self._wanted.view, moved)
        where, heads = self._row_of, self._header_row
        if steps:
            where, heads = self._places(self._wanted.view)
        return Update(steps, *self._changed_rows(change, where), self._changed_headers(heads))

    def _changed_headers(self, heads: Rows) -> Rows:
        """Rows of headers that say something else now."""
        groups = self._wanted.groups
        if groups is None:
            return NO_ROWS
        numbers = groups.take_changed() + groups.first
        rows = heads[numbers[numbers < len(heads)]]
        return np.sort(rows[rows >= 0])

    def commit(self, step: Step) -> None:
        """Makes a step the view."""
        self._show(step.view)

    def settle(self, update: Update) -> Update:
        """Commits all steps at once, for those who show nothing."""
        for step in update.steps:
            self.commit(step)
        return update

    def prepare(self, columns: Iterable[str]) -> Iterator[None]:
        """Gets ready to sort by some columns, bit by bit, while nobody is in a hurry.

        Each step takes a few milliseconds at most; the table may change between two of them.
        """
        return self._wanted.prepare(columns)

    # -- standing still --

    @property
    def frozen(self) -> bool:
        """Whether rows keep their places for now."""
        return self._frozen

    def freeze(self) -> None:
        """Lets no row come, go or move, for as long as a menu is open or a button is held down.

        Rows that are gone from the table can still be read meanwhile.
        """
        if not self._frozen:
            self._frozen = True
            self._table.hold()

    def thaw(self) -> Update:
        """Goes on; gives what has been held back."""
        if not self._frozen:
            return Update()
        self._frozen = False
        moved = np.array(sorted(self._moved), np.int32)
        self._moved.clear()
        steps = plan(self.view, self._wanted.view, moved)
        # What was held can only be let go of once nobody shows it: with the table's next batch.
        self._table.release()
        return Update(steps)

    @property
    def pending(self) -> int:
        """How many rows would come, go or move if the order were not frozen."""
        if not self._frozen:
            return 0
        room = self._table.capacity + self._wanted.numbers
        target = self._wanted.view
        shown, wanted = _mask(self.view, room), _mask(target, room)
        count = int((shown != wanted).sum())
        both = shown & wanted
        if not self._moved:
            return count
        moved = np.zeros(room, np.bool_)
        moved[np.fromiter(self._moved, np.int32, len(self._moved))] = True
        return count + displaced(self.view[both[self.view]], target[both[target]], moved)

    def is_gone(self, row: int) -> bool:
        """Whether a row of a frozen order is not in the table any more, even if its id has come again.

        A header is gone with the last row of its group.
        """
        slot = int(self.view[row])
        if slot < 0:
            return self._wanted.is_empty(group_of(slot))
        row_id = self._table.ids[slot]
        return row_id is None or self._table.slot(row_id) != slot

    # -- inside --

    def _show(self, view: Slots) -> None:
        self.view = view
        self._row_of, self._header_row = self._places(view)

    def _places(self, view: Slots) -> tuple[Rows, Rows]:
        """Row by slot, and row by number of a header's group; -1 where it is not shown."""
        capacity = self._table.capacity
        found = np.full(capacity + self._wanted.numbers, -1, np.int32)
        # Numbers of headers count from the end, where there is room for them.
        found[view] = np.arange(len(view), dtype=np.int32)
        return found[:capacity], found[capacity:][::-1]

    def _changed_rows(self, change: Change[Id], where: npt.NDArray[np.int32]) -> tuple[Rows, Masks]:
        known = change.changed < len(where)
        rows, masks = where[change.changed[known]], change.masks[known]
        shown = rows >= 0
        rows, masks = rows[shown], masks[shown]
        order = np.argsort(rows, kind="stable")
        return rows[order], masks[order]


def _mask(view: Slots, room: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(room, np.bool_)
    found[view] = True
    return found
