"""The list of farms to choose from: its rows and how they look.

What belongs here: model and delegate.  What may not: finding farms (``net.discover``).
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from client_gui.net.discover import Choice
from client_gui.style.theme import Theme

_Index = QModelIndex | QPersistentModelIndex


class Choices(QAbstractListModel):
    """Farms to choose; those that stay keep their row's selection."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.choices: tuple[Choice, ...] = ()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """One row a farm."""
        return 0 if parent.isValid() else len(self.choices)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Its name, and below it where it is."""
        if not index.isValid() or index.row() >= len(self.choices):
            return None
        choice = self.choices[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{choice.name}\n{choice.place}  ·  {choice.words}"
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            return f"{choice.name}, at {choice.place}, {choice.words}"
        return None

    def put(self, choices: tuple[Choice, ...]) -> None:
        """Shows others; rows go and come one by one."""
        for row in range(len(self.choices) - 1, -1, -1):
            if _identity(self.choices[row]) not in map(_identity, choices):
                self.beginRemoveRows(QModelIndex(), row, row)
                self.choices = self.choices[:row] + self.choices[row + 1 :]
                self.endRemoveRows()
        for row, choice in enumerate(choices):
            known = [_identity(one) for one in self.choices]
            if _identity(choice) not in known:
                self.beginInsertRows(QModelIndex(), row, row)
                self.choices = (*self.choices[:row], choice, *self.choices[row:])
                self.endInsertRows()
            elif (at := known.index(_identity(choice))) != row:
                # Only ever up: what stands before this row is right already.
                self.beginMoveRows(QModelIndex(), at, at, QModelIndex(), row)
                rest = (*self.choices[:at], *self.choices[at + 1 :])
                self.choices = (*rest[:row], choice, *rest[row:])
                self.endMoveRows()
        if self.choices != choices:
            self.choices = choices
        if choices:
            self.dataChanged.emit(self.index(0), self.index(len(choices) - 1))


class ChoiceLook(QStyledItemDelegate):
    """A farm in two lines: its name, and where it is."""

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802
        """Two lines."""
        return QSize(self._theme.em(8), choice_height(self._theme))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        """The two lines, on the background of the selection."""
        theme = self._theme
        area: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, theme.colour("selected"))
        name, _, where = str(index.data(Qt.ItemDataRole.DisplayRole)).partition("\n")
        inside = area.adjusted(theme.em(0.5), theme.em(0.25), -theme.em(0.5), -theme.em(0.25))
        for text, font, token, align in (
            (name, theme.font(bold=True), "text", Qt.AlignmentFlag.AlignTop),
            (where, theme.font(small=True), "dim", Qt.AlignmentFlag.AlignBottom),
        ):
            painter.setFont(font)
            painter.setPen(theme.colour(token))
            shown = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideMiddle, inside.width())
            painter.drawText(inside, align | Qt.AlignmentFlag.AlignLeft, shown)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(theme.colour("focus"))
            painter.drawRect(area.adjusted(0, 0, -1, -1))
        painter.restore()


def choice_height(theme: Theme) -> int:
    """Height of a row."""
    return theme.em(2.4)


def _identity(choice: Choice) -> tuple[str, str, bool]:
    return choice.name, choice.place, choice.known
