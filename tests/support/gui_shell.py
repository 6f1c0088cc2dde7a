"""Windows on a farm without sockets, for tests of the shell: opening them, keys, time that goes by.

What belongs here: what those tests share.  What may not: what a test wants to prove.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from client_gui.settings import Settings
from client_gui.shell.window import FarmWindow
from client_gui.shell.windows import Windows
from tests.support.gui_rig import Rig

SECOND = 1_000_000
#: Windows of their own and pop-ups are raised; the platform of the tests says that it cannot.
no_raise = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@dataclass
class Shell:
    """Windows on a farm without sockets."""

    rig: Rig
    qtbot: QtBot
    made: list[Windows] = field(default_factory=list)
    restarts: int = 0

    def open(self, settings: Settings | None = None, safe: bool = False) -> Windows:
        """As a start of the client does."""

        def restart() -> None:
            self.restarts += 1

        rig = self.rig
        windows = Windows(
            rig.client, rig.notices, settings or rig.settings, rig.theme, restart, parent=rig.client
        )
        self.made.append(windows)
        windows.restore(safe)
        self.settle()
        return windows

    def one(self) -> FarmWindow:
        """A window that has the keys."""
        window = self.open().open[0]
        self.keys_to(window)
        return window

    def keys_to(self, window: FarmWindow) -> None:
        def active() -> bool:
            window.activateWindow()
            self.settle()
            return window.isActiveWindow()

        self.qtbot.waitUntil(active)
        self.settle()

    def settle(self) -> None:
        self.rig.settle()
        for _ in range(3):
            QApplication.processEvents()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def later(self, seconds: float) -> None:
        """Lets time go by, as far as the windows know."""
        self.rig.now_us += int(seconds * SECOND)
        for windows in self.made:
            windows.tick()

    def close(self) -> None:
        for windows in self.made:
            windows.quit()
        self.settle()


def seen(window: FarmWindow) -> set[str]:
    """Docks that can be seen."""
    return {dock.record.name for dock in window.room.shown()}


def press(
    shell: Shell, window: FarmWindow, key: Qt.Key, modifier: Any = Qt.KeyboardModifier.NoModifier
) -> None:
    shell.qtbot.keyClick(QApplication.focusWidget() or window, key, modifier)
    shell.settle()


def entries(menu: QMenu) -> dict[str, QAction]:
    """What a menu shows once it is open, without keys."""
    menu.aboutToShow.emit()
    return {action.text().partition("\t")[0]: action for action in menu.actions() if action.text()}


def submenu(window: FarmWindow, *path: str) -> QMenu:
    """A menu, opened by way of those it is in."""
    for depth in range(1, len(path)):
        window.menus.found[path[:depth]].aboutToShow.emit()
    return window.menus.found[path]
