"""What a window does itself, by id of the action: looks, size, workspaces, sheets.

What belongs here: the window's own actions, and telling the book of actions about them.  What may not:
actions on work and nodes (``actions``), and how the window is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QTimer

from client_gui.actions.context import ActionContext
from client_gui.actions.palette import Entry
from client_gui.actions.records import WORKSPACES
from client_gui.settings import CALM, DENSE, LOOK, SAFE, ZOOM
from client_gui.shell.banners import Choice
from client_gui.shell.crash import about_text
from client_gui.shell.settings_sheet import SettingsSheet
from client_gui.shell.sheets import AboutSheet, HelpSheet, NameSheet, ReportSheet
from client_gui.shell.standing import farm_text
from client_gui.shell.workspaces import BUILT_IN
from client_gui.style.theme import ZOOM_LEAST, ZOOM_MOST, ZOOM_STEP, Theme
from client_gui.style.tokens import LOOKS
from client_gui.views.registry import DOCKS

if TYPE_CHECKING:
    from client_gui.shell.window import FarmWindow
    from client_gui.shell.windows import Windows

#: Words change their size this often at most; what is asked for meanwhile is added up.
ZOOM_EVERY_MS: Final = 50


class Commands(QObject):
    """What a window does itself.

    Args:
        window: The window.
        windows: All of them.

    Attributes:
        desk: What the window's views share.
    """

    def __init__(self, window: FarmWindow, windows: Windows) -> None:
        super().__init__(window)
        self.desk = window.desk
        self._window = window
        self._windows = windows
        # A key that is held down asks for sizes faster than a window can take them.
        self._zoom = self.desk.theme.zoom
        self._zoomed = QTimer(self)
        self._zoomed.setSingleShot(True)
        self._zoomed.setInterval(ZOOM_EVERY_MS)
        self._zoomed.timeout.connect(self._take_zoom)

    @property
    def theme(self) -> Theme:
        """The look in force."""
        return self.desk.theme

    def hear(self) -> None:
        """Takes the window's own actions, and lets its keys be heard."""
        book = self.desk.actions
        book.theme = self.desk.theme
        for name, do in self._own_actions().items():
            book.handle(name, partial(_without_arguments, do), self._window)
        book.handle("resubmit", self._submit_again, self._window)
        book.add_source(self._find_docks)
        book.watch(self._window)

    def context(self) -> ActionContext:
        """What actions act on: the selection of the dock that has the keys, or had them last."""
        dock = self._window.room.docks.get(self._window.room.keys)
        if dock is None or not dock.made or dock.isHidden():
            return ActionContext()
        return dock.view.action_context()

    def act(self, action: str) -> None:
        """Does an action, of the window itself or of what is selected."""
        self.desk.actions.run(action, self.context())

    def _own_actions(self) -> dict[str, Callable[[], object]]:
        """What this window does itself, by id of the action."""
        own: dict[str, Callable[[], object]] = {
            "zoom-in": lambda: self.zoom(1),
            "zoom-out": lambda: self.zoom(-1),
            "zoom-reset": lambda: self.zoom(0),
            "density": self.toggle_dense,
            "theme": self.next_look,
            "workspace-reset": self._window.reset_workspace,
            "connect": self._window.show_welcome,
            "settings": self.show_settings,
            "help": self.show_help,
            "new-window": self._windows.new,
            "quit": self._windows.leave,
        }
        for place in range(WORKSPACES):
            own[f"workspace-{place + 1}"] = partial(self._change_to, place)
        return own

    def _submit_again(self, context: ActionContext, _value: str) -> None:
        """Fills the submit dock with what is selected; a step or frames of it, where those are."""
        if context.units:
            units = context.units[0]
            self._window.submit_job(units.job, units.step, units.frames)
        elif context.jobs:
            self._window.submit_job(context.jobs[0])

    def _find_docks(self, query: str) -> Iterator[Entry]:
        """Docks and workspaces, for the palette."""
        for record in DOCKS:
            do = partial(self._window.show_dock, record.name)
            yield Entry(f"dock:{record.name}", "dock", record.title, do=do)
        for name in self._window.workspaces():
            yield Entry(
                f"workspace:{name}",
                "workspace",
                name,
                "Change to this workspace",
                do=partial(self._window.change_workspace, name),
            )

    def _change_to(self, place: int) -> None:
        names = self._window.workspaces()
        if place < len(names):
            self._window.change_workspace(names[place])
        else:
            self._window.say(f"there is no workspace {place + 1} yet: View, Workspaces, Save workspace as")

    # -- looks --

    def next_look(self) -> None:
        """Takes the next look."""
        names = list(LOOKS)
        at = names.index(self.desk.theme.look.name)
        self.set_look(names[(at + 1) % len(names)])

    def set_look(self, name: str) -> None:
        """Takes a look, and remembers it."""
        self.desk.settings.set(LOOK, name)
        self.desk.theme.set_look(name)

    def set_safe(self, safe: bool) -> None:
        """Takes colours for those who do not tell red from green, or the usual ones."""
        self.desk.settings.set(SAFE, safe)
        self.desk.theme.set_safe(safe)

    def set_calm(self, calm: bool) -> None:
        """Lets nothing move by itself, or lets it."""
        self.desk.settings.set(CALM, calm)
        self.desk.theme.set_calm(calm)

    def zoom(self, steps: int) -> None:
        """Makes everything larger or smaller by steps; 0 = the usual size."""
        before = self._zoom if self._zoomed.isActive() else self.desk.theme.zoom
        self._zoom = min(ZOOM_MOST, max(ZOOM_LEAST, before + steps * ZOOM_STEP)) if steps else 1.0
        if not self._zoomed.isActive():
            self._take_zoom()

    def _take_zoom(self) -> None:
        theme = self.desk.theme
        before = theme.zoom
        theme.set_zoom(self._zoom)
        if theme.zoom != before:
            self.desk.settings.set(ZOOM, theme.zoom)
            self._zoomed.start()

    def toggle_dense(self) -> None:
        """Sets rows close together, or apart."""
        theme = self.desk.theme
        theme.set_dense(not theme.dense)
        self.desk.settings.set(DENSE, theme.dense)

    # -- sheets --

    def show_about(self) -> None:
        """Shows versions of everything."""
        client = self.desk.client
        versions = about_text()
        if client.welcome is not None:
            versions += f"Farm {farm_text(client)}: {client.welcome.software}\n"
        AboutSheet(self._window, self.desk.theme, versions.strip()).open()

    def show_settings(self) -> None:
        """Shows what can be chosen about the client."""
        SettingsSheet(self._window, self).open()

    def open_keys(self) -> None:
        """Shows every key."""
        self.desk.actions.open_keys()

    def show_help(self) -> None:
        """Shows how to begin."""
        HelpSheet(self._window, self.desk.theme, self.desk.actions.keymap).open()

    def ask_workspace_name(self) -> None:
        """Asks under which name the workspace is to be saved."""
        start = "" if self._window.workspace in BUILT_IN else self._window.workspace
        NameSheet(
            self._window,
            self.desk.theme,
            "A name for this workspace",
            self._window.save_workspace,
            start,
        ).open()

    def offer_report(self, report: str) -> None:
        """Offers what the last run left behind when it ended badly."""
        self._window.banners.put(
            "report",
            "Something went wrong in this client the last time.",
            "warn",
            (
                Choice(
                    "Show the report",
                    lambda: ReportSheet(self._window, self.desk.theme, report).open(),
                ),
            ),
            lambda: self._window.banners.put("report", ""),
        )


def _without_arguments(do: Callable[[], object], _context: ActionContext, _value: str) -> None:
    do()
