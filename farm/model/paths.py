"""Paths as data: frame tokens in file names, the ``-o`` rule, and who would write the same file.

What belongs here: the algebra of output patterns.  What must not: the file system, and the frame
syntaxes of applications (their renderer modules translate).  Path mapping is in
``farm.model.pathmap`` and is offered here too, so that callers need one import.

A frame token is a run of ``#`` (as many digits at least) or ``%d`` / ``%04d``, and counts only in the
file name, the part after the last separator.  The last token of a name is the one that is replaced;
every other ``#`` and ``%`` is an ordinary character of the name, ``%%`` included: names are data, so
nothing is ever unescaped.  ``%4d`` (padded with blanks) and other conversions are ordinary text too.
A negative frame is written as printf does, the sign counting in the width: -3 in ``####`` is ``-003``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from farm.model.errors import CallError
from farm.model.frames import FrameRange
from farm.model.pathmap import (
    PathMapper,
    PathRule,
    comparable,
    is_absolute,
    is_windows,
    join,
    path_style,
)
from farm.model.runs import common

if TYPE_CHECKING:
    from farm.model.jobs import OutputKind, StepKind

__all__ = [
    "MOVIE_SUFFIXES",
    "FrameToken",
    "PathMapper",
    "PathRule",
    "basename_of",
    "check_output_conflicts",
    "expand",
    "find_token",
    "folder_of",
    "frame_of",
    "has_frame_token",
    "is_absolute",
    "is_windows",
    "join",
    "path_style",
    "resolve_output",
    "shared_file",
    "split_pattern",
    "token_width",
    "with_folder",
]

#: File name suffixes that mean one movie file.
MOVIE_SUFFIXES: Final = (".mp4", ".mov", ".mkv", ".webm", ".avi")

_TOKEN = re.compile(r"%%|#+|%(?:0(?P<width>[0-9]{1,2}))?d")
#: Of a 32-bit frame number.
_MAX_DIGITS = 10
_NUMBER = re.compile(r"-?[0-9]+")


class FrameToken(NamedTuple):
    """Where the frame number goes.

    Attributes:
        start: Index of the token's first character in the pattern.
        stop: Index after its last.
        width: Digits at least, 1 for ``%d``.
    """

    start: int
    stop: int
    width: int


@lru_cache(maxsize=4096)
def find_token(pattern: str) -> FrameToken | None:
    """The frame token of a pattern, None if it is a plain path."""
    found = None
    for match in _TOKEN.finditer(pattern, _name_start(pattern)):
        if match[0].startswith("#"):
            found = FrameToken(match.start(), match.end(), len(match[0]))
        elif match[0] != "%%":
            found = FrameToken(match.start(), match.end(), max(1, int(match["width"] or 1)))
    return found


def has_frame_token(pattern: str) -> bool:
    """Whether the file name has a place for the frame number."""
    return find_token(pattern) is not None


def token_width(pattern: str) -> int:
    """The token's width in digits, 0 if there is no token."""
    token = find_token(pattern)
    return token.width if token else 0


def split_pattern(pattern: str) -> tuple[str, int, str]:
    """Splits a pattern into what precedes the token (folder and all), its width, and what follows.

    Raises:
        CallError: The file name has no token.
    """
    token = find_token(pattern)
    if token is None:
        raise CallError(f"{pattern!r} has no frame token in its file name", hint="write #### or %04d")
    return pattern[: token.start], token.width, pattern[token.stop :]


def expand(pattern: str, frame: int) -> str:
    """The path of one frame; a pattern without a token is its own path.

    The width is a minimum: frame 10000 in ``####`` is ``10000``.
    """
    token = find_token(pattern)
    if token is None:
        return pattern
    return f"{pattern[: token.start]}{frame:0{token.width}d}{pattern[token.stop :]}"


def frame_of(pattern: str, path: str) -> int | None:
    """The frame whose path under ``pattern`` is exactly ``path``, None if there is none."""
    token = find_token(pattern)
    if token is None:
        return None
    return _frame_between(pattern[: token.start], token.width, pattern[token.stop :], path)


