"""Where the errors are: marks beside the scroll bar.

What belongs here: drawing places of rows on the height of the log, and going there.  What may not: what the
rows are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from client_gui.style.theme import Theme
from client_gui.style.tips import plain_tip
from client_gui.views.log_parts.rows import Marks

#: Rows by the colour of their mark; the last is drawn over the others.
Layers = list[tuple[str, Marks]]


class Minimap(QWidget):
    """Marks on a strip as high as the log.

    Args:
        theme: Colours.
        layers: Asked for what to draw.
        count: Asked for the number of rows.
        window: Asked for the first visible row, and how many there are.
    """

    #: Somebody wants to see a row.
    wanted = Signal(int)

    def __init__(
        self,
        theme: Theme,
        layers: Callable[[], Layers],
        count: Callable[[], int],
        window: Callable[[], tuple[int, int]],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._layers = layers
        self._count = count
        self._window = window
        self.setAccessibleName("Errors and warnings by their place in the log")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Less wide than a letter is high."""
        return QSize(self._theme.em(0.6), self._theme.em(4))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The marks, and what is visible now."""
        painter = QPainter(self)
        theme, high = self._theme, self.height()
        painter.fillRect(self.rect(), theme.colour("window"))
        count = max(1, self._count())
        first, shown = self._window()
        if shown < count:
            seen = theme.colour("line")
            painter.fillRect(
                QRectF(0, first / count * high, self.width(), max(2.0, shown / count * high)), seen
            )
        tall = max(2, self._theme.em(0.15))
        for token, rows in self._layers():
            if not len(rows):
                continue
            # Thousands of errors make as many marks as there are pixels, not more.
            for y in np.unique((rows * (high - tall) // count).astype(np.int64)):
                painter.fillRect(QRectF(1, float(y), self.width() - 2, tall), theme.colour(token))

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Goes there."""
        self._go(event.position().y())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Goes along."""
        self._go(event.position().y())

    def _go(self, y: float) -> None:
        count = self._count()
        if count:
            self.wanted.emit(int(max(0.0, min(1.0, y / max(1, self.height()))) * (count - 1)))

    def event(self, event: QEvent) -> bool:
        """Says what the marks are."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), plain_tip(self.accessibleDescription()), self)
            return True
        return super().event(event)
