"""The line above a log: attempts as tabs, and buttons.

What belongs here: these, and how many errors they say there are.  What may not: what they do.
"""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from client_gui.style.glyphs import icon
from client_gui.style.theme import Theme
from client_gui.views.log_parts.bars import redraw, tool
from client_gui.views.log_parts.tabs import AttemptTabs


class LogHead(QWidget):
    """Tabs and buttons.

    Attributes:
        tabs: The attempts.
        errors, next_error: Go to the error before and the next one.
        follow, wrap, find_button, more: What their words say.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._said: tuple[int, int, bool] | None = None
        self.tabs = AttemptTabs(theme)
        self.errors = tool(theme, "up", "Previous error", keys="Shift+F8")
        self.next_error = tool(theme, "down", "Next error", text="0", keys="F8")
        self.follow = tool(theme, "last", "Follow the end", check=True, text="Follow", keys="End")
        self.wrap = tool(theme, "", "Break long lines", check=True, text="Wrap")
        self.find_button = tool(theme, "find", "Find", keys="Ctrl+F")
        self.more = tool(theme, "more", "More")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        box = QHBoxLayout(self)
        box.setContentsMargins(theme.em(0.3), theme.em(0.15), theme.em(0.3), theme.em(0.15))
        box.setSpacing(theme.em(0.15))
        box.addWidget(self.tabs, 1)
        for button in self._buttons():
            box.addWidget(button)

    def _buttons(self) -> tuple[QToolButton, ...]:
        return self.errors, self.next_error, self.follow, self.wrap, self.find_button, self.more

    def set_there(self, there: bool) -> None:
        """Whether there is a log to do something with."""
        for button in (self.errors, self.next_error, self.follow, self.find_button):
            button.setEnabled(there)

    def say_errors(self, errors: int, warnings: int, *, comparing: bool) -> None:
        """Says how many errors there are, else warnings; while comparing, that it goes to differences."""
        if self._said == (errors, warnings, comparing):
            return  # buttons that are told anything have the whole window laid out anew
        self._said = (errors, warnings, comparing)
        count = errors if errors or not warnings else warnings
        word = "difference" if comparing else "error" if errors or not warnings else "warning"
        self.next_error.setText("" if comparing else f"{count:,}")
        self.next_error.setAccessibleName(f"Next {word}" if comparing else f"Next {word}, {count:,}")
        self.next_error.setToolTip(f"Next {word}  (F8)")
        self.errors.setAccessibleName(f"Previous {word}")
        self.errors.setToolTip(f"Previous {word}  (Shift+F8)")
        token = "bad" if errors else "warn" if warnings else "text"
        for button, glyph in ((self.errors, "up"), (self.next_error, "down")):
            button.setIcon(icon(self._theme, glyph, token))

    def restyle(self) -> None:
        """Takes colours and sizes from the theme anew."""
        for button in self._buttons():
            redraw(self._theme, button)
        said, self._said = self._said, None
        if said is not None:
            self.say_errors(said[0], said[1], comparing=said[2])
        self.tabs.restyle()
