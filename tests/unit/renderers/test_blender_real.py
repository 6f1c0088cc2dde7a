"""Real renders by Blender, program and wheel: every lie it tells must be caught, every odd frame rendered."""

from __future__ import annotations

from pathlib import Path

import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.model.states import FailureClass
from farm.renderers.base import AppInstall
from tests.support.blender_scenes import APPS, SCENE, pixels, render, save_blend
from tests.support.run_invocation import need_real

pytestmark = [pytest.mark.real, pytest.mark.slow]

TEXTURE = """
material = bpy.data.materials.new("M")
material.use_nodes = True
node = material.node_tree.nodes.new("ShaderNodeTexImage")
node.image = bpy.data.images.new("T", 4, 4)
node.image.source = "FILE"
node.image.filepath = {path!r}
cube.data.materials.append(material)
"""


# The wheel (1 GB) belongs to the long tier: `python -m tests.long bpy` installs one and names it.
@pytest.fixture(params=["exe", "bpy"] if APPS["bpy"].argv else ["exe"])
def app(request: pytest.FixtureRequest) -> AppInstall:
    found = APPS[request.param]
    need_real(bool(found.argv and found.argv[0]), "Blender: apt install blender")
    return found


@pytest.fixture
def exe() -> AppInstall:
    need_real(bool(APPS["exe"].argv[0]), "Blender: apt install blender")
    return APPS["exe"]


def test_negative_and_sparse_frames_with_odd_names(tmp_path: Path, app: AppInstall) -> None:
    run, paths = render(
        tmp_path,
        app,
        frames=(-3, 2, 17),
        names=("b %d #{x}'é.{:04d}.png".replace("{x}", "{{x}}"),),
        folder="o #{%04d} ü",
    )
    assert run.verdict.failure is None, run.lines[-20:]
    assert run.started == run.finished == [-3, 2, 17]
    assert all(path.is_file() for path in paths.values())
    assert {oiio.ImageBuf(str(path)).spec().width for path in paths.values()} == {64}
    # The cube moves, so the pictures are of three different frames.
    assert len({tuple(pixels(path)) for path in paths.values()}) == 3
    assert sorted(path.name for path in (tmp_path / "o #{%04d} ü").iterdir()) == sorted(
        path.name for path in paths.values()
    )
    for frame in (-3, 2, 17):
        assert run.progress(frame)[-1] == 1.0


def test_a_frame_is_the_same_whichever_chunk_it_is_in(tmp_path: Path, exe: AppInstall) -> None:
    _, one = render(tmp_path, exe, frames=(2,), names=("x.{}.exr",))
    _, many = render(tmp_path, exe, frames=(9, 2, 1), names=("y.{}.exr",))
    assert pixels(one[0, 2]) == pixels(many[0, 2])
    assert str(oiio.ImageBuf(str(one[0, 2])).spec().format) in ("half", "float")


def test_old_frames_are_rendered_again(tmp_path: Path, exe: AppInstall) -> None:
    (tmp_path / "out").mkdir()
    stale = tmp_path / "out" / "a.0001.png"
    stale.write_bytes(b"an older version")
    run, _ = render(tmp_path, exe)  # the scene says: do not overwrite
    assert run.verdict.failure is None
    assert pixels(stale)


def test_formats_depths_and_sizes_are_those_asked_for(tmp_path: Path, exe: AppInstall) -> None:
    for suffix, depth, kind in (
        ("png", "16", "uint16"),
        ("exr", "32", "float"),
        ("tif", "8", "uint8"),
        ("jpg", "", "uint8"),
    ):
        run, paths = render(
            tmp_path,
            exe,
            names=(f"f.{{}}.{suffix}",),
            color_depth=depth,
            width=40,
            height=30,
            resolution_percent=50,
        )
        assert run.verdict.failure is None, run.lines[-20:]
        spec = oiio.ImageBuf(str(paths[0, 1])).spec()
        assert (spec.width, spec.height, str(spec.format)) == (20, 15, kind)


