"""Work as the core sees it: jobs, steps with their units, and the heaps they wait in.

What belongs here: the data and the small operations that keep fields of one object agreeing.  What may not:
decisions, and anything of nodes.  What steps wait for is in ``farm.core.needs``, what runs in
``farm.core.attempts``.  ``farm.core.state`` puts it together with the nodes; import from there.

Long because a step's fields and the few operations that keep its units' map, sums, cursor and sequence
agreeing cannot be read apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from farm.core.needs import CANCELED, QUEUED, RUNNING, Edge
from farm.core.order import Account, Entry, Line, Queue, Ticket, order_key
from farm.core.pace import Pace
from farm.model.frames import FrameRange
from farm.model.jobs import AfterSpec, JobSpec, StepSpec
from farm.model.outputs import PictureSpec
from farm.model.resources import Resources
from farm.model.states import UnitState, WorkState, shown_state

if TYPE_CHECKING:
    from farm.core.attempts import Attempt
    from farm.core.chunks import Crew
    from farm.core.sequence import Sequence
    from farm.core.state import Farm


class UnitNote(msgspec.Struct):
    """What must be remembered of a unit that did not just work: kept only for such units.

    Attributes:
        failed_on: Ids of nodes it failed on.
        counts: Failures by class word that have a cap of their own.
        folders: Names of lost attempts' folders that may still hold its files.
        reason: Why it is in its state.
        failure: Class word of its last failure.
        ram_mib: Memory the next try should have, since a try ran out of it; 0 = the step's.
        short_on: Ids of nodes whose GPUs had too little memory for it.
        vram_mib: Memory of the largest GPU that had too little for it, 0 = none had.
    """

    failed_on: set[int] = msgspec.field(default_factory=set)
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    folders: list[str] = msgspec.field(default_factory=list)
    reason: str = ""
    failure: str = ""
    ram_mib: int = 0
    short_on: set[int] = msgspec.field(default_factory=set)
    vram_mib: int = 0


class Shape:
    """Steps whose needs are alike wait in one queue, and fit the same nodes."""

    __slots__ = (
        "able",
        "app",
        "attributes",
        "commands",
        "crew",
        "id",
        "key",
        "limits",
        "lined",
        "misfit",
        "pools",
        "queue",
        "renderer",
        "requires",
        "site",
        "version",
        "whole",
    )

    def __init__(self, number: int, key: tuple[object, ...], step: Step) -> None:
        spec = step.spec
        self.id = number
        self.key = key
        self.requires = step.resources
        self.pools = frozenset(spec.pools)
        self.attributes = dict(spec.attributes)
        self.site = spec.site
        self.renderer = spec.renderer
        #: Whether its steps run commands of their own (``pre``, ``post``).
        self.commands = bool(spec.pre or spec.post)
        self.app = step.app
        self.version = spec.version
        self.whole = step.whole
        self.limits = step.limits
        self.queue = Queue()
        #: Its entry in the farm's line-up, None while it has none.
        self.lined: Entry | None = None
        #: As which of the shapes that fit no free node it was last found.
        self.misfit = 0
        #: Who could take it and what waits for them, counted now and then (``farm.core.chunks``).
        self.crew: Crew | None = None
        #: (version of the nodes in service, how many of them could ever take this shape).
        self.able = (-1, 0)

    def __lt__(self, other: Shape) -> bool:
        """In the line-up a step that was moved to another shape may stand twice for a moment."""
        return self.id < other.id

    def push(self, farm: Farm, step: Step) -> None:
        """Puts a step that has leasable units in the queue, unless it is there."""
        self.queue.push(step)
        farm.busy[self.id] = farm.fresh[self.id] = self

    def free(self, farm: Farm, line: Line) -> None:
        """Puts a line back that was held."""
        self.queue.free(line)
        farm.busy[self.id] = farm.fresh[self.id] = self

    def head(self) -> Entry | None:
        """The first entry in order, or None."""
        return self.queue.head()


class Holder:
    """What all attempts of one user hold, and the lines of steps that the user's cap keeps back.

    A line's steps ask for as many cores each, so a cap keeps all of them back or none: however many jobs the
    user has, a cap that is full costs one look a shape.
    """

    __slots__ = ("cores", "kept", "user")

    def __init__(self, user: str) -> None:
        self.user = user
        self.cores = 0
        self.kept: dict[Line, Shape] = {}

    @property
    def capped(self) -> dict[int, Step]:
        """The steps of those lines by number, the first line first (for people who ask: it is slow)."""
        steps = (step for line in self.kept for step in line.each())
        return {step.id: step for step in sorted(steps, key=order_key)}


class Job:
    """A job.  ``open_units`` = blocked + queued + running units of all its steps."""

    __slots__ = (
        "archived",
        "capped",
        "cores",
        "ended_us",
        "holder",
        "id",
        "joined",
        "max_cores",
        "open_units",
        "paused",
        "paused_by",
        "priority",
        "project",
        "project_account",
        "rank",
        "reason",
        "scouting",
        "source",
        "spec",
        "start_after",
        "started_us",
        "steps",
        "submitted_us",
        "told_rest",
        "user",
        "user_account",
    )

    def __init__(self, number: int, spec: JobSpec, source: bytes, submitted_us: int) -> None:
        self.id = number
        self.spec = spec
        self.source = source
        self.user = spec.user
        self.project = spec.project
        self.priority = spec.priority
        #: Place among the jobs of its user, project and priority: smaller goes first, of equals the older.
        self.rank = spec.rank
        self.paused = False
        #: "" (by nobody), "farm" (paused itself), "clock" (starts later), "scout" (its scout frames are done)
        #: or the user.
        self.paused_by = ""
        self.reason = ""
        self.submitted_us = submitted_us
        self.started_us = 0
        self.ended_us = 0
        #: Whether people were told that nothing is left to do.
        self.told_rest = False
        self.archived = False
        #: When it may start at the earliest, as written; "" = at once.
        self.start_after = spec.start_after or ""
        #: Whether only scout frames are leased, see ``farm.core.scout``.
        self.scouting = spec.scout > 0
        self.steps: list[Step] = []
        self.open_units = 0
        #: Cores its attempts hold, the most they may hold (0 = no cap), steps kept back by that.
        self.cores = 0
        self.max_cores = spec.max_cores
        self.capped: dict[int, Step] = {}
        # Set by ``farm.core.shares.join_accounts``.
        self.joined = False
        self.holder: Holder
        self.project_account: Account
        self.user_account: Account

    def counts(self) -> list[int]:
        """Units by state over all steps."""
        total = [0] * 7
        for step in self.steps:
            for state, count in enumerate(step.counts):
                total[state] += count
        return total

    def shown(self) -> WorkState:
        """The state people see."""
        counts = self.counts()
        left_out = sum(step.left_out for step in self.steps)
        if left_out:
            counts[CANCELED] -= left_out
        return shown_state(counts, paused=self.paused)

    def note_end(self, at_us: int) -> None:
        """Keeps ``ended_us`` in step with the open units; called after every move of units."""
        if self.open_units:
            if self.ended_us:
                self.ended_us = 0
        elif not self.ended_us:
            self.ended_us = at_us

    def step(self, name: str) -> Step | None:
        """Step of that name."""
        return next((step for step in self.steps if step.spec.name == name), None)


class Step:
    """A step and its units.

    ``state`` has one byte a unit and ``counts`` its sums; ``tries`` (made when first needed) counts
    failures that spent an attempt.  ``cursor`` is never beyond the first queued unit, in the order of work
    (``farm.core.sequence``).  ``touched`` and ``before`` say which units' ends others were not told of yet:
    both are empty between events.
    """

    __slots__ = (
        "app",
        "asks",
        "attempt_no",
        "attempts",
        "before",
        "busy_us",
        "check_existing",
        "copies",
        "copy_waits",
        "counts",
        "cursor",
        "dependants",
        "dirty",
        "done_timed",
        "dropping",
        "frame_needs",
        "frames",
        "granted",
        "id",
        "index",
        "job",
        "last_us",
        "left_out",
        "limits",
        "line",
        "looked",
        "needs",
        "node_failures",
        "notes",
        "pace",
        "parked",
        "rank",
        "reason",
        "resources",
        "satisfied",
        "scouts",
        "seq",
        "sequence",
        "sequence_of",
        "shape",
        "spec",
        "spec_holder",
        "specs",
        "spend_nano",
        "state",
        "ticket",
        "touched",
        "tries",
        "units",
        "unmet",
        "waiting",
        "wanted",
        "waste_nano",
        "watched",
        "whole",
    )

    def __init__(self, number: int, job: Job, index: int, app: str, whole: bool, start: UnitState) -> None:
        spec = job.spec.steps[index]
        self.id = number
        self.job = job
        self.index = index
        self.spec: StepSpec = spec
        self.frames: FrameRange | None = spec.frame_range()
        self.units = len(self.frames) if self.frames is not None else 1
        #: Frames that are to be rendered when some of ``frames`` are not any more; None = all of them.
        self.wanted: FrameRange | None = None
        #: Canceled units that are not wanted: the step is finished without them.
        self.left_out = 0
        #: Units that are rendered first while the job is scouting.
        self.scouts: tuple[int, ...] = ()
        self.app = app
        self.whole = whole
        self.resources: Resources = spec.resources
        #: Counted tokens every attempt holds.
        self.limits: tuple[tuple[str, int], ...] = tuple(sorted(spec.limits.items()))
        #: Place among the steps of its job: smaller goes first, of equals the one written first.
        self.rank = spec.rank
        #: The line it waits in, None while it waits in none; and the one entry there that counts.
        self.line: Line | None = None
        self.ticket: Ticket | None = None
        self.state = bytearray([start.value]) * self.units
        self.tries: bytearray | None = None
        self.counts = [0] * 7
        self.counts[start] = self.units
        self.cursor = 0
        #: Its order of work when that is not the order of its units; made for this record of the step.
        self.sequence: Sequence | None = None
        self.sequence_of: StepSpec | None = None
        self.attempt_no = 0
        self.attempts: dict[int, Attempt] = {}
        #: Those of ``attempts`` that units were taken from.
        self.dropping: dict[int, Attempt] = {}
        #: Only units that did not just work.
        self.notes: dict[int, UnitNote] = {}
        #: Queued units that may not be leased yet: unit -> time it may be (0 = when its attempt is closed).
        self.parked: dict[int, int] = {}
        self.node_failures: dict[int, int] = {}
        #: Node -> queued units its next look passes over, since the last one did (``farm.core.chunks``).
        self.looked: dict[int, int] = {}
        self.needs: list[Edge] = []
        self.dependants: list[Edge] = []
        #: Those of ``needs`` that are by frame; how many of the others are not satisfied.
        self.frame_needs: list[Edge] = []
        self.unmet = 0
        #: Whether the end of every single unit matters to a dependant.
        self.watched = False
        #: Units that ended, or left their end, and the state they had; or the whole map as it was.
        self.touched: dict[int, int] = {}
        self.before: bytes | None = None
        self.satisfied = False
        #: Rows of this step all have a greater number.
        self.seq = 0
        #: Specification of each output's pictures; holder = unit it came from while that is not done.
        self.specs: tuple[PictureSpec | None, ...] | None = None
        self.spec_holder: tuple[int, int] | None = None
        #: (attempt, unit) that may be published because they look like the holder's.
        self.granted: dict[tuple[int, int], None] = {}
        #: (attempt, unit) -> specs waiting until the holder is done or gone.
        self.waiting: dict[tuple[int, int], tuple[PictureSpec | None, ...]] = {}
        self.check_existing = spec.existing == "skip"
        #: What frames took so far (``farm.core.pace``).
        self.pace = Pace()
        #: Unit that runs twice -> the second attempt, as long as the first one owes it; see
        #: ``farm.core.tail``.
        self.copies: dict[int, Attempt] = {}
        #: Unit -> pictures of its second attempt, which waits until the first is known to have stopped.
        self.copy_waits: dict[int, tuple[PictureSpec | None, ...]] = {}
        #: Whether publishing needs a grant while the specification is unknown.
        self.asks = any(output.kind != "movie" for output in spec.outputs)
        self.done_timed = 0
        self.busy_us = 0
        self.spend_nano = 0
        self.waste_nano = 0
        self.shape: Shape | None = None
        self.dirty = True
        self.last_us = 0
        self.reason = ""

    @property
    def address(self) -> str:
        """``J12/beauty``."""
        return f"J{self.job.id}/{self.spec.name}"

    def leasable(self) -> bool:
        """Whether any unit could be leased to some node right now."""
        job = self.job
        if job.paused or self.counts[QUEUED] <= len(self.parked):
            return False
        return not job.scouting or self.frames is None or next(self.scouts_queued(), None) is not None

    def scouts_queued(self) -> Iterator[int]:
        """Scout frames that could be leased now, in order."""
        state, parked = self.state, self.parked
        return (unit for unit in self.scouts if state[unit] == QUEUED and unit not in parked)

    def shown(self) -> WorkState:
        """The state people see."""
        counts = self.counts
        if self.left_out:
            counts = [*counts]
            counts[CANCELED] -= self.left_out
        return shown_state(counts, paused=self.job.paused)

    def leave_line(self) -> None:
        """Takes it out of the line it waits in, so that it is put where it belongs now."""
        if self.line is not None and self.shape is not None:
            self.line = None
            self.shape.queue.look_again()

    def wanted_units(self) -> tuple[int, ...]:
        """Indices of the units that are to be rendered, in order; all of them as a rule."""
        if self.wanted is None or self.frames is None:
            return tuple(range(self.units))
        return tuple(sorted(map(self.frames.index_of, self.wanted)))

    def count_left_out(self) -> None:
        """Counts the canceled units that are not wanted, after units or frames changed."""
        if self.wanted is None or self.frames is None:
            self.left_out = 0
            return
        wanted = sum(self.state[self.frames.index_of(frame)] == CANCELED for frame in self.wanted)
        self.left_out = self.counts[CANCELED] - wanted

    def frame_of(self, unit: int) -> int | None:
        """Frame number of a unit, None for a single step."""
        return self.frames.frame_at(unit) if self.frames is not None else None

    def note(self, unit: int) -> UnitNote:
        """The unit's note, made when missing."""
        note = self.notes.get(unit)
        if note is None:
            note = self.notes[unit] = UnitNote()
        return note

    def run(self, unit: int) -> None:
        """Moves one queued unit to running: ``set_state`` for the most usual move."""
        state, counts = self.state, self.counts
        counts[state[unit]] -= 1
        state[unit] = RUNNING
        counts[RUNNING] += 1
        if self.sequence is not None:
            self.sequence.states[self.sequence.places[unit]] = RUNNING
        if self.parked:
            self.parked.pop(unit, None)

    def set_state(self, unit: int, new: int) -> None:
        """Moves one unit; keeps the sums, the cursor and the job's count of open units."""
        state, counts = self.state, self.counts
        old = state[unit]
        state[unit] = new
        counts[old] -= 1
        counts[new] += 1
        self.dirty = True
        if self.sequence is not None:
            place = self.sequence.places[unit]
            self.sequence.states[place] = new
            if new == QUEUED and place < self.cursor:
                self.cursor = place
        elif new == QUEUED and unit < self.cursor:
            self.cursor = unit
        if old > 2 or new > 2:
            if self.watched and self.before is None:
                self.touched.setdefault(unit, old)
            if old < 3:
                self.job.open_units -= 1
            elif new < 3:
                self.job.open_units += 1
        if self.parked and old == QUEUED:
            self.parked.pop(unit, None)

    def set_all(self, old: int, new: int) -> int:
        """Moves every unit in state ``old``; returns how many."""
        count = self.counts[old]
        if not count or old == new:
            return 0
        if self.watched and (old > 2 or new > 2) and self.before is None:
            before = bytearray(self.state)
            for unit, was in self.touched.items():
                before[unit] = was
            self.before = bytes(before)
            self.touched.clear()
        table = bytearray(range(256))
        table[old] = new
        self.state = self.state.translate(table)
        if self.sequence is not None:
            self.sequence.states = self.sequence.states.translate(table)
        self.counts[old] = 0
        self.counts[new] += count
        self.dirty = True
        if new == QUEUED:
            self.cursor = 0
        if old == QUEUED:
            self.parked.clear()
        if (old < 3) != (new < 3):
            self.job.open_units += count if new < 3 else -count
        return count

    def wait_for(self, need: Step, spec: AfterSpec) -> None:
        """Adds an edge: this step waits for another (or, by frame, for its own earlier frames)."""
        edge = Edge(need, self, spec)
        self.needs.append(edge)
        need.dependants.append(edge)
        if edge.by_frame:
            self.frame_needs.append(edge)
        else:
            edge.met = edge.holds()
            self.unmet += not edge.met
        if edge.by_frame or edge.on_failure != "wait":
            need.watched = True

    def recount_needs(self) -> None:
        """Works out from the maps which needs as a whole are met (after a restart)."""
        self.unmet = 0
        for edge in self.needs:
            if not edge.by_frame:
                edge.met = edge.holds()
                self.unmet += not edge.met

    def waits(self, unit: int) -> bool:
        """Whether anything the unit needs is missing."""
        if self.unmet:
            return True
        return bool(self.frame_needs) and not all(edge.met_for(unit) for edge in self.frame_needs)

    def take_changes(self) -> list[tuple[int, int]]:
        """Units whose end others were not told of yet, and the state they had; they count as told now."""
        if self.before is None:
            changes = list(self.touched.items())
        else:
            pairs = enumerate(zip(self.before, self.state, strict=True))
            changes = [(unit, old) for unit, (old, new) in pairs if old != new]
        self.touched.clear()
        self.before = None
        return changes

    def is_wanted(self, unit: int) -> bool:
        """Whether a unit's frame is still to be rendered."""
        return self.wanted is None or self.frames is None or self.frames.frame_at(unit) in self.wanted

    def count_try(self, unit: int) -> int:
        """Counts a failure that spent an attempt; returns how many there are now."""
        if self.tries is None:
            self.tries = bytearray(self.units)
        self.tries[unit] = min(255, self.tries[unit] + 1)
        return self.tries[unit]
