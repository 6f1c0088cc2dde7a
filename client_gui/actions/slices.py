"""Long work on the window's thread in slices of a few milliseconds, with the window's turn in between.

What belongs here: going on with generators.  What may not: what they work out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from PySide6.QtCore import QObject, QTimer

T = TypeVar("T")
#: Work that yields after each step and returns its result.
Steps = Generator[None, None, T]
#: How long a slice may be.
SLICE_S: Final = 0.004
#: Work of no more steps than this is done at once: it takes no longer than a slice.
AT_ONCE: Final = 100


def whole(steps: Steps[T]) -> T:
    """The result of some work, done at once."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: T = over.value
            return result


class Slices(QObject):
    """Does work in slices, one after the other in the order it came."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: deque[tuple[Steps[Any], Callable[[Any], object]]] = deque()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        # Not at once: what is posted for at once is done before the window is drawn.
        self._timer.setInterval(1)
        self._timer.timeout.connect(self._go_on)

    @property
    def busy(self) -> bool:
        """Whether something is still being worked out."""
        return bool(self._waiting)

    def do(self, steps: Steps[T], count: int, then: Callable[[T], object]) -> None:
        """Does some work and hands its result on: at once when it is short and nothing is before it.

        Args:
            steps: The work.
            count: Of how many steps, about.
            then: Takes the result.
        """
        if count <= AT_ONCE and not self._waiting:
            then(whole(steps))
            return
        self._waiting.append((steps, then))
        self._timer.start()

    def forget(self) -> None:
        """Nothing of it is wanted any more."""
        self._waiting.clear()
        self._timer.stop()

    def _go_on(self) -> None:
        ends_s = time.perf_counter() + SLICE_S
        while self._waiting and time.perf_counter() < ends_s:
            steps, then = self._waiting[0]
            try:
                next(steps)
            except StopIteration as over:
                self._waiting.popleft()
                then(over.value)
            except Exception:
                # A fault of this program: what waits behind it must not wait for ever.
                self._waiting.popleft()
                if self._waiting:
                    self._timer.start()
                raise
        if self._waiting:
            self._timer.start()
