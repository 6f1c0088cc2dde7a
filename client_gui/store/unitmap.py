"""A byte per frame: the states of a step's units, as the frame grid draws them.

What belongs here: the bytes, how many there are of each, and what changed.  What may not: colours and Qt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Units = npt.NDArray[np.int64]
NO_UNITS: Final[Units] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class MapChange:
    """What changed of a map.

    Attributes:
        units: Places of units with another state than before, ascending; empty when ``whole``.
        whole: It is new, has another length, or is gone: look at all of it.
    """

    units: Units = field(default_factory=lambda: NO_UNITS)
    whole: bool = False

    def joined(self, other: MapChange) -> MapChange:
        """Both changes as one."""
        if self.whole or other.whole:
            return MapChange(whole=True)
        return MapChange(np.union1d(self.units, other.units))


class UnitMap:
    """The states of a step's units.

    Attributes:
        states: One byte a unit, ``UnitState`` or what a newer farm calls a state.
        counts: How many units have each of the 256 bytes.
    """

    __slots__ = ("counts", "states")

    def __init__(self, states: bytes) -> None:
        self.states = bytearray(states)
        self.counts = np.bincount(self.array, minlength=256)

    def __len__(self) -> int:
        return len(self.states)

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The states as an array over the same memory; not to be kept."""
        return np.frombuffer(self.states, np.uint8)

    def count(self, state: int) -> int:
        """How many units are in a state."""
        return int(self.counts[state])

    def units_in(self, *states: int) -> Units:
        """Places of the units in some states, ascending."""
        return np.flatnonzero(np.isin(self.array, np.array(states, np.uint8)))

    def put(self, changes: Iterable[tuple[int, int]]) -> MapChange:
        """Sets units to states; places that are not in the map are passed over.

        Args:
            changes: Unit and state, in order; the last one of a unit counts.
        """
        touched: dict[int, int] = {}
        states = self.states
        for unit, state in changes:
            if 0 <= unit < len(states) and 0 <= state < 256:
                touched.setdefault(unit, states[unit])
                states[unit] = state
        changed = sorted(unit for unit, old in touched.items() if states[unit] != old)
        for unit in changed:
            self.counts[touched[unit]] -= 1
            self.counts[states[unit]] += 1
        return MapChange(np.array(changed, np.int64))

    def replace(self, states: bytes) -> MapChange:
        """Makes these the states; says which differ."""
        if len(states) != len(self.states):
            self.__init__(states)  # type: ignore[misc]
            return MapChange(whole=True)
        new = np.frombuffer(states, np.uint8)
        changed = np.flatnonzero(new != self.array)
        if len(changed):
            self.states[:] = states
            self.counts = np.bincount(new, minlength=256)
        return MapChange(changed)
