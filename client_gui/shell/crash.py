"""When something goes wrong within the client: it is written down, told, and offered at the next start.

What belongs here: the hooks, the report and what is blacked out in it.  What may not: showing it.

Nothing is ever sent anywhere: the report is a file that somebody may read, and attach to a mail.
"""

from __future__ import annotations

import faulthandler
import getpass
import platform
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from PySide6.QtCore import QObject, Qt, Signal, qVersion

from farm import __version__

#: Of the file in the folder of what farms remember here.
REPORT: Final = "gui-report.txt"
_FAULT: Final = "gui-fault.txt"
#: The report is cut to its last part when it grows beyond this.
_MOST_BYTES: Final = 256 * 1024
#: Equal errors are written once, and told once.
_MOST_TOLD: Final = 20
#: Whatever could hold a key as Z85 writes it: forty characters of these or more.
_RUN: Final = re.compile(r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40,}")
#: Characters that keys are full of and paths are not.
_ODD: Final = frozenset("+^!*?&<>()[]{}@%$#")
_TOKEN: Final = re.compile(r"\b(token|secret|password|key)(\s*[=:]\s*)\S+", re.IGNORECASE)


class Crashes(QObject):
    """Notes errors nobody has caught.

    Args:
        folder: Where the report is written.
    """

    #: An error was noted: one line of it.  Comes in the thread of the window.
    noted = Signal(str)
    _from_anywhere = Signal(str)

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder
        self._known: set[str] = set()
        self._before: tuple[Callable[..., object], Callable[..., object]] | None = None
        self._fault: IO[str] | None = None
        self._fault_was_on = False
        self._from_anywhere.connect(self.noted, Qt.ConnectionType.QueuedConnection)

    @property
    def report(self) -> Path:
        """The file of the report."""
        return self._folder / REPORT

    def install(self) -> str:
        """Begins to note; returns the report of the last time, "" when it ended well."""
        left = self.take_left()
        self._before = (sys.excepthook, threading.excepthook)
        sys.excepthook = self._hook
        threading.excepthook = lambda found: self._hook(
            found.exc_type, found.exc_value, found.exc_traceback, found.thread.name if found.thread else ""
        )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._fault = (self._folder / _FAULT).open("w", encoding="utf-8")
        except OSError:
            self._fault = None
        else:
            self._fault_was_on = faulthandler.is_enabled()
            faulthandler.enable(self._fault, all_threads=True)
        return left

    def remove(self) -> None:
        """Ends noting: the client ends well."""
        if self._before is not None:
            sys.excepthook, threading.excepthook = self._before
            self._before = None
        if self._fault is not None:
            faulthandler.disable()
            if self._fault_was_on and sys.__stderr__ is not None:
                faulthandler.enable(sys.__stderr__)
            self._fault.close()
            self._fault = None
            (self._folder / _FAULT).unlink(missing_ok=True)

    def take_left(self) -> str:
        """What the last run left, both of errors and of a sudden end; it is not offered again."""
        parts: list[str] = []
        for name in (REPORT, _FAULT):
            path = self._folder / name
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if text.strip():
                parts.append(redacted(text))
            try:
                path.replace(path.with_name(f"{path.stem}-last{path.suffix}"))
            except OSError:
                pass
        if not parts:
            return ""
        return about_text() + "\n" + "\n".join(parts)

    def note(self, error: BaseException, where: str = "") -> None:
        """Notes an error."""
        self._hook(type(error), error, error.__traceback__, where)

    def _hook(
        self,
        kind: type[BaseException],
        error: BaseException | None,
        trace: TracebackType | None,
        where: str = "",
    ) -> None:
        if issubclass(kind, KeyboardInterrupt | SystemExit):
            sys.__excepthook__(kind, error or kind(), trace)
            return
        text = "".join(traceback.format_exception(kind, error, trace))
        place = traceback.format_tb(trace)[-1:] if trace is not None else []
        mark = f"{kind.__name__}{place}"
        sys.stderr.write(text)
        if mark in self._known or len(self._known) >= _MOST_TOLD:
            return
        self._known.add(mark)
        head = time.strftime("%Y-%m-%d %H:%M:%S") + (f" in the thread {where}" if where else "")
        self._write(f"{head}\n{redacted(text)}\n")
        self._from_anywhere.emit(f"{kind.__name__}: {error}"[:200])

    def _write(self, text: str) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self.report.exists() and self.report.stat().st_size > _MOST_BYTES:
                return
            with self.report.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError:
            pass  # there is nowhere to write it; standard error has it


def about_text() -> str:
    """Versions, for the head of a report and for Help > About."""
    import PySide6

    return (
        f"Overcrank {__version__}\nPython {platform.python_version()}\nQt {qVersion()}, "
        f"PySide6 {PySide6.__version__}\n{platform.platform()}\n"
    )


def redacted(text: str) -> str:
    """A text without what is nobody's business: keys, tokens, the user's name, home, and machine."""
    found = _RUN.sub(lambda one: "<key>" if sum(c in _ODD for c in one[0]) >= 3 else one[0], text)
    found = _TOKEN.sub(r"\1\2<hidden>", found)
    home = str(Path.home())
    if len(home) > 1:
        found = found.replace(home, "~")
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = ""
    for name, word in ((user, "<user>"), (socket.gethostname(), "<machine>")):
        if len(name) > 2:
            found = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", word, found)
    return found
