"""What two logs have in common, and what not.

What belongs here: comparing by hashes of lines (patience, then a limited search), and folding what is alike.
What may not: Qt.  Files are read: this runs in a process of its own.

Times, addresses and other figures differ from one attempt to the next and mean nothing; unless asked for they
do not count.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from client_gui.store.logtext import shown

#: Most bytes of a log that are compared: its beginning and its end, half each.
MOST_BYTES: Final = 32 << 20
#: Most rows of a result.
MOST_ROWS: Final = 20_000
#: Blocks without a line that is unique in both are compared fully up to so many pairs of lines.
_PAIRS: Final = 250_000
#: Larger ones are compared so many lines at a time.
_WINDOW: Final = 300
_LONGEST: Final = 2000
_FIGURES = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.:,]\d+)*")

#: ``=`` alike, ``-`` only in the first, ``+`` only in the second; where in both.
Block = tuple[str, int, int, int, int]


def blocks(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Block]:
    """The differences, in order; together they cover all of both.

    Patience: lines that are there exactly once in both are matched in order, then what lies between them.
    Where there are none, small blocks are compared fully and large ones window by window.
    """
    pairs = list(_matches(a, b))
    found: list[Block] = []
    at_a = at_b = 0
    for first_a, first_b, length in [*pairs, (len(a), len(b), 0)]:
        if at_a < first_a:
            found.append(("-", at_a, first_a, at_b, at_b))
        if at_b < first_b:
            found.append(("+", first_a, first_a, at_b, first_b))
        if length:
            if found and found[-1][0] == "=":
                last = found.pop()
                found.append(("=", last[1], first_a + length, last[3], first_b + length))
            else:
                found.append(("=", first_a, first_a + length, first_b, first_b + length))
        at_a, at_b = first_a + length, first_b + length
    return found


def _matches(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal lines, in order: where in both, and how long."""
    todo = [(0, len(a), 0, len(b))]
    while todo:
        low_a, high_a, low_b, high_b = todo.pop()
        if low_a < 0:
            # Put aside as already known: a run.
            yield -low_a - 1, low_b, high_b
            continue
        start = 0
        while low_a + start < high_a and low_b + start < high_b and a[low_a + start] == b[low_b + start]:
            start += 1
        if start:
            yield low_a, low_b, start
            low_a, low_b = low_a + start, low_b + start
        end = 0
        while high_a - end > low_a and high_b - end > low_b and a[high_a - end - 1] == b[high_b - end - 1]:
            end += 1
        if end:
            high_a, high_b = high_a - end, high_b - end
            todo.append((-high_a - 1, 0, high_b, end))
        if low_a == high_a or low_b == high_b:
            continue
        anchors = _unique(a, low_a, high_a, b, low_b, high_b)
        if anchors:
            spans: list[tuple[int, int, int, int]] = []
            for place_a, place_b in anchors:
                spans.append((low_a, place_a, low_b, place_b))
                spans.append((-place_a - 1, 0, place_b, 1))
                low_a, low_b = place_a + 1, place_b + 1
            spans.append((low_a, high_a, low_b, high_b))
            todo += reversed(spans)
        else:
            whole = (high_a - low_a) * (high_b - low_b) <= _PAIRS
            yield from _windows(a, low_a, high_a, b, low_b, high_b, max(len(a), len(b)) if whole else _WINDOW)


def _windows(
    a: Sequence[Hashable], low_a: int, high_a: int, b: Sequence[Hashable], low_b: int, high_b: int, wide: int
) -> Iterator[tuple[int, int, int]]:
    """Compares so many lines of both at a time, and goes on where the last of them were alike."""
    while low_a < high_a and low_b < high_b:
        end_a, end_b = min(high_a, low_a + wide), min(high_b, low_b + wide)
        matcher = difflib.SequenceMatcher(None, a[low_a:end_a], b[low_b:end_b], autojunk=False)
        found = [match for match in matcher.get_matching_blocks() if match.size]
        for match in found:
            yield low_a + match.a, low_b + match.b, match.size
        if found:
            low_a, low_b = low_a + found[-1].a + found[-1].size, low_b + found[-1].b + found[-1].size
        else:
            low_a, low_b = end_a, end_b


