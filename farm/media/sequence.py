"""Reads a planned list of pictures as equal frames of plain samples, ready for an encoder.

Belongs here: the check of the whole list before work begins, and the exact conversion of one picture
to 8 or 16 bit.  No encoder and no process.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np

from farm.media.files import size_of
from farm.media.pictures import read_first_part, read_headers
from farm.media.pixels import Array, ColourChannels, colour_channels, normalised, to_display
from farm.media.stitch_plan import StitchPlan
from farm.model.errors import JobFileError, OutputError
from farm.model.outputs import PictureSpec

_FLOATS = ("half", "float", "double")
#: Who is at fault, in the agent's words for failure classes.
ProblemKind = Literal["path", "config", "output", "renderer"]


class StitchError(OutputError):
    """A film could not be made.

    Attributes:
        problem: ``path`` (an input or the destination is missing, unwritable, full), ``output`` (a
            picture or the film is damaged or not as planned), ``renderer`` (the encoder failed).
    """

    code = "stitch"

    def __init__(self, message: str, path: str = "", *, problem: ProblemKind, hint: str = "") -> None:
        super().__init__(message, path, hint=hint)
        self.problem: ProblemKind = problem


class SequenceFacts(NamedTuple):
    """What all pictures of a plan have in common.

    Attributes:
        spec: Specification of every picture.
        channels: Where colour and alpha lie.
        deep: Samples are handed on as 16 bit (else 8).
        floats: The pictures hold float samples.
    """

    spec: PictureSpec
    channels: ColourChannels
    deep: bool
    floats: bool


class Frame(NamedTuple):
    """One picture for the encoder: (height, width, 3 or 4) uint8 or uint16, and what was noticed."""

    samples: Array
    warning: str


def check_sequence(plan: StitchPlan, each: Callable[[], None] | None = None) -> SequenceFacts:
    """Looks at every picture of a plan before any work: present, whole, readable, all alike.

    The encoder would rescale and convert odd pictures without a word and end at the first hole with
    exit code 0.

    Args:
        plan: The plan.
        each: Called before each picture; may raise to end the check.

    Raises:
        StitchError: Names the frame, the file and what is wrong.
        JobFileError: The pictures need a decision about colour that the plan does not hold.
    """
    # Missing files first: all of them in one message, since they cost nothing to find.
    missing = [index for index, path in enumerate(plan.frames) if not os.path.lexists(path)]
    if missing:
        first, name = plan.frames[missing[0]], plan.frame_name(missing[0])
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StitchError(
            f"{name}{more} of {len(plan.frames)} missing: {first} does not exist", first, problem="path"
        )
    facts: SequenceFacts | None = None
    good: set[str] = set()
    for index, path in enumerate(plan.frames):
        if each is not None:
            each()
        if path in good:
            continue  # a held picture
        try:
            size_of(path)
            spec, parts = read_headers(path)
        except OutputError as error:
            raise StitchError(f"{plan.frame_name(index)}: {error.message}", path, problem="output") from error
        if facts is None:
            first_part = next((part for part in parts if not part.deep), None)
            channels = colour_channels(first_part.channels) if first_part else None
            if first_part is None or channels is None:
                only = ",".join(spec.channels)
                raise StitchError(
                    f"{plan.frame_name(index)}: {path}: has no colour channels, only {only}",
                    path,
                    problem="output",
                )
            formats = set(first_part.formats)
            floats = any(first_part.formats[channel] in _FLOATS for channel in channels.colour)
            facts = SequenceFacts(spec, channels, formats != {"uint8"}, floats)
            _check_colour(plan, facts, path)
        elif difference := facts.spec.difference(spec):
            raise StitchError(
                f"{plan.frame_name(index)}: {path}: {difference} like {plan.frame_name(0)}",
                path,
                problem="output",
            )
        good.add(path)
    if facts is None:
        raise JobFileError("there are no pictures to stitch", "frames")
    return facts


def _check_colour(plan: StitchPlan, facts: SequenceFacts, path: str) -> None:
    if not facts.floats:
        return
    if plan.encode == "ffv1":
        raise JobFileError(
            f"{path}: ffv1 cannot hold float samples without loss",
            "encode",
            hint="keep the pictures, or use h264",
        )
    if plan.colour != "display":
        raise JobFileError(
            f"{path}: float pictures are taken as scene-linear and need a named view transform, which is not "
            "built yet",
            "colour",
            hint="say colour=display if the values are display-referred, else let the renderer write PNG",
        )


def read_frame(path: str, facts: SequenceFacts, *, keep_alpha: bool) -> Frame:
    """Decodes one picture to encoder samples.

    Integers of 8 and 16 bit are handed on unchanged.  Without ``keep_alpha`` the picture is laid over
    black; with it, the stored colour and alpha stay as they are.

    Raises:
        OutputError: The picture is damaged.
    """
    part, pixels = read_first_part(path, unassociated=keep_alpha)
    wanted = facts.channels.colour if len(facts.channels.colour) == 3 else facts.channels.colour * 3
    if keep_alpha and facts.channels.alpha is not None:
        wanted = (*wanted, facts.channels.alpha)
    if wanted != tuple(range(pixels.shape[2])):
        pixels = pixels[..., list(wanted)]
    pixels = to_display(pixels, part.data, part.display)
    warning = ""
    if pixels.dtype == (np.uint16 if facts.deep else np.uint8):
        samples = pixels
    else:
        values = normalised(pixels)
        if np.isnan(values).any():
            warning = "has NaN samples, written as 0"
        values = np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=0.0)
        samples = (np.clip(values, 0.0, 1.0) * 65535.0 + 0.5).astype(np.uint16)
    return Frame(np.ascontiguousarray(samples), warning)


def read_frames(
    plan: StitchPlan, facts: SequenceFacts, *, keep_alpha: bool, workers: int
) -> Generator[tuple[int, Frame], None, None]:
    """Decodes the pictures of a plan in order, a few ahead of the encoder.

    Decoding is often slower than encoding and releases the interpreter, so a few threads keep the
    encoder busy; no more than two pictures a worker are held.

    Raises:
        StitchError: A picture is damaged; names the frame and the file.
    """
    waiting: deque[Future[Frame]] = deque()
    ahead = max(2, 2 * workers)
    with ThreadPoolExecutor(max_workers=max(1, workers), thread_name_prefix="stitch-read") as pool:
        try:
            asked = 0
            for index, path in enumerate(plan.frames):
                while asked < len(plan.frames) and len(waiting) < ahead:
                    waiting.append(pool.submit(read_frame, plan.frames[asked], facts, keep_alpha=keep_alpha))
                    asked += 1
                try:
                    yield index, waiting.popleft().result()
                except OutputError as error:
                    problem: ProblemKind = "output" if os.path.lexists(path) else "path"
                    raise StitchError(
                        f"{plan.frame_name(index)}: {error.message}", path, problem=problem
                    ) from error
        finally:
            for future in waiting:
                future.cancel()
