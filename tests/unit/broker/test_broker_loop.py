"""When the loop writes checkpoints and regroups what they settled: under load, at rest, at the end."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from farm.broker import loop as looping
from farm.broker.loop import Loop
from farm.broker.state import Addresses, BrokerState
from farm.core.rows import StaleRow
from farm.model.errors import StorageError
from farm.protocol.agent import Timings
from farm.storage.memory import MemoryStore
from tests.support.core_rig import Rig

#: The loop's figures, small.
FIGURES = {
    "CHECKPOINT_ROWS": 20,
    "CHECKPOINT_FORCED": 50,
    "COMPACT_ROWS": 20,
    "COMPACT_BUSY_ROWS": 10,
    "COMPACT_FORCED": 200,
}
REST_US = int(looping.REST_S * 1e6)


class FakePoller:
    """Time passes as fast as it is waited for; nothing arrives but what a test says."""

    stage: Stage

    def __init__(self, _things: object = ()) -> None:
        pass

    def wait(self, timeout_s: float) -> list[Any]:
        """Nothing, or that there are messages on the control socket."""
        stage = self.stage
        stage.waits.append(timeout_s)
        if stage.busy_turns:
            stage.now_us += 100
            stage.busy_turns -= 1
            return [stage.link.control]
        stage.now_us += int(timeout_s * 1e6)
        if stage.now_us >= stage.end_us:
            stage.loop.stop()
        return []


class Stage:
    """A loop whose sockets and clock are a test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in FIGURES.items():
            monkeypatch.setattr(looping, name, value)
        FakePoller.stage = self
        monkeypatch.setattr(looping, "Poller", FakePoller)
        self.rig = Rig()
        self.rig.join()
        self.store: MemoryStore = self.rig.store
        self.now_us = self.rig.now_us
        self.link = SimpleNamespace(control=object(), join=object())
        self.busy_turns = 0
        self.rows_a_turn = 0
        self.end_us = 2**62
        self.waits: list[float] = []
        #: Rows that waited to be regrouped before and after each time some were.
        self.regrouped: list[tuple[int, int]] = []
        self.loop = self.begin()

    def begin(self) -> Loop:
        """A loop on the farm as it is."""
        self.state = BrokerState(
            self.rig.core,
            self.store,
            SimpleNamespace(keyring=SimpleNamespace(lookup=None)),  # type: ignore[arg-type]
            farm_id="f",
            farm_name="f",
            addresses=Addresses("", "", "", ""),
            timings=Timings(),
            rate_nano_h=0,
            log_cap=0,
            path_rules=(),
            now_us=self.now_us,
        )
        compact = self.store.compact

        def noted(most_rows: int) -> int:
            before = compact(0)
            after = compact(most_rows)
            if most_rows:
                self.regrouped.append((before, after))
            return after

        self.state.store = SimpleNamespace(  # type: ignore[assignment]
            commit=self.store.commit, compact=noted
        )
        self.loop = Loop(self.state, self.link, tick_s=1.0, clock_us=lambda: self.now_us)  # type: ignore[arg-type]
        self.loop._drain_control = self.drain  # type: ignore[method-assign]
        return self.loop

    def drain(self) -> int:
        """A message that makes rows."""
        farm = self.rig.core.farm
        self.state.rows += [StaleRow(farm.next_seq(), 1, 1, 1, 0, "r") for _ in range(self.rows_a_turn)]
        return 1

    def busy(self, turns: int, rows: int) -> None:
        """Turns with a message each."""
        self.rows_a_turn = rows
        for _ in range(turns):
            self.now_us += 100
            self.loop.turn(control=True, join=False)

    def quiet(self, after_us: int) -> None:
        """A turn without one."""
        self.now_us += after_us
        self.loop.turn(control=False, join=False)

    def run(self, *, seconds: float, busy_turns: int = 0, rows: int = 0) -> None:
        """Runs the loop for so long, with messages first, to its end in order."""
        self.busy_turns, self.rows_a_turn = busy_turns, rows
        self.end_us = self.now_us + int(seconds * 1e6)
        self.loop.run()

    def count(self, table: str) -> int:
        return int(self.store._query(f"SELECT count(*) FROM {table}")[0][0])

    def checkpoint_seq(self) -> int:
        return self.store._checkpoint_seq() or 0


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(monkeypatch)
    yield stage
    stage.loop.waker.close()
    stage.store.close()


