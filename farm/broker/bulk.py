"""The bulk socket's own thread: log pieces and previews come in and go out; the control loop never waits.

Figures of frames are worked out by yet another thread (``farm.broker.columns``): logs do not wait for those.

Who may write: only the key an attempt was leased to.  Who may read: every user's key.  The thread knows
which attempts belong to which key from a small table that the loop's thread fills.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from farm.broker.book import LeaseBook
from farm.broker.columns import ColumnsThread
from farm.broker.ports import Past
from farm.model.errors import OvercrankError, PeerError
from farm.model.ids import STEP_NAME
from farm.model.roles import Role
from farm.protocol.bulk import (
    PIECE,
    AnyBulkIn,
    BulkErrorMsg,
    ColumnsGetMsg,
    LogAckMsg,
    LogGetMsg,
    LogPageMsg,
    LogPutMsg,
    LogsAckMsg,
    LogsPutMsg,
    PreviewAckMsg,
    PreviewGetMsg,
    PreviewMsg,
    PreviewPutMsg,
    ShortLog,
)
from farm.protocol.codec import bulk_in_codec, encode
from farm.transport.keyring import Keyring
from farm.transport.poller import Poller, Waker
from farm.transport.sockets import Socket, recv_nowait, send_nowait

log = logging.getLogger("overcrank.bulk")

NOT_LEASED = "this attempt was not leased to this key"
#: Most messages taken between two looks at whether the thread is to end.
DRAIN = 100


#: What is answered at once, one by one.
AnyByItself = LogPutMsg | PreviewPutMsg | LogGetMsg | PreviewGetMsg | ColumnsGetMsg


class Appended(Protocol):
    """What is held after a piece: the size to go on from, and why it was not taken ("" = it was)."""

    @property
    def size(self) -> int: ...
    @property
    def reason(self) -> str: ...


class Page(Protocol):
    """A part of a log."""

    @property
    def offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def data(self) -> bytes: ...
    @property
    def ended(self) -> bool: ...


class Logs(Protocol):
    """Where logs are kept (``farm.storage.logs``)."""

    def append(
        self, job: int, step: str, no: int, offset: int, data: bytes, *, end: bool = False
    ) -> Appended:
        """Stores the part of a piece that is not held yet."""
        ...

    def append_whole(self, logs: Sequence[tuple[int, str, int, bytes]]) -> Sequence[Appended]:
        """Stores logs that came whole (job, step, number, text); one flush for all of them."""
        ...

    def read(self, job: int, step: str, no: int, offset: int = 0, limit: int = PIECE) -> Page:
        """A page."""
        ...

    def set_aside(self, job: int) -> bool:
        """Takes all logs of a job out of the way at once; somebody else removes them."""
        ...

    def close(self) -> None:
        """Closes open files."""
        ...


class Previews(Protocol):
    """Where previews are kept (``farm.storage.previews``)."""

    def put(self, job: int, step: str, unit: int, no: int, data: bytes) -> bool:
        """Keeps a preview unless a later attempt's is held."""
        ...

    def get(self, job: int, step: str, unit: int) -> bytes:
        """The newest preview of a unit, empty when there is none."""
        ...

    def set_aside(self, job: int) -> bool:
        """Takes all previews of a job out of the way at once; somebody else removes them."""
        ...


