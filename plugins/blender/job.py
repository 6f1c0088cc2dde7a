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


def separate_views(shot, chosen):
    """Stereo views that get a file of their own: (name, suffix); empty when all go into one."""
    form = output_format(shot, chosen)
    if shot["views_format"] == "STEREO_3D":
        return []
    if shot["views_format"] == "MULTIVIEW" and form in ("EXR", "EXR_MULTILAYER"):
        return []
    return shot["views"]


def plan(shot, chosen):
    """The render steps: (step name, camera, view layers, patterns of pictures, files of nodes).

    The files of nodes are those of ``outputs.node_outputs``, with their node and tree, in order.

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
    suffixes = [suffix for _, suffix in separate_views(shot, chosen)] or [""]
    for camera in cameras:
        base, name = pattern, "render"
        nodes = [
            dict(each, node=one["node"], tree=one["tree"])
            for one in shot["node_outputs"]
            for each in one["files"]
        ]
        if len(cameras) > 1:
            part = camera_parts.take(naming.file_part(camera))
            base, name = naming.with_part(pattern, part), naming.step_name("render_" + camera)
            for each in nodes:
                each["pattern"] = naming.with_part(each["pattern"], part)
        patterns = [naming.with_part(base, word) for _, word in layer_words] or [base]
        patterns = [naming.with_view(each, suffix) for each in patterns for suffix in suffixes]
        steps.append((names.take(name), camera, layers, patterns, nodes))
    return steps


def sound_plan(shot, chosen):
    """The range of frames whose sound goes into the film, "" when it stays silent."""
    if shot["output"]["kind"] != "movie" or not shot["output"]["audio"] or not shot["sound"]:
        return ""
    frames = frames_list(frames_text(shot, chosen))
    if not frames or len(frames) != frames[-1] - frames[0] + 1 or frames != sorted(set(frames)):
        return ""  # The sound of frames with gaps between them is no sound of theirs.
    return "%d-%d" % (frames[0], frames[-1])


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
    for name, camera, layers, patterns, nodes in plan(shot, chosen):
        steps.append(_render_step(shot, chosen, scene_file, name, camera, layers, patterns, nodes, frames))
    if shot["output"]["kind"] == "movie":
        count = frames_list(frames)
        rendered, sound = list(steps), sound_plan(shot, chosen)
        if sound:
            steps.append(_sound_step(shot, steps[0], sound))
        films = []
        for step in rendered:
            # The pictures come first; what nodes write is no film.
            for index in range(len(step["outputs"]) - len(step["params"].get("node_outputs", ()))):
                films.append(
                    _film_step(
                        shot, step, index, len(films), None if count is None else len(set(count)), sound
                    )
                )
        steps += films
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


def _render_step(shot, chosen, scene_file, name, camera, layers, patterns, nodes, frames):
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
    views = separate_views(shot, chosen)
    if views:
        params["views"] = [view for view, _ in views]
    if nodes:
        params["node_outputs"] = [
            {key: each[key] for key in ("node", "slot", "tree", "view") if each[key]} for each in nodes
        ]
    step = {
        "name": name,
        "kind": "per_frame",
        "renderer": "blender",
        "frames": frames,
        "chunk": int(chosen["chunk"]) or "auto",
        "params": params,
        "outputs": [
            {"pattern": pattern, "kind": "sequence"}
            for pattern in patterns + [each["pattern"] for each in nodes]
        ],
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


def _sound_step(shot, render, frames):
    """Mixes the scene's sound on the farm, so that the film has it and the artist's Blender stays free."""
    keep = ("scene", "scene_name", "missing", "autoexec", "user_settings")
    folder, name = os.path.split(shot["output"]["movie"])
    stem = os.path.splitext(name)[0]
    step = {
        "name": "sound",
        "kind": "single",
        "renderer": "blender",
        "params": dict({key: render["params"][key] for key in keep}, mixdown=frames),
        "outputs": [{"pattern": os.path.join(folder, stem + "_frames", stem + ".flac"), "kind": "single"}],
        "pools": render["pools"],
        "existing": render["existing"],
    }
    if "version" in render:
        step["version"] = render["version"]
    return step


def _film_step(shot, step, index, taken, count, sound):
    codec, suffix = movie_plan(shot)
    # The frames' own name tells cameras, view layers and stereo views apart; the film takes it over.
    before, _, after = os.path.basename(step["outputs"][index]["pattern"]).rpartition(".####")
    stem = before.rstrip("._- ") + after.rpartition(".")[0]
    film = {
        "name": "film" if not taken else "film_%d" % (taken + 1),
        "kind": "single",
        "renderer": "stitch",
        "after": [step["name"]] + (["sound"] if sound else []),
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
    if sound:
        film["params"]["sound"] = {"step": "sound", "output": 0}
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
