"""Renders exactly the frames of one chunk inside Blender, 3.4 to 5.x, program or bpy wheel.

Stdlib and bpy only, Python 3.7 syntax.  Started as ``blender -b ... --python blender_runner.py -- TASK`` or
``python blender_runner.py TASK``; TASK is a JSON file.  Prints ``FARM {json}`` lines; everything else in
the log is Blender's.  Exits with 0 or 64, always by ``os._exit``: some versions crash or hang while
they tear down, long after the last file is safe.

Each file is written under a plain name in the task's scratch folder and then moved to its planned path,
because Blender reads ``#``, ``{...}`` and a missing suffix in a path as instructions.
"""

# os.path: one style for every Python from 3.7 on.
# ruff: noqa: B905, PTH100, PTH104, PTH108, PTH110, PTH113, PTH118, PTH120, PTH122, PTH123, PTH202
import json
import os
import re
import shutil
import sys
import time
import traceback

import bpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import blender_sound
from blender_assets import missing_files
from blender_nodes import NodeFiles, Unfit, check_views, compositor, sequencer_renders, view_suffix
from blender_talk import PROGRESS, Failure, emit, leave, warn

FAILED = 64
FORMATS = {
    ".png": "PNG",
    ".exr": "OPEN_EXR",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".tif": "TIFF",
    ".tiff": "TIFF",
}
NAMES = {
    "PNG": "PNG",
    "EXR": "OPEN_EXR",
    "EXR_MULTILAYER": "OPEN_EXR_MULTILAYER",
    "JPEG": "JPEG",
    "TIFF": "TIFF",
}
GPU_KINDS = ("OPTIX", "CUDA", "HIP", "ONEAPI", "METAL")

#: (words in an error of the render operator, class of failure)
ERRORS = (
    (r"GPU( and shared host)? memory|Out of memory in cu|OptiX acceleration structure", "oom-vram"),
    (r"[Oo]ut of memory|returns null|bad_alloc", "oom-ram"),
    (r"cannot save|No space left|create directory|Permission denied|Read-only", "node"),
    (r"no camera|engine not found|No render layer|No View Layer", "config"),
    (r"Cycles device|CUDA|OptiX|HIP|oneAPI|Metal", "node"),
)


def open_scene(task):
    """Opens the file and runs the scene script; returns the scene to render."""
    path = task["scene"]
    if path:
        if not os.path.isfile(path):
            raise Failure("config", "the scene %s does not exist on this machine" % path)
        try:
            bpy.ops.wm.open_mainfile(filepath=path, load_ui=False, use_scripts=bool(task["autoexec"]))
        except RuntimeError as error:
            words = "%s; it may be damaged, or saved by a newer Blender than %s"
            raise Failure("config", words % (clean(error), bpy.app.version_string)) from error
        if not task["autoexec"] and getattr(bpy.app, "autoexec_fail", False):
            text = getattr(bpy.app, "autoexec_fail_message", "")
            warn("the scene holds Python that was not run (%s); set autoexec if it needs it" % text)
    else:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        if hasattr(bpy.context.scene, "cycles"):
            # On by default, and an error in builds without the denoiser: a script has to ask for it.
            bpy.context.scene.cycles.use_denoising = False
    if task["scene_script"]:
        run_script(task["scene_script"], task["parameters"])
    name = task["scene_name"]
    if not name:
        return bpy.context.scene
    scene = bpy.data.scenes.get(name)
    if scene is None:
        known = ", ".join(one.name for one in bpy.data.scenes)
        raise Failure("config", "there is no scene %r in the file (it has %s)" % (name, known))
    return scene


def run_script(path, parameters):
    """Runs a script of the job; its errors are the job's, named by file and line."""
    try:
        with open(path, "rb") as stream:
            code = compile(stream.read(), path, "exec")
        exec(code, {"__name__": "__main__", "__file__": path, "parameters": parameters})
    except SystemExit as error:
        if error.code not in (None, 0):
            raise Failure("config", "the scene script %s exited with %s" % (path, error.code)) from error
    except OSError as error:
        if error.filename == path:
            raise Failure("config", "the scene script %s: %s" % (path, error.strerror)) from error
        raise script_failure(path, error) from error
    except Exception as error:
        raise script_failure(path, error) from error


