"""What the window says of actions that wait for the farm, and asks before they are lost.

What belongs here: the banners and the question.  What may not: when they are sent (``actions.later``), and
the list of them (``views.waitslist``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QPushButton, QWidget

from client_gui.actions.later import Later, asked_text, count_text
from client_gui.actions.sheet import Sheet
from client_gui.actions.waiting import Wait
from client_gui.desk import Desk
from client_gui.shell.banners import Banners, Choice
from client_gui.style.theme import Theme
from farm.sdk.words import clean, plural

#: So many are named in a question.
NAMES_MOST: Final = 6


class Waiting(QObject):
    """What one window says of what waits.

    Args:
        desk: Of the window.
        window: The window.
        banners: Where it is said.
    """

    def __init__(self, desk: Desk, window: QWidget, banners: Banners) -> None:
        super().__init__(window)
        self._desk = desk
        self._window = window
        self._banners = banners
        self._sheet: LossSheet | None = None

    @property
    def _later(self) -> Later:
        return self._desk.actions.later

    # -- while the farm is away --

    def words(self) -> str:
        """What is said of it beside why the farm does not answer, "" for nothing."""
        text = count_text(self._later)
        return f" {text}." if text else ""

    def choices(self) -> tuple[Choice, ...]:
        """The button beside that."""
        return (Choice("Show what waits", self.show),) if self._later.waits else ()

    def show(self) -> None:
        """Shows it in Activity."""
        self._desk.focus.show("activity")

    # -- when it is back --

    def tick(self) -> None:
        """Asks for what needs a yes."""
        later = self._later
        live = self._desk.client.live
        asks, held = (later.asks, later.held) if live else ((), ())
        self._banners.put(
            "waiting-old",
            f"Send {_count(asks)} from {asked_text(asks)}? {_names(asks)}" if asks else "",
            "warn",
            (
                Choice("Send", lambda: later.send(_numbers(later.asks))),
                Choice("Take back", lambda: later.take_back(_numbers(later.asks))),
                Choice("Show what waits", self.show),
            ),
        )
        self._banners.put(
            "waiting-held",
            f"{_count(held)} {'was' if len(held) == 1 else 'were'} not sent. {_whys(held)}" if held else "",
            "warn",
            (
                Choice("Do it anyway", lambda: later.send(_numbers(later.held))),
                Choice("Leave it", lambda: later.take_back(_numbers(later.held))),
                Choice("Show what waits", self.show),
            ),
        )

    # -- before it is lost --

    def before_another(self, farm: str, go: Callable[[], None]) -> None:
        """Asks before another farm is connected; nothing is asked when nothing waits.

        Args:
            farm: The name the farm is kept under, "" for the one that is meant as a rule.
            go: Connects to it.
        """
        later = self._later
        if not later.waits or farm == self._desk.client.farm:
            go()
            return

        def drop() -> None:
            later.forget()
            go()

        where = f"to {farm}" if farm else "to another farm"
        self._ask(f"{count_text(later)}. Connect {where} and drop them?", "Drop and connect", drop)

    def before_the_end(self, end: Callable[[], None]) -> None:
        """Asks before the client ends: nothing of what waits is kept on disk."""
        later = self._later
        count = len(later.waits)
        text = f"{plural(count, 'action')} {'was' if count == 1 else 'were'} not sent"
        self._ask(f"{text}. Quit and lose {'it' if count == 1 else 'them'}?", "Quit", end)

    def _ask(self, title: str, yes: str, go: Callable[[], None]) -> None:
        if self._sheet is not None:
            self._sheet.close_with(False)
        self._sheet = LossSheet(self._window, self._desk.theme, title, tuple(self._later.waits), yes, go)
        self._sheet.closed.connect(self._closed)
        self._sheet.open()

    def _closed(self) -> None:
        self._sheet = None


class LossSheet(Sheet):
    """Asks before what waits is lost; whoever only presses Enter keeps it.

    Args:
        host: The window.
        theme: The look.
        title: The question.
        waits: What would be lost.
        yes: What the button says that goes on.
        go: What it does.
    """

    def __init__(
        self,
        host: QWidget,
        theme: Theme,
        title: str,
        waits: Sequence[Wait],
        yes: str,
        go: Callable[[], None],
    ) -> None:
        super().__init__(host, theme, title, wide_em=30)
        self._go = go
        self.label(title, bold=True)
        for one in waits[:NAMES_MOST]:
            self.label(clean(f"{one.text}  {one.title}".rstrip()))
        if len(waits) > NAMES_MOST:
            self.label(f"and {len(waits) - NAMES_MOST:,} more", dim=True)
        self.yes = QPushButton(yes)
        self.yes.clicked.connect(self._agree)
        self.no = QPushButton("Stay")
        self.no.setAccessibleName("Stay, lose nothing")
        self.no.clicked.connect(lambda: self.close_with(False))
        self.buttons(self.yes, self.no)

    def first(self) -> QWidget:
        """The button that loses nothing."""
        return self.no

    def _agree(self) -> None:
        self.close_with(True)
        self._go()


def _count(waits: Sequence[Wait]) -> str:
    return plural(len(waits), "action")


def _numbers(waits: Sequence[Wait]) -> frozenset[int]:
    return frozenset(one.number for one in waits)


def _names(waits: Sequence[Wait]) -> str:
    more = f", and {len(waits) - 1:,} more" if len(waits) > 1 else ""
    return f"{clean(waits[0].text)}{more}."


def _whys(waits: Sequence[Wait]) -> str:
    more = f"; and {len(waits) - 1:,} more" if len(waits) > 1 else ""
    return f"{clean(waits[0].text)}: {clean(waits[0].held)}{more}."
