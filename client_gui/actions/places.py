"""Paths of files and their folder: for the clipboard, and to be opened on this machine.

What belongs here: asking the farm where files are, and whether this machine can reach them, while the window
waits for no disk.  What may not: reading files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PureWindowsPath

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication

from client_gui.actions.fields import read_spec
from client_gui.lanes import Lane
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.store.activity import Level
from farm.model.errors import OvercrankError
from farm.protocol.client import FramesReply, FramesReq, JobReply, JobReq
from farm.sdk.words import plural

#: So many paths are copied at once.
PATHS_MOST = 5000


class _Gathering:
    """Answers of several requests, each of which may be refused.

    Args:
        wanted: How many were asked.
        say: Is told the first refusal, when all is there; the others would say the same.
    """

    def __init__(self, wanted: int, say: Callable[[OvercrankError], None]) -> None:
        self._left = wanted
        self._say = say
        self.errors: list[OvercrankError] = []
        #: Called when nothing is missing any more.
        self.done: Callable[[], None] = lambda: None

    def came(self) -> None:
        """One was answered."""
        self._left -= 1
        if not self._left:
            if self.errors:
                self._say(self.errors[0])
            self.done()

    def refused(self, error: OvercrankError) -> None:
        """One was refused."""
        self.errors.append(error)
        self.came()


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
        # Its threads are daemons: a server that hangs must not keep the window from closing either.  A few at
        # once, so that a folder that is there opens while another one is waited for.
        self._lane = Lane(4)
        #: Whether a folder is there, asked in a worker's thread; tests put their own here.
        self.there: Callable[[str], bool] = _there
        #: Opens a folder; tests put their own here.
        self.open: Callable[[str], bool] = lambda folder: QDesktopServices.openUrl(QUrl.fromLocalFile(folder))

    def open_folder(self, address: str) -> None:
        """Opens the folder of the finished files of something."""
        self._ask_files(address, 1, self._opened, self._failed)

    def copy_paths(self, addresses: tuple[str, ...]) -> None:
        """Copies the paths of finished files of frames; one that is refused keeps no others back."""
        found: dict[str, list[str]] = {}
        gathering = _Gathering(len(set(addresses)), self._failed)

        def done() -> None:
            paths = [path for one in dict.fromkeys(addresses) for path in found.get(one, ())]
            self._copied(paths, addresses[0] if len(addresses) == 1 else "", gathering)

        gathering.done = done

        def take(address: str, files: list[str]) -> None:
            found[address] = files
            gathering.came()

        for address in dict.fromkeys(addresses):
            self._ask_files(address, PATHS_MOST, take, gathering.refused)

    def copy_patterns(self, jobs: tuple[int, ...], steps: frozenset[tuple[int, str]] | None = None) -> None:
        """Copies the patterns of the files that jobs, or some of their steps, write.

        Args:
            jobs: Their numbers.
            steps: Job and name of the steps that are meant; None = all of them.
        """
        found: dict[int, list[str]] = {}
        gathering = _Gathering(len(set(jobs)), self._failed)

        def done() -> None:
            patterns = [pattern for one in dict.fromkeys(jobs) for pattern in found.get(one, ())]
            self._copied(patterns, f"J{jobs[0]}" if len(jobs) == 1 else "", gathering)

        gathering.done = done

        def take(reply: JobReply) -> None:
            spec, job = read_spec(reply.spec), reply.job.job
            found[job] = [
                output.pattern
                for step in (spec.steps if spec is not None else ())
                if steps is None or (job, step.name) in steps
                for output in step.outputs
            ]
            gathering.came()

        for job in dict.fromkeys(jobs):
            self._client.ask(JobReq, self, take, gathering.refused, reply=JobReply, job=job, spec=True)

    # -- inside --

    def _failed(self, error: OvercrankError) -> None:
        self._notices.error(error, "look where the files are")

    def _ask_files(
        self,
        address: str,
        most: int,
        take: Callable[[str, list[str]], None],
        refused: Callable[[OvercrankError], None],
    ) -> None:
        def answered(reply: FramesReply) -> None:
            take(address, [path for rows in reply.steps.values() for row in rows for path in row.files])

        self._client.ask(
            FramesReq,
            self,
            answered,
            refused,
            reply=FramesReply,
            address=address,
            states=("done",),
            limit=most,
        )

    def _copied(self, paths: list[str], about: str, gathering: _Gathering) -> None:
        if not paths and gathering.errors:
            return  # it was said why
        if not paths:
            self._notices.say("There are no files yet: no path was copied", Level.WARNING, about=about)
            return
        QGuiApplication.clipboard().setText("\n".join(paths))
        missing = f"; of {len(gathering.errors)} more the farm told none" if gathering.errors else ""
        words = paths[0] if len(paths) == 1 else f"Copied {plural(len(paths), 'path')}"
        self._notices.say(f"{words}{missing}", Level.WARNING if missing else Level.INFO, about=about)

    def _opened(self, address: str, files: list[str]) -> None:
        if not files:
            self._notices.say(f"Nothing of {address} is done: it has no files yet", Level.WARNING)
            return
        folder = folder_of(files[0])
        self._lane.run(lambda _: self.there(folder), self, lambda there: self._looked(folder, there))

    def _looked(self, folder: str, there: bool) -> None:
        if not there:
            self._notices.say(
                f"{folder} cannot be reached from this machine",
                Level.WARNING,
                hint="the path is the farm's; is the share mounted here, and under the same name?",
            )
        elif not self.open(folder):
            self._notices.say(f"This desktop could not open {folder}", Level.WARNING)


def _there(folder: str) -> bool:
    """In a worker: whether a folder is there."""
    try:
        return Path(folder).is_dir()
    except (OSError, ValueError):
        return False


def folder_of(path: str) -> str:
    """The folder of a path as its own system writes it."""
    if "\\" in path or path[1:2] == ":":
        return str(PureWindowsPath(path).parent)
    return path.rpartition("/")[0] or "/"
