"""The job's file as the farm keeps it, asked for when a tab that shows it is looked at.

What belongs here: asking for it and keeping it.  What may not: how it is shown.
"""

from __future__ import annotations

from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from client_gui.desk import Desk
from farm.model.errors import OvercrankError
from farm.protocol.client import JobReply, JobReq


class JobFile(QObject):
    """A job's file.

    Attributes:
        job: Whose.
        spec: The file as it was submitted, None before it came.
        trouble: Why it does not come, "" while nothing speaks against it.
    """

    #: The file came, or the reason why it does not.
    changed = Signal()

    def __init__(self, desk: Desk, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.job = 0
        self.spec: dict[str, Any] | None = None
        self.trouble = ""
        self._asked = 0
        self._old = False

    def want(self, job: int) -> None:
        """Somebody looks at a job's file."""
        if job != self.job:
            self._forget()
            self.job, self.spec, self.trouble = job, None, ""
            self.changed.emit()
        if job and (self.spec is None or self._old) and not self._asked and self._desk.client.live:
            self._old = False
            self.trouble = ""
            self._asked = self._desk.client.ask(
                JobReq, self, self._came, self._failed, reply=JobReply, job=job, spec=True
            )

    def spoil(self) -> None:
        """It may have been changed; it is asked for again when it is next looked at."""
        self._old = True

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Its steps as the file has them."""
        found = self.spec.get("steps") if self.spec is not None else None
        return [step for step in found if isinstance(step, dict)] if isinstance(found, list) else []

    def _forget(self) -> None:
        if self._asked:
            self._desk.client.forget(self._asked)
            self._asked = 0

    def _came(self, reply: JobReply) -> None:
        self._asked = 0
        if reply.job.job != self.job:
            return
        try:
            found = msgspec.json.decode(reply.spec) if reply.spec else {}
        except (msgspec.DecodeError, RecursionError) as error:
            self.trouble = f"The job file of J{self.job} cannot be read: {error}"
        else:
            self.spec = found if isinstance(found, dict) else {}
            self.trouble = "" if self.spec else f"The farm keeps no job file of J{self.job}."
        self.changed.emit()

    def _failed(self, error: OvercrankError) -> None:
        self._asked = 0
        self.trouble = f"The job file of J{self.job} did not come: {error.message}"
        if error.hint:
            self.trouble += f"\n{error.hint}"
        self.changed.emit()
