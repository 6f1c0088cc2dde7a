"""What cannot become a film is refused before any work, by frame, file and word of the plan."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.media.stitch import StitchError, StitchPlan, check_plan, parse_rate, stitch
from farm.model.errors import CallError, JobFileError, NotBuiltYet, OutputError
from tests.unit.media.films import FILM, H, W


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


def test_stitch_errors_are_output_errors() -> None:
    assert isinstance(StitchError("x", problem="path"), OutputError)
