"""How long work takes: frame times along a step, the start-up of a chunk, how fast each node is.

What belongs here: what was measured (sums only, so that a frame costs next to nothing to take in), and the
expectations made of it.  What may not: decisions; ``farm.core.chunks`` and ``farm.core.tail`` make those.

Times are kept as a node of speed 1 would take; a node's speed says how many times faster it is than others
were for the same steps.  All of it is changed only while a stored row is applied, with nothing but + - * / on
floats that are stored to the last bit, so that a replay gives the same figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from farm.core.state import Attempt, Farm, Node, Step

#: Parts of a step whose frames are taken to cost about the same.
PLACES = 16
#: Frames shorter than this say how long they take, but not how fast their node is: it would be noise.
BRIEF_US = 200_000
#: A frame that takes more times what was expected counts as so many times: one stuck frame proves little.
OUTLIER = 6.0
#: What is assumed where nothing was measured.
GUESS_FRAME_US = 30_000_000
GUESS_START_US = 5_000_000
#: Silences shorter than this mean nothing: no agent looks more often than every few seconds.
SILENT_LEAST_US = 5_000_000
#: Weight of "as fast as the others" against what was measured, in frames.
_PRIOR_FRAMES = 0.5
#: A node's older frames count less and less beyond so many.
_FRAMES_REMEMBERED = 64.0
#: Start-ups the running mean looks back on.
_STARTS_REMEMBERED = 32
#: Relative spread of frame times before any was measured, and for how many frames that counts.
_GUESS_SPREAD = 0.3
_GUESS_WEIGHT = 2.0
_SLOWEST, _FASTEST = 1 / 64, 64.0
#: How much a place is taken to be like the whole step, in frames.
_PULL = 0.3


class Pace:
    """What a step's work took so far.

    Attributes:
        counts, sums: Frames done and their microseconds, per place.
        errors, judged: Sum of squared relative differences from what was expected, and of how many frames.
        starts, start_us: Chunks whose start-up was measured, and their running mean.
        sole: Id of the only node that did frames of it, 0 = none, -1 = several did.
    """

    __slots__ = ("_table", "counts", "errors", "judged", "sole", "start_us", "starts", "sums")

    def __init__(self) -> None:
        self.counts = [0] * PLACES
        self.sums = [0.0] * PLACES
        self.errors = 0.0
        self.judged = 0
        self.starts = 0
        self.start_us = 0.0
        self.sole = 0
        #: Expectation per place; None = to be worked out anew.  Follows from the rest, never stored.
        self._table: list[float] | None = None

    @property
    def frames(self) -> int:
        """Frames measured."""
        return sum(self.counts)

    def table(self) -> list[float]:
        """Microseconds a frame takes per place, on a node of speed 1; a place without frames goes by its
        neighbours.

        Only while ``frames`` is not 0.
        """
        table = self._table
        if table is None:
            table = self._table = _smooth(self.counts, self.sums)
        return table

    def mean_us(self) -> float:
        """Mean of the frames measured, 0 while there is none."""
        frames = sum(self.counts)
        return sum(self.sums) / frames if frames else 0.0

    def spread(self) -> float:
        """Standard deviation of a frame's time relative to what is expected of it."""
        variance = (self.errors + _GUESS_WEIGHT * _GUESS_SPREAD**2) / (self.judged + _GUESS_WEIGHT)
        return float(variance**0.5)


def _smooth(counts: list[int], sums: list[float]) -> list[float]:
    overall = sum(sums) / sum(counts)
    table: list[float] = []
    known: list[int] = []
    for place in range(PLACES):
        weight, total = float(counts[place]), sums[place]
        for near in (place - 1, place + 1):
            if 0 <= near < PLACES:
                weight += 0.25 * counts[near]
                total += 0.25 * sums[near]
        if weight:
            known.append(place)
        table.append((total + _PULL * overall) / (weight + _PULL))
    for place in range(PLACES):
        if place not in known:
            before = [one for one in known if one < place]
            after = [one for one in known if one > place]
            if before and after:
                low, high = before[-1], after[0]
                part = (place - low) / (high - low)
                table[place] = table[low] * (1.0 - part) + table[high] * part
            else:
                table[place] = table[before[-1] if before else after[0]]
    return table


