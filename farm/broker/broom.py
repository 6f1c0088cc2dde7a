"""Removes from disk what deleted jobs left, in a thread of its own: there may be a million files.

What belongs here: emptying folders that were set aside.  What may not: which those are (``farm.broker.bulk``
sets them aside, between two messages).  What is not done when the broker ends is done after its next start.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger("overcrank.broom")


class Broom(threading.Thread):
    """Removes folders set aside below some roots, until stopped.

    Args:
        prefix: How the names of such folders begin.
        roots: Where they are.
    """

    def __init__(self, prefix: str, *roots: Path) -> None:
        super().__init__(name="broom", daemon=True)
        self._prefix = prefix
        self._roots = roots
        self._wake = threading.Event()
        self._stopping = False

    def sweep(self) -> None:
        """Something was set aside (any thread)."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread after the file it is at, and waits for it."""
        self._stopping = True
        self._wake.set()
        self.join()

    def run(self) -> None:
        """The thread."""
        while True:
            self._wake.clear()
            # Only now: a stop between a look and the clearing would be wiped out, and waited for for ever.
            if self._stopping:
                return
            for folder in self._aside():
                try:
                    if not self._remove(folder):
                        return
                    log.info("removed folder=%s", folder)
                except OSError as error:
                    log.error("removing-failed folder=%s reason=%s", folder, error.strerror or error)
            self._wake.wait()

    def _aside(self) -> Iterator[Path]:
        for root in self._roots:
            found: list[Path] = []
            with contextlib.suppress(OSError), os.scandir(root) as entries:
                found = [
                    Path(entry.path)
                    for entry in entries
                    if entry.name.startswith(self._prefix) and entry.is_dir(follow_symlinks=False)
                ]
            yield from sorted(found)

    def _remove(self, folder: Path) -> bool:
        """Removes a folder from within; False = it was told to stop before all was gone."""
        for where, folders, files in os.walk(folder, topdown=False):
            for name in files:
                if self._stopping:
                    return False
                Path(where, name).unlink(missing_ok=True)
            for name in folders:
                path = Path(where, name)
                if path.is_symlink():
                    path.unlink()
                else:
                    path.rmdir()
        folder.rmdir()
        return True
