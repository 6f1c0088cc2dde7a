"""Figures of the frames of one step, kept up to date while somebody looks at them.

What belongs here: when to ask the broker for what.  What may not: the figures' arrays
(``client_gui.store.unitcolumns``), and how they are shown.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from client_gui.net.client import FarmClient
from client_gui.store.columns import step_address
from client_gui.store.farmstore import FarmChange
from client_gui.store.unitcolumns import MOST_UNITS, UnitColumns
from client_gui.store.unitmap import UnitMap, Units
from farm.model.errors import OvercrankError, PeerError
from farm.model.states import UnitState
from farm.protocol.bulk import ColumnsGetMsg, ColumnsMsg

#: How often it is asked what is new, while something is.
EVERY_MS: Final = 1000
#: So many times that long is waited after an error.
PATIENCE: Final = 10
#: Pages that are on their way at once: the mailbox is emptied ten times a second, and a broker keeps but
#: a few dozen answers for a slow line.
AT_ONCE: Final = 8
#: The first question of a long step makes the broker read all that ever happened to it.
TIMEOUT_S: Final = 60.0
_NO_MAP: Final = UnitMap(b"")


class UnitFeed(QObject):
    """Figures of the frames of the step that is opened.

    Attributes:
        columns: The figures; None while nothing is open or nothing came yet.  Its arrays are exchanged for
            longer ones when the step grows: not to be kept.
        loading: Whether the figures of all frames are still on their way.
        trouble: Why they do not come, "" while nothing speaks against it.
    """

    #: Places of frames whose figures changed, ascending (an int64 array); None = all may have.
    changed = Signal(object)

    def __init__(self, client: FarmClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns: UnitColumns | None = None
        self.loading = False
        self.trouble = ""
        self._client = client
        self._job, self._step = 0, ""
        self._asked: set[int] = set()
        self._pages: list[int] = []
        self._until = 0
        self._dirty = False
        self._wait = 0
        self._farm: tuple[str, str] | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(EVERY_MS)
        self._timer.timeout.connect(self._tick)
        client.changed.connect(self._note)
        client.welcomed.connect(self._again)

    @property
    def address(self) -> str:
        """Of the step that is open, "" for none."""
        return step_address(self._job, self._step) if self._job else ""

    def open(self, job: int, step: str) -> None:
        """Shows a step's figures from now on, in place of another's; nothing happens when it is open."""
        if (job, step) == (self._job, self._step):
            return
        self.close()
        self._job, self._step = job, step
        self._timer.start()
        self._load()

    def close(self) -> None:
        """Forgets the figures, and asks for nothing more."""
        if not self._job:
            return
        self._timer.stop()
        self._forget()
        self._job, self._step = 0, ""
        self.loading, self.trouble, self._dirty, self._wait = False, "", False, 0
        if self.columns is not None:
            self.columns = None
            self.changed.emit(None)

    # -- asking --

    def _load(self) -> None:
        """Asks for what is not known yet: all of it, or what is new since the last answer."""
        if not self._client.live:
            return  # the next session asks
        self._dirty = False
        self._farm = self._farm_now()
        since = self.columns.seq if self.columns is not None else 0
        self.loading = not since
        self._ask(since, 0)

    def _ask(self, since: int, first: int) -> None:
        job, step = self._job, self._step
        number = 0

        def then(reply: ColumnsMsg) -> None:
            self._asked.discard(number)
            self._take(reply)

        def failed(error: OvercrankError) -> None:
            self._asked.discard(number)
            self._fail(error)

        number = self._client.ask_bulk(
            lambda id_: ColumnsGetMsg(id_, job, step, since, first),
            self,
            then,
            failed,
            reply=ColumnsMsg,
            timeout_s=TIMEOUT_S,
        )
        self._asked.add(number)

    def _forget(self) -> None:
        """What was asked is of no use any more."""
        for number in self._asked:
            self._client.forget(number)
        self._asked.clear()
        self._pages.clear()

    # -- answers --

    def _take(self, message: ColumnsMsg) -> None:
        if self.columns is None:
            self.columns = UnitColumns()
        columns = self.columns
        try:
            grown = columns.grow(max(len(self._map()), min(message.total, MOST_UNITS)))
            units = columns.take(message)
        except PeerError as error:
            self._fail(error)
            return
        self.trouble = ""
        if message.since:
            columns.seq = message.seq
            if grown or len(units):
                self._tell(None if grown else units)
            return
        if not message.first:
            # The first page of all: the others follow, and what changed meanwhile is asked for after them.
            self.loading, self._until = True, message.seq
            step = message.count or message.total or 1
            self._pages = list(reversed(range(step, message.total, step)))
        while self._pages and len(self._asked) < AT_ONCE:
            self._ask(0, self._pages.pop())
        if not self._asked:
            columns.seq, self.loading = self._until, False
            self._dirty = True
            self._tell(None)
        elif not message.first or len(self._pages) % AT_ONCE == 0:
            self._tell(None)

    def _fail(self, error: OvercrankError) -> None:
        self._forget()
        self.loading, self.trouble, self._wait = False, error.message, PATIENCE
        self._tell(None)

    def _tell(self, units: Units | None) -> None:
        self.changed.emit(units)

    # -- following --

    def _map(self) -> UnitMap:
        return self._client.store.maps.get(self.address) or _NO_MAP

    def _runs(self) -> bool:
        """Whether anything of the step is at work."""
        running = int(UnitState.RUNNING)
        if (known := self._client.store.maps.get(self.address)) is not None:
            return known.count(running) > 0
        rows = self._client.store.steps_of(self._job)
        return any(row.counts[running : running + 1] > (0,) for row in rows if row.name == self._step)

    def _note(self, change: FarmChange) -> None:
        """Something of the farm changed: when it was the step, its figures may have."""
        address = self.address
        if not address:
            return
        if address in change.maps:
            self._dirty = True
            if self.columns is not None and self.columns.grow(len(self._map())):
                self._tell(None)
        elif change.steps:
            slot = self._client.store.steps.slot(address)
            self._dirty = self._dirty or bool((change.steps.changed == slot).any())

    def _tick(self) -> None:
        if self._asked or not self._client.live:
            return
        if self._wait:
            self._wait -= 1
            if not self._wait:
                self._load()
        elif self.columns is None or self._dirty or self._runs():
            self._load()

    def _again(self) -> None:
        """A session was opened: of the farm that was shown, or of another."""
        if not self._job:
            return
        self._forget()
        self._wait = 0
        if self._farm_now() != self._farm and self.columns is not None:
            self.columns = None
            self._tell(None)
        self._load()

    def _farm_now(self) -> tuple[str, str]:
        welcome = self._client.welcome
        return self._client.farm, welcome.farm_name if welcome is not None else ""
