"""Renders exactly the frames of one chunk with Mitsuba 3, in one process.

Stdlib and mitsuba only.  Started as ``python mitsuba_runner.py TASK``; TASK is a JSON file.  Prints
``FARM {json}`` lines; everything else in the log is Mitsuba's.  Exits with 0 or 64, by ``os._exit``: the
native thread pool has nothing left to do that matters.

The sampler's seed is the frame number, so a frame has the same noise whichever chunk it is in
(to the last bit or so: threads add up what overlaps between blocks in any order).
"""

# os.path: one style with the other runners.
# ruff: noqa: PTH108, PTH113, PTH118, PTH122, PTH123, PTH202, PTH104
import json
import os
import re
import runpy
import shutil
import sys
import time
import traceback

FAILED = 64


class Failure(Exception):
    """The chunk cannot be rendered; carries what the farm should know."""

    def __init__(self, failure, text, frame=None):
        Exception.__init__(self, text)
        self.failure, self.text, self.frame = failure, text, frame


def emit(event, **fields):
    """Prints one line for the farm, on a line of its own (a progress bar may stand before it)."""
    fields["event"] = event
    sys.stdout.flush()
    sys.stdout.write("\nFARM " + json.dumps(fields) + "\n")
    sys.stdout.flush()


def leave(code):
    """Ends the process at once, with everything printed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def clean(error):
    """An exception's text in one line."""
    return " ".join(str(error).split())


def classify(error):
    """The class of failure an error of Mitsuba points to."""
    text = str(error)
    if "out of memory" in text.lower() or "bad_alloc" in text:
        return "oom-vram" if "cuda" in text.lower() else "oom-ram"
    if re.search(r"I/O error|does not exist|[Ff]ile .*not found", text):
        return "path"
    return "config"


def load_mitsuba(variant):
    """Imports Mitsuba and chooses the variant."""
    try:
        import mitsuba
    except ImportError as error:
        raise Failure("node", "mitsuba cannot be imported here: %s" % clean(error)) from error
    try:
        mitsuba.set_variant(variant)
    except Exception as error:
        if "shared object" in str(error) or "DLL load failed" in str(error):
            # Its compiled part does not load: a library is missing on this machine.
            raise Failure("node", "mitsuba cannot be loaded here: %s" % clean(error)) from error
        words = "Mitsuba %s cannot use the variant %s: %s"
        raise Failure("config", words % (mitsuba.__version__, variant, clean(error))) from error
    mitsuba.set_log_level(mitsuba.LogLevel.Info)
    return mitsuba


def load_script(path):
    """The build function of a scene script."""
    if not os.path.isfile(path):
        raise Failure("config", "the scene script %s does not exist on this machine" % path)
    try:
        build = runpy.run_path(path).get("build")
    except (Exception, SystemExit) as error:
        raise script_failure(path, error, None) from error
    if not callable(build):
        raise Failure("config", "the scene script %s has no function build" % path)
    return build


def script_failure(path, error, frame):
    """The words for an exception of a scene script."""
    traceback.print_exc()
    lines = [entry[1] for entry in traceback.extract_tb(sys.exc_info()[2]) if entry[0] == path]
    where = "%s, line %s" % (path, lines[-1]) if lines else path
    text = "the scene script failed: %s: %s (%s)" % (type(error).__name__, clean(error), where)
    return Failure("config", text, frame)


def load_scene(mitsuba, task, build, frame):
    """The scene of one frame."""
    if build is None:
        return load_xml(mitsuba, task, frame)
    try:
        scene = build(frame, task["first"], task["last"], dict(task["parameters"]))
    except (Exception, SystemExit) as error:
        raise script_failure(task["scene_script"], error, frame) from error
    if not isinstance(scene, dict):
        return scene
    try:
        return mitsuba.load_dict(scene)
    except Exception as error:
        raise Failure(classify(error), clean(error), frame) from error


