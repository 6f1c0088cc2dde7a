"""What of a table is to be shown, and in which order: all that fits, sorted, perhaps in groups.

What belongs here: the filter, the sort and the groups, and the list they make of a table, kept as its rows
change.  What may not: what is shown at the moment and how it gets there (``order``), and Qt.

A change costs what it changed: only its rows are filtered, and put where a binary search says they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from client_gui.store.groups import Grouping, GroupKey, Groups
from client_gui.store.moves import Rows
from client_gui.store.sortkeys import SortKey, SortKeys
from client_gui.store.table import NO_SLOTS, Change, Numbers, Slots, Table

Id = TypeVar("Id", bound=Hashable)

#: Says which slots are shown.
Fits = Callable[[Slots], npt.NDArray[np.bool_]]


class Wanted(Generic[Id]):
    """The rows of a table that are to be shown.

    Nothing is worked out before ``rebuild``, which has to follow ``set_sort`` and ``set_grouping``, too.

    Args:
        table: The table.

    Attributes:
        listed: Slots of all that fits, in order, in closed groups, too.
        view: Slots and headers that are to be shown; the same as ``listed`` without groups.
        groups: The groups, None when rows stand in none.
        numbers: How many numbers of groups were given out.
    """

    def __init__(self, table: Table[Id]) -> None:
        self.listed: Slots = NO_SLOTS
        self.view: Slots = NO_SLOTS
        self.groups: Groups | None = None
        self.numbers = 0
        self._table = table
        self._fits: Fits | None = None
        self._filter_bits = 0
        self._by = SortKeys(table)
        #: By slot, whether it fits.
        self._member = np.zeros(0, np.bool_)

    # -- reading --

    @property
    def sort(self) -> tuple[SortKey, ...]:
        """What it is sorted by."""
        return self._by.sort

    def number_of(self, key: GroupKey) -> int:
        """The number of a group, -1 when there never was such a one."""
        groups = self.groups
        return groups.number_of(key.name) if groups is not None and groups.grouping.by == key.by else -1

    def key_of(self, number: int) -> GroupKey:
        """The group of a number."""
        groups = self.groups
        place = number - groups.first if groups is not None else -1
        if groups is None or not 0 <= place < len(groups):
            return GroupKey("", str(number))  # of groups that are still shown under a menu, and no more
        return GroupKey(groups.grouping.by, groups.names[place])

    def is_empty(self, number: int) -> bool:
        """Whether a group has no rows, or is none of those that rows stand in now."""
        groups = self.groups
        if groups is None or not groups.first <= number < groups.end:
            return True
        return not groups.count(number - groups.first)

    def group_of(self, row_id: Id) -> GroupKey | None:
        """The group a row that fits is in, None when it is in none."""
        slot = self._table.slot(row_id)
        if self.groups is None or slot < 0 or not self._member[slot]:
            return None
        return self.key_of(self.groups.first + int(self.groups.codes[slot]))

    def group_keys(self) -> list[GroupKey]:
        """Groups that have rows, in order."""
        if self.groups is None:
            return []
        places = np.flatnonzero(self.groups.counts() > 0)
        places = places[np.argsort(self.groups.rank[places], kind="stable")]
        return [self.key_of(self.groups.first + place) for place in places.tolist()]

    def slots_of(self, key: GroupKey) -> Slots:
        """Slots of the rows of a group, in order."""
        groups, number = self.groups, self.number_of(key)
        if groups is None or number < 0 or not (count := groups.count(place := number - groups.first)):
            return NO_SLOTS
        start = groups.start(place)
        found: Slots = self.listed[start : start + count]
        return found

    def in_order(self, slots: Slots) -> Slots:
        """Those of some slots that fit, each once, in order."""
        chosen = np.zeros(self._table.capacity, np.bool_)
        chosen[slots] = True
        found: Slots = self.listed[chosen[self.listed]]
        return found

    # -- what is asked for --

    def set_sort(self, sort: Sequence[SortKey]) -> None:
        """Sorts by other columns."""
        self._by.set_sort(sort)

    def prepare(self, columns: Iterable[str]) -> Iterator[None]:
        """Gets ready to sort by some columns, bit by bit (``SortKeys.prepare``)."""
        return self._by.prepare(columns)

    def set_grouping(self, grouping: Grouping | None, closed: Iterable[str]) -> None:
        """Puts rows in groups, or in none."""
        self.groups = None
        if grouping is not None:
            self.groups = Groups(self._table, grouping, self.numbers)
            self.groups.close(closed)

    def close_groups(self, names: Iterable[str]) -> None:
        """Makes these the groups whose rows are not shown; there have to be groups."""
        assert self.groups is not None
        self.groups.close(names)
        self.view = self.groups.with_headers(self.listed)

    def set_filter(self, fits: Fits | None, bits: int) -> None:
        """Shows what fits.

        Args:
            fits: Says which slots fit; None shows everything.
            bits: Column groups whose changes may change that.
        """
        self._fits, self._filter_bits = fits, bits
        self._fit_capacity()
        slots = self._table.slots()
        member = np.zeros(self._table.capacity, np.bool_)
        member[slots if fits is None else slots[fits(slots)]] = True
        kept = self.listed[member[self.listed]]
        coming = np.flatnonzero(member & ~self._member).astype(np.int32)
        if self.groups is not None:
            self.groups.leave(np.flatnonzero(self._member & ~member).astype(np.int32))
            self.groups.enter(coming)
        if len(coming) < len(kept):
            coming = self._sorted(coming)
            self.listed = np.insert(kept, self._places_in(kept, coming), coming)
        else:
            self.listed = self._sorted(np.flatnonzero(member).astype(np.int32))
        self._member = member
        self._arrange()

    def rebuild(self) -> None:
        """Works everything out from nothing."""
        slots = self._table.slots()
        self._member = np.zeros(self._table.capacity, np.bool_)
        self._by.rebuild(slots)
        everything = slots
        if self._fits is not None:
            slots = slots[self._fits(slots)]
        self._member[slots] = True
        if self.groups is not None:
            self.groups.rebuild(everything, slots)
        self.listed = self._sorted(slots)
        self._arrange()

    # -- changes --

    def apply(self, change: Change[Id]) -> Slots:
        """Takes a change of the table in; returns the slots that may have another place."""
        self._fit_capacity()
        before = self.listed
        moved = self._relist(change)
        groups = self.groups
        if groups is None:
            self.view = self.listed
            return moved
        changed = self.listed is not before
        alone = groups.move_alone(self.sort[0].column if self.sort else "")
        if (changed or alone) and self._regroup(groups):
            moved, changed = self.listed, True
        if changed:
            self.view = groups.with_headers(self.listed)
        return moved

    def _relist(self, change: Change[Id]) -> Slots:
        """Takes a change into what is listed; returns the slots that may have another place in it."""
        by = self._by
        touched = change.touching(by.bits)
        moved = by.rekey(touched[self._member[touched]]) if by.keys else NO_SLOTS
        if by.keys:
            hidden = touched[~self._member[touched]]
            by.rekey(np.concatenate([change.inserted, hidden]))
            by.renew_ranks()
        if self.groups is not None:
            self.groups.recode(change.inserted)
            elsewhere = self.groups.recode(change.touching(self.groups.member_bits))
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
        if self.groups is not None:
            self.groups.leave(left)
            self.groups.renew(change.touching(self.groups.bits))
            self.groups.enter(entered)
        if not (len(left) or len(entered) or len(moved)):
            return moved
        out = np.zeros(self._table.capacity, np.bool_)
        out[left] = out[moved] = True
        kept = self.listed[~out[self.listed]]
        coming = self._sorted(np.concatenate([entered, moved]))
        self.listed = np.insert(kept, self._places_in(kept, coming), coming)
        return moved

    # -- inside --

    def _fit_capacity(self) -> None:
        capacity = self._table.capacity
        if len(self._member) < capacity:
            grown = np.zeros(capacity, np.bool_)
            grown[: len(self._member)] = self._member
            self._member = grown
            self._by.fit(capacity)
            if self.groups is not None:
                self.groups.fit(capacity)

    def _arrange(self) -> None:
        """Makes of what is listed what is to be shown."""
        if self.groups is None:
            self.view = self.listed
        else:
            self._regroup(self.groups)
            self.view = self.groups.with_headers(self.listed)

    def _regroup(self, groups: Groups) -> bool:
        """Puts groups in order, and what is listed as they stand; whether one stands elsewhere."""
        by = self._by
        key = by.sort[0] if by.sort else SortKey("")
        listed = groups.arranged(self.listed, key.column, key.descending, by.keys[0] if by.sort else None)
        moved, self.listed = listed is not self.listed, listed
        self.numbers = max(self.numbers, groups.end)
        return moved

    def _weights(self, slots: Slots) -> list[Numbers]:
        """What slots are sorted by, what weighs least first."""
        found: list[Numbers] = [self._table.serials[slots], *(key[slots] for key in reversed(self._by.keys))]
        if self.groups is not None:
            found.append(self.groups.rank[self.groups.codes[slots]])
        return found

    def _sorted(self, slots: Slots) -> Slots:
        return slots[np.lexsort(self._weights(slots))]

    def _places_in(self, kept: Slots, coming: Slots) -> Rows:
        """Before which rows of a sorted list new slots belong: a binary search for all of them at once."""
        weights = self._weights(coming)
        low = np.zeros(len(coming), np.int64)
        high = np.full(len(coming), len(kept), np.int64)
        while (open_ := np.flatnonzero(low < high)).size:
            middle = (low[open_] + high[open_]) // 2
            least, *weightier = self._weights(kept[middle])
            before = least < weights[0][open_]
            for a, weight in zip(weightier, weights[1:], strict=True):
                b = weight[open_]
                before = (a < b) | ((a == b) & before)
            low[open_] = np.where(before, middle + 1, low[open_])
            high[open_] = np.where(before, high[open_], middle)
        return low.astype(np.int32)
