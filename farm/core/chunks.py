"""How many units a lease takes, and which: chunks are formed when a node can take them.

What belongs here: the size of a chunk and the choice of its units.  What may not: which step or node is next
(``farm.core.place``), what becomes of a chunk that turns out too long (``farm.core.tail``).

A size is thought of as time on the node at hand, so that a fast node gets more frames and all end together:

- as asked (``chunk: N``), or one unit until the first of the step is done (scout);
- then enough for the target time, more where start-up would be over a tenth of it, less on machines that
  may be taken away;
- when less waits than that for every slot of the nodes at hand, half of what waits per slot (guided
  self-scheduling): work of the same or a higher priority counts, since other steps keep the nodes busy as
  well as this one does; but not so little that start-up dominates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from farm.core import pace, sequence
from farm.core.match import avoided, pick_gpus, refused, wanted_ram_mib, wanted_vram_over_mib

if TYPE_CHECKING:
    from farm.core.state import Farm, Node, Shape, Step, UnitNote

QUEUED = 1
#: Most units one lease may carry, whatever the chunk size says.
CHUNK_MOST = 10_000
#: A chunk is this many times its start-up, while that takes at most so many target times.
STARTS_WORTH = 10.0
TARGETS_MOST = 5.0
#: Part of a target time on a machine that may be taken away at any moment.
PREEMPTIBLE_PART = 0.25
#: Part of what is left per slot that one chunk takes: the rest evens out what was guessed wrong.
TAIL_PART = 0.5
#: ... but no chunk is less than this many times its start-up.
STARTS_LEAST = 2.0
#: A chunk of less work costs more to hand out than to do.
LEAST_US = 1_000_000.0
#: Single frames of a step that are sent ahead to learn from while other steps wait.
SCOUTS = 8
#: Units that may not go to a node which one look passes over at most; the next look goes on behind them.
SKIPPED_MOST = 512
#: Rows after which what a crew has to do is counted anew.
_FRESH_ROWS = 500


class Crew(NamedTuple):
    """Those that could take a shape, and what they have to do.

    Attributes:
        version, until_seq: It holds while the nodes in service are these and rows have lower numbers.
        slots: How many attempts of the shape they could run at once.
        speed: The sum of the slots' speeds.
        waiting_us: Work that waits for them by priority, on a node of speed 1; not counted beyond what makes
            the end far.
    """

    version: int
    until_seq: int
    slots: int
    speed: float
    waiting_us: dict[int, float]

    def waits(self, priority: int) -> float:
        """Work of a priority and those above it."""
        return sum([us for one, us in self.waiting_us.items() if one >= priority])


def crew_of(farm: Farm, shape: Shape) -> Crew:
    """The crew of a shape, counted now and then: at every lease it would cost more than the lease."""
    crew = shape.crew
    if crew is None or crew.version != farm.live_version or farm.seq >= crew.until_seq:
        crew = shape.crew = _count_crew(farm, shape)
    return crew


def _count_crew(farm: Farm, shape: Shape) -> Crew:
    slots, speed = slots_and_speed(farm, shape)
    far_us = 4.0 * TARGETS_MOST * farm.settings.chunk_target_us * max(speed, 1.0)
    waiting_us: dict[int, float] = {}
    steps = 0
    for other in farm.busy.values():
        for step in other.queue.each():
            steps += 1
            priority = step.job.priority
            us = waiting_us.get(priority, 0.0)
            if us < far_us:
                waiting_us[priority] = us + queued_us(step)
    # So that a lease pays for about one look, however many nodes there are and steps wait.
    fresh = max(_FRESH_ROWS, slots, steps)
    return Crew(farm.live_version, farm.seq + fresh, slots, speed, waiting_us)


def slots_and_speed(farm: Farm, shape: Shape) -> tuple[int, float]:
    """How many attempts of the shape the nodes in service could run at once, and the sum of their speeds."""
    slots, speed = 0, 0.0
    for klass in farm.classes.values():
        if not klass.live:
            continue
        node = next(iter(klass.live.values()))
        if refused(shape, node):
            continue
        each = slots_on(shape, node)
        slots += each * len(klass.live)
        speed += each * sum([node.speed for node in klass.live.values()])
    return slots, speed


def slots_on(shape: Shape, node: Node) -> int:
    """How many attempts of the shape fit a node that is empty."""
    if shape.whole:
        return 1
    need, total = shape.requires, node.facts.total
    room = [total.cores // max(1, need.cores)]
    if need.ram_mib:
        room.append(total.ram_mib // need.ram_mib)
    if need.gpus:
        room.append(sum(gpu.vram_mib >= need.vram_mib for gpu in node.facts.gpus) // need.gpus)
    if node.settings.slots:
        room.append(node.settings.slots)
    return max(1, min(room))


def scouts_out(step: Step) -> bool:
    """Whether nothing is known of an adaptive step, but enough of its frames run to learn from."""
    return len(step.attempts) >= SCOUTS and type(step.spec.chunk) is not int and not any(step.pace.counts)


def queued_us(step: Step) -> float:
    """Work of a step that waits, in microseconds on a node of speed 1; a guess while nothing is known."""
    return step.counts[QUEUED] * (step.pace.mean_us() or float(pace.GUESS_FRAME_US))


def work_us(farm: Farm, step: Step, node: Node) -> float:
    """How much work, in microseconds on this node, an adaptive chunk should hold."""
    target = float(farm.settings.chunk_target_us)
    start = pace.start_us(step, node)
    by_time = min(max(target - start, STARTS_WORTH * start), TARGETS_MOST * target)
    if node.facts.attributes.get("preemptible") == "yes":
        by_time = max(by_time * PREEMPTIBLE_PART, min(by_time, 2.0 * start))
    if step.shape is None:
        return by_time
    crew = crew_of(farm, step.shape)
    speed = max(crew.speed, node.speed)
    waiting_us = max(queued_us(step), crew.waits(step.job.priority))
    return min(by_time, max(waiting_us / speed * TAIL_PART, STARTS_LEAST * start, LEAST_US))


class Hunger(NamedTuple):
    """What a unit's next try needs beyond what its step asks for, since one ran out of memory.

    Both 0: no more than its step asks for, but it may keep off some nodes (see ``picky``).

    Attributes:
        unit: The unit.
        ram_mib: Memory it takes; 0 = what the step asks for.
        vram_over_mib: More memory than this its GPUs must have; 0 = what the step asks for.
    """

    unit: int
    ram_mib: int
    vram_over_mib: int


def hunger_of(farm: Farm, step: Step, unit: int) -> Hunger | None:
    """What a unit needs beyond what its step asks for; None = nothing."""
    note = step.notes.get(unit)
    if note is None or not (note.ram_mib or note.vram_mib):
        return None
    ram_mib = 0 if step.whole else wanted_ram_mib(farm, step, unit)
    over_mib = wanted_vram_over_mib(farm, step, unit)
    return Hunger(unit, ram_mib, over_mib) if ram_mib > step.resources.ram_mib or over_mib else None


def hunger(farm: Farm, step: Step) -> Hunger | None:
    """What the step's first unit needs when all that waits of the step needs more than the step asks for.

    None = there are units that take what the step asks for, or it has none that may be leased.
    """
    first = _first_if_all(step, _wants_memory)
    return hunger_of(farm, step, first) if first is not None else None


def picky(farm: Farm, step: Step) -> Hunger | None:
    """The step's first unit, and what it needs, when all that waits of the step may keep off some node.

    A unit does that which failed on a node, or ran out of memory: it says where the step may go next.  None =
    there are units that take any node of the step's, or it has none that may be leased.
    """
    first = _first_if_all(step, _may_avoid)
    if first is None:
        return None
    return hunger_of(farm, step, first) or Hunger(first, 0, 0)


def _wants_memory(note: UnitNote) -> bool:
    return bool(note.ram_mib or note.vram_mib)


def _may_avoid(note: UnitNote) -> bool:
    return bool(note.failed_on or note.short_on or note.ram_mib or note.vram_mib)


def _first_if_all(step: Step, test: Callable[[UnitNote], bool]) -> int | None:
    """The first unit that may be leased, if the notes of all of those pass a test; None = one does not.

    Some hundreds stand for all, those that may not be leased yet among them: no look costs more than a lease.
    """
    notes, parked = step.notes, step.parked
    if not notes:
        return None
    first: int | None = None
    for looked, unit in enumerate(queued_in_order(step)):
        if looked > SKIPPED_MOST:
            break
        if unit in parked:
            continue
        note = notes.get(unit)
        if note is None or not test(note):
            return None
        if first is None:
            first = unit
    return first


def form_chunk(farm: Farm, step: Step, node: Node, *, ask: bool = False) -> tuple[int, ...]:
    """The next units of the step for this node, in the order they are to be rendered; empty: none for it.

    Of very many units that may not go to the node one look passes over ``SKIPPED_MOST``; the next look
    begins where it ended, so that each gets its turn and no look costs more than a lease is worth.

    Args:
        farm: The state.
        step: Whose units.
        node: Where they would go.
        ask: Only somebody who asks: where the next look begins stays as it is.
    """
    wanted = step.spec.chunk
    parked, notes = step.parked, step.notes
    if wanted == 1 and not parked and not notes and not step.job.scouting:
        first = sequence.first_queued(step)
        return (first,) if first >= 0 else ()
    adaptive = type(wanted) is not int
    if type(wanted) is int:
        most, budget = min(wanted, CHUNK_MOST), 0.0
    elif not any(step.pace.counts):
        most, budget = 1, 0.0
    else:
        most, budget = CHUNK_MOST, work_us(farm, step, node)
    if most == 1 and not parked and not notes:
        first = next(queued_in_order(step), -1)
        return (first,) if first >= 0 else ()
    units: list[int] = []
    took, speed = 0.0, node.speed
    table = step.pace.table() if budget else []
    begin = step.looked.get(node.id, 0) if step.looked else 0
    passed_over, looked = 0, 0
    #: What was found of units whose notes say the same: whether the node takes them.
    alike: dict[tuple[object, ...], bool] = {}
    for unit in queued_in_order(step):
        looked += 1
        if looked <= begin:
            continue
        note = notes.get(unit) if notes else None
        alone = note is not None and _goes_alone(note, adaptive=adaptive)
        if (
            (alone and units)
            or (parked and unit in parked)
            or (note is not None and not _takes(farm, step, unit, note, node, alike))
        ):
            passed_over += 1
            if passed_over >= SKIPPED_MOST:
                break
            continue
        if alone:
            units.append(unit)
            break
        if table:
            lasts = table[unit * pace.PLACES // step.units] / speed
            if units and took + lasts / 2.0 > budget:
                break
            took += lasts
        units.append(unit)
        if len(units) >= most:
            break
    if not units and not ask:
        if passed_over >= SKIPPED_MOST:
            step.looked[node.id] = looked
        elif begin:
            # To the end and nothing found: anew from the first.
            del step.looked[node.id]
    return tuple(units)


def _takes(
    farm: Farm, step: Step, unit: int, note: UnitNote, node: Node, alike: dict[tuple[object, ...], bool]
) -> bool:
    """Whether the node may take the unit and has its memory; found once for notes that say the same."""
    key = (note.ram_mib, note.vram_mib, bool(note.short_on), *sorted(note.failed_on))
    found = alike.get(key)
    if found is None:
        found = not avoided(farm, step, unit, node) and has_memory(farm, step, unit, node)
        alike[key] = found
    return found


def _goes_alone(note: UnitNote, *, adaptive: bool) -> bool:
    """Whether a unit must not share its chunk: it takes more memory than others, or it failed before."""
    return bool(note.ram_mib or note.vram_mib) or (adaptive and bool(note.failure))


def has_memory(farm: Farm, step: Step, unit: int, node: Node) -> bool:
    """Whether a node that has room for the step has the memory a unit's next try takes."""
    over_mib = wanted_vram_over_mib(farm, step, unit)
    shape = step.shape
    if over_mib and shape is not None and len(pick_gpus(shape, node, over_mib)) < step.resources.gpus:
        return False
    ram_mib = wanted_ram_mib(farm, step, unit)
    return not ram_mib or ram_mib <= node.ram_free or (step.whole and not node.attempts)


def queued_in_order(step: Step) -> Iterator[int]:
    """Queued units in the order the step wants them."""
    if step.job.scouting and step.frames is not None:
        yield from step.scouts_queued()
        return
    yield from sequence.queued_in_order(step)
