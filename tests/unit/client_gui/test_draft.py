"""Drafts without a window: what is filled in, what is wrong with it, and that nothing of a file gets lost."""

from __future__ import annotations

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from overcrank_povray import RENDERER as POVRAY

from client_gui.store.draft import Draft, Stage, path_text, problem_of, read_path
from client_gui.store.fields import JOB_GROUPS, KINDS, STEP_GROUPS, UNSET, Field, fields_of_renderer
from client_gui.views.submit_parts.inputs import document_of, open_job, open_paths, resolved_output
from client_gui.views.submit_parts.judge import Verdict, judge
from client_gui.views.submit_parts.shelf import Shelf
from farm.model.errors import CallError, JobFileError
from farm.model.jobs import read_job
from farm.renderers.registry import describe, get_renderer, renderers
from farm.sdk.jobfile import job_bytes

ALL = {**renderers(), "povray": POVRAY}


@pytest.fixture(autouse=True)
def _own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)


def command_job(**fields: Any) -> dict[str, Any]:
    step = {
        "name": "make",
        "renderer": "command",
        "frames": "1-10",
        "params": {"command": ["/bin/echo", "{frame}"]},
    }
    return {"overcrank_job": 1, "name": "x", "steps": [step | fields]}


def draft(document: dict[str, Any]) -> Draft:
    return Draft("0" * 8, document)


def verdict(document: dict[str, Any]) -> Verdict:
    return judge("0" * 8, 0, json.dumps(document).encode(), None)


# -- fields ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_parameter_of_a_renderer_is_a_field_with_its_help_and_default(name: str) -> None:
    fields = {field.key: field for field in fields_of_renderer(ALL[name])}
    told = {info.name: info for info in describe(ALL[name])}
    assert list(fields) == list(told)
    for key, info in told.items():
        field = fields[key]
        assert field.kind in KINDS
        assert field.help == info.help
        assert field.required == info.required
        if not info.required:
            assert json.dumps(field.default) == info.default
            assert field.problem(field.default) == ""


def field(renderer: str, key: str) -> Field:
    return next(one for one in fields_of_renderer(ALL[renderer]) if one.key == key)


@pytest.mark.parametrize(
    ("renderer", "key", "value", "words"),
    [
        ("blender", "samples", "many", "needs a whole number from 0 to 1,000,000, not 'many'"),
        ("blender", "samples", -1, "needs a whole number from 0 to 1,000,000, not -1"),
        ("blender", "samples", 1.5, "needs a whole number from 0 to 1,000,000, not 1.5"),
        ("blender", "device", "gpu", 'needs one of "auto", "cpu", "cuda"'),
        ("blender", "autoexec", "yes", "needs yes or no, not 'yes'"),
        ("povray", "antialias", 7, "needs a number from 0 to 3, not 7"),
        ("povray", "scene", UNSET, "needs a text"),
        ("command", "command", [], "needs a program"),
        ("stitch", "frames", "1-", "no number follows the '-'"),
    ],
)
def test_a_value_of_the_wrong_type_or_beyond_a_limit_says_what_is_wanted(
    renderer: str, key: str, value: Any, words: str
) -> None:
    assert field(renderer, key).problem(value).startswith(words)


def test_values_are_refused_where_the_job_file_refuses_them_and_nowhere_else() -> None:
    known = {one.key: one for group in (*JOB_GROUPS, *STEP_GROUPS) for one in group.fields}
    for key, value, good in (
        ("chunk", "auto", True),
        ("chunk", 5, True),
        ("chunk", 0, False),
        ("chunk", "many", False),
        ("order", "coarse:8", True),
        ("order", "coarse:1", False),
        ("version", ">=4.2,<5", True),
        ("version", "four", False),
        ("checks", ["black", "nan"], True),
        ("checks", ["white"], False),
        ("resources.ram_mib", 8192, True),
        ("resources.ram_mib", "8 parsecs", False),
        ("failure.pause_share", 0.5, True),
        ("failure.pause_share", 2, False),
        ("movie_frames", None, True),
        ("env", {"A": "b"}, True),
        ("env", {"A": 1}, False),
    ):
        assert (known[key].problem(value) == "") is good, (key, value)
        document = command_job()
        made = draft(document)
        made.put(("steps", 0, *known[key].path), value)
        try:
            read_job(copy.deepcopy(document))
        except CallError:
            assert not good, (key, value)
        else:
            assert good or key == "version", (key, value)  # a version is checked with its renderer


