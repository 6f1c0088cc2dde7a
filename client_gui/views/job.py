"""The dock of one job: its head, and tabs of its frames, steps, graph, settings and history.

What belongs here: following the job that is looked at, and which tab is shown.  What may not: what is in the
tabs (``job_parts``).
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QFrame, QTabWidget, QVBoxLayout, QWidget

from client_gui.actions.context import ActionContext
from client_gui.desk import Desk
from client_gui.settings import Setting
from client_gui.store.farmstore import FarmChange
from client_gui.views.base import View
from client_gui.views.job_parts.board import JobBoard
from client_gui.views.job_parts.framestab import FramesTab
from client_gui.views.job_parts.graphtab import GraphTab
from client_gui.views.job_parts.header import JobHeader
from client_gui.views.job_parts.historytab import HistoryTab
from client_gui.views.job_parts.jobspec import JobFile
from client_gui.views.job_parts.settingstab import SettingsTab
from client_gui.views.job_parts.stepstab import StepsTab

#: A job changes all the time, its file hardly ever: how often it is asked for at most.
FILE_MS: Final = 3000
TAB: Final = Setting("job/tab", "frames")


class JobView(View):
    """One job in all its parts.

    Attributes:
        board: What its parts share.
        header: Its head.
        frames, steps, graph, settings, history: Its tabs.
    """

    name = "job"
    title = "Job"

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self.board = JobBoard(desk, self)
        self._file = JobFile(desk, self)
        self._file_soon = QTimer(self)
        self._file_soon.setSingleShot(True)
        self._file_soon.setInterval(FILE_MS)
        self._file_soon.timeout.connect(self._want_file)
        self.header = JobHeader(self.board)
        self.frames = FramesTab(self.board)
        self.steps = StepsTab(self.board)
        self.graph = GraphTab(self.board, self._file)
        self.settings = SettingsTab(self.board, self._file)
        self.history = HistoryTab(self.board)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName("Parts of the job")
        self._names: list[str] = []
        for name, words, tab in (
            ("frames", "Frames", self.frames),
            ("steps", "Steps", self.steps),
            ("graph", "Graph", self.graph),
            ("settings", "Settings", self.settings),
            ("history", "History", self.history),
        ):
            self._names.append(name)
            self.tabs.addTab(tab, words)
        line = QFrame()
        line.setFrameShape(QFrame.Shape.HLine)
        line.setFrameShadow(QFrame.Shadow.Plain)
        line.hide()
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.header)
        box.addWidget(self.tabs, 1)
        #: What has the keyboard when the dock is gone to.
        self._keys: dict[str, QWidget] = {
            "frames": self.frames.grid,
            "steps": self.steps.table,
            "graph": self.graph.graph,
            "settings": self.settings.table,
            "history": self.history.table,
        }
        self.tabs.currentChanged.connect(self._tab_changed)
        desk.focus.job_changed.connect(self._job_changed)
        desk.focus.wanted.connect(self._wanted)
        desk.client.welcomed.connect(self._welcomed)
        self.board.states_changed.connect(self.history.states_changed)
        self.show_tab(desk.settings.get(TAB))
        self.setFocusProxy(self._keys[self.tab])

    # -- tabs --

    def show_tab(self, name: str) -> None:
        """Shows a tab by its name; one that does not exist is passed over."""
        if name in self._names:
            self.tabs.setCurrentIndex(self._names.index(name))

    @property
    def tab(self) -> str:
        """Name of the tab that is shown."""
        return self._names[self.tabs.currentIndex()]

    def _tab_changed(self) -> None:
        self.desk.settings.set(TAB, self.tab)
        self.setFocusProxy(self._keys[self.tab])
        self._want_file()

    def _wanted(self, dock: str) -> None:
        """``job/steps`` wants a tab; the shell brings the dock itself to the front."""
        head, _, tab = dock.partition("/")
        if head == self.name and tab:
            self.show_tab(tab)

    def _want_file(self) -> None:
        if self.on and self.tab in ("graph", "settings"):
            self._file.want(self.board.job)

    # -- the farm --

    def look(self) -> None:
        """Follows the job that is looked at."""
        job = self.desk.focus.job
        # Nodes are followed for their names: figures know them by number.
        self.desk.client.look(
            self.looker, jobs=True, nodes=bool(job), opened=frozenset({job}) if job else frozenset()
        )

    def refresh(self) -> None:
        """Puts everything right from the store."""
        self.board.set_on(True)
        self.frames.refresh()
        self._file.want(self._file.job if self.tab not in ("graph", "settings") else self.board.job)
        self.history.refresh()
        self.frames.table.look()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Asks for nothing any more."""
        super().hideEvent(event)
        self.board.set_on(False)

    def farm_changed(self, change: FarmChange) -> None:
        """Takes a change."""
        self.board.farm_changed(change)
        slot = self.desk.client.store.jobs.slot(self.board.job)
        if slot in change.jobs.changed or slot in change.jobs.inserted:
            self._file.spoil()
            jobs = self.desk.client.store.jobs
            told = slot in change.jobs.touching(jobs.bits_of(("name", "project", "priority")))
            if told:
                self._want_file()
            elif not self._file_soon.isActive():
                self._file_soon.start()
            if not self.frames.isHidden():
                self.frames.refresh()

    def _job_changed(self) -> None:
        if self.on:
            self.look()
            self.refresh()

    def _welcomed(self) -> None:
        if self.on:
            self._want_file()
            self.history.refresh()

    def action_context(self) -> ActionContext:
        """What is selected in the tab that is shown."""
        if self.tab == "steps":
            return self.steps.action_context()
        if self.tab == "frames":
            return self.board.context()
        return self.board.job_context()
