"""The blender renderer from outside: what it refuses, and the command line and task it makes."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from farm.model.errors import JobFileError
from farm.model.jobs import OutputSpec, StepSpec
from farm.model.resources import Resources
from farm.model.states import FailureClass
from farm.renderers import blender
from farm.renderers.base import AppInstall, ChunkContext, Invocation, PlannedFile, read_params
from farm.renderers.blender import RENDERER
from tests.support.run_invocation import replay

RUNNERS = Path(blender.__file__).with_name("runners")
EXE = AppInstall("blender", "3.4.1", ("/usr/bin/blender",))
WHEEL = AppInstall("blender", "4.2.23", ("/venv/bin/python",), "bpy")


def checked(*patterns: str, gpus: int = 0, **params: object) -> list[str]:
    given = {"scene": "/p/a.blend", "engine": "CYCLES", **params}
    step = StepSpec(
        name="beauty",
        renderer="blender",
        frames="1-3",
        params=given,
        outputs=tuple(OutputSpec(pattern) for pattern in patterns or ("/out/a.####.png",)),
        resources=Resources(gpus=gpus),
    )
    return RENDERER.check(step, read_params(RENDERER, given))


def chunk(app: AppInstall = EXE, **params: object) -> ChunkContext:
    return ChunkContext(
        params=read_params(RENDERER, {"scene": "/p/ä %d #{x}.blend", "engine": "CYCLES", **params}),
        frames=(7, -3),
        step_frames=None,
        files=tuple(
            PlannedFile(output, frame, f"/out/{output}.{frame}.png") for output in (1, 0) for frame in (-3, 7)
        ),
        patterns=(),
        app=app,
        cores=6,
        gpus=(1, 3),
        scratch="/scratch",
    )


def test_the_command_line_is_in_an_order_that_blender_honours() -> None:
    (made,) = RENDERER.invocations(chunk())
    argv = list(made.argv)
    assert argv[:2] == ["/usr/bin/blender", "-b"]
    script = argv.index("--python")
    for before in ("--factory-startup", "-Y", "--python-exit-code", "-t", "-noaudio"):
        assert argv.index(before) < script
    assert argv[argv.index("--python-exit-code") + 1] == "64"
    assert argv[argv.index("-t") + 1] == "6"
    assert argv[script + 2 :] == ["--", "/scratch/task.json"]
    assert Path(argv[script + 1]).is_file()
    # Neither a frame nor an output path is on the command line, where Blender reads them its own way.
    assert not {"-f", "-s", "-e", "-a", "-o", "-F"} & set(argv)


def test_autoexec_and_user_settings_are_explicit() -> None:
    (made,) = RENDERER.invocations(chunk(autoexec=True, user_settings=True))
    assert "-y" in made.argv
    assert "-Y" not in made.argv
    assert "--factory-startup" not in made.argv
    assert not any(key.startswith("BLENDER_USER") for key in made.env)


def test_the_wheel_is_started_as_its_interpreter() -> None:
    (made,) = RENDERER.invocations(chunk(WHEEL))
    assert made.argv[0] == "/venv/bin/python"
    assert made.argv[1].endswith("blender_runner.py")
    assert made.argv[2:] == ("/scratch/task.json",)


def test_the_task_lists_exact_frames_with_their_files_in_order_of_outputs() -> None:
    (made,) = RENDERER.invocations(chunk(view_layers=["A", "B"], samples=4))
    text = made.write["/scratch/task.json"]
    assert text.isascii()
    task = json.loads(text)
    assert task["frames"] == [
        {"frame": 7, "files": ["/out/0.7.png", "/out/1.7.png"]},
        {"frame": -3, "files": ["/out/0.-3.png", "/out/1.-3.png"]},
    ]
    assert task["scene"] == "/p/ä %d #{x}.blend"
    assert task["view_layers"] == ["A", "B"]
    assert (task["threads"], task["gpus"], task["samples"]) == (6, 2, 4)
    assert made.frames == (7, -3)


def test_only_the_leased_gpus_are_visible() -> None:
    (made,) = RENDERER.invocations(chunk())
    assert made.env["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert made.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert made.env["TMPDIR"] == "/scratch"


@pytest.mark.parametrize(
    ("patterns", "params", "words"),
    [
        ((), {"scene": ""}, "needs a scene"),
        (("/o/a.####.mp4",), {}, "writes pictures, not .mp4"),
        (("/o/a.####.webp",), {}, "cannot write .webp"),
        (("/o/a.####",), {}, "cannot write"),
        (("/o/a.####.png", "/o/b.####.png"), {}, "as many view layers"),
        (("/o/a.####.png",), {"view_layers": ["A", "B"]}, "2 view layers and 1 outputs"),
        (("/o/a.####.png", "/o/a.####.png"), {"view_layers": ["A", "B"]}, "two outputs are the same"),
        (("/o/a.####.png", "/o/b.####.png"), {"view_layers": ["A", "A"]}, "twice"),
        ((), {"view_layer": "A", "view_layers": ["A"]}, "not both"),
        ((), {"format": "EXR"}, ".png is not a suffix of EXR"),
        (("/o/a.####.jpg",), {"color_depth": "16"}, "16 bits"),
        ((), {"device": "optix"}, "needs a GPU"),
        ((), {"device": "voodoo"}, "device"),
        ((), {"samples": -1}, "samples"),
        ((), {"sampels": 1}, "no parameter 'sampels'"),
    ],
)
def test_what_can_never_work_is_refused_at_submit(
    patterns: tuple[str, ...], params: dict[str, object], words: str
) -> None:
    with pytest.raises(JobFileError, match=words):
        checked(*patterns, **params)


def test_what_works_is_accepted_with_warnings_where_due() -> None:
    assert checked() == []
    assert checked("/o/{A}.%04d.EXR", format="EXR_MULTILAYER", color_depth="32") == []
    assert checked("/o/a.####.png", "/o/b.####.png", view_layers=["A", "B"]) == []
    assert checked(gpus=1, device="cuda") == []
    assert checked(view_layer="ViewLayer", camera=None) == []
    assert "idle" in checked(gpus=1, device="cpu")[0]
    assert checked(engine="") == []


def test_with_the_runner_inside_a_saved_line_finishes_nothing() -> None:
    lines = [
        'FARM {"event": "hello"}',
        'FARM {"event": "start", "frame": 7}',
        "Fra:7 Mem:8M | Time:00:00.1 | Scene, A | Sample 4/8",
        "Saved: '/scratch/render.png'",
        "Fra:7 Mem:8M | Time:00:00.1 | Scene, B | Sample 4/8",
        'FARM {"event": "progress", "frame": 7, "fraction": 0.5}',
        "Saved: '/proj/nodes/depth0007.exr'",
        'FARM {"event": "finish", "frame": 7}',
    ]
    run = replay(RENDERER, chunk(view_layers=["A", "B"]), Invocation(argv=(), frames=(7, -3)), lines, 0)
    assert run.started == [7]
    assert run.finished == [7]
    assert run.progress(7) == [0.25, 0.75]
    assert len(run.warnings) == 1
    assert "/proj/nodes/depth0007.exr" in run.warnings[0]
    assert run.verdict.failure is None


def test_tiles_count_into_progress() -> None:
    lines = ["Fra:7 Mem:8M | Time:00:00.1 | Scene, A | Rendered 1/4 Tiles, Sample 8/16"]
    run = replay(RENDERER, chunk(), Invocation(argv=(), frames=(7,)), lines, 0)
    assert run.progress(7) == [pytest.approx(0.375 / 2)]


def test_python_trouble_of_the_scene_is_a_warning_ours_is_fatal() -> None:
    trouble = ["Traceback (most recent call last):", '  File "driver", line 1', "KeyError: 'x'"]
    run = replay(RENDERER, chunk(), Invocation(argv=(), frames=(7,)), trouble, 0)
    assert run.verdict.failure is None
    assert run.warnings == ["Python in the scene failed: KeyError: 'x'"]
    trouble[0] = "Error: Python: " + trouble[0]
    run = replay(RENDERER, chunk(), Invocation(argv=(), frames=(7,)), trouble, 64)
    assert run.verdict.failure is FailureClass.CONFIG


def test_exit_codes() -> None:
    assert RENDERER.judge(64, []).failure is FailureClass.CONFIG
    assert RENDERER.judge(-15, []).failure is FailureClass.RENDERER
    assert RENDERER.judge(-9, []).failure is FailureClass.OOM_RAM
    assert RENDERER.judge(0, []).failure is None


@pytest.mark.parametrize("name", ["blender_runner.py", "blender_assets.py"])
def test_the_runner_is_python_3_7_and_needs_only_the_standard_library_and_bpy(name: str) -> None:
    tree = ast.parse((RUNNERS / name).read_text(), feature_version=(3, 7))
    allowed = {"bpy", "blender_assets", "ctypes", "json", "os", "re", "shutil", "sys", "time", "traceback"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= allowed
        if isinstance(node, ast.ImportFrom):
            assert node.module in allowed
        # Not in 3.7, whatever feature_version lets through.
        assert not isinstance(node, ast.NamedExpr | ast.Match)
