"""Makes a sound database of a damaged one: what can be read is kept, what cannot is told.

What belongs here: reading round damage, and putting together a farm from what is left.  What must not:
touching the original, which keeps all its bytes under another name.

A farm comes back from its checkpoint and the rows after it; where the checkpoint is damaged, from its whole
history.  The journal is kept up to the first entry that is missing, unreadable or does not fit: what comes
after it builds on what is gone.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from farm.core.checkpoint import BEFORE_ALL, Stored
from farm.core.core import Core
from farm.core.events import CheckpointEvent
from farm.core.invariants import digest
from farm.core.rows import StepMapRow
from farm.core.state import Farm
from farm.model.errors import StorageError
from farm.storage.care import Health, check_file, from_history, rebuilt, unreadable
from farm.storage.database import REPAIRING, create_database
from farm.storage.ddl import HEAD
from farm.storage.ground import OwnerLock, refuse_network, sync_folder
from farm.storage.journal import Segment, decode_rows
from farm.storage.leaving import IN_MEMORY, INCOMPLETE
from farm.storage.sqlite import SqliteReader, SqliteStore
from farm.storage.tables import BY_ROW, GROUND, LEAVING, TABLES
from farm.storage.troubles import database_trouble, file_trouble

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


def repair_file(path: Path) -> Mended:
    """Puts a sound database in the place of a damaged one.

    Returns:
        What was done; nothing when the database is sound.

    Raises:
        StorageError: A broker uses it, it is of another version, or too little of it can be read.
    """
    refuse_network(path.parent)
    work = path.with_name(path.name + REPAIRING)
    if not path.exists() and not work.exists():
        raise StorageError(f"there is no database {path}")
    lock = OwnerLock(path)
    try:
        if not path.exists() and work.exists():
            # A repair was stopped when all was done but this; the original has its other name already.
            work.replace(path)
            sync_folder(path.parent)
        if not _problems(path):
            return Mended()
        _remove(work)
        try:
            mended = Mended()
            _salvage(path, work, mended)
            _make_a_farm(work, mended)
        except BaseException:
            _remove(work)
            raise
        _exchange(path, work, mended)
        return mended
    except OSError as error:
        raise file_trouble(path, error, "repaired") from error
    except sqlite3.Error as error:
        raise database_trouble(path, error) from error
    finally:
        lock.release()


def _problems(path: Path) -> list[str]:
    try:
        health = check_file(path, owned=True)
        return health.problems + ([health.unfit] if health.unfit else [])
    except StorageError as error:
        return [error.message]


# ---------------------------------------------------------------- reading


def _salvage(path: Path, work: Path, mended: Mended) -> None:
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
            for row in _rows_round_damage(old, f"SELECT {listed} FROM {name}"):
                if row is None:
                    unreadable_places = True
                    continue
                read += 1
                refused += not _taken(new, name, insert, row, mended)
            kept += read
            if unreadable_places:
                # How many there were is written where it cannot be read.
                what = f"some rows cannot be read, {read} can" if read else "no row can be read"
                mended.lost.append(f"{name}: {what}")
            if refused:
                mended.lost.append(f"{name}: {refused} rows contradict the rest or cannot be understood")
            if (unreadable_places or refused) and name == "segments":
                new.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (INCOMPLETE, "repaired"))
        if not kept:
            raise StorageError(f"nothing of {path} can be read", hint="put a backup in its place")
        for name, row, *_ in new.execute("PRAGMA foreign_key_check").fetchall():
            new.execute(f"DELETE FROM {name} WHERE rowid = ?", (row,))
            mended.lost.append(f"{name}, row {row}: belongs to what is gone")
        new.execute("COMMIT")


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


# ---------------------------------------------------------------- putting together


def _make_a_farm(work: Path, mended: Mended) -> None:
    """Cuts off what does not fit, until the rest makes a farm, and writes its checkpoint."""
    with SqliteStore(work) as store:
        _cut_torn_tail(store, mended)
        whole = store.meta(INCOMPLETE) is None
        if whole:
            _take_off_the_shelf(store, mended)
        image = store.load()
        farm = _longest(store, image, mended)
        if farm is not None and whole and image.checkpoint is not None:
            # Where both can be read and do not agree, the rows are what happened.
            told = from_history(store, store.load(), Health(store.label))
            if told is not None and digest(told) != digest(farm):
                mended.lost.append("the checkpoint did not agree with its rows: the farm was made of those")
                farm = told
        if farm is None and image.checkpoint is not None and whole:
            mended.lost.append("the checkpoint is damaged: the farm was made anew from its whole history")
            # The maps of jobs in the archive stay: nothing else says what became of them.
            maps = ("checkpoints", f"step_maps WHERE {IN_MEMORY[StepMapRow]}", "node_maps")
            store._write([(f"DELETE FROM {name}", [()]) for name in maps])
            farm = _longest(store, store.load(), mended)
        if farm is None:
            raise StorageError(
                "too little of the database can be read to make a farm of it",
                hint="put a backup in its place",
            )
        for step in farm.steps.values():
            step.dirty = True
        farm.seq = store.load().last_seq
        at_us = max((row[0] for row in store._query("SELECT max(at_us) FROM history")), default=0) or 0
        store.commit(Core(farm=farm).handle(CheckpointEvent(at_us)).rows)
        mended.jobs = store._query("SELECT count(*) FROM jobs")[0][0]
        mended.rows = store._query("SELECT coalesce(sum(rows), 0) FROM segments")[0][0]
    problems = check_file(work, quick=True).problems
    if problems:
        raise StorageError(
            f"what can be read makes no sound database: {problems[0]}", hint="put a backup in its place"
        )


def _take_off_the_shelf(store: SqliteStore, mended: Mended) -> None:
    """Jobs of the archive that are damaged come back to memory, where their history makes them anew."""
    damaged = list(unreadable(store))
    if damaged:
        store._write([("DELETE FROM shelf WHERE job_id = ?", [(number,) for number, _ in damaged])])
        mended.lost += [f"{text}: it was made anew from its history" for _, text in damaged]


def _cut_torn_tail(store: SqliteStore, mended: Mended) -> None:
    """Drops the journal from the first hole on: what comes after it builds on rows that are gone."""
    image = store.load()
    present = {row[0] for row in store._query("SELECT seq FROM history")}
    for kind in (*GROUND, *LEAVING):
        present.update(row[0] for row in store._query(f"SELECT seq FROM {BY_ROW[kind].name}"))
    sql = "SELECT id, seq_last, blob FROM journal WHERE seq_last > ? ORDER BY id"
    entries = store._query(sql, (image.after,))
    wanted = image.after + 1 if image.checkpoint is not None else None
    for number, seq_last, blob in entries:
        seqs = [row.seq for row in decode_rows(blob, "")]
        fits = seqs[0] == number and seqs[-1] == seq_last and seqs == sorted(set(seqs))
        for seq in seqs:
            while wanted is not None and wanted < seq and wanted in present:
                wanted += 1
            fits = fits and (wanted is None or wanted == seq)
            wanted = seq + 1 if wanted is not None else None
        if not fits:
            _cut(store, number, mended)
            return


def _cut(store: SqliteStore, number: int, mended: Mended) -> None:
    ((count,),) = store._query("SELECT count(*) FROM journal WHERE id >= ?", (number,))
    store._write([("DELETE FROM journal WHERE id >= ?", [(number,)])])
    mended.lost.append(f"the journal from row {number} on ({count} commits) builds on what is gone")


def _longest(store: SqliteStore, image: Stored, mended: Mended) -> Farm | None:
    """The farm of as many commits as fit after a base; cuts off the others.  None when the base is bad."""

    def upto(last: int | None) -> Farm | None:
        rows = (row for row in store.replay(image.after) if last is None or row.seq <= last)
        return rebuilt(image, rows, Health(store.label), "")

    whole = upto(None)
    if whole is not None:
        return whole
    ends = store._query("SELECT id, seq_last FROM journal WHERE id > ? ORDER BY id", (image.after,))
    first = ends[0][0] - 1 if ends else BEFORE_ALL
    farm = upto(first) if ends else None
    if farm is None:
        return None
    good, bad = 0, len(ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        found = upto(ends[middle - 1][1])
        if found is None:
            bad = middle
        else:
            good, farm = middle, found
    if image.checkpoint is None and not good:
        return None  # not even the first row of all fits
    last = ends[good - 1][1] if good else first
    _cut(store, ends[good][0], mended)
    for kind in ("shelf", "deleted", "step_edits", "job_states", "policies", "steps", "jobs"):
        store._write([(f"DELETE FROM {kind} WHERE seq > ?", [(last,)])])
    return farm


# ---------------------------------------------------------------- files


def _exchange(path: Path, work: Path, mended: Mended) -> None:
    """Puts the new database in the place of the old one, which keeps all its bytes."""
    number, kept = 1, path.with_name(path.name + ".damaged")
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged.{number}")
    # While neither is in place, no broker starts a farm anew: it sees the one that waits (``REPAIRING``).
    path.replace(kept)
    for ending in ("-wal", "-shm"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.replace(kept.with_name(kept.name + ending))
    work.replace(path)
    work.with_name(work.name + ".lock").unlink(missing_ok=True)
    sync_folder(path.parent)
    mended.kept = str(kept)


def _remove(work: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal", ".lock", ".new"):
        work.with_name(work.name + ending).unlink(missing_ok=True)
