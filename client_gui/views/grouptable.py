"""The table of a list whose rows may stand in groups: choosing headers, opening and closing groups.

What belongs here: what mouse and keys mean on a header.  What may not: which groups there are, what a header
says, and remembering which are closed.

Closing and opening is asked for (``fold_wanted``) and done by whoever has the model.
"""

from __future__ import annotations

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent

from client_gui.delegates.heads import name_area
from client_gui.store.groups import GroupKey
from client_gui.views.table import FarmTable, rows_in

_FLAG = QItemSelectionModel.SelectionFlag


class GroupTable(FarmTable):
    """A table of the farm whose rows may stand in groups."""

    #: A group is to be closed or opened, None for all of them; and whether closed.
    fold_wanted = Signal(object, bool)

    #: Whether the button that is held down was pressed on the mark of a header.
    _on_its_mark = False

    # -- what is selected --

    def _chosen(self, came: QItemSelection, went: QItemSelection) -> None:
        """A header means its group: what Qt calls selected is put right when no button is held down."""
        if self._following or self.rows.order.groups is None:
            super()._chosen(came, went)
            return
        self.rows.selection.take_rows(
            self.rows.order,
            self.selected_rows(),
            rows_in(came),
            rows_in(went),
            toggled=bool(self.command & _FLAG.Toggle),
            ranged=bool(self.command & _FLAG.Current),
        )
        self.viewport().update()
        if not self.rows.order.frozen:
            self.put_selection_back()
        self.selected.emit()

    # -- mouse --

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """The mark of a header opens and closes its group; what is selected stays."""
        at = event.position().toPoint()
        self._on_its_mark = event.button() == Qt.MouseButton.LeftButton and self._on_mark(at)
        if self._on_its_mark:
            self._fold(self.indexAt(at).row())
        else:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Nothing is drawn from a mark."""
        if not self._on_its_mark:
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """What Qt calls selected is put right."""
        if self._on_its_mark:
            self._on_its_mark = False
            return
        super().mouseReleaseEvent(event)
        if self.rows.order.groups is not None:
            self.put_selection_back()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """A double click on a header opens and closes its group; on its mark it is two clicks."""
        at = event.position().toPoint()
        row = self.indexAt(at).row()
        if event.button() == Qt.MouseButton.LeftButton and self._is_header(row):
            self._on_its_mark = self._on_mark(at)
            self._fold(row)
        else:
            super().mouseDoubleClickEvent(event)

    # -- keys --

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Left closes the group of a header and right opens it, with Shift all; Enter and Space turn it."""
        row = self.currentIndex().row()
        if self.rows.order.groups is None or not self._fold_by_key(event, row):
            super().keyPressEvent(event)

    def _fold_by_key(self, event: QKeyEvent, row: int) -> bool:
        key, modifiers = event.key(), event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        sideways = key in (Qt.Key.Key_Left, Qt.Key.Key_Right)
        if sideways and modifiers == Qt.KeyboardModifier.ShiftModifier:
            self.fold_wanted.emit(None, key == Qt.Key.Key_Left)
            self.scrollTo(self.currentIndex())
            return True
        if modifiers or not self._is_header(row):
            return False
        if key == Qt.Key.Key_F2:
            return True  # there is nothing to edit in a header
        # In a group that is as the key would have it arrows go from cell to cell, as in every row.
        if key == Qt.Key.Key_Space or (sideways and self._closed(row) == (key == Qt.Key.Key_Right)):
            self._fold(row)
            return True
        return False

    def _open(self, row: int) -> None:
        if self._is_header(row):
            self._fold(row)
        else:
            super()._open(row)

    # -- groups --

    def _is_header(self, row: int) -> bool:
        return row >= 0 and self.rows.order.slot_at(row) < 0

    def _closed(self, row: int) -> bool:
        """Whether the group of a header is closed."""
        groups, key = self.rows.order.groups, self.rows.order.key_at(row)
        return groups is not None and isinstance(key, GroupKey) and key.name in groups.closed_names

    def _on_mark(self, at: QPoint) -> bool:
        """Whether a place is on the mark of a header."""
        if not self._is_header(self.indexAt(at).row()):
            return False
        area = name_area(self, self.rows, self.cells)
        return area.left <= at.x() < area.text

    def _fold(self, row: int) -> None:
        """Closes the group of a header, or opens it when it is closed."""
        if not self.rows.is_gone(row):
            self.fold_wanted.emit(self.rows.order.key_at(row), not self._closed(row))
