"""Comparing two logs: both are fetched whole, then a process of its own compares them.

What belongs here: the steps of that, and its answer.  What may not: widgets.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject, Signal

from client_gui.views.log_parts.document import LogDocument
from client_gui.views.log_parts.finder import Helper


class Comparing(QObject):
    """A comparison under way.

    Attributes:
        first, second: The logs.
        answer: As ``client_gui.store.logdiff.compare`` gives it, None before.
        trouble: Why there is none, "" while there may be one.
    """

    changed = Signal()

    def __init__(
        self, first: LogDocument, second: LogDocument, *, figures: bool, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.first = first
        self.second = second
        self.answer: dict[str, Any] | None = None
        self.trouble = ""
        self._figures = figures
        self._helper: Helper | None = None
        for document in (first, second):
            document.grew.connect(self._look)
            document.stood.connect(self._look)
            document.open(at_end=False)
            document.fetch_all()
        self._look()

    @property
    def part(self) -> float:
        """How much of both is here, 0..1."""
        size = self.first.map.size + self.second.map.size
        return (self.first.map.here + self.second.map.here) / size if size else 0.0

    def close(self) -> None:
        """Ends it."""
        for document in (self.first, self.second):
            document.grew.disconnect(self._look)
            document.stood.disconnect(self._look)
        if self._helper is not None:
            self._helper.close()
            self._helper = None

    def _look(self) -> None:
        if self._helper is not None or self.answer is not None or self.trouble:
            return
        for document in (self.first, self.second):
            if document.trouble is not None:
                self.trouble = f"{document.log}: {document.trouble}"
            elif document.asked and not document.map.size:
                self.trouble = f"{document.log} has no log to compare with"
        if not self.trouble and all(d.asked and d.map.whole and d.path for d in (self.first, self.second)):
            a, b = self.first, self.second
            self._helper = Helper(
                {
                    "do": "diff",
                    "a": [a.path, a.map.size],
                    "b": [b.path, b.map.size],
                    "figures": self._figures,
                    "around": 3,
                },
                self,
            )
            self._helper.said.connect(self._said)
            self._helper.ended.connect(self._gone)
        self.changed.emit()

    def _said(self, said: dict[str, Any]) -> None:
        if "error" in said:
            self.trouble = said["error"]
        else:
            self.answer = said
        self.changed.emit()

    def _gone(self) -> None:
        if self.answer is None and not self.trouble:
            self.trouble = "the comparison ended by itself"
            self.changed.emit()
