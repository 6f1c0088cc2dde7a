"""Workspaces: which docks stand where, as they come with the client, as they were left, as they were saved.

What belongs here: the arrangements, turning a layout into text and back, and what is done with one that
cannot be used.  What may not: when that happens (``window``, ``windows``).

A layout that another version of the client wrote, or that is broken, is never forced on the docks: the
arrangement that comes with the client is taken, and the old one is kept aside.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QGuiApplication

from client_gui.settings import ASIDE, WORKSPACES, Settings
from client_gui.shell.docks import DockRoom

ARTIST: Final = "Artist"
WRANGLER: Final = "Wrangler"
#: Counts up when layouts of before cannot be used any more.
LAYOUT_VERSION: Final = 1
#: So many layouts of other versions are kept aside.
ASIDE_MOST: Final = 5

#: Docks of one place (tabs, the first in front), and how much of the row it takes.
Place = tuple[tuple[str, ...], int]
#: Rows from the top, each of places from the left, and how much of the height each takes.
Plan = tuple[tuple[tuple[Place, ...], int], ...]

#: The workspaces that come with the client, in the order of Ctrl+1, Ctrl+2.
PLANS: Final[Mapping[str, Plan]] = {
    ARTIST: (
        (((("jobs",), 58), (("job", "submit"), 42)), 60),
        (((("why", "activity"), 28), (("log",), 40), (("preview",), 32)), 40),
    ),
    WRANGLER: (
        (((("jobs",), 50), (("nodes", "job"), 50)), 56),
        (((("why", "log"), 34), (("plots", "spend"), 40), (("activity",), 26)), 44),
    ),
}
BUILT_IN: Final = tuple(PLANS)


def arrange(room: DockRoom, name: str) -> None:
    """Puts every dock to its place in a workspace that comes with the client.

    Docks it does not show are hidden tabs of its last place, so that the View menu finds room for them.
    """
    plan = PLANS.get(name, PLANS[ARTIST])
    placed = [dock for places, _ in plan for names, _ in places for dock in names]
    for dock in room.docks.values():
        dock.setFloating(False)
        room.removeDockWidget(dock)
    areas = (Qt.DockWidgetArea.TopDockWidgetArea, Qt.DockWidgetArea.BottomDockWidgetArea)
    heads: list[str] = []
    for (places, _), area in zip(plan, areas, strict=True):
        before = ""
        for names, _ in places:
            head = names[0]
            if before:
                room.splitDockWidget(room.docks[before], room.docks[head], Qt.Orientation.Horizontal)
            else:
                room.addDockWidget(area, room.docks[head])
            before = head
            room.docks[head].show()
        # Tabs after all splits: a dock cannot be split from a place that has tabs.
        for names, _ in places:
            for one, other in pairwise(names):
                room.tabifyDockWidget(room.docks[one], room.docks[other])
                room.docks[other].show()
            heads.append(names[0])
    last = room.docks[placed[-1]]
    for name_, dock in room.docks.items():
        if name_ not in placed:
            room.tabifyDockWidget(last, dock)
            dock.hide()
    for head in heads:
        room.docks[head].raise_()
    proportion(room, name, room.size())


def proportion(room: DockRoom, name: str, size: QSize) -> None:
    """Gives places of a workspace that comes with the client their share of a window."""
    plan = PLANS.get(name, PLANS[ARTIST])
    rows = [(room.docks[places[0][0][0]], size.height() * share // 100) for places, share in plan]
    room.resizeDocks([dock for dock, _ in rows], [high for _, high in rows], Qt.Orientation.Vertical)
    for places, _ in plan:
        cells = [(room.docks[names[0]], size.width() * share // 100) for names, share in places]
        room.resizeDocks([dock for dock, _ in cells], [wide for _, wide in cells], Qt.Orientation.Horizontal)


def keep(room: DockRoom) -> str:
    """Where the docks stand now, as text."""
    return to_text(room.saveState(LAYOUT_VERSION))


def restore(room: DockRoom, text: str) -> bool:
    """Puts docks where they stood; whether that could be done.

    Docks the layout does not know stay where they are, and none ends outside of every screen.
    """
    state = from_text(text)
    if state is None or not room.restoreState(state, LAYOUT_VERSION):
        return False
    bring_back(room)
    return True


def bring_back(room: DockRoom) -> None:
    """Brings windows of docks back whose screen is gone."""
    screens = [screen.availableGeometry() for screen in QGuiApplication.screens()]
    for dock in room.docks.values():
        if dock.isFloating() and not any(screen.intersects(dock.frameGeometry()) for screen in screens):
            dock.setFloating(False)


def to_text(data: QByteArray) -> str:
    """Bytes as text for the settings."""
    return base64.b64encode(data.data()).decode("ascii")


def from_text(text: object) -> QByteArray | None:
    """Bytes of the settings; None when it is no such text."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return QByteArray(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None


def put_aside(settings: Settings, layout: Mapping[str, Any]) -> None:
    """Keeps a layout that cannot be used; an older one falls out when there are many."""
    kept = [one for one in settings.get(ASIDE) if one != layout]
    settings.set(ASIDE, [*kept, dict(layout)][-ASIDE_MOST:])


class Saved:
    """Workspaces somebody saved under a name of their own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def names(self) -> tuple[str, ...]:
        """Every workspace, those that come with the client first; Ctrl+1 is the first."""
        mine = [name for name in self._settings.get(WORKSPACES) if name not in BUILT_IN]
        return (*BUILT_IN, *mine)

    def find(self, name: str) -> str | None:
        """The layout saved under a name; None when there is none this version can use."""
        layout = self._settings.get(WORKSPACES).get(name)
        if not isinstance(layout, dict) or layout.get("version") != LAYOUT_VERSION:
            return None
        state = layout.get("state")
        return state if isinstance(state, str) else None

    def save(self, name: str, state: str) -> None:
        """Keeps a layout under a name; one of that name is replaced."""
        self._settings.set(
            WORKSPACES,
            self._settings.get(WORKSPACES) | {name: {"version": LAYOUT_VERSION, "state": state}},
        )

    def forget(self, name: str) -> None:
        """Removes what was saved under a name."""
        kept = self._settings.get(WORKSPACES)
        if kept.pop(name, None) is not None:
            self._settings.set(WORKSPACES, kept)
