"""Makes File Output nodes and stereo views write where the farm can take their files from.

Runs inside Blender, 3.4 to 5.x (stdlib and bpy only, Python 3.7 syntax).  What belongs here: nodes that are
outputs of the step write into the task's scratch folder under names of our own, and every other File Output
node is muted, since several attempts would write one over the other what nobody verifies.  The file that is
open is a copy in memory: nothing of it is ever saved.

The names are ours because Blender's depend on the version: from 5.0 on a node numbers its files only in an
animation, and a slot's name may hold folders, ``#``, or templates.
"""

# os.path: one style for every Python from 3.7 on.
# ruff: noqa: B905, PTH103, PTH107, PTH118, PTH119, PTH120, PTH122, PTH202, PTH208
import os

import bpy

#: Suffixes of a node's formats, as the farm checked them against the outputs' names.
SUFFIXES = {
    "BMP": (".bmp",),
    "IRIS": (".rgb",),
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "JPEG2000": (".jp2",),
    "TARGA": (".tga",),
    "TARGA_RAW": (".tga",),
    "CINEON": (".cin",),
    "DPX": (".dpx",),
    "OPEN_EXR": (".exr",),
    "OPEN_EXR_MULTILAYER": (".exr",),
    "HDR": (".hdr",),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}


class Unfit(Exception):
    """The scene does not have what the step asks for; the words say what."""


def compositor(scene):
    """The node tree that the render goes through, None if it does not."""
    if not scene.render.use_compositing:
        return None
    if hasattr(scene, "compositing_node_group"):
        return scene.compositing_node_group
    return scene.node_tree if scene.use_nodes else None


def sequencer_renders(scene):
    """Whether the sequencer makes the picture; the compositor does not run then."""
    editor = scene.sequence_editor
    if editor is None or not scene.render.use_sequencer:
        return False
    strips = getattr(editor, "strips_all", None)
    if strips is None:
        strips = getattr(editor, "sequences_all", ())
    return any(not strip.mute and strip.type != "SOUND" for strip in strips)


class NodeFiles(object):
    """The File Output nodes of a task: redirected once, collected after every render.

    Attributes:
        muted: Names of nodes that would have written and do not: (node, folder it would have written to).
    """

    def __init__(self, scene, wanted, paths, folder):
        """Redirects and mutes the nodes.

        Args:
            scene: The scene to be rendered.
            wanted: The step's ``node_outputs``.
            paths: For each of them, a file it is to become (of any frame).
            folder: Where they may write.

        Raises:
            Unfit: A node or slot is not there, is off, or writes another format.
        """
        self._scene, self._wanted, self._folder = scene, wanted, folder
        self._stems = [None] * len(wanted)
        self.muted = []
        tree = compositor(scene)
        if wanted and (tree is None or sequencer_renders(scene)):
            why = "its compositor is off" if tree is None else "its sequencer makes the picture"
            raise Unfit("scene %s runs no File Output nodes: %s" % (scene.name, why))
        names = [view.name for view in active_views(scene)]
        for one in wanted:
            if one["view"] and one["view"] not in names:
                words = "scene %s renders no stereo view %r of the File Output node %r"
                raise Unfit(words % (scene.name, one["view"], one["node"]))
        found, slots = {}, {}
        for name, owner in _trees(tree):
            for node in owner.nodes:
                if node.bl_idname == "CompositorNodeOutputFile":
                    found[name, node.name] = node
                    slots[name, node.name] = _slots(node)
        for number, key in enumerate(sorted(found)):
            self._prepare(found[key], key, os.path.join(folder, str(number)), paths)
        for index, stem in enumerate(self._stems):
            if stem is None:
                raise Unfit(_unknown(wanted[index], slots))

    def _prepare(self, node, key, folder, paths):
        mine = [index for index, one in enumerate(self._wanted) if (one["tree"], one["node"]) == key]
        if not mine:
            if not node.mute:
                self.muted.append(
                    (node.name, getattr(node, "directory", "") or getattr(node, "base_path", ""))
                )
                node.mute = True
            return
        if node.mute:
            raise Unfit("the File Output node %r is muted" % node.name)
        formats = _redirect(node, folder)
        for index in mine:
            one = self._wanted[index]
            if one["slot"] not in formats:
                continue
            stem, form = formats[one["slot"]]
            suffix = os.path.splitext(paths[index])[1].lower()
            if suffix not in SUFFIXES.get(form, ()):
                words = "the File Output node %r writes %s, and the output is a %s"
                raise Unfit(words % (node.name, form, suffix))
            self._stems[index] = os.path.join(folder, stem)

    def clear(self):
        """Removes what an earlier render left."""
        for stem in self._stems:
            folder = os.path.dirname(stem)
            os.makedirs(folder, exist_ok=True)
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))

    def collect(self, frame):
        """The files of the render that has just ended, in the order of ``wanted``.

        Raises:
            Unfit: One was not written.
        """
        files = []
        for one, stem in zip(self._wanted, self._stems):
            name = number(os.path.basename(stem), frame) + view_suffix(self._scene, one["view"])
            folder = os.path.dirname(stem)
            there = sorted(each for each in os.listdir(folder) if each == name or each.startswith(name + "."))
            if not there or not os.path.getsize(os.path.join(folder, there[0])):
                what = "slot %r" % one["slot"] if one["slot"] else "its file"
                view = " of the view %r" % one["view"] if one["view"] else ""
                words = "the File Output node %r wrote nothing for %s%s: is it linked, and its pass on?"
                raise Unfit(words % (one["node"], what, view))
            files.append(os.path.join(folder, there[0]))
        return files


