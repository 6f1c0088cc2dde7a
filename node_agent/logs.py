"""The log of one attempt on the agent's disk: raw output, our own notes, a cap, reads for the upload.

What belongs here: bytes to disk and back.  What it may not know: what a line means, how the log is
uploaded, how many logs there are.
"""

# A log is opened for every chunk; pathlib would cost more than the file:
# ruff: noqa: PTH104, PTH108

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Self

from farm.model.errors import StorageError

#: Largest log of an attempt.
CAP_BYTES = 1 << 30
#: Largest piece ``read`` gives; the bulk socket carries no larger ones.
MAX_READ_BYTES = 256 * 1024
#: Of what is beyond the cap, this much of the end is kept: the error is usually in the last lines.
TAIL_BYTES = 64 * 1024
NOTE_PREFIX = "== overcrank: "
#: Of a log up to this long the text is kept in memory too, so that sending it reads nothing.
REMEMBER_BYTES = 4096


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class LogSpool:
    """Append-only log file with a cap.

    The beginning is kept up to the cap, then the last ``TAIL_BYTES``; a line between them says how much
    is missing.  Notes (our own lines) are always written.  Writing never raises: a full disk must not
    stop the renderer whose pipe is being drained.  ``trouble`` tells instead.  Nothing is fsynced: the
    log of a machine that lost power is worth less than the disk's time.

    Thread-safe.  Opening a file that exists goes on after its end (an agent that was restarted).

    Args:
        path: The file; its folder is made.
        cap_bytes: Room for the process's output, notes aside.

    Raises:
        StorageError: The file cannot be opened.
    """

    def __init__(self, path: Path | str, cap_bytes: int = CAP_BYTES) -> None:
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
        try:
            try:
                self._fd = os.open(self._name, _FLAGS, 0o644)
            except FileNotFoundError:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._fd = os.open(self._name, _FLAGS, 0o644)
            self._size = os.lseek(self._fd, 0, os.SEEK_END)
            if self._size:
                self._at_line_start = os.pread(self._fd, 1, self._size - 1) == b"\n"
        except OSError as error:
            raise StorageError(f"cannot open the log {path}: {error.strerror}") from error

        if not self._size:
            self._text = bytearray()

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
        """Bytes on disk."""
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
            if self._text is not None:
                return bytes(self._text[offset : offset + limit])
            try:
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
                self._write_tail()
                if footer:
                    self._write_note(footer)
                self._closed = True
                os.close(self._fd)

    def remove(self) -> None:
        """Closes the log and deletes its file (after the upload); no error if it is gone."""
        self.close()
        self.forget_text()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name)

    def give_away(self, path: str) -> bool:
        """Closes the log and leaves its file, empty, at ``path``; False if that cannot be done."""
        self.close()
        self.forget_text()
        try:
            os.truncate(self._name, 0)
            os.rename(self._name, path)
        except OSError:
            return False
        return True

    def forget_text(self) -> None:
        """Frees what is kept in memory; reads go to the file from now on."""
        with self._lock:
            self._text = None

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
        self._write(start + f"{NOTE_PREFIX}{line}\n".encode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
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
