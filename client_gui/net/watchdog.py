"""A watchdog for those who work on the client: what the window's thread was doing when it did not answer.

What belongs here: noticing, and writing the stack to the log.  What may not: being on for users; it is off
unless ``OVERCRANK_GUI_WATCHDOG`` is set, to how many milliseconds are too many (``1`` = 50).

Frames of another thread are not touched from Python: making objects of frames that go on running has crashed
the process while Qt painted (Python 3.11).  ``faulthandler`` makes none, and is called while this thread may
run Python, so that no other one does.  It is not left to call itself after a while: it would read frames that
change under it, and start and end a thread with every beat.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import tempfile
import threading
import time
from typing import IO, Final

from PySide6.QtCore import QObject, QTimer

log = logging.getLogger("overcrank.client")

VARIABLE: Final = "OVERCRANK_GUI_WATCHDOG"
#: Longest time in which the window may not answer, in milliseconds.
TOO_LONG_MS: Final = 50
_TICK_MS: Final = 10
#: The line above each thread's stack in what ``faulthandler`` writes.
_THREAD: Final = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)\b")


class Watchdog(QObject):
    """Watches the thread it is made in.

    Args:
        too_long_ms: After how long without an answer the stack is written.
    """

    def __init__(self, too_long_ms: int = TOO_LONG_MS, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._too_long_s = too_long_ms / 1000
        self._watched = threading.get_ident()
        self._beat_s = time.monotonic()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(_TICK_MS)
        self._timer.timeout.connect(self._beat)

    def start(self) -> None:
        """Begins."""
        self._beat()
        self._timer.start()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._timer.stop()
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        self._beat_s = time.monotonic()

    def _run(self) -> None:
        try:
            # Opened beforehand: while a file is being opened the window's thread may go on to something else.
            with tempfile.TemporaryFile() as file:
                self._watch(file)
        except OSError as error:
            log.warning("window-unwatched there is no room for stacks: %s", error)

    def _watch(self, file: IO[bytes]) -> None:
        told_s = 0.0
        while not self._end.wait(_TICK_MS / 1000):
            beat_s = self._beat_s
            late_s = time.monotonic() - beat_s
            if late_s < self._too_long_s or beat_s == told_s:
                continue
            told_s = beat_s  # once for each time it hangs
            faulthandler.dump_traceback(file.fileno(), all_threads=True)
            file.seek(0)
            stacks = file.read().decode("utf-8", "replace")
            file.seek(0)
            file.truncate()
            log.warning("window-blocked for_ms=%d\n%s", late_s * 1000, stack_of(stacks, self._watched))


def stack_of(stacks: str, thread: int) -> str:
    """The stack of one thread among those of all that ``faulthandler`` wrote; all when it is not among them.

    Args:
        stacks: What was written.
        thread: The thread's identifier (``threading.get_ident``).
    """
    for stack in stacks.split("\n\n"):
        head = _THREAD.match(stack.strip())
        if head is not None and int(head[1], 16) == thread:
            return stack.strip()
    return stacks.strip()


def watchdog_wanted() -> int:
    """How many milliseconds are too many, 0 when nobody wants to know."""
    text = os.environ.get(VARIABLE, "")
    if not text.isdigit():
        return 0
    return TOO_LONG_MS if text == "1" else int(text)
