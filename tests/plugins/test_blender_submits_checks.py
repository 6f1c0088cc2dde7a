"""What the add-on in a real Blender says of a scene before it is submitted, and of what changed since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.blender_host import BlenderHost
from tests.support.blender_submits import digest, spec
from tests.support.farmhouse import Farmhouse

pytestmark = [pytest.mark.real, pytest.mark.slow]


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
