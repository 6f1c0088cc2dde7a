"""Makes one film as a process of its own: ``python -m farm.media.stitch_task task.json``.

The task is a `StitchPlan` as JSON with ``ffmpeg``, the program's path, beside its fields ("" = find it).
What happens is told on standard output, one line each:

    FARM {"frame": 17, "of": 250}                       17 pictures were handed to the encoder
    FARM {"warning": "padded from 191x107 to 192x108"}
    FARM {"problem": "path", "text": "..."}              why it failed: path, config, output or renderer
    FARM {"film": "/abs/film.mp4", "frames": 250, "size": 1, "sha256": "..."}    the verified film

Exit code 0: the film is there and verified.  1: it is not.  2: the task itself cannot be read.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from farm.media.stitch_plan import StitchPlan
from farm.model.errors import CallError, OvercrankError

_PREFIX = "FARM "


class StitchTask(StitchPlan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan and the program to make it with.

    Attributes:
        ffmpeg: Path of the ffmpeg program; "" = find one.
    """

    ffmpeg: str = ""


class _Stop:
    """Set by the first request to end; the work notices it within a fraction of a second."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, *_: int | FrameType | None) -> None:
        self.asked = True


def _say(record: dict[str, Any]) -> None:
    # A reader that went away is no reason to lose the film.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(_PREFIX + msgspec.json.encode(record).decode() + "\n")
        sys.stdout.flush()


def read_task(path: str) -> StitchTask:
    """Reads a task file.

    Raises:
        CallError: It is missing, no JSON, or has a field that is wrong or unknown.
    """
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=StitchTask)
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CallError(f"{path}: cannot be read as a stitch task: {reason}") from error


def run(task: StitchTask, stop: _Stop) -> int:
    """Makes the film of a task and tells about it; returns the exit code."""
    from farm.media.ffmpeg import find_ffmpeg
    from farm.media.stitch import StitchError, stitch

    try:
        facts = stitch(
            task,
            ffmpeg=task.ffmpeg or find_ffmpeg(),
            progress=lambda done, total: _say({"frame": done, "of": total}),
            cancelled=lambda: stop.asked,
        )
    except StitchError as error:
        _say({"problem": error.problem, "text": str(error)})
        return 1
    except CallError as error:
        _say({"problem": "config", "text": str(error)})
        return 1
    except OvercrankError as error:
        _say({"problem": "renderer", "text": str(error)})
        return 1
    except OSError as error:
        _say({"problem": "path", "text": f"{error.filename or task.output}: {error.strerror or error}"})
        return 1
    except MemoryError:
        _say({"problem": "renderer", "text": "the pictures are too large for this machine's memory"})
        return 1
    for warning in facts.warnings:
        _say({"warning": warning})
    _say({"film": facts.path, "frames": facts.frames, "size": facts.size, "sha256": facts.sha256})
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if len(words) != 1:
        _say({"problem": "config", "text": "usage: python -m farm.media.stitch_task task.json"})
        return 2
    try:
        task = read_task(words[0])
    except CallError as error:
        _say({"problem": "config", "text": str(error)})
        return 2
    stop = _Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return run(task, stop)


if __name__ == "__main__":
    sys.exit(main())
