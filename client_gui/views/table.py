"""The table of every list: rows of fixed height, selection by id, a place that does not run away.

What belongs here: a table view over an ``OrderModel``, what it remembers of its columns, and standing still
while somebody points at something.  What may not: what is listed, filters, and actions.

Qt's own selection is only what can be seen of ``OrderModel.selection``: rows that are filtered out or whose
places change stay selected there, and are put back here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QItemSelectionRange,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPaintEvent,
    QSinglePointEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QApplication, QHeaderView, QMenu, QTableView, QWidget

from client_gui.delegates.cells import CellDelegate
from client_gui.delegates.rows import paint_rows
from client_gui.models.order_model import OrderModel
from client_gui.settings import Settings
from client_gui.store.groups import GroupKey
from client_gui.store.moves import StepKind
from client_gui.store.order import Update
from client_gui.store.selection import ScrollAnchor
from client_gui.style.lazily import when_seen
from client_gui.style.theme import Theme
from client_gui.views.heads import SortHead
from client_gui.views.tablecolumns import TableColumns

Id = TypeVar("Id", bound=Hashable)
Index = QModelIndex | QPersistentModelIndex
#: With more rows selected than this they are put back from their ids after a new order: Qt keeps two places
#: for every range of them.
RESTORED_FROM: Final = 500
#: How long somebody has to rest on a row, moving by keys, before others follow.
_REST_MS: Final = 80
_HOVERS: Final = frozenset({QEvent.Type.HoverEnter, QEvent.Type.HoverMove, QEvent.Type.MouseMove})
_LEAVES: Final = frozenset({QEvent.Type.HoverLeave, QEvent.Type.Leave})
_FLAG = QItemSelectionModel.SelectionFlag
_WHOLE_ROWS: Final = _FLAG.ClearAndSelect | _FLAG.Rows


class FarmTable(QTableView):
    """A table of the farm.

    Args:
        model: Its rows.
        theme: How it looks.
        settings: Where its columns are remembered.
        name: Under which name.

    Attributes:
        rows: The model.
        cells: Paints the cells.
        columns: What is done to its columns.
        command: What the last click or key did to Qt's selection.
    """

    #: What is selected changed, by somebody or because something is gone.
    selected = Signal()
    #: Somebody came to rest on another row; its id.
    arrived = Signal(object)
    #: Enter or a double click; the id.
    opened = Signal(object)
    #: A context menu is wanted, at a place of the screen.
    menu_wanted = Signal(QPoint)

    def __init__(
        self,
        model: OrderModel[Any],
        theme: Theme,
        settings: Settings,
        name: str,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.rows = model
        self.cells = CellDelegate(theme, self)
        self._theme = theme
        self._anchor: ScrollAnchor[Any] = ScrollAnchor()
        #: While an update is shown: what Qt does to its selection is nobody's wish.
        self._following = False
        self._scrolling = False
        self.command = _FLAG.NoUpdate
        self._hovered = QPersistentModelIndex()
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST_MS)
        self._rest.timeout.connect(self._rested)
        self._dress()
        self.setHorizontalHeader(SortHead(self))
        self.setModel(model)
        self.setItemDelegate(self.cells)
        self._dress_heads()
        self.columns = TableColumns(self, model, theme, settings, name)
        model.updating.connect(self._before)
        model.updated.connect(self._after)
        self.selectionModel().selectionChanged.connect(self._chosen)
        self.selectionModel().currentChanged.connect(self._current_moved)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        when_seen(theme, self, self._restyle)

    def _dress(self) -> None:
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.DefaultContextMenu)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setMouseTracking(True)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setFrameShape(QTableView.Shape.NoFrame)
        # With a style sheet Qt takes it for see-through, and scrolling would paint everything anew.
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAutoScroll(True)

    def _dress_heads(self) -> None:
        down = self.verticalHeader()
        # A head asks its selection whether whole columns are selected, cell by cell: with all of a hundred
        # thousand rows selected that takes seconds.  It gets one of its own that stays empty.
        nothing = QItemSelectionModel(self.rows, self)
        down.setSelectionModel(nothing)
        self.horizontalHeader().setSelectionModel(nothing)
        down.setVisible(False)
        down.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        down.setMinimumSectionSize(1)
        self._restyle()

    def _restyle(self) -> None:
        down = self.verticalHeader()
        down.setDefaultSectionSize(self._theme.row_height())
        self._to_anchor()
        self.viewport().update()

    # -- painting --

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Whole rows at once; Qt would do it cell by cell."""
        paint_rows(self, self.cells, self.rows, event, self._hovered.row())

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """Takes note of the row under the mouse."""
        if event.type() in _HOVERS and isinstance(event, QSinglePointEvent):
            self._hover(self.indexAt(event.position().toPoint()))
        elif event.type() in _LEAVES:
            self._hover(QModelIndex())
        return super().viewportEvent(event)

    def _hover(self, index: QModelIndex) -> None:
        before = self._hovered.row()
        if index.row() == before:
            return
        self._hovered = QPersistentModelIndex(index)
        high, top = self.verticalHeader().defaultSectionSize(), self.verticalScrollBar().value()
        for row in (before, index.row()):
            if row >= 0:
                self.viewport().update(0, row * high - top, self.viewport().width(), high)

    # -- what is selected --

    def select_ids(self, ids: Iterable[Any]) -> None:
        """Selects just these."""
        self.rows.selection.select(ids)
        self.show_selection()

    def show_selection(self) -> None:
        """Shows what the model has selected, after somebody chose it otherwise than here."""
        self._put_back()
        self.viewport().update()
        self.selected.emit()

    def go_to(self, row_id: Any) -> bool:
        """Makes a row the current and only selected one and brings it into sight; False when not shown."""
        row = self.rows.row_of(row_id)
        if row < 0:
            return False
        self._following = True
        self.rows.selection.click(row_id)
        index = self.rows.index(row, self.columns.first())
        self.selectionModel().setCurrentIndex(index, _WHOLE_ROWS)
        self._following = False
        self.scrollTo(index)
        self._hold()
        self.selected.emit()
        return True

    def current_id(self) -> Any:
        """The current row; None for none."""
        return self.rows.selection.current

    def selectionCommand(  # noqa: N802
        self, index: Index, event: QEvent | None = None
    ) -> QItemSelectionModel.SelectionFlag:
        """What a click or key does to the selection; one that starts anew lets go of hidden rows, too."""
        command = super().selectionCommand(index, event)
        if command & _FLAG.Clear and event is not None and not self._following:
            selection, order = self.rows.selection, self.rows.order
            if selection.hidden(order) or any(order.row_of(one) < 0 for one in selection.groups):
                shown = [one for one in selection.groups if order.row_of(one) >= 0]
                selection.select(selection.shown(order), shown)
        if event is not None:
            self.command = command
        return command

    def _chosen(self, came: QItemSelection, went: QItemSelection) -> None:
        if self._following:
            return
        order = self.rows.order
        ids = set(self.rows.selection.ids)
        ids -= {order.id_at(row) for row in rows_in(went)}
        ids |= {order.id_at(row) for row in rows_in(came) if not self.rows.is_gone(row)}
        self.rows.selection.select(ids)
        self.selected.emit()

    def _current_moved(self, current: QModelIndex, before: QModelIndex) -> None:
        if self._following or not current.isValid():
            return
        if self.rows.is_gone(current.row()):
            return
        self.rows.selection.move_current(self.rows.order.key_at(current.row()))
        if current.row() != before.row() or not before.isValid():
            self._rest.start()

    def _rested(self) -> None:
        current = self.rows.selection.current
        if current is not None and not isinstance(current, GroupKey):
            self.arrived.emit(current)

    def arrive(self) -> None:
        """Does not wait for somebody to rest on the current row."""
        if self._rest.isActive():
            self._rest.stop()
            self._rested()

    # -- following updates --

    def _seen(self) -> tuple[int, int]:
        """First and last row of which anything can be seen."""
        value, high = self.verticalScrollBar().value(), self.verticalHeader().defaultSectionSize()
        return value // high, (value + self.viewport().height()) // high

    def dataChanged(  # noqa: N802
        self, first: Index, last: Index, roles: Sequence[int] = ()
    ) -> None:
        """Rows have other values; for those that cannot be seen Qt would paint everything anew."""
        top, bottom = self._seen()
        if first.row() <= bottom and last.row() >= top:
            super().dataChanged(first, last, roles)

    def _before(self, update: Update) -> None:
        self._following = True
        self.rows.seen = self._seen()
        laid_out = any(step.kind is StepKind.LAYOUT for step in update.steps)
        if laid_out and len(self.rows.selection) > RESTORED_FROM:
            self.selectionModel().clearSelection()

    def _after(self, update: Update) -> None:
        if update.steps:
            self._put_back()
            self._to_anchor()
        self._following = False
        self.selected.emit()

    def _put_back(self) -> None:
        """Makes what Qt has selected what is selected, and the current row the current one."""
        self.put_selection_back()
        was, self._following = self._following, True
        model, order, selection = self.rows, self.rows.order, self.rows.selection
        row = -1 if selection.current is None else order.row_of(selection.current)
        now = self.currentIndex()
        if row >= 0 and now.row() != row:
            column = now.column() if now.isValid() else self.columns.first()
            self.selectionModel().setCurrentIndex(model.index(row, column), _FLAG.NoUpdate)
        self._following = was

    def selected_rows(self) -> npt.NDArray[np.bool_]:
        """By row, whether Qt has it selected."""
        have = np.zeros(len(self.rows.order), np.bool_)
        for part in _parts(self.selectionModel().selection()):
            have[part.top() : part.bottom() + 1] = True
        return have

    def put_selection_back(self) -> None:
        """Makes what Qt has selected what is selected."""
        was, self._following = self._following, True
        model, order, selection = self.rows, self.rows.order, self.rows.selection
        wanted = np.zeros(len(order), np.bool_)
        wanted[selection.rows(order)] = True
        have = self.selected_rows()
        if not np.array_equal(wanted, have):
            found = QItemSelection()
            edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
            last = model.columnCount() - 1
            for first, after in edges.reshape(-1, 2).tolist():
                found.select(model.index(first, 0), model.index(after - 1, last))
            self.selectionModel().select(found, _FLAG.ClearAndSelect)
        self._following = was

    # -- the place --

    def _scrolled(self, value: int) -> None:
        if not (self._scrolling or self._following):
            self._hold()

    def _hold(self) -> None:
        """Takes note of what stands at the top."""
        value, high = self.verticalScrollBar().value(), self.verticalHeader().defaultSectionSize()
        self._anchor.hold(self.rows.order, value // high, value % high)

    def _to_anchor(self) -> None:
        """Puts what stood at the top there again."""
        row = self._anchor.row(self.rows.order)
        if row < 0:
            return
        self._scrolling = True
        # The range of the bar follows rows only with the next layout.
        self.updateGeometries()
        high = self.verticalHeader().defaultSectionSize()
        self.verticalScrollBar().setValue(row * high + min(self._anchor.offset, high))
        self._scrolling = False

    # -- standing still --

    def hold_still(self) -> None:
        """Rows keep their places from now on."""
        self.rows.freeze()

    def let_go(self) -> None:
        """Rows may move again, unless a menu is open or a cell is being edited."""
        menu = isinstance(QApplication.activePopupWidget(), QMenu)
        if not menu and self.state() != QAbstractItemView.State.EditingState:
            self.rows.thaw()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Rows stand still while a button is held down."""
        self.hold_still()
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Rows may move again."""
        super().mouseReleaseEvent(event)
        self.arrive()
        self.let_go()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Edits what can be edited, opens everything else."""
        index = self.indexAt(event.position().toPoint())
        if not index.isValid() or event.button() != Qt.MouseButton.LeftButton:
            super().mouseDoubleClickEvent(event)
        elif self.rows.columns[index.column()].edit:
            self._edit(index.row(), index.column())
        else:
            self._open(index.row())

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """A menu of what is selected; by the keyboard it opens at the current row."""
        at = event.globalPos()
        if event.reason() == QContextMenuEvent.Reason.Keyboard and self.currentIndex().isValid():
            self.scrollTo(self.currentIndex())
            at = self.viewport().mapToGlobal(self.visualRect(self.currentIndex()).bottomLeft())
        self.menu_wanted.emit(at)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """A button may have been let go of elsewhere."""
        super().hideEvent(event)
        self.rows.thaw()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Qt makes the first row the current one; but to come here is not to look at something."""
        was, self._following = self._following, True
        super().focusInEvent(event)
        if self.rows.selection.current is None:
            self.selectionModel().setCurrentIndex(QModelIndex(), _FLAG.NoUpdate)
        self._following = was

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """A button may have been let go of elsewhere."""
        super().focusOutEvent(event)
        if event.reason() == Qt.FocusReason.ActiveWindowFocusReason:
            self.let_go()

    def closeEditor(self, editor: QWidget, hint: Any) -> None:  # noqa: N802
        """Rows may move again."""
        super().closeEditor(editor, hint)
        self.setFocus()
        self.let_go()

    # -- keys --

    def moveCursor(  # noqa: N802
        self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier
    ) -> QModelIndex:
        """Home and End go to the first and last row: rows are what is chosen here, not cells."""
        ends = {
            QAbstractItemView.CursorAction.MoveHome: 0,
            QAbstractItemView.CursorAction.MoveEnd: self.rows.rowCount() - 1,
        }
        row = ends.get(action)
        if row is None or row < 0:
            return super().moveCursor(action, modifiers)
        now = self.currentIndex()
        return self.rows.index(row, now.column() if now.isValid() else self.columns.first())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter opens, F2 edits, arrows move; letters belong to the actions."""
        key, row = event.key(), self.currentIndex().row()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and row >= 0:
            self._open(row)
        elif key == Qt.Key.Key_F2 and row >= 0:
            for place, column in enumerate(self.rows.columns):
                if column.edit and not self.isColumnHidden(place):
                    self._edit(row, place)
                    return
        elif event.text().isprintable() and event.text() not in ("", " ") and not _moves(event):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def keyboardSearch(self, search: str) -> None:  # noqa: N802
        """Letters are keys of actions; to look for something there is the filter."""

    def _open(self, row: int) -> None:
        if not self.rows.is_gone(row):
            self.arrive()
            self.opened.emit(self.rows.order.id_at(row))

    def _edit(self, row: int, column: int) -> None:
        if self.rows.is_gone(row):
            return
        self.hold_still()
        index = self.rows.index(row, column)
        self.selectionModel().setCurrentIndex(index, _FLAG.NoUpdate)
        self.scrollTo(index)
        if not self.edit(index, QAbstractItemView.EditTrigger.AllEditTriggers, QEvent(QEvent.Type.None_)):
            self.let_go()


def _parts(selection: QItemSelection) -> list[QItemSelectionRange]:
    return [selection.at(place) for place in range(selection.size())]


def rows_in(selection: QItemSelection) -> list[int]:
    """Rows of a selection, each once."""
    found: dict[int, None] = {}
    for part in _parts(selection):
        found.update(dict.fromkeys(range(part.top(), part.bottom() + 1)))
    return list(found)


def _moves(event: QKeyEvent) -> bool:
    return bool(event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier))
