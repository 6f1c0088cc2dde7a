"""What long-running verbs share: logging, signals, and the leash that ends them with their parent.

What belongs here: process plumbing of `farm broker` and `farm agent`.  What must not: what they do.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse


def add_leash(parser: argparse.ArgumentParser) -> None:
    """Adds ``--leash FD``: the process ends when that pipe closes, even if its parent was killed."""
    import argparse

    parser.add_argument("--leash", type=int, metavar="FD", help=argparse.SUPPRESS)


def start_logging(level: str) -> None:
    """Log lines to standard error: time, subject, level, then key=value words."""
    logging.basicConfig(
        stream=sys.stderr,
        level=getattr(logging, level.upper()),
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )


def on_signals(stop: Callable[[], None]) -> None:
    """Calls ``stop`` on SIGTERM and SIGINT, each time, from a thread of its own.

    A handler runs between any two steps of the main thread, the steps of a wait among them: ``stop`` called
    right there could wait for a lock that the interrupted step holds.
    """
    asked: SimpleQueue[int] = SimpleQueue()

    def handle(number: int, _frame: object) -> None:
        asked.put(number)

    def obey() -> None:
        while True:
            asked.get()
            stop()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    threading.Thread(target=obey, name="signals", daemon=True).start()


def hold_leash(fd: int | None, stop: Callable[[], None]) -> None:
    """Calls ``stop`` once the other end of the pipe is closed.

    Raises:
        CallError: ``fd`` is no open file.
    """
    if fd is None:
        return
    try:
        os.set_inheritable(fd, False)
    except OSError as error:
        raise CallError(f"--leash {fd}: {error.strerror}") from error

    def wait() -> None:
        try:
            while os.read(fd, 4096):
                pass
        except OSError:
            pass
        stop()

    threading.Thread(target=wait, name="leash", daemon=True).start()
