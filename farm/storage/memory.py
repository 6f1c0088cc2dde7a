"""The farm's state in memory: the stand-in for SQLite in tests and simulations.

What belongs here: exactly what ``farm.storage.sqlite`` promises, less the disk; one conformance suite runs
against both.  It refuses what SQLite refuses (a key twice, a reference to nothing) in the same way, since
a stand-in that takes more would hide bugs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

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
from farm.storage.merge import merge_by_seq
from farm.storage.openings import named_open
from farm.storage.tables import BY_ROW, TABLES

R = TypeVar("R", bound=Row)

_INT64 = range(-(2**63), 2**63)


class MemoryDisk:
    """What outlives a store: opening a second store on it is what reopening a file is.

    Attributes:
        tables: Rows by key, by kind.
        meta, keys, invites: The small tables.
        owned: Whether a store is open on it.
    """

    def __init__(self) -> None:
        self.tables: dict[type[Row], dict[int, Any]] = {table.row: {} for table in TABLES}
        self.meta: dict[str, str] = {}
        self.keys: dict[str, KeyRecord] = {}
        self.invites: dict[str, bytes] = {}
        self.owned = False


class MemoryStore:
    """A ``farm.broker.ports.Store`` in memory.

    Attributes:
        disk: What it holds; pass it to a second store after closing this one.
        fail_next: A reason makes the next commit fail with it, as a full disk would.
    """

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        """Opens a disk, a new one by default.

        Raises:
            StorageError: Another store is open on it.
        """
        self.disk = disk if disk is not None else MemoryDisk()
        self.fail_next = ""
        self._failed = ""
        self._closed = False
        if self.disk.owned:
            raise StorageError("this memory is in use by another broker")
        self.disk.owned = True

    # -- writing --

    def commit(self, rows: Sequence[AnyRow]) -> None:
        """Stores all rows in one transaction, or none.

        Raises:
            StorageError: A row contradicts what is stored, or a failure was asked for.
        """
        self._writable()
        tables = self.disk.tables
        added: dict[type[Row], dict[int, Any]] = {}
        for row in sorted(rows, key=_place):
            table = BY_ROW[type(row)]
            key = getattr(row, table.key)
            new = added.setdefault(type(row), {})
            if not table.latest and (key in new or key in tables[type(row)]):
                self._fail(f"{table.name} refuses a second row of {table.key} {key}")
            for field, kind in zip(table.columns, table.types, strict=True):
                value = getattr(row, field)
                if kind is int and value not in _INT64:
                    self._fail(f"{table.name} cannot hold {field} {value}")
            for field, other in table.refers:
                kinds = _BY_NAME[other]
                wanted = getattr(row, field)
                if wanted not in added.get(kinds, ()) and wanted not in tables[kinds]:
                    self._fail(f"{table.name} refuses {field} {wanted}, which names nothing")
            new[key] = row
        if rows:
            self._check_asked()
        for kind, new in added.items():
            tables[kind].update(new)

    def _check_asked(self) -> None:
        if self.fail_next:
            reason, self.fail_next = self.fail_next, ""
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._failed = reason
        raise StorageError(reason)

    def _opened(self) -> None:
        if self._closed:
            raise StorageError("this memory is closed")

    def _writable(self) -> None:
        self._opened()
        if self._failed:
            raise StorageError(
                f"this memory takes no more changes since a commit failed: {self._failed}",
                hint="the broker has to open it anew",
            )

    # -- restart --

    def load(self) -> Stored:
        """Reads what a restart needs, less the rows to replay."""
        checkpoints = sorted(self._all(CheckpointRow), key=lambda row: row.seq)
        checkpoint = checkpoints[-1] if checkpoints else None
        return Stored(
            jobs=self._all(JobRow),
            steps=self._all(StepRow),
            nodes=self._all(NodeRow),
            meters=self._all(MeterRow),
            maps=self._all(StepMapRow),
            checkpoint=checkpoint,
            states=self._all(JobStateRow),
            specs=self._all(SpecRow),
            verify=[row for row in self._all(VerifyRow) if not row.done],
            open_leases=self._open_leases(checkpoint) if checkpoint is not None else [],
        )

    def _open_leases(self, checkpoint: CheckpointRow) -> list[LeaseRow]:
        ids = named_open(checkpoint)
        if ids is None:
            closed = {
                row.attempt_id for row in self._all(ResultRow) if row.closes and row.seq <= checkpoint.seq
            }
            return [row for row in self._all(LeaseRow) if row.seq <= checkpoint.seq and row.id not in closed]
        leases = self.disk.tables[LeaseRow]
        for attempt in ids:
            if attempt not in leases:
                raise StorageError(f"the checkpoint names attempt {attempt}, which has no lease")
        return [leases[attempt] for attempt in sorted(ids)]

    def replay(self, after_seq: int) -> Iterator[LeaseRow | ResultRow | BulkRow]:
        """Lease, result and bulk rows with ``seq`` greater than that, in order of ``seq``."""

        def pages(kind: type[Any]) -> Iterator[list[Any]]:
            page = [row for row in self._all(kind) if row.seq > after_seq]
            if page:
                yield page

        self._opened()
        return merge_by_seq(pages(LeaseRow), pages(ResultRow), pages(BulkRow))

    def last_seq(self) -> int:
        """The greatest ``seq`` of any row, 0 when there is none."""
        self._opened()
        return max((row.seq for table in self.disk.tables.values() for row in table.values()), default=0)

    def last_attempt(self) -> int:
        """The greatest attempt id, 0 when there is none."""
        self._opened()
        return max(self.disk.tables[LeaseRow], default=0)

    # -- reading history --

    def results_of_step(self, step_id: int, since_seq: int) -> list[ResultRow]:
        """Result rows of a step in order; ``since_seq`` (the step's own seq) bounds the search."""
        return [row for row in self._all(ResultRow) if row.step_id == step_id and row.seq > since_seq]

    def leases_of_step(self, step_id: int, since_seq: int) -> list[LeaseRow]:
        """Lease rows of a step in order."""
        return [row for row in self._all(LeaseRow) if row.step_id == step_id and row.seq > since_seq]

    def recent_leases(self, limit: int) -> list[LeaseRow]:
        """The newest lease rows, oldest of them first."""
        return self._all(LeaseRow)[-limit:] if limit > 0 else []

    def bulks_of_step(self, step_id: int, since_seq: int) -> list[BulkRow]:
        """Bulk rows of a step in order."""
        return [row for row in self._all(BulkRow) if row.step_id == step_id and row.seq > since_seq]

    def history(self, job_id: int, before_us: int, limit: int) -> list[HistoryRow]:
        """Newest first; ``job_id`` 0 = the whole farm; ``before_us`` 0 = from now."""
        found = [
            row
            for row in reversed(self._all(HistoryRow))
            if (not job_id or row.job_id == job_id) and (not before_us or row.at_us < before_us)
        ]
        return found[: max(0, limit)]

    def job_states(self, job_id: int, limit: int) -> list[JobStateRow]:
        """Newest first."""
        found = [row for row in reversed(self._all(JobStateRow)) if row.job_id == job_id]
        return found[: max(0, limit)]

    def _all(self, kind: type[R]) -> list[R]:
        self._opened()
        table = self.disk.tables[kind]
        return [table[key] for key in sorted(table)]

    # -- names, keys, invitations --

    def meta(self, name: str) -> str | None:
        """A stored value (``farm_id`` ...)."""
        self._opened()
        return self.disk.meta.get(name)

    def set_meta(self, name: str, value: str) -> None:
        """Stores a value."""
        self._writable()
        self._check_asked()
        self.disk.meta[name] = value

    def keys(self) -> list[KeyRecord]:
        """All known keys, revoked ones included, in the order they were first added."""
        self._opened()
        return list(self.disk.keys.values())

    def put_key(self, key: KeyRecord) -> None:
        """Adds or replaces a key."""
        self._writable()
        self._check_asked()
        self.disk.keys[key.public] = key

    def invites(self) -> list[bytes]:
        """Stored invitation records (opaque to the store), in the order they were first added."""
        self._opened()
        return list(self.disk.invites.values())

    def put_invite(self, name: str, record: bytes) -> None:
        """Adds or replaces an invitation record; ``name`` is the hash of its secret."""
        self._writable()
        self._check_asked()
        self.disk.invites[name] = record

    def close(self) -> None:
        """Closes; may be called again."""
        if not self._closed:
            self._closed = True
            self.disk.owned = False


_BY_NAME = {table.name: table.row for table in TABLES}
_PLACES = {table.row: place for place, table in enumerate(TABLES)}


def _place(row: AnyRow) -> int:
    return _PLACES[type(row)]
