"""Glyphs as paths: states and everything buttons show, drawn rather than taken from a font.

What belongs here: shapes, how they are painted, icons made of them, the program's own icon.  What may not:
which button has which glyph, and values of colours.

A bare machine has a font or two, and none of them is sure to have a clock or a paper; a path looks the same
everywhere, at any size and on any screen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap

from client_gui.style.tokens import APP_ICON

if TYPE_CHECKING:
    from client_gui.style.theme import Theme

#: Glyphs are drawn on a square of so many units, with lines so wide.
GRID: Final = 16.0
WIDTH: Final = 1.6


@dataclass(slots=True)
class _Sketch:
    """A drawing under way: lines to be stroked, shapes to be filled."""

    lines: QPainterPath = field(default_factory=QPainterPath)
    shapes: QPainterPath = field(default_factory=QPainterPath)

    def line(self, *points: tuple[float, float], close: bool = False) -> _Sketch:
        self.lines.moveTo(*points[0])
        for point in points[1:]:
            self.lines.lineTo(*point)
        if close:
            self.lines.closeSubpath()
        return self

    def ring(self, x: float, y: float, radius: float) -> _Sketch:
        self.lines.addEllipse(QPointF(x, y), radius, radius)
        return self

    def arc(self, x: float, y: float, radius: float, start: float, sweep: float) -> _Sketch:
        box = QRectF(x - radius, y - radius, 2 * radius, 2 * radius)
        self.lines.arcMoveTo(box, start)
        self.lines.arcTo(box, start, sweep)
        return self

    def box(self, x: float, y: float, wide: float, high: float, round_: float = 1.0) -> _Sketch:
        self.lines.addRoundedRect(QRectF(x, y, wide, high), round_, round_)
        return self

    def solid(self, *points: tuple[float, float]) -> _Sketch:
        self.shapes.moveTo(*points[0])
        for point in points[1:]:
            self.shapes.lineTo(*point)
        self.shapes.closeSubpath()
        return self

    def dot(self, x: float, y: float, radius: float) -> _Sketch:
        self.shapes.addEllipse(QPointF(x, y), radius, radius)
        return self

    def block(self, x: float, y: float, wide: float, high: float) -> _Sketch:
        self.shapes.addRect(QRectF(x, y, wide, high))
        return self

    def slice(self, x: float, y: float, radius: float, start: float, sweep: float) -> _Sketch:
        self.shapes.moveTo(x, y)
        self.shapes.arcTo(QRectF(x - radius, y - radius, 2 * radius, 2 * radius), start, sweep)
        self.shapes.closeSubpath()
        return self

    def arrow(self, x: float, y: float, towards: float, size: float = 3.0) -> _Sketch:
        """A head of an arrow whose tip is at a point; ``towards`` in degrees, 0 = right, 90 = up."""
        turn = math.radians(towards)
        points = []
        for along, aside in ((0.0, 0.0), (-size, size * 0.75), (-size, -size * 0.75)):
            points.append(
                (
                    x + along * math.cos(turn) - aside * math.sin(turn),
                    y - along * math.sin(turn) - aside * math.cos(turn),
                )
            )
        return self.solid(*points)


def _gear() -> _Sketch:
    sketch = _Sketch().ring(8, 8, 2.2).ring(8, 8, 4.6)
    for spoke in range(8):
        turn = math.tau * spoke / 8
        near, far = 4.8, 6.7
        sketch.line(
            (8 + near * math.cos(turn), 8 + near * math.sin(turn)),
            (8 + far * math.cos(turn), 8 + far * math.sin(turn)),
        )
    return sketch


def _sun() -> _Sketch:
    sketch = _Sketch().ring(8, 8, 3)
    for ray in range(8):
        turn = math.tau * ray / 8
        sketch.line(
            (8 + 5 * math.cos(turn), 8 + 5 * math.sin(turn)),
            (8 + 6.6 * math.cos(turn), 8 + 6.6 * math.sin(turn)),
        )
    return sketch


def _moon() -> _Sketch:
    sketch = _Sketch()
    whole, bite = QPainterPath(), QPainterPath()
    whole.addEllipse(QPointF(7.6, 8.2), 5.8, 5.8)
    bite.addEllipse(QPointF(10.6, 5.6), 5.0, 5.0)
    sketch.shapes = whole.subtracted(bite)
    return sketch


def _hourglass() -> _Sketch:
    return (
        _Sketch()
        .line((4, 2.2), (12, 2.2))
        .line((4, 13.8), (12, 13.8))
        .line((4.8, 2.2), (4.8, 4.4), (11.2, 11.6), (11.2, 13.8))
        .line((11.2, 2.2), (11.2, 4.4), (4.8, 11.6), (4.8, 13.8))
    )


def _star(filled: bool) -> _Sketch:
    points = [
        (
            8 + (6.4 if n % 2 == 0 else 2.7) * math.sin(math.tau * n / 10),
            8.4 - (6.4 if n % 2 == 0 else 2.7) * math.cos(math.tau * n / 10),
        )
        for n in range(10)
    ]
    return _Sketch().solid(*points) if filled else _Sketch().line(*points, close=True)


def _half(dark: bool) -> _Sketch:
    return _Sketch().ring(8, 8, 5.8).slice(8, 8, 5.8, 90 if dark else -90, 180)


#: Every glyph by its name; names of states are their words.
_DRAWN: Final[dict[str, Callable[[], _Sketch]]] = {
    # states
    "queued": lambda: _Sketch().ring(8, 8, 5),
    "blocked": _hourglass,
    "starting": lambda: _Sketch().ring(8, 8, 5.4).slice(8, 8, 5.4, 0, 90),
    "running": lambda: _Sketch().solid((4, 2.5), (13.4, 8), (4, 13.5)),
    "done": lambda: _Sketch().line((2.6, 8.6), (6.3, 12.4), (13.4, 3.8)),
    "failed": lambda: _Sketch().line((3.4, 3.4), (12.6, 12.6)).line((12.6, 3.4), (3.4, 12.6)),
    "retry pending": lambda: _Sketch().arc(8, 8, 5, 40, 245).arrow(13.3, 6.7, -58, 4.4),
    "paused": lambda: _Sketch().block(3.8, 3, 3, 10).block(9.2, 3, 3, 10),
    "skipped": lambda: _Sketch().ring(8, 8, 4.8).line((2.6, 13.4), (13.4, 2.6)),
    "canceled": lambda: _Sketch().ring(8, 8, 5.6).line((4.1, 4.1), (11.9, 11.9)),
    "unknown": lambda: (
        _Sketch().arc(8, 5.6, 3.2, 180, -225).line((8.9, 8.5), (8, 9.4), (8, 10.4)).dot(8, 13.2, 1.1)
    ),
    # docks
    "jobs": lambda: _Sketch().line((2, 4), (14, 4)).line((2, 8), (14, 8)).line((2, 12), (9.5, 12)),
    "job": lambda: _Sketch().block(2, 2, 5, 5).block(9, 2, 5, 5).block(2, 9, 5, 5).box(9.7, 9.7, 3.6, 3.6, 0),
    "log": lambda: (
        _Sketch()
        .box(2.6, 1.8, 10.8, 12.4)
        .line((5, 5.2), (11, 5.2))
        .line((5, 8), (11, 8))
        .line((5, 10.8), (8.5, 10.8))
    ),
    "preview": lambda: (
        _Sketch()
        .box(1.8, 3, 12.4, 10)
        .line((2.6, 11.8), (6.2, 7.4), (8.8, 10.2), (10.6, 8.4), (13.4, 11.6))
        .dot(10.9, 5.9, 1.1)
    ),
    "nodes": lambda: (
        _Sketch()
        .box(2, 2.4, 12, 4.6)
        .box(2, 9, 12, 4.6)
        .dot(4.8, 4.7, 0.9)
        .dot(4.8, 11.3, 0.9)
        .line((8, 4.7), (11.6, 4.7))
        .line((8, 11.3), (11.6, 11.3))
    ),
    "why": _hourglass,
    "spend": lambda: (
        _Sketch()
        .ring(8, 8, 6)
        .arc(8, 6.4, 1.7, 20, 250)
        .arc(8, 9.6, 1.7, 200, 250)
        .line((8, 3.8), (8, 4.8))
        .line((8, 11.2), (8, 12.2))
    ),
    "plots": lambda: (
        _Sketch().line((2, 2), (2, 14), (14, 14)).line((4.4, 10.6), (7.4, 6.4), (9.8, 8.8), (13.6, 3.4))
    ),
    "activity": lambda: _Sketch().line((1.4, 8), (4.6, 8), (6.4, 3), (9.4, 13), (11.2, 8), (14.6, 8)),
    "submit": lambda: (
        _Sketch()
        .line((8, 2.6), (8, 10))
        .line((4.6, 5.8), (8, 2.4), (11.4, 5.8))
        .line((2.4, 10.4), (2.4, 13.6), (13.6, 13.6), (13.6, 10.4))
    ),
    # buttons
    "close": lambda: _Sketch().line((4, 4), (12, 12)).line((12, 4), (4, 12)),
    "float": lambda: (
        _Sketch()
        .line((6.4, 2.6), (2.6, 2.6), (2.6, 13.4), (13.4, 13.4), (13.4, 9.6))
        .line((9, 2.6), (13.4, 2.6), (13.4, 7))
        .line((13.2, 2.8), (7.6, 8.4))
    ),
    "find": lambda: _Sketch().ring(6.8, 6.8, 4.3).line((10.1, 10.1), (14, 14)),
    "command": lambda: _Sketch().line((3, 4), (7, 8), (3, 12)).line((8.4, 12.4), (13.4, 12.4)),
    "gear": _gear,
    "sun": _sun,
    "moon": _moon,
    "contrast": lambda: _half(True),
    "undo": lambda: (
        _Sketch()
        .line((3.4, 6), (9.4, 6))
        .arc(9.4, 9.6, 3.6, 90, -180)
        .line((9.4, 13.2), (5, 13.2))
        .arrow(1.8, 6, 180, 4.4)
    ),
    "down": lambda: _Sketch().line((3.4, 5.6), (8, 10.4), (12.6, 5.6)),
    "up": lambda: _Sketch().line((3.4, 10.4), (8, 5.6), (12.6, 10.4)),
    "left": lambda: _Sketch().line((10.4, 3.4), (5.6, 8), (10.4, 12.6)),
    "right": lambda: _Sketch().line((5.6, 3.4), (10.4, 8), (5.6, 12.6)),
    "first": lambda: _Sketch().line((3.6, 3), (3.6, 13)).solid((13, 3), (5.4, 8), (13, 13)),
    "last": lambda: _Sketch().line((12.4, 3), (12.4, 13)).solid((3, 3), (10.6, 8), (3, 13)),
    "plus": lambda: _Sketch().line((8, 2.8), (8, 13.2)).line((2.8, 8), (13.2, 8)),
    "dot": lambda: _Sketch().dot(8, 8, 4.2),
    "minus": lambda: _Sketch().line((2.8, 8), (13.2, 8)),
    "more": lambda: _Sketch().dot(3.2, 8, 1.4).dot(8, 8, 1.4).dot(12.8, 8, 1.4),
    "menu": lambda: _Sketch().line((2, 4), (14, 4)).line((2, 8), (14, 8)).line((2, 12), (14, 12)),
    "star": lambda: _star(True),
    "star-off": lambda: _star(False),
    "bell": lambda: (
        _Sketch()
        .line((3, 11.4), (4.6, 9.4), (4.6, 6.4))
        .arc(8, 6.4, 3.4, 180, -180)
        .line((11.4, 6.4), (11.4, 9.4), (13, 11.4), (3, 11.4))
        .dot(8, 13.4, 1.3)
    ),
    "warning": lambda: (
        _Sketch()
        .line((8, 2.4), (14.4, 13.4), (1.6, 13.4), close=True)
        .line((8, 6.4), (8, 9.4))
        .dot(8, 11.5, 0.9)
    ),
    "clock": lambda: _Sketch().ring(8, 8, 5.8).line((8, 4.6), (8, 8.2), (10.4, 9.8)),
    "info": lambda: _Sketch().ring(8, 8, 6).line((8, 7.4), (8, 11.4)).dot(8, 4.8, 1.0),
    "refresh": lambda: _Sketch().arc(8, 8, 5, 40, 245).arrow(13.3, 6.7, -58, 4.4),
    "link": lambda: (
        _Sketch()
        .ring(4.4, 8, 2.4)
        .line((6.8, 8), (14, 8))
        .line((11, 8), (11, 10.6))
        .line((13.6, 8), (13.6, 9.8))
    ),
    "offline": lambda: _Sketch().ring(8, 8, 5.4).line((8, 4.6), (8, 8.6)).dot(8, 11, 1.0),
    "folder": lambda: _Sketch().line(
        (1.8, 12.8), (1.8, 3.4), (6.2, 3.4), (7.8, 5.2), (14.2, 5.2), (14.2, 12.8), close=True
    ),
    "copy": lambda: (
        _Sketch().box(5.4, 5.4, 8, 8.4).line((3, 10.4), (2.6, 10.4), (2.6, 2.2), (10.4, 2.2), (10.4, 2.6))
    ),
    "external": lambda: (
        _Sketch()
        .line((6.4, 2.6), (2.6, 2.6), (2.6, 13.4), (13.4, 13.4), (13.4, 9.6))
        .line((9, 2.6), (13.4, 2.6), (13.4, 7))
        .line((13.2, 2.8), (7.6, 8.4))
    ),
    "filter": lambda: _Sketch().line(
        (2, 3), (14, 3), (9.6, 8.2), (9.6, 13.4), (6.4, 11.6), (6.4, 8.2), close=True
    ),
    "grid": lambda: _Sketch().box(2, 2, 5, 5, 0).box(9, 2, 5, 5, 0).box(2, 9, 5, 5, 0).box(9, 9, 5, 5, 0),
    "user": lambda: _Sketch().ring(8, 5.2, 3).arc(8, 14.4, 5.6, 10, 160),
    "trash": lambda: (
        _Sketch()
        .line((2.6, 4.2), (13.4, 4.2))
        .line((6, 4), (6, 2.2), (10, 2.2), (10, 4))
        .line((4, 4.4), (4.6, 13.8), (11.4, 13.8), (12, 4.4))
    ),
}

#: Names of all glyphs.
NAMES: Final = frozenset(_DRAWN)


@lru_cache(maxsize=256)
def glyph_paths(name: str) -> tuple[QPainterPath, QPainterPath]:
    """A glyph on a square of ``GRID`` units: lines to be stroked and shapes to be filled.

    One that nobody knows is a question mark: a newer farm may have states this client has not.
    """
    sketch = _DRAWN.get(name, _DRAWN["unknown"])()
    return sketch.lines, sketch.shapes


def paint_glyph(painter: QPainter, name: str, rect: QRect | QRectF, colour: QColor) -> None:
    """Paints a glyph into the largest square in the middle of a rectangle."""
    box = QRectF(rect)
    side = min(box.width(), box.height())
    if side <= 0:
        return
    lines, shapes = glyph_paths(name)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(box.center().x() - side / 2, box.center().y() - side / 2)
    painter.scale(side / GRID, side / GRID)
    painter.fillPath(shapes, colour)
    pen = QPen(colour, WIDTH)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.strokePath(lines, pen)
    painter.restore()


#: Sides of the pictures an icon has; between them it is scaled down.
_SIDES: Final = (14, 16, 18, 20, 24, 28, 32, 40, 48, 64)


def _icon(theme: Theme, name: str, colour: QColor) -> QIcon:
    key = (name, colour.rgba())
    kept = theme.icons.get(key)
    if kept is None:
        kept = QIcon()
        for mode, ink in ((QIcon.Mode.Normal, colour), (QIcon.Mode.Disabled, theme.colour("disabled"))):
            for side in _SIDES:
                picture = QPixmap(side, side)
                picture.fill(Qt.GlobalColor.transparent)
                painter = QPainter(picture)
                paint_glyph(painter, name, QRect(0, 0, side, side), ink)
                painter.end()
                kept.addPixmap(picture, mode)
        theme.icons[key] = kept
    return kept


def icon(theme: Theme, name: str, token: str = "text") -> QIcon:
    """A glyph as an icon in a colour of the theme; to be asked for anew when the theme changes."""
    return _icon(theme, name, theme.colour(token))


def state_icon(theme: Theme, word: str) -> QIcon:
    """The glyph of a state as an icon in the state's colour."""
    return _icon(theme, word, theme.state_colour(word))


def app_icon() -> QIcon:
    """The program's icon: a crank handle over a strip of film, drawn at every size it is asked for."""
    found = QIcon()
    for size in (16, 22, 24, 32, 48, 64, 128, 256):
        found.addPixmap(_app_picture(size))
    return found


def _app_picture(size: int) -> QPixmap:
    picture = QPixmap(size, size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(size / 64, size / 64)
    back, film, crank, hole = (QColor(APP_ICON[name]) for name in ("back", "film", "crank", "hole"))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(back)
    painter.drawRoundedRect(QRectF(2, 2, 60, 60), 13, 13)
    painter.setBrush(film)
    painter.drawRect(QRectF(2, 44, 60, 11))
    painter.setBrush(hole)
    for n in range(6):
        painter.drawRoundedRect(QRectF(6.5 + n * 9.2, 47.2, 5, 4.6), 1, 1)
    pen = QPen(crank, 5.5)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawArc(QRectF(15, 9, 28, 28), 30 * 16, 285 * 16)
    painter.drawLine(QPointF(29, 23), QPointF(50, 23))
    painter.drawLine(QPointF(50, 23), QPointF(50, 34))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(crank)
    painter.drawEllipse(QPointF(29, 23), 4.6, 4.6)
    painter.end()
    return picture
