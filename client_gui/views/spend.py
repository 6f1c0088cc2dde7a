"""The Spend dock: what work has cost, costs now and will have cost, and what of it was for nothing.

What belongs here: money by job, user, project, site and node, as the broker counts it.  What may not: rates
and sums of our own; only the forecast adds up what the jobs' rows say.
"""

from __future__ import annotations

import csv
import io
from functools import partial
from typing import Final

import numpy as np
from PySide6.QtCore import QItemSelection, QModelIndex, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QButtonGroup,
    QHBoxLayout,
    QHeaderView,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.actions.context import ActionContext
from client_gui.delegates.spend_parts import PartsDelegate
from client_gui.desk import Desk
from client_gui.models.spend_lines import PARTS, SpendModel
from client_gui.settings import Setting
from client_gui.store.table import MISSING
from client_gui.style.lazily import when_seen
from client_gui.views.askagain import AskAgain
from client_gui.views.base import View
from client_gui.views.cards import Figure, Figures, Parts, words
from client_gui.views.heads import SortHead
from farm.model.errors import OvercrankError
from farm.protocol.client import SpendLine, SpendReply, SpendReq, StatusReply, StatusReq
from farm.sdk.words import money_text, price_text

_EVERY_MS: Final = 5000
#: Rows that are looked at for how wide their amounts are.
_FITTED: Final = 500
_BY: Final = {"job": "Jobs", "user": "Users", "project": "Projects", "site": "Sites", "node": "Nodes"}
_CHOSEN: Final = Setting("spend/by", "job")


