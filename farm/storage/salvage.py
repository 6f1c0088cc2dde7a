"""Reads round the damage of a farm's file: what can be read of it, in a new one.

What belongs here: rows as they are found.  What must not: whether they make a farm (``farm.storage.mend``),
and touching the original.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from farm.core.checkpoint import BEFORE_ALL
from farm.model.errors import StorageError
from farm.storage.database import create_database
from farm.storage.ddl import HEAD
from farm.storage.journal import Segment, decode_rows
from farm.storage.leaving import INCOMPLETE
from farm.storage.sqlite import SqliteReader
from farm.storage.tables import TABLES

#: Statements spent on reading round the damage of one table before the rest of it is given up.
TRIES = 20_000
#: No number of a row is farther from zero.
_MOST = 2**44
#: Columns of the other tables; those of rows are the rows' fields.
_OTHERS: dict[str, tuple[str, ...]] = {
    "meta": ("name", "value"),
    "keys": ("public", "role", "user", "pool", "site", "label", "revoked", "added_us", "n"),
    "invites": ("name", "record", "n"),
    "segments": Segment.__struct_fields__,
    "journal": ("id", "seq_last", "at_us", "blob"),
}


class Mended(msgspec.Struct):
    """What a repair did.

    Attributes:
        kept: Where the original is now, "" when nothing was damaged and nothing done.
        lost: What could not be kept, in words.
        jobs, rows: How many of each the new database has.
    """

    kept: str = ""
    lost: list[str] = []
    jobs: int = 0
    rows: int = 0


def salvage(path: Path, work: Path, mended: Mended) -> None:
    """Copies what can be read into a new database."""
    create_database(work)
    columns = {table.name: table.columns for table in TABLES} | _OTHERS
    with (
        SqliteReader(path, owned=True) as reader,
        contextlib.closing(sqlite3.connect(work, isolation_level=None)) as new,
    ):
        old = reader._opened()
        try:
            found = old.execute("SELECT version_num FROM alembic_version").fetchall()
        except sqlite3.DatabaseError:
            found = [(HEAD,)]  # that part is damaged; the tables will tell
        if found != [(HEAD,)]:
            raise StorageError(f"{path} has another schema than {HEAD}", hint="see `farm db upgrade`")
        new.execute("BEGIN IMMEDIATE")
        kept = 0
        for name, fields in columns.items():
            listed = ", ".join(f'"{field}"' for field in fields)
            insert = f"INSERT INTO {name} ({listed}) VALUES ({', '.join('?' * len(fields))})"
            read, refused, unreadable_places = 0, 0, False
            history, last, gap = _history_until(new, name), BEFORE_ALL, False
            for row in _rows_round_damage(old, f"SELECT {listed} FROM {name}"):
                if row is None:
                    unreadable_places = True
                    gap = gap or last < history
                    continue
                read += 1
                if not _taken(new, name, insert, row, mended):
                    refused += 1
                    gap = gap or type(row[0]) is not int or row[0] <= history
                elif name == "journal":
                    last = row[1]
            kept += read
            if unreadable_places:
                # How many there were is written where it cannot be read.
                what = f"some rows cannot be read, {read} can" if read else "no row can be read"
                mended.lost.append(f"{name}: {what}")
            if refused:
                mended.lost.append(f"{name}: {refused} rows contradict the rest or cannot be understood")
            if gap:
                new.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (INCOMPLETE, "repaired"))
        if not kept:
            raise StorageError(f"nothing of {path} can be read", hint="put a backup in its place")
        for name, row, *_ in new.execute("PRAGMA foreign_key_check").fetchall():
            new.execute(f"DELETE FROM {name} WHERE rowid = ?", (row,))
            mended.lost.append(f"{name}, row {row}: belongs to what is gone")
        new.execute("COMMIT")


def _history_until(new: sqlite3.Connection, name: str) -> int:
    """Up to which number what is lost of a table leaves a gap in the history that no later cut makes good."""
    if name == "segments":
        return 2**62
    if name == "journal":
        return last_settled(lambda sql: new.execute(sql).fetchall())
    return BEFORE_ALL


def last_settled(query: Callable[[str], list[Any]]) -> int:
    """Number of the last row that a checkpoint knew of, also where only its maps are left."""
    for names in (("checkpoints",), ("step_maps", "node_maps")):
        found = [query(f"SELECT max(seq) FROM {name}")[0][0] for name in names]
        known = [int(seq) for seq in found if seq is not None]
        if known:
            return max(known)
    return BEFORE_ALL


def _rows_round_damage(db: sqlite3.Connection, select: str) -> Iterator[tuple[Any, ...] | None]:
    """Rows in order of their key; None for each place where some cannot be read."""
    rows: list[tuple[Any, ...]]
    try:
        rows = db.execute(f"{select} ORDER BY rowid").fetchall()
    except sqlite3.DatabaseError as error:
        if "no such table" in str(error) or error.sqlite_errorname == "SQLITE_NOTADB":
            yield None
            return
    else:
        yield from rows
        return
    ranges, tries = [(-_MOST, _MOST)], TRIES
    while ranges and tries:
        tries -= 1
        low, high = ranges.pop()
        try:
            rows = db.execute(f"{select} WHERE rowid BETWEEN ? AND ? ORDER BY rowid", (low, high)).fetchall()
        except sqlite3.DatabaseError:
            if low == high:
                yield None
            else:
                middle = (low + high) // 2
                ranges += [(middle + 1, high), (low, middle)]
        else:
            yield from rows
    if ranges:
        yield None


def _taken(db: sqlite3.Connection, name: str, insert: str, row: tuple[Any, ...], mended: Mended) -> bool:
    """Whether a row makes sense and was taken."""
    if name in ("segments", "journal"):
        where = f"{'history segment' if name == 'segments' else 'journal entry'} {row[0]}"
        try:
            if not isinstance(row[-1], bytes) or not decode_rows(row[-1], where):
                return False
        except StorageError as error:
            mended.lost.append(error.message)
            return False
    try:
        db.execute(insert, row)
    except sqlite3.Error:  # a value that fits no column, a key twice
        return False
    return True
