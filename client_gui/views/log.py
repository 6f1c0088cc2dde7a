"""The Log dock: what an attempt printed, opened where it matters.

Longer than most: every state in which there is no log has its own words here.

What belongs here: which log is shown (the attempts of what is looked at, as tabs), what is said when there is
none, and what can be done with it.  What may not: reading a log (``log_parts``).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QHideEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QHBoxLayout, QTabBar, QToolButton, QVBoxLayout, QWidget

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.desk import Desk
from client_gui.settings import Setting
from client_gui.store.activity import Level as Told
from client_gui.store.attempts import address_of, cause_of, frame_of, is_running, label_of, state_of
from client_gui.store.columns import step_address
from client_gui.store.farmstore import FarmChange
from client_gui.style.glyphs import icon, state_icon
from client_gui.views.base import View
from client_gui.views.log_parts.bars import CauseBar, redraw, tool
from client_gui.views.log_parts.deeds import FIGURES, LogDeeds
from client_gui.views.log_parts.document import LogDocument, LogId
from client_gui.views.log_parts.reader import LogReader
from farm.model.errors import Denied, FarmUnreachable, OvercrankError
from farm.protocol.client import AttemptRow, AttemptsReply, AttemptsReq, StepRow, WhyReply, WhyReq

WRAP: Final = Setting("log/wrap", False)
#: Most attempts that become tabs.
_TABS: Final = 30
#: Logs kept open beside the one that is shown, so that going back shows it at once, without a connection too.
_KEPT: Final = 4
#: After a change of the farm, before the attempts are asked for anew.
_SOON_MS: Final = 300

#: Keys of this view and the action each means; said to the window as its own, so that no shortcut takes them.
_KEYS: Final[dict[str, str]] = {
    "Ctrl+F": "find",
    "F3": "find-next",
    "Shift+F3": "find-previous",
    "Ctrl+G": "go-to-line",
    "F8": "error-next",
    "Shift+F8": "error-previous",
    ",": "attempt-previous",
    ".": "attempt-next",
    "/": "find",
    "Ctrl+S": "save",
    "Ctrl+Shift+C": "copy-command",
    "Esc": "close",
}
#: Actions of the window that this view does while it has the focus.
_HANDLED: Final = (
    *("find", "select-all", "attempt-previous", "attempt-next", "error-next", "error-previous"),
)
#: Keys of the lines themselves.
_OF_LINES: Final = frozenset(
    {"Ctrl+A", "Ctrl+C", "Home", "End", "PgUp", "PgDown", "Up", "Down", "Left", "Right"}
)


class LogView(View):
    """What an attempt printed."""

    name = "log"
    title = "Log"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._target: tuple[int, str, int] = (0, "", -1)
        self._attempts: list[AttemptRow] = []
        self._asking = 0
        self._loaded = False
        self._trouble: OvercrankError | None = None
        self._cure = ""
        self._why: tuple[str, int] = ("", 0)
        self._documents: dict[LogId, LogDocument] = {}
        theme = desk.theme
        self.tabs = QTabBar()
        self.tabs.setAccessibleName("Attempts")
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setElideMode(Qt.TextElideMode.ElideRight)
        self.errors = tool(theme, "up", "Previous error", keys="Shift+F8")
        self.next_error = tool(theme, "down", "Next error", text="0", keys="F8")
        self.follow = tool(theme, "last", "Follow the end", check=True, text="Follow", keys="End")
        self.wrap = tool(theme, "", "Break long lines", check=True, text="Wrap")
        self.find_button = tool(theme, "find", "Find", keys="Ctrl+F")
        self.more = tool(theme, "more", "More")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.cause = CauseBar(theme)
        self.cause.hide()
        self.reader = LogReader(theme)
        self.deeds = LogDeeds(desk, self.reader, self._others, self.compare_with, self.act, self)
        self.more.setMenu(self.deeds.menu)
        self._lay_out()
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MS)
        self._soon.timeout.connect(self._ask)
        self.tabs.currentChanged.connect(self._turned)
        self.errors.clicked.connect(partial(self.act, "error-previous"))
        self.next_error.clicked.connect(partial(self.act, "error-next"))
        self.follow.clicked.connect(self.reader.toggle_follow)
        self.wrap.toggled.connect(self._wrapped)
        self.find_button.clicked.connect(partial(self.act, "find"))
        self.cause.wanted.connect(self._help)
        self.reader.stood.connect(self._stood)
        self.reader.said.connect(
            lambda text, bad: self.desk.notices.say(text, Told.WARNING if bad else Told.INFO)
        )
        self.reader.pane.followed.connect(self.follow.setChecked)
        self.reader.pane.menu_wanted.connect(self.deeds.open_menu)
        self.wrap.setChecked(desk.settings.get(WRAP))
        desk.focus.unit_changed.connect(self._focus_changed)
        desk.theme.changed.connect(self._restyle)
        desk.client.stood.connect(self._connection)
        self.destroyed.connect(partial(_close_all, self._documents))
        for action in _HANDLED:
            desk.actions.handle(action, partial(self._handle, action), self)
        self._restyle()
        self._show()

    def _lay_out(self) -> None:
        theme = self.desk.theme
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        head = QHBoxLayout()
        head.setContentsMargins(theme.em(0.3), theme.em(0.15), theme.em(0.3), theme.em(0.15))
        head.setSpacing(theme.em(0.15))
        head.addWidget(self.tabs, 1)
        for button in (self.errors, self.next_error, self.follow, self.wrap, self.find_button, self.more):
            head.addWidget(button)
        box.addLayout(head)
        box.addWidget(self.cause)
        box.addWidget(self.reader, 1)
        self.setFocusProxy(self.reader.pane)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for some lines."""
        return QSize(self.desk.theme.em(40), self.desk.theme.em(16))

    # -- what is looked at --

    def look(self) -> None:
        """Follows the job that is looked at."""
        job = self.desk.focus.job
        self.desk.client.look(self.looker, opened=frozenset({job}) if job else frozenset())

    def refresh(self) -> None:
        """Shows what is looked at."""
        self._focus_changed()
        if self.reader.document is not None:
            self.reader.document.open(at_end=True)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Fetches nothing any more."""
        super().hideEvent(event)
        self._soon.stop()
        if self.reader.document is not None:
            self.reader.document.pause()

    def action_context(self) -> ActionContext:
        """The frames of the attempt that is shown."""
        job, step, unit = self._target
        row = self.attempt
        if not job or not step:
            return ActionContext("jobs", jobs=(job,)) if job else ActionContext()
        units: tuple[int, ...] = (unit,) if unit >= 0 else ()
        frame = frame_of(self._step(), unit)
        frames = "" if frame is None else str(frame)
        if not frames and row is not None:
            frames = row.frames
        return ActionContext("frames", units=(UnitsOf(job, step, units, frames, frozenset({"failed"})),))

    @property
    def attempt(self) -> AttemptRow | None:
        """The attempt that is shown."""
        place = self.tabs.currentIndex()
        return self._attempts[place] if 0 <= place < len(self._attempts) else None

    def _step(self) -> StepRow | None:
        job, step, _ = self._target
        return next((row for row in self.desk.client.store.steps_of(job) if row.name == step), None)

    def _address(self) -> str | None:
        """What attempts are asked of, None while that is not known."""
        job, step, unit = self._target
        row = self._step()
        if unit >= 0 and row is None:
            return None
        return address_of(job, step, frame_of(row, unit))

    def _focus_changed(self) -> None:
        if not self.on:
            return
        focus = self.desk.focus
        self.look()
        target = (focus.job, focus.step, focus.unit)
        if target != self._target:
            self._target = target
            self._attempts, self._loaded, self._trouble = [], False, None
            self._fill_tabs(None)
            self._ask()
        elif not self._loaded:
            self._ask()
        elif focus.attempt:
            self._choose(focus.attempt)
        self._show()

    def farm_changed(self, change: FarmChange) -> None:
        """The step moved on: there may be a new attempt, or one has ended."""
        job, step, unit = self._target
        if not step:
            return
        address = step_address(job, step)
        moved = change.maps.get(address)
        touched = moved is not None and (moved.whole or unit < 0 or unit in moved.units)
        if (touched or (not self._loaded and change.jobs)) and not self._soon.isActive():
            self._soon.start()

    def _ask(self) -> None:
        _, step, _ = self._target
        address = self._address() if step else None
        if not self.on or address is None:
            return
        if self._asking:
            self.desk.client.forget(self._asking)
        target = self._target
        self._asking = self.desk.client.ask(
            AttemptsReq,
            self,
            lambda reply: self._answered(target, reply),
            lambda error: self._refused(target, error),
            reply=AttemptsReply,
            address=address,
            limit=_TABS,
        )

    def _answered(self, target: tuple[int, str, int], reply: AttemptsReply) -> None:
        self._asking = 0
        if target != self._target:
            return
        before = self.attempt
        newest = bool(self._attempts) and self.tabs.currentIndex() == len(self._attempts) - 1
        first = not self._loaded
        self._loaded, self._trouble = True, None
        self._attempts = sorted(reply.attempts, key=lambda row: row.no)
        wanted = self.desk.focus.attempt if first else 0
        # A new attempt is shown when the newest was, and nobody is reading further up.
        if not wanted and before is not None and not (newest and not self.reader.pane.touched):
            wanted = before.no
        self._fill_tabs(wanted or None)
        self._show()

    def _refused(self, target: tuple[int, str, int], error: OvercrankError) -> None:
        self._asking = 0
        if target == self._target:
            self._trouble = error
            self._show()

    def _connection(self) -> None:
        self.reader.pane.dimmed = not self.desk.client.live
        self.reader.pane.viewport().update()
        if self.on and self.desk.client.live and isinstance(self._trouble, FarmUnreachable):
            self._ask()

    # -- attempts --

    def _fill_tabs(self, wanted: int | None) -> None:
        """Makes the tabs those of the attempts; the newest is chosen unless another is wanted."""
        self.tabs.blockSignals(True)
        while self.tabs.count() > len(self._attempts):
            self.tabs.removeTab(self.tabs.count() - 1)
        count = len(self._attempts)
        for place, row in enumerate(self._attempts):
            text = label_of(row, place + 1, count, frames=self._target[2] < 0)
            if place >= self.tabs.count():
                self.tabs.addTab(text)
            self.tabs.setTabText(place, text)
            self.tabs.setTabIcon(place, state_icon(self.desk.theme, state_of(row)))
            self.tabs.setTabToolTip(place, row.reason)
        chosen = next((n for n, row in enumerate(self._attempts) if row.no == wanted), count - 1)
        self.tabs.setCurrentIndex(chosen)
        self.tabs.blockSignals(False)
        self._show_log()

    def _choose(self, number: int) -> None:
        for place, row in enumerate(self._attempts):
            if row.no == number:
                self.tabs.setCurrentIndex(place)

    def _turned(self, place: int) -> None:
        row = self.attempt
        if row is not None:
            focus = self.desk.focus
            if (focus.job, focus.step, focus.unit) == self._target:
                focus.set_unit(focus.step, focus.unit, row.no)
        self._show_log()
        self._show()

    def _document(self, row: AttemptRow) -> LogDocument:
        log = LogId(self._target[0], self._target[1], row.no)
        document = self._documents.pop(log, None)
        if document is None:
            document = LogDocument(self.desk.client, log, self)
        self._documents[log] = document
        document.running = is_running(row)
        busy = self.reader.comparing
        for old in list(self._documents)[:-_KEPT]:
            kept = self._documents[old]
            if kept is self.reader.document or (busy is not None and kept in (busy.first, busy.second)):
                continue
            del self._documents[old]
            kept.close()
            kept.deleteLater()
        return document

    def _show_log(self) -> None:
        row = self.attempt
        if row is None:
            self.reader.show_document(None)
            return
        state = state_of(row)
        at = {"failed": "error", "running": "end"}.get(state, "top")
        self.reader.show_document(self._document(row), at=at)
        self.follow.setChecked(self.reader.pane.follow)
        self._ask_why(row)

    # -- why --

    def _ask_why(self, row: AttemptRow) -> None:
        """Asks what would cure it; the attempt itself says why it failed."""
        about = (f"J{self._target[0]}/{self._target[1]}", row.no)
        if self._why == about:
            return
        self._why, self._cure = about, ""
        address = self._address()
        if state_of(row) == "failed" and self._target[2] >= 0 and address is not None:
            self.desk.client.ask(
                WhyReq,
                self,
                partial(self._why_is, about),
                lambda error: None,
                reply=WhyReply,
                address=address,
            )

    def _why_is(self, about: tuple[str, int], reply: WhyReply) -> None:
        if about == self._why:
            cures = [cause.cure for found in reply.rows for cause in found.causes if cause.cure]
            self._cure = cures[0] if cures else ""
            self._show()

    def _help(self, action: str) -> None:
        if action == "why":
            self.desk.focus.show("why")
        else:
            self.desk.actions.run(action, self.action_context())

    # -- what is said --

    def _show(self) -> None:
        row = self.attempt
        cause = cause_of(row) if row is not None else ""
        if row is not None and cause:
            self.cause.say(cause, self._cure, self.desk.actions.why_not("retry", self.action_context()))
        self.cause.setVisible(bool(cause))
        if self.reader.comparing is None:
            self.reader.show_message(self._message())
        shown = self.reader.document is not None
        for button in (self.errors, self.next_error, self.follow, self.find_button):
            button.setEnabled(shown)

    def _message(self) -> str:
        """What is said in place of a log, "" when there is one."""
        job, step, _ = self._target
        if not job:
            return "Choose a frame to read what it printed."
        if not step:
            return f"Choose a step or a frame of J{job} to read what it printed."
        document = self.reader.document
        trouble = self._trouble or (document.trouble if document is not None else None)
        if document is not None and document.map.rows:
            return ""
        if isinstance(trouble, Denied):
            return f"You may not read this log: {trouble}"
        if isinstance(trouble, FarmUnreachable):
            return f"The log cannot be fetched: {trouble}\nIt is fetched when the connection is back."
        if trouble is not None:
            return f"The log cannot be shown: {trouble}"
        if not self._loaded and not self.desk.client.live:
            return "There is no connection to the farm, and this log was not read before."
        if not self._loaded:
            return "Looking for attempts …"
        row = self.attempt
        if row is None or document is None:
            where = self._address() or f"J{job}/{step}"
            return (
                f"{where} was not attempted yet, so there is no log.\nThe Why dock tells what it waits for."
            )
        if not document.asked:
            return "Fetching the log …"
        if is_running(row):
            return "Nothing was printed yet. It appears here as soon as the renderer says something."
        if document.ended and not document.shrunk:
            return f"Attempt {row.no} printed nothing."
        return f"The farm has no log of attempt {row.no}: none arrived, or it was deleted with its job."

    def _stood(self) -> None:
        document = self.reader.document
        errors, warnings = self.reader.counts()
        comparing = self.reader.comparing is not None
        self.next_error.setText(
            "" if comparing else f"{errors:,}" if errors or not warnings else f"{warnings:,}"
        )
        word = "difference" if comparing else "error" if errors or not warnings else "warning"
        self.next_error.setAccessibleName(
            f"Next {word}" if comparing else f"Next {word}, {errors or warnings:,}"
        )
        self.next_error.setToolTip(f"Next {word}  (F8)")
        self.errors.setAccessibleName(f"Previous {word}")
        self.errors.setToolTip(f"Previous {word}  (Shift+F8)")
        token = "bad" if errors else "warn" if warnings else "text"
        for button, glyph in ((self.errors, "up"), (self.next_error, "down")):
            button.setIcon(icon(self.desk.theme, glyph, token))
        if document is not None and document.shrunk:
            self.desk.notices.say(
                f"the farm has no more of the log {document.log}; what was read stays shown"
            )
            document.shrunk = False
        self._show()

    def _restyle(self) -> None:
        for button in (self.errors, self.next_error, self.follow, self.wrap, self.find_button, self.more):
            redraw(self.desk.theme, button)
        self.cause.restyle()
        self.reader.restyle()
        for place, row in enumerate(self._attempts):
            self.tabs.setTabIcon(place, state_icon(self.desk.theme, state_of(row)))

    def _wrapped(self, wrap: bool) -> None:
        self.desk.settings.set(WRAP, wrap)
        self.reader.pane.set_wrap(wrap)

    # -- what can be done --

    def act(self, action: str) -> bool:
        """Does something of this view, by its id; whether there is such a thing."""
        reader = self.reader
        step = {"attempt-previous": -1, "attempt-next": 1}.get(action)
        if step is not None:
            place = self.tabs.currentIndex() + step
            if 0 <= place < self.tabs.count():
                self.tabs.setCurrentIndex(place)
        elif action == "find":
            if reader.document is not None:
                reader.open_find()
        elif action in ("find-next", "find-previous"):
            reader.find_bar.step.emit(action == "find-previous")
        elif action in ("error-next", "error-previous"):
            reader.step_error(back=action == "error-previous")
        elif action == "go-to-line":
            reader.open_go()
        elif action == "select-all":
            reader.pane.select_all()
        elif action == "copy-command" and self.deeds.log is not None:
            self.deeds.copy_text(self.deeds.command(), "command")
        elif action in ("copy-id", "copy-path") and self.deeds.log is not None:
            self.deeds.copy_text(f"{self.deeds.log}", "address")
        elif action == "save":
            self.deeds.ask_where()
        elif action == "close":
            return self._close_something()
        else:
            return False
        return True

    def _close_something(self) -> bool:
        reader = self.reader
        if reader.comparing is not None:
            reader.end_compare()
        elif reader.find_bar.isVisible():
            reader.close_find()
        elif reader.go_bar.isVisible():
            reader.go_bar.closed.emit()
        else:
            return False
        return True

    def _others(self) -> list[tuple[str, int]]:
        """Attempts this one can be compared with."""
        row, count = self.attempt, len(self._attempts)
        return [
            (label_of(other, place + 1, count, frames=self._target[2] < 0), other.no)
            for place, other in enumerate(self._attempts)
            if row is not None and other.no != row.no
        ]

    def compare_with(self, number: int) -> None:
        """Shows what this log has that the one of another attempt has not."""
        other = next((row for row in self._attempts if row.no == number), None)
        if other is None or self.reader.document is None:
            return
        self.reader.compare(self._document(other), figures=self.desk.settings.get(FIGURES))
        self.reader.pane.setFocus()

    # -- keys --

    def event(self, event: QEvent) -> bool:
        """Keeps this view's keys from becoming the window's."""
        override = isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride
        if override and isinstance(event, QKeyEvent) and (self._meant(event) or _keys(event) in _OF_LINES):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """This view's keys."""
        action = self._meant(event)
        if not action or not self.act(action):
            super().keyPressEvent(event)

    def _meant(self, event: QKeyEvent) -> str:
        """The action of a key, "" for none; one that somebody gave to something else means nothing here."""
        keys = _keys(event)
        action = _KEYS.get(keys, "")
        mine = action not in _HANDLED or keys in self.desk.actions.keymap.keys(action)
        return action if mine else ""

    def _handle(self, action: str, context: ActionContext, value: str) -> None:
        self.act(action)


def _keys(event: QKeyEvent) -> str:
    return QKeySequence(event.keyCombination()).toString(QKeySequence.SequenceFormat.PortableText)


def _close_all(documents: dict[LogId, LogDocument]) -> None:
    """Removes what was spooled; called when the view is gone."""
    for document in documents.values():
        document.close()
