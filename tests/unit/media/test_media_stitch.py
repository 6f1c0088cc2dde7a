"""A film has exactly the planned pictures, in the planned order, at exact times; ffmpeg is the witness."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.media.movies import count_frames, verify_movie
from farm.media.stitch import Cancelled, StitchError, StitchPlan, check_plan, parse_rate, stitch
from farm.model.errors import CallError, JobFileError, NotBuiltYet, OutputError

H, W = 36, 64
FILM = "24000/1001"


@pytest.fixture(scope="session")
def frames(tmp_path_factory: pytest.TempPathFactory, save: Any, noise: Any) -> tuple[str, ...]:
    """Twelve 8-bit pictures."""
    folder = tmp_path_factory.mktemp("frames")
    return tuple(str(save(folder / f"f.{k:04d}.png", noise(H, W, 3, "uint8", k))) for k in range(12))


@pytest.fixture
def make(tmp_path: Path, ffmpeg: str) -> Callable[..., Any]:
    """Stitches a list of pictures to a file in the test's folder."""

    def run(frames: tuple[str, ...], name: str = "film.mp4", **fields: Any) -> Any:
        words = {"preset": "ultrafast", "threads": 1, **fields}
        plan = StitchPlan(frames=tuple(map(str, frames)), output=str(tmp_path / name), **words)
        return stitch(plan, ffmpeg=ffmpeg)

    return run


def _pts(ffprobe: Any, path: Path) -> tuple[list[Fraction], dict[str, Any]]:
    told = ffprobe(path, "-select_streams", "v:0", "-count_frames", "-show_frames", "-show_streams")
    stream = told["streams"][0]
    base = Fraction(stream["time_base"])
    return [frame["pts"] * base for frame in told["frames"]], stream


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
    times, stream = _pts(ffprobe, tmp_path / name)
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


# --- what must be refused before any work -----------------------------------------------------------


def _copies(frames: tuple[str, ...], folder: Path, count: int = 5) -> list[Path]:
    paths = [folder / f"g.{k:04d}.png" for k in range(1, count + 1)]
    for path, source in zip(paths, frames, strict=False):
        path.write_bytes(Path(source).read_bytes())
    return paths


def test_a_missing_picture_is_named_by_frame_and_nothing_is_made(
    make: Any, frames: tuple[str, ...], tmp_path: Path
) -> None:
    paths = _copies(frames, tmp_path)
    paths[2].unlink()
    with pytest.raises(
        StitchError, match=r"frame 1003 of 5 missing: .*g\.0003\.png does not exist"
    ) as caught:
        make(paths, numbers=(1001, 1002, 1003, 1004, 1005))
    assert caught.value.problem == "path"
    paths[4].unlink()
    with pytest.raises(StitchError, match=r"frame 3 and 1 more of 5 missing"):
        make(paths)
    assert not (tmp_path / "film.mp4").exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "folder", "size", "depth", "channels"])
def test_a_bad_picture_is_named_by_frame_and_file_before_work(
    damage: str, frames: tuple[str, ...], tmp_path: Path, save: Any, noise: Any, ffmpeg: str
) -> None:
    paths = _copies(frames, tmp_path)
    bad = paths[3]
    data = bad.read_bytes()
    bad.unlink()
    words = {"size": "64x38, not 64x36", "depth": "uint16, not uint8", "channels": "channels"}.get(damage, "")
    if damage == "folder":
        bad.mkdir()
    elif damage == "size":
        save(bad, noise(H + 2, W, 3, "uint8"))
    elif damage == "depth":
        save(bad, noise(H, W, 3, "uint16"))
    elif damage == "channels":
        save(bad, noise(H, W, 1, "uint8"))
    else:
        bad.write_bytes({"empty": b"", "cut": data[:-9], "text": b"oops"}[damage])
    told: list[int] = []
    plan = StitchPlan(frames=tuple(map(str, paths)), output=str(tmp_path / "film.mp4"))
    with pytest.raises(StitchError, match=rf"^frame 4: .*{re.escape(str(bad))}.*{words}") as caught:
        stitch(plan, ffmpeg=ffmpeg, progress=lambda done, total: told.append(done))
    assert caught.value.problem == "output"
    assert told == []
    assert not (tmp_path / "film.mp4").exists()


def test_damage_that_only_decoding_shows_stops_the_film_and_names_the_frame(
    make: Any, tmp_path: Path, save: Any, noise: Any
) -> None:
    paths = [save(tmp_path / f"f.{k}.exr", noise(H, W, 3, "float16", k), compression="zip") for k in range(6)]
    data = bytearray(paths[4].read_bytes())
    data[-300:-200] = bytes(100)
    paths[4].write_bytes(data)
    with pytest.raises(StitchError, match=r"frame 5: .*f\.4\.exr") as caught:
        make(paths, colour="display")
    assert caught.value.problem == "output"
    assert not (tmp_path / "film.mp4").exists()


