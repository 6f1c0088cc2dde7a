"""Whose fault an operating system error is, in the words and classes of the failure table.

What belongs here: the one mapping from errno to failure class, and the exception that carries a class to
where an attempt's outcome is decided.  What it may not know: attempts, threads, the broker.
"""

from __future__ import annotations

import errno
import os

from farm.model.errors import WorkFailed
from farm.model.states import FailureClass

#: Below this much free space a file system counts as full: what does not fit was just removed again.
FULL_BYTES = 1 << 20

#: A mount or disk that does not answer as it should: the machine's own trouble, wherever it shows.
_MOUNT = frozenset(
    {
        *(errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH),
        *(
            errno.ENODEV,
            errno.ENXIO,
            errno.EREMOTEIO,
            errno.EUCLEAN,
            errno.EMFILE,
            errno.ENFILE,
            errno.ENOMEM,
        ),
    }
)

_WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "it is mounted read-only",
    errno.EACCES: "this account may not write there",
    errno.EPERM: "this account may not write there",
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "a folder has that name",
    errno.ELOOP: "its links lead in a circle, or a link lies where the farm's own folder should be",
    errno.ENAMETOOLONG: "the name is too long for that file system",
    errno.EXDEV: "it lies on another file system",
}


class WorkTrouble(WorkFailed):
    """Something that decides the outcome of units.

    Attributes:
        failure: Class of failure.
    """

    code = "work-trouble"

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Superseded(Exception):
    """The attempt's folder was emptied by an attempt that took its place."""


def words(error: OSError) -> str:
    """An error in words, without the path."""
    return _WORDS.get(error.errno or 0, error.strerror or str(error))


def destination_trouble(error: OSError, path: str, what: str) -> WorkTrouble:
    """Trouble at the job's own destination: its path, unless the mount itself is broken.

    Args:
        error: What the system said.
        path: The file or folder, as people know it.
        what: What could not be done, e.g. ``cannot write to``.
    """
    failure = FailureClass.NODE if error.errno in _MOUNT else FailureClass.PATH
    return WorkTrouble(failure, f"{what} {path}: {words(error)}")


def own_trouble(error: OSError, path: str, what: str) -> WorkTrouble:
    """Trouble with the agent's own disk."""
    return WorkTrouble(FailureClass.NODE, f"{what} {path} on this node's own disk: {words(error)}")


def is_full(folder: str) -> bool:
    """Whether next to nothing fits into a folder any more."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return False
    return facts.f_bavail * facts.f_frsize < FULL_BYTES or (facts.f_files > 0 and facts.f_favail == 0)
