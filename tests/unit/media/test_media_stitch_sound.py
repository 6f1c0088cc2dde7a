"""Sound under a film: cut or filled to its length, in time, and to the sample where it is lossless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.media.films import FILM, times_of


@pytest.mark.parametrize("name", ["film.mp4", "film.mkv", "film.mov"])
@pytest.mark.parametrize("length_s", [0.2, 0.5005, 2.0])
def test_sound_is_cut_or_filled_to_the_films_length_and_no_frame_is_lost(
    name: str,
    length_s: float,
    make: Any,
    frames: tuple[str, ...],
    tmp_path: Path,
    make_movie: Any,
    ffprobe: Any,
    decode_raw: Any,
) -> None:
    sound = make_movie(tmp_path / "s.wav", "-f", "lavfi", "-i", f"sine=1000:r=48000:d={length_s}")
    facts = make(frames, name, rate=FILM, audio=str(sound))
    assert facts.frames == 12
    planned_s = 12 * 1001 / 24000
    times, _ = times_of(ffprobe, tmp_path / name)
    assert len(times) == 12
    raw = np.frombuffer(decode_raw(tmp_path / name, "-map", "0:a:0", "-f", "s16le", "-ac", "1"), np.int16)
    assert abs(len(raw) / 48000 - planned_s) <= 1001 / 24000
    loud = np.abs(raw.astype(int)) > 1000
    heard_s = min(length_s, planned_s)
    assert np.flatnonzero(loud)[0] / 48000 < 0.01
    # AAC blurs edges by its window of 2048 samples.
    assert np.flatnonzero(loud)[-1] / 48000 == pytest.approx(heard_s, abs=0.03)
    streams = ffprobe(tmp_path / name, "-show_streams")["streams"]
    assert [s["codec_name"] for s in streams] == ["h264", "flac" if name == "film.mkv" else "aac"]


def test_lossless_sound_is_sample_exact(
    make: Any, frames: tuple[str, ...], tmp_path: Path, make_movie: Any, decode_raw: Any
) -> None:
    sound = make_movie(tmp_path / "s.wav", "-f", "lavfi", "-i", "sine=440:r=44100:d=0.3")
    make(frames, "film.mkv", rate="24/1", audio=str(sound), encode="ffv1")
    before = decode_raw(sound, "-f", "s16le")
    after = decode_raw(tmp_path / "film.mkv", "-map", "0:a:0", "-f", "s16le")
    assert len(after) == 22050 * 2
    assert after == before + bytes(22050 * 2 - len(before))


def test_a_sound_that_starts_late_stays_late(
    make: Any, frames: tuple[str, ...], tmp_path: Path, make_movie: Any, decode_raw: Any
) -> None:
    late = make_movie(
        tmp_path / "late.mkv",
        *("-f", "lavfi", "-i", "testsrc2=s=32x32:r=25:d=1", "-itsoffset", "0.25", "-f", "lavfi"),
        *("-i", "sine=1000:d=1:r=48000", "-map", "0", "-map", "1", "-c:v", "ffv1", "-c:a", "flac"),
    )
    make(frames, "film.mkv", audio=str(late))
    raw = np.frombuffer(
        decode_raw(tmp_path / "film.mkv", "-map", "0:a:0", "-f", "s16le", "-ac", "1"), np.int16
    )
    assert len(raw) == 24000
    first = int(np.flatnonzero(np.abs(raw.astype(int)) > 500)[0])
    assert first / 48000 == pytest.approx(0.25, abs=0.002)
