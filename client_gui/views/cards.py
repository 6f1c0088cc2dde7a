"""Cards: a heading, lines of words, figures in rows; what several docks are made of.

What belongs here: small widgets without a farm behind them.  What may not: asking anything.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from client_gui.style.glyphs import state_icon
from client_gui.style.theme import Theme


class _Words(QLabel):
    """A label that follows the theme."""

    def __init__(self, theme: Theme, token: str, bold: bool, small: bool) -> None:
        super().__init__()
        self._theme, self._token, self._bold, self._small = theme, token, bold, small
        theme.changed.connect(self.restyle)
        self.restyle()

    @Slot()
    def restyle(self) -> None:
        """Takes colour and font from the theme anew."""
        self.setFont(self._theme.font(bold=self._bold, small=self._small))
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.WindowText, self._theme.colour(self._token))
        self.setPalette(palette)


def words(text: str, *, theme: Theme, token: str = "text", bold: bool = False, small: bool = False) -> QLabel:
    """A label whose text is data: plain, wrapped, selectable by mouse and keyboard; it follows the theme."""
    label = _Words(theme, token, bold, small)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    label.setText(text)
    label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    return label


class Card(QFrame):
    """A raised box with a heading."""

    def __init__(
        self, theme: Theme, heading: str = "", parent: QWidget | None = None, *, state: str = ""
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.box = QVBoxLayout(self)
        edge = theme.em(0.5)
        self.box.setContentsMargins(edge, edge, edge, edge)
        self.box.setSpacing(theme.em(0.25))
        if heading:
            said = words(heading, theme=theme, bold=True)
            self.box.addWidget(said if not state else self._with_state(state, said))
            self.setAccessibleName(heading)

    def _with_state(self, state: str, said: QLabel) -> QWidget:
        """The heading behind the drawing of a state, which not every font has as a letter."""
        size = self._theme.em(0.8)
        mark = QLabel()
        mark.setPixmap(state_icon(self._theme, state).pixmap(size, size))
        line = QWidget()
        box = QHBoxLayout(line)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(self._theme.em(0.4))
        box.addWidget(mark)
        box.addWidget(said, 1)
        return line

    def add(self, text: str, *, token: str = "text", bold: bool = False, small: bool = False) -> QLabel:
        """Adds a line of words."""
        label = words(text, theme=self._theme, token=token, bold=bold, small=small)
        self.box.addWidget(label)
        return label

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The box."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(self._theme.colour("line"))
        painter.setBrush(self._theme.colour("raised"))
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(area, self._theme.em(0.3), self._theme.em(0.3))


class Figure(QWidget):
    """A large figure over a small word: ``4.20 USD`` over ``an hour now``."""

    def __init__(self, theme: Theme, word: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._word = word
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, theme.em(1.2), 0)
        box.setSpacing(0)
        self._value = QLabel("—")
        self._value.setTextFormat(Qt.TextFormat.PlainText)
        self._below = QLabel(word)
        self._below.setTextFormat(Qt.TextFormat.PlainText)
        box.addWidget(self._value)
        box.addWidget(self._below)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Maximum)
        self.restyle()

    def restyle(self) -> None:
        """Takes colours and sizes from the theme anew."""
        font = self._theme.font(bold=True)
        font.setPointSizeF(font.pointSizeF() * 1.5)
        self._value.setFont(font)
        self._below.setFont(self._theme.font(small=True))
        for label, token in ((self._value, "text"), (self._below, "dim")):
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, self._theme.colour(token))
            label.setPalette(palette)

    def set(self, value: str, tip: str = "") -> None:
        """Shows another figure."""
        if self._value.text() != value:
            self._value.setText(value)
            self.setAccessibleName(f"{self._word}: {value}")
        self.setToolTip(tip)


class Figures(QWidget):
    """Figures side by side, in several rows where there is no room for one."""

    def __init__(self, *figures: Figure, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = figures
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._arrange(len(figures))

    def fit(self) -> None:
        """Takes as many columns as there is room for; to be called when figures have changed."""
        wide = max((figure.sizeHint().width() for figure in self._figures), default=0)
        self._arrange(max(1, min(len(self._figures), self.width() // max(1, wide))))

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for place, figure in enumerate(self._figures):
            self._grid.addWidget(figure, place // columns, place % columns, Qt.AlignmentFlag.AlignLeft)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """One beside nothing, in as many rows as there are now."""
        hint = super().minimumSizeHint()
        return QSize(max((one.minimumSizeHint().width() for one in self._figures), default=0), hint.height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Arranges them for the new width."""
        super().resizeEvent(event)
        self.fit()


class Parts(QWidget):
    """A bar of parts: useful, waste, idle.

    Attributes:
        parts: Amount and token of its colour for each part.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.parts: list[tuple[float, str, str]] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set(self, parts: list[tuple[float, str, str]]) -> None:
        """Shows other parts: amount, token, word."""
        self.parts = parts
        whole = sum(part for part, _, _ in parts)
        said = [f"{word} {part / whole:.0%}" for part, _, word in parts if whole]
        self.setAccessibleName(", ".join(said) or "nothing yet")
        self.setToolTip(", ".join(said))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as a third of a line."""
        return QSize(self._theme.em(8), self._theme.em(0.5))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The parts, side by side, with a gap between them so that they differ without their colours."""
        painter = QPainter(self)
        whole = sum(part for part, _, _ in self.parts)
        painter.fillRect(self.rect(), self._theme.colour("raised"))
        left = 0.0
        for part, token, _ in self.parts:
            if not whole or part <= 0:
                continue
            width = self.width() * part / whole
            area = QRectF(left, 0, max(1.0, width - 1), self.height())
            painter.fillRect(area, self._theme.colour(token))
            left += width


class Row(QWidget):
    """Widgets side by side, left-aligned."""

    def __init__(self, *widgets: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        box = QHBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        for widget in widgets:
            box.addWidget(widget)
        box.addStretch(1)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Nothing of its own."""
        super().changeEvent(event)
