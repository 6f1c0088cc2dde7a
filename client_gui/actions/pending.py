"""Cells that show what they are about to become, until the farm says so, refuses, or is silent for too long.

What belongs here: which cells, and when that ends.  What may not: Qt, clocks (moments are handed in), and how
such a cell looks.

A cell stops being under way when the row shows what was asked for; when the request was confirmed and the
next change came, whatever it says; when it was refused; or when its time is over.  It never stays for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from client_gui.actions.plan import Cell
from client_gui.store.farmstore import FarmStore

#: How long a confirmed request may take to show in a row before the row as it is counts.
SETTLES_US: Final = 3_000_000
#: How long is looked for what became of a request without an answer.
LOOKS_US: Final = 15_000_000
#: After so long nothing is shown as under way any more, whatever happened.
MOST_US: Final = 60_000_000


@dataclass(slots=True)
class _Kept:
    cell: Cell
    key: int
    until_us: int
    acked_n: int | None = None
    acked: bool = False
    unsure: bool = False


class PendingCells:
    """Cells under way, by the request that will change them."""

    def __init__(self) -> None:
        #: By the number of the request: a gesture may be thousands of them.
        self._kept: dict[int, list[_Kept]] = {}
        self._rows: dict[tuple[str, object], list[_Kept]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def __bool__(self) -> bool:
        return bool(self._kept)

    def shown(self, kind: str, row_id: object, name: str) -> str | None:
        """What a cell is about to show, the newest wins; None when nothing is under way.

        Of frames the row id is the address of the step and the place of the unit: ``("J12/beauty", 41)``.
        """
        found = self._find(kind, row_id, name)
        return found.cell.shown if found is not None else None

    def masks(self, step: str, name: str) -> list[tuple[str, bytes]]:
        """What frames of a step are about to show, and which: a byte for each unit; the newest wins.

        Args:
            step: Its address.
            name: The field.
        """
        found = self._rows.get(("units", step), ())
        return [(one.cell.shown, one.cell.units) for one in found if one.cell.field == name]

    def unsure(self, kind: str, row_id: object, name: str) -> bool:
        """Whether the request of a cell got no answer, so that nobody knows."""
        found = self._find(kind, row_id, name)
        return found is not None and found.unsure

    def add(self, key: int, cells: Iterable[Cell], now_us: int) -> bool:
        """Takes the cells of a request that is being sent.

        Args:
            key: Number of the request.
            cells: Its cells.
            now_us: Now.
        """
        added = [_Kept(cell, key, now_us + MOST_US) for cell in cells]
        if added:
            self._kept.setdefault(key, []).extend(added)
        for one in added:
            self._rows.setdefault((one.cell.kind, one.cell.row_id), []).append(one)
        return bool(added)

    def confirmed(self, key: int, store: FarmStore, now_us: int) -> bool:
        """A request was confirmed; says whether its cells show it already.

        Args:
            key: Of the request.
            store: The farm.
            now_us: Now.
        """
        for one in self._of(key):
            one.acked, one.acked_n, one.until_us = True, store.n, now_us + SETTLES_US
        return self._drop([one for one in self._of(key) if one.cell.reached(store)])

    def refused(self, key: int) -> bool:
        """A request was refused: its cells show again what is."""
        return self._drop(self._of(key))

    def unknown(self, key: int, now_us: int) -> None:
        """A request got no answer."""
        for one in self._of(key):
            one.unsure, one.until_us = True, now_us + LOOKS_US

    def reconcile(self, store: FarmStore, now_us: int, *, news: bool = False) -> bool:
        """Lets go of what has come true or whose time is over; says whether anything was let go.

        Args:
            store: The farm.
            now_us: Now.
            news: Whether a message of what is followed has just been taken.
        """
        over = [
            one
            for kept in self._kept.values()
            for one in kept
            if one.until_us <= now_us
            or one.cell.reached(store)
            or (news and one.acked and store.n is not None and store.n != one.acked_n)
        ]
        return self._drop(over)

    def forget(self) -> bool:
        """Nothing is under way any more: it was of another farm."""
        had = bool(self._kept)
        self._kept.clear()
        self._rows.clear()
        return had

    # -- inside --

    def _find(self, kind: str, row_id: object, name: str) -> _Kept | None:
        if not self._kept:
            return None
        unit: int | None = None
        if kind == "units" and isinstance(row_id, tuple) and len(row_id) == 2:
            row_id, unit = row_id
        for one in reversed(self._rows.get((kind, row_id), ())):
            mask = one.cell.units
            if one.cell.field == name and (unit is None or (unit < len(mask) and mask[unit])):
                return one
        return None

    def _of(self, key: int) -> list[_Kept]:
        return list(self._kept.get(key, ()))

    def _drop(self, over: list[_Kept]) -> bool:
        if not over:
            return False
        gone = set(map(id, over))
        for key in {one.key for one in over}:
            self._kept[key] = [one for one in self._kept[key] if id(one) not in gone]
            if not self._kept[key]:
                del self._kept[key]
        for row in {(one.cell.kind, one.cell.row_id) for one in over}:
            left = [one for one in self._rows[row] if id(one) not in gone]
            if left:
                self._rows[row] = left
            else:
                del self._rows[row]
        return True