def script_failure(path, error):
    """The words for an exception of a scene script."""
    traceback.print_exc()
    lines = [entry[1] for entry in traceback.extract_tb(sys.exc_info()[2]) if entry[0] == path]
    where = "%s, line %s" % (path, lines[-1]) if lines else path
    return Failure("config", "the scene script failed: %s: %s (%s)" % (type(error).__name__, error, where))


def clean(error):
    """An operator's error without its prefixes and line ends."""
    text = " ".join(str(error).split())
    return re.sub(r"^(Error: )+", "", text)


def set_engine(scene, wanted):
    """Chooses the render engine; EEVEE is found under the name this version gives it."""
    known = [item.identifier for item in scene.render.bl_rna.properties["engine"].enum_items]
    if not wanted:
        if scene.render.engine == known[0] and scene.render.engine.startswith("BLENDER_EEVEE"):
            # Blender reads an engine it does not know as its first one, silently.
            warn("the engine is not named; Blender reads it as %s" % scene.render.engine)
        return
    other = {"BLENDER_EEVEE": "BLENDER_EEVEE_NEXT", "BLENDER_EEVEE_NEXT": "BLENDER_EEVEE"}
    for name in (wanted, other.get(wanted, wanted)):
        try:
            scene.render.engine = name
            return
        except TypeError as error:
            reason = error
    raise Failure(
        "config", "Blender %s has no engine %s: %s" % (bpy.app.version_string, wanted, clean(reason))
    )


def set_camera(scene, name):
    """Chooses the camera, or makes sure that there is one."""
    if name:
        camera = scene.objects.get(name)
        if camera is None or camera.type != "CAMERA":
            known = ", ".join(one.name for one in scene.objects if one.type == "CAMERA") or "none"
            raise Failure(
                "config", "there is no camera %r in scene %s (it has %s)" % (name, scene.name, known)
            )
        for marker in scene.timeline_markers:
            marker.camera = None  # A marker's camera would win over the one asked for.
        scene.camera = camera
    elif (
        scene.camera is None
        and not any(marker.camera for marker in scene.timeline_markers)
        and not sequencer_renders(scene)
    ):
        raise Failure("config", "scene %s has no camera" % scene.name)


def set_device(scene, task):
    """Makes Cycles use the device that was asked for, or fails: it would fall back to the CPU in silence."""
    wanted, gpus = task["device"], task["gpus"]
    if scene.render.engine != "CYCLES":
        return
    if wanted == "cpu" or (wanted == "auto" and not gpus):
        if scene.cycles.device != "CPU" and wanted == "auto":
            warn("the scene asks for a GPU, the job does not: rendering on the CPU")
        scene.cycles.device = "CPU"
        return
    preferences = bpy.context.preferences.addons["cycles"].preferences
    for kind in GPU_KINDS if wanted == "auto" else (wanted.upper(),):
        try:
            preferences.compute_device_type = kind
        except TypeError:
            continue  # This build of Blender does not have it.
        devices = [one for one in preferences.get_devices_for_type(kind) if one.type == kind]
        if not devices:
            continue
        if len(devices) < gpus:
            words = "Cycles finds %d %s device(s), the lease has %d GPU(s)"
            raise Failure("node", words % (len(devices), kind, gpus))
        for device in preferences.devices:
            device.use = device.type == kind
        scene.cycles.device = "GPU"
        return
    asked = "any GPU" if wanted == "auto" else wanted.upper()
    raise Failure("node", "Cycles finds no device for %s on this machine" % asked)


def set_layers(scene, task):
    """The view layers to render, one per output; [None] = whatever the scene renders, in one file."""
    names, compositing = task["view_layers"], compositor(scene)
    known = [layer.name for layer in scene.view_layers]
    for name in names:
        if name not in known:
            words = "there is no view layer %r in scene %s (it has %s)"
            raise Failure("config", words % (name, scene.name, ", ".join(known)))
    if len(names) > 1 and compositing is not None:
        words = "the scene's compositor joins view layers; set compositing to off, or ask for one output"
        raise Failure("config", words)
    if names:
        return names
    active = [layer.name for layer in scene.view_layers if layer.use]
    if not active:
        raise Failure("config", "no view layer of scene %s is on" % scene.name)
    one_file = task["format"] == "EXR_MULTILAYER" or keeps_multilayer(scene, task)
    if len(active) > 1 and compositing is None and not one_file:
        words = (
            "scene %s renders the view layers %s, and one file holds one of them; name them in view_layers"
        )
        raise Failure("config", words % (scene.name, ", ".join(active)))
    return [None]


