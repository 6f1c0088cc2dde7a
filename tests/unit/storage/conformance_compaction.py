"""What every store promises of regrouping: whenever it is done, and of how much, nothing reads differently.

A test class that inherits ``CompactionConformance`` gives a fixture ``worlds``: each call makes a new state
and returns what opens it, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.broker.ports import Store
from farm.core.checkpoint import BEFORE_ALL
from farm.core.rows import AnyRow, DeleteRow, JobRow, LeaseRow, SeenRow, StepRow
from farm.model.errors import StorageError
from farm.storage import sql
from farm.storage.histories import PAGE
from farm.storage.sql import SqlStore, Work
from tests.unit.storage.samples import Writer
from tests.unit.storage.witness import Opens, concerning, regroup, replayed, saved, told

Worlds = Callable[[], Opens]


def count(store: Store, table: str) -> int:
    """Rows of a table."""
    assert isinstance(store, SqlStore)
    return int(store._query(f"SELECT count(*) FROM {table}")[0][0])


class Trap(list[Work]):
    """Statements of a transaction that fail after the last one, before its end."""

    def __iter__(self) -> Iterator[Work]:
        yield from super().__iter__()
        raise StorageError("the disk is full")


def fall(store: Store) -> None:
    """The store's next change fails when all of it was said and none of it is durable."""
    write = store._write  # type: ignore[attr-defined]

    def trapped(work: Iterable[Work]) -> None:
        write(Trap(work))

    store._write = trapped  # type: ignore[attr-defined]


