"""The choices as Blender shows them, and the add-on's preferences.

What belongs here: their types, names and hints.  What must not: what they mean (``job``).

They hang on the window manager, not on the scene: what is changed there makes no undo step and does not mark
the artist's file as changed, and ``memory`` keeps them outside of it.
"""

import bpy
from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, PointerProperty, StringProperty

from . import job


def _cameras(_self, context, text):
    return [
        each.name
        for each in context.scene.objects
        if each.type == "CAMERA" and text.lower() in each.name.lower()
    ]


class OvercrankChoices(bpy.types.PropertyGroup):
    """What the artist chose for this scene."""

    name: StringProperty(name="Name", description="What people see in the queue; empty = the file's name")
    project: StringProperty(
        name="Project", description="Project the job is accounted to; empty = your default"
    )
    priority: IntProperty(
        name="Priority", description="100 comes first; artists may go up to 75", default=50, min=0, max=100
    )
    pools: StringProperty(name="Pools", description="Render only on machines of these pools; empty = any")
    frames_from: EnumProperty(
        name="Frames",
        items=(
            ("SCENE", "Scene range", "First to last frame of the scene, with its step"),
            ("CURRENT", "This frame", "The frame that is shown now"),
            ("LIST", "These", "Frames written as 1-100, 1-100x5 or 1,5,9"),
        ),
    )
    frames: StringProperty(name="Frames", description="E.g. 1-100, 1-100x5 (every 5th) or 1,5,9")
    chunk: IntProperty(
        name="Chunk", description="Frames a machine takes at once; 0 = the farm measures and decides", min=0
    )
    scout: IntProperty(
        name="Scout frames",
        description="Render so many frames first, then wait with an estimate for your word; 0 = none",
        min=0,
        max=1000,
    )
    paused: BoolProperty(name="Start paused", description="The job waits until somebody resumes it")
    camera_from: EnumProperty(
        name="Camera",
        items=(
            ("SCENE", "Scene's", "The scene's camera, switched by markers if there are such"),
            ("ONE", "One", "One camera, whatever the markers say"),
            ("EACH", "Each", "Every camera of the scene, each into files of its own"),
        ),
    )
    camera: StringProperty(name="Camera", description="Name of the camera")
    format: EnumProperty(
        name="Format",
        items=(
            ("SCENE", "Scene's", "The file format of the Output properties"),
            ("PNG", "PNG", "PNG"),
            ("EXR", "OpenEXR", "OpenEXR"),
            ("EXR_MULTILAYER", "OpenEXR MultiLayer", "All view layers and passes in one file"),
            ("JPEG", "JPEG", "JPEG"),
            ("TIFF", "TIFF", "TIFF"),
        ),
    )
    source: EnumProperty(
        name="Render",
        items=(
            (
                "SAVED",
                "The saved file",
                "The file as it is on the disk; later changes to it count until a frame is rendered",
            ),
            ("COPY", "A copy", "A copy of what is open now, saved beside the file; your file is not touched"),
        ),
    )
    cores: IntProperty(
        name="Cores",
        description="Cores of a chunk; 0 = four, or as many as this machine has",
        min=0,
        max=1024,
    )
    ram_gib: FloatProperty(
        name="Memory (GiB)", description="Memory a chunk needs; 0 = unknown", min=0.0, max=4096.0, precision=1
    )
    gpus: IntProperty(
        name="GPUs",
        description="GPUs of a chunk; -1 = one if the scene renders on a GPU",
        default=-1,
        min=-1,
        max=64,
    )
    version: EnumProperty(
        name="Blender",
        items=(
            ("SAME", "This version", "Machines with this series of Blender, which make the same picture"),
            ("NEWER", "This or newer", "Machines with this or a newer Blender"),
            ("ANY", "Any", "Any machine with Blender"),
        ),
    )
    existing: EnumProperty(
        name="Existing files",
        items=(
            ("SCENE", "As the scene", "Overwritten, or kept if Overwrite is off in the Output properties"),
            ("OVERWRITE", "Overwrite", "Rendered again"),
            ("SKIP", "Keep", "Verified and kept if they are good"),
            ("REFUSE", "Refuse", "The job is refused if there are any"),
        ),
    )
    allow_missing: BoolProperty(
        name="Render without missing files",
        description="Missing textures and libraries are warnings, not errors",
    )
    run_python: BoolProperty(
        name="Run Python of the file",
        description="Run the drivers and texts saved in the file on the farm; needed by some rigs",
    )


class OvercrankPreferences(bpy.types.AddonPreferences):
    """Preferences of the add-on."""

    bl_idname = __package__

    program: StringProperty(
        name="Farm program",
        subtype="FILE_PATH",
        description="The installed farm program; empty = it is looked for",
    )
    farm: StringProperty(
        name="Farm", description="Name of the farm, as in `farm --farm NAME`; empty = the one joined last"
    )
    timeout_s: IntProperty(
        name="Time-out",
        description="Seconds to wait for the farm's answer",
        default=30,
        min=5,
        max=600,
        subtype="TIME",
    )

    def draw(self, _context):
        """Draws them."""
        self.layout.prop(self, "program")
        self.layout.prop(self, "farm")
        self.layout.prop(self, "timeout_s")


def preferences():
    """The add-on's preferences; None while Blender starts."""
    addon = bpy.context.preferences.addons.get(__package__)
    return addon.preferences if addon is not None else None


def choices():
    """The choices as a plain dictionary."""
    group = bpy.context.window_manager.overcrank
    return {key: type(value)(getattr(group, key)) for key, value in job.DEFAULTS.items()}


def set_choices(remembered):
    """Shows what was remembered; the rest is as at first."""
    group = bpy.context.window_manager.overcrank
    for key, first in job.DEFAULTS.items():
        value = remembered.get(key, first)
        try:
            setattr(group, key, type(first)(value))
        except (TypeError, ValueError):
            setattr(group, key, first)


_CLASSES = (OvercrankChoices, OvercrankPreferences)


def register():
    """Registers the classes and hangs the choices on the window manager."""
    for each in _CLASSES:
        bpy.utils.register_class(each)
    bpy.types.WindowManager.overcrank = PointerProperty(type=OvercrankChoices)


def unregister():
    """Takes them away."""
    del bpy.types.WindowManager.overcrank
    for each in reversed(_CLASSES):
        bpy.utils.unregister_class(each)
