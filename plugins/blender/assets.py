"""Files a scene reads: libraries, images, sounds, fonts, volumes, caches, clips.

What belongs here: their paths and what each is, as Blender knows them.  What must not: looking at the disk.
Each asset is a dictionary: ``path`` (absolute), ``kind`` as the job file calls it, ``what`` (for people),
``rendered`` (whether the render uses it), and for sequences ``users`` (how they count frames), for tiles
``numbers``.  What is packed is no asset.
"""

import os

import bpy

#: Kinds of users that show an image to the artist but never to the render.
_UNSEEN = ("Screen", "WorkSpace", "Brush", "WindowManager", "Palette")


def collect(scene, strips):
    """All assets of the file, each path once."""
    found = list(_libraries())
    found += _images(scene)
    found += _simple(bpy.data.sounds, "sound")
    found += _simple(bpy.data.fonts, "font")
    found += _simple(getattr(bpy.data, "volumes", ()), "volume")
    found += _simple(getattr(bpy.data, "cache_files", ()), "geometry cache")
    found += _simple(bpy.data.movieclips, "movie clip")
    if scene.render.use_sequencer:
        found += _strips(strips)
    found += _modifiers(scene)
    kept, seen = [], set()
    for asset in found:
        key = (asset["path"], asset["kind"])
        if asset["path"] and key not in seen:
            seen.add(key)
            kept.append(asset)
    return kept


def _absolute(path, owner=None):
    library = getattr(owner, "library", None)
    return os.path.normpath(bpy.path.abspath(path, library=library)) if path else ""


def _asset(path, what, kind="file", **more):
    return dict(more, path=path, what=what, kind=kind, rendered=more.get("rendered", True))


def packed(block):
    """Whether the file's content is inside the .blend."""
    return getattr(block, "packed_file", None) is not None or bool(len(getattr(block, "packed_files", ())))


def _used(block):
    return block.users - (1 if block.use_fake_user else 0) > 0


def _libraries():
    # Libraries of libraries are in the list too.
    for library in bpy.data.libraries:
        if getattr(library, "packed_file", None) is None:
            parent = getattr(library, "parent", None)
            path = bpy.path.abspath(library.filepath, library=parent)
            yield _asset(os.path.normpath(path), "linked library")


def _simple(blocks, what):
    for block in blocks:
        path = getattr(block, "filepath", "")
        if not path or path == "<builtin>" or packed(block) or not _used(block):
            continue
        if getattr(block, "is_sequence", False) or getattr(block, "source", "") == "SEQUENCE":
            # Their frame offsets are their own: any of the files must be there.
            yield _asset(_absolute(path, block), what + " sequence", "sequence", users=[])
        else:
            yield _asset(_absolute(path, block), what)


def _images(scene):
    wanted = [
        image
        for image in bpy.data.images
        if image.source in ("FILE", "SEQUENCE", "MOVIE", "TILED")
        and image.filepath
        and not packed(image)
        and _used(image)
    ]
    users = bpy.data.user_map(subset=wanted) if wanted else {}
    found = []
    for image in wanted:
        path = _absolute(image.filepath, image)
        rendered = any(_renders(user, scene) for user in users.get(image, ()))
        what = {"TILED": "texture", "SEQUENCE": "image sequence", "MOVIE": "movie texture"}.get(
            image.source, "texture"
        )
        what = "%s %s" % (what, image.name)
        if image.source == "TILED":
            numbers = [tile.number for tile in image.tiles]
            if "<UDIM>" in path or "<UVTILE>" in path:
                found.append(_asset(path, what, "udim", numbers=numbers, rendered=rendered))
            else:
                found.append(_asset(path, what, rendered=rendered))
        elif image.source == "SEQUENCE":
            found.append(_asset(path, what, "sequence", users=_image_users(image), rendered=rendered))
        else:
            found.append(_asset(path, what, rendered=rendered))
    return found


def _renders(user, scene):
    kind = type(user).__name__
    if kind in _UNSEEN or isinstance(user, bpy.types.Camera):
        return False
    return not (isinstance(user, bpy.types.Object) and user.type == "EMPTY")


def _image_users(image):
    """(duration, first frame, offset, cyclic) of everything that shows the sequence."""
    trees = list(bpy.data.node_groups)
    for blocks in (bpy.data.materials, bpy.data.worlds, bpy.data.lights):
        trees += [
            tree for tree in (getattr(block, "node_tree", None) for block in blocks) if tree is not None
        ]
    for scene in bpy.data.scenes:
        if not hasattr(scene, "compositing_node_group"):
            tree = getattr(scene, "node_tree", None)
            if tree is not None:
                trees.append(tree)
    found = []
    for tree in trees:
        for node in tree.nodes:
            if getattr(node, "image", None) == image:
                # The compositor's image node carries the fields of the image's user itself.
                user = getattr(node, "image_user", node)
                if hasattr(user, "frame_duration"):
                    one = (user.frame_duration, user.frame_start, user.frame_offset, bool(user.use_cyclic))
                    if one not in found:
                        found.append(one)
    return found


def _strips(strips):
    for strip in strips:
        if strip.type == "IMAGE":
            folder = _absolute(strip.directory)
            for element in strip.elements:
                yield _asset(os.path.join(folder, element.filename), "picture of the strip %s" % strip.name)
        elif strip.type == "MOVIE":
            yield _asset(_absolute(strip.filepath), "movie of the strip %s" % strip.name)


def _modifiers(scene):
    for thing in scene.objects:
        for modifier in thing.modifiers:
            if not modifier.show_render:
                continue
            if modifier.type == "MESH_CACHE" and modifier.filepath:
                yield _asset(_absolute(modifier.filepath, thing), "mesh cache of %s" % thing.name)
            elif modifier.type == "OCEAN" and getattr(modifier, "is_cached", False) and modifier.filepath:
                yield _asset(_absolute(modifier.filepath, thing), "ocean cache of %s" % thing.name, "dir")