# -- drafts ----------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_KNOWN = {"name", "renderer", "params", "frames", "outputs", "after", "kind", "movie_frames"}


@given(
    extra=st.dictionaries(st.text(min_size=1, max_size=8), _JSON, max_size=4),
    of_step=st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda key: key not in _KNOWN), _JSON),
    samples=st.integers(0, 99),
)
def test_what_a_file_holds_beyond_this_client_comes_out_as_it_went_in(
    extra: dict[str, Any], of_step: dict[str, Any], samples: int
) -> None:
    steps = [{"name": "a", "renderer": "blender", "params": {"novel": 1}, "frames": "1-3", **of_step}]
    document = {**extra, "overcrank_job": 1, "name": "x", "steps": steps}
    data = json.dumps(document).encode()
    made = draft(document_of(data, "x.json"))
    made.problems(ALL)
    assert json.loads(made.as_json()) == document, "looking at it changes nothing"
    made.put(("steps", 0, "params", "samples"), samples)
    steps[0]["params"]["samples"] = samples
    assert json.loads(made.as_json()) == document
    made.put(("steps", 0, "params", "samples"), UNSET)
    del steps[0]["params"]["samples"]
    again = Draft.from_record(msgspec.json.decode(msgspec.json.encode(made.record())))
    assert again.document == document


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["priority", "scout", "steps.0.frames", "steps.0.resources.cores", "steps.0.failure.silent_x"]
            ),
            st.integers(0, 100) | st.just(UNSET),
        ),
        max_size=12,
    )
)
def test_every_value_taken_away_again_leaves_the_job_it_was(changes: list[tuple[str, Any]]) -> None:
    before = command_job()
    made = draft(copy.deepcopy(before))
    for key, value in changes:
        path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
        made.put(path, value)
        assert made.value(path) == value
    for key, _ in changes:
        path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
        made.put(path, before["steps"][0]["frames"] if key.endswith("frames") else UNSET)
    assert made.document == before


def test_problems_name_the_place_and_all_of_them_are_told() -> None:
    document = command_job(frames="1-", resources={"cores": "two"}, outputs=[{"pattern": ""}])
    document["priority"] = 101
    found = {problem.where: problem.text for problem in draft(document).problems(ALL)}
    assert set(found) == {"priority", "steps[0].frames", "steps[0].resources.cores", "steps[0].outputs"}
    assert found["steps[0].resources.cores"].endswith("not 'two'")


def test_what_types_cannot_say_is_found_by_the_checks_of_submit_at_its_field(tmp_path: Path) -> None:
    document = command_job(params={"command": ["/bin/echo", "{nonsense}"]})
    (problem,) = verdict(document).problems
    assert (problem.where, problem.text) == ("steps[0].params.command[1]", "unknown token {nonsense}")
    scene = tmp_path / "gone.blend"
    step = {"name": "r", "renderer": "blender", "frames": "1", "params": {"scene": str(scene)}}
    step["outputs"] = [{"pattern": f"{tmp_path}/out/a.####.png"}]
    (problem,) = verdict({"overcrank_job": 1, "name": "x", "steps": [step]}).problems
    assert (problem.where, problem.text) == ("steps[0].params.scene", f"{scene} does not exist")
    scene.write_bytes(b"x")
    assert verdict({"overcrank_job": 1, "name": "x", "steps": [step]}).job


@pytest.mark.parametrize(
    ("message", "where", "text"),
    [
        ("steps[0].params.samples: too many", "steps[0].params.samples", "too many"),
        ("steps[0]: no node could ever take it", "steps[0]", "no node could ever take it"),
        ("priority: artists may go up to 75", "priority", "artists may go up to 75"),
        (
            "steps[0].resources.nvlink is not built yet",
            "steps[0].resources.nvlink",
            "steps[0].resources.nvlink is not built yet",
        ),
        ("steps[7].frames: what", "", "steps[7].frames: what"),
        ("ana (artist): no", "", "ana (artist): no"),
    ],
)
def test_a_refusal_is_put_beside_the_field_it_names(message: str, where: str, text: str) -> None:
    found = problem_of(message, "", command_job())
    assert (found.where, found.text) == (where, text)


