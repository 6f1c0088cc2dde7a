"""Which frames are selected and which is the current one: one truth for the grid, the table and the charts.

What belongs here: a mark per unit and the gestures that change them.  What may not: how a selection looks,
and what is done with it.

Nothing that the farm does changes a selection: units keep their index for the life of a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

Units = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


class Picked(QObject):
    """Selected frames of a job.

    Attributes:
        step: Step of the current frame, "" for none.
        unit: The current frame, -1 for none; it need not be selected.
        version: Counts up with every change of what is selected.
    """

    #: What is selected changed.
    changed = Signal()
    #: The current frame changed.
    moved = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.step = ""
        self.unit = -1
        self.version = 0
        self._steps: list[str] = []
        self._marks: dict[str, Marks] = {}
        self._anchor: tuple[str, int] | None = None

    # -- steps --

    def set_steps(self, sizes: Sequence[tuple[str, int]], *, fresh: bool = False) -> None:
        """Says which steps there are; what is selected stays, unless another job is shown (``fresh``)."""
        old = {} if fresh else self._marks
        had = self.count
        self._steps = [step for step, _ in sizes]
        marks: dict[str, Marks] = {}
        for step, units in sizes:
            known = old.get(step)
            if known is None or len(known) != units:
                made = np.zeros(units, np.bool_)
                if known is not None:
                    kept = min(units, len(known))
                    made[:kept] = known[:kept]
                known = made
            marks[step] = known
        self._marks = marks
        if self._anchor is not None and not self._there(*self._anchor):
            self._anchor = None
        if self.step and self.step not in marks:
            self.step, self.unit = "", -1
            self.moved.emit()
        if fresh or self.count != had:
            self._note()

    def _there(self, step: str, unit: int) -> bool:
        return 0 <= unit < len(self._marks.get(step, ()))

    # -- reading --

    def marks(self, step: str) -> Marks:
        """Which units of a step are selected; not to be written to."""
        return self._marks.get(step, np.zeros(0, np.bool_))

    def units(self, step: str) -> Units:
        """Selected units of a step, ascending."""
        return np.flatnonzero(self.marks(step))

    def has(self, step: str, unit: int) -> bool:
        """Whether a unit is selected."""
        marks = self._marks.get(step)
        return marks is not None and 0 <= unit < len(marks) and bool(marks[unit])

    @property
    def count(self) -> int:
        """How many units are selected."""
        return sum(int(np.count_nonzero(marks)) for marks in self._marks.values())

    @property
    def steps(self) -> list[str]:
        """Steps of which something is selected, in the job's order."""
        return [step for step in self._steps if self._marks[step].any()]

    # -- gestures --

    def click(self, step: str, unit: int) -> None:
        """Only this one."""
        if not self._there(step, unit):
            return
        self._clear()
        self._marks[step][unit] = True
        self._anchor = (step, unit)
        self._note()
        self.move(step, unit)

    def toggle(self, step: str, unit: int) -> None:
        """This one too, or no longer."""
        if not self._there(step, unit):
            return
        marks = self._marks[step]
        marks[unit] = not marks[unit]
        self._anchor = (step, unit)
        self._note()
        self.move(step, unit)

    def move(self, step: str, unit: int) -> None:
        """Makes a frame the current one, without selecting it."""
        if (step, unit) != (self.step, self.unit):
            self.step, self.unit = step, unit
            self.moved.emit()

    def extend(self, step: str, unit: int, *, add: bool = False) -> None:
        """Everything between where the range began and this one, also over several steps."""
        if not self._there(step, unit):
            return
        begin = self._anchor or (
            (self.step, self.unit) if self._there(self.step, self.unit) else (step, unit)
        )
        places = {name: place for place, name in enumerate(self._steps)}
        (first, low), (last, high) = sorted(
            ((begin[0], begin[1]), (step, unit)), key=lambda one: (places[one[0]], one[1])
        )
        if not add:
            self._clear()
        for name in self._steps[places[first] : places[last] + 1]:
            marks = self._marks[name]
            marks[low if name == first else 0 : high + 1 if name == last else len(marks)] = True
        self._anchor = begin
        self._note()
        self.move(step, unit)

    def extend_over(self, step: str, units: npt.ArrayLike, unit: int, *, add: bool = False) -> None:
        """These units of a step, as a table shows them between the beginning of a range and its end."""
        if not add:
            self._clear()
        self._marks[step][np.asarray(units, np.int64)] = True
        self._anchor = self._anchor or (step, unit)
        self._note()
        self.move(step, unit)

    def select(self, step: str, units: npt.ArrayLike, *, add: bool = False) -> None:
        """Just these units of a step, or these too."""
        if step not in self._marks:
            return
        if not add:
            self._clear()
        wanted = np.asarray(units, np.int64)
        self._marks[step][wanted[(wanted >= 0) & (wanted < len(self._marks[step]))]] = True
        self._note()

    def select_all(self) -> None:
        """Everything."""
        for marks in self._marks.values():
            marks[:] = True
        self._note()

    def invert(self, step: str) -> None:
        """What was not selected of a step."""
        if step in self._marks:
            np.logical_not(self._marks[step], out=self._marks[step])
            self._note()

    def clear(self) -> None:
        """Nothing; the current frame stays."""
        if self.count:
            self._clear()
            self._note()

    @property
    def anchor(self) -> tuple[str, int] | None:
        """Where a range that is drawn with shift begins."""
        return self._anchor

    def _clear(self) -> None:
        for marks in self._marks.values():
            marks[:] = False

    def _note(self) -> None:
        self.version += 1
        self.changed.emit()
