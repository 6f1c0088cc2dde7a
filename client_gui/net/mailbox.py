"""Where one thread leaves things for another: two lists behind a lock, swapped.

What belongs here: putting, taking, and one call when something came that should not wait.  What may not: Qt
and sockets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A mailbox; any thread may use any method.

    Args:
        on_mail: Called, by whoever put it, when something urgent lies in a box that was told to be empty:
            once until it is emptied.
        urgent: What is urgent; everything, when not given.
    """

    def __init__(
        self, on_mail: Callable[[], None] | None = None, urgent: Callable[[T], bool] | None = None
    ) -> None:
        self.on_mail = on_mail
        self._urgent = urgent
        self._lock = threading.Lock()
        self._items: list[T] = []
        self._told = False

    def put(self, item: T) -> None:
        """Leaves something."""
        with self._lock:
            self._items.append(item)
            tell = not self._told and (self._urgent is None or self._urgent(item))
            self._told |= tell
        if tell and self.on_mail is not None:
            self.on_mail()

    def take(self) -> list[T]:
        """Everything that was left, in order."""
        with self._lock:
            taken, self._items = self._items, []
            self._told = False
        return taken
