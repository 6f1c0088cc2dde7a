"""Drafts on disk: one file each, so that nothing typed is lost with a window, a crash or a power cut.

What belongs here: where they lie, reading all of them, writing and removing one.  What may not: Qt; every
call may block and is made from a worker.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from client_gui.store.draft import Draft
from farm.config.places import LOCAL, Places, write_private
from farm.model.errors import CallError, StorageError

_ID = re.compile(r"[0-9a-f-]{8,40}\Z")


def drafts_folder() -> Path:
    """Where drafts are kept; its name begins with a dot, which no farm's folder does."""
    return Places(LOCAL).config.parent / ".drafts"


class Shelf:
    """The drafts of this user.

    Args:
        folder: Where they lie; None = beside the farms' configuration.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else drafts_folder()

    def load(self) -> tuple[list[Draft], list[str]]:
        """All drafts, oldest first, and what is wrong with files that are none; those are left alone."""
        found: list[Draft] = []
        troubles: list[str] = []
        try:
            names = sorted(path for path in self.folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            return [], [f"the drafts in {self.folder} cannot be read: {error.strerror or error}"]
        aged = []
        for path in names:
            try:
                aged.append((path.stat().st_mtime_ns, path, path.read_bytes()))
            except OSError as error:
                troubles.append(f"the draft {path} cannot be read: {error.strerror or error}")
        for _, path, data in sorted(aged):
            try:
                draft = Draft.from_record(msgspec.json.decode(data))
            except (CallError, msgspec.DecodeError, RecursionError) as error:
                troubles.append(f"{path} is kept, but it cannot be read: {error}")
                continue
            if _ID.match(draft.id) and path.stem == draft.id:
                found.append(draft)
        return found, troubles

    def write(self, draft: str, record: bytes) -> None:
        """Writes one, whole or not at all.

        Raises:
            StorageError: That is not possible.
        """
        write_private(self.path(draft), record.decode())

    def remove(self, draft: str) -> None:
        """Forgets one.

        Raises:
            StorageError: It cannot be removed: it would come back.
        """
        path = self.path(draft)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"the draft {path} cannot be removed: {error.strerror or error}") from error

    def path(self, draft: str) -> Path:
        """The file of a draft."""
        if not _ID.match(draft):
            raise StorageError(f"{draft!r} is no draft")
        return self.folder / f"{draft}.json"
