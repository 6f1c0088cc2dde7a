"""How the farm went lately, for plots: a point every few seconds, coarser ones of what is longer ago.

What belongs here: sampling the core's state a slice at a time, the rings, merging points, the reply.  What
may not: storage (a broker that starts anew begins a new series) and changing anything.

Prometheus keeps such figures for years (``farm.broker.metrics``); a client's plots must do without it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from farm.core.rows import AnyRow, ResultRow
from farm.core.state import Farm
from farm.model.states import NodeState, UnitState
from farm.protocol.client import SeriesReply

#: Seconds between two points and how many of them are kept: two hours, a day, thirty days.
LEVELS: Final[tuple[tuple[int, int], ...]] = ((10, 720), (60, 1440), (600, 4320))
#: How long the loop samples at once.
SLICE_S: Final = 0.001
#: Jobs or nodes between two looks at the time.
PIECE: Final = 100
#: Projects named in a point; others are added up.
PROJECTS: Final = 8
#: Projects named in a reply.
PROJECTS_TOLD: Final = 12
OTHERS: Final = "(others)"
_DONE, _QUEUED, _RUNNING = UnitState.DONE.value, UnitState.QUEUED.value, UnitState.RUNNING.value
_LIVE = (NodeState.ONLINE, NodeState.SUSPECT)


class Point(msgspec.Struct, frozen=True, gc=False):
    """The farm at a moment, or its mean over a while that ended then; rates are since the point before."""

    at_us: int
    cores: float = 0.0
    cores_used: float = 0.0
    gpus: float = 0.0
    gpus_used: float = 0.0
    queued: float = 0.0
    running: float = 0.0
    nodes: float = 0.0
    burn_nano_h: float = 0.0
    done_s: float = 0.0
    failed_s: float = 0.0
    projects: dict[str, float] = {}


#: Fields that are means in a merged point.
_FIGURES = tuple(name for name in Point.__struct_fields__ if name not in ("at_us", "projects"))


class Series:
    """Points of the farm.

    Args:
        farm: The state.
        clock_s: Tells how long a slice took.
    """

    def __init__(self, farm: Farm, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._farm = farm
        self._clock_s = clock_s
        self._rings: tuple[deque[Point], ...] = tuple(deque(maxlen=most) for _, most in LEVELS)
        #: Of each level but the first: points that gather for the next of it.
        self._gathered: tuple[list[Point], ...] = tuple([] for _ in LEVELS[1:])
        self._sampling: Iterator[Point | None] | None = None
        self._next_us = 0
        self._done = self._failed = 0
        self._last: tuple[int, int, int] | None = None

    def committed(self, rows: Sequence[AnyRow]) -> None:
        """Rows were stored: frames that are done and tries that failed are counted."""
        for row in rows:
            if type(row) is ResultRow and row.unit >= 0:
                if row.new == _DONE:
                    self._done += 1
                elif row.failure:
                    self._failed += 1

    def tick(self, now_us: int) -> None:
        """Samples for a while when a point is due; the loop calls it several times a second."""
        if self._sampling is None:
            if now_us < self._next_us:
                return
            every_us = LEVELS[0][0] * 1_000_000
            self._next_us = now_us - now_us % every_us + every_us
            self._sampling = self._sample(now_us)
        until_s = self._clock_s() + SLICE_S
        for point in self._sampling:
            if point is not None:
                self._sampling = None
                self._add(point)
                return
            if self._clock_s() >= until_s:
                return

    def _sample(self, now_us: int) -> Iterator[Point | None]:
        """A point in the end; None now and then before."""
        cores = cores_used = gpus = gpus_used = online = burn = 0
        projects: dict[str, float] = {}
        for index, node in enumerate(list(self._farm.nodes.values())):
            if not index % PIECE:
                yield None
            if node.forgotten:
                continue
            if node.meter_on:
                burn += node.meter_rate
            if node.state not in _LIVE:
                continue
            online += 1
            facts = node.facts
            cores += facts.total.cores
            cores_used += facts.total.cores - node.cores_free
            if facts.gpus:
                gpus += len(facts.gpus)
                gpus_used += len(facts.gpus) - len(node.gpus_free)
            for attempt in node.attempts.values():
                project = attempt.step.job.project
                projects[project] = projects.get(project, 0.0) + attempt.cores
        queued = running = 0
        for index, job in enumerate(list(self._farm.jobs.values())):
            if not index % PIECE:
                yield None
            if job.archived or not job.open_units:
                continue
            for step in job.steps:
                queued += step.counts[_QUEUED]
                running += step.counts[_RUNNING]
        done_s = failed_s = 0.0
        if self._last is not None and now_us > self._last[0]:
            spent_s = (now_us - self._last[0]) / 1e6
            done_s = (self._done - self._last[1]) / spent_s
            failed_s = (self._failed - self._last[2]) / spent_s
        self._last = (now_us, self._done, self._failed)
        yield Point(
            now_us, cores, cores_used, gpus, gpus_used, queued, running, online, burn, done_s, failed_s,
            _largest(projects, PROJECTS),
        )  # fmt: skip

    def _add(self, point: Point) -> None:
        self._rings[0].append(point)
        for level, gathered in enumerate(self._gathered, 1):
            every_us = LEVELS[level][0] * 1_000_000
            if gathered and gathered[0].at_us // every_us != point.at_us // every_us:
                self._rings[level].append(merged(gathered))
                gathered.clear()
            gathered.append(point)

    def points(self, since_us: int = 0) -> list[Point]:
        """Points after that moment, oldest first: each stretch of time by the finest there is of it."""
        found: list[Point] = []
        for ring in self._rings:  # finest first
            oldest_us = found[0].at_us if found else None
            found[:0] = [
                one for one in ring if one.at_us > since_us and (oldest_us is None or one.at_us < oldest_us)
            ]
        return found

    def reply(self, number: int, since_us: int, now_us: int) -> SeriesReply:
        """Points after that moment, column by column."""
        points = self.points(since_us)
        sums: dict[str, float] = {}
        for point in points:
            for name, cores in point.projects.items():
                sums[name] = sums.get(name, 0.0) + cores
        named = [name for name in _largest(sums, PROJECTS_TOLD) if name != OTHERS]
        projects = {name: tuple(point.projects.get(name, 0.0) for point in points) for name in named}
        if len(sums) > len(named):
            known = frozenset(named)
            projects[OTHERS] = tuple(
                sum(cores for name, cores in point.projects.items() if name not in known) for point in points
            )
        return SeriesReply(
            id=number,
            now_us=now_us,
            at_us=tuple(point.at_us for point in points),
            projects=projects,
            **{name: tuple(getattr(point, name) for point in points) for name in _FIGURES},
        )


def _largest(figures: dict[str, float], most: int) -> dict[str, float]:
    """The largest, and the others added up."""
    if len(figures) <= most:
        return figures
    ranked = sorted(figures.items(), key=lambda item: (-item[1], item[0]))
    found = dict(ranked[:most])
    found[OTHERS] = found.get(OTHERS, 0.0) + sum(figure for _, figure in ranked[most:])
    return found


def merged(points: Sequence[Point]) -> Point:
    """The mean of some points, at the moment of the last."""
    count = len(points)
    names = dict.fromkeys(name for point in points for name in point.projects)
    projects = {name: sum(point.projects.get(name, 0.0) for point in points) / count for name in names}
    figures = {name: sum(getattr(point, name) for point in points) / count for name in _FIGURES}
    return Point(points[-1].at_us, **figures, projects=_largest(projects, PROJECTS))
