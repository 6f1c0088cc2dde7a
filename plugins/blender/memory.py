"""What is remembered: the choices of each scene, and what a scene was like when it was saved.

What belongs here: handlers of loading and saving.  What must not: changing anything that is saved.

Blender does not mark a file as changed when a script changed it, and the farm would render the old file.  So
what the job depends on is noted when a file is loaded or saved, and compared when it is submitted.
"""

import bpy
from bpy.app.handlers import persistent

from . import collect, likeness, properties
from ._shared import choices

HOST = "blender"
_NOTED = {}
_OWNER = object()


def remember():
    """Keeps the choices of the scene that is shown."""
    scene = bpy.context.scene
    choices.remember(HOST, bpy.data.filepath, scene.name, properties.choices())


def recall():
    """Shows the choices of the scene that is shown."""
    scene = bpy.context.scene
    if scene is not None:
        properties.set_choices(choices.recall(HOST, bpy.data.filepath, scene.name))


def note():
    """Notes what the scenes are like now, when they are as they were saved."""
    _NOTED.clear()
    for scene in bpy.data.scenes:
        _NOTED[bpy.data.filepath, scene.name] = likeness.likeness(scene)


def changed(scene):
    """What of the scene is not as it was when the file was loaded or saved; [] when that is not known."""
    noted = _NOTED.get((bpy.data.filepath, scene.name))
    if noted is None:
        return []
    now = likeness.likeness(scene)
    return [part for part in now if now[part] != noted.get(part)]


@persistent
def _loaded(*_args):
    note()
    recall()


@persistent
def _saved(*_args):
    if not collect.dirty():  # A copy that was saved says nothing of the file.
        note()


def _later():
    """Registering may not look at the file yet."""
    if not _NOTED and not collect.dirty():
        note()
    recall()


def register():
    """Watches loading, saving and the change of scenes."""
    bpy.app.handlers.load_post.append(_loaded)
    bpy.app.handlers.save_post.append(_saved)
    bpy.app.timers.register(_later, first_interval=0.0)
    bpy.msgbus.subscribe_rna(key=(bpy.types.Window, "scene"), owner=_OWNER, args=(), notify=recall)


def unregister():
    """Watches no more."""
    bpy.msgbus.clear_by_owner(_OWNER)
    if bpy.app.timers.is_registered(_later):
        bpy.app.timers.unregister(_later)
    for handlers, one in ((bpy.app.handlers.load_post, _loaded), (bpy.app.handlers.save_post, _saved)):
        if one in handlers:
            handlers.remove(one)
    _NOTED.clear()
