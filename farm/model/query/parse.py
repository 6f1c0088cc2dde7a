"""The filter language: from text to a tree.

What belongs here: exactly the grammar below and its refusals, each with its place.  What may not: which
fields there are (``fields``), how numbers are written (``amounts``), and rows.

    filter  = [ either ]
    either  = all { "or" all }
    all     = part { [ "and" ] part }
    part    = "-" part | "(" either ")" | term
    term    = word | quoted | regex | name ( ":" | "=" | "!=" ) values
            | name ( "<" | "<=" | ">" | ">=" ) amount
    values  = value { "," value }
    value   = word | quoted | regex | amount | [ amount ] ".." [ amount ] | frame range
    regex   = "/" anything "/"
    quoted  = '"' anything '"'

In quotes a backslash makes the next character an ordinary one.  ``*`` in a word stands for anything.
``!=`` is another way to write a minus before the term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from farm.model.errors import CallError, FrameRangeError
from farm.model.frames import FRAME_MAX, FRAME_MIN, FrameRange
from farm.model.query.amounts import read_amount
from farm.model.query.fields import MEASURED, NUMBERS, Field, Kind, Vocabulary
from farm.model.query.regexes import check_regex
from farm.model.query.tree import (
    FIELD_HEAD,
    STOPS,
    All,
    Between,
    Either,
    Flag,
    Frames,
    Node,
    Not,
    QueryError,
    Regex,
    Term,
    Text,
    Value,
)

#: Longer filters are refused.
LONGEST = 2000
#: Brackets deeper than this are refused.
DEEPEST = 20
_BLANKS = " \t\r\n"
_Read = TypeVar("_Read")
_FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def read_tree(text: str, vocabulary: Vocabulary) -> Node | None:
    """The tree of a filter; None when it asks for nothing.

    Raises:
        QueryError: It does not parse; says what, where and what to write instead.
    """
    if len(text) > LONGEST:
        raise QueryError(f"a filter has at most {LONGEST} characters", LONGEST, len(text))
    return _Reader(text, vocabulary).read()


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self._text = text
        self._end = len(text)
        self._words = vocabulary
        self._place = 0
        self._depth = 0

    def read(self) -> Node | None:
        self._skip()
        if self._place == self._end:
            return None
        found = self._either()
        if self._place < self._end:
            raise self._error("there is no bracket that this one closes", self._place, self._place + 1)
        return found

    # -- joining --

    def _either(self) -> Node:
        start = self._place
        parts = [self._all()]
        while self._joiner() == "or":
            at = self._place
            self._place += 2
            self._skip()
            if self._ends():
                raise self._error("nothing follows the 'or'", at, at + 2, 'to look for the word, write "or"')
            parts.append(self._all())
        flat = [one for part in parts for one in (part.parts if isinstance(part, Either) else (part,))]
        return flat[0] if len(flat) == 1 else Either(tuple(flat), start, self._stop())

    def _all(self) -> Node:
        start = self._place
        parts: list[Node] = []
        while not self._ends():
            joiner = self._joiner()
            if joiner == "or":
                if parts:
                    break
                raise self._error("nothing stands before the 'or'", self._place, self._place + 2)
            if joiner == "and":
                at = self._place
                self._place += 3
                self._skip()
                if not parts or self._ends() or self._joiner():
                    raise self._error(
                        "'and' joins two things", at, at + 3, 'to look for the word, write "and"'
                    )
            parts.append(self._part())
            self._skip()
        if not parts:
            message = (
                "there is nothing in the brackets"
                if self._depth
                else "there is no bracket that this one closes"
            )
            raise self._error(message, self._place, self._place + 1)
        flat = [one for part in parts for one in (part.parts if isinstance(part, All) else (part,))]
        return flat[0] if len(flat) == 1 else All(tuple(flat), start, self._stop())

    def _joiner(self) -> str:
        """``or`` or ``and`` when it stands here, as a word of its own."""
        for word in ("or", "and"):
            stop = self._place + len(word)
            if self._text[self._place : stop].casefold() == word and (
                stop == self._end or self._text[stop] in STOPS
            ):
                return word
        return ""

    def _part(self) -> Node:
        start, minus = self._place, 0
        while self._text.startswith("-", self._place):
            minus += 1
            self._place += 1
        if minus and (self._place == self._end or self._text[self._place] in _BLANKS + ")"):
            raise self._error("nothing follows the minus", start, self._place, 'to look for it, write "-"')
        found = self._group() if self._text.startswith("(", self._place) else self._term()
        if isinstance(found, Not) and minus:
            minus, found = minus + 1, found.part
        return Not(found, start, self._place) if minus % 2 else found

    def _group(self) -> Node:
        opened = self._place
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"more than {DEEPEST} brackets inside each other", opened, opened + 1)
        self._place += 1
        self._skip()
        if self._place == self._end:
            raise self._error("this bracket is not closed", opened, opened + 1)
        found = self._either()
        if not self._text.startswith(")", self._place):
            raise self._error("this bracket is not closed", opened, opened + 1)
        self._place += 1
        self._depth -= 1
        return replace(found, start=opened, end=self._place)

    # -- terms --

    def _term(self) -> Node:
        start = self._place
        head = FIELD_HEAD.match(self._text, start)
        if head is not None:
            return self._field_term(head[1], head[2], start, head.end())
        value = self._value(STOPS)
        if isinstance(value, Text) and not self._was_quoted(start):
            field = self._words.find(value.text)
            if field is not None and field.bare:
                return Term(field, (Flag(True),), False, start, self._place)
        return Term(None, (value,), False, start, self._place)

    def _field_term(self, name: str, operator: str, start: int, place: int) -> Node:
        field = self._words.find(name)
        if field is None:
            near = self._words.nearest(name)
            raise self._error(
                f"{self._words.name} have no field {name!r}",
                start,
                start + len(name),
                f"did you mean {near}?" if near else 'to look for the text itself, write it in "quotes"',
            )
        self._place = place
        if place == self._end or self._text[place] in _BLANKS + ")":
            raise self._error(f"nothing follows '{name}{operator}'", start, place)
        if operator in ("<", "<=", ">", ">="):
            term = Term(field, (self._compared(field, operator, start),), False, start, self._place)
        elif field.kind is Kind.FRAMES:
            term = Term(field, (self._frames(),), False, start, self._place)
        else:
            exact = operator != ":" and field.kind is Kind.TEXT
            term = Term(field, self._values(field), exact, start, self._place)
        return Not(term, start, self._place) if operator == "!=" else term

    def _values(self, field: Field) -> tuple[Value, ...]:
        found: list[Value] = []
        while True:
            at = self._place
            if field.kind in (Kind.TEXT, Kind.WORD):
                found.append(self._value(STOPS + ","))
            else:
                text = self._bare(STOPS + ",")
                if not text:
                    raise self._error("a value is missing", at - 1, at + 1)
                found.append(
                    self._flag(text, at) if field.kind is Kind.FLAG else self._number(field, text, at)
                )
            if not self._text.startswith(",", self._place):
                return tuple(found)
            comma = self._place
            self._place += 1
            self._skip()
            if self._place == self._end or self._text[self._place] in ",)":
                raise self._error("nothing follows the comma", comma, comma + 1)

    # -- values --

    def _value(self, stops: str) -> Value:
        start = self._place
        if self._text.startswith('"', start):
            return Text(self._quoted(start))
        if self._text.startswith("/", start):
            return self._regex(start, stops)
        word = self._bare(stops)
        if not word:
            raise self._error("a value is missing", min(start, self._end - 1), start + 1)
        return Text(word, "*" in word)

    def _bare(self, stops: str) -> str:
        start = self._place
        while self._place < self._end and self._text[self._place] not in stops:
            if self._text[self._place] < " ":
                raise self._error("a control character does not belong here", self._place, self._place + 1)
            self._place += 1
        return self._text[start : self._place]

    def _quoted(self, start: int) -> str:
        self._place += 1
        found: list[str] = []
        while self._place < self._end:
            char = self._text[self._place]
            if char == '"':
                self._place += 1
                if not found:
                    raise self._error("there is nothing in the quotes", start, self._place)
                return "".join(found)
            if char == "\\" and self._place + 1 < self._end:
                self._place += 1
                char = self._text[self._place]
            if char < " ":
                raise self._error("a control character does not belong here", self._place, self._place + 1)
            found.append(char)
            self._place += 1
        raise self._error("these quotes are not closed", start, self._end)

    def _regex(self, start: int, stops: str) -> Regex:
        self._place += 1
        found: list[str] = []
        while self._place < self._end and self._text[self._place] != "/":
            char = self._text[self._place]
            if char == "\\" and self._place + 1 < self._end:
                self._place += 1
                char = "/" if self._text[self._place] == "/" else char + self._text[self._place]
            if char[-1] < " ":
                raise self._error("a control character does not belong here", self._place, self._place + 1)
            found.append(char)
            self._place += 1
        if self._place == self._end:
            raise self._error(
                "this expression is not closed",
                start,
                self._end,
                'write /fx_v\\d+/; a path goes in quotes: "/proj"',
            )
        self._place += 1
        if self._place < self._end and self._text[self._place] not in stops:
            raise self._error(
                "something follows the end of the expression",
                self._place,
                self._place + 1,
                'a path goes in quotes: "/proj/shot"',
            )
        source = "".join(found)
        self._checked(partial(check_regex, source), start, self._place)
        return Regex(source)

    def _compared(self, field: Field, operator: str, start: int) -> Between:
        at = self._place
        text = self._bare(STOPS)
        if field.kind in NUMBERS:
            number = self._checked(partial(read_amount, field.kind, text), at, self._place)
        elif field.kind is Kind.FRAMES:
            number = self._checked(partial(_frame_number, text), at, self._place)
        else:
            raise self._error(
                f"{field.name} cannot be compared with {operator!r}",
                start,
                self._place,
                f"write {field.name}:...",
            )
        shown = operator + text.casefold()
        included = operator.endswith("=")
        if operator[0] == "<":
            return Between(-math.inf, number, True, included, shown)
        return Between(number, math.inf, included, True, shown)

    def _number(self, field: Field, text: str, at: int) -> Between:
        low_text, dots, high_text = text.partition("..")
        end = at + len(text)
        if not dots:
            if field.kind in MEASURED:
                raise self._error(
                    f"{field.name} is never exactly {text}",
                    at,
                    end,
                    f"write {field.name}<{text}, {field.name}>{text} or a range, {field.name}:{text}..",
                )
            number = self._checked(partial(read_amount, field.kind, text), at, end)
            return Between(number, number, shown=text.casefold())
        if not low_text and not high_text:
            raise self._error("a range has at least one end", at, end, "write 40..60, 40.. or ..60")
        low, high = -math.inf, math.inf
        if low_text:
            low = self._checked(partial(read_amount, field.kind, low_text), at, at + len(low_text))
        if high_text:
            high = self._checked(partial(read_amount, field.kind, high_text), end - len(high_text), end)
        if low > high:
            raise self._error(f"{text} counts down", at, end, f"write {high_text}..{low_text}")
        return Between(low, high, shown=text.casefold())

    def _flag(self, text: str, at: int) -> Flag:
        value = _FLAGS.get(text.casefold())
        if value is None:
            raise self._error(f"{text!r} is neither yes nor no", at, at + len(text))
        return Flag(value)

    def _frames(self) -> Frames:
        at = self._place
        text = self._bare(STOPS)
        while text.endswith(","):
            # The list goes on after blanks.
            place = self._place
            self._skip()
            more = self._bare(STOPS)
            if not more:
                self._place = place
                break
            text = self._text[at : self._place]
        try:
            return Frames(FrameRange.parse(text))
        except FrameRangeError as error:
            wrong = at + min(error.position, len(text) - 1)
            raise self._error(error.message, wrong, self._place, error.hint) from error

    # -- helpers --

    def _checked(self, read: Callable[[], _Read], start: int, end: int) -> _Read:
        """What a reader that knows no places gives, or its refusal with the place."""
        try:
            return read()
        except CallError as error:
            raise self._error(error.message, start, end, error.hint) from error

    def _skip(self) -> None:
        while self._place < self._end and self._text[self._place] in _BLANKS:
            self._place += 1

    def _ends(self) -> bool:
        return self._place == self._end or self._text[self._place] == ")"

    def _stop(self) -> int:
        """Where what was read so far ends, without the blanks after it."""
        return len(self._text[: self._place].rstrip(_BLANKS))

    def _was_quoted(self, start: int) -> bool:
        return self._text[start] == '"'

    def _error(self, message: str, start: int, end: int, hint: str = "") -> QueryError:
        """The error, with a place that is inside the text."""
        start = max(0, min(start, self._end - 1))
        return QueryError(message, start, max(start + 1, min(end, self._end)), hint=hint)


def _frame_number(text: str) -> float:
    digits = text[1:] if text[:1] == "-" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        raise CallError(f"{text!r} is not a frame number", hint="frames are whole numbers")
    number = int(text)
    if not FRAME_MIN <= number <= FRAME_MAX:
        raise CallError(f"frame {text} is beyond {FRAME_MIN} to {FRAME_MAX}")
    return float(number)
