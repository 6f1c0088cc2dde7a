"""What jobs that are no longer in memory cost: sums by project and user, to the nano-USD.

What belongs here: the data and its arithmetic.  What may not: which jobs leave memory, and when
(``farm.core.shelves``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec


class Cost(Protocol):
    """The figures of a job that are kept: both kinds of row that tell of its leaving have them."""

    @property
    def spend_nano(self) -> int: ...
    @property
    def waste_nano(self) -> int: ...
    @property
    def busy_us(self) -> int: ...
    @property
    def done(self) -> int: ...


class Sums(msgspec.Struct, array_like=True):
    """Figures of some jobs added up."""

    jobs: int = 0
    spend_nano: int = 0
    waste_nano: int = 0
    busy_us: int = 0
    frames: int = 0

    def add(self, cost: Cost, times: int = 1) -> None:
        """Adds a job; with ``times`` -1 takes it away."""
        self.jobs += times
        self.spend_nano += times * cost.spend_nano
        self.waste_nano += times * cost.waste_nano
        self.busy_us += times * cost.busy_us
        self.frames += times * cost.done


#: By project and user.
Ledger = dict[tuple[str, str], Sums]


class Shelved:
    """Sums of the jobs that left memory.

    Attributes:
        archived: Of those in the archive.
        deleted: Of those that were deleted.
        clearing: Jobs deleted since the last checkpoint, whose rows are still in the store.
    """

    __slots__ = ("archived", "clearing", "deleted")

    def __init__(self) -> None:
        self.archived: Ledger = {}
        self.deleted: Ledger = {}
        self.clearing: dict[int, None] = {}

    @property
    def spend_nano(self) -> int:
        """What all of them cost."""
        return sum(sums.spend_nano for sums in (*self.archived.values(), *self.deleted.values()))

    def archive(self, project: str, user: str, cost: Cost) -> None:
        """A job went into the archive."""
        _entry(self.archived, project, user).add(cost)

    def delete(self, project: str, user: str, cost: Cost, *, shelved: bool) -> None:
        """A job was deleted, perhaps out of the archive."""
        if shelved:
            entry = _entry(self.archived, project, user)
            entry.add(cost, -1)
            if not entry.jobs:
                del self.archived[project, user]
        _entry(self.deleted, project, user).add(cost)

    def dump(self) -> dict[str, list[tuple[str, str, Sums]]]:
        """Plain values for MessagePack."""
        return {"archived": _rows(self.archived), "deleted": _rows(self.deleted)}

    def load(self, saved: dict[str, list[tuple[str, str, list[int]]]]) -> None:
        """Takes what ``dump`` made, decoded."""
        for ledger, rows in ((self.archived, saved["archived"]), (self.deleted, saved["deleted"])):
            ledger.clear()
            ledger.update({(project, user): Sums(*figures) for project, user, figures in rows})


def _entry(ledger: Ledger, project: str, user: str) -> Sums:
    entry = ledger.get((project, user))
    if entry is None:
        entry = ledger[project, user] = Sums()
    return entry


def _rows(ledger: Ledger) -> list[tuple[str, str, Sums]]:
    return [(project, user, sums) for (project, user), sums in sorted(ledger.items(), key=_key)]


def _key(item: tuple[tuple[str, str], Sums]) -> tuple[str, str]:
    return item[0]


def total(ledger: Ledger, users: Iterable[str] | None = None) -> Sums:
    """All of a ledger in one, or that of some users."""
    wanted = None if users is None else frozenset(users)
    found = Sums()
    for (_, user), sums in ledger.items():
        if wanted is None or user in wanted:
            found.jobs += sums.jobs
            found.spend_nano += sums.spend_nano
            found.waste_nano += sums.waste_nano
            found.busy_us += sums.busy_us
            found.frames += sums.frames
    return found
