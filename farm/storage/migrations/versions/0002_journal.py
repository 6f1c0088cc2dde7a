"""What happens all the time goes into a journal, a row a commit, and from there into segments by step.

Rows of the tables it replaces become journal entries in order of ``seq``, without a checkpoint: the first
start replays them all and writes one.  Nodes, of which only the last row was kept, stand before everything;
a request to look at files stands where it was first made, which is its id.

The archive comes with it: jobs that are at rest for long are in ``shelf`` and leave the broker's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_ENCODE = msgspec.msgpack.Encoder().encode
#: Rows in one journal entry.
_ENTRY = 1_000

#: Tag in the journal, key, columns of the tables replaced, as they were.
_LEASES = "id seq step_id no node_id nonce kind units cores ram_mib gpus share_ppm gang at_us old new reason"
_RESULTS = (
    "seq attempt_id step_id unit old new failure reason at_us elapsed_us ram_mib files warning closes lost"
    " charge_nano waste_nano"
)
_BULKS = "seq step_id units old new at_us reason who fresh"
_SPECS = "seq step_id unit specs"
_VERIFY = "id seq step_id units purpose who at_us done"
_NODES = "id seq key name pool site facts enabled reason rate_nano_h seen_us forgotten"
_METERS = "node_id seq running origin_us metered_us rate_nano_h total_nano idle_nano waste_nano charges"
_STALE = "seq attempt_id unit node_id at_us reason"

#: Columns of the archive, and of what is kept of deleted jobs.
_SHELF = {
    "seq": _INT,
    "job_id": _INT,
    "at_us": _INT,
    "name": sa.Text(),
    "user": sa.Text(),
    "project": sa.Text(),
    "priority": _INT,
    "token": sa.Text(),
    "state": sa.Text(),
    "reason": sa.Text(),
    "submitted_us": _INT,
    "started_us": _INT,
    "ended_us": _INT,
    "units": _INT,
    "done": _INT,
    "failed": _INT,
    "spend_nano": _INT,
    "waste_nano": _INT,
    "busy_us": _INT,
    "steps": sa.Text(),
}
_DELETED = {
    "seq": _INT,
    "job_id": _INT,
    "at_us": _INT,
    "name": sa.Text(),
    "user": sa.Text(),
    "project": sa.Text(),
    "token": sa.Text(),
    "shelved": _INT,
    "done": _INT,
    "spend_nano": _INT,
    "waste_nano": _INT,
    "busy_us": _INT,
    "reason": sa.Text(),
    "who": sa.Text(),
}

_Placed = tuple[int, list[Any]]


def upgrade() -> None:
    op.create_table(
        "journal",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq_last", _INT, nullable=False),
        sa.Column("at_us", _INT, nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_journal")),
        sqlite_strict=True,
    )
    op.create_table(
        "segments",
        sa.Column("id", _INT, autoincrement=False, nullable=False),
        sa.Column("step_id", _INT, nullable=False),
        sa.Column("seq_first", _INT, nullable=False),
        sa.Column("unit_low", _INT, nullable=False),
        sa.Column("unit_high", _INT, nullable=False),
        sa.Column("rows", _INT, nullable=False),
        sa.Column("bulks", _INT, nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segments")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_segments_step_id"), "segments", ["step_id"], unique=False)
    op.create_table(
        "node_maps",
        sa.Column("node_id", _INT, autoincrement=False, nullable=False),
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("node", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("meter", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_node_maps")),
        sqlite_strict=True,
    )
    op.create_table(
        "policies",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("policy", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("who", sa.Text(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_policies")),
        sqlite_strict=True,
    )
    op.create_table(
        "step_edits",
        sa.Column("seq", _INT, autoincrement=False, nullable=False),
        sa.Column("step_id", _INT, autoincrement=False, nullable=False),
        sa.Column("at_us", _INT, autoincrement=False, nullable=False),
        sa.Column("spec", sa.LargeBinary(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text(), autoincrement=False, nullable=False),
        sa.Column("who", sa.Text(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("fk_step_edits_step_id_steps")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_step_edits")),
        sqlite_strict=True,
    )
    op.create_table(
        "shelf",
        *(sa.Column(name, kind, autoincrement=False, nullable=False) for name, kind in _SHELF.items()),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_shelf_job_id_jobs")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_shelf")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_shelf_job_id"), "shelf", ["job_id"], unique=False)
    op.create_table(
        "deleted",
        *(sa.Column(name, kind, autoincrement=False, nullable=False) for name, kind in _DELETED.items()),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_deleted")),
        sqlite_strict=True,
    )
    op.create_index(op.f("ix_deleted_job_id"), "deleted", ["job_id"], unique=False)
    op.create_index(op.f("ix_steps_job_id"), "steps", ["job_id"], unique=False)
    op.create_index(op.f("ix_step_edits_step_id"), "step_edits", ["step_id"], unique=False)
    for name in ("keys", "invites"):
        # Their order was SQLite's row number, which other databases do not have.
        op.add_column(name, sa.Column("n", _INT, nullable=False, server_default="0"))
        if op.get_bind().dialect.name == "sqlite":
            op.execute(f"UPDATE {name} SET n = rowid")
    _fill_journal(op.get_bind())
    op.execute("DELETE FROM checkpoints")
    op.execute("DELETE FROM step_maps")
    for name in ("results", "leases", "bulks", "specs", "verify", "meters", "nodes", "stale"):
        op.drop_table(name)


def _fill_journal(bind: sa.Connection) -> None:
    """Writes the journal entries of all rows that lose their table."""
    nodes = list(_rows(bind, 9, "nodes", _NODES))
    for at, (_, row) in enumerate(nodes):
        row[2] = at - len(nodes)  # before the first row of all, which is number 1
        row.append(b"")  # what a node may be set to since this version
    placed = [(row[2], row) for _, row in nodes]
    entry: list[_Placed] = []
    for item in merge(
        placed,
        _rows(bind, 4, "leases", _LEASES),
        _rows(bind, 5, "results", _RESULTS),
        _rows(bind, 6, "bulks", _BULKS),
        _rows(bind, 7, "specs", _SPECS),
        iter(_requests(bind)),
        _rows(bind, 10, "meters", _METERS),
        _rows(bind, 11, "stale", _STALE),
        key=itemgetter(0),
    ):
        entry.append(item)
        if len(entry) >= _ENTRY:
            _put(bind, entry)
            entry = []
    _put(bind, entry)


def _rows(bind: sa.Connection, tag: int, table: str, columns: str) -> Iterator[_Placed]:
    names = columns.split()
    at = names.index("seq")
    quoted = ", ".join(f'"{name}"' for name in names)
    for row in bind.exec_driver_sql(f"SELECT {quoted} FROM {table} ORDER BY seq"):
        yield row[at], [tag, *row]


def _requests(bind: sa.Connection) -> list[_Placed]:
    """Requests to look at files, of which the last row is known: one that is settled was asked for before."""
    found: list[_Placed] = []
    for seq, row in _rows(bind, 8, "verify", _VERIFY):
        number, done = row[1], row[8]
        found.append((number, [8, number, number, *row[3:8], 0]))
        if done and seq != number:
            found.append((seq, row))
    return sorted(found, key=itemgetter(0))


def _put(bind: sa.Connection, entry: list[_Placed]) -> None:
    if entry:
        bind.execute(
            sa.text("INSERT INTO journal (id, seq_last, at_us, blob) VALUES (:id, :seq_last, 0, :blob)"),
            {"id": entry[0][0], "seq_last": entry[-1][0], "blob": _ENCODE([row for _, row in entry])},
        )
