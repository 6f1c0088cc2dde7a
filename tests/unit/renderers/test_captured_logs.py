"""Every captured log of a real renderer, with its exit code, must give the verdict a wrangler would give."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.model.states import FailureClass
from farm.renderers.base import AppInstall, ChunkContext, Invocation, PlannedFile, PlannedInput, Renderer
from farm.renderers.blender import RENDERER as BLENDER
from farm.renderers.blender import BlenderParams
from farm.renderers.ffmpeg import RENDERER as FFMPEG
from farm.renderers.ffmpeg import FfmpegParams
from farm.renderers.mitsuba import RENDERER as MITSUBA
from farm.renderers.mitsuba import MitsubaParams
from tests.support.run_invocation import Run, log_lines, replay

LOGS = Path(__file__).parents[2] / "fixtures" / "renderer-logs"
CONFIG, PATH, NODE = FailureClass.CONFIG, FailureClass.PATH, FailureClass.NODE
OUTPUT, RENDERER = FailureClass.OUTPUT, FailureClass.RENDERER


def context_for(name: str) -> tuple[Renderer, ChunkContext, Invocation]:
    """A chunk that the log could be of."""
    program = name.partition("-")[0]
    if program == "mitsuba":
        context = ChunkContext(
            params=MitsubaParams(scene="cb.xml"), frames=(1,), step_frames=None, files=(), patterns=()
        )
        return MITSUBA, context, Invocation(argv=("x",), frames=(1,))
    if program == "ffmpeg":
        frames = tuple(range(1, 101))
        context = ChunkContext(
            params=FfmpegParams(input="seq/f_%04d.png"),
            frames=(),
            step_frames=None,
            files=(PlannedFile(0, None, "/proj/gap.mp4"),),
            patterns=("/proj/gap.mp4",),
            inputs={"input": PlannedInput(frames, tuple(f"seq/f_{frame:04}.png" for frame in frames))}
            if "gap" in name or "corrupt" in name
            else {"input": PlannedInput((), ("/proj/src.mp4",))},
            app=AppInstall("ffmpeg", "5.1.9", ("ffmpeg",)),
            scratch="/scratch",
        )
        return FFMPEG, context, Invocation(argv=("ffmpeg",))
    stem = {"eevee": "blender_eevee", "workbench": "blender_workbench"}.get(name.split("-")[2], "cycles")
    if "bpy" in name and "cycles-3frames" in name:
        stem = f"bpy{name.split('-')[1]}_cycles"
    frames = (1, 2, 3)
    context = ChunkContext(
        params=BlenderParams(scene="/proj/shot/cycles.blend"),
        frames=frames,
        step_frames=None,
        files=tuple(PlannedFile(0, frame, f"/proj/shot/out/{stem}_{frame:04}.png") for frame in frames),
        patterns=(),
        scratch="/scratch",
    )
    return BLENDER, context, Invocation(argv=("blender",), frames=frames)


def run_log(name: str, exit_code: int) -> Run:
    renderer, context, invocation = context_for(name)
    lines = log_lines((LOGS / f"{name}.log").read_bytes())
    return replay(renderer, context, invocation, lines, exit_code)


VERDICTS = [
    ("blender-3.4.1-cycles-3frames", 0, None, ""),
    ("blender-3.4.1-eevee-3frames", 0, None, ""),
    ("blender-3.4.1-workbench-3frames", 0, None, ""),
    ("blender-3.4.1-missing-blend", 1, CONFIG, "/proj/shot/nope.blend cannot be read"),
    ("blender-3.4.1-truncated-blend", 1, CONFIG, "damaged"),
    ("blender-3.4.1-opens-newer-file", 1, CONFIG, "too new"),
    ("blender-3.4.1-python-exception-exit0", 0, CONFIG, "RuntimeError: boom"),
    ("blender-3.4.1-python-exception-exit5", 5, CONFIG, "RuntimeError: boom"),
    # Blender prints nothing at all: only the runner can see this (tested with the real program).
    ("blender-3.4.1-missing-texture-exit0", 0, None, ""),
    ("blender-3.4.1-missing-library-exit0", 0, PATH, "/proj/shot/lib.blend is missing"),
    ("blender-3.4.1-unwritable-output", 1, PATH, "cannot write /proc/nodir/x_0001.png"),
    ("blender-3.4.1-disk-full", 1, PATH, "No space left on device"),
    ("blender-3.4.1-engine-not-found", 1, CONFIG, "no engine REDSHIFT"),
    ("blender-3.4.1-no-camera", 1, CONFIG, "no camera"),
    ("blender-3.4.1-bad-format-exit0", 0, CONFIG, "format"),
    ("blender-3.4.1-empty-range-exit0", 0, OUTPUT, "without rendering a frame"),
    ("blender-3.4.1-skip-existing-exit0", 0, OUTPUT, "was there before"),
    ("blender-3.4.1-sigterm-midframe", -15, RENDERER, "SIGTERM"),
    ("blender-3.4.1-sigterm-midframe", 143, RENDERER, "SIGTERM"),
    ("blender-3.4.1-sigint-ignored", 143, RENDERER, "interrupted"),
    ("blender-3.4.1-out-of-memory-segv", 139, RENDERER, "cycles.crash.txt; Blender crashed (SIGSEGV)"),
    ("blender-3.4.1-cycles-device-cuda-missing", 1, NODE, "no such GPU"),
    ("blender-3.4.1-cycles-device-bogus-exit0", 0, CONFIG, "BOGUS"),
    ("blender-3.4.1-stereo-views", 0, None, ""),
    ("blender-3.4.1-file-output-node", 0, None, ""),
    ("blender-3.4.1-movie-output", 0, CONFIG, "movie"),
    ("blender-4.2.23-bpy-cycles-3frames", 0, None, ""),
    ("blender-4.2.23-bpy-cycles-3frames", -11, RENDERER, "SIGSEGV"),
    ("blender-4.2.23-bpy-handlers-cycles", 0, None, ""),
    ("blender-4.5.15-bpy-cycles-3frames", 0, None, ""),
    ("blender-4.5.15-bpy-eevee-hang-at-exit", 124, RENDERER, "exit code 124"),
    ("blender-5.0.1-bpy-cycles-3frames", 0, None, ""),
    ("blender-5.0.1-bpy-handlers-eevee", 0, None, ""),
    ("blender-5.3.0-bpy-cycles-3frames", 0, None, ""),
    ("blender-5.3.0-bpy-handlers-cycles", 0, None, ""),
    ("blender-5.3.0-bpy-stereo-views", 0, None, ""),
    ("blender-5.3.0-bpy-file-output-node", 0, None, ""),
    ("blender-5.3.0-bpy-movie-output", 0, CONFIG, "movie"),
    ("blender-5.3.0-bpy-unwritable-output", 0, PATH, "cannot write /proc/nodir/x_0001.png"),
    ("ffmpeg-5.1.9-progress-pipe", 0, None, ""),
    ("ffmpeg-5.1.9-progress-stderr", 0, None, ""),
    ("ffmpeg-5.1.9-stats-cr", 0, None, ""),
    ("ffmpeg-5.1.9-sequence-gap-exit0", 0, PATH, "seq/f_0050.png"),
    ("ffmpeg-9.0.2-sequence-gap-exit0", 0, PATH, "seq/f_0050.png"),
    ("ffmpeg-5.1.9-corrupt-frame-exit0", 0, PATH, ""),
    ("ffmpeg-5.1.9-missing-input", 1, PATH, "nope_%04d.png"),
    ("ffmpeg-5.1.9-unwritable", 1, PATH, "/proc/zz/x.mp4"),
    ("ffmpeg-5.1.9-nvenc-no-driver", 1, NODE, "GPU"),
    ("ffmpeg-5.1.9-disk-full", 1, PATH, "No space left on device"),
    ("ffmpeg-5.1.9-disk-full-at-trailer-exit0", 0, PATH, "No space left on device"),
    ("ffmpeg-9.0.2-disk-full", 228, PATH, "No space left on device"),
    ("mitsuba-3.9.1-scalar-progress", 124, RENDERER, "exit code 124"),
    ("mitsuba-3.9.1-missing-scene", 255, CONFIG, "nope.xml"),
    ("mitsuba-3.9.1-unwritable", 255, PATH, "No such file or directory"),
    ("mitsuba-3.9.1-llvm15-abort", 134, CONFIG, "scalar_rgb"),
]


@pytest.mark.parametrize(("name", "exit_code", "failure", "words"), VERDICTS)
def test_a_captured_log_gives_the_right_verdict(
    name: str, exit_code: int, failure: FailureClass | None, words: str
) -> None:
    verdict = run_log(name, exit_code).verdict
    assert verdict.failure == failure, verdict
    assert words in verdict.reason


def test_every_log_here_is_used() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == {name for name, *_ in VERDICTS}


@pytest.mark.parametrize(
    "name",
    [
        "blender-3.4.1-cycles-3frames",
        "blender-3.4.1-eevee-3frames",
        "blender-3.4.1-workbench-3frames",
        "blender-4.2.23-bpy-cycles-3frames",
        "blender-4.5.15-bpy-cycles-3frames",
        "blender-5.0.1-bpy-cycles-3frames",
        "blender-5.3.0-bpy-cycles-3frames",
    ],
)
def test_saved_lines_of_every_layout_finish_their_frames(name: str) -> None:
    assert run_log(name, 0).finished == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("blender-3.4.1-cycles-3frames", [0.125, 1.0]),
        ("blender-4.5.15-bpy-cycles-3frames", [0.125, 1.0]),
        ("blender-3.4.1-eevee-3frames", [1 / 64, 26 / 64, 51 / 64, 1.0]),
    ],
)
def test_sample_lines_become_rising_progress(name: str, seen: list[float]) -> None:
    run = run_log(name, 0)
    for frame in (1, 2, 3):
        fractions = run.progress(frame)
        assert fractions == sorted(set(fractions))
        assert fractions[-1] == 1.0
    assert run.progress(3) == pytest.approx(seen, abs=0.01)


def test_a_file_outside_the_plan_is_a_warning_with_its_path() -> None:
    for name in ("blender-3.4.1-file-output-node", "blender-5.3.0-bpy-file-output-node"):
        warnings = run_log(name, 0).warnings
        assert any("beauty_0001" in text and "not verified" in text for text in warnings)


def test_frames_saved_before_a_full_disk_count() -> None:
    renderer, context, invocation = context_for("blender-3.4.1-disk-full")
    files = tuple(PlannedFile(0, frame, f"/proj/full/x_{frame:04}.png") for frame in (1, 2, 3, 4))
    context = ChunkContext(
        params=context.params,
        frames=(1, 2, 3, 4),
        step_frames=None,
        files=files,
        patterns=(),
        scratch="/scratch",
    )
    lines = log_lines((LOGS / "blender-3.4.1-disk-full.log").read_bytes())
    assert replay(renderer, context, invocation, lines, 1).finished == [1, 2]


def test_a_full_scratch_disk_is_the_nodes_fault() -> None:
    renderer, context, invocation = context_for("blender-3.4.1-disk-full")
    lines = log_lines((LOGS / "blender-3.4.1-disk-full.log").read_bytes().replace(b"/proj/full", b"/scratch"))
    assert replay(renderer, context, invocation, lines, 1).verdict.failure is NODE


def test_missing_libraries_can_be_let_through() -> None:
    renderer, _, invocation = context_for("blender-3.4.1-missing-library-exit0")
    context = ChunkContext(
        params=BlenderParams(scene="x", missing="warn"), frames=(1,), step_frames=None, files=(), patterns=()
    )
    lines = log_lines((LOGS / "blender-3.4.1-missing-library-exit0.log").read_bytes())
    run = replay(renderer, context, invocation, lines, 0)
    assert run.verdict.failure is None
    assert any("lib.blend" in text for text in run.warnings)


def test_a_whole_clip_shows_progress_by_frames_when_they_are_known() -> None:
    renderer, context, invocation = context_for("ffmpeg-gap")
    given = PlannedInput(tuple(range(200)), tuple(f"f{index}" for index in range(200)))
    context = ChunkContext(
        params=context.params,
        frames=(),
        step_frames=None,
        files=context.files,
        patterns=(),
        inputs={"input": given},
        scratch="/scratch",
    )
    lines = log_lines((LOGS / "ffmpeg-5.1.9-progress-pipe.log").read_bytes())
    run = replay(renderer, context, invocation, lines, 0)
    assert run.progress(None)[:3] == [0.005, 0.295, 0.365]
    assert run.progress(None)[-1] == 1.0
    assert run.verdict.failure is None


def test_counting_catches_a_short_movie_even_without_a_word() -> None:
    renderer, context, invocation = context_for("ffmpeg-gap")
    lines = log_lines((LOGS / "ffmpeg-5.1.9-progress-pipe.log").read_bytes())
    run = replay(renderer, context, invocation, lines, 0)  # 200 frames written, 100 planned
    assert run.verdict.failure is OUTPUT
    assert "200 of 100" in run.verdict.reason
