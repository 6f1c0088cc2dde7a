"""What waits for the farm, above what has happened: to be taken back or sent, one by one or all at once.

What belongs here: the list and its buttons.  What may not: when anything is sent (``actions.later``).
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QItemSelectionModel, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from client_gui.actions.later import count_text
from client_gui.actions.waiting import Wait
from client_gui.desk import Desk
from client_gui.models.waits import WaitsModel
from client_gui.style.glyphs import icon
from client_gui.style.lazily import when_seen
from client_gui.views.cards import words

#: So many are seen at once without scrolling.
_ROWS_MOST: Final = 6
_WHEN_EM: Final = 3.6
#: Of the room beside that, how each stands takes so much, and no less than this.
_STANDS_SHARE: Final = 0.4
_STANDS_EM: Final = 8.0
_CHOOSES: Final = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
_TAKES: Final = (Qt.Key.Key_Delete,)
_SENDS: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class _Rows(QTableView):
    """The rows; Del takes one back, and Enter sends it."""

    take_wanted = Signal()
    send_wanted = Signal()

    def event(self, event: QEvent) -> bool:
        """Keeps these keys from becoming the window's."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.ShortcutOverride
            and event.key() in (*_TAKES, *_SENDS)
            and not event.modifiers()
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """These keys."""
        if event.key() in _TAKES:
            self.take_wanted.emit()
        elif event.key() in _SENDS:
            self.send_wanted.emit()
        else:
            super().keyPressEvent(event)


class WaitsList(QWidget):
    """What waits; not there while nothing does.

    Attributes:
        model: Its rows.
        table: The list.
        take, drop, send: Its buttons: take back what is chosen, take back all, send.
    """

    #: Nothing waits any more, and it had the keys.
    left = Signal()

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._later = desk.actions.later
        self.model = WaitsModel(self._later, desk.client, desk.theme, self)
        self._box = QVBoxLayout(self)
        head = QHBoxLayout()
        self._sign = QLabel()
        self._head = words("", theme=desk.theme, bold=True)
        head.addWidget(self._sign)
        head.addWidget(self._head, 1)
        self._box.addLayout(head)
        self.table = _Rows()
        self.table.setModel(self.model)
        self.table.setAccessibleName("What waits for the farm")
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setShowGrid(False)
        self.table.setTabKeyNavigation(False)
        self.table.setWordWrap(False)
        self.table.verticalHeader().hide()
        self.table.horizontalHeader().hide()
        self.table.take_wanted.connect(self._take)
        self.table.send_wanted.connect(self._send)
        self._box.addWidget(self.table)
        row = QHBoxLayout()
        self.send, self.take, self.drop = (
            QPushButton(),
            QPushButton("Take back"),
            QPushButton("Take all back"),
        )
        self.take.setToolTip("Do not send what is chosen  Del")
        self.drop.setToolTip(f"Send nothing of it  {desk.actions.keymap.shown('waiting-drop')}".rstrip())
        self.send.clicked.connect(self._send)
        self.take.clicked.connect(self._take)
        self.drop.clicked.connect(self._later.take_back_all)
        for button in (self.send, self.take, self.drop):
            button.setAutoDefault(False)
            row.addWidget(button)
        row.addStretch(1)
        self._box.addLayout(row)
        self._row = row
        self._later.changed.connect(self.refresh)
        desk.client.stood.connect(self.refresh)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._say_buttons())
        when_seen(desk.theme, self, self._restyle)
        self._restyle()
        self.refresh()

    def refresh(self) -> None:
        """Says what waits now."""
        waits = self._later.waits
        there = bool(waits)
        focus = QApplication.focusWidget()
        if not there and focus is not None and self.isAncestorOf(focus):
            self.left.emit()  # before it hides: Qt would hand the keys to whatever comes next in the window
        self.setVisible(there)
        if not there:
            return
        more = len(waits) - len(self.model.shown)
        text = count_text(self._later) + (f", {more:,} of them not listed" if more > 0 else "")
        if text != self._head.text():
            self._head.setText(text)
        if not self._chosen() and self.model.shown:
            # Not by ``selectRow``: it chooses nothing in a table that was never laid out.
            row = max(0, self.table.currentIndex().row())
            self.table.selectionModel().setCurrentIndex(self.model.index(row, 0), _CHOOSES)
        self._fit()
        self._say_buttons()

    def _say_buttons(self) -> None:
        chosen = self._chosen()
        held = bool(chosen) and all(one.held for one in chosen)
        self.send.setText("Do it anyway" if held else "Send")
        self.send.setAccessibleName(self.send.text())
        why = self._desk.actions.later.why_not("waiting-send")
        self.send.setEnabled(not why)
        self.send.setToolTip(f"Not possible: {why}" if why else "Send what is chosen now  Enter")
        self.take.setEnabled(bool(chosen))

    def _chosen(self) -> list[Wait]:
        rows = sorted({index.row() for index in self.table.selectionModel().selectedRows()})
        return [self.model.shown[row] for row in rows if row < len(self.model.shown)]

    def _take(self) -> None:
        self._later.take_back({one.number for one in self._chosen()})

    def _send(self) -> None:
        if self.send.isEnabled():
            self._later.send({one.number for one in self._chosen()} or None)

    def _fit(self) -> None:
        rows = min(_ROWS_MOST, max(1, self.model.rowCount()))
        self.table.setFixedHeight(rows * self._desk.theme.row_height() + 2 * self.table.frameWidth())

    def _restyle(self) -> None:
        theme = self._desk.theme
        edge = theme.em(0.4)
        self._box.setContentsMargins(edge, edge, edge, edge)
        self._box.setSpacing(theme.em(0.3))
        self._row.setSpacing(theme.em(0.3))
        side = theme.em(1.0)
        self._sign.setPixmap(icon(theme, "clock", "warn").pixmap(side))
        self.table.verticalHeader().setDefaultSectionSize(theme.row_height())
        head = self.table.horizontalHeader()
        head.setMinimumSectionSize(theme.em(2))
        self.table.setColumnWidth(0, theme.em(_WHEN_EM))
        head.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self._share()
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """What is asked has most of the room."""
        super().resizeEvent(event)
        self._share()

    def _share(self) -> None:
        room = self.width() - self._desk.theme.em(_WHEN_EM)
        least = self._desk.theme.em(_STANDS_EM)
        self.table.setColumnWidth(2, max(least, int(room * _STANDS_SHARE)))
