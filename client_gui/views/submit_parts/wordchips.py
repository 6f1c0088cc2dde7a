"""Words of a command, each in a frame with its number: where one ends and the next begins is seen.

What belongs here: painting them over as many rows as they need, and saying them.  What may not: cutting a
text into words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from client_gui.style.theme import Theme
from farm.sdk.words import clean, plural

#: More are counted.
_MOST: Final = 60


class WordChips(QWidget):
    """Words with their numbers."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._words: tuple[str, ...] = ()
        self._font = theme.font(mono=True, small=True)
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Arguments")

    @property
    def shown(self) -> tuple[str, ...]:
        """What the frames say, in order: ``1 bash``, ``2 -c``, ``3 echo hi``."""
        found = [f"{number} {clean(word)}" for number, word in enumerate(self._words[:_MOST], 1)]
        left = len(self._words) - _MOST
        return (*found, f"and {left} more") if left > 0 else tuple(found)

    def show_words(self, words: Sequence[str]) -> None:
        """Shows other words."""
        if tuple(words) != self._words:
            self._words = tuple(words)
            self.setAccessibleDescription(f"{plural(len(words), 'word')}: {', '.join(self.shown)}")
            self.updateGeometry()
            self.update()

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """As high as its rows."""
        boxes = self._boxes(width)
        return boxes[-1].bottom() + 1 if boxes else 0

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as it may be."""
        width = max(self.width(), self._theme.em(12))
        return QSize(width, self.heightForWidth(width))

    def _boxes(self, width: int) -> list[QRect]:
        metrics = QFontMetrics(self._font)
        pad, gap = self._theme.em(0.35), self._theme.em(0.3)
        high = metrics.height() + self._theme.em(0.2)
        found: list[QRect] = []
        x = y = 0
        for text in self.shown:
            wide = min(metrics.horizontalAdvance(text) + 2 * pad, max(width, 4 * pad))
            if x and x + wide > width:
                x, y = 0, y + high + gap
            found.append(QRect(x, y, wide, high))
            x += wide + gap
        return found

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Frames, numbers, words."""
        look, painter = self._theme.look, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._font)
        metrics, pad = QFontMetrics(self._font), self._theme.em(0.35)
        edge = self._theme.em(0.2)
        for box, text in zip(self._boxes(self.width()), self.shown, strict=True):
            painter.setPen(QColor(look.line))
            painter.setBrush(QColor(look.base))
            painter.drawRoundedRect(box.adjusted(0, 0, -1, -1), edge, edge)
            number, _, word = text.partition(" ")
            inside = box.adjusted(pad, 0, -pad, 0)
            painter.setPen(QColor(look.dim))
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, f"{number} ")
            inside.setLeft(inside.left() + metrics.horizontalAdvance(f"{number} "))
            painter.setPen(QColor(look.text))
            shown = metrics.elidedText(word, Qt.TextElideMode.ElideMiddle, inside.width() + 1)
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, shown)
        painter.end()
