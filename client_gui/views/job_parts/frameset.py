"""Which frames units are: numbers of units, and text of some units as the farm addresses them.

What belongs here: arithmetic on a step's frame range, without a loop over its frames.  What may not: Qt,
states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from client_gui.actions.context import UnitsOf
from client_gui.store.columns import step_address
from farm.model.frames import FrameRange
from farm.model.states import UnitState
from farm.sdk.filters import read_frames

Units = npt.NDArray[np.int64]

#: Words of the bytes of a map.
WORDS: dict[int, str] = {int(state): state.word for state in UnitState}


def state_word(byte: int) -> str:
    """The word of a state's byte; one of a newer farm is called by its number."""
    return WORDS.get(byte, f"state {byte}")


@dataclass(frozen=True, slots=True, eq=False)
class FrameSet:
    """The frames of a step.

    Attributes:
        job: Number of its job.
        step: Its name.
        range: Its frames; None when it has none, or writes them in a way this version cannot read.
        numbers: Frame numbers by unit, None likewise.
        units: How many units it has.
    """

    job: int
    step: str
    range: FrameRange | None
    numbers: Units | None
    units: int

    @classmethod
    def of(cls, job: int, step: str, frames: str, units: int) -> FrameSet:
        """Of a step as its row says it."""
        found = read_frames(frames) if frames else None
        if found is None or len(found) != units:
            return cls(job, step, None, None, units)
        runs = [np.arange(run.first, run.first + run.step * run.count, run.step) for run in found.runs]
        return cls(job, step, found, np.concatenate(runs) if runs else np.empty(0, np.int64), units)

    @property
    def address(self) -> str:
        """Of the step."""
        return step_address(self.job, self.step)

    def name(self, unit: int) -> str:
        """What a unit is called: its frame's number, or the step's name where it is the only one."""
        if self.numbers is not None and 0 <= unit < len(self.numbers):
            return str(self.numbers[unit])
        return self.step if self.units == 1 else f"unit {unit}"

    def unit_of(self, frame: int) -> int:
        """The unit of a frame, -1 when there is none."""
        if self.range is None or frame not in self.range:
            return -1
        return self.range.index_of(frame)

    def text(self, units: npt.ArrayLike) -> str:
        """Some units as the farm writes them: ``1001-1020,1030``; "" where units have no numbers."""
        if self.range is None:
            return ""
        parts: list[str] = []
        for first, last in spans(np.asarray(units, np.int64)):
            parts.append(str(self.range.slice(first, last + 1)))
        return ",".join(parts)

    def picked(self, units: Units, states: npt.NDArray[np.uint8] | None) -> UnitsOf:
        """Some units, as actions take them; all of them are the whole step."""
        words: frozenset[str] = frozenset()
        if states is not None and len(units) and int(units[-1]) < len(states):
            words = frozenset(state_word(byte) for byte in np.unique(states[units]).tolist())
        if len(units) == self.units or self.range is None:
            return UnitsOf(self.job, self.step, states=words)
        return UnitsOf(self.job, self.step, tuple(units.tolist()), self.text(units), words)


def many(count: int, word: str) -> str:
    """``1 frame``, ``2 frames``, ``100,000 frames``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def spans(units: Units) -> list[tuple[int, int]]:
    """Ascending units as ranges, both ends included."""
    if not len(units):
        return []
    breaks = np.flatnonzero(np.diff(units) != 1)
    firsts = units[np.concatenate([[0], breaks + 1])]
    lasts = units[np.concatenate([breaks, [len(units) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