def test_under_load_checkpoints_are_written_and_little_is_regrouped(stage: Stage) -> None:
    seen = set()
    for _ in range(40):
        stage.busy(1, 5)
        seen.add(stage.checkpoint_seq())
    assert len(seen) >= 4, "one after every fifty rows"
    assert stage.regrouped == []
    assert stage.count("segments") == 0
    # Too many wait: as long as they do, some are regrouped in each turn.
    stage.busy(60, 5)
    assert stage.regrouped
    assert all(before - after <= 15 for before, after in stage.regrouped)
    assert stage.store.compact(0) <= 265, "no more than too many, and a checkpoint of more"
    assert stage.count("segments") == len(stage.regrouped)
    moved = len(stage.regrouped)
    stage.busy(200, 0)
    assert len(stage.regrouped) - moved <= 5, "and no more than what is too many"
    assert stage.store.compact(0) > 150


def test_a_moment_between_two_messages_is_no_rest(stage: Stage) -> None:
    stage.busy(20, 5)
    for _ in range(50):
        stage.busy(1, 0)
        stage.quiet(REST_US - 1)
    assert stage.checkpoint_seq(), "a checkpoint may be written then"
    assert stage.regrouped == []


def test_at_rest_everything_is_regrouped_a_part_each_turn(stage: Stage) -> None:
    stage.busy(20, 5)
    waiting = stage.store.compact(0)
    assert waiting > 40
    stage.quiet(REST_US)  # the checkpoint, or the first part
    while stage.store.compact(0):
        before = len(stage.regrouped)
        stage.quiet(1)
        assert len(stage.regrouped) == before + 1
    assert len(stage.regrouped) >= 3
    assert all(before - after <= 25 for before, after in stage.regrouped)
    done = len(stage.regrouped)
    stage.quiet(1)
    stage.quiet(10_000_000)
    assert len(stage.regrouped) == done, "then there is nothing to do"


def test_the_loop_comes_back_to_its_sockets_and_then_sleeps(stage: Stage) -> None:
    stage.run(seconds=10, busy_turns=30, rows=5)
    at_once = [wait for wait in stage.waits if wait == 0.0]
    assert len(stage.regrouped) >= 6
    assert len(at_once) >= 30 + len(stage.regrouped) - 2, "it looks for messages before each part"
    assert len(stage.waits) < 30 + len(stage.regrouped) + 10 + 15, "it does not spin"
    assert sum(stage.waits) > 9, "it sleeps, a second at most"
    assert max(stage.waits) <= 1.0


def test_who_ends_in_order_leaves_nothing_to_regroup(stage: Stage) -> None:
    stage.run(seconds=0.0001, busy_turns=30, rows=5)
    assert stage.store.compact(0) == 0
    assert stage.count("journal") == 0
    image = stage.store.load()
    assert list(stage.store.replay(image.after)) == []


def test_a_loop_that_begins_anew_goes_on_with_what_waits(stage: Stage) -> None:
    stage.busy(20, 5)
    waiting = stage.store.compact(0)
    assert waiting > 40
    stage.loop.waker.close()
    stage.begin()
    stage.quiet(REST_US)
    assert 0 < stage.store.compact(0) < waiting
    while stage.store.compact(0):
        stage.quiet(1)


def test_history_that_cannot_be_read_stays_where_it_is_and_stops_nobody(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(most_rows: int) -> int:
        raise StorageError("journal entry 7 is damaged", hint="see `farm db check`")

    stage.busy(12, 5)
    assert stage.checkpoint_seq()
    stage.state.store.compact = damaged  # type: ignore[method-assign]
    stage.run(seconds=3.0, busy_turns=20, rows=5)
    assert stage.count("segments") == 0
    assert "history-not-sorted reason=journal entry 7 is damaged" in caplog.text
    assert stage.store.compact(0) > 100, "all of it is there"
