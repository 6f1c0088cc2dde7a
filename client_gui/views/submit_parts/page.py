"""What the Submit dock shows without a draft: how to begin; and the dock's own style.

What belongs here: words, two buttons, the style sheet of tones and cards.  What may not: drafts.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from client_gui.style.theme import Theme
from client_gui.views.submit_parts.rows import said


class Page(QWidget):
    """How to begin."""

    new_wanted = Signal()
    open_wanted = Signal()
    #: Nobody wants to wait for the files that are being read.
    stop_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._busy = ""
        column = QVBoxLayout(self)
        column.setSpacing(theme.em(0.6))
        column.addStretch(2)
        self.heading = said("", "", theme.font(bold=True), self)
        self.advice = said("", "dim", theme.font(), self)
        self.trouble = said("", "bad", theme.font(), self)
        for label in (self.heading, self.advice, self.trouble):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            column.addWidget(label)
        self.trouble.hide()
        row = QHBoxLayout()
        row.addStretch(1)
        self.open = QPushButton("Open…", self)
        self.open.clicked.connect(self.open_wanted)
        self.new = QPushButton("New ▾", self)
        self.new.setAccessibleName("New")
        self.new.clicked.connect(self.new_wanted)
        self.stop = QPushButton("Stop", self)
        self.stop.clicked.connect(self.stop_wanted)
        for button in (self.open, self.new, self.stop):
            row.addWidget(button)
        row.addStretch(1)
        column.addLayout(row)
        column.addStretch(3)
        self.show_idle(loading=True)

    def busy(self, words: str) -> None:
        """Files are being read, or "" when none are."""
        self._busy = words
        if words:
            self.trouble.hide()
        self.show_idle(loading=False)

    def say(self, trouble: str) -> None:
        """What could not be opened."""
        self.trouble.setText(f"✕ {trouble}")
        self.trouble.show()

    def show_idle(self, *, loading: bool) -> None:
        """Nothing is open."""
        self.heading.setText(self._busy or ("Loading…" if loading else "Nothing to submit yet"))
        self.advice.setText(
            "Drop a .blend, a clip, pictures, a folder of pictures or a job file here.\n"
            "What you fill in is kept, also without the farm."
        )
        quiet = bool(self._busy) or loading
        self.advice.setVisible(not quiet)
        self.open.setVisible(not quiet)
        self.new.setVisible(not quiet)
        self.stop.setVisible(bool(self._busy))

    def restyle(self) -> None:
        """Takes the fonts of the theme anew."""
        self.heading.setFont(self._theme.font(bold=True))
        self.advice.setFont(self._theme.font())
        self.trouble.setFont(self._theme.font())


def sheet(theme: Theme) -> str:
    """Tones of words, cards and headings; everything else is the application's."""
    look = theme.look
    edge = max(2, theme.em(0.25))
    return f"""
#submit QLabel[tone="dim"] {{ color: {look.dim}; }}
#submit QLabel[tone="bad"] {{ color: {look.bad}; }}
#submit QLabel[tone="warn"] {{ color: {look.warn}; }}
#submit QLabel[tone="good"] {{ color: {look.good}; }}
#submit QWidget#form {{ background: {look.window}; }}
#submit QFrame#card {{ background: {look.raised}; border: 1px solid {look.line}; border-radius: {edge}px; }}
#submit QToolButton#heading:checked {{ background: transparent; }}
#submit QToolButton#heading:hover {{ background: {look.hover}; }}
#submit QFrame#fold {{ background: transparent; border: none; }}
#submit QFrame#footer {{ background: {look.window}; border-top: 1px solid {look.line}; }}
"""
