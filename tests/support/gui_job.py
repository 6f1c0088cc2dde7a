"""A job for tests of its dock: states, figures, rows, history and attempts that a fake port answers.

What belongs here: one job whose answers agree with its map, as a farm's do.  What may not: widgets.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from farm.model.frames import FrameRange
from farm.model.ids import parse_address
from farm.model.states import UnitState
from farm.protocol.bulk import COLUMN_UNITS, ColumnsGetMsg, ColumnsMsg
from farm.protocol.client import (
    AttemptsReply,
    AttemptsReq,
    FramesReply,
    FramesReq,
    HistoryReply,
    HistoryReq,
    JobReply,
    JobReq,
)
from farm.protocol.rows import AttemptRow, FrameRow, HistoryRow, JobRow, StepRow
from tests.support.gui_rig import NOW_US, Rig, job_row, node_row, step_row

States = npt.NDArray[np.uint8]


@dataclass
class StepOf:
    """A step: its states, and figures by unit (NaN, 0: not known)."""

    states: States
    first: int = 1001
    seconds: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    nodes: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    tries: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        count = len(self.states)
        done = self.states == UnitState.DONE
        if not len(self.seconds):
            self.seconds = np.where(done, 60.0 + np.arange(count) % 30, np.nan)
        if not len(self.nodes):
            self.nodes = np.where(done, 1 + np.arange(count) % 3, 0)
        if not len(self.tries):
            self.tries = np.where(done | (self.states == UnitState.FAILED), 1, 0)

    @property
    def frames(self) -> str:
        """Its frames as the farm writes them."""
        return f"{self.first}-{self.first + len(self.states) - 1}" if len(self.states) > 1 else ""


class JobOf:
    """A job on a rig; ``show`` sends its state, ``move`` changes units."""

    def __init__(self, rig: Rig, steps: dict[str, StepOf], job: int = 12, **fields: Any) -> None:
        self.rig = rig
        self.job = job
        self.steps = steps
        self.fields = fields
        self.history: list[HistoryRow] = []
        self.attempts: list[AttemptRow] = []
        self.spec: dict[str, Any] = {
            "overcrank_job": 1,
            "name": "shot",
            "steps": [{"name": name, "renderer": "blender", "frames": "1001-1100"} for name in steps],
        }
        rig.port.answers.update(
            {
                ColumnsGetMsg: self._columns,
                FramesReq: self._frames,
                HistoryReq: self._history,
                AttemptsReq: lambda body: AttemptsReply(id=body.id, attempts=tuple(self.attempts)),
                JobReq: lambda body: JobReply(
                    id=body.id, job=self.row(), spec=msgspec.json.encode(self.spec)
                ),
            }
        )

    def row(self) -> JobRow:
        """The job as lists show it."""
        steps = tuple(self._step(name, step) for name, step in self.steps.items())
        counts = np.sum([step.counts for step in steps], axis=0)
        base: dict[str, Any] = {
            "units": int(counts.sum()),
            "done": int(counts[UnitState.DONE]),
            "failed": int(counts[UnitState.FAILED]),
            "running": int(counts[UnitState.RUNNING]),
            "steps": steps,
        }
        return job_row(self.job, **(base | self.fields))

    def _step(self, name: str, step: StepOf) -> StepRow:
        counts = tuple(np.bincount(step.states, minlength=7).tolist())
        kind = "per_frame" if step.frames else "single"
        return step_row(name, kind=kind, frames=step.frames, units=len(step.states), counts=counts)

    def show(self) -> None:
        """Sends the state of everything."""
        maps = {f"J{self.job}/{name}": step.states.tobytes() for name, step in self.steps.items()}
        self.rig.snapshot((self.row(),), tuple(node_row(number) for number in range(1, 4)), maps)

    def move(self, step: str, units: dict[int, UnitState]) -> None:
        """Moves units, as numbered changes."""
        for unit, state in units.items():
            self.steps[step].states[unit] = state
        changes = tuple((f"J{self.job}/{step}", unit, state) for unit, state in units.items())
        self.rig.delta((self.row(),), units=changes)

    # -- answers --

    def _columns(self, body: ColumnsGetMsg) -> ColumnsMsg:
        step = self.steps[body.step]
        part = slice(body.first, body.first + COLUMN_UNITS)
        seconds = step.seconds[part].astype("<f4")
        known = np.isfinite(seconds)
        columns = [
            seconds,
            np.where(known, 2048, -1).astype("<i4"),
            step.tries[part].astype("<u2"),
            step.nodes[part].astype("<i4"),
            np.where(known, np.nan_to_num(seconds) * 1e6, 0).astype("<i8"),
        ]
        if body.since:
            columns = [column[:0] for column in columns]
        data = zlib.compress(b"".join(column.tobytes() for column in columns))
        return ColumnsMsg(
            body.id,
            1,
            len(step.states),
            body.since,
            body.first,
            len(columns[0]),
            b"",
            data if len(columns[0]) else b"",
        )

    def _frames(self, body: FramesReq) -> FramesReply:
        address = parse_address(body.address)
        name = str(address.step)
        step = self.steps[name]
        tail = body.address.split("/")[2:]
        units = (
            [frame - step.first for frame in FrameRange.parse(tail[0])]
            if tail
            else list(range(len(step.states)))
        )
        units = [
            unit for unit in units if not body.states or UnitState(int(step.states[unit])).word in body.states
        ]
        return FramesReply(id=body.id, steps={name: tuple(self.frame_row(step, unit) for unit in units)})

    @staticmethod
    def frame_row(step: StepOf, unit: int) -> FrameRow:
        """A frame as lists show it."""
        state = UnitState(int(step.states[unit]))
        failed = state is UnitState.FAILED
        return FrameRow(
            unit=unit,
            frame=step.first + unit if step.frames else None,
            state=state.word,
            attempts=int(step.tries[unit]),
            failure="oom-ram" if failed else "",
            reason="no memory left" if failed else "",
            progress=0.5 if state is UnitState.RUNNING else None,
        )

    def _history(self, body: HistoryReq) -> HistoryReply:
        rows = [row for row in self.history if not body.before_us or row.at_us < body.before_us]
        rows.sort(key=lambda row: -row.at_us)
        return HistoryReply(id=body.id, rows=tuple(rows[: body.limit]))


def states_of(count: int, **words: int) -> States:
    """States in blocks: ``states_of(10, done=4, failed=1)``; what is left is queued."""
    found = np.full(count, UnitState.QUEUED, np.uint8)
    at = 0
    for word, many in words.items():
        found[at : at + many] = UnitState[word.upper()]
        at += many
    return found


def change(number: int, **fields: Any) -> HistoryRow:
    """A change that many seconds ago."""
    base: dict[str, Any] = {"what": "priority", "old": "50", "new": "60", "reason": "client", "who": "ana"}
    return HistoryRow(at_us=NOW_US - number * 1_000_000, **(base | fields))


def attempt(no: int, step: str = "beauty", **fields: Any) -> AttemptRow:
    """An attempt at frame 1004."""
    base: dict[str, Any] = {
        "node": "rack-001",
        "kind": "render",
        "frames": "1004",
        "started_us": NOW_US - 200_000_000,
        "ended_us": NOW_US - 80_000_000,
        "outcome": "failed",
        "reason": "no memory left",
        "charge_nano": 3_000_000,
        "waste_nano": 3_000_000,
    }
    return AttemptRow(attempt=100 + no, no=no, step=step, **(base | fields))
