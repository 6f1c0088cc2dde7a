"""What is said below a log: where one is in it, how much of it is here, or how two logs differ.

What belongs here: these words.  What may not: rows, and what is fetched.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from client_gui.style.theme import Theme
from client_gui.views.log_parts.bars import Steady, paint_words
from client_gui.views.log_parts.comparing import Comparing
from client_gui.views.log_parts.document import LogDocument
from farm.sdk.words import plural, size_text


def plural_of(count: int, word: str) -> str:
    """``1 line``, ``12,034 lines``."""
    return plural(count, word).replace(str(count), f"{count:,}", 1)


class LogFoot(QWidget):
    """The line below a log.

    Attributes:
        place: Where one is.
        amount: How much is here.
        load: Fetches all of it.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.place = Steady()
        self.amount = Steady()
        self.amount.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.load = QPushButton("Load all")
        self.load.setFlat(True)
        box = QHBoxLayout(self)
        box.setContentsMargins(theme.em(0.4), theme.em(0.1), theme.em(0.4), theme.em(0.1))
        box.setSpacing(theme.em(0.8))
        box.addWidget(self.place)
        box.addStretch(1)
        box.addWidget(self.amount)
        box.addWidget(self.load)

    def restyle(self) -> None:
        """Takes colours and sizes from the theme anew."""
        for label in (self.place, self.amount):
            paint_words(self._theme, label, "dim")
            label.setFont(self._theme.font(small=True))
            label.fit()
        self.load.setFont(self._theme.font(small=True))

    def clear(self) -> None:
        """There is nothing to be said."""
        self.load.hide()
        self.place.setText("")
        self.amount.setText("")

    def say(self, document: LogDocument, row: int) -> None:
        """Says where one is in a log, and how much of it is here."""
        number, _ = document.map.number(row)
        lines = document.map.lines
        here = "line ?" if number is None else f"line {number:,}"
        self.place.setText(f"{here} of {lines:,}" if lines is not None else here)
        size = size_text(document.map.size)
        if document.map.whole:
            ended = "" if document.ended else " · still growing" if document.running else " · may go on"
            self.amount.setText(f"{size}{ended}")
        else:
            self.amount.setText(f"{size_text(document.map.here)} of {size} here")
        self.load.setVisible(not document.map.whole and not document.whole_wanted)

    def say_difference(self, comparing: Comparing) -> None:
        """Says how two logs differ."""
        self.load.hide()
        answer = comparing.answer
        self.place.setText(f"{comparing.first.log} (−) against {comparing.second.log} (+)")
        if answer is None:
            self.amount.setText("")
            return
        said = [
            f"{answer['removed']:,} only in the first",
            f"{answer['added']:,} only in the second",
            f"{answer['same']:,} alike",
        ]
        if answer["left_out"]:
            said.append(f"too long to compare whole: {size_text(answer['left_out'])} of the middle left out")
        if answer["cut"]:
            said.append(f"{answer['cut']:,} further rows not shown")
        self.amount.setText(" · ".join(said))
