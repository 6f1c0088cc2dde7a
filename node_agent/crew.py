"""Threads that are used again: what an agent does beside its fixed threads.

What belongs here: handing work to a thread that is free, or to a new one.  What it may not know: what the
work is.  ``concurrent.futures`` does the same and makes a future, a condition and a lock for each piece of
work, whose result nobody here asks for; an agent with short chunks hands over a thousand a second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

log = logging.getLogger("overcrank.agent")


class Crew:
    """As many threads as there was work at one time.  Safe to use from several threads."""

    def __init__(self, most: int, name: str) -> None:
        """Starts nothing yet.

        Args:
            most: Threads at most; beyond that work waits its turn.
            name: What the threads are called.
        """
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._free = 0
        self._closed = False

    def start(self, work: Callable[[], object]) -> None:
        """Has work done by a thread of its own; what it raises is logged.

        Raises:
            RuntimeError: The crew has been closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the crew has gone home")
            if self._free:
                self._free -= 1
            elif len(self._threads) < self._most:
                number = len(self._threads) + 1
                thread = threading.Thread(target=self._run, name=f"{self._name}_{number}", daemon=True)
                thread.start()
                self._threads.append(thread)
            self._work.put(work)

    def close(self) -> None:
        """Waits until all work is done and every thread has ended.  Safe to call twice."""
        with self._lock:
            self._closed = True
            for _ in self._threads:
                self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                log.exception("event=work-failed")
            del work  # or it, and all it holds, would live until the next
            with self._lock:
                self._free += 1
