"""What every store promises the broker: run against SQLite, PostgreSQL and the stand-in in memory.

A test class inherits ``StoreConformance`` and gives a fixture ``opens``: each call opens the same state anew;
``fresh`` opens a new one each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.broker.ports import KeyRecord, Store
from farm.core.apply import units_of
from farm.core.checkpoint import BEFORE_ALL
from farm.core.rows import AnyRow, BulkRow, LeaseRow, ResultRow, SeenRow
from farm.model.errors import StorageError
from farm.storage.tables import GROUND, JOURNALED, LEAVING
from tests.unit.storage.samples import AT_US, Writer

Opens = Callable[[], Store]
#: Kinds of rows that a restart applies again.
REPLAYED = (*GROUND, *LEAVING, *JOURNALED)
#: Number of the job in the archive among one row of each kind.
ARCHIVED = 7


def replayed(store: Store, after: int = BEFORE_ALL) -> list[AnyRow]:
    """All rows that come back after a number."""
    return list(store.replay(after))


def told(rows: list[AnyRow], step: int = 1) -> list[Any]:
    """The history of a step among rows."""
    return [row for row in rows if isinstance(row, LeaseRow | ResultRow | BulkRow) and row.step_id == step]


def concerning(rows: list[Any], low: int, high: int) -> list[Any]:
    """The rows of a step's history that concern units, worked out one unit at a time."""
    wanted = set(range(low, high + 1))
    attempts = {row.id for row in rows if isinstance(row, LeaseRow) and wanted & set(units_of(row.units))}
    kept = []
    for row in rows:
        if isinstance(row, ResultRow):
            keep = row.attempt_id in attempts or row.unit in wanted
        else:
            keep = row.units == "*" or bool(wanted & set(units_of(row.units)))
        if keep:
            kept.append(row)
    return kept


def one_of_each(w: Writer) -> list[AnyRow]:
    """A row of every kind, a checkpoint last."""
    return [
        *w.ground(),
        *(w.lease(), w.result(1), w.bulk(), w.job_state(), w.history(), w.stale(), w.spec(), w.verify()),
        *(w.meter(), w.edit(), w.policy(), w.seen(), w.node_map(), w.step_map()),
        *(w.job(ARCHIVED), w.shelf(ARCHIVED), w.deleted(8), w.checkpoint()),
    ]


def result(w: Writer, written: list[AnyRow]) -> AnyRow:
    """A result of some attempt among rows, or a first lease."""
    leases = [row for row in written if isinstance(row, LeaseRow)]
    if not leases:
        return w.lease()
    lease = leases[w.seq * 7 % len(leases)]
    return w.result(lease.id, unit=int(lease.units), closes=0)


def regroup(store: Store, most_rows: int = 1_000_000) -> None:
    """Regroups all that is settled."""
    while store.compact(most_rows):
        pass


def saved(extra: dict[str, Any]) -> bytes:
    """What a checkpoint holds."""
    return msgspec.msgpack.encode(extra)


