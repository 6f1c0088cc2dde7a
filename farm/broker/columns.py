"""Figures of a step's frames in columns, for whoever shows thousands of them: a thread of its own.

What belongs here: keeping the ledgers of steps that somebody looks at up to date, and pages of them.  What
may not: the loop's state (it reads what is committed, over its own connection), sockets, and the figures
themselves (``farm.broker.unitledger``).

A step with a million frames takes some seconds to read the first time.  Neither the loop nor the bulk thread
waits for that, and this thread rests as long as it worked, so that the loop gets its share of the processor.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable
from queue import SimpleQueue

from farm.broker.ports import Past
from farm.broker.unitledger import UnitLedger, indices
from farm.model.errors import OvercrankError, UnknownName
from farm.protocol.bulk import COLUMN_UNITS, BulkErrorMsg, ColumnsGetMsg, ColumnsMsg

log = logging.getLogger("overcrank.columns")

#: Units in memory at most, of some 22 bytes each; a step with more is held alone.
UNITS_MOST = 4_000_000
#: Steps in memory at most.
STEPS_MOST = 200
#: Questions that may wait.
WAITING_MOST = 2_000
#: Segments read at once.
SEGMENTS = 2
#: Steps that somebody asked for within so many seconds are brought up to date together.
TOGETHER_S = 10.0
#: Longest rest in one go.
REST_MOST_S = 0.05


class Columns:
    """Ledgers of steps, as far as the past that is committed.

    Args:
        past: Where that is read.
        rest: Called with the seconds that a piece of work took.
    """

    def __init__(self, past: Past, rest: Callable[[float], None] = lambda spent_s: None) -> None:
        self._past = past
        self._rest = rest
        #: By step, those asked for last at the end; and when that was.
        self._ledgers: OrderedDict[int, UnitLedger] = OrderedDict()
        self._asked_s: dict[int, float] = {}

    def answer(self, ask: ColumnsGetMsg) -> ColumnsMsg:
        """A page.

        Raises:
            UnknownName: There is no such step.
            StorageError: It cannot be read.
        """
        found = self._past.step_named(ask.job, ask.step)
        if found is None:
            raise UnknownName(f"there is no step J{ask.job}/{ask.step}")
        step_id, units = found
        ledger = self._ledgers.get(step_id)
        new = ledger is None
        if ledger is None:
            ledger = self._ledgers[step_id] = UnitLedger(step_id, units)
        self._ledgers.move_to_end(step_id)
        self._asked_s[step_id] = time.monotonic()
        if new or not ask.first:  # what changed since the first page is asked for after the last
            self._catch_up(ledger)
            self._make_room()
        changed = ledger.changed_since(ask.since, COLUMN_UNITS) if ask.since > 0 else None
        if changed is not None:
            data = zlib.compress(ledger.pick(changed), 1)
            count, named = len(changed), indices(changed)
            return ColumnsMsg(ask.id, ledger.seq, len(ledger), ask.since, 0, count, named, data)
        first = 0 if ask.since > 0 else min(max(0, ask.first), len(ledger))
        count = min(COLUMN_UNITS, len(ledger) - first)
        data = zlib.compress(ledger.page(first, count), 1)
        return ColumnsMsg(ask.id, ledger.seq, len(ledger), 0, first, count, b"", data)

    def _catch_up(self, ledger: UnitLedger) -> None:
        """Reads what happened since a step was looked at last, and of others that are looked at with it."""
        while segments := self._past.segments_after(ledger.step_id, ledger.read_to, SEGMENTS):
            begun_s = time.thread_time()
            for last, rows in segments:
                ledger.take(rows)
                ledger.read_to = max(ledger.read_to, last)
            self._rest(time.thread_time() - begun_s)
        since_s = time.monotonic() - TOGETHER_S
        together = {
            step_id: one
            for step_id, one in self._ledgers.items()
            if one is ledger or (one.read_to >= ledger.read_to and self._asked_s[step_id] >= since_s)
        }
        while True:
            begun_s = time.thread_time()
            told = self._past.told_after({step_id: one.read_to for step_id, one in together.items()})
            for step_id, one in together.items():
                one.take(told.rows[step_id])
                one.read_to = max(one.read_to, one.seq, told.read_to)
            if not told.more:
                return
            self._rest(time.thread_time() - begun_s)

    def _make_room(self) -> None:
        held = sum(map(len, self._ledgers.values()))
        while len(self._ledgers) > 1 and (held > UNITS_MOST or len(self._ledgers) > STEPS_MOST):
            step_id, oldest = self._ledgers.popitem(last=False)
            del self._asked_s[step_id]
            held -= len(oldest)


class ColumnsThread(threading.Thread):
    """Answers questions for columns one after another; it runs from the first one on.

    Args:
        open_past: Opens the connection; called in this thread.
        done: Called in this thread with who asked and the answer.
    """

    def __init__(self, open_past: Callable[[], Past], done: Callable[[bytes, object], None]) -> None:
        super().__init__(name="columns", daemon=True)
        self._open_past = open_past
        self._done = done
        self._waiting: SimpleQueue[tuple[bytes, ColumnsGetMsg] | None] = SimpleQueue()
        self._stopping = threading.Event()

    def ask(self, routing_id: bytes, message: ColumnsGetMsg) -> None:
        """Puts a question (the bulk thread).

        Raises:
            OvercrankError: Too many wait.
        """
        if self._waiting.qsize() >= WAITING_MOST:
            raise OvercrankError("too many ask for figures of frames", hint="try again in a moment")
        self._waiting.put((routing_id, message))
        if not self.ident:
            self.start()

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._stopping.set()
        self._waiting.put(None)
        if self.ident:
            self.join()

    def run(self) -> None:
        """The thread."""
        past: Past | None = None
        columns: Columns | None = None
        try:
            while (asked := self._waiting.get()) is not None and not self._stopping.is_set():
                routing_id, message = asked
                try:
                    if past is None or columns is None:
                        past = self._open_past()
                        columns = Columns(past, self._rest)
                    answer: object = columns.answer(message)
                except _Stopped:
                    return
                except UnknownName as error:
                    answer = BulkErrorMsg(message.id, error.code, error.message)
                except Exception as error:
                    # Ledgers may be half written: they are made anew, and so is the connection.
                    log.error("columns-failed job=J%d step=%s reason=%s", message.job, message.step, error)
                    known = error if isinstance(error, OvercrankError) else OvercrankError(str(error))
                    answer = BulkErrorMsg(message.id, known.code, known.message)
                    if past is not None:
                        past.close()
                    past = columns = None
                self._done(routing_id, answer)
        finally:
            if past is not None:
                past.close()

    def _rest(self, spent_s: float) -> None:
        if self._stopping.wait(min(spent_s, REST_MOST_S)):
            raise _Stopped


class _Stopped(Exception):
    """The broker ends in the middle of an answer."""
