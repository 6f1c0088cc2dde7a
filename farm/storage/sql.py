"""What every SQL database does alike: rows into tables and the journal, history into segments, reads.

What belongs here: statements (marks are ``?``) and what they mean together.  What must not: connections,
transactions and foreign exceptions, which each database's own module has; nor the meaning of a row.

Hot kinds of rows of a commit are one blob in one row of ``journal``.  What a checkpoint has settled waits
there until it is regrouped by step into ``segments``, some thousand rows at once, each row always in exactly
one place: a restart reads the journal after the checkpoint alone, people's questions read a few segments
(``farm.storage.histories``).

Long because what is written, replayed and read back must agree, and stands together.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, starmap
from operator import attrgetter, lt
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import msgspec
from msgspec.structs import astuple

from farm.broker.ports import KeyRecord
from farm.core.checkpoint import BEFORE_ALL, Stored
from farm.core.rows import (
    AnyRow,
    CheckpointRow,
    DeleteRow,
    HistoryRow,
    JobStateRow,
    NodeMapRow,
    Row,
    StepMapRow,
)
from farm.model.errors import StorageError
from farm.storage.histories import HistoryReader
from farm.storage.journal import Regrouping, Segment, bounds_of, decode_rows, encode_rows
from farm.storage.leaving import CLEARED, IN_MEMORY, INCOMPLETE, ShelfReader
from farm.storage.merge import merge_by_seq
from farm.storage.openings import open_leases
from farm.storage.tables import (
    BY_ROW,
    GROUND,
    JOURNALED,
    LEAVING,
    TABLES,
    insert_sql,
    select_sql,
    upsert_sql,
)

#: Rows handed on at once, once there are as many.
PAGE_ROWS = 2_000
#: Attempts whose units are remembered from one compaction to the next, at most.
BOUNDS_MOST = 50_000
#: What a store raises for values that do not fit: too large, not text that can be written.
VALUE_ERRORS = (OverflowError, ValueError, TypeError)

#: A statement and the values of each time it runs.
Work = tuple[str, Iterable[Sequence[Any]]]

_INSERTS: dict[type[Row], tuple[int, str]] = {
    table.row: (place, insert_sql(table)) for place, table in enumerate(TABLES)
}
_JOURNALED = frozenset(JOURNALED)
_SEQ = attrgetter("seq")
_PUT_ENTRY = "INSERT INTO journal (id, seq_last, at_us, blob) VALUES (?, ?, ?, ?)"
_PUT_SEGMENT = upsert_sql("segments", Segment.__struct_fields__, None)
_DROP_ENTRIES = "DELETE FROM journal WHERE id <= ?"
_PUT_META = upsert_sql("meta", ("name", "value"), "name")
_KEY_FIELDS = KeyRecord.__struct_fields__
_PUT_KEY = upsert_sql("keys", _KEY_FIELDS, "public", counter="n")
_PUT_INVITE = upsert_sql("invites", ("name", "record"), "name", counter="n")

R = TypeVar("R", bound=Row)


class SqlStore(HistoryReader, ShelfReader, ABC):
    """A ``farm.broker.ports.Store`` on some SQL database.

    Used by one thread at a time; it may be opened in one thread and used in another.
    """

    #: Why it takes no more changes, "" while it does.
    _failed: str = ""
    #: Number of the last row in the journal, None while it is not known.
    _end: int | None = None
    #: First and last unit of attempts that may still be open where the last compaction ended, None while
    #: they are not known.
    _bounds: dict[int, tuple[int, int]] | None = None

    # -- what each database has of its own --

    @abstractmethod
    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Rows of a SELECT.

        Raises:
            StorageError: It is closed, or the database failed.
        """

    @abstractmethod
    def _write(self, work: Iterable[Work]) -> None:
        """Runs statements in one durable transaction, or none.

        Raises:
            StorageError: It is closed, an earlier one failed, or this one did.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends it; may be called again."""

    # -- after a failure --

    def _check_writable(self) -> None:
        if self._failed:
            raise StorageError(
                f"{self.label} takes no more changes since a commit failed: {self._failed}",
                hint="the broker has to open it anew",
            )

    def _refuse(self, trouble: StorageError) -> NoReturn:
        """Takes no more changes and says why."""
        self._check_writable()
        self._failed = trouble.message
        raise trouble

    def _gave_up(self, error: BaseException, trouble: StorageError | None) -> NoReturn:
        """Takes no more changes and raises what a commit failed with, in our words where there are any."""
        if isinstance(error, StorageError):
            trouble = error
        elif isinstance(error, VALUE_ERRORS):
            trouble = StorageError(f"{self.label} cannot hold a value of a row: {error}")
        if trouble is None:
            self._failed = f"a commit was interrupted ({type(error).__name__})"
            raise error
        self._failed = trouble.message
        raise trouble from error

    # -- writing --

    def commit(self, rows: Sequence[AnyRow]) -> None:
        """Stores all rows in one durable transaction, or none.

        After a failure nothing of this commit shows and every further commit is refused until the
        database is opened anew.  One exception no store can take back: when the disk itself reports that
        writing through failed, the transaction may show whole after opening anew.

        Raises:
            StorageError: The disk is full or broken, or a row contradicts what is stored.
        """
        # As a rule all of them are: a look at the kinds costs less than one at every row.
        plain = _JOURNALED.issuperset(map(type, rows))
        hot = rows if plain else [row for row in rows if type(row) in _JOURNALED]
        work: list[Work] = []
        split = None
        if not plain:
            checkpoints = [row for row in rows if type(row) is CheckpointRow]
            if checkpoints:
                split = max(row.seq for row in checkpoints)
            work = _table_work(rows)
            if split is not None:
                work += self._clearing(rows, split)
        end = self._end
        try:
            for entry in _entries(hot, split):
                if end is None:
                    end = self._journal_end()
                if entry[0] <= end:
                    raise StorageError(f"{self.label} has rows up to {end}; {entry[0]} comes too late")
                end = entry[1]
                work.append((_PUT_ENTRY, (entry,)))
        except VALUE_ERRORS as error:
            self._refuse(StorageError(f"{self.label} cannot hold a value of a row: {error}"))
        except StorageError as error:
            self._refuse(error)
        if not work:
            self._write(())
            return
        self._write(work)
        self._end = end

    def _journal_end(self) -> int:
        """The number of the last row that is or was in the journal."""
        last = BEFORE_ALL
        for sql in (
            "SELECT seq_last FROM journal ORDER BY id DESC LIMIT 1",
            "SELECT id FROM segments ORDER BY id DESC LIMIT 1",
        ):
            last = max(last, *(row[0] for row in self._query(sql)), BEFORE_ALL)
        return last

    def _clearing(self, rows: Sequence[AnyRow], until: int) -> list[Work]:
        """Takes the jobs out of the store that were deleted since the last checkpoint and up to this one.

        What of them waits in the journal is left out when it is regrouped.
        """
        after = self._checkpoint_seq()
        gone = self._deleted_between(after if after is not None else BEFORE_ALL, until)
        gone += [(row.job_id,) for row in rows if type(row) is DeleteRow and row.seq <= until]
        if not gone:
            return []
        return [*((sql, gone) for sql in CLEARED), (_PUT_META, [(INCOMPLETE, "jobs were deleted")])]

    # -- compaction --

    def compact(self, most_rows: int) -> int:
        """Regroups the oldest rows that the checkpoint has settled into segments, in one durable transaction.

        No part of a checkpoint: under load most of what one costs would be this, and nobody waits for it.

        Args:
            most_rows: About how many rows at once; 0 = none, only tell.

        Returns:
            About how many settled rows are left in the journal.

        Raises:
            StorageError: The disk is full or broken, or an entry is damaged.
        """
        until = self._checkpoint_seq()
        if until is None:
            return 0
        left = self._waiting(until)
        if not left or most_rows <= 0:
            return left
        self._check_writable()
        bounds = self._open_bounds()
        groups = Regrouping(bounds)
        last = until
        for last, blob in self._entries_between(None, until):
            groups.add(blob, self._entry(last))
            if groups.rows >= most_rows:
                break
        segments = groups.finish()
        if self.meta(INCOMPLETE) is not None:
            segments = self._of_known_steps(segments)
        self._write([(_PUT_SEGMENT, map(astuple, segments)), (_DROP_ENTRIES, [(last,)])])
        self._forget_entries(last)
        left = self._waiting(until)
        if not left:
            self._bounds = None
            self._open_bounds()
        elif len(bounds) > BOUNDS_MOST:
            # The oldest go: what is reported of them is taken to concern every unit, and read more often.
            self._bounds = dict(islice(bounds.items(), len(bounds) - BOUNDS_MOST // 2, None))
        return left

    def _waiting(self, until: int) -> int:
        """About how many rows up to a checkpoint are in the journal, told from their numbers."""
        first = self._query("SELECT id FROM journal WHERE id <= ? ORDER BY id LIMIT 1", (until,))
        last = self._query("SELECT seq_last FROM journal WHERE id <= ? ORDER BY id DESC LIMIT 1", (until,))
        return max(1, last[0][0] - first[0][0] + 1) if first else 0

    def _open_bounds(self) -> dict[int, tuple[int, int]]:
        """Bounds of the units of attempts that may be open where the journal begins.

        After a restart those that were open at the checkpoint: of others it is not known.
        """
        if self._bounds is None:
            checkpoint = self._checkpoint()
            leases = open_leases(checkpoint) if checkpoint is not None else []
            self._bounds = {lease.id: bounds_of(lease.units) for lease in leases}
        return self._bounds

    def _of_known_steps(self, segments: list[Segment]) -> list[Segment]:
        """Without those of steps that are gone: their jobs were deleted while the rows waited."""
        known = {0}
        for step_id in {segment.step_id for segment in segments}:
            known.update(number for (number,) in self._query("SELECT id FROM steps WHERE id = ?", (step_id,)))
        return [segment for segment in segments if segment.step_id in known]

    # -- restart --

    def load(self) -> Stored:
        """Reads what a restart starts from, less the rows to replay."""
        checkpoint = self._checkpoint()
        last = self._last_seq()
        if checkpoint is None:
            return Stored(None, [], [], [], last)
        return Stored(
            checkpoint,
            self._ground(GROUND, "seq <= ?", checkpoint.seq, in_memory=True),
            self._rows(NodeMapRow, "ORDER BY node_id"),
            self._rows(StepMapRow, f"WHERE {IN_MEMORY[StepMapRow]} ORDER BY step_id"),
            last,
            self._tokens(),
        )

    def _checkpoint_seq(self) -> int | None:
        found = self._query("SELECT seq FROM checkpoints ORDER BY seq DESC LIMIT 1")
        return int(found[0][0]) if found else None

    def _checkpoint(self) -> CheckpointRow | None:
        found = self._rows(CheckpointRow, "ORDER BY seq DESC LIMIT 1")
        return found[0] if found else None

    def _ground(
        self, kinds: Iterable[type[Row]], where: str, seq: int, *, in_memory: bool = False
    ) -> list[Any]:
        """Rows of tables in order of ``seq``; with ``in_memory`` without those of jobs in the archive."""
        rows: list[Any] = []
        for kind in kinds:
            test = f"{where} AND {IN_MEMORY[kind]}" if in_memory and kind in IN_MEMORY else where
            rows += self._rows(kind, f"WHERE {test} ORDER BY {BY_ROW[kind].key}", (seq,))
        rows.sort(key=_SEQ)
        return rows

    def _last_seq(self) -> int:
        """The greatest ``seq`` of any row, 0 when there is none."""
        last = 0
        for table in TABLES:
            if table.latest:  # few rows, in no order of seq
                sql = f"SELECT max(seq) FROM {table.name}"
            else:
                sql = f'SELECT seq FROM {table.name} ORDER BY "{table.key}" DESC LIMIT 1'
            last = max(last, *(row[0] or 0 for row in self._query(sql)), 0)
        return max(last, self._journal_end())

    def replay(self, after_seq: int) -> Iterator[AnyRow]:
        """Every row that changes the farm with ``seq`` greater than that, in order of ``seq``.

        Rows that a checkpoint has settled come too when asked for, but those of no use any more.
        """
        self._query("SELECT 1")
        return merge_by_seq(
            self._segment_pages(after_seq), self._journal_pages(after_seq), self._ground_page(after_seq)
        )

    def _ground_page(self, after_seq: int) -> Iterator[list[Any]]:
        rows = self._ground((*GROUND, *LEAVING), "seq > ?", after_seq)
        if rows:
            yield rows

    def _journal_pages(self, after_seq: int) -> Iterator[list[Any]]:
        """Rows of the journal: one entry may lie on both sides, the rest are read as they are."""
        before = "SELECT id, seq_last FROM journal WHERE id <= ? ORDER BY id DESC LIMIT 1"
        for number, seq_last in self._query(before, (after_seq,)):
            if seq_last > after_seq:
                for rows in self._entries([number]):
                    yield [row for row in rows if row.seq > after_seq]
        page: list[Any] = []
        for number, blob in self._entries_between(after_seq, None):
            page += decode_rows(blob, self._entry(number))
            if len(page) >= PAGE_ROWS:
                yield page
                page = []
        if page:
            yield page

    def _segment_pages(self, after_seq: int) -> Iterator[list[Any]]:
        """Rows of segments in order, though segments of several steps overlap."""
        found = self._query(
            "SELECT id, seq_first FROM segments WHERE id > ? ORDER BY seq_first", (after_seq,)
        )
        held: list[Any] = []
        for at, (number, _) in enumerate(found):
            ((blob,),) = self._query("SELECT blob FROM segments WHERE id = ?", (number,))
            held += self._decode_segment(number, blob)
            held.sort(key=_SEQ)
            until = found[at + 1][1] if at + 1 < len(found) else None
            ready = [row for row in held if row.seq > after_seq and (until is None or row.seq < until)]
            held = [row for row in held if until is not None and row.seq >= until]
            if ready:
                yield ready

    # -- reading history --

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

    def _rows(self, kind: type[R], rest: str, values: Sequence[Any] = ()) -> list[R]:
        return list(starmap(kind, self._query(select_sql(BY_ROW[kind], rest), values)))

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
        columns = ", ".join(f'"{name}"' for name in _KEY_FIELDS)
        found = self._query(f"SELECT {columns} FROM keys ORDER BY n")
        records = (dict(zip(_KEY_FIELDS, row, strict=True)) for row in found)
        return [msgspec.convert(record, KeyRecord, strict=False) for record in records]

    def put_key(self, key: KeyRecord) -> None:
        """Adds or replaces a key durably."""
        values = [int(value) if isinstance(value, bool) else value for value in astuple(key)]
        self._write([(_PUT_KEY, [values])])

    def invites(self) -> list[bytes]:
        """Stored invitation records (opaque to the store), in the order they were first added."""
        return [bytes(record) for (record,) in self._query("SELECT record FROM invites ORDER BY n")]

    def put_invite(self, name: str, record: bytes) -> None:
        """Adds or replaces an invitation record durably; ``name`` is the hash of its secret."""
        self._write([(_PUT_INVITE, [(name, record)])])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _table_work(rows: Sequence[AnyRow]) -> list[Work]:
    """Statements for rows that have a table: what is referred to goes first, whatever their order."""
    groups: defaultdict[type[Row], list[AnyRow]] = defaultdict(list)
    for row in rows:
        if type(row) not in _JOURNALED:
            groups[type(row)].append(row)
    work = sorted((*_INSERTS[kind], group) for kind, group in groups.items())
    return [(sql, map(astuple, group)) for _, sql, group in work]


def _entries(rows: Sequence[Any], split: int | None) -> Iterator[tuple[int, int, int, bytes]]:
    """Journal entries of a commit's rows: one, or two where a checkpoint stands between them.

    Raises:
        StorageError: Two rows have the same number.
    """
    if not rows:
        return
    seqs = [row.seq for row in rows]
    if not all(map(lt, seqs, seqs[1:])):
        rows = sorted(rows, key=_SEQ)
        seqs = [row.seq for row in rows]
        if not all(map(lt, seqs, seqs[1:])):
            raise StorageError("two rows of a commit have the same number")
    at_us = time.time_ns() // 1000
    if split is not None and seqs[0] <= split < seqs[-1]:
        cut = next(at for at, seq in enumerate(seqs) if seq > split)
        yield seqs[0], seqs[cut - 1], at_us, encode_rows(rows[:cut])
        rows, seqs = rows[cut:], seqs[cut:]
    yield seqs[0], seqs[-1], at_us, encode_rows(rows)
