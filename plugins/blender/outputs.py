"""Where a scene writes: the render's own path as a pattern, its stereo views, what File Output nodes add.

What belongs here: asking Blender for names, of any version.  What must not: judging them.

The pattern is not worked out from the text of the path, which has ``//``, ``#``, templates (4.5 and later)
and rules of its own; Blender is asked for the names of three frames, and the pattern is read off them.
"""

import os

import bpy

from .naming import KNOWN_SUFFIXES, NODE_SUFFIXES, SUFFIXES, ends_with

#: What the farm's blender renderer writes, by Blender's name of the format.
FORMATS = {
    "PNG": "PNG",
    "OPEN_EXR": "EXR",
    "OPEN_EXR_MULTILAYER": "EXR_MULTILAYER",
    "JPEG": "JPEG",
    "TIFF": "TIFF",
}
_A, _B = 1111111, 2222222


def main_output(scene):
    """The render's own output.

    Returns:
        ``kind`` (``sequence``, ``movie`` or ``""`` for none), ``path`` as typed, ``pattern`` (absolute, with
        one run of ``#``) or the movie's ``movie`` path, ``format`` (the farm's name, "" for one it cannot
        write), ``blender_format``, ``codec``, ``error`` (why Blender cannot name the file).
    """
    render = scene.render
    settings = render.image_settings
    made = {
        "kind": "sequence",
        "path": render.filepath,
        "pattern": "",
        "movie": "",
        "blender_format": settings.file_format,
        "format": FORMATS.get(settings.file_format, ""),
        "codec": "",
        "audio": False,
        "error": "",
        "added_suffix": "",
    }
    if not render.filepath.strip():
        return dict(made, kind="")
    try:
        if render.is_movie_format:
            ffmpeg = render.ffmpeg
            made.update(
                kind="movie",
                codec=getattr(ffmpeg, "codec", ""),
                audio=getattr(ffmpeg, "audio_codec", "NONE") != "NONE",
            )
            made["movie"] = absolute(render.frame_path())
            return made
        pattern = read_pattern(lambda frame: absolute(render.frame_path(frame=frame)))
    except (RuntimeError, ValueError, TypeError) as error:
        return dict(made, error=" ".join(str(error).split()))
    suffix = SUFFIXES.get(made["format"], "")
    if suffix and not pattern.lower().endswith(KNOWN_SUFFIXES[made["format"]]):
        # File Extensions is off: the farm's checks and every reader of the files need one.
        made["added_suffix"] = suffix
        pattern += suffix
    made["pattern"] = pattern
    return made


def absolute(path):
    """The path from the root, without ``//`` and dots."""
    return os.path.normpath(bpy.path.abspath(path))


def read_pattern(path_of):
    """The pattern of a path that depends on the frame, from the names of three frames.

    Raises:
        ValueError: The name does not depend on the frame, or in more than one place.
    """
    one, two, three = path_of(_A), path_of(_B), path_of(1)
    at = next((index for index, (left, right) in enumerate(zip(one, two)) if left != right), None)
    if at is None:
        raise ValueError("the file's name does not hold the frame's number")
    before, after = one[:at], one[at + 7 :]
    if one[at : at + 7] != str(_A) or two != before + str(_B) + after:
        raise ValueError("the frame's number is in more than one place of %s" % three)
    width = len(three) - len(before) - len(after)
    if width < 1 or three != "%s%0*d%s" % (before, width, 1, after):
        raise ValueError("the frame's number is written in an unknown way in %s" % three)
    return before + "#" * width + after


def views(scene):
    """Stereo views the render makes, [] for a plain one: (name, suffix of the file's name)."""
    render = scene.render
    if not render.use_multiview:
        return []
    every = render.stereo_views if render.views_format == "STEREO_3D" else render.views
    found = [(view.name, view.file_suffix) for view in every if view.use]
    return found if len(found) > 1 else []  # One alone is written as a plain picture.


def node_outputs(scene, tree):
    """What File Output nodes write, those in node groups too.

    Returns:
        For each node: ``node``, ``tree`` (the group it is in, "" for the compositor), ``files`` (``slot``,
        ``pattern`` with one run of ``#``, ``format``, ``view``: what the job file calls them) and ``error``.
    """
    found, eyes = [], views(scene)
    for name, node in output_nodes(tree, set(), ""):
        one = {"node": node.name, "tree": name, "files": [], "error": ""}
        try:
            one["files"] = list(_node(scene, node, eyes))
        except (AttributeError, RuntimeError, ValueError) as error:
            # A collector never stops with a traceback because a version renamed something.
            one["error"] = " ".join(str(error).split())
        if one["files"] or one["error"]:
            found.append(one)
    return found


