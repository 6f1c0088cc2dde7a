"""Work as the core sees it: jobs, steps with their units, attempts, and the heaps they wait in.

What belongs here: the data and the small operations that keep fields of one object agreeing.  What may not:
decisions, and anything of nodes.  ``farm.core.state`` puts it together with the nodes; import from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from farm.core.order import Account, Entry, Line, Queue
from farm.core.pace import Pace
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec, StepSpec
from farm.model.outputs import PictureSpec
from farm.model.resources import Resources
from farm.model.states import AttemptKind, UnitState, WorkState, shown_state

if TYPE_CHECKING:
    from farm.core.chunks import Crew
    from farm.core.state import Farm, Node

QUEUED = UnitState.QUEUED.value
_NOTHING: frozenset[int] = frozenset()
CANCELED = UnitState.CANCELED.value


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
        #: Who could take it and what waits for them, counted now and then (``farm.core.chunks``).
        self.crew: Crew | None = None
        #: (version of the nodes in service, how many of them could ever take this shape).
        self.able = (-1, 0)

    def push(self, farm: Farm, step: Step) -> None:
        """Puts a step that has leasable units in the queue, unless it is there."""
        self.queue.push(step)
        farm.busy[self.id] = self

    def head(self) -> Entry | None:
        """The first entry in order, or None."""
        return self.queue.head()


class Job:
    """A job.  ``open_units`` = blocked + queued + running units of all its steps."""

    __slots__ = (
        "archived",
        "capped",
        "cores",
        "ended_us",
        "id",
        "max_cores",
        "open_units",
        "paused",
        "paused_by",
        "priority",
        "project",
        "project_account",
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
    failures that spent an attempt.  ``cursor`` is never beyond the first queued unit.
    """

    __slots__ = (
        "app",
        "asks",
        "attempt_no",
        "attempts",
        "busy_us",
        "check_existing",
        "copies",
        "copy_waits",
        "counts",
        "cursor",
        "dependants",
        "dirty",
        "done_timed",
        "frames",
        "granted",
        "id",
        "index",
        "job",
        "last_us",
        "left_out",
        "limits",
        "line",
        "needs",
        "node_failures",
        "notes",
        "pace",
        "parked",
        "reason",
        "resources",
        "satisfied",
        "scouts",
        "seq",
        "shape",
        "spec",
        "spec_holder",
        "specs",
        "spend_nano",
        "state",
        "tries",
        "units",
        "unmet",
        "waiting",
        "wanted",
        "waste_nano",
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
        #: The line it waits in, None while it waits in none.
        self.line: Line | None = None
        self.state = bytearray([start.value]) * self.units
        self.tries: bytearray | None = None
        self.counts = [0] * 7
        self.counts[start] = self.units
        self.cursor = 0
        self.attempt_no = 0
        self.attempts: dict[int, Attempt] = {}
        #: Only units that did not just work.
        self.notes: dict[int, UnitNote] = {}
        #: Queued units that may not be leased yet: unit -> time it may be (0 = when its attempt is closed).
        self.parked: dict[int, int] = {}
        self.node_failures: dict[int, int] = {}
        self.needs: list[Step] = []
        self.dependants: list[Step] = []
        self.unmet = 0
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
        #: Unit that runs twice -> the second attempt, as long as the first one owes it; see ``farm.core.copies``.
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
        return not self.job.paused and self.counts[QUEUED] > len(self.parked)

    def shown(self) -> WorkState:
        """The state people see."""
        counts = self.counts
        if self.left_out:
            counts = [*counts]
            counts[CANCELED] -= self.left_out
        return shown_state(counts, paused=self.job.paused)

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

    def set_state(self, unit: int, new: int) -> None:
        """Moves one unit; keeps the sums, the cursor and the job's count of open units."""
        state, counts = self.state, self.counts
        old = state[unit]
        state[unit] = new
        counts[old] -= 1
        counts[new] += 1
        self.dirty = True
        if new == QUEUED and unit < self.cursor:
            self.cursor = unit
        if (old < 3) != (new < 3):
            self.job.open_units += 1 if new < 3 else -1
        if old == QUEUED and self.parked:
            self.parked.pop(unit, None)

    def set_all(self, old: int, new: int) -> int:
        """Moves every unit in state ``old``; returns how many."""
        count = self.counts[old]
        if not count or old == new:
            return 0
        table = bytearray(range(256))
        table[old] = new
        self.state = self.state.translate(table)
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

    def count_try(self, unit: int) -> int:
        """Counts a failure that spent an attempt; returns how many there are now."""
        if self.tries is None:
            self.tries = bytearray(self.units)
        self.tries[unit] = min(255, self.tries[unit] + 1)
        return self.tries[unit]


class Attempt:
    """Units leased to a node.  ``open`` are those it still owes a result for.

    ``dropped`` units were taken from it (cancelled, rendered again elsewhere) but may still be rendering
    there: they are parked in the step until the attempt is closed.
    """

    __slots__ = (
        "asked_back",
        "charge_nano",
        "charged",
        "cores",
        "disk_mib",
        "dropped",
        "gpus",
        "id",
        "kind",
        "limits",
        "no",
        "node",
        "nonce",
        "open",
        "ram_mib",
        "rate",
        "share_ppm",
        "started_us",
        "step",
        "tokens",
        "units",
        "useful_us",
        "user",
        "verify",
        "wasted",
    )

    def __init__(
        self,
        number: int,
        no: int,
        nonce: int,
        kind: AttemptKind,
        step: Step,
        node: Node,
        units: tuple[int, ...],
    ) -> None:
        self.id = number
        self.no = no
        self.nonce = nonce
        self.kind = kind
        self.step = step
        self.node = node
        self.open = dict.fromkeys(units)
        self.dropped: set[int] = set()
        self.units = units
        self.cores = 0
        self.ram_mib = 0
        self.disk_mib = 0
        self.tokens: dict[str, int] = {}
        self.limits: tuple[tuple[str, int], ...] = ()
        #: Whose cap it counts for, core-ppm it holds, core-milliseconds charged to the accounts at the lease.
        self.user = ""
        self.rate = 0
        self.charged = 0
        self.gpus: tuple[int, ...] = ()
        self.share_ppm = 1
        self.charge_nano = 0
        self.started_us = 0
        self.useful_us = 0
        self.wasted = False
        #: Units its agent was asked to give back unless begun (not stored: after a restart it may be asked again).
        self.asked_back: frozenset[int] = _NOTHING
        self.verify: VerifyRequest | None = None

    @property
    def address(self) -> str:
        """``J12/beauty@7``."""
        return f"{self.step.address}@{self.no}"


class VerifyRequest(msgspec.Struct):
    """Existing files to verify: for ``mark-done`` by a user, or to ``skip`` what is already there."""

    id: int
    step_id: int
    units: tuple[int, ...]
    purpose: str
    who: str
    leased: bool = False


class LostAttempt(NamedTuple):
    """What is remembered of an attempt that ended without its agent's word."""

    step_id: int
    no: int
    nonce: int
    node_id: int
    units: tuple[int, ...]
