"""The submission on its way and the last answer: what the panel shows.

What belongs here: the one state of the add-on, looked at from a timer.  What must not: making jobs.

The timer runs in Blender's own thread four times a second while something is on its way; all it does is ask
whether an answer is there.
"""

import bpy

from ._shared import messages

_POLL_S = 0.25
_POPUP_LINES = 12


class Tray(object):
    """What the panel shows.

    Attributes:
        submission: On its way, or None.
        messages: What is to be said about the last check or submission.
        title: One line about it, "" before the first.
        ok: Whether it went well.
        job: The farm's answer about the last job that was sent, or None.
    """

    def __init__(self):
        self.submission, self.messages, self.title, self.ok, self.job = None, [], "", True, None


TRAY = Tray()
_SAYING = {
    "waiting": "Starting…",
    "checking": "Looking at the files…",
    "sending": "Waiting for the farm…",
    "opening": "Opening the farm's window…",
}


def busy():
    """Words for what is under way, "" when nothing is."""
    submission = TRAY.submission
    return _SAYING.get(submission.phase, "Submitting…") if submission is not None else ""


def begin(submission):
    """Starts a submission and watches it."""
    TRAY.submission, TRAY.messages, TRAY.title, TRAY.ok, TRAY.job = submission, [], "", True, None
    submission.start()
    if not bpy.app.timers.is_registered(watch):
        bpy.app.timers.register(watch, first_interval=_POLL_S)
    redraw()


def show(found, title, ok):
    """Shows messages of a check that sent nothing."""
    TRAY.messages, TRAY.title, TRAY.ok, TRAY.job = messages.in_order(found), title, ok, None
    redraw()


def watch():
    """The timer: looks for the answer; returns when to look again, None when it came."""
    submission = TRAY.submission
    if submission is None:
        return None
    if not submission.poll():
        redraw()
        return _POLL_S
    settle()
    popup()
    return None


def settle():
    """Takes over the answer of a submission that has ended."""
    submission, TRAY.submission = TRAY.submission, None
    TRAY.messages, TRAY.ok, TRAY.job = messages.in_order(submission.messages), submission.ok, submission.job
    if submission.job is not None:
        TRAY.title = "%s is in the queue" % submission.job["address"]
        if submission.job.get("farm"):
            TRAY.title += " of the farm %s" % submission.job["farm"]
    elif submission.phase == "opened":
        TRAY.title = "It is open in the farm's window: submit it there"
    elif submission.phase == "checked":
        TRAY.title = "Nothing stands against it" if submission.ok else "It cannot be submitted like this"
    else:
        TRAY.title = "It was not submitted"
    redraw()


def forget():
    """Forgets everything: the add-on is disabled."""
    if bpy.app.timers.is_registered(watch):
        bpy.app.timers.unregister(watch)
    TRAY.__init__()


def redraw():
    """Asks for the panels to be drawn again."""
    manager = bpy.context.window_manager
    for window in manager.windows if manager is not None else ():
        for area in window.screen.areas:
            if area.type in ("PROPERTIES", "VIEW_3D"):
                area.tag_redraw()


def popup():
    """Says the answer where the artist looks; a Blender without a window prints it."""
    lines = [str(each) for each in TRAY.messages if each.severity != messages.NOTE][:_POPUP_LINES]
    if bpy.app.background or not bpy.context.window_manager.windows:
        print("Overcrank: %s" % TRAY.title, *lines, sep="\n  ")  # noqa: T201 - there is nowhere else to say it
        return

    def draw(menu, _context):
        for line in lines or ["The farm renders it; this file was not changed"]:
            menu.layout.label(text=line)

    window = bpy.context.window_manager.windows[0]
    icon = "CHECKMARK" if TRAY.ok else "ERROR"
    if hasattr(bpy.context, "temp_override"):
        with bpy.context.temp_override(window=window):
            bpy.context.window_manager.popup_menu(draw, title="Overcrank: " + TRAY.title, icon=icon)
