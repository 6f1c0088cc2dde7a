"""Jobs that are not in memory any more: how they are told apart and read, and how deleted ones are cleared.

What belongs here: SQL that every database understands.  What must not: connections, and when a job leaves
(``farm.core.shelves``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, TypeVar

from farm.core.checkpoint import ShelvedJob
from farm.core.rows import (
    DeleteRow,
    JobRow,
    JobStateRow,
    Row,
    ShelfRow,
    StepEditRow,
    StepMapRow,
    StepRow,
)

R = TypeVar("R", bound=Row)
_SEQ = attrgetter("seq")

#: Name of the stored value that says parts of the history are gone: the rest makes no farm by itself.
INCOMPLETE = "history_incomplete"

_STEP_ON_SHELF = (
    "SELECT 1 FROM shelf JOIN steps ON steps.job_id = shelf.job_id WHERE steps.id = {table}.step_id"
)

#: By kind of row: the test that it is of no job in the archive.
IN_MEMORY: dict[type[Row], str] = {
    JobRow: "NOT EXISTS (SELECT 1 FROM shelf WHERE shelf.job_id = jobs.id)",
    StepRow: "NOT EXISTS (SELECT 1 FROM shelf WHERE shelf.job_id = steps.job_id)",
    JobStateRow: "NOT EXISTS (SELECT 1 FROM shelf WHERE shelf.job_id = job_states.job_id)",
    StepEditRow: f"NOT EXISTS ({_STEP_ON_SHELF.format(table='step_edits')})",
    StepMapRow: f"NOT EXISTS ({_STEP_ON_SHELF.format(table='step_maps')})",
}

_OF_STEPS = "step_id IN (SELECT id FROM steps WHERE job_id = ?)"

#: Takes a job out of the store (its number is the only value): what refers goes before what is referred to.
CLEARED: tuple[str, ...] = (
    f"DELETE FROM segments WHERE {_OF_STEPS}",
    f"DELETE FROM step_maps WHERE {_OF_STEPS}",
    f"DELETE FROM step_edits WHERE {_OF_STEPS}",
    "DELETE FROM job_states WHERE job_id = ?",
    "DELETE FROM shelf WHERE job_id = ?",
    "DELETE FROM steps WHERE job_id = ?",
    "DELETE FROM jobs WHERE id = ?",
)


class ShelfReader(ABC):
    """The part of a store that reads the archive."""

    @abstractmethod
    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Rows of a SELECT."""

    @abstractmethod
    def _rows(self, kind: type[R], rest: str, values: Sequence[Any] = ()) -> list[R]:
        """Rows of a kind."""

    def shelved(self, before: int, user: str, states: Sequence[str], limit: int) -> list[ShelfRow]:
        """Jobs in the archive, the newest first.

        Args:
            before: Only jobs with a smaller number, 0 = all.
            user: Only this user's, "" = everybody's.
            states: Only those in these states; none = any.
            limit: At most so many.
        """
        tests = ["job_id < ?"]
        values: list[Any] = [before or 2**62]
        if user:
            tests.append('"user" = ?')
            values.append(user)
        if states:
            tests.append(f"state IN ({', '.join('?' * len(states))})")
            values += states
        rest = f"WHERE {' AND '.join(tests)} ORDER BY job_id DESC LIMIT ?"
        return self._rows(ShelfRow, rest, (*values, max(0, limit)))

    def shelf(self, job_id: int) -> ShelfRow | None:
        """What is kept of a job in the archive, None when it is not there."""
        found = self._rows(ShelfRow, "WHERE job_id = ?", (job_id,))
        return found[0] if found else None

    def deleted(self, job_id: int) -> DeleteRow | None:
        """What is kept of a job that was deleted, None when it was not."""
        found = self._rows(DeleteRow, "WHERE job_id = ?", (job_id,))
        return found[0] if found else None

    def shelved_job(self, job_id: int) -> ShelvedJob | None:
        """All of a job in the archive, but its history; None when it is not there."""
        shelf = self.shelf(job_id)
        if shelf is None:
            return None
        of_steps = "WHERE step_id IN (SELECT id FROM steps WHERE job_id = ?)"
        ground: list[Any] = [
            *self._rows(JobRow, "WHERE id = ?", (job_id,)),
            *self._rows(StepRow, "WHERE job_id = ?", (job_id,)),
            *self._rows(JobStateRow, "WHERE job_id = ?", (job_id,)),
            *self._rows(StepEditRow, of_steps, (job_id,)),
        ]
        ground.sort(key=_SEQ)
        return ShelvedJob(shelf, ground, self._rows(StepMapRow, of_steps, (job_id,)))

    def _tokens(self) -> list[tuple[str, str, int]]:
        """User, token and number of the jobs that have one."""
        sql = 'SELECT "user", token, job_id FROM shelf WHERE token <> ? ORDER BY seq'
        return [(user, token, number) for user, token, number in self._query(sql, ("",))]

    def _deleted_between(self, after: int, until: int) -> list[tuple[int]]:
        """Numbers of the jobs that were deleted after one checkpoint and up to another."""
        found = self._query("SELECT job_id FROM deleted WHERE seq > ? AND seq <= ?", (after, until))
        return [(number,) for (number,) in found]
