"""How the farm went, as arrays that plots draw, and in words for those who cannot see plots.

What belongs here: what a reply holds, cut to a range, and its figures.  What may not: asking for it, and
drawing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from farm.protocol.client import SeriesReply
from farm.sdk.words import price_text

Values = npt.NDArray[np.float64]
#: Ranges that can be chosen: word and seconds.
RANGES: Final[dict[str, float]] = {
    "1 h": 3600.0,
    "6 h": 21600.0,
    "24 h": 86400.0,
    "7 d": 604800.0,
    "30 d": 2592000.0,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a plot.

    Attributes:
        name: What it is, in words: ``cores in use``.
        token: Of its colour.
        values: One for each moment.
        dashed: Whether it is a bound rather than a measure.
    """

    name: str
    token: str
    values: Values
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    Attributes:
        name: Stable.
        title: With its unit.
        curves: Its lines, back to front.
        stacked: Whether the lines stand on each other.
    """

    name: str
    title: str
    curves: tuple[Curve, ...]
    stacked: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """How the farm went.

    Attributes:
        at_s: Moments, seconds since the epoch, ascending.
        plots: What there is to draw.
    """

    at_s: Values
    plots: tuple[Plot, ...]


#: Colours of projects, in turn; their names stand beside them.
_TURN: Final = ("accent", "good", "warn", "bad", "dim")


def series_of(reply: SeriesReply, range_s: float) -> Series:
    """What to draw of the last so many seconds."""
    at_us = np.array(reply.at_us, np.float64)
    first = int(np.searchsorted(at_us, reply.now_us - range_s * 1e6))

    def some(values: tuple[float, ...]) -> Values:
        found: Values = np.array(values[first:], np.float64)
        return found

    projects = tuple(
        Curve(name or "(none)", _TURN[place % len(_TURN)], some(values))
        for place, (name, values) in enumerate(reply.projects.items())
    )
    plots = [
        Plot(
            "cores",
            "Cores",
            (
                Curve("in service", "dim", some(reply.cores), dashed=True),
                Curve("in use", "accent", some(reply.cores_used)),
            ),
        ),
        Plot(
            "frames",
            "Frames",
            (Curve("waiting", "warn", some(reply.queued)), Curve("running", "good", some(reply.running))),
        ),
        Plot(
            "rates",
            "Frames a minute",
            (
                Curve("done", "good", some(reply.done_s) * 60),
                Curve("failed tries", "bad", some(reply.failed_s) * 60),
            ),
        ),
        Plot("burn", "USD an hour", (Curve("cost of the farm", "warn", some(reply.burn_nano_h) / 1e9),)),
        Plot("nodes", "Nodes", (Curve("in service", "accent", some(reply.nodes)),)),
    ]
    if any(reply.gpus):
        gpus = Plot(
            "gpus",
            "GPUs",
            (
                Curve("in service", "dim", some(reply.gpus), dashed=True),
                Curve("in use", "accent", some(reply.gpus_used)),
            ),
        )
        plots.insert(1, gpus)
    if projects:
        plots.append(Plot("projects", "Cores by project", projects, stacked=True))
    return Series(at_us[first:] / 1e6, tuple(plots))


def number_text(value: float) -> str:
    """A figure as a plot says it: ``812``, ``4.2``."""
    if not np.isfinite(value):
        return "—"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2g}"


def in_words(plot: Plot) -> str:
    """What a plot shows, for those who cannot see it."""
    said = []
    for curve in plot.curves:
        known = curve.values[np.isfinite(curve.values)]
        if not len(known):
            continue
        last, least, most = (
            price_text(round(value * 1e9)) if plot.name == "burn" else number_text(value)
            for value in (float(known[-1]), float(known.min()), float(known.max()))
        )
        said.append(f"{curve.name} {last} now, between {least} and {most}")
    return f"{plot.title}: " + ("; ".join(said) or "nothing yet")


def stacked(curves: tuple[Curve, ...]) -> list[Values]:
    """Upper edges of curves that stand on each other, bottom first."""
    edges: list[Values] = []
    below: Values = np.zeros(len(curves[0].values) if curves else 0)
    for curve in curves:
        below = below + np.nan_to_num(curve.values)
        edges.append(below)
    return edges
