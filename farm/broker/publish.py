"""Subscriptions: a snapshot, then numbered deltas of what changed, at most ten a second per client.

What belongs here: who follows what, and what they have not been told yet.  What may not: how rows look
(``farm.broker.views``).

What a delta costs follows from what changed, not from how large the farm is, and it is paid once for all who
follow: rows are made and encoded once.  A farm of thousands of busy nodes changes more rows a second than
anybody can look at, so a delta holds at most so many (the others come next), and the next one waits until
telling took no more than its part of the loop's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import msgspec

from farm.broker.views import Views
from farm.core.apply import units_of
from farm.core.rows import (
    AnyRow,
    BulkRow,
    DeleteRow,
    HistoryRow,
    JobRow,
    JobStateRow,
    LeaseRow,
    MeterRow,
    NodeRow,
    ResultRow,
    ShelfRow,
    StepEditRow,
    StepRow,
)
from farm.core.state import Farm, Job
from farm.model.errors import CallError
from farm.model.ids import parse_address
from farm.protocol.client import DeltaMsg, SnapshotMsg, UnitDelta
from farm.protocol.codec import encode
from farm.protocol.session import BrokerSession

#: Least time between two deltas to a client, in microseconds.
EVERY_US = 100_000
#: Most unit changes in one delta; beyond it the client gets a fresh snapshot.
UNITS_MOST = 5_000
#: Most rows of jobs and of nodes in one delta.
ROWS_MOST = 500
#: After telling took so long, nothing is told for so many times that: a twentieth of the loop's time.
PAUSE_TIMES = 20
#: A node of which nothing else changed is told of this often, for what its heartbeats and the clock change.
REFRESH_US = 5_000_000


class _Follower:
    __slots__ = ("job_units", "jobs_topic", "nodes_topic", "resync", "session", "units")

    def __init__(self, session: BrokerSession, job_units: set[int]) -> None:
        self.session = session
        self.jobs_topic = "jobs" in session.topics
        self.nodes_topic = "nodes" in session.topics
        self.job_units = job_units
        self.units: dict[tuple[int, int], None] = {}
        self.resync = False

    def lost_jobs(self, gone: tuple[int, ...]) -> tuple[str, ...]:
        """Addresses of those of the jobs that left memory that it follows; it follows them no more."""
        if not gone:
            return ()
        known = [number for number in gone if self.jobs_topic or number in self.job_units]
        self.job_units.difference_update(gone)
        return tuple(f"J{number}" for number in known)


class Publisher:
    """Keeps what each following client has not been told yet.

    Args:
        farm: The core's state.
        views: Makes rows.
        reply: Sends a message to one connection at the end of the turn.
        spent_ns: Time the calling thread has used, in nanoseconds.
    """

    def __init__(
        self,
        farm: Farm,
        views: Views,
        reply: Callable[[bytes, object], None],
        spent_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._farm = farm
        self._views = views
        self._reply = reply
        self._spent_ns = spent_ns
        self._followers: dict[bytes, _Follower] = {}
        #: What changed, in the order it was noted (dicts as ordered sets).
        self._jobs: dict[int, None] = {}
        self._nodes: dict[int, None] = {}
        self._gone: list[str] = []
        self._gone_jobs: dict[int, None] = {}
        self._resync = False
        #: Node of each open attempt: a result does not name it.
        self._node_of: dict[int, int] = {}
        #: When followers were last told of a node.
        self._told_us: dict[int, int] = {}
        self._due_us = 0

    @property
    def following(self) -> bool:
        """Whether anybody follows anything."""
        return bool(self._followers)

    def subscribe(
        self,
        session: BrokerSession,
        request_id: int,
        topics: tuple[str, ...],
        now_us: int,
        state_of: tuple[str, ...] | None = None,
    ) -> None:
        """Sends the snapshot and remembers the client.

        Args:
            session: Whose.
            request_id: Of the request.
            topics: What it follows from now on.
            now_us: The time.
            state_of: Topics the snapshot is to tell of, None = all: opening a job of a large farm must not
                cost its whole list.  All are told of when the others were not followed before.

        Raises:
            CallError: A topic does not exist.
        """
        before = self._followers.get(session.routing_id)
        job_units: set[int] = set()
        for topic in topics:
            if topic.startswith("job:"):
                job = self._views.find_job(parse_address("J" + topic[4:].lstrip("Jj")).job)
                job_units.add(job.id)
            elif topic not in ("jobs", "nodes"):
                raise CallError(f"there is no topic {topic!r}", hint="jobs, nodes, job:12")
        session.topics = topics
        follower = _Follower(session, job_units)
        if not self._followers:
            self._node_of = {attempt.id: attempt.node.id for attempt in self._farm.attempts.values()}
        self._followers[session.routing_id] = follower
        if state_of is None or before is None or not self._goes_on(before, follower, topics, state_of):
            self._snapshot(follower, request_id, now_us)
            return
        told = _Follower(session, {job for job in job_units if job not in before.job_units})
        told.jobs_topic, told.nodes_topic = "jobs" in state_of, "nodes" in state_of
        self._snapshot(told, request_id, now_us)

    def _goes_on(
        self, before: _Follower, follower: _Follower, topics: tuple[str, ...], state_of: tuple[str, ...]
    ) -> bool:
        """Whether deltas of what was followed before may go on; what was not told yet is taken over."""
        kept = set(topics).difference(state_of)
        jobs = {job for job in follower.job_units if job in before.job_units}
        if (
            before.resync
            or ("jobs" in kept and not before.jobs_topic)
            or ("nodes" in kept and not before.nodes_topic)
            or len(follower.job_units) - len(jobs) != sum(one.startswith("job:") for one in state_of)
        ):
            return False
        steps = self._farm.steps
        follower.units = {
            (step, unit): None
            for step, unit in before.units
            if step in steps and steps[step].job.id in follower.job_units
        }
        return True

    def _snapshot(self, follower: _Follower, request_id: int, now_us: int) -> None:
        session = follower.session
        session.delta += 1
        every = self._farm.jobs
        chosen = (
            (job for job in every.values() if not job.archived or job.id in follower.job_units)
            if follower.jobs_topic
            else (every[number] for number in sorted(follower.job_units) if number in every)
        )
        jobs = list(chosen)
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
        if self._followers.pop(routing_id, None) is not None and not self._followers:
            self._jobs.clear()
            self._nodes.clear()
            self._gone.clear()
            self._gone_jobs.clear()
            self._node_of.clear()
            self._told_us.clear()
            self._resync = False

    # -- taking note --

    def note(self, rows: Iterable[AnyRow]) -> None:
        """Takes note of what stored rows changed."""
        if not self._followers:
            return  # whoever comes gets a snapshot first
        farm = self._farm
        for row in rows:
            kind = type(row)
            if kind is ResultRow or kind is LeaseRow or kind is BulkRow:
                job = self._job_of(row.step_id)  # type: ignore[union-attr]
                if job is not None:
                    self._jobs[job.id] = None
                if kind is LeaseRow:
                    self._node_of[row.id] = row.node_id  # type: ignore[union-attr]
                    self._nodes[row.node_id] = None  # type: ignore[union-attr]
                elif kind is ResultRow and row.closes:  # type: ignore[union-attr]
                    node_id = self._node_of.pop(row.attempt_id, None)  # type: ignore[union-attr]
                    if node_id is not None:
                        self._nodes[node_id] = None
                for follower in self._followers.values():
                    if job is not None and job.id in follower.job_units:
                        self._note_units(follower, row)
            elif kind is StepEditRow:
                # The map may have grown: whoever follows its units needs it whole.
                job = self._job_of(row.step_id)  # type: ignore[union-attr]
                if job is None:
                    continue
                self._jobs[job.id] = None
                for follower in self._followers.values():
                    if job.id in follower.job_units:
                        self._needs_all(follower)
            elif kind is JobStateRow or kind is StepRow:
                self._jobs[row.job_id] = None  # type: ignore[union-attr]
            elif kind is JobRow:
                self._jobs[row.id] = None  # type: ignore[union-attr]
            elif kind is ShelfRow or kind is DeleteRow:
                self._gone_jobs[row.job_id] = None  # type: ignore[union-attr]
            elif kind is NodeRow:
                if row.forgotten:  # type: ignore[union-attr]
                    self._gone.append(f"node:{row.id}")  # type: ignore[union-attr]
                self._nodes[row.id] = None  # type: ignore[union-attr]
            elif kind is MeterRow:
                self._nodes[row.node_id] = None  # type: ignore[union-attr]
            elif kind is HistoryRow and row.what.startswith("node "):  # type: ignore[union-attr]
                # A node that falls silent or is heard again: there is no other row of it.
                self._nodes.update(dict.fromkeys(farm.node_names.get(row.what[5:], ())))  # type: ignore[union-attr]

    def _job_of(self, step_id: int) -> Job | None:
        """The job of a step; None when it left memory in this very turn."""
        step = self._farm.steps.get(step_id)
        return step.job if step is not None else None

    def note_beat(self, node_id: int, now_us: int) -> None:
        """A node's heartbeat came; it is told of now and then, though no row says that it changed."""
        if self._followers and now_us - self._told_us.get(node_id, 0) >= REFRESH_US:
            self._nodes[node_id] = None

    def _needs_all(self, follower: _Follower) -> None:
        follower.resync = self._resync = True
        follower.units.clear()

    def _note_units(self, follower: _Follower, row: AnyRow) -> None:
        if follower.resync:
            return
        if type(row) is ResultRow:
            if row.unit >= 0:
                follower.units[(row.step_id, row.unit)] = None
        elif (type(row) is LeaseRow or type(row) is BulkRow) and row.units != "*":
            units = units_of(row.units)
            if len(units) <= UNITS_MOST:
                follower.units.update(dict.fromkeys([(row.step_id, unit) for unit in units]))
            else:
                self._needs_all(follower)
        else:
            self._needs_all(follower)
        if len(follower.units) > UNITS_MOST:
            self._needs_all(follower)

    # -- telling --

    def due_in_us(self, now_us: int) -> int | None:
        """When the next delta is due, None when there is nothing to tell."""
        if not self._followers or not self._news():
            return None
        return max(0, self._due_us - now_us)

    def _news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._jobs or self._nodes or self._gone or self._gone_jobs or self._resync)

    def flush(self, now_us: int) -> None:
        """Sends deltas if they are due."""
        if not self._followers or now_us < self._due_us or not self._news():
            return
        begun_ns = self._spent_ns()
        self._resync = False
        followers = list(self._followers.values())
        jobs = self._job_rows(followers, now_us)
        nodes = self._node_rows(followers, now_us)
        all_jobs, all_nodes = tuple(jobs.values()), tuple(nodes)
        gone, gone_jobs = tuple(self._gone), tuple(self._gone_jobs)
        self._gone.clear()
        self._gone_jobs.clear()
        for follower in followers:
            if follower.resync:
                self._snapshot(follower, 0, now_us)
                continue
            if follower.jobs_topic:
                shown = all_jobs
            else:
                shown = tuple(jobs[number] for number in follower.job_units if number in jobs)
            follower.session.delta += 1
            self._reply(
                follower.session.routing_id,
                DeltaMsg(
                    n=follower.session.delta,
                    jobs=shown,
                    nodes=all_nodes if follower.nodes_topic else (),
                    units=self._unit_deltas(follower),
                    gone=(gone if follower.nodes_topic else ()) + follower.lost_jobs(gone_jobs),
                ),
            )
        spent_us = (self._spent_ns() - begun_ns) // 1000
        self._due_us = now_us + max(EVERY_US, PAUSE_TIMES * spent_us)

    def _unit_deltas(self, follower: _Follower) -> tuple[UnitDelta, ...]:
        steps = self._farm.steps
        units = tuple(
            [
                UnitDelta(steps[step_id].address, unit, steps[step_id].state[unit])
                for step_id, unit in follower.units
                if step_id in steps
            ]
        )
        follower.units.clear()
        return units

    def _job_rows(self, followers: list[_Follower], now_us: int) -> dict[int, Any]:
        """Encoded rows of the jobs that changed and that somebody follows, by number."""
        if not any(follower.jobs_topic for follower in followers):
            followed = set[int]().union(*(follower.job_units for follower in followers))
            self._jobs = {number: None for number in self._jobs if number in followed}
        farm_jobs, views = self._farm.jobs, self._views
        return {
            number: msgspec.Raw(encode(views.job_row(farm_jobs[number], now_us)))
            for number in sorted(_take(self._jobs))
            if number in farm_jobs
        }

    def _node_rows(self, followers: list[_Follower], now_us: int) -> list[Any]:
        """Encoded rows of the nodes that changed, if anybody follows nodes."""
        if not any(follower.nodes_topic for follower in followers):
            self._nodes.clear()
            return []
        farm_nodes, views, told_us = self._farm.nodes, self._views, self._told_us
        rows = []
        for number in sorted(_take(self._nodes)):
            node = farm_nodes.get(number)
            if node is None or node.forgotten:
                told_us.pop(number, None)
                continue
            told_us[number] = now_us
            rows.append(msgspec.Raw(encode(views.node_row(node, now_us))))
        return rows


def _take(noted: dict[int, None]) -> list[int]:
    """The first of what was noted, as many as one delta holds; they are noted no more."""
    taken = list(islice(noted, ROWS_MOST))
    for number in taken:
        del noted[number]
    return taken