def output_nodes(tree, seen, name):
    """(tree's name in the job, File Output node) of a tree and of the groups in it, muted ones left out."""
    if tree is None or tree.name_full in seen:
        return
    seen.add(tree.name_full)
    for node in tree.nodes:
        if node.mute:
            continue
        if node.bl_idname == "CompositorNodeOutputFile":
            yield name, node
        elif getattr(node, "node_tree", None) is not None:
            for inner in output_nodes(node.node_tree, seen, node.node_tree.name):
                yield inner


def _node(scene, node, eyes):
    joined = node.format.file_format == "OPEN_EXR_MULTILAYER"
    if hasattr(node, "file_output_items"):  # 5.0 and later
        folder, stem = _resolved(scene, node, node.directory), _resolved(scene, node, node.file_name)
        # The item's name follows the file name as it is: "pass_" and "Z" make pass_Z0001.exr.
        slots = [
            (item.name, stem + item.name, item.format if item.override_node_format else node.format)
            for item in node.file_output_items
        ]
    else:
        folder, stem = _resolved(scene, node, node.base_path), ""
        slots = [
            (slot.path, slot.path, node.format if slot.use_node_format else slot.format)
            for slot in node.file_slots
        ]
    linked = [index for index, socket in enumerate(node.inputs) if _is_fed(socket)]
    if joined:
        if not linked:
            return
        if not hasattr(node, "file_output_items"):
            folder, stem = os.path.split(folder)
        slots, linked = [("", stem, node.format)], [0]
    if not folder and linked:
        raise ValueError("it names no folder")
    for index in linked:
        if index >= len(slots):
            continue
        slot, name, form = slots[index]
        if form.file_format not in NODE_SUFFIXES:
            raise ValueError("the farm cannot verify %s files" % form.file_format)
        pattern = _named(os.path.join(folder, name), form.file_format)
        apart = eyes
        exr = form.file_format.startswith("OPEN_EXR")
        if form.views_format == "STEREO_3D" or (form.views_format == "MULTIVIEW" and exr):
            apart = []
        for view, suffix in apart or [("", "")]:
            stem, ending = os.path.splitext(pattern)
            yield {
                "slot": slot,
                "pattern": os.path.normpath(stem + suffix + ending),
                "format": form.file_format,
                "view": view,
            }


def _is_fed(socket):
    """Whether a socket gets a picture: an unlinked one writes no file, nor does a pass that is off."""
    return bool(
        socket.is_linked
        and any(link.is_valid and not link.is_muted and link.from_socket.enabled for link in socket.links)
    )


def _named(path, form):
    """The pattern of a node's file: Blender adds ``####`` and the suffix where they are missing."""
    name = os.path.basename(path)
    if "#" not in name:
        path += "####"
    return path if ends_with(path, NODE_SUFFIXES[form]) else _without_suffix(path) + NODE_SUFFIXES[form][0]


def _without_suffix(path):
    stem, suffix = os.path.splitext(path)
    return stem if any(suffix.lower() in each for each in NODE_SUFFIXES.values()) else path


def _resolved(scene, node, text):
    """A text of a node without ``//`` and, from 4.5 on, without templates.

    Blender resolves them for its own eyes only; these are the ones that need no format.

    Raises:
        ValueError: A template is not one of them.
    """
    if bpy.app.version >= (4, 5, 0) and ("{" in text or "}" in text):
        file = bpy.data.filepath
        known = {
            "blend_name": os.path.splitext(os.path.basename(file))[0],
            "blend_dir": os.path.dirname(file),
            "scene_name": scene.name,
            "node_name": node.name,
            "camera_name": scene.camera.name if scene.camera is not None else "",
            "resolution_x": str(scene.render.resolution_x),
            "resolution_y": str(scene.render.resolution_y),
        }
        try:
            text = text.format(**known)
        except (KeyError, ValueError, IndexError, AttributeError):
            raise ValueError("its path %s holds a template that only Blender can resolve" % text) from None
    return bpy.path.abspath(text) if text.startswith("//") else text
