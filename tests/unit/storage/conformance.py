"""What every store promises the broker: run against SQLite, PostgreSQL and the stand-in in memory.

A test class inherits ``StoreConformance`` and gives a fixture ``opens``: each call opens the same state anew;
``fresh`` opens a new one each time.  Restarts and history have files of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from farm.broker.ports import KeyRecord
from farm.core.checkpoint import BEFORE_ALL
from farm.core.rows import AnyRow, LeaseRow, ResultRow
from farm.model.errors import StorageError
from farm.storage.tables import GROUND
from tests.unit.storage.conformance_history import HistoryConformance
from tests.unit.storage.conformance_restart import RestartConformance
from tests.unit.storage.samples import Writer
from tests.unit.storage.witness import ARCHIVED, Opens, one_of_each, replayed


class StoreConformance(RestartConformance, HistoryConformance):
    """The suite: what is committed, names and keys, and owning; restarts and history are inherited."""

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
