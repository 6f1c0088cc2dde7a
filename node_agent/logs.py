"""The log of one attempt on the agent's disk: raw output, our own notes, a cap, reads for the upload.

What belongs here: bytes to disk and back.  What it may not know: what a line means, how the log is
uploaded, how many logs there are.
"""

# A log is opened for every chunk; pathlib would cost more than the file:
# ruff: noqa: PTH108, PTH119

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Self

from farm.model.errors import StorageError
from node_agent.smalllogs import Place, SmallLogs

#: Largest log of an attempt.
CAP_BYTES = 1 << 30
#: Largest piece ``read`` gives; the bulk socket carries no larger ones.
MAX_READ_BYTES = 256 * 1024
#: Of what is beyond the cap, this much of the end is kept: the error is usually in the last lines.
TAIL_BYTES = 64 * 1024
NOTE_PREFIX = "== overcrank: "
#: Of a log up to this long the text is kept in memory too, so that sending it reads nothing.
REMEMBER_BYTES = 4096


#: Notes of processes that print nothing are written once there is so much of them.
NOTES_BYTES = 4096

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class LogSpool:
    """Append-only log file with a cap.

    The beginning is kept up to the cap, then the last ``TAIL_BYTES``; a line between them says how much
    is missing.  Notes (our own lines) are always written.  Writing never raises: a full disk must not
    stop the renderer whose pipe is being drained.  ``trouble`` tells instead.  Nothing is fsynced: the
    log of a machine that lost power is worth less than the disk's time.  Output is in the file at once;
    notes, of which a chunk of short frames makes two a frame, wait for output, for a reader (the upload
    looks every second) or for company.

    With ``small`` a log begins in memory.  ``settle`` gives it a file of its own, and so does growth; one
    that is closed before is put on a shelf with others like it.  Until either, its lines would be lost with
    the agent.

    Thread-safe.  Opening a file that exists goes on after its end (an agent that was restarted).

    Args:
        path: The file; its folder is made.
        cap_bytes: Room for the process's output, notes aside.
        small: Where short logs go.

    Raises:
        StorageError: The file cannot be opened.
    """

    def __init__(
        self, path: Path | str, cap_bytes: int = CAP_BYTES, *, small: SmallLogs | None = None
    ) -> None:
        self._name = str(path)
        #: What went wrong with writing, "" if nothing did.
        self.trouble = ""
        self._lock = threading.Lock()
        self._cap = cap_bytes
        self._tail = bytearray()
        self._tail_max = min(TAIL_BYTES, cap_bytes // 8)
        self._beyond = 0
        self._closed = False
        self._at_line_start = True
        self._text: bytearray | None = None
        self._small = small
        self._place: Place | None = None
        self._fd = -1
        self._size = 0
        #: Notes that are not in the file yet: they wait for output, a reader or company.
        self._notes = bytearray()
        if small is not None:
            self._text = bytearray()
            return
        try:
            self._open()
            self._size = os.lseek(self._fd, 0, os.SEEK_END)
            if self._size:
                self._at_line_start = os.pread(self._fd, 1, self._size - 1) == b"\n"
        except OSError as error:
            raise StorageError(f"cannot open the log {path}: {error.strerror}") from error

        if not self._size:
            self._text = bytearray()

    def _open(self) -> None:
        try:
            self._fd = os.open(self._name, _FLAGS, 0o644)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._name, _FLAGS, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._name)

    @property
    def size(self) -> int:
        """Bytes of it."""
        return self._size

    @property
    def dropped(self) -> int:
        """Bytes of output that are missing from the log, or would be if it were closed now."""
        with self._lock:
            return max(0, self._beyond - self._tail_max)

    def append(self, data: bytes) -> None:
        """Adds output as it came.

        Raises:
            StorageError: The log is closed.
        """
        with self._lock:
            self._check_open()
            self._write_notes()
            if not self._beyond:
                room = max(0, self._cap - self._tail_max - self._size)
                self._write(data[:room])
                data = data[room:]
                if not data:
                    return
                self._write_note("this log is full; only its last lines will follow when the process ends")
            self._beyond += len(data)
            self._tail += data
            # Trimmed at double length, so that small appends do not shift the buffer every time.
            if len(self._tail) > 2 * self._tail_max:
                del self._tail[: len(self._tail) - self._tail_max]

    def note(self, text: str) -> None:
        """Adds a line of ours, whatever the cap.

        In a log that is full it comes before the last lines of the output; ``close`` takes a footer.

        Raises:
            StorageError: The log is closed.
        """
        with self._lock:
            self._check_open()
            self._write_note(text)

    def read(self, offset: int, limit: int = MAX_READ_BYTES) -> bytes:
        """At most ``limit`` (and 256 KiB) bytes from ``offset``; empty at the end.

        Works on a closed log too, until it is removed.

        Raises:
            StorageError: The file cannot be read.
            ValueError: A negative offset or limit.
        """
        if offset < 0 or limit < 0:
            raise ValueError(f"offset and limit must not be negative: {offset}, {limit}")
        limit = min(limit, MAX_READ_BYTES)
        with self._lock:
            self._write_notes()
            if self._text is not None:
                return bytes(self._text[offset : offset + limit])
            try:
                if self._place is not None:
                    return self._place.read(offset, limit)
                if not self._closed:
                    return os.pread(self._fd, limit, offset)
                with self.path.open("rb") as file:
                    file.seek(offset)
                    return file.read(limit)
            except OSError as error:
                raise StorageError(f"cannot read the log {self.path}: {error.strerror}") from error

    def close(self, footer: str = "") -> None:
        """Writes what was kept of the end, then a last line of ours, and closes.  Safe to call twice."""
        with self._lock:
            if not self._closed:
                self._write_notes()
                self._write_tail()
                if footer:
                    self._write_note(footer)
                self._write_notes()
                if self._fd < 0:
                    self._shelve()
                self._closed = True
                if self._fd >= 0:
                    os.close(self._fd)

    def settle(self) -> None:
        """Puts into the file what is still in memory only, and makes one where there is none yet."""
        with self._lock:
            if self._fd < 0 and not self._closed:
                self._settle()
            self._write_notes()

    def _settle(self) -> None:
        try:
            self._open()
        except OSError as error:
            self.trouble = f"cannot open the log {self.path}: {error.strerror}"
            return
        text, self._size = bytes(self._text or b""), 0
        self._text = bytearray()
        self._write(text)

    def _shelve(self) -> None:
        assert self._small is not None
        try:
            self._place = self._small.put(os.path.basename(self._name), bytes(self._text or b""))
        except OSError:
            self._settle()

    def remove(self) -> None:
        """Closes the log and deletes its file (after the upload); one that stays is sent again some day."""
        self.close()
        self.forget_text()
        if self._place is not None:
            place, self._place = self._place, None
            place.release()
            return
        with contextlib.suppress(OSError):
            os.unlink(self._name)

    def forget_text(self) -> None:
        """Frees what is kept in memory; reads go to the file from now on."""
        with self._lock:
            if self._place is not None or self._fd >= 0:
                self._text = None

    def move_to(self, folder: Path) -> None:
        """Moves the file of a log into another folder.

        Raises:
            OSError: That cannot be done.
        """
        self.settle()
        folder.mkdir(parents=True, exist_ok=True)
        if self._place is None:
            self.path.rename(folder / self.path.name)
        else:
            (folder / self.path.name).write_bytes(self.read(0))
            self.remove()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"the log {self.path} is closed")

    def _write_tail(self) -> None:
        if not self._beyond:
            return
        tail = bytes(self._tail[-self._tail_max :]) if self._tail_max else b""
        if len(tail) < self._beyond:  # begin at a line, where there is one
            tail = tail[tail.find(b"\n") + 1 :]
        missing = self._beyond - len(tail)
        self._tail.clear()
        self._write_note(f"{missing} bytes dropped here (a log holds {self._cap} bytes)")
        self._write(tail)

    def _write_note(self, text: str) -> None:
        # Nearly every note is one plain line; printable text has no line ends of any kind.
        line = (text if text.isprintable() else " ".join(text.splitlines())) or "-"
        start = b"" if self._at_line_start else b"\n"
        data = start + f"{NOTE_PREFIX}{line}\n".encode("utf-8", "replace")
        if self._fd < 0:
            self._write(data)
            return
        self._notes += data
        self._size += len(data)
        self._at_line_start = True
        if len(self._notes) > NOTES_BYTES:
            self._write_notes()

    def _write_notes(self) -> None:
        if self._notes:
            data = bytes(self._notes)
            self._notes.clear()
            self._size -= len(data)
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._notes:
            self._write_notes()
        if self._fd < 0:
            assert self._text is not None
            if self._size + len(data) <= REMEMBER_BYTES or self.trouble:
                self._text += data
                self._size += len(data)
                if data:
                    self._at_line_start = data.endswith(b"\n")
                return
            self._settle()
            if self._fd < 0:
                return
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:] if written else data)
        except OSError as error:
            self.trouble = f"cannot write the log {self.path}: {error.strerror}"
        if not written:
            return
        self._size += written
        self._at_line_start = data[written - 1 : written] == b"\n"
        if self._text is not None:
            if self._size > REMEMBER_BYTES:
                self._text = None
            else:
                self._text += data[:written]