def _unique(
    a: Sequence[Hashable], low_a: int, high_a: int, b: Sequence[Hashable], low_b: int, high_b: int
) -> list[tuple[int, int]]:
    """The longest row of lines that are unique in both and come in the same order."""
    where: dict[Hashable, tuple[int, int, int, int]] = {}
    for place in range(low_a, high_a):
        seen = where.get(a[place])
        where[a[place]] = (place, 1, 0, 0) if seen is None else (seen[0], 2, 0, 0)
    for place in range(low_b, high_b):
        seen = where.get(b[place])
        if seen is not None:
            where[b[place]] = (seen[0], seen[1], place, seen[3] + 1)
    pairs = sorted((found[0], found[2]) for found in where.values() if found[1] == 1 and found[3] == 1)
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        before.append(piles[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(place)
            piles.append(index)
        else:
            tops[pile], piles[pile] = place, index
    found: list[tuple[int, int]] = []
    index = piles[-1] if piles else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _lines(path: str, size: int) -> tuple[list[str], int]:
    """Lines of a log, and how many bytes in its middle were left out."""
    with Path(path).open("rb") as file:
        if size <= MOST_BYTES:
            data, left = file.read(size), 0
        else:
            half = MOST_BYTES // 2
            head = file.read(half)
            file.seek(size - half)
            tail = file.read(half)
            head, tail = head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]
            data, left = head + tail, size - len(head) - len(tail)
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return [shown(line[:_LONGEST])[0] for line in lines], left


#: Lines with one key that follow each other: the key, the first of them, how many.
_Run = tuple[str, int, int]


def _runs(texts: list[str], figures: bool) -> list[_Run]:
    """Lines that differ only in figures and follow each other count as one: progress, mostly."""
    if figures:
        return [(text, place, 1) for place, text in enumerate(texts)]
    found: list[_Run] = []
    for place, text in enumerate(texts):
        key = _FIGURES.sub("#", text)
        if found and found[-1][0] == key:
            found[-1] = (key, found[-1][1], found[-1][2] + 1)
        else:
            found.append((key, place, 1))
    return found


def _paired(a: list[_Run], b: list[_Run]) -> tuple[list[tuple[int, int]], int]:
    """Lines of runs that are alike, in pairs; and how many runs are longer in one of the logs."""
    pairs: list[tuple[int, int]] = []
    repeats = 0
    for (_, first_a, length_a), (_, first_b, length_b) in zip(a, b, strict=True):
        pairs += [(first_a + n, first_b + n) for n in range(min(length_a, length_b))]
        repeats += length_a != length_b
    return pairs, repeats


def compare(query: dict[str, Any]) -> dict[str, Any]:
    """Compares two files.

    Args:
        query: ``a``, ``b`` (path and size), ``figures`` (whether they count), ``around`` (lines shown before
            and after each difference).

    Returns:
        ``rows``: ``[kind, line in a, line in b, text]``, kind ``=``, ``-``, ``+`` or ``~`` (folded: so many
        lines alike); ``added``, ``removed``, ``same``; ``left_out`` bytes; ``cut``: there were more rows.
    """
    texts_a, left_a = _lines(*query["a"])
    texts_b, left_b = _lines(*query["b"])
    figures = bool(query.get("figures"))
    runs_a, runs_b = _runs(texts_a, figures), _runs(texts_b, figures)
    around = int(query.get("around", 3))
    rows: list[tuple[str, int, int, str]] = []
    added = removed = same = 0
    found = blocks([run[0] for run in runs_a], [run[0] for run in runs_b])
    for place, (kind, a0, a1, b0, b1) in enumerate(found):
        if kind == "-":
            lines = [n for _, first, length in runs_a[a0:a1] for n in range(first, first + length)]
            removed += len(lines)
            rows += [("-", line + 1, 0, texts_a[line]) for line in lines]
        elif kind == "+":
            lines = [n for _, first, length in runs_b[b0:b1] for n in range(first, first + length)]
            added += len(lines)
            rows += [("+", 0, line + 1, texts_b[line]) for line in lines]
        else:
            pairs, repeats = _paired(runs_a[a0:a1], runs_b[b0:b1])
            same += len(pairs)
            before = around if place else 0
            after = around if place + 1 < len(found) else 0
            fold = len(pairs) - before - after
            if fold > 1:
                rows += [("=", a + 1, b + 1, texts_b[b]) for a, b in pairs[:before]]
                words = f"{fold:,} lines alike"
                words += f", {repeats:,} of them more often in one of the logs" if repeats else ""
                rows.append(("~", pairs[before][0] + 1, pairs[before][1] + 1, words))
                pairs = pairs[len(pairs) - after :]
            rows += [("=", a + 1, b + 1, texts_b[b]) for a, b in pairs]
    return {
        "rows": rows[:MOST_ROWS],
        "cut": max(0, len(rows) - MOST_ROWS),
        "added": added,
        "removed": removed,
        "same": same,
        "left_out": max(left_a, left_b),
    }
