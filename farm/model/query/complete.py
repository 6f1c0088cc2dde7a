"""What could be typed next in a filter.

What belongs here: candidates for the word under the cursor, from the fields and from what the farm has now
(facets).  Works on text that does not parse yet, since that is when it is asked.  What may not: the farm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from farm.model.query.amounts import EXAMPLES
from farm.model.query.fields import NUMBERS, Field, Kind, Vocabulary
from farm.model.query.tree import FIELD_HEAD, STOPS, Text

#: Values of a field that the farm has now, and how many rows have each.
Facets = Mapping[str, Mapping[str, int]]
#: More candidates than this are not offered.
MOST: Final = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that could stand there.

    Attributes:
        text: What replaces the piece under the cursor.
        help: What it is.
        count: How many rows have it now, None where that means nothing.
        goes_on: Whether something follows it (a field wants a value), so that no blank is put after it.
    """

    text: str
    help: str = ""
    count: int | None = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """What could replace a piece of the text.

    Attributes:
        start, end: The piece.
        candidates: Best first.
    """

    start: int
    end: int
    candidates: tuple[Candidate, ...] = ()

    def apply(self, text: str, candidate: Candidate) -> tuple[str, int]:
        """The text with a candidate in it, and where the cursor is then."""
        tail = text[self.end :]
        put = candidate.text if candidate.goes_on or tail[:1] in (" ", ")", ",") else candidate.text + " "
        cursor = self.start + len(put)
        return text[: self.start] + put + tail, cursor + (tail[:1] == " " and not candidate.goes_on)


def complete(text: str, cursor: int, vocabulary: Vocabulary, facets: Facets | None = None) -> Completion:
    """Candidates for the piece of the text that ends at the cursor.

    Args:
        text: The filter as typed so far.
        cursor: Where typing goes on, 0 to the length of the text.
        vocabulary: The fields.
        facets: What the rows have now, by field name.
    """
    cursor = max(0, min(cursor, len(text)))
    start, in_quotes = _word_start(text, cursor)
    end = _word_end(text, cursor, in_quotes)
    while text.startswith(("-", "("), start) and start < cursor:
        start += 1
    typed = text[start:cursor]
    head = FIELD_HEAD.match(typed)
    have = facets or {}
    if head is None:
        return Completion(start, end, _words(typed, vocabulary, have))
    field = vocabulary.find(head[1])
    if field is None:
        return Completion(start, start + len(head[1]), _fields(head[1], vocabulary))
    at = start + head.end()
    if head[2] in (":", "=", "!="):
        at = max(at, _last_comma(text, at, cursor) + 1)
    comma = text.find(",", cursor, end)
    return Completion(at, comma if comma >= 0 else end, _values(field, text[at:cursor], head[2], have))


def _word_start(text: str, cursor: int) -> tuple[int, bool]:
    """Where the word under the cursor begins, and whether the cursor is inside of quotes."""
    start, place, in_quotes = 0, 0, False
    while place < cursor:
        char = text[place]
        if char == "\\" and in_quotes:
            place += 1
        elif char == '"':
            if not in_quotes and text[place - 1 : place] not in (":", "=", ","):
                start = place
            in_quotes = not in_quotes
        elif char in STOPS and not in_quotes:
            start = place + 1
        place += 1
    return min(start, cursor), in_quotes


def _word_end(text: str, cursor: int, in_quotes: bool) -> int:
    end = cursor
    while end < len(text) and (text[end] not in STOPS if not in_quotes else text[end] != '"'):
        end += 1
    return end + (in_quotes and end < len(text))


def _last_comma(text: str, start: int, cursor: int) -> int:
    found, in_quotes = -1, False
    for place in range(start, cursor):
        if text[place] == '"' and text[place - 1] != "\\":
            in_quotes = not in_quotes
        elif text[place] == "," and not in_quotes:
            found = place
    return found


def _words(typed: str, vocabulary: Vocabulary, facets: Facets) -> tuple[Candidate, ...]:
    """Fields, and values of the fields that words look at."""
    found = list(_fields(typed, vocabulary))
    plain = typed.strip('"').casefold()
    if plain:
        matches = [
            (count, field, value)
            for field in vocabulary.searched
            for value, count in facets.get(field.name, {}).items()
            if plain in value.casefold()
        ]
        found += [
            Candidate(f"{field.name}:{Text(value)}", f"{field.name} {value}", count)
            for count, field, value in nlargest(10, matches, key=lambda match: match[0])
        ]
        if "or".startswith(plain):
            found.append(Candidate("or", "one or the other"))
    return tuple(found[:MOST])


def _fields(typed: str, vocabulary: Vocabulary) -> tuple[Candidate, ...]:
    prefix = typed.casefold()
    found = []
    for field in vocabulary.fields:
        if not any(name.startswith(prefix) for name in (field.name, *field.aliases)):
            continue
        if field.bare:
            found.append(Candidate(field.name, field.help))
        elif field.kind in NUMBERS:
            found += [Candidate(field.name + sign, field.help, goes_on=True) for sign in "<>"]
        else:
            found.append(Candidate(field.name + ":", field.help, goes_on=True))
    return tuple(found)


def _values(field: Field, typed: str, operator: str, facets: Facets) -> tuple[Candidate, ...]:
    plain = re.sub(r'^"|\\(?=.)', "", typed).casefold()
    if field.kind in NUMBERS:
        written = [Candidate(text, "for example") for text in EXAMPLES[field.kind] if text.startswith(plain)]
        if operator == ":":
            # A measured amount is never met exactly: what is offered has to be what may be written.
            written = [Candidate(f"{one.text}..", "at least", goes_on=True) for one in written]
        return tuple(written)
    counts = dict(facets.get(field.name, {}))
    known = {word: counts.pop(word, 0 if facets.get(field.name) else None) for word in field.words}
    ranked = sorted(counts, key=lambda value: (-counts[value], value.casefold()))
    values: list[tuple[str, int | None]] = [*known.items(), *((value, counts[value]) for value in ranked)]
    chosen = [(value, count) for value, count in values if value and plain in value.casefold()]
    chosen.sort(key=lambda one: not one[0].casefold().startswith(plain))
    if field.kind is Kind.FRAMES:
        return ()
    return tuple(Candidate(str(Text(value)), field.help, count) for value, count in chosen[:MOST])
