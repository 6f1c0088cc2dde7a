"""The farm's state in PostgreSQL: one connection that holds the lock and does all the work.

What belongs here: the connection, its transactions, its errors.  What must not: the meaning of a row, the
statements (``farm.storage.sql``), or a password in a message.

The lock is an advisory one of the connection that writes: whoever lost it lost the connection, too, so two
brokers never write, however a network splits.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote, urlsplit

from farm.model.errors import StorageError
from farm.storage.ddl import HEAD
from farm.storage.sql import SqlStore, Work

if TYPE_CHECKING:
    import psycopg

#: First half of the advisory lock's number; the second is the schema's.
LOCK = 0x0C4A4E
#: A connection on which nothing gets through for so long is dead.
_DEAD_S = 30
#: A commit is on disk when it is acknowledged, and transactions are as if one ran after another.
_SETTINGS = (
    "SET synchronous_commit = on",
    "SET default_transaction_isolation = 'serializable'",
    "SET statement_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
)
_INSTALL = "pip install 'overcrank[postgres]'"


def driver() -> Any:
    """The module psycopg.

    Raises:
        StorageError: It is not installed.
    """
    try:
        import psycopg
    except ImportError as error:
        raise StorageError("a PostgreSQL database needs the driver psycopg", hint=_INSTALL) from error
    # It warns of connections that are lost, which we tell of ourselves.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    return psycopg


def label_of(url: str) -> str:
    """A database's address as messages show it: without its password and options."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        where = f"[{host}]" if ":" in host else host
        where += f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://(an address that cannot be read)"
    who = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{who}{where}{parts.path}"


class PostgresStore(SqlStore):
    """A ``farm.broker.ports.Store`` in a PostgreSQL database that is the farm's alone.

    Used by one thread at a time; it may be opened in one thread and used in another.
    """

    def __init__(self, url: str, *, wait_s: float = 5.0, connect_s: int = 10) -> None:
        """Connects, takes the lock, makes or upgrades the tables when needed.

        Args:
            url: ``postgresql://user@host:port/database``; the password may come from ``~/.pgpass`` or the
                environment, as everywhere with PostgreSQL.
            wait_s: How long to wait for a broker that is just ending to let go.
            connect_s: How long a connection may take.

        Raises:
            StorageError: The server cannot be reached or refuses, another broker uses the database, or it is
                of a newer version or another program's.
        """
        self.label = label_of(url)
        self._url = url
        self._psycopg = driver()
        self._db: psycopg.Connection[Any] | None = None
        try:
            self._db = connect(url, connect_s)
        except self._psycopg.Error as error:
            said = _said(error, url)
            raise StorageError(
                f"{self.label} cannot be opened: {said}",
                hint="is the database server running, and are host, user, password and name right?",
            ) from error
        try:
            for sql in _SETTINGS:
                self._db.execute(sql)
            self._take_lock(wait_s)
            self._bring_up_to_date()
        except self._psycopg.Error as error:
            self.close()
            raise self._trouble(error) from error
        except BaseException:
            self.close()
            raise

    def _take_lock(self, wait_s: float) -> None:
        give_up_s = time.monotonic() + wait_s
        while True:
            ((taken,),) = self._query("SELECT pg_try_advisory_lock(?, hashtext(current_schema()))", (LOCK,))
            if taken:
                return
            if time.monotonic() >= give_up_s:
                raise StorageError(
                    f"{self.label} is in use by another broker{self._holder()}",
                    hint="stop that one first, or choose another farm with --farm",
                )
            time.sleep(0.05)

    def _holder(self) -> str:
        found = self._query(
            "SELECT a.pid, coalesce(host(a.client_addr), '') FROM pg_locks l JOIN pg_stat_activity a"
            " ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.classid = ? AND l.granted"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            (LOCK,),
        )
        if not found:
            return ""
        pid, host = found[0]
        return f" (server process {pid}" + (f", from {host})" if host else ")")

    def _bring_up_to_date(self) -> None:
        found = self._query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        tables = {name for (name,) in found}
        if "alembic_version" in tables:
            if self._query("SELECT version_num FROM alembic_version") == [(HEAD,)]:
                return
        elif tables:
            raise StorageError(
                f"{self.label} is not a farm's: it holds {', '.join(sorted(tables)[:5])}",
                hint="make an empty database for the farm",
            )
        # Imported here alone: SQLAlchemy and Alembic take longer to import than the broker to start.
        from farm.storage.upgrade import upgrade_postgres

        upgrade_postgres(self._url, self.label)

    # -- statements --

    def _opened(self) -> psycopg.Connection[Any]:
        if self._db is None:
            raise StorageError(f"{self.label} is closed")
        return self._db

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        db = self._opened()
        try:
            return db.execute(_marked(sql), tuple(values) or None, binary=True).fetchall()
        except self._psycopg.Error as error:
            raise self._trouble(error) from error

    def _write(self, work: Iterable[Work]) -> None:
        db = self._opened()
        self._check_writable()
        if not work:
            return
        try:
            # One journey to the server and back for all of it.
            with db.cursor() as cursor, db.pipeline():
                cursor.execute("BEGIN")
                for sql, values in work:
                    _many(cursor, sql, values)
                cursor.execute("COMMIT")
        except BaseException as error:
            self._roll_back(db, error)

    def _roll_back(self, db: psycopg.Connection[Any], error: BaseException) -> NoReturn:
        with contextlib.suppress(self._psycopg.Error):
            if not db.closed:
                db.execute("ROLLBACK")
        self._gave_up(error, self._trouble(error) if isinstance(error, self._psycopg.Error) else None)

    def _trouble(self, error: Any) -> StorageError:
        return postgres_trouble(self.label, self._url, error)

    def close(self) -> None:
        """Ends the connection, and with it the lock; may be called again."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(self._psycopg.Error):
                db.close()


class PostgresReader(PostgresStore):
    """A farm's database, read while a broker may be writing it: one moment of it, and no changes."""

    def _take_lock(self, wait_s: float) -> None:
        """Needs none."""

    def _bring_up_to_date(self) -> None:
        self._opened().execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def _write(self, work: Iterable[Work]) -> None:
        self._refuse(StorageError(f"{self.label} was opened for reading"))


