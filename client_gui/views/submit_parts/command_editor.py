"""The editor of a command: typed as in a terminal, shown as the list of arguments it becomes.

What belongs here: the text, the arguments below it, and what is said of them.  What may not: cutting a text
into arguments (``store.commandline``).
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from client_gui.store.commandline import by_line, read, shell_words, write
from client_gui.store.fields import UNSET, Field
from client_gui.style.theme import Theme
from client_gui.views.submit_parts.text_editors import TextEditor
from client_gui.views.submit_parts.wordchips import WordChips
from farm.sdk.words import plural

_HOW: Final = "as in a terminal, on one line; of several lines each is one argument"


class CommandEditor(TextEditor):
    """A program and its arguments.

    Attributes:
        words: The arguments as they are passed.
        said: How the text is read, and what of it only a shell would understand.
    """

    placeholder = "/usr/bin/prog --frame {frame} -o {output}"

    def __init__(self, field: Field, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(field, theme, parent)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.row.removeWidget(self.text)
        column = QVBoxLayout()
        column.setSpacing(theme.em(0.25))
        column.addWidget(self.text)
        self.words = WordChips(theme, self)
        column.addWidget(self.words)
        self.said = QLabel(self)
        self.said.setTextFormat(Qt.TextFormat.PlainText)
        self.said.setWordWrap(True)
        self.said.setFont(theme.font(small=True))
        column.addWidget(self.said)
        self.row.addLayout(column, 1)
        self.text.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._tell_how()
        self._fit()

    def read(self, text: str) -> Any:
        """Its arguments; a text with an open quote stays a text, and is wrong."""
        if not text.strip():
            return UNSET
        made = read(text)
        return made if isinstance(made, str) else list(made)

    def write(self, value: Any) -> str:
        """As it would be typed."""
        return write(value)

    def lines(self) -> int:
        """Lines on the screen, those that go on in the next one too."""
        return round(self.text.document().size().height())

    def show_value(self, value: Any) -> None:
        """Also its arguments."""
        super().show_value(value)
        self._tell_how()

    def tell(self, value: Any) -> None:
        """Also shows its arguments."""
        self._tell_how()
        super().tell(value)

    def _tell_how(self) -> None:
        text = self.text.toPlainText()
        value = self.read(text)
        words = value if isinstance(value, list) else []
        self.words.show_words(words)
        self.words.setVisible(bool(words))
        told, tone = _HOW, "dim"
        if shell := shell_words(text):
            told = f"! no shell: {' '.join(shell)} is passed on as it stands; bash -c '…' runs one"
            tone = "warn"
        elif words:
            how = "each line is one argument" if by_line(text) else "cut at blanks, as in a terminal"
            told = f"{plural(len(words), 'argument')} with the program: {how}"
        self.said.setText(told)
        if self.said.property("tone") != tone:
            self.said.setProperty("tone", tone)
            self.said.style().unpolish(self.said)
            self.said.style().polish(self.said)
