"""The Log dock: what an attempt printed, opened where it matters.

What belongs here: which log is shown (the attempts of what is looked at, as tabs), what is said when there is
none, and what can be done with it.  What may not: reading a log (``log_parts``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

import msgspec
from PySide6.QtCore import QSize, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.desk import Desk
from client_gui.settings import Setting
from client_gui.store.activity import Level as Told
from client_gui.store.attempts import address_of, cause_of, frame_of, is_running, state_of, words_of
from client_gui.store.columns import step_address
from client_gui.store.farmstore import FarmChange
from client_gui.style.lazily import when_seen
from client_gui.views.keyedview import KeyedView
from client_gui.views.log_parts.bars import CauseBar
from client_gui.views.log_parts.because import Because
from client_gui.views.log_parts.deeds import FIGURES, LogDeeds
from client_gui.views.log_parts.document import LogDocument, LogId
from client_gui.views.log_parts.head import LogHead
from client_gui.views.log_parts.keys import HANDLED, KEYS, OF_LINES
from client_gui.views.log_parts.reader import LogReader
from client_gui.views.log_parts.versions import Versions
from client_gui.views.log_parts.words import LogStanding, instead_of_log
from farm.model.errors import FarmUnreachable, OvercrankError
from farm.protocol.client import AttemptRow, AttemptsReply, AttemptsReq, StepRow

WRAP: Final = Setting("log/wrap", False)
#: Most attempts that become tabs.
_TABS: Final = 30
#: Logs kept open beside the one that is shown, so that going back shows it at once, without a connection too.
_KEPT: Final = 4
#: After a change of the farm, before the attempts are asked for anew.
_SOON_MS: Final = 300


class LogView(KeyedView):
    """What an attempt printed."""

    name = "log"
    title = "Log"
    own_keys: ClassVar[Mapping[str, str]] = KEYS
    kept_keys: ClassVar[frozenset[str]] = OF_LINES

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._target: tuple[int, str, int] = (0, "", -1)
        self._asking = 0
        self._loaded = False
        self._trouble: OvercrankError | None = None
        self._documents: dict[LogId, LogDocument] = {}
        theme = desk.theme
        self.head = head = LogHead(theme)
        self.tabs, self.follow, self.wrap = head.tabs, head.follow, head.wrap
        self.cause = CauseBar(theme)
        self.cause.hide()
        self.versions = Versions(desk.client, self)
        self.versions.missing.connect(lambda why: self.desk.notices.say(why, Told.WARNING))
        self.because = Because(desk, self.cause, self)
        self.reader = LogReader(theme)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(head)
        box.addWidget(self.cause)
        box.addWidget(self.reader, 1)
        # After the widgets: a menu that a view has before them cuts them off from the order of Tab.
        self.deeds = LogDeeds(desk, self.reader, self._others, self.act, self)
        head.more.setMenu(self.deeds.menu)
        self.setFocusProxy(self.reader.pane)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MS)
        self._soon.timeout.connect(self._ask)
        self.tabs.currentChanged.connect(self._turned)
        head.errors.clicked.connect(partial(self.act, "error-previous"))
        head.next_error.clicked.connect(partial(self.act, "error-next"))
        self.follow.clicked.connect(self.reader.toggle_follow)
        self.wrap.toggled.connect(self._wrapped)
        head.find_button.clicked.connect(partial(self.act, "find"))
        self.cause.wanted.connect(self._help)
        self.because.known.connect(self._show)
        self.reader.stood.connect(self._stood)
        self.reader.said.connect(
            lambda text, bad: self.desk.notices.say(text, Told.WARNING if bad else Told.INFO)
        )
        self.reader.pane.followed.connect(self.follow.setChecked)
        self.reader.pane.menu_wanted.connect(self.deeds.open_menu)
        self.wrap.setChecked(desk.settings.get(WRAP))
        desk.focus.unit_changed.connect(self._focus_changed)
        when_seen(desk.theme, self, self._restyle)
        desk.client.stood.connect(self._connection)
        self.destroyed.connect(partial(_close_all, self._documents))
        for action in HANDLED:
            desk.actions.handle(action, partial(self._handle, action), self)
        self._restyle()
        self._show()

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
        return self.tabs.row

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
            self.versions.give_up()
            self._loaded, self._trouble = False, None
            self._fill_tabs((), None)
            self._ask()
        elif not self._loaded:
            self._ask()
        elif focus.attempt:
            self.tabs.choose(focus.attempt)
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
        newest = self.tabs.at_newest
        first = not self._loaded
        self._loaded, self._trouble = True, None
        wanted = self.desk.focus.attempt if first else 0
        # A new attempt is shown when the newest was, and nobody is reading further up.
        if not wanted and before is not None and not (newest and not self.reader.pane.touched):
            wanted = before.no
        self._fill_tabs(sorted(reply.attempts, key=lambda row: row.no), wanted or None)
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
        if self.on:
            self._show()  # what can be done about it depends on the connection, too

    # -- attempts --

    def _fill_tabs(self, rows: Sequence[AttemptRow], wanted: int | None) -> None:
        self.tabs.fill(rows, wanted, frames=self._target[2] < 0)
        self._show_log()

    def _turned(self, place: int) -> None:
        row = self.attempt
        if row is not None:
            focus = self.desk.focus
            if (focus.job, focus.step, focus.unit) == self._target:
                focus.set_unit(focus.step, focus.unit, row.no)
        self._show_log()
        self._show()

    def _document(self, row: AttemptRow, job: int = 0) -> LogDocument:
        log = LogId(job or self._target[0], self._target[1], row.no)
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

    def _ask_why(self, row: AttemptRow) -> None:
        job, step, unit = self._target
        wanted = state_of(row) == "failed" and unit >= 0
        self.because.ask((f"J{job}/{step}", row.no), self._address() if wanted else None)

    def _help(self, action: str) -> None:
        if action == "why":
            self.desk.focus.show("why")
        else:
            self.desk.actions.run(action, self.action_context())

    # -- what is said --

    def _show(self) -> None:
        row = self.attempt
        if row is not None and self.because.reason and len(words_of(row)) > 1:
            row = msgspec.structs.replace(row, reason=self.because.reason)
        cause = cause_of(row) if row is not None else ""
        if row is not None and cause:
            self.cause.say(
                cause, self.because.cure, self.desk.actions.why_not("retry", self.action_context())
            )
        self.cause.setVisible(bool(cause))
        if self.reader.comparing is None:
            self.reader.show_message(self._message())
        self.head.set_there(self.reader.document is not None)

    def _message(self) -> str:
        """What is said in place of a log, "" when there is one."""
        job, step, _ = self._target
        row, document = self.attempt, self.reader.document
        if job and step and document is not None and document.map.rows:
            return ""
        return instead_of_log(
            LogStanding(
                job,
                step,
                self._address() or f"J{job}/{step}",
                self._trouble or (document.trouble if document is not None else None),
                self._loaded,
                self.desk.client.live,
                row.no if row is not None and document is not None else None,
                row is not None and is_running(row),
                document is not None and document.asked,
                document is not None and document.ended and not document.shrunk,
            )
        )

    def _stood(self) -> None:
        document = self.reader.document
        errors, warnings = self.reader.counts()
        self.head.say_errors(errors, warnings, comparing=self.reader.comparing is not None)
        if document is not None and document.shrunk:
            self.desk.notices.say(
                f"the farm has no more of the log {document.log}; what was read stays shown"
            )
            document.shrunk = False
        self._show()

    def _restyle(self) -> None:
        self.head.restyle()
        self.cause.restyle()
        self.reader.restyle()

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

    def _others(self) -> list[tuple[str, Callable[[], object]]]:
        """Logs this one can be compared with: other attempts, the same frame in other versions."""
        job, _, unit = self._target
        versions = self.versions.offers(job) if unit >= 0 and self.attempt is not None else []
        return [
            *((text, partial(self.compare_with, number)) for text, number in self.tabs.others()),
            *((text, partial(self.compare_with_job, number)) for text, number in versions),
        ]

    def compare_with(self, number: int) -> None:
        """Shows what this log has that the one of another attempt has not."""
        other = self.tabs.attempt_of(number)
        if other is not None:
            self._compare(self._target[0], other)

    def compare_with_job(self, job: int) -> None:
        """Shows what this log has that the newest one of the same frame in another job has not."""
        _, step, unit = self._target
        self.versions.find(job, step, frame_of(self._step(), unit), partial(self._compare, job))

    def _compare(self, job: int, other: AttemptRow) -> None:
        if self.reader.document is not None:
            self.reader.compare(self._document(other, job), figures=self.desk.settings.get(FIGURES))
            self.reader.pane.setFocus()

    # -- keys --

    def meant(self, keys: str) -> str:
        """The action of a key, "" for none; one that somebody gave to something else means nothing here."""
        action = super().meant(keys)
        mine = action not in HANDLED or keys in self.desk.actions.keymap.keys(action)
        return action if mine else ""

    def _handle(self, action: str, context: ActionContext, value: str) -> None:
        self.act(action)


def _close_all(documents: dict[LogId, LogDocument]) -> None:
    """Removes what was spooled; called when the view is gone."""
    for document in documents.values():
        document.close()
