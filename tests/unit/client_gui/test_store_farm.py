"""The client's copy of a farm: the same as a fresh one whatever was missed, and nothing changes untold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_gui.store.columns import summed_counts
from client_gui.store.farmstore import FarmChange, FarmStore, Freshness, Link
from client_gui.store.order import Order, SortKey
from client_gui.store.table import Change, Table
from client_gui.store.unitmap import UnitMap
from farm.model.states import UnitState
from farm.protocol.client import DeltaMsg, SnapshotMsg, UnitDelta
from farm.protocol.rows import JobRow, NodeRow
from tests.support.fake_broker import job_row, node_row, step_row

ROOT = Path(__file__).resolve().parents[3]
STEPS = ("beauty", "crypto")


class Broker:
    """What a broker knows and tells one client."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobRow] = {}
        self.nodes: dict[int, NodeRow] = {}
        self.maps: dict[str, bytearray] = {}
        self.topics: tuple[str, ...] = ("jobs", "nodes")
        self.n = 0

    def follows(self, job: int) -> bool:
        return f"job:{job}" in self.topics

    def snapshot(self) -> SnapshotMsg:
        self.n += 1
        jobs = [
            row
            for row in self.jobs.values()
            if ("jobs" in self.topics and not row.archived) or self.follows(row.job)
        ]
        return SnapshotMsg(
            id=1,
            n=self.n,
            jobs=tuple(jobs),
            nodes=tuple(self.nodes.values()) if "nodes" in self.topics else (),
            maps={
                address: bytes(states)
                for address, states in self.maps.items()
                if self.follows(int(address.partition("/")[0][1:]))
            },
        )

    def delta(self, **fields: Any) -> DeltaMsg:
        self.n += 1
        return DeltaMsg(n=self.n, **fields)