def test_a_saved_scene_opens_and_its_movie_format_is_overruled(tmp_path: Path, app: AppInstall) -> None:
    extra = "\nsettings = scene.render.image_settings\nif hasattr(settings, 'media_type'):\n"
    extra += " settings.media_type = 'VIDEO'\n"
    extra += "scene.render.image_settings.file_format = 'FFMPEG'\nscene.render.engine = 'CYCLES'\n"
    extra += "scene.cycles.use_denoising = False\nscene.cycles.device = 'GPU'\n"
    scene = save_blend(tmp_path, app, SCENE + extra)
    run, paths = render(tmp_path, app, scene=str(scene))
    assert run.verdict.failure is None, run.lines[-20:]
    assert pixels(paths[0, 1])
    assert any("asks for a GPU" in text for text in run.warnings)


def test_missing_and_damaged_scenes(tmp_path: Path, app: AppInstall) -> None:
    run, _ = render(tmp_path, app, scene=str(tmp_path / "nope.blend"))
    assert run.verdict.failure is FailureClass.CONFIG
    assert "nope.blend" in run.verdict.reason
    (tmp_path / "bad.blend").write_bytes(b"BLENDER-v304" + b"\0" * 500)
    run, _ = render(tmp_path, app, scene=str(tmp_path / "bad.blend"))
    assert run.verdict.failure is FailureClass.CONFIG
    assert "damaged" in run.verdict.reason


def test_a_missing_texture_fails_before_any_time_is_spent(tmp_path: Path, app: AppInstall) -> None:
    gone = str(tmp_path / "gone.png")
    run, paths = render(tmp_path, app, SCENE + TEXTURE.format(path=gone))
    assert run.verdict.failure is FailureClass.PATH
    assert gone in run.verdict.reason
    assert run.started == []
    assert not paths[0, 1].exists()
    run, paths = render(tmp_path, app, SCENE + TEXTURE.format(path=gone), missing="warn")
    assert run.verdict.failure is None
    assert any(gone in text for text in run.warnings)
    assert paths[0, 1].exists()


def test_packed_textures_unused_images_and_reference_pictures_are_no_trouble(
    tmp_path: Path, exe: AppInstall
) -> None:
    more = """
import os
node.image.source = "GENERATED"
node.image.filepath_raw = PATH
node.image.file_format = "PNG"
node.image.save()
node.image.source = "FILE"
node.image.pack()
os.unlink(PATH)
for name in ("stray", "shown"):
    image = bpy.data.images.new(name, 4, 4)
    image.source = "FILE"
    image.filepath = "/nowhere/" + name + ".png"
empty = bpy.data.objects.new("E", None)
empty.empty_display_type = "IMAGE"
empty.data = image
scene.collection.objects.link(empty)
"""
    path = str(tmp_path / "t.png")
    script = SCENE + TEXTURE.format(path=path) + more.replace("PATH", repr(path))
    run, _ = render(tmp_path, exe, script)
    assert run.verdict.failure is None, run.verdict
    assert any("shown.png" in text and "does not use" in text for text in run.warnings)
    assert not any("stray.png" in text for text in run.warnings)


def test_tiles_and_sequences_are_checked_for_the_frames_rendered(tmp_path: Path, exe: AppInstall) -> None:
    for name in ("u.1001.png", "s.0007.png"):
        (tmp_path / name).write_bytes(b"x")
    tiled = TEXTURE.format(path=str(tmp_path / "u.<UDIM>.png")) + (
        "node.image.source = 'TILED'\nnode.image.tiles.new(1101)\n"
    )
    run, _ = render(tmp_path, exe, SCENE + tiled)
    assert run.verdict.failure is FailureClass.PATH
    assert "u.1101.png" in run.verdict.reason
    sequence = TEXTURE.format(path=str(tmp_path / "s.0001.png")) + (
        "node.image.source = 'SEQUENCE'\nuser = node.image_user\nuser.frame_start = 1\n"
        "user.frame_offset = 6\nuser.frame_duration = 2\n"
    )
    run, _ = render(tmp_path, exe, SCENE + sequence, frames=(-4, 1))
    assert run.verdict.failure is None, run.verdict  # only 0007 is needed, and it is there
    run, _ = render(tmp_path, exe, SCENE + sequence, frames=(1, 2))
    assert run.verdict.failure is FailureClass.PATH
    assert "s.0008.png" in run.verdict.reason


