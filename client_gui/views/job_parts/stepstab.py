"""The tab of steps: how each step stands, and the one whose frames are shown.

What belongs here: the table of steps.  What may not: their frames.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPersistentModelIndex, QRect, QRectF, Qt
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QVBoxLayout, QWidget

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.delegates.ink import Ink
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.header import counts_words, paint_counts
from client_gui.views.job_parts.tables import ROW_ROLE, PlainTable, RowModel, TableColumn
from farm.protocol.rows import StepRow
from farm.sdk.words import NOTHING, duration_text

Index = QModelIndex | QPersistentModelIndex


def able_text(able: bool | None) -> str:
    """Whether any node could take it, in a word."""
    return NOTHING if able is None else "yes" if able else "no node can"


def _pace(seconds: float) -> str:
    return duration_text(seconds) if seconds > 0 else NOTHING


COLUMNS: Final = (
    TableColumn("Step", lambda row: row.name, sample="beauty_crypto"),
    TableColumn("State", lambda row: row.state, sample="--- canceled"),
    TableColumn("Progress", lambda row: counts_words(row.counts), sample="0" * 16),
    TableColumn("Frames", lambda row: row.frames or NOTHING, sample="1001-1100,…"),
    TableColumn("Units", lambda row: f"{row.units:,}", right=True, sample="1,000,000"),
    TableColumn(
        "A frame",
        lambda row: _pace(row.mean_frame_s),
        right=True,
        sample="00 m 00 s",
        tip=lambda row: "mean time of a finished frame",
    ),
    TableColumn(
        "Expected",
        lambda row: _pace(row.expected_frame_s),
        right=True,
        sample="00 m 00 s",
        tip=lambda row: "what a frame that is left is expected to take on an average node",
    ),
    TableColumn("Attempts", lambda row: f"{row.attempts:,}", right=True, sample="00,000"),
    TableColumn("Able", lambda row: able_text(row.able), sample="no node can"),
    TableColumn("Renderer", lambda row: row.renderer, sample="blender"),
    TableColumn("Why", lambda row: row.reason, sample="0" * 24),
)
_STATE, _PROGRESS = 1, 2


class _StepDelegate(QStyledItemDelegate):
    """Draws a step's state and progress; all else as usual."""

    def __init__(self, board: JobBoard, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = board.desk.theme
        self._ink = Ink(self._theme)
        self._theme.changed.connect(self._renew)

    def _renew(self) -> None:
        self._ink = Ink(self._theme)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """A cell."""
        row = index.data(ROW_ROLE)
        if not isinstance(row, StepRow) or index.column() not in (_STATE, _PROGRESS):
            super().paint(painter, option, index)
            return
        theme = self._theme
        rect: QRect = option.rect
        ink = self._ink
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, ink.selected)
        if index.column() == _PROGRESS:
            area = QRectF(rect).adjusted(ink.gap, rect.height() * 0.3, -ink.gap, -rect.height() * 0.3)
            paint_counts(painter, area, row.counts, theme)
            return
        painter.setFont(ink.font)
        painter.setPen(ink.state(row.state))
        y = rect.center().y() - ink.glyph / 2 + 1
        ink.draw_glyph(painter, row.state, rect.left() + ink.gap, y, ink.state(row.state))
        painter.drawText(
            rect.adjusted(2 * ink.gap + ink.glyph, 0, 0, 0),
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
            row.state,
        )


class _StepTable(PlainTable):
    """The table of steps."""

    def __init__(self, board: JobBoard, model: RowModel, parent: QWidget | None = None) -> None:
        super().__init__(board.desk.theme, model, "Steps", parent)
        self._board = board
        self.setItemDelegate(_StepDelegate(board, self))
        self.remember(board.desk.settings, "job/steps")

    def context(self) -> ActionContext:
        """The selected steps, as actions take them."""
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
        chosen = [self._rows.row(row) for row in rows]
        job = self._board.job
        return ActionContext("steps", (job,) if job else (), tuple(UnitsOf(job, row.name) for row in chosen))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter shows the step's frames."""
        row = self.current_row()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and row is not None:
            self._open(row)
        else:
            super().keyPressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Shows the step's frames."""
        row = self.current_row()
        if row is not None and self.indexAt(event.position().toPoint()).isValid():
            self._open(row)

    def _open(self, row: StepRow) -> None:
        self._board.set_step(row.name)
        self._board.desk.focus.show("job/frames")

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """What can be done with the steps."""
        self._board.desk.actions.menu(self.context(), self).popup(event.globalPos())


class StepsTab(QWidget):
    """How the job's steps stand."""

    def __init__(self, board: JobBoard, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self.model = RowModel(COLUMNS, self)
        self.table = _StepTable(board, self.model)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.table)
        board.row_changed.connect(self.refresh)
        board.steps_changed.connect(self.refresh)
        board.step_changed.connect(self._follow)
        self.table.selectionModel().currentRowChanged.connect(self._chosen)
        self.refresh()

    def refresh(self) -> None:
        """Shows the steps as they are now."""
        self.model.put([((self._board.job, row.name), row) for row in self._board.rows])
        self._follow()

    def action_context(self) -> ActionContext:
        """The selected steps."""
        return self.table.context()

    def _follow(self) -> None:
        row = self.model.find((self._board.job, self._board.step))
        if row >= 0 and row != self.table.currentIndex().row():
            # Not the view's own way, which asks what keys are held just now.
            flags = QItemSelectionModel.SelectionFlag
            self.table.selectionModel().setCurrentIndex(
                self.model.index(row, 0), flags.ClearAndSelect | flags.Rows
            )

    def _chosen(self, current: QModelIndex) -> None:
        if current.isValid() and self.table.hasFocus():
            self._board.set_step(self.model.row(current.row()).name)
