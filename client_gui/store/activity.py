"""What happened, newest last: notices, actions and their results, kept after their toast has faded.

What belongs here: a ring of notices, equal ones in a row told once.  What may not: how they are shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

#: So many notices are kept.
MOST: Final = 2000


class Level(StrEnum):
    """How much a notice matters."""

    INFO = "info"
    #: Something that was asked for is done.
    DONE = "done"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened.

    Attributes:
        number: Counts up; never given twice.
        at_us: When, the last time.
        level: How much it matters.
        text: What, in a sentence.
        hint: What to do about it, "" when nothing.
        about: Address or node it concerns, "" for none.
        times: How often it happened in a row.
        undo: Number of the undo that takes it back, 0 for none.
    """

    number: int
    at_us: int
    level: Level
    text: str
    hint: str = ""
    about: str = ""
    times: int = 1
    undo: int = 0


class Activity:
    """The last notices.

    Attributes:
        unseen: How many warnings and errors came since ``seen`` was called.
        version: Counts up with every change.
    """

    def __init__(self, most: int = MOST) -> None:
        self._kept: deque[Notice] = deque(maxlen=most)
        self._next = 1
        self.unseen = 0
        self.version = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Notice]:
        return iter(self._kept)

    def add(
        self, level: Level, text: str, at_us: int, *, hint: str = "", about: str = "", undo: int = 0
    ) -> Notice:
        """Adds a notice; one that says what the last one said counts it up instead."""
        self.version += 1
        if level in (Level.WARNING, Level.ERROR):
            self.unseen += 1
        last = self._kept[-1] if self._kept else None
        notice = Notice(self._next, at_us, level, text, hint, about, undo=undo)
        if last is not None and not undo:
            again = replace(notice, number=last.number, times=last.times)
            if again == replace(last, at_us=at_us):
                self._kept[-1] = replace(again, times=last.times + 1)
                return self._kept[-1]
        self._next += 1
        self._kept.append(notice)
        return notice

    def seen(self) -> None:
        """Somebody has looked."""
        self.unseen = 0

    def find(
        self, text: str = "", levels: frozenset[Level] = frozenset(Level), about: str = ""
    ) -> list[Notice]:
        """Notices that have a text, are of some levels and concern something, newest first."""
        wanted = text.casefold()
        return [
            notice
            for notice in reversed(self._kept)
            if notice.level in levels
            and (not about or notice.about == about or notice.about.startswith(about + "/"))
            and (wanted in notice.text.casefold() or wanted in notice.hint.casefold())
        ]
