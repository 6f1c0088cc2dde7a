"""Makes the job file's content of what was collected and chosen; pure, so that it can be tested anywhere.

What belongs here: which steps there are, what they render, where they write.  What must not: Blender (no
``bpy``), the disk, and words for people (``checks``).
"""

import os
import re

from . import naming

#: What the farm's stitch step puts into which file.
_MOVIES = {".mp4": "h264", ".mov": "h264", ".m4v": "h264", ".mkv": "h264"}
#: Frame numbers worked out one by one at most; a longer range is not looked through file by file.
MOST_FRAMES = 200000
_PIECE = re.compile(r"(-?\d+)(?:-(-?\d+)(?:[x:]-?(\d+))?)?$")
#: Choices and what they are when nothing was chosen.
DEFAULTS = {
    "name": "",
    "project": "",
    "priority": 50,
    "pools": "",
    "frames_from": "SCENE",
    "frames": "",
    "chunk": 0,
    "scout": 0,
    "paused": False,
    "camera_from": "SCENE",
    "camera": "",
    "format": "SCENE",
    "source": "SAVED",
    "cores": 0,
    "ram_gib": 0.0,
    "gpus": -1,
    "version": "SAME",
    "existing": "SCENE",
    "allow_missing": False,
    "run_python": False,
}


class Impossible(Exception):
    """There is no job to be made of this; ``checks`` says why in words."""


def frames_text(shot, chosen):
    """The frame range as the farm writes it, "" for none."""
    frames = shot["frames"]
    if chosen["frames_from"] == "LIST":
        return " ".join(chosen["frames"].split())
    if chosen["frames_from"] == "CURRENT":
        return str(frames["current"])
    if frames["end"] < frames["start"]:
        return ""
    if frames["start"] == frames["end"]:
        return str(frames["start"])
    step = max(1, frames["step"])
    text = "%d-%d" % (frames["start"], frames["end"])
    return text if step == 1 else "%sx%d" % (text, step)


def frames_list(text):
    """The frames of a range, None when they are too many or the range is not one (the farm will say so)."""
    found = []
    for piece in re.split(r"[,\s]+", text.strip()):
        match = _PIECE.match(piece)
        if match is None:
            return None
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        step = int(match.group(3) or 1)
        if not step or abs(last - first) // step > MOST_FRAMES:
            return None
        found += range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
        if len(found) > MOST_FRAMES:
            return None
    return found


def output_format(shot, chosen):
    """The farm's name of the format of the frames, "" when it cannot write it."""
    if chosen["format"] != "SCENE":
        return chosen["format"]
    return "PNG" if shot["output"]["kind"] == "movie" else shot["output"]["format"]


def frame_pattern(shot, chosen):
    """The pattern of the frames, before view layers and cameras are told apart."""
    output, form = shot["output"], output_format(shot, chosen)
    if output["kind"] == "movie":
        folder, name = os.path.split(output["movie"])
        stem = os.path.splitext(name)[0]
        return os.path.join(folder, stem + "_frames", "%s.####%s" % (stem, naming.SUFFIXES[form]))
    if chosen["format"] != "SCENE":
        return naming.with_suffix(output["pattern"], form)
    return output["pattern"]


def movie_plan(shot):
    """(codec, suffix) of the movie that is stitched of the frames."""
    suffix = os.path.splitext(shot["output"]["movie"])[1].lower()
    if shot["output"]["codec"] == "FFV1" and suffix == ".mkv":
        return "ffv1", ".mkv"
    return ("h264", suffix) if suffix in _MOVIES else ("h264", ".mp4")


def layer_plan(shot, chosen):
    """View layers that get a file of their own; empty when all go into one."""
    if shot["compositing"] or shot["sequencer"] or output_format(shot, chosen) == "EXR_MULTILAYER":
        return []
    return shot["layers"] if len(shot["layers"]) > 1 else []


def camera_plan(shot, chosen):
    """The cameras asked for by name; [""] for the scene's own (markers included)."""
    if chosen["camera_from"] == "EACH":
        return shot["cameras"]
    if chosen["camera_from"] == "ONE":
        return [chosen["camera"]]
    return [""]


def plan(shot, chosen):
    """The render steps: (step name, camera, view layers, patterns).

    Raises:
        Impossible: There is no pattern or no camera to plan with.
    """
    form, cameras = output_format(shot, chosen), camera_plan(shot, chosen)
    if not form or not cameras or not (shot["output"]["pattern"] or shot["output"]["movie"]):
        raise Impossible
    pattern, layers = frame_pattern(shot, chosen), layer_plan(shot, chosen)
    steps, names = [], naming.Unique()
    camera_parts, layer_parts = naming.Unique(), naming.Unique()
    layer_words = [(layer, layer_parts.take(naming.file_part(layer))) for layer in layers]
    for camera in cameras:
        base, name = pattern, "render"
        if len(cameras) > 1:
            part = camera_parts.take(naming.file_part(camera))
            base, name = naming.with_part(pattern, part), naming.step_name("render_" + camera)
        patterns = [naming.with_part(base, word) for _, word in layer_words] or [base]
        steps.append((names.take(name), camera, layers, patterns))
    return steps