@given(st.lists(st.sampled_from(["steps", "params", "a_b"]) | st.integers(0, 99), min_size=1, max_size=5))
def test_places_are_read_as_they_are_written(path: list[str | int]) -> None:
    assert read_path(path_text(["job", *path])) == ("job", *path)


def test_a_renamed_step_is_renamed_where_others_speak_of_it() -> None:
    made = draft(command_job())
    film = made.add_film(0)
    made.rename_step(0, "beauty")
    assert made.steps[film]["after"] == ["beauty"]
    assert made.steps[film]["params"]["input"] == {"step": "beauty", "output": 0}


def test_a_film_counts_the_frames_it_is_made_of_unless_somebody_gave_another_number() -> None:
    made = draft(command_job())
    film = made.add_film(0)
    assert made.steps[film]["movie_frames"] == 10
    made.put(("steps", 0, "frames"), "1-")
    made.put(("steps", 0, "frames"), "1-20")
    assert made.steps[film]["movie_frames"] == 20
    made.put(("steps", film, "movie_frames"), 7)
    made.put(("steps", 0, "frames"), "1-30")
    assert made.steps[film]["movie_frames"] == 7


def test_a_draft_on_its_way_cannot_be_changed_and_its_token_lasts_as_long_as_it_is_the_same() -> None:
    made = draft(command_job())
    token = made.seal("first")
    assert (token, made.seal("second")) == ("first", "first")
    made.put(("priority",), 60)
    assert made.seal("third") == "third"
    made.stage = Stage.SENDING
    with pytest.raises(CallError, match="on its way"):
        made.put(("priority",), 70)
    own = draft({**command_job(), "token": "mine"})
    assert own.seal("fresh") == "mine"


# -- opening ---------------------------------------------------------------------------------------------


def test_files_become_what_farm_submit_would_make_of_them(tmp_path: Path) -> None:
    scene = tmp_path / "shot.blend"
    scene.write_bytes(b"x")
    for frame in (1, 2, 4):
        (tmp_path / f"sh.{frame:04d}.png").write_bytes(b"x")
    (tmp_path / "job.json").write_text(json.dumps(command_job(novel=1)))
    paths = [tmp_path / "sh.0001.png", tmp_path / "sh.0002.png", scene, tmp_path / "job.json"]
    pictures, blend, job = open_paths([str(path) for path in paths])
    assert pictures.document is not None
    assert blend.document is not None
    assert job.document is not None
    step = pictures.document["steps"][0]
    assert step["params"] == {"input": str(tmp_path / "sh.####.png"), "frames": "1-2,4"}
    assert (step["renderer"], step["movie_frames"]) == ("stitch", 3)
    assert "lacks frames 3" in pictures.notes[0]
    assert blend.document["steps"][0]["params"] == {"scene": str(scene)}
    assert {one.where for one in draft(blend.document).problems(ALL)} == {
        "steps[0].frames",
        "steps[0].outputs",
    }
    assert job.document == command_job(novel=1)


def test_what_cannot_be_opened_says_why_and_the_rest_is_opened(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "text.txt").write_text("x")
    (tmp_path / "good.blend").write_bytes(b"x")
    names = ("list.json", "text.txt", "gone.blend", "good.blend")
    found = open_paths([str(tmp_path / name) for name in names])
    said = [str(one.error) if one.error else "" for one in found]
    assert said[0].startswith(f"{tmp_path}/list.json: not a job file")
    assert said[1].startswith("no renderer takes files like")
    assert said[2].endswith("gone.blend does not exist, or may not be read")
    assert said[3] == ""


def test_a_job_of_the_farm_is_done_again_without_what_belonged_to_the_first_time() -> None:
    job, _ = read_job({**command_job(), "token": "old", "paused": True, "scout": 2})
    opened = open_job(job_bytes(job), 12, "make", "3-5")
    assert opened.document is not None
    assert opened.origin == "J12/make"
    assert opened.document["steps"][0]["frames"] == "3-5"
    assert not {"token", "paused", "scout"} & set(opened.document)


