"""The uploader's thread: logs and previews to the broker, beside and never before the control line.

What belongs here: the bulk connection, one stream per attempt's log, resumption, the spool folder.  What it
may not know: leases, results; losing this thread would lose logs, never frames.

Logs lie in the agent's state folder, one file per attempt whose name says where it belongs, until the broker
has all of it; so they survive a broker that is away and an agent that is killed.

Long because the life of a log on disk and its way over the wire are one: what is cut off in either is taken
up in the other.
"""

# Files come and go with every chunk; pathlib would cost more than they do:
# ruff: noqa: PTH110

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections import deque
from math import inf
from pathlib import Path

import msgspec

from farm.model.errors import FarmUnreachable, PeerError, StorageError
from farm.protocol.bulk import (
    PIECE,
    BulkErrorMsg,
    LogAckMsg,
    LogPutMsg,
    LogsAckMsg,
    LogsPutMsg,
    PreviewPutMsg,
    ShortLog,
)
from farm.protocol.codec import bulk_out_codec, encode
from node_agent.line import Line
from node_agent.logs import LogSpool
from node_agent.smalllogs import SUFFIX, SmallLogs, read_shelf

log = logging.getLogger("overcrank.agent")

#: How often new lines of a running attempt are sent.
TAIL_S = 1.0
#: Without an answer for so long the line is dialled afresh.
ANSWER_S = 15.0
#: A log that ended waits so long for company: woken for each of a thousand short ones a second, this thread
#: and the broker's would do little else.
GATHER_S = 0.1
#: As many do not wait for more.
COMPANY = 64
#: A log that ended and is no longer goes whole, in one message with others; bytes of texts in one.
WHOLE_BYTES = 4096
TOGETHER_BYTES = 64 * 1024
#: Pieces on their way at one time (the broker keeps at most 32 answers for one peer and drops more), and
#: bytes with which no further one is sent.
WINDOW = 16
WINDOW_BYTES = 8 * PIECE
#: A log that is older gets a file of its own, so that its lines outlive the agent.
SETTLE_S = 0.1
#: Ended logs of which the text is kept in memory until it is sent, so that it need not be read again.
REMEMBERED = 256
#: Previews waiting at most; older ones go first.
PREVIEWS = 64
#: A log refused so often at the same place is given up.
REFUSALS = 3
_NAME = re.compile(r"(?P<attempt>\d+)\.J(?P<job>\d+)\.(?P<no>\d+)\.(?P<step>.+)\.log\Z")


class Stream(msgspec.Struct):
    """The log of one attempt on its way.

    Attributes:
        job, step, no, attempt: Where it belongs.
        spool: The log.
        acked: Bytes the broker has.
        ended: Nothing will be added.
        begun_s: When it was opened.
        asked_s: When a piece was sent that is not answered, None when none is.
        sent_s: When the last piece was sent.
        piece: Bytes of that piece.
        closed: That piece said it is the last.
        queued: It stands among those to be sent.
        refusals: Refusals in a row.
        parcel: Number of the message it went in with others, 0 when it went by itself.
    """

    job: int
    step: str
    no: int
    attempt: int
    spool: LogSpool
    acked: int = 0
    ended: bool = False
    begun_s: float = 0.0
    asked_s: float | None = None
    sent_s: float = 0.0
    piece: int = 0
    closed: bool = False
    queued: bool = False
    refusals: int = 0
    parcel: int = 0


