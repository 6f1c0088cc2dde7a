"""The add-on in a real Blender, a real farm, and the frames that come of it.

``OVERCRANK_TEST_BPY_PYTHON`` names an interpreter with the bpy wheel to run the same there, as an extension.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import wave
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from farm.cli.plugin.sources import build_blender, farm_command
from farm.media.probe import probe
from farm.media.verify import verify_file
from farm.model.paths import expand
from tests.support.blender_host import BlenderHost, install
from tests.support.blender_scenes import NODES
from tests.support.farmhouse import Farmhouse
from tests.support.real import require

pytestmark = [pytest.mark.real, pytest.mark.slow]

WHEEL = os.environ.get("OVERCRANK_TEST_BPY_PYTHON", "")
BLENDER = shutil.which("blender") or ""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farmhouse]:
    """A farm with one node."""
    require(BLENDER, "Blender", "install blender")
    with Farmhouse(tmp_path_factory.mktemp("house")) as made:
        made.agent("a")
        made.wait_online()
        yield made


@pytest.fixture(scope="module")
def host(house: Farmhouse, tmp_path_factory: pytest.TempPathFactory) -> BlenderHost:
    """A Blender with the add-on, put there by `farm plugin install` (a wheel: by its setup script)."""
    folder = tmp_path_factory.mktemp("host")
    if WHEEL:
        made = BlenderHost(folder, (WHEEL,), house.env)
        packed = build_blender(folder / "overcrank.zip", extension=True, command=farm_command())
        told = made.setup("install", packed)
        assert (told.get("error"), told["form"], told["enabled"]) == (None, "extension", True)
        return made
    made = BlenderHost(folder, (BLENDER,), house.env)
    told = install(made, BLENDER, {})
    assert [(row["error"], row["enabled"]) for row in told["programs"]] == [("", True)]
    return made


#: A wheel's scenes cannot be rendered by the node's own Blender, which is older: there submitting counts.
rendered = pytest.mark.skipif(bool(WHEEL), reason="the node's Blender is another version than the wheel")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def spec(house: Farmhouse, number: int) -> dict[str, Any]:
    """The job as the farm has it."""
    done = house.farm("job", f"J{number}", "--spec", "--json")
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def codes(said: Mapping[str, Any], severity: str = "error") -> set[str]:
    return {code for kind, code, _ in said["messages"] if kind == severity}


# -- the whole way ---------------------------------------------------------------------------------------


@rendered
def test_a_scene_is_submitted_rendered_and_the_artists_file_is_as_it_was(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "shot.blend")
    before, changed_ns = digest(scene), scene.stat().st_mtime_ns
    said = host.submit(scene, cores=1, name="Böcklin %d", priority=70)
    assert said["ok"], said
    assert said["result"] == ["FINISHED"]
    assert said["under_way"], "the button must not hold the window until the farm has answered"
    assert said["dirty"] is False
    row = house.wait_job(said["job"]["number"], "done")
    assert (row.name, row.priority) == ("Böcklin %d", 70)
    assert names(tmp_path / "out") == ["shot_0001.png", "shot_0002.png", "shot_0003.png"]
    assert (digest(scene), scene.stat().st_mtime_ns) == (before, changed_ns)
    assert names(tmp_path)[:2] == ["out", "shot.blend"]


@rendered
def test_a_movie_is_rendered_as_frames_and_stitched(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(
        tmp_path / "shot.blend",
        "scene.render.image_settings.file_format = 'FFMPEG'\n"
        "scene.render.ffmpeg.format, scene.render.ffmpeg.codec = 'MPEG4', 'H264'\n"
        "scene.render.filepath = '//film_'",
    )
    said = host.submit(scene, cores=1)
    assert said["ok"], said
    house.wait_job(said["job"]["number"], "done")
    movie = tmp_path / "film_0001-0003.mp4"
    assert names(tmp_path / "film_0001-0003_frames") == [
        f"film_0001-0003.{frame:04d}.png" for frame in (1, 2, 3)
    ]
    facts = probe(movie)
    assert facts.frames == 3


@rendered
def test_view_layers_and_cameras_become_different_pictures(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(
        tmp_path / "shot.blend",
        "layer = scene.view_layers.new('Leer')\n"
        "layer.layer_collection.exclude = True\n"
        "for child in layer.layer_collection.children: child.exclude = True\n"
        "scene.collection.objects.unlink(cube) if cube.name in scene.collection.objects else None\n"
        "inside = bpy.data.collections.new('Inside'); scene.collection.children.link(inside)\n"
        "[one.objects.unlink(cube) for one in list(cube.users_collection)]; inside.objects.link(cube)\n"
        "layer.layer_collection.children['Inside'].exclude = True\n"
        "second = bpy.data.objects.new('Weit/weg', bpy.data.cameras.new('C2'))\n"
        "second.location = (0, 0, 90)\n"
        "scene.collection.objects.link(second)\n"
        "scene.frame_end = 1",
    )
    said = host.submit(scene, cores=1, camera_from="EACH")
    assert said["ok"], said
    house.wait_job(said["job"]["number"], "done")
    files = names(tmp_path / "out")
    assert files == [
        "shot_Cam_Leer_0001.png",
        "shot_Cam_ViewLayer_0001.png",
        "shot_Weit_weg_Leer_0001.png",
        "shot_Weit_weg_ViewLayer_0001.png",
    ]
    pictures = {name: digest(tmp_path / "out" / name) for name in files}
    assert pictures["shot_Cam_ViewLayer_0001.png"] != pictures["shot_Cam_Leer_0001.png"]
    assert pictures["shot_Cam_ViewLayer_0001.png"] != pictures["shot_Weit_weg_ViewLayer_0001.png"]


@rendered
def test_names_beyond_ascii_survive_a_shell_without_them(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "Größe 日本 ñ" / "Schuß #1.blend", "scene.frame_end = 1")
    said = host.submit(scene, env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii:replace"}, cores=1)
    assert said["ok"], said
    house.wait_job(said["job"]["number"], "done")
    assert names(scene.parent / "out") == ["shot_0001.png"]


@rendered
def test_the_cameras_of_markers_switch_on_the_farm(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(
        tmp_path / "shot.blend",
        "second = bpy.data.objects.new('Weg', bpy.data.cameras.new('C2')); second.location = (0, 0, 9000)\n"
        "scene.collection.objects.link(second)\n"
        "scene.timeline_markers.new('a', frame=1).camera = camera\n"
        "scene.timeline_markers.new('b', frame=3).camera = second\n",
    )
    said = host.submit(scene, cores=1)
    assert "camera-markers" in codes(said, "note")
    house.wait_job(said["job"]["number"], "done")
    sizes = [(tmp_path / "out" / f"shot_{frame:04d}.png").stat().st_size for frame in (1, 3)]
    assert sizes[0] > sizes[1], "the cube is too far away for the second camera"


# -- the answer, while it is waited for and when there is none -------------------------------------------


def test_the_window_is_free_while_the_farm_takes_its_time(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "shot.blend")
    go, slow = tmp_path / "go", tmp_path / "slow-farm"
    slow.write_text(
        f"#!/bin/sh\nwhile [ ! -e '{go}' ]; do sleep 0.05; done\n"
        f'PYTHONPATH="{house.env["PYTHONPATH"]}" exec "{sys.executable}" -m farm "$@"\n'
    )
    slow.chmod(0o755)
    said = host.call(
        # The farm answers only once this very thread opens the door: a button or a look that waited for it
        # would wait until the time-out.
        "tray = part('tray')\n"
        "def open_door():\n"
        "    while tray.busy() != 'Waiting for the farm…':\n"
        "        tray.watch()\n"
        "    for _ in range(20):\n"
        "        tray.watch()\n"
        "    said['still'] = tray.busy()\n"
        "    said['could_submit_twice'] = bpy.ops.overcrank.submit.poll()\n"
        "    try:\n"
        "        bpy.ops.overcrank.submit()\n"
        "    except RuntimeError as error:\n"
        "        said['why_not'] = str(error)\n"
        f"    open({str(go)!r}, 'w').close()\n"
        "submit(then=open_door, cores=1, version='ANY', paused=True)\n",
        scene,
        env={"FARM_CLI": str(slow)},
    )
    assert said["ok"], said
    assert said["under_way"]
    assert said["still"] == "Waiting for the farm…"
    assert said["could_submit_twice"] is False
    assert "still on its way (a script waits for it with wait=True): Waiting for the farm…" in said["why_not"]
    assert spec(house, said["job"]["number"])["paused"] is True


def test_a_farm_that_is_away_and_one_that_is_not_installed_are_told_apart(
    host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "shot.blend")
    away = {"XDG_CONFIG_HOME": str(tmp_path / "c"), "OVERCRANK_FARM": "nirgends"}
    said = host.submit(scene, env=away, cores=1)
    assert not said["ok"]
    (message,) = [text for severity, _, text in said["messages"] if severity == "error"]
    assert message.startswith("The farm cannot be reached: this machine knows no farm named 'nirgends'")
    said = host.submit(scene, env={"FARM_CLI": "/nowhere/farm"}, cores=1)
    assert codes(said) == {"farm-missing"}


def test_a_refusal_of_the_farm_is_shown(host: BlenderHost, tmp_path: Path) -> None:
    scene = host.make(tmp_path / "shot.blend")
    said = host.submit(scene, cores=900)
    assert not said["ok"]
    (message,) = [text for severity, _, text in said["messages"] if severity == "error"]
    assert "The farm refused the job" in message
    assert "900" in message or "core" in message


# -- what is checked -------------------------------------------------------------------------------------

ASSETS = """
import os
here = os.path.dirname(bpy.data.filepath)
def texture(name, source, path, users=True):
    image = bpy.data.images.new(name, 4, 4)
    image.source = source
    image.filepath = path
    if users:
        material = bpy.data.materials.new(name)
        material.use_nodes = True
        node = material.node_tree.nodes.new("ShaderNodeTexImage")
        node.image = image
        cube.data.materials.append(material)
        return image, node
    return image, None
