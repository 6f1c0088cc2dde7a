"""Small charts of frame times, drawn by hand: a line over frames, a histogram, bars beside names.

What belongs here: drawing figures that are handed in, and saying them in words.  What may not: where the
figures come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from client_gui.store import times
from client_gui.style.lazily import when_seen
from client_gui.style.theme import Theme
from client_gui.views.job_parts.frameset import many
from client_gui.views.job_parts.timesums import BINS, Line, line_of, means
from farm.sdk.words import duration_text

Floats = npt.NDArray[np.float64]


class Chart(QWidget):
    """A chart without figures yet."""

    def __init__(self, theme: Theme, name: str, high_em: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._high_em = high_em
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        when_seen(theme, self, self._restyle)

    def _restyle(self) -> None:
        self.updateGeometry()
        self.update()

    def say(self, text: str) -> None:
        """Says the figures in words."""
        self.setAccessibleDescription(text)
        self.setToolTip(text)

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as was asked for."""
        return QSize(self._theme.em(8), self._theme.em(self._high_em))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Narrow, but no lower."""
        return QSize(self._theme.em(3), self._theme.em(self._high_em))


class Sparkline(Chart):
    """Frame times in the order of frames; each point is the longest of its frames."""

    def __init__(
        self, theme: Theme, high_em: float = 2.2, parent: QWidget | None = None, name: str = "Frame times"
    ) -> None:
        super().__init__(theme, name, high_em, parent)
        self._line = line_of(np.zeros(0))

    def set(self, line: Line) -> None:
        """Shows other times."""
        self._line = line
        known = line.known
        if known is None:
            self.say("no frame times yet")
        else:
            self.say(
                f"{many(known.count, 'frame')}: from {duration_text(known.least_s)} to "
                f"{duration_text(known.most_s)}, median {duration_text(known.median_s)}"
            )
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The line, the median, and what is cut off."""
        painter = QPainter(self)
        known = self._line.known
        if known is None:
            return
        theme = self._theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        room = QRectF(self.rect()).adjusted(1, 3, -1, -2)
        count = max(2, int(room.width() / 2))
        most, mean = times.sparkline(self._line.most, count), means(self._line.mean, count)
        count = len(most)
        # As with heats: what lies far above must not press the others flat.
        top = max(float(np.nanpercentile(most, 90)) * 1.15, known.median_s * 1.5)
        top = min(top, known.most_s) or 1.0
        step = room.width() / max(count - 1, 1)
        middle = room.bottom() - min(known.median_s / top, 1.0) * room.height()
        painter.setPen(QPen(theme.colour("line"), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(room.left(), middle), QPointF(room.right(), middle))
        fill, line = QColor(theme.colour("accent")), theme.colour("accent")
        fill.setAlphaF(0.25)
        for run in self._runs(most / top, room, step):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(fill)
            painter.drawPolygon(
                QPolygonF([QPointF(run[0].x(), room.bottom()), *run, QPointF(run[-1].x(), room.bottom())])
            )
        for run in self._runs(mean / top, room, step):
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(line, 1.3))
            if len(run) > 1:
                painter.drawPolyline(QPolygonF(run))
            else:
                painter.drawPoint(run[0])
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("warn"))
        with np.errstate(invalid="ignore"):
            above = np.flatnonzero(most > top * 1.0001)
        for place in above[:200].tolist():
            x, y = room.left() + place * step, room.top()
            painter.drawPolygon(
                QPolygonF([QPointF(x - 2.5, y + 1), QPointF(x + 2.5, y + 1), QPointF(x, y - 3)])
            )

    @staticmethod
    def _runs(parts: Floats, room: QRectF, step: float) -> list[list[QPointF]]:
        """Stretches of points that are all known."""
        found: list[list[QPointF]] = [[]]
        heights = room.bottom() - np.clip(parts, 0.0, 1.0) * room.height()
        for place, y in enumerate(heights.tolist()):
            if y == y:
                found[-1].append(QPointF(room.left() + place * step, y))
            elif found[-1]:
                found.append([])
        return [run for run in found if run]


