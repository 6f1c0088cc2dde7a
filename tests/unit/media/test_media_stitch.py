"""A film has exactly the planned pictures, in the planned order, at exact times; ffmpeg is the witness."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from farm.media.movies import count_frames, verify_movie
from farm.media.stitch import StitchPlan, stitch
from tests.unit.media.films import FILM, H, W, times_of


@pytest.mark.parametrize("name", ["film.mp4", "film.mov", "film.mkv"])
@pytest.mark.parametrize("rate", [FILM, "24/1", "25", "30000/1001", "60000/1001", "12/1"])
def test_count_times_rate_and_tags_are_exact_by_ffprobe(
    name: str, rate: str, make: Any, frames: tuple[str, ...], tmp_path: Path, ffprobe: Any
) -> None:
    told: list[tuple[int, int]] = []
    plan = StitchPlan(frames=frames, output=str(tmp_path / name), rate=rate, preset="ultrafast", threads=1)
    from farm.media.ffmpeg import find_ffmpeg

    facts = stitch(plan, ffmpeg=find_ffmpeg(), progress=lambda done, total: told.append((done, total)))
    assert told == [(k + 1, 12) for k in range(12)]
    assert (facts.frames, facts.warnings) == (12, ())
    assert facts.sha256 == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    times, stream = times_of(ffprobe, tmp_path / name)
    exact = [k / Fraction(rate) for k in range(12)]
    if name == "film.mkv":  # milliseconds are all that Matroska holds
        assert times == [Fraction(round(time * 1000), 1000) for time in exact]
    else:
        assert times == exact
        assert Fraction(stream["avg_frame_rate"]) == Fraction(rate)
    assert (stream["width"], stream["height"], stream["pix_fmt"]) == (W, H, "yuv420p")
    assert stream["codec_name"] == "h264"
    assert {stream[key] for key in ("color_primaries", "color_transfer", "color_space")} == {"bt709"}
    assert stream["color_range"] == "tv"


def test_the_index_of_an_mp4_comes_first(make: Any, frames: tuple[str, ...], tmp_path: Path) -> None:
    make(frames)
    data = (tmp_path / "film.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_colours_follow_bt709_and_not_bt601(make: Any, tmp_path: Path, save: Any, decode_raw: Any) -> None:
    """Expected values from the formula of the standard, by hand."""
    colours = [
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (255, 255, 255),
        (0, 0, 0),
        (128, 128, 128),
        (200, 100, 50),
    ]
    paths = []
    for number, colour in enumerate(colours):
        paths.append(save(tmp_path / f"c{number}.png", np.full((32, 32, 3), colour, np.uint8)))
    make(paths, crf=1)
    raw = np.frombuffer(decode_raw(tmp_path / "film.mp4", "-f", "rawvideo", "-pix_fmt", "yuv420p"), np.uint8)
    for number, colour in enumerate(colours):
        frame = raw[number * 1536 : (number + 1) * 1536]
        r, g, b = (value / 255 for value in colour)
        y = 0.2126 * r + 0.7152 * g + 0.0722 * b
        expected = (16 + 219 * y, 128 + 224 * (b - y) / 1.8556, 128 + 224 * (r - y) / 1.5748)
        found = (frame[:1024].mean(), frame[1024:1280].mean(), frame[1280:].mean())
        assert found == pytest.approx(expected, abs=1.6), colour


@pytest.mark.parametrize(
    ("channels", "dtype", "pix_fmt"),
    [
        (3, "uint8", "rgb24"),
        (4, "uint8", "rgba"),
        (3, "uint16", "rgb48le"),
        (4, "uint16", "rgba64le"),
        (1, "uint8", "rgb24"),
    ],
)
def test_ffv1_gives_back_every_sample(
    channels: int, dtype: str, pix_fmt: str, make: Any, tmp_path: Path, save: Any, noise: Any, decode_raw: Any
) -> None:
    """Also odd sizes, which lossless keeps; the pixels come back through the ffmpeg program."""
    pictures = [noise(27, 41, channels, dtype, seed) for seed in range(5)]
    paths = [save(tmp_path / f"f.{k}.png", pixels) for k, pixels in enumerate(pictures)]
    assert make(paths, "film.mkv", encode="ffv1", rate=FILM).frames == 5
    raw = decode_raw(tmp_path / "film.mkv", "-f", "rawvideo", "-pix_fmt", pix_fmt)
    wanted = b"".join((p if channels > 1 else np.repeat(p, 3, axis=2)).tobytes() for p in pictures)
    assert raw == wanted


def test_framehash_of_a_lossless_film_equals_the_pictures(
    make: Any, frames: tuple[str, ...], tmp_path: Path, noise: Any, decode_raw: Any
) -> None:
    make(frames, "film.mkv", encode="ffv1")
    text = decode_raw(tmp_path / "film.mkv", "-pix_fmt", "rgb24", "-f", "framehash", "-hash", "md5").decode()
    found = [line.split(",")[-1].strip() for line in text.splitlines() if not line.startswith("#")]
    assert found == [hashlib.md5(noise(H, W, 3, "uint8", k).tobytes()).hexdigest() for k in range(12)]


def test_odd_sizes_are_padded_with_the_edge_and_said(
    make: Any, tmp_path: Path, save: Any, decode_raw: Any
) -> None:
    pixels = np.full((107, 191, 3), 128, np.uint8)
    pixels[:, -1], pixels[-1, :] = 220, 220
    paths = [save(tmp_path / f"f.{k}.png", pixels) for k in range(3)]
    facts = make(paths, crf=1)
    assert facts.warnings == ("padded from 191x107 to 192x108",)
    raw = np.frombuffer(decode_raw(tmp_path / "film.mp4", "-f", "rawvideo", "-pix_fmt", "gray"), np.uint8)
    frame = raw[: 192 * 108].reshape(108, 192)
    assert abs(int(frame[50, 191]) - int(frame[50, 190])) <= 3
    assert abs(int(frame[107, 90]) - int(frame[106, 90])) <= 3
    assert int(frame[107, 191]) > 180


def test_order_is_the_plans_also_across_10000_and_backwards(
    make: Any, tmp_path: Path, save: Any, decode_raw: Any
) -> None:
    numbers = [9997, 9998, 9999, 10000, 10001, -1, 1, 2]
    paths = []
    for place, number in enumerate(numbers):
        paths.append(save(tmp_path / f"f.{number:04d}.png", np.full((32, 32, 3), 30 + 25 * place, np.uint8)))
    assert sorted(paths) != paths
    make(paths, "up.mkv", encode="ffv1")
    make(paths[::-1], "down.mkv", encode="ffv1")
    for name, wanted in [("up.mkv", range(8)), ("down.mkv", range(7, -1, -1))]:
        raw = np.frombuffer(decode_raw(tmp_path / name, "-f", "rawvideo", "-pix_fmt", "rgb24"), np.uint8)
        assert [int(value) for value in raw.reshape(8, -1)[:, 0]] == [30 + 25 * place for place in wanted]


def test_a_picture_may_be_held_by_naming_it_twice(make: Any, frames: tuple[str, ...], tmp_path: Path) -> None:
    assert make((frames[0], frames[0], frames[1])).frames == 3


@pytest.mark.parametrize(
    "name", ["a b", 'it\'s "q"', "50%", "f%04d", "x#1", "Größe ü", "-v", "a;`x`$HOME", "a:b,c[d]", "@a\\b"]
)
def test_any_name_works_for_pictures_folder_sound_and_film(
    name: str, make: Any, tmp_path: Path, save: Any, noise: Any, make_movie: Any
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    paths = [save(folder / f"{name}.{k}.png", noise(H, W, 3, "uint8", k)) for k in range(2)]
    sound = make_movie(tmp_path / "s.wav", "-f", "lavfi", "-i", "sine=d=0.1").rename(folder / f"{name}.wav")
    for suffix in (".mp4", ".mkv"):
        facts = make(paths, f"{name}/{name}{suffix}", audio=str(sound))
        assert facts.path == f"{folder}/{name}{suffix}"
        assert Path(facts.path).is_file()


@pytest.mark.parametrize("suffix", [".jpg", ".tif", ".exr", ".png"])
def test_every_kind_of_picture_becomes_a_film(
    suffix: str, make: Any, tmp_path: Path, save: Any, noise: Any
) -> None:
    dtype = {".exr": "float16", ".tif": "uint16"}.get(suffix, "uint8")
    paths = [save(tmp_path / f"f.{k}{suffix}", noise(H, W, 3, dtype, k)) for k in range(3)]
    assert make(paths, colour="display" if suffix == ".exr" else "srgb").frames == 3


def test_jpegs_of_mixed_subsampling_are_one_film(make: Any, tmp_path: Path, save: Any, noise: Any) -> None:
    paths = [
        save(tmp_path / f"f.{k}.jpg", noise(H, W, 3, "uint8", k), jpeg__subsampling=kind)
        for k, kind in enumerate(["4:2:0", "4:4:4", "4:2:2"])
    ]
    assert make(paths).frames == 3


def test_display_referred_exr_is_clipped_and_laid_into_its_window(
    make: Any, tmp_path: Path, save: Any, decode_raw: Any
) -> None:
    bright = np.full((32, 32, 3), 7.5, np.float32)
    cropped = np.full((8, 8, 3), 0.5, np.float32)
    paths = [
        save(tmp_path / "f.1.exr", bright),
        save(tmp_path / "f.2.exr", cropped, origin=(8, 16), full=(0, 0, 32, 32)),
    ]
    make(paths, colour="display", crf=1)
    raw = np.frombuffer(decode_raw(tmp_path / "film.mp4", "-f", "rawvideo", "-pix_fmt", "yuv420p"), np.uint8)
    first, second = raw[:1024].reshape(32, 32), raw[1536:2560].reshape(32, 32)
    assert abs(int(first[16, 16]) - 235) <= 1
    assert abs(int(second[20, 12]) - 126) <= 2
    assert abs(int(second[4, 4]) - 16) <= 1


def test_nan_in_a_display_referred_picture_is_told(make: Any, tmp_path: Path, save: Any, noise: Any) -> None:
    pixels = noise(H, W, 3, "float32")
    pixels[2, 2, 1] = np.nan
    facts = make([save(tmp_path / "f.exr", pixels)], colour="display", numbers=(77,))
    assert facts.warnings == ("frame 77 has NaN samples, written as 0",)


def test_alpha_is_laid_over_black_in_h264_and_told(
    make: Any, tmp_path: Path, save: Any, decode_raw: Any
) -> None:
    pixels = np.full((32, 32, 4), 255, np.uint8)
    pixels[:16, :, 3] = 0
    facts = make([save(tmp_path / "f.png", pixels)], crf=1)
    assert facts.warnings == ("alpha was laid over black",)
    raw = np.frombuffer(decode_raw(tmp_path / "film.mp4", "-f", "rawvideo", "-pix_fmt", "yuv420p"), np.uint8)
    frame = raw[:1024].reshape(32, 32)
    assert frame[:12].mean() < 20
    assert frame[20:].mean() > 230


def test_the_other_ffmpeg_makes_the_same_film(
    frames: tuple[str, ...], tmp_path: Path, make_movie: Any
) -> None:
    """The program inside imageio-ffmpeg is years newer than a distribution's: same times, same pixels."""
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    output = tmp_path / "film.mkv"
    plan = StitchPlan(frames=frames, output=str(output), rate=FILM, encode="ffv1")
    stitch(plan, ffmpeg=imageio_ffmpeg.get_ffmpeg_exe())
    assert verify_movie(output, frames=12, rate=Fraction(FILM)).frames == 12
    film = tmp_path / "film.mp4"
    stitch(
        msgspec.structs.replace(plan, output=str(film), encode="h264"), ffmpeg=imageio_ffmpeg.get_ffmpeg_exe()
    )
    facts = count_frames(film)
    assert (facts.frames, facts.rate, facts.constant) == (12, Fraction(FILM), True)
    assert facts.colour.matrix == "bt709"
