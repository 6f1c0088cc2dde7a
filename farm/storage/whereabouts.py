"""Which entries of the journal tell of which step and units, so that a question need not read all of them.

What belongs here: the index in memory.  What must not: SQL, and what the rows say.

It is made when somebody asks, not when rows are stored: most rows are regrouped before anybody asks for them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from farm.core.rows import BulkRow, LeaseRow, ResultRow
from farm.storage.journal import EVERY_UNIT, PLACE_OF, bounds_of, decode_places

#: Pairs of an entry and a step that are held at most, of 24 bytes each.
PAIRS_MOST = 500_000

_LEASE, _RESULT, _BULK = (PLACE_OF[kind] for kind in (LeaseRow, ResultRow, BulkRow))


class _Places:
    """Where a step is told of: entries in order, and the first and last unit each one concerns."""

    __slots__ = ("bulks", "entries", "highs", "lows")

    def __init__(self) -> None:
        self.entries, self.lows, self.highs = array("q"), array("q"), array("q")
        #: Entries that move many of its units at once.
        self.bulks = array("q")


class Whereabouts:
    """An index of the journal, from its first entry up to some later one.

    Attributes:
        until: Number of the last entry it knows, None before the first.
    """

    def __init__(self) -> None:
        self.until: int | None = None
        self._steps: dict[int, _Places] = {}
        self._pairs = 0

    def add(self, number: int, blob: bytes, where: str) -> bool:
        """Takes the next entry; False when it holds as much as it may.

        Raises:
            StorageError: The entry does not decode; ``where`` names it.
        """
        if self._pairs >= PAIRS_MOST:
            return False
        spans: dict[int, list[int]] = {}
        for place in decode_places(blob, where):
            kind = type(place)
            if kind is _RESULT:
                low = high = place.unit
                if low < 0:  # a bare end concerns all units of its attempt, whichever they are
                    low, high = 0, EVERY_UNIT
            elif kind is _LEASE:
                low, high = bounds_of(place.units)
            elif kind is _BULK:
                low, high = bounds_of(place.units)
                bulks = self._steps.setdefault(place.step_id, _Places()).bulks
                if not bulks or bulks[-1] != number:
                    bulks.append(number)
            else:
                continue
            span = spans.get(place.step_id)
            if span is None:
                spans[place.step_id] = [low, high]
                continue
            if low < span[0]:
                span[0] = low
            if high > span[1]:
                span[1] = high
        for step_id, (low, high) in spans.items():
            places = self._steps.get(step_id)
            if places is None:
                places = self._steps[step_id] = _Places()
            places.entries.append(number)
            places.lows.append(low)
            places.highs.append(high)
        self._pairs += len(spans)
        self.until = number
        return True

    def of_step(self, step_id: int, low: int = 0, high: int = EVERY_UNIT) -> list[int]:
        """Entries that tell of units of a step from ``low`` to ``high``, in order."""
        places = self._steps.get(step_id)
        if places is None:
            return []
        if low <= 0 and high >= EVERY_UNIT:
            return list(places.entries)
        spans = zip(places.entries, places.lows, places.highs, strict=True)
        return [number for number, first, last in spans if first <= high and last >= low]

    def bulks(self, step_id: int) -> list[int]:
        """Entries that move many units of a step at once, in order."""
        places = self._steps.get(step_id)
        return list(places.bulks) if places is not None else []

    def forget(self, until: int) -> None:
        """Entries up to that one are no longer in the journal."""
        self.until = max(self.until, until) if self.until is not None else until
        for step_id, places in list(self._steps.items()):
            cut = bisect_right(places.entries, until)
            del places.entries[:cut], places.lows[:cut], places.highs[:cut]
            del places.bulks[: bisect_right(places.bulks, until)]
            self._pairs -= cut
            if not places.entries:
                del self._steps[step_id]