class Uploader:
    """Owner of the bulk line and the spool folder."""

    def __init__(self, line: Line, folder: Path, *, cap_bytes: int = 1 << 30, tail_s: float = TAIL_S) -> None:
        """Takes over what an earlier run left in the folder."""
        self.cap_bytes = cap_bytes
        self._line = line
        self._folder = str(folder)
        self._tail_s = tail_s
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        #: Logs begun and logs ended that the thread has not seen yet.
        self._begun: deque[Stream] = deque()
        self._ended: deque[Stream] = deque()
        # Of the thread alone: logs still written, ended ones in turn, pieces not answered in the order they
        # were sent, and when the next ended one must go.
        self._running: dict[int, Stream] = {}
        self._ready: deque[Stream] = deque()
        self._flying: dict[int, Stream] = {}
        self._due_s = inf
        #: Logs that are not answered of each message that held several, by its number.
        self._parcels: dict[int, int] = {}
        self._parcel = 0
        #: Whether the broker takes such messages; one of an older version does not.
        self._takes_parcels = True
        #: When the thread goes on without being woken.
        self._wakes_s = inf
        self._previews: deque[PreviewPutMsg] = deque(maxlen=PREVIEWS)
        self._decode = bulk_out_codec().decode
        self._connection = 0
        self._retry_s: float | None = None
        self._failures = 0
        self._ending = threading.Event()
        self._end_s = 0.0
        self._forgotten = False
        self._small = SmallLogs(f"{self._folder}-short")
        self._find_short()
        self._find_left()

    def _find_short(self) -> None:
        """Gives short logs that an earlier run left files of their own."""
        for path in sorted(Path(f"{self._folder}-short").glob(f"*{SUFFIX}")):
            try:
                for name, text in read_shelf(path):
                    if _NAME.match(name) and not os.path.exists(f"{self._folder}/{name}"):
                        spool = LogSpool(f"{self._folder}/{name}", 1 << 62)
                        spool.append(text)
                        spool.close()
                path.unlink()
            except (OSError, StorageError) as error:
                log.warning("event=log-left path=%s reason=%s", path, error)

    def _find_left(self) -> None:
        for path in sorted(Path(self._folder).glob("*.log")):
            match = _NAME.match(path.name)
            if match is None:
                continue
            try:
                spool = LogSpool(path, 1 << 62)
                spool.close()
            except StorageError as error:
                log.warning("event=log-left path=%s reason=%s", path, error)
                continue
            attempt = int(match["attempt"])
            stream = Stream(int(match["job"]), match["step"], int(match["no"]), attempt, spool, ended=True)
            self._streams[attempt] = stream
            self._ended.append(stream)

    # -- other threads --

    def open_log(self, job: int, step: str, no: int, attempt: int) -> LogSpool:
        """Makes the log of an attempt.

        Raises:
            StorageError: The agent's disk refuses.
        """
        path = f"{self._folder}/{attempt}.J{job}.{no}.{step}.log"
        spool = LogSpool(path, self.cap_bytes, small=self._small)
        stream = Stream(job, step, no, attempt, spool, begun_s=time.monotonic())
        with self._lock:
            self._streams[attempt] = stream
        self._begun.append(stream)
        self._wake_by(SETTLE_S)
        return spool

    def log_ended(self, attempt: int) -> None:
        """The attempt's log is complete and closed."""
        with self._lock:
            stream = self._streams.get(attempt)
            if stream is None:
                return
            stream.ended = True
            if len(self._streams) > REMEMBERED:
                stream.spool.forget_text()
        self._ended.append(stream)
        self._wake_by(GATHER_S)

    def _wake_by(self, pause_s: float) -> None:
        """Sees to it that the thread looks again in ``pause_s`` at the latest."""
        if self._wakes_s > time.monotonic() + pause_s:
            self._line.wake()

    def add_preview(self, message: PreviewPutMsg) -> None:
        """Queues a preview; one that cannot be sent for long is dropped."""
        if len(message.data) <= PIECE:
            with self._lock:
                self._previews.append(message)
            self._line.wake()

    def forget(self, aside: Path) -> None:
        """Another farm answers: its predecessor's logs are put aside, never sent."""
        with self._lock:
            streams, self._streams = self._streams, {}
            self._previews.clear()
            self._forgotten = True
        for stream in streams.values():
            with contextlib.suppress(OSError):
                stream.spool.move_to(aside)

    def end(self, patience_s: float) -> None:
        """Sends what is complete, then the thread ends, after ``patience_s`` at the latest."""
        self._end_s = time.monotonic() + patience_s
        self._ending.set()
        self._line.wake()

    def waiting(self) -> int:
        """Logs the broker has not all of yet."""
        with self._lock:
            return len(self._streams)

    # -- the thread --

    def run(self) -> None:
        """Body of the uploader's thread; ends after ``end``."""
        try:
            pause_s = self._turn()
            while not self._finished():
                # Said before it waits, taken back before it looks: who adds something in between wakes it.
                self._wakes_s = inf if pause_s is None else time.monotonic() + pause_s
                self._line.wait(pause_s)
                self._wakes_s = inf
                pause_s = self._turn()
        finally:
            self._line.close(linger_s=0.5)
            with self._lock:
                for stream in self._streams.values():
                    stream.spool.settle()
            self._small.close()

    def _finished(self) -> bool:
        if not self._ending.is_set():
            return False
        with self._lock:
            idle = not self._streams and not self._previews
        return idle or time.monotonic() >= self._end_s

    def _turn(self) -> float | None:
        now = time.monotonic()
        try:
            while (body := self._line.recv()) is not None:
                self._handle(body)
            if self._retry_s is not None:
                if now < self._retry_s:
                    return self._bounded(self._retry_s - now)
                self._retry_s = None
                self._line.reconnect()
            if self._line.connections != self._connection:
                self._connection = self._line.connections
                self._failures = 0
                self._land_all()
            if not self._connection:
                return self._bounded(None)
            return self._send(now)
        except (FarmUnreachable, PeerError) as error:
            log.warning("event=bulk-trouble reason=%s", error)
            self._failures += 1
            self._retry_s = now + min(60.0, 2.0 ** min(self._failures, 6))
            return self._bounded(self._retry_s - now)

    def _bounded(self, pause_s: float | None) -> float | None:
        if not self._ending.is_set():
            return pause_s
        left = max(0.0, self._end_s - time.monotonic())
        return left if pause_s is None else min(pause_s, left)

    def _handle(self, body: bytes) -> None:
        message = self._decode(body)
        if isinstance(message, LogsAckMsg):
            for ack in message.acks:
                self._acked(ack)
        elif isinstance(message, LogAckMsg):
            self._acked(message)
        elif isinstance(message, BulkErrorMsg) and self._parcels:
            log.info("event=logs-one-by-one reason=%s", message.reason)
            self._takes_parcels = False
            self._land_all()

    def _acked(self, message: LogAckMsg) -> None:
        with self._lock:
            stream = self._streams.get(message.attempt)
        if stream is None:
            return
        # A size below zero: not even the log's name was taken, so nothing is said of what the broker holds.
        if message.size < 0 or (message.reason and message.size == stream.acked):
            stream.refusals += 1
            if stream.refusals == REFUSALS:
                log.warning("event=log-refused attempt=%d reason=%s", stream.attempt, message.reason)
            self._land(stream)
            return
        # After a gap the broker says where to go on; a log that is longer there is whole there.
        stream.refusals = 0
        whole = stream.ended and stream.closed and message.size >= stream.spool.size
        stream.acked = min(message.size, stream.spool.size)
        if whole and not message.reason:
            self._drop(stream)
        else:
            self._land(stream)

    def _drop(self, stream: Stream) -> None:
        self._running.pop(stream.attempt, None)
        self._flying.pop(stream.attempt, None)
        self._unpack(stream)
        with self._lock:
            if self._streams.pop(stream.attempt, None) is None:
                return
        stream.spool.remove()

    def _land(self, stream: Stream) -> None:
        """A piece is answered, or lost: the log's next one goes before those of others."""
        stream.asked_s = None
        self._unpack(stream)
        if self._flying.pop(stream.attempt, None) is not None and stream.ended and not stream.queued:
            stream.queued = True
            self._ready.appendleft(stream)
            self._due_s = 0.0

    def _unpack(self, stream: Stream) -> None:
        """It is no longer on its way with others."""
        number, stream.parcel = stream.parcel, 0
        if number:
            left = self._parcels.get(number, 0) - 1
            if left > 0:
                self._parcels[number] = left
            else:
                self._parcels.pop(number, None)

    def _land_all(self) -> None:
        for stream in reversed(list(self._flying.values())):
            self._land(stream)

    def _look(self, now: float) -> None:
        """Takes over what other threads announced."""
        with self._lock:
            if self._forgotten:
                self._forgotten = False
                for part in (self._running, self._ready, self._flying, self._parcels):
                    part.clear()
            begun = [self._begun.popleft() for _ in range(len(self._begun))]
            ended = [self._ended.popleft() for _ in range(len(self._ended))]
            known = self._streams
            for stream in begun:
                if known.get(stream.attempt) is stream and not stream.ended:
                    self._running[stream.attempt] = stream
            for stream in ended:
                self._running.pop(stream.attempt, None)
                if known.get(stream.attempt) is not stream or stream.queued or stream.asked_s is not None:
                    continue
                stream.queued = True
                self._ready.append(stream)
                self._due_s = min(self._due_s, now + GATHER_S)

    def _send(self, now: float) -> float | None:
        """Sends pieces; returns how long nothing needs to be done."""
        self._look(now)
        oldest = next(iter(self._flying.values()), None)
        if oldest is not None and oldest.asked_s is not None and now - oldest.asked_s > ANSWER_S:
            log.warning("event=bulk-no-answer attempt=%d", oldest.attempt)
            self._line.reconnect()
            self._land_all()
            return self._bounded(self._tail_s)
        blocked = not self._send_ended(now)
        young_s = inf
        for stream in list(self._running.values()):
            if now >= stream.begun_s + SETTLE_S:
                stream.spool.settle()
            else:
                young_s = min(young_s, stream.begun_s + SETTLE_S - now)
            if stream.asked_s is None and stream.refusals < REFUSALS and self._has_room():
                self._put(stream, now)
        self._send_previews()
        pauses = [young_s] if young_s < inf else []
        if self._flying:
            pauses.append(ANSWER_S)
        if self._running or blocked or self._previews:
            pauses.append(self._tail_s)
        if self._ready and self._has_room() and not blocked:
            pauses.append(max(0.0, self._due_s - now))
        return self._bounded(min(pauses, default=None))

    def _has_room(self) -> bool:
        flying = self._flying
        if not flying:
            return True
        messages = len(flying) - sum(self._parcels.values()) + len(self._parcels)
        return messages < WINDOW and sum(stream.piece for stream in flying.values()) < WINDOW_BYTES

    def _send_ended(self, now: float) -> bool:
        """Sends logs that ended, once they are due; False when the line takes nothing more."""
        ready = self._ready
        if len(ready) < COMPANY and now < self._due_s and not self._ending.is_set():
            return True
        while ready and self._has_room():
            stream = ready[0]
            if stream.refusals >= REFUSALS:
                ready.popleft()
                self._drop(stream)
                continue
            if self._takes_parcels and self._goes_whole(stream):
                if not self._put_parcel(now):
                    return False
                continue
            sent = self._put(stream, now)
            if not sent and stream.attempt in self._streams:
                return False
            stream.queued = False
            ready.popleft()
        if not ready:
            self._due_s = inf
        return True

    @staticmethod
    def _goes_whole(stream: Stream) -> bool:
        return stream.ended and not stream.acked and stream.spool.size <= WHOLE_BYTES and not stream.refusals

    def _put_parcel(self, now: float) -> bool:
        """Sends the short logs at the head of those ready in one message; False when it cannot be sent."""
        ready = self._ready
        some: list[Stream] = []
        logs: list[ShortLog] = []
        size = 0
        while ready and size < TOGETHER_BYTES and self._goes_whole(ready[0]):
            stream = ready.popleft()
            try:
                data = stream.spool.read(0, WHOLE_BYTES)
            except StorageError as error:
                log.warning("event=log-unreadable attempt=%d reason=%s", stream.attempt, error)
                self._drop(stream)
                continue
            size += len(data) + len(stream.step) + 32
            some.append(stream)
            logs.append(ShortLog(stream.job, stream.step, stream.no, stream.attempt, data))
        if not some:
            return True
        if not self._line.send(encode(LogsPutMsg(tuple(logs)))):
            ready.extendleft(reversed(some))
            return False
        self._parcel += 1
        self._parcels[self._parcel] = len(some)
        for stream, message in zip(some, logs, strict=True):
            stream.queued = False
            stream.asked_s = stream.sent_s = now
            stream.piece = len(message.data)
            stream.closed = True
            stream.parcel = self._parcel
            self._flying[stream.attempt] = stream
        return True

    def _put(self, stream: Stream, now: float) -> bool:
        """Sends the next piece; False when there is none now, or it cannot be sent."""
        ended = stream.ended
        spool = stream.spool
        size = spool.size
        if not ended and (stream.acked >= size or now < stream.sent_s + self._tail_s):
            return False
        try:
            data = spool.read(stream.acked, PIECE) if stream.acked < size else b""
        except StorageError as error:
            log.warning("event=log-unreadable attempt=%d reason=%s", stream.attempt, error)
            self._drop(stream)
            return False
        end = ended and stream.acked + len(data) >= size
        message = LogPutMsg(stream.job, stream.step, stream.no, stream.attempt, stream.acked, data, end)
        if not self._line.send(encode(message)):
            return False
        stream.asked_s = stream.sent_s = now
        stream.piece = len(data)
        stream.closed = end
        self._flying[stream.attempt] = stream
        return True

    def _send_previews(self) -> None:
        while True:
            with self._lock:
                if not self._previews:
                    return
                message = self._previews[0]
            if not self._line.send(encode(message)):
                return
            with self._lock:
                if self._previews and self._previews[0] is message:
                    self._previews.popleft()
