"""The two cards that start something on this machine: a farm of one's own, and the demo.

What belongs here: buttons and what the programs say.  What may not: starting processes (``net.programs``).
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QCheckBox, QFileDialog, QHBoxLayout, QLineEdit, QPushButton

from client_gui.desk import Desk
from client_gui.net.demo import Demo
from client_gui.net.programs import LocalFarm, State
from client_gui.net.troubles import START_WORDS
from client_gui.views.cards import Card
from client_gui.views.welcome_parts.words import Lines, Words, roomy, sentence


class LocalCard(Card):
    """Starts a farm on this machine."""

    def __init__(self, desk: Desk, local: LocalFarm) -> None:
        super().__init__(desk.theme)
        theme = desk.theme
        roomy(self, theme, "Start a private farm here")
        self._local = local
        self.box.addWidget(
            Words(
                theme,
                "A broker and a render agent on this machine, for you alone: nothing listens on the network."
                " Jobs are kept from one start to the next.",
                token="dim",
            )
        )
        self.keep = QCheckBox("Keep it running after this window closes")
        self.keep.setToolTip(
            "Otherwise it ends with this window; frames that were being rendered are rendered anew next time"
        )
        self.button = QPushButton("Start the farm")
        self.button.clicked.connect(self._press)
        self.again = QPushButton(START_WORDS)
        self.again.setToolTip("Starts a render agent for the farm, which goes on meanwhile")
        self.again.setAccessibleName("Start the farm's agent again")
        self.again.clicked.connect(local.restart_agent)
        self.state = Words(theme, small=True)
        self.lines = Lines(theme, "What the farm's programs say")
        self.box.addWidget(self.keep)
        line = QHBoxLayout()
        line.addWidget(self.button)
        line.addWidget(self.again)
        line.addStretch(1)
        self.box.addLayout(line)
        self.box.addWidget(self.state)
        self.box.addWidget(self.lines)
        self.box.addStretch(1)
        local.said.connect(self.lines.put)
        local.changed.connect(self._changed)
        self._changed()

    def _press(self) -> None:
        if self._local.state is State.IDLE:
            self.lines.empty()
            self._local.start(self.keep.isChecked())
        elif self._local.kept:
            self._local.serving.emit(self._local.farm)
        else:
            self._local.stop()

    def _changed(self) -> None:
        state, kept, trouble = self._local.state, self._local.kept, self._local.trouble
        self.button.setText(
            {
                State.IDLE: "Start the farm",
                State.STARTING: "Cancel",
                State.SERVING: "Connect to it" if kept else "Stop the farm",
                State.ENDING: "Stopping …",
            }[state]
        )
        self.button.setEnabled(state is not State.ENDING and not (kept and state is State.STARTING))
        self.keep.setEnabled(state is State.IDLE)
        lost = self._local.agent_trouble if state is State.SERVING else ""
        if self.again.hasFocus() and not lost:
            self.button.setFocus()
        self.again.setVisible(bool(lost))
        self.state.set_token("bad" if trouble or lost else "dim")
        self.state.say(
            {
                State.IDLE: sentence(trouble),
                State.STARTING: "Starting a broker …",
                State.SERVING: sentence(lost)
                or (
                    "It runs, and goes on when this window is closed. `farm shutdown` ends it."
                    if kept
                    else "It runs, and ends with this window."
                ),
                State.ENDING: "Ending what runs …",
            }[state]
            or ""
        )


class DemoCard(Card):
    """Runs the demo."""

    def __init__(self, desk: Desk, demo: Demo) -> None:
        super().__init__(desk.theme)
        theme = desk.theme
        roomy(self, theme, "Run the demo")
        self._demo = demo
        self.box.addWidget(
            Words(
                theme,
                "About a minute: a private farm renders a small scene, grades it, and makes a film with sound"
                " of it. You watch it here. It leaves nothing running.",
                token="dim",
            )
        )
        self.folder = QLineEdit(str(demo.folder))
        self.folder.setAccessibleName("Folder for pictures and film")
        self.browse = QPushButton("Browse…")
        self.browse.setAccessibleName("Choose the folder for pictures and film")
        self.browse.clicked.connect(self._browse)
        row = QHBoxLayout()
        row.addWidget(self.folder, 1)
        row.addWidget(self.browse)
        self.box.addWidget(Words(theme, "Pictures and film go to:"))
        self.box.addLayout(row)
        self.button = QPushButton("Run the demo")
        self.button.clicked.connect(self._press)
        self.film = QPushButton("Play the film")
        self.film.clicked.connect(self._play)
        line = QHBoxLayout()
        line.addWidget(self.button)
        line.addWidget(self.film)
        line.addStretch(1)
        self.box.addLayout(line)
        self.state = Words(theme, small=True)
        self.lines = Lines(theme, "What the demo says")
        self.box.addWidget(self.state)
        self.box.addWidget(self.lines)
        self.box.addStretch(1)
        demo.said.connect(self.lines.put)
        demo.changed.connect(self._changed)
        self._changed()

    def _press(self) -> None:
        if self._demo.state is State.IDLE:
            text = self.folder.text().strip()
            if not text:
                self.state.set_token("bad")
                self.state.say("Choose a folder for pictures and film first.")
                self.folder.setFocus()
                return
            self.lines.empty()
            self._demo.start(Path(text).expanduser())
        else:
            self._demo.stop()

    def _browse(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Folder for pictures and film", self.folder.text())
        if chosen:
            self.folder.setText(chosen)

    def _play(self) -> None:
        if self._demo.film is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._demo.film)))

    def _changed(self) -> None:
        state, trouble, film = self._demo.state, self._demo.trouble, self._demo.film
        self.button.setText(
            {
                State.IDLE: "Run the demo",
                State.STARTING: "Cancel",
                State.SERVING: "Cancel",
                State.ENDING: "Stopping …",
            }[state]
        )
        idle = state is State.IDLE
        self.button.setEnabled(state is not State.ENDING)
        self.folder.setEnabled(idle)
        self.browse.setEnabled(idle)
        self.film.setVisible(idle and film is not None)
        self.state.set_token("bad" if trouble else "dim")
        self.state.say(
            {
                State.IDLE: sentence(trouble) or (f"Done: {film}" if film is not None else ""),
                State.STARTING: "Starting a private farm …",
                State.SERVING: "It renders.",
                State.ENDING: "Ending what runs …",
            }[state]
        )
