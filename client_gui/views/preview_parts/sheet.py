"""Small pictures of many frames, side by side or in one row.

What belongs here: where each is, painting those that are visible, walking through them.  What may not: which
frames these are, and where their pictures come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QContextMenuEvent,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QSizePolicy, QToolTip, QWidget

from client_gui.style.glyphs import paint_glyph
from client_gui.style.theme import Theme
from client_gui.style.tips import plain_tip

#: Widths of a picture in heights of a letter.
_LEAST, _USUAL, _MOST = 5, 9, 30


@dataclass(frozen=True, slots=True)
class Cell:
    """What is shown of a frame.

    Attributes:
        number: Its number, or what it is called.
        state: Word of its state.
        image: Its picture, None for none.
        text: What is said in place of one.
    """

    number: str
    state: str
    image: QImage | None
    text: str


class ContactSheet(QAbstractScrollArea):
    """Small pictures.

    Args:
        theme: Colours and sizes.
        cell: Asked for what is shown of a unit.
        row: All in one row, to be scrolled sideways.

    Attributes:
        units: What is shown, in order.
    """

    #: Somebody went to a unit; somebody wants to see it large.
    chosen = Signal(int)
    opened = Signal(int)
    #: Other units are visible.
    seen = Signal()
    menu_wanted = Signal(object)

    def __init__(
        self, theme: Theme, cell: Callable[[int], Cell], *, row: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._cell = cell
        self._row = row
        self._wide = float(_LEAST + 1 if row else _USUAL)
        self._aspect = 16 / 9
        self.units: Sequence[int] = ()
        self._place: dict[int, int] = {}
        self.current = -1
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Newest frames" if row else "Contact sheet")
        if row:
            self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
            self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
            self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        else:
            self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._bar = self.horizontalScrollBar() if row else self.verticalScrollBar()
        self._bar.valueChanged.connect(self._scrolled)

    # -- what is shown --

    def show_units(self, units: Sequence[int]) -> None:
        """Shows other units; the chosen one stays chosen if it is among them."""
        # All frames of a step are a range: a million of them are neither gone through nor kept.
        alike = type(units) is type(self.units) and units == self.units
        if alike or (len(units) == len(self.units) and list(units) == list(self.units)):
            return
        self.units = units
        ranged = isinstance(units, range)
        self._place = {} if ranged else {unit: place for place, unit in enumerate(units)}
        self._set_range()
        self.viewport().update()
        self.seen.emit()

    def set_aspect(self, aspect: float) -> None:
        """Width of the pictures by their height."""
        aspect = max(0.4, min(4.0, aspect))
        if abs(aspect - self._aspect) > 0.01:
            self._aspect = aspect
            self.updateGeometry()
            self._set_range()
            self.viewport().update()
            self.seen.emit()

    def choose(self, unit: int, *, tell: bool = False) -> None:
        """Chooses a unit and shows it."""
        if unit == self.current:
            return
        self.current = unit
        place = self._place_of(unit)
        if place >= 0:
            area = self._area(place)
            low, high = (area.left(), area.right()) if self._row else (area.top(), area.bottom())
            room = self.viewport().width() if self._row else self.viewport().height()
            if low < self._bar.value():
                self._bar.setValue(low - self._gap())
            elif high > self._bar.value() + room:
                self._bar.setValue(high - room + self._gap())
            cell = self._cell(unit)
            self.setAccessibleDescription(
                f"frame {cell.number}, {cell.state}, {place + 1} of {len(self.units)}"
            )
            QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))
        self.viewport().update()
        if tell:
            self.chosen.emit(unit)

    def _place_of(self, unit: int) -> int:
        """Where a unit stands, -1 for nowhere."""
        if isinstance(self.units, range):
            return self.units.index(unit) if unit in self.units else -1
        return self._place.get(unit, -1)

    def visible_units(self) -> list[int]:
        """Units that can be seen now."""
        first, last = self._visible()
        return list(self.units[first:last])

    def grow(self, by: float) -> None:
        """Larger or smaller pictures."""
        self._wide = max(_LEAST, min(_MOST, self._wide * by))
        self._set_range()
        self.viewport().update()
        self.seen.emit()

    def sizeHint(self) -> QSize:  # noqa: N802
        """One row high, or room for some."""
        high = self._cell_size().height() + 2 * self._gap()
        return QSize(self._theme.em(20), high if self._row else 3 * high)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """One row."""
        return QSize(self._theme.em(6), self._cell_size().height() + 2 * self._gap())

    # -- geometry --

    def _gap(self) -> int:
        return max(3, self._theme.em(0.25))

    def _label_high(self) -> int:
        return self._theme.em(1.15)

    def _columns(self) -> int:
        if self._row:
            return max(1, len(self.units))
        wide = self._theme.em(self._wide) + self._gap()
        return max(1, (self.viewport().width() - self._gap()) // wide)

    def _cell_size(self) -> QSize:
        wide = self._theme.em(self._wide)
        if not self._row:
            # What is left over at the right is given to all.
            columns = self._columns()
            wide = max(wide, (self.viewport().width() - self._gap()) // columns - self._gap())
            wide = min(wide, round(self._theme.em(self._wide) * 1.6))
        return QSize(wide, round(wide / self._aspect) + self._label_high())

    def _area(self, place: int) -> QRect:
        """Where a cell is, not scrolled."""
        line, column = divmod(place, self._columns())
        size, gap = self._cell_size(), self._gap()
        return QRect(
            gap + column * (size.width() + gap),
            gap + line * (size.height() + gap),
            size.width(),
            size.height(),
        )

    def _visible(self) -> tuple[int, int]:
        size, gap = self._cell_size(), self._gap()
        step = (size.width() if self._row else size.height()) + gap
        room = self.viewport().width() if self._row else self.viewport().height()
        first = max(0, (self._bar.value() - gap) // step)
        last = (self._bar.value() + room) // step + 1
        columns = 1 if self._row else self._columns()
        return first * columns, min(len(self.units), last * columns)

    def _set_range(self) -> None:
        last = self._area(len(self.units) - 1) if self.units else QRect()
        room = self.viewport().width() if self._row else self.viewport().height()
        whole = (last.right() if self._row else last.bottom()) + self._gap()
        self._bar.setRange(0, max(0, whole - room))
        self._bar.setPageStep(max(1, room))
        self._bar.setSingleStep(max(1, self._cell_size().height() // 3))

    def _scrolled(self) -> None:
        self.viewport().update()
        self.seen.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More or fewer fit."""
        super().resizeEvent(event)
        self._set_range()
        self.seen.emit()

    def unit_at(self, x: float, y: float) -> int:
        """The unit at a point of the viewport, -1 for none."""
        first, last = self._visible()
        for place in range(first, last):
            if self._shown_area(place).contains(int(x), int(y)):
                return self.units[place]
        return -1

    def _shown_area(self, place: int) -> QRect:
        by = self._bar.value()
        return self._area(place).translated(-by if self._row else 0, 0 if self._row else -by)

    # -- painting --

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The visible cells."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.fillRect(self.viewport().rect(), self._theme.colour("base"))
        painter.setFont(self._theme.font(small=True))
        first, last = self._visible()
        for place in range(first, last):
            self._paint_cell(painter, self._shown_area(place), self.units[place])

    def _paint_cell(self, painter: QPainter, area: QRect, unit: int) -> None:
        theme = self._theme
        cell = self._cell(unit)
        picture = area.adjusted(0, 0, 0, -self._label_high())
        painter.fillRect(picture, theme.colour("window"))
        if cell.image is not None:
            scaled = cell.image.size().scaled(picture.size(), Qt.AspectRatioMode.KeepAspectRatio)
            spot = QRect(0, 0, scaled.width(), scaled.height())
            spot.moveCenter(picture.center())
            painter.drawImage(spot, cell.image)
        else:
            painter.setPen(theme.colour("dim"))
            inner = QRectF(picture.adjusted(3, 3, -3, -3))
            painter.drawText(inner, int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap), cell.text)
        label = QRectF(area.left(), picture.bottom() + 1, area.width(), self._label_high())
        side = min(label.height() * 0.7, theme.em(0.75))
        spot_of_glyph = QRectF(label.left() + 2, label.center().y() - side / 2, side, side)
        paint_glyph(painter, cell.state, spot_of_glyph, theme.state_colour(cell.state))
        chosen = unit == self.current
        painter.setPen(theme.colour("text" if chosen else "dim"))
        words = label.adjusted(side + 6, 0, -2, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, cell.number)
        if chosen:
            pen = painter.pen()
            pen.setColor(theme.colour("accent"))
            pen.setWidthF(2.0 if self.hasFocus() else 1.4)
            painter.setPen(pen)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(area).adjusted(-1, -1, 1, 0))

    # -- hands --

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Chooses."""
        unit = self.unit_at(event.position().x(), event.position().y())
        if unit >= 0:
            self.choose(unit, tell=True)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Opens."""
        unit = self.unit_at(event.position().x(), event.position().y())
        if unit >= 0:
            self.opened.emit(unit)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Scrolls; with Ctrl larger or smaller."""
        turned = event.angleDelta().y() or event.angleDelta().x()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.grow(1.15 ** (turned / 120))
        else:
            self._bar.setValue(self._bar.value() - round(turned / 120 * self._bar.singleStep() * 2))
        event.accept()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """A menu, by mouse or by its key."""
        self.menu_wanted.emit(event.globalPos())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrows, pages, ends; Enter opens; ``+`` and ``-`` for the size."""
        place = self._place_of(self.current)
        columns = 1 if self._row else self._columns()
        lines = max(1, self.viewport().height() // max(1, self._cell_size().height() + self._gap()))
        count = len(self.units)
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: -columns,
            Qt.Key.Key_Down: columns,
            Qt.Key.Key_PageUp: -columns * lines,
            Qt.Key.Key_PageDown: columns * lines,
            Qt.Key.Key_Home: -count,
            Qt.Key.Key_End: count,
        }
        key = event.key()
        if key in steps and count and not (self._row and key in (Qt.Key.Key_Up, Qt.Key.Key_Down)):
            wanted = place + steps[Qt.Key(key)] if place >= 0 else 0
            if abs(steps[Qt.Key(key)]) == columns > 1 and not 0 <= wanted < count:
                return
            self.choose(self.units[max(0, min(count - 1, wanted))], tell=True)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and place >= 0:
            self.opened.emit(self.current)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal) and not self._row:
            self.grow(1.15)
        elif key == Qt.Key.Key_Minus and not self._row:
            self.grow(1 / 1.15)
        else:
            super().keyPressEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """Says what a cell is."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            unit = self.unit_at(event.pos().x(), event.pos().y())
            if unit >= 0:
                cell = self._cell(unit)
                words = plain_tip(f"frame {cell.number}, {cell.state}")
                QToolTip.showText(event.globalPos(), words, self)
            return True
        return super().viewportEvent(event)
