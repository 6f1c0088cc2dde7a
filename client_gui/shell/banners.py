"""Banners: what has to be known as long as it is so, above the docks; they take no keys away.

What belongs here: showing them.  What may not: when there is one (``window``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from client_gui.desk import Desk
from client_gui.shell.speech import announce
from client_gui.style.glyphs import icon


@dataclass(frozen=True, slots=True)
class Choice:
    """A button of a banner.

    Attributes:
        text: What it says.
        run: What it does.
    """

    text: str
    run: Callable[[], None]


class Banner(QFrame):
    """One banner."""

    def __init__(
        self, desk: Desk, tone: str, choices: tuple[Choice, ...], close: Callable[[], None] | None
    ) -> None:
        super().__init__()
        self._desk = desk
        self._tone = tone
        #: What its buttons say.
        self.told = tuple(choice.text for choice in choices)
        self._layout = QHBoxLayout(self)
        self._sign = QLabel()
        self._layout.addWidget(self._sign)
        self.words = QLabel()
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)
        self._layout.addWidget(self.words, 1)
        for choice in choices:
            button = QPushButton(choice.text.replace("&", "&&"))
            button.clicked.connect(choice.run)
            self._layout.addWidget(button)
        self._close: QToolButton | None = None
        if close is not None:
            self._close = QToolButton()
            self._close.setAccessibleName("Close this notice")
            self._close.setToolTip("Close")
            self._close.clicked.connect(close)
            self._layout.addWidget(self._close)
        self.restyle()

    def put(self, text: str) -> None:
        """Says something else."""
        if text != self.words.text():
            self.words.setText(text)
            self.setAccessibleName(text)

    def restyle(self) -> None:
        """Takes the theme anew."""
        theme = self._desk.theme
        look = theme.look
        self._layout.setContentsMargins(theme.em(0.6), theme.em(0.25), theme.em(0.4), theme.em(0.25))
        self._layout.setSpacing(theme.em(0.5))
        side = theme.em(1.0)
        self._sign.setPixmap(
            icon(theme, {"warn": "warning", "bad": "offline"}.get(self._tone, "info"), self._tone).pixmap(
                side
            )
        )
        if self._close is not None:
            self._close.setIcon(icon(theme, "close", "dim"))
        edge = getattr(look, self._tone)
        self.setObjectName("banner")
        self.setStyleSheet(
            f"#banner {{ background: {look.raised}; border: none;"
            f" border-left: {theme.em(0.2)}px solid {edge};"
            f" border-bottom: 1px solid {look.line}; }}"
        )


class Banners(QWidget):
    """All banners, one below the other."""

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._shown: dict[str, Banner] = {}
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(0)
        desk.theme.changed.connect(self.restyle)

    def put(
        self,
        name: str,
        text: str,
        tone: str = "warn",
        choices: tuple[Choice, ...] = (),
        close: Callable[[], None] | None = None,
    ) -> None:
        """Shows a banner, or says something else in it; an empty text takes it away.

        Args:
            name: Which one.
            text: What it says.
            tone: ``accent``, ``warn`` or ``bad``.
            choices: Its buttons.
            close: What happens when somebody closes it; None when it cannot be closed.
        """
        found = self._shown.get(name)
        told = tuple(choice.text for choice in choices)
        if found is not None and (not text or found.told != told):
            del self._shown[name]
            found.hide()
            found.deleteLater()
            found = None
        if not text:
            return
        if found is None:
            found = Banner(self._desk, tone, choices, close)
            self._shown[name] = found
            self._layout.addWidget(found)
            announce(self, text)
        found.put(text)

    def text(self, name: str) -> str:
        """What a banner says, "" while there is none."""
        found = self._shown.get(name)
        return found.words.text() if found is not None else ""

    def restyle(self) -> None:
        """Takes the theme anew."""
        for banner in self._shown.values():
            banner.restyle()
