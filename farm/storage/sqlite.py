"""The farm's state in one SQLite file: raw statements on the hot path, one writer, all or nothing.

What belongs here: the connection, the commit, the reads a restart and people need.  What must not: the
meaning of a row, or SQLAlchemy.

Only this connection writes and checkpoints: SQLite before 3.51.3 can corrupt a log that two connections
reset (https://www.sqlite.org/wal.html#walresetbug), so a lock file keeps a second broker out.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import msgspec
from msgspec.structs import astuple

from farm.broker.ports import KeyRecord
from farm.core.checkpoint import Stored
from farm.core.rows import (
    AnyRow,
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
    StepMapRow,
    StepRow,
    VerifyRow,
)
from farm.model.errors import StorageError
from farm.storage.database import open_database
from farm.storage.ground import OwnerLock, refuse_network
from farm.storage.merge import merge_by_seq
from farm.storage.openings import named_open
from farm.storage.tables import BY_ROW, TABLES, insert_sql, select_sql, upsert_sql
from farm.storage.troubles import database_trouble, file_trouble

#: Rows fetched at once in a replay: enough to make the cost of a statement vanish, few enough to hold.
PAGE = 4096
#: STRICT tables need it.
OLDEST_SQLITE = (3, 37, 0)
#: What sqlite3 raises for values that do not fit a column: too large, not text that can be written.
_VALUE_ERRORS = (OverflowError, ValueError)

_INSERTS: dict[type[Row], tuple[int, str]] = {
    table.row: (place, insert_sql(table)) for place, table in enumerate(TABLES)
}
_PUT_META = upsert_sql("meta", ("name", "value"), "name")
_PUT_KEY = upsert_sql("keys", KeyRecord.__struct_fields__, "public")
_PUT_INVITE = upsert_sql("invites", ("name", "record"), "name")

R = TypeVar("R", bound=Row)


class SqliteStore:
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
        self.path = Path(path).absolute()
        self._failed = ""
        self._db: sqlite3.Connection | None = None
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

    # -- writing --

    def commit(self, rows: Sequence[AnyRow]) -> None:
        """Stores all rows in one durable transaction, or none.

        After a failure nothing of this commit shows and every further commit is refused until the
        database is opened anew.  One exception no store can take back: when the disk itself reports that
        writing through failed, the transaction may show whole after opening anew.

        Raises:
            StorageError: The disk is full or broken, or a row contradicts what is stored.
        """
        groups: defaultdict[type[Row], list[AnyRow]] = defaultdict(list)
        for row in rows:
            groups[type(row)].append(row)
        # What is referred to goes first, whatever the order of the rows.
        work = sorted((*_INSERTS[kind], group) for kind, group in groups.items())
        self._write([(sql, map(astuple, group)) for _, sql, group in work])

    def _write(self, work: Sequence[tuple[str, Iterable[tuple[Any, ...]]]]) -> None:
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
        if isinstance(error, sqlite3.Error):
            trouble = database_trouble(self.path, error)
        elif isinstance(error, _VALUE_ERRORS):
            trouble = StorageError(f"{self.path} cannot hold a value of a row: {error}")
        else:
            self._failed = f"a commit was interrupted ({type(error).__name__})"
            raise error
        self._failed = trouble.message
        raise trouble from error

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            raise StorageError(f"{self.path} is closed")
        return self._db

    def _writable(self) -> sqlite3.Connection:
        db = self._opened()
        if self._failed:
            raise StorageError(
                f"{self.path} takes no more changes since a commit failed: {self._failed}",
                hint="the broker has to open it anew",
            )
        return db

    # -- restart --

    def load(self) -> Stored:
        """Reads what a restart needs, less the rows to replay."""
        checkpoints = self._rows(CheckpointRow, "ORDER BY seq DESC LIMIT 1")
        checkpoint = checkpoints[0] if checkpoints else None
        return Stored(
            jobs=self._rows(JobRow, "ORDER BY id"),
            steps=self._rows(StepRow, "ORDER BY id"),
            nodes=self._rows(NodeRow, "ORDER BY id"),
            meters=self._rows(MeterRow, "ORDER BY node_id"),
            maps=self._rows(StepMapRow, "ORDER BY step_id"),
            checkpoint=checkpoint,
            states=self._rows(JobStateRow, "ORDER BY seq"),
            specs=self._rows(SpecRow, "ORDER BY step_id"),
            verify=self._rows(VerifyRow, "WHERE done = 0 ORDER BY id"),
            open_leases=self._open_leases(checkpoint) if checkpoint is not None else [],
        )

    def _open_leases(self, checkpoint: CheckpointRow) -> list[LeaseRow]:
        ids = named_open(checkpoint)
        if ids is None:
            # The checkpoint does not say: every lease up to it that no result up to it closed.
            return self._rows(
                LeaseRow,
                "WHERE seq <= ? AND id NOT IN (SELECT attempt_id FROM results WHERE seq <= ? AND closes <> 0)"
                " ORDER BY id",
                (checkpoint.seq, checkpoint.seq),
            )
        found: list[LeaseRow] = []
        for attempt in sorted(ids):
            rows = self._rows(LeaseRow, "WHERE id = ?", (attempt,))
            if not rows:
                raise StorageError(
                    f"{self.path} is damaged: its checkpoint names attempt {attempt}, which has no lease",
                    hint="put a backup in its place",
                )
            found += rows
        return found

    def replay(self, after_seq: int) -> Iterator[LeaseRow | ResultRow | BulkRow]:
        """Lease, result and bulk rows with ``seq`` greater than that, in order of ``seq``."""

        def leases() -> Iterator[list[LeaseRow]]:
            return self._pages(LeaseRow, "id", lambda row: row.id, self._first_lease(after_seq) - 1)

        def results() -> Iterator[list[ResultRow]]:
            return self._pages(ResultRow, "seq", lambda row: row.seq, after_seq)

        def bulks() -> Iterator[list[BulkRow]]:
            return self._pages(BulkRow, "seq", lambda row: row.seq, after_seq)

        self._opened()
        return merge_by_seq(leases(), results(), bulks())

    def _pages(self, kind: type[R], key: str, key_of: Callable[[R], int], after: int) -> Iterator[list[R]]:
        # Page by page, so that no statement stays open between: one would keep the log from being reset.
        rest = f'WHERE "{key}" > ? ORDER BY "{key}" LIMIT {PAGE}'
        while page := self._rows(kind, rest, (after,)):
            yield page
            if len(page) < PAGE:
                return
            after = key_of(page[-1])

    def _first_lease(self, after_seq: int) -> int:
        """An attempt id from which on every lease has a greater ``seq``, and before which none has.

        Attempt ids and ``seq`` grow together, so this is a search by halves over the primary key and
        needs no index, which every lease would pay for.
        """
        low, high = 1, self.last_attempt() + 1
        while low < high:
            middle = (low + high) // 2
            at = self._query("SELECT id, seq FROM leases WHERE id >= ? ORDER BY id LIMIT 1", (middle,))
            if at[0][1] > after_seq:
                high = middle
            else:
                low = at[0][0] + 1
        return low

    def last_seq(self) -> int:
        """The greatest ``seq`` of any row, 0 when there is none."""
        last = 0
        for table in TABLES:
            if table.latest:  # few rows, in no order of seq
                sql = f"SELECT max(seq) FROM {table.name}"
            else:
                sql = f'SELECT seq FROM {table.name} ORDER BY "{table.key}" DESC LIMIT 1'
            found = self._query(sql)
            if found and found[0][0] is not None:
                last = max(last, found[0][0])
        return last

    def last_attempt(self) -> int:
        """The greatest attempt id, 0 when there is none."""
        return int(self._query("SELECT coalesce(max(id), 0) FROM leases")[0][0])

    # -- reading history --

    def results_of_step(self, step_id: int, since_seq: int) -> list[ResultRow]:
        """Result rows of a step in order; ``since_seq`` (the step's own seq) bounds the search."""
        return self._rows(ResultRow, "WHERE seq > ? AND step_id = ? ORDER BY seq", (since_seq, step_id))

    def leases_of_step(self, step_id: int, since_seq: int) -> list[LeaseRow]:
        """Lease rows of a step in order."""
        first = self._first_lease(since_seq)
        return self._rows(LeaseRow, "WHERE id >= ? AND step_id = ? ORDER BY id", (first, step_id))

    def recent_leases(self, limit: int) -> list[LeaseRow]:
        """The newest lease rows, oldest of them first."""
        return self._rows(LeaseRow, "ORDER BY id DESC LIMIT ?", (max(0, limit),))[::-1]

    def bulks_of_step(self, step_id: int, since_seq: int) -> list[BulkRow]:
        """Bulk rows of a step in order."""
        return self._rows(BulkRow, "WHERE seq > ? AND step_id = ? ORDER BY seq", (since_seq, step_id))

    def history(self, job_id: int, before_us: int, limit: int) -> list[HistoryRow]:
        """Newest first; ``job_id`` 0 = the whole farm; ``before_us`` 0 = from now."""
        tests, values = [], []
        if job_id:
            tests.append("job_id = ?")
            values.append(job_id)
        if before_us:
            tests.append("at_us < ?")
            values.append(before_us)
        where = f"WHERE {' AND '.join(tests)} " if tests else ""
        return self._rows(HistoryRow, where + "ORDER BY seq DESC LIMIT ?", (*values, max(0, limit)))

    def job_states(self, job_id: int, limit: int) -> list[JobStateRow]:
        """Newest first."""
        return self._rows(JobStateRow, "WHERE job_id = ? ORDER BY seq DESC LIMIT ?", (job_id, max(0, limit)))

    def _rows(self, kind: type[R], rest: str, values: tuple[int, ...] = ()) -> list[R]:
        db = self._opened()
        try:
            return list(starmap(kind, db.execute(select_sql(BY_ROW[kind], rest), values)))
        except sqlite3.Error as error:
            raise database_trouble(self.path, error) from error

    def _query(self, sql: str, values: tuple[int | str, ...] = ()) -> list[Any]:
        db = self._opened()
        try:
            return db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise database_trouble(self.path, error) from error

    # -- names, keys, invitations --

    def meta(self, name: str) -> str | None:
        """A stored value (``farm_id`` ...)."""
        found = self._query("SELECT value FROM meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else None

    def set_meta(self, name: str, value: str) -> None:
        """Stores a value durably."""
        self._write([(_PUT_META, [(name, value)])])

    def keys(self) -> list[KeyRecord]:
        """All known keys, revoked ones included, in the order they were first added."""
        names = KeyRecord.__struct_fields__
        columns = ", ".join(f'"{name}"' for name in names)
        found = self._query(f"SELECT {columns} FROM keys ORDER BY rowid")
        return [msgspec.convert(dict(zip(names, row, strict=True)), KeyRecord, strict=False) for row in found]

    def put_key(self, key: KeyRecord) -> None:
        """Adds or replaces a key durably."""
        self._write([(_PUT_KEY, [astuple(key)])])

    def invites(self) -> list[bytes]:
        """Stored invitation records (opaque to the store), in the order they were first added."""
        return [bytes(record) for (record,) in self._query("SELECT record FROM invites ORDER BY rowid")]

    def put_invite(self, name: str, record: bytes) -> None:
        """Adds or replaces an invitation record durably; ``name`` is the hash of its secret."""
        self._write([(_PUT_INVITE, [(name, record)])])

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
