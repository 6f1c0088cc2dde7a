"""Small bars of the Log dock: buttons, looking for something, going to a line, why it failed.

What belongs here: widgets that say what somebody wants, by signals.  What may not: the log.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from client_gui.style.glyphs import icon
from client_gui.style.theme import Theme


def tool(
    theme: Theme, glyph: str, name: str, *, check: bool = False, text: str = "", keys: str = ""
) -> QToolButton:
    """A flat button with a glyph or a short text; its name and keys are in the tip, and said by readers."""
    button = QToolButton()
    button.setAutoRaise(True)
    button.setCheckable(check)
    button.setAccessibleName(name)
    button.setToolTip(f"{name}  ({keys})" if keys else name)
    button.setProperty("glyph", glyph)
    if text:
        button.setText(text)
        button.setToolButtonStyle(
            Qt.ToolButtonStyle.ToolButtonTextBesideIcon if glyph else Qt.ToolButtonStyle.ToolButtonTextOnly
        )
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    redraw(theme, button)
    return button


def redraw(theme: Theme, button: QToolButton) -> None:
    """Takes its glyph in the colours of the theme."""
    glyph = button.property("glyph")
    if glyph:
        button.setIcon(icon(theme, glyph))


def paint_words(theme: Theme, label: QLabel, token: str) -> None:
    """Gives a label's words a colour."""
    palette = label.palette()
    palette.setColor(QPalette.ColorRole.WindowText, theme.colour(token))
    label.setPalette(palette)


def plain(text: str = "") -> QLabel:
    """A label whose text is data."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


class Steady(QLabel):
    """A label with figures that change all the time: it asks for room only when it has too little.

    Any other label has the whole window laid out anew with each text, all docks of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)

    def setText(self, text: str) -> None:  # noqa: N802
        """Says something."""
        if text != self.text():
            need, has = self.fontMetrics().horizontalAdvance(text) + 2, self.minimumWidth()
            if not has // 2 <= need <= has:
                self.setFixedWidth(need)
            super().setText(text)

    def fit(self) -> None:
        """Takes as much room as its text needs in the font it has."""
        metrics = self.fontMetrics()
        self.setFixedSize(metrics.horizontalAdvance(self.text()) + 2, metrics.height() + 2)


class FindBar(QWidget):
    """What to look for."""

    #: Text, whether it is an expression, whether case counts.
    wanted = Signal(str, bool, bool)
    #: The next hit, or the one before.
    step = Signal(bool)
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        #: What the label of the hits says, and whether that is bad news.
        self._said = ("", False)
        self.setAccessibleName("Find in the log")
        box = QHBoxLayout(self)
        box.setContentsMargins(theme.em(0.4), theme.em(0.15), theme.em(0.4), theme.em(0.15))
        box.setSpacing(theme.em(0.2))
        self.edit = QLineEdit()
        self.edit.setPlaceholderText("Find in this log")
        self.edit.setAccessibleName("Text to find")
        self.edit.setClearButtonEnabled(True)
        self.edit.installEventFilter(self)
        self.case = tool(theme, "", "Capitals count", check=True, text="Aa", keys="Alt+C")
        self.regex = tool(theme, "", "Regular expression", check=True, text=".*", keys="Alt+R")
        self.case.setShortcut("Alt+C")
        self.regex.setShortcut("Alt+R")
        self.before = tool(theme, "up", "Previous hit", keys="Shift+Enter")
        self.after = tool(theme, "down", "Next hit", keys="Enter")
        self.count = plain()
        self.count.setMinimumWidth(theme.em(5))
        self.count.setAccessibleName("Hits")
        self.hide_button = tool(theme, "close", "Close the search", keys="Esc")
        box.addWidget(self.edit, 1)
        for widget in (self.case, self.regex, self.before, self.after, self.count, self.hide_button):
            box.addWidget(widget)
        self.edit.textChanged.connect(self._changed)
        self.case.toggled.connect(self._changed)
        self.regex.toggled.connect(self._changed)
        self.before.clicked.connect(lambda: self.step.emit(True))
        self.after.clicked.connect(lambda: self.step.emit(False))
        self.hide_button.clicked.connect(self.closed)

    def say(self, text: str, *, bad: bool = False) -> None:
        """Says how many hits there are, or why none."""
        if (text, bad) == self._said:
            return  # a label that is told anything has the window laid out anew
        self._said = (text, bad)
        self.count.setText(text)
        self.count.setToolTip(text)
        paint_words(self._theme, self.count, "bad" if bad else "dim")

    def restyle(self) -> None:
        """Takes glyphs anew."""
        for button in (self.before, self.after, self.hide_button):
            redraw(self._theme, button)
        paint_words(self._theme, self.count, "bad" if self._said[1] else "dim")

    def _changed(self) -> None:
        self.wanted.emit(self.edit.text(), self.regex.isChecked(), self.case.isChecked())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Enter, Shift+Enter and Esc in the field."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.step.emit(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.closed.emit()
                return True
        return super().eventFilter(watched, event)


