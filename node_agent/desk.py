"""The agent's desk: the one place where the link's thread and the attempts' threads meet.

What belongs here: the state machine behind a lock, what waits to be sent, and the waking of whoever a change
concerns.  What it may not know: sockets, processes, files of a step.

The lock is held for microseconds only.  Disks are written to outside of it, so that a heartbeat never waits
for one.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from farm.model.errors import IllegalMove
from farm.model.ids import ATTEMPT_FOLDER
from farm.model.nodes import AttemptProgress
from farm.model.outputs import FileFacts
from farm.model.reports import RELEASED, UnitReport
from farm.protocol.agent import BatchMsg, LeaseMsg
from farm.protocol.codec import encode
from node_agent.machine import Held, Machine, Phase
from node_agent.outbox import Begun, Outbox

#: Bytes of units one report may hold; a broker takes messages of at most 1 MiB from a peer.
REPORT_BYTES = 384 * 1024


def boot_us() -> int:
    """Microseconds of CLOCK_BOOTTIME: counts on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Signals:
    """How one attempt's threads learn of changes: a condition, and a descriptor for poll()."""

    __slots__ = ("changed", "fd")

    def __init__(self, lock: threading.Lock) -> None:
        self.changed = threading.Condition(lock)
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def poke(self) -> None:
        """Wakes both kinds of waiters; the lock must be held."""
        self.changed.notify_all()
        os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        """Takes the wakes of the descriptor."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass


class Desk:
    """What the agent holds, shared between threads.

    Attributes:
        lock: Guards the machine and everything of an attempt that both of its threads touch.
        machine: The state machine; touch it with the lock held.
        outbox: The durable outbox.
        online: Whether a session is open.
        now_us: The clock of the fence.
    """

    def __init__(
        self, outbox: Outbox, *, now_us: Callable[[], int] = boot_us, machine: Machine | None = None
    ) -> None:
        self.lock = threading.Lock()
        self.machine = machine or Machine()
        self.outbox = outbox
        self.now_us = now_us
        self.online = False
        self.idle = threading.Condition(self.lock)
        self._signals: dict[int, Signals] = {}
        self._outgoing: deque[tuple[bytes, int]] = deque()
        self._progress: dict[int, AttemptProgress] = {}
        self._beat_wanted = False
        self._wake: Callable[[], None] = lambda: None

    def on_outgoing(self, wake: Callable[[], None]) -> None:
        """Sets what is called when something waits to be sent."""
        self._wake = wake

    # -- the link's side --

    def hello_attempts(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What a hello names: attempts held, attempts with reports in the outbox."""
        with self.lock:
            return self.machine.running(), self.outbox.pending_attempts()

    def opened(self, keep: Sequence[int], ttl_us: int) -> list[bytes]:
        """A session is open; returns everything this broker must be told (again), in order."""
        with self.lock:
            lost = self.machine.welcome(keep, ttl_us)
            self.online = True
            self._outgoing.clear()
            self.machine.leaving.clear()
            for held in lost:
                self._poke(held.attempt)
            asking = [encode(message) for message in self.machine.asking()]
        return [body for _, _, body in self.outbox.pending()] + asking

    def closed_session(self) -> None:
        """The session is gone: reports stay in the outbox, flushed."""
        with self.lock:
            self.online = False

    def forget_farm(self, reason: str) -> None:
        """Another farm answers: stops everything held."""
        with self.lock:
            for held in self.machine.forget_farm(reason):
                self._poke(held.attempt)

    def apply(self, batch: BatchMsg) -> list[Held]:
        """Applies a batch; returns the attempts to start, their signals ready."""
        self.outbox.ack(batch.acks)
        started = []
        with self.lock:
            for lease in batch.leases:
                held = self.machine.lease(lease)
                if held is not None:
                    self._signals[held.attempt] = Signals(self.lock)
                    started.append(held)
            for grant in batch.grants:
                if self.machine.grant(grant):
                    self._poke(grant.attempt)
            for stop in batch.stops:
                if self.machine.stop(stop):
                    self._poke(stop.attempt)
        return started

    def answered(self, sent_us: int, listed: Iterable[int], held: Sequence[int]) -> None:
        """A heartbeat was answered: fences open, attempts may be lost."""
        with self.lock:
            self.machine.answered(sent_us, listed, frozenset(held))
            self._beat_wanted = False
            for attempt in self._signals:
                self._poke(attempt)

    def beat(self) -> tuple[tuple[int, ...], tuple[AttemptProgress, ...]]:
        """What a heartbeat names, and how far the attempts are."""
        with self.lock:
            return self.machine.named(), tuple(self._progress.values())

    def outgoing(self) -> list[bytes]:
        """Messages to send now, in order."""
        with self.lock:
            bodies = [body for body, _ in self._outgoing]
            for _, closed in self._outgoing:
                if closed:
                    self.machine.report_sent(closed)
            self._outgoing.clear()
            return bodies

    def beat_wanted(self) -> bool:
        """Whether a finished file waits for a heartbeat's answer."""
        return self._beat_wanted

    # -- the agent's side --

    def stop_all(self, reason: str) -> None:
        """Stops everything held."""
        with self.lock:
            for held in self.machine.stop_all(reason):
                self._poke(held.attempt)

    def wait_idle(self, timeout_s: float | None) -> bool:
        """Waits until nothing is held; False after the timeout."""
        with self.lock:
            return self.idle.wait_for(lambda: not self.machine.held, timeout_s)

    # -- an attempt's side --

    def signals(self, attempt: int) -> Signals:
        """Signals of an attempt that is held."""
        return self._signals[attempt]

    def _poke(self, attempt: int) -> None:
        signals = self._signals.get(attempt)
        if signals is not None:
            signals.poke()

    def poke(self, attempt: int) -> None:
        """Wakes the threads of an attempt."""
        with self.lock:
            self._poke(attempt)

    def begin(self, begun: Begun) -> str:
        """Writes down that an attempt is begun; returns what is wrong with the agent's disk."""
        return self.outbox.begin(begun)

    def set_progress(self, progress: AttemptProgress) -> None:
        """How far an attempt is; the next heartbeat tells."""
        with self.lock:
            if progress.attempt in self._signals:
                self._progress[progress.attempt] = progress

    def verified(self, held: Held, index: int, files: tuple[FileFacts, ...], *, ask: bool) -> None:
        """A unit's files are good: it waits for its grant, or for the fence."""
        with self.lock:
            self.machine.verified(held.attempt, index, files, ask=ask)
            if ask and self.online:
                # Of an attempt that was stopped while this was looked at, nothing is asked any more.
                asking = [m for m in self.machine.asking_of(held) if m.unit == held.units[index].index]
                self._outgoing += [(encode(message), 0) for message in asking]
            self._poke(held.attempt)
        if ask:
            self._wake()

    def want_beat(self) -> None:
        """A file waits for a fresh answer: the next heartbeat must not wait for its turn."""
        if not self._beat_wanted:
            self._beat_wanted = True
            self._wake()

    def settle(self, held: Held, index: int) -> bool:
        """Ends a unit; False when it had ended before."""
        with self.lock:
            return self.machine.settle(held.attempt, index)

    def take_dropped(self, held: Held) -> list[UnitReport]:
        """Ends the units the broker takes back, except those in the hands of the checker."""
        if not held.unwanted:
            return []
        with self.lock:
            found = []
            for index in sorted(held.unwanted):
                unit = held.units[index]
                if unit.phase not in (Phase.CHECKING, Phase.PUBLISHING, Phase.SETTLED):
                    self.machine.settle(held.attempt, unit.index)
                    found.append(UnitReport(unit.index, RELEASED, "", unit.dropped))
            return found

    def report(self, held: Held, units: Sequence[UnitReport]) -> None:
        """Reports ended units: into the outbox, then onto the wire."""
        for part in _parts(units):
            self._put(held, part, closed=False, kept=())

    def close(self, held: Held, units: Sequence[UnitReport], kept: tuple[int, ...] = ()) -> None:
        """Reports the last units and that nothing of the attempt runs any more."""
        parts = _parts(units) or [()]
        for part in parts[:-1]:
            self._put(held, part, closed=False, kept=())
        self._put(held, parts[-1], closed=True, kept=kept)

    def _put(self, held: Held, units: tuple[UnitReport, ...], *, closed: bool, kept: tuple[int, ...]) -> None:
        attempt, body = held.attempt, b""
        if not held.foreign:
            _, body = self.outbox.put(
                attempt, held.lease.nonce, units, closed=closed, kept=kept, durable=not self.online
            )
        with self.lock:
            if closed:
                if held.open:
                    raise IllegalMove(f"attempt {attempt} still has units without an outcome")
                self.machine.close(attempt, kept)
                os.close(self._signals.pop(attempt).fd)
                self._progress.pop(attempt, None)
                self.idle.notify_all()
            if self.online and body:
                self._outgoing.append((body, attempt if closed else 0))
            else:
                self.machine.report_sent(attempt)
        self._wake()

    def keep(self, begun: Begun) -> None:
        """Fewer units of an attempt are still kept."""
        with self.lock:
            self.machine.kept[begun.attempt] = begun.kept
        self.outbox.begin(begun)

    def restore_kept(self, begun: Begun) -> None:
        """An earlier run of this agent kept files for adoption."""
        with self.lock:
            self.machine.kept[begun.attempt] = begun.kept

    def drop_kept(self, attempts: Iterable[int]) -> list[Begun]:
        """Forgets kept attempts; returns their entries, whose folders must be removed."""
        found = []
        for attempt in attempts:
            with self.lock:
                self.machine.kept.pop(attempt, None)
            begun = self.outbox.find_begun(attempt)
            if begun is not None and begun.kept:
                found.append(begun)
        return found


def find_kept(outbox: Outbox, lease: LeaseMsg) -> Begun | None:
    """The entry of the attempt whose kept files a lease adopts, None if this agent has none."""
    match = ATTEMPT_FOLDER.match(lease.adopt_folder)
    if match is None:
        return None
    nonce, no = int(match["nonce"], 16), int(match["attempt"])
    for begun in outbox.begun():
        if begun.kept and begun.nonce == nonce and begun.no == no:
            return begun
    return None


def _parts(units: Sequence[UnitReport]) -> list[tuple[UnitReport, ...]]:
    """Splits reports so that each message stays well under the broker's limit."""
    if len(units) <= 64:
        return [tuple(units)] if units else []
    parts: list[tuple[UnitReport, ...]] = []
    part: list[UnitReport] = []
    size = 0
    for unit in units:
        cost = len(msgspec.msgpack.encode(unit))
        if part and size + cost > REPORT_BYTES:
            parts.append(tuple(part))
            part, size = [], 0
        part.append(unit)
        size += cost
    parts.append(tuple(part))
    return parts
