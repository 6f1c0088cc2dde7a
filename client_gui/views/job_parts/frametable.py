"""The table of frames: the equal of the grid for those who read rather than look; both have one selection.

What belongs here: the view and how its cells are drawn.  What may not: what is in them (``framemodel``).
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QPersistentModelIndex, QRect, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFontMetrics,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from client_gui.actions.records import SELECT_STATES
from client_gui.delegates.ink import STALE_OPACITY, Ink, mixed
from client_gui.store.columns import step_address
from client_gui.style.lazily import when_seen
from client_gui.views.heads import SortHead
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.framecolumns import HEADS, Col
from client_gui.views.job_parts.framemodel import BAR_ROLE, OUTLIER_ROLE, PROGRESS_ROLE, UNIT_ROLE, FrameModel
from client_gui.views.job_parts.frameset import many, state_word
from client_gui.views.job_parts.remembered import ColumnWidths
from client_gui.views.job_parts.selecting import select_word

Index = QModelIndex | QPersistentModelIndex
_SHIFT: Final = Qt.KeyboardModifier.ShiftModifier
_CTRL: Final = Qt.KeyboardModifier.ControlModifier
_WHO: Final = "table"


class FrameDelegate(QStyledItemDelegate):
    """Draws a frame's cells: its state as glyph and word in its colour, its time with a bar."""

    def __init__(self, board: JobBoard, parent: QWidget) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self.ink = Ink(self._theme)
        self._theme.changed.connect(self._renew)

    def _renew(self) -> None:
        self.ink = Ink(self._theme)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """A cell."""
        ink, board = self.ink, self._board
        rect: QRect = option.rect
        unit = index.data(UNIT_ROLE)
        if unit is None:
            return
        step = board.step
        picked = board.picked.has(step, unit)
        if picked:
            painter.fillRect(rect, ink.selected)
        elif index.row() & 1:
            painter.fillRect(rect, ink.other)
        stale = not board.desk.client.live
        if stale:
            painter.setOpacity(STALE_OPACITY)
        column = index.column()
        room = rect.adjusted(ink.gap, 0, -ink.gap, 0)
        painter.setFont(ink.font)
        if column == Col.STATE:
            part = index.data(PROGRESS_ROLE)
            self._bar(painter, rect, part, ink.state("running"))
            self._state(painter, room, unit, str(index.data() or ""))
        else:
            self._text(painter, rect, room, index, plain=not picked)
        if stale:
            painter.setOpacity(1.0)
        if (board.picked.step, board.picked.unit) == (step, unit):
            # The current row: lines above and below, so that it can be seen on every background.
            painter.setPen(QPen(ink.focus if self._focused() else ink.dim, 1))
            painter.drawLine(rect.topLeft(), rect.topRight())
            painter.drawLine(rect.bottomLeft(), rect.bottomRight())

    def _focused(self) -> bool:
        view = self.parent()
        return isinstance(view, QWidget) and view.hasFocus()

    def _text(self, painter: QPainter, rect: QRect, room: QRect, index: Index, *, plain: bool) -> None:
        ink, column = self.ink, index.column()
        outlier = column == Col.TIME and bool(index.data(OUTLIER_ROLE))
        if column == Col.TIME:
            self._bar(painter, rect, index.data(BAR_ROLE), ink.warn if outlier else ink.accent)
        colour = ink.warn if outlier else ink.dim if plain and column in (Col.NOTE, Col.NODE) else ink.text
        painter.setPen(colour)
        text = str(index.data() or "")
        align = Qt.AlignmentFlag(index.data(Qt.ItemDataRole.TextAlignmentRole))
        painter.drawText(room, align, ink.metrics.elidedText(text, Qt.TextElideMode.ElideRight, room.width()))
        if outlier:
            ink.draw_glyph(painter, "warning", room.left(), room.center().y() - ink.glyph / 2 + 1, ink.warn)

    def _state(self, painter: QPainter, room: QRect, unit: int, text: str) -> None:
        ink, board = self.ink, self._board
        state = board.state(board.step, unit)
        if state is None:
            return
        word = state_word(state)
        pending = board.desk.actions.pending("units", (step_address(board.job, board.step), unit), "state")
        if pending:
            word, text = pending, f"{pending}\N{HORIZONTAL ELLIPSIS}"
            painter.setFont(ink.slanted)
        painter.setPen(ink.state(word))
        ink.draw_glyph(
            painter, ink.glyph_of(word), room.left(), room.center().y() - ink.glyph / 2 + 1, ink.state(word)
        )
        painter.drawText(
            room.adjusted(ink.glyph + ink.gap, 0, 0, 0),
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
            text,
        )

    def _bar(self, painter: QPainter, rect: QRect, part: Any, colour: QColor) -> None:
        if part is None:
            return
        ink = self.ink
        high = self._theme.em(0.16)
        room = QRectF(rect).adjusted(ink.gap, 0, -ink.gap, -1)
        painter.fillRect(
            QRectF(room.left(), room.bottom() - high, room.width() * part, high), mixed(ink.base, colour, 0.6)
        )


