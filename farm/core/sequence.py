"""The order in which a step's frames are leased.

What belongs here: the presets, frames that people want first or last, those a scout renders first, and
finding the next queued unit in that order.  What may not: which node gets it, and how many units a lease
takes.

Units are positions in the frame range as written.  A step whose order is that of its positions (``listed``,
or ``forward`` on a range written ascending) needs nothing: the next queued unit is found in its map of
states.  Any other gets a second map in the order of work, made when it is first looked for, so that the next
queued unit is found as fast.  None of this is stored: a restart makes it anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from farm.model.frames import FrameRange
from farm.model.orders import read_order
from farm.model.states import UnitState

if TYPE_CHECKING:
    from farm.core.work import Step

_QUEUED = UnitState.QUEUED.value


class Sequence:
    """An order of a step's units that is not that of their positions.

    Attributes:
        units: Unit by place in the order.
        places: Place in the order by unit.
        states: The step's map of states, by place in the order.
    """

    __slots__ = ("places", "states", "units")

    def __init__(self, units: array[int], state: bytearray) -> None:
        self.units = units
        places = array("I", bytes(len(units) * units.itemsize))
        for place, unit in enumerate(units):
            places[unit] = place
        self.places = places
        self.states = bytearray(map(state.__getitem__, units))


def prepare(step: Step) -> None:
    """Makes the step's sequence if it has none yet, or was changed since."""
    if step.sequence_of is step.spec:
        return
    units = order_of_units(step)
    step.sequence = Sequence(units, step.state) if units is not None else None
    step.sequence_of = step.spec
    step.cursor = 0


def first_queued(step: Step) -> int:
    """The first queued unit in order; -1 when there is none.  Moves the cursor there."""
    if step.sequence_of is not step.spec:
        prepare(step)
    sequence = step.sequence
    states = step.state if sequence is None else sequence.states
    at = states.find(_QUEUED, step.cursor)
    step.cursor = at if at >= 0 else len(states)
    return at if sequence is None or at < 0 else sequence.units[at]


def queued_in_order(step: Step) -> Iterator[int]:
    """Yields the queued units in the order they shall be leased; moves the cursor to the first.

    No unit of the step may be moved while this runs.
    """
    if step.sequence_of is not step.spec:
        prepare(step)
    sequence = step.sequence
    states = step.state if sequence is None else sequence.states
    find = states.find
    at = find(_QUEUED, step.cursor)
    step.cursor = at if at >= 0 else len(states)
    if sequence is None:
        while at >= 0:
            yield at
            at = find(_QUEUED, at + 1)
        return
    units = sequence.units
    while at >= 0:
        yield units[at]
        at = find(_QUEUED, at + 1)


def order_of_units(step: Step) -> array[int] | None:
    """The step's units in the order of work; None when that is the order of their positions."""
    if step.frames is None:
        return None
    word, every = read_order(step.spec.order)
    plain = word == "listed" or (word == "forward" and is_ascending(step.frames))
    spec = step.spec
    if not (step.scouts or spec.first or spec.last):
        return None if plain else preset(step.frames, word, every)
    last = units_named(step, spec.last)
    taken = set(last)
    # What somebody wants first goes before scout frames: while a job scouts, nothing but those is leased.
    first = [unit for unit in units_named(step, spec.first) if unit not in taken]
    taken.update(first)
    scouts = [unit for unit in step.scouts if unit not in taken]
    taken.update(scouts)
    rest: Iterable[int] = range(step.units) if plain else preset(step.frames, word, every)
    return array("I", (*first, *scouts, *(unit for unit in rest if unit not in taken), *last))


def units_named(step: Step, text: str) -> list[int]:
    """Units of a step's frames that a range names, in its order; what the step does not have is left out."""
    if not text or step.frames is None:
        return []
    frames = step.frames
    return [frames.index_of(frame) for frame in FrameRange.parse(text).intersection(frames)]


def scout_units(step: Step, count: int) -> tuple[int, ...]:
    """So many units spread over the step's frames that are wanted, in ascending order of frames.

    The first and the last frame are among them from two on, the middle one from three on.
    """
    if step.frames is None:
        return tuple(range(min(count, step.units)))
    frames = step.wanted or step.frames
    total = len(frames)
    count = min(count, total)
    if count <= 0:
        return ()
    if any(edge.need is step for edge in step.frame_needs):
        # Each frame is made of earlier ones: only the first can be rendered first.
        places = [*range(count)]
    elif count == 1:
        places = [(total - 1) // 2]
    else:
        places = [(2 * part * (total - 1) + count - 1) // (2 * (count - 1)) for part in range(count)]
        middle = (total - 1) // 2
        if count >= 3 and middle not in places:
            nearest = min(range(1, count - 1), key=lambda index: abs(places[index] - middle))
            places[nearest] = middle
    if not is_ascending(frames):
        ascending = _ascending(frames)
        places = [ascending[place] for place in places]
    if frames is step.frames:
        return tuple(places)
    return tuple(step.frames.index_of(frames.frame_at(place)) for place in places)


def is_ascending(frames: FrameRange) -> bool:
    """Whether a range is written in ascending order of its frames."""
    last: int | None = None
    for run in frames.runs:
        if (run.step < 0 and run.count > 1) or (last is not None and run.first < last):
            return False
        last = run.first + run.step * (run.count - 1)
    return True


def preset(frames: FrameRange, word: str, every: int) -> array[int]:
    """Positions of a range's frames in a preset order; each once.

    Args:
        frames: The range.
        word: The preset.
        every: ``coarse``: every how many frames come first.
    """
    total = len(frames)
    if word == "listed":
        return array("I", range(total))
    ascending = array("I", range(total)) if is_ascending(frames) else _ascending(frames)
    if word == "forward":
        return ascending
    if word == "reverse":
        return ascending[::-1]
    places = _coarse(total, every) if word == "coarse" else _ends_first(total)
    return array("I", (ascending[place] for place in places))


def _ascending(frames: FrameRange) -> array[int]:
    """Positions of a range's frames in ascending order of the frames."""
    listed = array("q", frames)
    return array("I", sorted(range(len(listed)), key=listed.__getitem__))


def _ends_first(total: int) -> Iterator[int]:
    """First, last, middle, then the others."""
    ends = tuple(dict.fromkeys((0, total - 1, (total - 1) // 2)))
    yield from ends
    yield from (place for place in range(total) if place not in ends)


def _coarse(total: int, every: int) -> Iterator[int]:
    """Every so many, then the middle of every gap, then the middle of what is left, and so on."""
    yield from range(0, total, every)
    gaps = [(0, min(every, total))]
    while gaps:
        middles = [(low + high) // 2 for low, high in gaps if high - low > 1]
        for start in range(0, total, every):
            for middle in middles:
                if start + middle < total:
                    yield start + middle
        gaps = [
            part
            for low, high in gaps
            if high - low > 1
            for part in ((low, (low + high) // 2), ((low + high) // 2, high))
        ]
