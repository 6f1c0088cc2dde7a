"""A small file system of its own, to be filled up or made read-only.

What belongs here: mounting and unmounting.  Where a mount is not possible (no root, no ``mount``) the test
is skipped, or fails where real things are required.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.real import require


class SmallDisk:
    """A mounted tmpfs.

    Attributes:
        path: Where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / ".filler"

    def fill(self, leave_bytes: int = 0) -> None:
        """Takes all space but ``leave_bytes``."""
        handle = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            step = 1 << 20
            while step >= 4096:
                try:
                    os.posix_fallocate(handle, os.fstat(handle).st_size, step)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2
            if leave_bytes:
                os.ftruncate(handle, max(0, os.fstat(handle).st_size - leave_bytes))
        finally:
            os.close(handle)

    def free(self) -> None:
        """Gives the space back."""
        self._filler.unlink(missing_ok=True)

    def read_only(self, on: bool) -> None:
        """Makes it read-only, or writable again."""
        _mount("-o", f"remount,{'ro' if on else 'rw'}", str(self.path))


@contextlib.contextmanager
def small_disk(path: Path, size: str = "4m") -> Iterator[SmallDisk]:
    """Mounts a tmpfs at ``path`` (made if missing) for the time of the block."""
    require(
        os.geteuid() == 0 and shutil.which("mount") and shutil.which("umount"),
        "root and mount, to have a small disk that fills up",
    )
    path.mkdir(parents=True, exist_ok=True)
    made = _mount("-t", "tmpfs", "-o", f"size={size},mode=0777", "overcrank-test", str(path), check=False)
    require(made.returncode == 0, f"a tmpfs of its own ({made.stderr.strip()})")
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: a process that still has a file open there must not keep the test folder for ever.
        subprocess.run(["umount", "--lazy", str(path)], check=True, timeout=30)


def _mount(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *arguments], check=check, timeout=30, capture_output=True, text=True)
