"""Every figure the broker exposes to Prometheus, once: name, kind, labels, help.

What belongs here: the table that the exposition, the reference page and the tests of the dashboards are
made from. What may not: how a figure is worked out (``farm.broker.metrics``).

Names begin with ``overcrank_`` and end with their unit (base units: seconds, bytes; money in USD).
"""

from __future__ import annotations

from typing import Literal

import msgspec

PREFIX = "overcrank_"
#: Upper bounds of histogram buckets, in seconds.
FRAME_BUCKETS_S = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200)
TURN_BUCKETS_S = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    10,
)


class Metric(msgspec.Struct, frozen=True):
    """One figure.

    Attributes:
        name: Name without the prefix; of a counter without ``_total``.
        kind: Kind, as Prometheus calls it.
        labels: What it is split by.
        help: What it says.
        buckets: Of a histogram: upper bounds, smallest first.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()

    @property
    def shown(self) -> str:
        """The name queries use (of a histogram: before ``_bucket``, ``_sum`` and ``_count``)."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "build_info",
            "gauge",
            ("version", "farm", "farm_id"),
            "Always 1; the labels tell which broker this is",
        ),
        Metric("start_time_seconds", "gauge", (), "When the broker started, seconds since the epoch"),
        # Work.
        Metric("jobs", "gauge", ("state",), "Jobs that are not archived, by the state people see"),
        Metric("frames", "gauge", ("state",), "Frames (units) of jobs that are not archived, by state"),
        Metric(
            "project_frames", "gauge", ("project", "state"), "Frames that are queued or running, by project"
        ),
        Metric(
            "queue_age_seconds",
            "gauge",
            ("project",),
            "Age of the oldest job of a project that has frames waiting in the queue",
        ),
        Metric("attempts_running", "gauge", ("site",), "Attempts (leases) that are open"),
        Metric("leases", "counter", ("kind",), "Attempts leased since the broker started, by kind"),
        Metric("frames_done", "counter", ("renderer",), "Frames that got done since the broker started"),
        Metric("frames_failed", "counter", ("failure",), "Frames that failed for good, by class of failure"),
        Metric(
            "failures",
            "counter",
            ("failure",),
            "Tries of frames that failed, also those tried again, by class",
        ),
        Metric(
            "frame_seconds", "histogram", ("renderer",), "How long frames took that got done", FRAME_BUCKETS_S
        ),
        Metric("stale_results", "counter", (), "Late, repeated or foreign results that changed nothing"),
        # Nodes.
        Metric(
            "nodes",
            "gauge",
            ("state", "pool", "site"),
            "Nodes; a drained one counts as drained, whatever else",
        ),
        Metric(
            "agents", "gauge", ("version",), "Nodes in service (online or suspect), by version of Overcrank"
        ),
        Metric("cores", "gauge", ("pool", "site"), "Cores of nodes in service"),
        Metric("cores_busy", "gauge", ("pool", "site"), "Of these, cores that attempts hold"),
        Metric("gpus", "gauge", ("pool", "site"), "GPUs of nodes in service"),
        Metric("gpus_busy", "gauge", ("pool", "site"), "Of these, GPUs that attempts hold"),
        Metric(
            "slots",
            "gauge",
            ("pool", "site"),
            "Attempts at once on nodes in service that have a limit for it",
        ),
        Metric("slots_busy", "gauge", ("pool", "site"), "Of these, slots that attempts hold"),
        Metric("limit_tokens", "gauge", ("limit",), "Tokens of a limit (licences)"),
        Metric("limit_tokens_busy", "gauge", ("limit",), "Of these, tokens in use"),
        # Money.
        Metric("spend_usd", "counter", ("site",), "What nodes cost so far, idle time included"),
        Metric("idle_usd", "counter", ("site",), "Of this, what nobody's work is charged for"),
        Metric("project_spend_usd", "counter", ("project",), "What ended attempts were charged, by project"),
        Metric("burn_usd_per_hour", "gauge", ("site",), "What nodes in service cost per hour now"),
        Metric("waste_usd", "counter", (), "Charges that bought nothing, since the broker started"),
        Metric(
            "waste_seconds", "counter", (), "Time of attempts that bought nothing, since the broker started"
        ),
        # The broker itself.
        Metric("alerts", "gauge", (), "Lines of alerts that `farm status` shows"),
        Metric("sessions", "gauge", ("role",), "Open sessions by role of their key"),
        Metric("messages", "counter", (), "Messages taken off the control and join sockets"),
        Metric("rows", "counter", (), "Rows stored"),
        Metric(
            "turn_seconds", "histogram", (), "Turns of the loop: drain, place, commit, send", TURN_BUCKETS_S
        ),
        Metric("commit_seconds", "histogram", (), "Commits to the database", TURN_BUCKETS_S),
        Metric(
            "loop_lag_seconds", "histogram", (), "How late the loop looked at its deadlines", TURN_BUCKETS_S
        ),
        Metric("snapshot_seconds", "gauge", (), "How long the loop took to gather the last figures"),
        Metric("database_bytes", "gauge", (), "Size of the database's files; absent for a database server"),
    )
}
