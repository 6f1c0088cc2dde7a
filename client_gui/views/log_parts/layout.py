"""Where rows and characters are: rows laid out from the first visible one on, broken or not.

What belongs here: from a row to its lines and its area, from a point to a character.  What may not: widgets,
painting (``paint``), and who scrolls.
"""

from __future__ import annotations

import math
from typing import Final

from PySide6.QtCore import QRect

from client_gui.views.log_parts.paint import Grid, Place, cells_of, width_of
from client_gui.views.log_parts.rows import Rows

#: Most rows that are gone through to find out how many fit.
_MOST_ROWS: Final = 500


class Layout:
    """Rows on a grid.

    Args:
        rows: The rows, at least one.
        grid: Measures.
        top: The first visible row.
    """

    def __init__(self, rows: Rows, grid: Grid, top: int) -> None:
        self._rows = rows
        self._grid = grid
        self._top = top

    def lines_of(self, row: int) -> int:
        """How many lines a row takes."""
        if not self._grid.wrap:
            return 1
        line = self._rows.line(row)
        if line is None or not line.text:
            return 1
        return max(1, math.ceil(width_of(line.text) / self._grid.columns))

    def last_top(self, fits: int) -> int:
        """The first visible row when the end is in view; of ``fits`` lines."""
        count = self._rows.count
        if not self._grid.wrap:
            return max(0, count - fits)
        left, row = fits, count
        while row > 0 and count - row < _MOST_ROWS:
            left -= self.lines_of(row - 1)
            if left < 0:
                break
            row -= 1
        return min(row, count - 1)

    def place_at(self, x: float, y: float) -> Place:
        """The character at a point."""
        rows, grid = self._rows, self._grid
        row, line = self._top, int(y // grid.high)
        while row < rows.count - 1 and line >= self.lines_of(row):
            line -= self.lines_of(row)
            row += 1
        if y < 0:
            row, line = max(0, self._top - 1), 0
        cell = max(0, round((x - grid.gutter) / grid.cell)) + grid.shift
        cell += line * grid.columns if grid.wrap else 0
        text = rows.line(row)
        if text is None:
            return Place(rows.key(row))
        cells = cells_of(text.text)
        if cells is None:
            return Place(rows.key(row), min(cell, len(text.text)))
        return Place(rows.key(row), min(range(len(cells)), key=lambda n: abs(cells[n] - cell)))

    def area(self, row: int, height: int) -> QRect:
        """Where a row is in a view of some height; empty when it is not visible."""
        y, high = 0, self._grid.high
        for place in range(self._top, row):
            y += self.lines_of(place) * high
        inside = row >= self._top and y < height
        return QRect(0, y, self._grid.wide, self.lines_of(row) * high) if inside else QRect()
