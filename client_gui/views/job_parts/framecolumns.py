"""The columns of the table of frames: heads, what they are sorted by, and what there is to say of a frame.

What belongs here: what is so of whole columns.  What may not: Qt's models.
"""

from __future__ import annotations

from collections.abc import Container
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
#: The figures each column is sorted by, where there are some.
MODE_OF: Final = {**MODES, Col.NODE: Mode.NODE, Col.TIME: Mode.TIME}
#: States as a list sorted by them shows them: what needs somebody first.
STATE_ORDER: Final = (4, 2, 1, 0, 6, 5, 3)


def source_of(
    board: JobBoard,
    frames: FrameSet,
    seconds: Floats,
    needed: Container[object] = tuple(Mode),
    *,
    apart: bool = False,
) -> UnitSource:
    """What is known of a step's units, for filters and orders.

    Args:
        board: The job.
        frames: The step.
        seconds: What its units took.
        needed: Figures that are looked at; others are left out.
        apart: Whether it is to stay as it is now, so that another thread may read it.
    """
    units, step = frames.units, frames.step
    states, figures = board.states(step), board.figures
    if states is None or len(states) != units:
        states = np.full(units, UnitState.BLOCKED, np.uint8)
    rows = board.details.rows_of(step)

    def values(mode: Mode) -> Floats:
        return figures.values(mode, step, units) if mode in needed else np.zeros(0)

    return UnitSource(
        frames,
        states.copy() if apart else states,
        seconds.copy() if apart else seconds,
        values(Mode.COST),
        values(Mode.ATTEMPTS),
        figures.nodes(step, units) if Mode.NODE in needed else np.zeros(0, np.int64),
        board.names_now() if apart else board.node_name,
        dict(rows) if apart else rows,
        values(Mode.MEMORY),
    )


def sort_key(column: Col, source: UnitSource) -> Floats | None:
    """A figure a unit by which a column is sorted, NaN where nothing is known; None = as units come."""
    frames = source.frames
    figures = {
        Col.TIME: source.seconds,
        Col.MEMORY: source.memory,
        Col.TRIES: source.tries,
        Col.COST: source.costs,
    }
    if column in figures:
        return figures[column]
    if column is Col.FRAME:
        return frames.numbers.astype(np.float64) if frames.numbers is not None else None
    if column is Col.STATE:
        order = np.full(256, 99.0)
        for place, state in enumerate(STATE_ORDER):
            order[state] = place
        return order[source.states]
    if column is Col.NODE:
        return node_key(source)
    found = np.full(frames.units, np.nan)
    notes = source.rows
    for place, unit in enumerate(sorted(notes, key=lambda one: note_of(notes[one]))):
        if note_of(notes[unit]) and unit < frames.units:
            found[unit] = place
    return found


def node_key(source: UnitSource) -> npt.NDArray[np.float64]:
    """Places of frames in the order of their nodes' names."""
    numbers, inverse = np.unique(source.nodes, return_inverse=True)
    names = [source.node_name(int(number)).casefold() for number in numbers]
    rank = np.empty(len(names))
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    found: npt.NDArray[np.float64] = rank[inverse]
    found[source.nodes == 0] = np.nan
    return found


def note_of(row: FrameRow) -> str:
    """What there is to say of a frame: what went wrong, else why it is as it is, else a warning."""
    if row.failure:
        return f"{row.failure}: {row.reason}" if row.reason else row.failure
    return row.reason or row.warning
