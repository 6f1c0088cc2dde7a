"""What the window's thread and the sockets' thread hand to each other, and nothing else crosses.

What belongs here: immutable records, and the interface of whoever owns the sockets.  What may not: Qt and
sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import msgspec

from client_gui.store.farmstore import Link
from farm.model.errors import OvercrankError
from farm.protocol.client import DeltaMsg, SnapshotMsg
from farm.protocol.common import WelcomeMsg


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to send.

    Attributes:
        number: Of the request in this client; its answer repeats it.  The message's own ``id`` is it, too.
        body: The message, of ``farm.protocol.client``, or of ``farm.protocol.bulk`` when ``bulk``.
        bulk: Whether it goes to the bulk socket (logs, previews, columns).
        repeat: Whether asking twice does no harm, so that a lost connection may be bridged.
        timeout_s: How long an answer may take.
    """

    number: int
    body: msgspec.Struct
    bulk: bool = False
    repeat: bool = True
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Follow:
    """What to subscribe to from now on."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """An answer is of no use any more: not to be waited for, and not sent if it was not yet."""

    number: int


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect to a farm by the name it is kept under; None = the one this user talks to as a rule."""

    farm: str | None = None


@dataclass(frozen=True, slots=True)
class Resync:
    """Ask for everything that is followed anew; and when there is no connection, try at once."""


Outgoing = Ask | Follow | Cancel | Dial | Resync


@dataclass(frozen=True, slots=True)
class Answer:
    """To an ``Ask``: its reply, or the error it ended with.

    Attributes:
        number: Of the request.
        reply: The reply, None with ``error``.
        error: Why there is none.
        took_us: From sending to the answer.
    """

    number: int
    reply: Any = None
    error: OvercrankError | None = None
    took_us: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """Of what is followed.

    Attributes:
        message: The state, or numbered changes.
        topics: What was subscribed to when a snapshot was asked for.
    """

    message: SnapshotMsg | DeltaMsg
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heard:
    """The broker is there; how long a small question took it."""

    round_trip_us: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """How the connection stands.

    Attributes:
        link: In a word.
        trouble: Why it is not up, "" when it is.
        hint: What to do about it.
        code: Of the error (``farm.model.errors``), "" for none: a refused key, another version, nobody there.
        retry_in_s: When the next try is made, None when there will be none or nobody knows.
    """

    link: Link
    trouble: str = ""
    hint: str = ""
    code: str = ""
    retry_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class Welcomed:
    """A session is open.

    Attributes:
        welcome: What the broker said of itself and of this key.
        farm: The name the farm is kept under here.
        place: Where its broker is.
        farm_id: The farm's random id: another one is another farm, whatever its name.
    """

    welcome: WelcomeMsg
    farm: str = ""
    place: str = ""
    farm_id: str = ""
    notes: tuple[str, ...] = field(default=())


Incoming = Answer | News | Heard | Standing | Welcomed


class Port(Protocol):
    """Whoever owns the sockets, as the window's thread sees it.  No call blocks."""

    def start(self) -> None:
        """Begins; nothing is dialled before a ``Dial``."""
        ...

    def post(self, message: Outgoing) -> None:
        """Hands something over; from the window's thread."""
        ...

    def take(self) -> list[Incoming]:
        """All that has come since the last call, in order."""
        ...

    def stop(self, wait_s: float = 3.0) -> bool:
        """Ends; whether it did within the wait.  May be called twice."""
        ...


@runtime_checkable
class Wakes(Protocol):
    """A port that tells when something came that should not wait for the next tick of the window."""

    def listen(self, on_mail: Callable[[], None]) -> None:
        """Has somebody called, from any thread, once until the mailbox is taken."""
        ...
