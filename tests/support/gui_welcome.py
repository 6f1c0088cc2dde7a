"""The welcome page for tests: why there is no farm, farms to choose from, and a quiet network.

What belongs here: the page, and what it is told.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

from collections.abc import Callable

from pytestqt.qtbot import QtBot

from client_gui.net.discover import Choice, Discovery
from client_gui.net.line import VERSION_CODE
from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from client_gui.views.welcome import WelcomeView
from farm.transport.discovery import Announced
from tests.support.gui_rig import Rig

LOST = Standing(
    Link.LOST, "no farm answers at 127.0.0.1:7460", "start one with `farm broker`", "unreachable", 2.0
)
REFUSED = Standing(
    Link.REFUSED, "the farm does not know this key", "ask its administrator for a join token", "refused"
)
VERSION = Standing(
    Link.REFUSED, "no protocol version in common: peer 1-1, here 3-4", "the broker is too old", VERSION_CODE
)
STUDIO = Choice("studio", "10.0.0.5:7460", known=True, usual=True)
STRANGER = Choice("Nord", "nord.lan:7460", known=False, seen=True, key="szo7-2td3-et4t")


class Quiet:
    """A network on which nobody announces anything but what a test tells."""

    def __init__(self, tell: Callable[[tuple[Announced, ...]], None]) -> None:
        self.tell = tell
        self.trouble = ""
        self.started = self.stopped = 0

    def start(self) -> None:
        self.started += 1

    def stop(self, wait_s: float = 0.0) -> bool:
        self.stopped += 1
        return True


class Page:
    """The page, and what it asked for."""

    def __init__(self, rig: Rig, bot: QtBot) -> None:
        self.rig = rig
        self.networks: list[Quiet] = []

        def make(tell: Callable[[tuple[Announced, ...]], None]) -> Quiet:
            self.networks.append(Quiet(tell))
            return self.networks[-1]

        self.discovery = Discovery(None, make)
        self.view = WelcomeView(rig.desk, discovery=self.discovery)
        bot.addWidget(self.view)
        self.connected: list[str] = []
        self.view.connect_to.connect(self.connected.append)
        self.view.resize(1100, 640)
        with bot.waitExposed(self.view):
            self.view.show()

    def offer(self, *choices: Choice) -> None:
        self.discovery.choices = choices
        self.discovery.changed.emit()

    def texts(self) -> str:
        view = self.view
        return " | ".join(
            label.text() for label in (view.heading, view.text, view.advice) if not label.isHidden()
        )


def announced(farm: str, farm_id: str, host: str = "h.lan") -> Announced:
    """A farm that somebody announces on the network."""
    return Announced(farm=farm, farm_id=farm_id, key="abcd", software="0.1.0", host=host, control_port=7460)
