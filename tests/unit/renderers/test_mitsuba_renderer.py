"""The mitsuba renderer from outside: what it refuses, and the task it makes."""

from __future__ import annotations

import json

import pytest

from farm.model.errors import JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import OutputSpec, StepSpec
from farm.model.resources import Resources
from farm.model.states import FailureClass
from farm.renderers.base import AppInstall, ChunkContext, Invocation, PlannedFile, read_params
from farm.renderers.mitsuba import RENDERER
from tests.support.run_invocation import replay


def checked(*patterns: str, gpus: int = 0, **params: object) -> list[str]:
    given = {"scene": "/p/a.xml", **params}
    step = StepSpec(
        name="beauty",
        renderer="mitsuba",
        frames="1-3",
        params=given,
        outputs=tuple(OutputSpec(pattern) for pattern in patterns or ("/out/a.####.exr",)),
        resources=Resources(gpus=gpus),
    )
    return RENDERER.check(step, read_params(RENDERER, given))


def chunk() -> ChunkContext:
    return ChunkContext(
        params=read_params(
            RENDERER, {"scene_script": "/p/s.py", "spp": 4, "parameters": {"tint": [1, 0, 0]}}
        ),
        frames=(7, -3),
        step_frames=FrameRange.parse("20-10,-3,7"),
        files=tuple(PlannedFile(0, frame, f"/out/é %d.{frame}.exr") for frame in (-3, 7)),
        patterns=(),
        app=AppInstall("mitsuba", "3.9.1", ("/venv/bin/python",)),
        cores=1,
        slice_cores=2,
        scratch="/scratch",
    )


def test_the_task_lists_exact_frames_and_no_thread_count_is_passed() -> None:
    (made,) = RENDERER.invocations(chunk())
    assert made.argv[0] == "/venv/bin/python"
    assert made.argv[1].endswith("mitsuba_runner.py")
    assert made.argv[2:] == ("/scratch/task.json",)
    task = json.loads(made.write["/scratch/task.json"])
    assert task["frames"] == [
        {"frame": 7, "file": "/out/é %d.7.exr"},
        {"frame": -3, "file": "/out/é %d.-3.exr"},
    ]
    assert (task["first"], task["last"], task["spp"]) == (-3, 20, 4)
    assert not any("thread" in key.lower() for key in (*task, *made.env))
    assert RENDERER.whole_slice


@pytest.mark.parametrize(
    ("patterns", "params", "words"),
    [
        ((), {"scene": ""}, "either a scene or a scene_script"),
        ((), {"scene_script": "/p/s.py"}, "either a scene or a scene_script"),
        ((), {"width": 64}, "width and height"),
        ((), {"variant": "vulkan_rgb"}, "not a Mitsuba variant"),
        ((), {"variant": "cuda_ad_rgb"}, "needs a GPU"),
        ((), {"parameters": {"frame": 3}}, "is the farm's"),
        (("/o/a.####.tif",), {}, "cannot write .tif"),
        (("/o/a.####.exr", "/o/b.####.exr"), {}, "one output"),
        (("/o/a.####.png",), {"color_depth": "32"}, "32 bits"),
        (("/o/a.####.exr",), {"color_depth": "8"}, "8 bits"),
    ],
)
def test_what_can_never_work_is_refused_at_submit(
    patterns: tuple[str, ...], params: dict[str, object], words: str
) -> None:
    with pytest.raises(JobFileError, match=words):
        checked(*patterns, **params)


def test_llvm_only_when_asked_for_and_with_a_warning() -> None:
    assert checked() == []
    assert read_params(RENDERER, {}).variant == "scalar_rgb"
    assert "LLVM" in checked(variant="llvm_ad_rgb")[0]
    assert checked(gpus=1, variant="cuda_ad_rgb") == []


def test_the_bar_becomes_progress_of_the_frame_that_was_started() -> None:
    lines = [
        "Rendering [====                ] (1ms, ETA: 4ms)",
        'FARM {"event": "start", "frame": -3}',
        "Rendering [=====               ] (1ms, ETA: 4ms)",
        "Rendering [===                 ] (1ms, ETA: 4ms)",
        "Rendering [====================] (5ms, ETA: 0ms)",
        'FARM {"event": "finish", "frame": -3}',
    ]
    run = replay(RENDERER, chunk(), Invocation(argv=()), lines, 0)
    assert run.progress(-3) == [0.25, 1.0]
    assert run.finished == [-3]
    assert run.progress(None) == []


def test_exit_codes() -> None:
    assert RENDERER.judge(64, []).failure is FailureClass.CONFIG
    assert RENDERER.judge(-6, []).failure is FailureClass.RENDERER
    assert RENDERER.judge(0, []).failure is None
