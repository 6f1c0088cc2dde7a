"""Sans-I/O sessions: hello, version, numbering, heartbeat bookkeeping, resume.

Both ends of a control connection drive one of these objects.  They hold no socket, thread or clock:
bytes and the time go in, bytes and typed messages come out.

A session belongs to one connection.  When the line was cut, ZeroMQ reconnects under a new routing id
that the broker does not know; it answers RehelloMsg and the peer says hello again, naming what it still
holds.  So nothing that was lost in flight stays unknown: the hello reconciles both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from farm.model.errors import PeerError, SessionRefused, from_wire
from farm.protocol.agent import AgentWelcome, AttemptProgress, BatchMsg, BeatAckMsg, BeatMsg, NodeLoad
from farm.protocol.client import DeltaMsg, SnapshotMsg
from farm.protocol.codec import Codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, RehelloMsg, WelcomeMsg
from farm.protocol.version import OLDEST, VERSION, negotiate


class Phase(StrEnum):
    """Where a peer's session stands."""

    NEW = "new"
    GREETING = "greeting"
    OPEN = "open"
    REFUSED = "refused"


class PeerSession:
    """The agent's or client's end.

    Attributes:
        phase: Where it stands.
        welcome: The broker's welcome once open.
        refusal: Why the broker refused, else None.
        got: Number of the last BatchMsg received in order.
        gaps: How often a gap in the numbers was seen (each makes the session start again).
    """

    def __init__(
        self,
        codec: Codec[Any],
        make_hello: Callable[[int, int], HelloMsg],
        speaks: tuple[int, int] = (OLDEST, VERSION),
    ) -> None:
        """Makes a session that is not open yet.

        Args:
            codec: What this side reads.
            make_hello: Makes the hello from (oldest, newest); called for every greeting, so that it
                names what the peer holds at that moment.
            speaks: Protocol versions this side speaks.
        """
        self._codec = codec
        self._make_hello = make_hello
        self._speaks = speaks
        self.phase = Phase.NEW
        self.welcome: WelcomeMsg | None = None
        self.refusal: SessionRefused | None = None
        self.got = 0
        self.gaps = 0
        self._delta = 0
        self._beat = 0
        self._sent_beats: dict[int, int] = {}
        #: Time (the caller's clock) at which the last answered beat was sent.
        self.last_answered_us: int | None = None

    def greet(self) -> bytes:
        """Starts (again) and returns the hello to send on the present connection."""
        self.phase = Phase.GREETING
        self.got = 0
        self._delta = 0
        self._sent_beats.clear()
        return encode(self._make_hello(*self._speaks))

    def receive(self, body: bytes) -> list[Any]:
        """Takes one message; returns those the application must act on (a welcome included).

        A RehelloMsg and a gap in the numbers put the session back to NEW: the caller greets again.

        Raises:
            PeerError: The message is malformed.
        """
        message = self._codec.decode(body)
        kind = type(message)
        if kind is WelcomeMsg:
            if self.phase is not Phase.GREETING:
                return []
            negotiate((message.version, message.version), self._speaks)
            self.welcome = message
            self.phase = Phase.OPEN
            return [message]
        if kind is RefusedMsg:
            error = from_wire(message.code, message.reason, message.hint)
            self.refusal = SessionRefused(error.message, hint=error.hint)
            self.phase = Phase.REFUSED
            return [message]
        if kind is RehelloMsg:
            if self.phase is Phase.OPEN:
                self.phase = Phase.NEW
            return []
        if self.phase is not Phase.OPEN:
            return []
        if kind is BatchMsg:
            if message.n != self.got + 1:
                return self._gap()
            self.got = message.n
        elif kind is SnapshotMsg:
            self._delta = message.n
        elif kind is DeltaMsg:
            if message.n != self._delta + 1:
                return self._gap()
            self._delta = message.n
        return [message]

    def _gap(self) -> list[Any]:
        self.gaps += 1
        self.phase = Phase.NEW
        return []

    # -- heartbeats (agents) --

    def beat(
        self,
        now_us: int,
        held: tuple[int, ...],
        progress: tuple[AttemptProgress, ...] = (),
        load: NodeLoad | None = None,
    ) -> bytes:
        """The next heartbeat, sent at ``now_us`` of a clock that counts suspended time too."""
        self._beat += 1
        self._sent_beats[self._beat] = now_us
        if len(self._sent_beats) > 64:
            del self._sent_beats[next(iter(self._sent_beats))]
        return encode(BeatMsg(n=self._beat, held=held, got=self.got, progress=progress, load=load))

    def beat_answered(self, ack: BeatAckMsg) -> int | None:
        """When the answered beat was sent, None when it is unknown (of an earlier session)."""
        sent = self._sent_beats.pop(ack.n, None)
        if sent is not None:
            for n in [n for n in self._sent_beats if n < ack.n]:
                del self._sent_beats[n]
            self.last_answered_us = sent
        return sent

    @property
    def agent(self) -> AgentWelcome:
        """The agent's part of the welcome; only while open."""
        if self.welcome is None or self.welcome.agent is None:
            raise PeerError("the broker's welcome has no agent part")
        return self.welcome.agent


class BrokerSession(msgspec.Struct):
    """The broker's end of one connection.

    Attributes:
        routing_id: ZeroMQ routing id of the connection.
        key: Public key every message of this connection must come from (the User-Id).
        version: Negotiated protocol version.
        session: Random number of the session.
        node_id: Set when the peer is an agent.
        sent: Number of the last BatchMsg sent.
        delta: Number of the last SnapshotMsg or DeltaMsg sent.
        topics: What a client follows.
        leases: Attempt id -> number of the BatchMsg that carried its lease in this session.
        heard_us: When a client last said something.
    """

    routing_id: bytes
    key: str
    version: int
    session: int
    role: str
    user: str
    node_id: int = 0
    sent: int = 0
    delta: int = 0
    topics: tuple[str, ...] = ()
    leases: dict[int, int] = {}
    heard_us: int = 0

    def next_batch(self) -> int:
        """Number of the next BatchMsg."""
        self.sent += 1
        return self.sent


def never_arrived(session: BrokerSession, held: tuple[int, ...], got: int) -> tuple[int, ...]:
    """Attempts whose lease was received by ``got`` and that the agent does not hold (any more).

    Each is named once: what the broker still counts as leased among them was lost on the agent's side.
    """
    leases = session.leases
    if not leases:
        return ()
    seen = [attempt for attempt, n in leases.items() if n <= got]
    for attempt in seen:
        del leases[attempt]
    return tuple(attempt for attempt in seen if attempt not in held)


def accept_hello(hello: HelloMsg, speaks: tuple[int, int] = (OLDEST, VERSION)) -> int:
    """The version to speak with this peer.

    Raises:
        PeerError: None in common.
    """
    return negotiate((hello.oldest, hello.newest), speaks)
