"""Followers are told what changed and no more, whatever the farm's size; what they hold is the truth."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from client_gui.store.farmstore import FarmStore
from farm.broker import publish
from farm.broker.publish import EVERY_US, PAUSE_TIMES, REFRESH_US, Publisher
from farm.broker.views import Views
from farm.core.events import DeleteEvent
from farm.model.errors import UnknownName
from farm.protocol.client import DeltaMsg, SnapshotMsg
from farm.protocol.codec import encode
from farm.protocol.session import BrokerSession
from farm.sdk.mirror import Mirror
from tests.support.core_rig import Rig, step

_DELTA, _SNAPSHOT = msgspec.msgpack.Decoder(DeltaMsg), msgspec.msgpack.Decoder(SnapshotMsg)


class Stage:
    """A farm, a publisher, and clients that keep a mirror of what they are told."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.spent_ns = 0
        self.cost_ns = 0
        self.mirrors: dict[bytes, Mirror] = {}
        self.told: list[tuple[bytes, DeltaMsg | SnapshotMsg]] = []
        self.views = Views(self.rig.core.farm, self.rig.store)
        self.publisher = Publisher(self.rig.core.farm, self.views, self._reply, self._clock)

    def _clock(self) -> int:
        self.spent_ns += self.cost_ns
        return self.spent_ns

    def _reply(self, routing_id: bytes, message: object) -> None:
        body = encode(message)  # as it goes over the wire
        mirror = self.mirrors.setdefault(routing_id, Mirror())
        if isinstance(message, SnapshotMsg):
            snapshot = _SNAPSHOT.decode(body)
            mirror.snapshot(snapshot)
            self.told.append((routing_id, snapshot))
        else:
            delta = _DELTA.decode(body)
            mirror.delta(delta)
            self.told.append((routing_id, delta))

    def follow(self, *topics: str, name: bytes = b"c") -> None:
        session = BrokerSession(routing_id=name, key="k", version=1, session=1, role="admin", user="ann")
        self.publisher.subscribe(session, 1, topics, self.rig.now_us)

    def note(self) -> None:
        """What the rig's last event stored."""
        self.publisher.note(self.rig.out.rows)

    def do(self, method: str, *arguments: Any, **more: Any) -> Any:
        """Lets the rig do something; its rows are noted."""
        found = getattr(self.rig, method)(*arguments, **more)
        self.note()
        return found

    def flush(self, after_us: int = EVERY_US) -> list[DeltaMsg | SnapshotMsg]:
        """What is told after so long."""
        self.told.clear()
        self.rig.now_us += after_us
        self.publisher.flush(self.rig.now_us)
        return [message for _, message in self.told]


def joined(count: int) -> Stage:
    stage = Stage()
    for number in range(count):
        stage.rig.join(f"n{number}")
    return stage


def test_one_node_s_change_tells_of_one_node() -> None:
    stage = joined(30)
    stage.rig.submit(step(frames="1-2"))
    stage.follow("jobs", "nodes")
    leases = stage.do("dispatch")
    (delta,) = stage.flush()
    assert isinstance(delta, DeltaMsg)
    assert sorted(row.node for row in delta.nodes) == sorted(lease.node_id for lease in leases)
    stage.do("done", leases[0])
    (delta,) = stage.flush()
    assert isinstance(delta, DeltaMsg)
    assert [row.node for row in delta.nodes] == [leases[0].node_id]
    assert delta.nodes[0].running == ()
    assert [row.done for row in delta.jobs] == [1]
    assert stage.flush() == [], "nothing more happened"


def test_the_end_of_an_attempt_leased_before_anybody_followed_names_its_node() -> None:
    stage = joined(5)
    stage.rig.submit(step(frames="1-1"))
    lease = stage.rig.lease()
    stage.follow("nodes")
    stage.do("done", lease)
    (delta,) = stage.flush()
    assert [row.node for row in delta.nodes] == [lease.node_id]


