"""What is refused at submit, by field: a job must not fail on the farm for what is known here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.model.errors import CallError, JobFileError, NotBuiltYet
from farm.model.jobs import read_job
from farm.model.paths import PathMapper, PathRule
from farm.sdk.jobfile import check_job_here, job_bytes, load_job, with_token

Job = dict[str, Any]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A good job of two steps."""
    (tmp_path / "a.blend").write_bytes(b"BLENDER")
    return {
        "overcrank_job": 1,
        "name": "shot010",
        "steps": [
            {
                "name": "beauty",
                "renderer": "blender",
                "frames": "1-10",
                "params": {"scene": str(tmp_path / "a.blend"), "engine": "CYCLES"},
                "outputs": [{"pattern": str(tmp_path / "out" / "beauty.####.png")}],
            },
            {
                "name": "film",
                "kind": "single",
                "renderer": "stitch",
                "after": ["beauty"],
                "params": {"input": {"step": "beauty", "output": 0}},
                "outputs": [{"pattern": str(tmp_path / "out" / "film.mp4"), "kind": "movie"}],
            },
        ],
    }


def check(job: Job, *rules: PathRule) -> list[str]:
    spec, warnings = read_job(job)
    return warnings + check_job_here(spec, PathMapper(rules))


def test_a_good_job_passes(job: Job) -> None:
    assert check(job) == []


def edit(path: str, value: Any) -> Callable[[Job, Path], None]:
    """A change of one field; ``{dir}`` in a text is the test's folder."""

    def change(job: Job, folder: Path) -> None:
        target: Any = job
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in way:
            target = target[part]
        target[last] = value.replace("{dir}", str(folder)) if isinstance(value, str) else value

    return change


REFUSALS: list[tuple[Callable[[Job, Path], None], str, str]] = [
    (edit("steps.0.renderer", "blendr"), "steps[0].renderer", "no renderer 'blendr'"),
    (edit("steps.0.params.scene", "{dir}/b.blend"), "steps[0].params.scene", "b.blend does not exist"),
    (edit("steps.0.params.scene", "a.blend"), "steps[0].params.scene", "not an absolute path"),
    (edit("steps.0.params.scene", 7), "steps[0].params.scene", "Expected `str`"),
    (edit("steps.0.params.sene", "x"), "steps[0].params.sene", "has no parameter 'sene'"),
    (edit("steps.0.params.device", "cuda"), "steps[0].params.device", "needs a GPU"),
    (edit("steps.0.cwd", "{dir}/nowhere"), "steps[0].cwd", "nowhere does not exist"),
    (edit("steps.0.version", "newest"), "steps[0].version", "newest"),
    (
        edit("steps.0.outputs.0.pattern", "{dir}/out/beauty.png"),
        "steps[0].outputs[0].pattern",
        "all 10 frames",
    ),
    (
        edit("steps.0.outputs.0.pattern", "out/b.####.png"),
        "steps[0].outputs[0].pattern",
        "not an absolute path",
    ),
    (
        edit("steps.0.outputs.0.pattern", "{dir}/a.blend/b.####.png"),
        "steps[0].outputs[0].pattern",
        "is a file",
    ),
    (edit("steps.0.outputs.0.pattern", "P:\\out\\b.####.png"), "steps[0].outputs[0].pattern", "path rule"),
    (edit("steps.0.outputs.0.pattern", "{dir}/out/film.mp4"), "steps[0].outputs[0].pattern", ""),
    (edit("steps.1.outputs.0.pattern", "{dir}/out/beauty.0003.mov"), "", ""),
    (edit("steps.1.params.input.step", "beuty"), "steps[1].params.input.step", "no step 'beuty'"),
    (edit("steps.1.params.input.output", 1), "steps[1].params.input.output", "no output 1"),
    (edit("steps.1.after", []), "steps[1].params.input", "does not wait for it"),
    (edit("steps.1.params.rate", "23.976"), "steps[1].params.rate", "24000/1001"),
    (edit("steps.1.params.encode", "ffv1"), "steps[1].outputs[0].pattern", "ffv1 does not go into .mp4"),
    (edit("assets", [{"path": "{dir}/no.exr"}]), "assets[0].path", "not an absolute path"),
    (edit("assets", [{"path": "/nowhere/t.exr"}]), "assets[0].path", "/nowhere/t.exr does not exist"),
    (edit("assets", [{"path": "/nowhere/", "kind": "dir"}]), "assets[0].path", "the folder /nowhere/"),
    (edit("assets", [{"path": "/nowhere/t.<UDIM>.exr", "kind": "udim"}]), "assets[0].path", "<UDIM>"),
]


@pytest.mark.parametrize(("change", "path", "words"), REFUSALS)
def test_refusals_name_the_field(
    job: Job, tmp_path: Path, change: Callable[[Job, Path], None], path: str, words: str
) -> None:
    change(job, tmp_path)
    if path == "":
        # Next door, not the same file: a single file may have a name between those of a sequence.
        assert check(job) == []
        return
    with pytest.raises(JobFileError) as caught:
        check(job)
    assert caught.value.path == path
    assert caught.value.message.startswith(f"{path}: ")
    assert words in str(caught.value)


def test_what_the_renderer_cannot_do_yet_is_named_with_its_step(job: Job) -> None:
    job["steps"][1]["params"]["gaps"] = "hold"
    with pytest.raises(NotBuiltYet, match=r"^steps\[1\]\.params\.gaps: 'hold' is not built yet"):
        check(job)