# ---------------------------------------------------------------- taking in (called while rows are applied)


def note_done(step: Step, node: Node, unit: int, elapsed_us: int) -> None:
    """A unit was rendered on a node in so many microseconds."""
    pace = step.pace
    place = unit * PLACES // step.units
    if elapsed_us < BRIEF_US:
        pace.counts[place] += 1
        pace.sums[place] += elapsed_us
        pace._table = None
        return
    _note_long(pace, node, place, elapsed_us)


def _note_long(pace: Pace, node: Node, place: int, elapsed_us: int) -> None:
    frames = sum(pace.counts)
    took_us = elapsed_us * node.speed
    if frames:
        expected_us = max(1.0, _expected(pace, place, frames))
        ratio = took_us / expected_us
        if frames >= 3 and ratio > OUTLIER:
            took_us, ratio = OUTLIER * expected_us, OUTLIER
        pace.errors += (ratio - 1.0) * (ratio - 1.0)
        pace.judged += 1
        if pace.sole != node.id:
            # Others did frames of it too: how this one compares says how fast the node is.
            _note_speed(node, ratio / node.speed, frames / (frames + 2.0))
    pace.counts[place] += 1
    pace.sums[place] += took_us
    pace._table = None
    if pace.sole != node.id:
        pace.sole = -1 if pace.sole else node.id


def _expected(pace: Pace, place: int, frames: int) -> float:
    """As the table says of a place, without working out the others.

    Never taken from a table that happens to be there: its last bit may differ, and a look makes one.
    """
    counts, sums = pace.counts, pace.sums
    low, high = max(0, place - 1), min(PLACES, place + 2)
    weight = 0.75 * counts[place] + 0.25 * sum(counts[low:high])
    if not weight:
        return pace.table()[place]
    total = 0.75 * sums[place] + 0.25 * sum(sums[low:high])
    return (total + _PULL * sum(sums) / frames) / (weight + _PULL)


def _note_speed(node: Node, slowness: float, weight: float) -> None:
    """A frame took this many times what others take; the more those are known, the more it weighs."""
    frames, total = node.slow
    if frames > _FRAMES_REMEMBERED:
        frames, total = frames / 2.0, total / 2.0
    frames, total = frames + weight, total + weight * min(slowness, OUTLIER * 2.0)
    node.slow = (frames, total)
    node.speed = speed_of(frames, total)


def speed_of(frames: float, total: float) -> float:
    """Speed of a node that took ``total`` times what others take for ``frames`` frames; 1 for none."""
    return min(_FASTEST, max(_SLOWEST, (_PRIOR_FRAMES + frames) / (_PRIOR_FRAMES + total)))


def note_chunk(pace: Pace, over_us: int, speed: float) -> None:
    """An attempt ended of which every unit got done: the time they did not take was its start-up."""
    start_us = over_us * speed
    if start_us < 0.0:
        return
    starts, mean_us = pace.starts, pace.start_us
    if starts >= 3 and start_us > 4.0 * mean_us + 1_000_000.0:
        start_us = 4.0 * mean_us + 1_000_000.0
    pace.starts = starts = starts + 1
    pace.start_us = mean_us + (start_us - mean_us) / (
        starts if starts < _STARTS_REMEMBERED else _STARTS_REMEMBERED
    )


# ---------------------------------------------------------------- expectations


def known(step: Step) -> bool:
    """Whether anything of the step was measured."""
    return step.pace.frames > 0


def start_us(step: Step, node: Node | None = None) -> float:
    """Start-up of a chunk of the step on a node (on one of speed 1)."""
    pace = step.pace
    guess = 0.0 if pace.frames else float(GUESS_START_US)
    base = pace.start_us if pace.starts else guess
    return base / node.speed if node is not None else base


