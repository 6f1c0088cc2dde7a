"""Which table holds which row: names, keys, references, and the SQL made of them.

What belongs here: the plain facts every store needs (SQLite, the schema, the fake in memory).  What must
not: SQLAlchemy, or anything that opens a file.  A broker that finds its tables as they should be never
imports SQLAlchemy, which would cost more than the rest of its start.
"""

from __future__ import annotations

import msgspec

from farm.core.rows import (
    BulkRow,
    CheckpointRow,
    HistoryRow,
    JobRow,
    JobStateRow,
    LeaseRow,
    MeterRow,
    NodeRow,
    ResultRow,
    Row,
    SpecRow,
    StaleRow,
    StepMapRow,
    StepRow,
    VerifyRow,
)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of rows of one kind; its columns are the fields of the row, in order.

    Attributes:
        row: Kind of row.
        name: Name of the table.
        key: Field that is the primary key (an integer, so it is SQLite's row id and costs no index).
        latest: A row replaces the earlier one of the same key; else rows are only ever added.
        refers: (field, table) pairs: the field names a key of that table.
        indexes: Fields with an index of their own; only on tables off the hot path.
    """

    row: type[Row]
    name: str
    key: str
    latest: bool = False
    refers: tuple[tuple[str, str], ...] = ()
    indexes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in order."""
        return self.row.__struct_fields__

    @property
    def types(self) -> tuple[type, ...]:
        """int, str or bytes for each column."""
        return tuple(field.type for field in msgspec.structs.fields(self.row))


#: Every table, what is referred to before what refers: inserting in this order satisfies references.
#: Stale rows may name attempts nobody knows and history rows no job, so these two refer to nothing.
#: No index on leases and results: each would cost every frame 1.4-1.9 us.
TABLES: tuple[Table, ...] = (
    Table(row=JobRow, name="jobs", key="id"),
    Table(row=StepRow, name="steps", key="id", refers=(("job_id", "jobs"),)),
    Table(row=NodeRow, name="nodes", key="id", latest=True),
    Table(row=JobStateRow, name="job_states", key="seq", refers=(("job_id", "jobs"),), indexes=("job_id",)),
    Table(row=VerifyRow, name="verify", key="id", latest=True, refers=(("step_id", "steps"),)),
    Table(row=LeaseRow, name="leases", key="id", refers=(("step_id", "steps"), ("node_id", "nodes"))),
    Table(row=ResultRow, name="results", key="seq", refers=(("attempt_id", "leases"), ("step_id", "steps"))),
    Table(row=BulkRow, name="bulks", key="seq", refers=(("step_id", "steps"),)),
    Table(row=SpecRow, name="specs", key="step_id", latest=True, refers=(("step_id", "steps"),)),
    Table(row=MeterRow, name="meters", key="node_id", latest=True, refers=(("node_id", "nodes"),)),
    Table(row=StaleRow, name="stale", key="seq"),
    Table(row=HistoryRow, name="history", key="seq", indexes=("job_id",)),
    Table(row=StepMapRow, name="step_maps", key="step_id", latest=True, refers=(("step_id", "steps"),)),
    Table(row=CheckpointRow, name="checkpoints", key="id", latest=True),
)

BY_ROW: dict[type[Row], Table] = {table.row: table for table in TABLES}


def insert_sql(table: Table) -> str:
    """The statement that stores a row given as a tuple in the order of its fields."""
    return upsert_sql(table.name, table.columns, table.key if table.latest else None)


def upsert_sql(name: str, columns: tuple[str, ...], key: str | None) -> str:
    """An INSERT of those columns; with a key, one that replaces the other columns of an existing row.

    It updates rather than deletes and inserts anew, so that rows that refer to it stay valid.
    """
    marks = ", ".join("?" * len(columns))
    sql = f"INSERT INTO {name} ({', '.join(_quoted(columns))}) VALUES ({marks})"
    if key is None:
        return sql
    changes = ", ".join(
        f"{column} = excluded.{column}" for column in _quoted(columns) if column != f'"{key}"'
    )
    return f'{sql} ON CONFLICT ("{key}") DO UPDATE SET {changes}'


def select_sql(table: Table, rest: str = "") -> str:
    """A SELECT of all columns in the order of the row's fields, with what follows FROM."""
    return f"SELECT {', '.join(_quoted(table.columns))} FROM {table.name} {rest}".rstrip()


def _quoted(columns: tuple[str, ...]) -> list[str]:
    # Some of our fields are SQL words (``key``, ``no``, ``new``, ``user``).
    return [f'"{column}"' for column in columns]
