"""Columns of a table as somebody arranged them: shown, moved, sized, sorted by, and all that remembered.

What belongs here: what is done to columns.  What may not: rows and what is selected (``table``).
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QObject, QPoint, Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QHeaderView, QMenu, QTableView

from client_gui.models.order_model import OrderModel
from client_gui.settings import Setting, Settings
from client_gui.style.theme import Theme

#: A choice is written down when somebody has stopped changing it.
_REMEMBER_MS: Final = 300


class TableColumns(QObject):
    """Columns of a table.

    Args:
        table: The table; it has its model.
        rows: The model.
        theme: How wide an em is.
        settings: Where columns are remembered.
        name: Under which name.
    """

    def __init__(
        self, table: QTableView, rows: OrderModel[Any], theme: Theme, settings: Settings, name: str
    ) -> None:
        super().__init__(table)
        self._table = table
        self._rows = rows
        self._theme = theme
        self._settings = settings
        self._setting: Setting[dict[str, Any]] = Setting(f"{name}/columns", {})
        self._loading = True
        self._em = max(1, theme.em())
        self._remember = QTimer(self)
        self._remember.setSingleShot(True)
        self._remember.setInterval(_REMEMBER_MS)
        self._remember.timeout.connect(self._save)
        across = table.horizontalHeader()
        across.setSectionsMovable(True)
        across.setSectionsClickable(True)
        across.setHighlightSections(False)
        across.setStretchLastSection(False)
        across.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        across.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        across.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        across.setAccessibleName("columns")
        across.customContextMenuRequested.connect(self._head_menu)
        across.sectionClicked.connect(self._head_clicked)
        across.sectionMoved.connect(self._changed)
        across.sectionResized.connect(self._changed)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.apply(settings.get(self._setting))

    def _restyle(self) -> None:
        across = self._table.horizontalHeader()
        across.setFont(self._theme.font(small=True))
        across.setMinimumSectionSize(self._theme.em(1.6))
        if (em := self._theme.em()) != self._em:
            # Columns grow with the font.
            was, self._loading = self._loading, True
            for place in range(self._rows.columnCount()):
                if wide := self._table.columnWidth(place):
                    self._table.setColumnWidth(place, round(wide * em / self._em))
            self._em, self._loading = em, was

    def first(self) -> int:
        """The leftmost column that is shown."""
        across = self._table.horizontalHeader()
        for place in range(across.count()):
            column = across.logicalIndex(place)
            if not self._table.isColumnHidden(column):
                return column
        return 0

    def _head_clicked(self, column: int) -> None:
        shown = self._rows.columns[column]
        if not shown.sort:
            return
        more = bool(QApplication.keyboardModifiers() & Qt.KeyboardModifier.ShiftModifier)
        self.sort_by(shown.name, more=more)

    def sort_by(self, name: str, *, more: bool = False) -> None:
        """Sorts by a column, the other way round when it does already; the third time not at all.

        Args:
            name: Of the column.
            more: Besides what it is sorted by, not instead.
        """
        shown = self._rows.columns[self._rows.column_of(name)]
        first = shown.largest_first
        sort = dict(self._rows.sort_by)
        have = sort.pop(name, None)
        if not more:
            sort = {}
        down: bool | None = first if have is None else (not first if have == first else None)
        if have is not None and more and down is not None:
            # It keeps its weight.
            sort = {key: down if key == name else was for key, was in self._rows.sort_by}
        elif down is not None:
            sort[name] = down
        self._rows.set_sort(tuple(sort.items()))
        self._changed()

    def _head_menu(self, at: QPoint) -> None:
        menu = self.menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._table.horizontalHeader().mapToGlobal(at))

    def menu(self) -> QMenu:
        """A menu that shows and hides columns."""
        menu = QMenu("Columns", self._table)
        for place, column in enumerate(self._rows.columns):
            act = QAction(column.title, menu)
            act.setCheckable(True)
            act.setChecked(not self._table.isColumnHidden(place))
            act.setToolTip(column.help)
            act.toggled.connect(lambda on, place=place: self.show(place, on))
            menu.addAction(act)
        menu.setToolTipsVisible(True)
        menu.addSeparator()
        menu.addAction("Fit widths to what they show").triggered.connect(self.fit)
        menu.addAction("Usual columns").triggered.connect(self.reset)
        return menu

    def show(self, place: int, on: bool = True) -> None:
        """Shows or hides a column; the last one that is shown stays."""
        shown = sum(not self._table.isColumnHidden(one) for one in range(len(self._rows.columns)))
        if not on and shown < 2:
            return
        self._table.setColumnHidden(place, not on)
        self._changed()

    def fit(self) -> None:
        """Makes columns as wide as what is on the screen needs."""
        self._table.resizeColumnsToContents()

    def reset(self) -> None:
        """Places, widths and columns as they are at first."""
        self._loading = True
        across = self._table.horizontalHeader()
        for place, column in enumerate(self._rows.columns):
            across.moveSection(across.visualIndex(place), place)
            self._table.setColumnHidden(place, column.hidden)
            self._table.setColumnWidth(place, self._theme.em(column.width))
        self._loading = False
        self._save()

    def _changed(self, *_: object) -> None:
        if not self._loading:
            self._remember.start()

    def _save(self) -> None:
        across = self._table.horizontalHeader()
        columns = self._rows.columns
        em = max(1, self._theme.em())
        order = [columns[across.logicalIndex(place)].name for place in range(len(columns))]
        widths = {
            column.name: round(self._table.columnWidth(place) / em, 2)
            for place, column in enumerate(columns)
            if self._table.columnWidth(place)
            and abs(self._table.columnWidth(place) - self._theme.em(column.width)) > 1
        }
        self._settings.set(
            self._setting,
            {
                "order": order,
                "widths": widths,
                "shown": [c.name for place, c in enumerate(columns) if not self._table.isColumnHidden(place)],
                "sort": [list(key) for key in self._rows.sort_by],
            },
        )

    def kept(self) -> dict[str, Any]:
        """What a saved view keeps of the columns."""
        self._save()
        found: dict[str, Any] = self._settings.get(self._setting)
        return {**found}

    def apply(self, kept: dict[str, Any]) -> None:
        """Places, widths and order as they were kept; what is not understood is as it is at first."""
        self._loading = True
        across = self._table.horizontalHeader()
        names = kept.get("shown")
        chosen = {name for name in names if isinstance(name, str)} if isinstance(names, list) else None
        widths = kept.get("widths")
        widths = widths if isinstance(widths, dict) else {}
        order = kept.get("order")
        order = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
        for place, column in enumerate(self._rows.columns):
            width = widths.get(column.name)
            times = width if isinstance(width, int | float) and 0 < width < 200 else column.width
            self._table.setColumnWidth(place, self._theme.em(times))
            hidden = column.hidden
            if chosen is not None and column.name in order:
                hidden = column.name not in chosen
            self._table.setColumnHidden(place, hidden)
        at = 0
        for name in order:
            if (place := self._rows.column_of(name)) >= 0:
                across.moveSection(across.visualIndex(place), at)
                at += 1
        sort = kept.get("sort")
        if isinstance(sort, list):
            self._rows.set_sort(
                [
                    (key[0], bool(key[1]))
                    for key in sort
                    if isinstance(key, list) and len(key) == 2 and isinstance(key[0], str)
                ]
            )
        self._loading = False
