"""Words on the page: plain text that wraps, can be selected, and takes a new theme by itself.

What belongs here: the label, and lines a program says.  What may not: what they say.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette, QTextOption
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QSizePolicy, QWidget

from client_gui.style.theme import Theme
from client_gui.views.cards import Card

#: Most lines of a program that are kept.
LINES_MOST = 200


class Words(QLabel):
    """A label whose text is data; hidden while it has none.

    Args:
        theme: The theme.
        text: What it says.
        token: Its colour.
        bold: Whether it is bold.
        small: Whether it is small.
        times: Size relative to other words.
    """

    def __init__(
        self,
        theme: Theme,
        text: str = "",
        *,
        token: str = "text",
        bold: bool = False,
        small: bool = False,
        times: float = 1.0,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._token = token
        self._bold, self._small, self._times = bold, small, times
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.say(text)

    def say(self, text: str) -> None:
        """Says something else; "" hides it."""
        if text != self.text():
            self.setText(text)
            self.setAccessibleName(text)
        # What has no place yet is not shown: it would be a window of its own for a moment.
        if not text or self.parentWidget() is not None:
            self.setVisible(bool(text))

    def set_token(self, token: str) -> None:
        """Takes another colour."""
        if token != self._token:
            self._token = token
            self._restyle()

    def _restyle(self) -> None:
        font = self._theme.font(bold=self._bold, small=self._small)
        font.setPointSizeF(font.pointSizeF() * self._times)
        self.setFont(font)
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.WindowText, self._theme.colour(self._token))
        self.setPalette(palette)


class Lines(QPlainTextEdit):
    """The last lines a program wrote; read only."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setReadOnly(True)
        self.setAccessibleName(name)
        self.setMaximumBlockCount(LINES_MOST)
        self.setTabChangesFocus(True)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.hide()

    def put(self, line: str) -> None:
        """Adds a line."""
        self.show()
        self.appendPlainText(line)

    def empty(self) -> None:
        """Forgets what was written."""
        self.clear()
        self.hide()

    def _restyle(self) -> None:
        self.setFont(self._theme.font(mono=True, small=True))
        self.setFixedHeight(self._theme.em(8))


def roomy(card: Card, theme: Theme, heading: str) -> None:
    """Gives a card the room and the heading of this page."""
    edge = theme.em(0.9)
    card.box.setContentsMargins(edge, edge, edge, edge)
    card.box.setSpacing(theme.em(0.5))
    card.setAccessibleName(heading)
    card.box.addWidget(Words(theme, heading, bold=True, times=1.15))


def sentence(text: str) -> str:
    """A message as a sentence: beginning with a capital, ending with a full stop."""
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".?!…" else ".")
