"""A line to a farm for tests, turn by turn: wires without sockets that say what a test says, a clock by hand.

What belongs here: the wires, where they lead, and requests.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from client_gui.net.dialer import Dialer, Route
from client_gui.net.line import Line
from client_gui.net.port import Answer, Ask, Dial, Incoming, Standing
from farm.config.places import Endpoint
from farm.model.errors import FarmUnreachable, OvercrankError
from farm.protocol.bulk import LogGetMsg
from farm.protocol.client import ActReq, JobsReply, JobsReq, StatusReq
from farm.protocol.codec import broker_codec, bulk_in_codec, encode
from farm.protocol.common import HelloMsg, WelcomeMsg
from farm.sdk.connect import Access
from farm.transport.client_link import LinkState, LinkStatus
from farm.transport.keys import generate_keypair

PAIR = generate_keypair()
CONTROL, BULK = "10.0.0.5:7460", "10.0.0.5:7462"


class FakeWire:
    """A connection that is as the test says."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections = 0
        self.status = LinkStatus(LinkState.CONNECTING, f"dialling {address}")
        self.inbox: deque[bytes] = deque()
        self.sent: list[Any] = []
        self.pending = False
        self.closed = False
        self.linger_s = -1.0
        self.full = False
        self._codec = broker_codec() if address == CONTROL else bulk_in_codec()

    def up(self) -> None:
        self.connections += 1
        self.status = LinkStatus(LinkState.UP)

    def down(self, state: LinkState = LinkState.CONNECTING, reason: str = "the line broke") -> None:
        self.status = LinkStatus(state, reason, "look at the cable")

    def send(self, body: bytes) -> bool:
        assert not self.closed
        if self.status.state is not LinkState.UP or self.full:
            return False
        self.sent.append(self._codec.decode(body))
        return True

    def recv(self, timeout_s: float | None = 0.0) -> bytes | None:
        assert not self.closed
        if self.inbox:
            return self.inbox.popleft()
        if self.status.state is LinkState.REFUSED:
            raise self.error()
        return None

    def error(self) -> FarmUnreachable:
        return FarmUnreachable(self.status.reason, hint=self.status.hint)

    def close(self, linger_s: float = 0.0) -> None:
        self.closed = True
        self.linger_s = linger_s

    def poll_sockets(self) -> tuple[Any, ...]:
        return ()

    def put(self, *messages: msgspec.Struct) -> None:
        self.inbox.extend(encode(message) for message in messages)

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.sent if type(message) is kind]


class FakeDialer(Dialer):
    """Finds every farm at one place, or says the trouble; keeps the wires it opened."""

    def __init__(self) -> None:
        self.wires: list[FakeWire] = []
        self.finds: list[str | None] = []
        self.trouble: OvercrankError | None = None

    def find(self, farm: str | None, done: Callable[[], None]) -> Route:
        self.finds.append(farm)
        if self.trouble is not None:
            raise self.trouble
        endpoint = Endpoint(
            control=CONTROL, join="10.0.0.5:7461", bulk=BULK, public=PAIR.public, farm_id="f1"
        )
        return Route(Access(farm or "studio", endpoint, PAIR), done)

    def open(self, route: Route, address: str) -> FakeWire:
        self.wires.append(FakeWire(address))
        return self.wires[-1]


class Stand:
    """A line, what it gave, and the hours."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.given: list[Incoming] = []
        self.dialer = FakeDialer()
        self.line = Line(self.given.append, self.dialer, clock=lambda: self.now_s, draw=lambda: 0.5)

    @property
    def wire(self) -> FakeWire:
        return next(wire for wire in reversed(self.dialer.wires) if wire.address == CONTROL)

    @property
    def bulk(self) -> FakeWire:
        return next(wire for wire in reversed(self.dialer.wires) if wire.address == BULK)

    def turn(self, after_s: float = 0.0) -> float | None:
        self.now_s += after_s
        return self.line.turn()

    def settle(self) -> None:
        """Turns until nothing is due at once."""
        for _ in range(50):
            if self.turn() != 0.0:
                return
        raise AssertionError("the line never comes to rest")

    def post(self, *messages: Any) -> None:
        for message in messages:
            self.line.post(message)
        self.turn()

    def dial(self, farm: str | None = "studio") -> None:
        self.post(Dial(farm))

    def welcome(self) -> None:
        """Lets the connection come up and the session open."""
        self.wire.up()
        self.turn()
        assert isinstance(self.wire.sent[-1], HelloMsg)
        self.hello()

    def hello(self) -> None:
        self.wire.put(
            WelcomeMsg(version=1, session=7, farm_name="Studio", software="0.1", role="artist", user="ana")
        )
        self.turn()

    def live(self) -> None:
        self.dial()
        self.welcome()

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.given if type(message) is kind]

    @property
    def standing(self) -> Standing:
        return self.of(Standing)[-1]

    def answer(self, number: int) -> Answer:
        found = [answer for answer in self.of(Answer) if answer.number == number]
        assert len(found) == 1, f"{len(found)} answers to {number}"
        return found[0]

    def pong(self) -> None:
        """Answers every small question that is open."""
        for ping in self.wire.of(JobsReq):
            if ping.id > 1 << 40:
                self.wire.put(JobsReply(id=ping.id, jobs=()))


def act(number: int) -> Ask:
    """A request that changes something: it is never repeated."""
    return Ask(number, ActReq(id=number, action="pause", address="J1"), repeat=False)


def read(number: int, timeout_s: float = 10.0) -> Ask:
    """A question."""
    return Ask(number, StatusReq(id=number), timeout_s=timeout_s)


def page(number: int, timeout_s: float = 10.0) -> Ask:
    """A question on the line for logs."""
    return Ask(number, LogGetMsg(id=number, job=1, step="a", no=1), bulk=True, timeout_s=timeout_s)
