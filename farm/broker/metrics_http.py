"""Serves the figures in plain HTTP: ``GET /metrics``, for Prometheus.

What belongs here: the server with its threads, and text made of a snapshot.  What may not: counting and
gathering (``farm.broker.metrics``).
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import farm as product
from farm.broker.metric_gather import Values
from farm.broker.metric_names import METRICS, PREFIX
from farm.broker.metrics import Metrics, Snapshot
from farm.model.errors import FarmUnreachable

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

log = logging.getLogger("overcrank.broker")

#: Scrapes served at once; further ones are told to come back.
SCRAPES_MOST = 8


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
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: Any, client_address: Any) -> None:
            log.debug("metrics scrape-failed from=%s", client_address)

    return Server
