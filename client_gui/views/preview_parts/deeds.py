"""What can be done with a frame besides looking at it: its menu, its files, its picture elsewhere.

What belongs here: these.  What may not: which frame that is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QImage
from PySide6.QtWidgets import QMenu, QWidget

from client_gui.desk import Desk
from client_gui.lanes import Lane
from client_gui.store.activity import Level
from farm.media.files import MOVIE_SUFFIXES, PICTURE_SUFFIXES
from farm.model.errors import OvercrankError

#: Said when a path of the farm leads nowhere on this machine.
MAPPING_HINT = (
    "the farm wrote it under this path; on this machine the folder may have another name, or not be mounted."
    " Copy the path, or ask whoever keeps the path rules"
)

#: Files that are handed to the desktop; what else a job has written might be run by it: a script, a program.
SHOWN_SUFFIXES: Final = (
    PICTURE_SUFFIXES
    | MOVIE_SUFFIXES
    | {".txt", ".log", ".json", ".csv", ".md", ".wav", ".flac", ".aif", ".aiff", ".mp3", ".ogg"}
)


class PreviewDeeds(QObject):
    """What can be done with the frame a view shows.

    Args:
        desk: Notices.
        files: Asked for the paths of its finished files.
        picture: Asked for its picture.
        act: Does something of the view by its id.
    """

    def __init__(
        self,
        desk: Desk,
        files: Callable[[], tuple[str, ...]],
        picture: Callable[[], QImage | None],
        act: Callable[[str], bool],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._files = files
        self._picture = picture
        self._act = act
        self._lane = Lane()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.menu = QMenu(parent)
        self.menu.aboutToShow.connect(self._fill)

    def _fill(self) -> None:
        self.menu.clear()
        files = self._files()
        entries: list[tuple[str, Callable[[], object], bool]] = [
            ("Open the finished file\tShift+V", self.open_file, bool(files)),
            ("Open its folder\tO", self.open_folder, bool(files)),
            ("Copy path\tCtrl+Shift+C", self.copy_path, bool(files)),
            ("Open this preview with another program", self.open_preview, self._picture() is not None),
            ("Copy this preview", self.copy_preview, self._picture() is not None),
            ("Hold to compare", lambda: self._act("hold"), self._picture() is not None),
        ]
        for text, do, possible in entries:
            entry = self.menu.addAction(text)
            entry.setEnabled(possible)
            entry.triggered.connect(lambda _=False, do=do: do())

    def copy_path(self) -> None:
        """Puts the paths of the finished files into the clipboard."""
        files = self._files()
        if not files:
            self._desk.notices.say("this frame has no finished files yet", Level.WARNING)
            return
        QGuiApplication.clipboard().setText("\n".join(files))
        self._desk.notices.say(f"copied {files[0]}" + (f" and {len(files) - 1} more" if files[1:] else ""))

    def copy_preview(self) -> None:
        """Puts the picture into the clipboard."""
        image = self._picture()
        if image is not None:
            QGuiApplication.clipboard().setImage(image)
            self._desk.notices.say("copied the preview")

    def open_file(self) -> None:
        """Opens the finished file with the program this machine has for it."""
        self._open(folder=False)

    def open_folder(self) -> None:
        """Opens the folder of the finished file."""
        self._open(folder=True)

    def _open(self, *, folder: bool) -> None:
        files = self._files()
        if not files:
            self._desk.notices.say("this frame has no finished files yet", Level.WARNING)
            return
        path = files[0]
        # Whether it is there is asked in a worker: a file server that is away answers after minutes.
        if not folder and Path(path).suffix.lower() not in SHOWN_SUFFIXES:
            self._desk.notices.say(
                f"{path} is no picture, film or text: its folder is opened instead",
                hint="what else a job has written may be a program, which opening would start",
            )
            folder = True
        self._lane.run(
            lambda _: _reachable(path, folder=folder), self, lambda found: self._found(path, found)
        )

    def _found(self, path: str, found: str) -> None:
        if not found:
            self._desk.notices.say(
                f"{path} cannot be reached from this machine", Level.WARNING, hint=MAPPING_HINT
            )
        elif not QDesktopServices.openUrl(QUrl.fromLocalFile(found)):
            self._desk.notices.say(f"this machine has no program that opens {found}", Level.WARNING)

    def open_preview(self) -> None:
        """Opens the preview itself with the program this machine has for pictures."""
        image = self._picture()
        if image is None:
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="overcrank-", ignore_cleanup_errors=True)
            self.destroyed.connect(self._folder.cleanup)
        path = str(Path(self._folder.name) / "preview.png")
        self._lane.run(lambda _: image.save(path), self, lambda _: self._found(path, path), self._failed)

    def _failed(self, error: OvercrankError) -> None:
        self._desk.notices.error(error, "open the preview")


def _reachable(path: str, *, folder: bool) -> str:
    """In a worker: what can be opened here, "" for nothing."""
    wanted = Path(path).parent if folder else Path(path)
    try:
        return str(wanted) if wanted.is_absolute() and wanted.exists() else ""
    except (OSError, ValueError):
        return ""
