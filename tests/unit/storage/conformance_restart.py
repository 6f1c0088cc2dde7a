"""What every store promises of a restart: the newest checkpoint, all that came after, nothing of the archive.

Part of ``conformance.StoreConformance``.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.checkpoint import BEFORE_ALL
from farm.core.rows import AnyRow, LeaseRow
from farm.storage.tables import GROUND
from tests.unit.storage.samples import Writer
from tests.unit.storage.witness import REPLAYED, Opens, concerning, regroup, replayed, result, told


class RestartConformance:
    """Replay, checkpoints, the archive and deleting."""

    def test_replay_gives_what_changes_the_farm_in_order_of_seq(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        written = w.ground()
        store.commit(written)
        for number in range(30):
            rows = w.batch(number % 4)
            if number % 7 == 3:
                rows += [w.bulk(), w.job(number), w.step(number, number)]
            if number % 5 == 0:
                rows += [w.history(), w.node(1), w.job_state(), w.stale()]
            store.commit(rows)
            written += rows
        wanted = [row for row in written if type(row) in REPLAYED]
        for after in (0, 3, wanted[7].seq, wanted[15].seq - 1, wanted[-1].seq - 1, w.seq, w.seq + 9):
            assert replayed(store, after) == [row for row in wanted if row.seq > after]
        store.close()

    def test_replay_from_anywhere_equals_what_was_written_after_it(self, fresh: Opens) -> None:
        kinds = ["lease", "result", "bulk", "job", "told", "gap", "checkpoint", "commit", "compact"]

        @settings(max_examples=25, deadline=None)
        @given(steps=st.lists(st.sampled_from(kinds), max_size=60), cut=st.integers(0, 80))
        def holds(steps: list[str], cut: int) -> None:
            w = Writer()
            rows: list[AnyRow] = w.ground()
            store, written = fresh(), list(rows)
            for what in steps:
                if what == "gap":
                    w.seq += 1000
                elif what == "compact":
                    store.compact(7)
                    continue
                elif what == "commit":
                    store.commit(rows)
                    rows = []
                    continue
                else:
                    make: dict[str, Callable[[], AnyRow]] = {
                        "lease": lambda: w.lease(units=str(w.seq % 7)),
                        "result": lambda: result(w, written),
                        "bulk": lambda: w.bulk(2),
                        "job": lambda: w.job(w.seq + 10),
                        "told": w.history,
                        "checkpoint": w.checkpoint,
                    }
                    rows.append(make[what]())
                    written.append(rows[-1])
            store.commit(rows)
            wanted = [row for row in written if type(row) in REPLAYED]
            after = wanted[cut % len(wanted)].seq
            for start in (BEFORE_ALL, after):
                assert replayed(store, start) == [row for row in wanted if row.seq > start]
            assert store.step_history(1, None) == told(written)
            assert store.step_history(1, (2, 4)) == concerning(told(written), 2, 4)
            assert store.bulks_of_step(2) == told(written, 2)
            leases = [row for row in written if isinstance(row, LeaseRow)]
            for limit in (1, 3, 100):
                assert store.recent_leases(limit) == leases[-limit:]
            image = store.load()
            assert image.last_seq == max(row.seq for row in written)
            assert image.ground == [row for row in written if type(row) in GROUND and row.seq <= image.after]
            store.close()

        holds()

    def test_reading_a_replay_lets_commits_go_on(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        first = [*w.ground(), *w.batch(5)]
        store.commit(first)
        reading = store.replay(BEFORE_ALL)
        assert next(reading) == first[0]
        store.commit(w.batch(5))
        assert list(reading)[:14] == first[1:]
        store.close()

    def test_a_checkpoint_splits_what_stands_on_both_sides_of_it(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        before = [*w.ground(), *w.batch(2), w.history()]
        maps = [w.node_map(1), w.step_map(1), w.checkpoint()]
        after = [*w.batch(2), w.job(2), w.step(9, 2)]
        store.commit([*before, *maps, *after])
        regroup(store)
        image = store.load()
        assert image.checkpoint == maps[-1]
        assert image.after == maps[-1].seq
        assert image.ground == before[:3]
        assert image.nodes == maps[:1]
        assert image.maps == maps[1:2]
        assert replayed(store, image.after) == after
        assert store.step_history(1, None) == told(before) + told(after)
        store.close()

    def test_the_newest_checkpoint_of_each_thing_counts(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([*w.ground(), w.node_map(1), w.step_map(1), w.step_map(2), w.checkpoint()])
        later = [w.node_map(1, b"\x05"), w.step_map(2, state=b"\x05"), w.checkpoint(b"\x81\xa1a\x01")]
        store.commit(later)
        image = store.load()
        assert image.checkpoint == later[-1]
        assert image.nodes == later[:1]
        assert [row.step_id for row in image.maps] == [1, 2]
        assert image.maps[1] == later[1]
        store.close()

    # -- the archive --

    def test_a_restart_does_not_read_jobs_of_the_archive(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        live = [*w.ground(), w.job_state(), w.edit(), w.step_map(1)]
        old = [w.job(2), w.step(5, 2), w.step(6, 2), w.job_state(2), w.edit(5)]
        work = [w.lease(5), w.result(1, 5), w.lease(1), w.result(2, 1)]
        store.commit([*live, *old, *work])
        maps = [w.step_map(5), w.step_map(6)]
        shelf = w.shelf(2)
        store.commit([*maps, shelf, w.checkpoint()])
        store.close()
        store = opens()
        image = store.load()
        assert image.ground == [row for row in live if type(row) in GROUND]
        assert image.maps == live[-1:]
        assert image.tokens == [("ana", "t2", 2)]
        assert replayed(store, image.after) == []
        # All of it is there for who asks, and for who goes through everything from the first row on.
        found = store.shelved_job(2)
        assert found is not None
        assert (found.shelf, found.ground, found.maps) == (shelf, old, maps)
        assert store.step_history(5, None) == work[:2]
        everything = [row for row in [*live, *old, *work, shelf] if type(row) in REPLAYED]
        assert replayed(store) == sorted(everything, key=lambda row: row.seq)
        assert store.shelved_job(1) is None
        assert store.shelf(1) is None
        store.close()

    def test_the_archive_is_listed_newest_first_and_pages(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([w.job(number) for number in range(1, 8)])
        # They went there in another order than they came.
        went = ((3, "done"), (1, "failed"), (6, "done"), (2, "canceled"), (5, "failed"))
        rows = {n: w.shelf(n, user="bob" if n % 2 else "ana", state=state) for n, state in went}
        store.commit([*rows.values(), w.checkpoint()])

        def listed(
            before: int = 0, user: str = "", states: tuple[str, ...] = (), limit: int = 9
        ) -> list[int]:
            return [row.job_id for row in store.shelved(before, user, states, limit)]

        assert listed() == [6, 5, 3, 2, 1]
        assert listed(limit=2) == [6, 5]
        assert listed(before=5, limit=2) == [3, 2]
        assert listed(user="bob") == [5, 3, 1]
        assert listed(states=("failed", "canceled")) == [5, 2, 1]
        assert listed(before=5, user="bob", states=("failed",)) == [1]
        assert listed(user="'; DROP TABLE shelf; --") == listed(limit=0) == listed(limit=-1) == []
        assert store.shelf(6) == rows[6]
        store.close()

    def test_a_deleted_job_leaves_the_store_with_the_next_checkpoint(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        keep = [*w.ground(), w.step_map(1), w.edit(1), w.job_state(1)]
        gone = [w.job(2), w.step(5, 2), w.step(6, 2), w.job_state(2), w.edit(5), w.step_map(5), w.step_map(6)]
        store.commit([*keep, *gone, w.lease(5), w.result(1, 5), w.lease(1), w.result(2, 1), w.history(2)])
        store.commit([w.checkpoint()])
        later = [w.bulk(6), w.deleted(2)]
        store.commit(later)
        # Until then all of it is there: a restart reads it, and the row that takes it away.
        assert [row for row in store.load().ground if getattr(row, "job_id", 0) == 2]
        assert replayed(store, store.load().after) == later
        assert store.meta("history_incomplete") is None
        store.commit([w.checkpoint(), w.lease(1)])
        regroup(store)
        store.close()
        store = opens()
        image = store.load()
        assert image.ground == [row for row in keep if type(row) in GROUND]
        assert image.maps == [row for row in keep if hasattr(row, "tries")]
        assert store.step_history(5, None) == store.step_history(6, None) == store.job_states(2, 9) == []
        assert len(store.step_history(1, None)) == 3
        assert store.deleted(2) == later[1]
        assert store.deleted(1) is None
        assert [row.job_id for row in store.history(2, 0, 9)] == [2], "what people were told stays"
        # Who goes through all rows must know that some are gone.
        assert store.meta("history_incomplete")
        store.commit([w.checkpoint()])
        store.close()

    def test_a_job_of_the_archive_can_be_deleted(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([*w.ground(), w.job(2), w.step(5, 2), w.step_map(5), w.shelf(2), w.checkpoint()])
        store.commit([w.deleted(2, shelved=1)])
        store.commit([w.checkpoint()])
        assert store.shelved(0, "", (), 9) == []
        assert store.shelved_job(2) is None
        assert store.load().tokens == []
        assert [row for row in replayed(store) if getattr(row, "job_id", 0) == 2] == [store.deleted(2)]
        store.close()
