"""What a list shows when it has no rows: why, and what to do about it; and rows that are still to come.

What belongs here: the two placeholders.  What may not: what the reasons are.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from client_gui.style.theme import Theme


class Blank(QWidget):
    """A heading, a line of advice, perhaps a button; or rows without words while the first are loading."""

    #: The button was pressed.
    pressed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._loading = False
        self._heading = _label(self)
        self._advice = _label(self)
        self._button = QPushButton(self)
        self._button.clicked.connect(self.pressed)
        box = QVBoxLayout(self)
        box.addStretch(2)
        for widget in (self._heading, self._advice):
            box.addWidget(widget)
        box.addWidget(self._button, 0, Qt.AlignmentFlag.AlignHCenter)
        box.addStretch(3)
        box.setSpacing(theme.em(0.5))
        theme.changed.connect(self._restyle)
        self._restyle()

    def say(self, heading: str, advice: str = "", button: str = "") -> None:
        """Says something; without a heading it shows rows that are still to come."""
        self._loading = not heading
        self._heading.setText(heading)
        self._advice.setText(advice)
        self._advice.setVisible(bool(advice))
        self._button.setText(button)
        self._button.setVisible(bool(button))
        self.setAccessibleName(" ".join(part for part in (heading or "loading", advice) if part))
        self.update()

    def words(self) -> str:
        """What it says."""
        return "\n".join(part for part in (self._heading.text(), self._advice.text()) if part)

    def button(self) -> QPushButton:
        """The button."""
        return self._button

    def _restyle(self) -> None:
        self._heading.setFont(self._theme.font(bold=True))
        self._advice.setFont(self._theme.font())
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.WindowText, self._theme.colour("dim"))
        self._advice.setPalette(palette)
        palette.setColor(QPalette.ColorRole.WindowText, self._theme.colour("text"))
        self._heading.setPalette(palette)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The background, and grey bars where rows will be."""
        painter = QPainter(self)
        theme = self._theme
        painter.fillRect(self.rect(), theme.colour("base"))
        if not self._loading:
            return
        high, edge = theme.row_height(), theme.em(0.6)
        widths = (0.30, 0.10, 0.22, 0.08, 0.12)
        for row in range(min(24, self.height() // max(1, high))):
            left = float(edge)
            painter.setOpacity(max(0.08, 0.9 - row * 0.05))
            for place, part in enumerate(widths):
                wide = self.width() * part
                # Not all names are equally long.
                shown = wide * (0.55 + 0.4 * ((row * 7 + place * 3) % 10) / 10)
                bar = QRectF(left, row * high + high * 0.32, shown - edge, high * 0.36)
                painter.fillRect(bar, theme.colour("raised"))
                left += wide


def _label(parent: QWidget) -> QLabel:
    label = QLabel(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setWordWrap(True)
    return label
