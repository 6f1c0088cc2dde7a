"""The far end of an agent's two lines, in this process: no sockets, every message kept.

What belongs here: what a broker says to an agent and hears from it, written from the messages' documentation
alone.  What it may not know: the agent's inside, and scheduling; what is leased the test says.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from farm.model.errors import FarmUnreachable
from farm.model.resources import Resources
from farm.protocol.agent import (
    AgentWelcome,
    BatchMsg,
    BeatAckMsg,
    BeatMsg,
    ByeMsg,
    GrantMsg,
    LeaseMsg,
    ReportMsg,
    StepTemplate,
    StopMsg,
    Timings,
    UnitReport,
    VerifiedMsg,
)
from farm.protocol.bulk import LogAckMsg, LogPutMsg, LogsAckMsg, LogsPutMsg, PreviewPutMsg
from farm.protocol.codec import broker_codec, bulk_in_codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, WelcomeMsg
from tests.support.waiting import PATIENCE_S

#: Lease times of the tests: a thirtieth of the farm's.
FAST = Timings(heartbeat_s=0.1, suspect_s=0.5, lost_s=2.0, lease_ttl_s=1.5, kill_grace_s=0.5)


class FakeLine:
    """An agent's line whose far end is a function; both ends in this process."""

    def __init__(self, answer: Callable[[FakeLine, bytes], None]) -> None:
        self._answer = answer
        self._news = threading.Condition()
        self._inbox: deque[bytes] = deque()
        self._woken = False
        self._up = True
        self._connections = 1
        self.refusal = ""
        self.dials = 1
        self.closed = False

    @property
    def connections(self) -> int:
        return self._connections

    def send(self, body: bytes) -> bool:
        if not self._up:
            return False
        self._answer(self, body)
        return True

    def recv(self) -> bytes | None:
        with self._news:
            if self.refusal:
                raise FarmUnreachable(self.refusal)
            return self._inbox.popleft() if self._inbox else None

    def trouble(self) -> str:
        return "" if self._up else "the wire is cut"

    def wait(self, timeout_s: float | None) -> None:
        with self._news:
            self._news.wait_for(lambda: self._inbox or self._woken, timeout_s)
            self._woken = False

    def wake(self) -> None:
        with self._news:
            self._woken = True
            self._news.notify_all()

    def reconnect(self) -> None:
        with self._news:
            self.dials += 1
            self._inbox.clear()
            if self._up:
                self._connections += 1
            self._news.notify_all()

    def close(self, linger_s: float = 0.0) -> None:
        self.closed = True

    # -- the test's side --

    def push(self, message: Any) -> None:
        """Sends a message to the agent."""
        with self._news:
            if self._up:
                self._inbox.append(message if isinstance(message, bytes) else encode(message))
                self._news.notify_all()

    def cut(self) -> None:
        """The broker is gone: nothing comes, nothing goes."""
        with self._news:
            self._up = False
            self._inbox.clear()

    def mend(self) -> None:
        """The broker is back, on a new connection."""
        with self._news:
            self._up = True
            self._connections += 1
            self._woken = True
            self._news.notify_all()


