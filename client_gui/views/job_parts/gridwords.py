"""What a frame grid shows, in words: for screen readers.

What belongs here: one text.  What may not: Qt.
"""

from __future__ import annotations

import numpy as np

from client_gui.store.columns import step_address
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.frameset import many, state_word
from client_gui.views.job_parts.heat import MODE_HELP, WRITTEN, Mode


def grid_words(board: JobBoard, mode: Mode) -> str:
    """The current cell, how much is selected, and how many frames are in each state."""
    picked = board.picked
    parts = []
    state = board.state(picked.step, picked.unit) if picked.step else None
    frames = board.frames.get(picked.step)
    if frames is not None and picked.unit >= 0 and state is not None:
        address = step_address(board.job, picked.step)
        to = board.desk.actions.pending("units", (address, picked.unit), "state")
        said = f"frame {frames.name(picked.unit)} of {picked.step}: {state_word(state)}"
        said += f", about to become {to}" if to else ""
        if mode in WRITTEN:
            value = board.figures.one(mode, picked.step, picked.unit)
            said += f", {mode} {WRITTEN[mode](value) if value is not None else 'not known'}"
        elif mode is Mode.NODE:
            value = board.figures.one(Mode.NODE, picked.step, picked.unit)
            said += f", on {board.node_name(int(value))}" if value else ""
        parts.append(said + (", selected" if picked.has(picked.step, picked.unit) else ""))
    parts.append(f"{picked.count} selected")
    counts = np.zeros(256, np.int64)
    for step in board.frames:
        found = board.counts(step)
        if found is not None:
            counts += found
    words = [f"{int(counts[byte])} {state_word(int(byte))}" for byte in np.flatnonzero(counts)]
    parts.append(f"{many(int(counts.sum()), 'frame')}: {', '.join(words)}" if words else "no frames yet")
    parts.append(f"cells show {MODE_HELP[mode]}")
    return "; ".join(parts)
