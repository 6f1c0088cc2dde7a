"""Who begins a frame: the program that was given it, or whoever takes it back before.

What belongs here: the farm's side of a decision between two processes that cannot ask each other.  What it
may not know: leases, units, how a program is started.

A program that renders many frames makes a file named by the frame's number just before it begins one; we make
the same file to take the frame back.  The file system lets exactly one of the two be first.
"""

from __future__ import annotations

import os


class Claims:
    """The claims of one running program.

    Attributes:
        folder: Where the files lie; in the attempt's scratch folder, gone with it.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def take(self, frame: int) -> bool:
        """Takes a frame back; False when the program has begun it (or the disk does not let us decide)."""
        try:
            handle = os.open(
                os.path.join(self.folder, str(frame)),  # noqa: PTH118
                os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC,
                0o600,
            )
        except OSError:
            return False
        os.close(handle)
        return True
