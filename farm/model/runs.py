"""Arithmetic runs of whole numbers: the algebra under ``farm.model.frames``.

What belongs here: overlap of two runs (in closed form), removal of repeats, and the one canonical
way to cut a sequence of numbers into runs.  What must not: text, limits and anything that knows of
jobs; callers see ``FrameRange``.

A run is the triple (first, step, count); its numbers are ``first + i * step`` for ``0 <= i < count``.
Everything works on runs.  Only where many runs interleave are single numbers looked at, one byte
each, in windows of bounded size, so that neither a wide span nor a long list needs much memory.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple


class Run(NamedTuple):
    """An arithmetic run.

    Attributes:
        first: First number.
        step: Distance from one to the next, never 0; negative counts down; 1 for a single number.
        count: How many numbers, at least 1.
    """

    first: int
    step: int
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody needs here

    @property
    def last(self) -> int:
        """The last number."""
        return self.first + self.step * (self.count - 1)

    @property
    def low(self) -> int:
        """The smallest number."""
        return self.first if self.step > 0 else self.last

    @property
    def high(self) -> int:
        """The largest number."""
        return self.last if self.step > 0 else self.first


#: Positions in a run: (first position, stride, how many).
Hits = tuple[int, int, int]
Columns = tuple["array[int]", "array[int]", "array[int]"]

#: Up to this many runs are compared pair by pair; more that interleave are marked in a bitmap.
PAIRWISE_RUNS = 64
#: Bytes of the bitmap, hence numbers looked at in one go.
WINDOW = 1 << 25

_ONES = re.compile(rb"\x01+")
_ZEROS = re.compile(rb"\x00+")


def overlap(run: Run, other: Run) -> Hits | None:
    """Positions in ``run`` of the numbers that are also in ``other``, None if there are none.

    Two arithmetic runs meet in an arithmetic run (Chinese remainder theorem), so a million numbers
    cost no more than two.
    """
    first, step, count = run
    low, high = other.low, other.high
    if step > 0:
        start = max(0, -((first - low) // step))
        stop = min(count - 1, (high - first) // step)
    else:
        start = max(0, -((high - first) // -step))
        stop = min(count - 1, (first - low) // -step)
    if start > stop:
        return None
    modulus = abs(other.step)
    common = gcd(step, modulus)
    distance = other.first - first
    if distance % common:
        return None
    stride = modulus // common
    phase = distance // common * pow(step // common, -1, stride) % stride
    start += (phase - start) % stride
    if start > stop:
        return None
    return start, stride, (stop - start) // stride + 1


def pieces(run: Run, hits: Sequence[Hits] | bytearray, *, inside: bool) -> Iterator[tuple[int, int, int]]:
    """The parts of ``run`` inside (or outside) the positions hit, in the order of the run.

    Args:
        run: The run to take apart.
        hits: Groups of positions, or a byte per position (1 = hit).
        inside: Whether the positions hit are kept, or all others.
    """
    first, step, count = run
    if not isinstance(hits, bytearray):
        if not hits:
            if not inside:
                yield run
            return
        if len(hits) == 1:
            yield from _pieces_of_one(run, hits[0], inside=inside)
            return
        marks = bytearray(count)
        for start, stride, number in hits:
            marks[start : start + (number - 1) * stride + 1 : stride] = b"\x01" * number
        hits = marks
    for match in (_ONES if inside else _ZEROS).finditer(hits):
        start, stop = match.span()
        yield first + start * step, step, stop - start


def _pieces_of_one(run: Run, hit: Hits, *, inside: bool) -> Iterator[tuple[int, int, int]]:
    first, step, count = run
    start, stride, number = hit
    if inside:
        yield first + start * step, step * stride, number
        return
    if start:
        yield first, step, start
    if stride == 2 and number > 1:
        yield first + (start + 1) * step, step * 2, number - 1
    elif stride > 2:
        leap = stride * step
        after = first + (start + 1) * step
        for gap in range(number - 1):
            yield after + gap * leap, step, stride - 1
    tail = start + (number - 1) * stride + 1
    if tail < count:
        yield first + tail * step, step, count - tail


def canonical(parts: Iterable[tuple[int, int, int]]) -> Columns:
    """Cuts the numbers of ``parts``, taken as one sequence, into runs in the one canonical way.

    From left to right a run takes all it can; but two numbers that are neither neighbours nor
    followed by a third in step are no run: the first stands alone and the second starts anew, so
    that 1, 5, 6, 7 becomes 1 and 5-7 as people write it.  The result depends on the sequence alone,
    not on how it was cut before: equal sequences have equal runs.  A number that repeats its
    predecessor is dropped; other repeats are the business of ``unique``.

    Returns:
        Columns of first, step and count.
    """
    firsts, steps, counts = array("q"), array("q"), array("q")
    size = first = step = last = 0
    for number, stride, left in parts:
        while left:
            if size >= 2 and number == last + step:
                if stride == step:
                    size += left
                    last = number + (left - 1) * stride
                    break
                size += 1
            elif size == 0:
                size, first = 1, number
            elif number == last:
                pass
            elif size == 1:
                size, step = 2, number - first
            elif size == 2 and step != 1 and step != -1:
                firsts.append(first)
                steps.append(1)
                counts.append(1)
                first, step = last, number - last
            else:
                firsts.append(first)
                steps.append(step)
                counts.append(size)
                size, first = 1, number
            last = number
            number += stride
            left -= 1
    if size:
        firsts.append(first)
        steps.append(step if size > 1 else 1)
        counts.append(size)
    return firsts, steps, counts


def unique(runs: Sequence[Run]) -> Iterable[tuple[int, int, int]]:
    """The numbers of ``runs`` with every repeat left out: each stays where it came first.

    Returns:
        ``runs`` itself when nothing repeats, else the parts that are left.
    """
    suspects = _spans_touching(runs)
    hits: dict[int, Sequence[Hits] | bytearray] = {}
    for group in suspects:
        if len(group) <= PAIRWISE_RUNS:
            for position, index in enumerate(group):
                found = [overlap(runs[index], runs[earlier]) for earlier in group[:position]]
                hits[index] = [hit for hit in found if hit is not None]
        else:
            marks = _marks([(runs[index], index, True) for index in group])
            hits.update(marks)
    if not any(hits.values()):
        return runs
    nothing: list[Hits] = []
    return (
        part for index, run in enumerate(runs) for part in pieces(run, hits.get(index, nothing), inside=False)
    )


def common(runs: Sequence[Run], others: Sequence[Run], *, inside: bool) -> Iterator[tuple[int, int, int]]:
    """The numbers of ``runs`` that are (or are not) in ``others``, in the order of ``runs``.

    Neither side may have repeats of its own.
    """
    if len(runs) * len(others) <= PAIRWISE_RUNS**2:
        for run in runs:
            found = [overlap(run, other) for other in others]
            yield from pieces(run, [hit for hit in found if hit is not None], inside=inside)
        return
    marks = _marks(
        [(other, None, True) for other in others] + [(run, index, False) for index, run in enumerate(runs)]
    )
    nothing: list[Hits] = []
    for index, run in enumerate(runs):
        yield from pieces(run, marks.get(index, nothing), inside=inside)


def touch(runs: Sequence[Run], others: Sequence[Run]) -> bool:
    """Whether any number is in both."""
    if len(runs) * len(others) <= PAIRWISE_RUNS**2:
        return any(overlap(run, other) is not None for run in runs for other in others)
    return any(True for _ in common(runs, others, inside=True))


def _spans_touching(runs: Sequence[Run]) -> list[list[int]]:
    """Groups of two or more runs whose spans overlap, as indices in listed order."""
    spans = [
        (run[0], run[0], index) if run[2] == 1 else (run.low, run.high, index)
        for index, run in enumerate(runs)
    ]
    if all(one[1] < two[0] for one, two in pairwise(spans)):
        return []
    spans.sort()
    groups: list[list[int]] = []
    group: list[int] = []
    reach = 0
    for low, high, index in spans:
        if group and low <= reach:
            group.append(index)
            reach = max(reach, high)
            continue
        if len(group) > 1:
            groups.append(sorted(group))
        group, reach = [index], high
    if len(group) > 1:
        groups.append(sorted(group))
    return groups


def _marks(work: Sequence[tuple[Run, int | None, bool]]) -> dict[int, bytearray]:
    """Runs through ``work`` in order on a bitmap of the numbers seen.

    Args:
        work: (run, key, write): with a key, note which of its numbers were seen before; with
            ``write``, its numbers count as seen from then on.

    Returns:
        By key, a byte per position of the run (1 = seen before); keys without any are left out.
    """
    origin = min(run.low for run, _, _ in work)
    windows: dict[int, list[tuple[int, int, int]]] = {}
    for task, (run, _, _) in enumerate(work):
        if run[2] == 1:
            windows.setdefault((run[0] - origin) // WINDOW, []).append((task, 0, 0))
            continue
        for window, start, stop in _cut(run, origin):
            windows.setdefault(window, []).append((task, start, stop))
    found: dict[int, bytearray] = {}
    for tasks in windows.values():
        if len(tasks) < 2:
            continue
        ends = [_ends(work[task][0], start, stop) for task, start, stop in tasks]
        base = min(low for low, _ in ends)
        bitmap = bytearray(max(high for _, high in ends) - base + 1)
        for task, start, stop in tasks:
            run, key, write = work[task]
            if start == stop:
                spot = run[0] + start * run[1] - base
                if key is not None and bitmap[spot]:
                    found.setdefault(key, bytearray(run.count))[start] = 1
                bitmap[spot] |= write
                continue
            low, high = _ends(run, start, stop)
            place = slice(low - base, high - base + 1, abs(run.step))
            if key is not None:
                seen = bitmap[place]
                if 1 in seen:
                    if run.step < 0:
                        seen.reverse()
                    found.setdefault(key, bytearray(run.count))[start : stop + 1] = seen
            if write:
                bitmap[place] = b"\x01" * (stop - start + 1)
    return found


def _ends(run: Run, start: int, stop: int) -> tuple[int, int]:
    """Smallest and largest number between two positions of a run."""
    one, two = run.first + start * run.step, run.first + stop * run.step
    return (one, two) if one <= two else (two, one)


def _cut(run: Run, origin: int) -> Iterator[tuple[int, int, int]]:
    """The windows a run has numbers in, each with the first and last position that lies in it."""
    first, step, count = run
    start = 0
    while start < count:
        number = first + start * step
        window = (number - origin) // WINDOW
        low = origin + window * WINDOW
        room = (low + WINDOW - 1 - number) // step if step > 0 else (number - low) // -step
        stop = min(count - 1, start + room)
        yield window, start, stop
        start = stop + 1
