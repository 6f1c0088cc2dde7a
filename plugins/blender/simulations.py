"""Simulations of a scene: which there are, whether they are baked, and where their caches lie.

What belongs here: reading them from modifiers and worlds.  What must not: saying what is wrong (``checks``).
Each is a dictionary: ``what`` (for people), ``baked`` (True, False, or None when only the disk knows) and
``folder`` ("" for a bake that is inside the .blend).
"""

import os

import bpy


def collect(scene):
    """All simulations that the render shows."""
    found = []
    for thing in scene.objects:
        if thing.hide_render:
            continue
        for modifier in thing.modifiers:
            if not modifier.show_render:
                continue
            try:
                found += _modifier(thing, modifier)
            except AttributeError:
                continue  # A version without that field: the farm finds out what is missing.
    world = getattr(scene, "rigidbody_world", None)
    if world is not None and world.enabled and world.collection is not None and len(world.collection.objects):
        found.append(_cache("rigid bodies", world.point_cache))
    return found


def cache_folder():
    """Where Blender keeps disk caches of this file: ``blendcache_NAME`` beside it."""
    file = bpy.data.filepath
    stem = os.path.splitext(os.path.basename(file))[0]
    return os.path.join(os.path.dirname(file), "blendcache_" + stem) if file else ""


def _modifier(thing, modifier):
    what = "%s of %s" % (modifier.name, thing.name)
    if modifier.type == "FLUID":
        domain = modifier.domain_settings
        if modifier.fluid_type == "DOMAIN" and domain is not None:
            baked = bool(domain.has_cache_baked_data)
            if domain.domain_type == "LIQUID" and domain.use_mesh:
                baked = baked and bool(domain.has_cache_baked_mesh)
            folder = os.path.normpath(bpy.path.abspath(domain.cache_directory, library=thing.library))
            return [{"what": "fluid " + what, "baked": baked, "folder": folder}]
    elif modifier.type in ("CLOTH", "SOFT_BODY"):
        return [_cache(("cloth " if modifier.type == "CLOTH" else "soft body ") + what, modifier.point_cache)]
    elif modifier.type == "PARTICLE_SYSTEM":
        system = modifier.particle_system
        if system.settings.type == "EMITTER" or system.use_hair_dynamics:
            return [_cache("particles " + what, system.point_cache)]
    elif modifier.type == "DYNAMIC_PAINT" and modifier.canvas_settings is not None:
        surfaces = modifier.canvas_settings.canvas_surfaces
        return [_cache("dynamic paint " + what, each.point_cache) for each in surfaces if each.is_active]
    elif modifier.type == "NODES" and _has_simulation(modifier.node_group, set()):
        return list(_bakes("simulation nodes " + what, thing, modifier))
    return []


def _cache(what, cache):
    folder = ""
    if cache.use_external:
        folder = os.path.normpath(bpy.path.abspath(cache.filepath))
    elif cache.use_disk_cache:
        folder = cache_folder()
    return {"what": what, "baked": bool(cache.is_baked or cache.use_external), "folder": folder}


def _has_simulation(tree, seen):
    if tree is None or tree.name in seen:
        return False
    seen.add(tree.name)
    for node in tree.nodes:
        if node.bl_idname == "GeometryNodeSimulationOutput":
            return True
        if _has_simulation(getattr(node, "node_tree", None), seen):
            return True
    return False


def _bakes(what, thing, modifier):
    default = getattr(modifier, "bake_directory", "") or getattr(modifier, "simulation_bake_directory", "")
    bakes = getattr(modifier, "bakes", None)
    if not bakes:
        yield {"what": what, "baked": None, "folder": _folder(default, thing)}
        return
    for bake in bakes:
        if getattr(bake, "bake_target", "DISK") == "PACKED":
            yield {"what": what, "baked": True, "folder": ""}
            continue
        custom = bake.directory if bake.use_custom_path else ""
        yield {"what": what, "baked": None, "folder": _folder(custom or default, thing)}


def _folder(path, thing):
    return os.path.normpath(bpy.path.abspath(path, library=thing.library)) if path else cache_folder()
