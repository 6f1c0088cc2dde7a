"""Lines of money as rows of a table.

What belongs here: the model, its figures and their order.  What may not: asking for them, and widgets.
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from farm.protocol.client import SpendLine
from farm.sdk.words import NOTHING, clean, duration_text, money_text, price_text

_Index = QModelIndex | QPersistentModelIndex
_COLUMNS: Final = ("", "Total", "Useful", "Waste", "Idle", "Parts", "Busy", "Frames", "A frame")
PARTS: Final = 5
#: Gives the line itself.
LINE_ROLE: Final = Qt.ItemDataRole.UserRole


def per_frame(line: SpendLine) -> int | None:
    """What a frame has cost on average, waste included, idle time not; None where there is none."""
    return (line.useful_nano + line.waste_nano) // line.frames if line.frames else None


class SpendModel(QAbstractTableModel):
    """Lines of money, sorted; a line keeps its row while figures change, until the order itself does."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: list[SpendLine] = []
        self.names: dict[str, str] = {}
        self.head = ""
        self._sort: tuple[int, bool] = (1, True)

    def put(self, lines: tuple[SpendLine, ...], head: str, names: dict[str, str]) -> None:
        """Shows other lines; those that stay keep their selection."""
        ordered = self._ordered(list(lines))
        if [line.key for line in ordered] == [line.key for line in self.lines] and head == self.head:
            self.lines, self.names = ordered, names
            if ordered:
                self.dataChanged.emit(self.index(0, 0), self.index(len(ordered) - 1, len(_COLUMNS) - 1))
            return
        if head != self.head:
            self.beginResetModel()  # other things altogether: nothing of them was selected
            self.lines, self.names, self.head = ordered, names, head
            self.endResetModel()
            return
        self._lay_out(ordered, names)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sorts by a column."""
        self._sort = (column, order == Qt.SortOrder.DescendingOrder)
        self._lay_out(self._ordered(self.lines), self.names)

    def _lay_out(self, ordered: list[SpendLine], names: dict[str, str]) -> None:
        have = {line.key for line in ordered}
        for row in range(len(self.lines) - 1, -1, -1):
            if self.lines[row].key not in have:
                self.beginRemoveRows(QModelIndex(), row, row)
                del self.lines[row]
                self.endRemoveRows()
        known = {line.key for line in self.lines}
        new = [line for line in ordered if line.key not in known]
        if new:
            self.beginInsertRows(QModelIndex(), len(self.lines), len(self.lines) + len(new) - 1)
            self.lines += new
            self.endInsertRows()
        self.layoutAboutToBeChanged.emit()
        was = [line.key for line in self.lines]
        row_of = {line.key: row for row, line in enumerate(ordered)}
        self.lines, self.names = ordered, names
        old = self.persistentIndexList()
        moved = [self.index(row_of[was[one.row()]], one.column()) for one in old]
        self.changePersistentIndexList(old, moved)
        self.layoutChanged.emit()

    def _ordered(self, lines: list[SpendLine]) -> list[SpendLine]:
        column, descending = self._sort
        return sorted(lines, key=lambda line: (_key(line, column), line.key), reverse=descending)

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Lines."""
        return 0 if parent.isValid() else len(self.lines)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Columns."""
        return 0 if parent.isValid() else len(_COLUMNS)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Heads."""
        if orientation != Qt.Orientation.Horizontal or role != Qt.ItemDataRole.DisplayRole:
            return None
        return _COLUMNS[section] or self.head

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """A cell."""
        line, column = self.lines[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return "" if column == PARTS else self._text(line, column)
        if role == Qt.ItemDataRole.TextAlignmentRole and column:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if role == Qt.ItemDataRole.ToolTipRole and 1 <= column <= 4:
            return money_text(_key(line, column))
        if role == Qt.ItemDataRole.AccessibleTextRole and column == PARTS:
            return _parts_text(line)
        if role == LINE_ROLE:
            return line
        return None

    def _text(self, line: SpendLine, column: int) -> str:
        match column:
            case 0:
                name = self.names.get(line.key, "")
                return clean(f"{line.key}  {name}" if name else line.key or "(none)")
            case 1 | 2 | 3 | 4:
                return price_text(_key(line, column))
            case 6:
                return duration_text(line.busy_s) if line.busy_s else NOTHING
            case 7:
                return f"{line.frames:,}" if line.frames else NOTHING
            case _:
                return price_text(per_frame(line))


def _key(line: SpendLine, column: int) -> Any:
    match column:
        case 0:
            number = line.key[1:] if line.key[:1] == "J" else ""
            return (int(number) if number.isdecimal() else -1, line.key.casefold())
        case 2:
            return line.useful_nano
        case 3:
            return line.waste_nano
        case 4:
            return line.idle_nano
        case 5:
            return line.waste_nano / line.total_nano if line.total_nano else -1.0
        case 6:
            return line.busy_s
        case 7:
            return line.frames
        case 8:
            return per_frame(line) or -1
        case _:
            return line.total_nano


def _parts_text(line: SpendLine) -> str:
    if not line.total_nano:
        return "nothing spent"
    shares = (("useful", line.useful_nano), ("waste", line.waste_nano), ("idle", line.idle_nano))
    return ", ".join(f"{word} {part / line.total_nano:.0%}" for word, part in shares)