def picture(path):
    made = bpy.data.images.new("made", 4, 4)
    made.file_format = "PNG"
    made.filepath_raw = os.path.join(here, path)
    os.makedirs(os.path.dirname(made.filepath_raw), exist_ok=True)
    made.save()
    bpy.data.images.remove(made)
"""


def test_what_the_scene_reads_is_found_and_missed_by_name(host: BlenderHost, tmp_path: Path) -> None:
    host.make(tmp_path / "library.blend")
    scene = host.make(
        tmp_path / "shot.blend",
        ASSETS
        + """
for number in (1, 2): picture("tex/seq_%04d.png" % number)
picture("tex/skin.1001.png"); picture("tex/packed.png"); picture("tex/there.png")
image, node = texture("seq", "SEQUENCE", "//tex/seq_0001.png")
node.image_user.frame_duration, node.image_user.frame_start = 3, 1
image, node = texture("skin", "TILED", "//tex/skin.<UDIM>.png")
image.tiles.new(1101)
texture("gone", "FILE", "//tex/gone.png")
texture("there", "FILE", "//tex/there.png")
image, _ = texture("packed", "FILE", "//tex/packed.png"); image.pack()
os.unlink(os.path.join(here, "tex", "packed.png"))
texture("unused", "FILE", "//tex/unused.png", users=False)
with bpy.data.libraries.load(os.path.join(here, "library.blend"), link=True) as (has, takes):
    takes.objects = ["Sun"]
