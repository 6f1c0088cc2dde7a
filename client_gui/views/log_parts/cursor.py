"""Where somebody is in the rows: the cursor, what is selected from it, and a hit they went to.

What belongs here: these places.  What may not: keys and the mouse (``pane``), and what rows say.
"""

from __future__ import annotations

from typing import Final

from client_gui.views.log_parts.paint import Place, Pointed

#: A column behind the last of any row.
ROW_END: Final = 1 << 30


class Cursor:
    """A place in the rows, and what is pointed out from there.

    Attributes:
        place: Where it is.
    """

    def __init__(self) -> None:
        self.place = Place(0)
        self._anchor = Place(0)
        self._hit: Place | None = None
        self._hit_length = 0

    @property
    def selection(self) -> tuple[Place, Place] | None:
        """What is selected, from and up to; None for nothing."""
        if self._anchor == self.place:
            return None
        return min(self._anchor, self.place), max(self._anchor, self.place)

    @property
    def pointed(self) -> Pointed:
        """All that is pointed out."""
        return Pointed(self.selection, self._hit, self._hit_length)

    def put(self, place: Place, *, select: bool = False) -> None:
        """Puts it elsewhere; with ``select`` what lies between is selected, from where that began."""
        self.place = place
        if not select:
            self._anchor = place

    def select(self, start: Place, end: Place) -> None:
        """Selects, and is at the end of that."""
        self._anchor, self.place = start, end

    def point_out(self, length: int) -> None:
        """Points out a hit of some length where it is; 0 = none any more."""
        self._hit, self._hit_length = (self.place, length) if length else (None, 0)
