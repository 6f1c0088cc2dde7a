"""A sheet over the window: a question, a value to give, the palette, the list of keys.

What belongs here: dimming what is behind, keeping the keyboard inside, giving the focus back, closing.  What
may not: what a sheet shows.

A sheet is part of its window and runs no loop of its own: what comes from the farm goes on being shown behind
it, and nothing waits for it.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRect, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.style.dress import palette
from client_gui.style.theme import Theme


class Sheet(QWidget):
    """A card over a dimmed window.

    Args:
        host: The window it covers.
        theme: The look.
        title: What it is; screen readers say it.
        wide_em: Width of the card, in heights of the font.
        high: Part of the window's height that the card may take; 0 = as high as what is in it.

    Attributes:
        card: Where the content goes.
        column: The layout of the card.
    """

    #: It is closed; whether with yes.
    closed = Signal(bool)

    def __init__(
        self, host: QWidget, theme: Theme, title: str, *, wide_em: float = 30.0, high: float = 0.0
    ) -> None:
        super().__init__(host)
        self.theme = theme
        self._host = host
        self._wide_em = wide_em
        self._high = high
        self._came_from = QApplication.focusWidget()
        self._over = False
        self.setObjectName("sheet")
        self.setAccessibleName(title)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.card = QFrame(self)
        self.card.setObjectName("sheetCard")
        self.card.setAccessibleName(title)
        self.column = QVBoxLayout(self.card)
        self._dress()
        theme.changed.connect(self._dress)
        host.installEventFilter(self)

    # -- for subclasses --

    def accepted(self) -> None:
        """Enter was pressed, and no button has the focus; does nothing unless a sheet knows better."""

    def first(self) -> QWidget | None:
        """What has the focus when it opens; None = the first that can have it."""
        return None

    def buttons(self, *buttons: QPushButton) -> None:
        """A row of buttons at the foot of the card."""
        row = QHBoxLayout()
        row.addStretch(1)
        for button in buttons:
            row.addWidget(button)
        self.column.addLayout(row)

    def label(self, text: str, *, dim: bool = False, bold: bool = False) -> QLabel:
        """A line of plain text that wraps; what comes from the farm is never taken for markup."""
        label = QLabel(text, self.card)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setFont(self.theme.font(bold=bold))
        if dim:
            colours = label.palette()
            colours.setColor(QPalette.ColorRole.WindowText, self.theme.colour("dim"))
            label.setPalette(colours)
        self.column.addWidget(label)
        return label

    # -- life --

    def open(self) -> None:
        """Shows it and takes the keyboard."""
        self._place()
        self.show()
        self.raise_()
        wanted = self.first() or next(iter(self._stops()), self)
        wanted.setFocus(Qt.FocusReason.OtherFocusReason)

    def close_with(self, yes: bool) -> None:
        """Closes it, and gives the focus back."""
        if self._over:
            return
        self._over = True
        self._host.removeEventFilter(self)
        self.hide()
        before = self._came_from
        try:
            if before is not None and before.isVisible():
                before.setFocus(Qt.FocusReason.OtherFocusReason)
        except RuntimeError:  # it is gone by now
            pass
        self.closed.emit(yes)
        self.deleteLater()

    # -- inside --

    def _dress(self) -> None:
        theme = self.theme
        colours = palette(theme)
        colours.setColor(QPalette.ColorRole.Window, theme.colour("raised"))
        self.setPalette(colours)
        self.setFont(theme.font())
        margin = theme.em(1.0)
        self.column.setContentsMargins(margin, margin, margin, margin)
        self.column.setSpacing(theme.em(0.5))
        self._place()
        self.update()

    def _place(self) -> None:
        self.setGeometry(self._host.rect())
        edge = self.theme.em(1.0)
        width = min(self.theme.em(self._wide_em), self.width() - 2 * edge)
        self.column.activate()
        wanted = self.card.sizeHint().height()
        if self.card.hasHeightForWidth():
            wanted = self.card.heightForWidth(width)
        if self._high:
            wanted = int(self.height() * self._high)
        height = min(wanted, self.height() - 2 * edge)
        top = max(edge, (self.height() - height) // 4)
        self.card.setGeometry(QRect((self.width() - width) // 2, top, width, height))

    def fit(self) -> None:
        """Puts the card right after its content changed."""
        self._place()
        self.update()

    def _stops(self) -> list[QWidget]:
        """Where the Tab key goes, in order."""
        # In the order they were made, not along ``nextInFocusChain``: PySide takes each widget of a chain for
        # a child of the next, and with the sheet all that Python knows of the window's menus would be gone.
        return [
            at
            for at in self.findChildren(QWidget)
            if at.isEnabled()
            and at.isVisibleTo(self)
            and at.focusPolicy().value & Qt.FocusPolicy.TabFocus.value
            and at.focusProxy() is None
        ]

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        """Keeps the keyboard inside."""
        stops = self._stops()
        if not stops:
            return True
        now = QApplication.focusWidget()
        place = stops.index(now) if now in stops else -1
        step = (place + 1 if forward else place - 1) if place >= 0 else 0
        stops[step % len(stops)].setFocus(
            Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
        )
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Esc closes; Enter presses the button that has the focus."""
        key = event.key()
        if key == Qt.Key.Key_Escape:
            self.close_with(False)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            focus = QApplication.focusWidget()
            if isinstance(focus, QAbstractButton) and self.isAncestorOf(focus):
                focus.click()
            else:
                self.accepted()
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """A click beside the card closes."""
        if not self.card.geometry().contains(event.position().toPoint()):
            self.close_with(False)
        event.accept()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follows the size of the window."""
        if watched is self._host and event.type() == QEvent.Type.Resize:
            self._place()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Dims what is behind, and draws the card."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self.theme.colour("veil"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(self.theme.colour("line"))
        painter.setBrush(self.theme.colour("raised"))
        radius = self.theme.em(0.4)
        painter.drawRoundedRect(self.card.geometry().adjusted(0, 0, -1, -1), radius, radius)
        painter.end()
