"""A farm whose journal is regrouped at any moment: a check finds it sound, a restart gives the same farm.

Beside it the index of the journal, which is bounded.
"""

from __future__ import annotations

import sqlite3
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core import invariants
from farm.core.checkpoint import restore
from farm.core.events import DeleteEvent
from farm.core.outcome import LeaseCommand
from farm.model.errors import StorageError
from farm.storage import whereabouts
from farm.storage.care import check_file
from farm.storage.journal import encode_rows
from farm.storage.memory import MemoryStore
from farm.storage.mend import repair_file
from farm.storage.sqlite import SqliteStore
from farm.storage.whereabouts import Whereabouts
from tests.support.core_rig import Rig, step
from tests.unit.storage.samples import Writer
from tests.unit.storage.witness import told


class Farm:
    """A farm at work on a file; one step each of what may happen to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rig = Rig(archive_after_us=600_000_000)
        self.rig.store = SqliteStore(path)  # type: ignore[assignment]
        self.nodes = [self.rig.join("ant", cores=2), self.rig.join("bee", cores=1)]
        self.leases: list[LeaseCommand] = []
        for user in (0, 1):
            # So that both have an account as long as the farm is there.
            self.submit(user)
            self.rig.act("pause", f"J{user + 1}")
        self.submit(0)

    def submit(self, at: int) -> None:
        self.rig.submit(step(frames="1-6", chunk=1 + at % 3, attempts=2), user=f"u{at % 2}")

    def work(self, at: int) -> None:
        """Leases, and what became of some of them."""
        self.leases += self.rig.dispatch()
        self.rig.now_us += 400_000
        for lease in self.leases[: 1 + at % 4]:
            if at % 3:
                self.rig.done(lease)
            else:
                self.rig.fail(lease, "renderer")
        del self.leases[: 1 + at % 4]
        self.rig.wait(0.5, *self.nodes)

    def rest(self, at: int) -> None:
        """Time passes, enough for old jobs to go into the archive."""
        self.rig.now_us += at * 100_000_000
        self.rig.wait(1, *self.nodes)

    def delete(self, at: int) -> None:
        """Cancels a job and deletes it, also out of the archive."""
        rig, number = self.rig, 3 + at % (self.rig.core.farm.next_job - 3)
        job = rig.core.farm.jobs.get(number)
        if job is not None:
            if any(one.attempts for one in job.steps):
                return
            if job.open_units:
                rig.act("cancel", f"J{number}")
            rig.handle(DeleteEvent(rig.now_us, number, "", "wim"))
        elif rig.store.deleted(number) is None:
            rig.handle(DeleteEvent(rig.now_us, number, "", "wim", rig.store.shelf(number)))

    def checkpoint(self, _at: int) -> None:
        self.rig.checkpoint()

    def compact(self, at: int) -> None:
        self.rig.store.compact(5 * at + 1)

    def reopen(self, _at: int) -> None:
        self.rig.store.close()
        self.rig.store = SqliteStore(self.path)  # type: ignore[assignment]

    def check(self, _at: int = 0) -> None:
        """Nothing is wrong with it, and a restart makes the farm that is."""
        assert check_file(self.path).problems == []
        image = self.rig.store.load()
        farm = restore(self.rig.settings, image, self.rig.store.replay(image.after))
        assert invariants.digest(farm) == invariants.digest(self.rig.core.farm)


def test_a_check_finds_nothing_wrong_whenever_it_is_done(tmp_path: Path) -> None:
    numbers = count()
    does = st.sampled_from(
        [
            "work",
            "work",
            "work",
            "checkpoint",
            "compact",
            "compact",
            "delete",
            "rest",
            "submit",
            "reopen",
            "check",
        ]
    )

    @settings(max_examples=30, deadline=None)
    @given(steps=st.lists(st.tuples(does, st.integers(0, 9)), max_size=40))
    def holds(steps: list[tuple[str, int]]) -> None:
        farm = Farm(tmp_path / f"{next(numbers)}.db")
        try:
            for what, at in steps:
                getattr(farm, what)(at)
            farm.check()
            while farm.rig.store.compact(11):
                farm.check()
        finally:
            farm.rig.store.close()
        assert repair_file(farm.path).kept == ""

    holds()


# -- the index --


def test_rows_of_a_deleted_job_that_wait_are_no_strays_and_others_are(tmp_path: Path) -> None:
    farm = Farm(tmp_path / "farm.db")
    for at in (1, 2, 1):
        farm.work(at)
    number = farm.rig.submit(step("old", "1-2"), user="u0", priority=100)
    (step_id,) = (one.id for one in farm.rig.job(number).steps)
    while farm.rig.job(number).open_units:
        farm.work(1)
    farm.work(1)
    farm.checkpoint(0)
    farm.delete(number - 3)
    farm.checkpoint(0)
    farm.work(1)
    store: Any = farm.rig.store
    assert step_id not in farm.rig.core.farm.steps
    assert store._query("SELECT id FROM steps WHERE id = ?", (step_id,)) == []
    assert store.step_history(step_id, None), "its history waits still"
    farm.check()
    store.close()
    # Nothing says so in this one.
    raw = sqlite3.connect(farm.path)
    with raw:
        raw.execute("DELETE FROM meta WHERE name = 'history_incomplete'")
    raw.close()
    assert f"refers to steps that are not there: {step_id}" in str(check_file(farm.path).problems)


def test_the_index_holds_so_much_and_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whereabouts, "PAIRS_MOST", 10)
    w = Writer()
    store = MemoryStore()
    store.commit(w.ground())
    written: list[Any] = []
    for at in range(25):
        lease = w.lease(1 + at % 2, units=str(at))
        rows = [lease, w.result(lease.id, lease.step_id, at), *([w.bulk(1, str(at))] if at % 6 == 0 else [])]
        store.commit(rows)
        written += rows
    for _ in range(3):
        assert store.step_history(1, None) == told(written)
        assert store.step_history(2, (21, 21)) == told(written, 2)[-4:-2]
        assert store.step_history(1, (2, 2)) == told(written)[3:5]
        assert store.recent_history(1, 1) == [row for row in told(written)[-3:] if not hasattr(row, "fresh")]
        assert store.bulks_of_step(1) == [row for row in written if hasattr(row, "fresh")]
        assert store._index is not None
        assert store._index._pairs == 10
        waiting = {number for (number,) in store._query("SELECT id FROM journal")}
        assert waiting.issuperset([*store._index.of_step(1), *store._index.of_step(2)])
        # What is regrouped makes room for what came later.
        store.commit([w.checkpoint()]) if store._checkpoint_seq() is None else store.compact(20)
    store.close()


def test_the_index_forgets_what_left_the_journal() -> None:
    w = Writer()
    index = Whereabouts()
    numbers = []
    for at in range(6):
        rows = [w.lease(1 + at % 2, units=f"{at}-{at + 3}"), w.bulk(3, "5")]
        numbers.append(rows[0].seq)
        assert index.add(rows[0].seq, encode_rows(rows), "")
    assert index.of_step(1) == numbers[::2]
    assert index.of_step(1, 6, 6) == [numbers[4]]
    assert index.of_step(2, 4, 4) == [numbers[1], numbers[3]]
    assert index.bulks(3) == index.of_step(3, 5, 5) == numbers
    assert index.of_step(9) == index.bulks(9) == []
    index.forget(numbers[3])
    assert (index.of_step(1), index.of_step(2), index.bulks(3)) == ([numbers[4]], [numbers[5]], numbers[4:])
    assert index.until == numbers[5]
    index.forget(w.seq)
    assert index.of_step(1) == []
    assert index.until == w.seq
    assert not index._steps
    with pytest.raises(StorageError, match="entry 7 is damaged"):
        index.add(7, b"\xc1", "entry 7")
