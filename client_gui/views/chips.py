"""Chips: small buttons in rows that wrap, for parts of a filter and for saved views.

What belongs here: the chip, and a layout that breaks rows.  What may not: filters.
"""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QLayout, QLayoutItem, QSizePolicy, QWidget

from client_gui.style.glyphs import paint_glyph
from client_gui.style.theme import Theme


class FlowLayout(QLayout):
    """Widgets beside each other, on as many rows as it takes."""

    def __init__(self, parent: QWidget | None = None, gap: int = 4) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap = gap
        self.setContentsMargins(0, 0, 0, 0)

    def set_gap(self, gap: int) -> None:
        """Sets them this far apart."""
        self._gap = gap
        self.invalidate()

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802
        """Adds one at the end."""
        self._items.append(item)

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """One of them; None past the end, as Qt wants to know."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Takes one out."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802
        """Neither way."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """The narrower, the higher."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """How high at a width."""
        return self._place(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802
        """Puts them in their places."""
        super().setGeometry(rect)
        self._place(rect, move=True)

    def sizeHint(self) -> QSize:  # noqa: N802
        """All on one row."""
        hints = [item.sizeHint() for item in self._items if not item.isEmpty()]
        wide = sum(hint.width() + self._gap for hint in hints)
        return QSize(wide, max((hint.height() for hint in hints), default=0))

    def minimumSize(self) -> QSize:  # noqa: N802
        """The widest alone."""
        size = QSize()
        for item in self._items:
            if not item.isEmpty():
                size = size.expandedTo(item.minimumSize())
        return size

    def _place(self, rect: QRect, *, move: bool) -> int:
        shown = [(item, item.sizeHint()) for item in self._items if not item.isEmpty()]
        high = max((hint.height() for _, hint in shown), default=0)
        left, top = rect.left(), rect.top()
        for item, hint in shown:
            wide = min(hint.width(), max(rect.width(), 1))
            if left > rect.left() and left + wide > rect.right() + 1:
                left, top = rect.left(), top + high + self._gap
            if move:
                middle = top + (high - hint.height()) // 2
                item.setGeometry(QRect(QPoint(left, middle), QSize(wide, hint.height())))
            left += wide + self._gap
        return top + high - rect.top()


class Chip(QAbstractButton):
    """A small rounded button: words, perhaps a count, perhaps a cross that takes it away.

    Attributes:
        count: Beside the words, None for none.
        crossed: Whether it has a cross.
    """

    #: The cross, or Delete, was pressed.
    removed = Signal()
    #: Somebody wants to change it: a right click or the menu key.
    menu_wanted = Signal(QPoint)

    def __init__(
        self, text: str, theme: Theme, parent: QWidget | None = None, *, crossed: bool = False
    ) -> None:
        super().__init__(parent)
        self.count: int | None = None
        self.crossed = crossed
        self._theme = theme
        self._in = False
        self.setText(text)
        self.setAccessibleName(text)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(lambda at: self.menu_wanted.emit(self.mapToGlobal(at)))
        self._restyle()
        theme.changed.connect(self._restyle)

    def _restyle(self) -> None:
        self.setFont(self._theme.font(small=True))
        self.updateGeometry()
        self.update()

    def set_count(self, count: int | None) -> None:
        """Says how many."""
        if count != self.count:
            self.count = count
            self.setAccessibleName(self.text() if count is None else f"{self.text()}, {count}")
            self.updateGeometry()
            self.update()

    def _shown(self) -> str:
        return "" if self.count is None else f"{self.count:,}"

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as its words; a long one is cut."""
        metrics = self.fontMetrics()
        wide = min(metrics.horizontalAdvance(self.text()), self._theme.em(22)) + self._theme.em(1.2)
        if self.count is not None:
            # Room for what it may count up to, so that chips do not jump about.
            digits = "0" * max(2, len(self._shown()))
            wide += metrics.horizontalAdvance(digits) + self._theme.em(0.4)
        if self.crossed:
            wide += self._theme.em(0.9)
        return QSize(wide, metrics.height() + max(4, self._theme.em(0.35)))

    def _cross(self) -> QRectF:
        side = self._theme.em(0.6)
        return QRectF(self.width() - side - self._theme.em(0.5), (self.height() - side) / 2, side, side)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Paints it."""
        theme, painter = self._theme, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        on = self.isChecked()
        back = theme.colour("selected" if on else "raised")
        if self._in and not on:
            back = theme.colour("hover")
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(theme.colour("focus" if self.hasFocus() else "accent" if on else "line"))
        painter.setBrush(back)
        painter.drawRoundedRect(area, area.height() / 2, area.height() / 2)
        edge = theme.em(0.6)
        words = QRectF(edge, 0, self.width() - 2 * edge, self.height())
        if self.crossed:
            cross = self._cross()
            words.setRight(cross.left() - 2)
            paint_glyph(painter, "close", cross, theme.colour("text" if self._in else "dim"))
        painter.setFont(self.font())
        middle = Qt.AlignmentFlag.AlignVCenter
        if self.count is not None:
            painter.setPen(theme.colour("dim"))
            painter.drawText(words, int(middle | Qt.AlignmentFlag.AlignRight), self._shown())
            words.setRight(words.right() - self.fontMetrics().horizontalAdvance(self._shown()) - edge / 2)
        painter.setPen(QColor(theme.colour("text")))
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, int(words.width()) + 1)
        painter.drawText(words, int(middle | Qt.AlignmentFlag.AlignLeft), text)

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802
        """The mouse is on it."""
        self._in = True
        self.update()
        super().enterEvent(event)

    def leaveEvent(self, event: object) -> None:  # noqa: N802
        """The mouse is not."""
        self._in = False
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """On the cross it takes the chip away."""
        if self.crossed and event.button() == Qt.MouseButton.LeftButton:
            near = self._cross().adjusted(-4, -6, 6, 6)
            if near.contains(event.position()):
                self.setDown(False)
                self.removed.emit()
                return
        super().mouseReleaseEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Delete takes it away, Enter presses it, arrows go to the next."""
        key = event.key()
        if key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) and self.crossed:
            self.removed.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self.focusNextPrevChild(key == Qt.Key.Key_Right)
        else:
            super().keyPressEvent(event)
