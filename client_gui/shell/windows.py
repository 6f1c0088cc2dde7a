"""All windows of the client: one farm, one set of settings, a desk for each window.

What belongs here: opening and closing windows, what they share, and ending in order.  What may not: what a
window looks like.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication

from client_gui.actions.book import ActionBook
from client_gui.desk import Desk, Focus
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.settings import WINDOWS, Settings
from client_gui.shell.window import FarmWindow
from client_gui.shell.workspaces import put_aside
from client_gui.store.activity import Notice
from client_gui.style.theme import Theme

#: How often windows say anew how things stand.
TICK_MS: Final = 500
#: More windows than this are not opened from what was remembered.
MOST: Final = 8


class Windows(QObject):
    """All windows of the client."""

    #: The last window was closed.
    all_closed = Signal()

    def __init__(
        self,
        client: FarmClient,
        notices: Notices,
        settings: Settings,
        theme: Theme,
        restart: Callable[[], None] | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.client = client
        self.notices = notices
        self.settings = settings
        self.theme = theme
        self._restart = restart
        # Of no window: what one has done can be taken back in another, and lives on when it is closed.
        self._book = ActionBook(client, Focus(self), notices, settings, self)
        self._open: list[FarmWindow] = []
        self._last: FarmWindow | None = None
        self._count = 0
        self._quitting = False
        self._pulse = QTimer(self)
        self._pulse.setInterval(TICK_MS)
        self._pulse.timeout.connect(self.tick)
        notices.came.connect(self._notice)
        client.failed.connect(self._failed)
        client.moved.connect(self._moved)

    @property
    def open(self) -> tuple[FarmWindow, ...]:
        """Windows that are open, oldest first."""
        return tuple(self._open)

    # -- opening --

    def restore(self, safe: bool = False) -> FarmWindow:
        """Opens the windows there were when the client ended, or one as it comes.

        Args:
            safe: Pass over what was remembered; it is kept until windows are closed.
        """
        records = [] if safe else self.settings.get(WINDOWS)[:MOST]
        for record in records:
            window = self._make()
            if not window.take_layout(record) and isinstance(record, dict):
                put_aside(self.settings, record)
            window.show()
        if not self._open:
            self._make().show()
        self._pulse.start()
        self.tick()
        return self._open[0]

    def new(self) -> FarmWindow:
        """Opens one more window, beside the one in use."""
        before = self._last
        window = self._make()
        if before is not None:
            window.resize(before.size())
            window.change_workspace(before.workspace)
            step = self.theme.em(2)
            window.move(before.x() + step, before.y() + step)
        window.show()
        # Once it is there: a window that is not shown yet cannot be the active one everywhere.
        QTimer.singleShot(0, window, window.activateWindow)
        window.tick()
        return window

    def _make(self) -> FarmWindow:
        self._count += 1
        name = str(self._count)
        focus = Focus()
        book = ActionBook(self.client, focus, self.notices, self.settings, shared=self._book)
        desk = Desk(self.client, focus, book, self.notices, self.settings, self.theme)
        window = FarmWindow(desk, self, name)
        focus.setParent(window)
        book.setParent(window)
        window.closed.connect(self._closed)
        window.layout_changed.connect(self.keep)
        self._open.append(window)
        self._last = self._last or window
        return window

    # -- while they are open --

    def tick(self) -> None:
        """Lets every window say how things stand."""
        for window in self._open:
            window.tick()

    def used(self, window: FarmWindow) -> None:
        """Takes note of which window is in use."""
        self._last = window

    def keep(self) -> None:
        """Remembers how all windows stand."""
        if self._open and not self._quitting:
            self.settings.set(WINDOWS, [window.layout_record() for window in self._open])

    def save(self) -> None:
        """Remembers how all windows stand, in the file, now."""
        self.keep()
        self.settings.write()

    def _notice(self, notice: Notice) -> None:
        if self._last is not None:
            self._last.show_notice(notice)

    def _moved(self) -> None:
        """Another farm: what was looked at is of the one before."""
        for window in self._open:
            window.desk.focus.set_job(0)
            window.desk.focus.set_node(0)

    def _failed(self, error: Any) -> None:
        self.notices.error(error)

    def show_job(self, job: int) -> None:
        """Brings the window in use to the front, and shows a job in it (0: just the window)."""
        window = self._last or (self._open[-1] if self._open else None)
        if window is None:
            return
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.show()
        window.raise_()
        window.activateWindow()
        if job:
            window.desk.focus.set_job(job)
            window.show_dock("job")

    def submit_file(self, path: Path) -> None:
        """Opens the submit dock of the window in use with a file."""
        window = self._last or (self._open[-1] if self._open else None)
        if window is not None:
            window.submit_file(path)

    def open_outbox(self) -> None:
        """Has drafts read that wait to be sent; they are, as soon as their farm can be asked."""
        if self._open:
            outbox: Any = import_module("client_gui.views.submit_parts.outbox")
            outbox.Outbox.of(self._open[0].desk)

    def offer_report(self, report: str) -> None:
        """Offers what the last run left behind when it ended badly."""
        if self._open:
            self._open[0].commands.offer_report(report)

    # -- closing --

    def _closed(self, window: FarmWindow) -> None:
        if window in self._open:
            # Of the last one how it stood was kept just now; of others nothing is to stay.
            self._open.remove(window)
            self.keep()
        if self._last is window:
            self._last = self._open[-1] if self._open else None
        if not self._open:
            self._pulse.stop()
            self.all_closed.emit()

    def quit(self) -> None:
        """Closes every window; all of them come back at the next start."""
        self.keep()
        self._quitting = True
        for window in list(self._open):
            window.close()
        self._quitting = False

    def leave(self, then: Callable[[], None] | None = None) -> None:
        """Closes every window as ``quit`` does, once somebody has said that what waits may be lost.

        Args:
            then: Is called right before.
        """

        def end() -> None:
            if then is not None:
                then()
            self.quit()

        window = self._last or (self._open[-1] if self._open else None)
        if window is None or not self._book.later.waits:
            end()
            return
        if not window.isActiveWindow():
            self.show_job(0)
        window.waiting.before_the_end(end)

    def asks_first(self, window: FarmWindow) -> bool:
        """Whether a window that somebody closes is the last one, and what waits would be lost: it is asked.

        Nothing is asked when the desktop ends the session: it would have to wait for the answer.
        """
        app = QGuiApplication.instance()
        saving = isinstance(app, QGuiApplication) and app.isSavingSession()
        if self._quitting or saving or self._open != [window] or not self._book.later.waits:
            return False
        self.leave()
        return True

    def start_anew(self) -> None:
        """Ends the client and starts it again."""
        self.leave(self._restart)
