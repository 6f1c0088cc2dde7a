"""A byte per cell for each step of a frame grid, kept up to date, and pictures of parts of it.

What belongs here: bytes by mode, their lines in a picture, and what the modes' legends say.  What may not:
widgets; nothing here knows what is on the screen but the width of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QColor, QImage

from client_gui.style.theme import NO_CELL, Theme
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.heat import (
    UNKNOWN,
    Mode,
    Scale,
    heat_bytes,
    node_bytes,
    ranked_nodes,
    scale_of,
)

Bytes = npt.NDArray[np.uint8]
#: Share of a full turn between the hues of two nodes in a row: neighbours differ as much as they can.
_GOLDEN: Final = 0.618034
#: So many changes go into one scale.
_KEPT_MOST: Final = 10


@dataclass(slots=True)
class _Sheet:
    """The bytes of a step as lines of a picture: ``flat`` is one after another, ``lines`` what is drawn."""

    flat: Bytes
    lines: Bytes
    columns: int = 0


@dataclass(frozen=True, slots=True)
class GridLegend:
    """What the bytes mean.

    Attributes:
        mode: What is shown.
        scale: Of heat.
        nodes: Of the nodes' mode: number and frames of each node that has its own colour.
        others: Frames on other nodes.
        unknown: Frames of which nothing is known.
        counts: Of the states' mode: frames by byte.
    """

    mode: Mode
    scale: Scale | None = None
    nodes: tuple[tuple[int, int], ...] = ()
    others: int = 0
    unknown: int = 0
    counts: tuple[tuple[int, int], ...] = field(default=())


def node_colours(theme: Theme, count: int) -> list[QColor]:
    """As many colours as there are nodes, as different as they can be, as light as the look's accents."""
    accent = theme.colour("accent")
    lightness = 0.64 if theme.look.dark else 0.42
    return [
        QColor.fromHslF((accent.hslHueF() + place * _GOLDEN) % 1.0, 0.58 if place % 2 else 0.42, lightness)
        for place in range(count)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A mode worked out.

    Attributes:
        legend: What its bytes mean.
        flats: Bytes of each step's units.
    """

    legend: GridLegend
    flats: dict[str, Bytes]


def made_of_figures(mode: Mode, values: Mapping[str, npt.NDArray[np.float64]]) -> Made:
    """Works out a heat of figures by step, NaN where none is known."""
    figures = np.concatenate([*values.values()]) if values else np.zeros(0)
    scale = scale_of(figures, whole=mode is Mode.ATTEMPTS)
    known = scale.known if scale is not None else 0
    legend = GridLegend(mode, scale, unknown=len(figures) - known)
    return Made(legend, {step: heat_bytes(found, scale) for step, found in values.items()})


def made_of_nodes(nodes: Mapping[str, npt.NDArray[np.int64]]) -> Made:
    """Works out which frames are whose, by step; 0 where no node is known."""
    every = np.concatenate([*nodes.values()]) if nodes else np.zeros(0, np.int64)
    ranked = ranked_nodes(every)
    known = int(np.count_nonzero(every))
    legend = GridLegend(
        Mode.NODE,
        nodes=tuple(ranked),
        others=known - sum(count for _, count in ranked),
        unknown=len(every) - known,
    )
    return Made(legend, {step: node_bytes(found, ranked) for step, found in nodes.items()})


class GridPicture:
    """Bytes of all steps in one mode.

    Attributes:
        mode: What is shown.
    """

    def __init__(self, board: JobBoard, theme: Theme) -> None:
        self.mode = Mode.STATE
        self._board = board
        self._theme = theme
        self._sheets: dict[str, _Sheet] = {}
        self._legend: GridLegend | None = None
        self._colours: list[int] | None = None
        self._kept = 0

    def set_mode(self, mode: Mode) -> None:
        """Shows something else."""
        self.mode = mode
        self.forget()

    @property
    def units(self) -> int:
        """Cells of all steps."""
        return sum(frames.units for frames in self._board.frames.values())

    def work(self, mode: Mode) -> Callable[[], Made]:
        """What is to be worked out to show a mode: may be called in another thread.

        Figures are as they are now; ``take`` shows what comes of it.
        """
        figures = self._board.figures
        sizes = {step: frames.units for step, frames in self._board.frames.items()}
        if mode is Mode.NODE:
            return partial(made_of_nodes, {step: figures.nodes(step, units) for step, units in sizes.items()})
        return partial(
            made_of_figures, mode, {step: figures.values(mode, step, units) for step, units in sizes.items()}
        )

    def take(self, made: Made) -> None:
        """Shows what was worked out."""
        self.mode = made.legend.mode
        self.forget()
        self._legend = made.legend
        self._sheets = {step: _Sheet(flat, flat[:0]) for step, flat in made.flats.items()}

    def forget(self) -> None:
        """Everything is to be made anew: another job, mode or look."""
        self._sheets.clear()
        self._legend = None
        self._colours = None

    def restyle(self) -> None:
        """Colours are others."""
        self._colours = None

    def note_states(self, step: str, units: Any) -> None:
        """States changed (None = any of the step)."""
        if self.mode is Mode.STATE:
            self._note(step, units)

    def note_figures(self, step: str, units: Any, *, keep: bool = False) -> bool:
        """Figures changed (None = any of the step).

        A few go into the scale there is; now and then, and when they are many, the scale is to be made anew.

        Args:
            step: The step.
            units: The units.
            keep: Whether what is shown stays until somebody has worked it out anew (``work``).

        Returns:
            Whether it is to be made anew.
        """
        if self.mode is Mode.STATE:
            return False
        sheet = self._sheets.get(step)
        few = units is not None and len(units) * 20 <= self._board.frames[step].units
        self._kept += 1
        if (
            sheet is None
            or not few
            or self._legend is None
            or self._kept > _KEPT_MOST
            or self.mode is Mode.NODE
        ):
            self._kept = 0
            if not keep:
                self.forget()
            return True
        values = self._board.figures.some(self.mode, step, units)
        self._set(sheet, units, heat_bytes(values, self._legend.scale))
        return False

    def _note(self, step: str, units: Any) -> None:
        self._legend = None
        sheet = self._sheets.get(step)
        states = self._board.states(step)
        if sheet is None:
            return
        if units is None or states is None or len(states) != len(sheet.flat):
            del self._sheets[step]
            return
        self._set(sheet, units, states[units])

    @staticmethod
    def _set(sheet: _Sheet, units: Any, found: Bytes) -> None:
        sheet.flat[units] = found
        if sheet.columns:
            sheet.lines[units // sheet.columns, units % sheet.columns] = found

    # -- bytes --

    def byte(self, step: str, unit: int) -> int:
        """The byte of a cell."""
        return int(self.flat(step)[unit])

    def flat(self, step: str) -> Bytes:
        """The bytes of a step's units; not to be written to."""
        return self._sheet(step).flat

    def _sheet(self, step: str) -> _Sheet:
        sheet = self._sheets.get(step)
        if sheet is None:
            flat = self._made(step)
            sheet = self._sheets[step] = _Sheet(flat, flat[:0])
        return sheet

    def _made(self, step: str) -> Bytes:
        units = self._board.frames[step].units
        if self.mode is Mode.STATE:
            states = self._board.states(step)
            if states is None or len(states) != units:
                return np.full(units, UNKNOWN, np.uint8)
            return states.copy()
        # Where the step came a moment ago, what is known of it is not worked out yet.
        self.legend()
        found = self._sheets.get(step)
        return found.flat if found is not None else np.full(units, UNKNOWN, np.uint8)

    def legend(self) -> GridLegend:
        """What the bytes mean, over all steps that are shown."""
        if self._legend is None:
            self._legend = self._make_legend()
        return self._legend

    def _make_legend(self) -> GridLegend:
        board = self._board
        sizes = [(step, frames.units) for step, frames in board.frames.items()]
        if self.mode is Mode.STATE:
            counts = np.zeros(256, np.int64)
            for step, _ in sizes:
                found = board.counts(step)
                if found is not None:
                    counts += found
            shown = tuple((int(byte), int(counts[byte])) for byte in np.flatnonzero(counts))
            return GridLegend(self.mode, counts=shown)
        # Both are worked out at once: whoever asks what bytes mean is about to ask for them.
        made = self.work(self.mode)()
        self._sheets = {step: _Sheet(flat, flat[:0]) for step, flat in made.flats.items()}
        return made.legend

    # -- pictures --

    def colours(self) -> list[int]:
        """256 colours for the bytes of this mode."""
        if self._colours is None:
            theme = self._theme
            if self.mode is Mode.STATE:
                self._colours = list(theme.unit_colours())
                self._colours[UNKNOWN] = theme.colour("none").rgba()
            elif self.mode is Mode.NODE:
                found = list(theme.heat_colours())
                nodes = self.legend().nodes
                for place, colour in enumerate(node_colours(theme, len(nodes))):
                    found[place] = colour.rgba()
                found[len(nodes)] = theme.colour("dim").rgba()
                self._colours = found
            else:
                self._colours = list(theme.heat_colours())
        return self._colours

    def colour(self, byte: int) -> QColor:
        """The colour of a byte."""
        return QColor.fromRgba(self.colours()[byte])

    def lines(self, step: str, columns: int, first: int, last: int) -> QImage:
        """Some lines of a step as a picture, a pixel a cell; made over memory that must outlive it.

        Args:
            step: The step.
            columns: Cells in a line.
            first, last: Lines, the last exclusive.
        """
        sheet = self._sheet(step)
        if sheet.columns != columns:
            units = len(sheet.flat)
            count = -(-units // columns)
            # Each line of a picture begins at a multiple of four bytes.
            stride = columns + -columns % 4
            sheet.lines = np.full((count, stride), NO_CELL, np.uint8)
            whole = units // columns
            sheet.lines[:whole, :columns] = sheet.flat[: whole * columns].reshape(whole, columns)
            sheet.lines[whole:, : units - whole * columns] = sheet.flat[whole * columns :]
            sheet.columns = columns
        part = sheet.lines[first:last]
        picture = QImage(part.data, columns, last - first, part.strides[0], QImage.Format.Format_Indexed8)
        picture.setColorTable(self.colours())
        return picture