class Shadow:
    """A copy of a table that knows only what changes tell."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.rows: dict[Any, dict[str, Any]] = {}

    def take(self, change: Change[Any]) -> None:
        for row_id in change.removed_ids:
            del self.rows[row_id]
        for slot in (*change.inserted.tolist(), *change.changed.tolist()):
            row_id = self.table.ids[slot]
            self.rows[row_id] = self.table.row(row_id)
        assert self.rows == {row_id: self.table.row(row_id) for row_id in self.table.all_ids()}


class Watcher:
    """Looks at every change of a store."""

    def __init__(self, store: FarmStore) -> None:
        self.store = store
        self.shadows = {
            "jobs": Shadow(store.jobs),
            "nodes": Shadow(store.nodes),
            "steps": Shadow(store.steps),
        }
        self.maps: dict[str, bytearray] = {}
        self.order: Order[int] = Order(store.jobs, [SortKey("name"), SortKey("priority", descending=True)])

    def take(self, change: FarmChange) -> None:
        for name, shadow in self.shadows.items():
            shadow.take(getattr(change, name))
        self.order.settle(self.order.apply(change.jobs))
        for address, found in change.maps.items():
            if found.whole:
                self.maps.pop(address, None)
                if address in self.store.maps:
                    self.maps[address] = bytearray(self.store.maps[address].states)
            else:
                for unit in found.units.tolist():
                    self.maps[address][unit] = self.store.maps[address].states[unit]
        assert self.maps == {address: found.states for address, found in self.store.maps.items()}
        for found_map in self.store.maps.values():
            assert found_map.counts.tolist() == UnitMap(bytes(found_map.states)).counts.tolist()
        fresh = Order(self.store.jobs, self.order.sort)
        assert self.order.ids() == fresh.ids()


def content(store: FarmStore) -> dict[str, Any]:
    return {
        "jobs": {one: store.jobs.row(one) for one in store.jobs.all_ids()},
        "nodes": {one: store.nodes.row(one) for one in store.nodes.all_ids()},
        "steps": {one: store.steps.row(one) for one in store.steps.all_ids()},
        "maps": {address: bytes(found.states) for address, found in store.maps.items()},
    }


NUMBERS = st.integers(1, 6)
OPERATIONS = st.one_of(
    st.tuples(
        st.just("job"), NUMBERS, st.tuples(st.sampled_from("abc"), st.integers(0, 100), st.integers(1, 3))
    ),
    st.tuples(st.just("archive"), NUMBERS, st.none()),
    st.tuples(st.just("delete"), NUMBERS, st.none()),
    st.tuples(st.just("node"), NUMBERS, st.integers(0, 5)),
    st.tuples(st.just("forget"), NUMBERS, st.none()),
    st.tuples(
        st.just("units"), NUMBERS, st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 9)), max_size=4)
    ),
    st.tuples(st.just("open"), NUMBERS, st.none()),
    st.tuples(st.just("close"), NUMBERS, st.none()),
    st.tuples(st.just("follow"), st.booleans(), st.booleans()),
    st.tuples(st.just("lose"), st.none(), st.none()),
    st.tuples(st.just("reconnect"), st.none(), st.none()),
    st.tuples(st.just("grow"), NUMBERS, st.none()),
)


@given(st.lists(OPERATIONS, max_size=40), st.booleans())
@settings(max_examples=200, deadline=None)
def test_it_is_what_a_fresh_snapshot_gives_after_anything(operations: list[Any], in_slices: bool) -> None:
    broker, store = Broker(), FarmStore()
    watcher = Watcher(store)
    lose = missed = False

    def whole(message: SnapshotMsg) -> None:
        if in_slices:
            for change in store.snapshot_slices(message, at_once=2):
                watcher.take(change)
        else:
            watcher.take(store.snapshot(message))

    whole(broker.snapshot())

    def tell(message: DeltaMsg) -> None:
        nonlocal lose, missed
        if lose:
            lose, missed = False, True
            return
        watcher.take(store.delta(message))

    def subscribe() -> None:
        nonlocal missed
        missed = False
        # A job that is gone can no longer be followed: the broker says so.
        for job in [one for one in store.opened if one not in broker.jobs]:
            watcher.take(store.close_job(job))
        broker.topics = store.topics()
        whole(broker.snapshot())

    for kind, first, second in operations:
        if kind == "job":
            name, priority, frames = second
            old = broker.jobs.get(first)
            archived = old is not None and old.archived
            steps = tuple(step_row(name=step, units=frames * 4) for step in STEPS[: 1 + priority % 2])
            broker.jobs[first] = job_row(first, name=name, priority=priority, steps=steps, archived=archived)
            for step in steps:
                broker.maps.setdefault(f"J{first}/{step.name}", bytearray(frames * 4))
            if "jobs" in broker.topics or broker.follows(first):
                tell(broker.delta(jobs=(broker.jobs[first],)))
        elif kind == "archive" and first in broker.jobs:
            old = broker.jobs[first]
            broker.jobs[first] = job_row(
                first, name=old.name, priority=old.priority, steps=old.steps, archived=True
            )
            if "jobs" in broker.topics or broker.follows(first):
                tell(broker.delta(jobs=(broker.jobs[first],)))
        elif kind == "delete" and broker.jobs.pop(first, None) is not None:
            broker.maps = {one: two for one, two in broker.maps.items() if not one.startswith(f"J{first}/")}
            if "jobs" in broker.topics or broker.follows(first):
                broker.topics = tuple(topic for topic in broker.topics if topic != f"job:{first}")
                tell(broker.delta(gone=(f"J{first}",)))
        elif kind == "node":
            broker.nodes[first] = node_row(f"ws-{first}", node=first, cores_free=second)
            if "nodes" in broker.topics:
                tell(broker.delta(nodes=(broker.nodes[first],)))
        elif kind == "forget" and broker.nodes.pop(first, None) is not None:
            if "nodes" in broker.topics:
                tell(broker.delta(gone=(f"node:{first}",)))
        elif kind == "units":
            units = []
            for unit, state in second:
                states = broker.maps.get(f"J{first}/beauty", bytearray())
                if 0 <= unit < len(states):
                    states[unit] = state
                units.append(UnitDelta(f"J{first}/beauty", unit, state))
            if broker.follows(first):
                tell(broker.delta(units=tuple(units)))
        elif kind == "open":
            watcher.take(store.open_job(first))
            subscribe()
        elif kind == "close":
            watcher.take(store.close_job(first))
            subscribe()
        elif kind == "follow":
            if store.follow(jobs=first, nodes=second):
                subscribe()
        elif kind == "lose":
            lose = True
        elif kind == "reconnect":
            store.connection(Link.LOST, "nothing answers")
            subscribe()
        elif kind == "grow" and f"J{first}/beauty" in broker.maps:
            # What the broker does when a step is given more frames.
            broker.maps[f"J{first}/beauty"] += b"\0\0"
            if broker.follows(first):
                whole(broker.snapshot())
                missed = False
        if store.needs_snapshot:
            assert store.link is not Link.LIVE
            subscribe()
        if missed:
            continue  # nobody knows of it before the next message
        fresh = FarmStore()
        fresh.follow(jobs=store.follows("jobs"), nodes=store.follows("nodes"))
        fresh.opened = set(store.opened)
        fresh.snapshot(broker.snapshot())
        broker.n -= 1
        have, wanted = content(store), content(fresh)
        for name in ("jobs", "nodes"):
            if not store.follows(name):
                # Rows of a list nobody looks at stay as they were.
                have[name] = {
                    one: row for one, row in have[name].items() if one in store.opened and name == "jobs"
                }
        assert have == wanted


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_changes_taken_in_slices_leave_what_they_leave_at_once(at_once: int) -> None:
    whole, sliced = FarmStore(), FarmStore()
    first = SnapshotMsg(
        id=1, n=1, jobs=tuple(map(job_row, range(1, 9))), nodes=tuple(map(node_row, range(1, 6)))
    )
    message = DeltaMsg(
        n=2,
        jobs=(*(job_row(job, done=job + 10) for job in (3, 1, 9, 4, 2)), job_row(3, done=77)),
        nodes=tuple(node_row(node, cores_free=0) for node in (2, 7, 4)),
        gone=("J2", "J8", "node:4"),
    )
    for store in (whole, sliced):
        store.snapshot(first)
    whole.delta(message)
    parts = list(sliced.delta_slices(message, at_once=at_once))
    assert len(parts) == -(-len(message.jobs) // at_once)
    assert all(len(part.jobs.changed) + len(part.jobs.inserted) <= at_once for part in parts)
    assert sliced.n == whole.n == 2
    assert set(sliced.jobs.all_ids()) == {1, 3, 4, 5, 6, 7, 9}
    for one, other in ((whole.jobs, sliced.jobs), (whole.nodes, sliced.nodes)):
        ids = set(one.all_ids())
        assert ids == set(other.all_ids())
        assert {row_id: one.row(row_id) for row_id in ids} == {row_id: other.row(row_id) for row_id in ids}
    assert sliced.jobs.row(3)["done"] == 77


def test_a_gap_is_noticed_before_the_first_slice() -> None:
    store = FarmStore()
    store.snapshot(SnapshotMsg(id=1, n=1, jobs=(job_row(1),)))
    before = store.jobs.row(1)
    assert not list(store.delta_slices(DeltaMsg(n=3, jobs=(job_row(1, done=99),))))
    assert store.needs_snapshot
    assert store.jobs.row(1) == before


def test_a_gap_changes_nothing_until_the_snapshot_and_that_only_what_differs() -> None:
    broker, store = Broker(), FarmStore()
    broker.jobs = {number: job_row(number) for number in range(1, 6)}
    store.snapshot(broker.snapshot())
    slots = {number: store.jobs.slot(number) for number in broker.jobs}
    broker.jobs[2] = job_row(2, priority=70)
    broker.delta(jobs=(broker.jobs[2],))  # lost
    broker.jobs[3] = job_row(3, state="done")
    assert not store.delta(broker.delta(jobs=(broker.jobs[3],)))
    assert (store.link, store.needs_snapshot) == (Link.RESYNC, True)
    assert store.jobs.row(3)["state"] == "running", "half of the news is worse than none"
    del broker.jobs[5]
    change = store.snapshot(broker.snapshot())
    assert store.link is Link.LIVE
    assert {store.jobs.ids[slot] for slot in change.jobs.changed.tolist()} == {2, 3}
    assert change.jobs.removed_ids == (5,)
    assert not len(change.jobs.inserted)
    assert all(store.jobs.slot(number) == slots[number] for number in broker.jobs)
    assert not store.snapshot(broker.snapshot()), "the same again changes nothing"


def test_what_a_newer_farm_says_is_kept_and_shown() -> None:
    store = FarmStore()
    step = step_row(state="simmering", counts=(0, 2, 1, 6, 1, 0, 0, 4, 2))
    store.open_job(12)
    store.snapshot(
        SnapshotMsg(
            id=1, n=1, jobs=(job_row(12, state="simmering", steps=(step,)),),
            nodes=(node_row(state="napping"),), maps={"J12/beauty": bytes([3, 9, 250])},
        )
    )  # fmt: skip
    assert store.jobs.row(12)["state"] == "simmering"
    assert store.nodes.row(3)["state"] == "napping"
    assert store.steps.row("J12/beauty")["counts"][8] == 2
    assert summed_counts((step, step_row())) == (0, 4, 2, 12, 2, 0, 0, 4, 2)
    units = store.maps["J12/beauty"]
    assert (units.count(250), units.count(UnitState.DONE)) == (1, 1)
    change = store.delta(DeltaMsg(n=2, units=(UnitDelta("J12/beauty", 0, 77),), gone=("pool:7", "J", "J12")))
    assert change.jobs.removed_ids == (12,)
    assert change.maps["J12/beauty"].whole
    assert not store.opened
    assert store.topics() == ("jobs", "nodes")


def test_how_old_what_is_shown_may_be() -> None:
    store = FarmStore()
    assert (store.age_us(5), store.freshness(5)) == (None, Freshness.STALE)
    store.snapshot(SnapshotMsg(id=1, n=1), 1_000_000)
    assert store.freshness(1_500_000) is Freshness.FRESH
    assert store.freshness(4_500_000) is Freshness.LATE
    store.heard(4_600_000, round_trip_us=900)
    assert (store.freshness(5_000_000), store.round_trip_us) == (Freshness.FRESH, 900)
    store.connection(Link.LOST, "nothing answers", 20_000_000)
    assert store.freshness(5_000_000) is Freshness.LATE
    assert store.freshness(15_000_000) is Freshness.STALE
    assert store.age_us(15_000_000) == 10_400_000
    assert store.needs_snapshot
    assert not store.delta(DeltaMsg(n=2, jobs=(job_row(),)), 16_000_000), "no delta counts before a snapshot"
    assert len(store.jobs) == 0


def test_an_opened_job_shows_its_steps_at_once_and_its_frames_when_they_come() -> None:
    broker, store = Broker(), FarmStore()
    broker.jobs = {12: job_row(12)}
    broker.maps = {"J12/beauty": bytearray(b"\1\2\3")}
    store.snapshot(broker.snapshot())
    assert len(store.open_job(12).steps.inserted) == 1
    assert not store.open_job(12)
    assert store.topics() == ("jobs", "nodes", "job:12")
    # The answer to what was asked before it was opened.
    store.snapshot(broker.snapshot(), topics=("jobs", "nodes"))
    assert store.opened == {12}
    assert len(store.steps) == 1
    broker.topics = store.topics()
    assert store.snapshot(broker.snapshot()).maps["J12/beauty"].whole
    assert [step.name for step in store.steps_of(12)] == ["beauty"]
    assert store.maps["J12/beauty"].units_in(1, 3).tolist() == [0, 2]
    change = store.close_job(12)
    assert change.steps.removed_ids == ("J12/beauty",)
    assert not store.maps
    assert 12 in store.jobs


def test_an_archived_job_is_shown_only_while_it_is_opened() -> None:
    store = FarmStore()
    store.open_job(12)
    store.snapshot(SnapshotMsg(id=1, n=1, jobs=(job_row(12), job_row(13))))
    change = store.delta(DeltaMsg(n=2, jobs=(job_row(12, archived=True), job_row(13, archived=True))))
    assert change.jobs.removed_ids == (13,)
    # An answer to what was asked before it was opened does not name it.
    assert not store.snapshot(SnapshotMsg(id=1, n=3), topics=("jobs", "nodes")).jobs
    assert store.opened == {12}
    assert store.close_job(12).jobs.removed_ids == (12,)


@given(
    st.binary(max_size=20),
    st.lists(st.lists(st.tuples(st.integers(-2, 25), st.integers(-1, 257)), max_size=8), max_size=5),
    st.binary(max_size=20),
)
def test_a_unit_map_counts_what_it_holds(states: bytes, batches: list[Any], other: bytes) -> None:
    found, oracle = UnitMap(states), bytearray(states)
    for batch in batches:
        before = bytes(oracle)
        for unit, state in batch:
            if 0 <= unit < len(oracle) and 0 <= state < 256:
                oracle[unit] = state
        change = found.put(batch)
        assert change.units.tolist() == [unit for unit in range(len(oracle)) if oracle[unit] != before[unit]]
        assert found.states == oracle
        assert [found.count(state) for state in range(256)] == [oracle.count(state) for state in range(256)]
    change = found.replace(other)
    assert found.states == other
    assert [found.count(state) for state in range(256)] == [other.count(state) for state in range(256)]
    if len(other) == len(oracle):
        assert change.units.tolist() == [unit for unit in range(len(oracle)) if oracle[unit] != other[unit]]
    else:
        assert change.whole


def test_fifty_thousand_jobs_ten_thousand_nodes_and_twenty_thousand_updates() -> None:
    store = FarmStore()
    jobs = tuple(job_row(number, name=f"sh{number}") for number in range(1, 50_001))
    nodes = tuple(node_row(f"r-{number}", node=number) for number in range(1, 10_001))
    store.snapshot(SnapshotMsg(id=1, n=1, jobs=jobs, nodes=nodes))
    for n in range(40):
        rows = tuple(
            job_row(number, name=f"sh{number}", done=7) for number in range(1 + n * 500, 501 + n * 500)
        )
        assert len(store.delta(DeltaMsg(n=2 + n, jobs=rows)).jobs.changed) == 500
    assert int((store.jobs.numbers("done")[store.jobs.slots()] == 7).sum()) == 20_000
    assert (len(store.jobs), len(store.nodes)) == (50_000, 10_000)


# -- any desktop --------------------------------------------------------------------------------------

MODULES = sorted(
    path.stem for path in (ROOT / "client_gui" / "store").glob("*.py") if path.stem != "__init__"
)


@pytest.mark.parametrize("blocked", [("fcntl", "pwd", "grp", "resource", "termios", "zmq", "PySide6")])
def test_it_needs_neither_posix_nor_sockets_nor_qt(blocked: tuple[str, ...], tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"for name in {blocked!r}: sys.modules[name] = None\n"
        f"for name in {MODULES!r}: __import__('client_gui.store.' + name)\n"
        "import farm.model.query, farm.sdk.filters\n"
        "rooms = ('farm.broker', 'farm.core', 'farm.storage', 'farm.cli', 'farm.transport', 'node_agent')\n"
        "wrong = [name for name in sys.modules if name.startswith(rooms)]\n"
        "assert not wrong, wrong\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
