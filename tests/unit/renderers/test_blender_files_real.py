"""Real renders by Blender, program and wheel: every file of File Output nodes, of stereo views, and sound.

The same scene is rendered by the renderer and, where names matter, by plain Blender beside it.
"""

from __future__ import annotations

import subprocess
import wave
from pathlib import Path

import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.media.movies import audio_source
from farm.media.verify import verify_file
from farm.model.states import FailureClass
from farm.renderers.base import AppInstall, ChunkContext, PlannedFile, read_params
from farm.renderers.blender import RENDERER
from tests.support.blender_scenes import APPS, NODES, SCENE, layers_of, pixels, render, save_blend
from tests.support.run_invocation import Run, need_real, run_all

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(params=["exe", "bpy"] if APPS["bpy"].argv else ["exe"])
def app(request: pytest.FixtureRequest) -> AppInstall:
    found = APPS[request.param]
    need_real(bool(found.argv and found.argv[0]), "Blender: apt install blender")
    return found


@pytest.fixture
def exe() -> AppInstall:
    need_real(bool(APPS["exe"].argv[0]), "Blender: apt install blender")
    return APPS["exe"]


def outputs(*nodes: str) -> list[dict[str, str]]:
    """``node_outputs`` written short: ``Passes/A`` or, in a group, ``Group:Passes/A``; ``@left`` a view."""
    found = []
    for text in nodes:
        text, _, view = text.partition("@")
        tree, _, text = text.rpartition(":")
        node, _, slot = text.partition("/")
        found.append({"node": node, "slot": slot, "tree": tree, "view": view})
    return found


ONE_NODE = 'node = output_node("Passes", "/nowhere", ["A"])\nlink("Image", node, 0)\n'


# -- File Output nodes -----------------------------------------------------------------------------------


def test_each_slot_of_each_node_is_an_output_of_its_own_frame(tmp_path: Path, app: AppInstall) -> None:
    theirs = tmp_path / "artist"
    run, paths = render(
        tmp_path,
        app,
        SCENE
        + NODES
        + f"""
passes = output_node("Passes", {str(theirs)!r}, ["A", "z_##_B", "sub/C"])
link("Image", passes, 0); link("Depth", passes, 1); link("Image", passes, 2)
joined = output_node("All", {str(theirs)!r}, ["Combined", "Z"], multilayer=True)
link("Image", joined, 0); link("Depth", joined, 1)
inner = group("Grp")
""",
        frames=(-3, 2, 1),
        names=("a.{}.png", "one.{}.exr", "zwei %d #.{}.exr", "all.{}.exr", "grp.{}.exr"),
        node_outputs=outputs("Passes/A", "Passes/z_##_B", "All", "Grp:InGroup/G"),
    )
    assert run.verdict.failure is None, run.lines[-20:]
    assert run.finished == [-3, 2, 1]
    assert not theirs.exists(), "nothing is written where no attempt is verified"
    assert all(verify_file(path).size for path in paths.values())
    for frame in (-3, 2, 1):
        # The file of a frame is that frame's: the cube moves, so no two are alike.
        flat = pixels(paths[1, frame])
        assert len({tuple(pixels(paths[1, other])) for other in (-3, 2, 1)}) == 3
        assert pixels(paths[4, frame]) == flat
        assert layers_of(paths[3, frame]) == {"Combined", "Z"}
        assert max(pixels(paths[2, frame])) > 1.0, "a depth, not a colour"
    assert run.warnings == [], "a slot that is no output is dropped without a word: its node is"


def test_a_node_that_is_no_output_does_not_run(tmp_path: Path, app: AppInstall) -> None:
    theirs = tmp_path / "artist"
    script = (
        SCENE
        + NODES
        + f"""
for name in ("Passes", "Other"):
    node = output_node(name, {str(theirs)!r}, ["A"])
    link("Image", node, 0)
"""
    )
    run, _ = render(tmp_path, app, script)
    assert run.verdict.failure is None, run.verdict
    assert not theirs.exists()
    assert len([text for text in run.warnings if "is no output of the step: it does not run" in text]) == 2
    run, paths = render(
        tmp_path, app, script, names=("m.{}.png", "o.{}.exr"), node_outputs=outputs("Other/A")
    )
    assert run.verdict.failure is None, run.verdict
    assert pixels(paths[1, 1])
    (text,) = run.warnings
    assert "'Passes'" in text
    assert str(theirs) in text


