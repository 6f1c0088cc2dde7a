"""What the pane shows, row by row: a log, or the comparison of two.

What belongs here: the interface of what can be shown, and both kinds.  What may not: painting.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from client_gui.store.logindex import Gap
from client_gui.store.logtext import Level, Line
from client_gui.views.log_parts.document import LogDocument
from client_gui.views.log_parts.finder import Finder
from farm.sdk.words import size_text

#: Glyph (``style.glyphs``), colour and word of a level.
LEVELS: Final = {Level.ERROR: ("failed", "bad", "error"), Level.WARNING: ("warning", "warn", "warning")}
Marks = npt.NDArray[np.int64]


class Rows(Protocol):
    """Rows that can be shown."""

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def line(self, row: int) -> Line | None:
        """A row's text, None while it is not ready."""
        ...

    def want(self, first: int, last: int) -> None:
        """These are shown; what is not ready is to be made so."""
        ...

    def key(self, row: int) -> int:
        """What a row keeps when others come before it."""
        ...

    def row_of(self, key: int) -> int:
        """The row of a key."""
        ...

    def number(self, row: int) -> str:
        """What stands before a row: its line's number, "" for none."""
        ...

    def note(self, row: int) -> str:
        """What is said in place of a text: something is missing there; "" for a row with a text."""
        ...

    def mark(self, row: int, line: Line) -> tuple[str, str, str] | None:
        """Glyph, colour and word of a row, None for an ordinary one."""
        ...

    def hits(self, row: int) -> list[tuple[int, int]]:
        """Column and length of what is to be pointed out."""
        ...

    def digits(self) -> int:
        """Width of the longest number, in digits."""
        ...


def spoken(rows: Rows, row: int) -> str:
    """What is said of a row to whoever does not see it."""
    line = rows.line(row)
    said = [f"line {rows.number(row).strip() or 'not counted yet'}"]
    if line is not None:
        mark = rows.mark(row, line)
        said += [mark[2]] if mark else []
        said.append(line.text[:300] or "empty")
    else:
        said.append(rows.note(row))
    return ", ".join(said)


class LogRows:
    """A log's rows.

    Attributes:
        document: The log.
        finder: Whose hits are shown, None for none.
    """

    def __init__(self, document: LogDocument) -> None:
        self.document = document
        self.finder: Finder | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return self.document.map.rows

    def line(self, row: int) -> Line | None:
        """A row's text."""
        return self.document.line(row)

    def want(self, first: int, last: int) -> None:
        """Gets rows ready, and some before and after them."""
        more = last - first + 1
        self.document.want(first, last)
        for low, high in ((first - more, first - 1), (last + 1, last + more)):
            if self.ordinary(low, high):
                self.document.want(low, high)

    def ordinary(self, low: int, high: int) -> bool:
        """Whether some rows are all here; what lies beyond a gap is not fetched before it is looked at."""
        low, high = max(0, low), min(high, self.count - 1)
        if low > high:
            return False
        first, last = self.document.map.at(low), self.document.map.at(high)
        return not isinstance(first, Gap) and not isinstance(last, Gap) and first[0] is last[0]

    def key(self, row: int) -> int:
        """Where it begins."""
        return self.document.map.span(row)[0] if 0 <= row < self.count else 0

    def row_of(self, key: int) -> int:
        """The row that begins there."""
        return self.document.map.row_at(key)

    def number(self, row: int) -> str:
        """Its line's number; nothing while that is unknown, a mark when the line goes on."""
        number, tail = self.document.map.number(row)
        if tail:
            return "↪"
        return "" if number is None else f"{number}"

    def note(self, row: int) -> str:
        """What is missing."""
        found = self.document.map.at(row)
        if not isinstance(found, Gap):
            return ""
        return f"{size_text(found.end - found.start)} not fetched yet"

    def mark(self, row: int, line: Line) -> tuple[str, str, str] | None:
        """How bad it is."""
        return LEVELS.get(line.level)

    def hits(self, row: int) -> list[tuple[int, int]]:
        """What was looked for."""
        return self.finder.in_row(self.key(row)) if self.finder is not None else []

    def digits(self) -> int:
        """Width of the longest number."""
        runs = self.document.map.runs
        return len(str(runs[0].lines)) if runs else 1


class DiffRows:
    """The comparison of two logs: ``[kind, line in the first, line in the second, text]``.

    Attributes:
        rows: As ``client_gui.store.logdiff.compare`` gives them.
    """

    _MARKS: Final = {
        "-": ("minus", "bad", "only in the first"),
        "+": ("plus", "good", "only in the second"),
    }

    def __init__(self, rows: list[tuple[str, int, int, str]]) -> None:
        self.rows = rows
        most = max((max(row[1], row[2]) for row in rows), default=1)
        self._digits = len(str(most))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.rows)

    def line(self, row: int) -> Line | None:
        """A row's text."""
        return Line("" if self.rows[row][0] == "~" else self.rows[row][3])

    def want(self, first: int, last: int) -> None:
        """All are there."""

    def key(self, row: int) -> int:
        """Its place."""
        return row

    def row_of(self, key: int) -> int:
        """Its place."""
        return max(0, min(key, self.count - 1))

    def number(self, row: int) -> str:
        """Its line's numbers in both."""
        kind, a, b, _ = self.rows[row]
        wide = self._digits
        if kind == "~":
            return ""
        return f"{a or '':>{wide}} {b or '':>{wide}}"

    def note(self, row: int) -> str:
        """How many lines are folded here."""
        return self.rows[row][3] if self.rows[row][0] == "~" else ""

    def mark(self, row: int, line: Line) -> tuple[str, str, str] | None:
        """In which it is."""
        return self._MARKS.get(self.rows[row][0])

    def hits(self, row: int) -> list[tuple[int, int]]:
        """Nothing is looked for."""
        return []

    def digits(self) -> int:
        """Width of both numbers."""
        return 2 * self._digits + 1

    def next_change(self, row: int, *, back: bool = False) -> int | None:
        """Where the next difference begins (or the one before), None when there is none."""
        places = range(row - 1, -1, -1) if back else range(row + 1, self.count)
        for place in places:
            here = self.rows[place][0] in "+-"
            before = place > 0 and self.rows[place - 1][0] in "+-"
            if here and not before:
                return place
        return None
