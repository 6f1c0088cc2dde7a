"""The bytes of a log as they came, in a file of this machine: a log of 1 GB takes no memory.

What belongs here: the temporary file and its end.  What may not: Qt, and when something is read; everything
is called from one worker.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import weakref
from pathlib import Path

#: How the names of these files begin.
PREFIX = "overcrank-log-"


def _remove(handle: int, path: str) -> None:
    with contextlib.suppress(OSError):
        os.close(handle)
    with contextlib.suppress(OSError):
        Path(path).unlink()


class Spool:
    """Bytes by their offset.  Ends with its owner, or with the program.

    Attributes:
        path: The file, for a process that reads along.

    Raises:
        OSError: There is no room for temporary files, from any method.
    """

    def __init__(self) -> None:
        handle, self.path = tempfile.mkstemp(prefix=PREFIX, suffix=".log")
        self._handle = handle
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _remove, handle, self.path)

    def write(self, offset: int, data: bytes) -> None:
        """Keeps bytes; what lies before them may come later."""
        with self._lock:
            self._alive()
            os.lseek(self._handle, offset, os.SEEK_SET)
            view = memoryview(data)
            while view:
                view = view[os.write(self._handle, view) :]

    def read(self, start: int, end: int) -> bytes:
        """Bytes that were kept."""
        with self._lock:
            self._alive()
            os.lseek(self._handle, start, os.SEEK_SET)
            parts: list[bytes] = []
            left = end - start
            while left > 0 and (part := os.read(self._handle, left)):
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Removes the file."""
        with self._lock:
            self._end()

    def _alive(self) -> None:
        if not self._end.alive:
            raise OSError("the log was closed")
