"""A new job made of part of an old one: some of its steps or frames, with other settings if need be.

What belongs here: cutting a job file down so that it can be submitted by itself.  What must not: asking the
farm for anything, and sending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from farm.model.edits import JOB_KEYS, changed_step
from farm.model.errors import CallError, UnknownName
from farm.model.frames import FrameRange
from farm.model.jobs import AfterSpec, JobSpec, StepSpec, check_job
from farm.model.paths import has_frame_token
from farm.renderers.registry import get_renderer


def part_of_job(
    old: JobSpec,
    number: int,
    *,
    step: str | None = None,
    frames: str | None = None,
    failed: Mapping[str, Sequence[int | None]] | None = None,
    archived: bool = False,
) -> JobSpec:
    """The job file of a part of a job, without its token, pause, start, scouting and what ran next or last.

    What a step reads of a step that stays behind becomes a path; what it waits for becomes a wait for the
    old job.

    Args:
        old: The job.
        number: Its number.
        step: Only this step; None = all of them.
        frames: Only these frames of it.
        failed: Only these frames, by step; steps that are not in it stay behind.
        archived: Nothing of the old job will change any more, so that nothing waits for it.

    Raises:
        UnknownName: There is no such step, or it has no such frames.
    """
    names = [one.name for one in old.steps]
    if step is not None and step not in names:
        raise UnknownName(f"J{number} has no step {step!r}", hint=f"it has {', '.join(names)}")
    kept = [
        _only_frames(one, number, frames, None if failed is None else failed[one.name])
        for one in old.steps
        if step in (None, one.name) and (failed is None or one.name in failed)
    ]
    inside = {one.name for one in kept}
    steps = tuple(_let_go(old, one, inside, 0 if archived else number) for one in kept)
    steps = tuple(msgspec.structs.replace(one, rank=0, first="", last="") for one in steps)
    job = msgspec.structs.replace(
        old, steps=steps, token="", paused=False, start_after=None, scout=0, rank=0
    )  # fmt: skip
    check_job(job)
    return job


def _only_frames(
    step: StepSpec, number: int, frames: str | None, failed: Sequence[int | None] | None
) -> StepSpec:
    have = step.frame_range()
    if have is None:
        if frames:
            raise UnknownName(
                f"J{number}/{step.name} is one unit without frames", hint=f"say J{number}/{step.name}"
            )
        return step
    if frames:
        wanted = FrameRange.parse(frames)
        missing = wanted.difference(have)
        if len(missing):
            raise UnknownName(f"J{number}/{step.name} has no frames {missing}", hint=f"it has {have}")
        have = wanted
    if failed is not None:
        have = FrameRange.from_frames(frame for frame in failed if frame is not None)
    return msgspec.structs.replace(step, frames=str(have)) if have != step.frame_range() else step


def _let_go(old: JobSpec, step: StepSpec, inside: set[str], number: int) -> StepSpec:
    """The step without edges to steps of its job that stay behind; ``number`` 0 = it waits for none."""
    after: list[str | AfterSpec] = []
    for item, need in zip(step.after, step.needs(), strict=True):
        if need.job or need.step in inside:
            after.append(item)
        elif number:
            after.append(msgspec.structs.replace(need, job=f"J{number}"))
    params = dict(step.params)
    for name in get_renderer(step.renderer).input_params:
        value = params.get(name)
        if not isinstance(value, dict) or value.get("step") in inside:
            continue
        source = old.step(str(value.get("step")))
        pattern = source.outputs[value.get("output", 0)].pattern
        params[name] = pattern
        if has_frame_token(pattern) and source.frames and not params.get("frames"):
            params["frames"] = source.frames
    return msgspec.structs.replace(step, after=tuple(after), params=params)


def changed_job(job: JobSpec, values: Mapping[str, Any], *, paused: bool = False) -> JobSpec:
    """The job with these fields set: fields of a step in every step that is left.

    Raises:
        UnknownName: There is no such field.
        CallError: A value is wrong; names the field.
    """
    of_job: dict[str, Any] = {"paused": paused}
    of_step: dict[str, Any] = {}
    for key, value in values.items():
        if key in JOB_KEYS or key == "user":
            of_job[key] = value
        else:
            of_step[key] = value
    for index in range(len(job.steps)) if of_step else ():
        spec = changed_step(job, index, of_step)
        job = msgspec.structs.replace(job, steps=(*job.steps[:index], spec, *job.steps[index + 1 :]))
    record = msgspec.to_builtins(job)
    record.update({key: value or None if key == "start_after" else value for key, value in of_job.items()})
    try:
        made = msgspec.convert(record, JobSpec, strict=False)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise CallError(f"{path.rstrip('`').lstrip('.') or 'job'}: {text}") from error
    check_job(made)
    return made
