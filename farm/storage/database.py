"""Opens the farm's database: makes it, brings it up to date, sets the connection for durability.

What belongs here: everything between a path and a connection with the newest schema.  What must not:
rows.  SQLAlchemy comes in (``farm.storage.upgrade``) only for a database that needs it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from farm.model.errors import StorageError
from farm.storage.ddl import HEAD, STATEMENTS
from farm.storage.ground import refuse_orphan_log, sync_folder
from farm.storage.troubles import database_trouble, file_trouble

#: Ending of the database that a repair makes beside the damaged one.
REPAIRING = ".repairing"


def open_database(path: Path, busy_s: float) -> sqlite3.Connection:
    """The connection to a database with the newest schema, made or upgraded when needed.

    Args:
        path: The file; the caller holds its lock.
        busy_s: How long to wait for another program that holds the database.

    Raises:
        StorageError: It is damaged, no database of a farm or one of a newer version, or it cannot be read
            and written.
    """
    try:
        fresh = not path.exists() or path.stat().st_size == 0
    except OSError as error:
        raise file_trouble(path, error, "read") from error
    if fresh:
        refuse_orphan_log(path)
        _refuse_unfinished(path)
        create_database(path)
    elif (db := _connect(path, busy_s)) is not None:
        return db
    else:
        # Imported here alone: SQLAlchemy and Alembic take longer to import than the broker to start.
        from farm.storage.upgrade import upgrade_owned

        upgrade_owned(path)
    db = _connect(path, busy_s)
    if db is None:
        raise StorageError(f"{path} has an unexpected schema", hint="put a backup in its place")
    return db


def _connect(path: Path, busy_s: float) -> sqlite3.Connection | None:
    """The connection, or None when the schema is not the newest."""
    try:
        db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise database_trouble(path, error) from error
    try:
        try:
            found = db.execute("SELECT version_num FROM alembic_version").fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            found = []
        if found != [(HEAD,)]:
            db.close()
            return None
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StorageError(f"{path} cannot have a write-ahead log here", hint="use a local disk")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        # A file that may only be read opens well and fails at the first commit: ask now.
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
    except sqlite3.Error as error:
        db.close()
        raise database_trouble(path, error) from error
    except BaseException:
        db.close()
        raise
    return db


def _refuse_unfinished(path: Path) -> None:
    """Refuses to make a farm anew where a repaired one waits to be put in place."""
    if path.with_name(path.name + REPAIRING).exists():
        raise StorageError(f"a repair of {path} was interrupted", hint="run `farm db repair` again")


def create_database(path: Path) -> None:
    """Makes a database with the newest schema, whole or not at all."""
    work = path.with_name(path.name + ".new")
    try:
        work.unlink(missing_ok=True)
        os.close(os.open(work, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        raw = sqlite3.connect(work, isolation_level=None)
        try:
            raw.execute("BEGIN IMMEDIATE")
            for statement in STATEMENTS:
                raw.execute(statement)
            raw.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (HEAD,))
            raw.execute("COMMIT")
        finally:
            raw.close()
        work.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise file_trouble(path, error, "made") from error
    except sqlite3.Error as error:
        raise database_trouble(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            work.unlink(missing_ok=True)
            work.with_name(work.name + "-journal").unlink(missing_ok=True)
