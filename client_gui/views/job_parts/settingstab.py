"""The tab of settings: the job's file in rows that can be read, copied, and set where the farm allows it.

What belongs here: the table, its editor, and what is copied.  What may not: which rows there are
(``settingrows``).
"""

from __future__ import annotations

import json
from typing import Any, Final

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPalette, QPen, QPolygonF
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.jobspec import JobFile
from client_gui.views.job_parts.settingrows import SettingRow, setting_rows
from client_gui.views.job_parts.tables import ROW_ROLE, PlainTable, RowModel, TableColumn

Index = QModelIndex | QPersistentModelIndex
_NAME, _VALUE = 1, 2
#: Where the command line and environment of an attempt stand: the farm does not keep them itself.
_WHERE: Final = "The exact command and environment of an attempt stand at the head of its log."

COLUMNS: Final = (
    TableColumn(
        "",
        lambda row: f"{row.step}  {row.section}" if row.step else row.section,
        sample="beauty  Environment",
    ),
    TableColumn("Setting", lambda row: row.name, sample="min_run_s_and_more"),
    TableColumn("Value", lambda row: row.value, sample="0" * 40),
)


class _SettingModel(RowModel):
    """Rows of a job file; some can be edited."""

    def __init__(self, board: JobBoard, parent: QWidget) -> None:
        super().__init__(COLUMNS, parent)
        self._board = board

    def context_of(self, row: SettingRow) -> ActionContext:
        """What an edit of a row acts on."""
        job = self._board.job
        if row.step:
            return ActionContext("steps", (job,), (UnitsOf(job, row.step),))
        return ActionContext("jobs", (job,))

    def flags(self, index: Index) -> Qt.ItemFlag:
        """A value that can be set can be edited."""
        found = super().flags(index)
        if index.isValid() and index.column() == _VALUE:
            row: SettingRow = self.row(index.row())
            if row.key and not self._board.desk.actions.why_not("set", self.context_of(row)):
                found |= Qt.ItemFlag.ItemIsEditable
        return found

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """A cell."""
        if role == Qt.ItemDataRole.EditRole and index.isValid():
            return self.row(index.row()).raw
        if role == Qt.ItemDataRole.ToolTipRole and index.isValid() and index.column() == _VALUE:
            row: SettingRow = self.row(index.row())
            return f"{row.value}\n{self._why(row)}"
        return super().data(index, role)

    def _why(self, row: SettingRow) -> str:
        if not row.key:
            return "cannot be changed after submit"
        return self._board.desk.actions.why_not("set", self.context_of(row)) or "F2 or Enter changes it"

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802
        """Asks the farm to set it; the row changes when the farm says that it has."""
        row: SettingRow = self.row(index.row())
        text = str(value).strip()
        if role != Qt.ItemDataRole.EditRole or not row.key or text == row.raw:
            return False
        context = self.context_of(row)
        address = context.units[0].address if context.units else f"J{context.jobs[0]}"
        # What it was is known here and nowhere in the lists: without it there would be no undo.
        before = {address: {row.key: row.raw}}
        self._board.desk.actions.run("set", context, json.dumps({row.key: text}), before)
        return True


class _SettingDelegate(QStyledItemDelegate):
    """Draws rows: headings once, what can be set with a mark, what nobody set dimly."""

    def __init__(self, board: JobBoard, model: _SettingModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = board.desk.theme
        self._model = model

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """A cell."""
        theme = self._theme
        rect: QRect = option.rect
        row: SettingRow = index.data(ROW_ROLE)
        before = self._model.row(index.row() - 1) if index.row() else None
        starts = before is None or (before.step, before.section) != (row.step, row.section)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, theme.colour("selected"))
        elif index.row() & 1:
            painter.fillRect(rect, theme.colour("shade"))
        if starts and index.row():
            painter.setPen(theme.colour("line"))
            painter.drawLine(rect.topLeft(), rect.topRight())
        pad = theme.em(0.35)
        room = rect.adjusted(pad, 0, -pad, 0)
        column = index.column()
        text = str(index.data() or "")
        if column == 0:
            if not starts:
                return
            painter.setFont(theme.font(bold=True, small=True))
            painter.setPen(theme.colour("dim"))
        elif column == _NAME:
            painter.setFont(theme.font())
            painter.setPen(theme.colour("dim"))
        else:
            painter.setFont(theme.font())
            painter.setPen(theme.colour("dim" if row.default else "text"))
            if row.key:
                mark = theme.em(0.8)
                place = QRectF(room.right() - mark, room.center().y() - mark / 2, mark, mark)
                painter.save()
                self._pencil(painter, place)
                painter.restore()
                room.setRight(room.right() - mark - pad)
        painter.drawText(
            room,
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
            painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, room.width()),
        )

    def _pencil(self, painter: QPainter, place: QRectF) -> None:
        """What can be changed has a pencil at its end."""
        side = place.width()
        shape = [(0.05, 0.95), (0.12, 0.68), (0.72, 0.05), (0.95, 0.28), (0.32, 0.88)]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.colour("dim"), 1.2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolygon(
            QPolygonF([QPointF(place.left() + x * side, place.top() + y * side) for x, y in shape])
        )

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:  # noqa: N802
        """A line to type into."""
        editor = QLineEdit(parent)
        editor.setAccessibleName(f"New value of {index.data(ROW_ROLE).name}")
        return editor


