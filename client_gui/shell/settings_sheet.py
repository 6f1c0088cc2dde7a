"""The sheet of choices about the client itself; each is taken at once and remembered.

What belongs here: the choices.  What may not: what they mean (``style.theme``), and options of the farm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QPainter, QPixmap
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QWidget,
)

from client_gui.actions.later import ASK_AFTER_MIN
from client_gui.actions.sheet import Sheet
from client_gui.shell.menus import LOOK_WORDS
from client_gui.shell.tray import TRAY
from client_gui.style.glyphs import icon, paint_glyph
from client_gui.style.theme import CHOICES, Theme
from client_gui.style.tokens import GLYPHS

if TYPE_CHECKING:
    from client_gui.shell.commands import Commands

#: For how long what waits for a farm that is away is sent without a yes, in minutes, and what is said of it.
ASK_AFTER: Final = {
    0: "are always asked about",
    2: "go out unasked for 2 minutes",
    10: "go out unasked for 10 minutes",
    60: "go out unasked for an hour",
    24 * 60: "go out unasked for a day",
}


class SettingsSheet(Sheet):
    """What can be chosen about the client."""

    def __init__(self, host: QWidget, commands: Commands) -> None:
        theme = commands.theme
        super().__init__(host, theme, "Settings", wide_em=32)
        self._commands = commands
        self.label("Settings", bold=True)
        form = QFormLayout()
        form.setLabelAlignment(Qt.AlignmentFlag.AlignRight)
        form.setHorizontalSpacing(theme.em(0.8))
        form.setVerticalSpacing(theme.em(0.5))
        self.column.addLayout(form)
        self.look = QComboBox()
        self.look.setAccessibleName("Look")
        for name in CHOICES:
            self.look.addItem(LOOK_WORDS[name], name)
        self.look.setCurrentIndex(CHOICES.index(theme.choice))
        self.look.activated.connect(lambda _: commands.set_look(str(self.look.currentData())))
        form.addRow("Look", self.look)
        self.safe = self._switch("Colours for red-green blindness", theme.safe)
        self.safe.toggled.connect(commands.set_safe)
        form.addRow("", self.safe)
        self._states = QLabel()
        self._states.setAccessibleName("States in the colours chosen")
        form.addRow("", self._states)
        self.dense = self._switch("Rows close together", theme.dense)
        self.dense.toggled.connect(lambda on: commands.toggle_dense() if on != theme.dense else None)
        form.addRow("", self.dense)
        self.calm = self._switch("Nothing moves by itself", theme.calm)
        self.calm.toggled.connect(commands.set_calm)
        form.addRow("", self.calm)
        settings = commands.desk.settings
        self.tray = self._switch("An icon beside the clock, for jobs with a bell", settings.get(TRAY))
        self.tray.toggled.connect(lambda on: settings.set(TRAY, on))
        form.addRow("", self.tray)
        self.ask_after = QComboBox()
        self.ask_after.setAccessibleName("For how long actions that wait for the farm are sent unasked")
        minutes = settings.get(ASK_AFTER_MIN)
        for choice in sorted({*ASK_AFTER, minutes}):
            self.ask_after.addItem(ASK_AFTER.get(choice) or f"go out unasked for {choice} minutes", choice)
        self.ask_after.setCurrentIndex(self.ask_after.findData(minutes))
        self.ask_after.activated.connect(
            lambda _: settings.set(ASK_AFTER_MIN, int(self.ask_after.currentData()))
        )
        form.addRow("Waiting actions", self.ask_after)
        size = QHBoxLayout()
        self._size = QLabel()
        for glyph, words, steps in (("minus", "Smaller", -1), ("plus", "Larger", 1)):
            button = QPushButton()
            button.setAccessibleName(words)
            button.setToolTip(words)
            button.setIcon(icon(theme, glyph))
            button.clicked.connect(lambda _=False, steps=steps: commands.zoom(steps))
            size.addWidget(button)
        usual = QPushButton("Usual size")
        usual.clicked.connect(lambda: commands.zoom(0))
        size.addWidget(usual)
        size.addWidget(self._size)
        size.addStretch(1)
        form.addRow("Size", size)
        keys = QPushButton("Keys…")
        keys.clicked.connect(self._keys)
        self._close = QPushButton("Close")
        self._close.clicked.connect(lambda: self.close_with(False))
        self.buttons(keys, self._close)
        theme.changed.connect(self._show)
        self._show()

    def first(self) -> QWidget:
        """The look."""
        return self.look

    def _switch(self, text: str, on: bool) -> QCheckBox:
        box = QCheckBox(text)
        box.setChecked(on)
        return box

    def _show(self) -> None:
        self._size.setText(f"{self.theme.zoom:.0%}")
        words = [word for word in GLYPHS if word in self.theme.look.states]
        side = self.theme.em(1.1)
        strip = _strip(self.theme, words, side)
        self._states.setPixmap(strip)
        self.fit()

    def _keys(self) -> None:
        self.close_with(True)
        self._commands.open_keys()


def _strip(theme: Theme, words: list[str], side: int) -> QPixmap:
    """The glyphs of states beside each other."""
    strip = QPixmap(QSize(round(side * 1.5) * len(words), side))
    strip.fill(theme.colour("raised"))
    painter = QPainter(strip)
    for place, word in enumerate(words):
        paint_glyph(painter, word, QRect(round(side * 1.5) * place, 0, side, side), theme.state_colour(word))
    painter.end()
    return strip
