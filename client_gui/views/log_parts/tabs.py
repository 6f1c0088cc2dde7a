"""Attempts as tabs.

What belongs here: which attempts there are and which of them is shown.  What may not: asking for them, logs.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabBar, QWidget

from client_gui.store.attempts import label_of, state_of
from client_gui.style.glyphs import state_icon
from client_gui.style.theme import Theme
from farm.protocol.client import AttemptRow


class AttemptTabs(QTabBar):
    """Attempts as tabs, the newest last.

    Attributes:
        rows: They.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.rows: list[AttemptRow] = []
        self._frames = False
        self.setAccessibleName("Attempts")
        self.setExpanding(False)
        self.setDrawBase(False)
        self.setUsesScrollButtons(True)
        self.setElideMode(Qt.TextElideMode.ElideRight)

    @property
    def row(self) -> AttemptRow | None:
        """The attempt that is chosen."""
        place = self.currentIndex()
        return self.rows[place] if 0 <= place < len(self.rows) else None

    @property
    def at_newest(self) -> bool:
        """Whether the newest one is chosen."""
        return bool(self.rows) and self.currentIndex() == len(self.rows) - 1

    def fill(self, rows: Sequence[AttemptRow], wanted: int | None, *, frames: bool) -> None:
        """Shows attempts, and tells nobody.

        Args:
            rows: They, the oldest first.
            wanted: The number of the one to choose; without it, or when there is none such, the newest.
            frames: Whether they are of different frames, which their words then name.
        """
        self.rows, self._frames = list(rows), frames
        self.blockSignals(True)
        while self.count() > len(self.rows):
            self.removeTab(self.count() - 1)
        for place, row in enumerate(self.rows):
            if place >= self.count():
                self.addTab("")
            self.setTabText(place, self._label(place).replace("&", "&&"))
            self.setTabToolTip(place, row.reason)
        self.restyle()
        self.setCurrentIndex(self._place(wanted, len(self.rows) - 1))
        self.blockSignals(False)

    def choose(self, number: int) -> None:
        """Chooses an attempt by its number; none that is not there."""
        self.setCurrentIndex(self._place(number, self.currentIndex()))

    def attempt_of(self, number: int) -> AttemptRow | None:
        """An attempt by its number."""
        return next((row for row in self.rows if row.no == number), None)

    def others(self) -> list[tuple[str, int]]:
        """Words and numbers of all but the one that is chosen; none when none is."""
        here = self.row
        if here is None:
            return []
        return [(self._label(place), row.no) for place, row in enumerate(self.rows) if row.no != here.no]

    def restyle(self) -> None:
        """Takes colours from the theme anew."""
        for place, row in enumerate(self.rows):
            self.setTabIcon(place, state_icon(self._theme, state_of(row)))

    def _label(self, place: int) -> str:
        return label_of(self.rows[place], place + 1, len(self.rows), frames=self._frames)

    def _place(self, number: int | None, otherwise: int) -> int:
        return next((place for place, row in enumerate(self.rows) if row.no == number), otherwise)
