"""A farm of the first schema goes on: its state, its money and its history are what they were.

The fixture was written by the version before: jobs done, running, failed, canceled and paused, attempts open
on two nodes, one node drained and one forgotten, a request to look at files, a checkpoint midway.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.core import invariants
from farm.core.checkpoint import restore
from farm.core.core import Core
from farm.core.events import CheckpointEvent
from farm.core.rows import BulkRow, LeaseRow, ResultRow
from farm.core.state import Farm, Settings
from farm.storage.sqlite import SqliteStore
from farm.transport.keyring import JoinRecord

FIXTURES = Path(__file__).parents[2] / "fixtures" / "databases"
FACTS: dict[str, Any] = json.loads((FIXTURES / "schema-0001.json").read_text(encoding="utf-8"))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database of the first schema."""
    path = tmp_path / "farm.db"
    raw = sqlite3.connect(path)
    raw.executescript((FIXTURES / "schema-0001.sql").read_text(encoding="utf-8"))
    raw.close()
    return path


def restored(store: SqliteStore) -> Farm:
    """The farm as a broker would start with it."""
    image = store.load()
    return restore(Settings(), image, store.replay(image.after))


def check_state(farm: Farm) -> None:
    """The farm is the one the version before would have started with."""
    assert farm.seq >= FACTS["last_seq"]
    assert farm.next_attempt == FACTS["next_attempt"]
    assert [
        [
            *(job.id, job.user, job.project, job.priority, job.paused, job.reason, job.archived),
            *(job.started_us, job.ended_us, job.open_units),
        ]
        for job in farm.jobs.values()
    ] == FACTS["jobs"]
    for step in farm.steps.values():
        facts = FACTS["steps"][step.address]
        assert list(step.state) == facts["states"], step.address
        assert list(step.tries or b"") == facts["tries"], step.address
        assert (step.attempt_no, step.spend_nano, step.waste_nano) == (
            facts["attempt_no"],
            facts["spend"],
            facts["waste"],
        ), step.address
        assert (step.busy_us, step.done_timed) == (facts["busy"], facts["done_timed"])
        assert (step.unmet, step.reason) == (facts["unmet"], facts["reason"])
        assert (step.specs is not None) == facts["specs"], step.address
        notes = {str(unit): [n.reason, n.failure, sorted(n.failed_on)] for unit, n in step.notes.items()}
        assert notes == facts["notes"]
    assert [
        [
            *(one.id, one.step.address, one.no, one.node.id, one.nonce, one.kind.value, list(one.open)),
            *(one.cores, one.charge_nano, one.useful_us),
        ]
        for one in farm.attempts.values()
    ] == FACTS["attempts"]
    assert [
        [
            *(node.id, node.name, node.enabled, node.reason, node.forgotten, node.cores_free),
            *(node.total_nano, node.idle_nano, node.waste_nano, node.meter_on, node.metered_us),
        ]
        for node in farm.nodes.values()
    ] == FACTS["nodes"]
    assert [
        [one.id, one.step_id, list(one.units), one.purpose, one.leased] for one in farm.verify.values()
    ] == FACTS["verify"]
    invariants.check(farm)
    invariants.check_money(farm)


def check_history(store: SqliteStore, farm: Farm) -> None:
    """What people may ask about is still there."""
    for step in farm.steps.values():
        rows = store.step_history(step.id, None)
        leases = [[row.id, row.units] for row in rows if isinstance(row, LeaseRow)]
        assert leases == FACTS["leases"][step.address]
        assert [
            [row.attempt_id, row.unit, row.new, row.reason, row.charge_nano]
            for row in rows
            if isinstance(row, ResultRow)
        ] == FACTS["results"][step.address]
        bulks = [[row.units, row.old, row.new, row.reason] for row in rows if isinstance(row, BulkRow)]
        assert bulks == FACTS["bulks"][step.address]
    assert len(store.history(0, 0, 10_000)) == FACTS["history"]


def test_the_first_schema_is_upgraded_with_all_it_holds(database: Path) -> None:
    with SqliteStore(database) as store:
        farm = restored(store)
        check_state(farm)
        check_history(store, farm)
        keys = store.keys()
        assert [(key.public[0], key.role) for key in keys] == [("p", "admin"), ("q", "agent")]
        invites = [msgspec.msgpack.decode(raw, type=JoinRecord) for raw in store.invites()]
        assert {(invite.role.value, invite.user, invite.pool, invite.redeemed_by) for invite in invites} == {
            ("agent", "", "gpu", "q" * 40),
            ("artist", "bob", "", None),
        }
        assert store.meta("farm_id") == "f" * 32
    backup = database.with_name("farm.db.before-upgrade-from-0001")
    raw = sqlite3.connect(backup)
    assert raw.execute("SELECT count(*) FROM leases").fetchone()[0] == FACTS["next_attempt"] - 1
    raw.close()


def test_after_its_first_checkpoint_everything_moves_into_the_history(database: Path) -> None:
    with SqliteStore(database) as store:
        farm = restored(store)
        core = Core(farm=farm)
        store.commit(core.handle(CheckpointEvent(2_000_000_000)).rows)
        check_history(store, farm)
        while store.compact(10):
            check_history(store, farm)
        assert store._query("SELECT count(*) FROM journal") == [(0,)]
    with SqliteStore(database) as store:
        again = restored(store)
        check_state(again)
        check_history(store, again)
        assert invariants.digest(farm) == invariants.digest(again)