def test_slots_have_formats_of_their_own_and_all_are_verified(tmp_path: Path, exe: AppInstall) -> None:
    kinds = {
        "PNG": "png",
        "JPEG": "jpg",
        "TIFF": "tif",
        "BMP": "bmp",
        "TARGA": "tga",
        "HDR": "hdr",
        "DPX": "dpx",
        "WEBP": "webp",
        "IRIS": "rgb",
    }
    run, paths = render(
        tmp_path,
        exe,
        SCENE
        + NODES
        + f"""
node = output_node("Passes", "/nowhere", {list(kinds)!r})
for index, slot in enumerate(node.file_slots):
    link("Image", node, index)
    slot.use_node_format, slot.format.file_format = False, slot.path
""",
        names=("m.{}.png", *(f"{kind}.{{}}.{suffix}" for kind, suffix in kinds.items())),
        node_outputs=outputs(*(f"Passes/{kind}" for kind in kinds)),
    )
    assert run.verdict.failure is None, run.verdict
    for path in paths.values():
        facts = verify_file(path)
        assert facts.spec is not None
        assert (facts.spec.width, facts.spec.height) == (64, 36), path


@pytest.mark.parametrize(
    ("wanted", "name", "words"),
    [
        ("Pass/A", "o.{}.exr", "no File Output node 'Pass' in the compositor (it has 'Passes')"),
        ("Passes/B", "o.{}.exr", "no slot 'B' (it has 'A', 'Loose')"),
        ("Passes", "o.{}.exr", "no slot '' (it has"),
        ("Grp:Passes/A", "o.{}.exr", "in the node group 'Grp' (it has none)"),
        ("Passes/A", "o.{}.png", "writes OPEN_EXR, and the output is a .png"),
        ("Passes/Loose", "o.{}.exr", "wrote nothing for slot 'Loose'"),
        ("Passes/A@left", "o.{}.exr", "no stereo view 'left' of the File Output node 'Passes'"),
    ],
)
def test_what_a_node_does_not_have_is_named(
    tmp_path: Path, exe: AppInstall, wanted: str, name: str, words: str
) -> None:
    script = SCENE + NODES + ONE_NODE.replace('"A"', '"A", "Loose"')
    run, paths = render(tmp_path, exe, script, names=("m.{}.png", name), node_outputs=outputs(wanted))
    assert run.verdict.failure is FailureClass.CONFIG
    assert words in run.verdict.reason
    assert not paths[1, 1].exists()


def test_a_compositor_that_does_not_run_is_said(tmp_path: Path, exe: AppInstall) -> None:
    script = SCENE + NODES + ONE_NODE
    for more, words in (
        ("scene.render.use_compositing = False\n", "its compositor is off"),
        (
            "strips = scene.sequence_editor_create().sequences\n"
            "strips.new_effect('C', 'COLOR', 1, frame_start=1, frame_end=9)\n",
            "its sequencer makes the picture",
        ),
        ("node.mute = True\n", "'Passes' is muted"),
    ):
        run, _ = render(
            tmp_path, exe, script + more, names=("m.{}.png", "o.{}.exr"), node_outputs=outputs("Passes/A")
        )
        assert run.verdict.failure is FailureClass.CONFIG
        assert words in run.verdict.reason


# -- stereo ----------------------------------------------------------------------------------------------

STEREO = SCENE + NODES + "scene.render.use_multiview = True\ncamera.data.stereo.interocular_distance = 2.0\n"


