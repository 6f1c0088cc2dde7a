"""The panel: in the Render properties, and in the sidebar of the 3D view.

What belongs here: drawing.  What must not: reading the file system or anything slow; a panel is drawn again
with every movement of the mouse.
"""

import textwrap

import bpy

from . import tray
from ._shared import messages

_ICONS = {messages.ERROR: "ERROR", messages.WARNING: "INFO", messages.NOTE: "DOT"}
#: Pixels of a letter, about, at the interface's scale of 1.
_LETTER = 7


class _Panel(object):
    """What both places share."""

    bl_label = "Overcrank"

    def draw(self, context):
        """Draws choices, buttons and the last answer."""
        layout, chosen = self.layout, context.window_manager.overcrank
        layout.use_property_split = True
        layout.use_property_decorate = False
        column = layout.column()
        column.prop(chosen, "name")
        column.prop(chosen, "project")
        column.prop(chosen, "priority")
        column = layout.column()
        column.prop(chosen, "frames_from")
        if chosen.frames_from == "LIST":
            column.prop(chosen, "frames")
        column.prop(chosen, "scout")
        column.prop(chosen, "paused")
        column = layout.column()
        column.prop(chosen, "camera_from")
        if chosen.camera_from == "ONE":
            column.prop_search(chosen, "camera", context.scene, "objects", icon="CAMERA_DATA")
        column.prop(chosen, "format")
        column.prop(chosen, "source")
        row = layout.row(align=True)
        row.operator("overcrank.check")
        row.operator("overcrank.submit", icon="RENDER_ANIMATION")
        layout.operator("overcrank.open_window", icon="WINDOW")
        self._answer(context)

    def _answer(self, context):
        layout = self.layout
        busy = tray.busy()
        if busy:
            layout.label(text=busy, icon="TIME")
            return
        if not tray.TRAY.title:
            return
        box = layout.box()
        row = box.row()
        row.alert = not tray.TRAY.ok
        row.label(text=tray.TRAY.title, icon="CHECKMARK" if tray.TRAY.ok else "ERROR")
        if tray.TRAY.job is not None:
            row.operator("overcrank.copy_address", text="", icon="COPYDOWN")
        scale = context.preferences.system.ui_scale
        letters = max(24, int(context.region.width / (_LETTER * scale)) - 8)
        for message in tray.TRAY.messages:
            column = box.column(align=True)
            column.alert = message.severity == messages.ERROR
            for index, line in enumerate(textwrap.wrap(str(message), letters)):
                column.label(text=line, icon=_ICONS[message.severity] if not index else "BLANK1")


class _More(object):
    """What is chosen rarely."""

    bl_label = "Needs and files"
    bl_options = {"DEFAULT_CLOSED"}

    def draw(self, context):
        """Draws the rarer choices."""
        layout, chosen = self.layout, context.window_manager.overcrank
        layout.use_property_split = True
        layout.use_property_decorate = False
        for group in (
            ("chunk", "cores", "ram_gib", "gpus"),
            ("version", "pools"),
            ("existing", "allow_missing", "run_python"),
        ):
            column = layout.column()
            for name in group:
                column.prop(chosen, name)


class OVERCRANK_PT_render(_Panel, bpy.types.Panel):
    """In the Render properties."""

    bl_space_type = "PROPERTIES"
    bl_region_type = "WINDOW"
    bl_context = "render"
    bl_options = {"DEFAULT_CLOSED"}


class OVERCRANK_PT_render_more(_More, bpy.types.Panel):
    """Below it."""

    bl_parent_id = "OVERCRANK_PT_render"
    bl_space_type = "PROPERTIES"
    bl_region_type = "WINDOW"
    bl_context = "render"


class OVERCRANK_PT_sidebar(_Panel, bpy.types.Panel):
    """In the sidebar of the 3D view."""

    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "Overcrank"


class OVERCRANK_PT_sidebar_more(_More, bpy.types.Panel):
    """Below it."""

    bl_parent_id = "OVERCRANK_PT_sidebar"
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "Overcrank"


_CLASSES = (OVERCRANK_PT_render, OVERCRANK_PT_render_more, OVERCRANK_PT_sidebar, OVERCRANK_PT_sidebar_more)


def register():
    """Registers the panels."""
    for each in _CLASSES:
        bpy.utils.register_class(each)


def unregister():
    """Takes them away."""
    for each in reversed(_CLASSES):
        bpy.utils.unregister_class(each)