class SpendView(View):
    """What work costs."""

    name = "spend"
    title = "Spend"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._by = desk.settings.get(_CHOSEN)
        if self._by not in _BY:
            self._by = "job"
        self.model = SpendModel(self)
        box = QVBoxLayout(self)
        theme = desk.theme
        edge = theme.em(0.5)
        box.setContentsMargins(edge, edge, edge, edge)
        self._figures = {
            "total": Figure(theme, "spent"),
            "burn": Figure(theme, "an hour now"),
            "ahead": Figure(theme, "still to come"),
            "waste": Figure(theme, "wasted"),
            "idle": Figure(theme, "idle"),
        }
        self._head = Figures(*self._figures.values())
        box.addWidget(self._head)
        self._parts = Parts(theme)
        box.addWidget(self._parts)
        self._trouble = words("", theme=theme, token="bad")
        self._trouble.hide()
        box.addWidget(self._trouble)
        self._buttons = QButtonGroup(self)
        chooser = QHBoxLayout()
        for by, text in _BY.items():
            button = QToolButton()
            button.setText(text)
            button.setCheckable(True)
            button.setChecked(by == self._by)
            button.setAccessibleName(f"Money by {by}")
            button.clicked.connect(partial(self._choose, by))
            self._buttons.addButton(button)
            chooser.addWidget(button)
        chooser.addStretch(1)
        self._copy = QToolButton()
        self._copy.setText("Copy as CSV")
        self._copy.clicked.connect(self.copy)
        chooser.addWidget(self._copy)
        box.addLayout(chooser)
        self.table = QTableView()
        self.table.setHorizontalHeader(SortHead(self.table))
        self.table.setModel(self.model)
        self.table.setAccessibleName("Money")
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setShowGrid(False)
        self.table.verticalHeader().hide()
        self.table.setWordWrap(False)
        self.table.setTabKeyNavigation(False)
        self.table.setSortingEnabled(True)
        self.table.sortByColumn(1, Qt.SortOrder.DescendingOrder)
        self.table.setItemDelegateForColumn(PARTS, PartsDelegate(desk.theme, self.model, self))
        self.table.activated.connect(self._open)
        self.table.selectionModel().selectionChanged.connect(self._selected)
        box.addWidget(self.table, 1)
        self.again = AskAgain(self, _EVERY_MS, self._ask, self._offline)
        when_seen(desk.theme, self, self._restyle)
        self._restyle()

    # -- what is asked --

    def look(self) -> None:
        """Follows the jobs, for their names and forecasts."""
        self.desk.client.look(self.looker, jobs=True)

    def refresh(self) -> None:
        """Asks anew."""
        self.again.soon()

    def action_context(self) -> ActionContext:
        """Jobs whose lines are selected."""
        jobs = [
            int(line.key[1:]) for line in self._lines() if line.key[:1] == "J" and line.key[1:].isdecimal()
        ]
        return ActionContext("jobs", tuple(jobs)) if jobs and self._by == "job" else ActionContext()

    def _lines(self) -> list[SpendLine]:
        rows = self.table.selectionModel().selectedRows()
        return [self.model.lines[index.row()] for index in rows]

    def _choose(self, by: str) -> None:
        self._by = by
        self.desk.settings.set(_CHOSEN, by)
        self.again.soon()

    def _ask(self) -> None:
        by = self._by
        self.again.ask(SpendReq, partial(self._spent, by), self._failed, reply=SpendReply, by=by)
        self.again.ask(StatusReq, self._status, self._failed, reply=StatusReply)

    def _offline(self) -> None:
        if not self.model.lines:
            self._say("The farm cannot be asked just now; figures come when it is back.")

    def _failed(self, error: OvercrankError) -> None:
        self._say(f"{error.message}\n{error.hint}" if error.hint else error.message)

    def _say(self, text: str) -> None:
        self._trouble.setText(text)
        self._trouble.setVisible(bool(text))

    def _status(self, status: StatusReply) -> None:
        self._figures["burn"].set(price_text(status.burn_nano_h), money_text(status.burn_nano_h))

    def _spent(self, by: str, reply: SpendReply) -> None:
        if by != self._by:
            return
        self._say("" if reply.lines else "Nothing has been spent yet.")
        names = self._names(by, reply)
        self.model.put(reply.lines, _BY[by][:-1], names)
        total = reply.total
        self._figures["total"].set(price_text(total.total_nano), money_text(total.total_nano))
        for word, nano in (("waste", total.waste_nano), ("idle", total.idle_nano)):
            share = f" ({nano / total.total_nano:.0%})" if total.total_nano else ""
            self._figures[word].set(price_text(nano) + share, money_text(nano))
        low, high, unknown = self.ahead()
        tip = f"{unknown} jobs of which nothing is known are not in it" if unknown else ""
        self._figures["ahead"].set(_range_text(low, high), tip)
        self._head.fit()
        self._fit()
        self._parts.set(
            [
                (total.useful_nano, "good", "useful"),
                (total.waste_nano, "bad", "waste"),
                (total.idle_nano, "dim", "idle"),
            ]
        )

    def _names(self, by: str, reply: SpendReply) -> dict[str, str]:
        if by != "job":
            return {}
        jobs = self.desk.client.store.jobs
        names = jobs.values("name")
        found = {}
        for line in reply.lines:
            if (
                line.key[:1] == "J"
                and line.key[1:].isdecimal()
                and (slot := jobs.slot(int(line.key[1:]))) >= 0
            ):
                found[line.key] = names[slot]
        return found

    def ahead(self) -> tuple[int, int, int]:
        """What the jobs at hand will still cost: least, most, and how many jobs nothing is known of.

        Each job's forecast is of its whole cost, so what it has cost already is taken off.
        """
        jobs = self.desk.client.store.jobs
        slots = jobs.slots()
        open_ = slots[(jobs.numbers("ended_us")[slots] == 0) & ~jobs.numbers("archived")[slots]]
        spent = jobs.numbers("spend_nano")[open_]
        low, high = jobs.numbers("cost_low_nano")[open_], jobs.numbers("cost_high_nano")[open_]
        known = (low != MISSING) & (high != MISSING)
        least = int(np.maximum(low[known] - spent[known], 0).sum())
        most = int(np.maximum(high[known] - spent[known], 0).sum())
        return least, most, int((~known).sum())

    # -- gestures --

    def _open(self, index: QModelIndex) -> None:
        job = _job_of(self.model.lines[index.row()].key) if self._by == "job" else 0
        if job:
            self.desk.focus.set_job(job)
            self.desk.focus.show("job")

    def _selected(self, selected: QItemSelection, left: QItemSelection) -> None:
        found = self.action_context().jobs
        if len(found) == 1:
            self.desk.focus.set_job(found[0])

    def copy(self) -> None:
        """Puts the selected lines, else all, into the clipboard; exact amounts."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([self._by, "total_usd", "useful_usd", "waste_usd", "idle_usd", "busy_s", "frames"])
        for line in self._lines() or self.model.lines:
            amounts = (line.total_nano, line.useful_nano, line.waste_nano, line.idle_nano)
            exact = [money_text(amount).removesuffix(" USD") for amount in amounts]
            writer.writerow([line.key, *exact, f"{line.busy_s:.3f}", line.frames])
        QGuiApplication.clipboard().setText(out.getvalue())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Copies."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
            return
        super().keyPressEvent(event)

    def _fit(self) -> None:
        """Gives amounts the room they take; a column only grows: none must jump while figures change."""
        table, edge = self.table, self.desk.theme.em(0.8)
        metrics = table.fontMetrics()
        for column in range(1, self.model.columnCount()):
            if column == PARTS:
                continue
            rows = range(min(self.model.rowCount(), _FITTED))
            texts = (str(self.model.index(row, column).data() or "") for row in rows)
            need = max((metrics.horizontalAdvance(text) + edge for text in texts), default=0)
            if need > table.columnWidth(column):
                table.setColumnWidth(column, need)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """What the money is for has what the amounts leave."""
        super().resizeEvent(event)
        self._share()

    def _share(self) -> None:
        """Names are never squeezed away: where there is no room for all amounts, they are scrolled to."""
        taken = sum(self.table.columnWidth(column) for column in range(1, self.model.columnCount()))
        room = self.table.viewport().width() - taken
        self.table.setColumnWidth(0, max(self.desk.theme.em(10), room))

    def _restyle(self) -> None:
        theme = self.desk.theme
        self.table.verticalHeader().setDefaultSectionSize(theme.row_height())
        head = self.table.horizontalHeader()
        head.setSectionResizeMode(0, QHeaderView.ResizeMode.Fixed)
        head.setHighlightSections(False)
        for column in range(1, self.model.columnCount()):
            head.setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
            wide = theme.em(7) if column == PARTS else head.sectionSizeHint(column)
            self.table.setColumnWidth(column, wide)
        self._fit()
        for figure in self._figures.values():
            figure.restyle()
        self._head.fit()
        self._share()
        self._parts.update()
        self.table.viewport().update()


def _job_of(key: str) -> int:
    """The number of the job a line is about, 0 when it is none's."""
    return int(key[1:]) if key[:1] == "J" and key[1:].isdecimal() else 0


def _range_text(low: int, high: int) -> str:
    least, most = price_text(low), price_text(high)
    if least == most:
        return least
    return f"{least.removesuffix(' USD')}–{most}"
