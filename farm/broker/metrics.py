"""Figures for Prometheus: counted in the loop, gathered when somebody asks, served by threads of their own.

What belongs here: counting, the snapshot, the HTTP server.  What may not: deciding anything; the loop works
the same without it.

The loop's thread alone touches the counts, so there is no lock on its way.  A scrape sets a flag and wakes
the loop, which gathers all figures into a snapshot that nobody changes any more, at most once a second and a
slice of SLICE_S at the end of each turn, so that a farm of a hundred thousand steps is not held up for it.
The server's thread makes text of the snapshot.  The loop never waits for HTTP, and a scrape that the loop does
not answer in time gets the snapshot before.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import farm as product
from farm.broker.metric_names import FRAME_BUCKETS_S, METRICS, PREFIX, TURN_BUCKETS_S
from farm.core.rows import AnyRow, LeaseRow, ResultRow, StaleRow
from farm.core.state import Farm, Node
from farm.model.errors import FarmUnreachable
from farm.model.states import AttemptKind, NodeState, UnitState, shown_state

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

    from farm.broker.state import BrokerState

log = logging.getLogger("overcrank.broker")

#: How long the loop gathers at once.
SLICE_S = 0.002
#: Jobs or nodes between two looks at the clock.
_PIECE = 100
#: A snapshot younger than this is served again.
FRESH_S = 1.0
#: How long a scrape waits for the loop.
PATIENCE_S = 5.0
#: Scrapes served at once; further ones are told to come back.
SCRAPES_MOST = 8
_DONE, _FAILED = UnitState.DONE.value, UnitState.FAILED.value
_QUEUED, _RUNNING = UnitState.QUEUED.value, UnitState.RUNNING.value
_STATES = tuple(state.word for state in UnitState)
_KINDS = {kind.value: kind.name.lower() for kind in AttemptKind}
_LIVE = (NodeState.ONLINE, NodeState.SUSPECT)
_NANO = 1e-9
_US_PER_HOUR = 3_600_000_000

#: Values of a figure by its labels.
Values = dict[tuple[str, ...], float]


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
        yield from _gather_work(s.core.farm, s.now_us, values)
        yield from _gather_nodes(s.core.farm, s.now_us, values)
        alerts = len(s.keydesk.alerts) + len(s.alerts) + (s.core.farm.due.rollout is not None)
        values["alerts"] = {(): alerts + values.pop("alarming")[()]}
        values["build_info"] = {(product.__version__, s.farm_name, s.farm_id): 1.0}
        values["start_time_seconds"] = {(): s.started_us / 1e6}
        values["sessions"] = _count((session.role,) for session in s.sessions.values())
        values["leases"] = {(_KINDS.get(kind, "other"),): float(n) for kind, n in self._leases.items()}
        values["failures"] = {(name,): float(count) for name, count in self._failures.items()}
        values["frames_failed"] = {(name,): float(count) for name, count in self._failed.items()}
        values["frames_done"] = {(name,): float(sum(found.counts)) for name, found in self._frames.items()}
        values["project_spend_usd"] = {(name,): nano * _NANO for name, nano in self._spend.items()}
        values["waste_usd"] = {(): self._waste_nano * _NANO}
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


def _gather_work(farm: Farm, now_us: int, values: dict[str, Values]) -> Iterator[None]:
    jobs: Values = {}
    totals = [0] * len(_STATES)
    by_project: dict[str, list[int]] = {}
    oldest: dict[str, int] = {}
    for index, job in enumerate(list(farm.jobs.values())):
        if not index % _PIECE:
            yield
        if job.archived:
            continue
        steps = job.steps
        counts = (
            steps[0].counts
            if len(steps) == 1
            else list(map(sum, zip(*[x.counts for x in steps], strict=True)))
        )
        word = (shown_state(counts, paused=job.paused).value,)
        jobs[word] = jobs.get(word, 0) + 1
        for state, count in enumerate(counts):
            if count:
                totals[state] += count
        queued = counts[_QUEUED]
        if queued or counts[_RUNNING]:
            sums = by_project.get(job.project)
            if sums is None:
                sums = by_project[job.project] = [0, 0]
            sums[0] += queued
            sums[1] += counts[_RUNNING]
            if queued and not job.paused:
                oldest[job.project] = min(oldest.get(job.project, now_us), job.submitted_us)
    values["jobs"] = jobs
    values["frames"] = {(word,): float(count) for word, count in zip(_STATES, totals, strict=True)}
    values["project_frames"] = {
        (project, word): float(count)
        for project, sums in by_project.items()
        for word, count in zip(("queued", "running"), sums, strict=True)
    }
    values["queue_age_seconds"] = {(name,): (now_us - since_us) / 1e6 for name, since_us in oldest.items()}
    limits = [limit for limit in farm.limits.values() if limit.total is not None]
    values["limit_tokens"] = {(limit.name,): float(limit.total or 0) for limit in limits}
    values["limit_tokens_busy"] = {(limit.name,): float(limit.used) for limit in limits}


def _gather_nodes(farm: Farm, now_us: int, values: dict[str, Values]) -> Iterator[None]:
    nodes: Values = {}
    agents: Values = {}
    spend: dict[str, list[float]] = {}
    running: Values = {}
    amounts: dict[tuple[str, str], list[int]] = {}
    alarming = 0
    for index, node in enumerate(list(farm.nodes.values())):
        if not index % _PIECE:
            yield
        site = node.site or "local"
        money = spend.get(site)
        if money is None:
            money = spend[site] = [0.0, 0.0, 0.0]
        total_nano, idle_nano = _money(node, now_us)
        money[0] += total_nano
        money[1] += idle_nano
        if node.forgotten:
            continue
        if node.meter_on:
            money[2] += node.meter_rate
        alarming += _alarming(node)
        word = (node.state.value if node.enabled else "drained", node.pool, site)
        nodes[word] = nodes.get(word, 0) + 1
        if node.state not in _LIVE:
            continue
        facts, attempts, slots = node.facts, len(node.attempts), node.settings.slots
        version = (facts.software,)
        agents[version] = agents.get(version, 0) + 1
        running[(site,)] = running.get((site,), 0) + attempts
        sums = amounts.get((node.pool, site))
        if sums is None:
            sums = amounts[(node.pool, site)] = [0] * 6
        sums[0] += facts.total.cores
        sums[1] += facts.total.cores - node.cores_free
        if facts.gpus:
            sums[2] += len(facts.gpus)
            sums[3] += len(facts.gpus) - len(node.gpus_free)
        if slots:
            sums[4] += slots
            sums[5] += min(slots, attempts)
    values["alarming"] = {(): float(alarming)}
    values["nodes"] = nodes
    values["agents"] = agents
    values["attempts_running"] = running
    for place, name in enumerate(("cores", "cores_busy", "gpus", "gpus_busy", "slots", "slots_busy")):
        values[name] = {where: float(sums[place]) for where, sums in amounts.items()}
    values["spend_usd"] = {(site,): money[0] * _NANO for site, money in spend.items()}
    values["idle_usd"] = {(site,): money[1] * _NANO for site, money in spend.items()}
    values["burn_usd_per_hour"] = {(site,): money[2] * _NANO for site, money in spend.items()}


def _alarming(node: Node) -> bool:
    """Whether `farm status` has an alert for the node."""
    if node.forgotten:
        return False
    return not node.enabled or node.state in (NodeState.LOST, NodeState.SUSPECT)


def _money(node: Node, now_us: int) -> tuple[float, float]:
    """What the node cost so far and the idle part: as ``meter.projected`` says, but for the last nano-USD.

    That one splits over attempts exactly, which costs too much for ten thousand nodes at once.
    """
    if not node.meter_on or now_us <= node.metered_us:
        return node.total_nano, node.idle_nano
    more = node.meter_rate * (now_us - node.metered_us) / _US_PER_HOUR
    held = sum(attempt.share_ppm for attempt in node.attempts.values()) / 1e6
    return node.total_nano + more, node.idle_nano + more * max(0.0, 1.0 - held)


# ---------------------------------------------------------------- the server


class MetricsServer:
    """Serves ``GET /metrics`` in plain HTTP.

    Args:
        metrics: Where snapshots come from.
        host: Address to listen on.
        port: Port.
        database: The database's file, None when it is elsewhere.
    """

    def __init__(self, metrics: Metrics, host: str, port: int, database: Path | None = None) -> None:
        self._metrics = metrics
        self._database = database
        self._places = threading.Semaphore(SCRAPES_MOST)
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0
            server_version = f"overcrank/{product.__version__}"
            sys_version = ""

            def do_GET(self) -> None:
                server._serve(self)

            def log_message(self, format: str, *args: Any) -> None:  # its name in the library
                log.debug("metrics %s", format % args)

        try:
            self._http = _server_class(host)((_bind_host(host), port), Handler)
        except OSError as error:
            raise FarmUnreachable(
                f"the metrics port {port} of {host} cannot be used: {error.strerror or error}",
                hint="choose another with --metrics-port, or 0 for none",
            ) from error
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(
            target=self._http.serve_forever, name="metrics", args=(0.1,), daemon=True
        )

    def start(self) -> None:
        """Begins to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it and its threads."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        if request.path.partition("?")[0] != "/metrics":
            _reply(request, 404, "text/plain; charset=utf-8", b"there is only /metrics\n")
            return
        if not self._places.acquire(blocking=False):
            _reply(request, 503, "text/plain; charset=utf-8", b"too many scrapes at once\n")
            return
        try:
            snapshot = self._metrics.latest()
            if snapshot is None:
                _reply(request, 503, "text/plain; charset=utf-8", b"the broker does not answer\n")
                return
            kind, body = self.text(snapshot, request.headers.get("Accept", ""))
            _reply(request, 200, kind, body)
        finally:
            self._places.release()

    def text(self, snapshot: Snapshot, accept: str = "") -> tuple[str, bytes]:
        """Content type and body of a snapshot."""
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder
        from prometheus_client.registry import Collector

        extra: dict[str, Values] = {}
        if self._database is not None:
            extra["database_bytes"] = {(): float(_size(self._database))}

        class Figures(Collector):
            def collect(self) -> Iterator[Family]:
                yield from _families(snapshot, extra)

            def describe(self) -> list[Family]:
                return []

        registry = CollectorRegistry()
        registry.register(Figures())
        ProcessCollector(namespace=PREFIX.rstrip("_"), registry=registry)
        encode, kind = choose_encoder(accept)
        return kind, encode(registry)