def frame_us(step: Step, unit: int, node: Node | None = None) -> float:
    """Microseconds a unit is expected to take on a node (on one of speed 1); a guess when none is known."""
    pace = step.pace
    base = pace.table()[unit * PLACES // step.units] if any(pace.counts) else float(GUESS_FRAME_US)
    return base / node.speed if node is not None else base


def chunk_us(farm: Farm, step: Step, units_count: int, node: Node | None) -> int:
    """Microseconds a chunk of so many units is expected to take on a node, start-up included."""
    mean_us = step.pace.mean_us() or float(GUESS_FRAME_US)
    speed = node.speed if node is not None else 1.0
    return max(1, int(start_us(step, node) + units_count * mean_us / speed))


def median_us(step: Step) -> float:
    """Microseconds the middle one of the step's frames takes on a node of speed 1; 0 while none is known.

    Of the parts of the step, each with the frames it had: a few monsters at the end do not move it.
    """
    pace = step.pace
    parts = sorted(
        (total / count, count) for total, count in zip(pace.sums, pace.counts, strict=True) if count
    )
    left = sum(count for _, count in parts) / 2.0
    for mean, count in parts:
        left -= count
        if left <= 0.0:
            return mean
    return 0.0


def silent_us(step: Step, node: Node) -> int:
    """After how many microseconds without a sign of life an attempt on a node is ended; 0 = never.

    A multiple of the step's median frame, as it asks; nothing is ended while no frame is done.
    """
    times = step.spec.failure.silent_x
    middle_us = median_us(step) if times > 0 else 0.0
    return max(SILENT_LEAST_US, int(times * middle_us / node.speed)) if middle_us > 0.0 else 0


def running_us(attempt: Attempt, now_us: int) -> float:
    """For how long the unit an attempt is at has run, as far as anybody can know; below 0 while it starts."""
    return now_us - attempt.started_us - start_us(attempt.step, attempt.node) - attempt.useful_us


def left_us(attempt: Attempt, now_us: int) -> int:
    """Microseconds until an attempt is expected to end.

    A unit that runs longer than expected is taken to need half as long as it is over, and at least the spread
    of the step's frames.
    """
    step, node = attempt.step, attempt.node
    left = 0.0
    first = True
    for unit in attempt.open:
        expected = frame_us(step, unit, node)
        if first:
            first = False
            left = current_left_us(expected, running_us(attempt, now_us), step.pace.spread())
        else:
            left += expected
    return max(0, int(left))


def current_left_us(expected_us: float, ran_us: float, spread: float) -> float:
    """What is left of the unit that runs.

    The later it is the longer it may still take; how long at least follows from how much frames differ.
    """
    return max(expected_us - ran_us, expected_us * min(spread, 1.0), (ran_us - expected_us) / 2.0)


# ---------------------------------------------------------------- storing


class _Dump(msgspec.Struct, array_like=True):
    counts: list[int]
    sums: list[float]
    errors: float
    judged: int
    starts: int
    start_us: float
    sole: int


_ENCODE = msgspec.msgpack.Encoder().encode
_DUMP = msgspec.msgpack.Decoder(_Dump)
_SPEEDS = msgspec.msgpack.Decoder(dict[int, tuple[float, float]])


def state_of(step: Step) -> tuple[object, ...]:
    """All that decides anything, for the digest."""
    pace = step.pace
    return (
        pace.counts,
        pace.sums,
        pace.errors,
        pace.judged,
        pace.starts,
        pace.start_us,
        pace.sole,
    )


def dump(step: Step) -> bytes:
    """What was measured of a step, for a checkpoint; empty while nothing was."""
    pace = step.pace
    if not (pace.starts or any(pace.counts)):
        return b""
    return _ENCODE(
        _Dump(pace.counts, pace.sums, pace.errors, pace.judged, pace.starts, pace.start_us, pace.sole)
    )


def load(step: Step, data: bytes) -> None:
    """Takes back what ``dump`` gave."""
    step.pace = pace = Pace()
    if data:
        found = _DUMP.decode(data)
        pace.counts, pace.sums = found.counts, found.sums
        pace.errors, pace.judged = found.errors, found.judged
        pace.starts, pace.start_us, pace.sole = found.starts, found.start_us, found.sole


def dump_speeds(farm: Farm) -> bytes:
    """What is known of the nodes' speeds, for a checkpoint."""
    return _ENCODE({node.id: node.slow for node in farm.nodes.values() if node.slow[0]})


def load_speeds(farm: Farm, data: bytes) -> None:
    """Takes back what ``dump_speeds`` gave; the nodes are there already."""
    for node_id, slow in (_SPEEDS.decode(data) if data else {}).items():
        node = farm.nodes[node_id]
        node.slow = slow
        node.speed = speed_of(*slow)
