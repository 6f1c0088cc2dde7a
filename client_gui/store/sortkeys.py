"""What rows are sorted by, as numbers by slot, kept as rows change.

What belongs here: a number for every row in every column of the sort, and numbers for texts.  What may not:
the order itself (``order``), and Qt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from client_gui.store.natural import Ranks
from client_gui.store.table import MISSING, Kind, Numbers, Slots, Table

#: When so many more texts were seen than there are rows, those that are gone are forgotten.
_STALE_TEXTS: Final = 4


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by.

    Rows that have no value come last, whichever way the others are sorted.
    """

    column: str
    descending: bool = False


class SortKeys:
    """The keys of a table's rows.

    Args:
        table: The table.

    Attributes:
        sort: What rows are sorted by.
        bits: Column groups whose changes change keys.
        keys: By column of the sort, a number by slot: the smallest comes first.
    """

    def __init__(self, table: Table[Any]) -> None:
        self.sort: tuple[SortKey, ...] = ()
        self.bits = 0
        self.keys: list[Numbers] = []
        self._table = table
        self._ranks: dict[str, Ranks] = {}
        #: How often the numbers of texts had been given anew when the keys were made of them.
        self._seen: dict[str, int] = {}

    def set_sort(self, sort: Sequence[SortKey]) -> None:
        """Sorts by other columns; keys are made by ``rebuild``.

        Raises:
            ValueError: Rows cannot be sorted by one of them.
        """
        for key in sort:
            if self._table.columns[key.column].kind is Kind.OBJECT:
                raise ValueError(f"rows cannot be sorted by {key.column}")
        self.sort = tuple(sort)
        self.bits = self._table.bits_of(key.column for key in sort)
        self.keys = []

    def fit(self, capacity: int) -> None:
        """Makes room for all slots of the table."""
        self.keys = [np.concatenate([key, np.zeros(capacity - len(key), key.dtype)]) for key in self.keys]

    def rebuild(self, slots: Slots) -> None:
        """Makes all keys anew, of all slots of the table."""
        for name in self._text_columns():
            self._forget_stale(name)
        self.keys = [self._new_key(key, slots) for key in self.sort]
        self._seen = {name: ranks.renumbered for name, ranks in self._ranks.items()}

    def prepare(self, columns: Iterable[str]) -> Iterator[None]:
        """Gets ready to sort by some columns, bit by bit, while nobody is in a hurry.

        Each step takes a few milliseconds at most; the table may change between two of them.
        """
        for name in columns:
            if name in self._ranks or self._table.columns[name].kind is not Kind.TEXT:
                continue
            ranks = Ranks()
            yield from ranks.prepare(self._texts(name))
            self._ranks.setdefault(name, ranks)
            self._seen.setdefault(name, self._ranks[name].renumbered)

    def _texts(self, name: str) -> Iterator[str]:
        texts = self._table.values(name)
        for slot in self._table.slots().tolist():
            # One that is gone by now is nobody's, and another's text will be asked for when it is needed.
            if (text := texts[slot]) is not None:
                yield text

    def rekey(self, slots: Slots) -> Slots:
        """Works out the keys of some slots; returns those whose keys are not what they were."""
        if not len(slots):
            return slots
        differs = np.zeros(len(slots), np.bool_)
        for key, have in zip(self.sort, self.keys, strict=True):
            values = self._key_values(key, slots)
            if key.column in self._ranks and self._ranks[key.column].renumbered != self._seen[key.column]:
                # The old numbers cannot be compared with these.
                differs[:] = True
            differs |= have[slots] != values
            have[slots] = values
        return slots[differs]

    def renew_ranks(self) -> None:
        """Takes new numbers of texts over when all of them were given anew; the order is the same."""
        for name in self._text_columns():
            ranks = self._ranks[name]
            self._forget_stale(name)
            if self._seen[name] == ranks.renumbered:
                continue
            self._seen[name] = ranks.renumbered
            for place, key in enumerate(self.sort):
                if key.column == name:
                    self.keys[place] = self._new_key(key, self._table.slots())

    def _text_columns(self) -> list[str]:
        """Columns it is sorted by whose order is one of texts."""
        return [name for name in dict.fromkeys(key.column for key in self.sort) if name in self._ranks]

    def _forget_stale(self, name: str) -> None:
        """Forgets texts that no row has any more, when they are many."""
        ranks = self._ranks[name]
        if len(ranks) > _STALE_TEXTS * len(self._table) + 1000:
            texts = self._table.values(name)
            ranks.keep_only(texts[slot] for slot in self._table.slots().tolist())

    def _new_key(self, key: SortKey, slots: Slots) -> Numbers:
        values = self._key_values(key, slots)
        whole = np.zeros(self._table.capacity, values.dtype)
        whole[slots] = values
        return whole

    def _key_values(self, key: SortKey, slots: Slots) -> Numbers:
        """Numbers that sort some slots by one column, ascending, with what is missing last."""
        column = self._table.columns[key.column]
        if column.kind is Kind.TEXT:
            ranks = self._ranks.setdefault(key.column, Ranks())
            texts = self._table.values(key.column)
            found: Numbers = ranks.of([texts[slot] for slot in slots.tolist()])
            return -found if key.descending else found
        values = self._table.numbers(key.column)[slots]
        if column.kind is Kind.FLOAT:
            found = -values if key.descending else values.copy()
            found[np.isnan(found)] = np.inf
            return found
        found = values.astype(np.int64)
        missing = found == MISSING
        if key.descending:
            found = -found
        found[missing] = np.iinfo(np.int64).max
        return found
