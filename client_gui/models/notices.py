"""What happened, as rows, newest first.

What belongs here: the model over ``Notices`` and its filter.  What may not: widgets.
"""

from __future__ import annotations

import time
from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from client_gui.notices import Notices
from client_gui.store.activity import Level, Notice
from client_gui.style.theme import Theme
from farm.sdk.words import clean, time_text

_Index = QModelIndex | QPersistentModelIndex
_COLUMNS: Final = ("When", "", "What", "What to do")
#: Of a level: a glyph beside the colour, and the word for those who see neither.
_MARKS: Final = {
    Level.INFO: ("·", "dim"),
    Level.DONE: ("✓", "good"),
    Level.WARNING: ("!", "warn"),
    Level.ERROR: ("✕", "bad"),
}
NOTICE_ROLE: Final = Qt.ItemDataRole.UserRole


class NoticesModel(QAbstractTableModel):
    """Notices that fit a text and some levels, newest first."""

    def __init__(self, notices: Notices, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._notices = notices
        self._theme = theme
        self._text = ""
        self._levels = frozenset(Level)
        self.shown: list[Notice] = notices.activity.find()
        notices.came.connect(self._came)

    def set_filter(self, text: str, levels: frozenset[Level]) -> None:
        """Shows what has a text and is of some levels."""
        self._text, self._levels = text, levels
        self._sync()

    def _came(self, notice: Notice) -> None:
        if self.shown and self.shown[0].number == notice.number:
            self.shown[0] = notice
            self.dataChanged.emit(self.index(0, 0), self.index(0, len(_COLUMNS) - 1))
            return
        self._sync()

    def _sync(self) -> None:
        """From what is shown to what should be: rows go and come, the others stay where they are."""
        wanted = self._notices.activity.find(self._text, self._levels)
        numbers = {notice.number for notice in wanted}
        for row in range(len(self.shown) - 1, -1, -1):
            if self.shown[row].number not in numbers:
                self.beginRemoveRows(QModelIndex(), row, row)
                del self.shown[row]
                self.endRemoveRows()
        for row, notice in enumerate(wanted):
            if row < len(self.shown) and self.shown[row].number == notice.number:
                continue
            self.beginInsertRows(QModelIndex(), row, row)
            self.shown.insert(row, notice)
            self.endInsertRows()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Notices."""
        return 0 if parent.isValid() else len(self.shown)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Columns."""
        return 0 if parent.isValid() else len(_COLUMNS)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Heads."""
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[section]
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """A cell."""
        notice, column = self.shown[index.row()], index.column()
        glyph, token = _MARKS[notice.level]
        if role == Qt.ItemDataRole.DisplayRole:
            if column == 0:
                return time_text(notice.at_us, time.time())
            if column == 1:
                return glyph
            if column == 2:
                times = f"  (×{notice.times})" if notice.times > 1 else ""
                return clean(notice.text) + times
            return clean(notice.hint)
        if role == Qt.ItemDataRole.ForegroundRole and column in (1, 2) and notice.level is not Level.INFO:
            return self._theme.colour(token)
        if role == Qt.ItemDataRole.AccessibleTextRole and column == 1:
            return str(notice.level)
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{clean(notice.text)}\n{clean(notice.hint)}".strip()
        if role == NOTICE_ROLE:
            return notice
        return None
