"""What every store promises the broker: run against SQLite and against its stand-in in memory.

A test class inherits ``StoreConformance`` and gives a fixture ``opens``: each call opens the same state anew.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.broker.ports import KeyRecord, Store
from farm.core.rows import AnyRow, LeaseRow, ResultRow
from farm.model.errors import StorageError
from tests.unit.storage.samples import AT_US, Writer

Opens = Callable[[], Store]


class StoreConformance:
    """The suite."""

    def test_an_empty_state_is_empty(self, opens: Opens) -> None:
        store = opens()
        image = store.load()
        assert image.checkpoint is None
        assert not any(
            getattr(image, name) for name in image.__struct_fields__ if isinstance(getattr(image, name), list)
        )
        assert list(store.replay(0)) == []
        assert (store.last_seq(), store.last_attempt()) == (0, 0)
        assert store.meta("farm_id") is None
        assert store.keys() == []
        assert store.invites() == []
        store.close()

    def test_what_was_committed_is_there_after_opening_anew(self, opens: Opens) -> None:
        w = Writer()
        ground = w.ground()
        work: list[AnyRow] = [w.lease(units="5-9,12"), w.result(1, unit=5, closes=0), w.bulk(2)]
        rest: list[AnyRow] = [w.job_state(), w.history(), w.stale(), w.spec(), w.verify(), w.meter()]
        store = opens()
        store.commit(ground)
        store.commit([*work, *rest])
        store.close()

        store = opens()
        image = store.load()
        assert [*image.jobs, *image.steps, *image.nodes] == ground
        assert list(store.replay(0)) == work
        assert image.states == rest[:1]
        assert image.specs == [rest[3]]
        assert image.verify == [rest[4]]
        assert image.meters == [rest[5]]
        assert store.history(0, 0, 10) == [rest[1]]
        assert store.last_seq() == w.seq
        assert store.last_attempt() == 1
        store.close()

    def test_every_value_a_field_can_have_comes_back_as_it_was(self, opens: Opens) -> None:
        w = Writer()
        lease = msgspec.structs.replace(
            w.lease(),
            nonce=-(2**63),
            share_ppm=2**63 - 1,
            reason="'; DROP TABLE leases; -- % ? \x00 \U0001f3ac\n",
        )
        result = msgspec.structs.replace(w.result(1), files=bytes(range(256)) * 50, unit=-1, warning="\u202e")
        store = opens()
        store.commit([w.job(), w.step(), w.node(), lease, result])
        back = list(store.replay(0))
        assert back == [lease, result]
        assert [type(value) for value in msgspec.structs.astuple(back[1])] == [
            type(value) for value in msgspec.structs.astuple(result)
        ]
        store.close()

    def test_rows_may_come_in_any_order_within_a_commit(self, opens: Opens) -> None:
        # The core gives them as things happen; a result may stand before the job of another step.
        w = Writer()
        rows = [*w.ground(), *w.batch(3), w.meter(), w.spec()]
        store = opens()
        store.commit(rows[::-1])
        assert [row.seq for row in store.replay(0)] == [row.seq for row in rows[5:11]]
        store.close()

    def test_rows_of_what_is_now_replace_the_earlier_ones(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([*w.ground(), w.lease(), w.meter(total_nano=1), w.spec(), w.verify(), w.step_map()])
        later = [
            w.node(1, reason="disk full"),
            w.meter(total_nano=2),
            w.spec(specs=b""),
            w.step_map(state=b"\x05"),
        ]
        store.commit([*later, w.verify(done=1)])
        image = store.load()
        assert [node for node in image.nodes if node.id == 1] == [later[0]]
        assert image.meters == [later[1]]
        assert image.specs == [later[2]]
        assert image.maps == [later[3]]
        assert image.verify == []
        assert len(store.leases_of_step(1, 0)) == 1
        store.close()

    def test_of_two_rows_of_a_node_in_one_commit_the_last_counts(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([w.node(1, reason="first"), w.node(1, reason="second")])
        assert [node.reason for node in store.load().nodes] == ["second"]
        store.close()

    @pytest.mark.parametrize(
        "spoil",
        [
            pytest.param(lambda w: [w.result(1), w.result(77)], id="result of no lease"),
            pytest.param(lambda w: [w.result(1), w.lease(step=9)], id="lease of no step"),
            pytest.param(lambda w: [w.result(1), w.lease(node=9)], id="lease to no node"),
            pytest.param(lambda w: [w.result(1), w.step(5, job=9)], id="step of no job"),
            pytest.param(lambda w: [w.result(1), w.job(1)], id="job number twice"),
            pytest.param(lambda w: [msgspec.structs.replace(w.result(1), seq=7)] * 2, id="result twice"),
            pytest.param(
                lambda w: [w.history(), msgspec.structs.replace(w.result(1), ram_mib=2**63)], id="too large"
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
        assert list(store.replay(0)) == [good[-1]]
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
        assert store.last_seq() == good[-1].seq
        assert list(store.replay(0)) == [good[-1]]
        assert store.meta("a") is None
        last = later.history()
        store.commit([last])
        assert store.last_seq() == last.seq
        store.close()

    def test_a_late_result_of_an_attempt_nobody_knows_is_kept(self, opens: Opens) -> None:
        w = Writer()
        row = w.stale(attempt=123_456_789)
        store = opens()
        store.commit([row])
        assert store.last_seq() == row.seq
        store.close()

    def test_an_empty_commit_changes_nothing(self, opens: Opens) -> None:
        store = opens()
        store.commit([])
        assert store.last_seq() == 0
        store.close()

    # -- restart --

    def test_replay_gives_the_three_kinds_in_order_of_seq(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit(w.ground())
        written: list[AnyRow] = []
        for number in range(30):
            rows = w.batch(number % 4)
            if number % 7 == 3:
                rows.append(w.bulk())
            if number % 5 == 0:  # numbers that no row of the three has
                rows += [w.history(), w.node(1)]
            store.commit(rows)
            written += rows
        wanted = [row for row in written if isinstance(row, LeaseRow | ResultRow) or hasattr(row, "fresh")]
        for after in (
            0,
            wanted[0].seq,
            wanted[10].seq,
            wanted[10].seq - 1,
            wanted[-1].seq - 1,
            w.seq,
            w.seq + 9,
        ):
            assert list(store.replay(after)) == [row for row in wanted if row.seq > after]
        store.close()

    def test_replay_from_anywhere_equals_what_was_written_after_it(self, fresh: Opens) -> None:
        @settings(max_examples=25, deadline=None)
        @given(
            steps=st.lists(st.sampled_from(["lease", "result", "bulk", "other", "gap"]), max_size=60),
            cut=st.integers(0, 80),
        )
        def holds(steps: list[str], cut: int) -> None:
            w = Writer()
            rows: list[AnyRow] = w.ground()
            wanted: list[AnyRow] = []
            for what in steps:
                if what == "gap":
                    w.seq += 1000
                    w.attempt += 5
                elif what == "other":
                    rows.append(w.history())
                else:
                    made: AnyRow
                    if what == "result" and w.attempt and any(isinstance(row, LeaseRow) for row in wanted):
                        leases = [row for row in wanted if isinstance(row, LeaseRow)]
                        made = w.result(leases[len(wanted) % len(leases)].id)
                    else:
                        made = w.bulk() if what == "bulk" else w.lease()
                    rows.append(made)
                    wanted.append(made)
            store = fresh()
            store.commit(rows)
            after = wanted[cut % len(wanted)].seq if wanted else cut
            assert list(store.replay(after)) == [row for row in wanted if row.seq > after]
            assert store.leases_of_step(1, after) == [
                row for row in wanted if isinstance(row, LeaseRow) and row.seq > after
            ]
            assert store.last_seq() == max(row.seq for row in rows)
            assert store.last_attempt() == max(
                (row.id for row in wanted if isinstance(row, LeaseRow)), default=0
            )
            store.close()

        holds()

    def test_reading_a_replay_lets_commits_go_on(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        first = [*w.ground(), *w.batch(5)]
        store.commit(first)
        reading = store.replay(0)
        assert next(reading) == first[5]
        store.commit(w.batch(5))
        assert list(reading)[:9] == first[6:]
        store.close()

    def test_a_checkpoint_brings_the_leases_it_names_as_open(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        leases = [w.lease(units=str(unit)) for unit in range(4)]
        extra = msgspec.msgpack.encode({"attempts": [[3, [0], 5], [1, []]], "anything": {"else": [1, 2]}})
        store.commit([*w.ground(), *leases])
        store.commit([w.checkpoint(extra)])
        store.commit([w.lease(), w.result(1)])
        image = store.load()
        assert image.checkpoint is not None
        assert image.checkpoint.extra == extra
        assert image.open_leases == [leases[0], leases[2]]
        store.close()

    def test_a_checkpoint_that_names_none_brings_those_open_at_its_seq(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        leases = [w.lease(units=str(unit)) for unit in range(4)]
        store.commit([*w.ground(), *leases, w.result(1, closes=0), w.result(2, closes=1)])
        store.commit([w.checkpoint(b"\x93\x01\x02\x03")])
        store.commit([w.lease(), w.result(3, closes=1)])
        assert store.load().open_leases == [leases[0], leases[2], leases[3]]
        store.close()

    def test_the_checkpoint_written_last_counts(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([w.checkpoint()])
        for number in (1, 2):  # in place of the first, or beside it
            last = w.checkpoint(b"\x81\xa1a\x01", number=number)
            store.commit([last])
            assert store.load().checkpoint == last
        store.close()

    def test_a_checkpoint_naming_an_attempt_without_a_lease_is_damage(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        store.commit([*w.ground(), w.checkpoint(msgspec.msgpack.encode({"attempts": [[8, []]]}))])
        with pytest.raises(StorageError, match="attempt 8"):
            store.load()
        store.close()

    # -- reading history --

    def test_a_step_is_read_alone_and_from_its_own_start(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        ground = w.ground()
        one, two = w.batch(3, step=1), w.batch(2, step=2)
        bulks = [w.bulk(1, "0-4"), w.bulk(2), w.bulk(1, "5")]
        store.commit([*ground, *one, *two, *bulks])
        assert store.leases_of_step(1, 0) == one[:3]
        assert store.results_of_step(1, 0) == one[3:]
        assert store.leases_of_step(2, ground[2].seq) == two[:2]
        assert store.results_of_step(2, one[-1].seq) == two[2:]
        assert store.bulks_of_step(1, 0) == [bulks[0], bulks[2]]
        assert store.bulks_of_step(1, bulks[0].seq) == [bulks[2]]
        assert store.results_of_step(1, one[-1].seq) == []
        assert store.leases_of_step(1, one[2].seq) == []
        assert store.leases_of_step(3, 0) == []
        store.close()

    def test_the_newest_leases_come_oldest_first(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        rows = [*w.ground(), *w.batch(4), w.lease()]
        store.commit(rows)
        leases = [row for row in rows if isinstance(row, LeaseRow)]
        assert store.recent_leases(3) == leases[-3:]
        assert store.recent_leases(99) == leases
        assert store.recent_leases(0) == store.recent_leases(-1) == []
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

    def test_job_states_are_all_loaded_and_read_newest_first(self, opens: Opens) -> None:
        w = Writer()
        store = opens()
        states = [w.job_state(1, "paused"), w.job_state(2, "paused"), w.job_state(1, "")]
        store.commit([w.job(1), w.job(2), *states])
        assert store.load().states == states
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
        reading = store.replay(0)
        store.close()
        store.close()
        for use in (
            lambda: store.commit([Writer(9).history()]),
            store.load,
            store.last_seq,
            lambda: store.meta("a"),
            store.keys,
            lambda: list(reading),
        ):
            with pytest.raises(StorageError, match="closed"):
                use()