class HistogramChart(Chart):
    """How many frames took how long; a click selects the frames of a bar."""

    #: From and to how many seconds the bar that was chosen goes; the last one has no end (inf).
    chosen = Signal(float, float)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "How many frames took how long", 5.0, parent)
        self._bins = times.histogram(np.zeros(0), BINS)
        self._known: times.Statistics | None = None
        self._at = -1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def set(self, bins: times.Histogram, known: times.Statistics | None) -> None:
        """Shows other times, and them in a few numbers."""
        self._bins, self._known = bins, known
        self._at = -1
        self._tell()
        self.update()

    def _tell(self) -> None:
        known, bins = self._known, self._bins
        if known is None:
            self.say("no frame times yet")
        elif self._at >= 0:
            self.say(self._bar_words(self._at))
        else:
            fullest = int(np.argmax(bins.counts))
            self.say(
                f"most frames: {self._bar_words(fullest)}; the slowest took {duration_text(known.most_s)}"
            )

    def _bar_words(self, bar: int) -> str:
        low, high = self._bins.edges_s[bar], self._bins.edges_s[bar + 1]
        last = bar == len(self._bins.counts) - 1 and self._known is not None and self._known.most_s > high
        end = " and more" if last else f" to {duration_text(float(high))}"
        return f"{many(int(self._bins.counts[bar]), 'frame')} took {duration_text(float(low))}{end}"

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Bars, the median and the 95th percentile, and what the ends are."""
        painter = QPainter(self)
        theme, known = self._theme, self._known
        if known is None:
            painter.setPen(theme.colour("dim"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, "no frame times yet")
            return
        painter.setFont(theme.font(small=True))
        line = painter.fontMetrics().height()
        room = QRectF(self.rect()).adjusted(1, line + 2, -1, -line - 2)
        counts, edges = self._bins.counts, self._bins.edges_s
        most = int(counts.max()) or 1
        wide = room.width() / len(counts)
        for bar, count in enumerate(counts.tolist()):
            # One frame must be seen beside thousands.
            high = max(room.height() * count / most, 2.0 if count else 0.0)
            area = QRectF(room.left() + bar * wide + 0.5, room.bottom() - high, wide - 1, high)
            painter.fillRect(area, theme.colour("accent" if bar != self._at else "text"))
        painter.setPen(theme.colour("line"))
        painter.drawLine(QPointF(room.left(), room.bottom()), QPointF(room.right(), room.bottom()))
        span = float(edges[-1] - edges[0]) or 1.0
        painter.setPen(theme.colour("dim"))
        flags = Qt.AlignmentFlag.AlignVCenter
        below = QRect(int(room.left()), int(room.bottom()) + 2, int(room.width()), line)
        painter.drawText(below, flags | Qt.AlignmentFlag.AlignLeft, duration_text(float(edges[0])))
        cut = known.most_s > edges[-1]
        painter.drawText(
            below,
            flags | Qt.AlignmentFlag.AlignRight,
            f"{duration_text(float(edges[-1]))}{' +' if cut else ''}",
        )
        taken = -1e9
        for seconds, word in ((known.median_s, "median"), (known.p95_s, "95 %")):
            x = room.left() + min(max((seconds - float(edges[0])) / span, 0.0), 1.0) * room.width()
            painter.setPen(QPen(theme.colour("text"), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, room.top()), QPointF(x, room.bottom()))
            text = f"{word} {duration_text(seconds)}"
            width = painter.fontMetrics().horizontalAdvance(text)
            left = min(max(x - width / 2, room.left()), room.right() - width)
            if left < taken + theme.em(0.4):
                left = taken + theme.em(0.4)
            if left + width <= self.width():
                painter.setPen(theme.colour("text"))
                painter.drawText(QRectF(left, 0, width + 2, line), flags, text)
                taken = left + width
        if self.hasFocus():
            painter.setPen(theme.colour("accent"))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Left and right go from bar to bar, Enter selects its frames."""
        bars = len(self._bins.counts)
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self._known is not None:
            by = 1 if event.key() == Qt.Key.Key_Right else -1
            self._at = min(max(self._at + by, 0), bars - 1)
            self._tell()
            self.update()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self._at >= 0:
            self._choose(self._at)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Selects the frames of a bar."""
        bars = len(self._bins.counts)
        self._at = min(max(int((event.position().x() - 1) / max(self.width() - 2, 1) * bars), 0), bars - 1)
        self._tell()
        self.update()
        self._choose(self._at)

    def _choose(self, bar: int) -> None:
        if self._known is not None and self._bins.counts[bar]:
            last = bar == len(self._bins.counts) - 1
            high = float("inf") if last else float(self._bins.edges_s[bar + 1])
            low = 0.0 if bar == 0 else float(self._bins.edges_s[bar])
            self.chosen.emit(low, high)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Seen as where keys go."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """No longer."""
        super().focusOutEvent(event)
        self.update()


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of ``Bars``.

    Attributes:
        name, value: Words on the left and on the right.
        part: Length of the bar, 0..1.
        token: Colour of the bar.
        note: Small words after the value, "" for none.
        about: What is chosen with it.
    """

    name: str
    value: str
    part: float
    token: str = "accent"
    note: str = ""
    about: Any = None


