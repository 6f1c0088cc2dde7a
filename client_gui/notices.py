"""What happened, told to whoever shows it.

What belongs here: ``store.Activity`` with a signal.  What may not: how toasts look.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from client_gui.store.activity import Activity, Level, Notice
from farm.model.errors import OvercrankError


class Notices(QObject):
    """What happened.

    Attributes:
        activity: The last notices.
    """

    #: A ``Notice`` came, or one was counted up.
    came = Signal(object)

    def __init__(self, clock_us: Callable[[], int], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.activity = Activity()
        self._clock_us = clock_us

    def say(
        self, text: str, level: Level = Level.INFO, *, hint: str = "", about: str = "", undo: int = 0
    ) -> Notice:
        """Takes note of something and tells."""
        notice = self.activity.add(level, text, self._clock_us(), hint=hint, about=about, undo=undo)
        self.came.emit(notice)
        return notice

    def error(self, error: OvercrankError, doing: str = "") -> Notice:
        """Takes note of an error; ``doing`` says what could not be done: ``pause J12``."""
        text = f"could not {doing}: {error.message}" if doing else error.message
        return self.say(text, Level.ERROR, hint=error.hint)