class GoToBar(QWidget):
    """A line to go to."""

    wanted = Signal(str)
    closed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        box = QHBoxLayout(self)
        box.setContentsMargins(theme.em(0.4), theme.em(0.15), theme.em(0.4), theme.em(0.15))
        self.edit = QLineEdit()
        self.edit.setPlaceholderText("Line, 50% or end")
        self.edit.setAccessibleName("Line to go to")
        self.edit.installEventFilter(self)
        self.said = plain()
        box.addWidget(self.edit)
        box.addWidget(self.said, 1)

    def say(self, text: str) -> None:
        """Says why it cannot go there."""
        self.said.setText(text)
        paint_words(self._theme, self.said, "bad")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Enter and Esc in the field."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.wanted.emit(self.edit.text().strip())
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.closed.emit()
                return True
        return super().eventFilter(watched, event)


class CauseBar(QWidget):
    """Why an attempt failed, in plain words, and what can be done about it."""

    #: An action by its id.
    wanted = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setAccessibleName("Why it failed")
        box = QHBoxLayout(self)
        box.setContentsMargins(theme.em(0.5), theme.em(0.3), theme.em(0.5), theme.em(0.3))
        box.setSpacing(theme.em(0.5))
        self._glyph = QLabel()
        self._words = plain()
        self._words.setWordWrap(True)
        self._words.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.retry = QPushButton("Retry")
        self.retry.clicked.connect(lambda: self.wanted.emit("retry"))
        self.why = QPushButton("Why")
        self.why.clicked.connect(lambda: self.wanted.emit("why"))
        self._cure: QAbstractButton | None = None
        self._box = box
        box.addWidget(self._glyph, 0, Qt.AlignmentFlag.AlignTop)
        box.addWidget(self._words, 1)
        box.addWidget(self.retry)
        box.addWidget(self.why)
        self.setAutoFillBackground(True)
        self.restyle()

    def restyle(self) -> None:
        """Takes colours anew."""
        side = self._theme.em(0.9)
        self._glyph.setPixmap(icon(self._theme, "failed", "bad").pixmap(side, side))
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Window, self._theme.colour("raised"))
        self.setPalette(palette)
        paint_words(self._theme, self._words, "text")

    def offer(self, button: QAbstractButton | None) -> None:
        """Takes a button for what else would help, in place of the last one; None = there is none."""
        if self._cure is not None:
            self._box.removeWidget(self._cure)
            self._cure.hide()
            self._cure.deleteLater()
        self._cure = button
        if button is not None:
            self._box.insertWidget(self._box.indexOf(self.why), button)

    def say(self, cause: str, cure: str, why_not: str) -> None:
        """Says why, what would help in words, and why it cannot be retried ("" = it can)."""
        text = cause if not cure else f"{cause}\n{cure}"
        self._words.setText(text)
        self._words.setAccessibleName(text)
        self.retry.setEnabled(not why_not)
        self.retry.setToolTip(why_not or "Render these frames again")
