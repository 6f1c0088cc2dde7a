"""The columns of the table of frames: heads, what they are sorted by, and what there is to say of a frame.

What belongs here: what is so of whole columns.  What may not: Qt's models.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.frameset import FrameSet
from client_gui.views.job_parts.heat import Mode
from client_gui.views.job_parts.unitfilter import UnitSource
from farm.model.states import UnitState
from farm.protocol.rows import FrameRow

Floats = npt.NDArray[np.float64]


class Col(IntEnum):
    """Columns of the table."""

    FRAME = 0
    STATE = 1
    NODE = 2
    TIME = 3
    MEMORY = 4
    TRIES = 5
    COST = 6
    NOTE = 7


HEADS: Final = ("Frame", "State", "Node", "Time", "Memory", "Tries", "Cost", "Why")
RIGHT: Final = frozenset({Col.FRAME, Col.TIME, Col.MEMORY, Col.TRIES, Col.COST})
MODES: Final = {Col.MEMORY: Mode.MEMORY, Col.TRIES: Mode.ATTEMPTS, Col.COST: Mode.COST}
#: States as a list sorted by them shows them: what needs somebody first.
STATE_ORDER: Final = (4, 2, 1, 0, 6, 5, 3)


def source_of(board: JobBoard, frames: FrameSet, seconds: Floats) -> UnitSource:
    """What is known of a step's units, for filters."""
    units, step = frames.units, frames.step
    states = board.states(step)
    if states is None or len(states) != units:
        states = np.full(units, UnitState.BLOCKED, np.uint8)
    return UnitSource(
        frames,
        states,
        seconds,
        board.figures.values(Mode.COST, step, units),
        board.figures.values(Mode.ATTEMPTS, step, units),
        board.figures.nodes(step, units),
        board.node_name,
        board.details.rows_of(step),
    )


def sort_key(board: JobBoard, frames: FrameSet, column: Col, seconds: Floats) -> Floats | None:
    """A figure a unit by which a column is sorted, NaN where nothing is known; None = as units come."""
    step, units = frames.step, frames.units
    if column is Col.FRAME:
        return frames.numbers.astype(np.float64) if frames.numbers is not None else None
    if column is Col.STATE:
        order = np.full(256, 99.0)
        for place, state in enumerate(STATE_ORDER):
            order[state] = place
        states = board.states(step)
        return order[states] if states is not None and len(states) == units else None
    if column is Col.TIME:
        return seconds
    if column is Col.NODE:
        return node_key(board, board.figures.nodes(step, units))
    if column in MODES:
        return board.figures.values(MODES[column], step, units)
    notes = board.details.rows_of(step)
    found = np.full(units, np.nan)
    for place, unit in enumerate(sorted(notes, key=lambda one: note_of(notes[one]))):
        if note_of(notes[unit]) and unit < units:
            found[unit] = place
    return found


def node_key(board: JobBoard, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Places of frames in the order of their nodes' names."""
    numbers, inverse = np.unique(nodes, return_inverse=True)
    names = [board.node_name(int(number)).casefold() for number in numbers]
    rank = np.empty(len(names))
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    found: npt.NDArray[np.float64] = rank[inverse]
    found[nodes == 0] = np.nan
    return found


def note_of(row: FrameRow) -> str:
    """What there is to say of a frame: what went wrong, else why it is as it is, else a warning."""
    if row.failure:
        return f"{row.failure}: {row.reason}" if row.reason else row.failure
    return row.reason or row.warning
