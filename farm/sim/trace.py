"""Jobs and frame times from a file: one that somebody wrote, or a recording of a real farm.

What belongs here: reading both into planned jobs.  What may not: running them.

A written trace has one JSON object a line:
``{"at_s": 12.5, "name": "shot", "user": "ann", "project": "film", "priority": 50, "steps": [{"name":
"beauty", "frame_s": [31.0, 29.5], "startup_s": 4.0, "resources": {"cores": 4}, "after": [], "chunk":
"auto"}]}``; a step may also say ``frames`` as a range (as many as it has times), and everything else a step
of a scenario may say. A recording (``farm record``) gives every job that was submitted while it ran, with the
time each frame took when it was done for the first time; frames that were never done take the median of their
step.  Times are taken as those of a node of speed 1.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import msgspec

from farm.core.events import DispatchEvent, ReportEvent, SubmitEvent
from farm.core.outcome import LeaseCommand
from farm.model.errors import CallError, StorageError
from farm.model.reports import DONE
from farm.sim.replay import MAGIC, Replay
from farm.sim.scenario import StepGroup
from farm.sim.workload import PlannedJob, PlannedStep, make_job, raw_step

#: What a frame takes whose step never had one done.
_UNKNOWN_S = 10.0


class TraceJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of a written trace; steps are those of a scenario with a list of ``frame_s``."""

    at_s: float
    name: str = "job"
    user: str = "artist"
    project: str = ""
    priority: int = 50
    steps: tuple[dict[str, Any], ...]


def trace_jobs(path: str) -> list[PlannedJob]:
    """The jobs of a trace file.

    Raises:
        StorageError: It cannot be read.
        CallError: A line is wrong; names it and the key.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise StorageError(f"the trace {path} cannot be read: {error.strerror or error}") from error
    if MAGIC in data[:64]:
        return _recorded(file)
    jobs = []
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                jobs.append(_written(line, number))
            except CallError as error:
                raise CallError(f"{path}, line {number}: {error.message}", hint=error.hint) from error
    return jobs


def _written(line: bytes, number: int) -> PlannedJob:
    try:
        job = msgspec.json.decode(line, type=TraceJob)
    except msgspec.DecodeError as error:
        raise CallError(str(error)) from error
    groups, times, raws = [], [], []
    for index, fields in enumerate(job.steps):
        where = f"steps[{index}]"
        seconds = fields.get("frame_s")
        if not isinstance(seconds, list) or not seconds:
            raise CallError(f"{where}.frame_s: a trace needs a list with the seconds of each frame")
        try:
            frame_s = msgspec.convert(seconds, list[float])
            group = msgspec.convert({"frames": len(frame_s), **fields, "frame_s": 0.0}, StepGroup)
        except msgspec.ValidationError as error:
            raise CallError(f"{where}: {error}") from error
        if min(frame_s) <= 0:
            raise CallError(f"{where}.frame_s: a frame takes more than no time")
        groups.append(group)
        times.append(PlannedStep(frame_s, group.startup_s))
        raws.append(raw_step(group, f"trace-{number}"))
    raw = {"overcrank_job": 1, "steps": raws}
    raw |= {name: getattr(job, name) for name in ("name", "user", "project", "priority")}
    planned = make_job(raw, int(job.at_s * 1e6), times, "", tuple(groups))
    for index, (spec, step) in enumerate(zip(planned.spec.steps, times, strict=True)):
        frames = spec.frame_range()
        if frames is not None and len(frames) != len(step.frame_s):
            raise CallError(f"steps[{index}].frame_s: {len(step.frame_s)} times for {len(frames)} frames")
    return planned


def _recorded(path: Path) -> list[PlannedJob]:
    """Jobs of a recording: it is replayed, so that every result finds the step it belongs to."""
    replay = Replay(path)
    found: dict[int, tuple[SubmitEvent, dict[tuple[int, int], float]]] = {}
    steps: dict[int, tuple[int, int]] = {}
    first_us = replay.header.at_us
    for event, out in replay.outcomes():
        if isinstance(event, SubmitEvent) and not out.reply.again:
            found[out.reply.job] = (event, {})
        for command in out.commands if isinstance(event, DispatchEvent) else ():
            if isinstance(command, LeaseCommand):
                steps[command.attempt] = (command.step.job.id, command.step.index)
        if isinstance(event, ReportEvent) and event.attempt in steps:
            job, index = steps[event.attempt]
            if job in found:
                times = found[job][1]
                for report in event.units:
                    if report.outcome == DONE and report.elapsed_us:
                        times.setdefault((index, report.unit), report.elapsed_us / 1e6)
    jobs = []
    for event, times in found.values():
        planned = []
        for index, spec in enumerate(event.spec.steps):
            frames = spec.frame_range()
            units = len(frames) if frames is not None else 1
            known = [seconds for (step, _), seconds in times.items() if step == index]
            usual_s = statistics.median(known) if known else _UNKNOWN_S
            planned.append(PlannedStep([times.get((index, unit), usual_s) for unit in range(units)], 0.0))
        at_us = max(0, event.now_us - first_us)
        jobs.append(PlannedJob(at_us, event.spec, event.source, event.apps, event.whole, tuple(planned)))
    if not jobs:
        raise CallError(f"the recording {path} has no job that was submitted while it ran")
    return jobs


def is_recording(path: Path) -> bool:
    """Whether a file is a recording of a farm's events.

    Raises:
        StorageError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return MAGIC in file.read(64)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
