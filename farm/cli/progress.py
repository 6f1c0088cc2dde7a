"""Waiting for a job with a progress bar: `farm submit --wait`, `farm run`, `farm demo`.

On a terminal a bar of rich (imported only then); in a pipe a plain line now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from farm.cli.console import Console
from farm.cli.text import clean, plural
from farm.model.errors import UnknownName
from farm.model.states import WorkState
from farm.protocol.client import JobRow
from farm.sdk.client import Farm

#: Shortest time between two lines in a pipe.
_LINE_S = 5.0
_ENDED = frozenset({WorkState.DONE.value, WorkState.FAILED.value, WorkState.CANCELED.value})


def has_ended(row: JobRow) -> bool:
    """Whether nothing of the job runs and nothing of it can run by itself any more.

    Paused counts once the running units have finished; so does blocked, since a job in which anything
    could still run shows as running or queued.
    """
    if row.state in _ENDED:
        return True
    return row.state in (WorkState.PAUSED.value, WorkState.BLOCKED.value) and not row.running


def succeeded(row: JobRow) -> bool:
    """Whether the job ended as it should."""
    return row.state == WorkState.DONE.value


class Bar(Protocol):
    """Shows how far a job is."""

    def show(self, row: JobRow) -> None:
        """Shows the present state."""

    def close(self) -> None:
        """Ends the display."""


class PlainBar:
    """One line on standard error when something worth telling happened, at most every five seconds."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._last: tuple[Any, ...] | None = None
        self._said_s = float("-inf")

    def show(self, row: JobRow) -> None:
        """See Bar."""
        now = (row.state, row.done, row.failed)
        urgent = self._last is None or row.state != self._last[0] or row.failed != self._last[2]
        if now == self._last or (not urgent and self._clock() - self._said_s < _LINE_S):
            return
        self._last = now
        self._said_s = self._clock()
        self._console.note(job_line(row))

    def close(self) -> None:
        """See Bar."""


class RichBar:
    """A progress bar on standard error."""

    def __init__(self, console: Console) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=RichConsole(file=console.err),
            transient=True,
        )
        self._task = self._progress.add_task("")
        self._progress.start()

    def show(self, row: JobRow) -> None:
        """See Bar."""
        failed = f", {row.failed} failed" if row.failed else ""
        self._progress.update(
            self._task,
            total=max(1, row.units),
            completed=row.done,
            description=clean(f"J{row.job} {row.name} {row.state}{failed}"),
        )

    def close(self) -> None:
        """See Bar."""
        self._progress.stop()


def job_line(row: JobRow) -> str:
    """A job in one line."""
    parts = [f"J{row.job} {row.name}: {row.state}, {row.done} of {plural(row.units, 'frame')} done"]
    if row.running:
        parts.append(f"{row.running} running")
    if row.failed:
        parts.append(f"{row.failed} failed")
    return ", ".join(parts) + (f" ({row.reason})" if row.reason and row.state != "done" else "")


def make_bar(console: Console) -> Bar:
    """The bar that suits where standard error goes."""
    return RichBar(console) if console.err.isatty() else PlainBar(console)


def wait_for_job(farm: Farm, job: int, console: Console, bar: Bar | None = None) -> JobRow:
    """Waits until a job has ended, showing progress.

    Args:
        farm: The farm.
        job: Job number.
        console: Where progress goes (standard error).
        bar: How it is shown; default by the terminal.

    Returns:
        The job as it ended.
    """
    shown = bar or make_bar(console)
    row: JobRow | None = None
    try:
        for mirror in farm.subscribe(f"job:{job}"):
            if mirror.trouble:
                continue
            if job not in mirror.jobs:
                raise UnknownName(f"J{job} is no longer there")
            row = mirror.jobs[job]
            shown.show(row)
            if has_ended(row):
                break
    finally:
        shown.close()
    assert row is not None
    return farm.job(job).job