def test_stereo_views_are_files_of_their_own_in_one_go(tmp_path: Path, app: AppInstall) -> None:
    run, paths = render(
        tmp_path,
        app,
        STEREO + "scene.render.views['right'].file_suffix = '_rechts'\n" + ONE_NODE,
        frames=(2, 1),
        names=("l.{}.png", "r.{}.png", "n_l.{}.exr", "n_r.{}.exr"),
        views=["left", "right"],
        node_outputs=outputs("Passes/A@left", "Passes/A@right"),
    )
    assert run.verdict.failure is None, run.lines[-20:]
    assert all(path.is_file() for path in paths.values())
    assert pixels(paths[0, 1]) != pixels(paths[1, 1]), "the eyes are apart"
    assert pixels(paths[2, 1]) != pixels(paths[3, 1])
    assert pixels(paths[0, 1]) != pixels(paths[0, 2])
    run, one = render(tmp_path, app, SCENE + NODES, names=("mono.{}.png",))
    assert oiio.ImageBuf(str(paths[0, 1])).spec().width == oiio.ImageBuf(str(one[0, 1])).spec().width == 64


def test_view_layers_and_views_are_multiplied(tmp_path: Path, exe: AppInstall) -> None:
    run, paths = render(
        tmp_path,
        exe,
        SCENE
        + "scene.render.use_multiview = True\ncamera.data.stereo.interocular_distance = 2.0\n"
        + "other = scene.view_layers.new('Leer')\n"
        + "box = bpy.data.collections.new('Box'); scene.collection.children.link(box)\n"
        + "for owner in cube.users_collection:\n owner.objects.unlink(cube)\nbox.objects.link(cube)\n"
        + "other.layer_collection.children['Box'].exclude = True\n",
        names=("vl.{}.png", "vr.{}.png", "ll.{}.png", "lr.{}.png"),
        view_layers=["ViewLayer", "Leer"],
        views=["left", "right"],
    )
    assert run.verdict.failure is None, run.verdict
    pictures = [pixels(paths[index, 1]) for index in range(4)]
    assert pictures[0] != pictures[1]
    assert pictures[0] != pictures[2]
    assert pictures[2] == pictures[3], "without the cube both eyes see the same"


def test_stereo_in_one_picture_stays_one_file(tmp_path: Path, app: AppInstall) -> None:
    side = (
        "scene.render.image_settings.views_format = 'STEREO_3D'\n"
        "scene.render.image_settings.stereo_3d_format.display_mode = 'SIDEBYSIDE'\n"
    )
    run, paths = render(tmp_path, app, STEREO + side)
    assert run.verdict.failure is None, run.verdict
    assert oiio.ImageBuf(str(paths[0, 1])).spec().width == 128


def views_of(path: Path) -> set[str]:
    """The views in one OpenEXR file: a list in its header, from 5.0 on a part for each."""
    image, names, part = oiio.ImageInput.open(str(path)), set(), 0
    while image.seek_subimage(part, 0):
        names |= {image.spec().getattribute("view"), *(image.spec().getattribute("multiView") or ())}
        part += 1
    image.close()
    return names - {None}


def test_views_of_one_openexr_stay_in_it_and_of_a_png_are_asked_for(tmp_path: Path, app: AppInstall) -> None:
    many = (
        "settings = scene.render.image_settings\n"
        "settings.file_format = 'OPEN_EXR'\nsettings.views_format = 'MULTIVIEW'\n"
        "scene.render.views_format = 'MULTIVIEW'\n"
        "for view, x in (('left', -1), ('right', 1)):\n"
        " eye = bpy.data.objects.new('Eye' + scene.render.views[view].camera_suffix, camera.data)\n"
        " eye.location = (x, 0, 9); scene.collection.objects.link(eye)\n"
        "scene.camera = bpy.data.objects['Eye_L']\n"
    )
    run, paths = render(tmp_path, app, STEREO + many, names=("a.{}.exr",))
    assert run.verdict.failure is None, run.verdict
    assert verify_file(paths[0, 1]).spec
    assert views_of(paths[0, 1]) == {"left", "right"}
    run, _ = render(tmp_path, app, STEREO + many)
    assert run.verdict.failure is FailureClass.CONFIG
    assert "name them in views" in run.verdict.reason


