"""What people type becomes the job they meant, or an error that says what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.model.errors import CallError, FrameRangeError, NotBuiltYet
from farm.model.jobs import AfterSpec, JobSpec
from farm.sdk.jobfile import check_job_here
from farm.sdk.submit_inputs import make_job
from farm.sdk.submit_options import SubmitOptions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scene.blend").write_bytes(b"BLENDER")
    (tmp_path / "box.xml").write_text("<scene/>", encoding="utf-8")
    (tmp_path / "clip.mov").write_bytes(b"mov")
    (tmp_path / "grade.cube").write_text("lut", encoding="utf-8")
    for frame in range(1, 6):
        (tmp_path / f"shot.{frame:04d}.png").touch()
    (tmp_path / "out").mkdir()
    return tmp_path


def make(folder: Path, **options: Any) -> JobSpec:
    """The job, checked as it would be before it is sent."""
    job, _ = make_job(SubmitOptions(**options), str(folder))
    check_job_here(job)
    return job


def test_a_scene_into_a_folder(folder: Path) -> None:
    job = make(folder, file="scene.blend", frames="1-12", output="out", params=("engine=CYCLES",), chunk="4")
    (step,) = job.steps
    assert job.name == "scene"
    assert job.user == ""  # the broker takes the key's
    assert (step.name, step.renderer, step.kind, step.frames, step.chunk) == (
        "render",
        "blender",
        "per_frame",
        "1-12",
        4,
    )
    assert step.params == {"scene": str(folder / "scene.blend"), "engine": "CYCLES"}
    assert step.outputs[0].pattern == str(folder / "out" / "render.####.png")


def test_a_scene_with_a_pattern_and_a_format(folder: Path) -> None:
    job = make(folder, file="scene.blend", frames="1-2", output="out/b_%03d.exr")
    assert job.steps[0].outputs[0].pattern == str(folder / "out" / "b_%03d.exr")
    job = make(folder, file="scene.blend", frames="1-2", output="out", params=("format=EXR",))
    assert job.steps[0].outputs[0].pattern.endswith("render.####.exr")
    job = make(folder, file="box.xml", frames="1", output="out")
    assert (job.steps[0].renderer, job.steps[0].outputs[0].pattern[-4:]) == ("mitsuba", ".exr")


def test_a_scene_into_a_movie_gets_a_step_that_joins_its_frames(folder: Path) -> None:
    job, warnings = make_job(
        SubmitOptions(file="scene.blend", frames="1-12", output="out/film.mp4", rate="25/1"), str(folder)
    )
    check_job_here(job)
    render, film = job.steps
    assert render.outputs[0].pattern == str(folder / "out" / "film_frames" / "render.####.png")
    assert film.params == {"input": {"step": "render", "output": 0}, "rate": "25/1"}
    assert film.outputs[0].pattern == str(folder / "out" / "film.mp4")
    assert (film.after, film.movie_frames) == (("render",), 12)
    assert warnings == [f"the frames of film.mp4 are kept in {folder / 'out' / 'film_frames'}"]


def test_encode_adds_a_movie_beside_the_frames(folder: Path) -> None:
    job = make(folder, file="scene.blend", frames="1-12", output="out/b.####.png", encode="ffv1")
    assert job.steps[1].outputs[0].pattern == str(folder / "out" / "film.mkv")
    assert job.steps[1].params["encode"] == "ffv1"


def test_a_sequence_is_filtered_frame_by_frame(folder: Path) -> None:
    job = make(folder, file="shot.####.png", filter="hue=s=0", output="out", encode="h264")
    grade, film = job.steps
    assert (grade.renderer, grade.kind, grade.frames) == ("ffmpeg", "per_frame", "1-5")
    assert grade.params == {"input": str(folder / "shot.####.png"), "filter": "hue=s=0"}
    assert grade.outputs[0].pattern == str(folder / "out" / "filter.####.png")
    assert film.movie_frames == 5


def test_a_sequence_becomes_a_movie(folder: Path) -> None:
    job = make(folder, file="shot.%04d.png", output="out/film.mp4")
    (film,) = job.steps
    assert (film.name, film.renderer, film.kind) == ("film", "stitch", "single")
    assert film.params == {"input": str(folder / "shot.%04d.png"), "frames": "1-5"}
    folder_of_one = make(folder, file=".", encode="h264", output="out")
    assert folder_of_one.steps[0].params["input"] == str(folder / "shot.####.png")


def test_a_clip_is_filtered_as_a_whole(folder: Path) -> None:
    job = make(folder, file="clip.mov", filter="scale=960:-2", output="out/small.mp4")
    (step,) = job.steps
    assert (step.kind, step.frames, step.outputs[0].kind) == ("single", None, "movie")
    assert step.params == {"input": str(folder / "clip.mov"), "filter": "scale=960:-2"}
    assert (
        make(folder, file="clip.mov", encode="ffv1", output="out")
        .steps[0]
        .outputs[0]
        .pattern.endswith("filter.mkv")
    )


def test_a_command_takes_arguments_as_they_are(folder: Path) -> None:
    program = ("python3", "make it.py", "{frame:04}", "{output}", "100%", "#1", "a'b")
    job = make(folder, program=program, frames="1-3", output="out/f.####.txt")
    (step,) = job.steps
    assert step.params == {"command": list(program)}
    assert (step.renderer, step.kind, job.name) == ("command", "per_frame", "python3")
    whole = make(folder, renderer="command", program=("true",))
    assert (whole.steps[0].kind, whole.steps[0].outputs) == ("single", ())
    one = make(folder, program=("touch", "{output}"), output="out/one.txt")
    assert (one.steps[0].kind, one.steps[0].outputs[0].kind) == ("single", "single")


def test_parameters_are_typed_by_their_record(folder: Path) -> None:
    params = (
        "samples=64",
        "autoexec=true",
        "camera=7",
        'view_layers=["A","B"]',
        "parameters.radius=2.5",
        "parameters.name=big one",
        "scene_script=",
    )
    job, _ = make_job(SubmitOptions(file="scene.blend", frames="1", output="out", params=params), str(folder))
    found = job.steps[0].params
    assert found["samples"] == 64
    assert found["autoexec"] is True
    assert found["camera"] == "7"
    assert list(found["view_layers"]) == ["A", "B"]
    assert found["parameters"] == {"radius": 2.5, "name": "big one"}


def test_needs_and_where(folder: Path) -> None:
    job = make(
        folder,
        file="scene.blend",
        frames="1-2",
        output="out",
        cores=4,
        ram_mib=8192,
        gpus=1,
        vram_mib=24000,
        pools=("gpu",),
        site="local",
        version=">=4.2,<5",
        attributes=("os=linux",),
        env=("A=b=c",),
        timeout_s=60.0,
        attempts=2,
        priority=70,
        project="film",
        checks=("black",),
        existing="skip",
    )
    step = job.steps[0]
    assert (step.resources.cores, step.resources.ram_mib, step.resources.gpus) == (4, 8192, 1)
    assert (step.pools, step.site, step.version) == (("gpu",), "local", ">=4.2,<5")
    assert (step.attributes, step.env, step.timeout_s, step.attempts) == (
        {"os": "linux"},
        {"A": "b=c"},
        60.0,
        2,
    )
    assert (job.priority, job.project, step.checks, step.existing) == (70, "film", ("black",), "skip")


def test_a_job_file_as_it_is_with_what_may_be_said_beside(folder: Path) -> None:
    (folder / "job.json").write_text(
        json.dumps(
            {
                "overcrank_job": 1,
                "name": "a",
                "extra": 1,
                "steps": [
                    {"name": "s", "kind": "single", "renderer": "command", "params": {"command": ["true"]}}
                ],
            }
        ),
        encoding="utf-8",
    )
    job, warnings = make_job(SubmitOptions(file="job.json", priority=10, paused=True), str(folder))
    assert (job.name, job.priority, job.paused) == ("a", 10, True)
    assert warnings == ["unknown key extra has no effect"]
    with pytest.raises(CallError, match="--frames does not go with a job file"):
        make_job(SubmitOptions(file="job.json", frames="1-2"), str(folder))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "what is to be done"),
    ({"file": "scene.blend", "output": "out"}, "which frames"),
    ({"file": "scene.blend", "frames": "1-2"}, "where to"),
    (
        {"file": "scene.blend", "frames": "1-2", "output": "out", "params": ("sample=1",)},
        "no parameter 'sample'",
    ),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "params": ("samples=x",)}, "--param samples"),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "params": ("samples",)}, "is not KEY=VALUE"),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "params": ("samples.x=1",)}, "is no table"),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "chunk": "few"}, "--chunk 'few'"),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "rate": "24/1"}, "--rate is a movie's"),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "priority": 200}, "priority"),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "existing": "keep"}, "existing"),
    ({"file": "scene.blend", "frames": "1-2", "output": "out", "env": ("A",)}, "--env 'A'"),
    (
        {"file": "scene.blend", "frames": "1-2", "output": "out", "program": ("x",), "renderer": "blender"},
        "goes with",
    ),
    ({"file": "notes.doc", "frames": "1", "output": "out"}, "no renderer takes"),
    ({"file": "clip.mov", "output": "out/x.mp4"}, "nothing to do"),
    ({"file": "clip.mov", "filter": "hue=s=0", "frames": "1-2", "output": "out/x.mp4"}, "as a whole"),
    ({"file": "shot.0001.png", "filter": "hue=s=0", "output": "out"}, "is one picture, not a sequence"),
    ({"file": "none.####.png", "filter": "hue=s=0", "output": "out"}, "there is no frame of"),
    ({"file": "out", "encode": "h264", "output": "out"}, "there is no sequence in"),
    ({"program": (), "frames": "1"}, "no program follows"),
    ({"program": ("echo", "{frame}")}, "which are they"),
    ({"program": ("echo", "{frame}"), "frames": "1-2", "encode": "h264"}, "needs the frames' files"),
    ({"program": ("echo",), "filter": "hue"}, "--filter goes with ffmpeg"),
    ({"program": ("x", "{output}"), "frames": "1-2", "output": "out"}, "name the output file"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_what_cannot_be_meant_is_refused(folder: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(CallError) as caught:
        make(folder, **options)
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_gaps_of_a_sequence_are_named_and_can_be_worked_round(folder: Path) -> None:
    (folder / "shot.0003.png").unlink()
    with pytest.raises(CallError, match="lacks frames 3") as caught:
        make(folder, file="shot.####.png", filter="hue=s=0", output="out")
    assert "--frames 1-2,4-5" in caught.value.hint
    job = make(folder, file="shot.####.png", filter="hue=s=0", output="out", frames="1-2,4-5")
    assert job.steps[0].frames == "1-2,4-5"
    for frame in (2, 4):
        (folder / f"shot.{frame:04d}.png").unlink()
    assert make(folder, file="shot.####.png", output="out/f.mp4", frames="1,5").steps[0].movie_frames == 2


def test_a_picture_of_a_sequence_leads_to_its_pattern(folder: Path) -> None:
    with pytest.raises(CallError) as caught:
        make(folder, file="shot.0002.png", filter="hue=s=0", output="out")
    assert caught.value.hint == f"for all of them write {folder / 'shot.####.png'}"


def test_a_bad_frame_range_keeps_its_position(folder: Path) -> None:
    with pytest.raises(FrameRangeError, match=r"--frames '1-10,,12': .*\(character 6\)") as caught:
        make(folder, file="scene.blend", frames="1-10,,12", output="out")
    assert caught.value.position == 5


@pytest.mark.parametrize("name", ["a.mlt", "a.pov", "template.yaml"])
def test_files_of_later_versions_are_refused_by_name(folder: Path, name: str) -> None:
    (folder / name).touch()
    with pytest.raises(NotBuiltYet, match=f"{name}: .* not built yet"):
        make(folder, file=name, frames="1", output="out")


def test_what_a_job_waits_for_and_its_order_are_its_first_steps(folder: Path) -> None:
    words = {"file": "scene.blend", "frames": "1-4", "output": "f.mp4"}
    job = make(
        folder,
        **words,
        order="coarse:2",
        after=("J12/sim", "j13"),
        frame_by_frame=True,
        offset=-1,
        on_failure="go",
    )
    first, film = job.steps
    assert first.order == "coarse:2"
    assert first.after == (
        AfterSpec(step="sim", job="J12", frames=True, offset=-1, on_failure="go"),
        AfterSpec(job="J13", frames=True, offset=-1, on_failure="go"),
    )
    assert (film.after, film.order) == (("render",), "forward")
    assert make(folder, **words, after=("J12",)).steps[0].after == (AfterSpec(job="J12"),)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"after": ("beauty",)}, "is not an address"),
        ({"after": ("J12/beauty/3",)}, "say a job or a step"),
        ({"frame_by_frame": True}, "--frame-by-frame goes with --after"),
        ({"on_failure": "go"}, "--on-failure goes with --after"),
        ({"after": ("J12",), "offset": 1}, "--offset goes with --frame-by-frame"),
        ({"order": "sideways"}, "is not an order"),
    ],
)
def test_waiting_that_makes_no_sense_is_refused(folder: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(CallError, match=words):
        make(folder, file="scene.blend", frames="1-4", output="out", **options)
