"""Finds a sequence of pictures on this machine's disk from what people type.

What belongs here: patterns, folders and frames that are there.  What must not: jobs.
"""

from __future__ import annotations

from farm.model.errors import CallError, FrameRangeError
from farm.model.frames import FrameRange
from farm.model.paths import basename_of, has_frame_token
from farm.sdk.disk import exists, frames_there, is_folder, sequence_of, sequences_in


def find_sequence(path: str, frames: str, given: str) -> tuple[str, str]:
    """The pattern and frames of a sequence on this machine's disk.

    Args:
        path: A pattern, or the folder of one sequence; absolute.
        frames: Frames asked for; empty = all that are there, which must have no gaps.
        given: What was typed, for messages.

    Raises:
        CallError: There is no such sequence, or it has gaps; names them.
    """
    pattern = _find_pattern(path, given)
    if frames:
        check_frames(frames)
        return pattern, frames
    found = frames_there(pattern)
    if not found:
        raise CallError(f"there is no frame of {pattern}", hint="is it the right folder? else give --frames")
    there = FrameRange.from_frames(found)
    if not there.is_single_run:
        whole = FrameRange.from_frames(range(found[0], found[-1] + 1))
        raise CallError(
            f"{pattern} lacks frames {whole.difference(there)}",
            hint=f"render them, or work on what is there with --frames {there}",
        )
    return pattern, str(there)


def _find_pattern(path: str, given: str) -> str:
    if has_frame_token(path):
        return path
    if is_folder(path):
        found = sequences_in(path)
        if len(found) == 1:
            return found[0]
        if not found:
            raise CallError(f"there is no sequence in {path}")
        names = ", ".join(basename_of(pattern) for pattern in found[:6])
        raise CallError(f"there are {len(found)} sequences in {path}", hint=f"name one: {names}")
    if not exists(path):
        raise CallError(f"{path} does not exist")
    pattern = sequence_of(path)
    hint = f"for all of them write {pattern}" if pattern else "write a pattern, e.g. shot.####.png"
    raise CallError(f"{given} is one picture, not a sequence", hint=hint)


def check_frames(text: str) -> None:
    """Checks the text of ``--frames``.

    Raises:
        FrameRangeError: It does not parse; says where.
    """
    try:
        FrameRange.parse(text)
    except FrameRangeError as error:
        place = f" (character {error.position + 1})" if text.strip() else ""
        raise FrameRangeError(
            f"--frames {text!r}: {error.message}{place}", error.position, hint=error.hint
        ) from error
