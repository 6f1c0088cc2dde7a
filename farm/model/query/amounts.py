"""Numbers with units, as filters write them: ``32g``, ``2d``, ``1h30m``, ``50%``, ``5usd``.

What belongs here: from text to a number in a field's own unit, and its refusals in words.  What may not:
where in a filter it stood; whoever asks adds that.
"""

from __future__ import annotations

import re
from typing import Final

from farm.model.errors import CallError
from farm.model.query.fields import Kind

_NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}"
_PLAIN = re.compile(rf"([+-]?)({_NUMBER})([a-z%$]*)\Z", re.IGNORECASE)
_DOLLARS = re.compile(rf"\$({_NUMBER})\Z")
_PIECE = re.compile(rf"({_NUMBER})([a-z]+)", re.IGNORECASE)

_SECONDS: Final = {
    **dict.fromkeys(("s", "sec"), 1.0),
    **dict.fromkeys(("m", "min"), 60.0),
    **dict.fromkeys(("h", "hr"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400.0),
}
_MIB: Final = {
    **dict.fromkeys(("k", "kb", "kib"), 1.0 / 1024),
    **dict.fromkeys(("m", "mb", "mib"), 1.0),
    **dict.fromkeys(("", "g", "gb", "gib"), 1024.0),
    **dict.fromkeys(("t", "tb", "tib"), 1024.0 * 1024),
}
_THOUSANDS: Final = {"": 1.0, "k": 1e3, "m": 1e6}
_USD: Final = {"": 1e9, "usd": 1e9, "k": 1e12}
_PERCENT: Final = {"": 1.0, "%": 1.0}

#: How amounts of a kind are written, for messages and completion.
EXAMPLES: Final = {
    Kind.COUNT: ("40", "10k"),
    Kind.PERCENT: ("50%",),
    Kind.MEMORY: ("32g", "512m"),
    Kind.MONEY: ("5", "0.50"),
    Kind.DURATION: ("30m", "2h", "1d", "1h30m"),
}
_UNITS: Final = {
    Kind.COUNT: _THOUSANDS,
    Kind.PERCENT: _PERCENT,
    Kind.MEMORY: _MIB,
    Kind.MONEY: _USD,
}


def read_amount(kind: Kind, text: str) -> float:
    """An amount in the unit of its kind: seconds, MiB, nano-USD, hundredths or a count.

    Raises:
        CallError: It is none, or its unit is none of the kind's.
    """
    if kind is Kind.DURATION:
        return _duration(text)
    dollars = _DOLLARS.match(text) if kind is Kind.MONEY else None
    if dollars is not None:
        return float(dollars[1]) * 1e9
    found = _PLAIN.match(text)
    if found is None:
        raise CallError(f"{text!r} is not a number", hint=_hint(kind))
    units = _UNITS[kind]
    unit = found[3].casefold()
    if unit not in units:
        raise CallError(f"{found[3]!r} is not a unit that fits here", hint=_hint(kind))
    number = float(found[2]) * units[unit]
    return -number if found[1] == "-" else number


def _duration(text: str) -> float:
    if text in ("0", "-0", "+0"):
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in ("-", "+") else text
    seconds, place = 0.0, 0
    while place < len(rest):
        piece = _PIECE.match(rest, place)
        if piece is None:
            problem = (
                f"{text!r} does not say of what" if re.fullmatch(_NUMBER, rest) else f"{text!r} is no time"
            )
            raise CallError(problem, hint=_hint(Kind.DURATION))
        unit = piece[2].casefold()
        if unit not in _SECONDS:
            raise CallError(f"{piece[2]!r} is not a unit of time", hint="units are s, m, h, d and w")
        seconds += float(piece[1]) * _SECONDS[unit]
        place = piece.end()
    if not rest:
        raise CallError("a time is missing", hint=_hint(Kind.DURATION))
    return sign * seconds


def _hint(kind: Kind) -> str:
    return "write e.g. " + " or ".join(EXAMPLES[kind])