scene.collection.objects.link(takes.objects[0])
""",
    )
    (tmp_path / "library.blend").rename(tmp_path / "moved.blend")
    said = host.call(
        "submit(operator='check')\nsaid['assets'] = part('collect').collect(bpy.context.scene)['assets']",
        scene,
    )
    assert next(text for _, code, text in said["messages"] if code == "unpackable").startswith(
        "Image sequences and movies cannot be packed: seq."
    ), "one texture is packed, so the artist packs"
    texts = [
        text for severity, code, text in said["messages"] if code == "asset-missing" and severity == "error"
    ]
    assert len(texts) == 4, texts
    told = "\n".join(texts)
    assert f"The linked library {tmp_path}/library.blend does not exist" in told
    assert f"1 of 3 files of the image sequence seq are missing: {tmp_path}/tex/seq_0003.png" in told
    assert f"Tiles of the texture skin are missing: {tmp_path}/tex/skin.1101.png" in told
    assert f"The texture gone {tmp_path}/tex/gone.png does not exist" in told
    kinds = {Path(one["path"]).name: one["kind"] for one in said["assets"]}
    assert kinds == {
        "library.blend": "file",
        "seq_0001.png": "sequence",
        "skin.<UDIM>.png": "udim",
        "gone.png": "file",
        "there.png": "file",
    }, "what is packed or unused is no asset"
    allowed = host.submit(scene, operator="check", allow_missing=True)
    assert allowed["ok"]
    assert (
        len(
            [
                code
                for severity, code, _ in allowed["messages"]
                if (severity, code) == ("warning", "asset-missing")
            ]
        )
        == 4
    )


def test_what_stands_against_it_is_said_before_anything_is_sent(host: BlenderHost, tmp_path: Path) -> None:
    scene = host.make(tmp_path / "shot.blend")
    said = host.call(
        f"""
