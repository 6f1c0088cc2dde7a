"""Keeping a log as a file: in the background, whole or not at all.

What belongs here: waiting until all of it is here, and copying.  What may not: asking where to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, Signal

from client_gui.lanes import Lane, Ticket
from client_gui.views.log_parts.document import LogDocument
from farm.model.errors import OvercrankError

_BLOCK: Final = 1 << 20


class Saving(QObject):
    """One log on its way into a file."""

    #: Part done, 0..1.
    progressed = Signal(float)
    #: The path, when it is there.
    done = Signal(str)
    failed = Signal(object)

    def __init__(self, document: LogDocument, path: str, parent: QObject) -> None:
        super().__init__(parent)
        self._document = document
        self._path = path
        self._lane = Lane()
        self._ticket: Ticket[str] | None = None
        document.grew.connect(self._look)
        document.stood.connect(self._look)
        document.fetch_all()
        self._look()

    def give_up(self) -> None:
        """Leaves it."""
        if self._ticket is not None:
            self._ticket.give_up()
        self._leave()

    def _leave(self) -> None:
        self._document.grew.disconnect(self._look)
        self._document.stood.disconnect(self._look)
        self.deleteLater()

    def _look(self) -> None:
        if self._ticket is not None:
            return
        document = self._document
        if document.trouble is not None:
            self.failed.emit(document.trouble)
            self._leave()
            return
        size = document.map.size
        self.progressed.emit(document.map.here / size if size else 0.0)
        if document.asked and document.map.whole:
            self._ticket = self._lane.run(
                lambda ticket: _copy(document, size, self._path, ticket), self, self._copied, self._not_copied
            )

    def _copied(self, path: str) -> None:
        self.done.emit(path)
        self._leave()

    def _not_copied(self, error: OvercrankError) -> None:
        self.failed.emit(error)
        self._leave()


def _copy(document: LogDocument, size: int, path: str, ticket: Ticket[str]) -> str:
    """In a worker."""
    part = Path(f"{path}.part")
    try:
        with part.open("wb") as file:
            for start in range(0, size, _BLOCK):
                if ticket.given_up:
                    return path
                file.write(document.read(start, min(size, start + _BLOCK)))
        os.replace(part, path)  # noqa: PTH105 - both are text
    finally:
        part.unlink(missing_ok=True)
    return path
