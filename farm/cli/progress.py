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
from farm.model.states import UnitState, WorkState
from farm.protocol.client import JobRow
from farm.sdk.client import Farm

#: Shortest time between two lines in a pipe.
_LINE_S = 5.0
_ENDED = frozenset({WorkState.DONE.value, WorkState.FAILED.value, WorkState.CANCELED.value})


def has_ended(row: JobRow) -> bool:
    """Whether nothing of the job runs and nothing of it can run by itself any more.

    Paused counts once the running units have finished.  A job that shows as blocked has nothing running,
    queued or failed: it waits for units that were canceled (for good), or for existing files to be looked
    at (not for long).
    """
    if row.state in _ENDED:
        return True
    if row.state == WorkState.BLOCKED.value:
        return any(step.counts[UnitState.CANCELED] for step in row.steps)
    return row.state == WorkState.PAUSED.value and not row.running


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
    """A progress bar per step on standard error, with its state and seconds a frame."""

    def __init__(self, console: Console) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskID,
            TextColumn,
            TimeElapsedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=RichConsole(file=console.err),
        )
        self._tasks: dict[str, TaskID] = {}
        self._progress.start()

    def show(self, row: JobRow) -> None:
        """See Bar."""
        for step in row.steps:
            task = self._tasks.get(step.name)
            if task is None:
                task = self._tasks[step.name] = self._progress.add_task("", start=False, note="")
            done, running, failed = step.counts[3], step.counts[2], step.counts[4]
            if done or running:
                self._progress.start_task(task)
            notes = [step.state]
            if step.mean_frame_s and step.kind == "per_frame":
                notes.append(f"{step.mean_frame_s:.2f} s a frame")
            if failed:
                notes.append(f"{failed} failed")
            self._progress.update(
                task,
                total=max(1, step.units),
                completed=done,
                description=clean(f"J{row.job}/{step.name}"),
                note=", ".join(notes),
            )
            if done == step.units:
                self._progress.stop_task(task)

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


def is_hopeless(row: JobRow) -> bool:
    """Whether nothing runs and no node in service could ever take what is queued."""
    waiting = [step for step in row.steps if step.counts[UnitState.QUEUED]]
    return not row.running and bool(waiting) and all(step.able is False for step in waiting)


def wait_for_job(
    farm: Farm, job: int, console: Console, bar: Bar | None = None, *, hopeless_s: float | None = None
) -> JobRow:
    """Waits until a job has ended, showing progress.

    Args:
        farm: The farm.
        job: Job number.
        console: Where progress goes (standard error).
        bar: How it is shown; default by the terminal.
        hopeless_s: Also end once for so many seconds nothing runs and no node could take what is queued;
            None waits for nodes to come, as one does on a farm that others run.

    Returns:
        The job as it ended.
    """
    shown = bar or make_bar(console)
    row: JobRow | None = None
    topics = (f"job:{job}",) if hopeless_s is None else (f"job:{job}", "nodes")
    hopeless_since_s: float | None = None
    try:
        for mirror in farm.subscribe(*topics, idle_s=None if hopeless_s is None else 0.5):
            if mirror.trouble:
                continue
            if job not in mirror.jobs:
                raise UnknownName(f"J{job} is no longer there")
            row = mirror.jobs[job]
            shown.show(row)
            if has_ended(row):
                break
            if hopeless_s is None or not is_hopeless(row):
                hopeless_since_s = None
            elif hopeless_since_s is None:
                hopeless_since_s = time.monotonic()
            elif time.monotonic() - hopeless_since_s >= hopeless_s:
                break
    finally:
        shown.close()
    assert row is not None
    return farm.job(job).job
