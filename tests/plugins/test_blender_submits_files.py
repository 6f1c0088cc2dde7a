"""Files of File Output nodes, stereo views and sound: what a real Blender writes comes from the farm."""

from __future__ import annotations

import wave
from pathlib import Path

import pytest

from farm.media.probe import probe
from farm.media.verify import verify_file
from farm.model.paths import expand
from tests.support.blender_host import BlenderHost
from tests.support.blender_scenes import NODES
from tests.support.blender_submits import codes, digest, names, rendered
from tests.support.farmhouse import Farmhouse

pytestmark = [pytest.mark.real, pytest.mark.slow]


# -- what is checked -------------------------------------------------------------------------------------


#: File Output nodes of all sorts: odd names, two formats, a MultiLayer file, a node group, a loose slot.
MANY_NODES = (
    NODES
    + """
passes = output_node("Passes", "//passes/", ["A", "z_##_Depth", "sub/C", "Loose", "Off"], form="PNG")
link("Image", passes, 0); link("Depth", passes, 1); link("Image", passes, 2)
tree.links.new(next(one for one in layers.outputs if not one.enabled), passes.inputs[4])
slots = getattr(passes, "file_output_items", None) or passes.file_slots
if hasattr(passes, "file_output_items"):
    slots[1].override_node_format = True
else:
    slots[1].use_node_format = False
slots[1].format.file_format = "OPEN_EXR"
joined = output_node("All", "//passes/", ["Combined", "Z"], multilayer=True)
link("Image", joined, 0); link("Depth", joined, 1)
group("Grp")
node = bpy.data.node_groups["Grp"].nodes["InGroup"]
setattr(node, "directory" if hasattr(node, "directory") else "base_path", "//grouped/")
muted = output_node("Muted", "//muted/", ["M"])
link("Image", muted, 0); muted.mute = True
scene.frame_start, scene.frame_end = 2, 3
"""
)


STEREO = "scene.render.use_multiview = True\ncamera.data.stereo.interocular_distance = 2.0\n"


def tree_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("stereo", ["", STEREO], ids=["plain", "stereo"])
def test_the_outputs_are_the_files_that_blender_itself_writes(
    host: BlenderHost, tmp_path: Path, stereo: str
) -> None:
    """Every file of a render in Blender is an output of the job, and no other."""
    scene = host.make(tmp_path / "shot.blend", MANY_NODES + stereo)
    said = host.call(
        "shot = part('collect').collect(bpy.context.scene)\n"
        "said['plan'] = part('job').plan(shot, part('job').DEFAULTS)\n"
        "said['errors'] = [each['error'] for each in shot['node_outputs']]\n"
        "bpy.ops.render.render(animation=True)\n",
        scene,
    )
    assert said["errors"] == [""] * 3
    ((_, _, _, pictures, nodes),) = said["plan"]
    patterns = [*pictures, *(each["pattern"] for each in nodes)]
    planned = {expand(pattern, frame) for pattern in patterns for frame in (2, 3)}
    written = {str(tmp_path / name) for name in tree_of(tmp_path) if not name.endswith(".blend")}
    assert planned == written


@rendered
def test_the_files_of_nodes_and_views_come_verified_and_nothing_else(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    """Rendered on the farm in several attempts, each file once and whole."""
    scene = host.make(tmp_path / "shot.blend", MANY_NODES + STEREO)
    before = digest(scene)
    said = host.submit(scene, cores=1, chunk=1)
    assert said["ok"], said
    assert "node-output" in codes(said, "note")
    house.wait_job(said["job"]["number"], "done")
    found = tree_of(tmp_path) - {"shot.blend"}
    assert found == {
        f"{name}{eye}{suffix}"
        for frame in (2, 3)
        for eye in ("_L", "_R")
        for name, suffix in (
            (f"out/shot_{frame:04d}", ".png"),
            (f"passes/A{frame:04d}", ".png"),
            (f"passes/z_{frame:02d}_Depth", ".exr"),
            (f"passes/sub/C{frame:04d}", ".png"),
            (f"passes/joined{frame:04d}", ".exr"),
            (f"grouped/G{frame:04d}", ".exr"),
        )
    }
    assert all(verify_file(tmp_path / name).spec for name in found)
    assert digest(tmp_path / "out/shot_0002_L.png") != digest(tmp_path / "out/shot_0002_R.png")
    assert digest(tmp_path / "passes/A0002_L.png") != digest(tmp_path / "passes/A0003_L.png")
    assert digest(scene) == before


@rendered
def test_a_film_has_the_sound_of_the_scene(house: Farmhouse, host: BlenderHost, tmp_path: Path) -> None:
    tone = tmp_path / "ton.wav"
    with wave.open(str(tone), "wb") as file:
        file.setparams((1, 2, 48000, 0, "NONE", ""))
        file.writeframes(b"\x00\x40" * 48000)
    scene = host.make(
        tmp_path / "shot.blend",
        "scene.render.image_settings.file_format = 'FFMPEG'\n"
        "scene.render.ffmpeg.format, scene.render.ffmpeg.codec = 'MPEG4', 'H264'\n"
        "scene.render.ffmpeg.audio_codec = 'AAC'\n"
        "scene.render.filepath = '//film'\n"
        f"scene.sequence_editor_create().sequences.new_sound('Ton', {str(tone)!r}, 1, 1)\n",
    )
    before = digest(scene)
    said = host.submit(scene, cores=1)
    assert said["ok"], said
    assert "movie-sound" in codes(said, "note")
    house.wait_job(said["job"]["number"], "done")
    facts = probe(tmp_path / "film0001-0003.mp4")
    assert facts.frames == 3
    (sound,) = facts.audio
    assert sound.duration_s == pytest.approx(3 / 24, abs=0.05)
    assert "film0001-0003.flac" in names(tmp_path / "film0001-0003_frames")
    assert digest(scene) == before


def test_a_template_that_only_blender_resolves_is_refused_by_name(host: BlenderHost, tmp_path: Path) -> None:
    scene = host.make(
        tmp_path / "shot.blend",
        MANY_NODES + "passes_folder = 'directory' if hasattr(passes, 'directory') else 'base_path'\n"
        "setattr(passes, passes_folder, '//{blend_name}/{fps:.3}/')\n",
    )
    said = host.submit(scene, operator="check")
    if host.version() < (4, 5):
        assert said["ok"], said  # a brace is a brace there
        return
    assert codes(said) == {"node-output"}
    assert any("holds a template that only Blender can resolve" in text for _, _, text in said["messages"])
