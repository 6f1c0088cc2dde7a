"""The uploader's thread: logs and previews to the broker, beside and never before the control line.

What belongs here: the bulk connection, one stream per attempt's log, resumption, the spool folder.  What it
may not know: leases, results; losing this thread would lose logs, never frames.

Logs lie in the agent's state folder, one file per attempt whose name says where it belongs, until the broker
has all of it; so they survive a broker that is away and an agent that is killed.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections import deque
from pathlib import Path

import msgspec

from farm.model.errors import FarmUnreachable, PeerError, StorageError
from farm.protocol.bulk import PIECE, LogAckMsg, LogPutMsg, PreviewPutMsg
from farm.protocol.codec import bulk_out_codec, encode
from node_agent.line import Line
from node_agent.logs import LogSpool

log = logging.getLogger("overcrank.agent")

#: How often new lines of a running attempt are sent.
TAIL_S = 1.0
#: Without an answer for so long the line is dialled afresh.
ANSWER_S = 15.0
#: Pieces on their way at one time.
WINDOW = 8
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
        asked_s: When a piece was sent that is not answered, None when none is.
        sent_s: When the last piece was sent.
        closed: That piece said it is the last.
        refusals: Refusals in a row.
    """

    job: int
    step: str
    no: int
    attempt: int
    spool: LogSpool
    acked: int = 0
    ended: bool = False
    asked_s: float | None = None
    sent_s: float = 0.0
    closed: bool = False
    refusals: int = 0


class Uploader:
    """Owner of the bulk line and the spool folder."""

    def __init__(self, line: Line, folder: Path, *, cap_bytes: int = 1 << 30, tail_s: float = TAIL_S) -> None:
        """Takes over what an earlier run left in the folder."""
        self.cap_bytes = cap_bytes
        self._line = line
        self._folder = folder
        self._tail_s = tail_s
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._previews: deque[PreviewPutMsg] = deque(maxlen=PREVIEWS)
        self._decode = bulk_out_codec().decode
        self._connection = 0
        self._retry_s: float | None = None
        self._failures = 0
        self._ending = threading.Event()
        self._end_s = 0.0
        self._find_left()

    def _find_left(self) -> None:
        for path in sorted(self._folder.glob("*.log")):
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
            self._streams[attempt] = Stream(
                int(match["job"]), match["step"], int(match["no"]), attempt, spool, ended=True
            )

    # -- other threads --

    def open_log(self, job: int, step: str, no: int, attempt: int) -> LogSpool:
        """Makes the log of an attempt.

        Raises:
            StorageError: The agent's disk refuses.
        """
        spool = LogSpool(self._folder / f"{attempt}.J{job}.{no}.{step}.log", self.cap_bytes)
        with self._lock:
            self._streams[attempt] = Stream(job, step, no, attempt, spool)
        self._line.wake()
        return spool

    def log_ended(self, attempt: int) -> None:
        """The attempt's log is complete and closed."""
        with self._lock:
            stream = self._streams.get(attempt)
            if stream is not None:
                stream.ended = True
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
        for stream in streams.values():
            with contextlib.suppress(OSError):
                aside.mkdir(parents=True, exist_ok=True)
                stream.spool.path.rename(aside / stream.spool.path.name)

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
                self._line.wait(pause_s)
                pause_s = self._turn()
        finally:
            self._line.close(linger_s=0.5)

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
                for stream in self._all():
                    stream.asked_s = None
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

    def _all(self) -> list[Stream]:
        with self._lock:
            return list(self._streams.values())

    def _handle(self, body: bytes) -> None:
        message = self._decode(body)
        if not isinstance(message, LogAckMsg):
            return
        with self._lock:
            stream = self._streams.get(message.attempt)
        if stream is None:
            return
        stream.asked_s = None
        if message.reason and message.size == stream.acked:
            stream.refusals += 1
            if stream.refusals == REFUSALS:
                log.warning("event=log-refused attempt=%d reason=%s", stream.attempt, message.reason)
            return
        # After a gap the broker says where to go on; a log that is longer there is whole there.
        stream.refusals = 0
        whole = stream.ended and stream.closed and message.size >= stream.spool.size
        stream.acked = min(message.size, stream.spool.size)
        if whole and not message.reason:
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        with self._lock:
            if self._streams.pop(stream.attempt, None) is None:
                return
        stream.spool.remove()

    def _send(self, now: float) -> float | None:
        """Sends pieces; returns how long nothing needs to be done."""
        streams = self._all()
        flying = sum(1 for stream in streams if stream.asked_s is not None)
        tail = False
        for stream in streams:
            if stream.asked_s is not None:
                if now - stream.asked_s > ANSWER_S:
                    log.warning("event=bulk-no-answer attempt=%d", stream.attempt)
                    self._line.reconnect()
                    stream.asked_s = None
                    return self._bounded(self._tail_s)
                continue
            if stream.refusals >= REFUSALS:
                if stream.ended:
                    self._drop(stream)
                continue
            tail = tail or not stream.ended
            if flying < WINDOW and self._put(stream, now):
                flying += 1
        self._send_previews()
        if flying:
            return self._bounded(min(ANSWER_S, self._tail_s) if tail else ANSWER_S)
        return self._bounded(self._tail_s if tail or streams or self._previews else None)

    def _put(self, stream: Stream, now: float) -> bool:
        ended = stream.ended
        size = stream.spool.size
        if stream.acked >= size and not ended:
            return False
        if not ended and now < stream.sent_s + self._tail_s:
            return False
        try:
            data = stream.spool.read(stream.acked, PIECE) if stream.acked < size else b""
        except StorageError as error:
            log.warning("event=log-unreadable attempt=%d reason=%s", stream.attempt, error)
            self._drop(stream)
            return False
        end = ended and stream.acked + len(data) >= size
        message = LogPutMsg(stream.job, stream.step, stream.no, stream.attempt, stream.acked, data, end)
        if not self._line.send(encode(message)):
            return False
        stream.asked_s = stream.sent_s = now
        stream.closed = end
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
