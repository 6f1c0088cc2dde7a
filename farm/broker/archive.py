"""Jobs that are not in memory any more: what people may still ask of them, read from the store when they ask.

What belongs here: finding such a job and building it up again by itself, to be looked at.  What may not:
changing anything, and when a job leaves memory (``farm.core.shelves``).
"""

from __future__ import annotations

from typing import NoReturn

from farm.broker.ports import Store
from farm.broker.views import Views
from farm.core.checkpoint import restore_shelved
from farm.core.rows import DeleteRow, ShelfRow
from farm.core.state import Farm
from farm.model.errors import IllegalMove, OvercrankError, UnknownName
from farm.model.moment import moment_text
from farm.protocol.client import JobRow


class Archive:
    """Reads the archive.

    Args:
        farm: The core's state: its nodes, and which numbers jobs ever had.
        store: Where the archive is.
    """

    def __init__(self, farm: Farm, store: Store) -> None:
        self._farm = farm
        self._store = store
        #: The job that was asked for last: lists of frames come page by page.
        self._last: tuple[int, Views] | None = None

    def shelf(self, number: int) -> ShelfRow:
        """What is kept of a job of the archive.

        Raises:
            UnknownName: It is not there; says what became of it.
        """
        row = self._store.shelf(number) if 0 < number < self._farm.next_job else None
        # Deleted a moment ago: its rows go with the next checkpoint.
        if row is None or number in self._farm.shelved.clearing:
            self.raise_missing(number)
        return row

    def deleted(self, number: int) -> DeleteRow | None:
        """What is kept of a deleted job, None when it was not deleted."""
        return self._store.deleted(number) if 0 < number < self._farm.next_job else None

    def raise_missing(self, number: int) -> NoReturn:
        """Says why there is no such job.

        Raises:
            UnknownName: Always.
        """
        row = self.deleted(number)
        if row is None:
            raise UnknownName(f"there is no job J{number}")
        when = moment_text(_seconds(row.at_us))
        raise UnknownName(f"J{number} ({row.name}) was deleted by {row.who or 'somebody'} on {when}")

    def views(self, number: int) -> Views:
        """The job by itself, to be looked at.

        Raises:
            UnknownName: It is not in the archive.
            OvercrankError: What the store has of it makes no job.
        """
        self.shelf(number)
        if self._last is not None and self._last[0] == number:
            return self._last[1]
        stored = self._store.shelved_job(number)
        if stored is None:
            self.raise_missing(number)
        try:
            found = Views(restore_shelved(self._farm, stored), self._store)
        except (KeyError, IndexError, ValueError) as error:
            # No StorageError: the farm goes on without what one old job was.
            raise OvercrankError(
                f"J{number} cannot be read from the archive: {type(error).__name__}: {error}",
                hint="see `farm db check`",
            ) from error
        self._last = (number, found)
        return found

    def refuse(self, number: int) -> NoReturn:
        """Refuses to change a job that is not in memory.

        Raises:
            UnknownName: There is no such job.
            IllegalMove: It is in the archive.
        """
        row = self.shelf(number)
        raise IllegalMove(
            f"J{number} is archived since {moment_text(_seconds(row.at_us))};"
            f" `farm resubmit J{number}` makes a new job of it"
        )

    def rows(self, before: int, user: str, states: tuple[str, ...], limit: int) -> list[JobRow]:
        """Jobs of the archive as lists show them, newest first, without their steps."""
        clearing = self._farm.shelved.clearing
        found = self._store.shelved(before, user, states, limit + len(clearing))
        return [job_row(row) for row in found if row.job_id not in clearing][:limit]


def _seconds(at_us: int) -> int:
    return at_us // 1_000_000 * 1_000_000


def job_row(row: ShelfRow) -> JobRow:
    """A job of the archive as lists show it."""
    return JobRow(
        job=row.job_id,
        name=row.name,
        user=row.user,
        project=row.project,
        priority=row.priority,
        state=row.state,
        reason=row.reason,
        submitted_us=row.submitted_us,
        started_us=row.started_us,
        ended_us=row.ended_us,
        units=row.units,
        done=row.done,
        failed=row.failed,
        running=0,
        spend_nano=row.spend_nano,
        waste_nano=row.waste_nano,
        archived=True,
    )
