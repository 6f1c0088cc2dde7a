"""The tab of history: who changed what when and why, and the attempts of the frame or step that is looked at.

What belongs here: asking for both page by page, and showing them.  What may not: logs (an attempt that is
chosen is looked at by all docks).
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtGui import QPalette, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QSplitter, QVBoxLayout, QWidget

from client_gui.style.lazily import when_seen
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.frameset import many
from client_gui.views.job_parts.remembered import remember_shares
from client_gui.views.job_parts.tables import PlainTable, RowModel, TableColumn
from farm.model.errors import OvercrankError
from farm.protocol.client import AttemptsReply, AttemptsReq, HistoryReply, HistoryReq
from farm.protocol.rows import AttemptRow, HistoryRow
from farm.sdk.filters import read_frames
from farm.sdk.words import NOTHING, duration_text, price_text, time_text

#: Changes in a page.
PAGE: Final = 200
#: How long changes of the job are gathered before its history is asked for again.
AGAIN_MS: Final = 1000
#: Attempts that are asked for.
ATTEMPTS: Final = 200


def change_words(row: HistoryRow) -> str:
    """From what to what."""
    if row.old and row.new:
        return f"{row.old} → {row.new}"
    return row.new or (f"{row.old} → {NOTHING}" if row.old else "")


CHANGES: Final = (
    TableColumn("When", lambda row: time_text(row.at_us), sample="2026-11-30 12:00"),
    TableColumn("Who", lambda row: row.who or "farm", sample="anastasia"),
    TableColumn("What", lambda row: row.what, sample="J12/beauty/1001-1020"),
    TableColumn("Change", change_words, sample="running → canceled"),
    TableColumn("Why", lambda row: row.reason, sample="0" * 30),
)


def _took(row: AttemptRow) -> str:
    if not row.started_us or not row.ended_us:
        return NOTHING
    return duration_text((row.ended_us - row.started_us) / 1e6)


TRIES: Final = (
    TableColumn("No", lambda row: str(row.no), right=True, sample="0000"),
    TableColumn("Frames", lambda row: row.frames or row.step, sample="1001-1020"),
    TableColumn("Node", lambda row: row.node, sample="rack-0000-gpu"),
    TableColumn("Kind", lambda row: row.kind, sample="render"),
    TableColumn("Outcome", lambda row: row.outcome or "running", sample="canceled"),
    TableColumn("Start", lambda row: time_text(row.started_us), sample="2026-11-30 12:00"),
    TableColumn("Took", _took, right=True, sample="00 m 00 s"),
    TableColumn("Cost", lambda row: price_text(row.charge_nano), right=True, sample="0.00000 USD"),
    TableColumn(
        "Waste",
        lambda row: price_text(row.waste_nano) if row.waste_nano else NOTHING,
        right=True,
        sample="0.00000 USD",
    ),
    TableColumn("Why", lambda row: row.reason, sample="0" * 30),
)


class HistoryTab(QWidget):
    """What happened to the job."""

    def __init__(self, board: JobBoard, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board = board
        self._theme = board.desk.theme
        self.changes = RowModel(CHANGES, self)
        self.tries = RowModel(TRIES, self)
        self.table = PlainTable(self._theme, self.changes, "History")
        self.attempts = PlainTable(self._theme, self.tries, "Attempts")
        for table, name in ((self.table, "history"), (self.attempts, "attempts")):
            table.remember(board.desk.settings, f"job/{name}")
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter: words of who, what, why")
        self.filter.setAccessibleName("Filter of the history")
        self.filter.setClearButtonEnabled(True)
        self._note, self._head = QLabel(), QLabel()
        self._rows: list[HistoryRow] = []
        self._job = 0
        self._asked = 0
        self._complete = False
        self._trouble = ""
        self._about = ""
        self._tries_asked = 0
        upper, lower = QWidget(), QWidget()
        box = QVBoxLayout(upper)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        bar = QHBoxLayout()
        self._bar = bar
        bar.addWidget(self.filter, 1)
        bar.addWidget(self._note)
        box.addLayout(bar)
        box.addWidget(self.table, 1)
        box = QVBoxLayout(lower)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self._head)
        box.addWidget(self.attempts, 1)
        both = QSplitter(Qt.Orientation.Vertical)
        both.addWidget(upper)
        both.addWidget(lower)
        both.setChildrenCollapsible(False)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(both)
        self.splitter = both
        remember_shares(both, self._board.desk.settings, "job/history_parts")
        self._again = QTimer(self)
        self._again.setSingleShot(True)
        self._again.setInterval(AGAIN_MS)
        self._again.timeout.connect(self._newest)
        self.filter.textChanged.connect(self._show)
        self.table.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.attempts.selectionModel().currentRowChanged.connect(self._chosen)
        board.row_changed.connect(self._changed)
        board.picked.moved.connect(self._follow)
        board.step_changed.connect(self._follow)
        board.desk.focus.unit_changed.connect(self._follow)
        when_seen(self._theme, self, self._restyle)
        for label in (self._note, self._head):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._restyle()

    def _restyle(self) -> None:
        theme = self._theme
        self._bar.setContentsMargins(theme.em(0.5), theme.em(0.2), theme.em(0.5), theme.em(0.2))
        self._bar.setSpacing(theme.em(0.5))
        self._head.setContentsMargins(theme.em(0.5), theme.em(0.2), theme.em(0.5), theme.em(0.2))
        self._note.setFont(theme.font(small=True))
        self._head.setFont(theme.font(bold=True, small=True))
        for label, token in ((self._note, "dim"), (self._head, "text")):
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, theme.colour(token))
            label.setPalette(palette)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Asks for what is not known yet."""
        super().showEvent(event)
        self.refresh()

    def refresh(self) -> None:
        """Puts itself right for the job that is looked at."""
        if self._board.job != self._job:
            self._job = self._board.job
            if self._asked:
                self._board.desk.client.forget(self._asked)
            self._rows, self._asked, self._complete, self._trouble = [], 0, False, ""
            self._show()
        if self.isVisible():
            self._newest()
            self._follow()

    # -- changes --

    def _changed(self) -> None:
        if self._board.job != self._job:
            self.refresh()
        elif self.isVisible() and not self._again.isActive():
            self._again.start()

    def _newest(self) -> None:
        if self.isVisible():
            self._ask(0)

    def _ask(self, before_us: int) -> None:
        client = self._board.desk.client
        if not self._job or self._asked or not client.live:
            self._show()
            return
        job = self._job

        def then(reply: HistoryReply) -> None:
            self._asked = 0
            if job == self._job:
                self._take(reply.rows, before_us)

        def failed(error: OvercrankError) -> None:
            self._asked = 0
            self._trouble = error.message
            self._show()

        self._asked = client.ask(
            HistoryReq, self, then, failed, reply=HistoryReply, job=job, before_us=before_us, limit=PAGE
        )
        self._show()

    def _take(self, rows: tuple[HistoryRow, ...], before_us: int) -> None:
        self._trouble = ""
        known = set(map(_key, self._rows))
        fresh = [row for row in rows if _key(row) not in known]
        if before_us:
            self._rows += fresh
        elif self._rows and len(fresh) == len(rows) == PAGE:
            # More happened than a page holds: what lies between is asked for when it is scrolled to.
            self._rows, self._complete = list(rows), False
        else:
            self._rows = fresh + self._rows
        # Rows of one moment may be on both sides of a page's end: the next page begins with it again.
        if (len(rows) < PAGE and (before_us or not known)) or (before_us and not fresh):
            self._complete = True
        self._show()

    def _scrolled(self, value: int) -> None:
        bar = self.table.verticalScrollBar()
        if value >= bar.maximum() - 10:
            self._more()

    def _more(self) -> None:
        if self._rows and not self._complete and not self._asked:
            self._ask(self._rows[-1].at_us + 1)

    def _show(self) -> None:
        words = self.filter.text().casefold().split()
        shown = [row for row in self._rows if _fits(row, words)] if words else self._rows
        seen: dict[Any, int] = {}
        keyed = []
        for row in shown:
            key = _key(row)
            seen[key] = seen.get(key, 0) + 1
            keyed.append(((self._job, key, seen[key]), row))
        self.changes.put(keyed)
        self._note.setText(self._note_text(len(shown)))
        if words and self._rows and not self._complete and len(shown) < PAGE // 10 and not self._asked:
            # A filter that leaves little looks further back by itself.
            QTimer.singleShot(0, self, self._more)

    def _note_text(self, shown: int) -> str:
        if not self._job:
            return "No job is chosen."
        if self._trouble:
            return f"did not come: {self._trouble}"
        if not self._rows:
            return (
                "loading…"
                if self._asked
                else "nothing has happened yet"
                if self._complete
                else "not asked yet"
            )
        more = "" if self._complete else ", older ones as you scroll"
        of = f" of {len(self._rows):,}" if shown != len(self._rows) else ""
        return f"{shown:,}{of} {'change' if shown == 1 and not of else 'changes'}{more}"

    # -- attempts --

    def _follow(self) -> None:
        """Attempts of the frame that is looked at, else of the step."""
        if not self.isVisible():
            return
        board = self._board
        frames = board.current
        if frames is None:
            self._about = ""
            self.tries.put(())
            self._head.setText("No step is chosen.")
            return
        focus = board.desk.focus
        unit = focus.unit if focus.step == frames.step and focus.unit >= 0 else -1
        text = frames.text([unit]) if unit >= 0 and frames.range is not None else ""
        about = f"{frames.address}/{text}" if text else frames.address
        if about == self._about:
            return
        self._about = about
        self._ask_tries()

    def _ask_tries(self) -> None:
        client = self._board.desk.client
        if self._tries_asked:
            client.forget(self._tries_asked)
            self._tries_asked = 0
        about = self._about
        if not client.live:
            self._head.setText(f"Attempts of {about}: the farm cannot be asked just now")
            return
        self._head.setText(f"Attempts of {about}: loading…")

        def then(reply: AttemptsReply) -> None:
            self._tries_asked = 0
            if about != self._about:
                return
            self.tries.put([(row.attempt, row) for row in reply.attempts])
            count = len(reply.attempts)
            newest = ", the newest" if count >= ATTEMPTS else ""
            self._head.setText(f"{many(count, 'attempt')} of {about}{newest}")
            self._choose_current()

        def failed(error: OvercrankError) -> None:
            self._tries_asked = 0
            self._head.setText(f"Attempts of {about} did not come: {error.message}")

        self._tries_asked = client.ask(
            AttemptsReq, self, then, failed, reply=AttemptsReply, address=about, limit=ATTEMPTS
        )

    def states_changed(self, step: str, units: Any) -> None:
        """Attempts may have begun or ended."""
        if step == self._board.step and self.isVisible() and self._about:
            unit = self._board.desk.focus.unit
            whole = self._about.count("/") < 2
            if whole or units is None or unit in units:
                self._ask_tries()

    def _choose_current(self) -> None:
        number = self._board.desk.focus.attempt
        row = next((place for place, (_, one) in enumerate(self.tries.rows) if one.no == number), -1)
        if number and row >= 0:
            self.attempts.setCurrentIndex(self.tries.index(row, 0))

    def _chosen(self, current: QModelIndex) -> None:
        if not current.isValid() or not self.attempts.hasFocus():
            return
        row: AttemptRow = self.tries.row(current.row())
        frames = self._board.frames.get(row.step)
        focus = self._board.desk.focus
        if frames is None:
            return
        unit = (
            focus.unit if focus.step == row.step and self._about.count("/") >= 2 else first_unit(frames, row)
        )
        focus.set_unit(row.step, unit, row.no)


def first_unit(frames: Any, row: AttemptRow) -> int:
    """The first unit of an attempt, -1 when it cannot be told."""
    if frames.range is None:
        return 0 if frames.units == 1 else -1
    held = read_frames(row.frames) if row.frames else None
    return int(frames.unit_of(held.first)) if held is not None and len(held) else -1


def _key(row: HistoryRow) -> tuple[int, str, str, str, str, str]:
    return (row.at_us, row.what, row.old, row.new, row.who, row.reason)


def _fits(row: HistoryRow, words: list[str]) -> bool:
    text = f"{row.who or 'farm'} {row.what} {row.old} {row.new} {row.reason}".casefold()
    return all(word in text for word in words)