class PostgresFollower(PostgresStore):
    """The database of a broker that runs, read by another of its threads, statement by statement."""

    def _take_lock(self, wait_s: float) -> None:
        """The broker has it."""

    def _bring_up_to_date(self) -> None:
        self._opened().execute("SET default_transaction_read_only = on")

    def _write(self, work: Iterable[Work]) -> None:
        self._refuse(StorageError(f"{self.label} was opened for reading"))


def connect(url: str, connect_s: int = 10) -> psycopg.Connection[Any]:
    """A connection that notices a dead server."""
    return driver().connect(  # type: ignore[no-any-return]
        url,
        autocommit=True,
        connect_timeout=connect_s,
        application_name="overcrank broker",
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
        tcp_user_timeout=_DEAD_S * 1000,
    )


def postgres_trouble(label: str, url: str, error: Any) -> StorageError:
    """What went wrong with the server, as a StorageError that names it and tells no password."""
    state = getattr(error, "sqlstate", None) or ""
    said = _said(error, url)
    if state == "53100":
        return StorageError(f"the disk is full at {label}", hint="free some space there")
    if state == "42501":
        return StorageError(f"{label} does not allow this: {said}", hint="the farm's user must own it")
    if state.startswith("23"):
        return StorageError(f"{label} refuses a row that contradicts what it holds: {said}")
    if state.startswith("22"):
        return StorageError(f"{label} cannot hold a value of a row: {said}")
    if state.startswith("XX"):
        return StorageError(f"{label} is damaged: {said}", hint="put a backup in its place")
    if isinstance(error, driver().OperationalError):
        return StorageError(f"{label} cannot be reached: {said}", hint="is the database server running?")
    return StorageError(f"{label}: {said or type(error).__name__}")


def _said(error: Any, url: str) -> str:
    """What the driver says, on one line and without the password."""
    text = " ".join(str(error).split()).replace(url, label_of(url))
    try:
        secret = urlsplit(url).password
    except ValueError:
        secret = None
    for word in {secret, unquote(secret)} if secret else ():
        text = text.replace(word, "***")
    return text


@cache
def _marked(sql: str) -> str:
    return sql.replace("?", "%s")


def _many(cursor: Any, sql: str, values: Iterable[Sequence[Any]]) -> None:
    rows = [[_storable(value) for value in row] for row in values]
    if len(rows) == 1:
        cursor.execute(_marked(sql), rows[0])
    elif rows:
        cursor.executemany(_marked(sql), rows)


def _storable(value: Any) -> Any:
    # The one character PostgreSQL's text cannot hold; nobody means it.
    return value.replace("\0", "\ufffd") if type(value) is str and "\0" in value else value
