"""The broker's loop: drain, apply, place, commit once, then send what depends on it.

One thread, one writer.  A turn takes what has arrived, for a while (``_drain_control``), lets the core handle
it, places work once for all free agents, stores all rows in one transaction and only then sends.  So the
strict order "durable before visible" costs one fsync per turn, not per task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from farm.broker.clock import SteadyClock
from farm.broker.falls import Mark, TurnLost
from farm.broker.inquest import Heard, Inquest
from farm.broker.routes import Routes
from farm.broker.state import BrokerState
from farm.core.events import CheckpointEvent, DispatchEvent, RestartEvent, TickEvent
from farm.core.shelves import is_due
from farm.model.errors import OvercrankError, PeerError, StorageError
from farm.protocol.bulk import JoinRefusedMsg
from farm.protocol.codec import encode, join_in_codec
from farm.transport.poller import Poller, Waker
from farm.transport.server_link import ServerLink
from farm.transport.sockets import recv_nowait, send_nowait

log = logging.getLogger("overcrank.broker")

#: Most messages taken in one turn.
DRAIN = 2_000
#: A turn takes at least so many, if they are there, or half of what runs if that is more; and goes on for as
#: many times what its commit costs.  Longer turns spread that over more messages, and give an agent with many
#: slots more leases at once.  But whoever was answered works while the next turn is on, and whoever waits for
#: the end of a long one does not: with turns of all that waits, broker and agents would take turns too.
DRAIN_LEAST = 32
DRAIN_COMMITS = 1.5
#: Up to so many messages of a turn a look is taken before the next receive; then the one that finds nothing
#: is cheaper than all those looks.
FEW = 5
#: Seconds between two looks at deadlines.
TICK_S = 0.25
#: Rows after which the next quiet moment writes a checkpoint: a restart replays what came after.
CHECKPOINT_ROWS = 20_000
#: Rows after which one is written however busy it is.
CHECKPOINT_FORCED = 50_000
#: Seconds without a message after which what a checkpoint has settled is regrouped into history: the gap
#: between two messages of a busy farm is no rest.
REST_S = 0.01
#: Rows regrouped in one turn at rest, of some microseconds each.
COMPACT_ROWS = 20_000
#: Settled rows after which they are regrouped however busy it is: people's questions look through them.
COMPACT_FORCED = 200_000
#: ... and so many in one turn then.
COMPACT_BUSY_ROWS = 10_000


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
        grace_us: What nodes get after the broker did not listen for long: it slept, or stood still.
    """

    def __init__(
        self,
        state: BrokerState,
        link: ServerLink,
        *,
        tick_s: float = TICK_S,
        clock_us: Callable[[], int] | None = None,
        grace_us: int = 0,
    ) -> None:
        self._s = state
        self._link = link
        self._routes = Routes(state)
        self._inquest = Inquest(state)
        self._join_codec = join_in_codec()
        self._tick_us = int(tick_s * 1e6)
        self._clock_us = clock_us or SteadyClock().now_us
        self._next_tick_us = 0
        #: What a commit took lately.
        self._commit_s = 0.0
        self._archive_us = 0
        self._idle_us = 0
        farm = state.core.farm
        # Who was heard before it stood still for so long is not lost by it; longer, and nobody must be.
        self._away_us = farm.settings.lost_us // 2
        self._grace_us = max(grace_us, farm.settings.lost_us)
        self._rows_since_checkpoint = farm.seq - farm.checkpoint_seq
        #: About how many rows wait to be regrouped, and from when on that is done at rest.
        self._rows_to_regroup = state.store.compact(0)
        self._rest_us = 0
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
            # What is stored may fall without anybody's help: that must show before anybody is heard.
            self._settle()
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
        except TurnLost as error:
            # Whose requests came to nothing are told so; nobody is told anything else of this turn.
            self._s.outbound.drop()
            for routing_id, answer in self._inquest.fell(error):
                self._send(routing_id, encode(answer))
            raise
        finally:
            self.waker.close()

    def _settled(self) -> bool:
        """Whether nothing is left to be done before the next message or deadline."""
        s, metrics = self._s, self._s.metrics
        return (
            not (s.rows or s.later or s.fresh)
            and self._rows_since_checkpoint < CHECKPOINT_ROWS
            and not (self._rows_to_regroup and s.now_us >= self._rest_us)
            and s.now_us < self._next_tick_us
            and (metrics is None or not (metrics.wanted or metrics.gathering))
        )

    def _finish(self) -> None:
        """Writes a checkpoint and regroups everything, so that the next start has nothing to replay."""
        self._s.apply(CheckpointEvent(self._now_us()))
        self._commit_and_send()
        while self._regroup(COMPACT_ROWS):
            pass

    def _regroup(self, rows: int) -> int:
        """Sorts so much history by step; about how many rows still wait.

        History that cannot be read is no reason to stop: it stays there, and ``farm db check`` names it.
        A store that cannot write refuses the next commit, and that ends the turn.
        """
        try:
            return self._s.store.compact(rows)
        except StorageError as error:
            log.error("history-not-sorted reason=%s hint=%s", error.message, error.hint)
            return 0

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
        if self._rows_to_regroup:
            wait_us = min(wait_us, self._rest_us - self._s.now_us)
        return max(0.0, wait_us / 1e6)

    def turn(self, *, control: bool = True, join: bool = True) -> int:
        """One turn; returns how many messages it took.

        Args:
            control: Whether messages may wait on the control socket.
            join: Whether messages may wait on the join socket.
        """
        s = self._s
        last_us = s.now_us
        now_us = self._now_us()
        if now_us - last_us > self._away_us:
            self._was_away(now_us, now_us - last_us)
        metrics = s.metrics
        begun_s = time.perf_counter() if metrics is not None else 0.0
        taken = (self._drain_control() if control else 0) + (self._drain_join() if join else 0)
        if now_us >= self._next_tick_us:
            if metrics is not None and self._next_tick_us:
                metrics.ticked(now_us - self._next_tick_us)
            self._next_tick_us = now_us + self._tick_us
            s.apply(TickEvent(now_us))
            s.series.tick(now_us)
            if now_us >= self._idle_us:
                self._idle_us = now_us + int(IDLE_EVERY_S * 1e6)
                s.end_idle()
                s.falls.age()
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
        if taken:
            self._rest_us = now_us + int(REST_S * 1e6)
        if rows >= CHECKPOINT_ROWS and (not taken or rows >= CHECKPOINT_FORCED):
            s.apply(CheckpointEvent(now_us))
            self._commit_and_send()
            self._rows_to_regroup += self._rows_since_checkpoint
            self._rows_since_checkpoint = 0
        elif self._rows_to_regroup and now_us >= self._rest_us:
            self._rows_to_regroup = self._regroup(COMPACT_ROWS)
        elif self._rows_to_regroup > COMPACT_FORCED:
            self._rows_to_regroup = self._regroup(COMPACT_BUSY_ROWS)
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

    def _was_away(self, now_us: int, away_us: int) -> None:
        """The broker did not listen: who was not heard of meanwhile may have spoken all the time."""
        log.warning("was-away seconds=%.1f", away_us / 1e6)
        self._s.apply(RestartEvent(now_us, self._grace_us))

    def _settle(self) -> None:
        """All that follows the messages so far, at once: deadlines, placing, storing."""
        self._s.apply(TickEvent(self._s.now_us))
        self._place(self._s.now_us)
        self._commit_and_send()

    def _commit_and_send(self) -> None:
        s = self._s
        if s.rows:
            rows, s.rows = s.rows, []
            begun_s = time.perf_counter()
            try:
                s.store.commit(rows)
            except OvercrankError:
                s.outbound.drop()
                raise
            except Exception as error:  # rows that no store can hold: memory is ahead of it now
                s.outbound.drop()
                raise TurnLost("the turn's rows cannot be stored") from error
            spent_s = time.perf_counter() - begun_s
            # One slow commit says little of the next.
            self._commit_s += (spent_s - self._commit_s) / 8.0
            self._rows_since_checkpoint += len(rows)
            if s.metrics is not None:
                s.metrics.committed(rows, spent_s)
            s.series.committed(rows)
            s.note_leases(rows)
            s.publisher.note(rows)
        s.heard.clear()
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
        if self._s.falls.suspecting:
            return self._drain_warily()
        take, control = self._routes.take, self._link.control
        more, heard, clock_s = self._more.wait, self._s.heard.append, time.perf_counter
        until_s = clock_s() + DRAIN_COMMITS * self._commit_s
        least = max(DRAIN_LEAST, len(self._s.core.farm.attempts) // 2)
        for taken in range(DRAIN):
            if 0 < taken < FEW and not more(0.0):
                return taken
            if taken >= least and not taken & 7 and clock_s() > until_s:
                return taken
            message = recv_nowait(control)
            if message is None:
                return taken
            heard(message)
            take(*message)
        return DRAIN

    def _drain_warily(self) -> int:
        """As long as messages are suspected of a fall: such a one gets a turn to itself."""
        s, control = self._s, self._link.control
        for taken in range(DRAIN):
            message = recv_nowait(control)
            if message is None:
                return taken
            suspect = self._inquest.suspect(message)
            if suspect is not None:
                self._take_alone(message, suspect)
                return taken + 1
            s.heard.append(message)
            self._routes.take(*message)
        return DRAIN

    def _take_alone(self, message: Heard, suspect: Mark) -> None:
        """Takes a suspect between two lookings at all else: what falls after it falls by it."""
        s = self._s
        try:
            self._settle()
        except TurnLost:
            if s.heard:
                s.heard.append(message)  # nothing was done for it either: its sender is told so
            raise
        self._inquest.alone = suspect
        s.heard.append(message)
        self._routes.take(*message)
        self._settle()
        self._inquest.alone = None
        s.falls.clear(suspect)

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
