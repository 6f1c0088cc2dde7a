"""Every captured log, with its exit code, must give the verdict a wrangler would give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from overcrank_povray import RENDERER, PovrayParams

from farm.model.errors import JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import OutputSpec, StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import (
    ChunkContext,
    FrameStarted,
    LogEvent,
    PlannedFile,
    Problem,
    Progress,
    Verdict,
    read_params,
)

LOGS = Path(__file__).parent / "logs"

VERDICTS = [
    ("rendered", 0, None, ""),
    ("missing-scene", 1, FailureClass.CONFIG, "the scene cannot be opened"),
    ("missing-include", 1, FailureClass.PATH, "nope.inc is missing"),
    ("parse-error", 1, FailureClass.CONFIG, "No matching } in 'global_settings', string literal found"),
    ("bad-option", 1, FailureClass.CONFIG, "refuses an option"),
    ("unwritable", 1, FailureClass.NODE, "scratch folder"),
    ("disk-full", -6, FailureClass.NODE, "scratch folder"),
    ("interrupted", 2, FailureClass.RENDERER, "interrupted"),
]


def chunk(frames: tuple[int, ...] = (5,), step: str = "0-100", **params: object) -> ChunkContext:
    given = {"scene": "/proj/a b/ball.pov", **params}
    return ChunkContext(
        params=read_params(RENDERER, given),
        frames=frames,
        step_frames=FrameRange.parse(step),
        files=tuple(PlannedFile(0, frame, f"/out/é %d.{frame}.png") for frame in frames),
        patterns=(),
        cores=2,
        scratch="/scratch",
    )


def read(name: str, exit_code: int) -> tuple[list[LogEvent], Verdict]:
    context = chunk()
    parser = RENDERER.parser(context, RENDERER.invocations(context)[0])
    text = (LOGS / f"povray-3.7.0-{name}.log").read_bytes().decode()
    events = [event for line in re.split(r"[\r\n]+", text) if line for event in parser.feed(line)]
    return events, RENDERER.judge(exit_code, [event for event in events if isinstance(event, Problem)])


@pytest.mark.parametrize(("name", "exit_code", "failure", "words"), VERDICTS)
def test_a_captured_log_gives_the_right_verdict(
    name: str, exit_code: int, failure: FailureClass | None, words: str
) -> None:
    _, verdict = read(name, exit_code)
    assert verdict.failure is failure
    assert words in verdict.reason


def test_every_log_here_is_used() -> None:
    assert {path.stem.removeprefix("povray-3.7.0-") for path in LOGS.iterdir()} == {
        case[0] for case in VERDICTS
    }


def test_start_progress_and_the_authors_warning_are_told() -> None:
    events, _ = read("rendered", 0)
    assert events[0] == FrameStarted(5)
    fractions = [event.fraction for event in events if isinstance(event, Progress)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    (problem,) = [event for event in events if isinstance(event, Problem)]
    assert (problem.text, problem.warning) == ("careful", True)


def test_no_path_of_the_artist_reaches_the_command_line() -> None:
    (made,) = RENDERER.invocations(chunk(declare={"Level": 0.25}, antialias=0, color_depth="16"))
    assert not [word for word in made.argv if " " in word or "/proj/" in word or "%" in word]
    assert made.link == {"/scratch/scene.pov": "/proj/a b/ball.pov", "/scratch/project": "/proj/a b"}
    assert made.collect == {"/scratch/f005.png": "/out/é %d.5.png"}
    assert {"+KFI0", "+KFF100", "+SF5", "+EF5", "+FN16", "-A", "+WT2", "Declare=Level=0.25"} <= set(made.argv)


def test_a_process_a_frame_and_a_clock_that_runs_over_the_whole_step() -> None:
    made = RENDERER.invocations(chunk((9, 3), step="3-9"))
    assert [one.frames for one in made] == [(9,), (3,)]
    assert {"+KFI3", "+KFF9", "+SF9"} <= set(made[0].argv)
    # One frame alone would make the clock "not a number".
    (alone,) = RENDERER.invocations(chunk((9,), step="9"))
    assert {"+KFI9", "+KFF10"} <= set(alone.argv)
    assert list(alone.collect) == ["/scratch/f09.png"]


@pytest.mark.parametrize(
    ("frames", "output", "params", "words"),
    [
        ("-3-5", "/o/a.####.png", {}, "negative frame"),
        ("1-5", "/o/a.####.tif", {}, "cannot write .tif"),
        ("1-5", "/o/a.####.exr", {"color_depth": "16"}, "color_depth is for PNG"),
        ("1-5", "/o/a.####.png", {"declare": {"1x": 1.0}}, "'1x' is not a name"),
        ("1-5", "/o/a.####.png", {"quality": 12}, "<= 11"),
        ("1-5", "/o/a.####.png", {"colour": 1}, "no parameter 'colour'"),
    ],
)
def test_what_can_never_work_is_refused_at_submit(
    frames: str, output: str, params: dict[str, object], words: str
) -> None:
    given = {"scene": "/proj/a.pov", **params}
    step = StepSpec(name="r", renderer="povray", frames=frames, params=given, outputs=(OutputSpec(output),))
    with pytest.raises(JobFileError, match=words):
        RENDERER.check(step, read_params(RENDERER, given))


def test_every_parameter_has_a_default_but_the_scene() -> None:
    assert PovrayParams(scene="a.pov").clock_last == 1.0
