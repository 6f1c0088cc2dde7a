"""The window as somebody who makes pictures needs it: what is shown where, waiting, and taking the picture.

What belongs here: handling a window from outside, by what it offers to everybody.  What may not: what is on
which picture (``scenes``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtWidgets import QAbstractButton, QApplication

from client_gui.screens.paint import write_png
from client_gui.shell.window import FarmWindow
from client_gui.shell.workspaces import Place

#: Size of the window in points; a picture at 2x has twice as many pixels.
WIDTH: Final = 1600
HEIGHT: Final = 1000
#: How often a condition is looked at, and how long what is still on its way may take, milliseconds.
LOOK_MS: Final = 30
REST_MS: Final = 500


class Stage:
    """A window, and what can be done with it.

    Args:
        window: The window; it gets the size of the pictures.
        folder: Where pictures go.
        scale: Pixels a point.
        looks: Of every picture.

    Attributes:
        own: Whether the farm is simulated for the pictures alone, so that anything may be done to it.
        lost: Set once the broker was ended.
        say: Tells the other side something.
    """

    def __init__(self, window: FarmWindow, folder: Path, scale: int, looks: tuple[str, ...]) -> None:
        self.window = window
        self.desk = window.desk
        self.client = window.desk.client
        self.own = False
        self.lost = threading.Event()
        self.say: Callable[..., None] = lambda **told: None
        self._folder = folder
        self._scale = scale
        self._looks = looks
        window.resize(WIDTH, HEIGHT)

    # -- waiting --

    def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Lets the window live until something holds; whether it does by then."""
        ends_s = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > ends_s:
                return False
            self.rest(LOOK_MS)
        return True

    def rest(self, milliseconds: int = REST_MS) -> None:
        """Lets the window live for a moment."""
        loop = QEventLoop()
        QTimer.singleShot(milliseconds, loop.quit)
        loop.exec()

    # -- what is shown --

    def view(self, dock: str) -> Any:
        """The view of a dock."""
        return self.window.room.docks[dock].view

    def arrange(self, *plan: tuple[tuple[Place, ...], int]) -> None:
        """Shows some docks in rows of places, and no others; the first dock of each place is in front.

        Args:
            plan: One row or two, as of ``shell.workspaces``: places, and the share of the height.
        """
        room = self.window.room
        for dock in room.docks.values():
            dock.setFloating(False)
            room.removeDockWidget(dock)
        areas = (Qt.DockWidgetArea.TopDockWidgetArea, Qt.DockWidgetArea.BottomDockWidgetArea)
        for (places, _), area in zip(plan, areas, strict=False):
            before = ""
            for names, _ in places:
                if before:
                    room.splitDockWidget(room.docks[before], room.docks[names[0]], Qt.Orientation.Horizontal)
                else:
                    room.addDockWidget(area, room.docks[names[0]])
                before = names[0]
                room.docks[before].show()
        for places, _ in plan:
            for names, _ in places:
                for one in names[1:]:
                    room.tabifyDockWidget(room.docks[names[0]], room.docks[one])
                    room.docks[one].show()
                room.docks[names[0]].raise_()
        self.rest(LOOK_MS)
        heads = [(room.docks[places[0][0][0]], share) for places, share in plan]
        self._share(heads, room.height(), Qt.Orientation.Vertical)
        for places, _ in plan:
            cells = [(room.docks[names[0]], share) for names, share in places]
            self._share(cells, room.width(), Qt.Orientation.Horizontal)
        self.rest(LOOK_MS)

    def _share(self, parts: Sequence[tuple[Any, int]], whole: int, direction: Qt.Orientation) -> None:
        self.window.room.resizeDocks(
            [dock for dock, _ in parts], [whole * share // 100 for _, share in parts], direction
        )

    def press(self, dock: str, words: str) -> bool:
        """Presses the button of a dock that a screen reader would call so; whether there is one."""
        for button in self.view(dock).findChildren(QAbstractButton):
            if button.accessibleName() == words and button.isVisible() and button.isEnabled():
                button.click()
                return True
        return False

    def still(self) -> None:
        """Takes the keys from every field, so that no cursor blinks on the picture."""
        focused = QApplication.focusWidget()
        if focused is not None:
            focused.clearFocus()

    # -- pictures --

    def shoot(self, scene: str) -> Iterator[str]:
        """Takes the picture in every look; yields the names of the files."""
        for look in self._looks:
            self.desk.theme.set_look(look)
            self.rest()
            suffix = f"@{self._scale}x" if self._scale != 1 else ""
            name = f"{scene}-{look}{suffix}.png"
            write_png(self.window.grab().toImage(), self._folder / name)
            yield name
        self.desk.theme.set_look(self._looks[0])
