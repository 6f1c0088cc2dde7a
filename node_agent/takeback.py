"""What the broker takes back of an attempt while its processes run, and what is still wanted.

What belongs here: units dropped or wished back, and whether a program can leave them out.  What it may not
know: how a process is started or ended; it says when one must be.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from node_agent.claims import Claims
from node_agent.ledger import Ledger
from node_agent.machine import Phase, Unit


class TakeBack:
    """What is taken back of one attempt; for the thread that runs its processes.

    Attributes:
        claims: Through which frames of the process that runs can be taken back, None if it cannot leave one
            out.
        cut: Why it is ended once the frame it is at is complete, "" if it is not.
    """

    def __init__(self, book: Ledger) -> None:
        self._book = book
        self._held = book.held
        self._frames: tuple[int, ...] = ()
        self._runs = False
        self.claims: Claims | None = None
        self.cut = ""

    def begin(self, frames: tuple[int, ...]) -> None:
        """A process for these frames is next."""
        self._frames = frames
        self._runs = False
        self.claims = None
        self.cut = ""

    def started(self, claims: Claims | None) -> None:
        """It is being started."""
        self._runs = True
        self.claims = claims

    def ended(self) -> None:
        """It has ended."""
        self._runs = False

    def look(self) -> None:
        """Gives back what the broker does not want, and what it would like back and has not begun."""
        held = self._held
        if held.asked:
            held.asked = False
            for unit in list(held.units.values()):
                if unit.wish or unit.dropped:
                    self._answer(unit)
        self._book.take_dropped()

    def _answer(self, unit: Unit) -> None:
        ours = self._runs and unit.frame is not None and unit.frame in self._frames
        begun = unit.phase is not Phase.WAITING
        if ours and not begun and self.claims is not None and unit.frame is not None:
            begun = not self.claims.take(unit.frame)
        elif ours and not begun and unit.wish:
            self.cut = unit.wish
            return
        if unit.wish:
            desk = self._book.desk
            with desk.lock:
                desk.machine.take_back(self._held.attempt, unit.index, begun=begun)

    def wanted(self, frames: Sequence[int]) -> bool:
        """Whether something is left to be rendered among these frames (none named: at all)."""
        return any(unit.phase <= Phase.CHECKING for unit in self._held.units_of(frames))

    def busy(self, resting: Collection[int]) -> bool:
        """Whether the process is at a frame that it began before it was to be ended.

        Args:
            resting: Units it said are complete.
        """
        rendered = self._book.rendered
        return any(
            unit.phase in (Phase.RENDERING, Phase.CHECKING)
            for unit in self._held.open_units()
            if unit.frame in self._frames and unit.index not in resting and unit.index not in rendered
        )
