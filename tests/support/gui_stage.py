"""A window with a list for tests of actions, and what was asked of the farm by them.

What belongs here: a place whose selection a test gives, keys, and yes to sheets.  What may not: anything a
test wants to prove.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QLineEdit, QListView, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from client_gui.actions.confirm import ConfirmSheet
from client_gui.actions.context import ActionContext
from client_gui.actions.records import RECORDS
from client_gui.net.port import Standing, Welcomed
from client_gui.store.farmstore import Link
from farm.protocol.client import ActReq, NodeActReq
from farm.protocol.common import WelcomeMsg
from tests.support.gui_rig import Rig, job_row

#: Actions that ask the farm for something.
CHANGES = [record for record in RECORDS if record.changes]


class Stage(QWidget):
    """A window with a list whose selection is given."""

    def __init__(self) -> None:
        super().__init__()
        self.context = ActionContext()
        self.list = QListView()
        self.edit = QLineEdit()
        self.button = QPushButton("a button")
        column = QVBoxLayout(self)
        for one in (self.list, self.edit, self.button):
            column.addWidget(one)
        self.resize(900, 700)
        self.held = 0

    def action_context(self) -> ActionContext:
        return self.context

    def hold_still(self) -> None:
        self.held += 1

    def let_go(self) -> None:
        self.held -= 1


#: Roles and users: whose the jobs are, another artist, and who may more.
ROLES = (("artist", "ann"), ("artist", "bo"), ("wrangler", "wim"), ("admin", "root"))
JOB_STATES = ("queued", "running", "paused", "failed", "blocked", "canceled", "done", "thawing")
#: More than are worked out in one slice.
MANY = 600


def asked(gui: Rig) -> list[Any]:
    """What was asked of the farm about jobs, then about nodes."""
    return [*gui.port.asked(ActReq), *gui.port.asked(NodeActReq)]


def agree(stage: Stage) -> None:
    """Says yes to whatever is asked."""
    for sheet in stage.findChildren(ConfirmSheet):
        if sheet.isVisible():
            assert sheet.no.hasFocus(), "no is what Enter says"
            sheet.yes.click()


def press(qtbot: QtBot, widget: QWidget, key: str) -> None:
    """Presses a key as people write it."""
    combination = QKeySequence.fromString(key, QKeySequence.SequenceFormat.PortableText)[0]
    qtbot.keyClick(widget, combination.key(), combination.keyboardModifiers())


def move(rig: Rig) -> None:
    """The window is connected to another farm, which has jobs of the same numbers."""
    welcome = WelcomeMsg(version=1, session=2, farm_name="farm-B", software="0.1.0", role="admin", user="ana")
    rig.give(Welcomed(welcome, "farm-B", "10.0.0.9:7460", "other"), Standing(Link.LIVE))
    rig.snapshot(tuple(job_row(n) for n in range(1, 601)))