def load_xml(mitsuba, task, frame):
    """The scene of an XML file, with $frame if it uses that."""
    path = task["scene"]
    if not os.path.isfile(path):
        raise Failure("config", "the scene %s does not exist on this machine" % path)
    given = {key: text_of(value) for key, value in task["parameters"].items()}
    try:
        try:
            return mitsuba.load_file(path, frame=str(frame), **given)
        except RuntimeError as error:
            # An unused parameter is an error; a scene that stands still does not use $frame.
            if "unused parameters" not in str(error) or "$frame=" not in str(error):
                raise
            return mitsuba.load_file(path, **given)
    except Exception as error:
        raise Failure(classify(error), clean(error), frame) from error


def text_of(value):
    """A parameter as it stands in XML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def resize(mitsuba, scene, sensor, width, height):
    """Sets the film's size."""
    parameters = mitsuba.traverse(scene.sensors()[sensor])
    parameters["film.size"] = [width, height]
    parameters.update()


def render(mitsuba, task, build, frame, path):
    """Renders one frame to its planned path."""
    scene = load_scene(mitsuba, task, build, frame)
    sensors = scene.sensors()
    if task["sensor"] >= len(sensors):
        words = "the scene has %d sensor(s), so there is no sensor %d"
        raise Failure("config", words % (len(sensors), task["sensor"]), frame)
    try:
        if task["width"]:
            resize(mitsuba, scene, task["sensor"], task["width"], task["height"])
        mitsuba.render(scene, sensor=task["sensor"], seed=frame & 0xFFFFFFFF, spp=task["spp"])
        bitmap = scene.sensors()[task["sensor"]].film().bitmap()
    except Exception as error:
        kind = classify(error)
        raise Failure("renderer" if kind == "config" else kind, clean(error), frame) from error
    temporary = os.path.join(task["scratch"], "render" + os.path.splitext(path)[1].lower())
    try:
        write(mitsuba, bitmap, temporary, task["color_depth"])
    except Exception as error:
        raise Failure("node", "cannot write %s: %s" % (temporary, clean(error)), frame) from error
    move(temporary, path, frame)


def write(mitsuba, bitmap, path, depth):
    """Writes the developed film: EXR as it is, PNG and JPEG in sRGB."""
    samples = mitsuba.Struct.Type
    if path.endswith(".exr"):
        if depth:
            kind = samples.Float16 if depth == "16" else samples.Float32
            bitmap = bitmap.convert(component_format=kind)
        bitmap.write(path)
        return
    layers = mitsuba.Bitmap.PixelFormat
    if bitmap.pixel_format() == layers.MultiChannel:
        bitmap = dict(bitmap.split())["<root>"]
    options = {"component_format": samples.UInt16 if depth == "16" else samples.UInt8, "srgb_gamma": True}
    alpha = bitmap.pixel_format() in (layers.RGBA, layers.YA, layers.XYZA)
    if alpha and path.endswith(".png"):
        # The film is premultiplied, PNG is not.
        options["alpha_transform"] = mitsuba.Bitmap.AlphaTransform.Unpremultiply
        options["pixel_format"] = layers.RGBA
    else:
        options["pixel_format"] = layers.RGB
    bitmap.convert(**options).write(path)


def move(source, path, frame):
    """Moves a finished file to its planned path, so that it appears there whole or not at all."""
    part = path + ".part"
    try:
        if not os.path.getsize(source):
            raise Failure("renderer", "Mitsuba wrote an empty file", frame)
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


def main(task):
    """Renders the task."""
    mitsuba = load_mitsuba(task["variant"])
    build = load_script(task["scene_script"]) if task["scene_script"] else None
    for item in task["frames"]:
        frame, began = item["frame"], time.time()
        if not claim(task, frame):
            continue
        emit("start", frame=frame)
        render(mitsuba, task, build, frame, item["file"])
        emit("finish", frame=frame, seconds=round(time.time() - began, 3))


def run():
    """Entry: reads the task, renders it, leaves."""
    try:
        with open(sys.argv[1], encoding="utf-8") as stream:
            task = json.load(stream)
        main(task)
    except Failure as failure:
        emit("problem", failure=failure.failure, text=failure.text, frame=failure.frame, fatal=True)
        leave(FAILED)
    except BaseException as error:
        traceback.print_exc()
        text = "the Mitsuba runner failed: %s: %s" % (type(error).__name__, error)
        emit("problem", failure="config", text=text, fatal=True)
        leave(FAILED)
    leave(0)


if __name__ == "__main__":
    run()
