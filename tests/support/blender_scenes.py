"""Scenes for real Blender renders, and rendering them by the renderer as an agent does.

What belongs here: scripts that build scenes in any Blender from 3.4 to 5.x, the two Blenders there may be,
and one call that renders.  What it may not know: what is asserted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import OpenImageIO as oiio  # noqa: N813

from farm.renderers.base import AppInstall, ChunkContext, PlannedFile, read_params
from farm.renderers.blender import RENDERER
from tests.support.run_invocation import Run, run_all

SCENE = """
import bpy
scene = bpy.context.scene
bpy.ops.mesh.primitive_cube_add()
cube = bpy.context.object
camera = bpy.data.objects.new("Cam", bpy.data.cameras.new("Cam"))
camera.location = (0, 0, 9)
scene.collection.objects.link(camera)
scene.camera = camera
scene.collection.objects.link(bpy.data.objects.new("Sun", bpy.data.lights.new("Sun", "SUN")))
cube.location.x = -2.0
cube.keyframe_insert("location", frame=-5)
cube.location.x = 2.0
cube.keyframe_insert("location", frame=20)
scene.render.resolution_x = 64
scene.render.resolution_y = 36
scene.render.use_overwrite = False
scene.render.image_settings.color_mode = "RGB"
"""

#: Builders for a compositor: ``output_node``, ``link`` (from the render layers), ``group`` with a node in it.
NODES = """
scene.view_layers[0].use_pass_z = True
if hasattr(scene, "compositing_node_group"):
    tree = scene.compositing_node_group = bpy.data.node_groups.new("Comp", "CompositorNodeTree")
else:
    scene.use_nodes = True
    tree = scene.node_tree
layers = next((one for one in tree.nodes if one.type == "R_LAYERS"), None)
layers = layers or tree.nodes.new("CompositorNodeRLayers")
if hasattr(scene, "compositing_node_group"):
    tree.interface.new_socket("Image", in_out="OUTPUT", socket_type="NodeSocketColor")
    tree.links.new(layers.outputs["Image"], tree.nodes.new("NodeGroupOutput").inputs[0])

def output_node(name, folder, slots, multilayer=False, owner=None, form="OPEN_EXR"):
    node = (owner or tree).nodes.new("CompositorNodeOutputFile")
    node.name = name
    form = "OPEN_EXR_MULTILAYER" if multilayer else form
    if hasattr(node, "file_output_items"):
        node.directory, node.file_name = folder, "joined" if multilayer else ""
        node.format.media_type = "MULTI_LAYER_IMAGE" if multilayer else "IMAGE"
        node.format.file_format = form
        for slot in slots:
            node.file_output_items.new("RGBA", slot)
    else:
        node.base_path = folder + "/joined" if multilayer else folder
        node.format.file_format = form
        made = node.layer_slots if multilayer else node.file_slots
        made.clear()
        for slot in slots:
            made.new(slot)
    return node

def link(output, node, index):
    tree.links.new(layers.outputs[output], node.inputs[index])

def group(name):
    inside = bpy.data.node_groups.new(name, "CompositorNodeTree")
    output_node("InGroup", "/nowhere", ["G"], owner=inside)
    entry = inside.nodes.new("NodeGroupInput")
    if hasattr(inside, "interface"):
        inside.interface.new_socket("Image", in_out="INPUT", socket_type="NodeSocketColor")
    else:
        inside.inputs.new("NodeSocketColor", "Image")
    inside.links.new(entry.outputs[0], inside.nodes["InGroup"].inputs[0])
    shown = tree.nodes.new("CompositorNodeGroup")
    shown.node_tree = inside
    tree.links.new(layers.outputs["Image"], shown.inputs[0])
    return shown
"""


def _wheel() -> tuple[str, ...]:
    """An interpreter that has the bpy wheel, if the environment names one."""
    python = os.environ.get("OVERCRANK_TEST_BPY_PYTHON", "")
    return (python,) if python and Path(python).exists() else ()


#: The program, and the wheel where the long tier (``python -m tests.long bpy``) names one.
APPS = {
    "exe": AppInstall("blender", "", (shutil.which("blender") or "",)),
    "bpy": AppInstall("blender", "", _wheel(), "bpy"),
}


def render(
    tmp_path: Path,
    app: AppInstall,
    script: str = SCENE,
    frames: tuple[int, ...] = (1,),
    names: tuple[str, ...] = ("a.{:04d}.png",),
    folder: str = "out",
    **params: object,
) -> tuple[Run, dict[tuple[int, int], Path]]:
    """Renders frames of a scripted scene; returns the run and the planned files by output and frame."""
    (tmp_path / folder).mkdir(exist_ok=True)
    scratch = tmp_path / f"scratch-{len(list(tmp_path.glob('scratch-*')))}"
    scratch.mkdir()
    given = {"engine": "CYCLES", "samples": 1, **params}
    if "scene" not in given:
        (tmp_path / "build.py").write_text(script)
        given.setdefault("scene_script", str(tmp_path / "build.py"))
    paths = {
        (output, frame): tmp_path / folder / name.format(frame)
        for output, name in enumerate(names)
        for frame in frames
    }
    context = ChunkContext(
        params=read_params(RENDERER, given),
        frames=frames,
        step_frames=None,
        files=tuple(PlannedFile(output, frame, str(path)) for (output, frame), path in paths.items()),
        patterns=(),
        app=app,
        cores=2,
        scratch=str(scratch),
    )
    (run,) = run_all(RENDERER, context)
    return run, paths


def save_blend(tmp_path: Path, app: AppInstall, script: str, name: str = "a.blend") -> Path:
    """Saves a scripted scene with the program itself."""
    source, target = tmp_path / "save.py", tmp_path / name
    source.write_text(
        f"import bpy\nbpy.ops.wm.read_factory_settings(use_empty=True)\n{script}\n"
        f"bpy.ops.wm.save_as_mainfile(filepath={str(target)!r})\n"
    )
    base = app.argv if app.flavour == "bpy" else (*app.argv, "-b", "--factory-startup", "--python")
    subprocess.run([*base, str(source)], check=True, capture_output=True, timeout=100)
    assert target.is_file()
    return target


def pixels(path: Path) -> list[float]:
    """All values of a picture."""
    image = oiio.ImageBuf(str(path))
    assert image.read(force=True), image.geterror()
    return list(image.get_pixels(oiio.FLOAT).flatten())


def layers_of(path: Path) -> set[str]:
    """Names of the layers of an OpenEXR MultiLayer file."""
    names: set[str] = set()
    image = oiio.ImageInput.open(str(path))
    part = 0
    while image.seek_subimage(part, 0):
        names |= {name.rpartition(".")[0].rpartition(".")[2] for name in image.spec().channelnames}
        part += 1
    image.close()
    return names - {""}
