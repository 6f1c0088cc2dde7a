"""Groups of the rows of a table: which row is in which, what all rows of one come to, which one is first.

What belongs here: group numbers by slot, and sums by group, kept as rows change.  What may not: what the
groups of jobs are (``jobgroups``), which rows are shown (``order``), and Qt.

A farm's list changes twenty thousand rows a second, and a header says what all of its rows come to.  So a sum
is never made anew: each row's part in it is kept in an array beside it, and a batch adds the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from client_gui.store.moves import header_of
from client_gui.store.natural import natural_key
from client_gui.store.table import MISSING, Numbers, Slots, Table

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int32]
#: By slot, where no group is known.
NOWHERE: Final = -1
_NO_PLACES: Final[Places] = np.empty(0, np.int32)
#: Fewer groups than this are put in order by counting.
_SMALL: Final = 1 << 14
#: Groups that arrays have room for at first.
_ROOM: Final = 16


@dataclass(frozen=True, slots=True)
class GroupKey:
    """What a header is known by, as a row is by its id.

    Attributes:
        by: What rows are grouped by.
        name: Of the group: a project, a user, a state.
    """

    by: str
    name: str


@dataclass(frozen=True, slots=True)
class Grouping:
    """What rows are grouped by, and what is said of a group.

    Attributes:
        by: Stable name.
        title: What it is called: ``project``.
        columns: Columns of the table that say which group a row is in.
        read: Names of the groups of some slots.
        key: What names sort by.
        label: What a header says for a name, at a time and in a time zone.
        sums: Whole-number columns that are added up.
        state: STATE column of which ``words`` are counted, "" for none.
        words: These words.
        shown: Further columns that something said of a group is made of.
        sorted_by: By a column that rows are sorted by, the sum that groups are sorted by, or two: a share.
        latest: Columns of which a group has its largest value.
        first: Columns by which a group stands where its first row does.
        named: Columns whose direction is that of the groups' names; by all others names go upwards.
    """

    by: str
    title: str
    columns: tuple[str, ...]
    read: Callable[[Table[Any], Slots], list[str]]
    key: Callable[[str], Any] = natural_key
    label: Callable[[str, int, tzinfo], str] = lambda name, now_us, zone: name
    sums: tuple[str, ...] = ()
    state: str = ""
    words: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    sorted_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    latest: frozenset[str] = frozenset()
    first: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()


class Groups:
    """The groups of a table's rows.

    Only rows that are counted (``enter``) are part of what a group comes to: those that fit the filter.

    Args:
        table: The table.
        grouping: What its rows are grouped by.
        first: Number of the first group; numbers are never given twice, so that a row on the screen that was
            one group's header is never taken for another's.

    Attributes:
        grouping: What rows are grouped by.
        first: Number of the first group.  All else here goes by place: a group's number less this.
        names: By place.
        bits: Column groups whose changes change what a header says.
        member_bits: Column groups whose changes change which group a row is in.
        rank: By place, which one the group is among all.
    """

    def __init__(self, table: Table[Any], grouping: Grouping, first: int = 0) -> None:
        self.grouping = grouping
        self.first = first
        self.names: list[str] = []
        self._table = table
        self._place_of: dict[str, int] = {}
        self._columns = grouping.sums
        self._words = tuple(table.words(grouping.state).code(word) for word in grouping.words)
        kinds = 1 + len(self._words) + len(self._columns)
        state = (grouping.state,) if grouping.state else ()
        self.member_bits = table.bits_of(grouping.columns)
        self.bits = table.bits_of([*grouping.sums, *state, *grouping.shown, *grouping.latest])
        self._index = {name: 1 + len(self._words) + n for n, name in enumerate(grouping.sums)}
        self._word_index = {word: 1 + n for n, word in enumerate(grouping.words)}
        #: By slot: place of its group, whether it is counted, and its part in every sum.
        self._code = np.zeros(0, np.int32)
        self._counted = np.zeros(0, np.bool_)
        self._part = np.zeros((kinds, 0), np.int64)
        #: By place: sums, and whether something of the group is another since ``take_changed``.
        self._total = np.zeros((kinds, _ROOM), np.int64)
        self._changed = np.zeros(_ROOM, np.bool_)
        self._closed = np.zeros(_ROOM, np.bool_)
        self.rank = np.zeros(_ROOM, np.int32)
        self._closed_names: frozenset[str] = frozenset()
        #: By place: which one it is by name, and where its rows begin.
        self._by_name = _NO_PLACES
        self._starts = _NO_PLACES
        self.fit(table.capacity)

    # -- reading --

    def __len__(self) -> int:
        return len(self.names)

    @property
    def end(self) -> int:
        """The number that the next group would have."""
        return self.first + len(self.names)

    @property
    def codes(self) -> Places:
        """By slot: the place of its group; not to be written to."""
        return self._code

    def number_of(self, name: str) -> int:
        """The number of a group, -1 when there never was one of that name."""
        place = self._place_of.get(name, NOWHERE)
        return self.first + place if place >= 0 else NOWHERE

    def place_of(self, name: str) -> int:
        """The place of a group, -1 when there never was one of that name."""
        return self._place_of.get(name, NOWHERE)

    def count(self, place: int) -> int:
        """How many rows a group has."""
        return int(self._total[0, place])

    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows each group has, by place."""
        found: npt.NDArray[np.int64] = self._total[0, : len(self.names)]
        return found

    def total(self, place: int, column: str) -> int:
        """What a column's values come to in a group; what is missing counts nothing."""
        return int(self._total[self._index[column], place])

    def in_state(self, place: int, word: str) -> int:
        """How many rows of a group are in a state."""
        return int(self._total[self._word_index[word], place])

    # -- open and closed --

    @property
    def closed_names(self) -> frozenset[str]:
        """Names of groups whose rows are not shown, whether there is such a group now or not."""
        return self._closed_names

    def close(self, names: Iterable[str]) -> None:
        """Makes these the groups whose rows are not shown."""
        self._closed_names = frozenset(names)
        self._closed[:] = False
        for name in self._closed_names:
            if (place := self._place_of.get(name, NOWHERE)) >= 0:
                self._closed[place] = True

    def is_closed(self, place: int) -> bool:
        """Whether the rows of a group are not shown."""
        return bool(self._closed[place])

    @property
    def closed(self) -> Mask:
        """By place, whether the rows of a group are not shown; not to be written to."""
        return self._closed

    # -- changes --

    def fit(self, capacity: int) -> None:
        """Makes room for all slots of the table."""
        have = len(self._code)
        if have < capacity:
            self._code = np.concatenate([self._code, np.full(capacity - have, NOWHERE, np.int32)])
            self._counted = np.concatenate([self._counted, np.zeros(capacity - have, np.bool_)])
            part = np.zeros((len(self._part), capacity), np.int64)
            part[:, :have] = self._part
            self._part = part

    def rebuild(self, slots: Slots, counted: Slots) -> None:
        """Works everything out from nothing.

        Args:
            slots: All slots of the table.
            counted: Those of them that are counted.
        """
        self.fit(self._table.capacity)
        self._code[:] = NOWHERE
        self._counted[:] = False
        self._part[:] = 0
        self._total[:] = 0
        self._changed[: len(self.names)] = True
        self.recode(slots)
        self.enter(counted)

    def recode(self, slots: Slots) -> Slots:
        """Looks in which groups some slots are; returns those that are in another than before."""
        if not len(slots):
            return slots
        names = self.grouping.read(self._table, slots)
        known = self._place_of
        try:
            codes = np.fromiter(map(known.__getitem__, names), np.int32, len(names))
        except KeyError:
            self._take_names(dict.fromkeys(names))
            codes = np.fromiter(map(known.__getitem__, names), np.int32, len(names))
        differs = self._code[slots] != codes
        moved: Slots = slots[differs]
        codes = codes[differs]
        counted = self._counted[moved]
        parts = self._part[:, moved[counted]]
        self._add(self._code[moved[counted]], -parts)
        self._add(codes[counted], parts)
        self._code[moved] = codes
        return moved

    def enter(self, slots: Slots) -> None:
        """Counts these from now on; they were not counted before."""
        if len(slots):
            parts = self._parts(slots)
            self._counted[slots] = True
            self._part[:, slots] = parts
            self._add(self._code[slots], parts)

    def leave(self, slots: Slots) -> None:
        """No longer counts these, though they may be gone from the table already."""
        slots = slots[self._counted[slots]]
        if len(slots):
            self._add(self._code[slots], -self._part[:, slots])
            self._counted[slots] = False
            self._part[:, slots] = 0

    def renew(self, slots: Slots) -> None:
        """Takes in what rows have changed to; those that are not counted change nothing."""
        slots = slots[self._counted[slots]]
        if len(slots):
            parts = self._parts(slots)
            self._add(self._code[slots], parts - self._part[:, slots])
            self._part[:, slots] = parts

    def take_changed(self) -> Places:
        """Places of groups of which something is another since this was asked last, with rows or without."""
        found = np.flatnonzero(self._changed).astype(np.int32)
        self._changed[found] = False
        return found

    # -- their order --

    def arranged(self, target: Slots, column: str, descending: bool, keys: Numbers | None) -> Slots:
        """Puts groups in order.

        Args:
            target: Counted slots, sorted, as groups stood until now.
            column: That rows are sorted by first, "" for none.
            descending: Whether downwards.
            keys: By slot, what rows are sorted by first, upwards.

        Returns:
            The slots as groups stand now; the same array when each stands where it did.
        """
        if column in self.grouping.latest or column in self.grouping.first:
            values = self._worth_of_rows(target, column, descending, keys)
        else:
            values = None
        if not self.reorder(column, descending, values):
            return target
        rank = self.rank[self._code[target]]
        if len(self.names) < _SMALL:
            rank = rank.astype(np.int16)  # sorted by counting, not by comparing
        found: Slots = target[np.argsort(rank, kind="stable")]
        return found

    def with_headers(self, target: Slots) -> Slots:
        """What is shown of counted slots: a header before each group, no row of closed ones."""
        codes = self._code[target]
        firsts = _firsts(codes)
        places = codes[firsts]
        self._starts = np.zeros(len(self.names), np.int32)
        self._starts[places] = firsts
        if self._closed[places].any():
            shown = ~self._closed[codes]
            firsts = (np.cumsum(shown) - shown)[firsts]
            target = target[shown]
        return np.insert(target, firsts, header_of(places + self.first))

    def start(self, place: int) -> int:
        """Where the rows of a group began in what ``with_headers`` was asked for last."""
        return int(self._starts[place])

    def move_alone(self, column: str) -> bool:
        """Whether groups of rows sorted by a column may stand elsewhere though none of their rows does."""
        return column in self.grouping.sorted_by or column in self.grouping.latest

    def reorder(self, column: str, descending: bool, values: Numbers | None = None) -> bool:
        """Ranks groups by a column; whether one stands elsewhere among those that have rows.

        Args:
            column: That rows are sorted by first, "" for none.
            descending: Whether downwards.
            values: By place, what groups are worth by this column, upwards; None: made of sums or names.
        """
        count = len(self.names)
        if len(self._by_name) != count:
            order = sorted(range(count), key=lambda place: self.grouping.key(self.names[place]))
            self._by_name = np.empty(count, np.int32)
            self._by_name[order] = np.arange(count, dtype=np.int32)
        names = self._by_name
        sums = self.grouping.sorted_by.get(column)
        if values is not None:
            worth = values
        elif sums is not None:
            worth = self._worth(sums, descending)
        else:
            worth = -names if descending and column in self.grouping.named else names
        there = self.counts() > 0
        new = np.lexsort((names, worth))
        old = np.argsort(self.rank[:count], kind="stable")
        self.rank[new] = np.arange(count, dtype=np.int32)
        return not np.array_equal(old[there[old]], new[there[new]])

    def _worth(self, columns: tuple[str, ...], descending: bool) -> Numbers:
        """What groups are sorted by, upwards; a share of nothing comes last."""
        count = len(self.names)
        sums = [self._total[self._index[name], :count].astype(np.float64) for name in columns]
        worth = sums[0]
        if len(sums) > 1:
            none = sums[1] == 0
            worth = worth / np.where(none, 1.0, sums[1])
            worth = -worth if descending else worth
            worth[none] = np.inf
            return worth
        return -worth if descending else worth

    def _worth_of_rows(self, target: Slots, column: str, descending: bool, keys: Numbers | None) -> Numbers:
        """What groups are sorted by, upwards: the value of their first row, or their largest one."""
        worth = np.full(len(self.names), np.inf)
        if not len(target):
            return worth
        codes = self._code[target]
        firsts = _firsts(codes)
        if column in self.grouping.first and keys is not None:
            worth[codes[firsts]] = keys[target[firsts]]
            return worth
        most = np.maximum.reduceat(self._table.numbers(column)[target], firsts).astype(np.float64)
        worth[codes[firsts]] = np.where(most == float(MISSING), np.inf, -most if descending else most)
        return worth

    # -- inside --

    def _take_names(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._place_of:
                self._place_of[name] = len(self.names)
                self.names.append(name)
        count, room = len(self.names), len(self._changed)
        if count > room:
            more = max(count, 2 * room) - room
            self._total = np.concatenate([self._total, np.zeros((len(self._total), more), np.int64)], axis=1)
            self._changed = np.concatenate([self._changed, np.zeros(more, np.bool_)])
            self._closed = np.concatenate([self._closed, np.zeros(more, np.bool_)])
            self.rank = np.concatenate([self.rank, np.zeros(more, np.int32)])
        # Until they are put in order new groups stand last, each by itself.
        start = len(self._by_name)
        self.rank[start:count] = np.arange(start, count, dtype=np.int32) + count
        for place in range(start, count):
            self._closed[place] = self.names[place] in self._closed_names

    def _parts(self, slots: Slots) -> npt.NDArray[np.int64]:
        """What rows are of each sum."""
        parts = np.empty((len(self._part), len(slots)), np.int64)
        parts[0] = 1
        if self._words:
            state = self._table.numbers(self.grouping.state)[slots]
            for n, code in enumerate(self._words, 1):
                parts[n] = state == code
        for n, name in enumerate(self._columns, 1 + len(self._words)):
            parts[n] = self._table.numbers(name)[slots]
        parts[parts == MISSING] = 0
        return parts

    def _add(self, places: Places, parts: npt.NDArray[np.int64]) -> None:
        self._changed[places] = True
        for total, part in zip(self._total, parts, strict=True):
            if part.any():
                np.add.at(total, places, part)


def _firsts(codes: Places) -> npt.NDArray[np.intp]:
    """Where each group begins in a list of groups of rows."""
    if not len(codes):
        return np.empty(0, np.intp)
    return np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1])