class Bars(Chart):
    """Names with bars and figures; one can be chosen with the mouse or keys."""

    #: What belongs to the row that was chosen.
    chosen = Signal(object)

    def __init__(self, theme: Theme, name: str, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(theme, name, 1.0, parent)
        self._empty = empty
        self.rows: tuple[Bar, ...] = ()
        self._at = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def set(self, rows: Sequence[Bar]) -> None:
        """Shows other rows."""
        before = len(self.rows)
        self.rows = tuple(rows)
        self._at = min(self._at, max(len(self.rows) - 1, 0))
        said = "; ".join(f"{row.name} {row.value}{' ' + row.note if row.note else ''}" for row in self.rows)
        self.setAccessibleDescription(said or self._empty)
        if len(self.rows) != before:
            self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """All rows."""
        return QSize(self._theme.em(8), max(1, len(self.rows)) * self._line())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """All rows."""
        return self.sizeHint()

    def _line(self) -> int:
        return self._theme.em(1.3)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The rows."""
        theme = self._theme
        painter = QPainter(self)
        painter.setFont(theme.font(small=True))
        metrics = painter.fontMetrics()
        if not self.rows:
            painter.setPen(theme.colour("dim"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, self._empty)
            return
        line = self._line()
        names = min(max(metrics.horizontalAdvance(row.name) for row in self.rows) + 3, self.width() // 3)
        values = max(metrics.horizontalAdvance(row.value) for row in self.rows)
        notes = max(metrics.horizontalAdvance(row.note) for row in self.rows)
        gap = theme.em(0.5)
        left = names + gap
        right = values + (notes + gap if notes else 0) + gap
        if self.width() - left - right < theme.em(3) and notes:
            right -= notes + gap
            notes = 0
        room = max(0, self.width() - left - right)
        middle = Qt.AlignmentFlag.AlignVCenter
        for number, row in enumerate(self.rows):
            y = number * line
            painter.setPen(theme.colour("text"))
            name = metrics.elidedText(row.name, Qt.TextElideMode.ElideMiddle, names)
            painter.drawText(QRect(0, y, names, line), middle | Qt.AlignmentFlag.AlignRight, name)
            painter.fillRect(QRectF(left, y + line * 0.22, room, line * 0.56), theme.colour("raised"))
            painter.fillRect(
                QRectF(left, y + line * 0.22, max(1.0, room * min(row.part, 1.0)), line * 0.56),
                theme.colour(row.token),
            )
            value = QRect(left + room + gap, y, values, line)
            painter.drawText(value, middle | Qt.AlignmentFlag.AlignRight, row.value)
            if notes and row.note:
                painter.setPen(theme.colour(row.token if row.token != "accent" else "dim"))
                painter.drawText(QRect(value.right() + gap, y, notes, line), middle, row.note)
            if self.hasFocus() and number == self._at:
                painter.setPen(theme.colour("accent"))
                painter.drawRect(QRect(0, y, self.width() - 1, line - 1))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Up and down go from row to row, Enter chooses."""
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self.rows:
            by = 1 if event.key() == Qt.Key.Key_Down else -1
            self._at = min(max(self._at + by, 0), len(self.rows) - 1)
            self.update()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self.rows:
            self.chosen.emit(self.rows[self._at].about)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Chooses a row."""
        row = int(event.position().y()) // self._line()
        if 0 <= row < len(self.rows):
            self._at = row
            self.update()
            self.chosen.emit(self.rows[row].about)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Seen as where keys go."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """No longer."""
        super().focusOutEvent(event)
        self.update()
