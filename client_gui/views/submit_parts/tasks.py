"""Work that may take long, done beside the window: results come back as queued signals.

What belongs here: running a function in a thread of a pool of its own, dropping what is outdated, and ending
with its owner.  What may not: what the work is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal, Slot

from farm.model.errors import OvercrankError

#: How long the window waits for work under way when it closes; a dead file server keeps its thread longer.
_END_MS = 3000

#: Pools with a thread that does not come back.
_LEFT: list[QThreadPool] = []


class Task:
    """Work under way.

    Attributes:
        stopped: Nobody waits for it any more.
    """

    __slots__ = ("failed", "stopped", "then")

    def __init__(self, then: Callable[[Any], None], failed: Callable[[OvercrankError], None] | None) -> None:
        self.then = then
        self.failed = failed
        self.stopped = False

    def stop(self) -> None:
        """Its result is of no use any more."""
        self.stopped = True


class _Run(QRunnable):
    def __init__(self, task: Task, work: Callable[[Callable[[], bool]], Any], told: Any) -> None:
        super().__init__()
        self._task, self._work, self._told = task, work, told

    def run(self) -> None:
        task = self._task
        result: Any = None
        error: OvercrankError | None = None
        if not task.stopped:
            try:
                result = self._work(lambda: task.stopped)
            except OvercrankError as caught:
                error = caught
            except Exception as caught:  # a bug must reach the artist as words, not vanish in a thread
                error = OvercrankError(f"the client failed: {type(caught).__name__}: {caught}")
        try:
            self._told.emit(task, result, error)
        except RuntimeError:
            pass  # the window is gone


class Tasks(QObject):
    """Runs work, at most so many at a time; with one at a time it is done in the order given."""

    _done = Signal(object, object, object)

    def __init__(self, threads: int, parent: QObject) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(threads)
        self._open: set[Task] = set()
        self._done.connect(self._take)

    def run(
        self,
        work: Callable[[Callable[[], bool]], Any],
        then: Callable[[Any], None],
        failed: Callable[[OvercrankError], None] | None = None,
    ) -> Task:
        """Does something beside the window.

        Args:
            work: Called in a thread, with a function that says whether anybody still waits.
            then: Takes the result, in the window's thread.
            failed: Takes the error.
        """
        task = Task(then, failed)
        self._open.add(task)
        self._pool.start(_Run(task, work, self._done))
        return task

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._open)

    def end(self) -> None:
        """Finishes what is under way and takes no result any more."""
        for task in self._open:
            task.then, task.failed = _nothing, None
        if not self._pool.waitForDone(_END_MS):
            # Its thread hangs on a dead disk.  Deleting the pool would wait for it for ever.
            self._pool.setParent(None)
            _LEFT.append(self._pool)
        self._open.clear()

    @Slot(object, object, object)
    def _take(self, task: Task, result: Any, error: OvercrankError | None) -> None:
        self._open.discard(task)
        if task.stopped:
            return
        if error is None:
            task.then(result)
        elif task.failed is not None:
            task.failed(error)


def _nothing(_result: Any) -> None:
    """Takes a result that nobody waits for."""
