"""Interfaces the broker needs of other rooms, declared here by the room that uses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from farm.core.checkpoint import ShelvedJob, Stored
from farm.core.rows import (
    AnyRow,
    BulkRow,
    DeleteRow,
    HistoryRow,
    JobStateRow,
    LeaseRow,
    ResultRow,
    ShelfRow,
)


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A known public key and what it may be."""

    public: str
    role: str
    user: str
    pool: str = ""
    site: str = ""
    label: str = ""
    revoked: bool = False
    added_us: int = 0


class Store(Protocol):
    """Durable state.  One writer; every method may raise StorageError.

    After a failed commit nothing of that commit is stored; the broker stops and reloads.
    """

    def commit(self, rows: Sequence[AnyRow]) -> None:
        """Stores all rows in one durable transaction, or none."""
        ...

    def compact(self, most_rows: int) -> int:
        """Regroups about so many of the oldest rows that the last checkpoint has settled, 0 = none.

        What people ask for is read faster then.  Returns about how many are left.
        """
        ...

    def load(self) -> Stored:
        """Reads what a restart starts from, less the rows to replay."""
        ...

    def replay(self, after_seq: int) -> Iterator[AnyRow]:
        """Every row that changes the farm with ``seq`` greater than that, in order of ``seq``."""
        ...

    # -- reading history --

    def step_history(
        self, step_id: int, units: tuple[int, int] | None
    ) -> list[LeaseRow | ResultRow | BulkRow]:
        """Leases, results and moves of a step in order of ``seq``.

        With ``units`` (first and last index), those that concern them, and every result of an attempt that
        was leased any of them.
        """
        ...

    def recent_history(self, step_id: int, leases: int) -> list[LeaseRow | ResultRow | BulkRow]:
        """The newest so many leases of a step with their results, in order of ``seq``."""
        ...

    def bulks_of_step(self, step_id: int) -> list[BulkRow]:
        """Moves of many units of a step at once, in order of ``seq``."""
        ...

    def recent_leases(self, limit: int) -> list[LeaseRow]:
        """The newest lease rows of the farm, oldest of them first."""
        ...

    def history(self, job_id: int, before_us: int, limit: int) -> list[HistoryRow]:
        """Newest first; ``job_id`` 0 = the whole farm; ``before_us`` 0 = from now."""
        ...

    def job_states(self, job_id: int, limit: int) -> list[JobStateRow]:
        """Newest first."""
        ...

    # -- the archive --

    def shelved(self, before: int, user: str, states: Sequence[str], limit: int) -> list[ShelfRow]:
        """Jobs in the archive with a number below ``before`` (0 = all), newest first; "" and none = any."""
        ...

    def shelf(self, job_id: int) -> ShelfRow | None:
        """What is kept of a job in the archive, None when it is not there."""
        ...

    def deleted(self, job_id: int) -> DeleteRow | None:
        """What is kept of a job that was deleted, None when it was not."""
        ...

    def shelved_job(self, job_id: int) -> ShelvedJob | None:
        """All of a job in the archive, but its history; None when it is not there."""
        ...

    # -- names, keys, invitations --

    def meta(self, name: str) -> str | None:
        """A stored value (``farm_id`` ...)."""
        ...

    def set_meta(self, name: str, value: str) -> None:
        """Stores a value durably."""
        ...

    def keys(self) -> list[KeyRecord]:
        """All known keys, revoked ones included."""
        ...

    def put_key(self, key: KeyRecord) -> None:
        """Adds or replaces a key durably."""
        ...

    def invites(self) -> list[bytes]:
        """Stored invitation records (opaque to the store)."""
        ...

    def put_invite(self, name: str, record: bytes) -> None:
        """Adds or replaces an invitation record durably; ``name`` is the hash of its secret."""
        ...

    def close(self) -> None:
        """Checkpoints and closes; the store cannot be used afterwards."""
        ...


class Told(Protocol):
    """What is told of some steps after some row."""

    @property
    def rows(self) -> Mapping[int, Sequence[LeaseRow | ResultRow | BulkRow]]:
        """By step, in order of ``seq``; rows that are known already may be among them."""
        ...

    @property
    def read_to(self) -> int:
        """Rows up to that number were looked at, 0 = no further than what was found."""
        ...

    @property
    def more(self) -> bool:
        """Whether there may be more."""
        ...


class Past(Protocol):
    """A connection of its own that only reads, for a thread that is not the loop's.

    It sees what is committed.  Every method may raise StorageError.
    """

    def step_named(self, job_id: int, name: str) -> tuple[int, int] | None:
        """Number of a step and how many units it was submitted with, None when there is none."""
        ...

    def segments_after(
        self, step_id: int, seq: int, most: int
    ) -> Sequence[tuple[int, Sequence[LeaseRow | ResultRow | BulkRow]]]:
        """The next settled parts of a step's past after a row, each with the number of its last row."""
        ...

    def told_after(self, known: Mapping[int, int]) -> Told:
        """What is told of steps after the row up to which each is known."""
        ...

    def close(self) -> None:
        """Ends it; may be called again."""
        ...
