"""Job files at the submitting side: read, checked as far as this machine can see, written.

What belongs here: everything that can be known wrong before a job is sent, each by the name of its field.
The broker checks the form again; only this side can see the artist's files.  What must not: making a job
from a scene or a clip (``farm.sdk.submit_inputs``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from farm.model.errors import CallError, JobFileError, NotBuiltYet
from farm.model.frames import FrameRange
from farm.model.jobs import Asset, JobSpec, StepSpec, read_job
from farm.model.paths import (
    PathMapper,
    check_output_conflicts,
    expand,
    has_frame_token,
    is_absolute,
)
from farm.renderers.base import Renderer, read_params
from farm.renderers.registry import get_renderer
from farm.sdk.disk import existing_frames, frames_there, is_folder, is_there, missing_frames, nearest_parent

#: A job file longer than this is some other file.
_MAX_BYTES = 64 * 1024 * 1024
#: Frames named one by one in a message; more are shortened.
_NAMED = 120


def load_job(path: str) -> tuple[JobSpec, list[str]]:
    """Reads a job file and checks its form.

    Returns:
        The job, and warnings (unknown keys).

    Raises:
        CallError: The file cannot be read.
        JobFileError: It is no job file, or a field is wrong; names file and field.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise CallError(f"the job file {path} cannot be read: {error.strerror or error}") from error
    if len(data) > _MAX_BYTES:
        raise JobFileError(f"{path} is longer than any job file")
    try:
        # Editors on Windows put a byte order mark first; JSON knows none.
        return read_job(data.removeprefix(b"\xef\xbb\xbf"))
    except JobFileError as error:
        made = JobFileError(f"{path}: {error.message}", hint=error.hint)
        made.path = error.path
        raise made from error
    except UnicodeDecodeError as error:
        raise JobFileError(f"{path}: not UTF-8", hint="save it as UTF-8") from error


def job_bytes(job: JobSpec) -> bytes:
    """The job as a job file.

    Raises:
        JobFileError: A name in it is not UTF-8 (a file name of another encoding).
    """
    try:
        return msgspec.json.encode(job)
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 30) : error.end + 10].encode("utf-8", "backslashreplace")
        raise JobFileError(
            f"a name is not UTF-8: {near.decode()}", hint="rename the file or folder"
        ) from error


def with_token(job: JobSpec) -> JobSpec:
    """The job with a client token, so that a repeated submit gives the same job; kept if it has one."""
    if job.token:
        return job
    import uuid

    return msgspec.structs.replace(job, token=str(uuid.uuid4()))


def check_job_here(job: JobSpec, mapper: PathMapper | None = None) -> list[str]:
    """Checks a job against its renderers and this machine's files.

    Args:
        job: A job whose form is right (``read_job``).
        mapper: Path rules of the farm; what a rule covers need not exist here.

    Returns:
        Warnings: the job's own, the renderers', and optional assets that are missing.

    Raises:
        JobFileError: A field is wrong; names it and the file.
        NotBuiltYet: The renderer knows what is asked but cannot do it yet.
    """
    mapper = mapper or PathMapper()
    warnings = list(job.warnings)
    for index, step in enumerate(job.steps):
        where = f"steps[{index}]"
        renderer, params = _renderer_of(step, where)
        warnings += _asked(renderer, step, params, where)
        if step.pre or step.post:
            from farm.renderers.command import check_commands

            check_commands(step, where)
        _check_inputs(job, step, renderer, params, where, mapper)
        _check_outputs(step, where, mapper)
    _check_conflicts(job)
    for index, asset in enumerate(job.assets):
        warning = _asset(asset, f"assets[{index}].path", mapper)
        if warning:
            warnings.append(warning)
    return warnings


def _renderer_of(step: StepSpec, where: str) -> tuple[Renderer, Any]:
    try:
        renderer = get_renderer(step.renderer)
    except CallError as error:
        raise JobFileError(error.message, f"{where}.renderer", hint=error.hint) from error
    if step.kind not in renderer.kinds:
        raise JobFileError(
            f"{renderer.name} cannot run a {step.kind} step",
            f"{where}.kind",
            hint="it can run " + ", ".join(sorted(renderer.kinds)),
        )
    if step.version:
        from farm.model.versions import check_constraint

        try:
            check_constraint(step.version)
        except CallError as error:
            raise JobFileError(error.message, f"{where}.version", hint=error.hint) from error
    return renderer, read_params(renderer, step.params, f"{where}.params")


def _asked(renderer: Renderer, step: StepSpec, params: Any, where: str) -> list[str]:
    """What the renderer says of the step, with the step's place put before its fields."""
    try:
        return [f"{where}: {warning}" for warning in renderer.check(step, params)]
    except JobFileError as error:
        text = error.message.removeprefix(f"{error.path}: ") if error.path else error.message
        raise JobFileError(text, f"{where}.{error.path}" if error.path else where, hint=error.hint) from error
    except NotBuiltYet as error:
        raise NotBuiltYet(f"{where}.{error.message}", hint=error.hint) from error


# -- inputs ------------------------------------------------------------------------------------------


