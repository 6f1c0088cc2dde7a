"""Toasts: what just happened, in a corner, for a few seconds.

What belongs here: the cards and how long they stay.  What may not: keeping what happened: that is in
Activity when a toast has faded, and before.

They never take the keyboard, never cover more than a corner, and stay while the pointer is on them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QEnterEvent, QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from client_gui.desk import Desk
from client_gui.shell.speech import announce
from client_gui.store.activity import Level, Notice
from client_gui.style.glyphs import icon

#: How long a toast stays, by how much it matters.
STAYS_US: Final = {
    Level.INFO: 4_000_000,
    Level.DONE: 5_000_000,
    Level.WARNING: 8_000_000,
    Level.ERROR: 12_000_000,
}
#: So many stand at a time; the oldest makes room.
MOST: Final = 4
#: Glyph and colour by how much it matters.
SIGNS: Final = {
    Level.INFO: ("info", "accent"),
    Level.DONE: ("done", "good"),
    Level.WARNING: ("warning", "warn"),
    Level.ERROR: ("offline", "bad"),
}


class Toast(QFrame):
    """One card."""

    #: Somebody clicked on it.
    clicked = Signal()
    #: Somebody closed it.
    closed = Signal()
    #: Somebody wants to take back what it tells of.
    undo_wanted = Signal()

    def __init__(self, desk: Desk, notice: Notice, until_us: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._desk = desk
        self.notice = notice
        self.until_us = until_us
        self.hovered = False
        self.setObjectName("toast")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip("Show in Activity")
        self._layout = QHBoxLayout(self)
        self._sign = QLabel()
        self._layout.addWidget(self._sign, 0, Qt.AlignmentFlag.AlignTop)
        words = QVBoxLayout()
        self._layout.addLayout(words, 1)
        self._text, self._hint = QLabel(), QLabel()
        for label in (self._text, self._hint):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            words.addWidget(label)
        self._undo = QPushButton("Undo")
        self._undo.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._undo.clicked.connect(self.undo_wanted)
        self._layout.addWidget(self._undo, 0, Qt.AlignmentFlag.AlignTop)
        self._close = QToolButton()
        self._close.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._close.setAccessibleName("Close this notice")
        self._close.clicked.connect(self.closed)
        self._layout.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        self.put(notice, until_us)
        self.restyle()

    @property
    def text(self) -> str:
        """What it says."""
        return self._text.text()

    def put(self, notice: Notice, until_us: int) -> None:
        """Tells of something else, or of the same once more."""
        self.notice = notice
        self.until_us = until_us
        times = f"  (×{notice.times})" if notice.times > 1 else ""
        self._text.setText(_short(notice.text) + times)
        self._hint.setText(_short(notice.hint))
        self._hint.setVisible(bool(notice.hint))
        self._undo.setVisible(bool(notice.undo))
        self.setAccessibleName(f"{notice.level.value}: {notice.text} {notice.hint}".strip())

    def offer(self, numbers: Collection[int]) -> bool:
        """Keeps its button only while what it tells of can be taken back; whether it lost it now."""
        gone = not self._undo.isHidden() and self.notice.undo not in numbers
        if gone:
            self._undo.hide()
        return gone

    def restyle(self) -> None:
        """Takes the theme anew."""
        theme = self._desk.theme
        look = theme.look
        glyph, token = SIGNS[self.notice.level]
        side = theme.em(1.0)
        self._sign.setPixmap(icon(theme, glyph, token).pixmap(side))
        self._close.setIcon(icon(theme, "close", "dim"))
        self._hint.setStyleSheet(f"color: {look.dim}")
        self._layout.setContentsMargins(theme.em(0.6), theme.em(0.5), theme.em(0.3), theme.em(0.5))
        self._layout.setSpacing(theme.em(0.5))
        self.setFixedWidth(theme.em(20))
        self.setStyleSheet(
            f"#toast {{ background: {look.raised}; border: 1px solid {look.line};"
            f" border-left: {theme.em(0.2)}px solid {getattr(look, token)};"
            f" border-radius: {theme.em(0.2)}px; }}"
        )

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802
        """It stays while the pointer is on it."""
        self.hovered = True
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """It may go again, but not at once."""
        self.hovered = False
        self.until_us = max(self.until_us, self._desk.client.now_us() + STAYS_US[Level.INFO] // 2)
        super().leaveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """A click opens Activity."""
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.clicked.emit()


class Toasts(QObject):
    """The toasts of a window.

    Args:
        desk: Of the window.
        over: The widget in whose lower right corner they stand.
    """

    #: Somebody wants to take something back (its number).
    undo_wanted = Signal(int)

    def __init__(self, desk: Desk, over: QWidget) -> None:
        super().__init__(over)
        self._desk = desk
        self._over = over
        self._shown: list[Toast] = []
        over.installEventFilter(self)
        desk.theme.changed.connect(self._restyle)

    @property
    def texts(self) -> list[str]:
        """What stands there now, oldest first."""
        return [toast.text for toast in self._shown]

    @property
    def cards(self) -> tuple[Toast, ...]:
        """What stands there now, oldest first."""
        return tuple(self._shown)

    def show(self, notice: Notice) -> None:
        """Shows a notice; one that is counted up is not shown twice."""
        until_us = self._desk.client.now_us() + STAYS_US[notice.level]
        for toast in self._shown:
            if toast.notice.number == notice.number:
                toast.put(notice, until_us)
                self._place()
                return
        while len(self._shown) >= MOST:
            self._drop(self._shown[0])
        toast = Toast(self._desk, notice, until_us, self._over)
        toast.clicked.connect(lambda: self._open(toast))
        toast.closed.connect(lambda: self._drop(toast))
        toast.undo_wanted.connect(lambda: self._undo(toast))
        self._shown.append(toast)
        toast.show()
        self._place()
        announce(self._over, toast.accessibleName())

    def offer(self, numbers: Collection[int]) -> None:
        """Takes the button from those that tell of what cannot be taken back any more."""
        lost = [toast for toast in self._shown if toast.offer(numbers)]
        if lost:
            self._place()

    def tick(self, now_us: int) -> None:
        """Lets those go whose time is up; while the pointer is on one, all stay."""
        if any(toast.hovered for toast in self._shown):
            return
        for toast in [toast for toast in self._shown if now_us >= toast.until_us]:
            self._drop(toast)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Keeps them in the corner."""
        if event.type() is QEvent.Type.Resize:
            self._place()
        return super().eventFilter(watched, event)

    def _open(self, toast: Toast) -> None:
        self._drop(toast)
        self._desk.focus.show("activity")

    def _undo(self, toast: Toast) -> None:
        self._drop(toast)
        self.undo_wanted.emit(toast.notice.undo)

    def _drop(self, toast: Toast) -> None:
        if toast in self._shown:
            self._shown.remove(toast)
            toast.hide()
            toast.deleteLater()
            self._place()

    def _place(self) -> None:
        gap = self._desk.theme.em(0.5)
        foot = self._over.height() - gap
        for toast in reversed(self._shown):
            high = toast.heightForWidth(toast.width())
            toast.resize(toast.width(), max(high, toast.sizeHint().height()))
            foot -= toast.height()
            toast.move(self._over.width() - toast.width() - gap, foot)
            toast.raise_()
            foot -= gap

    def _restyle(self) -> None:
        for toast in self._shown:
            toast.restyle()
        self._place()


def _short(text: str, most: int = 240) -> str:
    """A text that fits on a card; all of it is in Activity."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
