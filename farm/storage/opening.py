"""Opens the farm's database, whichever it is: the file of the farm, or a server.

What belongs here: the choice by the option ``database``.  What must not: anything of either.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from farm.model.errors import StorageError

if TYPE_CHECKING:
    from farm.broker.ports import Past, Store

#: How addresses of a PostgreSQL database begin.
POSTGRES = ("postgresql", "postgres")


def is_server(database: str) -> bool:
    """Whether the option ``database`` names a server's, not the farm's own file.

    Raises:
        StorageError: It names what no farm can use.
    """
    if not database:
        return False
    scheme, mark, _ = database.partition("://")
    if mark and scheme in POSTGRES:
        return True
    what = f"{scheme}:// databases" if mark else f"a database {database!r}"
    raise StorageError(
        f"a farm cannot use {what}", hint="leave the option empty, or say postgresql://USER@HOST/NAME"
    )


def open_store(database: str, path: Path) -> Store:
    """The farm's database.

    Args:
        database: The option: "" = the farm's own file.
        path: That file.

    Raises:
        StorageError: It cannot be used.
    """
    if is_server(database):
        from farm.storage.postgres import PostgresStore

        return PostgresStore(database)
    from farm.storage.sqlite import SqliteStore

    return SqliteStore(path)


def open_follower(database: str, path: Path) -> Past:
    """A second connection to the database of a broker that runs, for one of its other threads: it only reads.

    Args:
        database: The option: "" = the farm's own file.
        path: That file.

    Raises:
        StorageError: It cannot be read.
    """
    if is_server(database):
        from farm.storage.postgres import PostgresFollower

        return PostgresFollower(database)
    from farm.storage.sqlite import SqliteFollower

    return SqliteFollower(path)
