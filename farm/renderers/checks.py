"""Checks of a step's outputs and small values that several renderers share.

What belongs here: suffixes, rates and the other facts a command line depends on, checked at submit time
with an error that names the field.  What must not: files, processes, or one application's own rules.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Any

from farm.model.errors import JobFileError
from farm.model.jobs import StepSpec
from farm.renderers.base import ChunkContext, PlannedFile

MOVIE_SUFFIXES = (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mxf", ".mpg", ".mpeg", ".ts", ".ogv")
_RATE = re.compile(r"^(\d+)(?:/(\d+))?$")
#: Decimals people write for the NTSC rates, and what they mean.
_NTSC = {"23.976": "24000/1001", "23.98": "24000/1001", "29.97": "30000/1001", "59.94": "60000/1001"}


def suffix_of(path: str) -> str:
    """The lower-case suffix of a path with either kind of separator, ``""`` if it has none."""
    return posixpath.splitext(path.replace("\\", "/"))[1].lower()


def check_picture_outputs(step: StepSpec, renderer: str, suffixes: Sequence[str]) -> None:
    """Refuses outputs that a picture renderer cannot write.

    Raises:
        JobFileError: There is no output, one has another suffix, or two are the same.
    """
    if not step.outputs:
        raise JobFileError(f"{renderer} needs at least one output", "outputs")
    seen: set[str] = set()
    for index, output in enumerate(step.outputs):
        where, suffix = f"outputs[{index}].pattern", suffix_of(output.pattern)
        if suffix in MOVIE_SUFFIXES:
            raise JobFileError(
                f"{renderer} writes pictures, not {suffix}",
                where,
                hint="add a stitch step that makes the movie",
            )
        if suffix not in suffixes:
            raise JobFileError(
                f"{renderer} cannot write {suffix or 'a file without a suffix'}",
                where,
                hint="it writes " + ", ".join(suffixes),
            )
        if output.pattern in seen:
            raise JobFileError("two outputs are the same file", where)
        seen.add(output.pattern)


def check_rate(rate: str, where: str) -> str:
    """A frame rate as ``N/D``.

    Raises:
        JobFileError: It is none; a decimal is refused with the fraction it means, because rounding it
            moves frames in long movies.
    """
    match = _RATE.match(rate)
    if match is None:
        hint = f"write {_NTSC[rate]}" if rate in _NTSC else "write 24/1, 25/1, 24000/1001 ..."
        raise JobFileError(f"{rate!r} is not a frame rate", where, hint=hint)
    numerator, denominator = int(match.group(1)), int(match.group(2) or 1)
    if not numerator or not denominator or numerator / denominator > 1000:
        raise JobFileError(f"{rate!r} is not a frame rate", where, hint="more than 0, at most 1000 a second")
    return f"{numerator}/{denominator}"


def check_input(value: Any, where: str, *, required: bool = True) -> None:
    """Checks the form of an input parameter: a path pattern or ``{"step": NAME, "output": N}``.

    Raises:
        JobFileError: It is something else.
    """
    if value in (None, "") and not required:
        return
    if isinstance(value, str) and value.strip():
        return
    if isinstance(value, dict):
        extra = set(value) - {"step", "output"}
        output = value.get("output", 0)
        good = isinstance(value.get("step"), str) and isinstance(output, int) and not isinstance(output, bool)
        if good and not extra and output >= 0:
            return
    raise JobFileError("is no input", where, hint='a path pattern, or {"step": NAME, "output": 0}')


def input_suffix(value: Any) -> str:
    """The suffix of an input given as a pattern, ``""`` for a step's output (known only when leased)."""
    return suffix_of(value) if isinstance(value, str) else ""


def planned_by_frame(context: ChunkContext) -> list[tuple[int, list[PlannedFile]]]:
    """The chunk's frames in order, each with its files in order of the outputs."""
    files: dict[int | None, list[PlannedFile]] = {}
    for file in context.files:
        files.setdefault(file.frame, []).append(file)
    return [(frame, sorted(files.get(frame, []), key=lambda file: file.output)) for frame in context.frames]


def inside(path: str, folder: str) -> bool:
    """Whether a path lies in a folder (by its text)."""
    return bool(folder) and path.startswith(folder.rstrip("/") + "/")
