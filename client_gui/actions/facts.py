"""What is known of the things an action would act on, read from the store once per gesture.

What belongs here: records of jobs, steps, frames and nodes as rules need them.  What may not: Qt, and the
rules themselves (``possible``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.store.farmstore import FarmStore
from farm.model.errors import CallError, FrameRangeError
from farm.model.frames import FrameRange, format_indices
from farm.model.ids import parse_address
from farm.model.states import UnitState, WorkState, shown_state
from farm.protocol.rows import StepRow

B, Q, R, D, F, S, C = UnitState
#: States of units that are still to be done.
OPEN: Final = (B, Q, R)
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job.

    Attributes:
        known: Whether the store has it; of others only the number is known.
        counts: Units by state of all its steps; None when that is not known.
        steps: How many steps it has; 0 = not known (what lies in the archive has no steps here).
        rank: Its place among the jobs of its user.
    """

    job: int
    known: bool = False
    name: str = ""
    user: str = ""
    project: str = ""
    state: str = ""
    archived: bool = False
    priority: int = 0
    units: int = 0
    done: int = 0
    running: int = 0
    spend_nano: int = 0
    counts: tuple[int, ...] | None = None
    steps: int = 0
    rank: int = 0

    @property
    def address(self) -> str:
        """As people call it."""
        return f"J{self.job}"

    @property
    def paused(self) -> bool:
        """Whether it shows as paused."""
        return self.state == WorkState.PAUSED

    def after(self, counts: list[int], *, paused: bool) -> str:
        """The state it shows once its units are so."""
        return shown_state(counts[: len(UnitState)], paused=paused).value


