"""Whole rows of a farm table, painted in one go.

What belongs here: which rows and columns lie in what has to be painted anew, and what is behind the cells.
What may not: what is in a cell (``cells``) or in a group's header (``heads``), and events.

Qt paints a table cell by cell: for each it makes an index and an option, asks the model for flags, and
crosses into Python and back.  That alone takes longer than painting what can be seen of a table should.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, cast

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QTableView

from client_gui.delegates.cells import Cell, CellDelegate
from client_gui.delegates.heads import HeadPainter, name_area
from client_gui.delegates.ink import GONE_OPACITY, STALE_OPACITY
from client_gui.models.grouped_model import GroupedModel
from client_gui.models.order_model import OrderModel


def paint_rows(
    view: QTableView, cells: CellDelegate, model: OrderModel[Any], event: QPaintEvent, hovered: int
) -> None:
    """Paints all of what an event asks for: the viewport may be opaque, and so be scrolled as a picture.

    Args:
        view: The table; its rows have one height.
        cells: Paints the cells.
        model: Its rows.
        event: What has to be painted.
        hovered: The row under the mouse, -1 for none.
    """
    rows = model.rowCount()
    high = view.verticalHeader().defaultSectionSize()
    parts = list(cast("Iterable[QRect]", event.region()))
    columns = _columns(view, event.rect())
    painter = QPainter(view.viewport())
    for part in parts:
        painter.fillRect(part, cells.ink.base)
    if not rows or not columns:
        painter.end()
        return
    offset = view.verticalScrollBar().value()
    wanted: set[int] = set()
    for part in parts:
        first, last = (part.top() + offset) // high, (part.bottom() + offset) // high
        wanted.update(range(max(0, first), min(rows - 1, last) + 1))
    cell = Cell(painter, model, 0, 0, 0, high, model.columns[0], 0, 0)
    backs = _Backs(view, cells, model, hovered)
    heads = None
    if isinstance(model, GroupedModel) and model.order.groups is not None:
        heads = HeadPainter(view, cells, model, painter, columns, high)
    for row in sorted(wanted):
        top = row * high - offset
        cell.slot, cell.top = model.slot_of_row(row), top
        gone = model.is_gone(row)
        if heads is not None and cell.slot < 0:
            painter.setOpacity(GONE_OPACITY if gone else STALE_OPACITY if cells.stale else 1.0)
            heads.paint(cell.slot, top, backs.of_header(row, gone))
            painter.setOpacity(1.0)
            cell.font = None
            continue
        if (back := backs.of(row, cell.slot, gone)) is not None:
            left, (_, edge, wide) = columns[0][1], columns[-1]
            painter.fillRect(left, top, edge + wide - left, high, back)
        dimmed = gone or cells.stale
        if dimmed:
            painter.setOpacity(GONE_OPACITY if gone else STALE_OPACITY)
        for column, left, wide in columns:
            shown = model.columns[column]
            cell.shown, cell.column, cell.left, cell.width = shown, column, left, wide
            cells.painters[shown.paint](cell)
        if dimmed:
            painter.setOpacity(1.0)
    _frame_current(painter, view, cells, model)
    painter.end()


class _Backs:
    """What is behind rows."""

    def __init__(self, view: QTableView, cells: CellDelegate, model: OrderModel[Any], hovered: int) -> None:
        self._ink = cells.ink
        self._model = model
        self._hovered = hovered
        self._chosen: Container[Any] = model.selection.ids
        self._groups = model.selection.groups
        self._selected = self._ink.selected if view.isActiveWindow() else self._ink.selected_idle

    def of(self, row: int, slot: int, gone: bool) -> QColor | None:
        """The colour behind a row; None where the table's own is."""
        if not gone and self._model.id_of_slot(slot) in self._chosen:
            return self._selected
        if self._groups and not gone and self._in_group(slot):
            return self._selected
        if row == self._hovered:
            return self._ink.hovered
        return self._ink.other if row & 1 else None

    def of_header(self, row: int, gone: bool) -> QColor | None:
        """The colour behind a header; None where it is as usual."""
        if self._groups and not gone and self._model.order.key_at(row) in self._groups:
            return self._selected
        return self._ink.hovered if row == self._hovered else None

    def _in_group(self, slot: int) -> bool:
        """Whether the group of a row is selected as one."""
        row_id = self._model.id_of_slot(slot)
        return row_id is not None and self._model.order.group_of(row_id) in self._groups


def _columns(view: QTableView, area: QRect) -> list[tuple[int, int, int]]:
    """Columns of which something is in an area, from left to right: number, left edge, width."""
    across = view.horizontalHeader()
    found = []
    for place in range(across.count()):
        column = across.logicalIndex(place)
        wide = across.sectionSize(column)
        if not wide or across.isSectionHidden(column):
            continue
        left = across.sectionViewportPosition(column)
        if left <= area.right() and left + wide > area.left():
            found.append((column, left, wide))
    return found


def _frame_current(painter: QPainter, view: QTableView, cells: CellDelegate, model: OrderModel[Any]) -> None:
    """The current cell has a frame, so that it can be seen on every background; a header's name is one."""
    if not view.hasFocus() or not (current := view.currentIndex()).isValid():
        return
    painter.setPen(QPen(cells.ink.focus, 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    area = view.visualRect(current)
    if model.slot_of_row(current.row()) < 0:
        name = name_area(view, model, cells)
        if current.column() in name.columns:
            area.setLeft(name.left)
            area.setRight(name.right - 1)
    painter.drawRect(QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5))
