"""Opening: files and jobs of the farm are read beside the window and come back as what was opened.

What belongs here: the reading under way, stopping it, and choosing files.  What may not: what a file is
(``inputs``), and drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from client_gui.desk import Desk
from client_gui.views.submit_parts.inputs import Opened, open_job, open_paths
from client_gui.views.submit_parts.tasks import Task, Tasks
from farm.model.errors import OvercrankError
from farm.protocol.client import JobReply, JobReq


class Opener(QObject):
    """Reads what is to be opened."""

    #: A list of ``Opened``.
    opened = Signal(object)
    #: What is being read, "" when nothing is any more.
    busy = Signal(str)

    def __init__(self, desk: Desk, tasks: Tasks, parent: QObject) -> None:
        super().__init__(parent)
        self._desk = desk
        self._tasks = tasks
        self._open: set[Task] = set()

    def paths(self, paths: Sequence[str]) -> None:
        """Reads files and folders."""
        absolute = [str(Path(path).absolute()) for path in paths]
        farm = self._desk.client.farm or None
        self._run(lambda stopped: open_paths(absolute, farm, stopped), f"Reading {_names(absolute)}…", "open")

    def job(self, job: int, step: str = "", frames: str = "") -> None:
        """Reads a job of the farm, or part of it."""

        def made(reply: JobReply) -> None:
            archived = reply.job.state == "archived"
            self._run(
                lambda stopped: [open_job(reply.spec, job, step, frames, archived=archived)],
                f"Reading J{job}…",
                f"do J{job} again",
            )

        def failed(error: OvercrankError) -> None:
            self._desk.notices.error(error, f"read J{job}")

        self._desk.client.ask(JobReq, self, made, failed, reply=JobReply, job=job, spec=True)

    def stop(self) -> None:
        """Does not wait any more for what is being read."""
        for task in self._open:
            task.stop()
        self._open.clear()
        self.busy.emit("")

    def ask(self, parent: QWidget) -> None:
        """Lets somebody choose files."""
        dialog = QFileDialog(parent, "Open scenes, clips, pictures or job files")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.filesSelected.connect(self.paths)
        dialog.open()

    def _run(self, work: Callable[[Callable[[], bool]], list[Opened]], words: str, doing: str) -> None:
        def done(found: list[Opened]) -> None:
            self._end(task)
            self.opened.emit(found)

        def failed(error: OvercrankError) -> None:
            self._end(task)
            self._desk.notices.error(error, doing)

        task = self._tasks.run(work, done, failed)
        self._open.add(task)
        self.busy.emit(words)

    def _end(self, task: Task) -> None:
        self._open.discard(task)
        if not self._open:
            self.busy.emit("")


def _names(paths: Sequence[str]) -> str:
    first = Path(paths[0]).name if paths else ""
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"
