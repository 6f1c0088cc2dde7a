"""Bars and curves inside of cells.

What belongs here: painting figures into a rectangle.  What may not: tables, models, and text beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from farm.model.states import UnitState

#: Parts of a bar from left to right: what is finished, what is at work, what went wrong, what is left.
PARTS_ORDER = (
    UnitState.DONE,
    UnitState.SKIPPED,
    UnitState.RUNNING,
    UnitState.FAILED,
    UnitState.CANCELED,
    UnitState.QUEUED,
    UnitState.BLOCKED,
)
#: Narrower than this no part of a bar is, so that one failed frame of ten thousand can be seen.
LEAST_PART = 2.0
#: How strongly parts that wait are painted: what is left should look empty.
_WAITING = 0.30
# Plain numbers: comparing members of an enum costs more than the rest.
_WAITS = frozenset({int(UnitState.QUEUED), int(UnitState.BLOCKED)})
_FAILED = int(UnitState.FAILED)


def part_widths(counts: Sequence[int], width: float) -> list[tuple[int, float]]:
    """How wide each part of a bar is, by state, from left to right; parts of nothing are left out.

    Small parts are made wide enough to be seen, at the cost of the widest.
    """
    order = [*map(int, PARTS_ORDER), *range(len(UnitState), len(counts))]
    chosen = [(state, counts[state]) for state in order if state < len(counts) and counts[state] > 0]
    total = sum(count for _, count in chosen)
    if not total or width <= 0:
        return []
    least = min(LEAST_PART, width / len(chosen))
    widths = [max(least, width * count / total) for _, count in chosen]
    while (over := sum(widths) - width) > 1e-6:
        widest = widths.index(max(widths))
        if widths[widest] - over >= least:
            widths[widest] -= over
        else:
            widths = [width / len(chosen)] * len(chosen)
    return [(state, wide) for (state, _), wide in zip(chosen, widths, strict=True)]


@lru_cache(maxsize=4096)
def _kept_widths(counts: tuple[int, ...], width: float) -> tuple[tuple[int, float], ...]:
    """As ``part_widths``: few of the bars on a screen change between two paints."""
    return tuple(part_widths(counts, width))


def waiting_colours(colours: Sequence[QColor]) -> list[QColor]:
    """Colours as parts that wait have them."""
    found = []
    for colour in colours:
        pale = QColor(colour)
        pale.setAlphaF(_WAITING)
        found.append(pale)
    return found


def draw_parts(
    painter: QPainter,
    rect: QRectF,
    counts: Sequence[int],
    colours: Sequence[QColor],
    empty: QColor,
    waiting: Sequence[QColor] = (),
) -> None:
    """A bar of parts by unit state.

    Args:
        painter: Paints.
        rect: Where.
        counts: By state.
        colours: By state; the last one stands for all that follow.
        empty: Behind it.
        waiting: ``waiting_colours(colours)``, of whoever keeps them.
    """
    painter.fillRect(rect, empty)
    pale = waiting or waiting_colours(colours)
    left, top, height = rect.left(), rect.top(), rect.height()
    most = len(colours) - 1
    for state, wide in _kept_widths(tuple(counts), rect.width()):
        colour = (pale if state in _WAITS else colours)[min(state, most)]
        painter.fillRect(QRectF(left, top, wide, height), colour)
        if state == _FAILED:
            # Not colour alone: a notch on top.
            painter.fillRect(QRectF(left, top - 2, max(wide, LEAST_PART), 2), colour)
        left += wide


def draw_meter(painter: QPainter, rect: QRectF, part: float | None, colour: QColor, empty: QColor) -> None:
    """A bar from empty to full; only its outline while nothing is known."""
    if part is None:
        painter.setPen(QPen(empty, 1, Qt.PenStyle.DotLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5))
        return
    painter.fillRect(rect, empty)
    wide = rect.width() * max(0.0, min(1.0, part))
    if wide > 0:
        painter.fillRect(QRectF(rect.left(), rect.top(), max(1.0, wide), rect.height()), colour)


def draw_spark(painter: QPainter, rect: QRectF, values: npt.ArrayLike, colour: QColor) -> None:
    """A small curve from 0 to the largest value; gaps where a value is not known (NaN)."""
    points = np.asarray(values, np.float64)
    known = np.isfinite(points)
    if not known.any() or rect.width() <= 0:
        return
    most = float(points[known].max()) or 1.0
    apart = rect.width() / max(1, len(points) - 1)
    xs = rect.left() + np.arange(len(points)) * apart
    ys = rect.bottom() - np.where(known, points, 0) / most * rect.height()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(colour, 1.2))
    run: list[QPointF] = []
    for x, y, there in (*zip(xs.tolist(), ys.tolist(), known.tolist(), strict=True), (0.0, 0.0, False)):
        if there:
            run.append(QPointF(x, y))
            continue
        if len(run) == 1:
            painter.drawPoint(run[0])
        elif run:
            painter.drawPolyline(QPolygonF(run))
        run = []
    painter.restore()