def keeps_multilayer(scene, task):
    """Whether the scene's own multilayer EXR is kept: nothing else was asked for and the suffix fits."""
    path = task["frames"][0]["files"][0] if task["frames"] else ""
    own = scene.render.image_settings.file_format == "OPEN_EXR_MULTILAYER"
    return own and not task["format"] and path.lower().endswith(".exr")


def set_nodes(scene, task):
    """Redirects the File Output nodes that are outputs of the step and mutes the others."""
    first, wanted = task["frames"][0]["files"], task["node_outputs"]
    nodes = NodeFiles(
        scene, wanted, first[len(first) - len(wanted) :], os.path.join(task["scratch"], "nodes")
    )
    for name, folder in nodes.muted:
        words = "the File Output node %r (it writes to %s) is no output of the step: it does not run"
        warn(words % (name, folder or "no folder"))
    return nodes


def set_format(scene, task, path):
    """Sets the file format for one planned file."""
    settings = scene.render.image_settings
    if task["format"]:
        wanted = NAMES[task["format"]]
    elif keeps_multilayer(scene, task):
        return
    else:
        wanted = FORMATS[os.path.splitext(path)[1].lower()]
    if hasattr(settings, "media_type"):  # 5.0: the kind of file comes first
        settings.media_type = "MULTI_LAYER_IMAGE" if wanted == "OPEN_EXR_MULTILAYER" else "IMAGE"
    settings.file_format = wanted
    if task["views"]:
        settings.views_format = "INDIVIDUAL"
    for key, value in (("color_mode", task["color_mode"]), ("color_depth", task["color_depth"])):
        if value:
            try:
                setattr(settings, key, value)
            except TypeError as error:
                raise Failure(
                    "config", "%s cannot have %s %s: %s" % (wanted, key, value, clean(error))
                ) from error


def configure(scene, task):
    """Sets everything of the scene that the task states; leaves the rest as the artist saved it."""
    render = scene.render
    set_engine(scene, task["engine"])
    set_camera(scene, task["camera"])
    if task["compositing"] == "off":
        render.use_compositing = False
    multilayer = task["format"] == "EXR_MULTILAYER" or keeps_multilayer(scene, task)
    check_views(scene, task["views"], task["frames"][0]["files"][0], multilayer)
    if task["width"]:
        render.resolution_x = task["width"]
    if task["height"]:
        render.resolution_y = task["height"]
    if task["resolution_percent"]:
        render.resolution_percentage = task["resolution_percent"]
    if task["samples"]:
        if render.engine == "CYCLES":
            scene.cycles.samples = task["samples"]
        elif hasattr(scene, "eevee") and render.engine.startswith("BLENDER_EEVEE"):
            scene.eevee.taa_render_samples = task["samples"]
        else:
            warn("samples has no effect on %s" % render.engine)
    set_device(scene, task)
    render.threads_mode = "FIXED"
    render.threads = max(1, min(1024, task["threads"]))
    render.use_file_extension = False
    render.use_overwrite = True
    render.use_placeholder = False
    render.use_single_layer = False


def check_files(task):
    """Reports what is missing before any time is spent on it."""
    needed, unseen = missing_files([item["frame"] for item in task["frames"]])
    for text in unseen:
        warn(text + " (the render does not use it)")
    if needed and task["missing"] == "fail":
        more = " (and %d more)" % (len(needed) - 1) if len(needed) > 1 else ""
        for text in needed[1:20]:
            warn(text)
        raise Failure("path", needed[0] + more)
    for text in needed:
        warn(text)


def render_one(scene, task, frame, paths):
    """Renders one picture of one frame (or one for each stereo view) and moves it to its planned path."""
    set_format(scene, task, paths[0])
    stem, suffix = os.path.join(task["scratch"], "render"), os.path.splitext(paths[0])[1].lower()
    made = [stem + view_suffix(scene, view) + suffix for view in task["views"] or [""]]
    for temporary in made:
        if os.path.exists(temporary):
            os.unlink(temporary)
    scene.render.filepath = stem + suffix
    try:
        result = bpy.ops.render.render(write_still=True, scene=scene.name)
    except RuntimeError as error:
        text = clean(error)
        if "Build without" in text:
            text += " (this build of Blender lacks it: turn denoising off, or use another build)"
        kind = next((kind for words, kind in ERRORS if re.search(words, text)), "renderer")
        raise Failure(kind, text, frame) from error
    if PROGRESS.canceled or "FINISHED" not in result:
        raise Failure("renderer", "the render was canceled inside Blender", frame)
    for temporary, path in zip(made, paths):
        if not os.path.isfile(temporary) or not os.path.getsize(temporary):
            raise Failure("renderer", "Blender said it was done but wrote no file", frame)
        move(temporary, path, frame)


