"""Figures of the frames of a job's steps: seconds, memory, attempts, nodes, money; by step, as arrays.

What belongs here: one feed per step that is looked at, and its arrays in the form charts and heats take them.
What may not: asking the broker (``net.unitfeed`` does), and drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject

from client_gui.net.client import FarmClient
from client_gui.net.unitfeed import UnitFeed
from client_gui.views.job_parts.heat import Mode

Floats = npt.NDArray[np.float64]
#: So many steps have figures at the same time: a job of a hundred steps does not ask a hundred things.
FEEDS_MOST: Final = 12


class Columns(Protocol):
    """What a feed has of each unit."""

    elapsed_s: npt.NDArray[Any]
    ram_mib: npt.NDArray[Any]
    attempts: npt.NDArray[Any]
    node: npt.NDArray[Any]
    cost_nano: npt.NDArray[Any]


#: Called with the step and the units whose figures changed (None = any).
Told = Callable[[str, Any], None]


class JobFigures(QObject):
    """Figures of the steps of one job.

    Args:
        client: The farm.
        told: Whom to tell of changes.
    """

    def __init__(self, client: FarmClient, told: Told, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._told = told
        self._job = 0
        self._feeds: dict[str, UnitFeed] = {}

    def want(self, job: int, steps: Iterable[str]) -> None:
        """Says whose figures are looked at; all others are let go."""
        wanted = list(dict.fromkeys(steps))[:FEEDS_MOST] if job else []
        if job != self._job:
            for step in list(self._feeds):
                self._drop(step)
        self._job = job
        for step in [known for known in self._feeds if known not in wanted]:
            self._drop(step)
        for step in wanted:
            if step not in self._feeds:
                feed = UnitFeed(self._client, self)
                feed.changed.connect(lambda units, step=step: self._told(step, units))
                self._feeds[step] = feed
                feed.open(job, step)

    def _drop(self, step: str) -> None:
        feed = self._feeds.pop(step)
        feed.changed.disconnect()
        feed.close()
        feed.deleteLater()

    def columns(self, step: str) -> Columns | None:
        """What is known of a step's units; None while nothing is."""
        feed = self._feeds.get(step)
        return feed.columns if feed is not None else None

    def loading(self, step: str) -> bool:
        """Whether the figures are on their way."""
        feed = self._feeds.get(step)
        return feed is not None and feed.loading

    def trouble(self, step: str) -> str:
        """Why they do not come, "" while nothing speaks against it."""
        feed = self._feeds.get(step)
        return str(getattr(feed, "trouble", "")) if feed is not None else ""

    # -- as arrays of a step's length --

    def seconds(self, step: str, units: int) -> Floats:
        """Seconds by unit, NaN where none are known."""
        return self.values(Mode.TIME, step, units)

    def nodes(self, step: str, units: int) -> npt.NDArray[np.int64]:
        """Numbers of nodes by unit, 0 for none."""
        found = np.zeros(units, np.int64)
        columns = self.columns(step)
        if columns is not None:
            count = min(units, len(columns.node))
            found[:count] = columns.node[:count]
        return found

    def values(self, mode: Mode, step: str, units: int) -> Floats:
        """The figures a mode shows, NaN where there are none."""
        found = np.full(units, np.nan)
        columns = self.columns(step)
        source = _source(columns, mode) if columns is not None else None
        if source is None:
            return found
        count = min(units, len(source))
        found[:count] = source[:count]
        # What an attempt never told of is not nothing: it is not known.
        least = 0 if mode is Mode.TIME else 1
        with np.errstate(invalid="ignore"):
            found[found < least] = np.nan
        return found

    def some(self, mode: Mode, step: str, units: npt.NDArray[np.int64]) -> Floats:
        """The figures of some units, as ``values`` has them."""
        found = np.full(len(units), np.nan)
        columns = self.columns(step)
        source = _source(columns, mode) if columns is not None else None
        if source is None:
            return found
        there = units < len(source)
        found[there] = source[units[there]]
        with np.errstate(invalid="ignore"):
            found[found < (0 if mode is Mode.TIME else 1)] = np.nan
        return found

    def one(self, mode: Mode, step: str, unit: int) -> float | None:
        """One figure; None where it is not known."""
        columns = self.columns(step)
        if columns is None or not 0 <= unit < len(columns.elapsed_s):
            return None
        source = columns.node if mode is Mode.NODE else _source(columns, mode)
        if source is None:
            return None
        value = float(source[unit])
        if not np.isfinite(value) or value < (0 if mode is Mode.TIME else 1):
            return None
        return value


def _source(columns: Columns, mode: Mode) -> npt.NDArray[Any] | None:
    """The column a mode of heat shows."""
    return {
        Mode.TIME: columns.elapsed_s,
        Mode.MEMORY: columns.ram_mib,
        Mode.ATTEMPTS: columns.attempts,
        Mode.COST: columns.cost_nano,
    }.get(mode)


def node_name(client: FarmClient, number: int) -> str:
    """The name of a node; its number when it is not known (any more)."""
    if number <= 0:
        return ""
    nodes = client.store.nodes
    slot = nodes.slot(number)
    return str(nodes.values("name")[slot]) if slot >= 0 else f"node {number}"
