"""Where the rows of a log begin: an index that grows as pieces of the log arrive, in any order.

What belongs here: offsets of rows, of errors and warnings, and which parts of a log are here.  What may not:
Qt, sockets, files, and the text itself: of a log of 1 GB only 4 bytes a row are kept.

Longer than most: both halves must agree on what a row is.

``Intake`` reads bytes (in a worker) and makes ``Piece`` records; ``LogMap`` takes these (in the
window's thread) and answers which row is where.  Offsets fit 32 bits: the farm keeps at most 1 GiB of a log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from client_gui.store.logtext import KEYWORDS, LONGEST, Level, level_of, shown

Offsets = npt.NDArray[np.uint32]
#: Most bytes of a log that can be shown.
MOST: Final = (1 << 32) - 1
#: Bytes looked through for keywords in one go: short, so that the window's thread is never kept waiting.
_SLICE: Final = 64 * 1024
_NONE: Final[Offsets] = np.empty(0, np.uint32)


def _offsets(values: list[int]) -> Offsets:
    return np.array(values, np.uint32)


def _place(offsets: Offsets, offset: int, *, after: bool) -> int:
    """Where an offset would be put; as a number of the array's own kind, or numpy would copy the array."""
    value = np.uint32(max(0, min(offset, MOST)))
    return int(offsets.searchsorted(value, "right" if after else "left"))


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """What some bytes added.

    Attributes:
        starts: Where rows begin.
        tails: Those of them that go on with a line that was too long for one row.
        marks, levels: Rows that are bad, by where they begin, and how bad.
        open_level: How bad the last row is as far as it goes, when it has not ended.
        closed: Whether the last row has ended.
    """

    starts: Offsets = field(default_factory=lambda: _NONE)
    tails: Offsets = field(default_factory=lambda: _NONE)
    marks: Offsets = field(default_factory=lambda: _NONE)
    levels: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    open_level: Level = Level.NONE
    closed: bool = True


class Scanner:
    """Finds rows in bytes that come in order.

    The rows are the same however the bytes are cut into pieces.

    Attributes:
        end: Offset of the next byte.
    """

    def __init__(self, start: int = 0, breathe: Callable[[], None] | None = None) -> None:
        self.end = start
        self._breathe = breathe
        self._row = b""  # what is here of the row that has not ended
        self._begins = True  # the next byte begins a row

    def feed(self, data: bytes) -> Scan:
        """Takes the next bytes."""
        if not data:
            return Scan(open_level=self._open_level(), closed=self._begins)
        base = self.end - len(self._row)
        text = self._row + data
        starts: list[Offsets] = []
        tails: list[int] = []
        if self._begins:
            starts.append(_offsets([base]))
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 10).astype(np.int64) + 1
        bounds = ends[ends < len(text)]
        begins = np.concatenate((np.zeros(1, np.int64), bounds))
        limits = np.concatenate((bounds, np.full(1, len(text), np.int64)))
        # Rows that are too long are cut; there are none in most pieces.
        for place in np.flatnonzero(limits - begins > LONGEST):
            tails += [base + cut for cut in _cuts(text, int(begins[place]), int(limits[place]))]
        if len(bounds):
            starts.append((bounds + base).astype(np.uint32))
        if tails:
            starts.append(_offsets(tails))
        found = np.concatenate(starts) if starts else _NONE
        found.sort()
        last = max(int(begins[-1]), tails[-1] - base if tails else 0)
        closed = text.endswith(b"\n")
        marks, levels = _judge(
            text, base, np.concatenate((_offsets([base]), found)), last, closed, self._breathe
        )
        self.end += len(data)
        self._begins = closed
        self._row = b"" if closed else text[last:]
        return Scan(found, _offsets(tails), marks, levels, self._open_level(), closed)

    def _open_level(self) -> Level:
        return level_of(shown(self._row)[0]) if self._row else Level.NONE


def _cuts(text: bytes, begin: int, limit: int) -> list[int]:
    """Where a line that is too long is cut: never inside a character."""
    found: list[int] = []
    at = begin
    # The end of the line itself never makes a row of its own.
    length = limit - (1 if text[limit - 1 : limit] == b"\n" else 0)
    while length - at > LONGEST:
        cut = at + LONGEST
        for back in range(4):
            if text[cut - back] & 0xC0 != 0x80:
                cut -= back
                break
        found.append(cut)
        at = cut
    return found


