"""Workspaces: which docks stand where, as they come with the client, as they were left, as they were saved.

What belongs here: the arrangements, turning a layout into text and back, and what is done with one that
cannot be used.  What may not: when that happens (``window``, ``windows``).

A layout that another version of the client wrote, or that is broken, is never forced on the docks: the
arrangement that comes with the client is taken, and the old one is kept aside.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

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

#: Docks of one place (tabs, the first in front), and how much of what it is in it takes.
Place = tuple[tuple[str, ...], int]


class Split(NamedTuple):
    """Parts beside each other or below each other.

    Attributes:
        across: Whether they stand beside each other.
        parts: They, from the left or the top; each a place or split itself.
        share: How much of what it is in it takes, in hundredths.
    """

    across: bool
    parts: tuple[Split | Place, ...]
    share: int = 100


#: The workspaces that come with the client, in the order of Ctrl+1, Ctrl+2.
PLANS: Final[Mapping[str, Split]] = {
    # What somebody works in stands as high as the window; what it prints and shows is below the list.
    ARTIST: Split(
        True,
        (
            Split(
                False,
                (
                    (("jobs",), 54),
                    Split(True, ((("log", "why", "activity"), 52), (("preview",), 48)), 46),
                ),
                57,
            ),
            (("job", "submit"), 43),
        ),
    ),
    WRANGLER: Split(
        False,
        (
            Split(True, ((("jobs",), 50), (("nodes", "job"), 50)), 56),
            Split(True, ((("why", "log"), 30), (("plots", "spend"), 36), (("activity",), 34)), 44),
        ),
    ),
}
BUILT_IN: Final = tuple(PLANS)


def places(part: Split | Place) -> Iterator[Place]:
    """Every place of a plan, from the left and the top."""
    if isinstance(part, Split):
        for one in part.parts:
            yield from places(one)
    else:
        yield part


def _head(part: Split | Place) -> str:
    """The first dock of a part; it stands for it while docks are put to their places."""
    return next(places(part))[0][0]


def arrange(room: DockRoom, name: str) -> None:
    """Puts every dock to its place in a workspace that comes with the client.

    Docks it does not show are hidden tabs of its last place, so that the View menu finds room for them.
    """
    plan = PLANS.get(name, PLANS[ARTIST])
    placed = [dock for names, _ in places(plan) for dock in names]
    for dock in room.docks.values():
        dock.setFloating(False)
        room.removeDockWidget(dock)
    first = room.docks[_head(plan)]
    room.addDockWidget(Qt.DockWidgetArea.TopDockWidgetArea, first)
    first.show()
    _split(room, plan)
    # Tabs after all splits: a dock cannot be split from a place that has tabs.
    for names, _ in places(plan):
        for one, other in pairwise(names):
            room.tabifyDockWidget(room.docks[one], room.docks[other])
            room.docks[other].show()
    last = room.docks[placed[-1]]
    for name_, dock in room.docks.items():
        if name_ not in placed:
            room.tabifyDockWidget(last, dock)
            dock.hide()
    for names, _ in places(plan):
        room.docks[names[0]].raise_()
    proportion(room, name, room.size())


def _split(room: DockRoom, part: Split | Place) -> None:
    """Makes room for every part of a split, the large ones before what is in them."""
    if not isinstance(part, Split):
        return
    way = Qt.Orientation.Horizontal if part.across else Qt.Orientation.Vertical
    for before, after in pairwise(part.parts):
        room.splitDockWidget(room.docks[_head(before)], room.docks[_head(after)], way)
        room.docks[_head(after)].show()
    for one in part.parts:
        _split(room, one)


def proportion(room: DockRoom, name: str, size: QSize) -> None:
    """Gives places of a workspace that comes with the client their share of a window."""
    _share(room, PLANS.get(name, PLANS[ARTIST]), size)


def _share(room: DockRoom, part: Split | Place, size: QSize) -> None:
    if not isinstance(part, Split):
        return
    whole = size.width() if part.across else size.height()
    docks = [room.docks[_head(one)] for one in part.parts]
    long = [whole * (one.share if isinstance(one, Split) else one[1]) // 100 for one in part.parts]
    way = Qt.Orientation.Horizontal if part.across else Qt.Orientation.Vertical
    room.resizeDocks(docks, long, way)
    for one, length in zip(part.parts, long, strict=True):
        inside = QSize(length, size.height()) if part.across else QSize(size.width(), length)
        _share(room, one, inside)


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
