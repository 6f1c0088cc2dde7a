"""One plot of the Farm plots dock: title, legend with figures, the lines, a cursor for mouse and keyboard.

What belongs here: drawing with pyqtgraph.  What may not: what is drawn (``client_gui.store.series``).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from client_gui.desk import Desk
from client_gui.store.series import Plot, Series, in_words, number_text, stacked
from client_gui.style.theme import Theme
from client_gui.views.cards import words


class Panel(QWidget):
    """One plot with its title, which tells the figures under the mouse or the keyboard's cursor."""

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        import pyqtgraph

        self._theme = desk.theme
        self._series: Series | None = None
        self._plot: Plot | None = None
        self._place = -1
        self._key: tuple[Any, ...] = ()
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        self._head = words("", theme=desk.theme, bold=True)
        self._legend = Legend(desk.theme)
        box.addWidget(self._head)
        box.addWidget(self._legend)
        axis = pyqtgraph.DateAxisItem(utcOffset=-time.localtime().tm_gmtoff)
        count = pyqtgraph.AxisItem("left")
        # Longer labels than there is room for would be left out.
        count.tickStrings = lambda values, _scale, _spacing: [short_text(value) for value in values]
        self._view = pyqtgraph.PlotWidget(axisItems={"bottom": axis, "left": count})
        self._view.setMenuEnabled(False)
        self._view.hideButtons()
        self._view.setMouseEnabled(x=False, y=False)
        self._view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._view.scene().sigMouseMoved.connect(self._moved)
        self._lines: list[Any] = []
        self._cursor = pyqtgraph.InfiniteLine(angle=90, movable=False)
        self._cursor.hide()
        self._view.addItem(self._cursor, ignoreBounds=True)
        box.addWidget(self._view, 1)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.restyle()

    def end(self) -> None:
        """Takes it out of the window."""
        self._view.close()
        self.setParent(None)
        self.deleteLater()

    def restyle(self) -> None:
        """Takes colours and sizes from the theme anew."""
        self._view.setBackground(self._theme.colour("base"))
        for side in ("left", "bottom"):
            axis = self._view.getAxis(side)
            axis.setPen(QPen(self._theme.colour("line")))
            axis.setTextPen(QPen(self._theme.colour("dim")))
            axis.setStyle(tickFont=self._theme.font(small=True))
        self._view.getAxis("left").setWidth(self._theme.em(2.8))
        # Half a line above, for the label of the highest mark.
        self._view.plotItem.setContentsMargins(0, self._theme.em(0.5), 0, 0)
        self.setFixedHeight(self._theme.em(11))
        self._cursor.setPen(QPen(self._theme.colour("dim")))
        self._key = ()

    def put(self, series: Series, plot: Plot, range_s: float, now_s: float) -> None:
        """Shows other figures; the lines themselves stay and get new data."""
        self._series, self._plot = series, plot
        self.setAccessibleName(plot.title)
        self.setAccessibleDescription(in_words(plot))
        self._head.setText(plot.title)
        key = tuple((curve.name, curve.token, curve.dashed) for curve in plot.curves)
        if key != self._key:
            self._key = key
            self._remake(plot)
        values = stacked(plot.curves) if plot.stacked else [curve.values for curve in plot.curves]
        order = range(len(values) - 1, -1, -1) if plot.stacked else range(len(values))
        for line, place in zip(self._lines, order, strict=True):
            line.setData(series.at_s, values[place])
        most = max((float(np.nanmax(one)) for one in values if len(one)), default=0.0)
        self._view.setXRange(_begin_s(series, range_s, now_s), now_s, padding=0.0)
        self._view.setYRange(0, most * 1.1 or 1.0, padding=0.0)
        self._tell()

    def _remake(self, plot: Plot) -> None:
        for line in self._lines:
            self._view.removeItem(line)
        self._lines = []
        curves = reversed(plot.curves) if plot.stacked else plot.curves
        for curve in curves:
            colour = self._theme.colour(curve.token)
            pen = QPen(colour, 2)
            pen.setCosmetic(True)
            if curve.dashed:
                pen.setStyle(Qt.PenStyle.DashLine)
            soft = QColor(colour)
            soft.setAlphaF(0.85 if plot.stacked else 0.18)
            fill = None if curve.dashed else soft
            line = self._view.plot(
                [], [], pen=pen, antialias=True, fillLevel=None if fill is None else 0, brush=fill
            )
            self._lines.append(line)

    # -- the cursor --

    def _moved(self, at: QPointF) -> None:
        if self._series is None or not len(self._series.at_s):
            return
        if not self._view.sceneBoundingRect().contains(at):
            self._point(-1)
            return
        moment_s = self._view.plotItem.vb.mapSceneToView(at).x()
        self._point(int(np.abs(self._series.at_s - moment_s).argmin()))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Left and right, home and end move the cursor; escape takes it away."""
        count = len(self._series.at_s) if self._series is not None else 0
        at = self._place if self._place >= 0 else count - 1
        moves = {
            Qt.Key.Key_Left: at - 1,
            Qt.Key.Key_Right: at + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: count - 1,
            Qt.Key.Key_Escape: -1,
        }
        key = Qt.Key(event.key())
        if not count or key not in moves:
            super().keyPressEvent(event)
            return
        self._point(-1 if key == Qt.Key.Key_Escape else max(0, min(count - 1, moves[key])))

    def _point(self, place: int) -> None:
        self._place = place
        self._cursor.setVisible(place >= 0)
        if place >= 0 and self._series is not None:
            self._cursor.setPos(float(self._series.at_s[place]))
        self._tell()

    def _tell(self) -> None:
        """Names the lines with their figures: at the cursor, else now."""
        if self._plot is None or self._series is None:
            return
        place = min(self._place, len(self._series.at_s) - 1)
        entries = []
        for curve in self._plot.curves:
            value = float(curve.values[place]) if len(curve.values) else float("nan")
            entries.append((curve.token, curve.dashed, f"{curve.name} {number_text(value)}"))
        when = ""
        if place >= 0:
            when = time.strftime("%a %H:%M", time.localtime(float(self._series.at_s[place])))
        self._legend.put(when, entries)


def _begin_s(series: Series, range_s: float, now_s: float) -> float:
    """Where a plot begins: a farm that is younger than the range is not drawn at its very edge."""
    begin_s = now_s - range_s
    if not len(series.at_s):
        return begin_s
    return max(begin_s, min(float(series.at_s[0]), now_s - range_s / 12))


def short_text(value: float) -> str:
    """A mark of an axis: ``80``, ``1.5k``, ``70k``, ``2M``."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size and not (unit == "k" and abs(value) < 10_000 and value % 100):
            return f"{value / size:g}{unit}"
    return f"{value:g}"


