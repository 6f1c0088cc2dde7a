"""The card that connects: farms known here, farms found on the network, and a token to join one.

What belongs here: the list, the field, and joining in a thread of its own.  What may not: sockets.
"""

from __future__ import annotations

import threading
from typing import Final

from PySide6.QtCore import QModelIndex, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QLineEdit, QListView, QPushButton

from client_gui.desk import Desk
from client_gui.net.discover import Choice, Discovery
from client_gui.style.lazily import when_seen
from client_gui.views.cards import Card
from client_gui.views.welcome_parts.choices import ChoiceLook, Choices, choice_height
from client_gui.views.welcome_parts.words import Words, roomy, sentence
from farm.model.errors import OvercrankError

#: How long a broker may take to redeem a token.
JOIN_S: Final = 10.0
#: So long it is looked for farms before it is said that there are none; one that comes later is shown all the
#: same.
LOOK_S: Final = 10.0
#: Rows the list has room for.
SHOWN_LEAST: Final = 3
SHOWN_MOST: Final = 7


class ConnectCard(Card):
    """Connects to a farm that is there."""

    #: A farm to connect to, by the name it is kept under here.
    chosen = Signal(str)
    _joined = Signal(object, object)

    def __init__(self, desk: Desk, discovery: Discovery) -> None:
        super().__init__(desk.theme)
        roomy(self, desk.theme, "Connect to a farm")
        self._desk = desk
        self._discovery = discovery
        theme = desk.theme
        self.model = Choices(self)
        self.farms = QListView()
        self.farms.setModel(self.model)
        self.farms.setAccessibleName("Farms known here and found on the network")
        self.farms.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.farms.setItemDelegate(ChoiceLook(theme, self.farms))
        self.farms.setUniformItemSizes(True)
        self.farms.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.farms.activated.connect(self._activated)
        self.farms.selectionModel().currentChanged.connect(self._picked)
        self.none = Words(theme, "Looking for farms …", token="dim")
        self.again = QPushButton("Look again")
        self.again.clicked.connect(self.look_again)
        self.again.hide()
        self._looked = QTimer(self)
        self._looked.setSingleShot(True)
        self._looked.timeout.connect(self._found)
        self.advice = Words(theme, token="dim", small=True)
        self.button = QPushButton("Connect")
        self.button.setEnabled(False)
        self.button.clicked.connect(self._connect)
        self.problem = Words(theme, token="bad", small=True)
        self.token = QLineEdit()
        self.token.setPlaceholderText("ovc1-…")
        self.token.setAccessibleName("Join token")
        self.token.setClearButtonEnabled(True)
        self.token.returnPressed.connect(self._join)
        self.token.textEdited.connect(lambda: self.problem.say(""))
        self.join_button = QPushButton("Join")
        self.join_button.clicked.connect(self._join)
        self._joining = False
        self._joined.connect(self._join_ended, Qt.ConnectionType.QueuedConnection)
        label = Words(theme, "A join token, from whoever runs the farm:")
        label.setBuddy(self.token)
        row = QHBoxLayout()
        row.addWidget(self.token, 1)
        row.addWidget(self.join_button)
        self.box.addWidget(self.none)
        self.box.addWidget(self.farms)
        self.box.addWidget(self.advice)
        line = QHBoxLayout()
        line.addWidget(self.again)
        line.addWidget(self.button)
        line.addStretch(1)
        self.box.addLayout(line)
        self.box.addSpacing(theme.em(0.4))
        self.box.addWidget(label)
        self.box.addLayout(row)
        self.box.addWidget(self.problem)
        self.box.addStretch(1)
        discovery.changed.connect(self._found)
        when_seen(theme, self, self._restyle)
        self._restyle()
        self._found()

    def _restyle(self) -> None:
        theme = self._desk.theme
        rows = min(SHOWN_MOST, max(SHOWN_LEAST, len(self.model.choices)))
        self.farms.setFixedHeight(rows * choice_height(theme) + theme.em(0.4))

    def _found(self) -> None:
        before = self._current()
        self.model.put(self._discovery.choices)
        choices = self.model.choices
        if choices and self._current() is None:
            self.farms.setCurrentIndex(self.model.index(0))
        self._restyle()
        self.farms.setVisible(bool(choices))
        self.button.setVisible(bool(choices))
        quiet = self._discovery.trouble
        looks = not choices and not quiet and self._looked.isActive()
        self.none.say(
            ""
            if choices
            else f"No farm is known here. {sentence(quiet)}"
            if quiet
            else _LOOKING
            if looks
            else _NONE
        )
        self.again.setVisible(not choices and not looks)
        if before != self._current():
            self._picked()
        self._show_advice()

    def look_again(self) -> None:
        """Looks for farms anew."""
        self._looked.start(round(LOOK_S * 1000))
        self._discovery.stop()
        self._discovery.start()
        self._found()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """It is looked for farms from now on."""
        super().showEvent(event)
        self._looked.start(round(LOOK_S * 1000))
        self._found()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """It is looked no more."""
        super().hideEvent(event)
        self._looked.stop()

    def _current(self) -> Choice | None:
        row = self.farms.currentIndex().row()
        return self.model.choices[row] if 0 <= row < len(self.model.choices) else None

    def _picked(self, *_: object) -> None:
        choice = self._current()
        self.button.setEnabled(choice is not None and choice.known)
        self.button.setText(f"Connect to {choice.name}" if choice is not None and choice.known else "Connect")
        self._show_advice()

    def _show_advice(self) -> None:
        choice = self._current()
        self.advice.say(choice.advice if choice is not None else "")
        self.button.setToolTip(choice.advice if choice is not None else "")

    def _activated(self, index: QModelIndex) -> None:
        choice = self._current()
        if choice is not None and not choice.known:
            self.token.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self._connect()

    def _connect(self) -> None:
        choice = self._current()
        if choice is not None and choice.known:
            self.chosen.emit(choice.name)

    def leave(self) -> None:
        """Forgets what was typed and what was wrong with it: nobody wants to find either again."""
        if not self._joining:
            self.token.clear()
            self.problem.say("")

    # -- joining --

    def _join(self) -> None:
        token = self.token.text().strip()
        if self._joining:
            return
        if not token:
            self.problem.say("Paste a token first: it begins with ovc1-.")
            self.token.setFocus(Qt.FocusReason.OtherFocusReason)
            return
        self._set_joining(True)
        self.problem.say("")
        # A thread that keeps nobody: the broker may take its time, and the window may be closed meanwhile.
        threading.Thread(target=self._redeem, args=(token,), name="join", daemon=True).start()

    def _redeem(self, token: str) -> None:
        import platform

        from farm.sdk.connect import join

        name, error = "", None
        try:
            name, answer = join(token, label=platform.node(), timeout_s=JOIN_S)
            if answer.role == "agent":
                error = OvercrankError(
                    "that token lets this machine render, not you connect",
                    hint="`farm agent` starts rendering; ask for a token with your own role to connect",
                )
        except OvercrankError as raised:
            error = raised
        except Exception as raised:
            error = OvercrankError(f"joining failed: {type(raised).__name__}: {raised}")
        try:
            self._joined.emit(name, error)
        except RuntimeError:  # the window was closed meanwhile
            pass

    @Slot(object, object)
    def _join_ended(self, name: str, error: OvercrankError | None) -> None:
        self._set_joining(False)
        if error is not None:
            self.problem.say(" ".join(filter(None, (sentence(error.message), sentence(error.hint)))))
            self.token.setFocus(Qt.FocusReason.OtherFocusReason)
            return
        # It is spent, and nobody needs to see it.
        self.token.clear()
        self._discovery.refresh()
        self.chosen.emit(name)

    def _set_joining(self, joining: bool) -> None:
        self._joining = joining
        self.token.setReadOnly(joining)
        self.join_button.setEnabled(not joining)
        self.join_button.setText("Joining …" if joining else "Join")


_LOOKING: Final = "No farm is known here. Looking for some on this network …"
_NONE: Final = "No farm is known here, and none was found on this network."
