"""Where a scene writes: the render's own path as a pattern, and what File Output nodes add.

What belongs here: asking Blender for names, of any version.  What must not: judging them.

The pattern is not worked out from the text of the path, which has ``//``, ``#``, templates (4.5 and later)
and rules of its own; Blender is asked for the names of three frames, and the pattern is read off them.
"""

import os

import bpy

from .naming import KNOWN_SUFFIXES, SUFFIXES

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


def node_outputs(tree):
    """What File Output nodes write, node groups included: (name of the node, folder, file names)."""
    found = []
    for node in output_nodes(tree, set()):
        try:
            found.append(_node(node))
        except (AttributeError, RuntimeError) as error:
            # A collector never stops a submission because a version renamed something.
            found.append(
                {"node": node.name, "folder": "", "files": [], "numbered": True, "error": str(error)}
            )
    return found


def output_nodes(tree, seen):
    """File Output nodes of a tree and of the groups in it, muted ones left out."""
    if tree is None or tree.name in seen:
        return
    seen.add(tree.name)
    for node in tree.nodes:
        if node.mute:
            continue
        if node.bl_idname == "CompositorNodeOutputFile":
            yield node
        elif getattr(node, "node_tree", None) is not None:
            for inner in output_nodes(node.node_tree, seen):
                yield inner


def _node(node):
    form = node.format.file_format
    suffix = {"JPEG": ".jpg", "OPEN_EXR": ".exr", "OPEN_EXR_MULTILAYER": ".exr", "TIFF": ".tif"}.get(
        form, "." + form.lower()
    )
    if hasattr(node, "file_output_items"):  # 5.0 and later
        folder, stem = absolute(node.directory) if node.directory else "", node.file_name
        if form == "OPEN_EXR_MULTILAYER":
            names = [stem or "multilayer"]
        else:
            # The item's name follows the file name as it is: "pass_" and "Z" make pass_Z0001.exr.
            names = [(stem or "") + item.name for item in node.file_output_items]
    elif form == "OPEN_EXR_MULTILAYER":
        folder, name = os.path.split(absolute(node.base_path))
        names = [name]
    else:
        folder = absolute(node.base_path)
        names = [slot.path for slot in node.file_slots]
    files = [(name if "#" in name else name + "####") + suffix for name in names]
    # Blender 5 numbers the files of a node by itself only in an animation; the farm renders frame by frame.
    numbered = not hasattr(node, "file_output_items") or all("#" in name for name in names)
    return {"node": node.name, "folder": folder, "files": files, "numbered": numbered, "error": ""}
