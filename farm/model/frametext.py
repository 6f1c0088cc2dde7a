"""The frame range grammar: from text to runs and back.

What belongs here: exactly the grammar below, its limits and its refusals, each with the character
position.  What must not: the algebra of ranges (``farm.model.frames``, which callers use).

    range     = part { separator part }
    part      = frame [ "-" frame [ ( "x" | ":" ) [ "-" ] step ] ]
    frame     = [ "-" ] digits
    separator = blanks, or one comma with or without blanks round it

``1-100`` counts up, ``10-1`` down; ``1-100x5`` and ``1-100:5`` take every fifth (the step of Open Job
Description, not the interleave some programs mean by a colon).  Of a descending range's step only the
magnitude counts (``30-28:-1``).  Refused: an empty range or part, a step of zero, a negative step on
an ascending range, subframes, frames beyond 32 bits, too many frames.
"""

from __future__ import annotations

import re
from typing import Final

from farm.model.errors import FrameRangeError
from farm.model.runs import Run

#: More frames than this are refused.
MAX_FRAMES: Final = 10_000_000
#: More frames than this, repeats counted, are not even looked through for repeats.
MAX_LISTED: Final = 10 * MAX_FRAMES
#: Frame numbers are 32-bit signed, as in every application that renders them.
FRAME_MIN: Final = -(2**31)
FRAME_MAX: Final = 2**31 - 1

_BLANKS = " \t\r\n"
_PART = re.compile(r"(-?[0-9]+)(?:-(-?[0-9]+)(?:[x:](-?[0-9]+))?)?")
_SEPARATOR = re.compile(r"[ \t\r\n]*(,?)[ \t\r\n]*")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
#: Longer numbers are not converted at all.
_MAX_DIGITS = 18
EXAMPLES = "write 1-100, 1-100x5 or 1-10,20,30-40"


def read_runs(text: str) -> tuple[list[Run], list[int]]:
    """The parts of a text as runs, repeats and all, and where in the text each begins."""
    runs: list[Run] = []
    places: list[int] = []
    listed = 0
    end = len(text.rstrip(_BLANKS))
    place = len(text) - len(text.lstrip(_BLANKS))
    if place >= end:
        raise FrameRangeError("the frame range is empty", 0, hint=EXAMPLES)
    while True:
        part = _PART.match(text, place, end)
        if part is None:
            raise _bad_part(text, place, end)
        if text.startswith(".", part.end(), end):
            raise _subframe(part.end())
        run = _run(part, place)
        listed += run.count
        if run.count > MAX_FRAMES or listed > MAX_LISTED:
            raise too_many(max(run.count, listed), place)
        runs.append(run)
        places.append(place)
        stop = part.end()
        if stop == end:
            return runs, places
        separator = _SEPARATOR.match(text, stop, end)
        assert separator is not None
        place = separator.end()
        if place == stop:
            raise _bad_end(text, stop)
        if place == end:
            raise FrameRangeError("nothing follows the comma", separator.start(1), hint=EXAMPLES)


def _run(part: re.Match[str], place: int) -> Run:
    """The run of one matched part."""
    first = _number(part, 1)
    last = first if part[2] is None else _number(part, 2)
    step = 1 if part[3] is None else _number(part, 3)
    if step == 0:
        raise FrameRangeError(f"{part[0]} has a step of zero", part.start(3), hint="a step is at least 1")
    if step < 0 and last > first:
        raise FrameRangeError(
            f"{part[0]} counts up with a negative step",
            part.start(3),
            hint=f"write {last}-{first}x{-step} to count down",
        )
    step = abs(step) if last >= first else -abs(step)
    count = (last - first) // step + 1
    if count > MAX_FRAMES:
        raise too_many(count, place)
    for group, frame in ((1, first), (2, last)):
        if not FRAME_MIN <= frame <= FRAME_MAX:
            raise FrameRangeError(f"frame {frame} is beyond {FRAME_MIN} to {FRAME_MAX}", part.start(group))
    return Run(first, step, count) if count > 1 else Run(first, 1, 1)


def _number(part: re.Match[str], group: int) -> int:
    text = part[group]
    digits = text.lstrip("-0") or "0"
    if len(digits) > _MAX_DIGITS:
        place = part.start(group)
        raise FrameRangeError(f"the number at position {place} is too large", place)
    return -int(digits) if text.startswith("-") else int(digits)


def too_many(count: int, place: int) -> FrameRangeError:
    """The error for a range that is too long."""
    return FrameRangeError(
        f"{count} frames are too many", place, hint=f"a range has at most {MAX_FRAMES} frames; split the job"
    )


def _bad_part(text: str, place: int, end: int) -> FrameRangeError:
    """The error for a place where a frame should begin."""
    found = text[place]
    if found == ",":
        return FrameRangeError("there is no frame before the comma", place, hint=EXAMPLES)
    if found == ".":
        return _subframe(place)
    if found in _DASHES:
        return _dash(found, place)
    if found == "-" and place + 1 < end:
        place += 1
        found = text[place]
    return FrameRangeError(f"a frame number should be where {found!r} is", place, hint=EXAMPLES)


def _bad_end(text: str, place: int) -> FrameRangeError:
    """The error for what follows a complete part without a separator."""
    found = text[place]
    if found in _DASHES:
        return _dash(found, place)
    if found in "-x:":
        return FrameRangeError(
            f"no number follows the {found!r}, or it stands once too often", place, hint=EXAMPLES
        )
    return FrameRangeError(f"{found!r} does not belong in a frame range", place, hint=EXAMPLES)


def _subframe(place: int) -> FrameRangeError:
    return FrameRangeError("subframes are not supported", place, hint="frames are whole numbers")


def _dash(found: str, place: int) -> FrameRangeError:
    return FrameRangeError(f"{found!r} is not the hyphen '-'", place, hint="type the hyphen of the keyboard")


def run_text(first: int, step: int, count: int) -> str:
    """One run as people write it."""
    if count == 1:
        return str(first)
    last = first + step * (count - 1)
    if step in (1, -1):
        return f"{first}-{last}"
    return f"{first},{last}" if count == 2 else f"{first}-{last}x{abs(step)}"