def test_a_folder_becomes_a_pattern_in_it() -> None:
    step = {"name": "beauty", "renderer": "blender"}
    assert resolved_output("/out/", step, "exr") == ("/out/beauty.####.exr", "sequence")
    assert resolved_output("/out/a.####.png", step, "png") == ("/out/a.####.png", "sequence")
    film = {"name": "film", "kind": "single"}
    assert resolved_output("/out/", film, "mp4") == ("/out/film.mp4", "movie")
    assert resolved_output("/out/a.mov", film, "mp4") == ("/out/a.mov", "movie")


# -- the same as a command -------------------------------------------------------------------------------


def test_the_command_that_is_shown_makes_the_very_same_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from farm.cli.main import main

    scene = tmp_path / "a shot.blend"
    scene.write_bytes(b"x")
    made = draft(
        {
            "overcrank_job": 1,
            "name": "a shot",
            "priority": 60,
            "scout": 3,
            "project": "dune",
            "steps": [
                {
                    "name": "render",
                    "renderer": "blender",
                    "frames": "1-10",
                    "params": {"scene": str(scene), "samples": 64, "view_layers": ["A", "B, C"]},
                    "outputs": [{"pattern": str(tmp_path / "out" / "a.####.png")}],
                    "resources": {"cores": 4, "ram_mib": 8192},
                    "env": {"A": "b c"},
                    "limits": {"nuke": 1},
                    "checks": ["black"],
                }
            ],
        }
    )
    made.steps[0]["params"].pop("view_layers")
    command = verdict(made.document).command
    assert command.startswith("farm submit ")
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(command)[1:], "--dry-run"]) == 0
    told, _ = read_job(capsys.readouterr().out)
    wanted, _ = read_job(copy.deepcopy(made.document))
    assert msgspec.structs.replace(told, app=wanted.app) == wanted
    program = command_job(name="command", frames="1-3", cwd=str(tmp_path), outputs=[])
    program["name"] = "echo"
    assert verdict(program).command == (f"cd {tmp_path} && farm submit --frames 1-3 -- /bin/echo '{{frame}}'")
    made.steps[0]["pre"] = ["/bin/true"]
    assert verdict(made.document).job
    assert verdict(made.document).command == "", "no option says it, so only a job file does"


# -- on disk ---------------------------------------------------------------------------------------------


def test_drafts_come_back_from_the_disk_and_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "drafts")
    assert shelf.load() == ([], [])
    one = Draft("0a0a0a0a-1", command_job(novel=[1]), "from here", ("a note",), Stage.WAITING, "farm-A")
    one.seal("token")
    shelf.write(one.id, msgspec.json.encode(one.record()))
    (shelf.folder / "broken.json").write_text("{")
    (shelf.folder / "newer.json").write_text('{"overcrank_draft": 2}')
    (found,), troubles = Shelf(tmp_path / "drafts").load()
    assert found.record() == one.record()
    assert len(troubles) == 2
    assert (shelf.folder / "broken.json").exists()
    assert (shelf.path(one.id).stat().st_mode & 0o077) == 0, "a job may name what is secret"
    shelf.remove(one.id)
    assert shelf.load()[0] == []


def test_a_file_that_cannot_be_a_draft_is_refused_by_name() -> None:
    for document, words in (
        ("[1]", "not a job file"),
        ('{"overcrank_job": 2, "steps": [{}]}', "version 2 is not supported"),
        ('{"overcrank_job": 1, "steps": []}', "at least one step"),
        ('{"overcrank_job": 1, "steps": [3]}', r"steps\[0\]: is no step"),
        ('{"overcrank_job": 1, "steps": [{"params": []}]}', r"steps\[0\].params: is no table"),
        ("{", "not JSON"),
    ):
        with pytest.raises(JobFileError, match=words):
            document_of(document.encode(), "f.json")


def test_changing_the_renderer_keeps_what_both_have() -> None:
    made = draft(
        command_job(renderer="blender", params={"scene": "/a.blend", "width": 64, "engine": "CYCLES"})
    )
    made.set_renderer(0, get_renderer("mitsuba"))
    assert made.steps[0]["params"] == {"scene": "/a.blend", "width": 64}
    made.set_renderer(0, get_renderer("stitch"))
    assert made.steps[0]["kind"] == "single"
    assert "frames" not in made.steps[0]
