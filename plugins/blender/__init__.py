"""Overcrank's add-on: submits the scene to the render farm from inside Blender 3.4 to 5.x.

One source, two forms: a legacy add-on (``bl_info``) and, from 4.2 on, an extension (it has a manifest).
What belongs here: registering.  What must not: importing anything that is not in the standard library,
Blender or this folder; the farm is a program that is called, never a module.
"""

bl_info = {
    "name": "Overcrank",
    "author": "Overcrank",
    "version": (0, 1, 0),
    "blender": (3, 4, 0),
    "location": "Properties > Render > Overcrank, and the sidebar of the 3D view",
    "description": "Submit scenes to the Overcrank render farm",
    "category": "Render",
}

from . import memory, operators, panels, properties, tray  # noqa: E402 - bl_info is read without running it

_PARTS = (properties, operators, panels, memory)


def register():
    """Called by Blender when the add-on is enabled."""
    for part in _PARTS:
        part.register()


def unregister():
    """Called by Blender when the add-on is disabled."""
    tray.forget()
    for part in reversed(_PARTS):
        part.unregister()
