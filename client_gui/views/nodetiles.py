"""Nodes as tiles, coloured by state or by how busy they are: the whole farm at a glance.

What belongs here: placing, painting and choosing tiles.  What may not: what a tile's figure means
(``models.node_heat``); the table beside it says the same in words and rows.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip, QWidget

from client_gui.delegates.ink import STALE_OPACITY, Ink, mixed
from client_gui.models.node_columns import state_of
from client_gui.models.node_heat import GroupBy, Heat, group_of, level_of
from client_gui.models.order_model import OrderModel
from client_gui.store.natural import natural_key
from client_gui.style.lazily import when_seen
from client_gui.style.theme import Theme
from client_gui.style.tips import plain_tip
from farm.sdk.words import plural

#: How much of its colour a tile has: words on it must be readable on every one.
TINT: Final = 0.28


@dataclass(slots=True)
class _Group:
    """Tiles under one heading."""

    name: str
    slots: list[int] = field(default_factory=list)
    top: int = 0
    first: int = 0


class NodeTiles(QAbstractScrollArea):
    """Tiles of the nodes that a list shows.

    Args:
        model: The list: its filter, order and selection.
        theme: How it looks.

    Attributes:
        heat: What tiles are coloured by.
        group_by: What they are grouped by.
        stale: Whether what is shown may be out of date.
    """

    #: Somebody chose other tiles; ``model.selection`` has them.
    chosen = Signal()
    #: Somebody rests on a tile, or opens it; its id.
    arrived = Signal(object)
    opened = Signal(object)
    menu_wanted = Signal(QPoint)

    def __init__(self, model: OrderModel[int], theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._theme = theme
        self.heat = Heat.STATE
        self.group_by = GroupBy.POOL
        self.stale = False
        self._ink = Ink(theme)
        self._ramp: list[QColor] = []
        self._groups: list[_Group] = []
        #: Slots of all tiles in their order, and the place of each.
        self._tiles: list[int] = []
        self._place: dict[int, int] = {}
        self._across = 1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setAccessibleName("nodes as tiles")
        self.viewport().setMouseTracking(True)
        model.updated.connect(self._changed)
        model.dataChanged.connect(self._changed)
        when_seen(theme, self, self._restyle)
        self._restyle()

    def set_heat(self, heat: Heat) -> None:
        """Colours tiles by something else."""
        self.heat = heat
        self.viewport().update()
        self._describe()

    def set_group_by(self, by: GroupBy) -> None:
        """Groups tiles by something else."""
        self.group_by = by
        self.arrange()

    def _restyle(self) -> None:
        self._ink = Ink(self._theme)
        self._ramp = [QColor.fromRgb(argb) for argb in self._theme.heat_colours()[:254]]
        self.arrange()

    def _changed(self, *_: object) -> None:
        if self.isVisible():
            self.arrange()

    # -- places --

    @property
    def _size(self) -> tuple[int, int]:
        em = self._theme.em()
        return round(em * 5.6), round(em * 2.3)

    @property
    def _gap(self) -> int:
        return max(2, self._theme.em(0.22))

    @property
    def _head(self) -> int:
        return self._theme.em(1.7)

    def arrange(self) -> None:
        """Places the tiles anew."""
        reading = self._model.reading
        groups: dict[str, _Group] = {}
        for slot in self._model.order.view.tolist():
            if reading.table.ids[slot] is None:
                continue
            name = group_of(self.group_by, reading, slot)
            groups.setdefault(name, _Group(name)).slots.append(slot)
        self._groups = sorted(groups.values(), key=lambda group: natural_key(group.name))
        wide, high = self._size
        gap = self._gap
        self._across = max(1, (self.viewport().width() - gap) // (wide + gap))
        top, first = gap, 0
        self._tiles = []
        for group in self._groups:
            group.top, group.first = top, first
            lines = -(-len(group.slots) // self._across)
            top += self._head + lines * (high + gap) + gap
            first += len(group.slots)
            self._tiles += group.slots
        self._place = {slot: place for place, slot in enumerate(self._tiles)}
        bar = self.verticalScrollBar()
        bar.setPageStep(self.viewport().height())
        bar.setSingleStep(high + gap)
        bar.setRange(0, max(0, top - self.viewport().height()))
        self._describe()
        self.viewport().update()

    def _describe(self) -> None:
        states: dict[str, int] = {}
        for slot in self._tiles:
            word = state_of(self._model.reading, slot)
            states[word] = states.get(word, 0) + 1
        words = ", ".join(f"{count} {word}" for word, count in states.items())
        self.setAccessibleDescription(f"{plural(len(self._tiles), 'node')}: {words}; by {self.heat.value}")

    def _group_at(self, place: int) -> _Group:
        return self._groups[bisect_right([group.first for group in self._groups], place) - 1]

    def tile_rect(self, place: int) -> QRect:
        """Where a tile is, as seen now."""
        group = self._group_at(place)
        line, column = divmod(place - group.first, self._across)
        wide, high = self._size
        gap = self._gap
        top = group.top + self._head + line * (high + gap) - self.verticalScrollBar().value()
        return QRect(gap + column * (wide + gap), top, wide, high)

    def tile_at(self, at: QPoint) -> int:
        """The tile under a point, -1 for none."""
        y = at.y() + self.verticalScrollBar().value()
        wide, high = self._size
        gap = self._gap
        for group in self._groups:
            inside = y - group.top - self._head
            if inside < 0:
                continue
            line, column = inside // (high + gap), (at.x() - gap) // (wide + gap)
            place = line * self._across + column
            if 0 <= column < self._across and 0 <= place < len(group.slots):
                found = group.first + place
                if self.tile_rect(found).contains(at):
                    return found
        return -1

    # -- painting --

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Headings and tiles that can be seen."""
        painter = QPainter(self.viewport())
        ink, theme = self._ink, self._theme
        painter.fillRect(self.viewport().rect(), ink.base)
        if self.stale:
            painter.setOpacity(STALE_OPACITY)
        seen = self.viewport().height()
        value = self.verticalScrollBar().value()
        _, high = self._size
        step = high + self._gap
        for group in self._groups:
            top = group.top - value
            lines = -(-len(group.slots) // self._across)
            if top > seen or top + self._head + lines * step < 0:
                continue
            self._paint_heading(painter, group, top)
            begin = max(0, (-(top + self._head)) // step)
            end = min(lines, (seen - top - self._head) // step + 1)
            for offset in range(begin * self._across, min(len(group.slots), end * self._across)):
                self._paint_tile(painter, group.first + offset)
        if self.hasFocus() and not self._tiles:
            painter.setPen(QPen(theme.colour("focus"), 1))
            painter.drawRect(self.viewport().rect().adjusted(0, 0, -1, -1))

    def _paint_heading(self, painter: QPainter, group: _Group, top: int) -> None:
        ink, gap = self._ink, self._gap
        reading = self._model.reading
        busy = sum(state_of(reading, slot) == "busy" for slot in group.slots)
        painter.setFont(ink.bold)
        painter.setPen(ink.text)
        baseline = top + (self._head + ink.metrics.ascent() - ink.metrics.descent()) / 2
        painter.drawText(QPointF(gap * 2, baseline), group.name)
        left = gap * 2 + painter.fontMetrics().horizontalAdvance(group.name) + ink.gap * 2
        painter.setFont(ink.small)
        painter.setPen(ink.dim)
        painter.drawText(QPointF(left, baseline), f"{plural(len(group.slots), 'node')}, {busy} busy")

    def _paint_tile(self, painter: QPainter, place: int) -> None:
        ink, reading = self._ink, self._model.reading
        slot = self._tiles[place]
        row_id = reading.table.ids[slot]
        if row_id is None:
            return
        rect = QRectF(self.tile_rect(place))
        word = state_of(reading, slot)
        level = level_of(self.heat, reading, slot)
        colour = ink.state(word)
        if self.heat is Heat.STATE:
            back = mixed(ink.raised, colour, TINT)
            strip = colour
        elif level.part is None:
            back, strip = ink.raised, ink.line
        else:
            strip = self._ramp[round(level.part * 253)]
            back = mixed(ink.raised, strip, TINT)
        selected = row_id in self._model.selection
        painter.fillRect(rect, back)
        painter.fillRect(QRectF(rect.left(), rect.bottom() - 3, rect.width(), 3), ink.raised)
        part = 1.0 if self.heat is Heat.STATE else level.part or 0.0
        painter.fillRect(QRectF(rect.left(), rect.bottom() - 3, rect.width() * part, 3), strip)
        edge = ink.gap * 0.8
        inner = rect.adjusted(edge, 1, -edge, -3)
        painter.setFont(ink.small)
        painter.setPen(ink.text)
        half = inner.height() / 2
        metrics = ink.small_metrics
        name = self.short_name(slot, int(inner.width()))
        upper = QRectF(inner.left(), inner.top(), inner.width(), half)
        painter.drawText(upper, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), name)
        lower = QRectF(inner.left(), inner.top() + half, inner.width(), half)
        ink.draw_glyph(painter, ink.glyph_of(word), lower.left(), lower.center().y() - ink.glyph / 2, colour)
        lower.setLeft(lower.left() + ink.glyph + edge)
        painter.setPen(ink.text)
        text = metrics.elidedText(level.text, Qt.TextElideMode.ElideRight, int(lower.width()))
        painter.drawText(lower, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), text)
        if selected:
            painter.setPen(QPen(ink.accent, 2))
            painter.drawRect(rect.adjusted(1, 1, -1, -1))
        if row_id == self._model.selection.current and self.hasFocus():
            painter.setPen(QPen(ink.focus, 1, Qt.PenStyle.DashLine))
            painter.drawRect(rect.adjusted(3, 3, -3, -3))

    def short_name(self, slot: int, width: int) -> str:
        """A node's name in so many pixels: nodes are told apart by how their names end."""
        name, metrics = self._name(slot), self._ink.small_metrics
        if metrics.horizontalAdvance(name) <= width:
            return name
        domain = name.partition(".")
        if domain[1]:
            name = domain[0]
        return metrics.elidedText(name, Qt.TextElideMode.ElideLeft, width)

    def _name(self, slot: int) -> str:
        return str(self._model.reading.get(slot, "name") or "")

    def tip(self, place: int) -> str:
        """What a tile's tip says: the row of the table in short."""
        model, slot = self._model, self._tiles[place]
        lines = [self._name(slot)]
        for name in ("state", "work", "owner", "cores", "ram", "vram", "gpu", "temperature", "cpu", "reason"):
            column = model.column_of(name)
            if column >= 0 and (text := model.text(slot, column).strip()):
                lines.append(f"{model.columns[column].title}: {text}")
        return "\n".join(lines)

    # -- choosing --

    def _current(self) -> int:
        current = self._model.selection.current
        slot = self._model.reading.table.slot(current) if current is not None else -1
        return self._place.get(slot, -1)

    def _id(self, place: int) -> int:
        found = self._model.reading.table.ids[self._tiles[place]]
        assert found is not None
        return int(found)

    def choose(self, place: int, *, add: bool = False, range_: bool = False) -> None:
        """Chooses a tile.

        Args:
            place: Which.
            add: Besides what is chosen, or no longer.
            range_: All from where the range began to this one, in the order of the tiles.
        """
        selection, row_id = self._model.selection, self._id(place)
        if range_:
            anchor = selection.anchor if selection.anchor is not None else row_id
            begin = self._place.get(self._model.reading.table.slot(anchor), place)
            first, last = sorted((begin, place))
            selection.select(self._id(one) for one in range(first, last + 1))
            selection.move_current(row_id)
        elif add:
            selection.toggle(row_id)
        else:
            selection.click(row_id)
        self._into_sight(place)
        self.viewport().update()
        self.chosen.emit()
        self.arrived.emit(row_id)

    def _into_sight(self, place: int) -> None:
        rect, bar = self.tile_rect(place), self.verticalScrollBar()
        if rect.top() < self._head:
            bar.setValue(bar.value() + rect.top() - self._head)
        elif rect.bottom() > self.viewport().height():
            bar.setValue(bar.value() + rect.bottom() - self.viewport().height() + self._gap)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Arrows move, Shift draws a range, Space adds, Enter opens; letters belong to the actions."""
        key, at, last = event.key(), self._current(), len(self._tiles) - 1
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        to = {
            Qt.Key.Key_Left: at - 1,
            Qt.Key.Key_Right: at + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }.get(Qt.Key(key))
        if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            to = self._vertical(at, -1 if key == Qt.Key.Key_Up else 1)
        if to is not None and last >= 0:
            self.choose(max(0, min(last, to if at >= 0 else 0)), range_=shift)
        elif key == Qt.Key.Key_Space and at >= 0:
            self.choose(at, add=True)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and at >= 0:
            self.opened.emit(self._id(at))
        else:
            event.ignore()

    def _vertical(self, at: int, step: int) -> int:
        """The tile above or below, in the next group where this one ends."""
        if at < 0:
            return 0
        group = self._group_at(at)
        number = self._groups.index(group)
        column = (at - group.first) % self._across
        inside = at - group.first + step * self._across
        if 0 <= inside < len(group.slots):
            return group.first + inside
        last_line = (len(group.slots) - 1) // self._across
        if step > 0 and (at - group.first) // self._across < last_line:
            return group.first + len(group.slots) - 1
        if not 0 <= number + step < len(self._groups):
            return at
        other = self._groups[number + step]
        line = 0 if step > 0 else (len(other.slots) - 1) // self._across
        return other.first + min(line * self._across + column, len(other.slots) - 1)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Chooses."""
        place = self.tile_at(event.position().toPoint())
        if place < 0 or event.button() not in (Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton):
            return
        keys = event.modifiers()
        if event.button() == Qt.MouseButton.RightButton and self._id(place) in self._model.selection:
            return
        self.choose(
            place,
            add=bool(keys & Qt.KeyboardModifier.ControlModifier),
            range_=bool(keys & Qt.KeyboardModifier.ShiftModifier),
        )

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Opens."""
        if (place := self.tile_at(event.position().toPoint())) >= 0:
            self.opened.emit(self._id(place))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """A menu of what is chosen."""
        at = event.globalPos()
        if event.reason() == QContextMenuEvent.Reason.Keyboard and self._current() >= 0:
            at = self.viewport().mapToGlobal(self.tile_rect(self._current()).bottomLeft())
        self.menu_wanted.emit(at)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802
        """Tips of tiles."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            place = self.tile_at(event.pos())
            if place >= 0:
                QToolTip.showText(event.globalPos(), plain_tip(self.tip(place)), self.viewport())
            else:
                QToolTip.hideText()
            return True
        return super().viewportEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More or fewer fit beside each other."""
        super().resizeEvent(event)
        self.arrange()
