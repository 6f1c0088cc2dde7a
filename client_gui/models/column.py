"""A column of a table as a record: what it says, how it is painted, what it is sorted by.

What belongs here: the record, and reading a row or a group of rows for it.  What may not: which columns there
are (``job_columns``, ``step_columns``, ``node_columns``), and painting (``client_gui.delegates``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Any, Final

from client_gui.store.groups import Grouping, Groups
from client_gui.store.table import Slots, Table

#: Shown where there is nothing to show.
NOTHING: Final = "—"


class Reading:
    """A table as columns read it: values by slot, and what time it is.

    Attributes:
        table: The rows.
        now_us: Now; set anew by whoever shows the rows.
        zone: The time zone of whoever reads.
    """

    __slots__ = ("now_us", "table", "zone")

    def __init__(self, table: Table[Any], now_us: int = 0, zone: tzinfo = UTC) -> None:
        self.table = table
        self.now_us = now_us
        self.zone = zone

    def get(self, slot: int, name: str) -> Any:
        """A value; a state as its word, None where there is none."""
        return self.table.get(slot, name)

    def number(self, slot: int, name: str) -> int:
        """A whole number, 0 where there is none."""
        found: int | None = self.table.get(slot, name)
        return found or 0


class GroupOf:
    """A group of rows as columns read it.

    Attributes:
        name: Its name; ``grouping.label`` makes of it what people read.
    """

    __slots__ = ("_groups", "_listed", "_place", "name")

    def __init__(self, groups: Groups, place: int, listed: Slots) -> None:
        self._groups = groups
        self._place = place
        self._listed = listed
        self.name = groups.names[place]

    @property
    def grouping(self) -> Grouping:
        """What rows are grouped by."""
        return self._groups.grouping

    @property
    def count(self) -> int:
        """How many rows it has."""
        return self._groups.count(self._place)

    @property
    def closed(self) -> bool:
        """Whether its rows are not shown."""
        return self._groups.is_closed(self._place)

    @property
    def slots(self) -> Slots:
        """Slots of its rows, in order."""
        start = self._groups.start(self._place)
        found: Slots = self._listed[start : start + self.count]
        return found

    def total(self, column: str) -> int:
        """What the values of a column come to."""
        return self._groups.total(self._place, column)

    def in_state(self, word: str) -> int:
        """How many of its rows are in a state."""
        return self._groups.in_state(self._place, word)


#: Makes text of a row.
Says = Callable[[Reading, int], str]
#: Makes text of a group of rows.
GroupSays = Callable[[Reading, GroupOf], str]


class Paint(StrEnum):
    """How a cell is painted; each one has a painter in ``client_gui.delegates``."""

    TEXT = "text"
    #: Less important text.
    DIM = "dim"
    #: Text that matters when it is not nothing: failures.
    BAD = "bad"
    #: Glyph and word of a state; the value is the word.
    STATE = "state"
    #: A bar of parts by unit state; the value is a tuple of counts.
    PARTS = "parts"
    #: A bar from empty to full, text beside it; the value is a ``Level``.
    METER = "meter"
    #: A small curve; the value is a sequence of numbers.
    SPARK = "spark"
    #: Star, bell, colour; the value is a ``Marks``.
    MARKS = "marks"


@dataclass(frozen=True, slots=True)
class Level:
    """How full something is.

    Attributes:
        part: 0 to 1; None = not known.
        text: Beside the bar.
        hot: Whether that is much: memory that is nearly used up, a GPU that is very warm.
    """

    part: float | None
    text: str
    hot: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of a table.

    Attributes:
        name: Stable name: of its place and width in the settings.
        title: Its head.
        reads: Columns of the store that it is made of; a change of one paints it anew.
        text: What it says.
        help: What it means, as the tip of its head.
        right: Whether it is set right: numbers, money, lengths of time.
        paint: How it is painted.
        value: What the painter needs besides the text.
        tip: Tip of a cell, when it says more than the cell.
        spoken: What a screen reader says, when that is more than the text.
        sort: Column of the store that it is sorted by, "" when it cannot be.
        backwards: Whether its order is the reverse of that column's: an age and the moment it began.
        largest_first: Whether the first click on its head sorts from the largest down.
        width: In ems.
        hidden: Whether it is hidden until somebody asks for it.
        field: Of ``ActionBook.pending``: what of the row may be about to change, "" for nothing.
        edit: Action that an edit of its cells asks for, "" when they cannot be edited.
        moves: Whether its text changes with time alone.
        group: What it says of a group of rows, in the group's header; None for nothing.
        group_value: What the painter needs besides that.
        group_tip: Tip of such a cell.
    """

    name: str
    title: str
    reads: tuple[str, ...]
    text: Says
    help: str = ""
    right: bool = False
    paint: Paint = Paint.TEXT
    value: Callable[[Reading, int], Any] | None = None
    tip: Says | None = None
    spoken: Says | None = None
    sort: str = ""
    backwards: bool = False
    largest_first: bool = False
    width: float = 6.0
    hidden: bool = False
    field: str = ""
    edit: str = ""
    moves: bool = False
    group: GroupSays | None = None
    group_value: Callable[[Reading, GroupOf], Any] | None = None
    group_tip: GroupSays | None = None


def by_name(columns: Sequence[Shown]) -> dict[str, int]:
    """Where each column is, by its name."""
    places = {column.name: place for place, column in enumerate(columns)}
    if len(places) != len(columns):
        raise ValueError("two columns have the same name")
    return places


def text_of(name: str) -> Says:
    """A column of text, as it is."""

    def text(reading: Reading, slot: int) -> str:
        return str(reading.table.values(name)[slot] or "")

    return text


def count_of(name: str, *, nothing: str = "") -> Says:
    """A column of whole numbers with their thousands apart; 0 as ``nothing`` says, if it says something."""

    def text(reading: Reading, slot: int) -> str:
        found = reading.number(slot, name)
        return f"{found:,}" if found or not nothing else nothing

    return text
