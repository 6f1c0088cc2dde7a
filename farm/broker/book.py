"""Which node each attempt was leased to: what a log or preview is let in by.

What belongs here: that memory, small enough for millions of attempts.  What may not: the core (what it knows
of a step or a node is asked of whoever makes the book).  The loop writes it, the bulk thread reads it.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from farm.core.rows import LeaseRow

#: Characters of a key that are its own; a node's name for it may add a number.
KEY_LENGTH = 40
#: Stored rows that gather before they are read.
UNREAD_MOST = 10_000

#: Job and name of a step.
StepName = tuple[int, str]


class LeaseBook:
    """Nodes by step and attempt number, four bytes an attempt; of the largest step the oldest is forgotten.

    The loop only hands rows over; what they say is worked out when somebody asks, or when many have gathered.

    Args:
        name_of: Job and name of a step by its number, None when there is none.
        key_of_node: Key of a node by its number, None when there is none.
        most: Attempts remembered.
    """

    def __init__(
        self,
        name_of: Callable[[int], StepName | None],
        key_of_node: Callable[[int], str | None],
        most: int = 2_000_000,
    ) -> None:
        self._name_of = name_of
        self._key_of_node = key_of_node
        self._most = most
        #: By step: the node's number at the attempt's number less that of the first one known, 0 = not known.
        self._nodes: dict[int, array[int]] = {}
        self._first: dict[int, int] = {}
        self._steps: dict[StepName, int] = {}
        self._held = 0
        self._unread: list[Any] = []
        self._lock = threading.Lock()

    def note_rows(self, rows: Sequence[Any]) -> None:
        """Takes stored rows; leases are among them."""
        with self._lock:
            self._unread += rows
            if len(self._unread) > UNREAD_MOST:
                self._take_unread()

    def key_of(self, job: int, step: str, no: int) -> str | None:
        """The key of the node an attempt was leased to, None when it is not known (any more)."""
        with self._lock:
            if self._unread:
                self._take_unread()
            number = self._steps.get((job, step), 0)
            nodes, at = self._nodes.get(number), no - self._first.get(number, 0)
            if nodes is None or not 0 <= at < len(nodes) or not nodes[at]:
                return None
            return self._key_of_node(nodes[at])

    def forget(self, job: int) -> None:
        """Forgets a job: nothing of it is let in any more."""
        with self._lock:
            self._take_unread()
            for name in [name for name in self._steps if name[0] == job]:
                self._drop(self._steps.pop(name))

    def _take_unread(self) -> None:
        rows, self._unread = self._unread, []
        known = self._nodes.get
        for row in rows:
            if type(row) is not LeaseRow:
                continue
            nodes = known(row.step_id)
            if nodes is None:
                name = self._name_of(row.step_id)
                if name is None:
                    continue
                self._steps[name] = row.step_id
                nodes = self._nodes[row.step_id] = array("I")
                self._first[row.step_id] = row.no
            at = row.no - self._first[row.step_id]
            more = at + 1 - len(nodes)
            if more == 1:
                nodes.append(row.node_id)
            elif at >= 0:
                if more > 0:
                    nodes.extend([0] * more)
                nodes[at] = row.node_id
            # else: it is older than what is known of the step
            if more > 0:
                self._held += more
        while self._held > self._most:
            # The older half of the step with most attempts: those ended long ago, if any did.
            step = max(self._nodes, key=lambda number: len(self._nodes[number]))
            half = (len(self._nodes[step]) + 1) // 2
            del self._nodes[step][:half]
            self._first[step] += half
            self._held -= half

    def _drop(self, step: int) -> None:
        nodes = self._nodes.pop(step, None)
        self._first.pop(step, None)
        if nodes is not None:
            self._held -= len(nodes)
