"""In which order the rows of a table are shown, kept as they change.

What belongs here: filter, groups and sort as one index map (row on the screen -> slot in the table), and the
steps that lead from what is shown to what should be.  What may not: Qt; its models take the steps one by one.

A list that is sorted anew with every batch loses its selection and its place, or a great deal of time.  Here
a batch costs what it changed: only its rows are filtered and placed, and whoever shows the list is told which
rows went, came and moved.

Groups are part of what is sorted by, before all columns.  A header is a row like any other, told in the same
steps; where a row has a slot, a header has a number below zero (``moves.header_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from client_gui.store.groups import Grouping, GroupKey, Groups
from client_gui.store.moves import NO_ROWS, Rows, Step, displaced, group_of, plan
from client_gui.store.sortkeys import SortKey, SortKeys
from client_gui.store.table import NO_MASKS, NO_SLOTS, Change, Masks, Slots, Table

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


#: Says which slots are shown.
Fits = Callable[[Slots], npt.NDArray[np.bool_]]


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
        self._fits: Fits | None = None
        self._filter_bits = 0
        self._by = SortKeys(table)
        self._member = np.zeros(0, np.bool_)
        #: All that fits, in order; and what is to be shown of it, which is the same without groups.
        self._target: Slots = NO_SLOTS
        self._wanted: Slots = NO_SLOTS
        self._groups: Groups | None = None
        #: Numbers of groups that were given out.
        self._numbers = 0
        self._frozen = False
        #: Slots that were given another place while the view was frozen.
        self._moved: set[int] = set()
        self.view: Slots = NO_SLOTS
        self._row_of = np.zeros(0, np.int32)
        #: By number of a group: the row its header is in, -1 when it is not shown.
        self._header_row = np.zeros(0, np.int32)
        self._by.set_sort(sort)
        self._recompute()
        self._show(self._wanted)

    # -- reading --

    def __len__(self) -> int:
        return len(self.view)

    @property
    def sort(self) -> tuple[SortKey, ...]:
        """What it is sorted by."""
        return self._by.sort

    @property
    def hidden(self) -> int:
        """How many rows of the table do not fit the filter."""
        return len(self._table) - len(self._target)

    @property
    def listed(self) -> Slots:
        """Slots of all that fits the filter, in order, in closed groups, too; not to be written to."""
        return self._target

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
        return self.id_at(row) if slot >= 0 else self._key_of(group_of(slot))

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
        chosen = np.zeros(self._table.capacity, np.bool_)
        chosen[slots] = True
        found: Slots = self._target[chosen[self._target]]
        return found

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
        return self._groups

    def number_of(self, key: GroupKey) -> int:
        """The number of a group, -1 when there never was such a one."""
        groups = self._groups
        return groups.number_of(key.name) if groups is not None and groups.grouping.by == key.by else -1

    def group_of(self, row_id: Id) -> GroupKey | None:
        """The group a row that fits the filter is in, None when it is in none."""
        slot = self._table.slot(row_id)
        if self._groups is None or slot < 0 or not self._member[slot]:
            return None
        return self._key_of(self._groups.first + int(self._groups.codes[slot]))

    def groups_shown(self) -> list[GroupKey]:
        """Groups that have rows, in order."""
        if self._groups is None:
            return []
        places = np.flatnonzero(self._groups.counts() > 0)
        places = places[np.argsort(self._groups.rank[places], kind="stable")]
        return [self._key_of(self._groups.first + place) for place in places.tolist()]

    def slots_of(self, key: GroupKey) -> Slots:
        """Slots of the rows of a group, in order, shown or not."""
        groups, number = self._groups, self.number_of(key)
        if groups is None or number < 0 or not (count := groups.count(place := number - groups.first)):
            return NO_SLOTS
        start = groups.start(place)
        found: Slots = self._target[start : start + count]
        return found

    def set_grouping(self, grouping: Grouping | None, closed: Iterable[str] = ()) -> Update:
        """Puts rows in groups, or in none.

        Args:
            grouping: What they are grouped by.
            closed: Names of groups whose rows are not shown.
        """
        self._groups = None
        if grouping is not None:
            self._groups = Groups(self._table, grouping, self._numbers)
            self._groups.close(closed)
        return self.rebuild()

    def close_groups(self, names: Iterable[str]) -> Update:
        """Makes these the groups whose rows are not shown; those of all others are."""
        if self._groups is None:
            return Update()
        self._groups.close(names)
        self._wanted = self._groups.with_headers(self._target)
        return self._replanned()

    def _key_of(self, number: int) -> GroupKey:
        groups = self._groups
        place = number - groups.first if groups is not None else -1
        if groups is None or not 0 <= place < len(groups):
            return GroupKey("", str(number))  # of groups that are still shown under a menu, and no more
        return GroupKey(groups.grouping.by, groups.names[place])

    def _regroup(self, groups: Groups) -> bool:
        """Puts groups in order, and the target as they stand; whether one stands elsewhere."""
        by = self._by
        key = by.sort[0] if by.sort else SortKey("")
        target = groups.arranged(self._target, key.column, key.descending, by.keys[0] if by.sort else None)
        moved, self._target = target is not self._target, target
        self._numbers = max(self._numbers, groups.end)
        return moved

    # -- what is asked for --

    def set_filter(self, fits: Fits | None, bits: int = 0) -> Update:
        """Shows what fits.

        Args:
            fits: Says which slots fit; None shows everything.
            bits: Column groups whose changes may change that (``TableFilter.bits``).
        """
        self._fits, self._filter_bits = fits, bits
        self._fit_capacity()
        slots = self._table.slots()
        member = np.zeros(self._table.capacity, np.bool_)
        member[slots if fits is None else slots[fits(slots)]] = True
        kept = self._target[member[self._target]]
        coming = np.flatnonzero(member & ~self._member).astype(np.int32)
        if self._groups is not None:
            self._groups.leave(np.flatnonzero(self._member & ~member).astype(np.int32))
            self._groups.enter(coming)
        if len(coming) < len(kept):
            coming = self._sorted(coming)
            self._target = np.insert(kept, self._places_in(kept, coming), coming)
        else:
            self._target = self._sorted(np.flatnonzero(member).astype(np.int32))
        self._member = member
        self._arrange()
        return self._replanned()

    def set_sort(self, sort: Sequence[SortKey]) -> Update:
        """Sorts by other columns."""
        self._by.set_sort(sort)
        return self.rebuild()

    def rebuild(self) -> Update:
        """Works everything out anew, after changes that were missed or when time has moved what fits."""
        self._recompute()
        return self._replanned()

    def _replanned(self) -> Update:
        headers = NO_ROWS
        if self._frozen:
            self._moved.update(self._target.tolist())
            steps: tuple[Step, ...] = ()
        else:
            steps = plan(self.view, self._wanted, None)
        if self._groups is not None:
            self._groups.take_changed()
            shown = self.view if self._frozen else self._wanted
            headers = np.flatnonzero(shown < 0).astype(np.int32)
        return Update(steps, headers=headers)

    def _arrange(self) -> bool:
        """Makes of the target what is to be shown; whether groups stand elsewhere."""
        if self._groups is None:
            self._wanted = self._target
            return False
        moved = self._regroup(self._groups)
        self._wanted = self._groups.with_headers(self._target)
        return moved

    # -- changes --

    def apply(self, change: Change[Id]) -> Update:
        """Takes a change of the table in.

        While the order is frozen the steps are none; rows that stay where they are still report new values.
        A row that went meanwhile is shown as it was.  If its id comes again that is another row, which is not
        shown yet and so not reported: it comes with the steps of ``thaw``.
        """
        self._fit_capacity()
        before = self._target
        moved = self._retarget(change)
        if self._groups is None:
            self._wanted = self._target
        else:
            moved = self._regroup_changed(self._groups, moved, changed=self._target is not before)
        if self._frozen:
            self._moved.update(moved.tolist())
            rows, masks = self._changed_rows(change, self._row_of)
            return Update((), rows, masks, self._changed_headers(self._header_row))
        steps = plan(self.view, self._wanted, moved)
        where, heads = self._row_of, self._header_row
        if steps:
            where, heads = self._places(self._wanted)
        return Update(steps, *self._changed_rows(change, where), self._changed_headers(heads))

    def _regroup_changed(self, groups: Groups, moved: Slots, *, changed: bool) -> Slots:
        """Puts groups right after a change; returns the slots that may have another place."""
        if (changed or groups.move_alone(self._by.sort[0].column if self._by.sort else "")) and self._regroup(
            groups
        ):
            moved, changed = self._target, True
        if changed:
            self._wanted = groups.with_headers(self._target)
        return moved

    def _changed_headers(self, heads: Rows) -> Rows:
        """Rows of headers that say something else now."""
        if self._groups is None:
            return NO_ROWS
        numbers = self._groups.take_changed() + self._groups.first
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
        return self._by.prepare(columns)

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
        steps = plan(self.view, self._wanted, moved)
        # What was held can only be let go of once nobody shows it: with the table's next batch.
        self._table.release()
        return Update(steps)

    @property
    def pending(self) -> int:
        """How many rows would come, go or move if the order were not frozen."""
        if not self._frozen:
            return 0
        room = self._table.capacity + self._numbers
        shown, wanted = _mask(self.view, room), _mask(self._wanted, room)
        count = int((shown != wanted).sum())
        both = shown & wanted
        if not self._moved:
            return count
        moved = np.zeros(room, np.bool_)
        moved[np.fromiter(self._moved, np.int32, len(self._moved))] = True
        return count + displaced(self.view[both[self.view]], self._wanted[both[self._wanted]], moved)

    def is_gone(self, row: int) -> bool:
        """Whether a row of a frozen order is not in the table any more, even if its id has come again.

        A header is gone with the last row of its group.
        """
        slot = int(self.view[row])
        if slot < 0:
            groups, number = self._groups, group_of(slot)
            if groups is None or not groups.first <= number < groups.end:
                return True
            return not groups.count(number - groups.first)
        row_id = self._table.ids[slot]
        return row_id is None or self._table.slot(row_id) != slot

    # -- inside --

    def _show(self, view: Slots) -> None:
        self.view = view
        self._row_of, self._header_row = self._places(view)

    def _places(self, view: Slots) -> tuple[Rows, Rows]:
        """Row by slot, and row by number of a header's group; -1 where it is not shown."""
        capacity = self._table.capacity
        found = np.full(capacity + self._numbers, -1, np.int32)
        # Numbers of headers count from the end, where there is room for them.
        found[view] = np.arange(len(view), dtype=np.int32)
        return found[:capacity], found[capacity:][::-1]

    def _fit_capacity(self) -> None:
        capacity = self._table.capacity
        if len(self._member) < capacity:
            grown = np.zeros(capacity, np.bool_)
            grown[: len(self._member)] = self._member
            self._member = grown
            self._by.fit(capacity)
            if self._groups is not None:
                self._groups.fit(capacity)

    def _recompute(self) -> None:
        """The target from nothing."""
        slots = self._table.slots()
        self._member = np.zeros(self._table.capacity, np.bool_)
        self._by.rebuild(slots)
        everything = slots
        if self._fits is not None:
            slots = slots[self._fits(slots)]
        self._member[slots] = True
        if self._groups is not None:
            self._groups.rebuild(everything, slots)
        self._target = self._sorted(slots)
        self._arrange()

    def _sorted(self, slots: Slots) -> Slots:
        columns = [self._table.serials[slots], *(key[slots] for key in reversed(self._by.keys))]
        if self._groups is not None:
            columns.append(self._groups.rank[self._groups.codes[slots]])
        return slots[np.lexsort(columns)]

    def _retarget(self, change: Change[Id]) -> Slots:
        """Takes a change into the target; returns the slots that may have another place in it."""
        by = self._by
        touched = change.touching(by.bits)
        moved = by.rekey(touched[self._member[touched]]) if by.keys else NO_SLOTS
        if by.keys:
            hidden = touched[~self._member[touched]]
            by.rekey(np.concatenate([change.inserted, hidden]))
            by.renew_ranks()
        if self._groups is not None:
            self._groups.recode(change.inserted)
            elsewhere = self._groups.recode(change.touching(self._groups.member_bits))
            moved = np.union1d(moved, elsewhere[self._member[elsewhere]]) if len(elsewhere) else moved
        asked = change.inserted
        if self._fits is not None:
            asked = np.concatenate([asked, change.touching(self._filter_bits)])
        fits = np.ones(len(asked), np.bool_) if self._fits is None else self._fits(asked)
        was = self._member[asked]
        left = np.concatenate([asked[was & ~fits], change.removed[self._member[change.removed]]])
        entered = asked[~was & fits]
        self._member[left] = False
        moved = moved[self._member[moved]]
        self._member[entered] = True
        if self._groups is not None:
            self._groups.leave(left)
            self._groups.renew(change.touching(self._groups.bits))
            self._groups.enter(entered)
        if not (len(left) or len(entered) or len(moved)):
            return moved
        out = np.zeros(self._table.capacity, np.bool_)
        out[left] = out[moved] = True
        kept = self._target[~out[self._target]]
        coming = self._sorted(np.concatenate([entered, moved]))
        self._target = np.insert(kept, self._places_in(kept, coming), coming)
        return moved

    def _places_in(self, kept: Slots, coming: Slots) -> Rows:
        """Before which rows of a sorted view new slots belong: a binary search for all of them at once."""
        serials = self._table.serials
        low = np.zeros(len(coming), np.int64)
        high = np.full(len(coming), len(kept), np.int64)
        while (open_ := np.flatnonzero(low < high)).size:
            middle = (low[open_] + high[open_]) // 2
            there, here = kept[middle], coming[open_]
            before = serials[there] < serials[here]
            for key in reversed(self._by.keys):
                a, b = key[there], key[here]
                before = (a < b) | ((a == b) & before)
            if self._groups is not None:
                rank, codes = self._groups.rank, self._groups.codes
                a, b = rank[codes[there]], rank[codes[here]]
                before = (a < b) | ((a == b) & before)
            low[open_] = np.where(before, middle + 1, low[open_])
            high[open_] = np.where(before, high[open_], middle)
        return low.astype(np.int32)

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
