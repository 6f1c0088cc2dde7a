"""A parsed filter: terms, and how they are joined.

What belongs here: the records and turning them back into text that parses to the same.  Where something
stood in the text takes no part in comparisons.  What may not: parsing, and rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import lru_cache

from farm.model.errors import CallError
from farm.model.frames import FrameRange
from farm.model.query.fields import VOCABULARIES, Field

#: What ends a word that is not quoted.
STOPS = ' \t\r\n()"'
#: A name, and what compares it with what follows.
FIELD_HEAD = re.compile(r"([A-Za-z][A-Za-z0-9_]*)(!=|<=|>=|:|=|<|>)")
#: Words that join others; quoted they are ordinary.
JOINERS = frozenset({"or", "and"})
#: Names that mean something by themselves, in any vocabulary; quoted they are ordinary, too.
BARE = frozenset(field.name for words in VOCABULARIES for field in words.fields if field.bare)


class QueryError(CallError):
    """A filter does not parse.

    Attributes:
        position: Where in the text what is wrong begins, 0-based; always inside the text.
        end: Where it ends (exclusive), for underlining.
    """

    code = "query"

    def __init__(self, message: str, position: int = 0, end: int = 0, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.position = position
        self.end = max(end, position + 1)


@dataclass(frozen=True, slots=True)
class Text:
    """Text to look for.

    Attributes:
        text: What was written, without quotes.
        wild: Whether ``*`` in it stands for anything.
    """

    text: str
    wild: bool = False

    def __str__(self) -> str:
        return self.text if self.wild or not _needs_quotes(self.text, in_list=True) else quoted(self.text)


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression (Python's), whatever its case."""

    source: str

    def __str__(self) -> str:
        return "/" + re.sub(r"(?s)(\\.)|/", lambda found: found[1] or r"\/", self.source) + "/"


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers in an interval, in the field's own unit (seconds, MiB, nano-USD, hundredths).

    Attributes:
        low, high: Its ends.
        low_in, high_in: Whether they belong to it.
        shown: As it was written, ``<2d`` or ``40..60``.
    """

    low: float
    high: float
    low_in: bool = True
    high_in: bool = True
    shown: str = attribute(default="", compare=False)

    def __contains__(self, number: float) -> bool:
        """Whether a number is in it."""
        above = number >= self.low if self.low_in else number > self.low
        return above and (number <= self.high if self.high_in else number < self.high)

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of which one is enough."""

    range: FrameRange

    def __str__(self) -> str:
        return str(self.range)


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    value: bool

    def __str__(self) -> str:
        return "yes" if self.value else "no"


Value = Text | Regex | Between | Frames | Flag


@dataclass(frozen=True, slots=True)
class Term:
    """One thing asked of a row: that a field has one of some values.

    Attributes:
        field: Which field; None = any of those that words are looked for in.
        values: One of them is enough.
        exact: Of text: that it is the whole value, not a part of it.
        start, end: Where it stands in the text.
    """

    field: Field | None
    values: tuple[Value, ...]
    exact: bool = False
    start: int = attribute(default=0, compare=False)
    end: int = attribute(default=0, compare=False)

    def __str__(self) -> str:
        if self.field is None:
            return _word_text(self.values[0])
        if self.field.bare and self.values == (Flag(True),):
            return self.field.name
        first = self.values[0]
        if isinstance(first, Between) and first.shown[:1] in "<>":
            return self.field.name + first.shown
        return self.field.name + ("=" if self.exact else ":") + ",".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class Not:
    """What must not be so."""

    part: Node
    start: int = attribute(default=0, compare=False)
    end: int = attribute(default=0, compare=False)

    def __str__(self) -> str:
        return f"-({self.part})" if isinstance(self.part, All | Either) else f"-{self.part}"


@dataclass(frozen=True, slots=True)
class All:
    """Two or more things that must all be so; none of them is an ``All``."""

    parts: tuple[Node, ...]
    start: int = attribute(default=0, compare=False)
    end: int = attribute(default=0, compare=False)

    def __str__(self) -> str:
        return " ".join(f"({part})" if isinstance(part, Either) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Either:
    """Two or more things of which one must be so; none of them is an ``Either``."""

    parts: tuple[Node, ...]
    start: int = attribute(default=0, compare=False)
    end: int = attribute(default=0, compare=False)

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


Node = Term | Not | All | Either


def terms_of(node: Node | None) -> Iterator[Term]:
    """Every term, in the order of the text."""
    if isinstance(node, Term):
        yield node
    elif isinstance(node, Not):
        yield from terms_of(node.part)
    elif node is not None:
        for part in node.parts:
            yield from terms_of(part)


def text_test(values: tuple[Value, ...], *, exact: bool, whole: bool) -> Callable[[str], bool]:
    """Says whether a text has one of these values.

    Args:
        values: Texts and regular expressions.
        exact: Whether a text must be the whole of it (``=``).
        whole: Whether it must be even without ``exact`` (words).

    Returns:
        A test that takes the text as it is, whatever its case.
    """
    tests = [_one_text_test(value, exact or whole) for value in values]
    if len(tests) == 1:
        return tests[0]
    return lambda text: any(test(text) for test in tests)


def _one_text_test(value: Value, whole: bool) -> Callable[[str], bool]:
    pattern = pattern_of(value, whole)
    if pattern is not None:
        return lambda text: pattern.search(text) is not None
    assert isinstance(value, Text)
    wanted = value.text.casefold()
    if whole:
        return lambda text: text.casefold() == wanted
    return lambda text: wanted in text.casefold()


@lru_cache(maxsize=256)
def pattern_of(value: Value, whole: bool) -> re.Pattern[str] | None:
    """The regular expression of a value; None for plain text."""
    if isinstance(value, Regex):
        return re.compile(value.source, re.IGNORECASE)
    if isinstance(value, Text) and value.wild:
        body = ".*".join(map(re.escape, re.split(r"\*+", value.text)))
        return re.compile(rf"\A{body}\Z" if whole else body, re.IGNORECASE | re.DOTALL)
    return None


def quoted(text: str) -> str:
    """Text in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _word_text(value: Value) -> str:
    """A word without a field, as it would be typed."""
    if isinstance(value, Text) and not value.wild and _needs_quotes(value.text, in_list=False):
        return quoted(value.text)
    return value.text if isinstance(value, Text) else str(value)


def _needs_quotes(text: str, *, in_list: bool) -> bool:
    """Whether text would be read as something else if it stood there bare."""
    if not text or text[0] in "/" or "*" in text or any(stop in text for stop in STOPS):
        return True
    if in_list:
        return "," in text
    return (
        text[0] == "-"
        or text.casefold() in JOINERS
        or text.casefold() in BARE
        or FIELD_HEAD.match(text) is not None
    )
