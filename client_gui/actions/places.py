"""Paths of files and their folder: for the clipboard, and to be opened on this machine.

What belongs here: asking the farm where files are, and whether this machine can reach them, while the window
waits for no disk.  What may not: reading files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PureWindowsPath

from PySide6.QtCore import QObject, QRunnable, QThreadPool, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication

from client_gui.actions.fields import read_spec
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.store.activity import Level
from farm.model.errors import OvercrankError
from farm.protocol.client import FramesReply, FramesReq, JobReply, JobReq
from farm.sdk.words import plural

#: So many paths are copied at once.
PATHS_MOST = 5000


class _Found(QObject):
    """Carries an answer from a worker."""

    told = Signal(str, bool)


class _Look(QRunnable):
    """Looks whether a folder is there: a server that hangs must not hang the window."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.found = _Found()
        self._folder = folder

    def run(self) -> None:
        """Looks; in a worker's thread."""
        try:
            there = Path(self._folder).is_dir()
        except (OSError, ValueError):
            there = False
        try:
            self.found.told.emit(self._folder, there)
        except RuntimeError:  # the window is gone
            pass


class Places(QObject):
    """Where files are.

    Args:
        client: The farm.
        notices: Who is told.
    """

    def __init__(self, client: FarmClient, notices: Notices, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._notices = notices
        self._looks: dict[str, _Look] = {}
        #: Opens a folder; tests put their own here.
        self.open: Callable[[str], bool] = lambda folder: QDesktopServices.openUrl(QUrl.fromLocalFile(folder))

    def open_folder(self, address: str) -> None:
        """Opens the folder of the finished files of something."""
        self._ask_files(address, 1, self._opened)

    def copy_paths(self, addresses: tuple[str, ...]) -> None:
        """Copies the paths of finished files of frames."""
        paths: list[str] = []
        left = set(addresses)

        def take(address: str, files: list[str]) -> None:
            paths.extend(files)
            left.discard(address)
            if not left:
                self._copied(paths, addresses[0] if len(addresses) == 1 else "")

        for address in addresses:
            self._ask_files(address, PATHS_MOST, take)

    def copy_patterns(self, jobs: tuple[int, ...], steps: frozenset[tuple[int, str]] | None = None) -> None:
        """Copies the patterns of the files that jobs, or some of their steps, write.

        Args:
            jobs: Their numbers.
            steps: Job and name of the steps that are meant; None = all of them.
        """
        found: dict[int, list[str]] = {}

        def take(reply: JobReply) -> None:
            spec, job = read_spec(reply.spec), reply.job.job
            found[job] = [
                output.pattern
                for step in (spec.steps if spec is not None else ())
                if steps is None or (job, step.name) in steps
                for output in step.outputs
            ]
            if len(found) == len(jobs):
                patterns = [pattern for one in jobs for pattern in found.get(one, ())]
                self._copied(patterns, f"J{jobs[0]}" if len(jobs) == 1 else "")

        for job in jobs:
            self._client.ask(JobReq, self, take, self._failed, reply=JobReply, job=job, spec=True)

    # -- inside --

    def _failed(self, error: OvercrankError) -> None:
        self._notices.error(error, "look where the files are")

    def _ask_files(self, address: str, most: int, take: Callable[[str, list[str]], None]) -> None:
        def answered(reply: FramesReply) -> None:
            take(address, [path for rows in reply.steps.values() for row in rows for path in row.files])

        self._client.ask(
            FramesReq,
            self,
            answered,
            self._failed,
            reply=FramesReply,
            address=address,
            states=("done",),
            limit=most,
        )

    def _copied(self, paths: list[str], about: str) -> None:
        if not paths:
            self._notices.say("There are no files yet: no path was copied", Level.WARNING, about=about)
            return
        QGuiApplication.clipboard().setText("\n".join(paths))
        self._notices.say(
            paths[0] if len(paths) == 1 else f"Copied {plural(len(paths), 'path')}", about=about
        )

    def _opened(self, address: str, files: list[str]) -> None:
        if not files:
            self._notices.say(f"Nothing of {address} is done: it has no files yet", Level.WARNING)
            return
        folder = folder_of(files[0])
        look = _Look(folder)
        look.setAutoDelete(False)
        self._looks[folder] = look
        look.found.told.connect(self._looked)
        QThreadPool.globalInstance().start(look)

    def _looked(self, folder: str, there: bool) -> None:
        self._looks.pop(folder, None)
        if not there:
            self._notices.say(
                f"{folder} cannot be reached from this machine",
                Level.WARNING,
                hint="the path is the farm's; is the share mounted here, and under the same name?",
            )
        elif not self.open(folder):
            self._notices.say(f"This desktop could not open {folder}", Level.WARNING)


def folder_of(path: str) -> str:
    """The folder of a path as its own system writes it."""
    if "\\" in path or path[1:2] == ":":
        return str(PureWindowsPath(path).parent)
    return path.rpartition("/")[0] or "/"
