"""What a frame is compared with: another version of the job, the frame before, or one that was held.

What belongs here: offering these, and finding the frame that answers to the one that is shown.  What may not:
pictures.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QWidget

from client_gui.net.client import FarmClient
from client_gui.store.attempts import frame_of, units_of
from client_gui.store.versions import name_of, other_versions
from client_gui.views.preview_parts.loader import Key
from farm.protocol.client import StepRow


class Against(QComboBox):
    """What a frame is compared with.

    Attributes:
        other: Job, step and unit; unit -1: the same frame of that job; None: nothing.
    """

    chosen = Signal()

    def __init__(self, client: FarmClient, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.other: Key | None = None
        self._client = client
        self._held: Key | None = None
        self._offers: list[Key] = []
        self.setAccessibleName("Compare with")
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(12)
        self.activated.connect(self._taken)

    def forget(self) -> None:
        """Another job is looked at."""
        self.other = None

    def hold(self, key: Key) -> None:
        """Keeps a frame, to compare others with it."""
        self._held = self.other = key

    def fill(self, job: int, step: StepRow | None, unit: int, done: Sequence[int]) -> None:
        """Offers what there is: other versions, the nearest before this one first."""
        offers: list[tuple[str, Key]] = []
        if self._held is not None:
            held = self._held
            offers.append((f"held: J{held[0]}/{held[1]} {self.number(held)}", held))
        offers += [
            (f"J{number}  {name}", (number, "", -1))
            for number, name in other_versions(self._client.store.jobs, job)
        ]
        if step is not None and unit in done and done.index(unit):
            before = done[done.index(unit) - 1]
            offers.append((f"frame {self.number((job, step.name, before))}", (job, step.name, before)))
        self._offers = [key for _, key in offers]
        self.clear()
        self.addItems([text for text, _ in offers] or ["nothing to compare with"])
        if self.other is None and self._offers:
            self.other = self._offers[0]
        if self.other in self._offers:
            self.setCurrentIndex(self._offers.index(self.other))
        self.chosen.emit()

    def key(self, step: StepRow | None, unit: int) -> Key | None:
        """The frame that is compared with the one that is shown; None when there is none."""
        if self.other is None:
            return None
        job, _, its_unit = self.other
        if its_unit >= 0:
            return self.other
        rows = self._client.store.steps_of(job)
        row = next((one for one in rows if step is not None and one.name == step.name), None)
        row = row or next((one for one in rows if one.kind != "single"), None)
        if row is None or unit < 0:
            return None
        frame = frame_of(step, unit)
        if frame is None:
            return (job, row.name, 0) if row.kind == "single" else None
        units = units_of(row, str(frame))
        return (job, row.name, units[0]) if units else None

    def name_of(self, job: int) -> str:
        """What a job is called."""
        return name_of(self._client.store.jobs, job)

    def number(self, key: Key) -> str:
        """A frame's number, or the name of its step."""
        rows = self._client.store.steps_of(key[0])
        frame = frame_of(next((row for row in rows if row.name == key[1]), None), key[2])
        return str(frame) if frame is not None else key[1]

    def names(self, mine: Key, other: Key | None) -> tuple[str, str]:
        """What the two frames are called."""
        first, second = (f"{self.name_of(key[0])} {self.number(key)}" if key else "" for key in (mine, other))
        return first, second

    def why_not(self, number: str) -> str:
        """Why there is no frame to compare one of this number with."""
        if self.other is None:
            return "There is no other version. Hold a frame (More) to compare others with it."
        return f"J{self.other[0]} has no frame {number}."

    def _taken(self, place: int) -> None:
        self.other = self._offers[place] if place < len(self._offers) else None
        self.chosen.emit()