class Model:
    """A store beside a plain list of all rows."""

    def __init__(self, opens: Opens) -> None:
        self.opens = opens
        self.store = opens()
        self.w = Writer()
        self.rows: list[AnyRow] = []
        self.open: dict[int, LeaseRow] = {}
        self.jobs: dict[int, tuple[int, int]] = {}
        self.deleted: set[int] = set()
        self.cleared: set[int] = set()
        self.mapped: set[int] = set()
        self.settled = BEFORE_ALL
        #: What somebody knows who follows the steps: up to which row, and all that was told.
        self.read_to: dict[int, int] = {}
        self.followed: dict[int, list[Any]] = {}
        self.new_job()

    def commit(self, *rows: AnyRow) -> None:
        self.store.commit(rows)
        self.rows += rows

    # -- what happens --

    def new_job(self) -> None:
        number = len(self.jobs) + 1
        self.jobs[number] = (2 * number, 2 * number + 1)
        self.commit(self.w.job(number), *(self.w.step(step, number) for step in self.jobs[number]))

    def steps(self) -> list[int]:
        return [step for number, steps in self.jobs.items() if number not in self.deleted for step in steps]

    def work(self, at: int, units: str) -> None:
        """Leases of some steps, and what became of some attempts."""
        w, rows = self.w, list[AnyRow]()
        steps = self.steps()
        for number in range(1 + at % 3):
            step = steps[(at + number) % len(steps)]
            lease = w.lease(step, units=units if number else str(at))
            rows.append(lease)
            self.open[lease.id] = lease
        for number in sorted(self.open)[:: 1 + at % 3]:
            lease = self.open[number]
            ends = bool(at % 2)
            unit = -1 if at % 5 == 0 else int(lease.units.split("-")[0].split(",")[0])
            rows.append(w.result(number, lease.step_id, unit, closes=int(ends)))
            if ends:
                del self.open[number]
        if at % 4 == 0:
            rows += [w.bulk(steps[at % len(steps)], units), w.seen(), w.history(), w.meter()]
        self.commit(*rows)

    def delete(self, at: int) -> None:
        """A job is deleted, as the core does: once nothing of it is open."""
        live = [number for number in self.jobs if number not in self.deleted]
        number = live[at % len(live)]
        steps = self.jobs[number]
        if len(live) > 1 and not any(lease.step_id in steps for lease in self.open.values()):
            self.commit(self.w.deleted(number))
            self.deleted.add(number)

    def checkpoint(self) -> None:
        leases = [[lease, []] for lease in self.open.values()]
        row = self.w.checkpoint(saved({"attempts": leases}))
        self.commit(*(self.w.step_map(step) for step in self.steps()), row)
        self.settled = row.seq
        self.mapped.update(self.steps())
        self.cleared = set(self.deleted)

    def compact(self, most_rows: int) -> None:
        self.store.compact(most_rows)

    def reopen(self) -> None:
        self.store.close()
        self.store = self.opens()

    def fall(self, at: int) -> None:
        """A compaction fails on its way; the state is opened anew."""
        fall(self.store)
        if self.store.compact(0):
            with pytest.raises(StorageError, match="the disk is full"):
                self.store.compact(1 + at)
            with pytest.raises(StorageError, match="no more changes"):
                self.store.compact(1 + at)
        self.reopen()

    def follow(self) -> None:
        """Somebody who follows all steps reads on, some of it in segments, the rest together."""
        store = self.store
        assert isinstance(store, SqlStore)
        for step in self.steps():
            self.read_to.setdefault(step, 0)
            while found := store.segments_after(step, self.read_to[step], 1):
                ((self.read_to[step], rows),) = found
                self._hear(step, rows)
        known = {step: self.read_to[step] for step in self.steps()}
        more = True
        while more:
            told_now = store.told_after(known)
            for step, rows in told_now.rows.items():
                self._hear(step, rows)
                known[step] = self.read_to[step] = max(known[step], told_now.read_to, *self._seqs(step))
            more = told_now.more

    def _hear(self, step: int, rows: Iterable[Any]) -> None:
        heard = self.followed.setdefault(step, [])
        last = max(self._seqs(step))
        heard += [row for row in rows if row.seq > last]

    def _seqs(self, step: int) -> list[int]:
        return [0, *(row.seq for row in self.followed.get(step, [])[-1:])]

    # -- what must hold --

    def check(self) -> None:
        store, live = self.store, self.steps()
        self.follow()
        for step in live:
            rows = told(self.rows, step)
            assert self.followed.get(step, []) == rows
            assert store.step_history(step, None) == rows
            for low, high in ((0, 0), (2, 4), (7, 9), (12, 90)):
                assert store.step_history(step, (low, high)) == concerning(rows, low, high)
            assert store.bulks_of_step(step) == [row for row in rows if hasattr(row, "fresh")]
            leases = [row.id for row in rows if isinstance(row, LeaseRow)]
            for newest in (1, 3, 99):
                wanted = set(leases[-newest:])
                assert store.recent_history(step, newest) == [
                    row
                    for row in rows
                    if (row.id if isinstance(row, LeaseRow) else getattr(row, "attempt_id", None)) in wanted
                ]
        leases = [row for row in self.rows if isinstance(row, LeaseRow)]
        if not self.deleted:
            for limit in (1, 4, 999):
                assert store.recent_leases(limit) == leases[-limit:]
        assert of(store.recent_leases(9_999), live) == of(leases, live)
        image = store.load()
        assert image.last_seq == self.w.seq
        assert image.after == self.settled
        assert replayed(store, image.after) == [row for row in self.rows if is_replayed(row, self.settled)]
        mine = [row for row in self.rows if is_replayed(row, BEFORE_ALL) and not isinstance(row, SeenRow)]
        everything = [row for row in replayed(store) if not isinstance(row, SeenRow)]
        assert of(everything, live) == of(mine, live)
        assert {row.step_id for row in image.maps} == self.mapped & {*live, *self.unsettled()}

    def unsettled(self) -> list[int]:
        """Steps of jobs deleted after the checkpoint, which a restart still reads."""
        return [step for number in self.deleted - self.cleared for step in self.jobs[number]]

    def check_regrouped(self) -> None:
        """All that is settled is in segments, and nothing of deleted jobs is anywhere."""
        store = self.store
        assert store.compact(0) == 0
        assert isinstance(store, SqlStore)
        assert store._query("SELECT count(*) FROM journal WHERE id <= ?", (self.settled,)) == [(0,)]
        for number in self.cleared:
            for step in self.jobs[number]:
                assert store.step_history(step, None) == []
        assert all(row.step_id in (*self.steps(), *self.unsettled()) for row in store.recent_leases(9_999))


def of(rows: Iterable[Any], steps: Iterable[int]) -> list[Any]:
    """Rows of these steps, and those of no step or job."""
    known = {0, *steps}
    of_jobs = (JobRow, StepRow, DeleteRow)
    return [row for row in rows if getattr(row, "step_id", 0) in known and not isinstance(row, of_jobs)]


def is_replayed(row: AnyRow, after: int) -> bool:
    """Whether a restart applies it again."""
    passed = type(row).__name__ in ("HistoryRow", "StepMapRow", "NodeMapRow", "CheckpointRow")
    return row.seq > after and not passed


