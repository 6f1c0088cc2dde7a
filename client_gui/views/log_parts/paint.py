"""How a row looks: its number and mark, its colours, what is selected and found, broken or not.

What belongs here: painting one row.  What may not: which rows are visible, and hands.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter

from client_gui.store.logtext import Level, Line
from client_gui.style.glyphs import paint_glyph
from client_gui.style.theme import Theme
from client_gui.views.log_parts.rows import Rows


def cells_of(text: str) -> list[int] | None:
    """Where each character begins, in widths of a letter; None when each is as wide as one."""
    if text.isascii():
        return None
    at, found = 0, [0]
    for char in text:
        if not unicodedata.combining(char):
            at += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        found.append(at)
    return found


def width_of(text: str) -> int:
    """How wide a text is, in letters."""
    cells = cells_of(text)
    return len(text) if cells is None else cells[-1]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A character: its row's key, and its column."""

    key: int
    column: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """Measures of the rows.

    Attributes:
        cell: Width of a letter.
        high, base: Height of a line, and of its base line from the top.
        gutter: Where texts begin.
        wide: Width of everything.
        columns: How many letters fit beside each other.
        shift: Letters that are scrolled away at the left.
        wrap: Whether long rows are broken.
        font: Of the texts.
    """

    cell: float
    high: int
    base: int
    gutter: float
    wide: int
    columns: int
    shift: int
    wrap: bool
    font: QFont


@dataclass(frozen=True, slots=True)
class Pointed:
    """What is pointed out besides the rows themselves.

    Attributes:
        selection: From and up to, None for nothing.
        hit: The hit somebody went to, None for none, and its length.
    """

    selection: tuple[Place, Place] | None = None
    hit: Place | None = None
    hit_length: int = 0


