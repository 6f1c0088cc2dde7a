"""The operators: check, submit, open in the farm's window, copy the job's address.

What belongs here: calling the other modules in order and answering at once.  What must not: looking at the
disk or waiting for the farm, which happens in the background (``_shared.submission``).
"""

import os
import time

import bpy
from bpy.props import BoolProperty

from . import checks, collect, job, memory, properties, tray
from ._shared import messages
from ._shared.submission import Submission

#: Folder beside the artist's file for copies of what was open.
COPIES = "overcrank-submitted"


def prepare(scene, chosen):
    """What was collected and what is to be said of it before the disk is looked at."""
    shot = collect.collect(scene)
    return shot, checks.check(shot, chosen, memory.changed(scene))


def save_copy(shot):
    """Saves what is open beside the artist's file, without touching it; returns the copy's path."""
    folder, name = os.path.split(shot["file"])
    folder = os.path.join(folder, COPIES)
    os.makedirs(folder, exist_ok=True)
    stem = os.path.splitext(name)[0]
    path = os.path.join(folder, "%s.%s.blend" % (stem, time.strftime("%Y%m%d-%H%M%S")))
    number = 1
    while os.path.exists(path):
        number += 1
        path = os.path.join(folder, "%s.%s-%d.blend" % (stem, time.strftime("%Y%m%d-%H%M%S"), number))
    bpy.ops.wm.save_as_mainfile(filepath=path, copy=True, check_existing=False, compress=True)
    return path


def launch(document, found, looks, send, window=False):
    """Starts the submission, or opens the farm's window, with what the preferences say."""
    told = properties.preferences()
    submission = Submission(
        document,
        found,
        setting=told.program if told is not None else "",
        plugin_folder=os.path.dirname(os.path.abspath(__file__)),
        farm_name=told.farm.strip() if told is not None else "",
        timeout_s=float(told.timeout_s) if told is not None else 30.0,
        looks=looks,
        send=send,
        window=window,
    )
    tray.begin(submission)
    return submission


class _Operator(bpy.types.Operator):
    """What both have in common."""

    bl_options = {"REGISTER"}

    wait: BoolProperty(
        name="Wait",
        description="Return only when the answer is there: for scripts, never for a button",
        options={"HIDDEN", "SKIP_SAVE"},
    )

    @classmethod
    def poll(cls, context):
        """Not while one is on its way; Blender 3.0 and later can say why not."""
        why = ""
        if context.scene is None:
            why = "there is no scene to submit"
        elif tray.TRAY.submission is not None:
            why = (
                # Blender cuts what scripts are told after 200 bytes.
                "a check or submission is still on its way (a script waits for it with wait=True): %s"
                % tray.busy()
            )
        if why and hasattr(cls, "poll_message_set"):
            cls.poll_message_set(why)
        return not why

    def _tell(self):
        """Reports the answer of an operator that waited."""
        for message in tray.TRAY.messages:
            kind = {messages.ERROR: "ERROR", messages.WARNING: "WARNING"}.get(message.severity, "INFO")
            if kind != "ERROR":
                self.report({kind}, str(message))
        wrong = messages.errors(tray.TRAY.messages)
        if wrong:
            self.report({"ERROR"}, "; ".join(str(each) for each in wrong))
            return {"CANCELLED"}
        self.report({"INFO"}, tray.TRAY.title)
        return {"FINISHED"}

    def _refuse(self, found, title):
        tray.show(found, title, ok=False)
        self.report({"ERROR"}, "; ".join(str(each) for each in messages.errors(found)))
        return {"CANCELLED"}


class OVERCRANK_OT_check(_Operator):
    """Say what stands against submitting the scene, without sending anything"""

    bl_idname = "overcrank.check"
    bl_label = "Check"

    def execute(self, context):
        """Checks; the disk is looked at in the background."""
        chosen = properties.choices()
        memory.remember()
        shot, found = prepare(context.scene, chosen)
        submission = launch({}, found, checks.looks(shot, chosen), send=False)
        if self.wait:
            submission.wait()
            tray.settle()
            return self._tell()
        return {"FINISHED"}


class _Handover(_Operator):
    """What hands the scene over: collects, checks, and goes on in the background."""

    window = False
    saying = ""

    def execute(self, context):
        """Collects, checks, and hands over in the background."""
        chosen = properties.choices()
        memory.remember()
        shot, found = prepare(context.scene, chosen)
        if messages.errors(found):
            return self._refuse(found, "It cannot be submitted like this")
        scene_file = shot["file"]
        try:
            if chosen["source"] == "COPY":
                scene_file = save_copy(shot)
            document = job.build(shot, chosen, scene_file)
        except (OSError, RuntimeError) as error:
            found.append(
                messages.error("copy", "The copy cannot be saved: %s" % " ".join(str(error).split()))
            )
            return self._refuse(found, "It was not submitted")
        submission = launch(document, found, checks.looks(shot, chosen), send=True, window=self.window)
        if self.wait:
            submission.wait()
            tray.settle()
            return self._tell()
        self.report({"INFO"}, self.saying)
        return {"FINISHED"}


class OVERCRANK_OT_submit(_Handover):
    """Send the scene to the render farm; your file is not changed, and you can go on working at once"""

    bl_idname = "overcrank.submit"
    bl_label = "Submit to farm"
    saying = "Overcrank: on its way to the farm"


class OVERCRANK_OT_open_window(_Handover):
    """Open the scene's job in the farm's window, with an estimate and every setting, and submit it there"""

    bl_idname = "overcrank.open_window"
    bl_label = "Open in farm window"
    window = True
    saying = "Overcrank: opening the farm's window"


class OVERCRANK_OT_copy_address(bpy.types.Operator):
    """Copy the job's address, for `farm job` and `farm why`"""

    bl_idname = "overcrank.copy_address"
    bl_label = "Copy address"
    bl_options = {"INTERNAL"}

    @classmethod
    def poll(cls, _context):
        """Only when there is one."""
        return tray.TRAY.job is not None

    def execute(self, context):
        """Puts it on the clipboard."""
        context.window_manager.clipboard = tray.TRAY.job["address"]
        return {"FINISHED"}


_CLASSES = (OVERCRANK_OT_check, OVERCRANK_OT_submit, OVERCRANK_OT_open_window, OVERCRANK_OT_copy_address)


def register():
    """Registers the operators."""
    for each in _CLASSES:
        bpy.utils.register_class(each)


def unregister():
    """Takes them away."""
    for each in reversed(_CLASSES):
        bpy.utils.unregister_class(each)