def folder_of(path: str) -> str:
    r"""The folder of a path: ``""`` for a bare name, a root as a root (``/``, ``C:\``)."""
    start = _name_start(path)
    folder = path[:start]
    bare = folder.rstrip("\\/" if is_windows(path) else "/")
    if not bare or re.fullmatch("[A-Za-z]:", bare):
        return folder
    return bare


def basename_of(path: str) -> str:
    """The file name: what follows the last separator, token and all."""
    return path[_name_start(path) :]


def with_folder(pattern: str, new_folder: str) -> str:
    """The same file name, token untouched, in another folder."""
    return join(new_folder, basename_of(pattern))


def resolve_output(o: str, step: str, extension: str, kind: StepKind) -> tuple[str, OutputKind]:
    """What ``-o`` means for a step.

    With a frame token in its name it is a pattern; with a movie suffix it is one movie file; else it
    is a folder that gets ``{step}.####.{extension}`` (one file ``{step}.{extension}`` where the step
    is a single one).  A trailing separator says folder, whatever the name.

    Args:
        o: As typed; nothing in it is special but the above.
        step: The step's name.
        extension: Of the files the step writes by default, with or without the dot.
        kind: The step's kind.

    Returns:
        The output's pattern and kind.

    Raises:
        CallError: The path is empty or holds a NUL, or there is no extension to give.
    """
    if not o.strip() or "\0" in o:
        raise CallError(f"-o {o!r} is no path", hint="give a folder, a pattern with #### or a movie file")
    if has_frame_token(o):
        return o, "sequence"
    if basename_of(o).lower().endswith(MOVIE_SUFFIXES):
        return o, "movie"
    suffix = extension.removeprefix(".")
    if not suffix:
        raise CallError(
            f"-o {o!r} is a folder, and step {step} has no file format", hint="name the output file"
        )
    if kind == "single":
        movie = f".{suffix.lower()}" in MOVIE_SUFFIXES
        return join(o, f"{step}.{suffix}"), "movie" if movie else "single"
    return join(o, f"{step}.####.{suffix}"), "sequence"


def check_output_conflicts(patterns: Sequence[tuple[str, str, FrameRange | None]]) -> list[str]:
    """Who would write a file that another writes too.

    Args:
        patterns: (label, pattern, frames) of every output; the label names it to people, e.g.
            ``J12/beauty``.  Frames are None for a single step, whose sequence may have any frame.

    Returns:
        One sentence per conflict, naming both and a file; empty when there is none.
    """
    conflicts: list[str] = []
    folders: dict[object, list[int]] = {}
    for index, (label, pattern, frames) in enumerate(patterns):
        if frames is not None and len(frames) > 1 and not has_frame_token(pattern):
            conflicts.append(f"all {len(frames)} frames of {label} would write {pattern}")
        neighbours = folders.setdefault(comparable(folder_of(pattern)), [])
        for earlier in neighbours:
            other_label, other_pattern, other_frames = patterns[earlier]
            shared = shared_file(other_pattern, other_frames, pattern, frames)
            if shared is not None:
                both = f"{other_label} and {label}" if label != other_label else f"two outputs of {label}"
                conflicts.append(f"{both} would both write {shared}")
        neighbours.append(index)
    return conflicts


