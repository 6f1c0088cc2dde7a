"""The farm's state in memory: the stand-in for a file in tests and simulations.

What belongs here: what ``farm.storage.sqlite`` does, less the disk, and failures that a test asks for.  It
is the same statements on an SQLite database in memory, so that it refuses what a file refuses.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from farm.core.rows import Row
from farm.model.errors import StorageError
from farm.storage.ddl import HEAD, STATEMENTS
from farm.storage.sql import Work
from farm.storage.sqlite import ConnectedStore
from farm.storage.tables import BY_ROW, JOURNALED, TABLES

#: What it is called in messages.
_NAME = Path("this memory")


class MemoryDisk:
    """What outlives a store: opening a second store on it is what reopening a file is.

    Attributes:
        owned: Whether a store is open on it.
    """

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA foreign_keys = ON")
        for statement in STATEMENTS:
            self.db.execute(statement)
        self.db.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (HEAD,))
        self.owned = False

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.db.close()

    @property
    def tables(self) -> dict[type[Row], dict[int, Any]]:
        """All rows by kind, then by key: the field ``id`` where a kind has one, else ``seq``."""
        store = _Reader(_NAME, self.db)
        found: dict[type[Row], dict[int, Any]] = {table.row: {} for table in TABLES}
        found.update({kind: {} for kind in JOURNALED})
        for kind, table in BY_ROW.items():
            found[kind] = {getattr(row, table.key): row for row in store._rows(kind, "")}
        for row in store.replay(-(2**62)):
            if type(row) in JOURNALED:
                found[type(row)][getattr(row, "id", row.seq)] = row
        return found


class _Reader(ConnectedStore):
    def close(self) -> None:
        """Leaves the disk to its owner."""
        self._db = None


class MemoryStore(_Reader):
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
        super().__init__(_NAME, self.disk.db)
        if self.disk.owned:
            self._db = None
            raise StorageError(f"{_NAME} is in use by another broker")
        self.disk.owned = True

    def _write(self, work: Iterable[Work]) -> None:
        if work and self.fail_next:
            reason, self.fail_next = self.fail_next, ""
            self._refuse(StorageError(reason))
        super()._write(work)

    def close(self) -> None:
        """Closes; may be called again."""
        if self._db is not None:
            self._db = None
            self.disk.owned = False
