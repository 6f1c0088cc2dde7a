"""Actions that wait for the farm, as rows, in the order they will be sent.

What belongs here: the model over ``actions.later`` and the words for how each stands.  What may not: widgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from client_gui.actions.later import Later, asked_text
from client_gui.actions.waiting import Wait
from client_gui.net.client import FarmClient
from client_gui.style.theme import Theme
from farm.sdk.words import clean

_Index = QModelIndex | QPersistentModelIndex
_COLUMNS: Final = ("Asked", "What", "How it stands")
#: So many are shown; the others can be taken back with them, all at once.
SHOWN_MOST: Final = 200


class WaitsModel(QAbstractTableModel):
    """What waits, oldest first."""

    def __init__(self, later: Later, client: FarmClient, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._later, self._client, self._theme = later, client, theme
        self.shown: list[Wait] = []
        later.changed.connect(self.sync)
        client.stood.connect(self._stood)
        self.sync()

    def sync(self) -> None:
        """From what is shown to what should be: rows go and come, the others stay where they are."""
        wanted: Sequence[Wait] = list(self._later.waits)[:SHOWN_MOST]
        numbers = {one.number for one in wanted}
        for row in range(len(self.shown) - 1, -1, -1):
            if self.shown[row].number not in numbers:
                self.beginRemoveRows(QModelIndex(), row, row)
                del self.shown[row]
                self.endRemoveRows()
        for row, one in enumerate(wanted):
            if row < len(self.shown) and self.shown[row].number == one.number:
                self.shown[row] = one
                continue
            was = next((place for place, old in enumerate(self.shown) if old.number == one.number), -1)
            if was >= 0:  # one that came back before others
                self.beginRemoveRows(QModelIndex(), was, was)
                del self.shown[was]
                self.endRemoveRows()
            self.beginInsertRows(QModelIndex(), row, row)
            self.shown.insert(row, one)
            self.endInsertRows()
        self._stood()

    def stands(self, one: Wait) -> str:
        """How one stands, in words."""
        if one.held:
            return f"not sent: {one.held}"
        if not self._client.live:
            return f"when {self._later.name} is back"
        if self._later.asks:
            return "send it?"
        return "is being sent"

    def _stood(self) -> None:
        if self.shown:
            self.dataChanged.emit(self.index(0, 2), self.index(len(self.shown) - 1, 2))

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Actions."""
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
        one, column = self.shown[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            if column == 0:
                return asked_text((one,))
            return clean(_what(one)) if column == 1 else clean(self.stands(one))
        if role == Qt.ItemDataRole.ForegroundRole:
            if column == 2:
                return self._theme.colour("warn" if one.held or self._later.asks else "dim")
            return self._theme.colour("dim") if column == 0 else None
        if role == Qt.ItemDataRole.ToolTipRole:
            why = f"\n{clean(one.reason)}" if one.reason else ""
            return f"{clean(_what(one))}\n{clean(self.stands(one))}{why}"
        return None


def _what(one: Wait) -> str:
    was = f" (was {one.before})" if one.key[2] in ("priority", "name") else ""
    title = f"  {one.title}" if one.title and one.key[2] != "name" else ""
    return f"{one.text}{was}{title}"
