"""Whether a row is what a filter asks for.

What belongs here: the meaning of terms for one row.  Rows are read by accessors that are handed in, since
this room knows no rows.  What a row does not have (None) never fits, so that its opposite always does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from farm.model.frames import FRAME_MAX, FRAME_MIN, FrameRange
from farm.model.query.fields import Field, Kind, Vocabulary
from farm.model.query.tree import All, Between, Flag, Frames, Node, Not, Term, Value, text_test


@dataclass(frozen=True, slots=True)
class Context:
    """What a filter may know besides the row.

    Attributes:
        now_us: Microseconds since the epoch.
        user: Who asks, for ``mine``.
    """

    now_us: int = 0
    user: str = ""


#: Reads a field of a row: text or several texts, a number in the field's unit, frames, yes or no, or None.
Accessor = Callable[[Any, Context], object]
Test = Callable[[Any], bool]


def compile_node(
    node: Node | None, vocabulary: Vocabulary, accessors: Mapping[str, Accessor], context: Context
) -> Test:
    """A test of rows.

    Args:
        node: The tree; None fits every row.
        vocabulary: The fields.
        accessors: One per field of the vocabulary, by name.
        context: The time, and who asks.
    """
    if node is None:
        return lambda row: True
    if isinstance(node, Term):
        return _term_test(node, vocabulary, accessors, context)
    if isinstance(node, Not):
        inner = compile_node(node.part, vocabulary, accessors, context)
        return lambda row: not inner(row)
    tests = [compile_node(part, vocabulary, accessors, context) for part in node.parts]
    if isinstance(node, All):
        return lambda row: all(test(row) for test in tests)
    return lambda row: any(test(row) for test in tests)


def _term_test(
    term: Term, vocabulary: Vocabulary, accessors: Mapping[str, Accessor], context: Context
) -> Test:
    fields = (term.field,) if term.field is not None else vocabulary.searched
    pairs = [(accessors[field.name], value_test(term, field)) for field in fields]
    if len(pairs) == 1:
        read, fits = pairs[0]
        return lambda row: fits(read(row, context))
    return lambda row: any(fits(read(row, context)) for read, fits in pairs)


def value_test(term: Term, field: Field) -> Callable[[Any], bool]:
    """A test of the values of one field."""
    values = term.values
    if field.kind in (Kind.TEXT, Kind.WORD):
        # A word without a field looks into everything, also into what has but a few words.
        whole = field.kind is Kind.WORD and term.field is not None
        fits = text_test(values, exact=term.exact, whole=whole)

        def text_fits(found: str | Iterable[str] | None) -> bool:
            if isinstance(found, str):
                return fits(found)
            return found is not None and any(fits(one) for one in found)

        return text_fits
    if field.kind is Kind.FLAG:
        wanted = {value.value for value in values if isinstance(value, Flag)}
        return lambda found: found in wanted
    if field.kind is Kind.FRAMES:
        return lambda found: found is not None and frames_fit(found, values)
    intervals = [value for value in values if isinstance(value, Between)]
    if len(intervals) == 1:
        only = intervals[0]
        return lambda found: found is not None and found in only
    return lambda found: found is not None and any(found in interval for interval in intervals)


def frames_fit(found: int | FrameRange | Iterable[FrameRange], values: Iterable[Value]) -> bool:
    """Whether frames have one that is asked for."""
    if isinstance(found, int):
        found = (FrameRange.from_frames((found,)),)
    elif isinstance(found, FrameRange):
        found = (found,)
    return any(_touches(one, value) for one in found for value in values)


def _touches(frames: FrameRange, value: Value) -> bool:
    if isinstance(value, Frames):
        return frames.intersects(value.range)
    assert isinstance(value, Between)
    low = math.ceil(max(value.low, FRAME_MIN))
    high = math.floor(min(value.high, FRAME_MAX))
    low += not value.low_in and low == value.low
    high -= not value.high_in and high == value.high
    for run in frames.runs:
        if low > high or run.high < low or run.low > high:
            continue
        # The first frame of the run that is not below the interval.
        step = abs(run.step) or 1
        first = run.low + -(-max(0, low - run.low) // step) * step
        if first <= min(high, run.high):
            return True
    return False
