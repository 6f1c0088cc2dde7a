"""What lies on the submitter's disk: frames of a pattern, sequences of a folder, nearest parents.

What belongs here: looking, by name only.  What must not: opening a picture, or deciding what is wrong.
"""

from __future__ import annotations

import os
import re

from farm.model.errors import CallError
from farm.model.frames import FrameRange
from farm.model.paths import basename_of, folder_of, frame_of

_NUMBER = re.compile(r"(-?\d+)(\D*)\Z")
_UDIM = re.compile(r"<UDIM>", re.IGNORECASE)


def absolute(path: str, folder: str) -> str:
    """The path as seen from ``folder``; a trailing separator, which says folder, is kept."""
    made = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 - a pattern is text, not a file
    return made + os.sep if path.endswith(("/", os.sep)) and not made.endswith(os.sep) else made


def frames_there(pattern: str) -> list[int]:
    """Frames of a pattern for which there is a file, ascending; the folder is read once."""
    folder = folder_of(pattern) or "."
    found = []
    try:
        with os.scandir(folder) as entries:
            prefix = pattern[: len(pattern) - len(basename_of(pattern))]
            for entry in entries:
                frame = frame_of(pattern, prefix + entry.name)
                if frame is not None:
                    found.append(frame)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CallError(f"the folder {folder} cannot be read: {error.strerror or error}") from error
    return sorted(found)


def missing_frames(pattern: str, frames: FrameRange) -> FrameRange:
    """Frames of a range for which there is no file."""
    return frames.difference(FrameRange.from_frames(frames_there(pattern)))


def existing_frames(pattern: str, frames: FrameRange) -> FrameRange:
    """Frames of a range for which there is a file already."""
    return frames.intersection(FrameRange.from_frames(frames_there(pattern)))


def sequence_of(path: str) -> str | None:
    """The pattern of the sequence a picture belongs to, None when it stands alone.

    ``shot.0007.png`` belongs to ``shot.####.png`` when another frame of it lies beside it.
    """
    folder, name = path[: len(path) - len(basename_of(path))], basename_of(path)
    stem, dot, suffix = name.rpartition(".")
    match = _NUMBER.search(stem) if dot else None
    if match is None:
        return None
    token = "#" * len(match[1].lstrip("-"))
    pattern = f"{folder}{stem[: match.start(1)]}{token}{match[2]}.{suffix}"
    return pattern if len(frames_there(pattern)) > 1 else None


def sequences_in(folder: str) -> list[str]:
    """Patterns of the sequences in a folder."""
    import fileseq

    try:
        found = fileseq.findSequencesOnDisk(folder)
    except (OSError, fileseq.FileSeqException) as error:
        raise CallError(f"the folder {folder} cannot be read: {error}") from error
    patterns = []
    for sequence in found:
        if sequence.frameSet() is None or len(sequence) < 2:
            continue
        width = max(1, int(sequence.zfill()))
        patterns.append(f"{sequence.dirname()}{sequence.basename()}{'#' * width}{sequence.extension()}")
    return sorted(patterns)


def exists(path: str) -> bool:
    """Whether something is there that this user can see; never an error."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for what may not be looked at


def is_folder(path: str) -> bool:
    """Whether a folder is there that this user can see; never an error."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def nearest_parent(path: str) -> str | None:
    """The nearest folder above a path that exists, None when this machine knows nothing of it."""
    folder = folder_of(path)
    while folder and not os.path.lexists(folder):
        above = folder_of(folder)
        if above == folder:
            return None
        folder = above
    return folder or None


def is_there(path: str) -> bool:
    """Whether a path, or for a ``<UDIM>`` path any of its tiles, exists."""
    if not _UDIM.search(path):
        return exists(path)
    # Any four-digit tile from 1001: renderers number them row by row without an upper end.
    name = re.compile("(?:1[0-9]{3}|[2-9][0-9]{3})".join(map(re.escape, _UDIM.split(basename_of(path)))))
    try:
        with os.scandir(folder_of(path) or ".") as entries:
            return any(name.fullmatch(entry.name) for entry in entries)
    except OSError:
        return False
