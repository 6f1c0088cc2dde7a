"""What a state directory must offer before a database may live in it: one owner, a local disk.

What belongs here: the lock and the look at the file system.  What must not: SQL.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from farm.model.errors import StorageError
from farm.storage.troubles import file_trouble

MOUNTS = Path("/proc/self/mountinfo")

#: File systems that are somewhere else.  SQLite's write-ahead log needs memory shared with the file and
#: locks that hold, which these do not give (https://www.sqlite.org/wal.html, "all processes ... same host").
#: 9p is not among them: sandboxes show their own local root that way.
NETWORK = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph-fuse",
        "fuse.cifs",
        "fuse.curlftpfs",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.smbnetfs",
        "fuse.sshfs",
        "fuse.weed",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
    }
)


def file_system(folder: Path) -> str:
    """Name of the file system a folder lies on, "" where the kernel does not say.

    The mount table rather than statfs: that gives one number for everything that runs on FUSE, be it
    sshfs or a local encrypted folder.
    """
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(folder)
    best, found = -1, ""
    for line in lines:
        # 36 35 98:0 /root /mount/point options [optional ...] - type source superoptions
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _unescaped(fields[4])
        inside = point == "/" or real == point or real.startswith(point + "/")
        if inside and len(point) >= best:  # of several on one point, the last one mounted shows
            best, found = len(point), after.split(" ", 1)[0]
    return found


def refuse_network(folder: Path) -> None:
    """Refuses a folder on a network file system.

    Raises:
        StorageError: It is on one.
    """
    kind = file_system(folder)
    if kind in NETWORK:
        raise StorageError(
            f"{folder} is on a network file system ({kind}), where a database is not safe",
            hint="put the farm's state on a local disk: set XDG_STATE_HOME",
        )


def _unescaped(text: str) -> str:
    # The kernel writes space, tab, newline and backslash as \040, \011, \012, \134.
    if "\\" not in text:
        return text
    for code, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, plain)
    return text


class OwnerLock:
    """One process owns a database; a second is told who does.

    The kernel drops the lock when its holder ends, however it ends, so that nothing is ever left to
    clean up; the file itself stays.
    """

    __slots__ = ("_handle", "path")

    def __init__(self, database: Path) -> None:
        """Takes the lock ``<database>.lock``.

        Raises:
            StorageError: Another process, or another store in this one, has it; or it cannot be made.
        """
        self.path = database.with_name(database.name + ".lock")
        self._handle = -1
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise file_trouble(self.path, error, "opened") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(handle)
            os.close(handle)
            raise StorageError(
                f"{database} is in use by another broker{holder}",
                hint="stop that one first, or choose another farm with --farm",
            ) from error
        except OSError as error:
            os.close(handle)
            raise file_trouble(self.path, error, "locked") from error
        self._handle = handle
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # on a full disk the lock still holds; only its owner's number is missing

    def release(self) -> None:
        """Lets go; may be called again."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _holder(handle: int) -> str:
    try:
        text = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return f" (process {text})" if text.isdigit() else ""


def refuse_orphan_log(database: Path) -> None:
    """Refuses to make a database anew beside the write-ahead log of one that is gone.

    SQLite would play that log into the new file and so destroy both.

    Raises:
        StorageError: There is such a log.
    """
    log = database.with_name(database.name + "-wal")
    try:
        orphan = log.stat().st_size > 0
    except FileNotFoundError:
        return
    except OSError as error:
        raise file_trouble(log, error, "read") from error
    if orphan:
        raise StorageError(
            f"{database} is missing or empty, but {log.name} holds changes to it",
            hint="put the database back beside it, or move that file away to start anew",
        )


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
