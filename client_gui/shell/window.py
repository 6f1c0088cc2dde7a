"""A window: its docks, bars, banners and toasts put together, and what its own actions do.

What belongs here: joining the parts, and changing workspaces.  What may not: what a view shows, several
windows (``windows``), and menus (``menus``).
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QMoveEvent, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import QLabel, QMainWindow, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from client_gui.actions.later import count_text
from client_gui.desk import Desk
from client_gui.shell.banners import Banners, Choice
from client_gui.shell.commands import Commands
from client_gui.shell.docks import DockRoom, give_keys
from client_gui.shell.menus import Menus
from client_gui.shell.restart import Restart
from client_gui.shell.standing import offline_text, upgraded_text
from client_gui.shell.statusline import StatusLine
from client_gui.shell.toasts import Toasts
from client_gui.shell.topbar import TopBar
from client_gui.shell.waiting import Waiting
from client_gui.shell.workspaces import (
    ARTIST,
    BUILT_IN,
    LAYOUT_VERSION,
    Saved,
    arrange,
    from_text,
    keep,
    proportion,
    put_aside,
    restore,
    to_text,
)
from client_gui.store.activity import Level, Notice
from client_gui.store.farmstore import Link
from client_gui.style.dress import wear
from client_gui.views.registry import DOCKS, WELCOME
from farm.sdk.words import plural

if TYPE_CHECKING:
    from client_gui.shell.windows import Windows

#: How long after the last move of a dock its place is remembered.
KEEP_AFTER_MS: Final = 1000


class FarmWindow(QMainWindow):
    """A window.

    Attributes:
        desk: What its views are given.
        room: Where its docks stand.
        commands: What it does itself.
        top, menus, banners, status, toasts: Its parts.
        workspace: Name of the workspace it shows.
    """

    #: It was closed.
    closed = Signal(object)
    #: Its layout changed and is to be remembered.
    layout_changed = Signal()

    def __init__(self, desk: Desk, windows: Windows, name: str) -> None:
        super().__init__()
        self.setObjectName(f"window-{name}")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        wear(self, desk.theme)
        self.name = name
        self.desk = desk
        self.workspace = ARTIST
        self._windows = windows
        self._states: dict[str, str] = {}
        self._saved = Saved(desk.settings)
        welcome = desk.client.welcome
        self._first_software = welcome.software if welcome is not None else ""
        self._told_upgrade = False
        self._welcome: QWidget | None = None
        self._welcome_wanted = False
        self._proportioned = False
        self.top = TopBar(desk)
        self.setMenuWidget(self.top)
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.banners = Banners(desk)
        self._restart = Restart(desk, self)
        self.waiting = Waiting(desk, self, self.banners)
        self.room = DockRoom(desk, DOCKS)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.room)
        self._empty = self._make_empty()
        self.pages.addWidget(self._empty)
        self.status = StatusLine(desk)
        column.addWidget(self.banners)
        column.addWidget(self.pages, 1)
        column.addWidget(self.status)
        self.setCentralWidget(middle)
        self.toasts = Toasts(desk, self.pages)
        self.commands = Commands(self, windows)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(KEEP_AFTER_MS)
        self._soon.timeout.connect(self.keep_layout)
        self.room.moved.connect(self._moved)
        self.top.card.other_wanted.connect(self.show_welcome)
        self.top.card.retry_wanted.connect(desk.client.resync)
        self.top.theme_button.clicked.connect(self.commands.next_look)
        self.top.palette_button.clicked.connect(desk.actions.open_palette)
        desk.focus.wanted.connect(self.show_dock)
        desk.client.stood.connect(self.tick)
        desk.client.welcomed.connect(self._welcomed)
        for key, step in (("F6", 1), ("Shift+F6", -1)):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.activated.connect(lambda step=step: self.room.next_dock(step))
        self.commands.hear()
        self.menus = Menus(self)
        book = desk.actions
        book.offer_changed.connect(self._offer)
        book.pending_changed.connect(self._offer)
        book.later.changed.connect(self.tick)
        self.status.undo_wanted.connect(book.take_back)
        self.status.waiting_wanted.connect(self.waiting.show)
        self.toasts.undo_wanted.connect(book.take_back)
        arrange(self.room, self.workspace)
        self.resize(desk.theme.em(88), desk.theme.em(54))
        self._show_title()

    # -- time --

    def tick(self) -> None:
        """Says how everything stands now; called twice a second and when the connection changes."""
        client = self.desk.client
        now_us = client.now_us()
        self.top.tick(now_us)
        self.status.tick(now_us)
        self._offer()
        self.toasts.tick(now_us)
        offline = offline_text(client, now_us)
        self.banners.put(
            "offline",
            offline + (offline and self._restart.words() + self.waiting.words())
            if self._welcome is None or self.pages.currentWidget() is not self._welcome
            else "",
            "bad",
            (
                *self._restart.choices(),
                Choice("Try now", client.resync),
                Choice("Connect to another farm…", self.show_welcome),
                *self.waiting.choices(),
            ),
        )
        self.waiting.tick()
        self._choose_page()

    def _choose_page(self) -> None:
        """Shows the docks, the welcome page while no farm is known, or how docks are found again."""
        client = self.desk.client
        lost = client.welcome is None and bool(client.store.trouble) and not client.live
        if client.store.link is Link.REFUSED and client.welcome is None:
            lost = True
        if lost or self._welcome_wanted:
            page = self._welcome_page()
        elif all(dock.isHidden() for dock in self.room.docks.values()):
            page = self._empty
        else:
            page = self.room
        if self.pages.currentWidget() is not page:
            self.pages.setCurrentWidget(page)
            if page is self.room:
                # Views that were behind another page are there only once the docks have settled.
                self.room.settle()
                self._give_keys()
            else:
                # Else the bar at the top has them: what the page asks for comes first.
                give_keys(page)

    # -- docks --

    def show_dock(self, name: str) -> None:
        """Brings a dock to the front and gives it the keys; ``job/steps`` means a tab in it."""
        dock = self.room.docks.get(name.partition("/")[0])
        if dock is None:
            return
        if self.pages.currentWidget() is not self.room:
            dock.show()
            self._choose_page()
        dock.front()

    def toggle_dock(self, name: str) -> None:
        """Hides a dock that can be seen; brings any other to the front."""
        dock = self.room.docks[name]
        self.room.settle()
        if dock.made_visible:
            dock.close()
        else:
            self.show_dock(name)
        self._choose_page()

    # -- workspaces --

    def workspaces(self) -> tuple[str, ...]:
        """Names of all workspaces, in the order of their keys."""
        return self._saved.names()

    def change_workspace(self, name: str) -> None:
        """Shows a workspace as it was left in this window, else as it was saved, else as it comes."""
        if name not in self._saved.names():
            return
        if name != self.workspace:
            self._states[self.workspace] = keep(self.room)
            self.workspace = name
        self._lay_out(self._states.get(name) or self._saved.find(name))

    def reset_workspace(self) -> None:
        """Shows the workspace as it was saved, else as it comes; nothing of this window's changes stays."""
        self._states.pop(self.workspace, None)
        self._lay_out(self._saved.find(self.workspace))

    def save_workspace(self, name: str) -> str:
        """Saves how docks stand under a name; returns why that cannot be, "" when it is done."""
        name = name.strip()
        if not name:
            return "a workspace needs a name"
        if name in BUILT_IN:
            return f"{name} comes with the client: choose another name"
        self._saved.save(name, keep(self.room))
        self._states[self.workspace] = keep(self.room)
        self.workspace = name
        self._states.pop(name, None)
        self._show_title()
        self._moved()
        return ""

    def forget_workspace(self, name: str) -> None:
        """Removes a saved workspace; a window that shows it shows the first one."""
        self._saved.forget(name)
        self._states.pop(name, None)
        if self.workspace == name:
            self.workspace = ARTIST
            self._lay_out(self._states.get(ARTIST))

    def _lay_out(self, state: str | None) -> None:
        arrange(self.room, self.workspace)
        if state is not None and not restore(self.room, state):
            put_aside(self.desk.settings, {"workspace": self.workspace, "state": state})
            arrange(self.room, self.workspace)
        self._choose_page()
        self._show_title()
        self._give_keys()
        self._moved()

    def _give_keys(self) -> None:
        shown = self.room.shown()
        if shown:
            shown[0].take_keys()

    # -- layout --

    def layout_record(self) -> dict[str, Any]:
        """All there is to remember of this window."""
        states = self._states | {self.workspace: keep(self.room)}
        return {
            "version": LAYOUT_VERSION,
            "geometry": to_text(self.saveGeometry()),
            "workspace": self.workspace,
            "states": states,
        }

    def take_layout(self, record: object) -> bool:
        """Stands as it was remembered; whether that could be done, else it stands as at first."""
        if not isinstance(record, dict) or record.get("version") != LAYOUT_VERSION:
            return False
        states, name = record.get("states"), record.get("workspace")
        if not isinstance(states, dict) or not isinstance(name, str):
            return False
        geometry = from_text(record.get("geometry"))
        if geometry is not None:
            self.restoreGeometry(geometry)
        self._states = {str(key): value for key, value in states.items() if isinstance(value, str)}
        if name in self._saved.names():
            self.workspace = name
        state = self._states.get(self.workspace)
        if state is None:
            return True
        self._proportioned = True
        if restore(self.room, state):
            self._show_title()
            return True
        del self._states[self.workspace]
        arrange(self.room, self.workspace)
        self._proportioned = False
        return False

    def keep_layout(self) -> None:
        """Remembers how everything stands."""
        self._soon.stop()
        self.layout_changed.emit()

    def _moved(self) -> None:
        if self.isVisible():
            self._soon.start()

    def submit_file(self, path: Path) -> None:
        """Opens the submit dock with a file."""
        self.show_dock("submit")
        view: Any = self.room.docks["submit"].view
        view.open_file(str(path))

    def submit_job(self, job: int, step: str = "", frames: str = "") -> None:
        """Opens the submit dock with a job of the farm, or a part of it, to be changed and submitted anew."""
        self.show_dock("submit")
        view: Any = self.room.docks["submit"].view
        view.open_job(job, step, frames)

    # -- news --

    def _offer(self) -> None:
        book = self.desk.actions
        self.status.offer(book.offer, self.desk.client.now_us())
        self.toasts.offer(book.offered)
        under_way = len(book.doer.cells)
        self.status.put_hint(f"{plural(under_way, 'change')} under way" if under_way else "")
        self.status.put_waiting(count_text(book.later), book.keymap.shown("waiting"))

    def show_notice(self, notice: Notice) -> None:
        """Shows a notice in the corner."""
        self.toasts.show(notice)

    def show_welcome(self) -> None:
        """Shows the page where a farm is chosen."""
        self._welcome_wanted = True
        self.tick()

    def hide_welcome(self) -> None:
        """Shows the docks again, if a farm is known."""
        self._welcome_wanted = False
        self.tick()

    def _welcome_page(self) -> QWidget:
        if self._welcome is None:
            module, _, name = WELCOME.partition(":")
            page: Any = getattr(import_module(module), name)(self.desk)
            page.connect_to.connect(self._connect_to)
            page.back_wanted.connect(self.hide_welcome)
            self.pages.addWidget(page)
            self._welcome = page
        return self._welcome

    def _connect_to(self, farm: str) -> None:
        self.waiting.before_another(farm, partial(self._dial, farm))

    def _dial(self, farm: str) -> None:
        self.desk.client.connect_to(farm or None)
        self._welcome_wanted = False

    def _welcomed(self) -> None:
        welcome = self.desk.client.welcome
        if welcome is None:
            return
        self._welcome_wanted = False
        if not self._first_software:
            self._first_software = welcome.software
        elif welcome.software != self._first_software and not self._told_upgrade:
            self._told_upgrade = True
            self.banners.put(
                "upgraded",
                upgraded_text(self._first_software, welcome.software),
                "accent",
                (Choice("Start anew", self._windows.start_anew),),
                lambda: self.banners.put("upgraded", ""),
            )
        self._show_title()
        self.tick()

    def say(self, text: str, level: Level = Level.INFO) -> None:
        """Takes note of something."""
        self.desk.notices.say(text, level)

    # -- inside --

    def _make_empty(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        words = QLabel("Every dock of this workspace is hidden.\nThe View menu lists them all.")
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        button = QPushButton("Reset workspace")
        button.clicked.connect(self.reset_workspace)
        column.addStretch(1)
        column.addWidget(words)
        column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(1)
        return page

    def _show_title(self) -> None:
        welcome = self.desk.client.welcome
        farm = (welcome.farm_name if welcome is not None else "") or self.desk.client.farm
        self.setWindowTitle(f"{farm} – {self.workspace} – Overcrank" if farm else "Overcrank")
        self.top.workspace.setText(self.workspace.replace("&", "&&"))
        self.top.workspace.setAccessibleName(f"Workspace: {self.workspace}")

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Gives places their share of the window when its size is known, and the keys to the first dock."""
        super().showEvent(event)
        QTimer.singleShot(0, self, self._settle_in)

    def _settle_in(self) -> None:
        if not self._proportioned:
            self._proportioned = True
            proportion(self.room, self.workspace, self.room.size())
        # Views are there only once the docks have settled; without this the bar at the top had the keys.
        self.room.settle()
        if self.pages.currentWidget() is self.room and not self.room.keys:
            self._give_keys()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Its size is remembered."""
        super().resizeEvent(event)
        self._moved()

    def moveEvent(self, event: QMoveEvent) -> None:  # noqa: N802
        """Its place is remembered."""
        super().moveEvent(event)
        self._moved()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tells which window is in use: notices are shown there."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.ActivationChange and self.isActiveWindow():
            self._windows.used(self)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        """Remembers how it stood, and follows nothing any more; asks first where something would be lost."""
        if self._windows.asks_first(self):
            event.ignore()
            return
        self._soon.stop()
        self.keep_layout()
        self.closed.emit(self)
        super().closeEvent(event)
