"""What is said before a scene is submitted: plain words, a severity and a cure for each finding.

What belongs here: judging what was collected, and saying what to look at on the disk.  What must not: Blender
(no ``bpy``) and the disk itself, which is looked at in the background.
"""

import os

from . import job, naming
from ._shared.messages import error, note, warning


def check(shot, chosen, changed=False):
    """Messages about the scene and the choices.

    Args:
        shot: What ``collect.collect`` gave.
        chosen: The choices.
        changed: What of the scene differs from the saved file though Blender does not say so; empty: nothing.
    """
    found = []
    for part in (_file, _frames, _cameras, _layers, _output, _engine, _content, _names):
        found += part(shot, chosen)
    if changed and shot["file"] and not shot["dirty"] and chosen["source"] == "SAVED":
        parts = ": %s" % ", ".join(changed) if isinstance(changed, (list, tuple)) else ""
        text = (
            "The scene is not as it was saved, though Blender does not say so (a script changed it%s)" % parts
        )
        found.append(error("changed", text, "Save the file, or submit a copy of what is open"))
    found += _simulations(shot, chosen)
    return found


def looks(shot, chosen):
    """What is to be looked at on the disk, for ``_shared.disk.look``."""
    wanted = []
    try:
        patterns = [
            pattern
            for _, _, _, pictures, nodes in job.plan(shot, chosen)
            for pattern in pictures + [each["pattern"] for each in nodes]
        ]
    except job.Impossible:
        patterns = []
    if shot["output"]["kind"] == "movie" and shot["output"]["movie"]:
        patterns.append(shot["output"]["movie"])
    wanted += [{"look": "output", "path": pattern} for pattern in patterns[:50]]
    for asset in shot["assets"]:
        severity = "error"
        if not asset["rendered"]:
            severity = "note"
        elif chosen["allow_missing"]:
            severity = "warning"
        one = {"look": "file", "path": asset["path"], "what": asset["what"], "severity": severity}
        if asset["kind"] == "dir":
            one["look"] = "folder"
        elif asset["kind"] == "udim":
            one.update(look="tiles", numbers=asset["numbers"])
        elif asset["kind"] == "sequence" and asset["users"]:
            one.update(look="frames", numbers=_numbers(asset["users"], job.frames_text(shot, chosen)))
        wanted.append(one)
    for simulation in shot["simulations"]:
        if not simulation["folder"] or simulation["baked"] is False:
            continue
        severity = "error" if simulation["baked"] and not chosen["allow_missing"] else "warning"
        one = {"look": "folder", "path": simulation["folder"], "what": "cache of the " + simulation["what"]}
        wanted.append(dict(one, severity=severity, cure="Bake the simulation again"))
    return wanted


def sequence_number(user, frame):
    """The number of the file a frame shows, None for nothing (the arithmetic of Blender's image users)."""
    length, start, offset, cyclic = user
    if length <= 0:
        return None
    at = frame - start + 1
    if cyclic:
        at = at % length or length
    if at < 1:
        return None
    return min(at, length) + offset


def _numbers(users, frames):
    """Works out, when asked in the background, which files of a sequence the frames need."""

    def numbers():
        wanted = job.frames_list(frames) or ()
        found = {sequence_number(user, frame) for user in users for frame in wanted}
        return found - {None}

    return numbers


def _file(shot, chosen):
    if not shot["file"]:
        yield error(
            "unsaved", "The file has never been saved", "Save it where the farm's machines can read it"
        )
        return
    if shot["dirty"] and chosen["source"] == "SAVED":
        yield error(
            "dirty", "The file has unsaved changes", "Save it (Ctrl+S), or submit a copy of what is open"
        )
    if shot["unsaved_images"] and chosen["source"] == "SAVED":
        names = ", ".join(shot["unsaved_images"][:5])
        yield warning(
            "image-unsaved", "Painted images are not saved: %s" % names, "Save or pack them (Image > Save)"
        )


def _frames(shot, chosen):
    frames = shot["frames"]
    if chosen["frames_from"] == "LIST" and not chosen["frames"].strip():
        yield error("frames-empty", "No frames are named", "Write them as 1-100, 1-100x5 or 1,5,9")
    elif chosen["frames_from"] == "SCENE" and frames["end"] < frames["start"]:
        text = "The frame range is empty: it starts at %d and ends at %d" % (frames["start"], frames["end"])
        yield error("frames-empty", text, "Set the range in the Output properties")
    elif chosen["frames_from"] == "LIST" and job.frames_list(chosen["frames"]) == []:
        yield error("frames-empty", "The frame range is empty", "Write frames as 1-100, 1-100x5 or 1,5,9")


