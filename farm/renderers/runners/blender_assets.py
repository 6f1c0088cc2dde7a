"""Finds the files a Blender scene needs and does not have.

Runs inside Blender (stdlib and bpy only, Python 3.7 syntax).  Blender renders on without a word when a
texture is gone, so somebody has to look: this module names each missing file once, for exactly the frames
that are about to be rendered.  It never changes the scene.
"""

# os.path: one style for every Python from 3.7 on.
# ruff: noqa: PTH113, PTH118, PTH119, PTH202
import os
import re

import bpy

_DIGITS = re.compile(r"(\d+)(\D*)$")
#: Kinds of users that show an image to the artist but never to the render.
_UNSEEN = ("Screen", "WorkSpace", "Brush", "WindowManager")


def missing_files(frames):
    """Texts naming every missing file.

    Args:
        frames: The frames to be rendered (image sequences are checked for just these).

    Returns:
        (what the render needs, what only the artist sees): two lists of texts.
    """
    needed, unseen = _libraries(), []
    for image in bpy.data.images:
        texts = list(_image(image, frames))
        if texts:
            (needed if _is_rendered(image) else unseen).extend(texts)
    needed.extend(_simple(bpy.data.fonts, "font"))
    needed.extend(_simple(getattr(bpy.data, "cache_files", ()), "cache"))
    needed.extend(_simple(getattr(bpy.data, "volumes", ()), "volume"))
    needed.extend(_simple(bpy.data.movieclips, "movie clip"))
    return needed, unseen


def _absolute(path, owner):
    return bpy.path.abspath(path, library=getattr(owner, "library", None))


def _lacks(path):
    """Why a file is of no use, or nothing."""
    try:
        if os.path.isfile(path):
            if not os.access(path, os.R_OK):
                return "may not be read"
            return "" if os.path.getsize(path) else "is empty"
    except OSError as error:
        return error.strerror or str(error)
    return "does not exist"


def _libraries():
    texts = []
    for library in bpy.data.libraries:
        if getattr(library, "packed_file", None) is not None:
            continue
        parent = getattr(library, "parent", None)
        path = bpy.path.abspath(library.filepath, library=parent)
        reason = _lacks(path)
        if reason:
            texts.append("the linked library %s %s" % (path, reason))
            continue
        gone = [
            block.name for block in getattr(library, "users_id", ()) if getattr(block, "is_missing", False)
        ]
        texts.extend("%s is no longer in the linked library %s" % (name, path) for name in gone)
    return texts


def _simple(blocks, what):
    for block in blocks:
        path = getattr(block, "filepath", "")
        if not path or path == "<builtin>" or _packed(block) or not _used(block):
            continue
        if getattr(block, "is_sequence", False) or getattr(block, "source", "") == "SEQUENCE":
            continue  # Its frame offsets are its own; the first file says nothing about the others.
        reason = _lacks(_absolute(path, block))
        if reason:
            yield "the %s %s %s" % (what, _absolute(path, block), reason)


def _packed(block):
    return getattr(block, "packed_file", None) is not None or bool(len(getattr(block, "packed_files", ())))


def _used(block):
    return block.users - (1 if block.use_fake_user else 0) > 0


def _image(image, frames):
    if image.source not in ("FILE", "SEQUENCE", "MOVIE", "TILED") or _packed(image) or not _used(image):
        return
    if not image.filepath:
        return
    path = _absolute(image.filepath, image)
    if image.source == "TILED":
        for tile in image.tiles:
            one = _tile_path(path, tile.number)
            reason = _lacks(one)
            if reason:
                yield "the texture tile %s %s" % (one, reason)
    elif image.source == "SEQUENCE":
        for one in _sequence_paths(image, path, frames):
            reason = _lacks(one)
            if reason:
                yield "the texture frame %s %s" % (one, reason)
    else:
        reason = _lacks(path)
        if reason:
            yield "the texture %s %s" % (path, reason)


def _tile_path(path, number):
    u, v = (number - 1001) % 10, (number - 1001) // 10
    return path.replace("<UDIM>", str(number)).replace("<UVTILE>", "u%d_v%d" % (u + 1, v + 1))


def _sequence_paths(image, path, frames):
    """The files a sequence needs for these frames, as its image users count them."""
    match = _DIGITS.search(os.path.basename(path))
    if match is None:
        return [path]
    folder, name = os.path.split(path)
    width = len(match.group(1))
    paths = []
    for user in _image_users(image):
        for frame in frames:
            number = _sequence_number(user, frame)
            if number is None:
                continue
            one = os.path.join(folder, "%s%0*d%s" % (name[: match.start()], width, number, match.group(2)))
            if one not in paths:
                paths.append(one)
    return paths


def _sequence_number(user, frame):
    """The file's number that a frame shows (the arithmetic of BKE_image_user_frame_get)."""
    length = user.frame_duration
    if length <= 0:
        return None
    at = frame - user.frame_start + 1
    if user.use_cyclic:
        at = at % length or length
    if at < 1:
        return None  # Before its start a sequence shows nothing.
    return min(at, length) + user.frame_offset


def _image_users(image):
    trees = list(bpy.data.node_groups)
    for blocks in (bpy.data.materials, bpy.data.worlds, bpy.data.lights, bpy.data.scenes):
        for block in blocks:
            tree = getattr(block, "node_tree", None)
            if tree is not None:
                trees.append(tree)
    for tree in trees:
        for node in tree.nodes:
            if getattr(node, "image", None) == image:
                # The compositor's image node carries the image user's fields itself.
                user = getattr(node, "image_user", node)
                if hasattr(user, "frame_duration"):
                    yield user


def _is_rendered(image):
    """Whether anything but the artist's own view of the scene uses the image."""
    users = bpy.data.user_map(subset=[image]).get(image, ())
    for user in users:
        kind = type(user).__name__
        if kind in _UNSEEN or isinstance(user, bpy.types.Camera):
            continue
        if isinstance(user, bpy.types.Object) and user.type == "EMPTY":
            continue
        return True
    return False