def _families(snapshot: Snapshot, extra: dict[str, Values]) -> Iterator[Family]:
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    for metric in METRICS.values():
        name = PREFIX + metric.name
        if metric.kind == "histogram":
            histograms = HistogramMetricFamily(name, metric.help, labels=metric.labels)
            for labels, found in snapshot.histograms.get(metric.name, {}).items():
                histograms.add_metric(labels, found.buckets(), found.total)
            yield histograms
            continue
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = kind(name, metric.help, labels=metric.labels)
        values = extra.get(metric.name) or snapshot.values.get(metric.name, {})
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family


def _size(database: Path) -> int:
    """Bytes of the database with what SQLite keeps beside it."""
    total = 0
    for suffix in ("", "-wal", "-shm"):
        try:
            total += database.with_name(database.name + suffix).stat().st_size
        except OSError:
            continue
    return total


def _reply(request: BaseHTTPRequestHandler, code: int, kind: str, body: bytes) -> None:
    try:
        request.send_response(code)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
    except OSError:
        request.close_connection = True  # the scraper is gone


def _bind_host(host: str) -> str:
    return "0.0.0.0" if host == "*" else host.strip("[]")


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    import socket

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: Any, client_address: Any) -> None:
            log.debug("metrics scrape-failed from=%s", client_address)

    return Server
