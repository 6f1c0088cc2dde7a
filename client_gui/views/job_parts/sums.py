"""Sums over the frames of a step: at once while they are few, in another thread when they are many.

What belongs here: where sums are made, and that only the newest result for what is shown is taken.  What may
not: which sums.

Until a result is there what was shown before stays: nothing is ever shown half.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

from PySide6.QtCore import QObject, Signal

from client_gui.lanes import Lane, Ticket

T = TypeVar("T")
#: So many frames are summed up faster than a window is painted.
AT_ONCE: Final = 100_000


class Sums(QObject):
    """Makes sums, one after another."""

    #: Whether it is at work.
    stood = Signal(bool)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._lane = Lane()
        self._about: Hashable = None
        self._ticket: Ticket[Any] | None = None
        self._next: Callable[[], None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a result is to come."""
        return self._ticket is not None

    def make(self, about: Hashable, frames: int, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Makes sums and hands them over: before this returns where the frames are few.

        Of the same thing one sum is made after the other, and of those that wait only the last; what was
        made about something else is given up.

        Args:
            about: What they are about.
            frames: Over how many.
            work: Makes them; it must touch nothing that the window's thread changes.
            then: Takes them.
        """
        if frames < AT_ONCE:
            self.give_up()
            then(work())
            return
        if self._ticket is not None and about == self._about:
            self._next = lambda: self.make(about, frames, work, then)
            return
        self.give_up()
        self._about = about

        def done(result: T) -> None:
            self._ticket = None
            following, self._next = self._next, None
            then(result)
            if following is not None and self._ticket is None:
                following()
            if self._ticket is None:
                self.stood.emit(False)

        self._ticket = self._lane.run(lambda ticket: work(), self, done, self._failed)
        self.stood.emit(True)

    def give_up(self) -> None:
        """What is under way is of no use any more."""
        if self._ticket is not None:
            self._ticket.give_up()
            self._ticket = None
        self._next = None

    def _failed(self, error: Exception) -> None:
        self._ticket = self._next = None
        self.stood.emit(False)
