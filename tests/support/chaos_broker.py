"""``farm broker`` whose next commit can be made to go wrong: by one word in the file OVERCRANK_TEST_COMMIT.

What belongs here: four ways for a commit to end badly.  Nothing of the product knows them.

``before``, ``middle`` and ``after`` kill the broker with SIGKILL before the transaction, within it, and when
it is on disk and nobody has been told.  ``fails`` lets the database refuse in the middle, as on a full disk.
The file is removed before anything happens.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from farm.cli.main import entry
from farm.core.rows import AnyRow
from farm.storage.sql import SqlStore, Work
from farm.storage.sqlite import SqliteStore

WISH = "OVERCRANK_TEST_COMMIT"
_SLOW_DISK_S = 0.05


def _die() -> None:
    # What was sent too early gets there first.
    time.sleep(_SLOW_DISK_S)
    os.kill(os.getpid(), signal.SIGKILL)


class _Trap(list[Work]):
    """Statements of a transaction; whoever runs them falls into it at the last one."""

    def __init__(self, work: Iterable[Work], spring: Callable[[], None]) -> None:
        super().__init__(work)
        self._spring = spring

    def __iter__(self) -> Iterator[Work]:
        for number, one in enumerate(super().__iter__(), 1):
            yield one
            # Every statement was run, the end of the transaction was not.
            if number == len(self):
                self._spring()


def _refuse_sqlite() -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    raise error


def _refuse_postgres() -> None:
    import psycopg

    raise psycopg.errors.DiskFull("could not extend file: no space left on device")


def _wish(path: Path) -> str:
    try:
        word = path.read_text("ascii")
    except FileNotFoundError:
        return ""
    path.unlink()
    return word


def install(path: Path) -> None:
    """Puts the fault into every store this process opens."""
    plain = SqlStore.commit

    def commit(self: SqlStore, rows: Sequence[AnyRow]) -> None:
        word = _wish(path)
        if word == "before":
            _die()
        if word in ("middle", "fails"):
            refuse = _refuse_sqlite if isinstance(self, SqliteStore) else _refuse_postgres
            spring = _die if word == "middle" else refuse
            write: Any = self._write

            def trapped(work: Iterable[Work]) -> None:
                write(_Trap(work, spring))

            self._write = trapped  # type: ignore[method-assign]
        plain(self, rows)
        if word == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    SqlStore.commit = commit  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Path(os.environ[WISH]))
    entry()
