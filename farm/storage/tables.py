"""Which table holds which row: names, keys, references, and the SQL made of them.

What belongs here: the plain facts every store needs (SQLite, the schema, the fake in memory).  What must
not: SQLAlchemy, or anything that opens a file.  A broker that finds its tables as they should be never
imports SQLAlchemy, which would cost more than the rest of its start.
"""

from __future__ import annotations

import msgspec

from farm.core.rows import (
    AnyRow,
    CheckpointRow,
    DeleteRow,
    HistoryRow,
    JobRow,
    JobStateRow,
    NodeMapRow,
    PolicyRow,
    Row,
    ShelfRow,
    StepEditRow,
    StepMapRow,
    StepRow,
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


#: Tables of rows, what is referred to before what refers: inserting in this order satisfies references.
#: History rows may name no job, and a node's checkpoint a node of the journal, so these refer to nothing.
TABLES: tuple[Table, ...] = (
    Table(row=JobRow, name="jobs", key="id"),
    Table(row=StepRow, name="steps", key="id", refers=(("job_id", "jobs"),), indexes=("job_id",)),
    Table(row=JobStateRow, name="job_states", key="seq", refers=(("job_id", "jobs"),), indexes=("job_id",)),
    Table(
        row=StepEditRow, name="step_edits", key="seq", refers=(("step_id", "steps"),), indexes=("step_id",)
    ),
    Table(row=ShelfRow, name="shelf", key="seq", refers=(("job_id", "jobs"),), indexes=("job_id",)),
    Table(row=DeleteRow, name="deleted", key="seq", indexes=("job_id",)),
    Table(row=PolicyRow, name="policies", key="seq"),
    Table(row=HistoryRow, name="history", key="seq", indexes=("job_id",)),
    Table(row=StepMapRow, name="step_maps", key="step_id", latest=True, refers=(("step_id", "steps"),)),
    Table(row=NodeMapRow, name="node_maps", key="node_id", latest=True),
    Table(row=CheckpointRow, name="checkpoints", key="id", latest=True),
)

#: Rows of things as such and of changes to them: all of them, but those of jobs in the archive, are read at a
#: restart.
GROUND: tuple[type[Row], ...] = (JobRow, StepRow, JobStateRow, StepEditRow, PolicyRow)
#: Rows that tell of a job leaving memory: a checkpoint says what they mean, so only later ones are replayed.
LEAVING: tuple[type[Row], ...] = (ShelfRow, DeleteRow)

BY_ROW: dict[type[Row], Table] = {table.row: table for table in TABLES}

#: Every other kind of row: what happens all the time.  All of a commit's go into one row of the journal.
JOURNALED: tuple[type[Row], ...] = tuple(kind for kind in AnyRow.__args__ if kind not in BY_ROW)


def insert_sql(table: Table) -> str:
    """The statement that stores a row given as a tuple in the order of its fields."""
    return upsert_sql(table.name, table.columns, table.key if table.latest else None)


def upsert_sql(name: str, columns: tuple[str, ...], key: str | None, *, counter: str = "") -> str:
    """An INSERT of those columns; with a key, one that replaces the other columns of an existing row.

    It updates rather than deletes and inserts anew, so that rows that refer to it stay valid, and a
    ``counter`` column, which numbers rows as they are added, keeps its value.
    """
    quoted = _quoted(columns)
    marks = ["?"] * len(columns)
    into = list(quoted)
    if counter:
        into.append(f'"{counter}"')
        marks.append(f'(SELECT coalesce(max("{counter}"), 0) + 1 FROM {name})')
    sql = f"INSERT INTO {name} ({', '.join(into)}) VALUES ({', '.join(marks)})"
    if key is None:
        return sql
    changes = ", ".join(f"{column} = excluded.{column}" for column in quoted if column != f'"{key}"')
    return f'{sql} ON CONFLICT ("{key}") DO UPDATE SET {changes}'


def select_sql(table: Table, rest: str = "") -> str:
    """A SELECT of all columns in the order of the row's fields, with what follows FROM."""
    return f"SELECT {', '.join(_quoted(table.columns))} FROM {table.name} {rest}".rstrip()


def _quoted(columns: tuple[str, ...]) -> list[str]:
    # Some of our fields are SQL words (``key``, ``no``, ``new``, ``user``).
    return [f'"{column}"' for column in columns]