def test_a_node_that_falls_silent_leaves_is_drained_or_forgotten_is_told() -> None:
    stage = joined(3)
    stage.follow("nodes")
    stage.do("wait", 20.0, 1, 2)
    stage.flush()
    assert stage.mirrors[b"c"].nodes[3].state == "suspect"
    stage.do("beat", 3)
    stage.flush()
    assert stage.mirrors[b"c"].nodes[3].state == "online"
    stage.do("node_act", "node-drain", 2)
    stage.flush()
    assert not stage.mirrors[b"c"].nodes[2].enabled
    stage.do("bye", 1)
    stage.flush()
    assert stage.mirrors[b"c"].nodes[1].state == "offline"
    stage.do("node_act", "node-forget", 1)
    stage.flush()
    assert sorted(stage.mirrors[b"c"].nodes) == [2, 3]


def test_heartbeats_alone_refresh_a_node_now_and_then() -> None:
    stage = joined(2)
    stage.follow("nodes")
    stage.rig.wait(REFRESH_US / 1e6, 1, 2)
    stage.publisher.note_beat(1, stage.rig.now_us)
    (delta,) = stage.flush()
    assert [row.node for row in delta.nodes] == [1]
    stage.publisher.note_beat(1, stage.rig.now_us)
    assert stage.flush() == []
    assert stage.publisher.due_in_us(stage.rig.now_us) is None


def test_a_delta_holds_so_many_rows_and_the_others_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "ROWS_MOST", 4)
    stage = joined(10)
    stage.rig.submit(step(frames="1-10"))
    stage.follow("jobs", "nodes")
    stage.do("dispatch")
    sizes = []
    while stage.publisher.due_in_us(stage.rig.now_us) is not None:
        (delta,) = stage.flush()
        sizes.append(len(delta.nodes))
    assert sizes == [4, 4, 2]
    assert all(len(row.running) == 1 for row in stage.mirrors[b"c"].nodes.values())


def test_telling_takes_a_small_part_of_the_loop_s_time() -> None:
    stage = joined(2)
    stage.rig.submit(step(frames="1-2"))
    stage.follow("jobs")
    stage.do("dispatch")
    stage.cost_ns = 40_000_000
    assert len(stage.flush()) == 1
    stage.cost_ns = 0
    stage.do("wait", 0.0)
    stage.do("act", "pause", "J1")
    pause_us = PAUSE_TIMES * 40_000
    assert stage.publisher.due_in_us(stage.rig.now_us) == pause_us
    assert stage.flush(pause_us - 1) == []
    assert len(stage.flush(1)) == 1


def test_chunks_are_told_unit_by_unit_and_only_what_is_too_much_is_told_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = joined(1)
    stage.rig.submit(step(frames="1-20", chunk=5))
    stage.follow("job:1")
    lease = stage.do("lease")
    (delta,) = stage.flush()
    assert isinstance(delta, DeltaMsg)
    assert [change.unit for change in delta.units] == [0, 1, 2, 3, 4]
    stage.do("done", lease)
    monkeypatch.setattr(publish, "UNITS_MOST", 3)
    stage.do("lease")
    (message,) = stage.flush()
    assert isinstance(message, SnapshotMsg)
    assert bytes(stage.mirrors[b"c"].maps["J1/beauty"]) == bytes(stage.rig.step("J1/beauty").state)


def test_who_follows_a_job_is_told_of_that_job_only() -> None:
    stage = joined(2)
    stage.rig.submit(step(frames="1-1"))
    stage.rig.submit(step(frames="1-1"))
    stage.follow("job:2", name=b"two")
    stage.follow("jobs", name=b"all")
    stage.do("dispatch")
    stage.flush()
    rows = {name: [row.job for row in message.jobs] for name, message in stage.told}
    assert rows == {b"two": [2], b"all": [1, 2]}
    assert all(not message.nodes for _, message in stage.told)


def test_nothing_is_kept_for_nobody() -> None:
    stage = joined(2)
    stage.rig.submit(step(frames="1-2"))
    stage.follow("jobs", "nodes")
    stage.do("dispatch")
    stage.publisher.forget(b"c")
    assert not stage.publisher.following
    assert stage.publisher.due_in_us(stage.rig.now_us) is None
    assert stage.flush() == []
    stage.follow("nodes")
    assert stage.flush() == [], "what was changed before is in the snapshot"


