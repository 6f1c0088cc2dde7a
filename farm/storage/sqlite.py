"""The farm's state in one SQLite file: one writer, one connection, all or nothing.

What belongs here: the connection, its transactions and its errors.  What must not: the meaning of a row, the
statements (``farm.storage.sql``), or SQLAlchemy.

Only this connection writes and checkpoints: SQLite before 3.51.3 can corrupt a log that two connections
reset (https://www.sqlite.org/wal.html#walresetbug), so a lock file keeps a second broker out.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from farm.model.errors import StorageError
from farm.storage.database import open_database
from farm.storage.ground import OwnerLock, refuse_network
from farm.storage.sql import SqlStore, Work
from farm.storage.troubles import database_trouble, file_trouble

#: STRICT tables need it.
OLDEST_SQLITE = (3, 37, 0)


class ConnectedStore(SqlStore):
    """A store on an SQLite connection, wherever its database is.

    Attributes:
        path: What the database is called.
    """

    def __init__(self, path: Path, db: sqlite3.Connection | None) -> None:
        self.path = path
        self.label = str(path)
        self._db = db

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        db = self._opened()
        try:
            return db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise database_trouble(self.path, error) from error

    def _write(self, work: Iterable[Work]) -> None:
        db = self._writable()
        if not work:
            return
        try:
            db.execute("BEGIN IMMEDIATE")
            for sql, values in work:
                db.executemany(sql, values)
            db.execute("COMMIT")
        except BaseException as error:
            self._give_up(db, error)

    def _give_up(self, db: sqlite3.Connection, error: BaseException) -> NoReturn:
        # SQLite itself may have rolled back already (a full disk does).
        with contextlib.suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        self._gave_up(error, database_trouble(self.path, error) if isinstance(error, sqlite3.Error) else None)

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            raise StorageError(f"{self.path} is closed")
        return self._db

    def _writable(self) -> sqlite3.Connection:
        db = self._opened()
        self._check_writable()
        return db


class SqliteReader(ConnectedStore):
    """A farm's file, read while a broker may be writing it; it takes no changes."""

    def __init__(self, path: Path | str, *, busy_s: float = 5.0, owned: bool = False) -> None:
        """Opens the file.

        Args:
            path: The file.
            busy_s: How long to wait for a program that holds it.
            owned: Whether the caller holds the file's lock.

        Raises:
            StorageError: There is none, or it cannot be read.
        """
        super().__init__(Path(path).absolute(), None)
        if not self.path.is_file():
            raise StorageError(f"there is no database {self.path}")
        place = f"file:{quote(str(self.path))}?mode=ro"
        self._owned = owned
        self._alone = not self._log().exists()
        try:
            self._db = sqlite3.connect(
                place, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise database_trouble(self.path, error) from error

    def _write(self, work: Iterable[Work]) -> None:
        self._refuse(StorageError(f"{self.path} was opened for reading"))

    def close(self) -> None:
        """Closes; may be called again."""
        db, self._db = self._db, None
        if db is not None:
            db.close()
            if self._alone:
                self._tidy()

    def _log(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def _tidy(self) -> None:
        """Removes the empty log that reading made: only while no broker can be starting on the file."""
        with contextlib.suppress(StorageError, OSError):
            lock = None if self._owned else OwnerLock(self.path)
            try:
                if self._log().stat().st_size == 0:
                    self._log().unlink()
                    self.path.with_name(self.path.name + "-shm").unlink(missing_ok=True)
            finally:
                if lock is not None:
                    lock.release()


class SqliteFollower(SqliteReader):
    """The file of a broker that runs, read by another of its threads, statement by statement."""

    def _tidy(self) -> None:
        """Leaves everything to the broker."""


class SqliteStore(ConnectedStore):
    """A ``farm.broker.ports.Store`` in a file.

    Used by one thread at a time; it may be opened in one thread and used in another.
    """

    def __init__(self, path: Path | str, *, busy_s: float = 5.0) -> None:
        """Opens the database, making or upgrading it when needed.

        Args:
            path: The file; its folder is made (0700) when missing.
            busy_s: How long to wait for another program that holds the database.

        Raises:
            StorageError: Another broker uses it, it lies on a network file system, it is damaged, no
                database of a farm or of a newer version, or it cannot be read and written.
        """
        super().__init__(Path(path).absolute(), None)
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StorageError(
                f"SQLite {sqlite3.sqlite_version} is too old for {self.path}",
                hint="a Python with SQLite {}.{} or newer is needed".format(*OLDEST_SQLITE),
            )
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise file_trouble(self.path.parent, error, "made") from error
        refuse_network(self.path.parent)
        self._lock = OwnerLock(self.path)
        try:
            self._db = open_database(self.path, busy_s)
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Merges the log into the file and closes; may be called again.

        Every commit is durable before this: where merging fails (a full disk), the log is kept and is
        read at the next start.
        """
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with contextlib.suppress(sqlite3.Error):
                db.close()
        self._lock.release()