class StoreConformance:
    """The suite."""

    def test_an_empty_state_is_empty(self, opens: Opens) -> None:
        store = opens()
        image = store.load()
        assert image.checkpoint is None
        assert (image.ground, image.nodes, image.maps, image.last_seq) == ([], [], [], 0)
        assert replayed(store) == []
        assert store.meta("farm_id") is None
        assert store.keys() == []
        assert store.invites() == []
        assert store.step_history(1, None) == store.step_history(1, (0, 9)) == []
        assert store.recent_leases(5) == store.recent_history(1, 5) == store.bulks_of_step(1) == []
        store.close()

    def test_what_was_committed_is_there_after_opening_anew(self, opens: Opens) -> None:
        w = Writer()
        ground = w.ground()
        work: list[AnyRow] = [w.lease(units="5-9,12"), w.result(1, unit=5, closes=0), w.bulk(2)]
        rest: list[AnyRow] = [
            *(w.job_state(), w.stale(), w.spec(), w.verify(), w.meter(), w.edit(), w.policy(), w.seen())
        ]
        told_people = w.history()
        store = opens()
        store.commit(ground)
        store.commit([*work, *rest, told_people])
        store.close()

        store = opens()
        assert store.load().last_seq == w.seq
        assert replayed(store) == [*ground, *work, *rest]
        assert store.history(0, 0, 10) == [told_people]
        store.close()

    def test_every_kind_of_row_can_be_stored(self, opens: Opens) -> None:
        w = Writer()
        kinds = {type(row) for row in one_of_each(w)}
        assert kinds == set(AnyRow.__args__), "the samples lack a kind"
        w = Writer()
        rows = one_of_each(w)
        store = opens()
        store.commit(rows)
        store.close()
        store = opens()
        image = store.load()
        assert image.last_seq == w.seq
        assert image.checkpoint == rows[-1]
        ground = [row for row in rows if type(row) in GROUND and getattr(row, "id", 0) != ARCHIVED]
        assert image.ground == ground
        assert image.tokens == [("ana", f"t{ARCHIVED}", ARCHIVED)]
        assert image.maps == [row for row in rows if hasattr(row, "tries")]
        assert image.nodes == [row for row in rows if hasattr(row, "meter")]
        assert replayed(store, rows[-1].seq) == []
        store.close()

    def test_every_value_a_field_can_have_comes_back_as_it_was(self, opens: Opens) -> None:
        w = Writer()
        lease = msgspec.structs.replace(
            w.lease(),
            nonce=-(2**63),
            share_ppm=2**63 - 1,
            reason="'; DROP TABLE journal; -- %s ? \x00 \U0001f3ac\n",
        )
        result = msgspec.structs.replace(w.result(1), files=bytes(range(256)) * 50, unit=-1, warning="\u202e")
        job = msgspec.structs.replace(
            w.job(), name="%s ? ' \U0001f3ac\n", priority=-(2**63), spec=bytes(range(256))
        )
        store = opens()
        store.commit([job, w.step(), w.node(), lease, result])
        back = [row for row in replayed(store) if isinstance(row, LeaseRow | ResultRow)]
        assert back == [lease, result]
        assert [type(value) for value in msgspec.structs.astuple(back[1])] == [
            type(value) for value in msgspec.structs.astuple(result)
        ]
        assert [row for row in replayed(store) if type(row) is type(job)] == [job]
        store.close()

    def test_rows_may_come_in_any_order_within_a_commit(self, opens: Opens) -> None:
        # The core gives them as things happen; a result may stand before the job of another step.
        w = Writer()
        rows = [*w.ground(), *w.batch(3), w.meter(), w.spec()]
        store = opens()
        store.commit(rows[::-1])
        assert replayed(store) == rows
        store.close()

    @pytest.mark.parametrize(
        "spoil",
        [
            pytest.param(lambda w: [w.result(1), w.step(5, job=9)], id="step of no job"),
            pytest.param(lambda w: [w.result(1), w.edit(step=9)], id="edit of no step"),
            pytest.param(lambda w: [w.result(1), w.job(1)], id="job number twice"),
            pytest.param(lambda w: [msgspec.structs.replace(w.result(1), seq=70)] * 2, id="result twice"),
            pytest.param(lambda w: [msgspec.structs.replace(w.history(), seq=70)] * 2, id="history twice"),
            pytest.param(lambda w: [msgspec.structs.replace(w.lease(), seq=6)], id="journal entry twice"),
            pytest.param(
                lambda w: [w.history(), msgspec.structs.replace(w.result(1), ram_mib=2**64)], id="too large"
            ),
            pytest.param(
                lambda w: [w.lease(), msgspec.structs.replace(w.history(), at_us=2**63)],
                id="too large a time",
            ),
            pytest.param(
                lambda w: [w.history(), msgspec.structs.replace(w.result(1), reason="\ud800")], id="no text"
            ),
        ],
    )
    def test_a_commit_that_fails_leaves_nothing_and_ends_the_store(
        self, opens: Opens, spoil: Callable[[Writer], list[AnyRow]]
    ) -> None:
        w = Writer()
        good = [*w.ground(), w.lease()]
        store = opens()
        store.commit(good)
        with pytest.raises(StorageError):
            store.commit(spoil(w))
        # Reads go on (the broker may want to say what it knew); changes do not, of whatever kind.
        assert replayed(store) == good
        later = Writer(100, 1)
        for change in (
            lambda: store.commit([later.history()]),
            lambda: store.set_meta("a", "b"),
            lambda: store.put_key(KeyRecord(public="k", role="admin", user="u")),
            lambda: store.put_invite("n", b"r"),
        ):
            with pytest.raises(StorageError, match="no more changes"):
                change()
        store.close()

        store = opens()
        assert store.load().last_seq == good[-1].seq
        assert replayed(store) == good
        assert store.history(0, 0, 10) == []
        assert store.meta("a") is None
        last = later.history()
        store.commit([last])
        assert store.load().last_seq == last.seq
        store.close()

    def test_an_empty_commit_changes_nothing(self, opens: Opens) -> None:
        store = opens()
        store.commit([])
        assert store.load().last_seq == 0
        store.close()

    # -- restart --

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

    # -- reading history --

    def test_history_is_the_same_before_and_after_a_checkpoint(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        ground = w.ground()
        one, two = w.batch(30, step=1), w.batch(20, step=2)
        bulks = [w.bulk(1, "0-4"), w.bulk(2), w.bulk(1, "25")]
        rows = [*ground, *one, *two, *bulks, w.stale(), w.spec(1), w.verify(number=w.seq + 1)]
        store.commit(rows)

        def look() -> list[Any]:
            return [
                store.step_history(1, None),
                store.step_history(2, None),
                store.step_history(3, None),
                *(store.step_history(1, span) for span in ((0, 0), (3, 6), (29, 29), (30, 90))),
                store.bulks_of_step(1),
                store.bulks_of_step(2),
                store.recent_leases(10),
                store.recent_history(1, 4),
            ]

        before = look()
        assert before[:3] == [told(rows), told(rows, 2), []]
        assert before[3:7] == [
            concerning(told(rows), low, high) for low, high in ((0, 0), (3, 6), (29, 29), (30, 90))
        ]
        assert before[6] == [], "a bulk of other units does not concern these"
        assert before[7] == [bulks[0], bulks[2]]
        assert before[9] == [row for row in two if isinstance(row, LeaseRow)][-10:]
        assert before[10] == [*one[26:30], *one[56:60]]
        store.commit([w.checkpoint()])
        assert look() == before
        while store.compact(16):
            assert look() == before
        assert look() == before
        store.commit([w.bulk(1, "7")])
        store.commit([w.checkpoint()])
        regroup(store)
        assert store.step_history(1, (7, 7))[-1].seq == w.seq - 1
        store.close()

    def test_the_closing_row_of_an_attempt_comes_with_any_of_its_units(self, opens: Opens) -> None:
        # What it cost is there, whatever unit ended it and whichever checkpoint stood between.
        w = Writer()
        store = opens()
        lease = w.lease(units="10-19")
        other = w.lease(units="40")
        saved_leases = saved({"attempts": [[lease, [10]], [other, [40]]]})
        first = [w.result(1, unit=unit, closes=0) for unit in range(10, 15)]
        store.commit([*w.ground(), lease, other, *first])
        store.commit([w.checkpoint(saved_leases)])
        regroup(store)
        rest = [w.result(1, unit=unit, closes=0) for unit in range(15, 20)]
        end = msgspec.structs.replace(w.result(1, unit=-1), charge_nano=5)
        elsewhere = w.result(2, unit=40)
        store.commit([*rest, end, elsewhere])
        for _ in range(2):
            assert store.step_history(1, (11, 12)) == [lease, *first, *rest, end]
            assert store.step_history(1, (40, 41)) == [other, elsewhere]
            store.commit([w.checkpoint()])
            regroup(store)
        store.close()

    def test_a_long_step_is_read_in_parts(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit(w.ground())
        written: list[AnyRow] = []
        for start in range(0, 9_000, 500):
            leases = [w.lease(units=str(start + unit)) for unit in range(500)]
            rows = [*leases, *(w.result(row.id, unit=int(row.units)) for row in leases)]
            store.commit(rows)
            written += rows
        store.commit([w.checkpoint()])
        regroup(store, 4_500)
        for low, high in ((0, 3), (4_990, 5_010), (8_999, 8_999)):
            assert store.step_history(1, (low, high)) == concerning(told(written), low, high)
        assert store.recent_history(1, 700) == [
            row
            for row in written
            if (row.id if isinstance(row, LeaseRow) else row.attempt_id) > w.attempt - 700  # type: ignore[union-attr]
        ]
        assert [row.id for row in store.recent_leases(6_000)] == list(range(w.attempt - 5_999, w.attempt + 1))
        assert replayed(store)[5:] == written
        store.close()

    def test_when_nodes_were_seen_is_forgotten_once_a_checkpoint_says_it(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        node, seen = w.node(), w.seen()
        store.commit([node, seen])
        assert replayed(store) == [node, seen]
        store.commit([w.checkpoint()])
        regroup(store)
        assert not any(isinstance(row, SeenRow) for row in replayed(store))
        store.close()

    def test_the_newest_leases_come_oldest_first(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        rows = [*w.ground(), *w.batch(4), w.lease(2)]
        store.commit(rows)
        leases = [row for row in rows if isinstance(row, LeaseRow)]
        assert store.recent_leases(3) == leases[-3:]
        assert store.recent_leases(99) == leases
        assert store.recent_leases(0) == store.recent_leases(-1) == []
        assert store.recent_history(1, 0) == store.recent_history(1, -1) == []
        store.close()

    def test_history_is_newest_first_and_pages(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        rows = [w.history(job=number % 2, at_us=AT_US + number) for number in range(10)]
        store.commit(rows)
        assert store.history(0, 0, 3) == rows[:6:-1]
        assert store.history(1, 0, 100) == rows[9:0:-2]
        assert store.history(0, AT_US + 4, 2) == [rows[3], rows[2]]
        assert store.history(1, AT_US + 4, 100) == [rows[3], rows[1]]
        assert store.history(7, 0, 100) == []
        assert store.history(0, 0, 0) == store.history(0, 0, -1) == []
        store.close()

    def test_job_states_are_read_newest_first(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        states = [w.job_state(1, "paused"), w.job_state(2, "paused"), w.job_state(1, "")]
        store.commit([w.job(1), w.job(2), *states])
        assert store.job_states(1, 10) == [states[2], states[0]]
        assert store.job_states(1, 1) == [states[2]]
        assert store.job_states(1, -1) == store.job_states(3, 5) == []
        store.close()

    # -- names, keys, invitations --

    def test_names_keys_and_invitations_are_durable_and_replaced(self, opens: Opens) -> None:
        store = opens()
        first = KeyRecord(
            public="a" * 40, role="agent", user="", pool="gpu", site="aws", label="ec2", added_us=5
        )
        second = KeyRecord(public="b" * 40, role="admin", user="ana")
        revoked = msgspec.structs.replace(first, revoked=True, label="Zoë's")
        store.set_meta("farm_id", "f1")
        store.set_meta("farm_id", "f2")
        store.set_meta("name", "")
        store.put_key(first)
        store.put_key(second)
        store.put_key(revoked)
        store.put_invite("h1", b"\x00one")
        store.put_invite("h2", b"two")
        store.put_invite("h1", b"used")
        store.close()

        store = opens()
        assert (store.meta("farm_id"), store.meta("name"), store.meta("x")) == ("f2", "", None)
        assert store.keys() == [revoked, second]
        assert store.keys()[0].revoked is True
        assert store.invites() == [b"used", b"two"]
        store.close()

    # -- owning --

    def test_a_state_has_one_owner_at_a_time(self, opens: Opens) -> None:
        store = opens()
        with pytest.raises(StorageError, match="in use by another broker"):
            opens()
        store.commit(Writer().ground())  # the first one is none the worse
        store.close()
        opens().close()

    def test_a_closed_store_says_so(self, opens: Opens) -> None:
        store = opens()
        store.commit(Writer().ground())
        reading = store.replay(BEFORE_ALL)
        store.close()
        store.close()
        for use in (
            lambda: store.commit([Writer(9).history()]),
            store.load,
            lambda: store.step_history(1, (0, 1)),
            lambda: store.meta("a"),
            store.keys,
            lambda: list(reading),
        ):
            with pytest.raises(StorageError, match="closed"):
                use()
