"""The dock of one job for tests: the file of its job, and waiting for what it asked for.

What belongs here: what several files about the dock need.  What may not: anything a test wants to prove.
"""

from __future__ import annotations

from typing import Any

from pytestqt.qtbot import QtBot

from tests.support.gui_rig import Rig

#: Its job file: a step of another job before it, secrets, and frames that wait for frames.
SPEC = {
    "overcrank_job": 1,
    "name": "shot",
    "priority": 60,
    "token": "t0k3n",
    "steps": [
        {"name": "sim", "renderer": "houdini", "kind": "single", "after": [{"job": "J7"}]},
        {
            "name": "beauty",
            "renderer": "blender",
            "frames": "1001-1100",
            "after": ["sim"],
            "env": {"OCIO": "/c.ocio", "FLEX_PASSWORD": "hunter2"},
            "resources": {"cores": 8},
        },
        {
            "name": "comp",
            "renderer": "nuke",
            "frames": "1001-1100",
            "after": [{"step": "beauty", "frames": True, "on_failure": "skip"}],
        },
    ],
}


def until(rig: Rig, qtbot: QtBot, so: Any) -> None:
    """Waits until something is so, while the farm answers."""
    qtbot.waitUntil(lambda: bool(rig.settle()) or bool(so()))
