"""Where the rows of a log begin and which of them are bad, found in bytes as they arrive, in any order.

What belongs here: reading bytes, in a worker, into ``Piece`` records.  What may not: Qt, sockets, files, and
which part of a log is where (``logindex`` keeps that).
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
#: Bytes looked through for keywords in one go, and rows judged: short, so that the window's thread is never
#: kept waiting.
_SLICE: Final = 64 * 1024
_ROWS: Final = 64
NO_OFFSETS: Final[Offsets] = np.empty(0, np.uint32)
#: Of each keyword three bytes that are rare in what has nothing to do with it: a renderer prints how much
#: memory it takes in every line, but seldom ``mor``.
GRAMS: Final[dict[bytes, bytes]] = {
    b"error": b"err",
    b"warn": b"war",
    b"fatal": b"fat",
    b"critical": b"cri",
    b"severe": b"sev",
    b"exception": b"xce",
    b"traceback": b"ceb",
    b"fail": b"fai",
    b"cannot": b"nno",
    b"could not": b"d n",
    b"unable": b"nab",
    b"denied": b"nie",
    b"abort": b"bor",
    b"segm": b"egm",
    b"memory": b"mor",
    b"alloc": b"llo",
    b"licen": b"ice",
    b"cuda": b"uda",
    b"libcuda": b"uda",
    b"no such": b"suc",
    b"core dumped": b"dum",
    b"problem": b"obl",
    b"optix": b"tix",
    b"openencode": b"nen",
    b"rlm": b"rlm",
    b"not found": b"t f",
    b"missing": b"mis",
}
_SECOND, _THIRD = np.uint16(0x3B5), np.uint16(0x9E31)


def _suspicious() -> npt.NDArray[np.bool_]:
    """By the number made of three bytes: whether a keyword has them."""
    table = np.zeros(1 << 16, np.bool_)
    for word in KEYWORDS:
        first, second, third = (byte | 0x20 for byte in GRAMS[word])
        table[(first + second * int(_SECOND) + third * int(_THIRD)) & 0xFFFF] = True
    return table


_SUSPECT: Final = _suspicious()


def _offsets(values: list[int]) -> Offsets:
    return np.array(values, np.uint32)


def place_of(offsets: Offsets, offset: int, *, after: bool) -> int:
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

    starts: Offsets = field(default_factory=lambda: NO_OFFSETS)
    tails: Offsets = field(default_factory=lambda: NO_OFFSETS)
    marks: Offsets = field(default_factory=lambda: NO_OFFSETS)
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
        found = np.concatenate(starts) if starts else NO_OFFSETS
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


def _suspects(text: bytes, until: int, breathe: Callable[[], None] | None) -> npt.NDArray[np.int64]:
    """Places, ascending, at which there may be a keyword in ``text[:until]``: all there are, and some more.

    Three bytes of each keyword are looked for at all places at once, by a number made of them.  numpy lets go
    of the interpreter's lock meanwhile, which looking for one keyword after the other does not, and it takes
    a twentieth of the time.
    """
    if until < 3:
        return np.empty(0, np.int64)
    found: list[npt.NDArray[np.int64]] = []
    for begin in range(0, until - 2, _SLICE):
        if breathe is not None:
            breathe()
        # Large and small letters differ in one bit.
        part = np.frombuffer(text, np.uint8, min(until - begin, _SLICE + 2), begin) | np.uint8(0x20)
        sums = part[2:].astype(np.uint16)
        sums *= _THIRD
        more = part[1:-1].astype(np.uint16)
        more *= _SECOND
        sums += more
        sums += part[:-2]
        found.append(np.flatnonzero(_SUSPECT.take(sums)) + begin)
    return np.concatenate(found)


def _judge(
    text: bytes,
    base: int,
    starts: Offsets,
    last: int,
    closed: bool,
    breathe: Callable[[], None] | None,
) -> tuple[Offsets, npt.NDArray[np.uint8]]:
    """Rows with keywords that are bad; the row that has not ended is not among them."""
    until = len(text) if closed else last
    places = _suspects(text, until, breathe)
    marks: list[int] = []
    levels: list[int] = []
    if not len(places):
        return NO_OFFSETS, np.empty(0, np.uint8)
    rows = np.unique(starts) - np.uint32(base)
    hit = np.unique(rows.searchsorted(places.astype(np.uint32), "right") - 1)
    bounds = np.append(rows, np.uint32(until))
    for count, (begin, end) in enumerate(zip(bounds[hit].tolist(), bounds[hit + 1].tolist(), strict=True)):
        if breathe is not None and count % _ROWS == _ROWS - 1:
            breathe()
        level = level_of(shown(text[begin : min(end, until)])[0])
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
