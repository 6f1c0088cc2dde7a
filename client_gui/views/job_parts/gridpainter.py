"""Draws a frame grid: cells as pictures, marks over them, names beside them.

What belongs here: painting.  What may not: what is selected or shown (asked of others), and events.

Cells are drawn as one picture a step; glyphs and numbers only when few cells are large enough to hold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetrics, QImage, QPainter, QPen, QPixmap

from client_gui.delegates.ink import STALE_OPACITY
from client_gui.store.columns import step_address
from client_gui.style.glyphs import paint_glyph
from client_gui.style.theme import Theme
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.cells import Cells, Place, Strip
from client_gui.views.job_parts.frameset import spans, state_word
from client_gui.views.job_parts.gridpicture import GridPicture
from client_gui.views.job_parts.heat import UNKNOWN, WRITTEN, Mode
from farm.model.states import UnitState

#: Cells from this edge on have gaps between them.
_GAPS_FROM = 5


def ink_on(colour: QColor, theme: Theme) -> QColor:
    """What can be read on a colour: the look's darkest or lightest, whichever differs more."""
    light, dark = theme.colour("text"), theme.colour("base")
    if not theme.look.dark:
        light, dark = dark, light
    luminance = 0.299 * colour.redF() + 0.587 * colour.greenF() + 0.114 * colour.blueF()
    return dark if luminance > 0.5 else light