found = {{}}
def attempt(name, code):
    bpy.ops.wm.open_mainfile(filepath={str(scene)!r})
    exec(code, {{"bpy": bpy, "scene": bpy.context.scene}})
    submit()
    found[name] = [said["refused"], [m[1] for m in said["messages"] if m[0] == "error"]]
attempt("script", "scene.frame_end = 7")
attempt("camera", "bpy.data.objects.remove(scene.camera)")
attempt("range", "scene.frame_start, scene.frame_end = 9, 9; scene.frame_end = 9; scene.frame_start = 9")
attempt("path", "scene.render.filepath = ''")
attempt("format", "scene.render.image_settings.file_format = 'BMP'")
attempt("views", "scene.render.use_multiview = True; scene.render.views['left'].file_suffix = '_R'")
bpy.ops.wm.read_homefile(app_template="")
submit()
found["unsaved"] = [said["refused"], [m[1] for m in said["messages"] if m[0] == "error"]]
said["found"] = found
"""
    )
    found = {name: set(codes) for name, (_, codes) in said["found"].items()}
    assert found["script"] == {"changed"}, "a script's change is no unsaved change to Blender"
    assert "camera-missing" in found["camera"]
    assert found["range"] == {"changed"}
    assert "output-missing" in found["path"]
    assert "format" in found["format"]
    assert "views" in found["views"]
    assert "unsaved" in found["unsaved"]
    assert "never been saved" in said["found"]["unsaved"][0], (
        "a script that calls the operator is told as well"
    )


def test_a_copy_of_what_is_open_is_submitted_and_the_file_left_alone(
    house: Farmhouse, host: BlenderHost, tmp_path: Path
) -> None:
    scene = host.make(tmp_path / "shot.blend")
    before = digest(scene)
    said = host.call(
        "bpy.context.scene.frame_end = 2\nsubmit(cores=1, source='COPY', version='ANY', paused=True)", scene
    )
    assert said["ok"], said
    assert said["filepath"] == str(scene)
    assert digest(scene) == before
    (copy,) = (tmp_path / "overcrank-submitted").iterdir()
    step = spec(house, said["job"]["number"])["steps"][0]
    assert (step["params"]["scene"], step["frames"]) == (str(copy), "1-2")
    found = host.call("said['end'] = bpy.context.scene.frame_end", copy)
    assert found["end"] == 2, "the copy is what was open"
    again = host.submit(scene, cores=1, source="SAVED", version="ANY", paused=True)
    assert not again["ok"], "the farm lets no two jobs write the same files"
    assert any("is still writing" in text for _, _, text in again["messages"]), again["messages"]


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


#: What scripts do to a scene, and what the add-on calls the part that changed ("" = what animation moves).
SCRIPTS = {
    "cube.location.z = 3": "",
    "still.location.x = 5": "objects",
    "cube.animation_data_clear(); cube.scale = (2, 2, 2)": "objects",
    "cube.modifiers.new('S', 'SUBSURF')": "objects",
    "data.lights['Sun'].energy = 9": "lights",
    "scene.cycles.samples = 99": "render settings",
    "data.cameras['Cam'].lens = 20": "cameras",
    "ramp.node_tree.nodes[0].inputs[0].default_value = (1, 0, 0, 1)": "materials",
    "cube.data.clear_geometry()": "meshes",
    "data.actions[0].frame_range": "",
}


@pytest.fixture(scope="module")
def changes(host: BlenderHost, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the add-on says after each script, each in the file as it was loaded."""
    scene = host.make(
        tmp_path_factory.mktemp("changes") / "shot.blend",
        "ramp = bpy.data.materials.new('Ramp'); ramp.use_nodes = True\n"
        "still = bpy.data.objects.new('Still', None); scene.collection.objects.link(still)\n"
        "cube.data.materials.append(ramp)\n",
    )
    return host.call(
        f"""
for code in {list(SCRIPTS)!r}:
    bpy.ops.wm.open_mainfile(filepath={str(scene)!r})
    scene, data = bpy.context.scene, bpy.data
    names = {{"scene": scene, "data": data, "cube": data.objects["Cube"], "still": data.objects["Still"]}}
    names["ramp"] = data.materials["Ramp"]
    assert part("memory").changed(scene) == []
    exec(code, names)
    said[code] = part("memory").changed(scene)
bpy.ops.wm.open_mainfile(filepath={str(scene)!r})
scene = bpy.context.scene
scene.frame_set(9)
bpy.context.view_layer.update()
said["frame"] = part("memory").changed(scene)
bpy.ops.render.render()
said["render"] = part("memory").changed(scene)
bpy.data.objects["Still"].location.x = 3
bpy.ops.wm.save_mainfile()
said["saved"] = part("memory").changed(scene)
"""
    )


