"""Work off the window's thread: files and decoding, with answers that come back to it.

What belongs here: lanes (work in order, a few at once), tickets to give work up by, and the one place where
other threads hand results to the window's thread.  What may not: what the work is.

A lane has no thread while it has nothing to do, so that nothing is left behind when a view ends.  Its threads
are daemons: a file system that does not answer cannot keep the program from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import shiboken6
from PySide6.QtCore import QObject, Qt, Signal, Slot

from farm.model.errors import OvercrankError, StorageError

T = TypeVar("T")


class Ticket(Generic[T]):
    """Work that was given to a lane.

    Attributes:
        given_up: Its result is of no use any more; long work looks at this.
    """

    __slots__ = ("failed", "given_up", "owner", "then", "work")

    def __init__(
        self,
        work: Callable[[Ticket[T]], T],
        owner: QObject,
        then: Callable[[T], None],
        failed: Callable[[OvercrankError], None] | None,
    ) -> None:
        self.work = work
        self.owner = owner
        self.then = then
        self.failed = failed
        self.given_up = False

    def give_up(self) -> None:
        """Its result is of no use any more."""
        self.given_up = True


class _Bridge(QObject):
    """Lives as long as the program; takes results in the window's thread."""

    came = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.came.connect(self._take, Qt.ConnectionType.QueuedConnection)

    @Slot(object)
    def _take(self, told: tuple[Ticket[Any], Any, OvercrankError | None]) -> None:
        ticket, result, error = told
        if ticket.given_up or not shiboken6.isValid(ticket.owner):
            return
        if error is None:
            ticket.then(result)
        elif ticket.failed is not None:
            ticket.failed(error)


_bridges: list[_Bridge] = []


def _bridge() -> _Bridge:
    """The bridge; made with the first lane, in the window's thread."""
    if not _bridges or not shiboken6.isValid(_bridges[-1]):
        _bridges[:] = [_Bridge()]
    return _bridges[-1]


class Lane:
    """Does work in the order it was given, at most ``width`` at once.

    Args:
        width: 1 keeps everything strictly in order.
    """

    def __init__(self, width: int = 1) -> None:
        self._width = width
        self._todo: deque[Ticket[Any]] = deque()
        self._lock = threading.Lock()
        self._busy = 0
        self._bridge = _bridge()

    def run(
        self,
        work: Callable[[Ticket[T]], T],
        owner: QObject,
        then: Callable[[T], None],
        failed: Callable[[OvercrankError], None] | None = None,
    ) -> Ticket[T]:
        """Has something done.

        Args:
            work: What to do, in another thread; it may look at its ticket.
            owner: Whose work it is; results for one that is gone are dropped.
            then: Takes the result, in the window's thread.
            failed: Takes the error; an ``OSError`` comes as a ``StorageError``.
        """
        ticket = Ticket(work, owner, then, failed)
        with self._lock:
            self._todo.append(ticket)
            if self._busy < self._width:
                self._busy += 1
                threading.Thread(target=self._work, name="overcrank-lane", daemon=True).start()
        return ticket

    def clear(self) -> None:
        """Gives up what was not begun."""
        with self._lock:
            for ticket in self._todo:
                ticket.give_up()
            self._todo.clear()

    @property
    def busy(self) -> bool:
        """Whether it has something to do."""
        with self._lock:
            return bool(self._busy or self._todo)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._todo:
                    self._busy -= 1
                    return
                ticket = self._todo.popleft()
            if ticket.given_up:
                continue
            result: Any = None
            error: OvercrankError | None = None
            try:
                result = ticket.work(ticket)
            except OvercrankError as trouble:
                error = trouble
            except (OSError, MemoryError, ValueError) as trouble:
                error = StorageError(f"could not be done on this machine: {trouble}")
            try:
                self._bridge.came.emit((ticket, result, error))
            except RuntimeError:  # the program is ending, and the bridge with it
                return
