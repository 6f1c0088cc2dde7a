"""One line of a log made fit to be shown: decoded, without escape sequences, and how bad it is.

What belongs here: bytes of a row to text, colours and a level, by rules that need nothing but that row.  What
may not: files, Qt, and where rows begin (``store.logindex``).

A log is what some program wrote: nothing in it may steer the window.  Escape sequences become colours or
nothing; other control characters are written out as the command line does (``\\x07``); bytes that are no
UTF-8 become the replacement character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farm.renderers.verdicts import Pattern

#: Longest row in bytes; a longer line takes several rows, so that one of 10 MB costs no more than others.
LONGEST: Final = 8192
#: Width of a tabulator.
_TAB: Final = 8


class Level(IntEnum):
    """How bad a line is."""

    NONE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a text in a colour of the program's own.

    Attributes:
        start, end: Characters of the text.
        token: Colour by its name in ``style.tokens``; "" = that of text.
        bold: Whether it is set bold.
    """

    start: int
    end: int
    token: str
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A row as it is shown."""

    text: str
    spans: tuple[Span, ...] = ()
    level: Level = Level.NONE
    stamp: int = 0


_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~])"  # control sequences; SGR among them
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # titles and links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\|$)"
    r"|\x1b[ -/]*[0-~]?"
)
#: Hours at the start of a line, with or without a date.
_STAMP = re.compile(
    r"\s*[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[T ]|\d\d[-/.]\d\d[-/.]\d{2,4}[ ,]+)?"
    r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?"
    r"(?:Z|[+-]\d\d:?\d\d)?[\])]?(?=\s|:|\||$)"
)
_COLOURS: Final = {1: "bad", 2: "good", 3: "warn", 4: "accent", 5: "accent", 6: "accent"}


def shown(row: bytes) -> tuple[str, tuple[Span, ...]]:
    """A row's text and its colours.

    Of a line that overwrites itself (progress, with carriage returns) the last state is shown.

    Args:
        row: Its bytes, with or without the line's end.
    """
    row = row.rstrip(b"\r\n")
    if b"\r" in row:
        row = next((part for part in reversed(row.split(b"\r")) if part.strip()), b"")
    text = row.decode("utf-8", "replace")
    if text.isprintable():
        return text, ()
    return _cleaned(text)


def _cleaned(text: str) -> tuple[str, tuple[Span, ...]]:
    out: list[str] = []
    spans: list[Span] = []
    column, at = 0, 0
    token, bold, since = "", False, 0
    for match in [*_ESCAPE.finditer(text), None]:
        end = match.start() if match is not None else len(text)
        for char in text[at:end]:
            if char == "\t":
                piece = " " * (_TAB - column % _TAB)
            elif char.isprintable():
                piece = char
            else:
                piece = _written(char)
            out.append(piece)
            column += len(piece)
        if match is None:
            break
        at = match.end()
        if match.group(2) == "m":
            if (token or bold) and column > since:
                spans.append(Span(since, column, token, bold))
            token, bold = _style(match.group(1), token, bold)
            since = column
    if (token or bold) and column > since:
        spans.append(Span(since, column, token, bold))
    return "".join(out), tuple(spans)


def _written(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _style(codes: str, token: str, bold: bool) -> tuple[str, bool]:
    """The style after an SGR sequence; colours that the look has no word for are left out."""
    numbers = [int(part) if part.isdigit() else 0 for part in codes.split(";")][:32]
    skip = 0
    for place, code in enumerate(numbers):
        if skip:
            skip -= 1
        elif code == 0:
            token, bold = "", False
        elif code == 1:
            bold = True
        elif code == 2:
            token = "dim"
        elif code == 22:
            bold = False
        elif code in (38, 48):
            kind = numbers[place + 1] if place + 1 < len(numbers) else 0
            skip = {5: 2, 2: 4}.get(kind, 1)
            token = "" if code == 38 else token
        elif code == 39:
            token = ""
        elif 30 <= code <= 37:
            token = _COLOURS.get(code - 30, "")
        elif 90 <= code <= 97:
            token = "dim" if code == 90 else _COLOURS.get(code - 90, "")
    return token, bold


def stamp_length(text: str) -> int:
    """Characters of the time a line begins with, 0 when it begins with none."""
    match = _STAMP.match(text)
    return match.end() if match is not None else 0


def line_of(row: bytes) -> Line:
    """A row as it is shown."""
    text, spans = shown(row)
    return Line(text, spans, level_of(text), stamp_length(text))


# -- how bad it is --

#: A row without any of these (in lower case) is never judged; looked for by ``find``, which is fast.
KEYWORDS: Final[tuple[bytes, ...]] = (
    *(b"error", b"warn", b"fatal", b"critical", b"severe", b"exception", b"traceback", b"fail", b"cannot"),
    *(
        b"could not",
        b"unable",
        b"denied",
        b"abort",
        b"segm",
        b"memory",
        b"alloc",
        b"licen",
        b"cuda",
        b"libcuda",
    ),
    *(b"no such", b"core dumped", b"problem", b"optix", b"openencode", b"rlm", b"not found", b"missing"),
)
_WORDS: Final = tuple(word.decode() for word in KEYWORDS)
#: A level a program names itself, near the start of the line.
_NAMED = re.compile(
    r"^.{0,48}?(?:[\[(|<{]\s*|\b)(?:(?P<e>ERROR|FATAL|CRITICAL|SEVERE|ERR)|(?P<w>WARNING|WARN)"
    r"|(?P<i>INFO|DEBUG|TRACE|VERBOSE|NOTICE))\b(?:\s*[\])|>}:]|\s{1,3}[|:-]|\s+\S)"
)
_ERROR = re.compile(
    r"(?i)\btraceback \(most recent call last\)|^\s*(?:[\w.]+\.)?\w*(?:error|exception)(?::|$)|\bfatal\b"
    r"|\bsegmentation (?:fault|violation)|\bcore dumped|\babort(?:ed|ing)\b|assertion\b.{0,80}\bfailed"
    r"|\b(?:render|script|process|command|task)\w*\s+failed\b|\bpermission denied\b|\bno such file\b"
    r"|\berrors?\s*:|\berror\b(?!\s*(?:=|<|:?\s*0\b|threshold|rate|bound|estimate|level|handling|margin))"
)
_NO_ERROR = re.compile(
    r"(?i)\b(?:no|0|zero|without(?: any)?)\s+(?:\w+\s+)?(?:errors?|failures?)\b|\berrors?:?\s*=?\s*0\b"
)
_WARNING = re.compile(
    r"(?i)\bwarn(?:ing)?s?\b|\bdeprecat|\bfailed\b|\bfailure\b|\bcannot\b|\bcould not\b|\bunable to\b"
    r"|\bnot found\b|\bmissing\b"
)
_NO_WARNING = re.compile(
    r"(?i)\b(?:no|0|zero|without(?: any)?)\s+(?:\w+\s+)?warnings?\b|\bwarnings?:?\s*=?\s*0\b"
)


@lru_cache(maxsize=1)
def _machine() -> Sequence[Pattern]:
    """Trouble any program may print, as the farm itself reads it; imported when first needed."""
    from farm.renderers.verdicts import MACHINE

    return MACHINE


#: How the farm's line with the command it starts begins: words in it are no output of anybody.
COMMAND: Final = "== overcrank: $ "


def level_of(text: str) -> Level:
    """How bad a line is.

    First what the farm itself would take for trouble (memory, GPU, licence; the helpers' own ``FARM`` lines),
    then a level the program names, then words.
    """
    if text.startswith(COMMAND):
        return Level.NONE
    low = text.lower()
    if not any(word in low for word in _WORDS):
        return Level.NONE
    farms = _farm_line(text)
    if farms is not None:
        return farms
    if any(pattern.regex.search(text) for pattern in _machine()):
        return Level.ERROR
    named = _NAMED.match(text)
    if named is not None:
        if named.group("e"):
            return Level.ERROR
        return Level.WARNING if named.group("w") else Level.NONE
    if _ERROR.search(text) and not _NO_ERROR.search(text):
        return Level.ERROR
    if _WARNING.search(text) and not _NO_WARNING.search(text) and not _NO_ERROR.search(text):
        return Level.WARNING
    return Level.NONE


def _farm_line(text: str) -> Level | None:
    if "FARM {" not in text:
        return None
    from farm.renderers.base import Problem
    from farm.renderers.farmlines import farm_events

    events = farm_events(text)
    if events is None:
        return None
    found = [event for event in events if isinstance(event, Problem)]
    if not found:
        return Level.NONE
    return Level.WARNING if all(event.warning for event in found) else Level.ERROR
