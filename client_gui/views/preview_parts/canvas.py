"""One picture, or two with a line between them that can be moved.

What belongs here: painting, zoom, moving about, the line.  What may not: which pictures.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from client_gui.style.theme import Theme

_LEAST, _MOST, _STEP = 0.1, 16.0, 1.25


class Fit(StrEnum):
    """How large a picture is shown."""

    WINDOW = "fit"
    FREE = "free"


class FrameCanvas(QWidget):
    """A picture.

    Attributes:
        zoom: Pixels of the screen for one of the picture, while ``fit`` is free.
        split: Where the line is, 0..1, when there are two pictures.
    """

    #: Somebody wants the next frame (1), or the one before (-1).
    step = Signal(int)
    menu_wanted = Signal(object)
    zoomed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._image: QImage | None = None
        self._other: QImage | None = None
        self._text = ""
        self._names = ("", "")
        self._other_text = ""
        self.comparing = False
        self.fit = Fit.WINDOW
        self.zoom = 1.0
        self.split = 0.5
        self._centre = QPointF(0.5, 0.5)
        self._drag: QPointF | None = None
        self._on_line = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(theme.em(6), theme.em(4))
        self.setAccessibleName("Picture of the frame")

    def show_picture(self, image: QImage | None, text: str, said: str) -> None:
        """Shows a picture, or why there is none; ``said`` is read to those who do not see it."""
        self._image, self._text = image, text
        self.setAccessibleDescription(said if image is not None else f"{said}: {text}")
        self.update()

    def show_other(self, image: QImage | None, text: str, names: tuple[str, str]) -> None:
        """The picture behind the line, why there is none, and what both are called."""
        self._other, self._other_text, self._names = image, text, names
        self.update()

    # -- size --

    def fit_window(self) -> None:
        """As large as there is room."""
        self.fit = Fit.WINDOW
        self._centre = QPointF(0.5, 0.5)
        self.zoomed.emit()
        self.update()

    def set_zoom(self, zoom: float, at: QPointF | None = None) -> None:
        """Shows it larger or smaller; what is at a point stays there."""
        image = self._image or self._other
        if image is None:
            return
        before = self._area(image)
        spot = at or QPointF(self.width() / 2, self.height() / 2)
        part = QPointF(
            (spot.x() - before.x()) / max(1.0, before.width()),
            (spot.y() - before.y()) / max(1.0, before.height()),
        )
        self.fit, self.zoom = Fit.FREE, max(_LEAST, min(_MOST, zoom))
        size = self._size(image)
        self._centre = QPointF(
            part.x() - (spot.x() - self.width() / 2) / max(1.0, size.width()),
            part.y() - (spot.y() - self.height() / 2) / max(1.0, size.height()),
        )
        self._keep_inside()
        self.zoomed.emit()
        self.update()

    @property
    def scale(self) -> float:
        """Pixels of the screen for one of the picture."""
        image = self._image or self._other
        if self.fit is Fit.FREE or image is None:
            return self.zoom
        ratio = self.devicePixelRatioF()
        return min(self.width() * ratio / image.width(), self.height() * ratio / image.height())

    def _size(self, image: QImage) -> QSizeF:
        """How large a picture is shown.  Both are as large as the first: proxies may differ."""
        first = self._image or image
        factor = self.scale / self.devicePixelRatioF()
        return QSizeF(first.width() * factor, first.height() * factor)

    def _area(self, image: QImage) -> QRectF:
        size = self._size(image)
        left = self.width() / 2 - self._centre.x() * size.width()
        top = self.height() / 2 - self._centre.y() * size.height()
        return QRectF(left, top, size.width(), size.height())

    def _keep_inside(self) -> None:
        self._centre = QPointF(max(0.0, min(1.0, self._centre.x())), max(0.0, min(1.0, self._centre.y())))

    def set_split(self, split: float) -> None:
        """Moves the line."""
        self.split = max(0.0, min(1.0, split))
        if self.comparing:
            self.setAccessibleDescription(f"{self._names[0]} up to {self.split:.0%}, then {self._names[1]}")
        self.update()

    # -- painting --

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The pictures."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.colour("base"))
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, self.scale < 3)
        if not self.comparing:
            self._paint_one(painter, self._image, self._text)
        else:
            line = self._line()
            left, right = QRectF(self.rect()), QRectF(self.rect())
            left.setRight(line)
            right.setLeft(line)
            for area, image, text in (
                (left, self._image, self._text),
                (right, self._other, self._other_text),
            ):
                painter.save()
                painter.setClipRect(area)
                self._paint_one(painter, image, text, area)
                painter.restore()
            self._paint_line(painter, line)
        if self.hasFocus():
            painter.setPen(self._theme.colour("accent"))
            painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def _paint_one(
        self, painter: QPainter, image: QImage | None, text: str, room: QRectF | None = None
    ) -> None:
        if image is not None:
            painter.drawImage(self._area(image), image)
            return
        painter.setPen(self._theme.colour("dim"))
        edge = self._theme.em(1)
        area = (room or QRectF(self.rect())).adjusted(edge, edge, -edge, -edge)
        flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
        painter.drawText(area, int(flags), text)

    def _line(self) -> float:
        image = self._image or self._other
        area = self._area(image) if image is not None else QRectF(self.rect())
        return max(0.0, min(float(self.width()), area.left() + area.width() * self.split))

    def _paint_line(self, painter: QPainter, line: float) -> None:
        theme = self._theme
        painter.fillRect(QRectF(line - 1, 0, 2, self.height()), theme.colour("accent"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(theme.colour("accent"))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawEllipse(QPointF(line, self.height() / 2), theme.em(0.4), theme.em(0.4))
        metrics = painter.fontMetrics()
        edge, high = theme.em(0.3), metrics.height() + theme.em(0.2)
        for name, at_left in zip(self._names, (True, False), strict=True):
            if not name:
                continue
            room = line - 3 * edge if at_left else self.width() - line - 3 * edge
            words = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, int(room))
            wide = metrics.horizontalAdvance(words) + 2 * edge
            if room < theme.em(2):
                continue
            area = QRectF(line - wide - edge if at_left else line + edge, edge, wide, high)
            ground = theme.colour("window")
            ground.setAlpha(210)
            painter.setBrush(ground)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawRoundedRect(area, edge / 2, edge / 2)
            painter.setPen(theme.colour("text"))
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, words)

    # -- hands --

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Larger and smaller, about the pointer."""
        turned = event.angleDelta().y()
        if turned:
            self.set_zoom(self.scale * _STEP ** (turned / 120), event.position())
            event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Takes the line, or the picture."""
        if event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton):
            self._drag = event.position()
            near = abs(event.position().x() - self._line()) < self._theme.em(0.8)
            left = event.button() == Qt.MouseButton.LeftButton
            self._on_line = self.comparing and left and (near or self.fit is Fit.WINDOW)
            self._move_line(event.position().x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Moves it."""
        if self._drag is None:
            return
        if self._on_line:
            self._move_line(event.position().x())
        elif self.fit is Fit.FREE:
            self._pan(event.position() - self._drag)
        self._drag = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Lets go."""
        self._drag = None
        self._on_line = False

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Between fitting and one for one."""
        if self.fit is Fit.WINDOW:
            self.set_zoom(1.0, event.position())
        else:
            self.fit_window()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """A menu, by mouse or by its key."""
        self.menu_wanted.emit(event.globalPos())

    def _move_line(self, x: float) -> None:
        image = self._image or self._other
        if self._on_line and image is not None:
            area = self._area(image)
            self.set_split((x - area.left()) / max(1.0, area.width()))

    def _pan(self, by: QPointF) -> None:
        image = self._image or self._other
        if image is None:
            return
        size = self._size(image)
        self._centre -= QPointF(by.x() / max(1.0, size.width()), by.y() / max(1.0, size.height()))
        self._keep_inside()
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """``+ - 1 0`` for the size, arrows for the next frame; with Shift they move line or picture."""
        key = event.key()
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier):
            super().keyPressEvent(event)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.set_zoom(self.scale * _STEP)
        elif key in (Qt.Key.Key_Minus, Qt.Key.Key_Underscore):
            self.set_zoom(self.scale / _STEP)
        elif key == Qt.Key.Key_1:
            self.set_zoom(1.0)
        elif key == Qt.Key.Key_0:
            self.fit_window()
        elif key in _ARROWS:
            x, y = _ARROWS[Qt.Key(key)]
            if shift and self.comparing and x:
                self.set_split(self.split + x * 0.05)
            elif shift or y:
                self._pan(QPointF(-x, -y) * self._theme.em(2))
            else:
                self.step.emit(x)
        else:
            super().keyPressEvent(event)


_ARROWS: Final[dict[Qt.Key, tuple[int, int]]] = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}
