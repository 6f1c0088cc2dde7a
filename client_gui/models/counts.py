"""How many rows fit a filter, kept as the table changes.

What belongs here: the count.  What may not: chips that show it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from client_gui.store.filter import TableFilter
from client_gui.store.table import Change, Slots, Table

Id = TypeVar("Id", bound=Hashable)


class LiveCount(Generic[Id]):
    """How many rows fit a filter, kept as the table changes: what a chip of a saved view says.

    Args:
        table: The rows.
        wanted: The filter.
    """

    def __init__(self, table: Table[Id], wanted: TableFilter) -> None:
        self._table = table
        self._filter = wanted
        self._fits = np.zeros(0, np.bool_)
        self.count = 0
        self.rebuild()

    @property
    def moves(self) -> bool:
        """Whether it changes with time alone."""
        return self._filter.query.moves

    def rebuild(self, now_us: int | None = None) -> None:
        """Counts anew, as of another time if one is given."""
        if now_us is not None:
            self._filter = self._filter.moved_to(now_us)
        slots = self._table.slots()
        self._fits = np.zeros(self._table.capacity, np.bool_)
        self._fits[slots] = self._filter.fits(slots)
        self.count = int(self._fits.sum())

    def apply(self, change: Change[Id]) -> bool:
        """Takes a change of the table in; returns whether the count is another."""
        before = self.count
        if len(self._fits) < self._table.capacity:
            grown = np.zeros(self._table.capacity, np.bool_)
            grown[: len(self._fits)] = self._fits
            self._fits = grown
        self._fits[change.removed] = False
        asked: Slots = np.concatenate([change.inserted, change.touching(self._filter.bits)])
        if len(asked):
            self._fits[asked] = self._filter.fits(asked)
        self.count = int(self._fits.sum())
        return self.count != before