class FrameTable(QTableView):
    """Frames of the current step."""

    def __init__(self, board: JobBoard, model: FrameModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self._frames = model
        self._anchor_unit = -1
        self.setHorizontalHeader(SortHead(self))
        self.setModel(model)
        self.setItemDelegate(FrameDelegate(board, self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setAccessibleName("Frames")
        self.verticalHeader().setVisible(False)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        head = self.horizontalHeader()
        head.setHighlightSections(False)
        head.setStretchLastSection(True)
        head.setSectionsMovable(True)
        head.setSortIndicator(Col.FRAME, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        when_seen(self._theme, self, self._restyle)
        board.picked.changed.connect(self.viewport().update)
        board.desk.actions.pending_changed.connect(self.viewport().update)
        board.desk.client.stood.connect(self._stood)
        self._live = board.desk.client.live
        board.picked.moved.connect(self._follow)
        board.step_changed.connect(self._follow)
        board.details.came.connect(self._came)
        model.counted.connect(self.look)
        self.verticalScrollBar().valueChanged.connect(self.look)
        self._widths = ColumnWidths(head, HEADS, self._theme, board.desk.settings, "job/frames")
        self._restyle()
        self._widths.restore()

    def _restyle(self) -> None:
        with self._widths.by_itself():
            self._size()
        self.viewport().update()

    def _size(self) -> None:
        theme = self._theme
        height = theme.row_height()
        self.verticalHeader().setMinimumSectionSize(height)
        self.verticalHeader().setDefaultSectionSize(height)
        head = self.horizontalHeader()
        head.setMinimumSectionSize(theme.em(2))
        # The arrow of the sorted column stands in what Qt takes for the room of its word.
        head.setTextElideMode(Qt.TextElideMode.ElideNone)
        metrics = QFontMetrics(theme.font())
        samples = {
            Col.FRAME: "--000000",
            Col.STATE: "-- running 100%",
            Col.NODE: "rack-0000-gpu",
            Col.TIME: "--- 00 m 00 s",
            Col.MEMORY: "0.0 GiB..",
            Col.TRIES: HEADS[Col.TRIES] + "  ",
            Col.COST: "0.0000000 USD",
        }
        for column, sample in samples.items():
            wide = max(
                metrics.horizontalAdvance(sample), metrics.horizontalAdvance(HEADS[column]) + theme.em(2.2)
            )
            head.resizeSection(column, wide + theme.em(0.9))

    def _stood(self) -> None:
        if self._live != self._board.desk.client.live:
            self._live = self._board.desk.client.live
            self.look()
            self.viewport().update()

    # -- one selection --

    def selectionCommand(  # noqa: N802
        self, index: Index, event: QEvent | None = None
    ) -> QItemSelectionModel.SelectionFlag:
        """Takes gestures to where the grid takes them, and selects nothing of its own."""
        if index.isValid() and event is not None:
            if isinstance(event, QMouseEvent):
                self._mouse(index.row(), event)
            elif isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
                self._gesture(index.row(), event.modifiers(), space=event.key() == Qt.Key.Key_Space)
        return QItemSelectionModel.SelectionFlag.NoUpdate

    def _mouse(self, row: int, event: QMouseEvent) -> None:
        if event.type() == QEvent.Type.MouseButtonPress:
            unit = self._frames.unit_at(row)
            if event.button() == Qt.MouseButton.RightButton and self._board.picked.has(
                self._board.step, unit
            ):
                self._board.picked.move(self._board.step, unit)
            elif event.modifiers() & _CTRL and not event.modifiers() & _SHIFT:
                self._anchor_unit = unit
                self._board.picked.toggle(self._board.step, unit)
            else:
                self._gesture(row, event.modifiers(), mouse=True)
        elif event.type() == QEvent.Type.MouseMove and event.buttons() & Qt.MouseButton.LeftButton:
            self._extend(row, add=bool(event.modifiers() & _CTRL))

    def _gesture(
        self, row: int, modifiers: Qt.KeyboardModifier, *, space: bool = False, mouse: bool = False
    ) -> None:
        step, unit = self._board.step, self._frames.unit_at(row)
        picked = self._board.picked
        if space:
            self._anchor_unit = unit
            picked.toggle(step, unit)
        elif modifiers & _SHIFT:
            self._extend(row, add=bool(modifiers & _CTRL))
        elif modifiers & _CTRL and not mouse:
            picked.move(step, unit)
        else:
            self._anchor_unit = unit
            picked.click(step, unit)

    def _extend(self, row: int, *, add: bool) -> None:
        """Everything that is shown between where the range began and a row."""
        picked, step = self._board.picked, self._board.step
        begin = picked.anchor
        unit = begin[1] if begin is not None and begin[0] == step else picked.unit
        other = self._frames.row_of(unit)
        if other < 0:
            other = row
        low, high = sorted((row, other))
        units = self._frames.units[low : high + 1]
        picked.extend_over(step, units, self._frames.unit_at(row), add=add)

    def selectAll(self) -> None:  # noqa: N802
        """Every frame that is shown."""
        self._board.picked.select(self._board.step, self._frames.units)

    def _follow(self) -> None:
        """The current frame is the grid's."""
        picked = self._board.picked
        if picked.step != self._board.step or picked.step != (self._frames.frames or _NO).step:
            return
        row = self._frames.row_of(picked.unit)
        if row < 0 or row == self.currentIndex().row():
            self.viewport().update()
            return
        column = max(self.currentIndex().column(), 0)
        index = self._frames.index(row, column)
        self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
        self.scrollTo(index)
        self.viewport().update()

    # -- what is on the screen --

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The rows; where there are none, why."""
        super().paintEvent(event)
        frames = self._frames.frames
        if frames is None or len(self._frames.units):
            return
        painter = QPainter(self.viewport())
        painter.setPen(self._theme.colour("dim"))
        if self._frames.busy:
            painter.drawText(self.viewport().rect(), Qt.AlignmentFlag.AlignCenter, "Sorting …")
            return
        text = f"All {many(frames.units, 'frame')} of {frames.step} are hidden by the filter."
        room = self.viewport().rect().adjusted(self._theme.em(1), 0, -self._theme.em(1), 0)
        painter.drawText(
            room,
            Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap,
            f"{text}\nCtrl+F, then Esc, clears it.",
        )

    def visible_units(self) -> tuple[int, ...]:
        """Units of the rows that can be seen."""
        if not self.isVisible() or not len(self._frames.units):
            return ()
        first = max(self.rowAt(0), 0)
        last = self.rowAt(self.viewport().height() - 1)
        last = len(self._frames.units) - 1 if last < 0 else last
        return tuple(self._frames.units[first : last + 1].tolist())

    def look(self) -> None:
        """Says which frames can be seen."""
        self._board.details.look(_WHO, self._frames.frames, self.visible_units())

    def _came(self, step: str, units: Any) -> None:
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Other rows can be seen."""
        super().resizeEvent(event)
        self.look()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Rows can be seen."""
        super().showEvent(event)
        self.look()

    def hideEvent(self, event: Any) -> None:  # noqa: N802
        """Nothing can be seen."""
        super().hideEvent(event)
        self._board.details.look(_WHO, None)

    # -- keys and menus --

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """What the grid's keys do, they do here too."""
        key, modifiers = event.key(), event.modifiers()
        picked = self._board.picked
        if modifiers & Qt.KeyboardModifier.AltModifier and 0 <= key - Qt.Key.Key_1 < len(SELECT_STATES):
            select_word(self._board, SELECT_STATES[key - Qt.Key.Key_1])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and picked.unit >= 0:
            self._board.look_at(picked.step, picked.unit, "log")
        elif key == Qt.Key.Key_V and not modifiers and picked.unit >= 0:
            self._board.look_at(picked.step, picked.unit, "preview")
        elif key == Qt.Key.Key_Escape and picked.count:
            picked.clear()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.selectAll()
        elif event.matches(QKeySequence.StandardKey.Copy):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def keyboardSearch(self, search: str) -> None:  # noqa: N802
        """Letters are keys of actions, not a search."""

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """While a button is held, no row slips from under the mouse."""
        self._frames.freeze(True)
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Rows may move again."""
        super().mouseReleaseEvent(event)
        self._frames.freeze(False)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Shows the frame's log."""
        index = self.indexAt(event.position().toPoint())
        if index.isValid() and event.button() == Qt.MouseButton.LeftButton:
            self._board.look_at(self._board.step, self._frames.unit_at(index.row()), "log")

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """What can be done with what is selected; meanwhile nothing moves."""
        menu = self._board.desk.actions.menu(self._board.context(), self)
        self._frames.freeze(True)
        menu.aboutToHide.connect(lambda: self._frames.freeze(False))
        menu.popup(event.globalPos())


class _No:
    step = ""


_NO: Final = _No()
