"""Frame ranges: sets of frames in an order, kept as ranges.

What belongs here: the algebra a scheduler needs (position of a frame, frame at a position, slices,
overlap, difference).  What must not: expanding a range to print, store or compare it; a million-frame
job costs a few numbers until its frames are touched.  The grammar people type is in
``farm.model.frametext``, the arithmetic in ``farm.model.runs``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import index as as_int
from typing import Final

from farm.model.errors import CallError, FrameRangeError
from farm.model.frametext import (
    EXAMPLES,
    FRAME_MAX,
    FRAME_MIN,
    MAX_FRAMES,
    MAX_LISTED,
    read_runs,
    run_text,
    too_many,
)
from farm.model.runs import Columns, Run, canonical, common, touch, unique

__all__ = ["FRAME_MAX", "FRAME_MIN", "MAX_FRAMES", "FrameRange", "Run", "format_indices"]


def _runs(columns: Columns) -> tuple[Run, ...]:
    return tuple(map(Run._make, zip(*columns, strict=True)))


def _spans(runs: tuple[Run, ...]) -> tuple[list[int], list[int], list[int]]:
    order = sorted(range(len(runs)), key=lambda index: runs[index].low)
    lows = [runs[index].low for index in order]
    return lows, list(accumulate((runs[index].high for index in order), max)), order


def _unique_count(runs: list[Run]) -> int:
    return sum(count for _, _, count in unique(runs))


class FrameRange:
    """Some frames in an order, each once; immutable, hashable, kept as arithmetic runs.

    Two ranges are equal when they have the same frames in the same order, however they were
    written.  Only ``from_frames([])``, ``slice``, ``intersection`` and ``difference`` give an empty
    range; its text is empty, which ``parse`` refuses.
    """

    __slots__ = ("_counts", "_firsts", "_hash", "_length", "_spans", "_starts", "_steps")

    _firsts: array[int]
    _steps: array[int]
    _counts: array[int]
    #: Position of each run's first frame.
    _starts: array[int]
    _length: int
    _hash: int | None
    #: Runs by smallest frame: that frame, the largest frame so far, which run.  Made when needed.
    _spans: tuple[list[int], list[int], list[int]] | None

    def __init__(self, text: str) -> None:
        """Same as ``parse``."""
        self._fill(FrameRange.parse(text)._columns())

    @classmethod
    def parse(cls, text: str) -> FrameRange:
        """Reads a frame range.

        Raises:
            FrameRangeError: The text is no frame range; has the character position.
        """
        if not isinstance(text, str):
            raise FrameRangeError(f"a frame range is text, not {type(text).__name__}", hint=EXAMPLES)
        runs, places = read_runs(text)
        made = cls._of(canonical(unique(runs)))
        if made._length > MAX_FRAMES:
            # Only a text that repeats frames comes here; find the part that went over.
            over = bisect_left(
                range(len(runs)), True, key=lambda k: _unique_count(runs[: k + 1]) > MAX_FRAMES
            )
            raise too_many(made._length, places[over])
        return made

    @classmethod
    def from_frames(cls, frames: Iterable[int]) -> FrameRange:
        """The range of these frames, in this order, each at its first place.

        Raises:
            FrameRangeError: One is no whole number or beyond 32 bits, or they are too many.
        """
        parts: Iterable[tuple[int, int, int]]
        if isinstance(frames, range):
            parts = [(frames.start, frames.step, len(frames))] if frames else []
        else:
            parts = ((as_int(frame), 1, 1) for frame in frames)
        try:
            columns = canonical(parts)
        except TypeError as error:
            raise FrameRangeError(f"a frame is a whole number: {error}") from error
        except OverflowError as error:
            raise FrameRangeError(f"a frame is beyond {FRAME_MIN} to {FRAME_MAX}") from error
        runs = _runs(columns)
        for run in runs:
            if run.low < FRAME_MIN or run.high > FRAME_MAX:
                bad = run.low if run.low < FRAME_MIN else run.high
                raise FrameRangeError(f"frame {bad} is beyond {FRAME_MIN} to {FRAME_MAX}")
        listed = sum(columns[2])
        if listed > MAX_LISTED:
            raise too_many(listed, 0)
        left = unique(runs)
        made = cls._of(columns if left is runs else canonical(left))
        if made._length > MAX_FRAMES:
            raise too_many(made._length, 0)
        return made

    @classmethod
    def _of(cls, columns: Columns) -> FrameRange:
        made = cls.__new__(cls)
        made._fill(columns)
        return made

    def _fill(self, columns: Columns) -> None:
        firsts, steps, counts = columns
        fill = super().__setattr__
        fill("_firsts", firsts)
        fill("_steps", steps)
        fill("_counts", counts)
        fill("_starts", array("q", accumulate(counts, initial=0)))
        fill("_length", self._starts.pop())
        fill("_hash", None)
        fill("_spans", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a frame range cannot be changed ({name})")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a frame range cannot be changed ({name})")

    def _columns(self) -> Columns:
        return self._firsts, self._steps, self._counts

    def __reduce__(self) -> tuple[object, tuple[Columns]]:
        return FrameRange._of, (self._columns(),)

    def __copy__(self) -> FrameRange:
        return self

    def __deepcopy__(self, memo: object) -> FrameRange:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrameRange):
            return NotImplemented
        return self is other or (self._length == other._length and self._columns() == other._columns())

    def __hash__(self) -> int:
        if self._hash is None:
            super().__setattr__("_hash", hash(tuple(tuple(column) for column in self._columns())))
        return self._hash or 0

    def __str__(self) -> str:
        return ",".join([run_text(*run) for run in zip(*self._columns(), strict=True)])

    def __repr__(self) -> str:
        return f"FrameRange.parse({str(self)!r})" if self._length else "FrameRange.from_frames([])"

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        for first, step, count in zip(*self._columns(), strict=True):
            yield from range(first, first + step * count, step)

    def __contains__(self, frame: object) -> bool:
        return isinstance(frame, int) and self._find(frame) is not None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The arithmetic runs, in order."""
        return _runs(self._columns())

    @property
    def is_single_run(self) -> bool:
        """Whether the frames are one arithmetic run (any one or two frames are)."""
        return len(self._firsts) == 1

    @property
    def first(self) -> int:
        """The first frame in order.

        Raises:
            CallError: The range is empty.
        """
        return self.frame_at(0)

    @property
    def last(self) -> int:
        """The last frame in order.

        Raises:
            CallError: The range is empty.
        """
        return self.frame_at(max(0, self._length - 1))

    def frame_at(self, index: int) -> int:
        """The frame at a 0-based position.

        Raises:
            CallError: There is no such position.
        """
        if not 0 <= index < self._length:
            raise CallError(f"there is no frame at position {index}: the range has {self._length} frames")
        run = bisect_right(self._starts, index) - 1
        return self._firsts[run] + (index - self._starts[run]) * self._steps[run]

    def index_of(self, frame: int) -> int:
        """The 0-based position of a frame.

        Raises:
            CallError: The frame is not in the range.
        """
        index = self._find(frame)
        if index is None:
            raise CallError(f"frame {frame} is not in {_shorten(self)}")
        return index

    def slice(self, start: int, stop: int) -> FrameRange:
        """The frames at positions ``start`` to ``stop`` (exclusive), cut off at the ends like a list."""
        start, stop = max(0, start), min(stop, self._length)
        if start >= stop:
            return _EMPTY
        if start == 0 and stop == self._length:
            return self
        low = bisect_right(self._starts, start) - 1
        high = bisect_left(self._starts, stop)
        parts = list(zip(*(column[low:high] for column in self._columns()), strict=True))
        first, step, count = parts[-1]
        parts[-1] = (first, step, stop - self._starts[high - 1])
        first, step, count = parts[0]
        skip = start - self._starts[low]
        parts[0] = (first + skip * step, step, count - skip)
        return FrameRange._of(canonical(parts))

    def intersects(self, other: FrameRange) -> bool:
        """Whether both have a frame in common."""
        return touch(self.runs, other.runs)

    def intersection(self, other: FrameRange) -> FrameRange:
        """The frames that are in both, in this range's order."""
        return FrameRange._of(canonical(common(self.runs, other.runs, inside=True)))

    def difference(self, other: FrameRange) -> FrameRange:
        """The frames of this range that are not in the other, in this range's order."""
        return FrameRange._of(canonical(common(self.runs, other.runs, inside=False)))

    def _find(self, frame: int) -> int | None:
        if self._spans is None:
            super().__setattr__("_spans", _spans(self.runs))
        assert self._spans is not None
        lows, reach, order = self._spans
        place = bisect_right(lows, frame) - 1
        while place >= 0 and reach[place] >= frame:
            run = order[place]
            position, rest = divmod(frame - self._firsts[run], self._steps[run])
            if not rest and 0 <= position < self._counts[run]:
                return self._starts[run] + position
            place -= 1
        return None


def format_indices(frames: FrameRange, indices: Iterable[int], *, most: int | None = None) -> str:
    """Compact text of the frames at these positions, for messages such as "frames 17-20,25".

    Args:
        frames: The range the positions count in.
        indices: Positions, in any order; the text follows the order of the range.
        most: Print at most this many runs and say how many frames are left out; None = all.

    Raises:
        CallError: A position is not in the range.
    """
    found = FrameRange.from_frames(frames.frame_at(index) for index in sorted(indices))
    if most is None:
        return str(found)
    return _shorten(found, most)


def _shorten(frames: FrameRange, most: int = 12) -> str:
    runs = frames.runs
    text = ",".join([run_text(*run) for run in runs[:most]])
    left = sum(run.count for run in runs[most:])
    return f"{text} and {left} more" if left else text


_EMPTY: Final = FrameRange.from_frames([])