class CompactionConformance:
    """The suite."""

    @pytest.fixture
    def opens(self, worlds: Worlds) -> Opens:
        return worlds()

    def test_nothing_reads_differently_whenever_it_is_done(self, worlds: Worlds) -> None:
        work = st.tuples(st.just("work"), st.integers(0, 20), st.sampled_from(["3", "0-4", "2-9,12"]))
        does = st.one_of(
            work,
            work,
            st.tuples(st.just("checkpoint")),
            st.tuples(st.just("compact"), st.sampled_from([1, 5, 17, 1_000])),
            st.tuples(st.sampled_from(["delete", "fall"]), st.integers(0, 9)),
            st.tuples(st.sampled_from(["new_job", "reopen", "check", "follow"])),
        )

        @settings(max_examples=40, deadline=None)
        @given(steps=st.lists(does, max_size=30))
        def holds(steps: list[tuple[Any, ...]]) -> None:
            model = Model(worlds())
            try:
                for what, *values in steps:
                    getattr(model, what)(*values)
                model.check()
                model.reopen()
                model.check()
                regroup(model.store, 7)
                model.check()
                model.check_regrouped()
            finally:
                model.store.close()

        holds()

    def test_a_step_is_found_by_its_name(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([*w.ground(), w.job(2), w.step(5, 2, "depth", 77)])
        assert isinstance(store, SqlStore)
        assert store.step_named(2, "depth") == (5, 77)
        assert store.step_named(1, "depth") is store.step_named(9, "beauty") is None
        store.close()

    def test_a_long_journal_is_followed_page_by_page(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        assert isinstance(store, SqlStore)
        store.commit(w.ground())
        written: list[AnyRow] = []
        for _ in range(2 * PAGE + 1):
            rows = w.batch(1)
            written += rows
            store.commit(rows)
        heard: list[Any] = []
        read_to, more = 0, True
        while more:
            told_now = store.told_after({1: read_to})
            heard += told_now.rows[1]
            read_to, more = told_now.read_to, told_now.more
        assert heard == told(written)
        assert store.told_after({1: read_to}) == ({1: []}, 0, False)
        store.close()

    def test_a_checkpoint_regroups_nothing_and_splits_what_it_divides(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        before = [*w.ground(), *w.batch(3)]
        row = w.checkpoint()
        after = w.batch(2)
        store.commit([*before, row, *after])
        assert count(store, "segments") == 0
        assert count(store, "journal") == 2
        assert store.compact(0) == store.compact(-1) == before[-1].seq - before[3].seq + 1
        assert store.compact(1) == 0
        assert count(store, "journal") == 1
        assert replayed(store, row.seq) == after
        assert store.compact(1_000) == 0, "nothing that is not settled is touched"
        assert count(store, "journal") == 1
        store.close()

    def test_about_as_many_rows_move_as_were_asked_for(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        assert store.compact(10) == 0, "no checkpoint, nothing settled"
        store.commit(w.ground())
        for _ in range(10):
            store.commit(w.batch(5))
        assert store.compact(10) == 0
        store.commit([w.checkpoint()])
        left = [store.compact(0)]
        assert left == [102], "two nodes and ten commits of ten rows"
        while left[-1]:
            left.append(store.compact(20))
        assert left == [102, 80, 60, 40, 20, 0]
        store.close()

    def test_what_a_deleted_job_left_goes_though_it_is_regrouped_later(self, opens: Opens) -> None:
        # The job's steps leave with the checkpoint, its rows in the journal wait for another four thousand.
        w = Writer()
        store = opens()
        store.commit([*w.ground(), w.job(2), w.step(5, 2)])
        work = [w.lease(5), w.lease(1), w.result(1, 5), w.result(2, 1)]
        store.commit(work)
        store.commit([w.deleted(2)])
        store.commit([w.checkpoint()])
        store.commit([w.lease(1)])
        store.commit([w.checkpoint()])
        store.close()
        store = opens()
        regroup(store, 1)
        assert store.step_history(5, None) == []
        assert store.step_history(1, None)[:2] == [work[1], work[3]]
        assert [row.step_id for row in store.recent_leases(9)] == [1, 1]
        store.close()

    def test_a_job_deleted_in_the_turn_of_a_checkpoint_leaves_with_it(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([*w.ground(), w.job(2), w.step(5, 2), w.lease(5), w.job(3), w.step(6, 3)])
        store.commit([w.deleted(2), w.checkpoint(), w.deleted(3)])
        assert [row.id for row in store.load().ground if isinstance(row, JobRow)] == [1, 3]
        regroup(store)
        assert store.step_history(5, None) == []
        store.commit([w.checkpoint()])
        assert [row.id for row in store.load().ground if isinstance(row, JobRow)] == [1]
        store.close()

    def test_an_attempt_is_bounded_by_its_units_wherever_its_rows_are(
        self, opens: Opens, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        w = Writer()
        store = opens()
        lease, other = w.lease(units="10-19"), w.lease(units="40")
        store.commit([*w.ground(), lease, other])
        ends: list[AnyRow] = [w.result(1, unit=-1), w.result(2, unit=40)]
        store.commit(ends)
        held = w.lease(units="50-59")
        store.commit([held, w.checkpoint(saved({"attempts": [[held, [50]]]}))])
        store.compact(1)
        store.compact(1)
        assert bounds(store)[:2] == [(10, 40), (10, 40)], "the lease was in another slice"
        regroup(store)
        late: AnyRow = w.result(3, unit=-1)
        store.commit([late, w.checkpoint()])
        store.close()
        store = opens()
        regroup(store)
        assert bounds(store)[2:] == [(50, 59), (0, 2**62)], "what was open is known from one checkpoint alone"
        assert store.step_history(1, (12, 12)) == [lease, ends[0]]
        assert store.step_history(1, (55, 55)) == [held, late]
        store.close()

    def test_few_bounds_are_remembered(self, opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql, "BOUNDS_MOST", 10)
        w = Writer()
        store = opens()
        store.commit(w.ground())
        written: list[AnyRow] = []
        for at in range(30):
            rows: list[AnyRow] = [w.lease(units=str(at))]
            if at > 15:
                rows.append(w.result(at - 14, unit=at - 15))
            store.commit(rows)
            written += rows
        store.commit([w.checkpoint()])
        assert isinstance(store, SqlStore)
        while store.compact(6):
            assert store._bounds is not None
            assert len(store._bounds) <= 10
        assert store._bounds == {}, "none was open at the checkpoint"
        for unit in range(30):
            assert store.step_history(1, (unit, unit)) == concerning(written, unit, unit)
        store.close()

    def test_a_question_reads_no_entry_but_those_it_needs(
        self, opens: Opens, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        w = Writer()
        store = opens()
        store.commit(w.ground())
        rows: list[list[AnyRow]] = []
        for at in range(40):
            lease = w.lease(1 + at % 2, units=str(at))
            rows.append([lease, w.result(lease.id, lease.step_id, at)])
            store.commit(rows[-1])
        rows.append([w.bulk(2, "7")])
        store.commit(rows[-1])
        assert isinstance(store, SqlStore)
        store.step_history(1, (0, 0))
        read: list[int] = []
        entries = store._entries

        def noted(numbers: list[int]) -> Iterator[list[Any]]:
            read.extend(numbers)
            return entries(numbers)

        monkeypatch.setattr(store, "_entries", noted)
        assert store.step_history(1, (6, 9)) == [*rows[6], *rows[8]]
        assert store.recent_history(2, 2)[-2:] == rows[39]
        assert store.bulks_of_step(2) == rows[-1]
        assert store.bulks_of_step(1) == []
        assert len(read) < 30
        late = w.lease(1, units="8")
        store.commit([late])
        assert store.step_history(1, (8, 8)) == [*rows[8], late], "what came since is found"
        store.close()

    def test_an_entry_that_is_damaged_stops_it_by_name(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit(w.ground())
        good, bad = w.batch(2), w.batch(2)
        store.commit(good)
        store.commit(bad)
        store.commit([w.checkpoint()])
        assert isinstance(store, SqlStore)
        store._write([("UPDATE journal SET blob = ? WHERE id = ?", [(b"\xc1", bad[0].seq)])])
        store.compact(6)
        with pytest.raises(StorageError, match=rf"journal entry {bad[0].seq} is damaged"):
            store.compact(6)
        assert replayed(store, w.seq) == [], "a restart does not need it"
        store.close()


def bounds(store: Store) -> list[tuple[int, int]]:
    """Bounds of the units of each segment that has rows of a step."""
    assert isinstance(store, SqlStore)
    return store._query("SELECT unit_low, unit_high FROM segments WHERE step_id > 0 ORDER BY id")
