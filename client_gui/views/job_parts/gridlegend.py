"""The line under a frame grid that says what its colours mean, in words.

What belongs here: drawing a legend.  What may not: making one (``gridpicture``).
"""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QLinearGradient, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from client_gui.style.glyphs import paint_glyph
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.frameset import state_word
from client_gui.views.job_parts.gridpainter import ink_on
from client_gui.views.job_parts.gridpicture import GridPicture
from client_gui.views.job_parts.heat import TOP, UNKNOWN, WRITTEN, Mode, scale_words


class GridLegend(QWidget):
    """What the cells' colours mean."""

    def __init__(self, board: JobBoard, picture: GridPicture, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._picture = picture
        self._theme = board.desk.theme
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Legend of the frame grid")
        self._theme.changed.connect(self.refresh)
        self._lines = 1

    def refresh(self) -> None:
        """Shows what the cells mean now."""
        self.setAccessibleDescription(self.text())
        lines = self.heightForWidth(self.width())
        if lines != self._lines:
            self._lines = lines
            self.updateGeometry()
        self.update()

    def items(self) -> list[tuple[QColor, str, str]]:
        """Colour, glyph and words of each meaning; of heats only what has no place on the scale."""
        legend = self._picture.legend()
        colour = self._picture.colour
        if legend.mode is Mode.STATE:
            return [
                (colour(byte), state_word(byte), f"{state_word(byte)} {count:,}")
                for byte, count in legend.counts
            ]
        found: list[tuple[QColor, str, str]] = []
        if legend.mode is Mode.NODE:
            for place, (node, count) in enumerate(legend.nodes):
                found.append((colour(place), "", f"{self._board.node_name(node)} {count:,}"))
            if legend.others:
                found.append((colour(len(legend.nodes)), "", f"other nodes {legend.others:,}"))
        if legend.unknown:
            found.append((colour(UNKNOWN), "", f"not known {legend.unknown:,}"))
        return found

    def text(self) -> str:
        """All of it in words."""
        legend = self._picture.legend()
        said = [words for _, _, words in self.items()]
        if legend.mode in WRITTEN:
            low, high, note = scale_words(legend.mode, legend.scale)
            said.insert(0, f"{legend.mode} from {low} to {high}, {note}" if low else note)
        if self._loading():
            said.append("figures are loading")
        return ", ".join(said) or "nothing to show yet"

    def _loading(self) -> bool:
        board = self._board
        return self._picture.mode is not Mode.STATE and any(map(board.figures.loading, board.frames))

    # -- drawing --

    def sizeHint(self) -> QSize:  # noqa: N802
        """A line."""
        return QSize(self._theme.em(20), self.heightForWidth(max(self.width(), self._theme.em(20))))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """A line."""
        return QSize(self._theme.em(8), self._theme.row_height())

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Items wrap."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """As many lines as the items take, three at most."""
        places = self._places(width)
        last = max((at.y() for at, _, _, _ in places), default=0)
        return min(last + self._theme.row_height(), 3 * self._theme.row_height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Items wrap elsewhere."""
        super().resizeEvent(event)
        self.updateGeometry()

    def _places(self, width: int) -> list[tuple[QPoint, QColor, str, str]]:
        theme = self._theme
        metrics = QFontMetrics(theme.font(small=True))
        x, y = self._scale_width(), 0
        found = []
        for colour, glyph, words in self.items():
            wide = theme.em(0.9) + theme.em(0.3) + metrics.horizontalAdvance(words) + theme.em(0.9)
            if x and x + wide > width:
                x, y = 0, y + theme.row_height()
            found.append((QPoint(x, y), colour, glyph, words))
            x += wide
        return found

    def _scale_width(self) -> int:
        legend = self._picture.legend()
        if legend.mode not in WRITTEN:
            return 0
        metrics = QFontMetrics(self._theme.font(small=True))
        low, high, note = scale_words(legend.mode, legend.scale)
        ramp = self._theme.em(6) if low else 0
        return (
            ramp
            + sum(metrics.horizontalAdvance(text) + self._theme.em(0.5) for text in (low, high, note))
            + (self._theme.em(1))
        )

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The scale, and colours with their words."""
        theme = self._theme
        painter = QPainter(self)
        painter.setFont(theme.font(small=True))
        line = theme.row_height()
        legend = self._picture.legend()
        if legend.mode in WRITTEN:
            self._paint_scale(painter, line)
        box = theme.em(0.9)
        for at, colour, glyph, words in self._places(self.width()):
            if at.y() + line > self.height() + 2:
                break
            square = QRect(at.x(), at.y() + (line - box) // 2, box, box)
            painter.fillRect(square, colour)
            painter.setPen(theme.colour("line"))
            painter.drawRect(square.adjusted(0, 0, -1, -1))
            if glyph:
                inner = QRectF(square).adjusted(box * 0.2, box * 0.2, -box * 0.2, -box * 0.2)
                paint_glyph(painter, glyph, inner, ink_on(colour, theme))
            painter.setPen(theme.colour("text"))
            painter.drawText(
                QRect(at.x() + box + theme.em(0.3), at.y(), self.width(), line),
                Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
                words,
            )

    def _paint_scale(self, painter: QPainter, line: int) -> None:
        theme, legend = self._theme, self._picture.legend()
        metrics = painter.fontMetrics()
        low, high, note = scale_words(legend.mode, legend.scale)
        x = 0
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.setPen(theme.colour("text"))
        if low:
            painter.drawText(QRect(x, 0, self.width(), line), flags, low)
            x += metrics.horizontalAdvance(low) + theme.em(0.4)
            ramp = QRect(x, (line - theme.em(0.8)) // 2, theme.em(6), theme.em(0.8))
            shade = QLinearGradient(ramp.topLeft(), ramp.topRight())
            for part in range(9):
                shade.setColorAt(part / 8, self._picture.colour(round(part / 8 * TOP)))
            painter.fillRect(ramp, shade)
            x += theme.em(6.4)
            painter.drawText(QRect(x, 0, self.width(), line), flags, high)
            x += metrics.horizontalAdvance(high) + theme.em(0.7)
        painter.setPen(theme.colour("dim"))
        painter.drawText(QRect(x, 0, self.width(), line), flags, note)
