"""Orders of work that a job file may ask for: of a step's frames, and the rank of jobs and steps.

What belongs here: the words, and reading and checking them.  What may not: putting anything in order
(``farm.core.sequence`` and ``farm.core.order`` do).
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from farm.model.errors import CallError, JobFileError
from farm.model.frames import FrameRange

#: Orders in which frames are rendered; ``coarse:N`` has any N from 2.
ORDERS = ("forward", "reverse", "first-last-middle", "coarse", "coarse:N", "listed")
#: Every how many frames ``coarse`` renders first when it has no number.
COARSE = 10
#: Farthest rank.
RANK_MOST = 1_000_000_000
#: Place among jobs of a user, or steps of a job: smaller goes first.
Rank = Annotated[int, msgspec.Meta(ge=-RANK_MOST, le=RANK_MOST)]


def read_order(text: str) -> tuple[str, int]:
    """An order's word and, for ``coarse``, every how many frames come first (else 0).

    Raises:
        JobFileError: There is no such order.
    """
    word, colon, number = text.partition(":")
    if not colon and word in ORDERS:
        return word, COARSE if word == "coarse" else 0
    if word == "coarse" and re.fullmatch(r"[0-9]{1,8}", number) and int(number) >= 2:
        return word, int(number)
    what = f"{text!r}: coarse takes a number from 2" if word == "coarse" else f"{text!r} is not an order"
    raise JobFileError(what, hint=f"the orders are {', '.join(ORDERS)}, e.g. coarse:8")


def check_named(text: str, path: str, *, has_frames: bool) -> None:
    """Checks frames that are to go first or last; ones that the step does not have do no harm.

    Raises:
        JobFileError: It is no frame range, or the step has no frames.
    """
    if not text:
        return
    if not has_frames:
        raise JobFileError("a single step has no frames", path)
    try:
        FrameRange.parse(text)
    except CallError as error:
        raise JobFileError(error.message, path, hint=error.hint) from error


def missing_frames(text: str, frames: FrameRange | None, name: str) -> list[str]:
    """Says which frames that are to go first or last a step does not have; nothing when it has them all."""
    missing = FrameRange.parse(text).difference(frames) if text and frames is not None else None
    return [f"{name}: the step has no frames {missing}"] if missing else []
