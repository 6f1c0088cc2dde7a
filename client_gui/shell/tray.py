"""The icon beside the clock: how my jobs stand without a window, and word when one with a bell is over.

What belongs here: the icon, its menu and its messages.  What may not: what a bell is (``actions.marks``).

Where a desktop shows no such icons there is none; nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QMenu, QSystemTrayIcon

from client_gui.models.figures import local_zone
from client_gui.net.client import FarmClient
from client_gui.notices import Notices
from client_gui.settings import Setting, Settings
from client_gui.store.activity import Level, Notice
from client_gui.store.eta import eta_text
from client_gui.store.farmstore import Freshness
from farm.model.states import WorkState
from farm.sdk.words import clean, plural

#: Whether the icon is there.
TRAY: Final = Setting("tray/on", True)
#: So many jobs are named in the menu.
MOST: Final = 10
_EVERY_MS: Final = 2000
_LOOKER: Final = "tray"


class Tray(QObject):
    """The icon.

    Args:
        client: The farm.
        notices: What happened; what comes of a job with a bell is told beside the clock.
        settings: Whether the icon is wanted.
        icon: The program's icon.
        open_job: Shows a job (0: just the window) in a window.
        leave: Ends the program.
        available: Whether this desktop shows such icons.
    """

    def __init__(
        self,
        client: FarmClient,
        notices: Notices,
        settings: Settings,
        icon: QIcon,
        open_job: Callable[[int], None],
        leave: Callable[[], None],
        available: Callable[[], bool] = QSystemTrayIcon.isSystemTrayAvailable,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._settings = settings
        self._open_job = open_job
        self._leave = leave
        self._available = available
        self.menu = QMenu()
        self.menu.setToolTipsVisible(True)
        self.menu.aboutToShow.connect(self._fill)
        self.icon = QSystemTrayIcon(icon, self)
        self.icon.setContextMenu(self.menu)
        self.icon.activated.connect(self._activated)
        self.icon.messageClicked.connect(self._clicked)
        self._told = 0
        self._timer = QTimer(self)
        self._timer.setInterval(_EVERY_MS)
        self._timer.timeout.connect(self.tick)
        settings.changed.connect(self._chosen)
        notices.came.connect(self._notice)
        self._turn()

    # -- being there --

    @property
    def on(self) -> bool:
        """Whether the icon is there."""
        return self._timer.isActive()

    def _chosen(self, name: str) -> None:
        if name == TRAY.name:
            self._turn()

    def _turn(self) -> None:
        wanted = self._settings.get(TRAY) and self._available()
        if wanted == self.on:
            return
        if wanted:
            self._client.look(_LOOKER, jobs=True)
            self._timer.start()
            self.icon.show()
            self.tick()
        else:
            self.end()

    def end(self) -> None:
        """Takes the icon away; nothing is followed for it any more."""
        self._timer.stop()
        self.icon.hide()
        self._client.look(_LOOKER)

    # -- what it says --

    def tick(self) -> None:
        """Says anew how things stand when the mouse rests on the icon."""
        self.icon.setToolTip(self.summary())

    def mine(self) -> list[int]:
        """My jobs that are not over, those that run first, then the newest."""
        jobs = self._client.store.jobs
        users, states = jobs.values("user"), jobs.numbers("state")
        words = jobs.words("state")
        over = [words.code(word) for word in (WorkState.DONE, WorkState.CANCELED, WorkState.FAILED)]
        slots = jobs.slots()
        slots = slots[~np.isin(states[slots], over) & ~jobs.numbers("archived")[slots]]
        found = [slot for slot in slots.tolist() if users[slot] == self._client.user]
        running = words.code(WorkState.RUNNING)
        found.sort(key=lambda slot: (states[slot] != running, -int(jobs.numbers("job")[slot])))
        return [int(jobs.numbers("job")[slot]) for slot in found]

    def summary(self) -> str:
        """How my jobs stand, in a few lines."""
        client = self._client
        head = f"Overcrank: {client.farm}" if client.farm else "Overcrank"
        if not client.live:
            return f"{head}\n{client.standing.trouble or 'not connected'}"
        mine = self.mine()
        if not mine:
            return f"{head}\nno jobs of yours are under way"
        lines = [self.line(job) for job in mine[:3]]
        if len(mine) > 3:
            lines.append(f"and {plural(len(mine) - 3, 'more job')}")
        return "\n".join([head, *lines])

    def line(self, job: int) -> str:
        """How a job stands, in a line."""
        row = self._client.store.jobs.row(job)
        eta = eta_text(row["eta_low_us"], row["eta_high_us"], self._client.now_us(), local_zone())
        failed = f", {row['failed']} failed" if row["failed"] else ""
        when = f", {eta}" if row["state"] == WorkState.RUNNING and eta != "—" else ""
        return f"{clean(row['name'])}  {row['state']}, {row['progress']:.0f} %{failed}{when}"

    def _fill(self) -> None:
        self.menu.clear()
        mine = self.mine()
        if self._client.store.freshness(self._client.now_us()) is Freshness.STALE:
            trouble = self._client.standing.trouble or "not connected"
            self.menu.addAction(trouble.replace("&", "&&")).setEnabled(False)
        elif not mine:
            self.menu.addAction("No jobs of yours are under way").setEnabled(False)
        for job in mine[:MOST]:
            # An ampersand would be taken for a key.
            entry = self.menu.addAction(self.line(job).replace("&", "&&"))
            entry.triggered.connect(partial(self._open_job, job))
        if len(mine) > MOST:
            self.menu.addAction(f"{plural(len(mine) - MOST, 'more job')} …").triggered.connect(
                partial(self._open_job, 0)
            )
        self.menu.addSeparator()
        self.menu.addAction("Open the window").triggered.connect(partial(self._open_job, 0))
        self.menu.addAction("Quit").triggered.connect(self._leave)

    # -- gestures and messages --

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason == QSystemTrayIcon.ActivationReason.Trigger:
            self._open_job(0)

    def _notice(self, notice: Notice) -> None:
        """Of a job that is over, when no window of ours has the focus."""
        job = notice.about[1:] if notice.about[:1] == "J" else ""
        over = notice.level in (Level.DONE, Level.WARNING) and notice.text.startswith(f"{notice.about} ")
        if not self.on or not job.isdecimal() or not over or QApplication.activeWindow() is not None:
            return
        self._told = int(job)
        kind = (
            QSystemTrayIcon.MessageIcon.Information
            if notice.level is Level.DONE
            else QSystemTrayIcon.MessageIcon.Warning
        )
        self.icon.showMessage("Overcrank", clean(notice.text), kind)

    def _clicked(self) -> None:
        self._open_job(self._told)
