"""Films of the tests that stitch: their size and rate, and when their pictures are shown."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

H, W = 36, 64
FILM = "24000/1001"


def times_of(ffprobe: Any, path: Path) -> tuple[list[Fraction], dict[str, Any]]:
    """Exact times of a film's pictures, and its stream, as ffprobe tells them."""
    told = ffprobe(path, "-select_streams", "v:0", "-count_frames", "-show_frames", "-show_streams")
    stream = told["streams"][0]
    base = Fraction(stream["time_base"])
    return [frame["pts"] * base for frame in told["frames"]], stream