def _judge(
    text: bytes,
    base: int,
    starts: Offsets,
    last: int,
    closed: bool,
    breathe: Callable[[], None] | None,
) -> tuple[Offsets, npt.NDArray[np.uint8]]:
    """Rows with keywords that are bad; the row that has not ended is not among them."""
    rows = np.unique(starts) - np.uint32(base)
    until = len(text) if closed else last
    hit: set[int] = set()
    low = text[:until].lower()
    for begin in range(0, until, _SLICE):
        if breathe is not None:
            breathe()
        # A keyword across a slice's end is found by looking a little further.
        end = min(until, begin + _SLICE + 16)
        for word in KEYWORDS:
            at = low.find(word, begin, end)
            while at >= 0:
                place = _place(rows, at, after=True) - 1
                hit.add(place)
                following = int(rows[place + 1]) if place + 1 < len(rows) else until
                at = low.find(word, following, end) if following < end else -1
    marks: list[int] = []
    levels: list[int] = []
    for place in sorted(hit):
        begin = int(rows[place])
        end = int(rows[place + 1]) if place + 1 < len(rows) else until
        level = level_of(shown(text[begin:end])[0])
        if level:
            marks.append(base + begin)
            levels.append(int(level))
    return _offsets(marks), np.array(levels, np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Bytes that were taken: where, and what they added.

    Attributes:
        start, end: Of the bytes.
        scan: What they added.
        new: They begin a part of their own; otherwise they go on with the part that ends at ``start``.
    """

    start: int
    end: int
    scan: Scan
    new: bool


class _Part:
    __slots__ = ("scanner", "start")

    def __init__(self, start: int, breathe: Callable[[], None] | None) -> None:
        self.start = start
        self.scanner = Scanner(start, breathe)

    @property
    def end(self) -> int:
        return self.scanner.end


class Intake:
    """Takes pieces of a log in any order; each byte is looked at once.

    Args:
        breathe: Called every millisecond or so of work: a worker lets go of the interpreter's lock there, so
            that whoever paints never waits for longer.
    """

    def __init__(self, breathe: Callable[[], None] | None = None) -> None:
        self._breathe = breathe
        self._parts: list[_Part] = []

    def take(self, offset: int, data: bytes) -> tuple[Piece, bytes] | None:
        """Takes a piece; returns what of it was new with its bytes, or None.

        A part that does not begin with the log begins with a line: what comes before the first line's end is
        left for whoever fetches what lies before, so that lines are the same in whatever order pieces came.
        """
        place = bisect_right(self._parts, offset, key=lambda part: part.start) - 1
        left = self._parts[place] if place >= 0 else None
        right = self._parts[place + 1] if place + 1 < len(self._parts) else None
        if left is not None and left.end > offset:
            data = data[left.end - offset :]
            offset = left.end
        if right is not None:
            data = data[: right.start - offset]
        data = data[: max(0, MOST - offset)]
        if not data:
            return None
        new = left is None or left.end != offset
        if new:
            if offset > 0:
                line = data.find(b"\n") + 1
                if 0 < line < len(data):
                    offset += line
                    data = data[line:]
            left = _Part(offset, self._breathe)
            self._parts.insert(place + 1, left)
            place += 1
        assert left is not None
        piece = Piece(offset, offset + len(data), left.scanner.feed(data), new)
        if right is not None and left.end == right.start:
            left.scanner = right.scanner
            del self._parts[place + 1]
        return piece, data


class _Growing:
    """An array that is appended to."""

    __slots__ = ("_kept", "length")

    def __init__(self, kind: npt.DTypeLike = np.uint32) -> None:
        self._kept: npt.NDArray[np.uint32] = np.empty(64, kind)
        self.length = 0

    @property
    def array(self) -> Offsets:
        return self._kept[: self.length]

    def add(self, more: npt.NDArray[np.generic]) -> None:
        need = self.length + len(more)
        if need > len(self._kept):
            larger = np.empty(max(need, len(self._kept) * 3 // 2), self._kept.dtype)
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

    def add(self, scan: Scan, end: int) -> None:
        """Takes what follows."""
        self._starts.add(scan.starts)
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
        return max(0, _place(self._starts.array, offset, after=True) - 1)

    def line(self, row: int) -> tuple[int, bool]:
        """Number of a row's line in this part, counted from 0, and whether the row goes on with it."""
        start = int(self._starts.array[row])
        tails = self._tails.array
        before = _place(tails, start, after=True)
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
        run.add(piece.scan, piece.end)
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
        return np.concatenate([run.marks(least) for run in self.runs]) if self.runs else _NONE

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
            place = _place(marks, offset, after=False) - 1
        else:
            place = _place(marks, offset, after=True) if offset >= 0 else 0
        return int(marks[place]) if 0 <= place < len(marks) else None
