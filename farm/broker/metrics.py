"""Figures for Prometheus: counted in the loop, gathered when somebody asks, served by threads of their own.

What belongs here: counting, the snapshot, the HTTP server.  What may not: deciding anything; the loop works
the same without it.

The loop's thread alone touches the counts, so there is no lock on its way.  A scrape sets a flag and wakes
the loop, which gathers all figures into a snapshot that nobody changes any more, at most once a second and a
slice of SLICE_S at the end of each turn, so that a farm of a hundred thousand steps is not held up for it.
Other threads make text of it.  The loop never waits for HTTP, and a scrape that the loop
does not answer in time gets the snapshot before.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import farm as product
from farm.broker.metric_gather import NANO, Values, gather_nodes, gather_work
from farm.broker.metric_names import FRAME_BUCKETS_S, TURN_BUCKETS_S
from farm.core.rows import AnyRow, LeaseRow, ResultRow, StaleRow
from farm.core.state import Farm
from farm.model.states import AttemptKind, UnitState

if TYPE_CHECKING:
    from farm.broker.state import BrokerState

#: How long the loop gathers at once.
SLICE_S = 0.002
#: A snapshot younger than this is served again.
FRESH_S = 1.0
#: How long a scrape waits for the loop.
PATIENCE_S = 5.0
_DONE, _FAILED = UnitState.DONE.value, UnitState.FAILED.value
_KINDS = {kind.value: kind.name.lower() for kind in AttemptKind}


class Histogram:
    """Counts by bucket, and the sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Counts one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        """As it is now."""
        made = Histogram(self.bounds)
        made.counts, made.total = list(self.counts), self.total
        return made

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound as text and how many were not above it, as Prometheus wants them."""
        found: list[tuple[str, float]] = []
        sum_so_far = 0
        for bound, count in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            sum_so_far += count
            found.append((bound, sum_so_far))
        return found


class Snapshot:
    """All figures at one moment; nobody changes it."""

    __slots__ = ("at_s", "histograms", "values")

    def __init__(self) -> None:
        self.at_s = time.monotonic()
        self.values: dict[str, Values] = {}
        self.histograms: dict[str, dict[tuple[str, ...], Histogram]] = {}


class Metrics:
    """The broker's counts, and the handing over of snapshots.

    Args:
        farm: The state, to look up what rows are about.
    """

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        #: Set by whoever wants a snapshot, cleared by the loop.
        self.wanted = False
        self._wake: Callable[[], None] = lambda: None
        self._made = threading.Condition()
        self._snapshot: Snapshot | None = None
        self._turns = Histogram(TURN_BUCKETS_S)
        self._commits = Histogram(TURN_BUCKETS_S)
        self._lags = Histogram(TURN_BUCKETS_S)
        self._frames: dict[str, Histogram] = {}
        self._leases: dict[int, int] = {}
        self._failures: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._stale = 0
        self._messages = 0
        self._rows = 0
        self._waste_nano = 0
        self._waste_us = 0
        self._gather_s = 0.0
        #: The gathering that is under way.
        self._gathering: Iterator[None] | None = None
        #: By open attempt: when it began, time that went into frames that are done, whether some was wasted.
        self._open: dict[int, list[int]] = {a.id: [a.started_us, 0, 0] for a in farm.attempts.values()}
        self._spend: dict[str, int] = {}
        for job in farm.jobs.values():
            spent = sum(step.spend_nano for step in job.steps)
            self._spend[job.project] = self._spend.get(job.project, 0) + spent
        for ledger in (farm.shelved.archived, farm.shelved.deleted):
            for (project, _), sums in ledger.items():
                self._spend[project] = self._spend.get(project, 0) + sums.spend_nano

    def on_wanted(self, wake: Callable[[], None]) -> None:
        """Sets what wakes the loop (from any thread)."""
        self._wake = wake

    # -- the loop's thread --

    @property
    def gathering(self) -> bool:
        """Whether a snapshot is being made."""
        return self._gathering is not None

    def turn(self, seconds: float, messages: int) -> None:
        """A turn that did something took so long."""
        self._turns.add(seconds)
        self._messages += messages

    def ticked(self, late_us: int) -> None:
        """The loop looked at its deadlines, so much later than it wanted to."""
        self._lags.add(max(0, late_us) / 1e6)

    def committed(self, rows: Sequence[AnyRow], seconds: float) -> None:
        """Rows were stored."""
        self._commits.add(seconds)
        self._rows += len(rows)
        for row in rows:
            kind = type(row)
            if kind is ResultRow:
                self._result(row)  # type: ignore[arg-type]
            elif kind is LeaseRow:
                self._open[row.id] = [row.at_us, 0, 0]  # type: ignore[union-attr]
                number = row.kind  # type: ignore[union-attr]
                self._leases[number] = self._leases.get(number, 0) + 1
            elif kind is StaleRow:
                self._stale += 1

    def _result(self, row: ResultRow) -> None:
        step = self._farm.steps.get(row.step_id)
        attempt = self._open.get(row.attempt_id)
        if row.unit >= 0:
            if row.new == _DONE:
                elapsed_us = row.elapsed_us
                name = step.spec.renderer if step is not None else ""
                frames = self._frames.get(name)
                if frames is None:
                    frames = self._frames[name] = Histogram(FRAME_BUCKETS_S)
                frames.add(elapsed_us / 1e6)
                if attempt is not None:
                    attempt[1] += elapsed_us
            elif attempt is not None:
                attempt[2] = 1
            failure = row.failure
            if failure:
                self._failures[failure] = self._failures.get(failure, 0) + 1
                if row.new == _FAILED:
                    self._failed[failure] = self._failed.get(failure, 0) + 1
        if row.closes:
            self._waste_nano += row.waste_nano
            if row.charge_nano:
                project = step.job.project if step is not None else ""
                self._spend[project] = self._spend.get(project, 0) + row.charge_nano
            if attempt is not None:
                del self._open[row.attempt_id]
                if attempt[2] or row.lost or row.waste_nano:
                    self._waste_us += max(0, row.at_us - attempt[0] - attempt[1])

    def answer(self, s: BrokerState) -> bool:
        """Gathers for a while when somebody asked; returns whether more is to be done at once."""
        begun_s = time.perf_counter()
        if self._gathering is None:
            self.wanted = False
            known = self._snapshot
            if known is not None and time.monotonic() - known.at_s < FRESH_S:
                return False
            self._gather_s = 0.0
            self._gathering = self._gather(s)
        for _ in self._gathering:
            spent_s = time.perf_counter() - begun_s
            if spent_s >= SLICE_S:
                self._gather_s += spent_s
                return True
        self._gathering = None
        return False

    def _gather(self, s: BrokerState) -> Iterator[None]:
        """Makes a snapshot; yields now and then."""
        made = Snapshot()
        values = made.values
        yield from gather_work(s.core.farm, s.now_us, values)
        yield from gather_nodes(s.core.farm, s.now_us, values)
        alerts = len(s.keydesk.alerts) + len(s.alerts) + (s.core.farm.due.rollout is not None)
        values["alerts"] = {(): alerts + values.pop("alarming")[()]}
        values["build_info"] = {(product.__version__, s.farm_name, s.farm_id): 1.0}
        values["start_time_seconds"] = {(): s.started_us / 1e6}
        values["sessions"] = _count((session.role,) for session in s.sessions.values())
        values["leases"] = {(_KINDS.get(kind, "other"),): float(n) for kind, n in self._leases.items()}
        values["failures"] = {(name,): float(count) for name, count in self._failures.items()}
        values["frames_failed"] = {(name,): float(count) for name, count in self._failed.items()}
        values["frames_done"] = {(name,): float(sum(found.counts)) for name, found in self._frames.items()}
        values["project_spend_usd"] = {(name,): nano * NANO for name, nano in self._spend.items()}
        values["waste_usd"] = {(): self._waste_nano * NANO}
        values["waste_seconds"] = {(): self._waste_us / 1e6}
        values["stale_results"] = {(): float(self._stale)}
        values["messages"] = {(): float(self._messages)}
        values["rows"] = {(): float(self._rows)}
        values["snapshot_seconds"] = {(): self._gather_s}
        made.histograms["frame_seconds"] = {(name,): found.copy() for name, found in self._frames.items()}
        made.histograms["turn_seconds"] = {(): self._turns.copy()}
        made.histograms["commit_seconds"] = {(): self._commits.copy()}
        made.histograms["loop_lag_seconds"] = {(): self._lags.copy()}
        with self._made:
            self._snapshot = made
            self._made.notify_all()

    # -- any other thread --

    def latest(self, patience_s: float = PATIENCE_S) -> Snapshot | None:
        """A snapshot that is fresh, else (the loop does not answer) the last one; None when there is none."""
        with self._made:
            known = self._snapshot
            if known is not None and time.monotonic() - known.at_s < FRESH_S:
                return known
        self.wanted = True
        self._wake()
        with self._made:
            self._made.wait_for(lambda: self._snapshot is not known, patience_s)
            return self._snapshot


def _count(names: Iterable[tuple[str, ...]]) -> Values:
    found: Values = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found
