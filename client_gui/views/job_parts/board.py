"""What the tabs of a job share: its steps and frames, their states and figures, and what is selected.

What belongs here: following one job in the store, and telling the tabs what changed.  What may not: widgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.desk import Desk
from client_gui.store.columns import step_address
from client_gui.store.farmstore import FarmChange
from client_gui.store.unitmap import UnitMap
from client_gui.views.job_parts.details import FrameDetails
from client_gui.views.job_parts.figures import JobFigures, node_name
from client_gui.views.job_parts.frameset import FrameSet
from client_gui.views.job_parts.picked import Picked
from farm.protocol.rows import StepRow

States = npt.NDArray[np.uint8]


class JobBoard(QObject):
    """A job, as its tabs see it.

    Attributes:
        desk: What all views share.
        job: Its number, 0 for none.
        rows: Its steps, in order.
        frames: Its steps' frames by name, in order.
        picked: What is selected.
        figures: Seconds, memory, money of its frames.
        details: Rows of frames on the screen.
    """

    #: Steps came, went or have other frames, or another job is shown.
    steps_changed = Signal()
    #: The job's or a step's row changed.
    row_changed = Signal()
    #: States of a step's units changed: its name, the units (None = any).
    states_changed = Signal(str, object)
    #: Figures of a step's units changed: its name, the units (None = any).
    figures_changed = Signal(str, object)
    #: The current step changed.
    step_changed = Signal()

    def __init__(self, desk: Desk, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.desk = desk
        self.job = 0
        self.rows: tuple[StepRow, ...] = ()
        self.frames: dict[str, FrameSet] = {}
        self.picked = Picked(self)
        self.figures = JobFigures(desk.client, self.figures_changed.emit, self)
        self.details = FrameDetails(desk.client, self)
        self._step = ""
        self._extra: tuple[str, ...] = ()
        self._on = False
        self._context: tuple[int, str, ActionContext] | None = None
        self.picked.moved.connect(self._follow_picked)
        desk.focus.unit_changed.connect(self._follow_focus)

    # -- the job --

    def set_on(self, on: bool) -> None:
        """Whether anybody looks at it; if not, nothing is asked for."""
        self._on = on
        if on:
            self.refresh()
        else:
            self.figures.want(0, ())
            self.details.set_job(0)

    def refresh(self) -> None:
        """Puts everything right from the store."""
        job = self.desk.focus.job
        fresh = job != self.job
        self.job = job
        self.details.set_job(job)
        if fresh:
            self._step = ""
        self._read(fresh=fresh)
        self._want()
        for step in self.frames:
            self.states_changed.emit(step, None)
        self._follow_focus()
        self.row_changed.emit()

    def farm_changed(self, change: FarmChange) -> None:
        """Takes a change of the farm."""
        if not self.job:
            return
        store = self.desk.client.store
        slot = store.jobs.slot(self.job)
        touched = slot in change.jobs.changed or slot in change.jobs.inserted
        gone = self.job in change.jobs.removed_ids
        if touched or gone:
            self._read(fresh=False)
        for address, found in change.maps.items():
            step = self._step_of(address)
            if step:
                self._context = None
                if found.whole:
                    self._read(fresh=False)
                units = None if found.whole else found.units
                self.details.spoil(step, units)
                self.states_changed.emit(step, units)
        if touched or gone:
            self.row_changed.emit()

    def _step_of(self, address: str) -> str:
        head, _, step = address.partition("/")
        return step if head == f"J{self.job}" else ""

    def _read(self, *, fresh: bool) -> None:
        rows = self.desk.client.store.steps_of(self.job)
        self.rows = rows
        found: dict[str, FrameSet] = {}
        same = not fresh and len(rows) == len(self.frames)
        for row in rows:
            known = self.frames.get(row.name)
            known_map = self._map(row.name)
            units = len(known_map) if known_map is not None else row.units
            if not fresh and known is not None and known.units == units and known.job == self.job:
                frames = row.frames
                if str(known.range or "") == frames or known.range is None:
                    found[row.name] = known
                    continue
            same = False
            found[row.name] = FrameSet.of(self.job, row.name, row.frames, units)
        if same and list(found) == list(self.frames):
            return
        self.frames = found
        self._context = None
        self.picked.set_steps([(step, frames.units) for step, frames in found.items()], fresh=fresh)
        if self._step not in found:
            # The step with most frames is what a job is about; of equals the first.
            self._step = max(found, key=lambda step: found[step].units, default="")
            self.step_changed.emit()
        self._want()
        self.steps_changed.emit()

    # -- reading --

    @property
    def row(self) -> dict[str, Any] | None:
        """The job's row by column, None when it is not known."""
        jobs = self.desk.client.store.jobs
        return jobs.row(self.job) if self.job in jobs else None

    def _map(self, step: str) -> UnitMap | None:
        return self.desk.client.store.maps.get(step_address(self.job, step))

    def counts(self, step: str) -> npt.NDArray[np.int64] | None:
        """Units of a step by state byte; None while the map has not come."""
        found = self._map(step)
        return found.counts if found is not None else None

    def states(self, step: str) -> States | None:
        """State bytes of a step's units, over the store's own memory; None while they have not come."""
        found = self._map(step)
        return found.array if found is not None else None

    def state(self, step: str, unit: int) -> int | None:
        """A unit's state byte."""
        found = self._map(step)
        return found.states[unit] if found is not None and 0 <= unit < len(found) else None

    def node_name(self, number: int) -> str:
        """The name of a node."""
        return node_name(self.desk.client, number)

    def names_now(self) -> Callable[[int], str]:
        """The names of all nodes as they are now, to be asked in any thread."""
        nodes = self.desk.client.store.nodes
        names = nodes.values("name")
        known = {number: str(names[nodes.slot(number)]) for number in nodes.all_ids()}

        def name(number: int) -> str:
            return known.get(number) or (f"node {number}" if number > 0 else "")

        return name

    def step_row(self, step: str) -> StepRow | None:
        """A step's row."""
        return next((row for row in self.rows if row.name == step), None)

    # -- the current step --

    @property
    def step(self) -> str:
        """The step the table and the charts show."""
        return self._step

    @property
    def current(self) -> FrameSet | None:
        """Its frames."""
        return self.frames.get(self._step)

    def set_step(self, step: str) -> None:
        """Shows another step."""
        if step in self.frames and step != self._step:
            self._step = step
            self._want()
            self.step_changed.emit()
        if step in self.frames and self.desk.focus.step != step:
            self.desk.focus.set_unit(step)

    def want_figures(self, steps: tuple[str, ...]) -> None:
        """Steps whose figures are shown besides the current one's."""
        self._extra = steps
        self._want()

    def _want(self) -> None:
        if self._on and self.job:
            wanted = [self._step, *self._extra] if self._step else list(self._extra)
            self.figures.want(self.job, wanted)

    # -- what is looked at --

    def _follow_picked(self) -> None:
        step, unit = self.picked.step, self.picked.unit
        if not step:
            return
        focus = self.desk.focus
        if (focus.step, focus.unit) != (step, unit):
            focus.set_unit(step, unit)
        if step != self._step:
            self.set_step(step)

    def _follow_focus(self) -> None:
        focus = self.desk.focus
        if focus.job != self.job or not focus.step:
            return
        self.set_step(focus.step)
        if focus.unit >= 0 and (focus.step, focus.unit) != (self.picked.step, self.picked.unit):
            self.picked.move(focus.step, focus.unit)

    def look_at(self, step: str, unit: int, dock: str = "") -> None:
        """Makes a frame the current one, and wants a dock at the front."""
        self.desk.focus.set_unit(step, unit)
        self.picked.move(step, unit)
        if dock:
            self.desk.focus.show(dock)

    # -- actions --

    def context(self) -> ActionContext:
        """What actions act on: selected frames, else the current one, else the job."""
        key = (self.picked.version, f"{self.picked.step}/{self.picked.unit}")
        if self._context is not None and self._context[:2] == key:
            return self._context[2]
        found: list[UnitsOf] = [
            self.frames[step].picked(self.picked.units(step), self.states(step))
            for step in self.picked.steps
            if step in self.frames
        ]
        frames = self.frames.get(self.picked.step)
        if not found and frames is not None and 0 <= self.picked.unit < frames.units:
            found.append(frames.picked(np.array([self.picked.unit], np.int64), self.states(frames.step)))
        if not self.job:
            return ActionContext()
        if not found:
            return ActionContext("jobs", (self.job,))
        context = ActionContext("frames", (self.job,), tuple(found))
        self._context = (*key, context)
        return context

    def job_context(self) -> ActionContext:
        """The job as a whole."""
        return ActionContext("jobs", (self.job,)) if self.job else ActionContext()
