"""What a picture depends on, in a form that can be kept and compared: Blender is silent on scripts.

What belongs here: reading values that no animation and no change of frame moves, cheaply enough for every
loading and saving.  What must not: keeping them (``memory``) or judging (``checks``).

Each part is a hash, so that a big scene costs a number.  What animation, drivers or the change of frame move
is left out: it differs without anybody having changed it.  Points of meshes are counted, not compared.
"""

import bpy

from . import collect

#: Data-blocks whose own values are compared, with their node trees, by what people call them.
_BLOCKS = (
    ("materials", "materials"),
    ("lights", "lights"),
    ("cameras", "cameras"),
    ("worlds", "worlds"),
    ("node groups", "node_groups"),
    ("textures", "textures"),
    ("curves", "curves"),
)
#: Values of an object that make its picture.
_OBJECT = (
    *("type", "hide_render", "location", "rotation_mode", "rotation_euler", "rotation_quaternion"),
    *("rotation_axis_angle", "scale", "delta_location", "delta_rotation_euler", "delta_scale", "parent_type"),
    *("pass_index", "instance_type", "color"),
)
#: What changes by being looked at, or from machine to machine.
_FLEETING = frozenset(
    (
        *(
            "filepath_raw",
            "name_full",
            "users",
            "use_fake_user",
            "is_dirty",
            "tag",
            "session_uid",
            "bl_idname",
        ),
        *("active_index", "active_output", "is_updated", "is_updated_data", "is_evaluated", "has_data"),
        *("is_embedded_data", "is_library_indirect", "is_missing", "is_runtime_data", "is_editable"),
    )
)


def likeness(scene):
    """Hashes of the parts of a scene, by what people call them."""
    render = scene.render
    still = not _moves(scene)
    found = {
        "frame range": (scene.frame_start, scene.frame_end, scene.frame_step),
        "output": (render.filepath, render.image_settings.file_format),
        "render engine": render.engine,
        "resolution": (render.resolution_x, render.resolution_y, render.resolution_percentage),
        "frame rate": (render.fps, render.fps_base),
        "view layers": tuple((layer.name, bool(layer.use)) for layer in scene.view_layers),
        "camera": "" if collect.bound_cameras(scene) or scene.camera is None else scene.camera.name,
        "images": tuple(
            sorted((each.name, each.filepath) for each in bpy.data.images if each.source != "VIEWER")
        ),
        "libraries": tuple(sorted(each.filepath for each in bpy.data.libraries)),
        "objects": tuple(_object(each) for each in sorted(scene.objects, key=_name)),
        "meshes": tuple(
            (each.name, len(each.vertices), len(each.polygons)) for each in sorted(bpy.data.meshes, key=_name)
        ),
        "animation": tuple(_action(each) for each in sorted(bpy.data.actions, key=_name)),
    }
    if still:
        settings = [render, render.image_settings, scene.view_settings, scene.display_settings]
        settings += [getattr(scene, name, None) for name in ("cycles", "eevee", "display")]
        found["render settings"] = tuple(_values(each) for each in settings if each is not None)
    if not hasattr(scene, "compositing_node_group"):
        found["compositor"] = _tree(getattr(scene, "node_tree", None))
    for what, name in _BLOCKS:
        found[what] = tuple(_block(each) for each in sorted(getattr(bpy.data, name, ()), key=_name))
    return {part: hash(value) for part, value in found.items()}


def _name(block):
    return block.name_full


def _moves(block):
    """Whether animation or drivers set values of it."""
    data = getattr(block, "animation_data", None)
    return data is not None and (data.action is not None or len(data.drivers) > 0 or len(data.nla_tracks) > 0)


def _plain(value):
    """A value that can be hashed: vectors and arrays become tuples."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(value))
    try:
        return tuple(value)
    except TypeError:
        return getattr(value, "name", "")


def _object(thing):
    values = (thing.name_full, "" if thing.parent is None else thing.parent.name, len(thing.constraints))
    data = "" if thing.data is None else thing.data.name
    modifiers = tuple((each.name, each.type, each.show_render) for each in thing.modifiers)
    slots = tuple("" if slot.material is None else slot.material.name for slot in thing.material_slots)
    physics = thing.rigid_body is not None
    if _moves(thing) or physics:
        return values + (data, modifiers, slots)
    return values + (data, modifiers, slots) + tuple(_plain(getattr(thing, name)) for name in _OBJECT)


def _action(action):
    curves = getattr(action, "fcurves", ())
    return (action.name_full, tuple(action.frame_range), sum(len(curve.keyframe_points) for curve in curves))


def _block(block):
    tree = getattr(block, "node_tree", None)
    if tree is None and isinstance(block, bpy.types.NodeTree):
        tree = block
    own = () if tree is block or _moves(block) else _values(block)
    return (block.name_full, own, _tree(tree))


def _tree(tree):
    if tree is None:
        return ()
    nodes = tuple((node.name, bool(node.mute)) for node in tree.nodes)
    links = len(tree.links)
    if _moves(tree):
        return (nodes, links)
    values = tuple(
        _plain(socket.default_value)
        for node in tree.nodes
        for socket in node.inputs
        if not socket.is_linked and hasattr(socket, "default_value")
    )
    return (nodes, links, values)


def _values(struct):
    """All values of a record that an artist can set, those of its pointers left out."""
    found = []
    for rule in struct.bl_rna.properties:
        name = rule.identifier
        if name in _FLEETING or rule.is_readonly or rule.type in ("POINTER", "COLLECTION"):
            continue
        try:
            found.append((name, _plain(getattr(struct, name))))
        except (AttributeError, RuntimeError, TypeError, ValueError):
            continue  # Some values cannot be read in every state; they say nothing then.
    return tuple(found)
