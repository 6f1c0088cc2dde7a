"""Selecting by state: what Alt+1 to Alt+8 do, in the grid and in the table.

What belongs here: turning a word into frames.  What may not: keys and widgets.
"""

from __future__ import annotations

import numpy as np

from client_gui.views.job_parts.board import JobBoard
from farm.model.states import UnitState


def select_word(board: JobBoard, word: str) -> None:
    """Selects every frame of the job in a state (``left``: all that is not done yet); goes to the first."""
    wanted = [state for state in UnitState if state.word == word] or [
        UnitState.QUEUED,
        UnitState.BLOCKED,
        UnitState.RUNNING,
        UnitState.FAILED,
    ]
    picked = board.picked
    first: tuple[str, int] | None = None
    picked.clear()
    for step in board.frames:
        states = board.states(step)
        if states is None:
            continue
        units = np.flatnonzero(np.isin(states, np.array(wanted, np.uint8)))
        if len(units):
            picked.select(step, units, add=True)
            first = first or (step, int(units[0]))
    if first is not None and not picked.has(picked.step, picked.unit):
        picked.move(*first)
