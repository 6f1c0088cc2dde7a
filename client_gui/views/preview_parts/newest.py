"""Which frames of a step were finished last, newest first.

What belongs here: asking once, and keeping that up to date from what is followed.  What may not: pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

from client_gui.net.client import FarmClient
from client_gui.store.attempts import address_of, units_of
from client_gui.store.columns import step_address
from farm.model.states import UnitState
from farm.protocol.client import AttemptsReply, AttemptsReq, StepRow

#: Frames that are kept, and attempts that are asked for them.
MOST: Final = 60
_ATTEMPTS: Final = 200
DONE: Final = int(UnitState.DONE)


class Newest(QObject):
    """The newest frames of a step.

    Attributes:
        units: They, newest first; all of them are done.
    """

    #: They are others.
    changed = Signal()

    def __init__(self, client: FarmClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.units: list[int] = []
        self._client = client
        self._target: tuple[int, str] = (0, "")
        self._row: StepRow | None = None

    @property
    def known(self) -> bool:
        """Whether the step is known."""
        return self._row is not None

    def states(self) -> bytearray:
        """A byte for each unit of the step."""
        found = self._client.store.maps.get(step_address(*self._target))
        return found.states if found is not None else bytearray()

    def state(self, unit: int) -> str:
        """A unit's state in words."""
        states = self.states()
        try:
            return UnitState(states[unit]).word if 0 <= unit < len(states) else "unknown"
        except ValueError:
            return "unknown"

    def done(self) -> list[int]:
        """Units that are done, in order."""
        units: list[int] = self._done().tolist()
        return units

    def _done(self) -> npt.NDArray[np.int64]:
        states: npt.NDArray[np.int64] = np.flatnonzero(np.frombuffer(self.states(), np.uint8) == DONE)
        return states

    def look(self, job: int, row: StepRow | None) -> None:
        """Looks at another step."""
        self._target, self._row = (job, row.name if row is not None else ""), row
        self.units = []
        self.ask()

    def ask(self) -> None:
        """Asks which frames were finished last."""
        target, row = self._target, self._row
        if row is None:
            return
        self._client.ask(
            AttemptsReq,
            self,
            lambda reply: self._answered(target, reply),
            lambda error: self._answered(target, AttemptsReply(id=0, attempts=())),
            reply=AttemptsReply,
            address=address_of(target[0], row.name, None),
            limit=_ATTEMPTS,
        )

    def moved(self, units: Iterable[int]) -> list[int]:
        """Some units changed; returns those that are done now, the newest last."""
        states = self.states()
        ended = [unit for unit in units if unit < len(states) and states[unit] == DONE]
        new = set(ended)
        kept = (unit for unit in self.units if unit not in new)
        self.units = [*reversed(ended), *kept]
        self._tidy(states)
        return ended

    def _tidy(self, states: bytearray) -> None:
        if states:
            self.units = [unit for unit in self.units if unit < len(states) and states[unit] == DONE]
        del self.units[MOST:]

    def _answered(self, target: tuple[int, str], reply: AttemptsReply) -> None:
        if target != self._target or self._row is None:
            return
        states = self.states()
        found: dict[int, None] = dict.fromkeys(self.units)
        for attempt in sorted(reply.attempts, key=lambda one: one.ended_us or one.started_us, reverse=True):
            if len(found) >= MOST:
                break
            for unit in reversed(units_of(self._row, attempt.frames)):
                if unit < len(states) and states[unit] == DONE:
                    found.setdefault(unit)
        # The farm forgets old attempts; then the last frames stand for the newest.
        self.units = list(found) or [int(unit) for unit in self._done()[: -MOST - 1 : -1]]
        self._tidy(states)
        self.changed.emit()


def likely_step(rows: Sequence[StepRow]) -> str:
    """The step whose pictures somebody most likely wants to see, when none was chosen."""
    done = [row for row in rows if len(row.counts) > DONE and row.counts[DONE]]
    for row in (*done, *rows):
        if row.kind != "single":
            return row.name
    return rows[0].name if rows else ""