def test_scene_linear_pictures_need_a_word_about_colour(
    make: Any, tmp_path: Path, save: Any, noise: Any
) -> None:
    exr = save(tmp_path / "f.exr", noise(H, W, 3, "float16"))
    with pytest.raises(JobFileError, match=r"f\.exr.*scene-linear.*view transform.*colour=display"):
        make([exr])
    with pytest.raises(NotBuiltYet, match=r"view transforms are not built yet \(view 'AgX'\)"):
        make([exr], view="AgX")
    with pytest.raises(JobFileError, match="cannot hold float samples"):
        make([exr], "film.mkv", encode="ffv1", colour="display")
    depth = save(tmp_path / "z.exr", noise(H, W, 1, "float32"), names=("Z",))
    with pytest.raises(StitchError, match="no colour channels, only Z"):
        make([depth], colour="display")


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"frames": ()}, JobFileError, "no pictures"),
        ({"frames": ("a.png",)}, JobFileError, r"frames\[0\]: 'a.png' is no absolute path"),
        ({"output": "film.mp4"}, JobFileError, "output: 'film.mp4' is no absolute path"),
        ({"output": "/x/film.avi"}, JobFileError, "h264 cannot be written to a .avi file"),
        ({"output": "/x/film.mp4", "encode": "ffv1"}, JobFileError, "ffv1 cannot be written to a .mp4"),
        ({"encode": "prores"}, NotBuiltYet, "encode 'prores' is not built yet"),
        ({"encode": "mp3"}, JobFileError, "'mp3' is no encode"),
        ({"rate": "23.976"}, JobFileError, "write 24000/1001"),
        ({"rate": "29.97"}, JobFileError, "write 30000/1001"),
        ({"rate": "0/1"}, JobFileError, "no frame rate"),
        ({"rate": "24/0"}, JobFileError, "no frame rate"),
        ({"rate": "-24"}, JobFileError, "no frame rate"),
        ({"rate": "24000"}, JobFileError, "no frame rate"),
        ({"crf": 60}, JobFileError, "crf 60"),
        ({"preset": "warp"}, JobFileError, "'warp' is no preset"),
        ({"gaps": "hold"}, NotBuiltYet, "gaps 'hold' is not built yet"),
        ({"gaps": "x"}, JobFileError, "gaps"),
        ({"colour": "acescg"}, NotBuiltYet, "colour 'acescg' is not built yet"),
        ({"numbers": (1, 2)}, JobFileError, "2 numbers for 1 pictures"),
        ({"audio": "a.wav"}, JobFileError, "audio: 'a.wav' is no absolute path"),
        ({"threads": -1}, JobFileError, "threads"),
    ],
)
def test_words_of_a_plan_that_cannot_work_are_refused_by_name(
    fields: dict[str, Any], kind: type[CallError], words: str
) -> None:
    plan = StitchPlan(**{"frames": ("/a.png",), "output": "/x/film.mp4", **fields})
    with pytest.raises(kind, match=words):
        check_plan(plan)


@given(top=st.integers(1, 240_000), bottom=st.sampled_from([1, 2, 3, 1000, 1001]))
def test_rates_are_read_exactly(top: int, bottom: int) -> None:
    if top <= 1000 * bottom:
        assert parse_rate(f"{top}/{bottom}") == Fraction(top, bottom)
    else:
        with pytest.raises(JobFileError):
            parse_rate(f"{top}/{bottom}")


def test_a_plan_survives_json_and_knows_its_fields() -> None:
    plan = StitchPlan(
        frames=("/a/ü '%.png",), output="/x/f.mkv", rate=FILM, encode="ffv1", audio="/s.wav", numbers=(-3,)
    )
    assert msgspec.json.decode(msgspec.json.encode(plan), type=StitchPlan) == plan
    with pytest.raises(msgspec.ValidationError, match="unknown field `ratee`"):
        msgspec.json.decode(b'{"frames": ["/a"], "output": "/b.mp4", "ratee": "24"}', type=StitchPlan)


def test_a_missing_folder_or_sound_is_a_path_problem(
    make: Any, frames: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(StitchError, match="folder of the film does not exist") as caught:
        make(frames, "none/film.mp4")
    assert caught.value.problem == "path"
    with pytest.raises(StitchError, match=r"sound .*none\.wav does not exist") as caught:
        make(frames, audio=str(tmp_path / "none.wav"))
    assert caught.value.problem == "path"
    with pytest.raises(StitchError, match=r"holds no sound|cannot be read") as caught:
        make(frames, audio=frames[0])
    assert caught.value.problem == "output"


# --- sound ------------------------------------------------------------------------------------------


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
    times, _ = _pts(ffprobe, tmp_path / name)
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


# --- an encoder that fails, lies or hangs -----------------------------------------------------------

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


def test_stitch_errors_are_output_errors() -> None:
    assert isinstance(StitchError("x", problem="path"), OutputError)
