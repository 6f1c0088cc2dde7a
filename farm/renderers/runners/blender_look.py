"""Reads what a form asks about a scene, inside Blender, 3.4 to 5.x, without rendering or changing anything.

Stdlib and bpy only, Python 3.7 syntax.  Started as ``blender --background --factory-startup
--disable-autoexec --python blender_look.py -- SCENE``.  Prints one line, ``FARM {json}``; everything else is
Blender's.  Exits with 0 or 64, always by ``os._exit``: some versions crash or hang while they tear down.

Python that is saved in the scene is never run.
"""

# os.path: one style for every Python from 3.7 on.
# ruff: noqa: B905, PTH113
import json
import os
import sys

import bpy

FAILED = 64
FORMATS = {
    "PNG": "png",
    "OPEN_EXR": "exr",
    "OPEN_EXR_MULTILAYER": "exr",
    "JPEG": "jpg",
    "TIFF": "tif",
}
_A, _B = 1111111, 2222222


def tell(facts, code):
    """Prints the line and ends."""
    print("FARM " + json.dumps(facts), flush=True)
    os._exit(code)


def pattern_of(scene):
    """The render's own output as a pattern; "" where Blender does not name one file for each frame.

    The pattern is not worked out from the text of the path, which has rules of its own: Blender is asked for
    the names of three frames, and the pattern is read off them.
    """

    def name(frame):
        return os.path.normpath(bpy.path.abspath(scene.render.frame_path(frame=frame)))

    one, two, three = name(_A), name(_B), name(1)
    at = next((index for index, (left, right) in enumerate(zip(one, two)) if left != right), None)
    if at is None:
        return ""
    before, after = one[:at], one[at + 7 :]
    width = len(three) - len(before) - len(after)
    if one[at : at + 7] != str(_A) or two != before + str(_B) + after or width < 1:
        return ""
    if three != "%s%0*d%s" % (before, width, 1, after):
        return ""
    suffix = FORMATS.get(scene.render.image_settings.file_format, "")
    if "." not in after and suffix:  # File Extensions is off: the farm's checks need one
        after += "." + suffix
    return before + "#" * width + after


def output_of(scene):
    """Kind, path as it was typed, and pattern of the output."""
    render = scene.render
    found = {"path": render.filepath, "kind": "none", "pattern": "", "format": ""}
    if not render.filepath.strip():
        return found
    found["format"] = render.image_settings.file_format
    try:
        if render.is_movie_format:
            found["kind"] = "movie"
        else:
            found["kind"], found["pattern"] = "sequence", pattern_of(scene)
    except (RuntimeError, ValueError, TypeError) as error:
        found["error"] = " ".join(str(error).split())
    return found


def look(scene):
    """What a form asks about a scene."""
    render = scene.render
    return {
        "version": bpy.app.version_string,
        "scene": scene.name,
        "scenes": [one.name for one in bpy.data.scenes],
        "start": scene.frame_start,
        "end": scene.frame_end,
        "step": scene.frame_step,
        "engine": render.engine,
        "width": render.resolution_x,
        "height": render.resolution_y,
        "percent": render.resolution_percentage,
        "camera": scene.camera.name if scene.camera is not None else "",
        "cameras": sorted(one.name for one in scene.objects if one.type == "CAMERA"),
        "bound": any(marker.camera is not None for marker in scene.timeline_markers),
        "layers": [layer.name for layer in scene.view_layers if layer.use],
        "output": output_of(scene),
        "python": bool(getattr(bpy.app, "autoexec_fail", False)),
    }


def main():
    """Opens the scene and tells."""
    path = sys.argv[sys.argv.index("--") + 1]
    if not os.path.isfile(path):
        tell({"error": "%s does not exist, or may not be read" % path}, FAILED)
    try:
        bpy.ops.wm.open_mainfile(filepath=path, load_ui=False, use_scripts=False)
    except RuntimeError as error:
        words = " ".join(str(error).split()).replace("Error: ", "")
        hint = "it may be damaged, or saved by a newer Blender than %s" % bpy.app.version_string
        tell({"error": "%s; %s" % (words, hint)}, FAILED)
    tell(look(bpy.context.scene), 0)


try:
    main()
except Exception as error:  # a scene nobody foresaw must reach the artist as words
    tell({"error": "%s: %s" % (type(error).__name__, error)}, FAILED)
