"""Sheets of the window itself: about the program, a name for a workspace, a report of what went wrong.

What belongs here: these, and how to begin.  What may not: sheets of actions (``actions``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QGridLayout, QLabel, QLineEdit, QPlainTextEdit, QPushButton, QWidget

from client_gui.actions.keys import KeyMap
from client_gui.actions.keysheet import shown
from client_gui.actions.sheet import Sheet
from client_gui.style.glyphs import app_icon
from client_gui.style.theme import Theme

#: What somebody new has to know: an action whose key is told, and what about it.
HELP: Final = (
    ("palette", "find any action, job, node or dock by a few letters of its name"),
    ("find", "filter a list, with words like: mine state:failed age<2d -proxy"),
    ("open", "look into what is selected: a job, a frame and its log, a node"),
    ("why", "say why something waits, failed or is idle, and what would help"),
    ("retry", "render failed frames again"),
    ("undo", "take back what was done last, while the foot of the window offers it"),
    ("shortcuts", "every key there is, and how to change it"),
    ("", "Docks can be dragged anywhere. View, Docks lists them all; View, Reset workspace puts them back."),
    ("", "The name of the farm at the top says whether what is shown is what is; a click on it says more."),
)


class AboutSheet(Sheet):
    """Versions of everything, to be copied into a message."""

    def __init__(self, host: QWidget, theme: Theme, versions: str) -> None:
        super().__init__(host, theme, "About Overcrank", wide_em=26)
        picture = QLabel(self.card)
        picture.setPixmap(app_icon().pixmap(theme.em(4)))
        picture.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.column.addWidget(picture)
        title = self.label("Overcrank", bold=True)
        title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        line = self.label("A render farm manager for video and 3D frames", dim=True)
        line.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        words = self.label(versions)
        words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        copy = QPushButton("Copy")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(versions))
        self._close = QPushButton("Close")
        self._close.clicked.connect(lambda: self.close_with(False))
        self.buttons(copy, self._close)

    def first(self) -> QWidget:
        """The button that closes."""
        return self._close

    def accepted(self) -> None:
        """Closes."""
        self.close_with(True)


class NameSheet(Sheet):
    """Asks for a name.

    Args:
        host: The window.
        theme: The look.
        title: What is asked.
        take: Takes the name; says what is wrong with it, "" when nothing is.
        start: What stands there at first.
    """

    def __init__(
        self, host: QWidget, theme: Theme, title: str, take: Callable[[str], str], start: str = ""
    ) -> None:
        super().__init__(host, theme, title, wide_em=22)
        self._take = take
        self.label(title, bold=True)
        self.name = QLineEdit(start, self.card)
        self.name.setAccessibleName(title)
        self.name.setMaxLength(40)
        self.name.selectAll()
        self.column.addWidget(self.name)
        self.problem = self.label("")
        self.problem.hide()
        cancel, save = QPushButton("Cancel"), QPushButton("Save")
        cancel.clicked.connect(lambda: self.close_with(False))
        save.clicked.connect(self.accepted)
        self.buttons(cancel, save)

    def first(self) -> QWidget:
        """The name."""
        return self.name

    def accepted(self) -> None:
        """Takes the name, or says what is wrong with it."""
        problem = self._take(self.name.text())
        if not problem:
            self.close_with(True)
            return
        self.problem.setText(problem)
        self.problem.show()
        self.name.setAccessibleDescription(problem)
        self.fit()


class ReportSheet(Sheet):
    """What went wrong the last time, without what is nobody's business, to be read and copied."""

    def __init__(self, host: QWidget, theme: Theme, report: str) -> None:
        super().__init__(host, theme, "What went wrong", wide_em=52, high=0.8)
        self.label("What went wrong the last time", bold=True)
        self.label(
            "Names of this user and machine, keys and tokens are taken out. Nothing is sent anywhere: copy"
            " it into a message to whoever looks after the farm.",
            dim=True,
        )
        self.text = QPlainTextEdit(report, self.card)
        self.text.setReadOnly(True)
        self.text.setFont(theme.font(mono=True, small=True))
        self.text.setAccessibleName("Report")
        self.column.addWidget(self.text, 1)
        copy, close = QPushButton("Copy"), QPushButton("Close")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(report))
        close.clicked.connect(lambda: self.close_with(False))
        self.buttons(copy, close)

    def first(self) -> QWidget:
        """The text."""
        return self.text


class HelpSheet(Sheet):
    """How to begin, in a dozen lines."""

    def __init__(self, host: QWidget, theme: Theme, keymap: KeyMap) -> None:
        super().__init__(host, theme, "How to begin", wide_em=34)
        self.label("How to begin", bold=True)
        lines = QGridLayout()
        lines.setHorizontalSpacing(theme.em(0.8))
        lines.setVerticalSpacing(theme.em(0.4))
        lines.setColumnStretch(1, 1)
        for row, (action, text) in enumerate(HELP):
            words = QLabel(text)
            words.setTextFormat(Qt.TextFormat.PlainText)
            words.setWordWrap(True)
            if action:
                key = QLabel(shown(keymap.shown(action)) or "–")
                key.setFont(theme.font(bold=True))
                lines.addWidget(key, row, 0, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
                lines.addWidget(words, row, 1)
            else:
                lines.addWidget(words, row, 0, 1, 2)
        self.column.addLayout(lines)
        self.label(
            "The same farm can be asked from a terminal, with the same words; farm --help lists them.",
            dim=True,
        )
        self._close = QPushButton("Close")
        self._close.clicked.connect(lambda: self.close_with(False))
        self.buttons(self._close)

    def first(self) -> QWidget:
        """The button that closes."""
        return self._close

    def accepted(self) -> None:
        """Closes."""
        self.close_with(True)
