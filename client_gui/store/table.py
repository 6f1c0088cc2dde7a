"""Rows in columns: numbers in arrays, texts in lists, each row in a slot that is its own until it is gone.

What belongs here: keeping rows and saying what a batch changed.  What may not: what the columns mean, in
which order rows are shown (``order``), and Qt.

Fifty thousand rows of Python objects cost more memory and time than a client has; a column of numbers is one
array.  A row keeps its slot for its life, so that everything else may speak of rows by small numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import repeat
from operator import ne
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Id = TypeVar("Id", bound=Hashable)
Slots = npt.NDArray[np.int32]
Masks = npt.NDArray[np.uint32]
Numbers = npt.NDArray[Any]

#: What an INT column holds where a row has no number.
MISSING: Final = -(2**63)
_INT_MOST: Final = 2**63 - 1
_GROW_FROM: Final = 64
#: When a column of few texts has seen so many more than there are rows, those that are gone are forgotten.
_STALE_TEXTS: Final = 4
NO_SLOTS: Final[Slots] = np.empty(0, np.int32)
NO_MASKS: Final[Masks] = np.empty(0, np.uint32)


class Kind(Enum):
    """How a column keeps its values."""

    #: 64-bit whole numbers; None becomes MISSING.
    INT = "int"
    #: 64-bit floats; None becomes NaN.
    FLOAT = "float"
    FLAG = "flag"
    #: One of few words, a byte each; words nobody knew before get the next byte.
    STATE = "state"
    TEXT = "text"
    #: Anything that can be compared with ``==``.
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: Its name.
        kind: How its values are kept.
        group: What changes of it are reported as; columns that are shown together share one.
        words: Of STATE: the known words, in the order in which they sort.
        few: Of TEXT: whether many rows have the same text.
    """

    name: str
    kind: Kind
    group: str = ""
    words: tuple[str, ...] = ()
    few: bool = False


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


class Words:
    """Words and their bytes.

    A word that is not known gets the next free byte, so that a newer farm's states are shown as they are
    called.  Beyond 255 words the last byte stands for all others.
    """

    __slots__ = ("_codes", "words")

    OTHER: Final = 255

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = []
        self._codes: dict[str, int] = {}
        for word in words:
            self.code(word)

    def code(self, word: str) -> int:
        """The byte of a word."""
        code = self._codes.get(word)
        if code is not None:
            return code
        if len(self.words) >= self.OTHER:
            return self.OTHER
        self.words.append(word)
        self._codes[word] = len(self.words) - 1
        return len(self.words) - 1

    def codes(self, words: Iterable[str]) -> Iterable[int]:
        """The bytes of some words."""
        words = list(words)
        try:
            return list(map(self._codes.__getitem__, words))
        except KeyError:  # one that is new
            return list(map(self.code, words))

    def word(self, code: int) -> str:
        """The word of a byte."""
        return self.words[code] if code < len(self.words) else "?"