def _cameras(shot, chosen):
    how = chosen["camera_from"]
    if how == "EACH" and not shot["cameras"]:
        yield error("camera-missing", "The scene has no camera", "Add one")
    elif how == "ONE" and chosen["camera"] not in shot["cameras"]:
        text = (
            "There is no camera named %r in the scene" % chosen["camera"]
            if chosen["camera"]
            else "No camera is chosen"
        )
        yield error(
            "camera-missing", text, "Choose one of: %s" % (", ".join(shot["cameras"]) or "none there")
        )
    elif how == "SCENE" and not shot["camera"] and not shot["bound_cameras"] and not shot["sequencer"]:
        yield error(
            "camera-missing", "The scene has no camera", "Add one, or make one the scene's (Ctrl+Numpad 0)"
        )
    if shot["bound_cameras"]:
        names = ", ".join("%s from frame %d" % (name, frame) for frame, name in shot["bound_cameras"][:5])
        if how == "SCENE":
            yield note("camera-markers", "Markers switch cameras: %s" % names)
        else:
            yield warning("camera-markers", "The markers' cameras (%s) are not followed" % names)


def _layers(shot, chosen):
    if not shot["layers"]:
        yield error("layer-missing", "No view layer is on", "Turn on 'Use for Rendering' of a view layer")
    layers = job.layer_plan(shot, chosen)
    if layers and shot["output"]["kind"]:
        yield note("layers", "Each view layer gets files of its own: %s" % ", ".join(layers))


def _output(shot, chosen):
    output = shot["output"]
    if not output["kind"]:
        yield error("output-missing", "The scene has no output path", "Set it in the Output properties")
        return
    if output["error"]:
        yield error(
            "output-path",
            "The output path %s cannot be used: %s" % (output["path"], output["error"]),
            "Change it",
        )
        return
    form = job.output_format(shot, chosen)
    if not form:
        text = "The farm cannot write %s files" % output["blender_format"]
        yield error("format", text, "Choose PNG, OpenEXR, JPEG or TIFF, here or in the Output properties")
        return
    views = job.separate_views(shot, chosen)
    if len({suffix.lower() for _, suffix in views}) < len(views):
        text = "The stereo views %s would write the same files" % ", ".join(name for name, _ in views)
        yield error("views", text, "Give each a file suffix of its own (Output > Stereoscopy)")
    elif views:
        text = "Each stereo view gets files of its own: %s" % ", ".join(
            "%s (%s)" % (name, os.path.basename(naming.with_view(job.frame_pattern(shot, chosen), suffix)))
            for name, suffix in views
        )
        yield note("views", text)
    pattern = job.frame_pattern(shot, chosen)
    token = naming.misread_token(pattern)
    if token:
        text = "The farm would read %s in the file name %s as the frame's number" % (
            token,
            os.path.basename(pattern),
        )
        yield error("output-token", text, "Take it out of the name")
    if output["added_suffix"] and chosen["format"] == "SCENE":
        text = "File Extensions is off; the files are named with %s all the same" % output["added_suffix"]
        yield warning("suffix", text)
    if output["kind"] == "movie":
        for message in _movie(shot, chosen, pattern):
            yield message
    for node in shot["node_outputs"]:
        for message in _node(node):
            yield message
    for twice in _twice(shot, chosen):
        text = "Two outputs of the job would write the same file %s" % twice
        yield error("output-twice", text, "Give each its own name or folder")
    if job.existing(shot, chosen) == "skip" and chosen["existing"] == "SCENE":
        yield note("existing", "Overwrite is off: frames that are there are verified, not rendered again")


def _node(node):
    """What a File Output node writes, and why it cannot."""
    name = "File Output node %s" % node["node"]
    if node["tree"]:
        name += " in the node group %s" % node["tree"]
    if node["error"]:
        text = "What the %s writes cannot be an output of the job: %s" % (name, node["error"])
        yield error("node-output", text, "Change it, or mute the node (M)")
        return
    for each in node["files"]:
        token = naming.misread_token(each["pattern"])
        if token:
            text = "The farm would read %s in the file name %s of the %s as the frame's number"
            yield error(
                "output-token",
                text % (token, os.path.basename(each["pattern"]), name),
                "Take it out of the name",
            )
    text = "The %s writes %d file(s) a frame, verified like the others: %s"
    shown = ", ".join(each["pattern"] for each in node["files"][:3])
    more = ", ..." if len(node["files"]) > 3 else ""
    yield note("node-output", text % (name, len(node["files"]), shown + more))


