"""Subscriptions: a snapshot, then numbered deltas of what changed, at most ten a second per client."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farm.broker.views import Views
from farm.core.rows import (
    AnyRow,
    BulkRow,
    JobRow,
    JobStateRow,
    LeaseRow,
    NodeRow,
    ResultRow,
    StepEditRow,
    StepRow,
)
from farm.core.state import Farm
from farm.model.errors import CallError
from farm.model.ids import parse_address
from farm.protocol.client import DeltaMsg, SnapshotMsg, UnitDelta
from farm.protocol.session import BrokerSession

#: Least time between two deltas to a client, in microseconds.
EVERY_US = 100_000
#: Most unit changes in one delta; beyond it the client gets a fresh snapshot.
UNITS_MOST = 5_000


class _Follower:
    __slots__ = ("job_units", "jobs_topic", "nodes_topic", "resync", "session", "units")

    def __init__(self, session: BrokerSession, job_units: set[int]) -> None:
        self.session = session
        self.jobs_topic = "jobs" in session.topics
        self.nodes_topic = "nodes" in session.topics
        self.job_units = job_units
        self.units: dict[tuple[int, int], None] = {}
        self.resync = False


class Publisher:
    """Keeps what each following client has not been told yet."""

    def __init__(self, farm: Farm, views: Views, reply: Callable[[bytes, object], None]) -> None:
        self._farm = farm
        self._views = views
        self._reply = reply
        self._followers: dict[bytes, _Follower] = {}
        self._jobs: set[int] = set()
        self._nodes: set[int] = set()
        self._gone: list[str] = []
        self._last_us = 0

    @property
    def following(self) -> bool:
        """Whether anybody follows anything."""
        return bool(self._followers)

    def subscribe(
        self, session: BrokerSession, request_id: int, topics: tuple[str, ...], now_us: int
    ) -> None:
        """Sends the snapshot and remembers the client.

        Raises:
            CallError: A topic does not exist.
        """
        job_units: set[int] = set()
        for topic in topics:
            if topic.startswith("job:"):
                job = self._views.find_job(parse_address("J" + topic[4:].lstrip("Jj")).job)
                job_units.add(job.id)
            elif topic not in ("jobs", "nodes"):
                raise CallError(f"there is no topic {topic!r}", hint="jobs, nodes, job:12")
        session.topics = topics
        follower = _Follower(session, job_units)
        self._followers[session.routing_id] = follower
        self._snapshot(follower, request_id, now_us)

    def _snapshot(self, follower: _Follower, request_id: int, now_us: int) -> None:
        session = follower.session
        session.delta += 1
        jobs = [
            job
            for job in self._farm.jobs.values()
            if (follower.jobs_topic and not job.archived) or job.id in follower.job_units
        ]
        maps = {
            step.address: bytes(step.state)
            for job in jobs
            if job.id in follower.job_units
            for step in job.steps
        }
        nodes = self._farm.nodes.values() if follower.nodes_topic else ()
        follower.units.clear()
        follower.resync = False
        self._reply(
            session.routing_id,
            SnapshotMsg(
                id=request_id,
                n=session.delta,
                jobs=tuple(self._views.job_row(job, now_us) for job in jobs),
                nodes=tuple(self._views.node_row(node, now_us) for node in nodes if not node.forgotten),
                maps=maps,
            ),
        )

    def forget(self, routing_id: bytes) -> None:
        """The client is gone."""
        self._followers.pop(routing_id, None)

    def note(self, rows: Iterable[AnyRow]) -> None:
        """Takes note of what stored rows changed."""
        if not self._followers:
            return  # whoever comes gets a snapshot first
        steps = self._farm.steps
        for row in rows:
            kind = type(row)
            if kind is ResultRow or kind is LeaseRow or kind is BulkRow:
                job = steps[row.step_id].job  # type: ignore[union-attr]
                self._jobs.add(job.id)
                if kind is not BulkRow:
                    self._nodes.add(0)
                for follower in self._followers.values():
                    if job.id in follower.job_units:
                        self._note_units(follower, row)
            elif kind is StepEditRow:
                # The map may have grown: whoever follows its units needs it whole.
                job = steps[row.step_id].job  # type: ignore[union-attr]
                self._jobs.add(job.id)
                for follower in self._followers.values():
                    follower.resync = follower.resync or job.id in follower.job_units
            elif kind is JobStateRow or kind is StepRow:
                self._jobs.add(row.job_id)  # type: ignore[union-attr]
            elif kind is JobRow:
                self._jobs.add(row.id)  # type: ignore[union-attr]
            elif kind is NodeRow:
                if row.forgotten:  # type: ignore[union-attr]
                    self._gone.append(f"node:{row.id}")  # type: ignore[union-attr]
                self._nodes.add(row.id)  # type: ignore[union-attr]

    def _note_units(self, follower: _Follower, row: AnyRow) -> None:
        if type(row) is ResultRow:
            if row.unit >= 0:
                follower.units[(row.step_id, row.unit)] = None
        elif type(row) is LeaseRow and row.units.isdecimal():
            follower.units[(row.step_id, int(row.units))] = None
        else:
            follower.resync = True
        if len(follower.units) > UNITS_MOST:
            follower.resync = True

    def due_in_us(self, now_us: int) -> int | None:
        """When the next delta is due, None when there is nothing to tell."""
        if not self._followers or not (self._jobs or self._nodes):
            return None
        return max(0, self._last_us + EVERY_US - now_us)

    def flush(self, now_us: int) -> None:
        """Sends deltas if they are due."""
        if not self._followers:
            self._jobs.clear()
            self._nodes.clear()
            self._gone.clear()
            return
        if now_us - self._last_us < EVERY_US or not (self._jobs or self._nodes):
            return
        self._last_us = now_us
        jobs, nodes, gone = sorted(self._jobs), bool(self._nodes), tuple(self._gone)
        self._gone.clear()
        self._jobs.clear()
        self._nodes.clear()
        for follower in list(self._followers.values()):
            if follower.resync:
                self._snapshot(follower, 0, now_us)
                continue
            shown = [number for number in jobs if follower.jobs_topic or number in follower.job_units]
            steps = self._farm.steps
            units = tuple(
                UnitDelta(steps[step_id].address, unit, steps[step_id].state[unit])
                for step_id, unit in follower.units
            )
            follower.units.clear()
            follower.session.delta += 1
            self._reply(
                follower.session.routing_id,
                DeltaMsg(
                    n=follower.session.delta,
                    jobs=tuple(self._views.job_row(self._farm.jobs[number], now_us) for number in shown),
                    nodes=tuple(
                        self._views.node_row(node, now_us)
                        for node in self._farm.nodes.values()
                        if not node.forgotten
                    )
                    if nodes and follower.nodes_topic
                    else (),
                    units=units,
                    gone=gone if follower.nodes_topic else (),
                ),
            )