class BulkThread(threading.Thread):
    """Serves the bulk socket until stopped.

    Args:
        socket: The socket.
        keyring: Who may do what.
        book: Which key each attempt was leased to.
        logs, previews: Where those are kept.
        open_past: Opens a connection to what is committed, for figures of frames.
    """

    def __init__(
        self,
        socket: Socket,
        keyring: Keyring,
        book: LeaseBook,
        logs: Logs,
        previews: Previews,
        open_past: Callable[[], Past],
    ) -> None:
        super().__init__(name="bulk", daemon=True)
        self._socket = socket
        self._keyring = keyring
        self._book = book
        self._logs = logs
        self._previews = previews
        self._codec = bulk_in_codec()
        self._waker = Waker()
        self._stopping = False
        #: Messages of whole logs that this drain brought: who sent it, with which key.
        self._whole: list[tuple[bytes, str, LogsPutMsg]] = []
        self._columns = ColumnsThread(open_past, self._worked_out)
        #: Answers that the other thread worked out, and whose they are.
        self._ready: deque[tuple[bytes, object]] = deque()
        #: Jobs that were deleted.
        self._deleted: deque[int] = deque()
        #: Called (in this thread) when something of theirs was set aside.
        self.on_aside: Callable[[], None] = lambda: None

    def remove(self, job: int) -> None:
        """A job was deleted, and no key may write to it any more: its logs and previews go (any thread)."""
        self._deleted.append(job)
        self._waker.wake()

    def _set_aside(self) -> None:
        while self._deleted:
            job = self._deleted.popleft()
            for kept in (self._logs, self._previews):
                try:
                    if kept.set_aside(job):
                        self.on_aside()
                except (OvercrankError, OSError) as error:
                    log.error("removing-failed job=J%d reason=%s", job, error)

    def stop(self) -> None:
        """Ends the thread and waits for it; the socket is free afterwards."""
        self._stopping = True
        self._columns.stop()
        self._waker.wake()
        self.join()
        self._waker.close()
        self._logs.close()

    def run(self) -> None:
        """The thread."""
        poller = Poller()
        poller.register(self._socket)
        poller.register(self._waker)
        while not self._stopping:
            poller.wait(1.0)
            self._waker.clear()
            for _ in range(DRAIN):
                message = recv_nowait(self._socket)
                if message is None or self._stopping:
                    break
                routing_id, body, key = message
                answer = self._answer(routing_id, body, key)
                if answer is not None:
                    send_nowait(self._socket, routing_id, encode(answer))
            self._keep_whole()
            while self._ready:
                routing_id, worked_out = self._ready.popleft()
                send_nowait(self._socket, routing_id, encode(worked_out))
            if self._deleted:
                self._set_aside()
        self._set_aside()

    def _worked_out(self, routing_id: bytes, answer: object) -> None:
        """Takes an answer to be sent (the thread of the columns)."""
        self._ready.append((routing_id, answer))
        self._waker.wake()

    def _keep_whole(self) -> None:
        """Keeps the whole logs that waited, with one flush for all, and answers for them."""
        waiting, self._whole = self._whole, []
        if not waiting:
            return
        logs = [one for _, key, message in waiting for one in message.logs if self._may_put(one, key)]
        try:
            kept = self._logs.append_whole([(one.job, one.step, one.no, one.data) for one in logs])
            told = [
                LogAckMsg(one.attempt, done.size, done.reason) for one, done in zip(logs, kept, strict=True)
            ]
        except (OvercrankError, OSError):
            # One of them is at fault, or the disk: each is answered for by itself.
            told = [self._keep_one(one) for one in logs]
        of_log = {id(one): ack for one, ack in zip(logs, told, strict=True)}
        for routing_id, _, message in waiting:
            acks = [of_log.get(id(one)) or LogAckMsg(one.attempt, -1, NOT_LEASED) for one in message.logs]
            send_nowait(self._socket, routing_id, encode(LogsAckMsg(tuple(acks))))

    def _keep_one(self, one: ShortLog) -> LogAckMsg:
        try:
            (done,) = self._logs.append_whole([(one.job, one.step, one.no, one.data)])
        except OvercrankError as error:
            return LogAckMsg(one.attempt, -1, error.message)
        except OSError as error:
            log.error("bulk-failed reason=%s", error)
            return LogAckMsg(one.attempt, -1, f"the farm cannot keep this: {error}")
        return LogAckMsg(one.attempt, done.size, done.reason)

    def _may_put(self, one: ShortLog, key: str) -> bool:
        """Whether this log may be written with this key; one that names no step may not."""
        return (
            one.job > 0
            and STEP_NAME.match(one.step) is not None
            and self._book.key_of(one.job, one.step, one.no) == key
        )

    def _answer(self, routing_id: bytes, body: bytes, key: str) -> object | None:
        entry = self._keyring.lookup(key)
        if entry is None or entry.revoked:
            return BulkErrorMsg(0, "denied", "this key is revoked or unknown here")
        try:
            message: AnyBulkIn = self._codec.decode(body)
        except PeerError as error:
            return BulkErrorMsg(0, error.code, error.message)
        if isinstance(message, LogsPutMsg):
            self._whole.append((routing_id, key, message))
            return None
        # In the order they came: what is asked or added now may follow a log that waits.
        self._keep_whole()
        try:
            return self._handle(routing_id, message, key, entry.role)
        except OvercrankError as error:
            return self._failed(message, error)
        except OSError as error:
            log.error("bulk-failed reason=%s", error)
            return self._failed(message, OvercrankError(f"the farm cannot keep this: {error}"))

    @staticmethod
    def _failed(message: AnyByItself, error: OvercrankError) -> object:
        if isinstance(message, LogPutMsg):
            return LogAckMsg(message.attempt, -1, error.message)
        if isinstance(message, PreviewPutMsg):
            return PreviewAckMsg(message.attempt, message.unit, error.message)
        return BulkErrorMsg(message.id, error.code, error.message)

    def _handle(self, routing_id: bytes, message: AnyByItself, key: str, role: str) -> object | None:
        if not STEP_NAME.match(message.step) or message.job < 1:
            raise PeerError("that is no step")
        if isinstance(message, LogPutMsg | PreviewPutMsg):
            if self._book.key_of(message.job, message.step, message.no) != key:
                if isinstance(message, LogPutMsg):
                    return LogAckMsg(message.attempt, -1, NOT_LEASED)
                return PreviewAckMsg(message.attempt, message.unit, NOT_LEASED)
            if isinstance(message, PreviewPutMsg):
                self._previews.put(message.job, message.step, message.unit, message.no, message.data)
                return PreviewAckMsg(message.attempt, message.unit)
            kept = self._logs.append(
                message.job, message.step, message.no, message.offset, message.data, end=message.end
            )
            return LogAckMsg(message.attempt, kept.size, kept.reason)
        if role == Role.AGENT:
            raise PeerError("an agent's key reads no logs, previews or figures")
        if isinstance(message, LogGetMsg):
            page = self._logs.read(message.job, message.step, message.no, message.offset, message.limit)
            return LogPageMsg(message.id, page.offset, page.size, page.data, page.ended)
        if isinstance(message, ColumnsGetMsg):
            self._columns.ask(routing_id, message)
            return None
        assert isinstance(message, PreviewGetMsg)
        return PreviewMsg(message.id, self._previews.get(message.job, message.step, message.unit))
