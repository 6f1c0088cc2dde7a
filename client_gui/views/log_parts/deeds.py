"""What can be done with a log besides reading it: its menu, copying, saving, opening elsewhere, comparing.

What belongs here: these, for the attempt a view shows.  What may not: which attempt that is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QObject, QPoint, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from client_gui.desk import Desk
from client_gui.settings import Setting
from client_gui.store.activity import Level as Told
from client_gui.views.log_parts.document import LogId
from client_gui.views.log_parts.reader import LogReader
from client_gui.views.log_parts.saving import Saving

FIGURES: Final = Setting("log/compare-figures", False)


class LogDeeds(QObject):
    """What can be done with the log a reader shows.

    Args:
        desk: Notices, settings.
        reader: Whose log.
        others: Asked for logs it can be compared with: what they are called, and what compares with them.
        act: Does something by its id.
    """

    def __init__(
        self,
        desk: Desk,
        reader: LogReader,
        others: Callable[[], list[tuple[str, Callable[[], object]]]],
        act: Callable[[str], bool],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._reader = reader
        self._others = others
        self._act = act
        self._window = parent
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.menu = QMenu(parent)
        self.menu.aboutToShow.connect(self._fill)

    @property
    def log(self) -> LogId | None:
        """The log that is shown."""
        return self._reader.document.log if self._reader.document is not None else None

    def command(self) -> str:
        """The command that prints it."""
        farm = self._desk.client.farm
        return f"farm --farm {farm} log {self.log}" if farm else f"farm log {self.log}"

    def copy_text(self, text: str, what: str) -> None:
        """Puts something into the clipboard and says so."""
        QGuiApplication.clipboard().setText(text)
        self._desk.notices.say(f"copied the {what} {text}")

    # -- the menu --

    def open_menu(self, place: QPoint) -> None:
        """Opens the menu at a place of the screen."""
        self.menu.popup(place)

    def _fill(self) -> None:
        self.menu.clear()
        shown = self.log is not None
        self._entry("Copy", self._reader.copy, shown)
        self._entry("Copy address", partial(self._act, "copy-id"), shown)
        self._entry("Copy command\tCtrl+Shift+C", partial(self._act, "copy-command"), shown)
        self._entry("Go to line…\tCtrl+G", partial(self._act, "go-to-line"), shown)
        self._entry("Save as…\tCtrl+S", self.ask_where, shown)
        self._entry("Open with another program", self.open_outside, shown)
        self.menu.addSeparator()
        others = self.menu.addMenu("Compare with")
        for text, compare in self._others():
            others.addAction(text.replace("&", "&&")).triggered.connect(
                lambda _=False, compare=compare: compare()
            )
        others.setEnabled(not others.isEmpty())
        figures = self.menu.addAction("Times and figures count when comparing")
        figures.setCheckable(True)
        figures.setChecked(self._desk.settings.get(FIGURES))
        figures.toggled.connect(lambda on: self._desk.settings.set(FIGURES, on))
        if self._reader.comparing is not None:
            self._entry("End comparing\tEsc", self._reader.end_compare, True)

    def _entry(self, text: str, do: Callable[[], object], possible: bool) -> None:
        entry = self.menu.addAction(text)
        entry.setEnabled(possible)
        entry.triggered.connect(lambda _=False: do())

    # -- files --

    def ask_where(self) -> None:
        """Asks for a file to save it as; nothing waits for the answer."""
        if self.log is None:
            return
        dialog = QFileDialog(self._window, "Save the log")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.selectFile(self._file_name())
        dialog.fileSelected.connect(self.save_to)
        dialog.open()

    def save_to(self, path: str) -> None:
        """Saves the whole log, in the background."""
        saving = self._save(path)
        if saving is not None:
            saving.done.connect(lambda where: self._desk.notices.say(f"saved the log as {where}"))

    def open_outside(self) -> None:
        """Opens the log with the program this machine has for it."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="overcrank-", ignore_cleanup_errors=True)
            self.destroyed.connect(self._folder.cleanup)
        saving = self._save(str(Path(self._folder.name) / self._file_name()))
        if saving is not None:
            saving.done.connect(self._open)

    def _file_name(self) -> str:
        return f"{self.log}".replace("/", "-").replace("@", "-") + ".log"

    def _open(self, path: str) -> None:
        if not QDesktopServices.openUrl(QUrl.fromLocalFile(path)):
            self._desk.notices.say("this machine has no program that opens logs", Told.WARNING, hint=path)

    def _save(self, path: str) -> Saving | None:
        document = self._reader.document
        if document is None:
            return None
        name = f"save the log {document.log}"
        saving = Saving(document, path, self)
        saving.failed.connect(lambda error: self._desk.notices.error(error, name))
        saving.progressed.connect(self._reader.say_saving)
        return saving
