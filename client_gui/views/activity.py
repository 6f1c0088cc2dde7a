"""The Activity dock: what waits for the farm, and every notice, kept after its toast has faded.

What belongs here: the list of what happened and its filter.  What may not: toasts (``client_gui.shell``).
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.actions.context import ActionContext
from client_gui.desk import Desk
from client_gui.models.notices import NOTICE_ROLE, NoticesModel
from client_gui.settings import Setting
from client_gui.store.activity import Level, Notice
from client_gui.style.lazily import when_seen
from client_gui.views.base import View
from client_gui.views.cards import words
from client_gui.views.waitslist import WaitsList
from farm.model.errors import OvercrankError
from farm.model.ids import parse_address
from farm.sdk.words import iso_time

_QUIET = Setting("activity/warnings-only", False)
_SERIOUS = frozenset({Level.WARNING, Level.ERROR})
#: Widths of the columns of moment and level, and below which width of the dock there is none for advice.
_WHEN_EM, _LEVEL_EM, _NARROW_EM = 7.0, 1.6, 38.0
#: Most of the room beside them that advice takes.
_HINT_SHARE = 0.36


class ActivityView(View):
    """What happened."""

    name = "activity"
    title = "Activity"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self.model = NoticesModel(desk.notices, desk.theme, self)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        line = QHBoxLayout()
        edge = desk.theme.em(0.4)
        line.setContentsMargins(edge, edge, edge, 0)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Find in what happened")
        self.search.setAccessibleName("Find in what happened")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filter)
        self.quiet = QToolButton()
        self.quiet.setText("Warnings and errors only")
        self.quiet.setCheckable(True)
        self.quiet.setChecked(desk.settings.get(_QUIET))
        self.quiet.toggled.connect(self._filter)
        line.addWidget(self.search, 1)
        line.addWidget(self.quiet)
        self.waits = WaitsList(desk, self)
        box.addWidget(self.waits)
        box.addLayout(line)
        self.table = QTableView()
        self.table.setModel(self.model)
        self.table.setAccessibleName("What happened")
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setShowGrid(False)
        self.table.setTabKeyNavigation(False)
        self.table.setWordWrap(False)
        self.table.verticalHeader().hide()
        self.table.activated.connect(self._open)
        self.waits.left.connect(lambda: self.table.setFocus(Qt.FocusReason.OtherFocusReason))
        box.addWidget(self.table, 1)
        self.empty = words("", theme=desk.theme, token="dim")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        box.addWidget(self.empty, 1)
        self.model.rowsInserted.connect(self._fit)
        self.model.rowsRemoved.connect(self._fit)
        when_seen(desk.theme, self, self._restyle)
        self._restyle()
        self._filter()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """What happened has most of the room; in a narrow dock the advice is in its tip alone."""
        super().resizeEvent(event)
        self._share()

    def _share(self) -> None:
        theme = self.desk.theme
        narrow = self.width() < theme.em(_NARROW_EM)
        self.table.setColumnHidden(3, narrow)
        room = self.width() - theme.em(_WHEN_EM + _LEVEL_EM)
        self.table.setColumnWidth(3, min(theme.em(16), int(room * _HINT_SHARE)))

    def setFocus(  # noqa: N802
        self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason
    ) -> None:
        """What waits for the farm has the keys first, if anything does."""
        if self.waits.isVisibleTo(self):
            self.waits.table.setFocus(reason)
        else:
            super().setFocus(reason)

    def refresh(self) -> None:
        """Somebody looks: what was not seen is seen."""
        self.desk.notices.activity.seen()
        self._fit()

    def action_context(self) -> ActionContext:
        """Nothing: what is listed has happened."""
        return ActionContext()

    def _filter(self) -> None:
        self.desk.settings.set(_QUIET, self.quiet.isChecked())
        levels = _SERIOUS if self.quiet.isChecked() else frozenset(Level)
        self.model.set_filter(self.search.text(), levels)
        self._fit()

    def _fit(self) -> None:
        some = self.model.rowCount() > 0
        self.table.setVisible(some)
        self.empty.setVisible(not some)
        hidden = len(self.desk.notices.activity)
        self.empty.setText(
            f"The filter hides all {hidden} notices; clear it to see them."
            if hidden
            else "Nothing has happened yet.  What you do, and what the farm says to it, is kept here."
        )

    def _open(self, index: QModelIndex) -> None:
        notice: Notice = index.data(NOTICE_ROLE)
        if not notice.about:
            return
        try:
            address = parse_address(notice.about)
        except OvercrankError:
            if notice.about[:1] == "N" and notice.about[1:].isdecimal():
                self.desk.focus.set_node(int(notice.about[1:]))
                self.desk.focus.show("nodes")
            return
        self.desk.focus.set_job(address.job)
        self.desk.focus.show("job")

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Copies the selected lines."""
        if not event.matches(QKeySequence.StandardKey.Copy):
            super().keyPressEvent(event)
            return
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        chosen = [self.model.shown[row] for row in rows] or self.model.shown
        lines = [
            "\t".join([iso_time(one.at_us) or "", str(one.level), one.text, one.hint]).rstrip()
            for one in chosen
        ]
        QGuiApplication.clipboard().setText("\n".join(lines))

    def _restyle(self) -> None:
        theme = self.desk.theme
        self.table.verticalHeader().setDefaultSectionSize(theme.row_height())
        head = self.table.horizontalHeader()
        head.setHighlightSections(False)
        for column, width in ((0, _WHEN_EM), (1, _LEVEL_EM)):
            self.table.setColumnWidth(column, theme.em(width))
        head.setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
        self._share()
        self.table.viewport().update()
