"""Watches folders for what gets a name in them: every rename counted by the kernel, not by the farm.

What belongs here: inotify, and what a file held when it got its name.  What it may not know: farms.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_CREATE, _DELETE, _MOVED_FROM, _MOVED_TO = 0x100, 0x200, 0x40, 0x80
_OVERFLOW, _IGNORED, _ISDIR = 0x4000, 0x8000, 0x40000000
_EVENT = struct.Struct("iIII")


class Renamed(NamedTuple):
    """A file that was renamed to its present name; ``data`` is what it held a moment later."""

    path: str
    data: bytes


class Renames:
    """A thread that notes what happens to names in folders; names with a dot in front do not count.

    Attributes:
        seen: Renames in order.
        odd: What else happened to names, in words.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self._folders: dict[int, str] = {}
        self._wake_read, self._wake_write = os.pipe()
        self.seen: list[Renamed] = []
        self.odd: list[str] = []
        self._thread = threading.Thread(target=self._run, name="renames", daemon=True)
        self._thread.start()

    def watch(self, folder: Path) -> None:
        """Watches one more folder, which must be there."""
        mask = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
        if number < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))
        self._folders[number] = str(folder)

    def close(self) -> None:
        """Ends it; what happened before is in ``seen``."""
        os.write(self._wake_write, b"x")
        self._thread.join()
        for fd in (self._fd, self._wake_read, self._wake_write):
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._fd in ready:
                self._take(os.read(self._fd, 1 << 20))
            elif self._wake_read in ready:
                return

    def _take(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
            if mask & _OVERFLOW:
                self.odd.append("too much happened at once to watch it all")
            if name.startswith(".") or mask & (_OVERFLOW | _IGNORED):
                continue
            path = f"{self._folders[number]}/{name}"
            if mask & _MOVED_TO and not mask & _ISDIR:
                try:
                    held = Path(path).read_bytes()
                except OSError as error:
                    self.odd.append(f"{path} was gone right after it was renamed: {error.strerror}")
                    held = b""
                self.seen.append(Renamed(path, held))
            else:
                what = "made" if mask & _CREATE else "removed" if mask & _DELETE else "moved"
                self.odd.append(f"{path} was {what} otherwise than by a rename to it")
