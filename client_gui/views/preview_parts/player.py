"""Playing frames at a rate: by the clock, leaving out what is not there in time, and saying so.

What belongs here: which frame is due when.  What may not: widgets, and where pictures come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QObject, Qt, QTimer, Signal

#: Rates that can be chosen, in frames a second.
RATES: Final = (1, 6, 12, 24, 25, 30)
USUAL_RATE: Final = 24
#: Pictures that are wanted ahead of the one that is shown.
AHEAD: Final = 48


class Player(QObject):
    """Plays units in a circle.

    Args:
        ready: Whether a unit's picture is there.
        clock_s: Seconds.

    Attributes:
        rate: Frames a second.
        playing: Whether it runs.
    """

    #: A unit is to be shown.
    shown = Signal(int)
    #: It began or ended, or ``said`` changed.
    stood = Signal()

    def __init__(
        self,
        ready: Callable[[int], bool],
        clock_s: Callable[[], float] = time.perf_counter,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.rate = USUAL_RATE
        self.playing = False
        self._ready = ready
        self._clock_s = clock_s
        self._units: Sequence[int] = ()
        self._at = 0
        self._since_s = 0.0
        self._from = 0
        self._times: list[float] = []
        self._told_s = 0.0
        self._said = ""
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.tick)

    @property
    def said(self) -> str:
        """How it goes: ``18 of 24 fps``; "" while it does not run."""
        return self._said if self.playing else ""

    def play(self, units: Sequence[int], start: int) -> None:
        """Plays from a unit on; from the first when that is not among them."""
        if len(units) < 2:
            return
        self._units = units
        self._from = self._at = units.index(start) if start in units else 0
        self._since_s = self._told_s = self._clock_s()
        self._times = []
        self._said = f"{self.rate} fps"
        self.playing = True
        self._timer.start(max(5, round(500 / self.rate)))
        self.stood.emit()

    def stop(self) -> None:
        """Stops where it is."""
        if self.playing:
            self.playing = False
            self._timer.stop()
            self.stood.emit()

    def set_rate(self, rate: int) -> None:
        """Plays faster or slower from now on."""
        self.rate = rate
        if self.playing:
            self.play(self._units, self._units[self._at])

    def ahead(self) -> list[int]:
        """Units whose pictures will be wanted, soonest first."""
        count = len(self._units)
        return [self._units[(self._at + n) % count] for n in range(min(count, AHEAD))] if count else []

    def tick(self) -> None:
        """Shows what is due, when it is there."""
        now_s = self._clock_s()
        due = (self._from + int((now_s - self._since_s) * self.rate)) % len(self._units)
        if due != self._at:
            self._at = due
            unit = self._units[due]
            if self._ready(unit):
                self._times.append(now_s)
                self.shown.emit(unit)
        if now_s - self._told_s >= 1.0:
            self._times = [at_s for at_s in self._times if at_s > now_s - 1.0]
            count = len(self._times)
            self._said = f"{count} of {self.rate} fps" if count < self.rate - 1 else f"{self.rate} fps"
            self._told_s = now_s
            self.stood.emit()
