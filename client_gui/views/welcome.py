"""The page for whoever has no farm to look at: connect to one, start one here, or run the demo.

What belongs here: the page and its three cards, and why there is no connection.  What may not: how a farm is
joined (``farm.sdk.connect``), found (``net.discover``) or started (``net.programs``).
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from client_gui.desk import Desk
from client_gui.net.demo import Demo
from client_gui.net.discover import Discovery
from client_gui.net.programs import LocalFarm, State
from client_gui.net.troubles import Cure, trouble_of
from client_gui.style.lazily import when_seen
from client_gui.views.base import View
from client_gui.views.welcome_parts.connect import ConnectCard
from client_gui.views.welcome_parts.local import DemoCard, LocalCard
from client_gui.views.welcome_parts.words import Words, sentence
from farm.config.places import farm_name

#: Narrower than this, in heights of the font, the cards stand below each other.
_NARROW_EM = 66
#: Wider than this nothing gets: lines of words would be hard to follow.
_WIDEST_EM = 104


class WelcomeView(View):
    """Where a farm is chosen.

    Args:
        desk: What views share.
        discovery: Looks for farms; made here when not given.
    """

    name = "welcome"
    title = "Welcome"

    #: A farm was chosen, by the name it is kept under here; "" = the usual one.
    connect_to = Signal(str)
    #: Somebody wants to go back to the farm that is connected.
    back_wanted = Signal()

    def __init__(
        self, desk: Desk, parent: QWidget | None = None, *, discovery: Discovery | None = None
    ) -> None:
        super().__init__(desk, parent)
        theme = desk.theme
        self.discovery = discovery or Discovery(self)
        self.discovery.setParent(self)
        # One for all windows: a second window must not start a second farm.
        self.local = LocalFarm.of(desk.client)
        self.demo = desk.client.findChild(Demo) or Demo(desk.client)
        self._chosen = ""
        #: Farms of this machine that were started anew here, beside the one of the card.
        self._others: list[LocalFarm] = []
        self._cure = Cure.NONE
        self.heading = Words(theme, bold=True, times=1.7)
        self.text = Words(theme)
        self.advice = Words(theme, token="dim")
        self.cure_button = QPushButton()
        self.cure_button.setDefault(True)
        self.cure_button.clicked.connect(self._do_cure)
        self.back = QPushButton("Back to the farm")
        self.back.clicked.connect(self.back_wanted)
        self.connect_card = ConnectCard(desk, self.discovery)
        self.local_card = LocalCard(desk, self.local)
        self.demo_card = DemoCard(desk, self.demo)
        self.connect_card.chosen.connect(self._choose)
        self.local.serving.connect(self._served)
        self.demo.serving.connect(self._served)
        self._build()
        desk.client.stood.connect(self._stood)
        self.discovery.changed.connect(self._stood)
        when_seen(theme, self, self._restyle)
        self._restyle()
        self._stood()

    # -- View --

    def refresh(self) -> None:
        """Looks for farms while it is visible."""
        self.discovery.start()
        self._stood()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Looks no more."""
        super().hideEvent(event)
        self.discovery.stop()
        self.connect_card.leave()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Esc goes back where there is something to go back to."""
        if event.key() == Qt.Key.Key_Escape and not self.back.isHidden():
            self.back_wanted.emit()
            return
        super().keyPressEvent(event)

    # -- inside --

    def _build(self) -> None:
        inner = QWidget()
        column = QVBoxLayout(inner)
        self._column = column
        head = QVBoxLayout()
        for widget in (self.heading, self.text, self.advice):
            head.addWidget(widget)
        buttons = QHBoxLayout()
        buttons.addWidget(self.cure_button)
        buttons.addWidget(self.back)
        buttons.addStretch(1)
        self._head = head
        head.addLayout(buttons)
        # In the middle of a large window rather than at its upper edge.
        column.addStretch(2)
        column.addLayout(head)
        self._cards = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        for card, stretch in ((self.connect_card, 5), (self.local_card, 4), (self.demo_card, 4)):
            self._cards.addWidget(card, stretch)
        column.addLayout(self._cards)
        column.addStretch(3)
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(inner)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)

    def _restyle(self) -> None:
        theme = self.desk.theme
        self._column.setSpacing(theme.em(1.2))
        self._head.setSpacing(theme.em(0.35))
        self._cards.setSpacing(theme.em(0.8))
        self._arrange(self.width())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Side by side where there is room, else below each other."""
        super().resizeEvent(event)
        self._arrange(event.size().width())

    def _arrange(self, width: int) -> None:
        theme = self.desk.theme
        edge = theme.em(1.5)
        aside = max(edge, (width - theme.em(_WIDEST_EM)) // 2)
        self._column.setContentsMargins(aside, edge, aside, edge)
        narrow = width < theme.em(_NARROW_EM)
        direction = QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight
        if self._cards.direction() is not direction:
            self._cards.setDirection(direction)

    def _stood(self) -> None:
        client = self.desk.client
        known = any(choice.known for choice in self.discovery.choices)
        usual = next((choice.name for choice in self.discovery.choices if choice.usual), "")
        farm = self._chosen or client.farm or usual
        found = trouble_of(client.standing, farm, first_time=not known and not farm)
        if found is None:
            name = client.welcome.farm_name if client.welcome is not None else client.farm
            self.heading.say("Choose a farm")
            self.text.say(
                f"You are connected to {name or 'a farm'}, at {client.place}." if client.place else ""
            )
            self.advice.say("")
            self._cure = Cure.NONE
        else:
            self.heading.say(found.heading)
            self.text.say(found.text)
            self.advice.say(found.advice)
            self._cure = found.cure
            self.cure_button.setText(found.button)
        self.heading.set_token("bad" if found is not None and found.grave else "text")
        self.cure_button.setVisible(self._cure is not Cure.NONE)
        # While it is away, too: what is known of it can still be read.
        self.back.setVisible(client.live or client.welcome is not None)

    def _do_cure(self) -> None:
        match self._cure:
            case Cure.RETRY:
                self.desk.client.resync()
            case Cure.TOKEN:
                self.connect_card.token.setFocus(Qt.FocusReason.OtherFocusReason)
            case Cure.START:
                self._start_again()
            case Cure.CHOOSE:
                self.connect_card.farms.setFocus(Qt.FocusReason.OtherFocusReason)
            case _:
                pass

    def _start_again(self) -> None:
        """Starts the farm of this machine that has ended; the page of the farm says when it serves."""
        local = LocalFarm.of(self.desk.client, self._chosen or self.desk.client.farm or farm_name())
        if local is not self.local and local not in self._others:
            self._others.append(local)
            local.serving.connect(self._served)
            local.changed.connect(partial(self._other_changed, local))
        local.restart()

    def _other_changed(self, local: LocalFarm) -> None:
        self.cure_button.setEnabled(local.state is State.IDLE)
        if local.state is State.IDLE and local.trouble:
            self.advice.say(sentence(local.trouble))

    def _served(self, farm: str) -> None:
        # Every window has this page; the one that is looked at takes it, or the only one.
        if self.on:
            self._choose(farm)

    def _choose(self, farm: str) -> None:
        self._chosen = farm
        self.connect_to.emit(farm)