class Legend(QWidget):
    """Names of lines with their figures, each behind a piece of its line."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._when = ""
        self._entries: list[tuple[str, bool, str]] = []

    def put(self, when: str, entries: list[tuple[str, bool, str]]) -> None:
        """Shows other entries: token of the colour, whether the line is dashed, words."""
        self._when, self._entries = when, entries
        self.setAccessibleName(", ".join([when, *(text for _, _, text in entries)]).strip(", "))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """A line."""
        return QSize(self._theme.em(10), self._theme.em(1.2))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """A line."""
        return QSize(self._theme.em(4), self._theme.em(1.2))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The entries, as far as there is room."""
        painter = QPainter(self)
        painter.setFont(self._theme.font(small=True))
        metrics = painter.fontMetrics()
        middle, left = self.height() // 2, 0
        base = (self.height() + metrics.ascent() - metrics.descent()) // 2
        gap = self._theme.em(0.4)
        if (
            metrics.horizontalAdvance("".join(text for _, _, text in self._entries))
            + 7 * gap * len(self._entries)
            > self.width()
        ):
            gap //= 2  # narrow: the pieces of lines are shorter
        if self._when:
            painter.setPen(self._theme.colour("text"))
            painter.drawText(left, base, self._when)
            left += metrics.horizontalAdvance(self._when) + 2 * gap
        for token, dashed, text in self._entries:
            pen = QPen(self._theme.colour(token), 2)
            pen.setStyle(Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)
            painter.setPen(pen)
            painter.drawLine(left, middle, left + 3 * gap, middle)
            left += 4 * gap
            painter.setPen(self._theme.colour("dim"))
            painter.drawText(left, base, text)
            left += metrics.horizontalAdvance(text) + 3 * gap
