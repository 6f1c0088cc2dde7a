"""The frame grid: a cell a frame, steps below each other; look at a whole job, drag to act on a part of it.

What belongs here: scrolling, the mouse, keys, and what a screen reader is told.  What may not: drawing
(``gridpainter``), bytes (``gridpicture``) and places (``cells``).
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from client_gui.actions.records import SELECT_STATES
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.cells import LEAST, MOST, Cells, Place, fitting_cell
from client_gui.views.job_parts.gridpainter import GridPainter
from client_gui.views.job_parts.gridpicture import GridPicture, Made
from client_gui.views.job_parts.gridwords import grid_words
from client_gui.views.job_parts.heat import Mode
from client_gui.views.job_parts.selecting import select_word
from client_gui.views.job_parts.sums import Sums

_SHIFT = Qt.KeyboardModifier.ShiftModifier
_CTRL = Qt.KeyboardModifier.ControlModifier
_ALT = Qt.KeyboardModifier.AltModifier
#: How long the mouse must rest on a cell before a card is shown.
HOVER_MS: Final = 250
#: Edges of a cell that fits by itself.
_FIT: Final = (2, 26)
_BY_KEY: Final = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Up: -2,
    Qt.Key.Key_Down: 2,
}


class FrameGrid(QAbstractScrollArea):
    """All frames of a job as cells."""

    #: The mouse rests on a cell (its step, its unit, where on the screen), or left (``""``, -1).
    hovered = Signal(str, int, QPoint)
    #: What is shown or what it means changed: the legend is to be asked for anew.
    legend_changed = Signal()

    def __init__(self, board: JobBoard, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self.picture = GridPicture(board, self._theme)
        self._painter = GridPainter(board, self.picture, self._theme)
        #: Edge of a cell that somebody chose, 0 = what fits.
        self._zoom = 0
        self._cells = Cells((), 1, 1, 0, 1, 0)
        self._pressed = False
        self._hover: Place | None = None
        #: What the cells are to show; until that is worked out they show what they did.
        self._wanted = Mode.STATE
        self._sums = Sums(self)
        self._live = board.desk.client.live
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName("Frame grid")
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(HOVER_MS)
        self._rest.timeout.connect(self._rested)
        board.steps_changed.connect(self._relaid)
        board.states_changed.connect(self._states)
        board.figures_changed.connect(self._figures)
        board.picked.changed.connect(self._picked)
        board.picked.moved.connect(self._moved)
        self._theme.changed.connect(self._restyled)
        board.desk.client.stood.connect(self._stood)
        board.desk.actions.pending_changed.connect(self._picked)

    # -- what is shown --

    @property
    def mode(self) -> Mode:
        """What the cells show."""
        return self.picture.mode

    def set_mode(self, mode: Mode) -> None:
        """Shows something else."""
        if mode is self._wanted:
            return
        self._wanted = mode
        self._board.want_figures(tuple(self._board.frames) if mode is not Mode.STATE else ())
        self._work_out()

    def _work_out(self) -> None:
        """Shows what is wanted: states at once, heat when it is worked out; until then what there is."""
        mode, picture = self._wanted, self.picture
        if mode is Mode.STATE:
            self._sums.give_up()
            picture.set_mode(mode)
            self._recoloured()
        else:
            about = (mode, self._board.job, *((step, at.units) for step, at in self._board.frames.items()))
            self._sums.make(about, picture.units, picture.work(mode), self._worked_out)

    def _worked_out(self, made: Made) -> None:
        self.picture.take(made)
        self._recoloured()

    def _recoloured(self) -> None:
        self.legend_changed.emit()
        self._tell()
        self.viewport().update()

    @property
    def busy(self) -> bool:
        """Whether what is wanted is still being worked out."""
        return self._sums.busy

    @property
    def cells(self) -> Cells:
        """Where the cells stand now."""
        return self._cells

    def zoom(self, by: int) -> None:
        """Larger or smaller cells; the current frame stays where it is on the screen as far as possible."""
        size = self._cells.cell
        step = max(1, size // 4)
        self._set_zoom(size + step if by > 0 else size - step)

    def fit(self) -> None:
        """As large as everything can be seen."""
        self._set_zoom(0)

    def _set_zoom(self, size: int) -> None:
        place = self._current()
        held = None if place is None else self._cells.rect(place)[1] - self.verticalScrollBar().value()
        self._zoom = size and min(max(size, LEAST), MOST)
        self._lay_out()
        if place is not None and held is not None:
            self.verticalScrollBar().setValue(self._cells.rect(place)[1] - held)
            self._reveal(place)
        self.viewport().update()

    def _lay_out(self) -> None:
        theme = self._theme
        sizes = [(step, frames.units) for step, frames in self._board.frames.items()]
        gutter = self._painter.gutter(self.viewport().width())
        least, gap = theme.row_height(), max(2, theme.em(0.25))
        width, height = self.viewport().width(), self.viewport().height()
        cell = self._zoom or fitting_cell(sizes, width, height, gutter, least, gap, _FIT)
        self._cells = Cells(sizes, width, cell, gutter, least, gap)
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, self._cells.height - height))
        bar.setPageStep(max(1, height))
        bar.setSingleStep(max(cell, theme.row_height()))

    def _current(self) -> Place | None:
        picked = self._board.picked
        number = self._cells.strip_of(picked.step) if picked.step else -1
        if number < 0 or not 0 <= picked.unit < self._cells.strips[number].units:
            return None
        return Place(number, picked.unit)

    def sizeHint(self) -> QSize:  # noqa: N802
        """A dozen lines high."""
        return QSize(self._theme.em(28), self._theme.em(10))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Three lines."""
        return QSize(self._theme.em(12), self._theme.em(4))

    # -- changes --

    def _relaid(self) -> None:
        # Of another job nothing may be shown; its states are there at once.
        self.picture.set_mode(Mode.STATE)
        self._lay_out()
        if self._wanted is not Mode.STATE:
            self._board.want_figures(tuple(self._board.frames))
            self._work_out()
        self._recoloured()

    def _states(self, step: str, units: Any) -> None:
        self.picture.note_states(step, units)
        self.legend_changed.emit()
        self._tell()
        number = self._cells.strip_of(step)
        if units is None or number < 0 or not len(units) or self.mode is not Mode.STATE:
            self.viewport().update()
            return
        # Only the lines that changed.
        first, last = int(units[0]), int(units[-1])
        top = self._cells.rect(Place(number, first))[1] - self.verticalScrollBar().value()
        end = self._cells.rect(Place(number, last))[1] - self.verticalScrollBar().value() + self._cells.cell
        self.viewport().update(0, top - 1, self.viewport().width(), end - top + 2)

    def _figures(self, step: str, units: Any) -> None:
        if self._wanted is Mode.STATE:
            return
        if self.picture.mode is not self._wanted or self.picture.note_figures(step, units, keep=True):
            self._work_out()
        else:
            self._recoloured()

    def _picked(self) -> None:
        self._tell()
        self.viewport().update()

    def _moved(self) -> None:
        place = self._current()
        if place is not None:
            self._reveal(place)
        self._tell()
        self.viewport().update()

    def _restyled(self) -> None:
        self._painter.restyle()
        self.picture.restyle()
        self._lay_out()
        self.viewport().update()

    def _stood(self) -> None:
        if self._live != self._board.desk.client.live:
            self._live = self._board.desk.client.live
            self.viewport().update()

    def _reveal(self, place: Place) -> None:
        bar = self.verticalScrollBar()
        _, top, _, edge = self._cells.rect(place)
        if top < bar.value():
            bar.setValue(max(0, top - self._cells.cell))
        elif top + edge > bar.value() + self.viewport().height():
            bar.setValue(top + 2 * edge - self.viewport().height())

    def _tell(self) -> None:
        """Says in words what is shown, for those who do not see it."""
        self.setAccessibleDescription(grid_words(self._board, self.mode))

    # -- Qt: drawing --

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Lays the cells out anew."""
        super().resizeEvent(event)
        self._lay_out()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Draws what can be seen."""
        painter = QPainter(self.viewport())
        self._painter.paint(
            painter,
            self._cells,
            event.rect(),
            self.verticalScrollBar().value(),
            self.viewport().size(),
            self._current(),
            self._hover,
            focused=self.hasFocus(),
        )

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """There is always a current cell while keys come here."""
        super().focusInEvent(event)
        if self._current() is None and event.reason() != Qt.FocusReason.MouseFocusReason:
            first = self._cells.nearest(self._cells.gutter, 0)
            if first is not None:
                self._board.picked.move(self._cells.strips[first.strip].step, first.unit)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """The current cell is drawn otherwise."""
        super().focusOutEvent(event)
        self.viewport().update()

    # -- Qt: the mouse --

    def _place(self, at: QPoint, *, nearest: bool = False) -> Place | None:
        y = at.y() + self.verticalScrollBar().value()
        return self._cells.nearest(at.x(), y) if nearest else self._cells.at(at.x(), y)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Begins a selection, or adds to it; a step's name chooses the step."""
        at = event.position().toPoint()
        place = self._place(at)
        self._leave()
        if place is None:
            number = self._cells.strip_at(at.y() + self.verticalScrollBar().value())
            if number >= 0 and at.x() < self._cells.gutter:
                self._board.set_step(self._cells.strips[number].step)
            elif event.button() == Qt.MouseButton.LeftButton and not event.modifiers():
                self._board.picked.clear()
            return
        step = self._cells.strips[place.strip].step
        picked = self._board.picked
        if event.button() == Qt.MouseButton.RightButton:
            if picked.has(step, place.unit):
                picked.move(step, place.unit)
            else:
                picked.click(step, place.unit)
            return
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if event.modifiers() & _SHIFT:
            picked.extend(step, place.unit, add=bool(event.modifiers() & _CTRL))
        elif event.modifiers() & _CTRL:
            picked.toggle(step, place.unit)
        else:
            picked.click(step, place.unit)
        self._pressed = True

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Draws a range, or shows what is under the mouse."""
        at = event.position().toPoint()
        if self._pressed and event.buttons() & Qt.MouseButton.LeftButton:
            place = self._place(at, nearest=True)
            if place is not None:
                step = self._cells.strips[place.strip].step
                if (step, place.unit) != (self._board.picked.step, self._board.picked.unit):
                    self._board.picked.extend(step, place.unit, add=bool(event.modifiers() & _CTRL))
            return
        place = self._place(at)
        if place != self._hover:
            self._leave()
            self._hover = place
            self.viewport().update()
            if place is not None:
                self._rest.start()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Ends a range."""
        self._pressed = False

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Shows the frame's log."""
        place = self._place(event.position().toPoint())
        if place is not None and event.button() == Qt.MouseButton.LeftButton:
            self._board.look_at(self._cells.strips[place.strip].step, place.unit, "log")

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """The mouse is elsewhere."""
        super().leaveEvent(event)
        self._leave()
        self.viewport().update()

    def _leave(self) -> None:
        self._rest.stop()
        if self._hover is not None:
            self._hover = None
        self.hovered.emit("", -1, QPoint())

    def _rested(self) -> None:
        if self._hover is None:
            return
        left, top, edge, _ = self._cells.rect(self._hover)
        corner = QPoint(left + edge, top + edge - self.verticalScrollBar().value())
        step = self._cells.strips[self._hover.strip].step
        self.hovered.emit(step, self._hover.unit, self.viewport().mapToGlobal(corner))

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """The card stands in for tool tips."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            return True
        return super().viewportEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Scrolls; with Ctrl it zooms."""
        if event.modifiers() & _CTRL:
            if event.angleDelta().y():
                self.zoom(1 if event.angleDelta().y() > 0 else -1)
            event.accept()
            return
        self._leave()
        super().wheelEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """What can be done with what is selected."""
        self._leave()
        where = event.globalPos()
        if event.reason() == QContextMenuEvent.Reason.Keyboard and (place := self._current()) is not None:
            left, top, edge, _ = self._cells.rect(place)
            where = self.viewport().mapToGlobal(
                QPoint(left + edge, top + edge - self.verticalScrollBar().value())
            )
        self._board.desk.actions.menu(self._board.context(), self).popup(where)

    # -- Qt: keys --

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Goes from cell to cell, selects, zooms."""
        self._leave()
        if not self._key(event):
            super().keyPressEvent(event)

    def _key(self, event: QKeyEvent) -> bool:
        key, modifiers = event.key(), event.modifiers()
        picked = self._board.picked
        if modifiers & _ALT:
            return self._select_state(key)
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal) and not modifiers & _CTRL:
            self.zoom(1)
        elif key in (Qt.Key.Key_Minus, Qt.Key.Key_Underscore) and not modifiers & _CTRL:
            self.zoom(-1)
        elif key == Qt.Key.Key_0 and not modifiers & _CTRL:
            self.fit()
        elif key == Qt.Key.Key_A and modifiers & _CTRL:
            picked.select_all()
        elif key == Qt.Key.Key_Escape and picked.count:
            picked.clear()
        elif (place := self._current()) is None:
            return False
        elif key == Qt.Key.Key_Space:
            picked.toggle(self._cells.strips[place.strip].step, place.unit)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._board.look_at(self._cells.strips[place.strip].step, place.unit, "log")
        elif key == Qt.Key.Key_V and not modifiers & _CTRL:
            self._board.look_at(self._cells.strips[place.strip].step, place.unit, "preview")
        elif (target := self._target(key, place)) is not None:
            step = self._cells.strips[target.strip].step
            if modifiers & _SHIFT:
                picked.extend(step, target.unit, add=bool(modifiers & _CTRL))
            elif modifiers & _CTRL:
                picked.move(step, target.unit)
            else:
                picked.click(step, target.unit)
        else:
            return False
        return True

    def _target(self, key: int, place: Place) -> Place | None:
        cells = self._cells
        by = _BY_KEY.get(Qt.Key(key))
        if by is not None:
            return cells.beside(place, by) if abs(by) == 1 else cells.below(place, by // 2)
        if key == Qt.Key.Key_Home:
            return Place(place.strip, 0)
        if key == Qt.Key.Key_End:
            return Place(place.strip, cells.strips[place.strip].units - 1)
        if key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            lines = cells.page(self.viewport().height())
            return cells.below(place, lines if key == Qt.Key.Key_PageDown else -lines)
        return None

    def _select_state(self, key: int) -> bool:
        number = key - Qt.Key.Key_1
        if not 0 <= number < len(SELECT_STATES):
            return False
        select_word(self._board, SELECT_STATES[number])
        return True
