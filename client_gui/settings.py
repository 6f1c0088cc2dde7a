"""What the client remembers between two starts, typed, in one place.

What belongs here: names, types and defaults of what is remembered.  What may not: what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, QSettings, Signal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """Something that is remembered.

    Attributes:
        name: Its key: ``jobs/filter``.
        default: What holds before anybody chose.
    """

    name: str
    default: T


class Settings(QObject):
    """What is remembered; a value of another type than its default is taken for the default.

    Args:
        store: Where it is kept; None keeps it in memory, for tests and pictures.
    """

    #: The name of a setting that changed.
    changed = Signal(str)

    def __init__(self, store: QSettings | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._values: dict[str, Any] = {}

    def get(self, setting: Setting[T]) -> T:
        """What was chosen, else the default."""
        import json

        found: Any = self._values.get(setting.name)
        if found is None and self._store is not None:
            text = self._store.value(setting.name)
            if isinstance(text, str):
                try:
                    found = json.loads(text)
                except ValueError:
                    found = None
        if found is None or not isinstance(found, type(setting.default)):
            return setting.default
        kept: T = found
        return kept

    def set(self, setting: Setting[T], value: T) -> None:
        """Remembers a choice."""
        import json

        if self.get(setting) == value:
            return
        self._values[setting.name] = value
        if self._store is not None:
            self._store.setValue(setting.name, json.dumps(value))
        self.changed.emit(setting.name)