class _SettingTable(PlainTable):
    """The table of settings."""

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter edits; Ctrl+C copies names and values of the selected rows."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.state() != self.State.EditingState:
            row = self.currentIndex().row()
            index = self._rows.index(row, _VALUE)
            if row >= 0 and self._rows.flags(index) & Qt.ItemFlag.ItemIsEditable:
                self.setCurrentIndex(index)
                self.edit(index)
        elif event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)

    def copy(self) -> None:
        """Copies the selected rows as text."""
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
        lines = []
        for number in rows:
            row: SettingRow = self._rows.row(number)
            lines.append(f"{row.step + '.' if row.step else ''}{row.name}: {row.value}")
        if lines:
            QGuiApplication.clipboard().setText("\n".join(lines))


class SettingsTab(QWidget):
    """What was submitted, and what can be changed of it."""

    def __init__(self, board: JobBoard, file: JobFile, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._file = file
        self.model = _SettingModel(board, self)
        self.table = _SettingTable(board.desk.theme, self.model, "Settings")
        self.table.setItemDelegate(_SettingDelegate(board, self.model, self.table))
        self.table.remember(board.desk.settings, "job/settings")
        self.table.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self._note = QLabel()
        self._copy = QToolButton()
        self._copy.setText("Copy job file")
        self._copy.setToolTip("Copy the job file as JSON, secrets left out")
        self._copy.clicked.connect(self.copy_file)
        self._log = QToolButton()
        self._log.setText("Command in the log")
        self._log.setToolTip(_WHERE)
        self._log.clicked.connect(lambda: board.desk.focus.show("log"))
        bar = QHBoxLayout()
        self._bar = bar
        bar.addWidget(self._note, 1)
        bar.addWidget(self._log)
        bar.addWidget(self._copy)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.table, 1)
        self._note.setTextFormat(Qt.TextFormat.PlainText)
        self._note.setWordWrap(True)
        file.changed.connect(self.refresh)
        board.desk.theme.changed.connect(self._restyle)
        self._restyle()
        self.refresh()

    def _restyle(self) -> None:
        theme = self._board.desk.theme
        self._bar.setContentsMargins(theme.em(0.5), theme.em(0.2), theme.em(0.5), theme.em(0.2))
        self._note.setFont(theme.font(small=True))
        palette = self._note.palette()
        palette.setColor(QPalette.ColorRole.WindowText, theme.colour("dim"))
        self._note.setPalette(palette)

    def refresh(self) -> None:
        """Shows the job file as it is known."""
        spec = self._file.spec
        rows = setting_rows(spec) if spec is not None else []
        seen: dict[tuple[int, str, str, str], int] = {}
        keyed = []
        for row in rows:
            key = (self._file.job, row.step, row.section, row.name)
            seen[key] = seen.get(key, 0) + 1
            keyed.append(((*key, seen[key]), row))
        self.model.put(keyed)
        self._copy.setEnabled(spec is not None)
        if not self._board.job:
            self._note.setText("No job is chosen.")
        else:
            self._note.setText(
                self._file.trouble or (_WHERE if spec is not None else "The job file is loading…")
            )

    def copy_file(self) -> None:
        """Copies the job file as JSON, secrets left out."""
        if self._file.spec is not None:
            QGuiApplication.clipboard().setText(json.dumps(without_secrets(self._file.spec), indent=2))


def without_secrets(spec: dict[str, Any]) -> dict[str, Any]:
    """A job file without what nobody should read over a shoulder."""
    from client_gui.views.job_parts.settingrows import HIDDEN, is_secret

    found = dict(spec)
    found.pop("token", None)
    steps = []
    for step in found.get("steps", []):
        one = dict(step) if isinstance(step, dict) else step
        if isinstance(one, dict) and isinstance(one.get("env"), dict):
            one["env"] = {name: HIDDEN if is_secret(name) else value for name, value in one["env"].items()}
        steps.append(one)
    found["steps"] = steps
    return found