def _twice(shot, chosen):
    """Patterns that more than one output would write."""
    try:
        steps = job.plan(shot, chosen)
    except job.Impossible:
        return []
    seen, twice = set(), []
    for _, _, _, pictures, nodes in steps:
        for each in pictures + [one["pattern"] for one in nodes]:
            (twice.append if os.path.normcase(each) in seen else seen.add)(os.path.normcase(each))
    return twice


def _movie(shot, chosen, pattern):
    output = shot["output"]
    codec, suffix = job.movie_plan(shot)
    yield note("movie", "The movie is stitched after its frames, which stay in %s" % os.path.dirname(pattern))
    if output["codec"] not in ("H264", "FFV1", "NONE", "") or (output["codec"] == "FFV1" and codec != "ffv1"):
        yield warning("movie-codec", "The movie is encoded as H.264, not %s" % output["codec"])
    if suffix != os.path.splitext(output["movie"])[1].lower():
        name = os.path.splitext(os.path.basename(output["movie"]))[0] + suffix
        yield warning("movie-container", "The movie is written as %s" % name)
    if output["audio"] and shot["sound"]:
        if job.sound_plan(shot, chosen):
            yield note("movie-sound", "The scene's sound is mixed on the farm, by a step of its own")
        else:
            yield warning(
                "movie-sound",
                "The movie is silent: its frames have gaps, and sound has none",
                "Submit one run of frames with step 1",
            )


def _engine(shot, chosen):
    if not shot["own_engine"]:
        text = "The engine %s comes from an add-on" % shot["engine"]
        yield warning("engine-addon", text, "Each machine of the farm must have it installed and enabled")
    gpus = job.gpus(shot, chosen)
    if shot["device"] == "GPU" and not gpus:
        yield warning(
            "gpu",
            "The scene renders on a GPU, the job asks for none: it is rendered on the CPU",
            "Set GPUs to 1",
        )
    elif gpus and shot["device"] == "CPU":
        text = "The scene is set to the CPU; the farm renders it on %d GPU(s)" % gpus
        yield warning("gpu", text, "Set GPUs to 0 to render as the scene says")
    elif gpus:
        yield note("gpu", "Each chunk asks for %d GPU(s)" % gpus)


def _content(shot, chosen):
    if shot["python"] and not chosen["run_python"]:
        more = " (and %d more)" % (len(shot["python"]) - 1) if len(shot["python"]) > 1 else ""
        text = "The file's own Python is not run on the farm: %s%s" % (shot["python"][0], more)
        yield warning("python", text, "Turn on 'Run Python of the file' if the picture needs it")
    if shot["unpackable"]:
        text = "Image sequences and movies cannot be packed: %s" % ", ".join(shot["unpackable"][:5])
        yield warning("unpackable", text, "Keep them where the farm's machines can read them")
    width, height, percent = shot["size"]
    if percent != 100:
        yield note("percent", "Rendered at %d %% of %d x %d" % (percent, width, height))
    if shot["border"]:
        what = "and the picture is cropped to it" if shot["crop"] else "the rest stays empty"
        yield note("border", "Only the render region is rendered, %s" % what)


def _names(shot, chosen):
    paths = [shot["file"], shot["output"]["pattern"] or shot["output"]["movie"]]
    paths += [asset["path"] for asset in shot["assets"]]
    paths += [each["pattern"] for node in shot["node_outputs"] for each in node["files"]]
    for path in paths:
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            shown = path.encode("utf-8", "backslashreplace").decode("ascii", "replace")
            yield error("name-encoding", "The name %s is not UTF-8" % shown, "Rename the file or folder")
            continue
    foreign = [path for path in paths if any(ord(letter) > 127 for letter in path)]
    if foreign:
        text = "%d path(s) hold letters beyond ASCII, e.g. %s" % (len(foreign), foreign[0])
        yield note("name-letters", text, "All machines must mount that folder with UTF-8 names")


def _simulations(shot, chosen):
    several = len(job.frames_list(job.frames_text(shot, chosen)) or (0, 0)) > 1
    for simulation in shot["simulations"]:
        if simulation["baked"] is False and several:
            text = (
                "The %s is not baked: machines that begin in the middle show it wrongly" % simulation["what"]
            )
            yield warning("simulation", text, "Bake it and save the file")
    folders = [
        each["folder"] for each in shot["simulations"] if each["folder"] and each["baked"] is not False
    ]
    beside = os.path.join(os.path.dirname(shot["file"]), "blendcache_")
    if chosen["source"] == "COPY" and any(folder.startswith(beside) for folder in folders):
        text = "Caches beside the file are found by the file's name: a copy does not see them"
        yield error("copy-caches", text, "Save the file and submit it as saved")
