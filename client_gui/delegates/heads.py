"""Headers of groups between the rows of a table, painted: a mark whether it is open, name, counts, figures.

What belongs here: where in a header what stands, and painting it.  What may not: what it says
(``models.grouped_model``), and what a click on it does.

A header has the same columns as the rows below it, so that sums stand under the heads of what they are sums
of.  Its name takes the room of the columns that say nothing of a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QTableView

from client_gui.delegates.cells import Cell, CellDelegate
from client_gui.delegates.ink import mixed
from client_gui.models.column import Paint
from client_gui.models.grouped_model import GroupedModel
from client_gui.models.order_model import OrderModel

#: The name of a header has at least so many ems, whatever stands in its way.
_NAME_EMS: Final = 9
#: How much of a raised surface a header is.
_RAISED: Final = 0.55


@dataclass(frozen=True, slots=True)
class NameArea:
    """Where the name of headers stands, across.

    Attributes:
        left, right: Edges of the columns it takes.
        text: Where it begins; before it is the mark.
        columns: The columns it takes.
    """

    left: int
    right: int
    text: int
    columns: frozenset[int]


def name_area(view: QTableView, model: OrderModel[Any], cells: CellDelegate) -> NameArea:
    """Where the name of headers stands in a table, as it is scrolled now."""
    across, ink = view.horizontalHeader(), cells.ink
    shown = [
        column
        for place in range(across.count())
        if not across.isSectionHidden(column := across.logicalIndex(place)) and across.sectionSize(column)
    ]
    least = _NAME_EMS * ink.metrics.height()
    left = across.sectionViewportPosition(shown[0]) if shown else 0
    text = left + ink.gap + ink.glyph + ink.gap
    taken: list[int] = []
    wide = 0
    for column in shown:
        if taken and model.columns[column].group is not None and wide >= least:
            break
        taken.append(column)
        wide += across.sectionSize(column)
    if len(taken) > 1 and model.columns[taken[0]].paint is Paint.MARKS:
        # Names of groups begin where names of rows do.
        text = max(text, left + across.sectionSize(taken[0]) + ink.gap)
    return NameArea(left, left + wide, text, frozenset(taken))


class HeadPainter:
    """Paints the headers of a table.

    Args:
        view: The table.
        cells: Paints the cells of rows; those of headers look the same.
        model: Its rows.
        painter: Paints.
        columns: Columns to be painted, with left edge and width.
        high: How high rows are.
    """

    def __init__(
        self,
        view: QTableView,
        cells: CellDelegate,
        model: GroupedModel[Any],
        painter: QPainter,
        columns: list[tuple[int, int, int]],
        high: int,
    ) -> None:
        self._ink = cells.ink
        self._model = model
        self._painter = painter
        self._area = area = name_area(view, model, cells)
        self._back = mixed(self._ink.base, self._ink.raised, _RAISED)
        self._line = QPen(self._ink.line, 1)
        self._font = self._ink.bold.toString()
        self._letter = self._ink.metrics.averageCharWidth()
        self._left, self._wide = columns[0][1], columns[-1][1] + columns[-1][2] - columns[0][1]
        self._high = high
        self._named = any(column in area.columns for column, _, _ in columns)
        #: Columns that say something of a group, with what paints them.
        self._said = [
            (shown, column, left, wide, cells.painters[shown.paint])
            for column, left, wide in columns
            if (shown := model.columns[column]).group is not None and column not in area.columns
        ]
        reader = cast("OrderModel[Any]", model.heads)
        self._cell = Cell(painter, reader, 0, 0, 0, high, model.columns[0], 0, 0)

    def paint(self, slot: int, top: int, back: QColor | None) -> None:
        """Paints one.

        Args:
            slot: What stands in the view for it.
            top: Its upper edge.
            back: What is behind it, when that is not as usual.
        """
        painter, cell = self._painter, self._cell
        painter.fillRect(self._left, top, self._wide, self._high, back or self._back)
        painter.setPen(self._line)
        painter.drawLine(self._left, top, self._left + self._wide - 1, top)
        cell.slot, cell.top, cell.font = slot, top, None
        for cell.shown, cell.column, cell.left, cell.width, paint in self._said:
            paint(cell)
        if self._named:
            self._name(slot, top, self._high)

    def _name(self, slot: int, top: float, high: float) -> None:
        painter, ink, area = self._painter, self._ink, self._area
        group = self._model.heads.group(slot)
        if group is None:
            return
        middle = top + (high - ink.glyph) / 2
        ink.draw_glyph(painter, "right" if group.closed else "down", area.left + ink.gap, middle, ink.dim)
        left, right = float(area.text), area.right - ink.gap
        if group.grouping.by == "state":
            ink.draw_glyph(painter, ink.glyph_of(group.name), left, middle, ink.state(group.name))
            left += ink.glyph + ink.gap * 0.8
        flags = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
        counts = self._model.heads.counts(slot)
        # The name gives way before how many there are, down to some letters of it.
        beside = ink.width(counts) + 2 * ink.gap
        room = max(right - left - beside, min(right - left, 5.0 * self._letter))
        title, wide = _fitted(self._font, self._model.heads.title(slot), int(room))
        painter.setFont(ink.bold)
        painter.setPen(ink.text)
        painter.drawText(QRectF(left, top, right - left, high), flags, title)
        left += wide + 2 * ink.gap
        if right <= left:
            return
        painter.setFont(ink.font)
        painter.setPen(ink.dim)
        piece = ink.piece(counts, int(right - left))
        y = int(top + (high - ink.text_height) / 2)
        if piece.laid_out is not None:
            painter.drawStaticText(int(left), y, piece.laid_out)
        else:
            painter.drawText(int(left), y + ink.ascent, piece.text)


@lru_cache(maxsize=2000)
def _fitted(font: str, text: str, room: int) -> tuple[str, int]:
    """A text as it fits, and how wide that is; few names on a screen change between two paints."""
    made = QFont()
    made.fromString(font)
    metrics = QFontMetrics(made)
    fits = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
    return fits, metrics.horizontalAdvance(fits)
