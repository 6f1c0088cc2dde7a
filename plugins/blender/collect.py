"""Reads a scene: everything the job is made of, as plain data.

What belongs here: reading, of any Blender from 3.4 to 5.x, without changing anything and without raising for
what a version does not have.  What must not: deciding what is wrong (``checks``) or making a job (``job``),
and looking at the disk (``_shared.disk``, in the background).
"""

import bpy

from . import assets, outputs, simulations

#: Engines that need no add-on; what they are called in any version.
OWN_ENGINES = ("CYCLES", "BLENDER_EEVEE", "BLENDER_EEVEE_NEXT", "BLENDER_WORKBENCH")


def collect(scene):
    """Everything the job is made of.

    Args:
        scene: The scene to be rendered.

    Returns:
        A dictionary of plain values (see the keys below); ``assets`` and ``simulations`` are lists of
        dictionaries, ``output`` is what ``outputs.main_output`` says.
    """
    render = scene.render
    frames = {
        "start": scene.frame_start,
        "end": scene.frame_end,
        "step": scene.frame_step,
        "current": scene.frame_current,
    }
    tree = compositor(scene)
    return {
        "file": bpy.data.filepath,
        "dirty": dirty(),
        "version": tuple(bpy.app.version[:3]),
        "scene": scene.name,
        "scenes": [one.name for one in bpy.data.scenes],
        "engine": render.engine,
        "own_engine": render.engine in OWN_ENGINES,
        "device": getattr(getattr(scene, "cycles", None), "device", "CPU")
        if render.engine == "CYCLES"
        else "",
        "frames": frames,
        "rate": rate(render),
        "layers": [layer.name for layer in scene.view_layers if layer.use],
        "camera": scene.camera.name if scene.camera is not None else "",
        "cameras": sorted(each.name for each in scene.objects if each.type == "CAMERA"),
        "bound_cameras": bound_cameras(scene),
        "sequencer": uses_sequencer(scene),
        "compositing": tree is not None,
        "views": outputs.views(scene),
        "views_format": render.image_settings.views_format if render.use_multiview else "",
        "output": outputs.main_output(scene),
        # The compositor does not run when the sequencer makes the picture.
        "node_outputs": [] if uses_sequencer(scene) else outputs.node_outputs(scene, tree),
        "size": (render.resolution_x, render.resolution_y, render.resolution_percentage),
        "border": bool(render.use_border),
        "crop": bool(render.use_border and render.use_crop_to_border),
        "overwrite": bool(render.use_overwrite),
        "sound": sounds(scene),
        "python": python_in_file(),
        "unsaved_images": [each.name for each in bpy.data.images if each.is_dirty and used(each)],
        "unpackable": unpackable(),
        "assets": assets.collect(scene, strips(scene)),
        "simulations": simulations.collect(scene),
    }


def dirty():
    """Whether there are unsaved changes, as far as Blender knows.

    The bpy wheel (no program) says so always, a file just opened or saved included: there it means nothing.
    """
    return bool(bpy.data.is_dirty and bpy.app.binary_path)


def used(block):
    """Whether anything but a fake user keeps a data-block."""
    return block.users - (1 if block.use_fake_user else 0) > 0


def unpackable():
    """Image sequences and movies that stay files though the artist packs: Blender cannot pack them."""
    images = [each for each in bpy.data.images if used(each)]
    if not bpy.data.use_autopack and not any(assets.packed(each) for each in images):
        return []
    return [each.name for each in images if each.source in ("SEQUENCE", "MOVIE") and each.filepath]


def compositor(scene):
    """The node tree the render goes through, None if it does not."""
    if not scene.render.use_compositing:
        return None
    if hasattr(scene, "compositing_node_group"):
        return scene.compositing_node_group
    return scene.node_tree if getattr(scene, "use_nodes", False) else None


def strips(scene):
    """Strips of the sequencer that are not muted, under either name."""
    editor = scene.sequence_editor
    if editor is None:
        return []
    every = getattr(editor, "strips_all", None)
    if every is None:
        every = getattr(editor, "sequences_all", ())
    return [each for each in every if not each.mute]


def uses_sequencer(scene):
    """Whether the sequencer makes the picture; strips of sound alone do not."""
    return bool(scene.render.use_sequencer and any(each.type != "SOUND" for each in strips(scene)))


def sounds(scene):
    """Whether the scene is heard: strips of sound, or speakers."""
    return any(each.type == "SOUND" for each in strips(scene)) or any(
        each.type == "SPEAKER" and each.data.sound is not None and not each.data.muted
        for each in scene.objects
    )


def bound_cameras(scene):
    """Cameras bound to markers, in the order of their frames: (frame, name)."""
    found = [
        (marker.frame, marker.camera.name) for marker in scene.timeline_markers if marker.camera is not None
    ]
    return sorted(found)


def rate(render):
    """Frames a second as a fraction: 24/1, 24000/1001."""
    base = render.fps_base
    if abs(base - 1.001) < 1e-4:
        return "%d/1001" % (render.fps * 1000)
    if abs(base - round(base)) < 1e-6 and round(base) >= 1:
        return "%d/%d" % (render.fps, round(base))
    return "%d/%d" % (round(render.fps * 1000000 / base), 1000000)


def python_in_file():
    """Why the file needs its own Python to be run: texts, empty when it does not."""
    reasons = ["the text %s is registered to run" % text.name for text in bpy.data.texts if text.use_module]
    blocks = 0
    for collection in (
        *(
            "objects",
            "meshes",
            "curves",
            "materials",
            "node_groups",
            "lights",
            "cameras",
            "worlds",
            "armatures",
        ),
        *(
            "shape_keys",
            "scenes",
            "lattices",
            "metaballs",
            "textures",
            "particles",
            "lightprobes",
            "speakers",
        ),
    ):
        for block in getattr(bpy.data, collection, ()):
            data = getattr(block, "animation_data", None)
            for curve in data.drivers if data is not None else ():
                driver = curve.driver
                if driver.type == "SCRIPTED" and not driver.is_simple_expression:
                    blocks += 1
                    if blocks == 1:
                        reasons.append("a driver of %s is a script" % block.name)
    return reasons
