"""Where the cells of a frame grid stand: one cell a frame, steps below each other, long ones on many lines.

What belongs here: places, and which cell is next to which.  What may not: Qt, colours, states.

A million cells are a few numbers here: lines and columns are worked out, never listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: With at least so many columns a line has a multiple of ten, so that frames stand in readable blocks.
TENS_FROM: Final = 20
#: Smallest and largest edge of a cell, in device-independent pixels.
LEAST: Final = 1
MOST: Final = 96


@dataclass(frozen=True, slots=True)
class Strip:
    """The cells of one step.

    Attributes:
        step: Its name.
        units: How many cells.
        top: Upper edge.
        first: Upper edge of the first line of cells: they stand in the middle of a strip that is higher.
        lines: On how many lines they stand.
        height: Of the whole strip; at least a line of text.
    """

    step: str
    units: int
    top: int
    first: int
    lines: int
    height: int


@dataclass(frozen=True, slots=True)
class Place:
    """A cell: the step by its number in the grid, and the unit."""

    strip: int
    unit: int


class Cells:
    """Where cells stand.

    Args:
        steps: Names and units, in order; steps without units have an empty strip.
        width: Room, gutter included.
        cell: Edge of a cell.
        gutter: Room for names on the left.
        least: Least height of a strip.
        gap: Between strips.

    Attributes:
        cell, gutter: As given.
        columns: Cells in a full line.
        strips: One per step.
        height: Of all of them.
    """

    def __init__(
        self, steps: Sequence[tuple[str, int]], width: int, cell: int, gutter: int, least: int, gap: int
    ) -> None:
        self.cell = max(LEAST, cell)
        self.gutter = gutter
        self.columns = columns_in(width - gutter, self.cell)
        strips = []
        top = gap
        for step, units in steps:
            lines = -(-units // self.columns)
            height = max(least, lines * self.cell)
            strips.append(Strip(step, units, top, top + (height - lines * self.cell) // 2, lines, height))
            top += height + gap
        self.strips: tuple[Strip, ...] = tuple(strips)
        self.height = top
        self._gap = gap

    def strip_of(self, step: str) -> int:
        """The number of a step, -1 when it has no strip."""
        return next((number for number, strip in enumerate(self.strips) if strip.step == step), -1)

    def strip_at(self, y: int) -> int:
        """The strip at a height, with half of the gaps on either side; -1 beyond them all."""
        for number, strip in enumerate(self.strips):
            if strip.top - self._gap // 2 <= y < strip.top + strip.height + (self._gap + 1) // 2:
                return number
        return -1

    def at(self, x: int, y: int) -> Place | None:
        """The cell at a point; None beside all cells."""
        number = self.strip_at(y)
        if number < 0 or x < self.gutter:
            return None
        strip = self.strips[number]
        column, line = (x - self.gutter) // self.cell, (y - strip.first) // self.cell
        unit = line * self.columns + column
        if not 0 <= column < self.columns or not 0 <= line < strip.lines or unit >= strip.units:
            return None
        return Place(number, unit)

    def nearest(self, x: int, y: int) -> Place | None:
        """The cell nearest to a point: what a drag that left the cells means; None when there is none."""
        full = [number for number, strip in enumerate(self.strips) if strip.units]
        if not full:
            return None

        def away(number: int) -> int:
            strip = self.strips[number]
            return max(strip.top - y, y - (strip.top + strip.height - 1), 0)

        number = min(full, key=away)
        strip = self.strips[number]
        column = min(max((x - self.gutter) // self.cell, 0), self.columns - 1)
        line = min(max((y - strip.first) // self.cell, 0), strip.lines - 1)
        return Place(number, min(line * self.columns + column, strip.units - 1))

    def rect(self, place: Place) -> tuple[int, int, int, int]:
        """Left, top, width and height of a cell."""
        strip = self.strips[place.strip]
        line, column = divmod(place.unit, self.columns)
        return self.gutter + column * self.cell, strip.first + line * self.cell, self.cell, self.cell

    def lines_in(self, strip: Strip, top: int, bottom: int) -> tuple[int, int]:
        """The lines of a strip that lie between two heights: the first, and one past the last."""
        first = (top - strip.first) // self.cell
        last = -(-(bottom - strip.first) // self.cell)
        return min(max(first, 0), strip.lines), min(max(last, 0), strip.lines)

    # -- going from cell to cell --

    def beside(self, place: Place, by: int) -> Place:
        """The cell so many further on in its step; the last (or first) where there are no more."""
        units = self.strips[place.strip].units
        return Place(place.strip, min(max(place.unit + by, 0), max(units - 1, 0)))

    def below(self, place: Place, lines: int) -> Place:
        """The cell so many lines below (above, when negative), in the next step where its own ends."""
        line, column = divmod(place.unit, self.columns)
        number = place.strip
        step = 1 if lines > 0 else -1
        for _ in range(abs(lines)):
            line += step
            if 0 <= line < self.strips[number].lines:
                continue
            other = number + step
            while 0 <= other < len(self.strips) and not self.strips[other].units:
                other += step
            if not 0 <= other < len(self.strips):
                line -= step
                break
            number = other
            line = 0 if step > 0 else self.strips[number].lines - 1
        return Place(number, min(line * self.columns + column, self.strips[number].units - 1))

    def page(self, height: int) -> int:
        """How many lines a page of this height goes on."""
        return max(1, height // self.cell - 1)


def columns_in(width: int, cell: int) -> int:
    """How many cells stand side by side."""
    columns = max(1, width // max(LEAST, cell))
    return columns - columns % 10 if columns >= TENS_FROM else columns


def fitting_cell(
    steps: Sequence[tuple[str, int]],
    width: int,
    height: int,
    gutter: int,
    least: int,
    gap: int,
    sizes: tuple[int, int],
) -> int:
    """The largest edge of a cell with which everything can be seen at once.

    Where even the smallest allowed is too large for that, it is the largest with which there is hardly more
    to scroll: strips are never lower than a line of text.

    Args:
        steps: Names and units.
        width, height: Room.
        gutter, least, gap: As for ``Cells``.
        sizes: Smallest and largest edge.
    """
    low, high = sizes

    def needed(cell: int) -> int:
        return Cells(steps, width, cell, gutter, least, gap).height

    room = max(height, round(needed(low) * 1.1) if needed(low) > height else height)
    return next((cell for cell in range(high, low, -1) if needed(cell) <= room), low)