class GridPainter:
    """Draws a frame grid."""

    def __init__(self, board: JobBoard, picture: GridPicture, theme: Theme) -> None:
        self._board = board
        self._picture = picture
        self._theme = theme
        self._glyphs: dict[tuple[Mode, int, int, int, float], QPixmap] = {}

    def restyle(self) -> None:
        """Colours or sizes are others."""
        self._glyphs.clear()

    def gutter(self, width: int) -> int:
        """Room for the names of steps."""
        metrics = QFontMetrics(self._theme.font(small=True, bold=True))
        names = max((metrics.horizontalAdvance(step) for step in self._board.frames), default=0)
        return min(max(names + self._theme.em(1.0), self._theme.em(3.5)), max(self._theme.em(3), width // 4))

    def paint(
        self,
        painter: QPainter,
        cells: Cells,
        area: QRect,
        scrolled: int,
        size: QSize,
        current: Place | None,
        hover: Place | None,
        *,
        focused: bool,
    ) -> None:
        """Draws what lies in an area of the screen."""
        painter.fillRect(area, self._theme.colour("base"))
        if not cells.strips:
            return
        painter.translate(0, -scrolled)
        if not self._board.desk.client.live:
            painter.setOpacity(STALE_OPACITY)
        top, bottom = area.top() + scrolled, area.bottom() + 1 + scrolled
        for number, strip in enumerate(cells.strips):
            if strip.top + strip.height < top or strip.top > bottom:
                continue
            self._name(painter, cells, strip, scrolled, size.height())
            first, last = cells.lines_in(strip, top, bottom)
            if first < last:
                self._strip(painter, cells, number, first, last)
        if hover is not None and hover != current:
            self._frame(painter, cells, hover, self._theme.colour("dim"), 1)
        if current is not None:
            self._frame(painter, cells, current, self._theme.colour("text" if focused else "dim"), 2)
        painter.setOpacity(1.0)

    # -- a step --

    def _name(self, painter: QPainter, cells: Cells, strip: Strip, scrolled: int, height: int) -> None:
        theme = self._theme
        # A name stays on the screen as long as any of its cells does.
        line = theme.row_height()
        y = min(max(strip.top, scrolled), strip.top + strip.height - line)
        chosen = strip.step == self._board.step
        if chosen:
            painter.fillRect(0, strip.top, max(2, theme.em(0.15)), strip.height, theme.colour("accent"))
        painter.setFont(theme.font(small=True, bold=chosen))
        painter.setPen(theme.colour("text" if chosen else "dim"))
        room = cells.gutter - theme.em(0.6)
        metrics = painter.fontMetrics()
        text = metrics.elidedText(strip.step, Qt.TextElideMode.ElideRight, room)
        painter.drawText(
            QRect(theme.em(0.4), y, room, line),
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
            text,
        )
        if strip.height >= 2 * line and y + 2 * line <= strip.top + strip.height:
            painter.setFont(theme.font(small=True))
            painter.setPen(theme.colour("dim"))
            counts = self._board.counts(strip.step)
            done = int(counts[UnitState.DONE]) if counts is not None else 0
            share = f"{done / strip.units:.0%}" if strip.units else ""
            painter.drawText(
                QRect(theme.em(0.4), y + line - theme.em(0.2), room, line),
                Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop,
                share,
            )

    def _strip(self, painter: QPainter, cells: Cells, number: int, first: int, last: int) -> None:
        strip = cells.strips[number]
        picture = self._picture.lines(strip.step, cells.columns, first, last)
        target = QRect(
            cells.gutter,
            strip.first + first * cells.cell,
            cells.columns * cells.cell,
            (last - first) * cells.cell,
        )
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
        painter.drawImage(target, picture)
        begin, end = first * cells.columns, min(last * cells.columns, strip.units)
        self._promises(painter, cells, strip, number, begin, end)
        self._marks(painter, cells, strip, number, begin, end)
        if cells.cell >= _GAPS_FROM:
            self._gaps(painter, cells, target)
        if cells.cell >= self._theme.em(0.8):
            self._write(painter, cells, strip, number, begin, end)

    def _promises(
        self, painter: QPainter, cells: Cells, strip: Strip, number: int, begin: int, end: int
    ) -> None:
        """Cells that are about to change: hatched in the colour of the state they will have."""
        book = self._board.desk.actions
        for word, units in book.doer.cells.masks(step_address(self._board.job, strip.step), "state"):
            marks = np.frombuffer(units, np.uint8)[begin:end]
            if not marks.any():
                continue
            colour = self._theme.state_colour(word)
            if cells.cell < _GAPS_FROM:
                colour.setAlphaF(0.6)
                self._veil(painter, cells, strip, begin, marks, colour)
                continue
            under = QColor(self._theme.colour("base"))
            under.setAlphaF(0.45)
            for area in self._areas(cells, number, np.flatnonzero(marks) + begin):
                # What is there now shines through.
                painter.fillRect(area, under)
                painter.fillRect(area, QBrush(colour, Qt.BrushStyle.BDiagPattern))

    @staticmethod
    def _areas(cells: Cells, number: int, units: npt.NDArray[np.int64]) -> Iterator[QRectF]:
        """Rectangles of cells beside each other."""
        for low, high in spans(units):
            for line in range(low // cells.columns, high // cells.columns + 1):
                left = max(low, line * cells.columns)
                right = min(high, (line + 1) * cells.columns - 1)
                x, y, edge, _ = cells.rect(Place(number, left))
                yield QRectF(x, y, (right - left + 1) * edge, edge)

    def _gaps(self, painter: QPainter, cells: Cells, target: QRect) -> None:
        painter.setPen(QPen(self._theme.colour("base"), 1))
        for column in range(cells.columns + 1):
            x = target.left() + column * cells.cell
            painter.drawLine(x, target.top(), x, target.bottom() + 1)
        for y in range(target.top(), target.bottom() + 2, cells.cell):
            painter.drawLine(target.left(), y, target.right() + 1, y)

    def _marks(
        self, painter: QPainter, cells: Cells, strip: Strip, number: int, begin: int, end: int
    ) -> None:
        """Selected cells: a veil with a line round it where there is room, else their own picture."""
        marks = self._board.picked.marks(strip.step)[begin:end]
        if not marks.any():
            return
        accent = self._theme.colour("accent")
        if cells.cell < _GAPS_FROM:
            accent.setAlphaF(0.68)
            self._veil(painter, cells, strip, begin, marks, accent)
            return
        veil = QColor(accent)
        # In heats the colour under the veil is what is looked at.
        veil.setAlphaF(0.34 if self._picture.mode is Mode.STATE else 0.0)
        pen = QPen(accent, min(max(1.0, cells.cell / 10), 3.0))
        inset = pen.widthF() / 2
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for whole in self._areas(cells, number, np.flatnonzero(marks) + begin):
            area = whole.adjusted(1, 1, 0, 0)
            painter.fillRect(area, veil)
            painter.drawRect(area.adjusted(inset, inset, -inset, -inset))

    @staticmethod
    def _veil(
        painter: QPainter, cells: Cells, strip: Strip, begin: int, marked: npt.NDArray[Any], tint: QColor
    ) -> None:
        """Cells too small for lines: those that are marked are tinted."""
        columns = cells.columns
        lines = -(-len(marked) // columns)
        veil = np.zeros((lines, columns + -columns % 4), np.uint8)
        marks = np.zeros(lines * columns, np.uint8)
        marks[: len(marked)] = marked != 0
        veil[:, :columns] = marks.reshape(lines, columns)
        picture = QImage(veil.data, columns, lines, veil.strides[0], QImage.Format.Format_Indexed8)
        picture.setColorTable([0, tint.rgba()])
        top = strip.first + begin // columns * cells.cell
        painter.drawImage(
            QRect(cells.gutter, top, columns * cells.cell, lines * cells.cell),
            picture.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied),
        )

    # -- glyphs and numbers --

    def _write(
        self, painter: QPainter, cells: Cells, strip: Strip, number: int, begin: int, end: int
    ) -> None:
        frames = self._board.frames.get(strip.step)
        flat = self._picture.flat(strip.step)[begin:end].tolist()
        states = self._board.states(strip.step)
        if frames is None or states is None or len(states) < end:
            return
        words = states[begin:end].tolist()
        numbered = cells.cell >= self._theme.em(2.2)
        ratio = painter.device().devicePixelRatio()
        columns, edge = cells.columns, cells.cell
        lift = edge // 5 if numbered else 0
        glyphs: dict[tuple[int, int], QPixmap] = {}
        for unit, pair in enumerate(zip(flat, words, strict=True), begin):
            glyph = glyphs.get(pair)
            if glyph is None:
                glyph = glyphs[pair] = self._glyph(pair[1], pair[0], edge, ratio)
            line, column = divmod(unit, columns)
            painter.drawPixmap(cells.gutter + column * edge, strip.first + line * edge - lift, glyph)
        if numbered:
            self._numbers(painter, cells, strip, number, begin, flat)

    def _numbers(
        self, painter: QPainter, cells: Cells, strip: Strip, number: int, begin: int, flat: list[int]
    ) -> None:
        frames = self._board.frames[strip.step]
        font = self._theme.font(small=True)
        font.setPixelSize(max(7, min(round(cells.cell / 4.2), self._theme.em(0.85))))
        painter.setFont(font)
        mode = self._picture.mode
        for offset, byte in enumerate(flat):
            unit = begin + offset
            x, y, edge, _ = cells.rect(Place(number, unit))
            painter.setPen(ink_on(self._picture.colour(byte), self._theme))
            text = frames.name(unit)
            if mode in WRITTEN and byte != UNKNOWN:
                value = self._board.figures.one(mode, strip.step, unit)
                text = WRITTEN[mode](value) if value is not None else text
            flags = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom
            painter.drawText(QRect(x + 1, y, edge - 1, edge - max(1, edge // 12)), flags, text)

    def _glyph(self, state: int, byte: int, edge: int, ratio: float) -> QPixmap:
        key = (self._picture.mode, state, self._picture.colour(byte).rgba(), edge, ratio)
        found = self._glyphs.get(key)
        if found is None:
            if len(self._glyphs) > 4096:
                self._glyphs.clear()
            found = QPixmap(QSize(edge, edge) * ratio)
            found.setDevicePixelRatio(ratio)
            found.fill(Qt.GlobalColor.transparent)
            painter = QPainter(found)
            small = edge < self._theme.em(2.2)
            side = edge * (0.6 if small else 0.4)
            place = QRectF((edge + 1 - side) / 2, (edge + 1 - side) / 2, side, side)
            # In heats done frames have their figure; what is otherwise must be seen.
            if self._picture.mode is Mode.STATE or state != UnitState.DONE:
                paint_glyph(
                    painter, state_word(state), place, ink_on(self._picture.colour(byte), self._theme)
                )
            painter.end()
            self._glyphs[key] = found
        return found

    def _frame(self, painter: QPainter, cells: Cells, place: Place, colour: QColor, width: int) -> None:
        x, y, edge, _ = cells.rect(place)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        out = 1 if edge < _GAPS_FROM + 3 else 0
        # Two lines, one of the other shade: seen on any cell.
        painter.setPen(QPen(self._theme.colour("base"), 1))
        painter.drawRect(QRect(x - out - 1, y - out - 1, edge + 2 * out + 2, edge + 2 * out + 2))
        painter.setPen(QPen(colour, width))
        painter.drawRect(QRect(x - out, y - out, edge + 2 * out, edge + 2 * out).adjusted(0, 0, 0, 0))