class FakeBroker:
    """The far end of an agent's control line.

    Attributes:
        answer_beats: Whether heartbeats are answered.
        ack: Whether reports are acknowledged.
        known: Attempts it counts as the agent's.
    """

    def __init__(self, timings: Timings = FAST, farm_id: str = "farm-1") -> None:
        self.timings = timings
        self.farm_id = farm_id
        self.line = FakeLine(self._on_message)
        self.bulk = FakeLine(self._on_bulk)
        self.changed = threading.Condition()
        self.answer_beats = True
        self.ack = True
        self.refuse = ""
        self.path_rules: tuple[tuple[str, str], ...] = ()
        self.grant: Callable[[VerifiedMsg], str | None] | None = lambda _message: ""
        self.known: set[int] = set()
        self.hellos: list[HelloMsg] = []
        self.beats: list[tuple[float, BeatMsg]] = []
        self.reports: list[ReportMsg] = []
        self.verified: list[VerifiedMsg] = []
        self.byes: list[ByeMsg] = []
        self.logs: dict[int, bytes] = {}
        self.ended_logs: set[int] = set()
        self.previews: list[PreviewPutMsg] = []
        self._decode = broker_codec().decode
        self._decode_bulk = bulk_in_codec().decode
        self._n = 0
        self._attempts = itertools.count(1)

    # -- from the agent --

    def _on_message(self, line: FakeLine, body: bytes) -> None:
        message = self._decode(body)
        with self.changed:
            if isinstance(message, HelloMsg):
                self._hello(message)
            elif isinstance(message, BeatMsg):
                self.beats.append((time.monotonic(), message))
                if self.answer_beats:
                    held = tuple(attempt for attempt in message.held if attempt in self.known)
                    line.push(BeatAckMsg(message.n, held))
            elif isinstance(message, ReportMsg):
                self.reports.append(message)
                if message.closed:
                    self.known.discard(message.attempt)
                if self.ack:
                    self.batch(acks=(message.n,))
            elif isinstance(message, VerifiedMsg):
                self.verified.append(message)
                reason = self.grant(message) if self.grant is not None else None
                if reason is not None:
                    self.batch(grants=(GrantMsg(message.attempt, message.unit, reason),))
            elif isinstance(message, ByeMsg):
                self.byes.append(message)
            self.changed.notify_all()

    def _hello(self, message: HelloMsg) -> None:
        self.hellos.append(message)
        self._n = 0
        if self.refuse:
            self.line.push(RefusedMsg("denied", self.refuse))
            return
        assert message.agent is not None
        keep = {*message.agent.running, *message.agent.pending} & self.known
        self.line.push(
            WelcomeMsg(
                version=1,
                session=len(self.hellos),
                farm_name="test",
                software="test",
                role="agent",
                user="",
                agent=AgentWelcome(
                    node_id=1,
                    farm_id=self.farm_id,
                    timings=self.timings,
                    keep=tuple(sorted(keep)),
                    path_rules=self.path_rules,
                ),
            )
        )

    def _on_bulk(self, line: FakeLine, body: bytes) -> None:
        message = self._decode_bulk(body)
        with self.changed:
            if isinstance(message, LogsPutMsg):
                for short in message.logs:
                    self.logs[short.attempt] = short.data
                    self.ended_logs.add(short.attempt)
                line.push(LogsAckMsg(tuple(LogAckMsg(one.attempt, len(one.data)) for one in message.logs)))
            elif isinstance(message, LogPutMsg):
                have = self.logs.setdefault(message.attempt, b"")
                if message.offset != len(have):
                    line.push(LogAckMsg(message.attempt, len(have), "there is a gap"))
                else:
                    self.logs[message.attempt] = have + message.data
                    if message.end:
                        self.ended_logs.add(message.attempt)
                    line.push(LogAckMsg(message.attempt, len(self.logs[message.attempt])))
            elif isinstance(message, PreviewPutMsg):
                self.previews.append(message)
            self.changed.notify_all()

    # -- to the agent --

    def batch(self, **fields: Any) -> None:
        """Sends a numbered batch."""
        with self.changed:
            self._n += 1
            self.line.push(BatchMsg(self._n, **fields))

    def lease(self, template: StepTemplate, frames: Iterable[int] = (), **fields: Any) -> LeaseMsg:
        """Leases a new attempt; single without frames."""
        frames = tuple(frames)
        attempt = fields.pop("attempt", None) or next(self._attempts)
        lease = LeaseMsg(
            attempt=attempt,
            no=fields.pop("no", attempt),
            nonce=fields.pop("nonce", 0x1234_5678_9ABC_0000 + attempt),
            kind=fields.pop("kind", 0),
            units=fields.pop("units", tuple(range(len(frames))) if frames else (0,)),
            frames=frames,
            template=msgspec.Raw(encode(template)),
            resources=fields.pop("resources", Resources(cores=1)),
            **fields,
        )
        with self.changed:
            self.known.add(attempt)
            self.batch(leases=(lease,))
        return lease

    def stop(self, attempt: int, reason: str = "canceled", **fields: Any) -> None:
        """Stops an attempt or takes units back."""
        self.batch(stops=(StopMsg(attempt, reason, **fields),))

    def lose(self, attempt: int) -> None:
        """Counts the attempt as lost from now on."""
        with self.changed:
            self.known.discard(attempt)

    # -- what the test asks --

    def wait_for(self, condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
        """Waits for a condition on what was received."""
        with self.changed:
            assert self.changed.wait_for(condition, patience_s), (
                f"waited {patience_s} s for: {what}; reports: {self.reports}"
            )
            return condition()

    def closed(self, attempt: int, patience_s: float = PATIENCE_S) -> dict[int, UnitReport]:
        """Waits for an attempt's close; returns the outcomes by unit, each told exactly once."""
        self.wait_for(
            lambda: any(r.closed and r.attempt == attempt for r in self.reports),
            f"the close of attempt {attempt}",
            patience_s,
        )
        return self.units(attempt)

    def units(self, attempt: int) -> dict[int, UnitReport]:
        """Outcomes by unit so far (a report that was sent again counts once)."""
        found: dict[int, UnitReport] = {}
        seen: set[int] = set()
        for report in self.reports:
            if report.attempt != attempt or report.n in seen:
                continue
            seen.add(report.n)
            for unit in report.units:
                assert unit.unit not in found, f"unit {unit.unit} was reported twice"
                found[unit.unit] = unit
        return found

    def log_text(self, attempt: int) -> str:
        """The whole log of a closed attempt."""
        self.wait_for(lambda: attempt in self.ended_logs, f"the log of attempt {attempt}")
        return self.logs[attempt].decode("utf-8", "replace")
