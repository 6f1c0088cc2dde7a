"""Many short logs in one file: what a log costs when its attempt lasted milliseconds.

What belongs here: complete texts appended to a file, read back, and the file's removal once none of them is
needed.  What it may not know: who sends them where.

A file of its own for each of a hundred short chunks a second costs more than all else about their logs:
ext4 does not use an inode again for seconds and looks past all such ones for a free one, and what is cut to
nothing and written again it flushes at every close.  A record here is one ``write``, which the kernel keeps
whatever becomes of the agent.
"""

# Reached by plain names, since it is on the way of every chunk:
# ruff: noqa: PTH108

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

_HEAD = struct.Struct("<4sIII")
_MAGIC = b"OCL1"
SUFFIX = ".logs"
#: Bytes after which a new file is begun; the old one goes with its last log.
FULL_BYTES = 1 << 20


class Shelf:
    """One file of short logs."""

    def __init__(self, path: str) -> None:
        """Makes the file.

        Raises:
            OSError: The disk refuses.
        """
        self.path = path
        self.size = 0
        self.live = 0
        self.full = False
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        """Closes the file and removes it unless something in it is still needed."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            if not self.live:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path)


class Place:
    """Where one log lies."""

    __slots__ = ("_shelves", "length", "offset", "shelf")

    def __init__(self, shelves: SmallLogs, shelf: Shelf, offset: int, length: int) -> None:
        self._shelves = shelves
        self.shelf = shelf
        self.offset = offset
        self.length = length

    def read(self, offset: int, limit: int) -> bytes:
        """Part of the text.

        Raises:
            OSError: It cannot be read.
        """
        limit = max(0, min(limit, self.length - offset))
        if self.shelf.fd >= 0:
            return os.pread(self.shelf.fd, limit, self.offset + offset)
        with Path(self.shelf.path).open("rb") as file:
            file.seek(self.offset + offset)
            return file.read(limit)

    def release(self) -> None:
        """The log is not needed any more."""
        self._shelves.release(self)


class SmallLogs:
    """The files of one agent.  Safe to use from several threads."""

    def __init__(self, folder: str) -> None:
        """Uses ``folder``, which may not exist yet; touches nothing."""
        self._folder = folder
        self._lock = threading.Lock()
        self._shelf: Shelf | None = None
        self._made = 0
        self._closed = False

    def put(self, name: str, text: bytes) -> Place:
        """Keeps a complete log.

        Raises:
            OSError: The disk refuses.
        """
        named = name.encode("utf-8", "surrogateescape")
        record = b"".join((_HEAD.pack(_MAGIC, len(named), len(text), zlib.crc32(named + text)), named, text))
        with self._lock:
            shelf = self._shelf
            if shelf is None:
                shelf = self._shelf = self._open()
            start = shelf.size
            written = os.write(shelf.fd, record)
            if written < len(record):  # the disk is full; a torn record is passed over
                shelf.size += written
                self._turn_over(shelf)
                raise OSError(28, os.strerror(28))
            shelf.size += written
            shelf.live += 1
            if shelf.size >= FULL_BYTES:
                self._turn_over(shelf)
            if self._closed:  # an attempt that outlived the sending: found by the next start
                self._shelf = None
                shelf.close()
            return Place(self, shelf, start + len(record) - len(text), len(text))

    def _open(self) -> Shelf:
        self._made += 1
        path = f"{self._folder}/{self._made}{SUFFIX}"
        try:
            return Shelf(path)
        except FileNotFoundError:
            os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103
            return Shelf(path)

    def _turn_over(self, shelf: Shelf) -> None:
        shelf.full = True
        self._shelf = None
        if not shelf.live:
            shelf.close()

    def release(self, place: Place) -> None:
        """One log less; a file that holds none any more is emptied, or removed once it was full."""
        shelf = place.shelf
        with self._lock:
            shelf.live -= 1
            if shelf.live:
                return
            if shelf.full:
                shelf.close()
            elif shelf.size > FULL_BYTES // 4:
                os.ftruncate(shelf.fd, 0)
                shelf.size = 0

    def close(self) -> None:
        """Closes the file in use; one with logs that are still needed stays.  Logs may still be put."""
        with self._lock:
            self._closed = True
            shelf, self._shelf = self._shelf, None
            if shelf is not None:
                shelf.close()


def read_shelf(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and text of each log in a file an earlier run left; what is torn at its end is left out."""
    data = path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(data):
        magic, named, length, crc = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        at = start + named + length
        if magic != _MAGIC or at > len(data) or zlib.crc32(data[start:at]) != crc:
            return
        yield data[start : start + named].decode("utf-8", "surrogateescape"), data[start + named : at]
