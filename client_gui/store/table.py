"""Rows in columns, each row in a slot that is its own until it is gone.

What belongs here: whose slot is whose, and saying what a batch changed.  What may not: how a column keeps its
values (``cells``), what the columns mean, in which order rows are shown (``order``), and Qt.

Fifty thousand rows of Python objects cost more memory and time than a client has; a column of numbers is one
array.  A row keeps its slot for its life, so that everything else may speak of rows by small numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from client_gui.store.cells import MISSING, Cells, Column, Kind, Masks, Numbers, Slots
from client_gui.store.codes import Coded, Words

__all__ = [
    "MISSING",
    "NO_MASKS",
    "NO_SLOTS",
    "Change",
    "Column",
    "Kind",
    "Masks",
    "Numbers",
    "Slots",
    "Table",
    "joined",
]

Id = TypeVar("Id", bound=Hashable)
_GROW_FROM: Final = 64
#: When a column of few texts has seen so many more than there are rows, those that are gone are forgotten.
_STALE_TEXTS: Final = 4
NO_SLOTS: Final[Slots] = np.empty(0, np.int32)
NO_MASKS: Final[Masks] = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Change(Generic[Id]):
    """What a batch changed.

    A slot is in one of ``inserted``, ``removed`` and ``changed`` at most.

    Attributes:
        inserted: Slots of new rows.
        removed: Slots of rows that are gone.  Their values can still be read until the next batch.
        removed_ids: Whose they were.
        changed: Slots of rows that had other values before.
        masks: For each of ``changed`` the column groups, as bits (``Table.bits``).
    """

    inserted: Slots = field(default_factory=lambda: NO_SLOTS)
    removed: Slots = field(default_factory=lambda: NO_SLOTS)
    removed_ids: tuple[Id, ...] = ()
    changed: Slots = field(default_factory=lambda: NO_SLOTS)
    masks: Masks = field(default_factory=lambda: NO_MASKS)

    def __bool__(self) -> bool:
        return bool(len(self.inserted) or len(self.removed) or len(self.changed))

    def touching(self, bits: int) -> Slots:
        """Slots of changed rows of which one of these groups changed."""
        found: Slots = self.changed[(self.masks & np.uint32(bits)) != 0]
        return found


def joined(changes: Sequence[Change[Id]]) -> Change[Id]:
    """Changes of different rows as one."""
    changes = [change for change in changes if change]
    if len(changes) < 2:
        return changes[0] if changes else Change()
    return Change(
        np.concatenate([change.inserted for change in changes]),
        np.concatenate([change.removed for change in changes]),
        tuple([row_id for change in changes for row_id in change.removed_ids]),
        np.concatenate([change.changed for change in changes]),
        np.concatenate([change.masks for change in changes]),
    )


class Table(Generic[Id]):
    """Rows in columns.

    Args:
        columns: Its columns; rows are given as tuples in their order.

    Attributes:
        columns: By name.
        bits: Bit of each column group, for ``Change.masks``.
        ids: Id by slot; None where no row is.
        version: Counts up with every batch that changed something.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = {column.name: column for column in columns}
        if len(self.columns) != len(columns):
            raise ValueError("two columns have the same name")
        groups = dict.fromkeys(column.group or column.name for column in columns)
        if len(groups) > 32:
            raise ValueError("a table has at most 32 column groups")
        self.bits = {group: 1 << place for place, group in enumerate(groups)}
        self._bit_of = {column.name: self.bits[column.group or column.name] for column in columns}
        self.ids: list[Id | None] = []
        self.version = 0
        self._slot_of: dict[Id, int] = {}
        self._capacity = 0
        self._cells = Cells(columns, self._bit_of)
        self._all_slots: Slots | None = None
        self._kept: dict[str, Any] = {}
        #: Rows that are otherwise equal in an order: whole-number ids by number, others as they came.
        self._serial = np.zeros(0, np.int64)
        self._next_serial = 0
        self._free: list[int] = []
        #: Slots of the last batch that may be used again from the next one on.
        self._leaving: list[int] = []
        self._holds = 0

    # -- reading --

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, row_id: object) -> bool:
        return row_id in self._slot_of

    @property
    def capacity(self) -> int:
        """Slots there are, used or not."""
        return self._capacity

    def slot(self, row_id: Id) -> int:
        """The slot of a row, -1 when there is none."""
        return self._slot_of.get(row_id, -1)

    def slots(self) -> Slots:
        """Slots of all rows, in no particular order; not to be written to."""
        if self._all_slots is None:
            self._all_slots = np.fromiter(self._slot_of.values(), np.int32, len(self._slot_of))
            self._all_slots.flags.writeable = False
        return self._all_slots

    def all_ids(self) -> Iterable[Id]:
        """Ids of all rows."""
        return self._slot_of.keys()

    def numbers(self, name: str) -> Numbers:
        """The array of a column (INT, FLOAT, FLAG, STATE) by slot; not to be written to."""
        return self._cells.numbers(name)

    def values(self, name: str) -> list[Any]:
        """The list of a column (TEXT, OBJECT) by slot; not to be written to."""
        return self._cells.values(name)

    def words(self, name: str) -> Words:
        """The words of a STATE column."""
        return self._cells.words(name)

    def coded(self, name: str) -> Coded:
        """The texts of a column of which there are few, as numbers; not to be written to."""
        coded = self._cells.coded(name)
        if len(coded.texts) > _STALE_TEXTS * len(self) + 1000:
            coded.forget_unused()
        return coded

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """Something that was made of the table and goes with it; made when it is first asked for."""
        found = self._kept.get(name)
        if found is None:
            found = self._kept[name] = make()
        return found

    def texts_since(self, name: str) -> list[Slots] | None:
        """Which slots have another text in a column than when this was last asked; None the first time.

        For whoever keeps something that was made of all texts of it: only one may ask.
        """
        return self._cells.texts_since(name)

    @property
    def serials(self) -> npt.NDArray[np.int64]:
        """By slot: the number that rows fall back on where an order finds them equal."""
        return self._serial

    def bits_of(self, names: Iterable[str]) -> int:
        """Bits of the groups of these columns."""
        bits = 0
        for name in names:
            bits |= self._bit_of[name]
        return bits

    def get(self, slot: int, name: str) -> Any:
        """One value as Python has it: a STATE as its word, None where there is none."""
        return self._cells.get(slot, name)

    def row(self, row_id: Id) -> dict[str, Any]:
        """A row by column name.

        Raises:
            KeyError: There is none.
        """
        slot = self._slot_of[row_id]
        return {name: self.get(slot, name) for name in self.columns}

    # -- changing --

    def apply(
        self, ids: Sequence[Id], rows: Sequence[tuple[Any, ...]], gone: Iterable[Id] = ()
    ) -> Change[Id]:
        """Puts rows in or over what is there, and takes others out.

        Args:
            ids: Of the rows; one that stands twice has its last row.
            rows: As many tuples in the order of the columns.
            gone: Ids of rows to take out; unknown ones are passed over, and so are those in ``ids``.
        """
        if len(set(ids)) != len(ids):
            last = dict(zip(ids, rows, strict=True))
            ids, rows = list(last), list(last.values())
        return self.apply_columns(ids, list(zip(*rows, strict=True)), gone)

    def apply_columns(
        self, ids: Sequence[Id], values: Sequence[Sequence[Any]], gone: Iterable[Id] = ()
    ) -> Change[Id]:
        """Puts rows in as ``apply`` does, given by column.

        Args:
            ids: Of the rows, each once.
            values: For each of the table's columns, in their order, as many values; empty without rows.
            gone: Ids of rows to take out.
        """
        self._settle()
        slots, new = self._places(ids)
        masks = self._cells.put(slots, values) if len(ids) else NO_MASKS
        coming = set(ids) if gone else set()
        removed_ids = tuple(
            dict.fromkeys(row_id for row_id in gone if row_id in self._slot_of and row_id not in coming)
        )
        removed = np.array([self._slot_of.pop(row_id) for row_id in removed_ids], np.int32)
        self._leaving += removed.tolist()
        if len(removed) or new.any():
            self._all_slots = None
        old = ~new & (masks != 0)
        change: Change[Id] = Change(slots[new], removed, removed_ids, slots[old], masks[old])
        self.version += bool(change)
        return change

    def replace(self, ids: Sequence[Id], rows: Sequence[tuple[Any, ...]]) -> Change[Id]:
        """Makes these the only rows; what stays keeps its slot, and only differences are reported."""
        keep = set(ids)
        return self.apply(ids, rows, [row_id for row_id in self._slot_of if row_id not in keep])

    def hold(self) -> None:
        """Keeps what is taken out readable until ``release``; holds are counted."""
        self._holds += 1

    def release(self) -> None:
        """Ends a hold."""
        self._holds -= 1

    # -- inside --

    def _settle(self) -> None:
        """Lets go of what earlier batches took out."""
        if self._holds or not self._leaving:
            return
        for slot in self._leaving:
            self.ids[slot] = None
        self._cells.clear(self._leaving)
        self._free += self._leaving
        self._leaving = []

    def _places(self, ids: Sequence[Id]) -> tuple[Slots, npt.NDArray[np.bool_]]:
        """Slots for these ids, and which of them are new."""
        slots = np.fromiter(map(self._slot_of.get, ids, repeat(-1)), np.int32, len(ids))
        new = slots < 0
        count = int(new.sum())
        if count:
            if len(self._free) < count:
                self._grow(count - len(self._free))
            for place in np.flatnonzero(new).tolist():
                row_id = ids[place]
                slot = self._free.pop()
                slots[place] = slot
                self._slot_of[row_id] = slot
                self.ids[slot] = row_id
                if isinstance(row_id, int):
                    self._serial[slot] = row_id
                else:
                    self._serial[slot] = self._next_serial
                    self._next_serial += 1
        return slots, new

    def _grow(self, more: int) -> None:
        old = self._capacity
        self._capacity = max(_GROW_FROM, old + more, old + old // 2)
        self._cells.fit(self._capacity)
        serial = np.zeros(self._capacity, np.int64)
        serial[:old] = self._serial
        self._serial = serial
        self.ids += [None] * (self._capacity - old)
        # The last of the list is taken first: slots fill up from the lowest.
        self._free += range(self._capacity - 1, old - 1, -1)
