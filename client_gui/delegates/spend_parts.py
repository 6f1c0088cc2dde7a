"""Money as a bar: useful, waste and idle, as long as a line's part of the dearest line.

What belongs here: painting it.  What may not: the figures.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from client_gui.models.spend_lines import LINE_ROLE, SpendModel
from client_gui.style.theme import Theme
from farm.protocol.client import SpendLine


class PartsDelegate(QStyledItemDelegate):
    """Useful, waste and idle, side by side."""

    def __init__(self, theme: Theme, model: SpendModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._model = model

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """The bar."""
        super().paint(painter, option, index)
        line: SpendLine = index.data(LINE_ROLE)
        most = max((one.total_nano for one in self._model.lines), default=0)
        if not most:
            return
        rect: QRect = option.rect
        area = rect.adjusted(6, rect.height() // 3, -6, -(rect.height() // 3))
        left = float(area.left())
        for part, token in ((line.useful_nano, "good"), (line.waste_nano, "bad"), (line.idle_nano, "dim")):
            width = area.width() * part / most
            if part > 0:
                bar = QRect(round(left), area.top(), max(1, round(width)), area.height())
                painter.fillRect(bar, self._theme.colour(token))
            left += width
