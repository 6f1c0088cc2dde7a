"""An agent driven by hand: a real connection and session, and messages as the test wants them.

What belongs here: hello, heartbeats, leases received, reports sent, right or wrong.  What it may not know:
rendering.  With it a test can say what a confused, outdated or hostile agent would say.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from farm.model.nodes import NodeFacts
from farm.model.outputs import FileFacts
from farm.model.reports import DONE, UnitReport
from farm.model.resources import Resources
from farm.protocol.agent import (
    AgentHello,
    BatchMsg,
    GrantMsg,
    LeaseMsg,
    ReportMsg,
    StopMsg,
    VerifiedMsg,
)
from farm.protocol.codec import agent_codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, WelcomeMsg
from farm.protocol.session import PeerSession, Phase
from farm.sdk.connect import Access, dial
from tests.support.waiting import PATIENCE_S, eventually

_CLOCK_US = 1_000_000


class HandAgent:
    """One agent without an agent; a context manager."""

    def __init__(self, access: Access, name: str, *, cores: int = 1) -> None:
        self.facts = NodeFacts(
            name=name, host=name, total=Resources(cores=cores, ram_mib=1024), renderers=("command",)
        )
        self._link = dial(access, access.endpoint.control, PATIENCE_S)
        self._session = PeerSession(agent_codec(), self._hello)
        self._n = 0
        self._now_us = _CLOCK_US
        self.leases: dict[int, LeaseMsg] = {}
        self.grants: list[GrantMsg] = []
        self.stops: list[StopMsg] = []
        self.discards: list[int] = []
        self.acks: set[int] = set()
        self.refusal = ""
        self.running: tuple[int, ...] = ()
        self.pending: tuple[int, ...] = ()

    def _hello(self, oldest: int, newest: int) -> HelloMsg:
        return HelloMsg(
            oldest=oldest,
            newest=newest,
            agent=AgentHello(
                facts=self.facts, running=self.running, pending=self.pending, instance=self.facts.name
            ),
        )

    def __enter__(self) -> Self:
        self.greet()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close(0.5)

    def greet(self) -> WelcomeMsg:
        """Opens (or opens anew) the session."""
        self.send_raw(self._session.greet())
        self.until(lambda: self._session.phase is not Phase.GREETING, "an answer to the hello")
        assert self._session.welcome is not None
        return self._session.welcome

    def send_raw(self, body: bytes) -> None:
        """Sends bytes as one message."""
        assert self._link.send(body)

    def take(self, timeout_s: float = 0.02) -> None:
        """Takes what has come."""
        body = self._link.recv(timeout_s)
        while body is not None:
            for message in self._session.receive(body):
                if isinstance(message, BatchMsg):
                    self.leases.update((lease.attempt, lease) for lease in message.leases)
                    self.grants += message.grants
                    self.stops += message.stops
                    self.discards += message.discard
                    self.acks |= set(message.acks)
                elif isinstance(message, RefusedMsg):
                    self.refusal = message.reason
            body = self._link.recv(0.0)

    def until(self, condition: Any, what: str) -> None:
        """Takes messages, and sends heartbeats, until the condition holds."""

        def met() -> bool:
            self.take()
            if self._session.phase is Phase.OPEN:
                self.beat()
            return bool(condition())

        eventually(met, what)

    def beat(self) -> None:
        """A heartbeat that names all leases."""
        self._now_us += 1
        self.send_raw(self._session.beat(self._now_us, tuple(self.leases)))

    def wait_lease(self, count: int = 1) -> list[LeaseMsg]:
        """Waits for that many leases in all."""
        self.until(lambda: len(self.leases) >= count, f"{count} leases")
        return list(self.leases.values())

    def verified(self, lease: LeaseMsg, *, nonce: int | None = None) -> None:
        """Says that the first unit's files are good."""
        self.send_raw(
            encode(VerifiedMsg(lease.attempt, lease.nonce if nonce is None else nonce, lease.units[0], ()))
        )

    def report(
        self,
        lease: LeaseMsg,
        *,
        outcome: int = DONE,
        nonce: int | None = None,
        closed: bool = True,
        failure: str = "",
        kept: tuple[int, ...] = (),
        files: tuple[FileFacts, ...] = (),
    ) -> None:
        """Reports all units of a lease and waits for the acknowledgement."""
        self._n += 1
        units = tuple(UnitReport(unit, outcome, failure, "", 1000, files) for unit in lease.units)
        number = lease.nonce if nonce is None else nonce
        self.send_raw(encode(ReportMsg(self._n, lease.attempt, number, units, closed, kept)))
        self.until(lambda: self._n in self.acks, f"report {self._n} is acknowledged")
