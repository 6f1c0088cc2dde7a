"""The blender renderer from outside: what it refuses, and the command line and task it makes."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import OutputSpec, StepSpec
from farm.model.resources import Resources
from farm.model.states import FailureClass
from farm.renderers import blender
from farm.renderers.base import AppInstall, ChunkContext, Invocation, PlannedFile, read_params
from farm.renderers.blender import RENDERER
from farm.renderers.blender_outputs import mixdown_range
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
        (("/o/a.####.png",), {"views": ["left", "right"]}, "2 views and 1 outputs"),
        (("/o/a.####.png", "/o/b.####.png"), {"views": ["left", "left"]}, "twice"),
        (("/o/a.####.png",), {"node_outputs": [{"node": "P", "slot": "Z"}]}, "1 node outputs and 1 outputs"),
        (
            ("/o/a.####.png", "/o/b.####.exr", "/o/c.####.exr"),
            {"node_outputs": [{"node": "P", "slot": "Z"}, {"node": "P", "slot": "Z"}]},
            "named twice",
        ),
        (("/o/a.####.png", "/o/b.####.exr"), {"node_outputs": [{"node": "", "slot": "Z"}]}, "has no name"),
        (("/o/a.####.png", "/o/b.####.exr"), {"node_outputs": [{"slot": "Z"}]}, "node"),
        (("/o/a.####.png", "/o/b.####.exr"), {"node_outputs": [{"node": "P", "sloot": "Z"}]}, "sloot"),
        (("/o/a.####.png", "/o/b.####.avi"), {"node_outputs": [{"node": "P"}]}, "writes pictures"),
        (("/o/a.####.tga", "/o/b.####.exr"), {"node_outputs": [{"node": "P"}]}, "cannot write .tga"),
        (
            ("/o/a.####.png", "/o/b.####.exr"),
            {"node_outputs": [{"node": "P"}], "compositing": "off"},
            "need the compositor",
        ),
        (
            ("/o/a.####.png", "/o/b.####.png", "/o/c.####.exr"),
            {"view_layers": ["A", "B"], "node_outputs": [{"node": "P"}]},
            "joins view layers",
        ),
        (("/o/a.####.png",), {"mixdown": "1-9"}, "step of kind single"),
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


def test_outputs_are_pictures_by_layer_and_view_and_then_files_of_nodes() -> None:
    six = [f"/o/{name}.####.png" for name in "abcdef"]
    assert checked(*six[:4], view_layers=["A", "B"], views=["left", "right"]) == []
    nodes = [{"node": "P", "slot": "Z", "view": view} for view in ("left", "right")]
    assert (
        checked(*six[:2], "/o/z.####.tga", "/o/y.####.dpx", views=["left", "right"], node_outputs=nodes) == []
    )
    assert read_params(RENDERER, {"view_layers": ["A", "B"], "views": ["l", "r"]}).pictures() == 4
    (made,) = RENDERER.invocations(chunk(views=["left"], node_outputs=[{"node": "P", "tree": "Grp"}]))
    task = json.loads(made.write["/scratch/task.json"])
    assert (task["views"], task["mixdown"]) == (["left"], [])
    assert task["node_outputs"] == [{"node": "P", "slot": "", "tree": "Grp", "view": ""}]


def sound_step(*patterns: str, **params: object) -> list[str]:
    given = {"scene": "/p/a.blend", **params}
    step = StepSpec(
        name="sound",
        renderer="blender",
        kind="single",
        params=given,
        outputs=tuple(OutputSpec(pattern, "single") for pattern in patterns),
    )
    return RENDERER.check(step, read_params(RENDERER, given))


def test_a_single_step_mixes_sound() -> None:
    assert sound_step("/o/a.flac", mixdown="1-250") == []
    assert sound_step("/o/a.WAV", mixdown="-5") == []
    context = ChunkContext(
        params=read_params(RENDERER, {"scene": "/p/a.blend", "mixdown": "-5-7"}),
        frames=(),
        step_frames=None,
        files=(PlannedFile(0, None, "/out/a.flac"),),
        patterns=(),
        app=EXE,
        scratch="/scratch",
    )
    (made,) = RENDERER.invocations(context)
    task = json.loads(made.write["/scratch/task.json"])
    assert (task["mixdown"], task["sound"], task["frames"]) == ([-5, 7], "/out/a.flac", [])


@pytest.mark.parametrize(
    ("patterns", "mixdown", "words"),
    [
        (("/o/a.flac",), "", "names no frames"),
        (("/o/a.flac",), "1-9x2", "one run of frames"),
        (("/o/a.flac",), "9-1", "one run of frames"),
        (("/o/a.flac",), "1,2", "one run of frames"),
        (("/o/a.mp3",), "1-9", "one sound file"),
        (("/o/a.flac", "/o/b.flac"), "1-9", "one sound file"),
        ((), "1-9", "one sound file"),
    ],
)
def test_a_single_step_that_mixes_nothing_is_refused(
    patterns: tuple[str, ...], mixdown: str, words: str
) -> None:
    with pytest.raises(JobFileError, match=words):
        sound_step(*patterns, mixdown=mixdown)


@given(st.integers(-4999999, 4999999), st.integers(-4999999, 4999999))
def test_the_range_of_a_mixdown_is_read_as_the_farm_writes_ranges(first: int, last: int) -> None:
    text = f"{first}-{last}"
    if last < first:
        with pytest.raises(JobFileError):
            mixdown_range(text)
        return
    assert mixdown_range(text) == (first, last)
    frames = FrameRange.parse(text)
    assert (frames.first, len(frames)) == (first, last - first + 1)


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


def test_progress_counts_renders_not_the_files_they_write() -> None:
    sample = "Fra:7 Mem:8M | Time:00:00.1 | Scene, A | Sample 4/8"
    lines = [
        'FARM {"event": "start", "frame": 7}',
        sample,
        "Saved: '/scratch/render_L.png'",
        "Saved: '/scratch/render_R.png'",
        sample,
        "Saved: '/scratch/nodes/0/slot0_0007.exr'",
    ]
    given = chunk(view_layers=["A", "B"], views=["left", "right"])
    run = replay(RENDERER, given, Invocation(argv=(), frames=(7, -3)), lines, 0)
    assert run.progress(7) == [0.25, 0.75]
    assert run.warnings == []
    node = chunk(node_outputs=[{"node": "P", "slot": "Z"}])
    assert replay(RENDERER, node, Invocation(argv=(), frames=(7, -3)), lines[:2], 0).progress(7) == [0.5]


def test_a_log_of_a_version_nobody_knows_says_nothing_wrong() -> None:
    lines = ["Frame seven: 12 of 40 passes", "[render] 0x7 ok", "Wrote picture /scratch/render.png", "%%%"]
    run = replay(RENDERER, chunk(), Invocation(argv=(), frames=(7,)), lines, 0)
    assert (run.verdict.failure, run.problems, run.warnings, run.started) == (None, [], [], [])


def test_tiles_count_into_progress() -> None:
    lines = ["Fra:7 Mem:8M | Time:00:00.1 | Scene, A | Rendered 1/4 Tiles, Sample 8/16"]
    given = chunk(view_layers=["A", "B"])
    run = replay(RENDERER, given, Invocation(argv=(), frames=(7,)), lines, 0)
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


@pytest.mark.parametrize(
    "name", ["blender_runner", "blender_assets", "blender_nodes", "blender_sound", "blender_talk"]
)
def test_the_runner_is_python_3_7_and_needs_only_the_standard_library_and_bpy(name: str) -> None:
    tree = ast.parse((RUNNERS / f"{name}.py").read_text(), feature_version=(3, 7))
    own = {"blender_assets", "blender_nodes", "blender_sound", "blender_talk"}
    allowed = own | {"bpy", "ctypes", "json", "os", "re", "shutil", "sys", "time", "traceback"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= allowed
        if isinstance(node, ast.ImportFrom):
            assert node.module in allowed
        # Not in 3.7, whatever feature_version lets through.
        assert not isinstance(node, ast.NamedExpr | ast.Match)
