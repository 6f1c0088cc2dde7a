"""The link's thread: one session with the broker after another, heartbeats on time, nothing else.

What belongs here: when to greet, beat, send again and dial afresh.  What it may not know: how work is done;
leases are handed out through callables that return at once.

The thread waits for nothing but its line.  Disks, processes and pictures are other threads' business, so a
heartbeat is late only when the machine itself stands still.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from farm.model.errors import FarmUnreachable, PeerError
from farm.model.nodes import NodeFacts, NodeLoad
from farm.protocol.agent import (
    AgentHello,
    AgentWelcome,
    BatchMsg,
    BeatAckMsg,
    ByeMsg,
    DrainMsg,
    Timings,
    UpdateMsg,
)
from farm.protocol.codec import agent_codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, WelcomeMsg
from farm.protocol.session import PeerSession, Phase
from node_agent.desk import Desk
from node_agent.line import Line
from node_agent.machine import Held

log = logging.getLogger("overcrank.agent")

#: Heartbeats without an answer after which the line is dialled afresh.
DEAF_BEATS = 4
#: Longest pause between two tries after a refusal, in heartbeats.
BACKOFF_BEATS = 30
#: How long a full queue is left alone.
_RETRY_S = 0.05


class Calls(msgspec.Struct, kw_only=True):
    """What the link tells the agent; every callable returns at once.

    Attributes:
        facts: Gives what this node is now.
        load: Gives how busy it is, None while unknown.
        ending: Says whether it takes nothing new and ends once what runs has ended.
        lease: An attempt is to be run.
        discard: Kept files of these attempts must go.
        welcome: A session opened.
        other_farm: Another farm answers than the outbox belongs to: put that away.
        cut: The session is gone.
        update: The broker asks for an update of the software.
    """

    facts: Callable[[], NodeFacts]
    lease: Callable[[Held], None]
    discard: Callable[[tuple[int, ...]], None]
    welcome: Callable[[AgentWelcome], None]
    other_farm: Callable[[str], None]
    load: Callable[[], NodeLoad | None] = lambda: None
    ending: Callable[[], bool] = lambda: False
    cut: Callable[[], None] = lambda: None
    update: Callable[[UpdateMsg], None] = lambda message: None


class Link:
    """The control connection."""

    def __init__(
        self, line: Line, desk: Desk, calls: Calls, *, software: str = "", instance: str = ""
    ) -> None:
        self._line = line
        self._desk = desk
        self._calls = calls
        self._software = software
        self._instance = instance
        self._now_us = desk.now_us
        self._session = PeerSession(agent_codec(), self._hello)
        self._timings = Timings()
        self._connection = 0
        self._backlog: deque[bytes] = deque()
        self._beats: dict[int, tuple[int, ...]] = {}
        self._beat_no = 0
        self._beat_due_us = 0
        self._heard_us = 0
        self._deadline_us = 0
        self._failures = 0
        self._retry_us: int | None = None
        self._shown = ""
        self._greet_again = threading.Event()
        self._ending = threading.Event()
        self._end_us = 0
        self._bye = ""
        desk.on_outgoing(line.wake)

    # -- other threads --

    def greet_again(self) -> None:
        """The facts changed, or the agent ends: says hello afresh."""
        self._greet_again.set()
        self._line.wake()

    def end(self, reason: str, patience_s: float) -> None:
        """Says goodbye once every report is acknowledged, or after ``patience_s``; the thread ends."""
        self._bye = reason
        self._end_us = self._now_us() + int(patience_s * 1e6)
        self._ending.set()
        self._line.wake()

    # -- the thread --

    def run(self) -> None:
        """Body of the link's thread; ends after ``end``."""
        try:
            pause_s = self._turn()
            while not self._finished():
                self._line.wait(pause_s)
                pause_s = self._turn()
        except Exception:
            log.exception("event=link-failed")
            raise
        finally:
            if self._session.phase is Phase.OPEN and self._ending.is_set():
                self._line.send(encode(ByeMsg(self._bye)))
            self._lost_session()
            self._line.close(linger_s=1.0)

    def _finished(self) -> bool:
        if not self._ending.is_set():
            return False
        over = self._now_us() >= self._end_us
        idle = self._session.phase is Phase.OPEN and not self._backlog and not len(self._desk.outbox)
        return over or idle

    def _turn(self) -> float | None:
        """One round; returns how long nothing needs to be done, in seconds."""
        try:
            if self._retry_us is not None and self._now_us() >= self._retry_us:
                self._retry_us = None
                self._redial()
            self._receive()
            self._connect()
            if self._session.phase is Phase.OPEN:
                self._send()
        except FarmUnreachable as error:
            # Said again for as long as the refused line stands; then the next try is set already.
            if self._retry_us is None:
                self._lost_session()
                self._refused(str(error))
        except PeerError as error:
            log.error("event=peer-error reason=%s", error)
            self._lost_session()
            self._refused(str(error))
        return self._pause_s()

    def _receive(self) -> None:
        while (body := self._line.recv()) is not None:
            was_open = self._session.phase is Phase.OPEN
            for message in self._session.receive(body):
                self._handle(message)
            if was_open and self._session.phase is not Phase.OPEN:
                self._lost_session()

    def _handle(self, message: Any) -> None:
        if isinstance(message, BatchMsg):
            for held in self._desk.apply(message):
                self._calls.lease(held)
            if message.discard:
                self._calls.discard(message.discard)
        elif isinstance(message, BeatAckMsg):
            listed = self._beats.get(message.n, ())
            self._beats = {n: named for n, named in self._beats.items() if n > message.n}
            sent_us = self._session.beat_answered(message)
            if sent_us is not None:
                self._heard_us = self._now_us()
                self._desk.answered(sent_us, listed, message.held)
        elif isinstance(message, WelcomeMsg):
            self._welcome(message)
        elif isinstance(message, RefusedMsg):
            self._lost_session()
            self._refused(f"{message.reason} ({message.hint})" if message.hint else message.reason)
        elif isinstance(message, DrainMsg):
            log.info("event=drain on=%s reason=%s", message.on, message.reason)
        elif isinstance(message, UpdateMsg):
            self._calls.update(message)

    def _hello(self, oldest: int, newest: int) -> HelloMsg:
        running, pending = self._desk.hello_attempts()
        return HelloMsg(
            oldest=oldest,
            newest=newest,
            software=self._software,
            agent=AgentHello(
                facts=self._calls.facts(),
                farm_id=self._desk.outbox.farm_id,
                running=running,
                pending=pending,
                instance=self._instance,
                ending=self._calls.ending(),
            ),
        )

    def _welcome(self, message: WelcomeMsg) -> None:
        try:
            welcome = self._session.agent
        except PeerError:
            raise PeerError(
                f"this key is not an agent's: its role is {message.role!r}",
                hint="join this machine with a token made for agents",
            ) from None
        if self._desk.outbox.farm_id not in ("", welcome.farm_id):
            self._desk.forget_farm("this node belongs to another farm now")
            self._calls.other_farm(welcome.farm_id)
        self._desk.outbox.join(welcome.farm_id)
        self._timings = welcome.timings
        self._calls.welcome(welcome)
        self._backlog = deque(self._desk.opened(welcome.keep, int(welcome.timings.lease_ttl_s * 1e6)))
        self._beats.clear()
        self._failures = 0
        self._shown = ""
        self._retry_us = None
        self._heard_us = self._beat_due_us = self._now_us()
        log.info(
            "event=session farm=%s node=%d keep=%s reports=%d",
            message.farm_name,
            welcome.node_id,
            list(welcome.keep),
            len(self._backlog),
        )

    def _connect(self) -> None:
        """Greets on a new connection, and dials afresh when the broker does not answer."""
        now = self._now_us()
        line, session = self._line, self._session
        if self._retry_us is not None:
            return
        if line.connections != self._connection:
            self._connection = line.connections
            self._lost_session()
            session.phase = Phase.NEW
        elif session.phase is Phase.OPEN:
            if self._greet_again.is_set():
                session.phase = Phase.NEW
            elif now - self._heard_us > DEAF_BEATS * self._beat_us:
                log.warning("event=no-answer seconds=%.1f", (now - self._heard_us) / 1e6)
                self._redial()
                return
        elif session.phase is Phase.GREETING and now > self._deadline_us:
            log.warning("event=hello-unanswered")
            self._redial()
            return
        if session.phase is Phase.NEW and self._connection:
            self._greet_again.clear()
            if line.send(session.greet()):
                self._deadline_us = now + 2 * DEAF_BEATS * self._beat_us
            else:
                session.phase = Phase.NEW
        trouble = line.trouble() if session.phase is not Phase.OPEN else ""
        if trouble and trouble != self._shown:
            self._shown = trouble
            log.warning("event=no-connection reason=%s", trouble)

    @property
    def _beat_us(self) -> int:
        return int(self._timings.heartbeat_s * 1e6)

    def _redial(self) -> None:
        self._lost_session()
        self._session.phase = Phase.NEW
        self._line.reconnect()

    def _refused(self, reason: str) -> None:
        """Tries again later, later each time; what is held goes on."""
        if reason != self._shown:
            self._shown = reason
            log.error("event=refused reason=%s", reason)
        pause = min(BACKOFF_BEATS, 1 << min(self._failures, 10)) * self._beat_us
        self._failures += 1
        self._retry_us = self._now_us() + pause

    def _lost_session(self) -> None:
        self._backlog.clear()
        self._beats.clear()
        if self._desk.online:
            self._desk.closed_session()
            self._calls.cut()

    def _send(self) -> None:
        self._backlog.extend(self._desk.outgoing())
        now = self._now_us()
        if now >= self._beat_due_us or (self._desk.beat_wanted() and not self._beats):
            # Reports go first: a heartbeat that no longer names an attempt follows its last report.
            if not self._flush():
                return
            named, progress = self._desk.beat()
            self._beat_no += 1
            body = self._session.beat(now, named, progress, self._calls.load())
            if self._line.send(body):
                self._beats[self._beat_no] = named
            while len(self._beats) > 2 * DEAF_BEATS:
                del self._beats[next(iter(self._beats))]
            self._beat_due_us = now + self._beat_us
        else:
            self._flush()

    def _flush(self) -> bool:
        while self._backlog:
            if not self._line.send(self._backlog[0]):
                return False
            self._backlog.popleft()
        return True

    def _pause_s(self) -> float | None:
        if self._retry_us is None and self._line.connections != self._connection:
            # It came up after this turn had looked: the news is read already and will wake nobody.
            return 0.0
        now = self._now_us()
        due: list[int] = []
        if self._ending.is_set():
            due.append(self._end_us)
        if self._retry_us is not None:
            due.append(self._retry_us)
        elif self._session.phase is Phase.OPEN:
            due += [self._beat_due_us, self._heard_us + DEAF_BEATS * self._beat_us + 1000]
            if self._backlog:
                due.append(now + int(_RETRY_S * 1e6))
        elif self._session.phase is Phase.GREETING:
            due.append(self._deadline_us + 1000)
        elif self._connection:
            due.append(now + int(_RETRY_S * 1e6))
        if not due:
            return None
        return max(0.0, (min(due) - now) / 1e6)
