"""The bar over the pictures: how they are shown, playing, what they are compared with.

What belongs here: the buttons and what they say.  What may not: pictures.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QComboBox, QHBoxLayout, QMenu, QToolButton, QWidget

from client_gui.style.theme import Theme
from client_gui.views.log_parts.bars import redraw, tool
from client_gui.views.preview_parts.against import Against
from client_gui.views.preview_parts.player import RATES

#: Modes: name, glyph, what it is called, its key.
MODES = (
    ("frame", "preview", "Frame", "F"),
    ("sheet", "grid", "Contact sheet", "G"),
    ("wipe", "contrast", "Compare", "B"),
)


class PreviewHead(QWidget):
    """The bar.

    Attributes:
        modes: Buttons by mode.
        play, rate, latest, against, more: What their names say.
    """

    #: An action by its id: a mode, or ``play``.
    wanted = Signal(str)
    rate_chosen = Signal(int)

    def __init__(self, theme: Theme, against: Against, rate: int, menu: QMenu) -> None:
        super().__init__()
        self._theme = theme
        self._group = QButtonGroup(self)
        self.modes: dict[str, QToolButton] = {}
        for mode, glyph, text, keys in MODES:
            button = tool(theme, glyph, text, check=True, keys=keys)
            button.clicked.connect(partial(self.wanted.emit, mode))
            self._group.addButton(button)
            self.modes[mode] = button
        self.play = tool(theme, "running", "Play", keys="Space")
        self.play.clicked.connect(partial(self.wanted.emit, "play"))
        self.rate = QComboBox()
        self.rate.setAccessibleName("Frames a second")
        for offered in RATES:
            self.rate.addItem(f"{offered} fps", offered)
        self.rate.setCurrentIndex(max(0, self.rate.findData(rate)))
        self.rate.currentIndexChanged.connect(lambda _: self.rate_chosen.emit(self.rate.currentData()))
        self.latest = tool(theme, "last", "Follow the newest frame", check=True, text="Newest")
        self.latest.setChecked(True)
        self.against = against
        self.more = tool(theme, "more", "More")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(menu)
        head = QHBoxLayout(self)
        head.setContentsMargins(theme.em(0.3), theme.em(0.15), theme.em(0.3), theme.em(0.15))
        head.setSpacing(theme.em(0.15))
        for button in self.modes.values():
            head.addWidget(button)
        head.addSpacing(theme.em(0.5))
        head.addWidget(self.play)
        head.addWidget(self.rate)
        head.addWidget(self.latest)
        head.addWidget(self.against, 1)
        head.addStretch(1)
        head.addWidget(self.more)

    def show_mode(self, mode: str) -> None:
        """Says which mode is on."""
        self.modes[mode].setChecked(True)
        self.against.setVisible(mode == "wipe")
        self.latest.setVisible(mode != "wipe")

    def show_playing(self, playing: bool) -> None:
        """Says whether it plays."""
        word = "Pause" if playing else "Play"
        self.play.setProperty("glyph", "paused" if playing else "running")
        self.play.setAccessibleName(word)
        self.play.setToolTip(f"{word}  (Space)")
        redraw(self._theme, self.play)

    def restyle(self) -> None:
        """Takes glyphs anew."""
        for button in (*self.modes.values(), self.play, self.latest, self.more):
            redraw(self._theme, button)