def test_a_missing_library_is_named(tmp_path: Path, app: AppInstall) -> None:
    library = save_blend(tmp_path, app, SCENE, "lib.blend")
    link = (
        f"\nwith bpy.data.libraries.load({str(library)!r}, link=True) as (source, target):\n"
        " target.objects = ['Sun']\nfor one in target.objects:\n scene.collection.objects.link(one)\n"
    )
    scene = save_blend(tmp_path, app, SCENE + link, "main.blend")
    library.unlink()
    run, _ = render(tmp_path, app, scene=str(scene))
    assert run.verdict.failure is FailureClass.PATH
    assert "lib.blend" in run.verdict.reason
    assert run.started == []


def test_no_camera_wrong_camera_unknown_engine_and_layer(tmp_path: Path, app: AppInstall) -> None:
    for script, params, words in (
        (SCENE + "\nscene.camera = None\n", {}, "no camera"),
        (SCENE, {"camera": "Main"}, "no camera 'Main'"),
        (SCENE, {"engine": "REDSHIFT"}, "no engine REDSHIFT"),
        (SCENE, {"view_layer": "Hero"}, "no view layer 'Hero'"),
        (SCENE, {"scene_name": "Shot"}, "no scene 'Shot'"),
    ):
        run, paths = render(tmp_path, app, script, **params)
        assert run.verdict.failure is FailureClass.CONFIG, words
        assert words in run.verdict.reason
        assert run.exit_code == 64
        assert not paths[0, 1].exists()


def test_an_exception_in_the_scene_script_names_the_line(tmp_path: Path, app: AppInstall) -> None:
    run, _ = render(tmp_path, app, SCENE + "\nraise ValueError('boom')\n")
    assert run.verdict.failure is FailureClass.CONFIG
    assert "ValueError: boom" in run.verdict.reason
    assert f"line {SCENE.count(chr(10)) + 2}" in run.verdict.reason
    assert run.exit_code == 64
    run, _ = render(tmp_path, app, "import sys\nsys.exit(7)\n")
    assert run.verdict.failure is FailureClass.CONFIG
    assert "exited with 7" in run.verdict.reason
    run, _ = render(tmp_path, app, "def x(:\n")
    assert run.verdict.failure is FailureClass.CONFIG
    assert "SyntaxError" in run.verdict.reason


def test_a_gpu_that_is_not_there_is_the_nodes_fault(tmp_path: Path, app: AppInstall) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has an NVIDIA GPU")
    run, _ = render(tmp_path, app, device="cuda")
    assert run.verdict.failure is FailureClass.NODE
    assert "CUDA" in run.verdict.reason


def test_two_view_layers_into_one_file_are_refused_and_into_two_are_rendered(
    tmp_path: Path, app: AppInstall
) -> None:
    layers = SCENE + (
        "\nbox = bpy.data.collections.new('Box')\nscene.collection.children.link(box)\n"
        "for owner in cube.users_collection:\n owner.objects.unlink(cube)\nbox.objects.link(cube)\n"
        "other = scene.view_layers.new('Other')\nother.layer_collection.children['Box'].exclude = True\n"
    )
    run, _ = render(tmp_path, app, layers)
    assert run.verdict.failure is FailureClass.CONFIG
    assert "view_layers" in run.verdict.reason
    run, paths = render(
        tmp_path, app, layers, names=("main.{}.png", "other.{}.png"), view_layers=["ViewLayer", "Other"]
    )
    assert run.verdict.failure is None, run.verdict
    main, other = pixels(paths[0, 1]), pixels(paths[1, 1])
    assert max(main) > 0.2
    assert main != other
    assert run.progress(1) == sorted(run.progress(1))


def test_a_destination_that_is_gone_is_a_path_problem(tmp_path: Path, exe: AppInstall) -> None:
    run, _ = render(tmp_path, exe, names=("nowhere/a.{}.png",))
    assert run.verdict.failure is FailureClass.PATH
    assert "nowhere/a.1.png" in run.verdict.reason


def test_workbench_and_eevee_names_are_found_in_every_version(tmp_path: Path, app: AppInstall) -> None:
    check = SCENE + "\nscene.camera = None\n"  # ends before rendering, which needs a display driver
    for engine in ("BLENDER_EEVEE", "BLENDER_EEVEE_NEXT", "BLENDER_WORKBENCH"):
        run, _ = render(tmp_path, app, check, engine=engine)
        assert "no camera" in run.verdict.reason
