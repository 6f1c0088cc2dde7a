"""Saving a draft as a job file: asking where, writing beside the window, and knowing what is saved.

What belongs here: the file of a draft.  What may not: how a file is written (``inputs``), and drafts on disk
(``outbox``).
"""

from __future__ import annotations

import re
from typing import Any, Final

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from client_gui.notices import Notices
from client_gui.store.activity import Level
from client_gui.store.draft import Draft
from client_gui.views.submit_parts.inputs import write_job_file
from client_gui.views.submit_parts.tasks import Tasks
from farm.model.errors import OvercrankError

#: What no system takes in a file's name, or takes for a folder, a drive or an option.
_NOT_IN_NAMES: Final = re.compile(r'[\\/:*?"<>|]+')
#: More than this many bytes is too long for some file systems.
_LONGEST: Final = 120
#: What Windows takes for a device, whatever stands behind the dot.
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", re.IGNORECASE)


def file_name(name: str) -> str:
    """The file that is offered for a job of a name: in the folder that is shown, visible, and no option.

    Names of jobs are whatever somebody typed, or a file that came from elsewhere says.
    """
    found = "".join(char if char.isprintable() else " " for char in name)
    found = _NOT_IN_NAMES.sub("-", found).strip().lstrip(".-~ ").rstrip(". ")
    found = found.encode("utf-8", "ignore")[:_LONGEST].decode("utf-8", "ignore").rstrip(". ")
    if _DEVICES.match(found):
        found = f"job-{found}"
    return f"{found or 'job'}.json"


class Saving(QObject):
    """Files of drafts."""

    #: A draft was saved.
    saved = Signal()

    def __init__(self, notices: Notices, tasks: Tasks, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._notices = notices
        self._tasks = tasks
        #: By draft: its revision when it was saved, and where.
        self._saved: dict[str, tuple[int, str]] = {}

    def file_of(self, draft: Draft) -> str:
        """The file that has the draft as it is now, "" for none."""
        revision, path = self._saved.get(draft.id, (-1, ""))
        return path if revision == draft.revision else ""

    def ask(self, draft: Draft, parent: QWidget) -> None:
        """Lets somebody choose where the job file goes."""
        dialog = QFileDialog(parent, "Save as job file")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("json")
        dialog.setNameFilter("Job files (*.json)")
        dialog.selectFile(file_name(draft.name))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.save(draft, path))
        dialog.open()

    def save(self, draft: Draft, path: str) -> None:
        """Writes a draft as a job file, as it is."""
        document, name, revision = draft.as_json(), draft.id, draft.revision

        def saved(_result: Any) -> None:
            self._saved[name] = (revision, path)
            self._notices.say(f"saved {path}", Level.DONE)
            self.saved.emit()

        def failed(error: OvercrankError) -> None:
            self._notices.error(error, "save the job file")

        self._tasks.run(lambda stopped: write_job_file(path, document), saved, failed)
