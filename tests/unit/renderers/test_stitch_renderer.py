"""The stitch renderer: what it refuses, and the task it hands to the media room."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import msgspec
import numpy as np
import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.model.errors import CallError, JobFileError, NotBuiltYet
from farm.model.jobs import OutputSpec, StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import AppInstall, ChunkContext, Invocation, PlannedFile, PlannedInput, read_params
from farm.renderers.stitch import RENDERER
from tests.support.run_invocation import need_real, replay, run_all


def checked(pattern: str = "/out/film.mp4", **params: object) -> list[str]:
    given = {"input": {"step": "beauty", "output": 0}, **params}
    step = StepSpec(
        name="film", renderer="stitch", kind="single", params=given, outputs=(OutputSpec(pattern, "movie"),)
    )
    return RENDERER.check(step, read_params(RENDERER, given))


def chunk(**params: object) -> ChunkContext:
    given = {"input": {"step": "beauty"}, **params}
    return ChunkContext(
        params=read_params(RENDERER, given),
        frames=(),
        step_frames=None,
        files=(PlannedFile(0, None, "/out/.attempt/fïlm %d.mp4"),),
        patterns=("/out/.attempt/fïlm %d.mp4",),
        inputs={
            "input": PlannedInput((9999, 10000, -1), ("/in/f.9999.png", "/in/f.10000.png", "/in/f.-001.png"))
        },
        app=AppInstall("ffmpeg", "5.1.9", ("/usr/bin/ffmpeg",)),
        cores=2,
        scratch="/scratch",
        python="/venv/bin/python",
    )


def test_the_task_keeps_the_planned_order() -> None:
    (made,) = RENDERER.invocations(chunk(rate="24000/1001", crf=12, audio="/in/a.wav"))
    assert made.argv == ("/venv/bin/python", "-m", "farm.media.stitch_task", "/scratch/task.json")
    task = json.loads(made.write["/scratch/task.json"])
    assert task == {
        "ffmpeg": "/usr/bin/ffmpeg",
        "frames": ["/in/f.9999.png", "/in/f.10000.png", "/in/f.-001.png"],
        "numbers": [9999, 10000, -1],
        "output": "/out/.attempt/fïlm %d.mp4",
        "rate": "24000/1001",
        "encode": "h264",
        "audio": "/in/a.wav",
        "crf": 12,
        "preset": "medium",
        "gaps": "refuse",
        "colour": "srgb",
        "view": "",
        "threads": 2,
    }
    assert made.write["/scratch/task.json"].isascii()


def test_the_sound_of_another_step_is_laid_under_the_film() -> None:
    context = chunk(sound={"step": "sound", "output": 0})
    inputs = context.inputs | {"sound": PlannedInput((), ("/out/film_frames/film #1.flac",))}
    (made,) = RENDERER.invocations(msgspec.structs.replace(context, inputs=inputs))
    assert json.loads(made.write["/scratch/task.json"])["audio"] == "/out/film_frames/film #1.flac"
    assert checked(sound={"step": "sound"}) == []
    with pytest.raises(JobFileError, match="not both"):
        checked(sound={"step": "sound"}, audio="/in/a.wav")
    with pytest.raises(JobFileError, match="is no input"):
        checked(sound={"output": 0})


@pytest.mark.parametrize(
    ("pattern", "params", "kind", "words"),
    [
        ("/out/film.png", {}, JobFileError, "not .png"),
        ("/out/film.avi", {}, JobFileError, "h264 does not go into .avi"),
        ("/out/film.mp4", {"encode": "ffv1"}, JobFileError, "use .mkv"),
        ("/out/film.mp4", {"encode": "hevc"}, NotBuiltYet, "'hevc' is not built yet"),
        ("/out/film.mp4", {"gaps": "hold"}, NotBuiltYet, "'hold' is not built yet"),
        ("/out/film.mp4", {"colour": "acescg"}, NotBuiltYet, "'acescg' is not built yet"),
        ("/out/film.mp4", {"view": "Filmic"}, NotBuiltYet, "'Filmic' is not built yet"),
        ("/out/film.mp4", {"rate": "23.976"}, JobFileError, "write 24000/1001"),
        ("/out/film.mp4", {"rate": "0/1"}, JobFileError, "not a frame rate"),
        ("/out/film.mp4", {"rate": "24/0"}, JobFileError, "not a frame rate"),
        ("/out/film.mp4", {"crf": 99}, JobFileError, "<= 51"),
        ("/out/film.mp4", {"input": "/in/still.png"}, JobFileError, "no frame token"),
        ("/out/film.mp4", {"input": {"step": "a", "of": 1}}, JobFileError, "is no input"),
        ("/out/film.mp4", {"input": "/in/f.####.png", "frames": "1-"}, JobFileError, "frames"),
        ("/out/film.mp4", {"frames": "1-5"}, JobFileError, "leave it out"),
        ("/out/film.mp4", {"frmaes": "1-5"}, JobFileError, "no parameter 'frmaes'"),
    ],
)
def test_what_can_never_work_is_refused_at_submit(
    pattern: str, params: dict[str, object], kind: type[CallError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        checked(pattern, **params)


def test_what_works_is_accepted() -> None:
    assert checked() == []
    assert checked(input="/in/f.%04d.png", frames="1-5,9") == []
    assert "no effect" in checked("/out/film.mkv", encode="ffv1", crf=3)[0]


def test_the_tasks_lines_are_understood() -> None:
    lines = ['FARM {"frame": 1, "of": 4}', 'FARM {"warning": "padded"}', 'FARM {"frame": 4, "of": 4}']
    run = replay(RENDERER, chunk(), Invocation(argv=()), lines, 0)
    assert run.progress(None) == [0.25, 1.0]
    assert run.warnings == ["padded"]
    assert run.verdict.failure is None
    lines.append('FARM {"problem": "path", "text": "frame 7 is missing"}')
    run = replay(RENDERER, chunk(), Invocation(argv=()), lines, 1)
    assert run.verdict.failure is FailureClass.PATH
    assert run.verdict.reason == "frame 7 is missing"


def test_a_broken_installation_is_the_nodes_fault() -> None:
    lines = ["/venv/bin/python: Error while finding module specification: No module named farm"]
    assert replay(RENDERER, chunk(), Invocation(argv=()), lines, 1).verdict.failure is FailureClass.NODE


@pytest.mark.real
@pytest.mark.slow
def test_a_real_film_is_made_and_a_gap_is_refused(tmp_path: Path) -> None:
    need_real(shutil.which("ffmpeg") is not None, "ffmpeg: apt install ffmpeg")
    frames = (9, 10, 11)
    paths = tuple(tmp_path / f"f %d.{frame}.png" for frame in frames)
    for index, path in enumerate(paths):
        out = oiio.ImageOutput.create(str(path))
        assert out is not None
        assert out.open(str(path), oiio.ImageSpec(32, 18, 3, "uint8"))
        assert out.write_image(np.full((18, 32, 3), 0.2 * index, dtype=np.float32))
        out.close()
    (tmp_path / "scratch").mkdir()
    target = tmp_path / "film é.mp4"
    context = msgspec.structs.replace(
        chunk(),
        files=(PlannedFile(0, None, str(target)),),
        inputs={"input": PlannedInput(frames, tuple(map(str, paths)))},
        app=AppInstall("ffmpeg", "", (shutil.which("ffmpeg") or "",)),
        scratch=str(tmp_path / "scratch"),
        python=sys.executable,
    )
    (run,) = run_all(RENDERER, context)
    assert run.verdict.failure is None, run.lines[-20:]
    assert target.stat().st_size
    assert run.progress(None)[-1] == 1.0
    paths[1].unlink()
    (run,) = run_all(RENDERER, context)
    assert run.verdict.failure is not None
    assert "10" in run.verdict.reason
