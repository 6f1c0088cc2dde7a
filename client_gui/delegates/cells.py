"""Cells of tables: text, states, bars, marks; what is about to change; and editing a number in place.

What belongs here: one delegate that paints every kind of cell of an ``OrderModel``.  What may not: what a
column says (``client_gui.models``), and what an edit leads to.

Everything is painted here and not by the style: a style asks the model nine times a cell, and knows neither
bars nor what is about to become of a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QSpinBox, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from client_gui.delegates.bars import draw_meter, draw_parts, draw_spark, waiting_colours
from client_gui.delegates.ink import GONE_OPACITY, STALE_OPACITY, Ink
from client_gui.models.column import Level, Paint, Shown
from client_gui.models.marks import Marks
from client_gui.models.order_model import OrderModel
from client_gui.style.theme import Theme
from farm.model.states import UnitState

Index = QModelIndex | QPersistentModelIndex
# Plain numbers: to combine members of an enum takes longer than to paint the background.
_SELECTED: Final = QStyle.StateFlag.State_Selected.value
_HOVERED: Final = QStyle.StateFlag.State_MouseOver.value
_FOCUSED: Final = QStyle.StateFlag.State_HasFocus.value
_ACTIVE: Final = QStyle.StateFlag.State_Active.value
#: What an edit may be, by the action it asks for.
_BOUNDS = {"priority": (0, 100)}


@dataclass(slots=True)
class Cell:
    """A cell that is being painted; one object for all cells of a paint, as making one takes its time, too.

    Attributes:
        painter: Paints.
        model: Whose cell it is.
        left, top, width, height: Where it is.
        shown: Its column.
        slot: Its row in the table of the store.
        column: The number of its column.
        font: The font the painter has now, None when that is not known.
    """

    painter: QPainter
    model: OrderModel[Any]
    left: float
    top: float
    width: float
    height: float
    shown: Shown
    slot: int
    column: int
    font: QFont | None = None

    @property
    def rect(self) -> QRectF:
        """Where it is."""
        return QRectF(self.left, self.top, self.width, self.height)


class CellDelegate(QStyledItemDelegate):
    """Paints the cells of an ``OrderModel``.

    Attributes:
        stale: Whether what is shown may be out of date: everything is dimmed.
        ink: Colours and fonts.
    """

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.stale = False
        self.ink = Ink(theme)
        self._unit_colours: list[QColor] = []
        self._waiting_colours: list[QColor] = []
        self._renew()
        theme.changed.connect(self._renew)
        self.painters: dict[Paint, Callable[[Cell], None]] = {
            Paint.TEXT: self._text,
            Paint.DIM: self._dim,
            Paint.BAD: self._bad,
            Paint.STATE: self._state,
            Paint.PARTS: self._parts,
            Paint.METER: self._meter,
            Paint.SPARK: self._spark,
            Paint.MARKS: self._marks,
        }

    def _renew(self) -> None:
        self.ink = Ink(self._theme)
        self._unit_colours = [self.ink.state(state.word) for state in UnitState] + [self.ink.dim]
        self._waiting_colours = waiting_colours(self._unit_colours)

    # -- what Qt asks --

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """As high as every row; as wide as its text."""
        width = self.ink.width(str(index.data() or "")) + 2 * self.ink.gap
        model = cast("OrderModel[Any]", index.model())
        paint = model.columns[index.column()].paint
        if paint is Paint.STATE:
            width += self.ink.glyph + self.ink.gap
        elif paint in (Paint.PARTS, Paint.METER):
            width += self._theme.em(4)
        return QSize(width, self._theme.row_height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints a cell."""
        model = cast("OrderModel[Any]", index.model())
        row, column = index.row(), index.column()
        ink = self.ink
        state = option.state.value
        rect = option.rect
        if state & _SELECTED:
            painter.fillRect(rect, ink.selected if state & _ACTIVE else ink.selected_idle)
        elif state & _HOVERED:
            painter.fillRect(rect, ink.hovered)
        elif row & 1:
            painter.fillRect(rect, ink.other)
        shown = model.columns[column]
        slot = model.slot_of_row(row)
        gone = model.is_gone(row)
        dimmed = gone or self.stale
        if dimmed:
            painter.setOpacity(GONE_OPACITY if gone else STALE_OPACITY)
        self.painters[shown.paint](
            Cell(painter, model, rect.x(), rect.y(), rect.width(), rect.height(), shown, slot, column)
        )
        if dimmed:
            painter.setOpacity(1.0)
        if state & _FOCUSED:
            # The current cell: a frame, so that it can be seen on every background.
            painter.setPen(QPen(ink.focus, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(rect).adjusted(0.5, 0.5, -0.5, -0.5))

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:  # noqa: N802
        """A field for a number."""
        model = cast("OrderModel[Any]", index.model())
        shown = model.columns[index.column()]
        editor = QSpinBox(parent)
        low, high = _BOUNDS.get(shown.edit, (0, 999_999_999))
        editor.setRange(low, high)
        editor.setFrame(False)
        editor.setAlignment(Qt.AlignmentFlag.AlignRight)
        editor.setFont(self.ink.font)
        editor.setAccessibleName(shown.title)
        editor.setButtonSymbols(QSpinBox.ButtonSymbols.NoButtons)
        return editor

    def setEditorData(self, editor: QWidget, index: Index) -> None:  # noqa: N802
        """What it is now; an editor that is open keeps what was typed when the farm says something new."""
        if isinstance(editor, QSpinBox) and editor.property("filled") is None:
            text = str(index.data() or "")
            editor.setValue(int(text) if text.isdigit() else 0)
            editor.selectAll()
            editor.setProperty("filled", True)

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:  # noqa: N802
        """Hands on what was typed."""
        if isinstance(editor, QSpinBox):
            editor.interpretText()
            model.setData(index, str(editor.value()))

    # -- kinds of cells --

    def _put(self, cell: Cell, text: str, left: float, right: float, colour: QColor, *, flush: bool) -> None:
        """Puts text between two edges, cut where there is no room for all of it."""
        room = right - left
        if not text or room <= 0:
            return
        ink, painter = self.ink, cell.painter
        piece = ink.piece(text, int(room))
        if cell.font is not ink.font:
            painter.setFont(ink.font)
            cell.font = ink.font
        painter.setPen(colour)
        x = int(right - piece.width if flush else left)
        if piece.laid_out is not None:
            painter.drawStaticText(x, int(cell.top + (cell.height - ink.text_height) / 2), piece.laid_out)
        else:
            y = int(cell.top + (cell.height - ink.text_height) / 2) + ink.ascent
            painter.drawText(x, y, piece.text)

    def _promise(self, cell: Cell, left: float, right: float) -> bool:
        """Paints what a cell is about to become: slanted, with dots.

        What waits for the farm to be back has a clock before it instead, and is not dimmed with the rest: of
        all that is shown it alone is of now.
        """
        to = cell.model.pending_at(cell.slot, cell.column)
        if to is None:
            return False
        ink = self.ink
        waits = cell.model.waits_at(cell.slot, cell.column)
        opacity = cell.painter.opacity()
        if waits:
            cell.painter.setOpacity(1.0)
            left = self._clock(cell, to, left, right)
        text = to if waits else f"{to} …"
        text = ink.slanted_metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(right - left))
        cell.painter.setPen(ink.warn if waits else ink.accent)
        cell.painter.setFont(ink.slanted)
        cell.font = ink.slanted
        align = Qt.AlignmentFlag.AlignRight if cell.shown.right else Qt.AlignmentFlag.AlignLeft
        area = QRectF(left, cell.top, right - left, cell.height)
        cell.painter.drawText(area, int(align | Qt.AlignmentFlag.AlignVCenter), text)
        cell.painter.setOpacity(opacity)
        return True

    def _clock(self, cell: Cell, to: str, left: float, right: float) -> float:
        """Paints the sign of what waits before its text; where that begins."""
        ink = self.ink
        beside = ink.glyph + ink.gap * 0.5
        at = left
        if cell.shown.right:
            # With room to spare: slanted figures are wider than they say, and would be cut to dots.
            at = max(left, right - ink.slanted_metrics.horizontalAdvance(to) - ink.gap - beside)
        top = cell.top + (cell.height - ink.glyph) / 2
        ink.draw_glyph(cell.painter, "clock", at, top, ink.warn)
        return at + beside

    def _plain(self, cell: Cell, colour: QColor) -> None:
        gap = self.ink.gap
        left, right = cell.left + gap, cell.left + cell.width - gap
        if cell.shown.field and self._promise(cell, left, right):
            return
        text = cell.model.text(cell.slot, cell.column)
        self._put(cell, text, left, right, colour, flush=cell.shown.right)

    def _text(self, cell: Cell) -> None:
        self._plain(cell, self.ink.text)

    def _dim(self, cell: Cell) -> None:
        self._plain(cell, self.ink.dim)

    def _bad(self, cell: Cell) -> None:
        nothing = cell.model.text(cell.slot, cell.column) in ("", "0")
        self._plain(cell, self.ink.dim if nothing else self.ink.bad)

    def _state(self, cell: Cell) -> None:
        ink = self.ink
        left, right = cell.left + ink.gap, cell.left + cell.width - ink.gap
        to = cell.model.pending_at(cell.slot, cell.column)
        word = str(cell.model.value(cell.slot, cell.column) or "")
        colour = ink.state(to or word)
        if to is not None and cell.model.waits_at(cell.slot, cell.column):
            self._promise(cell, left, right)
            return
        top = cell.top + (cell.height - ink.glyph) / 2
        ink.draw_glyph(cell.painter, ink.glyph_of(to or word), left, top, colour)
        left += ink.glyph + ink.gap * 0.8
        if to is not None:
            self._promise(cell, left, right)
        else:
            self._put(cell, cell.model.text(cell.slot, cell.column), left, right, colour, flush=False)

    def _parts(self, cell: Cell) -> None:
        ink, rect = self.ink, cell.rect
        text = cell.model.text(cell.slot, cell.column)
        beside = ink.width("100 %") + ink.gap
        bar = self._bar(rect, beside)
        if bar.width() > ink.gap * 2:
            counts = cell.model.value(cell.slot, cell.column) or ()
            draw_parts(cell.painter, bar, counts, self._unit_colours, ink.raised, self._waiting_colours)
        self._put(cell, text, rect.left() + ink.gap, rect.right() - ink.gap, ink.text, flush=True)

    def _meter(self, cell: Cell) -> None:
        ink, rect = self.ink, cell.rect
        level: Level | None = cell.model.value(cell.slot, cell.column)
        if level is None or not level.text:
            return
        usual = "128/128" if "/" in level.text else "100 %"
        beside = max(ink.width(level.text), ink.width(usual)) + ink.gap
        bar = self._bar(rect, beside)
        if bar.width() > ink.gap * 2:
            draw_meter(cell.painter, bar, level.part, ink.warn if level.hot else ink.accent, ink.raised)
        colour = ink.dim if level.part is None else ink.text
        self._put(cell, level.text, rect.left() + ink.gap, rect.right() - ink.gap, colour, flush=True)

    def _bar(self, rect: QRectF, beside: float) -> QRectF:
        high = max(5.0, round(self.ink.metrics.ascent() * 0.62))
        top = round(rect.top() + (rect.height() - high) / 2)
        return QRectF(rect.left() + self.ink.gap, top, rect.width() - 2 * self.ink.gap - beside, high)

    def _spark(self, cell: Cell) -> None:
        values = cell.model.value(cell.slot, cell.column)
        if values is not None and len(values):
            edge = self.ink.gap
            draw_spark(cell.painter, cell.rect.adjusted(edge, edge, -edge, -edge), values, self.ink.accent)

    def _marks(self, cell: Cell) -> None:
        marks: Marks | None = cell.model.value(cell.slot, cell.column)
        if not marks:
            return
        ink, rect = self.ink, cell.rect
        left = rect.left() + ink.gap / 2
        if marks.colour:
            colour = user_colour(self._theme, marks.colour)
            cell.painter.fillRect(QRectF(rect.left(), rect.top(), ink.gap * 0.75, rect.height()), colour)
            left += ink.gap * 0.75
        top = rect.top() + (rect.height() - ink.glyph) / 2
        for there, name, token in ((marks.star, "star", ink.warn), (marks.bell, "bell", ink.accent)):
            if there:
                ink.draw_glyph(cell.painter, name, left, top, token)
                left += ink.glyph + ink.gap / 2


def user_colour(theme: Theme, number: int) -> QColor:
    """The colour somebody marks rows with, 1 to 9: hues that are evenly apart, as light as the look needs."""
    hue = ((number - 1) * 40 + 8) % 360
    return QColor.fromHsl(hue, 170, 150 if theme.look.dark else 110)
