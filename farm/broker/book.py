"""Which key each attempt was leased to: what a log or preview is let in by.

What belongs here: that memory, small enough for millions of attempts.  What may not: the core (its rows are
read by whoever makes the book).  The loop writes it, the bulk thread reads it.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable

from farm.core.rows import LeaseRow

#: Characters of a key that are its own; a node's name for it may add a number.
KEY_LENGTH = 40
#: Stored leases that gather before they are read.
UNREAD_MOST = 5_000

#: Job, step, attempt number, key.
Lease = tuple[int, str, int, str]


class LeaseBook:
    """Keys by job, step and attempt number; four bytes an attempt, whole steps forgotten oldest first.

    The loop only hands rows over; what they say is worked out when somebody asks, or when many have gathered.

    Args:
        most: Attempts remembered.
        read: Tells what rows say.
    """

    def __init__(
        self, most: int = 2_000_000, read: Callable[[list[LeaseRow]], Iterable[Lease]] = lambda rows: ()
    ) -> None:
        self._most = most
        self._read = read
        #: By job and step: the number of the key at the attempt's number, 0 = not known.
        self._steps: dict[tuple[int, str], array[int]] = {}
        self._numbers: dict[str, int] = {}
        self._keys = [""]
        self._held = 0
        self._unread: list[LeaseRow] = []
        self._lock = threading.Lock()

    def note_rows(self, rows: list[LeaseRow]) -> None:
        """Takes stored leases."""
        with self._lock:
            self._unread += rows
            if len(self._unread) > UNREAD_MOST:
                self._take_unread()

    def note(self, job: int, step: str, no: int, key: str) -> None:
        """Remembers a lease."""
        with self._lock:
            self._add(job, step, no, key)

    def key_of(self, job: int, step: str, no: int) -> str | None:
        """The key, None when it is not known (any more)."""
        with self._lock:
            if self._unread:
                self._take_unread()
            numbers = self._steps.get((job, step))
            if numbers is None or not 0 <= no < len(numbers):
                return None
            return self._keys[numbers[no]] or None

    def forget(self, job: int) -> None:
        """Forgets a job: nothing of it is let in any more."""
        with self._lock:
            for where in [where for where in self._steps if where[0] == job]:
                self._held -= len(self._steps.pop(where))

    def _take_unread(self) -> None:
        rows, self._unread = self._unread, []
        for lease in self._read(rows):
            self._add(*lease)

    def _add(self, job: int, step: str, no: int, key: str) -> None:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        where = (job, step)
        numbers = self._steps.get(where)
        if numbers is None:
            numbers = self._steps[where] = array("I")
        more = no + 1 - len(numbers)
        if more > 0:
            numbers.extend([0] * more)
            self._held += more
            while self._held > self._most and len(self._steps) > 1:
                oldest = next(iter(self._steps))
                self._held -= len(self._steps.pop(oldest))
        numbers[no] = number
