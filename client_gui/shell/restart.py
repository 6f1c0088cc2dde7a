"""Starting a farm of this machine again whose broker or agent has ended, from the banner that says so.

What belongs here: when that is offered, and what is said meanwhile.  What may not: starting processes
(``net.programs``), and the banner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot

from client_gui.net.programs import LocalFarm, State
from client_gui.net.troubles import START_WORDS, ended_here
from client_gui.shell.banners import Choice
from client_gui.store.activity import Level
from farm.config.places import farm_name

if TYPE_CHECKING:
    from client_gui.desk import Desk


class Restart(QObject):
    """The way back to a farm of this machine.

    Args:
        desk: What is connected, and where it is said what went wrong.
        parent: Ends it.
    """

    def __init__(self, desk: Desk, parent: QObject) -> None:
        super().__init__(parent)
        self._desk = desk
        self._local: LocalFarm | None = None
        self._watched: LocalFarm | None = None

    @property
    def under_way(self) -> bool:
        """Whether it is being started."""
        return self._local is not None and self._local.state in (State.STARTING, State.ENDING)

    def choices(self) -> tuple[Choice, ...]:
        """The button, where it would help."""
        self._watch()
        lost = self._watched is not None and bool(self._watched.agent_trouble)
        if not (lost or ended_here(self._desk.client.standing)) or self.under_way:
            return ()
        return (Choice(START_WORDS, self.start),)

    def words(self) -> str:
        """What is said while it starts."""
        return " It is being started." if self.under_way else ""

    def start(self) -> None:
        """Starts it; the farm that is connected is the one that is meant."""
        farm = self._desk.client.farm or farm_name()
        local = LocalFarm.of(self._desk.client, farm)
        if local is not self._local:
            if self._local is not None:
                self._local.disconnect(self)
            self._local = local
            local.serving.connect(self._serves)
            local.changed.connect(self._changed)
        local.restart()

    def _watch(self) -> None:
        """Looks out for the farm's agent, once a farm of this machine is what is connected."""
        farm = self._desk.client.farm or farm_name()
        found = next((one for one in self._desk.client.findChildren(LocalFarm) if one.farm == farm), None)
        if found is self._watched:
            return
        if self._watched is not None:
            self._watched.changed.disconnect(self._agent_changed)
        self._watched = found
        if found is not None:
            found.changed.connect(self._agent_changed)
            self._agent_changed()

    @Slot()
    def _agent_changed(self) -> None:
        local = self._watched
        if local is not None and (trouble := local.news_of_agent()):
            hint = f"“{START_WORDS}” on the page where farms are chosen starts it"
            self._desk.notices.say(f"{local.farm}: {trouble}", Level.ERROR, hint=hint)

    @Slot(str)
    def _serves(self, farm: str) -> None:
        if self._local is not None and self._local.kept:
            self._desk.notices.say(f"{farm} serves again, and goes on when this window is closed")
        self._desk.client.resync()

    @Slot()
    def _changed(self) -> None:
        local = self._local
        if local is not None and local.state is State.IDLE and local.trouble:
            trouble = f"{local.farm} was not started: {local.trouble}"
            self._desk.notices.say(trouble, Level.ERROR)