def shared_file(
    one: str, one_frames: FrameRange | None, two: str, two_frames: FrameRange | None
) -> str | None:
    """A file that both outputs would write, as ``one`` spells it; None if there is none.

    Spellings of one path are the same path: ``####`` and ``%04d``, ``\\`` and ``/`` and letter case on
    Windows, doubled separators and dots.  Where the numbers of the two files cannot be told from
    their names' fixed parts (``a1####`` and ``a####``), the frames themselves are compared.
    """
    if comparable(folder_of(one)) != comparable(folder_of(two)):
        return None
    windows = is_windows(one)
    left, right = _name_parts(one, windows), _name_parts(two, windows)
    if isinstance(left, str) or isinstance(right, str):
        if isinstance(left, str) and isinstance(right, str):
            return one if left == right else None
        if isinstance(left, str):
            assert not isinstance(right, str)
            return one if _writes(right, two_frames, left) is not None else None
        assert isinstance(right, str)
        frame = _writes(left, one_frames, right)
        return None if frame is None else expand(one, frame)
    if (left[0], left[2]) == (right[0], right[2]):
        return _shared_frame(one, left[1], one_frames, right[1], two_frames)
    if not _may_meet(left, right):
        return None
    if one_frames is not None and (two_frames is None or len(one_frames) <= len(two_frames)):
        for frame in one_frames:
            if _writes(right, two_frames, _name(left, frame)) is not None:
                return expand(one, frame)
    elif two_frames is not None:
        for frame in two_frames:
            mine = _writes(left, one_frames, _name(right, frame))
            if mine is not None:
                return expand(one, mine)
    return None


_Parts = tuple[str, int, str]


def _name_start(path: str) -> int:
    last = path.rfind("/")
    if is_windows(path):
        last = max(last, path.rfind("\\"))
    return last + 1


def _name_parts(pattern: str, windows: bool) -> _Parts | str:
    """The comparable file name: prefix, width and suffix, or the whole of a plain one."""
    if not has_frame_token(pattern):
        name = basename_of(pattern)
        return name.lower() if windows else name
    prefix, width, suffix = split_pattern(pattern)
    prefix = basename_of(prefix)
    return (prefix.lower(), width, suffix.lower()) if windows else (prefix, width, suffix)


def _name(parts: _Parts, frame: int) -> str:
    return f"{parts[0]}{frame:0{parts[1]}d}{parts[2]}"


def _frame_between(prefix: str, width: int, suffix: str, text: str) -> int | None:
    """The frame that, written between prefix and suffix in this width, gives exactly ``text``."""
    digits = text[len(prefix) : len(text) - len(suffix)]
    significant = digits.lstrip("-0") or "0"
    if len(significant) > _MAX_DIGITS or not _NUMBER.fullmatch(digits):
        return None
    frame = int(significant) * (-1 if digits.startswith("-") else 1)
    return frame if f"{prefix}{frame:0{width}d}{suffix}" == text else None


def _writes(parts: _Parts, frames: FrameRange | None, name: str) -> int | None:
    """The frame by which a sequence would write this name."""
    frame = _frame_between(*parts, name)
    return frame if frame is not None and (frames is None or frame in frames) else None


def _may_meet(left: _Parts, right: _Parts) -> bool:
    """Whether different fixed parts can still give one name: the excess must be number-like."""
    head = sorted((left[0], right[0]), key=len)
    tail = sorted((left[2], right[2]), key=len)
    return (
        head[1].startswith(head[0])
        and tail[1].endswith(tail[0])
        and re.fullmatch("-?[0-9]*", head[1][len(head[0]) :]) is not None
        and re.fullmatch("[0-9]*", tail[1][: len(tail[1]) - len(tail[0])]) is not None
    )


def _shared_frame(
    one: str, one_width: int, one_frames: FrameRange | None, two_width: int, two_frames: FrameRange | None
) -> str | None:
    """The first frame both write, given equal fixed parts, as a path."""
    if one_frames is None and two_frames is None:
        return one
    frames = one_frames if one_frames is not None else two_frames
    assert frames is not None
    if one_frames is not None and two_frames is not None:
        if one_width == two_width:
            part = next(common(one_frames.runs, two_frames.runs, inside=True), None)
            return None if part is None else expand(one, part[0])
        frames = one_frames.intersection(two_frames)
    if one_width != two_width:
        # Different paddings meet only in numbers that fill the wider one by themselves.
        wider = max(one_width, two_width)
        for run in frames.runs:
            for frame in (run.high, run.low):
                if len(str(frame)) >= wider:
                    return expand(one, frame)
        return None
    return expand(one, frames.first) if frames else None
