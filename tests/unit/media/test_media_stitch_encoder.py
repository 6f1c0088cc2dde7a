"""An encoder that fails, lies or hangs, and work that is given up: no half film is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.media.stitch import Cancelled, StitchError, StitchPlan, stitch
from farm.model.errors import CallError

_FAKE = """#!{python}
import os, subprocess, sys, time
if "-version" in sys.argv:
    print("ffmpeg version 6.0 fake"); sys.exit(0)
real, argv = {real!r}, sys.argv[1:]
film, drain, say = argv[-1], sys.stdin.buffer.read, sys.stderr.write
def encode(*more): os.execv(real, [real, *argv[:-3], *more, *argv[-3:]])
{body}
"""


@pytest.fixture
def fake(tmp_path: Path, ffmpeg: str) -> Callable[[str], str]:
    """A program that answers as ffmpeg does and then does what the test says."""

    def write(body: str) -> str:
        path = tmp_path / "fake-ffmpeg"
        path.write_text(_FAKE.format(python=sys.executable, real=ffmpeg, body=body))
        path.chmod(0o755)
        return str(path)

    return write


_TRUNCATE = (
    "code = subprocess.call([real, *argv]); os.truncate(film, os.path.getsize(film) - 50); sys.exit(code)"
)
_FULL = r"say('[mp4 @ 0x55d0] av_write_frame(): No space left on device\nConversion failed!\n'); sys.exit(1)"


@pytest.mark.parametrize(
    ("body", "words", "problem"),
    [
        ("sys.exit(0)", "does not exist", "output"),
        ("drain(); sys.exit(0)", "does not exist", "output"),
        ("drain(); open(film, 'w').close()", "empty", "output"),
        ("encode('-frames:v', '11')", "holds 11 frames, not 12", "output"),
        ("encode('-vf', 'format=yuv420p,setpts=N/(25*TB)')", "frames a second|multiples", "output"),
        ("encode('-vf', 'format=yuv420p', '-color_trc', 'smpte170m')", "colour tags", "output"),
        ("encode('-pix_fmt', 'yuv444p', '-vf', 'null')", "yuv444p|colour tags", "output"),
        (_TRUNCATE, "cut off", "output"),
        (_FULL, r"exit code 1: mp4: av_write_frame\(\): No space left on device$", "path"),
        (
            r"drain(9); say('x264 [error]: out of luck\n'); sys.exit(3)",
            "exit code 3: x264.*out of luck",
            "renderer",
        ),
        ("os.kill(os.getpid(), 9)", "ended by signal 9", "renderer"),
        ("drain(); sys.exit(1)", "exit code 1: it said nothing", "renderer"),
    ],
)
def test_exit_codes_are_not_believed_and_no_half_film_is_left(
    body: str, words: str, problem: str, fake: Any, frames: tuple[str, ...], tmp_path: Path
) -> None:
    plan = StitchPlan(frames=frames, output=str(tmp_path / "film.mp4"), preset="ultrafast")
    with pytest.raises(StitchError, match=words) as caught:
        stitch(plan, ffmpeg=fake(body))
    assert caught.value.problem == problem
    assert not (tmp_path / "film.mp4").exists()


def test_a_lossless_film_with_one_wrong_frame_is_refused(
    fake: Any, frames: tuple[str, ...], tmp_path: Path
) -> None:
    body = "encode('-vf', \"drawbox=w=1:h=1:color=red:enable='eq(n,7)'\")"
    plan = StitchPlan(frames=frames, output=str(tmp_path / "film.mkv"), encode="ffv1")
    with pytest.raises(StitchError, match="frame 8 is not what was encoded"):
        stitch(plan, ffmpeg=fake(body))


def test_a_program_that_cannot_be_started_is_named(frames: tuple[str, ...], tmp_path: Path) -> None:
    plan = StitchPlan(frames=frames, output=str(tmp_path / "film.mp4"))
    with pytest.raises(CallError, match="/no/ffmpeg cannot be started"):
        stitch(plan, ffmpeg="/no/ffmpeg")


@pytest.mark.parametrize("when", ["before reading", "at the end"])
def test_cancel_reaches_an_encoder_that_hangs(
    when: str, fake: Any, tmp_path: Path, save: Any, noise: Any
) -> None:
    """A picture larger than any pipe's buffer, and an encoder that never reads or never ends."""
    big = str(save(tmp_path / "big.png", noise(700, 1000, 3, "uint8"), png__compressionLevel=0))
    body = "time.sleep(600)" if when == "before reading" else "drain(); time.sleep(600)"
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 3

    plan = StitchPlan(frames=(big,), output=str(tmp_path / "film.mp4"))
    with pytest.raises(Cancelled):
        stitch(plan, ffmpeg=fake(body), cancelled=cancelled)
    assert not (tmp_path / "film.mp4").exists()


def test_cancel_midway_leaves_nothing(frames: tuple[str, ...], tmp_path: Path, ffmpeg: str) -> None:
    told: list[int] = []
    plan = StitchPlan(frames=frames * 20, output=str(tmp_path / "film.mp4"), preset="ultrafast")
    with pytest.raises(Cancelled):
        stitch(
            plan, ffmpeg=ffmpeg, progress=lambda done, _: told.append(done), cancelled=lambda: len(told) >= 7
        )
    assert told == [1, 2, 3, 4, 5, 6, 7]
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_an_error_of_the_caller_leaves_nothing_either(
    frames: tuple[str, ...], tmp_path: Path, ffmpeg: str
) -> None:
    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stitch(StitchPlan(frames=frames, output=str(tmp_path / "film.mp4")), ffmpeg=ffmpeg, progress=fail)
    assert not (tmp_path / "film.mp4").exists()
