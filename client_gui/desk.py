"""What every part of the window shares: the farm, what is looked at, the theme, the settings, the actions.

What belongs here: one record handed to every view, and what somebody is looking at just now.  What may not:
how anything is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from client_gui.actions.book import ActionBook
    from client_gui.net.client import FarmClient
    from client_gui.notices import Notices
    from client_gui.settings import Settings
    from client_gui.style.theme import Theme


class Focus(QObject):
    """What somebody is looking at: a job, a step of it, a frame, an attempt, a node.

    Views that show details follow it, views with lists set it.

    Attributes:
        job: Number of the job, 0 for none.
        step: Name of the step, "" for none.
        unit: Index of the frame's unit in the step, -1 for none.
        attempt: Number of an attempt within the step, 0 = the newest of the unit.
        node: Number of the node, 0 for none.
    """

    #: The job changed; step, unit and attempt with it.
    job_changed = Signal()
    #: The step or unit or attempt changed (also after ``job_changed``).
    unit_changed = Signal()
    node_changed = Signal()
    #: A job was made by somebody here: lists make it the one keys act on, as soon as they have it.
    job_made = Signal(int)
    #: Somebody wants to see a dock (by its name) brought to the front: ``log``, ``preview``, ``why`` ...
    wanted = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.job = 0
        self.step = ""
        self.unit = -1
        self.attempt = 0
        self.node = 0

    def set_job(self, job: int) -> None:
        """Looks at a job, at no frame of it yet."""
        if job == self.job:
            return
        self.job, self.step, self.unit, self.attempt = job, "", -1, 0
        self.job_changed.emit()
        self.unit_changed.emit()

    def take_job(self, job: int) -> None:
        """Looks at a job that was just made, and has lists select it."""
        self.set_job(job)
        self.job_made.emit(job)

    def set_unit(self, step: str, unit: int = -1, attempt: int = 0) -> None:
        """Looks at a step, a frame or an attempt of the job."""
        if (step, unit, attempt) == (self.step, self.unit, self.attempt):
            return
        self.step, self.unit, self.attempt = step, unit, attempt
        self.unit_changed.emit()

    def set_node(self, node: int) -> None:
        """Looks at a node."""
        if node != self.node:
            self.node = node
            self.node_changed.emit()

    def show(self, dock: str) -> None:
        """Wants a dock at the front."""
        self.wanted.emit(dock)


@dataclass(slots=True)
class Desk:
    """What every view is given.

    Attributes:
        client: The farm.
        focus: What is looked at.
        actions: Everything that can be done, with keys and reasons why not.
        notices: What happened, and toasts of it.
        settings: What is remembered.
        theme: Colours, glyphs, sizes.
    """

    client: FarmClient
    focus: Focus
    actions: ActionBook
    notices: Notices
    settings: Settings
    theme: Theme
