"""Many short logs in one file: what a log costs when its attempt lasted milliseconds.

What belongs here: complete texts appended to a file and found again.  What it may not know: who may read
them, and logs that come in pieces (``farm.storage.logs``).  Used by one thread.

A shelf is ``<folder>/<n>.shelf`` and holds the logs of ``SPAN`` neighbouring attempts of a step, each as a
head (mark, attempt number, length, checksum) and its text.  It is only ever appended to; one flush makes all
that was added since the last one durable.  A file of its own for each of a thousand short logs a second means
a thousand flushes, and folders nobody can list.
"""

# Reached by plain names, since it is on the way of every chunk:
# ruff: noqa: PTH118

from __future__ import annotations

import contextlib
import errno
import os
import struct
import zlib
from collections import OrderedDict
from pathlib import Path

from farm.storage.troubles import file_trouble

#: Attempts that share a shelf.
SPAN = 1024
#: Longest log that is put on one; an index of a full shelf is made by reading all of it.
SHORT = 8 * 1024
#: Shelves held open, each with where its logs lie.
OPEN = 16
_HEAD = struct.Struct("<4sIII")
_MARK = b"OCS1"


def shelf_name(folder: str, no: int) -> str:
    """The shelf of an attempt number."""
    return os.path.join(folder, f"{no // SPAN}.shelf")


class Shelf:
    """One file of short logs.

    Attributes:
        path: The file.
        dirty: Something was added that is not flushed.
    """

    def __init__(self, path: str, *, make: bool) -> None:
        """Opens a shelf and finds its logs.

        Args:
            path: The file; its folder is there.
            make: Make it when there is none.

        Raises:
            FileNotFoundError: There is none.
            OSError: The disk refuses.
        """
        self.path = path
        self.dirty = False
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if make else 0)
        self._fd = os.open(path, flags, 0o600)
        self._size = 0
        #: Where the text of each attempt's log begins, and its length.
        self._places: dict[int, tuple[int, int]] = {}
        try:
            self._find()
        except BaseException:
            self.close()
            raise

    def _find(self) -> None:
        """Reads where the logs lie; passes over what a crash left half written."""
        self._size = os.fstat(self._fd).st_size
        data = os.pread(self._fd, self._size, 0) if self._size else b""
        at = data.find(_MARK)
        while 0 <= at <= len(data) - _HEAD.size:
            _, no, length, checksum = _HEAD.unpack_from(data, at)
            start = at + _HEAD.size
            whole = start + length <= len(data)
            if whole and _checksum(no, data[start : start + length]) == checksum:
                self._places.setdefault(no, (start, length))
                at = start + length
                if data[at : at + 4] == _MARK or at == len(data):
                    continue
            else:
                at += 1
            at = data.find(_MARK, at)

    def size(self, no: int) -> int | None:
        """Length of a log, None when it is not here."""
        place = self._places.get(no)
        return None if place is None else place[1]

    def add(self, logs: list[tuple[int, bytes]]) -> None:
        """Appends complete logs that are not here yet; ``flush`` makes them durable.

        Raises:
            OSError: The disk refuses; none of them is here then.
        """
        parts: list[bytes] = []
        places: dict[int, tuple[int, int]] = {}
        at = self._size
        for no, text in logs:
            parts += (_HEAD.pack(_MARK, no, len(text), _checksum(no, text)), text)
            places[no] = (at + _HEAD.size, len(text))
            at += _HEAD.size + len(text)
        record = b"".join(parts)
        self.dirty = True
        written = 0
        try:
            written = os.write(self._fd, record)
        finally:
            if written < len(record):
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self._size)
                self._size = os.fstat(self._fd).st_size
        if written < len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size = at
        self._places.update(places)

    def read(self, no: int, offset: int, limit: int) -> bytes:
        """Part of a log that is here.

        Raises:
            OSError: It cannot be read.
        """
        start, length = self._places[no]
        return os.pread(self._fd, max(0, min(limit, length - offset)), start + offset)

    def flush(self) -> None:
        """Makes what was added durable.

        Raises:
            OSError: The disk refuses.
        """
        if self.dirty:
            os.fdatasync(self._fd)
            self.dirty = False

    def close(self) -> None:
        """Closes the file; what is not flushed may be lost."""
        with contextlib.suppress(OSError):
            os.close(self._fd)


class Shelves:
    """The shelves of a store; a few of them are held open."""

    def __init__(self, most: int = OPEN) -> None:
        self._most = max(1, most)
        self._open: OrderedDict[str, Shelf] = OrderedDict()

    def find(self, folder: str, no: int, *, make: bool = False) -> Shelf | None:
        """The shelf of an attempt; None when there is none and none is to be made.

        Raises:
            StorageError: The disk refuses.
        """
        path = shelf_name(folder, no)
        shelf = self._open.get(path)
        if shelf is not None:
            self._open.move_to_end(path)
            return shelf
        try:
            shelf = Shelf(path, make=make)
        except FileNotFoundError:
            if not make:
                return None
            raise
        except OSError as error:
            raise file_trouble(Path(path), error, "read") from error
        self._open[path] = shelf
        while len(self._open) > self._most:
            oldest = next(iter(self._open))
            self._flush(oldest, self._open[oldest])
            self._drop(oldest)
        return shelf

    def flush(self) -> None:
        """Makes everything durable that was added.

        Raises:
            StorageError: The disk refuses; what was added last may be lost in a crash.
        """
        for path, shelf in list(self._open.items()):
            self._flush(path, shelf)

    def _flush(self, path: str, shelf: Shelf) -> None:
        try:
            shelf.flush()
        except OSError as error:
            # After a failed flush the kernel may have dropped the pages: what is there is read anew.
            self._drop(path)
            raise file_trouble(Path(path), error) from error

    def _drop(self, path: str) -> None:
        shelf = self._open.pop(path, None)
        if shelf is not None:
            shelf.close()

    def forget(self, folder: str) -> None:
        """Closes the shelves below a folder, which is about to be removed."""
        inside = folder + os.sep
        for path in [path for path in self._open if path.startswith(inside)]:
            self._drop(path)

    def close(self) -> None:
        """Closes all."""
        for path in list(self._open):
            self._drop(path)


def _checksum(no: int, text: bytes) -> int:
    return zlib.crc32(text, no)
