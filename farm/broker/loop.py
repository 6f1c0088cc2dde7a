"""The broker's loop: drain, apply, place, commit once, then send what depends on it.

One thread, one writer.  A turn takes whatever has arrived (at most DRAIN messages), lets the core handle
it, places work once for all free agents, stores all rows in one transaction and only then sends.  So the
strict order "durable before visible" costs one fsync per turn, not per task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from farm.broker.clock import SteadyClock
from farm.broker.falls import TurnLost
from farm.broker.routes import Routes
from farm.broker.state import BrokerState
from farm.core.events import CheckpointEvent, DispatchEvent, TickEvent
from farm.core.shelves import is_due
from farm.model.errors import OvercrankError, PeerError
from farm.protocol.bulk import JoinRefusedMsg
from farm.protocol.codec import encode, join_in_codec
from farm.transport.poller import Poller, Waker
from farm.transport.server_link import ServerLink
from farm.transport.sockets import recv_nowait, send_nowait

log = logging.getLogger("overcrank.broker")

#: Most messages taken in one turn.
DRAIN = 2_000
#: Up to so many messages of a turn a look is taken before the next receive; then the one that finds nothing
#: is cheaper than all those looks.
FEW = 5
#: Seconds between two looks at deadlines.
TICK_S = 0.25
#: Rows after which the next quiet moment writes a checkpoint: history people ask for is read from it, and a
#: restart replays what came after.
CHECKPOINT_ROWS = 20_000
#: Rows after which one is written however busy it is.
CHECKPOINT_FORCED = 50_000


#: Seconds between two looks for sessions of clients that went without a word.
IDLE_EVERY_S = 15.0
#: A look whether a job is due for the archive, or a deleted one still in the store, at least this often.
ARCHIVE_EVERY_S = 3600.0
#: ... and at most this often.
ARCHIVE_LEAST_S = 1.0


class Loop:
    """Runs the control and join sockets.

    Args:
        state: What the broker's parts share.
        link: The sockets.
        tick_s: Seconds between two looks at deadlines.
        clock_us: Microseconds since the epoch that never go back; default: a clock of its own.
    """

    def __init__(
        self,
        state: BrokerState,
        link: ServerLink,
        *,
        tick_s: float = TICK_S,
        clock_us: Callable[[], int] | None = None,
    ) -> None:
        self._s = state
        self._link = link
        self._routes = Routes(state)
        self._join_codec = join_in_codec()
        self._tick_us = int(tick_s * 1e6)
        self._clock_us = clock_us or SteadyClock().now_us
        self._next_tick_us = 0
        self._archive_us = 0
        self._idle_us = 0
        farm = state.core.farm
        self._rows_since_checkpoint = farm.seq - farm.checkpoint_seq
        self.waker = Waker()
        self._more = Poller([link.control])

    def stop(self) -> None:
        """Asks the loop to end after its present turn (any thread, or a signal handler)."""
        self._s.stopping = True
        self.waker.wake()

    def run(self) -> None:
        """Runs until told to stop.

        Raises:
            StorageError: A commit failed; nothing of its turn was sent.
            TurnLost: The core failed in the middle of an event; nothing of the turn was stored or sent.
        """
        control, join = self._link.control, self._link.join
        poller = Poller([control, join, self.waker])
        busy = True
        try:
            while not self._s.stopping:
                # A look by the poller costs a fifth of a receive that finds nothing.
                ready = poller.wait(0.0 if busy else self._timeout_s())
                if not ready and busy and self._settled():
                    busy = False
                    continue
                if self.waker in ready:
                    self.waker.clear()
                busy = bool(self.turn(control=control in ready, join=join in ready))
            self._finish()
        except TurnLost:
            # Whoever caused it is told so; nobody is told anything else of this turn.
            s = self._s
            s.outbound.drop()
            if s.fallen is not None:
                self._send(s.fallen[0], encode(s.fallen[1]))
            raise
        finally:
            self.waker.close()

    def _settled(self) -> bool:
        """Whether nothing is left to be done before the next message or deadline."""
        s, metrics = self._s, self._s.metrics
        return (
            not (s.rows or s.later or s.fresh)
            and self._rows_since_checkpoint < CHECKPOINT_ROWS
            and s.now_us < self._next_tick_us
            and (metrics is None or not (metrics.wanted or metrics.gathering))
        )

    def _finish(self) -> None:
        """Writes a checkpoint, so that the next start has nothing to replay."""
        self._s.apply(CheckpointEvent(self._now_us()))
        self._commit_and_send()

    def _now_us(self) -> int:
        """The time, never going back: not even behind what an earlier clock of this broker said."""
        now_us = max(self._clock_us(), self._s.now_us)
        self._s.now_us = now_us
        return now_us

    def _timeout_s(self) -> float:
        wait_us = self._next_tick_us - self._s.now_us
        due_us = self._s.publisher.due_in_us(self._s.now_us)
        if due_us is not None:
            wait_us = min(wait_us, due_us)
        return max(0.0, wait_us / 1e6)

    def turn(self, *, control: bool = True, join: bool = True) -> int:
        """One turn; returns how many messages it took.

        Args:
            control: Whether messages may wait on the control socket.
            join: Whether messages may wait on the join socket.
        """
        s = self._s
        now_us = self._now_us()
        metrics = s.metrics
        begun_s = time.perf_counter() if metrics is not None else 0.0
        taken = (self._drain_control() if control else 0) + (self._drain_join() if join else 0)
        if now_us >= self._next_tick_us:
            if metrics is not None and self._next_tick_us:
                metrics.ticked(now_us - self._next_tick_us)
            self._next_tick_us = now_us + self._tick_us
            s.apply(TickEvent(now_us))
            if now_us >= self._idle_us:
                self._idle_us = now_us + int(IDLE_EVERY_S * 1e6)
                s.end_idle()
        if s.fresh:
            self._place(now_us)
        self._commit_and_send()
        s.publisher.flush(now_us)
        s.outbound.flush(s.agents, self._send)
        rows = self._rows_since_checkpoint
        if now_us >= self._archive_us and not taken:
            self._archive_us = now_us + self._archive_every_us()
            if is_due(s.core.farm, now_us):
                # A farm that is quiet for weeks writes no other checkpoint.
                rows = CHECKPOINT_FORCED
                self._archive_us = now_us + int(ARCHIVE_LEAST_S * 1e6)
        if rows >= CHECKPOINT_ROWS and (not taken or rows >= CHECKPOINT_FORCED):
            s.apply(CheckpointEvent(now_us))
            self._commit_and_send()
            self._rows_since_checkpoint = 0
        if metrics is not None:
            if taken:
                metrics.turn(time.perf_counter() - begun_s, taken)
            if metrics.wanted or metrics.gathering:
                # More of it follows at once when nothing else is to be done.
                taken += metrics.answer(s)
        return taken

    def _archive_every_us(self) -> int:
        """How often jobs are looked through for the archive: a tenth of the time they may be at rest."""
        after_s = self._s.core.farm.settings.archive_after_us / 1e6
        return int(max(ARCHIVE_LEAST_S, min(ARCHIVE_EVERY_S, after_s / 10 or ARCHIVE_EVERY_S)) * 1e6)

    def _place(self, now_us: int) -> None:
        """Places work on all free agents, once for everything the drain brought."""
        s = self._s
        s.fresh = False
        s.apply(DispatchEvent(now_us, s.entropy()))

    def _commit_and_send(self) -> None:
        s = self._s
        if s.rows:
            rows, s.rows = s.rows, []
            metrics = s.metrics
            begun_s = time.perf_counter() if metrics is not None else 0.0
            try:
                s.store.commit(rows)
            except OvercrankError:
                s.outbound.drop()
                raise
            except Exception as error:  # rows that no store can hold: memory is ahead of it now
                s.outbound.drop()
                raise TurnLost("the turn's rows cannot be stored") from error
            self._rows_since_checkpoint += len(rows)
            if metrics is not None:
                metrics.committed(rows, time.perf_counter() - begun_s)
            s.note_leases(rows)
            s.publisher.note(rows)
        if s.later:
            later, s.later = s.later, []
            for answer in later:
                answer()
        s.gone(s.outbound.flush(s.agents, self._send))

    def _send(self, routing_id: bytes, body: bytes) -> bool:
        sent = send_nowait(self._link.control, routing_id, body)
        if not sent:
            self._s.publisher.forget(routing_id)
            session = self._s.sessions.pop(routing_id, None)
            if session is not None and session.node_id:
                self._s.agents.pop(session.node_id, None)
        return sent

    def _drain_control(self) -> int:
        take, control = self._routes.take, self._link.control
        more = self._more.wait
        for taken in range(DRAIN):
            if 0 < taken < FEW and not more(0.0):
                return taken
            message = recv_nowait(control)
            if message is None:
                return taken
            take(*message)
        return DRAIN

    def _drain_join(self) -> int:
        s, join = self._s, self._link.join
        for taken in range(16):
            message = recv_nowait(join)
            if message is None:
                return taken
            routing_id, body, key = message
            try:
                answer: object = s.keydesk.join(self._join_codec.decode(body), key, s.now_us)
            except PeerError as error:
                answer = JoinRefusedMsg(error.message)
            send_nowait(join, routing_id, encode(answer))
        return 16
