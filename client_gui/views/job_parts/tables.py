"""Small tables of a job: steps, settings, history, attempts; rows of texts that are replaced by difference.

What belongs here: one model for rows that are known by a key, and a view in the look of the house.  What may
not: what the rows mean.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QTableView, QWidget

from client_gui.settings import Settings
from client_gui.style.lazily import when_seen
from client_gui.style.theme import Theme
from client_gui.views.heads import SortHead
from client_gui.views.job_parts.remembered import ColumnWidths

Index = QModelIndex | QPersistentModelIndex
#: The row's own object.
ROW_ROLE: Final = Qt.ItemDataRole.UserRole + 1


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column.

    Attributes:
        head: Its head.
        text: Reads a row.
        right: Whether it is a figure.
        sample: A text as wide as most.
        tip: Reads what is said of a cell beyond its text, None for the text itself.
    """

    head: str
    text: Callable[[Any], str]
    right: bool = False
    sample: str = "0" * 10
    tip: Callable[[Any], str] | None = None


class RowModel(QAbstractTableModel):
    """Rows by key; ``put`` keeps those that stay."""

    def __init__(self, columns: Sequence[TableColumn], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.rows: list[tuple[Hashable, Any]] = []

    def put(self, rows: Sequence[tuple[Hashable, Any]]) -> None:
        """Makes these the rows, in this order; keys must differ.

        What is selected and where the list stands stays, as rows that stay are not touched.
        """
        wanted = list(rows)
        keys = [key for key, _ in wanted]
        keep = set(keys)
        row = len(self.rows) - 1
        while row >= 0:
            last = row
            while row >= 0 and self.rows[row][0] not in keep:
                row -= 1
            if row < last:
                self.beginRemoveRows(QModelIndex(), row + 1, last)
                del self.rows[row + 1 : last + 1]
                self.endRemoveRows()
            row -= 1
        place = {key: number for number, key in enumerate(keys)}
        if [key for key, _ in self.rows] != sorted((key for key, _ in self.rows), key=place.__getitem__):
            self._arrange(place)
        row = 0
        while row < len(wanted):
            if row < len(self.rows) and self.rows[row][0] == wanted[row][0]:
                if self.rows[row][1] != wanted[row][1]:
                    self.rows[row] = wanted[row]
                    self.dataChanged.emit(self.index(row, 0), self.index(row, len(self.columns) - 1))
                row += 1
                continue
            following = self.rows[row][0] if row < len(self.rows) else None
            last = row
            while last < len(wanted) and wanted[last][0] != following:
                last += 1
            self.beginInsertRows(QModelIndex(), row, last - 1)
            self.rows[row:row] = wanted[row:last]
            self.endInsertRows()
            row = last

    def _arrange(self, place: dict[Hashable, int]) -> None:
        self.layoutAboutToBeChanged.emit()
        old = self.persistentIndexList()
        keys = [self.rows[index.row()][0] for index in old]
        self.rows.sort(key=lambda row: place[row[0]])
        at = {key: number for number, (key, _) in enumerate(self.rows)}
        self.changePersistentIndexList(
            old, [self.index(at[key], index.column()) for key, index in zip(keys, old, strict=True)]
        )
        self.layoutChanged.emit()

    def row(self, number: int) -> Any:
        """The object of a row."""
        return self.rows[number][1]

    def find(self, key: Hashable) -> int:
        """The row of a key, -1 when there is none."""
        return next((number for number, (known, _) in enumerate(self.rows) if known == key), -1)

    # -- Qt --

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """Rows."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: N802, B008
        """Columns."""
        return 0 if parent.isValid() else len(self.columns)

    def headerData(  # noqa: N802
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Heads of columns."""
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.columns[section].head
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._side(section)
        return None

    def _side(self, column: int) -> int:
        side = Qt.AlignmentFlag.AlignRight if self.columns[column].right else Qt.AlignmentFlag.AlignLeft
        return int(side | Qt.AlignmentFlag.AlignVCenter)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """A cell."""
        if not index.isValid() or index.row() >= len(self.rows):
            return None
        row, column = self.rows[index.row()][1], self.columns[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.text(row)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._side(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            return (column.tip or column.text)(row) or None
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{column.head} {column.text(row) or 'none'}"
        if role == ROW_ROLE:
            return row
        return None


class PlainTable(QTableView):
    """A table of whole rows in the look of the house."""

    def __init__(self, theme: Theme, model: RowModel, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows = model
        self.setHorizontalHeader(SortHead(self))
        self.setModel(model)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setAlternatingRowColors(True)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.verticalHeader().setVisible(False)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setStretchLastSection(True)
        self._widths: ColumnWidths | None = None
        when_seen(theme, self, self.restyle)
        self.restyle()

    def remember(self, settings: Settings, name: str) -> None:
        """Keeps columns as wide as somebody makes them."""
        names = [column.head for column in self._rows.columns]
        self._widths = ColumnWidths(self.horizontalHeader(), names, self._theme, settings, name)
        self._widths.restore()

    def restyle(self) -> None:
        """Takes colours and sizes from the theme anew."""
        with self._widths.by_itself() if self._widths is not None else nullcontext():
            self._size()

    def _size(self) -> None:
        theme = self._theme
        self.verticalHeader().setMinimumSectionSize(theme.row_height())
        self.verticalHeader().setDefaultSectionSize(theme.row_height())
        metrics = QFontMetrics(theme.font())
        for number, column in enumerate(self._rows.columns[:-1]):
            words = max(column.sample, column.head + "  ", key=metrics.horizontalAdvance)
            self.horizontalHeader().resizeSection(number, metrics.horizontalAdvance(words) + theme.em(0.9))

    def keyboardSearch(self, search: str) -> None:  # noqa: N802
        """Letters are keys of actions, not a search."""

    def current_row(self) -> Any:
        """The object of the current row, None when there is none."""
        row = self.currentIndex().row()
        return self._rows.row(row) if 0 <= row < self._rows.rowCount() else None
