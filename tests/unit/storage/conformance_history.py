"""What every store promises of its history: read whole, in part and newest first, however it is grouped.

Part of ``conformance.StoreConformance``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core.rows import AnyRow, LeaseRow, SeenRow
from tests.unit.storage.samples import AT_US, Writer
from tests.unit.storage.witness import Opens, concerning, regroup, replayed, saved, told


class HistoryConformance:
    """Reading what happened."""

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
