"""How fast each node is beside the others, from frames whose node is known by number.

What belongs here: the same figures as ``store.times.by_node``, for a million frames.  What may not: Qt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from client_gui.store.times import COMPARED_FROM, NodeTimes

#: More frames than this are not looked at one by one: medians of so many evenly spread ones are as good.
SAMPLE: Final = 20_000


def node_times(
    nodes: npt.NDArray[np.int64],
    seconds: npt.NDArray[np.float64],
    name_of: Callable[[int], str],
    most: int = 8,
) -> list[NodeTimes]:
    """Frame times of the slowest nodes beside those of all others, slowest first.

    Args:
        nodes: Number of each frame's node, 0 for none.
        seconds: What each frame took, NaN where not known.
        name_of: The name of a node.
        most: How many nodes.
    """
    known = np.flatnonzero((nodes > 0) & np.isfinite(seconds) & (seconds >= 0))
    counts_of = dict(zip(*map(np.ndarray.tolist, np.unique(nodes[known], return_counts=True)), strict=True))
    if len(known) > SAMPLE:
        known = known[np.arange(SAMPLE) * len(known) // SAMPLE]
    numbers, values = nodes[known], seconds[known]
    order = np.lexsort((values, numbers))
    numbers, values = numbers[order], values[order]
    firsts = (
        np.flatnonzero(np.concatenate([[True], np.diff(numbers) != 0]))
        if len(numbers)
        else np.zeros(0, np.int64)
    )
    groups = np.split(values, firsts[1:]) if len(values) else []
    found = []
    for first, mine in zip(firsts.tolist(), groups, strict=True):
        number = int(numbers[first])
        found.append((float(np.median(mine)), name_of(number), number, mine, first))
    found.sort(key=lambda one: (-one[0], one[1]))
    told = []
    for median, name, number, mine, first in found[:most]:
        ratio = None
        others = np.concatenate([values[:first], values[first + len(mine) :]])
        if (
            len(mine) >= COMPARED_FROM
            and len(others) >= COMPARED_FROM
            and (middle := float(np.median(others))) > 0
        ):
            ratio = median / middle
        told.append(NodeTimes(name, int(counts_of[number]), float(mine.mean()), median, ratio))
    return told


def ratio_words(ratio: float | None) -> str:
    """A ratio in words: ``1.8× slower``, ``1.3× faster``, ``as the others``; "" when it is not known."""
    if ratio is None or ratio <= 0:
        return ""
    if ratio >= 1.15:
        return f"{ratio:.1f}× slower"
    if ratio <= 1 / 1.15:
        return f"{1 / ratio:.1f}× faster"
    return "as the others"


def ratio_said(ratio: float | None) -> str:
    """A ratio as part of a sentence: ``1.8× slower than the others``."""
    words = ratio_words(ratio)
    return f"{words} than the others" if words.endswith("er") else words.replace("as", "as fast as")
