"""The menus at the top, made from the records of actions, of docks and of workspaces.

What belongs here: building them and greying what is not possible, with the reason.  What may not: what an
action does, and keys: ``actions.shortcuts`` hangs those on the window, menus only show them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu

from client_gui.actions.keysheet import shown
from client_gui.actions.records import RECORDS, WORKSPACES, Menu, Record
from client_gui.settings import LOOK
from client_gui.shell.workspaces import BUILT_IN
from client_gui.style.theme import CHOICES
from client_gui.views.registry import DOCKS

if TYPE_CHECKING:
    from client_gui.shell.window import FarmWindow

#: What a look is called in the menu.
LOOK_WORDS: Final = {
    "system": "As the desktop",
    "dark": "Dark",
    "light": "Light",
    "contrast": "High contrast",
}
#: Actions that a menu of a dozen entries shows only under More.
_FAMILIES: Final = (
    ("colour-", "Colour"),
    ("select-", "Select"),
    ("attempt-", "Attempt"),
    ("error-", "Error"),
    ("group-", "Group"),
)
#: Made by hand below, from what there is rather than from records.
_BY_HAND: Final = frozenset(f"workspace-{place}" for place in range(1, WORKSPACES + 1))


class Menus:
    """The menus of a window."""

    def __init__(self, window: FarmWindow) -> None:
        self._window = window
        #: Every menu by its path; kept here, since nobody else in Python holds them.
        self.found: dict[tuple[str, ...], QMenu] = {}
        for menu in Menu:
            self._add(menu)
        self._fill_workspaces(self._workspace_menu())

    def _workspace_menu(self) -> QMenu:
        menu = self.found["Workspace",] = QMenu(self._window.top.workspace)
        menu.setAccessibleName("Workspaces")
        self._window.top.workspace.setMenu(menu)
        return menu

    def _add(self, which: Menu) -> None:
        bar = self._window.top.menus
        menu = self.found[which.value,] = bar.addMenu(f"&{which.value}")
        menu.setToolTipsVisible(True)
        families: dict[str, QMenu] = {}
        actions: list[tuple[QAction, Record]] = []
        for record in RECORDS:
            if record.menu is not which or record.id in _BY_HAND:
                continue
            place = menu
            for prefix, title in _FAMILIES:
                if record.id.startswith(prefix):
                    if prefix not in families:
                        families[prefix] = self._inner(menu, which.value, title)
                    place = families[prefix]
            actions.append((self._action(place, record), record))
        if which is Menu.VIEW:
            self._view(menu)
        elif which is Menu.HELP:
            about = menu.addAction("About Overcrank")
            about.triggered.connect(self._window.commands.show_about)
        menu.aboutToShow.connect(lambda: self._refresh(actions))

    def _inner(self, menu: QMenu, *path: str) -> QMenu:
        found = self.found[path] = menu.addMenu(path[-1])
        found.setToolTipsVisible(True)
        return found

    def _action(self, menu: QMenu, record: Record) -> QAction:
        action = menu.addAction(record.text)
        action.setObjectName(record.id)
        action.setToolTip(record.summary)
        action.triggered.connect(lambda: self._window.commands.act(record.id))
        return action

    def _refresh(self, actions: list[tuple[QAction, Record]]) -> None:
        """Says of each whether it is possible now and which key it has."""
        context = self._window.commands.context()
        book = self._window.desk.actions
        why_not = book.judge(context)
        for action, record in actions:
            action.setText(book.label(record.id))
            reason = why_not(record.id)
            action.setEnabled(not reason)
            action.setToolTip(f"{record.summary}. Not now: {reason}" if reason else record.summary)
            action.setStatusTip(action.toolTip())

    # -- View --

    def _view(self, menu: QMenu) -> None:
        menu.addSeparator()
        docks = self._inner(menu, "View", "Docks")
        shown: list[tuple[QAction, str]] = []
        for record in DOCKS:
            action = docks.addAction(record.title)
            action.setCheckable(True)
            action.setObjectName(f"dock-{record.name}")
            action.triggered.connect(lambda _=False, name=record.name: self._window.toggle_dock(name))
            shown.append((action, record.name))

        def refresh() -> None:
            for action, name in shown:
                action.setChecked(self._window.room.docks[name].made_visible)

        docks.aboutToShow.connect(refresh)
        refresh()
        self._fill_workspaces(self._inner(menu, "View", "Workspaces"))
        self._looks(self._inner(menu, "View", "Looks"))

    def _looks(self, menu: QMenu) -> None:
        window = self._window
        group = QActionGroup(menu)
        choices: list[tuple[QAction, str]] = []
        for name in CHOICES:
            action = menu.addAction(LOOK_WORDS[name])
            action.setCheckable(True)
            action.setActionGroup(group)
            action.triggered.connect(lambda _=False, name=name: window.commands.set_look(name))
            choices.append((action, name))
        menu.addSeparator()
        safe = self._switch(menu, "Colours for red-green blindness", window.commands.set_safe)
        dense = self._switch(menu, "Rows close together", lambda _: window.commands.toggle_dense())
        calm = self._switch(menu, "Nothing moves by itself", window.commands.set_calm)

        def refresh() -> None:
            theme = window.desk.theme
            chosen = theme.choice if theme.choice in CHOICES else window.desk.settings.get(LOOK)
            for action, name in choices:
                action.setChecked(name == chosen)
            safe.setChecked(theme.safe)
            dense.setChecked(theme.dense)
            calm.setChecked(theme.calm)

        menu.aboutToShow.connect(refresh)

    @staticmethod
    def _switch(menu: QMenu, text: str, run: Callable[[bool], None]) -> QAction:
        action = menu.addAction(text)
        action.setCheckable(True)
        action.triggered.connect(run)
        return action

    def _fill_workspaces(self, menu: QMenu) -> None:
        menu.aboutToShow.connect(lambda: self._list_workspaces(menu))
        self._list_workspaces(menu)

    def _list_workspaces(self, menu: QMenu) -> None:
        window = self._window
        menu.clear()
        names = window.workspaces()
        for place, name in enumerate(names, 1):
            key = window.desk.actions.keymap.shown(f"workspace-{place}")
            text = name.replace("&", "&&")
            action = menu.addAction(f"{text}\t{shown(key)}" if key else text)
            action.setCheckable(True)
            action.setChecked(name == window.workspace)
            action.triggered.connect(lambda _=False, name=name: window.change_workspace(name))
        menu.addSeparator()
        menu.addAction("Reset workspace").triggered.connect(window.reset_workspace)
        menu.addAction("Save workspace as…").triggered.connect(window.commands.ask_workspace_name)
        mine = [name for name in names if name not in BUILT_IN]
        if mine:
            forget = self._inner(menu, "View", "Workspaces", "Forget")
            for name in mine:
                forget.addAction(name.replace("&", "&&")).triggered.connect(
                    lambda _=False, name=name: window.forget_workspace(name)
                )