@pytest.mark.parametrize(
    ("more", "params", "words"),
    [
        ("", {}, "stereo views left, right into files of their own; name them in views"),
        ("", {"views": ["left", "mitte"]}, "no stereo view 'mitte' (it has left, right)"),
        ("scene.render.use_multiview = False\n", {"views": ["left", "right"]}, "(it has none)"),
        (
            "scene.render.views['left'].file_suffix = scene.render.views['right'].file_suffix = '_X'\n",
            {"views": ["left", "right"]},
            "their suffixes are equal",
        ),
    ],
)
def test_views_that_are_not_as_asked_for_are_named(
    tmp_path: Path, exe: AppInstall, more: str, params: dict[str, object], words: str
) -> None:
    names = ("l.{}.png", "r.{}.png") if params else ("a.{}.png",)
    run, _ = render(tmp_path, exe, STEREO + more, names=names, **params)
    assert run.verdict.failure is FailureClass.CONFIG
    assert words in run.verdict.reason


# -- sound -----------------------------------------------------------------------------------------------


def mix(tmp_path: Path, app: AppInstall, scene: Path, target: Path, **params: object) -> Run:
    """Mixes by the renderer; returns the run."""
    scratch = tmp_path / f"scratch-{len(list(tmp_path.glob('scratch-*')))}"
    scratch.mkdir()
    context = ChunkContext(
        params=read_params(RENDERER, {"scene": str(scene), "mixdown": "11-34", **params}),
        frames=(),
        step_frames=None,
        files=(PlannedFile(0, None, str(target)),),
        patterns=(),
        app=app,
        scratch=str(scratch),
    )
    (run,) = run_all(RENDERER, context)
    return run


SOUND = """
scene.frame_start, scene.frame_end = 1, 500
editor = scene.sequence_editor_create()
strips = editor.strips if hasattr(editor, "strips") else editor.sequences
strips.new_sound("Ton", {path!r}, 1, 23)
"""


def test_the_sound_of_exactly_the_frames_is_mixed(tmp_path: Path, app: AppInstall) -> None:
    if app.flavour == "bpy" and not has_sound(app):
        run = mix(tmp_path, app, save_blend(tmp_path, app, SCENE), tmp_path / "no.flac")
        assert run.verdict.failure is FailureClass.RENDERER, "tried on another machine"
        assert "was built without sound" in run.verdict.reason
        return
    tone = tmp_path / "ton ü.wav"
    with wave.open(str(tone), "wb") as file:
        file.setparams((1, 2, 48000, 0, "NONE", ""))
        file.writeframes(b"\x00\x40" * 48000)
    scene = save_blend(tmp_path, app, SCENE + SOUND.format(path=str(tone)))
    before = scene.read_bytes()
    for name in ("film.wav", "film.flac"):
        run = mix(tmp_path, app, scene, tmp_path / name)
        assert run.verdict.failure is None, run.lines[-20:]
        assert audio_source(tmp_path / name) == 48000
    with wave.open(str(tmp_path / "film.wav")) as file:
        # Frames 11 to 34 at 24 a second are a second; the strip begins at frame 23, in its middle.
        assert file.getnframes() == pytest.approx(48000, abs=1024)
        heard = file.readframes(file.getnframes())
    width = file.getsampwidth() * file.getnchannels()
    quiet, loud = heard[: 23000 * width], heard[26000 * width : 46000 * width]
    assert not any(quiet)
    assert any(loud)
    assert scene.read_bytes() == before
    tone.unlink()
    run = mix(tmp_path, app, scene, tmp_path / "no.flac")
    assert run.verdict.failure is FailureClass.PATH
    assert str(tone) in run.verdict.reason
    assert not (tmp_path / "no.flac").exists()
    run = mix(tmp_path, app, scene, tmp_path / "no.flac", missing="warn")
    assert run.verdict.failure is None
    assert any(str(tone) in text for text in run.warnings)


def has_sound(app: AppInstall) -> bool:
    code = "import bpy; raise SystemExit(0 if bpy.app.build_options.audaspace else 1)"
    return not subprocess.run([*app.argv, "-c", code], check=False, timeout=100).returncode