def _unknown(one, slots):
    key = (one["tree"], one["node"])
    if key in slots:
        known = ", ".join(repr(each) for each in slots[key]) or "none"
        return "the File Output node %r has no slot %r (it has %s)" % (one["node"], one["slot"], known)
    known = ", ".join(repr(node) for tree, node in sorted(slots) if tree == one["tree"]) or "none"
    where = "the node group %r" % one["tree"] if one["tree"] else "the compositor"
    return "there is no File Output node %r in %s (it has %s)" % (one["node"], where, known)


def number(stem, frame):
    """The name that Blender makes of a stem with ``####``."""
    return stem.replace("####", "%s%04d" % ("-" if frame < 0 else "", abs(frame)))


def _trees(tree):
    """(name in the task, tree) of every compositor tree of the file, those of no use to the render too."""
    if tree is not None:
        yield "", tree
    for scene in bpy.data.scenes:
        own = getattr(scene, "node_tree", None) if not hasattr(scene, "compositing_node_group") else None
        if own is not None and own != tree:
            yield "scene " + scene.name, own
    for group in bpy.data.node_groups:
        if group.bl_idname == "CompositorNodeTree" and group != tree:
            yield group.name, group


def _is_multilayer(node):
    return node.format.file_format == "OPEN_EXR_MULTILAYER"


def _slots(node):
    if _is_multilayer(node):
        return [""]
    if hasattr(node, "file_output_items"):
        return [item.name for item in node.file_output_items]
    return [slot.path for slot in node.file_slots]


def _redirect(node, folder):
    """Gives a node's files names of ours; by slot's name the stem and Blender's name of the format."""
    modern = hasattr(node, "file_output_items")  # 5.0 and later
    if _is_multilayer(node):
        if modern:
            node.directory, node.file_name = folder + "/", "all_####"
        else:
            node.base_path = folder + "/all_####"
        return {"": ("all_####", "OPEN_EXR_MULTILAYER")}
    if modern:
        node.directory, node.file_name = folder + "/", ""
        slots = node.file_output_items
    else:
        node.base_path = folder
        slots = node.file_slots
    formats, names = {}, [slot.name if modern else slot.path for slot in slots]
    for index, (slot, name) in enumerate(zip(slots, names)):
        own = slot.override_node_format if modern else not slot.use_node_format
        stem = "slot%d_####" % index
        # A slot that another one is named like would be renamed by Blender: no artist names one like this.
        if modern:
            slot.name = stem
        else:
            slot.path = stem
        formats[name] = (stem, (slot.format if own else node.format).file_format)
    return formats


# -- stereo views ----------------------------------------------------------------------------------------


def active_views(scene):
    """The views a render makes, [] for a plain one."""
    render = scene.render
    if not render.use_multiview:
        return []
    every = render.stereo_views if render.views_format == "STEREO_3D" else render.views
    return [view for view in every if view.use]


def view_suffix(scene, name):
    """What Blender puts behind the name of a view's file."""
    views = active_views(scene)
    if not name or len(views) < 2:
        return ""  # A single view is written as a plain picture.
    return next((view.file_suffix for view in views if view.name == name), "")


def check_views(scene, wanted, path, multilayer):
    """Compares the step's views with the scene's.

    Args:
        scene: The scene to be rendered.
        wanted: The step's ``views``.
        path: A picture it is to write.
        multilayer: Whether that is an OpenEXR MultiLayer file.

    Raises:
        Unfit: The scene has other views, or would write them in another way.
    """
    views = active_views(scene)
    names = [view.name for view in views]
    if not wanted:
        form = scene.render.image_settings.views_format
        exr = multilayer or path.lower().endswith(".exr")
        if len(views) > 1 and (form == "INDIVIDUAL" or (form == "MULTIVIEW" and not exr)):
            words = "scene %s renders the stereo views %s into files of their own; name them in views"
            raise Unfit(words % (scene.name, ", ".join(names)))
        return
    for name in wanted:
        if name not in names:
            words = "scene %s renders no stereo view %r (it has %s)"
            raise Unfit(words % (scene.name, name, ", ".join(names) or "none"))
    suffixes = [view.file_suffix for view in views]
    if len(set(suffixes)) != len(suffixes):
        raise Unfit("the stereo views %s write the same files: their suffixes are equal" % ", ".join(names))