def test_a_step_kind_the_renderer_does_not_know(job: Job) -> None:
    job["steps"][0] |= {"kind": "single", "renderer": "mitsuba"}
    del job["steps"][0]["frames"]
    with pytest.raises(JobFileError, match=r"steps\[0\]\.kind: mitsuba cannot run a single step"):
        check(job)


@pytest.mark.parametrize("other", ["out/beauty.####.png", "out/./beauty.%04d.png", "out/beauty.0007.png"])
def test_steps_of_one_job_must_not_write_one_file(job: Job, tmp_path: Path, other: str) -> None:
    kind = "single" if other.endswith("7.png") else "sequence"
    second = json.loads(json.dumps(job["steps"][0])) | {"name": "again"}
    second["outputs"] = [{"pattern": f"{tmp_path}/{other}", "kind": kind}]
    if kind == "single":
        second["frames"] = "1"
    job["steps"].insert(1, second)
    with pytest.raises(JobFileError, match="beauty and again would both write"):
        check(job)


def test_steps_that_share_a_pattern_but_no_frame_pass(job: Job) -> None:
    second = json.loads(json.dumps(job["steps"][0])) | {"name": "again", "frames": "11-20"}
    job["steps"].insert(1, second)
    assert check(job) == []


def test_a_path_rule_vouches_for_what_is_not_here(job: Job) -> None:
    rule = PathRule("P:\\proj", "/mnt/proj")
    job["steps"][0]["params"]["scene"] = "P:\\proj\\a.blend"
    job["steps"][0]["outputs"][0]["pattern"] = "p:/proj/out/b.####.png"
    with pytest.raises(JobFileError):
        check(job)
    assert check(job, rule) == []


def test_missing_frames_of_an_input_are_named(job: Job, tmp_path: Path) -> None:
    for frame in (1, 2, 4):
        (tmp_path / f"in.{frame:04d}.png").touch()
    film = job["steps"].pop(1)
    film |= {"after": [], "params": {"input": f"{tmp_path}/in.####.png", "frames": "1-6"}}
    job["steps"] = [film]
    with pytest.raises(JobFileError, match=r"steps\[0\]\.params\.input: frames 3,5-6 of .* do not exist"):
        check(job)
    film["params"]["frames"] = "1,2,4"
    assert check(job) == []
    film["params"]["frames"] = "100-200"
    with pytest.raises(JobFileError, match="there is no frame of 100-200"):
        check(job)


def test_existing_files_are_refused_when_asked(job: Job, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for frame in (3, 4, 12):
        (tmp_path / "out" / f"beauty.{frame:04d}.png").touch()
    assert check(job) == []
    job["steps"][0]["existing"] = "refuse"
    with pytest.raises(JobFileError, match=r"steps\[0\]\.outputs\[0\]\.pattern: frames 3-4 exist already"):
        check(job)
    job["steps"][0]["frames"] = "5-11"
    assert check(job) == []


def test_optional_assets_only_warn_and_tiles_are_found(job: Job, tmp_path: Path) -> None:
    (tmp_path / "t.1102.exr").touch()
    (tmp_path / "s.0001.exr").touch()
    job["assets"] = [
        {"path": f"{tmp_path}/t.<UDIM>.exr", "kind": "udim"},
        {"path": f"{tmp_path}/s.####.exr", "kind": "sequence"},
        {"path": "/nowhere/x", "required": False},
    ]
    assert check(job) == ["assets[2].path: /nowhere/x does not exist"]


def test_warnings_come_from_everywhere(job: Job) -> None:
    job |= {"warnings": ["the artist says hello"], "colour": "red"}
    job["steps"][0]["resources"] = {"cores": 1, "gpus": 1}
    job["steps"][0]["params"]["device"] = "cpu"
    found = check(job)
    assert found[0] == "unknown key colour has no effect"
    assert "the artist says hello" in found
    assert any(warning.startswith("steps[0]: device cpu leaves") for warning in found)


def test_a_job_file_is_read_with_its_name_in_every_error(tmp_path: Path, job: Job) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(job).encode())
    assert load_job(str(path))[0].name == "shot010"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(JobFileError, match=rf"^{path}: not JSON"):
        load_job(str(path))
    path.write_text(json.dumps(job | {"priority": 101}), encoding="utf-8")
    with pytest.raises(JobFileError, match="priority") as caught:
        load_job(str(path))
    assert caught.value.path == "priority"
    with pytest.raises(CallError, match=r"no\.json cannot be read: No such file"):
        load_job(str(tmp_path / "no.json"))
    with pytest.raises(CallError, match="cannot be read: Is a directory"):
        load_job(str(tmp_path))


def test_a_million_frame_input_is_checked_by_one_look_at_the_folder(job: Job, tmp_path: Path) -> None:
    (tmp_path / "in.0000001.png").touch()
    film = job["steps"].pop(1)
    film |= {"after": [], "params": {"input": f"{tmp_path}/in.#######.png", "frames": "1-1000000"}}
    job["steps"] = [film]
    with pytest.raises(JobFileError, match="frames 2-1000000 of"):
        check(job)


def test_a_token_is_given_once(job: Job) -> None:
    spec, _ = read_job(job)
    first, second = with_token(spec), with_token(spec)
    assert first.token
    assert first.token != second.token
    assert with_token(first) is first


def test_a_file_name_that_is_not_utf8_is_refused(job: Job, tmp_path: Path) -> None:
    spec, _ = read_job(job)
    import msgspec

    bad = msgspec.structs.replace(spec, name=os.fsdecode(b"caf\xe9"))
    with pytest.raises(JobFileError, match="a name is not UTF-8"):
        job_bytes(bad)
