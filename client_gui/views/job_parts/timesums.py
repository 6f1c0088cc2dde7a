"""Everything the panel of frame times shows, summed up over a step's frames in one go.

What belongs here: the sums and their record.  What may not: Qt, and reading the farm: this may run in another
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from client_gui.store import times
from client_gui.views.job_parts.nodetimes import node_times

Floats = npt.NDArray[np.float64]
#: Bins of a histogram.
BINS: Final = 24
#: Points of a line that is kept for drawing; more than any screen has room for.
POINTS: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Frame times in frame order, thinned out to what can be drawn.

    Attributes:
        known: In a few numbers; None when none is known.
        most, mean: The longest and the mean of each point's frames.
    """

    known: times.Statistics | None
    most: Floats
    mean: Floats


@dataclass(frozen=True, slots=True, eq=False)
class TimeSums:
    """Frame times summed up.

    Attributes:
        line: In frame order.
        bins: By how long they took.
        slowest: Units and seconds, the longest first.
        nodes: Nodes beside each other, the slowest first.
        numbers: Numbers of the nodes by their names.
    """

    line: Line
    bins: times.Histogram
    slowest: list[tuple[int, float]]
    nodes: list[times.NodeTimes]
    numbers: dict[str, int]


def line_of(seconds: Floats) -> Line:
    """Frame times thinned out."""
    known = times.statistics(seconds)
    if len(seconds) <= POINTS:
        return Line(known, seconds, seconds)
    return Line(known, times.sparkline(seconds, POINTS), means(seconds, POINTS))


def time_sums(
    units: npt.NDArray[Any],
    seconds: Floats,
    nodes: npt.NDArray[np.int64],
    name_of: Callable[[int], str],
    slowest: int,
) -> TimeSums:
    """Sums up frame times.

    Args:
        units: The units that are looked at.
        seconds, nodes: What each of them took, and where.
        name_of: The name of a node.
        slowest: How many of the slowest.
    """
    return TimeSums(
        line_of(seconds),
        times.histogram(seconds, BINS),
        times.slowest(*longest(units, seconds, slowest), slowest),
        node_times(nodes, seconds, name_of),
        {name_of(int(number)): int(number) for number in np.unique(nodes[nodes > 0]).tolist()},
    )


def longest(units: Any, seconds: Any, count: int) -> tuple[Any, Any]:
    """Of many frames the few that can be among the slowest, so that only those are sorted."""
    known = np.flatnonzero(np.isfinite(seconds))
    if len(known) <= 16 * count:
        return units, seconds
    least = np.partition(seconds[known], -count)[-count]
    some = known[seconds[known] >= least]
    return units[some], seconds[some]


def means(seconds: Floats, points: int) -> Floats:
    """Frame times in frame order as so many means; NaN where none of a point's frames is known."""
    if len(seconds) <= points:
        return seconds
    bounds = np.arange(points) * len(seconds) // points
    known = np.isfinite(seconds)
    sums = np.add.reduceat(np.where(known, seconds, 0.0), bounds)
    counts = np.add.reduceat(known.astype(np.int64), bounds)
    found: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return found