class Coded:
    """Texts of which there are few, and the number of each.

    Attributes:
        texts: By number; the first is "".
        codes: By slot: the number of its text.
    """

    __slots__ = ("_numbers", "codes", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self.codes: Slots = np.zeros(0, np.int32)

    def code(self, text: str) -> int:
        """The number of a text."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def fit(self, capacity: int) -> None:
        """Makes room for so many slots."""
        grown = np.zeros(capacity, np.int32)
        grown[: len(self.codes)] = self.codes
        self.codes = grown

    def forget_unused(self) -> None:
        """Forgets texts that no slot has any more."""
        used, codes = np.unique(self.codes, return_inverse=True)
        self.texts = [self.texts[code] for code in used.tolist()]
        self.codes = codes.astype(np.int32)
        if self.texts[0] != "":
            self.texts.insert(0, "")
            self.codes += np.int32(1)
        self._numbers = {text: number for number, text in enumerate(self.texts)}


_DTYPES: Final[Mapping[Kind, Any]] = {
    Kind.INT: np.int64,
    Kind.FLOAT: np.float64,
    Kind.FLAG: np.bool_,
    Kind.STATE: np.uint8,
}


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
        self._arrays: dict[str, Numbers] = {
            column.name: np.zeros(0, _DTYPES[column.kind]) for column in columns if column.kind in _DTYPES
        }
        self._lists: dict[str, list[Any]] = {
            column.name: [] for column in columns if column.kind not in _DTYPES
        }
        self._coded = {column.name: Coded() for column in columns if column.kind is Kind.TEXT and column.few}
        #: Slots with another text than when somebody last asked, by column (``texts_since``).
        self._noted: dict[str, list[Slots]] = {}
        self._all_slots: Slots | None = None
        self._kept: dict[str, Any] = {}
        self._words = {column.name: Words(column.words) for column in columns if column.kind is Kind.STATE}
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
        return self._arrays[name]

    def values(self, name: str) -> list[Any]:
        """The list of a column (TEXT, OBJECT) by slot; not to be written to."""
        return self._lists[name]

    def words(self, name: str) -> Words:
        """The words of a STATE column."""
        return self._words[name]

    def coded(self, name: str) -> Coded:
        """The texts of a column of which there are few, as numbers; not to be written to."""
        coded = self._coded[name]
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
        found = self._noted.get(name)
        self._noted[name] = []
        return found

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
        kind = self.columns[name].kind
        if kind not in _DTYPES:
            return self._lists[name][slot]
        value = self._arrays[name][slot]
        if kind is Kind.STATE:
            return self._words[name].word(int(value))
        if kind is Kind.FLAG:
            return bool(value)
        if kind is Kind.INT:
            return None if value == MISSING else int(value)
        return None if np.isnan(value) else float(value)

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
        masks = np.zeros(len(ids), np.uint32)
        if len(ids):
            places = slots.tolist()
            for column, some in zip(self.columns.values(), values, strict=True):
                self._put(column, slots, places, some, masks)
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
            for values in self._lists.values():
                values[slot] = None
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
        for name, array in self._arrays.items():
            grown = np.zeros(self._capacity, array.dtype)
            grown[:old] = array
            self._arrays[name] = grown
        serial = np.zeros(self._capacity, np.int64)
        serial[:old] = self._serial
        self._serial = serial
        for values in self._lists.values():
            values += [None] * (self._capacity - old)
        for coded in self._coded.values():
            coded.fit(self._capacity)
        self.ids += [None] * (self._capacity - old)
        # The last of the list is taken first: slots fill up from the lowest.
        self._free += range(self._capacity - 1, old - 1, -1)

    def _put(
        self, column: Column, slots: Slots, places: list[int], values: Sequence[Any], masks: Masks
    ) -> None:
        """Puts a column's values in, and marks where they differ from what was there.

        Everything that is done to each value is done by one call for all of them: ten thousand changed rows
        are a quarter of a million values.
        """
        bit = np.uint32(self._bit_of[column.name])
        if column.kind in _DTYPES:
            new = self._numbers_of(column, values)
            array = self._arrays[column.name]
            old = array[slots]
            differs = new != old
            if column.kind is Kind.FLOAT:
                differs &= ~(np.isnan(new) & np.isnan(old))
            array[slots] = new
            masks[differs] |= bit
            return
        have = self._lists[column.name]
        differs = np.fromiter(map(ne, map(have.__getitem__, places), values), np.bool_, len(values))
        others = np.flatnonzero(differs)
        if not len(others):
            return
        masks[others] |= bit
        coded = self._coded.get(column.name)
        for place in others.tolist():
            slot, value = places[place], values[place]
            if coded is not None:
                value = sys.intern(value)
                coded.codes[slot] = coded.code(value)
            have[slot] = value
        if (noted := self._noted.get(column.name)) is not None:
            noted.append(slots[others])

    def _numbers_of(self, column: Column, values: Sequence[Any]) -> Numbers:
        count = len(values)
        if column.kind is Kind.STATE:
            return np.fromiter(self._words[column.name].codes(values), np.uint8, count)
        try:
            return np.fromiter(values, _DTYPES[column.kind], count)
        except TypeError:
            pass  # some have no value
        except OverflowError:
            values = _sane(values)
        if column.kind is not Kind.INT:
            return np.array(values, _DTYPES[column.kind])
        try:
            return np.array([MISSING if value is None else value for value in values], np.int64)
        except OverflowError:
            return np.array([MISSING if value is None else value for value in _sane(values)], np.int64)


def _sane(values: Sequence[int | None]) -> list[int | None]:
    """Whole numbers that an array holds, of nonsense of a broken sender: no reason to show nothing at all."""
    return [None if value is None else max(-_INT_MOST, min(_INT_MOST, value)) for value in values]
