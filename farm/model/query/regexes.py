"""Which regular expressions a filter takes: those that compile and that end in good time.

What belongs here: the check.  Python's expressions backtrack: a repeat inside a repeat can take for ever over
a name of thirty letters, and a list that is filtered as somebody types must not stop for it.
"""

from __future__ import annotations

import re
import warnings

from farm.model.errors import CallError

#: Longer expressions are refused.
LONGEST = 200
#: More repeats in one expression are refused: each multiplies what the next one costs by the text's length.
MOST_REPEATS = 2
#: More choices (``|`` and ``?``) are refused, since each doubles it: so many, less three for every repeat.
MOST_CHOICES = 9
_REPEAT = re.compile(r"[*+]|\{[0-9]*(?:,[0-9]*)?\}")
_FIXED = re.compile(r"\{[0-9]+\}\Z")


def check_regex(source: str) -> None:
    """Refuses an expression that does not compile or might take too long.

    Raises:
        CallError: Says why.
    """
    if not source:
        raise CallError(
            "the expression is empty", hint='write e.g. /fx_v\\d+/; a path goes in quotes: "/proj"'
        )
    if len(source) > LONGEST:
        raise CallError(f"the expression is longer than {LONGEST} characters")
    if "(?" in source.replace("(?:", ""):
        raise CallError("an expression may have groups but nothing else that begins with '(?'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(source, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise CallError(f"the expression is wrong: {error}") from error
    except Warning as error:  # it means something else than it will one day
        raise CallError(f"the expression is doubtful: {error}") from error
    _check_repeats(source)


def _check_repeats(source: str) -> None:
    """Refuses repeats in repeats, choices in repeats, and too many of them."""
    # Of each open group: whether it has a repeat or a choice in it.
    groups = [False]
    closed = False
    repeats = choices = place = 0
    while place < len(source):
        char = source[place]
        size = 1
        was_closed, closed = closed, False
        if char == "\\":
            size = 2
        elif char == "[":
            size = _class_end(source, place) - place
        elif char == "(":
            groups.append(False)
        elif char == ")":
            inner = groups.pop() if len(groups) > 1 else False
            groups[-1] = groups[-1] or inner
            closed = inner
        elif char in "|?":
            # (a repeat that is not greedy has its "?" counted here too, which does no harm)
            choices += 1
            groups[-1] = True
            closed = char == "?"
        elif (found := _REPEAT.match(source, place)) is not None:
            size = len(found[0])
            if was_closed:
                raise CallError("a repeat or a choice inside a repeat can take for ever")
            if not _FIXED.match(found[0]):
                repeats += 1
                groups[-1] = True
        place += size
    if repeats > MOST_REPEATS:
        raise CallError(f"more than {MOST_REPEATS} repeats can take for ever")
    most = MOST_CHOICES - 3 * repeats
    if choices > most:
        raise CallError(f"more than {most} choices beside {repeats} repeats can take for ever")


def _class_end(source: str, place: int) -> int:
    """Where a class of characters that begins at ``place`` ends."""
    place += 1
    if source.startswith("^", place):
        place += 1
    if source.startswith("]", place):
        place += 1
    while place < len(source) and source[place] != "]":
        place += 2 if source[place] == "\\" else 1
    return place + 1
