"""How filters read the rows of the farm.

What belongs here: one accessor per field of ``farm.model.query.fields``, for jobs, nodes and frames as the
wire has them.  What may not: the grammar, and who lists what.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from farm.model.errors import FrameRangeError
from farm.model.frames import FrameRange
from farm.model.query import FRAMES, JOBS, NODES, Accessor, Context, Query
from farm.protocol.rows import FrameRow, JobRow, NodeRow


def job_filter(text: str, context: Context) -> Callable[[JobRow], bool]:
    """A test of jobs.

    Raises:
        QueryError: The filter does not parse.
    """
    return Query.parse(text, JOBS).predicate(JOB_FIELDS, context)


def node_filter(text: str, context: Context) -> Callable[[NodeRow], bool]:
    """A test of nodes.

    Raises:
        QueryError: The filter does not parse.
    """
    return Query.parse(text, NODES).predicate(NODE_FIELDS, context)


# -- jobs --


def percent_done(done: int, units: int) -> float | None:
    """How much is done, of a hundred; None of nothing."""
    return 100.0 * done / units if units > 0 else None


def seconds_since(at_us: int, now_us: int) -> float | None:
    """How long ago a moment was; None when there was none (0)."""
    return (now_us - at_us) / 1e6 if at_us > 0 else None


def runtime_s(started_us: int, ended_us: int, now_us: int) -> float | None:
    """From the start to the end, or until now."""
    if started_us <= 0:
        return None
    return max(0.0, ((ended_us or now_us) - started_us) / 1e6)


@lru_cache(maxsize=4096)
def read_frames(text: str) -> FrameRange | None:
    """A step's frames; None where it has none, or writes them in a way this version cannot read."""
    try:
        return FrameRange.parse(text)
    except FrameRangeError:
        return None


def _job_frames(row: JobRow, context: Context) -> tuple[FrameRange, ...]:
    found = [read_frames(step.frames) for step in row.steps if step.frames]
    return tuple(frames for frames in found if frames is not None)


JOB_FIELDS: dict[str, Accessor] = {
    "name": lambda row, context: row.name,
    "user": lambda row, context: row.user,
    "project": lambda row, context: row.project,
    "mine": lambda row, context: bool(context.user) and row.user == context.user,
    "state": lambda row, context: row.state,
    "job": lambda row, context: (str(row.job), f"J{row.job}"),
    "priority": lambda row, context: row.priority,
    "progress": lambda row, context: percent_done(row.done, row.units),
    "frames": lambda row, context: row.units,
    "done": lambda row, context: row.done,
    "running": lambda row, context: row.running,
    "failed": lambda row, context: row.failed,
    "frame": _job_frames,
    "step": lambda row, context: [step.name for step in row.steps],
    "renderer": lambda row, context: [step.renderer for step in row.steps],
    "reason": lambda row, context: row.reason,
    "cost": lambda row, context: row.spend_nano,
    "waste": lambda row, context: row.waste_nano,
    "age": lambda row, context: seconds_since(row.submitted_us, context.now_us),
    "started": lambda row, context: seconds_since(row.started_us, context.now_us),
    "ended": lambda row, context: seconds_since(row.ended_us, context.now_us),
    "runtime": lambda row, context: runtime_s(row.started_us, row.ended_us, context.now_us),
    "eta": lambda row, context: None if row.eta_high_us is None else (row.eta_high_us - context.now_us) / 1e6,
    "archived": lambda row, context: row.archived,
}


# -- nodes --


def node_states(row: NodeRow) -> tuple[str, ...]:
    """Every word that its state shows."""
    words = [row.state]
    if not row.enabled:
        words.append("disabled" if row.disabled else "drained")
    elif row.closed:
        words.append("closed")
    return tuple(words)


def _node_jobs(row: NodeRow, context: Context) -> list[str]:
    jobs = [address.partition("/")[0] for address in row.running]
    return [*jobs, *(job[1:] for job in jobs)]


NODE_FIELDS: dict[str, Accessor] = {
    "name": lambda row, context: row.name,
    "host": lambda row, context: row.host,
    "pool": lambda row, context: row.pool,
    "site": lambda row, context: row.site,
    "state": lambda row, context: node_states(row),
    "enabled": lambda row, context: row.enabled,
    "busy": lambda row, context: bool(row.running),
    "job": _node_jobs,
    "running": lambda row, context: len(row.running),
    "cores": lambda row, context: row.cores,
    "coresfree": lambda row, context: row.cores_free,
    "ram": lambda row, context: row.ram_mib,
    "ramfree": lambda row, context: row.ram_free_mib,
    "gpus": lambda row, context: row.gpus,
    "gpusfree": lambda row, context: row.gpus_free,
    "gpu": lambda row, context: row.gpu_names,
    "app": lambda row, context: row.apps,
    "renderer": lambda row, context: row.renderers,
    "cpu": lambda row, context: row.cpu_percent,
    "slots": lambda row, context: row.slots,
    "rate": lambda row, context: row.rate_nano_h,
    "cost": lambda row, context: row.spent_nano,
    "idle": lambda row, context: row.idle_nano,
    "seen": lambda row, context: seconds_since(row.seen_us, context.now_us),
    "software": lambda row, context: row.software,
    "update": lambda row, context: row.update,
    "reason": lambda row, context: (row.reason, row.closed, row.update_reason),
}


# -- frames: rows are pairs of a step's name and the unit's row --


def _frame_field(read: Callable[[FrameRow], object]) -> Accessor:
    return lambda row, context: read(row[1])


FRAME_FIELDS: dict[str, Accessor] = {
    "step": lambda row, context: row[0],
    "node": _frame_field(lambda row: row.node),
    "frame": _frame_field(lambda row: row.frame),
    "state": _frame_field(lambda row: row.state),
    "failure": _frame_field(lambda row: row.failure),
    "reason": _frame_field(lambda row: (row.reason, row.warning)),
    "tries": _frame_field(lambda row: row.attempts),
    "time": _frame_field(lambda row: row.elapsed_s),
    "cost": _frame_field(lambda row: row.cost_nano),
    "progress": _frame_field(lambda row: None if row.progress is None else 100.0 * row.progress),
    "verified": _frame_field(lambda row: row.verified),
    "file": _frame_field(lambda row: row.files),
}

#: Accessors by vocabulary.
FIELDS_OF: dict[str, dict[str, Accessor]] = {
    vocabulary.name: fields
    for vocabulary, fields in ((JOBS, JOB_FIELDS), (NODES, NODE_FIELDS), (FRAMES, FRAME_FIELDS))
}
__all__ = [
    "FIELDS_OF",
    "FRAME_FIELDS",
    "JOB_FIELDS",
    "NODE_FIELDS",
    "job_filter",
    "node_filter",
    "node_states",
    "percent_done",
    "read_frames",
    "runtime_s",
    "seconds_since",
]
