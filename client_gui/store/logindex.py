"""Where the rows of a log begin: an index that grows as pieces of the log arrive, in any order.

What belongs here: offsets of rows, of errors and warnings, and which parts of a log are here.  What may not:
Qt, sockets, files, and the text itself: of a log of 1 GB only 4 bytes a row are kept.

``logscan.Intake`` reads bytes (in a worker) and makes ``Piece`` records; ``LogMap`` takes these (in the
window's thread) and answers which row is where.  Offsets fit 32 bits: the farm keeps at most 1 GiB of a log.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from client_gui.store.logscan import MOST, NO_OFFSETS, Offsets, Piece, Scan, place_of
from client_gui.store.logtext import Level


class _Growing:
    """An array that is appended to."""

    __slots__ = ("_kept", "length")

    def __init__(self, kind: npt.DTypeLike = np.uint32) -> None:
        self._kept: npt.NDArray[np.uint32] = np.empty(64, kind)
        self.length = 0

    @property
    def array(self) -> Offsets:
        return self._kept[: self.length]

    def add(self, more: npt.NDArray[np.generic], likely: int = 0) -> None:
        """Appends; ``likely`` is how long it will be in the end as far as anybody can tell.

        Room that nothing was written to takes no memory; copying forty megabytes takes the window's time.
        """
        need = self.length + len(more)
        if need > len(self._kept):
            larger = np.empty(max(need, len(self._kept) * 3 // 2, likely), self._kept.dtype)
            larger[: self.length] = self.array
            self._kept = larger
        self._kept[self.length : need] = more
        self.length = need


class Run:
    """A part of the log that is here without gaps.

    Attributes:
        start, end: Its bytes.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._starts = _Growing()
        self._tails = _Growing()
        self._marks = _Growing()
        self._levels = _Growing(np.uint8)
        self._open = Level.NONE
        self._closed = True

    def add(self, scan: Scan, end: int, upto: int = 0) -> None:
        """Takes what follows; rows are likely to follow up to ``upto``."""
        rows = self._starts.length + len(scan.starts)
        likely = rows * (upto - self.start) // (end - self.start) if end < upto and end > self.start else rows
        self._starts.add(scan.starts, likely * 9 // 8)
        self._tails.add(scan.tails)
        self._marks.add(scan.marks)
        self._levels.add(scan.levels)
        self._open, self._closed = scan.open_level, scan.closed
        self.end = end

    def join(self, other: Run) -> None:
        """Takes the part that begins where this one ends."""
        for mine, its in (
            (self._starts, other._starts),
            (self._tails, other._tails),
            (self._marks, other._marks),
            (self._levels, other._levels),
        ):
            mine.add(its.array)
        self.end, self._open, self._closed = other.end, other._open, other._closed

    @property
    def starts(self) -> Offsets:
        """Where its rows begin; not to be kept."""
        return self._starts.array

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self._starts.length

    @property
    def lines(self) -> int:
        """How many lines these are."""
        return self._starts.length - self._tails.length

    def span(self, row: int) -> tuple[int, int]:
        """Where a row's bytes are, its end included."""
        starts = self._starts.array
        end = int(starts[row + 1]) if row + 1 < len(starts) else self.end
        return int(starts[row]), end

    def row_at(self, offset: int) -> int:
        """The row an offset lies in."""
        return max(0, place_of(self._starts.array, offset, after=True) - 1)

    def line(self, row: int) -> tuple[int, bool]:
        """Number of a row's line in this part, counted from 0, and whether the row goes on with it."""
        start = int(self._starts.array[row])
        tails = self._tails.array
        before = place_of(tails, start, after=True)
        tail = before > 0 and tails[before - 1] == start
        return row - before, bool(tail)

    def row_of_line(self, line: int) -> int:
        """The first row of a line of this part; of the last one when there is none."""
        low, high = 0, max(0, self.rows - 1)
        while low < high:
            middle = (low + high) // 2
            if self.line(middle)[0] < line:
                low = middle + 1
            else:
                high = middle
        return low

    def marks(self, least: Level = Level.WARNING) -> Offsets:
        """Where rows begin that are at least so bad."""
        found = self._marks.array
        if least > Level.WARNING:
            found = found[self._levels.array >= int(least)]
        if self._open >= least and self.rows:
            last = self._starts.array[-1]
            if not len(found) or found[-1] != last:
                found = np.append(found, last)
        return found

    def complete(self, ended: bool) -> int:
        """How far its rows have ended."""
        if ended or self._closed or not self.rows:
            return self.end
        return int(self._starts.array[-1])


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are not here yet; a row of its own stands for them."""

    start: int
    end: int


class LogMap:
    """Which parts of a log are here, and what its rows are.

    The rows of all parts follow each other; where something is missing between them one row says so.

    Attributes:
        runs: The parts that are here, in order.
        size: Bytes the log has, as far as is known.
    """

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.size = 0
        self._layout: list[tuple[int, Run | Gap]] = []
        self.rows = 0

    def add(self, piece: Piece) -> None:
        """Takes what was read."""
        place = bisect_right(self.runs, piece.start, key=lambda run: run.start) - 1
        if piece.new:
            place += 1
            self.runs.insert(place, Run(piece.start))
        run = self.runs[place]
        follows = self.runs[place + 1].start if place + 1 < len(self.runs) else self.size
        run.add(piece.scan, piece.end, follows)
        if place + 1 < len(self.runs) and self.runs[place + 1].start == run.end:
            run.join(self.runs[place + 1])
            del self.runs[place + 1]
        self.grow(max(self.size, run.end))

    def grow(self, size: int) -> None:
        """Learns how long the log is."""
        self.size = size
        self._layout, row, at = [], 0, 0
        for run in self.runs:
            if run.start > at:
                self._layout.append((row, Gap(at, run.start)))
                row += 1
            self._layout.append((row, run))
            row += run.rows
            at = run.end
        if size > at:
            self._layout.append((row, Gap(at, size)))
            row += 1
        self.rows = row

    @property
    def here(self) -> int:
        """How many bytes are here."""
        return sum(run.end - run.start for run in self.runs)

    @property
    def whole(self) -> bool:
        """Whether all of it is here."""
        return self.here >= self.size

    def gaps(self) -> list[Gap]:
        """What is not here."""
        return [part for _, part in self._layout if isinstance(part, Gap)]

    def at(self, row: int) -> tuple[Run, int] | Gap:
        """The part a row lies in, and which of its rows it is."""
        place = bisect_right(self._layout, row, key=lambda entry: entry[0]) - 1
        first, part = self._layout[place]
        return part if isinstance(part, Gap) else (part, row - first)

    def span(self, row: int) -> tuple[int, int]:
        """Where a row's bytes are; of a gap: what is missing."""
        found = self.at(row)
        return (found.start, found.end) if isinstance(found, Gap) else found[0].span(found[1])

    def row_at(self, offset: int) -> int:
        """The row an offset lies in; 0 when there are none."""
        for first, part in reversed(self._layout):
            if part.start <= offset:
                return first if isinstance(part, Gap) else first + part.row_at(offset)
        return 0

    def number(self, row: int) -> tuple[int | None, bool]:
        """Number of a row's line, None while that is unknown; and whether the row goes on with a line."""
        found = self.at(row)
        if isinstance(found, Gap):
            return None, False
        line, tail = found[0].line(found[1])
        return (line + 1 if found[0].start == 0 else None), tail

    @property
    def lines(self) -> int | None:
        """How many lines the log has, None while that is unknown."""
        if not self.size:
            return 0
        return self.runs[0].lines if self.whole and self.runs else None

    def row_of_line(self, line: int) -> int | None:
        """The row of a line by its number, None while it is not known where that is."""
        if not self.runs or self.runs[0].start or line < 1:
            return None
        first = self.runs[0]
        if line > first.lines and not self.whole:
            return None
        return first.row_of_line(line - 1)

    def marks(self, least: Level = Level.WARNING) -> Offsets:
        """Where rows begin that are at least so bad."""
        if len(self.runs) == 1:
            return self.runs[0].marks(least)
        return np.concatenate([run.marks(least) for run in self.runs]) if self.runs else NO_OFFSETS

    def mark_rows(self, least: Level = Level.WARNING) -> npt.NDArray[np.int64]:
        """Which rows are at least so bad."""
        found = [
            np.searchsorted(run.starts, run.marks(least), "left") + first
            for first, run in self._layout
            if isinstance(run, Run)
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def rows_of(self, offsets: Offsets) -> npt.NDArray[np.int64]:
        """Rows that begin at some offsets, in order; those that are not here are left out."""
        found = []
        for first, run in self._layout:
            if isinstance(run, Run):
                inside = offsets[
                    (offsets >= np.uint32(run.start)) & (offsets < np.uint32(min(run.end, MOST)))
                ]
                found.append(run.starts.searchsorted(inside, "left") + first)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def next_mark(self, offset: int, *, back: bool = False, least: Level = Level.ERROR) -> int | None:
        """Where the next bad row after (or before) the one that begins at an offset begins."""
        marks = self.marks(least)
        if back:
            place = place_of(marks, offset, after=False) - 1
        else:
            place = place_of(marks, offset, after=True) if offset >= 0 else 0
        return int(marks[place]) if 0 <= place < len(marks) else None
