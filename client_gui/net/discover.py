"""Farms somebody may connect to: those known on this machine, and those announced on the network.

What belongs here: putting both together, off the window's thread.  What may not: mDNS itself
(``farm.transport.discovery``), widgets, joining.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from PySide6.QtCore import QObject, Qt, Signal, Slot

from farm.config.places import Places, farm_name, known_farms, read_endpoint
from farm.model.errors import OvercrankError
from farm.transport.discovery import Announced, Browser

#: How long ending may take; what does not end by then ends by itself, a thread that keeps nobody.
STOP_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Choice:
    """A farm to choose.

    Attributes:
        name: The name it is kept under here, or that it is announced by.
        place: ``host:port`` of its broker.
        known: Whether this user has a key for it: it can be connected to at once.
        usual: Whether it is the one this user talks to as a rule.
        here: Whether its broker belongs to this machine.
        ended: Whether that broker has ended.
        seen: Whether it is announced on the network just now.
        key: Fingerprint of the broker's key as announced, "" when it is not.
        software: Its version as announced.
    """

    name: str
    place: str
    known: bool
    usual: bool = False
    here: bool = False
    ended: bool = False
    seen: bool = False
    key: str = ""
    software: str = ""

    @property
    def words(self) -> str:
        """What to say of it beside name and place."""
        if not self.known:
            return "on this network; joining takes a token"
        if self.ended:
            return "this machine; not running"
        parts = ["this machine" if self.here else "joined"]
        if self.seen and not self.here:
            parts.append("on this network")
        if self.usual:
            parts.append("the usual one")
        return ", ".join(parts)

    @property
    def advice(self) -> str:
        """How to get in where this user has no key; "" where there is one."""
        if self.known:
            return ""
        key = f" Its broker's key should be {self.key}." if self.key else ""
        return (
            f"To join {self.name}, ask one of its administrators for a token (`farm keys invite` makes one)"
            f" and paste it below.{key}"
        )


class Finder(Protocol):
    """What listens on the network: ``farm.transport.discovery.Browser``, or what a test brings."""

    trouble: str

    def start(self) -> None:
        """Begins."""
        ...

    def stop(self, wait_s: float = ...) -> bool:
        """Ends."""
        ...


class Discovery(QObject):
    """Looks for farms while it is on.

    Args:
        make: Makes what listens on the network.

    Attributes:
        choices: What was found, known farms first.
        trouble: Why nothing can be found on the network, "" while it can.
    """

    #: ``choices`` or ``trouble`` changed.
    changed = Signal()
    _told = Signal(object)
    _read = Signal(object)

    def __init__(
        self,
        parent: QObject | None = None,
        make: Callable[[Callable[[tuple[Announced, ...]], None]], Finder] = Browser,
    ) -> None:
        super().__init__(parent)
        self.choices: tuple[Choice, ...] = ()
        self.trouble = ""
        self._make = make
        self._finder: Finder | None = None
        self._seen: tuple[Announced, ...] = ()
        self._kept: tuple[tuple[Choice, str], ...] = ()
        self._told.connect(self._take_seen, Qt.ConnectionType.QueuedConnection)
        self._read.connect(self._take_kept, Qt.ConnectionType.QueuedConnection)

    def start(self) -> None:
        """Begins to look; the known farms come at once, others when they are heard of."""
        self.refresh()
        if self._finder is None:
            self._finder = self._make(self._tell)
            self._finder.start()

    def stop(self) -> None:
        """Looks no more; what was found stays."""
        finder, self._finder = self._finder, None
        if finder is not None:
            finder.stop(STOP_S)

    def refresh(self) -> None:
        """Reads anew which farms are known here, in a thread of its own: homes may be on slow disks."""
        threading.Thread(target=self._list, name="known farms", daemon=True).start()

    # -- other threads --

    def _tell(self, found: tuple[Announced, ...]) -> None:
        _emit(self, "_told", found)

    def _list(self) -> None:
        _emit(self, "_read", known_choices())

    # -- the window's thread --

    @Slot(object)
    def _take_seen(self, found: tuple[Announced, ...]) -> None:
        if self._finder is None:
            return
        self._seen, self.trouble = found, self._finder.trouble
        self._merge()

    @Slot(object)
    def _take_kept(self, kept: tuple[tuple[Choice, str], ...]) -> None:
        self._kept = kept
        self._merge()

    def _merge(self) -> None:
        self.choices = merged(self._kept, self._seen)
        self.changed.emit()


def known_choices() -> tuple[tuple[Choice, str], ...]:
    """The farms known on this machine, each with its id."""
    try:
        usual = farm_name()
    except OvercrankError:
        usual = ""
    found: list[tuple[Choice, str]] = []
    for name in known_farms():
        try:
            places = Places(name)
            here, joined = read_endpoint(places.endpoint), read_endpoint(places.joined)
        except OvercrankError:
            continue  # damaged: connecting says how
        endpoint = here if here is not None and (not here.process_gone or joined is None) else joined
        if endpoint is None:
            continue
        mine = endpoint is here
        found.append(
            (
                Choice(
                    name,
                    endpoint.control,
                    known=True,
                    usual=name == usual,
                    here=mine,
                    ended=mine and endpoint.process_gone,
                ),
                endpoint.farm_id,
            )
        )
    return tuple(found)


def merged(kept: tuple[tuple[Choice, str], ...], seen: tuple[Announced, ...]) -> tuple[Choice, ...]:
    """Known farms and announced ones as one list: a farm that is both is told once, as known."""
    announced = {one.farm_id: one for one in seen}
    found: list[Choice] = []
    for choice, farm_id in kept:
        one = announced.pop(farm_id, None)
        if one is not None:
            choice = Choice(
                choice.name,
                choice.place,
                known=True,
                usual=choice.usual,
                here=choice.here,
                ended=choice.ended,
                seen=True,
                key=one.key,
                software=one.software,
            )
        found.append(choice)
    strangers = [
        Choice(one.farm, one.place, known=False, seen=True, key=one.key, software=one.software)
        for one in announced.values()
    ]
    found.sort(key=lambda choice: (not choice.usual, choice.ended))
    return (*found, *sorted(strangers, key=lambda choice: (choice.name.casefold(), choice.place)))


def _emit(owner: QObject, name: str, what: object) -> None:
    """Gives a signal from another thread, unless its owner is gone."""
    try:
        getattr(owner, name).emit(what)
    except RuntimeError:  # the window was closed meanwhile
        pass
