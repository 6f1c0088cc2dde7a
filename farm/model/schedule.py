"""When a node takes work: a weekly timetable in words, and the arithmetic on it.

What belongs here: the grammar, and which moments are inside.  What may not: a clock, and files: the offsets
of a named time zone from UTC are handed in as data by whoever may read the zone database.

    mon-fri 19:00-07:00, sat-sun Europe/Berlin

A timetable has parts, separated by commas, and a time zone at its end (UTC when none is named).  A part has
days (``mon``, ``mon-fri``, ``mon+wed+fri``; none = every day) and hours (``19:00-07:00``; none = the whole
day). Hours that end before or when they begin run into the next day and belong to the day they begin on.
Times are those on the wall: when clocks are put forward or back, the hours follow them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from farm.model.errors import CallError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MIN = 24 * 60
WEEK_MIN = 7 * DAY_MIN
_MIN_US = 60_000_000
_WEEK_US = WEEK_MIN * _MIN_US
#: 1970-01-01 was a Thursday.
_EPOCH_MIN = 3 * DAY_MIN
_HOURS = re.compile(r"([01]?[0-9]|2[0-4]):([0-5][0-9])-([01]?[0-9]|2[0-4]):([0-5][0-9])\Z")
_DAY_RANGE = re.compile(r"([a-z]{3})(?:-([a-z]{3}))?\Z")
_FIXED = re.compile(r"(?:UTC)?([+-])([01][0-9]|2[0-3]):([0-5][0-9])\Z")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]*\Z")
_HINT = 'write for example "mon-fri 19:00-07:00, sat-sun Europe/Berlin"'

#: (from when, microseconds since the epoch; seconds east of UTC), oldest first; the first holds before it
#: too.
Offsets = Sequence[tuple[int, int]]


class Schedule:
    """A timetable that was read.

    Attributes:
        text: Its canonical text; reading it again gives the same timetable.
        zone: Name of its time zone, ``UTC`` or ``+01:00``.
        hours: Open times in minutes from Monday 00:00 on the wall, sorted, apart from each other; the last
        may
            end after the week does.
    """

    __slots__ = ("_edges_us", "hours", "text", "zone")

    def __init__(self, text: str, zone: str, hours: tuple[tuple[int, int], ...]) -> None:
        self.text = text
        self.zone = zone
        self.hours = hours
        edges = {minute % WEEK_MIN for pair in hours for minute in pair}
        self._edges_us = [] if self.always else sorted(minute * _MIN_US for minute in edges)

    def __str__(self) -> str:
        return self.text

    @property
    def always(self) -> bool:
        """Whether it covers the whole week."""
        return self.hours == ((0, WEEK_MIN),)

    def _open_on_wall(self, wall_us: int) -> bool:
        at_us = (wall_us + _EPOCH_MIN * _MIN_US) % _WEEK_US
        return any(
            start * _MIN_US <= moment < end * _MIN_US
            for start, end in self.hours
            for moment in (at_us, at_us + _WEEK_US)
        )

    def is_open(self, at_us: int, offsets: Offsets = ((0, 0),)) -> bool:
        """Whether a moment (microseconds since the epoch) is inside."""
        return self._open_on_wall(at_us + _offset_us(at_us, offsets))

    def next_change(self, at_us: int, offsets: Offsets = ((0, 0),)) -> int | None:
        """The first moment after ``at_us`` at which ``is_open`` changes; None when it never does."""
        if not self._edges_us:
            return None
        now = self.is_open(at_us, offsets)
        while True:
            offset_us = _offset_us(at_us, offsets)
            jump_us = _next_jump(at_us, offsets)
            in_week_us = (at_us + offset_us + _EPOCH_MIN * _MIN_US) % _WEEK_US
            after = bisect_right(self._edges_us, in_week_us)
            edge_us = self._edges_us[after] if after < len(self._edges_us) else self._edges_us[0] + _WEEK_US
            change_us = at_us + edge_us - in_week_us
            if jump_us is not None and jump_us <= change_us:
                # The clocks are changed before; what counts then is the time they show afterwards.
                if self.is_open(jump_us, offsets) != now:
                    return jump_us
                at_us = jump_us
                continue
            if self.is_open(change_us, offsets) != now:
                return change_us
            at_us = change_us


def _offset_us(at_us: int, offsets: Offsets) -> int:
    place = bisect_right(offsets, at_us, key=lambda pair: pair[0])
    return offsets[max(0, place - 1)][1] * 1_000_000


def _next_jump(at_us: int, offsets: Offsets) -> int | None:
    place = bisect_right(offsets, at_us, key=lambda pair: pair[0])
    # The first offset holds before its time too.
    place = max(place, 1)
    return offsets[place][0] if place < len(offsets) else None


def fixed_offset_s(zone: str) -> int | None:
    """Seconds east of UTC of ``UTC`` or ``+01:00``; None for a zone whose offsets must be looked up."""
    if zone == "UTC":
        return 0
    match = _FIXED.match(zone)
    if match is None:
        return None
    return (1 if match[1] == "+" else -1) * (int(match[2]) * 3600 + int(match[3]) * 60)


@lru_cache(maxsize=1024)
def read_schedule(text: str) -> Schedule:
    """Reads a timetable; an empty one (or ``always``) is open always.

    Raises:
        CallError: It is none; names the part.
    """
    words = text.strip()
    if words in ("", "always"):
        return Schedule("", "UTC", ((0, WEEK_MIN),))
    parts = [part.split() for part in words.split(",")]
    zone = "UTC"
    last = parts[-1]
    if last and not _is_hours(last[-1]) and not _is_days(last[-1]):
        zone = _zone(last.pop(), text)
        if not last:
            raise CallError(f"schedule {text!r}: no days or hours stand before the time zone", hint=_HINT)
    pairs: list[tuple[int, int]] = []
    shown: list[str] = []
    for part in parts:
        days, hours, canonical = _read_part(part, text)
        shown.append(canonical)
        start, end = hours
        pairs += [(day * DAY_MIN + start, day * DAY_MIN + end) for day in days]
    canonical = ", ".join(shown) + (f" {zone}" if zone != "UTC" else "")
    return Schedule(canonical, zone, _merge(pairs))


def _zone(word: str, text: str) -> str:
    if fixed_offset_s(word) is not None:
        return word.removeprefix("UTC") if word != "UTC" else word
    if ("/" in word or word.isupper()) and _NAME.match(word):
        return word
    raise CallError(
        f"schedule {text!r}: {word!r} is no day, no hours and no time zone",
        hint="days are " + " ".join(DAYS) + "; zones are UTC, +01:00 or Europe/Berlin",
    )


def _is_hours(word: str) -> bool:
    return _HOURS.match(word) is not None


def _is_days(word: str) -> bool:
    return word == "daily" or all(_day_range(piece) is not None for piece in word.split("+"))


def _day_range(piece: str) -> tuple[int, int] | None:
    match = _DAY_RANGE.match(piece)
    if match is None or match[1] not in DAYS or (match[2] is not None and match[2] not in DAYS):
        return None
    first = DAYS.index(match[1])
    return first, DAYS.index(match[2]) if match[2] is not None else first


def _read_part(words: list[str], text: str) -> tuple[list[int], tuple[int, int], str]:
    """Days, hours in minutes of the day, canonical text."""
    if not 1 <= len(words) <= 2:
        what = " ".join(words)
        raise CallError(f"schedule {text!r}: {what!r} is not days and hours", hint=_HINT)
    days = list(range(7))
    hours = (0, DAY_MIN)
    canonical: list[str] = []
    rest = list(words)
    if _is_days(rest[0]):
        word = rest.pop(0)
        if word != "daily":
            days = _days(word)
            canonical.append(word)
        elif not rest:
            canonical.append(word)
    if rest:
        match = _HOURS.match(rest[0])
        if match is None:
            raise CallError(f"schedule {text!r}: {rest.pop(0)!r} is not days and hours", hint=_HINT)
        rest.pop(0)
        start, end = (int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4]))
        if start >= DAY_MIN or end > DAY_MIN:
            raise CallError(f"schedule {text!r}: {words[-1]!r}: a day ends at 24:00", hint=_HINT)
        hours = (start, end if end > start else end + DAY_MIN)
        canonical.append(f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}")
    if rest:
        raise CallError(f"schedule {text!r}: {rest[0]!r} is one word too many", hint=_HINT)
    return days, hours, " ".join(canonical)


def _days(word: str) -> list[int]:
    found: dict[int, None] = {}
    for piece in word.split("+"):
        pair = _day_range(piece)
        assert pair is not None
        first, last = pair
        for step in range((last - first) % 7 + 1):
            found[(first + step) % 7] = None
    return list(found)


def _merge(pairs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Open times without overlap; one that runs over the end of the week joins what begins the next."""
    merged: list[list[int]] = []
    for start, end in sorted(pairs):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    # The end of the week meets its beginning.
    while len(merged) > 1 and merged[-1][1] - WEEK_MIN >= merged[0][0]:
        first = merged.pop(0)
        merged[-1][1] = max(merged[-1][1], first[1] + WEEK_MIN)
    if len(merged) == 1 and merged[0][1] - merged[0][0] >= WEEK_MIN:
        return ((0, WEEK_MIN),)
    return tuple((start, end) for start, end in merged)
