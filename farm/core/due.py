"""What falls due when, so that a tick costs what is due and not what there is.

What belongs here: the queue of moments and the lists of what waits for one.  What may not: what then happens.

A node has one entry in the heap that counts: the earliest moment somebody asked for.  A heartbeat does not
touch it: when it comes up, ``farm.core.nodelife`` works out the next one.  None of this is stored; a
restart makes it anew.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farm.core.rollout import Rollout
    from farm.core.work import Step


class Due:
    """The moments.

    Attributes:
        parked: Steps that may have units whose back-off ends, by id.
        seen_us: When the nodes' last heartbeats are stored next.
        rollout: The roll-out that is under way.
    """

    __slots__ = ("_at", "_heap", "parked", "rollout", "seen_us")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        #: Moment of the entry of a node that counts; the others are passed over when they come up.
        self._at: dict[int, int] = {}
        self.parked: dict[int, Step] = {}
        self.seen_us = 0
        self.rollout: Rollout | None = None

    def at(self, node_id: int, when_us: int) -> None:
        """A node must be looked at then; an earlier moment that was asked for stays."""
        known = self._at.get(node_id)
        if known is None or when_us < known:
            self._at[node_id] = when_us
            heappush(self._heap, (when_us, node_id))

    def of(self, node_id: int) -> int | None:
        """When a node is looked at next, None = never."""
        return self._at.get(node_id)

    def take(self, now_us: int) -> list[int]:
        """Nodes whose moment has come, by id; each must be given a new one."""
        found: list[int] = []
        heap, at = self._heap, self._at
        while heap and heap[0][0] <= now_us:
            when_us, node_id = heappop(heap)
            if at.get(node_id) == when_us:
                del at[node_id]
                found.append(node_id)
        found.sort()
        return found