class RowPainter:
    """Paints rows.

    Args:
        painter: With what.
        theme: Colours.
        grid: Measures.
        rows: Of what.
        pointed: What is pointed out.
    """

    def __init__(self, painter: QPainter, theme: Theme, grid: Grid, rows: Rows, pointed: Pointed) -> None:
        self._painter = painter
        self._theme = theme
        self._grid = grid
        self._rows = rows
        self._pointed = pointed
        painter.setFont(grid.font)

    def note(self, y: int, note: str) -> None:
        """What is said in place of a row."""
        grid = self._grid
        self._painter.setPen(self._theme.colour("dim"))
        area = QRectF(grid.gutter, y, grid.wide - grid.gutter, grid.high)
        self._painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, f"  ⋯  {note}")

    def gutter(self, row: int, y: int, line: Line | None) -> None:
        """A row's number and mark."""
        grid, painter = self._grid, self._painter
        painter.setPen(self._theme.colour("dim"))
        area = QRectF(0, y, grid.gutter - grid.high - grid.cell, grid.high)
        flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(area, flags, self._rows.number(row))
        mark = self._rows.mark(row, line) if line is not None else None
        if mark is not None:
            side = grid.high * 0.66
            left = grid.gutter - grid.high - grid.cell * 0.4
            box = QRectF(left, y + (grid.high - side) / 2, side, side)
            paint_glyph(painter, mark[0], box, self._theme.colour(mark[1]))

    def row(self, row: int, y: int, line: Line, lines: int) -> None:
        """A row's text; of a log of gigabytes only what is visible of it costs anything."""
        grid, painter = self._grid, self._painter
        mark = self._rows.mark(row, line)
        high = lines * grid.high
        if mark is not None:
            tint = self._theme.colour(mark[1])
            tint.setAlpha(30)
            painter.fillRect(QRectF(grid.gutter - grid.cell * 0.5, y, grid.wide, high), tint)
        cells = cells_of(line.text)
        key = self._rows.key(row)
        painter.save()
        painter.setClipRect(QRectF(grid.gutter - 1, y, grid.wide - grid.gutter, high))
        for start, end, colour in self._grounds(row, key, len(line.text)):
            for box in self._boxes(start, end, cells, y):
                painter.fillRect(box, colour)
        for start, end, colour, bold in self._inks(line, mark, key):
            font = QFont(grid.font)
            font.setBold(bold)
            painter.setFont(font)
            painter.setPen(colour)
            self._text(line.text, start, end, cells, y)
        painter.restore()

    def _grounds(self, row: int, key: int, length: int) -> list[tuple[int, int, QColor]]:
        """Parts of a row with something behind them."""
        pointed = self._pointed
        hit = self._theme.colour("warn")
        hit.setAlpha(70)
        found = [(at, at + wide, hit) for at, wide in self._rows.hits(row)]
        if pointed.hit is not None and pointed.hit.key == key:
            at = pointed.hit.column
            found.append((at, at + pointed.hit_length, self._theme.colour("accent")))
        chosen = pointed.selection
        if chosen is not None and chosen[0].key <= key <= chosen[1].key:
            start = chosen[0].column if chosen[0].key == key else 0
            end = min(chosen[1].column, length) if chosen[1].key == key else length + 1
            colour = self._theme.colour("accent")
            colour.setAlpha(90)
            if end > start:
                found.append((start, end, colour))
        return found

    def _inks(
        self, line: Line, mark: tuple[str, str, str] | None, key: int
    ) -> list[tuple[int, int, QColor, bool]]:
        """Parts of a row by colour; together they are all of it."""
        theme, pointed = self._theme, self._pointed
        bad = mark is not None and line.level is not Level.NONE
        whole = theme.colour(mark[1] if mark is not None and bad else "text")
        overlays = [(0, line.stamp, theme.colour("dim"), False)] if line.stamp else []
        overlays += [
            (span.start, span.end, theme.colour(span.token) if span.token else whole, span.bold)
            for span in line.spans
        ]
        if pointed.hit is not None and pointed.hit.key == key:
            at = pointed.hit.column
            overlays.append((at, at + pointed.hit_length, theme.colour("on_accent"), False))
        length = len(line.text)
        cuts = sorted({0, length, *(min(cut, length) for part in overlays for cut in part[:2])})
        found: list[tuple[int, int, QColor, bool]] = []
        for start, end in pairwise(cuts):
            over = next((part for part in reversed(overlays) if part[0] <= start < part[1]), None)
            found.append((start, end, over[2], over[3]) if over else (start, end, whole, False))
        return found

    def _boxes(self, start: int, end: int, cells: list[int] | None, y: int) -> list[QRectF]:
        """The areas of some characters: one, or one for each line of a broken row."""
        grid = self._grid
        first = start if cells is None else cells[min(start, len(cells) - 1)]
        last = end if cells is None else cells[min(end, len(cells) - 1)] + max(0, end - len(cells) + 1)
        if not grid.wrap:
            left = grid.gutter + (first - grid.shift) * grid.cell
            return [QRectF(left, y, (last - first) * grid.cell, grid.high)]
        found: list[QRectF] = []
        while first < last:
            line, at = divmod(first, grid.columns)
            upto = min(last, (line + 1) * grid.columns)
            left, top = grid.gutter + at * grid.cell, y + line * grid.high
            found.append(QRectF(left, top, (upto - first) * grid.cell, grid.high))
            first = upto
        return found

    def _text(self, text: str, start: int, end: int, cells: list[int] | None, y: int) -> None:
        grid = self._grid
        while start < end:
            cell = start if cells is None else cells[start]
            line, at = divmod(cell, grid.columns) if grid.wrap else (0, cell - grid.shift)
            room = grid.columns - at + (0 if grid.wrap else 2)
            if room <= 0:
                return
            if cells is None:
                if at < 0:
                    # Left of what is visible.
                    start, at, room = min(end, start - at), 0, grid.columns + 2
                upto = min(end, start + room)
            else:
                # Anything but plain letters is put where its cell is, one by one.
                upto = start + 1
                while upto < end and cells[upto + 1] == cells[upto]:
                    upto += 1
            piece = text[start:upto]
            if piece.strip():
                spot = QPointF(grid.gutter + at * grid.cell, y + line * grid.high + grid.base)
                self._painter.drawText(spot, piece)
            start = upto