def move(source, path, frame):
    """Moves a finished file to its planned path, so that it appears there whole or not at all."""
    part = path + ".part"
    try:
        try:
            os.rename(source, path)
        except OSError:
            shutil.copyfile(source, part)
            os.rename(part, path)
            os.unlink(source)
    except OSError as error:
        try:
            os.unlink(part)
        except OSError:
            pass
        raise Failure("path", "cannot write %s: %s" % (path, error.strerror or error), frame) from error


def claim(task, frame):
    """Whether the frame is still wanted here; once it is claimed nobody takes it back any more.

    Two may want it at the same moment, we and whoever takes it back: the file system says who came first.
    """
    folder = task.get("claims")
    if not folder:
        return True
    try:
        os.close(os.open(os.path.join(folder, str(frame)), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        emit("skip", frame=frame)
        return False
    except OSError:
        pass  # A full disk says it louder when the frame is written.
    return True


def mix(scene, task):
    """Mixes the scene's sound into one file and moves it to its planned path."""
    if not blender_sound.is_built_in():
        # Another machine's Blender may have it.
        raise Failure("renderer", "this Blender (%s) was built without sound" % bpy.app.version_string)
    lost = blender_sound.missing_sounds()
    if lost and task["missing"] == "fail":
        raise Failure("path", lost[0] + (" (and %d more)" % (len(lost) - 1) if len(lost) > 1 else ""))
    for text in lost:
        warn(text)
    temporary = os.path.join(task["scratch"], "mix" + os.path.splitext(task["sound"])[1].lower())
    try:
        blender_sound.mixdown(scene, task["mixdown"], temporary)
    except RuntimeError as error:
        raise Failure("config", "the sound cannot be mixed: %s" % clean(error)) from error
    move(temporary, task["sound"], None)


def main(task):
    """Renders the task."""
    if not task["user_settings"] and not bpy.app.binary_path:
        bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = open_scene(task)
    if task["mixdown"]:
        mix(scene, task)
        return
    configure(scene, task)
    layers = set_layers(scene, task)
    nodes = set_nodes(scene, task)
    check_files(task)
    each = max(1, len(task["views"]))
    pictures = len(layers) * each
    bpy.app.handlers.render_stats.append(PROGRESS.stats)
    bpy.app.handlers.render_cancel.append(PROGRESS.cancel)
    for item in task["frames"]:
        frame, began = item["frame"], time.time()
        if not claim(task, frame):
            continue
        emit("start", frame=frame)
        scene.frame_set(frame)
        nodes.clear()
        for index, name in enumerate(layers):
            if name is not None:
                for layer in scene.view_layers:
                    layer.use = layer.name == name
            PROGRESS.begin(frame, index, len(layers))
            render_one(scene, task, frame, item["files"][index * each : (index + 1) * each])
        for source, path in zip(nodes.collect(frame), item["files"][pictures:]):
            move(source, path, frame)
        emit("finish", frame=frame, seconds=round(time.time() - began, 3))


def run():
    """Entry: reads the task, renders it, leaves."""
    arguments = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else sys.argv[1:]
    try:
        with open(arguments[0], encoding="utf-8") as stream:
            task = json.load(stream)
        emit("hello", blender=bpy.app.version_string, python=sys.version.split()[0])
        main(task)
    except Unfit as error:
        emit("problem", failure="config", text=str(error), fatal=True)
        leave(FAILED)
    except Failure as failure:
        emit("problem", failure=failure.failure, text=failure.text, frame=failure.frame, fatal=True)
        leave(FAILED)
    except BaseException as error:
        traceback.print_exc()
        text = "the Blender runner failed: %s: %s" % (type(error).__name__, error)
        emit("problem", failure="config", text=text, fatal=True)
        leave(FAILED)
    leave(0)


if __name__ == "__main__":
    run()
