"""The columns of jobs, steps and nodes, and how a row of the wire becomes a row of a table.

What belongs here: one list of columns per table beside the function that fills it, in the same order.
What may not: how a column looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from client_gui.store.table import Column, Kind
from farm.model.states import NodeState, UnitState, WorkState
from farm.protocol.rows import JobRow, NodeRow, StepRow
from farm.sdk.filters import node_states, percent_done

_STATES: Final = len(UnitState)
#: Looking up a member of an enumeration takes longer than all else that is done for a row.
_DONE: Final = int(UnitState.DONE)
_WAITING: Final = slice(int(UnitState.BLOCKED), int(UnitState.QUEUED) + 1)
_WORK_WORDS: Final = tuple(state.value for state in WorkState)

JOB_COLUMNS: Final = (
    Column("job", Kind.INT, "id"),
    Column("name", Kind.TEXT, "name"),
    Column("user", Kind.TEXT, "user", few=True),
    Column("project", Kind.TEXT, "project", few=True),
    Column("priority", Kind.INT, "priority"),
    Column("state", Kind.STATE, "state", _WORK_WORDS),
    Column("reason", Kind.TEXT, "state", few=True),
    Column("submitted_us", Kind.INT, "times"),
    Column("started_us", Kind.INT, "times"),
    Column("ended_us", Kind.INT, "times"),
    Column("units", Kind.INT, "counts"),
    Column("done", Kind.INT, "counts"),
    Column("failed", Kind.INT, "counts"),
    Column("running", Kind.INT, "counts"),
    Column("progress", Kind.FLOAT, "counts"),
    Column("waiting", Kind.INT, "counts"),
    Column("mean_frame_s", Kind.FLOAT, "pace"),
    Column("spend_nano", Kind.INT, "money"),
    Column("waste_nano", Kind.INT, "money"),
    Column("eta_low_us", Kind.INT, "eta"),
    Column("eta_high_us", Kind.INT, "eta"),
    Column("cost_low_nano", Kind.INT, "forecast"),
    Column("cost_high_nano", Kind.INT, "forecast"),
    Column("not_estimated", Kind.OBJECT, "forecast"),
    Column("archived", Kind.FLAG, "state"),
    Column("steps", Kind.OBJECT, "steps"),
    Column("rank", Kind.INT, "priority"),
)


def waiting_units(row: JobRow) -> int:
    """Units of a job that are queued or blocked; worked out of its totals where its steps are not told."""
    if not row.steps:
        return max(0, row.units - row.done - row.failed - row.running)
    if len(row.steps) == 1:
        return sum(row.steps[0].counts[_WAITING])
    return sum(sum(step.counts[_WAITING]) for step in row.steps)


def mean_frame_s(steps: Sequence[StepRow]) -> float | None:
    """What a frame of some steps took on average, None before the first is done."""
    if len(steps) == 1:  # as nearly all jobs have it
        mean_s, counts = steps[0].mean_frame_s, steps[0].counts
        return mean_s if mean_s > 0 and len(counts) > _DONE and counts[_DONE] else None
    total, count = 0.0, 0
    for step in steps:
        done = step.counts[_DONE] if len(step.counts) > _DONE else 0
        if done and step.mean_frame_s > 0:
            total += step.mean_frame_s * done
            count += done
    return total / count if count else None


#: What is worked out of a row, or of a value of it, rather than read from it.
_JOB_MADE: Final[dict[str, Callable[[JobRow], Any]]] = {
    "progress": lambda row: percent_done(row.done, row.units),
    "waiting": waiting_units,
    "mean_frame_s": lambda row: mean_frame_s(row.steps),
}
_JOB_READERS: Final = tuple(_JOB_MADE.get(column.name) or attrgetter(column.name) for column in JOB_COLUMNS)


def job_columns(rows: Sequence[JobRow]) -> list[list[Any]]:
    """Jobs as the columns of their table, in order.

    A column at a time: tuples of rows, turned into columns later, take three times as long.
    """
    return [list(map(read, rows)) for read in _JOB_READERS]


def job_values(row: JobRow) -> tuple[Any, ...]:
    """A job as a row of its table."""
    return tuple([read(row) for read in _JOB_READERS])


STEP_COLUMNS: Final = (
    Column("job", Kind.INT, "id"),
    Column("place", Kind.INT, "id"),
    Column("name", Kind.TEXT, "id", few=True),
    Column("kind", Kind.TEXT, "id", few=True),
    Column("renderer", Kind.TEXT, "id", few=True),
    Column("state", Kind.STATE, "state", _WORK_WORDS),
    Column("reason", Kind.TEXT, "state", few=True),
    Column("able", Kind.OBJECT, "state"),
    Column("frames", Kind.TEXT, "frames"),
    Column("units", Kind.INT, "counts"),
    Column("counts", Kind.OBJECT, "counts"),
    Column("progress", Kind.FLOAT, "counts"),
    Column("mean_frame_s", Kind.FLOAT, "pace"),
    Column("expected_frame_s", Kind.FLOAT, "pace"),
    Column("attempts", Kind.INT, "attempts"),
)


def step_address(job: int, name: str) -> str:
    """The address that steps are known by."""
    return f"J{job}/{name}"


def step_values(job: int, place: int, row: StepRow) -> tuple[Any, ...]:
    """A step as a row of its table.

    Args:
        job: Its job's number.
        place: Which of the job's steps it is, from 0.
        row: The step.
    """
    done = row.counts[UnitState.DONE] if len(row.counts) > UnitState.DONE else 0
    return (
        job,
        place,
        row.name,
        row.kind,
        row.renderer,
        row.state,
        row.reason,
        row.able,
        row.frames,
        row.units,
        row.counts,
        percent_done(done, row.units),
        row.mean_frame_s,
        row.expected_frame_s,
        row.attempts,
    )


def summed_counts(steps: Sequence[StepRow]) -> tuple[int, ...]:
    """Units of a job by state, for its bar; longer than ``UnitState`` when the farm knows more states."""
    if len(steps) == 1:
        return steps[0].counts
    most = max((len(step.counts) for step in steps), default=_STATES)
    totals = [0] * most
    for step in steps:
        for state, count in enumerate(step.counts):
            totals[state] += count
    return tuple(totals)


NODE_COLUMNS: Final = (
    Column("node", Kind.INT, "id"),
    Column("name", Kind.TEXT, "name"),
    Column("host", Kind.TEXT, "name"),
    Column("state", Kind.STATE, "state", tuple(state.value for state in NodeState)),
    Column("states", Kind.OBJECT, "state"),
    Column("enabled", Kind.FLAG, "state"),
    Column("disabled", Kind.FLAG, "state"),
    Column("closed", Kind.TEXT, "state", few=True),
    Column("reason", Kind.TEXT, "state", few=True),
    Column("pool", Kind.TEXT, "place", few=True),
    Column("site", Kind.TEXT, "place", few=True),
    Column("cores", Kind.INT, "cores"),
    Column("cores_free", Kind.INT, "cores"),
    Column("ram_mib", Kind.INT, "ram"),
    Column("ram_free_mib", Kind.INT, "ram"),
    Column("gpus", Kind.INT, "gpus"),
    Column("gpus_free", Kind.INT, "gpus"),
    Column("gpu_names", Kind.OBJECT, "gpus"),
    Column("apps", Kind.OBJECT, "apps"),
    Column("renderers", Kind.OBJECT, "apps"),
    Column("running", Kind.OBJECT, "running"),
    Column("running_count", Kind.INT, "running"),
    Column("rate_nano_h", Kind.INT, "money"),
    Column("spent_nano", Kind.INT, "money"),
    Column("idle_nano", Kind.INT, "money"),
    Column("seen_us", Kind.INT, "seen"),
    Column("software", Kind.TEXT, "software", few=True),
    Column("cpu_percent", Kind.FLOAT, "cpu"),
    Column("slots", Kind.INT, "slots"),
    Column("schedule", Kind.TEXT, "slots", few=True),
    Column("update", Kind.TEXT, "software", few=True),
    Column("update_reason", Kind.TEXT, "software", few=True),
    Column("ram_used_mib", Kind.INT, "load"),
    Column("gpu_vram_mib", Kind.OBJECT, "gpus"),
    Column("gpu_loads", Kind.OBJECT, "load"),
    Column("gpu_percent", Kind.FLOAT, "load"),
    Column("gpu_temp_c", Kind.INT, "load"),
    Column("vram_used_mib", Kind.INT, "load"),
)


def known_most(values: Iterable[int]) -> int | None:
    """The largest of what is known (-1 is not); None when nothing is."""
    return max((value for value in values if value >= 0), default=None)


def known_sum(values: Iterable[int]) -> int | None:
    """The sum of what is known (-1 is not); None when nothing is."""
    known = [value for value in values if value >= 0]
    return sum(known) if known else None


def node_values(row: NodeRow) -> tuple[Any, ...]:
    """A node as a row of its table."""
    return (
        row.node,
        row.name,
        row.host,
        row.state,
        node_states(row),
        row.enabled,
        row.disabled,
        row.closed,
        row.reason,
        row.pool,
        row.site,
        row.cores,
        row.cores_free,
        row.ram_mib,
        row.ram_free_mib,
        row.gpus,
        row.gpus_free,
        row.gpu_names,
        row.apps,
        row.renderers,
        row.running,
        len(row.running),
        row.rate_nano_h,
        row.spent_nano,
        row.idle_nano,
        row.seen_us,
        row.software,
        row.cpu_percent,
        row.slots,
        row.schedule,
        row.update,
        row.update_reason,
        row.ram_used_mib if row.ram_used_mib >= 0 else None,
        row.gpu_vram_mib,
        row.gpu_loads,
        known_most(load.percent for load in row.gpu_loads),
        known_most(load.temp_c for load in row.gpu_loads),
        known_sum(load.vram_used_mib for load in row.gpu_loads),
    )
