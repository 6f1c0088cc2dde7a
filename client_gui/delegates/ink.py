"""Pens, fonts and pictures of cells, made of the theme once and kept until it changes.

What belongs here: what painters of cells share.  What may not: what a cell looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPixmap, QStaticText

from client_gui.style.glyphs import paint_glyph
from client_gui.style.theme import Theme

#: Glyph and colour of words that nodes show, where work has none of that name.
NODE_LOOKS: Final[dict[str, tuple[str, str]]] = {
    "busy": ("running", "running"),
    "idle": ("queued", "queued"),
    "online": ("done", "done"),
    "suspect": ("warning", "retry pending"),
    "lost": ("failed", "failed"),
    "offline": ("skipped", "canceled"),
    "drained": ("paused", "paused"),
    "disabled": ("canceled", "skipped"),
    "closed": ("blocked", "blocked"),
}
#: So many texts are kept as they fit; several screens of them.
_PIECES_MOST: Final = 6000
#: How visible rows are that are only still there until the list moves on.
GONE_OPACITY = 0.4
#: How visible rows are while the farm cannot be reached.
STALE_OPACITY = 0.55


def mixed(under: QColor, over: QColor, part: float) -> QColor:
    """A colour with so much of another one."""
    return QColor(
        round(under.red() + (over.red() - under.red()) * part),
        round(under.green() + (over.green() - under.green()) * part),
        round(under.blue() + (over.blue() - under.blue()) * part),
    )


def tabular(font: QFont) -> QFont:
    """A font whose figures are equally wide, so that numbers below each other line up."""
    found = QFont(font)
    found.setFeature(QFont.Tag("tnum"), 1)
    return found


@dataclass(slots=True)
class Piece:
    """A text as it fits into a cell.

    Attributes:
        text: What of it fits.
        width: How wide that is.
        laid_out: It with its letters placed; None until it is drawn a second time: texts that change with
            every batch are cheaper drawn than kept.
    """

    text: str
    width: int
    laid_out: QStaticText | None = None


class Ink:
    """Colours and fonts of cells, of one theme as it is now."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.text = theme.colour("text")
        self.dim = theme.colour("dim")
        self.bad = theme.colour("bad")
        self.warn = theme.colour("warn")
        self.accent = theme.colour("accent")
        self.line = theme.colour("line")
        self.base = theme.colour("base")
        self.raised = theme.colour("raised")
        self.other = theme.colour("shade")
        self.selected = theme.colour("selected")
        self.selected_idle = mixed(self.selected, self.raised, 0.5)
        self.hovered = theme.colour("hover")
        self.focus = theme.colour("focus")
        self.font = tabular(theme.font())
        self.bold = tabular(theme.font(bold=True))
        self.small = tabular(theme.font(small=True))
        self.slanted = QFont(self.font)
        self.slanted.setItalic(True)
        self.metrics = QFontMetrics(self.font)
        self.slanted_metrics = QFontMetrics(self.slanted)
        self.small_metrics = QFontMetrics(self.small)
        #: Between the edge of a cell and what is in it.
        self.gap = max(4, theme.em(0.4))
        self.glyph = max(8, round(self.metrics.ascent() * 0.95))
        self._states: dict[str, QColor] = {}
        self._glyphs: dict[tuple[str, int, int, float], QPixmap] = {}
        self._widths: dict[str, int] = {}
        self._pieces: dict[tuple[str, int], Piece] = {}
        self.ascent = self.metrics.ascent()
        #: Of a line of text.
        self.text_height = self.ascent + self.metrics.descent()

    def state(self, word: str) -> QColor:
        """The colour of a state."""
        found = self._states.get(word)
        if found is None:
            _, known = NODE_LOOKS.get(word, (word, word))
            found = self._states[word] = self.theme.state_colour(known)
        return found

    @staticmethod
    def glyph_of(word: str) -> str:
        """The glyph of a state, of work or of a node."""
        return NODE_LOOKS.get(word, (word, word))[0]

    def width(self, text: str) -> int:
        """How wide a text is."""
        found = self._widths.get(text)
        if found is None:
            if len(self._widths) > 5000:
                self._widths.clear()
            found = self._widths[text] = self.metrics.horizontalAdvance(text)
        return found

    def piece(self, text: str, room: int) -> Piece:
        """A text cut to fit into some room; one that is wanted again is laid out once and kept so."""
        key = (text, room)
        found = self._pieces.get(key)
        if found is None:
            if len(self._pieces) > _PIECES_MOST:
                self._pieces.clear()
            wide, fits = self.width(text), text
            if wide > room:
                fits = self.metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
                wide = self.width(fits)
            found = self._pieces[key] = Piece(fits, wide)
        elif found.laid_out is None:
            found.laid_out = QStaticText(found.text)
            found.laid_out.setTextFormat(Qt.TextFormat.PlainText)
        return found

    def draw_glyph(self, painter: QPainter, name: str, x: float, y: float, colour: QColor) -> None:
        """Paints a glyph of the size of a letter, its upper left corner at a place."""
        device = painter.device()
        ratio = device.devicePixelRatioF() if device is not None else 1.0
        key = (name, colour.rgba(), self.glyph, ratio)
        found = self._glyphs.get(key)
        if found is None:
            if len(self._glyphs) > 500:
                self._glyphs.clear()
            side = round(self.glyph * ratio)
            found = QPixmap(side, side)
            found.setDevicePixelRatio(ratio)
            found.fill(Qt.GlobalColor.transparent)
            inner = QPainter(found)
            paint_glyph(inner, name, QRectF(0, 0, self.glyph, self.glyph), colour)
            inner.end()
            self._glyphs[key] = found
        painter.drawPixmap(round(x), round(y), found)
