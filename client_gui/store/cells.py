"""The values of a table's columns by slot: numbers in arrays, texts and all else in lists.

What belongs here: how a column keeps its values, takes many of them at once, and where they differ from what
was there.  What may not: whose slot is whose (``table``), what the columns mean, and Qt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import ne
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from client_gui.store.codes import Coded, Words

Slots = npt.NDArray[np.int32]
Masks = npt.NDArray[np.uint32]
Numbers = npt.NDArray[Any]

#: What an INT column holds where a row has no number.
MISSING: Final = -(2**63)
_INT_MOST: Final = 2**63 - 1


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


_DTYPES: Final[Mapping[Kind, Any]] = {
    Kind.INT: np.int64,
    Kind.FLOAT: np.float64,
    Kind.FLAG: np.bool_,
    Kind.STATE: np.uint8,
}


class Cells:
    """The values of some columns.

    Args:
        columns: These columns.
        bits: By column, what is marked where its values changed.

    Attributes:
        columns: By name.
    """

    def __init__(self, columns: Sequence[Column], bits: Mapping[str, int]) -> None:
        self.columns = {column.name: column for column in columns}
        self._bits = {name: np.uint32(bit) for name, bit in bits.items()}
        self._arrays: dict[str, Numbers] = {
            column.name: np.zeros(0, _DTYPES[column.kind]) for column in columns if column.kind in _DTYPES
        }
        self._lists: dict[str, list[Any]] = {
            column.name: [] for column in columns if column.kind not in _DTYPES
        }
        self._coded = {column.name: Coded() for column in columns if column.kind is Kind.TEXT and column.few}
        self._words = {column.name: Words(column.words) for column in columns if column.kind is Kind.STATE}
        #: Slots with another text than when somebody last asked, by column (``texts_since``).
        self._noted: dict[str, list[Slots]] = {}

    # -- reading --

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
        return self._coded[name]

    def texts_since(self, name: str) -> list[Slots] | None:
        """Which slots have another text in a column than when this was last asked; None the first time."""
        found = self._noted.get(name)
        self._noted[name] = []
        return found

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

    # -- changing --

    def fit(self, capacity: int) -> None:
        """Makes room for so many slots."""
        for name, array in self._arrays.items():
            grown = np.zeros(capacity, array.dtype)
            grown[: len(array)] = array
            self._arrays[name] = grown
        for values in self._lists.values():
            values += [None] * (capacity - len(values))
        for coded in self._coded.values():
            coded.fit(capacity)

    def clear(self, slots: Iterable[int]) -> None:
        """Lets go of what rows had that are gone."""
        for slot in slots:
            for values in self._lists.values():
                values[slot] = None

    def put(self, slots: Slots, values: Sequence[Sequence[Any]]) -> Masks:
        """Puts rows in by whole columns.

        Args:
            slots: Where.
            values: For each of the columns, in their order, as many values.

        Returns:
            For each of the slots the bits of the columns whose value was another.
        """
        masks = np.zeros(len(slots), np.uint32)
        places = slots.tolist()
        for column, some in zip(self.columns.values(), values, strict=True):
            self._put(column, slots, places, some, masks)
        return masks

    # -- inside --

    def _put(
        self, column: Column, slots: Slots, places: list[int], values: Sequence[Any], masks: Masks
    ) -> None:
        """Puts a column's values in, and marks where they differ from what was there.

        Everything that is done to each value is done by one call for all of them: ten thousand changed rows
        are a quarter of a million values.
        """
        bit = self._bits[column.name]
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
