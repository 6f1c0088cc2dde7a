"""What the client remembers between two starts, typed, in one place.

What belongs here: names, types and defaults of what is remembered, and the file it is kept in.  What may not:
what it means.

Values are JSON within an INI file, so that somebody can read and mend it.  They are written a second after
the last change and when the client ends; a file that cannot be read is put aside, never overwritten.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from PySide6.QtCore import QObject, QSettings, QTimer, Signal

T = TypeVar("T")

#: How long after the last change the file is written.
WRITE_AFTER_MS: Final = 1000
#: Of the file beside the farms' folders of options and keys.
FILE: Final = "gui.ini"


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """Something that is remembered.

    Attributes:
        name: Its key: ``jobs/filter``.
        default: What holds before anybody chose.
    """

    name: str
    default: T


#: How it looks: a name of ``style.theme.CHOICES``.
LOOK: Final = Setting("look/name", "system")
#: Whether states have colours that do not rest on telling red from green.
SAFE: Final = Setting("look/safe", False)
ZOOM: Final = Setting("look/zoom", 1.0)
DENSE: Final = Setting("look/dense", False)
#: Whether nothing moves by itself.
CALM: Final = Setting("look/calm", False)
#: Windows as they stood when the client ended, of ``shell.layout``.
WINDOWS: Final[Setting[list[Any]]] = Setting("windows/open", [])
#: Workspaces somebody saved: a layout by its name.
WORKSPACES: Final[Setting[dict[str, Any]]] = Setting("windows/workspaces", {})
#: Layouts of another version of the client; kept, since somebody may go back to it.
ASIDE: Final[Setting[list[Any]]] = Setting("windows/aside", [])


class Settings(QObject):
    """What is remembered; a value of another type than its default is taken for the default.

    Args:
        store: Where it is kept; None keeps it in memory, for tests and pictures.

    Attributes:
        trouble: Why what was remembered could not be read, or cannot be written; "" when it could.
    """

    #: The name of a setting that changed.
    changed = Signal(str)

    def __init__(self, store: QSettings | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.trouble = ""
        self._store = store
        self._values: dict[str, Any] = {}
        self._unwritten: set[str] = set()
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(WRITE_AFTER_MS)
        self._soon.timeout.connect(self.write)

    def get(self, setting: Setting[T]) -> T:
        """What was chosen, else the default."""
        found: Any = self._values.get(setting.name)
        if found is None and self._store is not None:
            text = self._store.value(setting.name)
            if isinstance(text, str):
                try:
                    found = json.loads(text)
                except ValueError:
                    found = None
        if isinstance(setting.default, float) and type(found) is int:
            found = float(found)
        # Written out, since True is an int to ``isinstance``.
        if found is None or type(found) is not type(setting.default):
            return copy.deepcopy(setting.default)
        self._values[setting.name] = found
        kept: T = copy.deepcopy(found)  # a list that somebody changes is not changed here
        return kept

    def set(self, setting: Setting[T], value: T) -> None:
        """Remembers a choice; it is in the file a second later."""
        if self.get(setting) == value:
            return
        self._values[setting.name] = copy.deepcopy(value)
        if self._store is not None:
            self._unwritten.add(setting.name)
            self._soon.start()
        self.changed.emit(setting.name)

    def write(self) -> bool:
        """Writes what changed now; whether all of it is in the file."""
        self._soon.stop()
        if self._store is None or not self._unwritten:
            return True
        if self._store.status() is not QSettings.Status.NoError:
            # An error sticks to what it came from.
            self._store = QSettings(self._store.fileName(), QSettings.Format.IniFormat)
        for name in self._unwritten:
            self._store.setValue(name, json.dumps(self._values[name]))
        self._store.sync()
        if self._store.status() is not QSettings.Status.NoError:
            self.trouble = f"{self._store.fileName()} cannot be written: choices last until the client ends"
            return False
        self._unwritten.clear()
        return True


def open_settings(path: Path, parent: QObject | None = None) -> Settings:
    """The settings of a file, which need not be there yet.

    One that cannot be read is put aside beside itself and said so in ``trouble``; everything is as if nobody
    had chosen yet.
    """
    trouble = ""
    problem = _problem(path)
    if problem:
        aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%d-%H%M%S')}")
        trouble = f"{path} cannot be read ({problem})"
        try:
            path.replace(aside)
            trouble += f": it was put aside as {aside.name}, and everything is as at first"
        except OSError:
            settings = Settings(None, parent)
            settings.trouble = f"{trouble}: choices last until the client ends"
            return settings
    settings = Settings(QSettings(str(path), QSettings.Format.IniFormat), parent)
    settings.trouble = trouble
    return settings


def _problem(path: Path) -> str:
    """Why a file is none of ours, "" when it is or when it is not there."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "it is no text"
    if "\0" in text:
        return "it is no text"
    found = QSettings(str(path), QSettings.Format.IniFormat)
    if found.status() is QSettings.Status.FormatError:
        return "it is no INI file"
    # A single value that is broken is taken for its default; a file of nothing else is not ours.
    names = found.allKeys()
    if text.strip() and not any(_is_json(found.value(name)) for name in names):
        return "it holds nothing the client has written"
    return ""


def _is_json(value: object) -> bool:
    try:
        json.loads(value if isinstance(value, str) else "")
    except ValueError:
        return False
    return True
