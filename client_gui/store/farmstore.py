"""The client's copy of the farm: jobs, nodes, steps and frames of opened jobs, and how old all that is.

What belongs here: applying snapshots and numbered deltas to tables and saying what changed.  What may not:
sockets, clocks (moments are handed in), Qt, and how it is shown.

A snapshot that follows a gap is compared with what is there: rows that stay keep their slots, and only
differences are reported.  Nothing is ever thrown away and loaded again under somebody's selection.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

import msgspec

from client_gui.store.columns import (
    JOB_COLUMNS,
    NODE_COLUMNS,
    STEP_COLUMNS,
    job_columns,
    node_values,
    step_address,
    step_values,
)
from client_gui.store.table import Change, Table, joined
from client_gui.store.unitmap import MapChange, UnitMap
from farm.protocol.client import DeltaMsg, SnapshotMsg
from farm.protocol.rows import JobRow, NodeRow, StepRow

_JOB = re.compile(r"J([0-9]{1,18})(/.+)?\Z")
_NODE = re.compile(r"(?:node:|N)([0-9]{1,18})\Z")
#: Rows that are taken in one go without the window being kept waiting.
SLICE_ROWS: Final = 250
#: After so long without a word the client says so, and after so long that it cannot be relied on.
LATE_US: Final = 3_000_000
STALE_US: Final = 10_000_000


class Link(StrEnum):
    """How the client stands with the broker."""

    #: Not connected yet, or trying again.
    CONNECTING = "connecting"
    #: Connected; what is shown is what is.
    LIVE = "live"
    #: Connected, but numbers were missed: a snapshot was asked for.
    RESYNC = "catching up"
    #: The connection is lost; it will be tried again.
    LOST = "lost"
    #: The broker does not want this client, and trying again is of no use.
    REFUSED = "refused"


class Freshness(StrEnum):
    """How far what is shown can be relied on."""

    FRESH = "fresh"
    LATE = "late"
    STALE = "stale"


@dataclass(frozen=True, slots=True, eq=False)
class FarmChange:
    """What a message changed.

    Attributes:
        jobs, nodes, steps: Of the tables.
        maps: Of the unit maps, by address of the step.
    """

    jobs: Change[int] = field(default_factory=Change)
    nodes: Change[int] = field(default_factory=Change)
    steps: Change[str] = field(default_factory=Change)
    maps: Mapping[str, MapChange] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.jobs or self.nodes or self.steps or self.maps)


NOTHING: Final = FarmChange()
_read_job, _read_archived = attrgetter("job"), attrgetter("archived")


class FarmStore:
    """The farm as of the last message.

    Attributes:
        jobs: By number; archived ones only while they are opened.
        nodes: By number.
        steps: Of opened jobs, by address (``J12/beauty``).
        maps: Of opened jobs, by address of the step.
        opened: Numbers of the jobs whose steps and frames are followed.
        link: How the client stands with the broker.
        trouble: Why nothing comes, "" while it does.
        retry_at_us: When the next attempt to connect is made, None when that is not known.
        round_trip_us: How long the last answer took, None before the first.
        heard_us: When the broker was last heard of; 0 = never.
        n: Number of the last message; None = a snapshot is needed.
    """

    def __init__(self) -> None:
        self.jobs: Table[int] = Table(JOB_COLUMNS)
        self.nodes: Table[int] = Table(NODE_COLUMNS)
        self.steps: Table[str] = Table(STEP_COLUMNS)
        self.maps: dict[str, UnitMap] = {}
        self.opened: set[int] = set()
        self.link = Link.CONNECTING
        self.trouble = ""
        self.retry_at_us: int | None = None
        self.round_trip_us: int | None = None
        self.heard_us = 0
        self.n: int | None = None
        self._lists = {"jobs", "nodes"}

    # -- what is followed --

    def follow(self, *, jobs: bool = True, nodes: bool = True) -> bool:
        """Says which lists are looked at; returns whether ``topics`` changed.

        Rows of a list that is not followed stay as they are, and grow old.
        """
        lists = {name for name, wanted in (("jobs", jobs), ("nodes", nodes)) if wanted}
        changed, self._lists = lists != self._lists, lists
        return changed

    def follows(self, name: str) -> bool:
        """Whether a list (``jobs``, ``nodes``) is followed."""
        return name in self._lists

    def open_job(self, job: int) -> FarmChange:
        """Follows a job's steps and frames; the steps are there at once, frames with the next snapshot."""
        if job in self.opened:
            return NOTHING
        self.opened.add(job)
        return FarmChange(steps=self._sync_steps([job]))

    def close_job(self, job: int) -> FarmChange:
        """No longer follows a job's steps and frames."""
        if job not in self.opened:
            return NOTHING
        self.opened.discard(job)
        maps = self._drop_maps([job])
        slot = self.jobs.slot(job)
        archived = slot >= 0 and bool(self.jobs.numbers("archived")[slot])
        jobs: Change[int] = self.jobs.apply((), (), [job]) if archived else Change()
        return FarmChange(jobs=jobs, steps=self._sync_steps((), [job]), maps=maps)

    def topics(self) -> tuple[str, ...]:
        """What to subscribe to; to be asked for again whenever it has changed."""
        return (*sorted(self._lists), *(f"job:{job}" for job in sorted(self.opened)))

    # -- the connection --

    def connection(self, link: Link, trouble: str = "", retry_at_us: int | None = None) -> None:
        """Takes note of how the connection stands.  What was known stays, and grows old."""
        self.link, self.trouble, self.retry_at_us = link, trouble, retry_at_us
        if link is not Link.LIVE:
            self.n = None

    def heard(self, now_us: int, round_trip_us: int | None = None) -> None:
        """The broker sent something, be it an empty answer."""
        self.heard_us = max(self.heard_us, now_us)
        if round_trip_us is not None:
            self.round_trip_us = round_trip_us

    def age_us(self, now_us: int) -> int | None:
        """How old what is shown may be; None when nothing has ever come."""
        return max(0, now_us - self.heard_us) if self.heard_us else None

    def freshness(self, now_us: int) -> Freshness:
        """How far what is shown can be relied on."""
        age_us = self.age_us(now_us)
        if age_us is None or age_us >= STALE_US:
            return Freshness.STALE
        return Freshness.LATE if age_us >= LATE_US or self.link is not Link.LIVE else Freshness.FRESH

    @property
    def needs_snapshot(self) -> bool:
        """Whether deltas are of no use until a snapshot comes."""
        return self.n is None

    # -- messages --

    def snapshot(
        self, message: SnapshotMsg, now_us: int = 0, topics: Iterable[str] | None = None
    ) -> FarmChange:
        """Takes the state of what is followed, all at once.

        Args:
            message: The state.
            now_us: When it came.
            topics: What was subscribed to; None = ``topics()`` as it is now.
        """
        # Slots that are left by one slice must not be used again by the next: the changes are told as one.
        tables: tuple[Table[Any], ...] = (self.jobs, self.nodes, self.steps)
        for table in tables:
            table.hold()
        parts = list(self.snapshot_slices(message, now_us, topics))
        for table in tables:
            table.release()
        maps: dict[str, MapChange] = {}
        for part in parts:
            maps |= part.maps
        return FarmChange(
            joined([part.jobs for part in parts]),
            joined([part.nodes for part in parts]),
            joined([part.steps for part in parts]),
            maps,
        )

    def snapshot_slices(
        self,
        message: SnapshotMsg,
        now_us: int = 0,
        topics: Iterable[str] | None = None,
        at_once: int = 500,
    ) -> Iterator[FarmChange]:
        """Takes the state of what is followed bit by bit, so that a window can be drawn in between.

        Every change has to be handed on before the next is asked for, and no delta may be taken before the
        last one: until then some rows are older than others.

        Args:
            message: The state.
            now_us: When it came.
            topics: What was subscribed to; None = ``topics()`` as it is now.
            at_once: Most rows a slice.
        """
        subscribed = set(self.topics() if topics is None else topics)
        asked = {int(topic[4:]) for topic in subscribed if topic.startswith("job:")}
        self.connection(Link.LIVE)
        self.n = message.n
        self.heard(now_us)
        rows = [row for row in message.jobs if not row.archived or row.job in self.opened]
        sent = {row.job for row in rows}
        known: Iterable[int] = self.jobs.all_ids() if "jobs" in subscribed else asked
        # Of a job that was opened a moment ago the answer to an older question says nothing.
        gone = [job for job in known if job not in sent and (job not in self.opened or job in asked)]
        # What somebody has open comes first.
        opened = [row for row in rows if row.job in self.opened]
        jobs = self._put_jobs(opened, gone)
        steps = self._sync_steps(sent, gone)
        yield FarmChange(jobs=jobs, steps=steps, maps=self._snapshot_maps(message, gone, asked))
        others = [row for row in rows if row.job not in self.opened]
        for start in range(0, len(others), at_once):
            yield FarmChange(jobs=self._put_jobs(others[start : start + at_once], ()))
        if "nodes" in subscribed:
            names = {row.node for row in message.nodes}
            lost = [node for node in self.nodes.all_ids() if node not in names]
            for start in range(0, max(1, len(message.nodes)), at_once):
                some = message.nodes[start : start + at_once]
                ids, values = [row.node for row in some], [node_values(row) for row in some]
                yield FarmChange(nodes=self.nodes.apply(ids, values, () if start else lost))

    def _snapshot_maps(
        self, message: SnapshotMsg, gone: Iterable[int], asked: set[int]
    ) -> dict[str, MapChange]:
        maps = self._drop_maps(gone)
        for address in [known for known in self.maps if known not in message.maps]:
            if _job_of(address) in asked:
                del self.maps[address]
                maps[address] = MapChange(whole=True)
        for address, states in message.maps.items():
            if _job_of(address) in self.opened:
                self._put_map(address, states, maps)
        return maps

    def delta(self, message: DeltaMsg, now_us: int = 0) -> FarmChange:
        """Takes numbered changes.

        One that does not follow the last message changes nothing: ``needs_snapshot`` is true from then on.
        """
        return self._take_delta(message) if self._follows_on(message, now_us) else NOTHING

    def delta_slices(
        self, message: DeltaMsg, now_us: int = 0, at_once: int = SLICE_ROWS
    ) -> Iterator[FarmChange]:
        """Takes numbered changes bit by bit, so that a window can be drawn in between.

        As with ``snapshot_slices`` every change has to be handed on before the next is asked for, and no
        other message may be taken before the last one.

        Args:
            message: The changes.
            now_us: When it came.
            at_once: Most rows of each kind a slice.
        """
        if not self._follows_on(message, now_us):
            return
        for start in range(0, max(1, len(message.jobs), len(message.nodes)), at_once):
            part = slice(start, start + at_once)
            # What is gone is said with each slice: none of them may bring it back.
            yield self._take_delta(
                msgspec.structs.replace(
                    message,
                    jobs=message.jobs[part],
                    nodes=message.nodes[part],
                    units=() if start else message.units,
                )
            )

    def _follows_on(self, message: DeltaMsg, now_us: int) -> bool:
        """Takes note of a message, and says whether it is the one after the last."""
        self.heard(now_us)
        if self.n is None:
            return False
        if message.n != self.n + 1:
            self.connection(Link.RESYNC, "numbers were missed")
            return False
        self.n = message.n
        return True

    def _take_delta(self, message: DeltaMsg) -> FarmChange:
        gone_jobs, gone_nodes, gone_steps = _names(message.gone)
        rows: Collection[JobRow] = message.jobs
        if gone_jobs:
            rows = [row for row in rows if row.job not in gone_jobs]
        if any(map(_read_archived, rows)):
            rows = {row.job: row for row in rows}.values()
            gone_jobs += [row.job for row in rows if row.archived and row.job not in self.opened]
            rows = [row for row in rows if not row.archived or row.job in self.opened]
        jobs = self._put_jobs(rows, gone_jobs)
        steps = self._sync_steps(map(_read_job, rows), gone_jobs)
        nodes: Change[int] = Change()
        fresh: list[NodeRow] = [row for row in message.nodes if row.node not in gone_nodes]
        if fresh or gone_nodes:
            nodes = self.nodes.apply(
                [row.node for row in fresh], [node_values(row) for row in fresh], gone_nodes
            )
        by_step: dict[str, list[tuple[int, int]]] = {}
        for change in message.units:
            by_step.setdefault(change.step, []).append((change.unit, change.state))
        maps: dict[str, MapChange] = {}
        for address, changes in by_step.items():
            if (known := self.maps.get(address)) is not None and len((found := known.put(changes)).units):
                maps[address] = found
        maps |= self._drop_maps(gone_jobs)
        for address in gone_steps:
            if self.maps.pop(address, None) is not None:
                maps[address] = MapChange(whole=True)
        return FarmChange(jobs, nodes, steps, maps)

    # -- reading --

    def steps_of(self, job: int) -> tuple[StepRow, ...]:
        """The steps of a job, opened or not; empty when it is not known."""
        slot = self.jobs.slot(job)
        if slot < 0:
            return ()
        found: tuple[StepRow, ...] = self.jobs.values("steps")[slot]
        return found

    # -- inside --

    def _put_jobs(self, rows: Collection[JobRow], gone: Iterable[int]) -> Change[int]:
        chosen = list(dict(zip(map(_read_job, rows), rows, strict=True)).values())
        gone = list(gone)
        if not chosen and not gone:
            return Change()
        columns = job_columns(chosen)
        return self.jobs.apply_columns(columns[0], columns, gone)

    def _sync_steps(self, jobs: Iterable[int], lost: Iterable[int] = ()) -> Change[str]:
        """Brings the steps of opened jobs in line with the rows of some jobs; those of lost ones go."""
        out = set(lost)
        told = self.opened.intersection(jobs) - out
        self.opened -= out
        if not told and not (out and len(self.steps)):
            return Change()
        ids: list[str] = []
        values: list[tuple[Any, ...]] = []
        for job in sorted(told):
            for place, row in enumerate(self.steps_of(job)):
                ids.append(step_address(job, row.name))
                values.append(step_values(job, place, row))
        have = set(ids)
        gone = [
            known
            for known in self.steps.all_ids()
            if known not in have and ((job := _job_of(known)) in told or job in out)
        ]
        return self.steps.apply(ids, values, gone)

    def _drop_maps(self, jobs: Iterable[int]) -> dict[str, MapChange]:
        lost = set(jobs)
        found: dict[str, MapChange] = {}
        for address in [known for known in self.maps if _job_of(known) in lost]:
            del self.maps[address]
            found[address] = MapChange(whole=True)
        return found

    def _put_map(self, address: str, states: bytes, maps: dict[str, MapChange]) -> None:
        known = self.maps.get(address)
        if known is None:
            self.maps[address] = UnitMap(states)
            maps[address] = MapChange(whole=True)
            return
        change = known.replace(states)
        if change.whole or len(change.units):
            maps[address] = change


def _names(names: Iterable[str]) -> tuple[list[int], list[int], list[str]]:
    """Jobs, nodes and steps by what the broker calls them; what is none of these is passed over."""
    jobs: list[int] = []
    nodes: list[int] = []
    steps: list[str] = []
    for name in names:
        if (found := _JOB.match(name)) is not None:
            if found[2] is None:
                jobs.append(int(found[1]))
            else:
                steps.append(name)
        elif (found := _NODE.match(name)) is not None:
            nodes.append(int(found[1]))
    return jobs, nodes, steps


def _job_of(address: str) -> int:
    """The number of the job that a step's address begins with."""
    head = address.partition("/")[0]
    return int(head[1:]) if head[1:].isdigit() else -1