def build(shot, chosen, scene_file):
    """The job file's content.

    Args:
        shot: What ``collect.collect`` gave.
        chosen: The choices, ``DEFAULTS`` where nothing was chosen.
        scene_file: The .blend to render: the artist's, or a copy of what is open.

    Raises:
        Impossible: ``checks`` says why.
    """
    frames = frames_text(shot, chosen)
    if not frames:
        raise Impossible
    steps = []
    for name, camera, layers, patterns in plan(shot, chosen):
        steps.append(_render_step(shot, chosen, scene_file, name, camera, layers, patterns, frames))
    if shot["output"]["kind"] == "movie":
        count = frames_list(frames)
        for step in list(steps):
            for index, output in enumerate(step["outputs"]):
                taken = len(steps)
                steps.append(
                    _film_step(
                        shot,
                        step,
                        index,
                        output["pattern"],
                        taken,
                        None if count is None else len(set(count)),
                    )
                )
    stem = os.path.splitext(os.path.basename(shot["file"]))[0]
    name = chosen["name"].strip() or (stem if len(shot["scenes"]) == 1 else "%s %s" % (stem, shot["scene"]))
    return {
        "overcrank_job": 1,
        "name": name[:255],
        "project": chosen["project"].strip(),
        "priority": int(chosen["priority"]),
        "paused": bool(chosen["paused"]),
        "scout": int(chosen["scout"]),
        "app": {"name": "blender", "version": ".".join(str(part) for part in shot["version"])},
        "assets": job_assets(shot, chosen),
        "steps": steps,
    }


def gpus(shot, chosen):
    """GPUs of a chunk: as chosen, else one when the scene renders on a GPU."""
    if chosen["gpus"] >= 0:
        return int(chosen["gpus"])
    return 1 if shot["device"] == "GPU" else 0


def existing(shot, chosen):
    """What to do about files that are there."""
    if chosen["existing"] != "SCENE":
        return chosen["existing"].lower()
    return "overwrite" if shot["overwrite"] else "skip"


def _render_step(shot, chosen, scene_file, name, camera, layers, patterns, frames):
    params = {
        "scene": scene_file,
        "scene_name": shot["scene"],
        "engine": shot["engine"],
        "format": output_format(shot, chosen),
        "missing": "warn" if chosen["allow_missing"] else "fail",
        "autoexec": bool(chosen["run_python"]),
        "user_settings": not shot["own_engine"],
    }
    if camera:
        params["camera"] = camera
    if layers:
        params["view_layers"] = list(layers)
    elif len(shot["layers"]) == 1 or (shot["sequencer"] and not shot["compositing"]):
        params["view_layer"] = shot["layers"][0]
    step = {
        "name": name,
        "kind": "per_frame",
        "renderer": "blender",
        "frames": frames,
        "chunk": int(chosen["chunk"]) or "auto",
        "params": params,
        "outputs": [{"pattern": pattern, "kind": "sequence"} for pattern in patterns],
        "resources": {
            "cores": int(chosen["cores"]) or min(4, os.cpu_count() or 1),
            "ram_mib": round(chosen["ram_gib"] * 1024),
            "gpus": gpus(shot, chosen),
        },
        "pools": [pool for pool in re.split(r"[,\s]+", chosen["pools"]) if pool],
        "existing": existing(shot, chosen),
    }
    version = shot["version"]
    if chosen["version"] == "SAME":
        step["version"] = ">=%d.%d,<%d.%d" % (version[0], version[1], version[0], version[1] + 1)
    elif chosen["version"] == "NEWER":
        step["version"] = ">=%d.%d" % (version[0], version[1])
    return step


def _film_step(shot, step, index, pattern, taken, count):
    codec, suffix = movie_plan(shot)
    # The frames' own name tells cameras and view layers apart; the film takes it over.
    stem = os.path.basename(pattern).rpartition(".####")[0].rstrip("._- ")
    film = {
        "name": "film" if taken == 1 else "film_%d" % taken,
        "kind": "single",
        "renderer": "stitch",
        "after": [step["name"]],
        "params": {"input": {"step": step["name"], "output": index}, "rate": shot["rate"], "encode": codec},
        "outputs": [
            {
                "pattern": os.path.join(os.path.dirname(shot["output"]["movie"]), stem + suffix),
                "kind": "movie",
            }
        ],
        "pools": step["pools"],
        "existing": step["existing"],
    }
    if count is not None:
        film["movie_frames"] = count
    return film


def job_assets(shot, chosen):
    """The assets as the job file names them."""
    found = []
    for asset in shot["assets"]:
        required = bool(asset["rendered"]) and not chosen["allow_missing"]
        for path, kind in _asset_paths(asset):
            found.append({"path": path, "kind": kind, "required": required})
    for simulation in shot["simulations"]:
        if simulation["folder"] and simulation["baked"]:
            found.append(
                {"path": simulation["folder"], "kind": "dir", "required": not chosen["allow_missing"]}
            )
        elif simulation["folder"] and simulation["baked"] is None:
            found.append({"path": simulation["folder"], "kind": "dir", "required": False})
    kept = []
    for asset in found:
        if asset not in kept:
            kept.append(asset)
    return kept


def _asset_paths(asset):
    path, kind = asset["path"], asset["kind"]
    if kind == "sequence":
        pattern, width = naming.sequence_pattern(path)
        return [(pattern, "sequence")] if width else [(path, "file")]
    if kind == "udim" and "<UDIM>" not in path:
        return [(naming.tile_path(path, number), "file") for number in asset["numbers"]]
    return [(path, kind)]