def _check_inputs(
    job: JobSpec, step: StepSpec, renderer: Renderer, params: Any, where: str, mapper: PathMapper
) -> None:
    for name in renderer.path_params:
        value = getattr(params, name, None)
        if isinstance(value, str) and value:
            _check_path(value, f"{where}.params.{name}", mapper)
    for name in renderer.input_params:
        value = getattr(params, name, None)
        place = f"{where}.params.{name}"
        if isinstance(value, dict):
            _check_step_input(job, step, value, place)
        elif isinstance(value, str) and value:
            if has_frame_token(value):
                _check_frames(value, _input_frames(step, params, place), place, mapper)
            else:
                _check_path(value, place, mapper)
    if step.cwd:
        _check_path(step.cwd, f"{where}.cwd", mapper)


def _check_step_input(job: JobSpec, step: StepSpec, value: dict[str, Any], place: str) -> None:
    source = next((other for other in job.steps if other.name == value.get("step")), None)
    if source is None:
        raise JobFileError(f"there is no step {value.get('step')!r}", f"{place}.step")
    if source.name not in [need.step for need in step.needs() if not need.job]:
        raise JobFileError(
            f"reads step {source.name!r} but does not wait for it",
            place,
            hint=f'add "{source.name}" to after',
        )
    number = value.get("output", 0)
    if not isinstance(number, int) or not 0 <= number < len(source.outputs):
        raise JobFileError(f"step {source.name!r} has no output {number!r}", f"{place}.output")


def _input_frames(step: StepSpec, params: Any, place: str) -> FrameRange:
    text = getattr(params, "frames", "") or step.frames
    if not text:
        raise JobFileError(
            "a sequence is read, but no frames are named", place, hint="name them in params.frames"
        )
    return FrameRange.parse(text)


def _check_frames(pattern: str, frames: FrameRange, place: str, mapper: PathMapper) -> None:
    _absolute(pattern, place)
    if mapper.covers(pattern):
        return
    missing = missing_frames(pattern, frames)
    if not len(missing):
        return
    if len(missing) == len(frames):
        raise JobFileError(f"{pattern} does not exist: there is no frame of {_short(frames)}", place)
    raise JobFileError(
        f"frames {_short(missing)} of {pattern} do not exist",
        place,
        hint="render them first, or leave them out",
    )


def _check_path(path: str, place: str, mapper: PathMapper) -> None:
    _absolute(path, place)
    if not mapper.covers(path) and not is_there(path):
        raise JobFileError(
            f"{path} does not exist", place, hint="or, if the farm sees it elsewhere, add a path rule for it"
        )


def _absolute(path: str, place: str) -> None:
    if not is_absolute(path):
        raise JobFileError(f"{path} is not an absolute path", place, hint="agents do not know your folder")


def _asset(asset: Asset, place: str, mapper: PathMapper) -> str:
    """Checks one asset; returns a warning when an optional one is missing."""
    _absolute(asset.path, place)
    if mapper.covers(asset.path):
        return ""
    if asset.kind == "dir":
        there, what = is_folder(asset.path), "the folder "
    elif asset.kind == "sequence" and has_frame_token(asset.path):
        there, what = bool(frames_there(asset.path)), "a frame of "
    else:
        there, what = is_there(asset.path), ""
    if there:
        return ""
    message = f"{what}{asset.path} does not exist"
    if asset.required:
        raise JobFileError(message, place, hint="the job needs it; or say required: false")
    return f"{place}: {message}"


# -- outputs -----------------------------------------------------------------------------------------


def _check_outputs(step: StepSpec, where: str, mapper: PathMapper) -> None:
    frames = step.frame_range()
    for index, output in enumerate(step.outputs):
        place = f"{where}.outputs[{index}].pattern"
        _absolute(output.pattern, place)
        if frames is not None and len(frames) > 1 and not has_frame_token(output.pattern):
            raise JobFileError(
                f"all {len(frames)} frames would write {output.pattern}", place, hint="write #### or %04d"
            )
        if mapper.covers(output.pattern):
            continue
        parent = nearest_parent(output.pattern)
        if parent is None:
            raise JobFileError(
                f"this machine knows no folder above {output.pattern}",
                place,
                hint="if the farm sees it elsewhere, add a path rule for it",
            )
        if not is_folder(parent):
            raise JobFileError(f"{parent} is a file, not a folder", place)
        if step.existing == "refuse":
            _refuse_existing(output.pattern, frames, place)


def _refuse_existing(pattern: str, frames: FrameRange | None, place: str) -> None:
    hint = "existing: skip or overwrite"
    if frames is None or not has_frame_token(pattern):
        if os.path.lexists(pattern):
            raise JobFileError(f"{pattern} exists already", place, hint=hint)
        return
    there = existing_frames(pattern, frames)
    if len(there):
        first = expand(pattern, there.first)
        text = f"{first} exists already" if len(there) == 1 else f"frames {_short(there)} exist already"
        raise JobFileError(f"{text} ({first})" if len(there) > 1 else text, place, hint=hint)


def _check_conflicts(job: JobSpec) -> None:
    """Outputs of one job must be pairwise different files."""
    conflicts = check_output_conflicts(list(_outputs(job)))
    if conflicts:
        more = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
        raise JobFileError(conflicts[0] + more, "steps", hint="give each its own name or folder")


def _outputs(job: JobSpec) -> Iterator[tuple[str, str, FrameRange | None]]:
    for step in job.steps:
        for output in step.outputs:
            yield step.name, output.pattern, step.frame_range()


def _short(frames: FrameRange) -> str:
    text = str(frames)
    return (
        text
        if len(text) <= _NAMED
        else text[: text.rindex(",", 0, _NAMED) if "," in text[:_NAMED] else _NAMED] + ",…"
    )