@pytest.mark.parametrize("seed", range(12))
def test_what_a_follower_holds_is_what_a_snapshot_would_give(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(publish, "ROWS_MOST", rng.choice((1, 3, 500)))
    monkeypatch.setattr(publish, "UNITS_MOST", rng.choice((2, 5_000)))
    stage = joined(4)
    for chunk in (1, 3):
        stage.rig.submit(step(frames="1-12", chunk=chunk))
    stage.follow("jobs", "nodes", "job:1", "job:2", name=b"early")
    leases: list[Any] = []
    for _ in range(60):
        match rng.randrange(8):
            case 0 | 1:
                leases += stage.do("dispatch")
            case 2 | 3 if leases:
                stage.do("done", leases.pop(rng.randrange(len(leases))))
            case 4 if leases:
                stage.do("release", leases.pop(rng.randrange(len(leases))))
            case 5:
                verb = rng.choice(("pause", "resume", "priority"))
                stage.do("act", verb, f"J{rng.randint(1, 2)}", "60" if verb == "priority" else "")
            case 6:
                number = rng.randint(1, 4)
                stage.do("node_act", rng.choice(("node-drain", "node-enable")), number)
            case _:
                stage.flush()
    while stage.publisher.due_in_us(stage.rig.now_us) is not None:
        stage.flush()
    stage.follow("jobs", "nodes", "job:1", "job:2", name=b"late")
    early, late = stage.mirrors[b"early"], stage.mirrors[b"late"]
    assert {name: bytes(states) for name, states in early.maps.items()} == {
        name: bytes(states) for name, states in late.maps.items()
    }
    assert _timeless(early.jobs) == _timeless(late.jobs)
    assert _timeless(early.nodes) == _timeless(late.nodes)


def _timeless(rows: dict[int, Any]) -> dict[int, Any]:
    """Rows without what changes by the clock or with the whole farm: running costs, and expectations."""
    loose = ("spend_nano", "spent_nano", "idle_nano", "waste_nano")
    found = {}
    for number, row in rows.items():
        names = [
            name for name in row.__struct_fields__ if name in loose or name.startswith(("eta_", "cost_"))
        ]
        found[number] = msgspec.structs.replace(row, **dict.fromkeys(names, 0))
    return found


def test_a_job_that_leaves_memory_leaves_every_mirror() -> None:
    stage = Stage()
    for name in ("a", "b", "c"):
        stage.rig.submit(step(name, "1-3"))
    stage.follow("jobs", name=b"all")
    stage.follow("job:2", name=b"two")
    stage.follow("nodes", name=b"nodes")
    assert set(stage.mirrors[b"all"].jobs) == {1, 2, 3}
    # In one turn it changes and goes: what changed of it is told to nobody any more.
    stage.do("act", "cancel", "J2/b/1-2")
    stage.do("act", "cancel", "J2")
    stage.do("handle", DeleteEvent(stage.rig.now_us, 2, "", "ann"))
    deltas = stage.flush()
    assert set(stage.mirrors[b"all"].jobs) == {1, 3}
    assert stage.mirrors[b"two"].jobs == stage.mirrors[b"two"].maps == {}
    assert len(deltas) == 3
    assert stage.publisher.due_in_us(stage.rig.now_us) is None
    with pytest.raises(UnknownName, match="archived or deleted"):
        stage.follow("job:2", name=b"late")


def test_who_follows_one_job_is_told_once_that_it_is_gone() -> None:
    stage = Stage()
    stage.rig.submit(step("a", "1"))
    stage.follow("job:1", name=b"one")
    stage.do("act", "cancel", "J1")
    stage.flush()
    stage.do("handle", DeleteEvent(stage.rig.now_us, 1, "", "ann"))
    (delta,) = stage.flush()
    assert isinstance(delta, DeltaMsg)
    assert (delta.jobs, delta.units, delta.gone) == ((), (), ("J1",))
    assert stage.flush() == []


class OneSession:
    """A client that follows more and less within a session, and takes what it is told as the window does."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.session = BrokerSession(routing_id=b"w", key="k", version=1, session=1, role="admin", user="ann")
        self.store = FarmStore()
        self.topics: tuple[str, ...] = ()
        self.snapshots: list[SnapshotMsg] = []

    def follow(self, *topics: str, state_of: tuple[str, ...] | None = None) -> SnapshotMsg:
        """Follows other topics; the state it was told."""
        opened = {int(topic[4:]) for topic in topics if topic.startswith("job:")}
        for job in self.store.opened - opened:
            self.store.close_job(job)
        for job in opened - self.store.opened:
            self.store.open_job(job)
        self.stage.told.clear()
        self.stage.publisher.subscribe(self.session, 1, topics, self.stage.rig.now_us, state_of)
        self.topics = topics
        (told,) = (message for name, message in self.stage.told if name == b"w")
        assert isinstance(told, SnapshotMsg)
        self.store.snapshot(told, 0, topics if state_of is None else state_of)
        return told

    def take(self) -> None:
        """Takes what the last flush told it."""
        for name, message in self.stage.told:
            if name == b"w" and isinstance(message, SnapshotMsg):
                self.store.snapshot(message, 0, self.topics)
            elif name == b"w" and isinstance(message, DeltaMsg):
                self.store.delta(message)
                assert not self.store.needs_snapshot, "no number is missed"


def test_the_state_of_a_job_that_is_opened_does_not_bring_the_whole_list() -> None:
    stage = joined(2)
    for name in ("a", "b", "c"):
        stage.rig.submit(step(name, "1-3"))
    client = OneSession(stage)
    assert len(client.follow("jobs", "nodes").jobs) == 3
    stage.do("dispatch")
    opened = client.follow("jobs", "nodes", "job:2", state_of=("job:2",))
    assert [row.job for row in opened.jobs] == [2]
    assert (opened.nodes, set(opened.maps)) == ((), {"J2/b"})
    assert len(client.store.jobs) == 3
    # What changed before it was opened is told all the same.
    stage.flush()
    client.take()
    running = client.store.jobs.numbers("running")
    assert sum(int(running[client.store.jobs.slot(job)]) for job in (1, 2, 3)) == 2
    closed = client.follow("jobs", "nodes", state_of=())
    assert (closed.jobs, closed.nodes, closed.maps) == ((), (), {})
    assert len(client.store.jobs) == 3


def test_whoever_followed_less_than_it_says_is_told_all() -> None:
    stage = joined(1)
    for name in ("a", "b"):
        stage.rig.submit(step(name, "1-3"))
    client = OneSession(stage)
    assert len(client.follow("jobs", "job:1", state_of=("job:1",)).jobs) == 2, "nothing was followed before"
    assert len(client.follow("jobs", "nodes", "job:1", state_of=()).nodes) == 1
    assert len(client.follow("jobs", "nodes", "job:1", "job:2", state_of=("nodes",)).maps) == 2


@pytest.mark.parametrize("seed", range(12))
def test_opening_and_closing_within_a_session_loses_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(publish, "ROWS_MOST", rng.choice((1, 3, 500)))
    monkeypatch.setattr(publish, "UNITS_MOST", rng.choice((2, 5_000)))
    stage = joined(3)
    for chunk in (1, 2, 3):
        stage.rig.submit(step(frames="1-9", chunk=chunk))
    client = OneSession(stage)
    client.follow("jobs")
    leases: list[Any] = []
    for _ in range(50):
        match rng.randrange(6):
            case 0:
                leases += stage.do("dispatch")
            case 1 | 2 if leases:
                stage.do("done", leases.pop(rng.randrange(len(leases))))
            case 3:
                stage.do("act", rng.choice(("pause", "resume")), f"J{rng.randint(1, 3)}", "")
            case 4:
                topics = tuple(rng.sample(("jobs", "nodes", "job:1", "job:2", "job:3"), rng.randint(0, 5)))
                client.follow(*topics, state_of=tuple(one for one in topics if one not in client.topics))
            case _:
                stage.flush()
                client.take()
    whole = ("jobs", "nodes", "job:1", "job:2", "job:3")
    client.follow(*whole, state_of=tuple(one for one in whole if one not in client.topics))
    while stage.publisher.due_in_us(stage.rig.now_us) is not None:
        stage.flush()
        client.take()
    stage.follow(*whole, name=b"late")
    late, store = stage.mirrors[b"late"], client.store
    assert {name: bytes(known.states) for name, known in store.maps.items()} == {
        name: bytes(states) for name, states in late.maps.items()
    }
    for number, row in late.jobs.items():
        for name in ("state", "done", "failed", "running", "units"):
            assert store.jobs.get(store.jobs.slot(number), name) == getattr(row, name), (number, name)
    for number, node in late.nodes.items():
        assert store.nodes.get(store.nodes.slot(number), "state") == node.state
        assert store.nodes.get(store.nodes.slot(number), "cores_free") == node.cores_free
