"""Attempts and frames in words: which address a unit has, how an attempt is called, what went wrong in it.

What belongs here: rules that turn rows into short texts.  What may not: Qt, and asking for rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from farm.model.errors import FrameRangeError
from farm.model.frames import FrameRange
from farm.model.states import FailureClass
from farm.protocol.client import AttemptRow, StepRow

_FAILURES: Final = {failure.value for failure in FailureClass}
#: What each class of failure means to somebody who does not know the farm.
_PLAIN: Final = {
    "renderer": "The renderer failed",
    "output": "The pictures are not as they should be",
    "oom-vram": "The GPU ran out of memory",
    "oom-ram": "The machine ran out of memory",
    "licence": "There was no licence",
    "config": "Something in the scene or its settings is wrong",
    "path": "A file or folder cannot be reached",
    "node": "Something is wrong with the machine",
    "lost": "The machine was lost",
    "preempted": "The machine was needed elsewhere",
    "timeout": "It took too long",
    "silent": "It said nothing for too long",
}
#: Where a program was looked for: a page of folders that nobody reads to the end.
_LOOKED_ON = re.compile(r" on PATH \([^()]*\)")
#: How versions are written at the end of names: ``_v012``, ``.v3``, ``-v02b``.
_VERSION = re.compile(r"[\s._-]*[vV](\d{1,6})[a-z]?$")


@lru_cache(maxsize=64)
def _frames(text: str) -> FrameRange:
    return FrameRange(text)


def frame_of(step: StepRow | None, unit: int) -> int | None:
    """The frame (or segment) number of a unit, None when it has none or that is not known."""
    if step is None or unit < 0 or not step.frames:
        return None
    try:
        frames = _frames(step.frames)
        return frames.frame_at(unit) if unit < len(frames) else None
    except FrameRangeError:
        return None


def units_of(step: StepRow, frames: str) -> list[int]:
    """Units of some frames of a step; frames it does not have are passed over."""
    if not frames or not step.frames:
        return []
    try:
        whole = _frames(step.frames)
        return [whole.index_of(frame) for frame in FrameRange(frames) if frame in whole]
    except FrameRangeError:
        return []


def address_of(job: int, step: str, frame: int | None) -> str:
    """As the broker and the command line call it."""
    return f"J{job}/{step}" if frame is None else f"J{job}/{step}/{frame}"


def words_of(row: AttemptRow) -> list[str]:
    """What became of its frames, in words."""
    return [word for word in row.outcome.split(", ") if word]


def failures_of(row: AttemptRow) -> list[str]:
    """Classes of failure among them."""
    return [word for word in words_of(row) if word in _FAILURES]


def is_running(row: AttemptRow) -> bool:
    """Whether it goes on."""
    return row.ended_us == 0


def state_of(row: AttemptRow) -> str:
    """The word of a state it is shown with."""
    if is_running(row):
        return "running"
    words = words_of(row)
    if failures_of(row) or "failed" in words:
        return "failed"
    return words[0] if words else "ended"


def label_of(row: AttemptRow, place: int, count: int, *, frames: bool) -> str:
    """What its tab says: ``2 of 2 · failed · rack-114``; with its frames where there are several."""
    parts = [f"{place} of {count}", state_of(row)]
    if row.node:
        parts.append(row.node)
    if frames and row.frames:
        parts.insert(1, row.frames if len(row.frames) <= 24 else f"{row.frames[:22]}…")
    if row.kind and row.kind not in ("render", "normal"):
        parts.append(row.kind)
    return " · ".join(parts)


def cause_of(row: AttemptRow) -> str:
    """Why it failed in plain words, with the farm's reason; "" when it did not."""
    if state_of(row) != "failed":
        return ""
    failures = failures_of(row)
    plain = _PLAIN.get(failures[0], "It failed") if failures else "It failed"
    where = f" on {row.node}" if row.node else ""
    reason = _LOOKED_ON.sub(" on PATH", row.reason.strip())
    if not reason:
        return f"{plain}{where}."
    if plain.casefold() in reason.casefold() or failures[:1] == [FailureClass.CONFIG.value]:
        # The farm's own words say it already; of settings they say which, and the class says nothing more.
        said = reason[0].upper() + reason[1:]
        return said if row.node and row.node in said else f"{said}{f' ({row.node})' if row.node else ''}"
    return f"{plain}{where}: {reason}"


def base_name(name: str) -> tuple[str, int | None]:
    """A job's name without its version, and the version."""
    match = _VERSION.search(name)
    return (name, None) if match is None else (name[: match.start()], int(match.group(1)))


def versions_of(name: str, job: int, others: Iterable[tuple[int, str]]) -> list[int]:
    """Other jobs of the same name without its version, the most likely one to compare with first.

    That is the nearest version before; then earlier ones; then later ones.  Of equals the newer job.
    """
    base, version = base_name(name)
    found: list[tuple[int, int, int]] = []
    for number, other in others:
        if number == job:
            continue
        its_base, its_version = base_name(other)
        if its_base.casefold() != base.casefold():
            continue
        if version is None or its_version is None:
            found.append((0 if number < job else 1, -number, number))
        else:
            gap = version - its_version
            found.append((0 if gap >= 0 else 1, abs(gap) * 10**9 - number, number))
    return [number for _, _, number in sorted(found)]
