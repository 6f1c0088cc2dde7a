"""Foreign exceptions of this room in words: which file, what is wrong with it, what to do.

What belongs here: the translation of sqlite3's and the operating system's errors into StorageError.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from farm.model.errors import StorageError

#: With less than this free, a failed write is put down to the disk being full (SQLite reports some such
#: failures as plain I/O errors, as when its shared memory file cannot grow).
_NEARLY_NOTHING = 64 * 1024

_FULL_HINT = "free some space, then start the broker again"
_DAMAGED_HINT = "stop the broker, then `farm db repair`; or put a backup in its place"


def database_trouble(path: Path, error: Exception) -> StorageError:
    """What went wrong with the database, as a StorageError that names it."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == "SQLITE_FULL" or (name.startswith("SQLITE_IOERR") and _is_full(path)):
        return StorageError(f"the disk is full: {path} cannot grow", hint=_FULL_HINT)
    if name.startswith("SQLITE_CORRUPT"):
        return StorageError(f"{path} is damaged: {error}", hint=_DAMAGED_HINT)
    if name == "SQLITE_NOTADB":
        return StorageError(f"{path} is not a database", hint="move it away, or put a backup in its place")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StorageError(
            f"{path} is in use by another program", hint="close it, then start the broker again"
        )
    if name.startswith("SQLITE_CANTOPEN"):
        return StorageError(f"{path} cannot be opened: {error}", hint="check the folder and its permissions")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return StorageError(
            f"{path} cannot be written: {error}", hint="check the permissions of the file and folder"
        )
    if name.startswith("SQLITE_IOERR"):
        return StorageError(f"{path} cannot be read or written: {error} ({name})", hint="check the disk")
    if name.startswith("SQLITE_CONSTRAINT"):
        return StorageError(f"{path} refuses a row that contradicts what it holds: {error}")
    return StorageError(f"{path}: {error or type(error).__name__}")


def file_trouble(path: Path, error: OSError, doing: str = "written") -> StorageError:
    """What went wrong with a file or folder, as a StorageError that names it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "the disk is full" if error.errno == errno.ENOSPC else "the disk quota is used up"
        return StorageError(f"{what}: {path} cannot be {doing}", hint="free some space")
    return StorageError(f"{path} cannot be {doing}: {error.strerror or error}")


def _is_full(path: Path) -> bool:
    try:
        facts = os.statvfs(path.parent)
    except OSError:
        return False
    return facts.f_bavail * facts.f_frsize < _NEARLY_NOTHING
