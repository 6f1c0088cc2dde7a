"""What somebody marked jobs with, as a column shows it: stars, bells, colours.

What belongs here: the record and the column.  What may not: setting marks (``client_gui.actions``), and how
they are painted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from client_gui.models.column import Paint, Reading, Shown


class MarkBook(Protocol):
    """Who knows the marks of jobs."""

    def starred(self, job: int) -> bool:
        """Whether a job has a star."""
        ...

    def belled(self, job: int) -> bool:
        """Whether somebody wants to be told of a job."""
        ...

    def colour(self, job: int) -> int:
        """The colour of a job, 1 to 9; 0 for none."""
        ...


@dataclass(frozen=True, slots=True)
class Marks:
    """What a job is marked with.

    Attributes:
        star, bell: Whether it has them.
        colour: 1 to 9, 0 for none.
    """

    star: bool = False
    bell: bool = False
    colour: int = 0

    def __bool__(self) -> bool:
        return self.star or self.bell or self.colour > 0

    @property
    def words(self) -> str:
        """What they are, in words."""
        found = [word for there, word in ((self.star, "star"), (self.bell, "bell")) if there]
        return ", ".join([*found, *([f"colour {self.colour}"] if self.colour else [])])


def marks_shown(book: MarkBook) -> Shown:
    """The column of marks."""

    def marks(reading: Reading, slot: int) -> Marks:
        job = reading.number(slot, "job")
        return Marks(book.starred(job), book.belled(job), book.colour(job))

    def words(reading: Reading, slot: int) -> str:
        return marks(reading, slot).words

    return Shown(
        "marks",
        "",
        ("job",),
        lambda reading, slot: "",
        "Your marks: star, bell, colour",
        paint=Paint.MARKS,
        value=marks,
        tip=words,
        spoken=words,
        width=2.6,
    )
