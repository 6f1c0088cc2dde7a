"""Rows of text of any number: painted as they are looked at, selected, copied, walked through by keyboard.

What belongs here: what is visible, scrolling, keys and the mouse.  What may not: where rows come from
(``rows.Rows``), where their characters are (``layout``), how a row looks (``paint``), and files or sockets.

There is no text document: what is not visible costs nothing.  A place is kept by its row's key, so that rows
which come before it move nothing.
"""

from __future__ import annotations

import math

from PySide6.QtCore import QPoint, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QContextMenuEvent,
    QFontMetricsF,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from client_gui.style.theme import Theme
from client_gui.views.log_parts.cursor import ROW_END, Cursor
from client_gui.views.log_parts.keys import step_of
from client_gui.views.log_parts.layout import Layout
from client_gui.views.log_parts.paint import Grid, Place, RowPainter, width_of
from client_gui.views.log_parts.rows import Rows, spoken


class LinePane(QAbstractScrollArea):
    """Rows of text.

    Attributes:
        rows: What is shown.
        wrap: Whether long rows are broken.
        dimmed: Whether it is painted faintly: what it shows is not what is.
        touched: Whether somebody scrolled, clicked or pressed a key since this was last set.
        follow: Whether the end is kept in view; scrolling up ends that, the key End begins it.
    """

    #: Following began or ended.
    followed = Signal(bool)
    #: The cursor is in another row.
    moved = Signal()
    #: Somebody wants the selection in the clipboard, or a menu at a place of the screen.
    copy_wanted = Signal()
    menu_wanted = Signal(QPoint)
    #: Other rows are visible, or there are more.
    seen = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.rows: Rows | None = None
        self.wrap = False
        self.follow = False
        self.dimmed = False
        self.touched = False
        self._top: int = 0
        self._cursor = Cursor()
        self._widest = 0
        self._quiet = False
        self._shown: tuple[object, ...] = ()
        self._dragging = False
        self._wheel = 0
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Lines of the log")
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.horizontalScrollBar().valueChanged.connect(lambda _: self.viewport().update())
        self.restyle()

    # -- what is shown --

    def show_rows(self, rows: Rows | None) -> None:
        """Shows other rows, from the first on."""
        self.rows = rows
        self._top = 0
        self._cursor = Cursor()
        self._widest = 0
        self.rows_changed()

    def rows_changed(self) -> None:
        """There are other rows: what is looked at stays where it is."""
        self._set_range()
        if self.rows is None or not self.rows.count:
            self.viewport().update()
            return
        if self.follow:
            if self.selection is None:
                self._cursor.put(Place(self.rows.key(self.rows.count - 1)))
            self._put(self.verticalScrollBar().maximum())
        else:
            self._put(self.rows.row_of(self._top))
        self._want()
        shown = self._looks()
        if shown != self._shown or self.wrap:
            # Of a log that is being fetched more comes ten times a second, mostly far from what is looked at.
            self._shown = shown
            self.viewport().update()
        self.seen.emit()

    def _looks(self) -> tuple[object, ...]:
        """What the visible rows look like depends on, besides what repaints them itself; rows not broken."""
        rows = self.rows
        if rows is None or not rows.count:
            return ()
        first, last = self.top, min(self.top + self.visible_rows() + 1, rows.count - 1)
        edges = [(rows.key(row), rows.number(row), rows.note(row)) for row in (first, last)]
        # The last row of all may go on; one before something that is missing ends where that begins.
        end = rows.key(last + 1) if last + 1 < rows.count else object()
        return rows, first, last, rows.digits(), end, *edges

    def ready(self) -> None:
        """Rows that were missing are ready."""
        if self.wrap:
            self._set_range()
            if self.follow:
                self._put(self.verticalScrollBar().maximum())
        self.viewport().update()

    def restyle(self) -> None:
        """Takes sizes and colours from the theme anew."""
        font = self._theme.font(mono=True)
        self.setFont(font)
        self.viewport().setFont(font)
        metrics = QFontMetricsF(font)
        self._cell = metrics.horizontalAdvance("0000000000") / 10
        self._high = math.ceil(metrics.height()) + 2
        self._base = round(metrics.ascent()) + 1
        self._set_range()
        self.viewport().update()

    def set_wrap(self, wrap: bool) -> None:
        """Breaks long rows, or not."""
        self.wrap = wrap
        self.horizontalScrollBar().setValue(0)
        self._set_range()
        self.viewport().update()

    # -- places --

    @property
    def top(self) -> int:
        """The first visible row."""
        return self.verticalScrollBar().value()

    @property
    def cursor_row(self) -> int:
        """The row the cursor is in."""
        return self.rows.row_of(self._cursor.place.key) if self.rows is not None and self.rows.count else 0

    @property
    def place(self) -> Place:
        """Where the cursor is."""
        return self._cursor.place

    @property
    def selection(self) -> tuple[Place, Place] | None:
        """What is selected, from and up to; None for nothing."""
        return self._cursor.selection

    def visible_rows(self) -> int:
        """How many rows fit when none is broken."""
        return max(1, self.viewport().height() // self._high)

    def go_to(self, row: int, column: int = 0, length: int = 0) -> None:
        """Puts the cursor into a row and shows it; ``length`` characters are pointed out."""
        if self.rows is None or not self.rows.count:
            return
        row = max(0, min(row, self.rows.count - 1))
        self._set_follow(False)
        self._cursor.put(Place(self.rows.key(row), column))
        self._cursor.point_out(length)
        if not self.top <= row < self.top + self.visible_rows() - 1 or self.wrap:
            self._put(row - self.visible_rows() // 3)
        if length and not self.wrap:
            self._show_column(column, length)
        self._tell()

    def go_to_end(self) -> None:
        """Shows the end, and follows it from now on."""
        if self.rows is None or not self.rows.count:
            return
        self._cursor.put(Place(self.rows.key(self.rows.count - 1)))
        self._set_follow(True)
        self._put(self.verticalScrollBar().maximum())
        self._tell()

    def clear_hit(self) -> None:
        """Points nothing out any more."""
        self._cursor.point_out(0)
        self.viewport().update()

    def select_all(self) -> None:
        """Selects everything."""
        if self.rows is not None and self.rows.count:
            last = self.rows.key(self.rows.count - 1)
            self._cursor.select(Place(self.rows.key(0)), Place(last, ROW_END))
            self.viewport().update()

    def _set_follow(self, follow: bool) -> None:
        if follow != self.follow:
            self.follow = follow
            self.followed.emit(follow)

    def _tell(self) -> None:
        """Says where the cursor is to whoever does not see it."""
        if self.rows is not None and self.rows.count:
            self.setAccessibleDescription(spoken(self.rows, self.cursor_row))
            event = QAccessibleEvent(self, QAccessible.Event.DescriptionChanged)
            QAccessible.updateAccessibility(event)
        self.viewport().update()
        self.moved.emit()

    # -- geometry --

    @property
    def grid(self) -> Grid:
        """Measures of the rows as they are now."""
        digits = max(4, self.rows.digits()) if self.rows is not None else 4
        gutter = self._cell * (digits + 1.5) + self._high
        wide = self.viewport().width()
        columns = max(8, int((wide - gutter - self._cell) / self._cell))
        shift = self.horizontalScrollBar().value()
        return Grid(self._cell, self._high, self._base, gutter, wide, columns, shift, self.wrap, self.font())

    def _set_range(self) -> None:
        bar = self.verticalScrollBar()
        fits, grid = self.visible_rows(), self.grid
        rows = self.rows
        most = Layout(rows, grid, self.top).last_top(fits) if rows is not None and rows.count else 0
        self._quiet = True
        bar.setPageStep(fits)
        bar.setRange(0, most)
        wide = 0 if self.wrap else self._widest
        self.horizontalScrollBar().setRange(0, max(0, wide - grid.columns + 2))
        self.horizontalScrollBar().setPageStep(grid.columns)
        self._quiet = False

    def _put(self, row: int) -> None:
        """Scrolls; not by anybody's hand."""
        self._quiet = True
        self.verticalScrollBar().setValue(row)
        self._quiet = False
        self._note_top()

    def _note_top(self) -> None:
        if self.rows is not None and self.rows.count:
            self._top = self.rows.key(min(self.top, self.rows.count - 1))

    def _scrolled(self, value: int) -> None:
        if not self._quiet:
            self.touched = True
            self._note_top()
            if value < self.verticalScrollBar().maximum():
                self._set_follow(False)
            self._want()
            self.seen.emit()
        self.viewport().update()

    def _show_column(self, column: int, length: int) -> None:
        bar = self.horizontalScrollBar()
        end = column + length + 2
        self._widest = max(self._widest, end)
        self._set_range()
        columns = self.grid.columns
        if column < bar.value() or end > bar.value() + columns:
            bar.setValue(max(0, column - columns // 3) if end > columns else 0)

    def _want(self) -> None:
        if self.rows is not None and self.rows.count:
            self.rows.want(self.top, self.top + self.visible_rows() + 1)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More or fewer rows fit."""
        super().resizeEvent(event)
        self.rows_changed()

    def place_at(self, x: float, y: float) -> Place:
        """The character at a point of the viewport."""
        if self.rows is None or not self.rows.count:
            return Place(0)
        return Layout(self.rows, self.grid, self.top).place_at(x, y)

    def row_rect(self, row: int) -> QRect:
        """Where a visible row is in the viewport; empty when it is not."""
        if self.rows is None or not self.rows.count:
            return QRect()
        return Layout(self.rows, self.grid, self.top).area(row, self.viewport().height())

    # -- painting --

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The visible rows."""
        painter = QPainter(self.viewport())
        theme, rows = self._theme, self.rows
        area, grid = self.viewport().rect(), self.grid
        painter.fillRect(area, theme.colour("base"))
        painter.fillRect(QRectF(0, 0, grid.gutter - grid.cell * 0.5, area.height()), theme.colour("window"))
        if rows is None or not rows.count:
            return
        if self.dimmed:
            painter.setOpacity(0.6)
        layout = Layout(rows, grid, self.top)
        paint = RowPainter(painter, theme, grid, rows, self._cursor.pointed)
        cursor = self.cursor_row if self.hasFocus() else -1
        y, row, missing, widest = 0, self.top, False, self._widest
        while y < area.height() and row < rows.count:
            line = rows.line(row)
            note = rows.note(row)
            lines = layout.lines_of(row)
            if note:
                paint.note(y, note)
            elif line is None:
                missing = True
            else:
                paint.row(row, y, line, lines)
                widest = max(widest, width_of(line.text))
            paint.gutter(row, y, line)
            if row == cursor:
                painter.setPen(theme.colour("accent"))
                painter.drawRect(QRectF(0.5, y + 0.5, area.width() - 1, lines * self._high - 1))
            y += lines * self._high
            row += 1
        if widest > self._widest:
            self._widest = widest
            self._set_range()
        if missing:
            self._want()

    # -- hands --

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Puts the cursor somewhere."""
        self.touched = True
        if event.button() != Qt.MouseButton.LeftButton:
            return
        place = self.place_at(event.position().x(), event.position().y())
        self._cursor.put(place, select=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        self._cursor.point_out(0)
        self._dragging = True
        self._tell()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Selects."""
        if not self._dragging:
            return
        y = event.position().y()
        bar = self.verticalScrollBar()
        if y < 0:
            bar.setValue(bar.value() - 1)
        elif y > self.viewport().height():
            bar.setValue(bar.value() + 1)
        place = self.place_at(event.position().x(), min(y, self.viewport().height() - 1))
        self._cursor.put(place, select=True)
        self.viewport().update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Ends selecting."""
        if self._dragging:
            self._dragging = False
            self._tell()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Selects a row."""
        place = self.place_at(event.position().x(), event.position().y())
        self._cursor.select(Place(place.key), Place(place.key, ROW_END))
        self._tell()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Scrolls by rows; up ends following."""
        self.touched = True
        if event.angleDelta().y() > 0:
            self._set_follow(False)
        super().wheelEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """A menu, by mouse or by its key."""
        self.menu_wanted.emit(event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Walks, selects, copies."""
        self.touched = True
        if self.rows is None or not self.rows.count:
            super().keyPressEvent(event)
            return
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_wanted.emit()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif event.key() == Qt.Key.Key_End:
            self.go_to_end()
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and not self.wrap:
            step = 8 if event.key() == Qt.Key.Key_Right else -8
            self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() + step)
        elif (rows := step_of(event.key(), self.visible_rows() - 1, self.rows.count)) is not None:
            self._walk(rows, select=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        else:
            super().keyPressEvent(event)

    def _walk(self, step: int, *, select: bool) -> None:
        assert self.rows is not None
        row = self.cursor_row
        if not self.top <= row <= self.top + self.visible_rows() and not select:
            row = self.top if step > 0 else self.top + self.visible_rows() - 1
        row = max(0, min(row + step, self.rows.count - 1))
        self._cursor.point_out(0)
        self._cursor.put(Place(self.rows.key(row), ROW_END if select and step > 0 else 0), select=select)
        if step < 0:
            self._set_follow(False)
        if row < self.top:
            self.verticalScrollBar().setValue(row)
        elif row >= self.top + self.visible_rows():
            self.verticalScrollBar().setValue(row - self.visible_rows() + 1)
        self._tell()
