"""The look in force: tokens as Qt colours, glyphs, sizes that grow with the font.

What belongs here: what views ask for when they paint.  What may not: values of colours (``tokens``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetrics, QGuiApplication, QIcon
from PySide6.QtWidgets import QApplication

from client_gui.style.tokens import GLYPHS, LOOKS, Look, look_of
from farm.model.states import UnitState

#: Byte of a cell of a frame grid of which nothing is known.
NO_CELL = 255
#: The look of whatever the desktop has, and followed when that changes.
SYSTEM: Final = "system"
#: What somebody can choose.
CHOICES: Final = (SYSTEM, *LOOKS)
#: Sizes of words relative to the system's, and how far one step goes.
ZOOM_LEAST, ZOOM_MOST, ZOOM_STEP = 0.7, 2.5, 0.1


class Theme(QObject):
    """The look in force.

    Attributes:
        look: Its tokens.
        choice: What was chosen: the name of a look, or ``system``.
        safe: Whether states have colours that do not rest on telling red from green.
        zoom: Size of words relative to the system's.
        dense: Whether rows stand close together.
        calm: Whether nothing may move by itself (reduced motion).
        icons: Icons drawn in this look, by glyph and colour; kept by ``style.glyphs``.
        sheet: The style sheet for windows (``style.dress`` writes it), "" while nobody does.
    """

    #: Colours or sizes are others: repaint, and ask for sizes anew.
    changed = Signal()
    #: ``sheet`` is another one; it may come a moment after ``changed``.
    sheet_changed = Signal()

    def __init__(self, look: str = "dark", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.choice = look
        self.safe = False
        self.zoom = 1.0
        self.dense = False
        self.calm = False
        self.icons: dict[tuple[str, int], QIcon] = {}
        self.sheet = ""
        self.look: Look = look_of(self._wanted())
        if isinstance(QGuiApplication.instance(), QGuiApplication):
            QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_changed)

    # -- choosing --

    def set_look(self, name: str) -> None:
        """Takes another look, by its name; ``system`` follows the desktop."""
        self.choice = name
        self._take()

    def set_safe(self, safe: bool) -> None:
        """Takes colours of states that do not rest on telling red from green, or the usual ones."""
        self.safe = safe
        self._take()

    def set_zoom(self, zoom: float) -> None:
        """Makes words larger or smaller than the system's."""
        zoom = min(ZOOM_MOST, max(ZOOM_LEAST, round(zoom, 2)))
        if zoom != self.zoom:
            self.zoom = zoom
            self.changed.emit()

    def set_dense(self, dense: bool) -> None:
        """Sets rows close together, or apart."""
        if dense != self.dense:
            self.dense = dense
            self.changed.emit()

    def set_calm(self, calm: bool) -> None:
        """Lets nothing move by itself, or lets it."""
        if calm != self.calm:
            self.calm = calm
            self.changed.emit()

    def _take(self) -> None:
        look = look_of(self._wanted(), self.safe)
        if look != self.look:
            self.look = look
            self.icons.clear()
            self.changed.emit()

    def _wanted(self) -> str:
        if self.choice != SYSTEM:
            return self.choice
        if not isinstance(QGuiApplication.instance(), QGuiApplication):
            return "dark"
        hints = QGuiApplication.styleHints()
        # Since Qt 6.10; older ones do not tell that somebody needs more contrast.
        wishes = hints.accessibility() if hasattr(hints, "accessibility") else None
        if wishes is not None and wishes.contrastPreference() is Qt.ContrastPreference.HighContrast:
            return "contrast"
        return "light" if hints.colorScheme() is Qt.ColorScheme.Light else "dark"

    def _system_changed(self) -> None:
        if self.choice == SYSTEM:
            self._take()

    # -- colours --

    def colour(self, token: str) -> QColor:
        """A token (``text``, ``dim``, ``accent``, ``bad`` ...) as a colour."""
        return QColor(getattr(self.look, token))

    def state_colour(self, word: str) -> QColor:
        """The colour of a state; one nobody knows has that of dim text."""
        return QColor(self.look.states.get(word, self.look.dim))

    @staticmethod
    def state_glyph(word: str) -> str:
        """The glyph of a state; one nobody knows has a question mark."""
        return GLYPHS.get(word, "?")

    def unit_colours(self) -> Sequence[int]:
        """256 colours (ARGB) for an indexed picture whose bytes are ``UnitState``."""
        unknown = QColor(self.look.dim).rgba()
        found = [unknown] * 256
        for state in UnitState:
            found[state] = self.state_colour(state.word).rgba()
        found[NO_CELL] = QColor(self.look.base).rgba()
        return found

    def heat_colours(self) -> Sequence[int]:
        """256 colours (ARGB) for an indexed picture of heat.

        0-253 is little to much, 254 unknown, 255 (``NO_CELL``) where no cell is.
        """
        stops = [QColor(stop) for stop in self.look.ramp]
        found: list[int] = []
        for byte in range(254):
            place = byte / 253 * (len(stops) - 1)
            low = min(int(place), len(stops) - 2)
            part = place - low
            a, b = stops[low], stops[low + 1]
            mixed = [
                round(x + (y - x) * part)
                for x, y in ((a.red(), b.red()), (a.green(), b.green()), (a.blue(), b.blue()))
            ]
            found.append(QColor(*mixed).rgba())
        return [*found, QColor(self.look.none).rgba(), QColor(self.look.base).rgba()]

    # -- sizes --

    def font(self, *, mono: bool = False, bold: bool = False, small: bool = False) -> QFont:
        """A font of the application, or one whose letters are equally wide."""
        font = (
            QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
            if mono
            else QFont(QApplication.font())
        )
        size = QApplication.font().pointSizeF()
        font.setPointSizeF(size * (0.88 if small else 1.0))
        font.setBold(bold)
        return font

    def row_height(self) -> int:
        """Height of a table's row, in device-independent pixels."""
        return QFontMetrics(self.font()).height() + (3 if self.dense else 8)

    def em(self, times: float = 1.0) -> int:
        """A length that grows with the font: so many heights of it."""
        return round(QFontMetrics(self.font()).height() * times)
