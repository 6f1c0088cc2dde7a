"""Figures about frame times: how long frames take, which take longest, and where.

What belongs here: statistics over arrays of seconds; what is not known is NaN and left out.  What may not:
plots and Qt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
#: A frame is slow that takes more than so many medians, and so many seconds beyond the median: where frames
#: take a moment, three moments are nothing to look into.
SLOW_TIMES: Final = 3.0
SLOW_LEAST_S: Final = 5.0
#: A node with fewer frames than this is not compared with others.
COMPARED_FROM: Final = 3


@dataclass(frozen=True, slots=True)
class Statistics:
    """Frame times in a few numbers, all in seconds."""

    count: int
    total_s: float
    mean_s: float
    median_s: float
    p95_s: float
    least_s: float
    most_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How many frames took how long.

    Attributes:
        edges_s: Edges of the bins, one more than there are bins.
        counts: Frames per bin; the last bin has those that took longer too.
    """

    edges_s: Seconds
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """A node's frame times beside those of all nodes.

    Attributes:
        node: Its name.
        count: Frames it finished.
        mean_s, median_s: Of its frames.
        ratio: Its median over the median of the other nodes' frames; None when too few can be compared.
    """

    node: str
    count: int
    mean_s: float
    median_s: float
    ratio: float | None


def _known(seconds: npt.ArrayLike) -> Seconds:
    values = np.asarray(seconds, np.float64)
    found: Seconds = values[np.isfinite(values) & (values >= 0)]
    return found


def statistics(seconds: npt.ArrayLike) -> Statistics | None:
    """Frame times in a few numbers; None when none is known."""
    known = _known(seconds)
    if not len(known):
        return None
    median, p95 = np.percentile(known, (50, 95))
    return Statistics(
        len(known),
        float(known.sum()),
        float(known.mean()),
        float(median),
        float(p95),
        float(known.min()),
        float(known.max()),
    )


def histogram(seconds: npt.ArrayLike, bins: int = 20) -> Histogram:
    """How many frames took how long, in bins of equal width.

    Bins end at three times the 95th percentile: one frame that took a day must not press all others into the
    first bin.
    """
    known = _known(seconds)
    if not len(known):
        return Histogram(np.zeros(bins + 1), np.zeros(bins, np.int64))
    low = float(known.min())
    high = min(float(known.max()), max(float(np.percentile(known, 95)) * 3, low))
    if high <= low:
        high = low + max(low, 1.0) * 1e-3
    counts, edges = np.histogram(np.clip(known, low, high), bins, (low, high))
    return Histogram(edges, counts.astype(np.int64))


def sparkline(seconds: npt.ArrayLike, points: int) -> Seconds:
    """Frame times in frame order as so many points; NaN where none of a point's frames is known.

    Each point is the longest of its frames: what stands out must not be lost by taking means.
    """
    values = np.asarray(seconds, np.float64)
    if points <= 0:
        return np.empty(0)
    if len(values) <= points:
        return np.where(np.isfinite(values), values, np.nan)
    bounds = np.arange(points) * len(values) // points
    lows = np.where(np.isfinite(values), values, -np.inf)
    found: Seconds = np.maximum.reduceat(lows, bounds)
    found[~np.isfinite(found)] = np.nan
    return found


def slowest(frames: npt.ArrayLike, seconds: npt.ArrayLike, count: int = 10) -> list[tuple[int, float]]:
    """The frames that took longest and their seconds, longest first; of equals the first frame."""
    numbers, values = np.asarray(frames), np.asarray(seconds, np.float64)
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.lexsort((known, -values[known]))][: max(0, count)]
    return [(int(numbers[place]), float(values[place])) for place in order]


def slow_from_s(median_s: float) -> float:
    """Seconds beyond which a frame is called slow, of so many that frames take at the median."""
    return max(median_s * SLOW_TIMES, median_s + SLOW_LEAST_S)


def outliers(seconds: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which frames are slow beside the others."""
    values = np.asarray(seconds, np.float64)
    found = statistics(values)
    if found is None:
        return np.zeros(len(values), np.bool_)
    with np.errstate(invalid="ignore"):
        slow: npt.NDArray[np.bool_] = values > slow_from_s(found.median_s)
    return slow


def by_node(nodes: Sequence[str], seconds: npt.ArrayLike) -> list[NodeTimes]:
    """Frame times of each node beside those of the others, the slowest first.

    Args:
        nodes: The node of each frame, "" where none is known.
        seconds: What each frame took.
    """
    values = np.asarray(seconds, np.float64)
    names = np.array(nodes, dtype=object)
    counts = np.isfinite(values) & (values >= 0) & (names != "")
    values, names = values[counts], names[counts]
    found = []
    for name in sorted(set(names.tolist())):
        own = names == name
        mine, others = values[own], values[~own]
        ratio = None
        if len(mine) >= COMPARED_FROM and len(others) >= COMPARED_FROM and np.median(others) > 0:
            ratio = float(np.median(mine) / np.median(others))
        found.append(NodeTimes(name, len(mine), float(mine.mean()), float(np.median(mine)), ratio))
    found.sort(key=lambda one: (-one.median_s, one.node))
    return found