@pytest.mark.parametrize(("script", "what"), SCRIPTS.items())
def test_what_a_script_changes_is_noticed(changes: dict[str, Any], script: str, what: str) -> None:
    """Blender is not dirty after a script; the add-on compares."""
    assert (what in changes[script]) if what else (changes[script] == [])


def test_looking_at_a_scene_and_saving_it_changes_nothing(changes: dict[str, Any]) -> None:
    assert (changes["frame"], changes["render"], changes["saved"]) == ([], [], [])


def test_simulations_that_are_not_baked_are_noticed(host: BlenderHost, tmp_path: Path) -> None:
    scene = host.make(tmp_path / "shot.blend", "cube.modifiers.new('Tuch', 'CLOTH')")
    said = host.submit(scene, operator="check")
    (text,) = [text for _, code, text in said["messages"] if code == "simulation"]
    assert text.startswith("The cloth Tuch of Cube is not baked")


def test_choices_are_remembered_outside_of_the_file(host: BlenderHost, tmp_path: Path) -> None:
    scene, other = host.make(tmp_path / "shot.blend"), host.make(tmp_path / "other.blend")
    before = digest(scene)
    said = host.call("submit(operator='check', priority=66, project='film', scout=4)", scene)
    assert said["dirty"] is bool(WHEEL), (
        "a choice is no change of the file (the wheel always says there is one)"
    )
    shown = (
        "(lambda group: [group.priority, group.project, group.scout])(bpy.context.window_manager.overcrank)"
    )
    said = host.call(
        f"said['kept'] = {shown}\nbpy.ops.wm.open_mainfile(filepath={str(other)!r})\nsaid['other'] = {shown}",
        scene,
    )
    assert said["kept"] == [66, "film", 4]
    assert said["other"] == [50, "", 0]
    assert digest(scene) == before


# -- installing ------------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(WHEEL), reason="a wheel is no program that can be found")
def test_it_is_listed_and_removed(tmp_path: Path) -> None:
    require(BLENDER, "Blender", "install blender")
    host = BlenderHost(tmp_path, (BLENDER,))
    install(host, BLENDER, {})

    def plugin(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "farm", "plugin", *words, "--blender", BLENDER, "--json"],
            env=host.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)["programs"]
        return dict(row)

    assert plugin("list", "blender")["enabled"] is True
    installed = next(tmp_path.rglob("installed.json"))
    assert json.loads(installed.read_text()) == {"command": farm_command()}
    assert plugin("remove", "blender")["message"] == "removed"
    assert plugin("list", "blender")["form"] == ""
    assert not list(tmp_path.rglob("installed.json"))


def test_disabling_and_enabling_again_leaves_nothing_behind(host: BlenderHost) -> None:
    said = host.call(
        "before = [len(bpy.app.handlers.load_post), len(bpy.app.handlers.save_post)]\n"
        "for _ in range(2):\n"
        "    bpy.ops.preferences.addon_disable(module=module)\n"
        "    said['gone'] = [hasattr(bpy.types.WindowManager, 'overcrank')]\n"
        "    said['gone'].append(hasattr(bpy.types, 'OVERCRANK_PT_render'))\n"
        "    bpy.ops.preferences.addon_enable(module=module)\n"
        "said['same'] = before == [len(bpy.app.handlers.load_post), len(bpy.app.handlers.save_post)]"
    )
    assert said["gone"] == [False, False]
    assert said["same"] is True
