"""What the Preview dock says: in place of a picture, and of the frame below it.

What belongs here: these words.  What may not: Qt, asking, and pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

from client_gui.views.preview_parts.loader import NONE_YET
from farm.protocol.client import FrameRow
from farm.sdk.words import duration_text


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown.

    Attributes:
        job, step: Of what; 0 and "" for nothing.
        name: The frame's number, or the name of its step; "" while no frame is shown.
        state: Its state in words.
        loading: What is known of its picture (``PreviewLoader.text``).
        any_done: Whether a frame of the step is done; None while the step is not known.
        live: Whether the farm can be asked.
    """

    job: int
    step: str
    name: str
    state: str
    loading: str
    any_done: bool | None
    live: bool


def instead_of_picture(shown: Shown) -> str:
    """What is said in place of a picture."""
    if not shown.job:
        return "Choose a job to see what it renders."
    if not shown.step:
        return f"J{shown.job} has no steps here yet."
    if not shown.name:
        if shown.any_done is False:
            where = f"J{shown.job}/{shown.step}"
            return f"No frame of {where} is done yet. Pictures appear here as frames are finished."
        return "Looking for the newest frame …" if shown.live else "There is no connection."
    text = shown.loading
    if shown.state not in ("done", "unknown") and text in ("…", NONE_YET):
        return f"{shown.name} is {shown.state}: there is no picture yet."
    if text == NONE_YET:
        return f"{shown.name} is done, but no picture of it was made."
    if text == "…":
        return "Loading …"
    return text if text == "not connected" else f"The picture of {shown.name} cannot be shown: {text}"


def said_of(row: FrameRow | None) -> list[str]:
    """What is said of a frame besides its number and state."""
    if row is None:
        return []
    parts = [row.node] if row.node else []
    parts += [duration_text(row.elapsed_s)] if row.elapsed_s is not None else []
    if row.verified is not None:
        parts.append("✓ verified" if row.verified else "✕ not verified")
    return [*parts, *([row.warning] if row.warning else [])]


def step_from(done: list[int], unit: int, by: int) -> int:
    """The next frame that has a picture, or the one before, round and round.

    Args:
        done: Units that have one, in order; at least one.
        unit: Where one is; -1 for nowhere.
        by: 1 or -1.
    """
    if unit in done:
        return done[(done.index(unit) + by) % len(done)]
    after = [place for place, other in enumerate(done) if other > unit]
    if by > 0:
        return done[after[0] if after else 0]
    return done[after[0] - 1 if after else len(done) - 1]
