"""What a frame grid shows besides states: how long, how much, how often, where, and what for.

What belongs here: turning a figure per frame into a byte per frame, and saying in words what the bytes mean.
What may not: Qt and colours.

A scale ends at the 95th percentile: one frame that took a day must not make all others look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from client_gui.views.job_parts.frameset import many
from farm.sdk.words import duration_text, mib_text, price_text

Bytes = npt.NDArray[np.uint8]
Figures = npt.NDArray[np.float64]

#: Last byte of a heat; the next one is for what is not known (``Theme.heat_colours``).
TOP: Final = 253
UNKNOWN: Final = 254
#: So many nodes have a colour of their own; all others share the next byte.
NODES_SHOWN: Final = 20


class Mode(StrEnum):
    """What the cells show."""

    STATE = "state"
    TIME = "time"
    MEMORY = "memory"
    ATTEMPTS = "attempts"
    NODE = "node"
    COST = "cost"


#: What each mode shows, in words.
MODE_HELP: Final[Mapping[Mode, str]] = {
    Mode.STATE: "the state of each frame",
    Mode.TIME: "how long the last finished attempt took",
    Mode.MEMORY: "most memory an attempt held",
    Mode.ATTEMPTS: "how many attempts a frame took",
    Mode.NODE: "the node of the last attempt",
    Mode.COST: "what a frame has cost, waste included",
}


@dataclass(frozen=True, slots=True)
class Scale:
    """What the ends of a heat mean.

    Attributes:
        low, high: Figures at its ends; what is above has the colour of the upper end.
        most: Largest figure there is.
        known: How many frames have a figure.
        above: How many are above the upper end.
    """

    low: float
    high: float
    most: float
    known: int
    above: int


def scale_of(figures: Figures, *, whole: bool = False) -> Scale | None:
    """The scale that suits some figures; None when none is known.

    Args:
        figures: One a frame, NaN where none is known.
        whole: They are small whole numbers: 1, 2, 3 must be told apart however rare they are.
    """
    known = figures[np.isfinite(figures)]
    if not len(known):
        return None
    low, most = float(known.min()), float(known.max())
    high = float(np.percentile(known, 95))
    if whole:
        low = min(low, 1.0)
        high = min(most, max(high, 4.0))
    if high <= low:
        # All but a few are alike: those few must be seen.
        high = most if most > low else low + max(abs(low), 1.0)
    return Scale(low, high, most, len(known), int((known > high).sum()))


def heat_bytes(figures: Figures, scale: Scale | None) -> Bytes:
    """A byte per frame: 0 to ``TOP`` from little to much, ``UNKNOWN`` where nothing is known."""
    found = np.full(len(figures), UNKNOWN, np.uint8)
    if scale is None:
        return found
    known = np.isfinite(figures)
    part = (figures[known] - scale.low) / (scale.high - scale.low)
    found[known] = np.rint(np.clip(part, 0.0, 1.0) * TOP).astype(np.uint8)
    return found


def ranked_nodes(nodes: npt.NDArray[np.int64], most: int = NODES_SHOWN) -> list[tuple[int, int]]:
    """Nodes by number and how many frames each has, those with most frames first."""
    numbers, counts = np.unique(nodes[nodes > 0], return_counts=True)
    order = np.lexsort((numbers, -counts))[:most]
    return [(int(numbers[place]), int(counts[place])) for place in order]


def node_bytes(nodes: npt.NDArray[np.int64], ranked: list[tuple[int, int]]) -> Bytes:
    """A byte per frame: its node's place in the ranking, one past it for others, ``UNKNOWN`` for none."""
    found = np.full(len(nodes), UNKNOWN, np.uint8)
    found[nodes > 0] = len(ranked)
    for place, (node, _) in enumerate(ranked):
        found[nodes == node] = place
    return found


# -- in words --


def _count_text(value: float) -> str:
    return str(round(value))


def _price_text(value: float) -> str:
    return price_text(round(value))


def _memory_text(value: float) -> str:
    return mib_text(round(value))


#: How a figure of each mode is written.
WRITTEN: Final[Mapping[Mode, Callable[[float], str]]] = {
    Mode.TIME: duration_text,
    Mode.MEMORY: _memory_text,
    Mode.ATTEMPTS: _count_text,
    Mode.COST: _price_text,
}


def scale_words(mode: Mode, scale: Scale | None) -> tuple[str, str, str]:
    """What the ends of a heat are, and what else is to be said of it."""
    if scale is None:
        return "", "", f"no frame has a figure for {mode} yet"
    write = WRITTEN[mode]
    note = f"{many(scale.known, 'frame')} known"
    if scale.above:
        note = f"{many(scale.above, 'frame')} above, up to {write(scale.most)}"
    upper = f"{write(scale.high)}{' and more' if scale.above else ''}"
    return write(scale.low), upper, note