@dataclass(frozen=True, slots=True, eq=False)
class UnitsFacts:
    """Frames of a step, or the whole step.

    Attributes:
        units: What was selected.
        job: Its job.
        frames: All frames of the step, None when it has none or they are not known.
        has_frames: Whether the farm addresses its units by frames.
        counts: Units of the selection by state; a state that is only known to be among them counts one.
        exact: Whether ``counts`` are counts.
        places: The selected units, where the frames are followed; None where not.
        states: Their states, byte for byte.
        row: The step as it was last told of; None when that is not known.
    """

    units: UnitsOf
    job: JobFacts
    frames: FrameRange | None
    has_frames: bool
    counts: tuple[int, ...]
    exact: bool
    places: Places | None
    states: npt.NDArray[np.uint8] | None
    row: StepRow | None = None

    @property
    def address(self) -> str:
        """As people call it."""
        return self.units.address

    @property
    def whole(self) -> bool:
        """Whether no single frames are named."""
        return not self.units.frames

    @property
    def named(self) -> bool:
        """Whether the farm takes every unit as meant, also done ones: frames, or a step that is one unit."""
        return not self.whole or not self.has_frames

    def count(self, *states: UnitState) -> int:
        """How many of the selection are in these states."""
        return sum(self.counts[state] for state in states if state < len(self.counts))

    def at(self, *states: UnitState) -> Places:
        """Places of those of the selection that are in some states; empty when that is not known."""
        if self.places is None or self.states is None:
            return np.empty(0, np.int64)
        found: Places = self.places[np.isin(self.states, np.array(states, np.uint8))]
        return found

    def part(self, *states: UnitState) -> UnitsOf | None:
        """Those of the selection that are in some states; None when that is not known, or none is."""
        places = self.at(*states)
        return self.of(places) if len(places) and self.frames is not None else None

    def of(self, places: Places) -> UnitsOf:
        """Some units of the step, as the farm addresses them."""
        assert self.frames is not None
        chosen = tuple(places.tolist())
        text = str(self.frames) if len(chosen) == len(self.frames) else format_indices(self.frames, chosen)
        return UnitsOf(self.units.job, self.units.step, chosen, text)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node."""

    node: int
    known: bool = False
    name: str = ""
    state: str = ""
    enabled: bool = True
    disabled: bool = False
    running: tuple[str, ...] = ()
    slots: int = 0
    schedule: str = ""
    software: str = ""
    update: str = ""

    @property
    def address(self) -> str:
        """As people call it."""
        return self.name or f"node {self.node}"

    @property
    def service(self) -> str:
        """Whether it takes work, in a word: ``enabled``, ``drained`` or ``disabled``."""
        if self.enabled:
            return "enabled"
        return "disabled" if self.disabled else "drained"


Facts = JobFacts | UnitsFacts | NodeFacts


def job_facts(store: FarmStore, job: int) -> JobFacts:
    """A job as the store has it."""
    slot = store.jobs.slot(job)
    if slot < 0:
        return JobFacts(job)
    get = store.jobs.get
    steps = store.steps_of(job)
    counts: tuple[int, ...] | None = None
    if steps:
        most = max(len(UnitState), *(len(step.counts) for step in steps))
        sums = [0] * most
        for step in steps:
            for state, count in enumerate(step.counts):
                sums[state] += count
        counts = tuple(sums)
    return JobFacts(
        job,
        True,
        get(slot, "name"),
        get(slot, "user"),
        get(slot, "project"),
        get(slot, "state"),
        get(slot, "archived"),
        get(slot, "priority"),
        get(slot, "units"),
        get(slot, "done"),
        get(slot, "running"),
        get(slot, "spend_nano") or 0,
        counts,
        len(steps),
        get(slot, "rank") or 0,
    )


def units_facts(store: FarmStore, units: UnitsOf) -> UnitsFacts:
    """Selected units as the store has them."""
    job = job_facts(store, units.job)
    row = next((step for step in store.steps_of(units.job) if step.name == units.step), None)
    frames: FrameRange | None = None
    has_frames = bool(units.frames)
    if row is not None:
        has_frames = bool(row.frames)
        if row.frames:
            try:
                frames = FrameRange.parse(row.frames)
            except FrameRangeError:  # a newer farm's way to write them
                frames = None
    known = store.maps.get(f"J{units.job}/{units.step}")
    places: Places | None = None
    states: npt.NDArray[np.uint8] | None = None
    counts = [0] * len(UnitState)
    exact = True
    if known is not None and all(place < len(known) for place in units.units[-1:]):
        if frames is not None and len(frames) != len(known):
            frames = None  # the row and the map are of different moments
        if units.units:
            places = np.array(units.units, np.int64)
            states = known.array[places]
        else:
            places = np.arange(len(known), dtype=np.int64)
            states = known.array.copy()
        found = np.bincount(states, minlength=len(UnitState))
        counts = [int(count) for count in found[: len(UnitState)]]
    elif not units.frames and row is not None:
        counts = [*row.counts, *counts[len(row.counts) :]]
    else:
        exact = False
        for state in UnitState:
            counts[state] = int(state.word in units.states)
    return UnitsFacts(units, job, frames, has_frames, tuple(counts), exact, places, states, row)


def node_facts(store: FarmStore, node: int) -> NodeFacts:
    """A node as the store has it."""
    slot = store.nodes.slot(node)
    if slot < 0:
        return NodeFacts(node)
    get = store.nodes.get
    return NodeFacts(
        node,
        True,
        get(slot, "name"),
        get(slot, "state"),
        get(slot, "enabled"),
        get(slot, "disabled"),
        tuple(get(slot, "running")),
        get(slot, "slots") or 0,
        get(slot, "schedule"),
        get(slot, "software"),
        get(slot, "update"),
    )


def facts_of(store: FarmStore, context: ActionContext) -> Iterator[Facts]:
    """Everything that is selected, in the order of the selection, looked up as it is asked for."""
    match context.scope:
        case "jobs":
            yield from (job_facts(store, job) for job in context.jobs)
        case "steps" | "frames":
            yield from (units_facts(store, units) for units in context.units)
        case "nodes":
            yield from (node_facts(store, node) for node in context.nodes)


def gather(store: FarmStore, context: ActionContext) -> Generator[None, None, tuple[Facts, ...]]:
    """``facts_of`` as steps, one for each thing that is selected."""
    found: list[Facts] = []
    for one in facts_of(store, context):
        found.append(one)
        yield
    return tuple(found)


def facts_of_address(store: FarmStore, address: str) -> JobFacts | UnitsFacts | None:
    """What an address names; None when it is none, or the frames are not known."""
    try:
        at = parse_address(address)
    except CallError:
        return None
    if at.step is None:
        return job_facts(store, at.job)
    if at.frames is None:
        return units_facts(store, UnitsOf(at.job, at.step))
    row = next((step for step in store.steps_of(at.job) if step.name == at.step), None)
    try:
        frames = FrameRange.parse(row.frames) if row is not None and row.frames else None
        named = FrameRange.parse(at.frames)
        places = tuple(frames.index_of(frame) for frame in named) if frames is not None else ()
    except CallError:
        return None
    return units_facts(store, UnitsOf(at.job, at.step, places, at.frames)) if places else None
