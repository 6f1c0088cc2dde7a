"""The window's end of the connection: a mailbox emptied ten times a second into the store, answers at once.

What belongs here: asking with answers that find their way back, what is followed, and telling everybody what
changed.  What may not: sockets (a ``Port`` has them), and how anything is shown.

Everything happens in the thread of the window.  Nothing here blocks; a large state is taken in slices, so
that the window is drawn in between.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import shiboken6
from PySide6.QtCore import QObject, Qt, QTimer, Signal, Slot

from client_gui.net.port import (
    Answer,
    Ask,
    Cancel,
    Dial,
    Follow,
    Heard,
    Incoming,
    News,
    Port,
    Resync,
    Standing,
    Wakes,
    Welcomed,
)
from client_gui.store.farmstore import SLICE_ROWS, FarmChange, FarmStore, Link
from farm.model.errors import OvercrankError, PeerError
from farm.model.roles import Role
from farm.protocol.client import Request, SnapshotMsg
from farm.protocol.common import WelcomeMsg

#: How often the mailbox is emptied.
EVERY_MS: Final = 100
#: How long the store may be fed in one go before the window gets its turn.
SLICE_S: Final = 0.005
#: A state of more rows than this is kept out of what is searched for garbage.
LARGE: Final = 2000

Then = Callable[[Any], None]
Failed = Callable[[OvercrankError], None]


@dataclass(slots=True)
class _Waiting:
    owner: QObject
    then: Then
    failed: Failed | None
    reply: type[Any] | None


class FarmClient(QObject):
    """A farm, as the window sees it.

    Args:
        port: Who owns the sockets.
        clock_us: Microseconds since the epoch.

    Attributes:
        store: What is known of the farm.
        welcome: What the broker said of itself and of this key, None before the first session.
        farm, place: The name the farm is kept under here, and where its broker is.
        standing: How the connection stands, with hint and code.
        elsewhere: Whether another farm is being dialled than the one that is shown.
    """

    #: A ``FarmChange``, after the store has taken it.  Models and views hang on this.
    changed = Signal(object)
    #: The connection or its age changed.
    stood = Signal()
    #: A session was opened (again): role, user and farm may be others.
    welcomed = Signal()
    #: Another farm than before answers: its jobs and nodes have the same numbers and are others.  The store
    #: is empty, and whatever number was kept (what is looked at, what can be undone) is to be forgotten.
    moved = Signal()
    #: The error of a request that had no ``failed`` of its own.
    failed = Signal(object)
    #: Something that should not wait lies in the mailbox; given by the sockets' thread.
    _mail = Signal()

    def __init__(
        self,
        port: Port,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.store = FarmStore()
        self.store.follow(jobs=False, nodes=False)
        self.welcome: WelcomeMsg | None = None
        self.farm = ""
        self.place = ""
        self.standing = Standing(Link.CONNECTING)
        self.elsewhere = False
        self._port = port
        self._clock_us = clock_us
        self._number = 0
        self._waiting: dict[int, _Waiting] = {}
        self._lookers: dict[str, tuple[frozenset[str], frozenset[int]]] = {}
        self._news: deque[News] = deque()
        self._slices: Iterator[FarmChange] | None = None
        self._held = False
        #: Whether the slices are of a whole state, not of changes.
        self._state_comes = False
        self._timer = QTimer(self)
        self._timer.setInterval(EVERY_MS)
        self._timer.timeout.connect(self.drain)
        #: Goes on feeding the store: one turn at a time, and a moment later rather than at once, as what is
        #: posted for at once is done before the window is drawn.
        self._more = QTimer(self)
        self._more.setSingleShot(True)
        self._more.setInterval(1)
        self._more.timeout.connect(self._feed)
        self._farm_id = ""
        self._mail.connect(self._take_all, Qt.ConnectionType.QueuedConnection)
        # A port that can tell when an answer came need not be asked: it is there before the next tick.
        if isinstance(port, Wakes):
            port.listen(self._mail.emit)

    # -- life --

    def start(self, farm: str | None = None) -> None:
        """Begins, and connects to a farm."""
        self._port.start()
        self.connect_to(farm)
        self._timer.start()

    def connect_to(self, farm: str | None) -> None:
        """Connects to a farm, instead of the one before."""
        self.elsewhere = self.welcome is not None and farm != self.farm
        self._port.post(Dial(farm))

    def stop(self) -> bool:
        """Ends the connection; what was asked gets no answer any more."""
        self._timer.stop()
        self._more.stop()
        self._waiting.clear()
        self._news.clear()
        self._slices = None
        self._release_garbage()
        return self._port.stop()

    def resync(self) -> None:
        """Asks for everything anew (F5); nothing that is shown is thrown away."""
        self._port.post(Resync())

    def now_us(self) -> int:
        """Now, by this machine's clock."""
        return self._clock_us()

    @property
    def live(self) -> bool:
        """Whether the farm can be asked."""
        return self.store.link in (Link.LIVE, Link.RESYNC)

    @property
    def role(self) -> Role | None:
        """What this user may do; None before the first session, or when a newer broker has a new role."""
        if self.welcome is None:
            return None
        try:
            return Role(self.welcome.role)
        except ValueError:
            return None

    @property
    def user(self) -> str:
        """The user of this key, "" before the first session."""
        return self.welcome.user if self.welcome is not None else ""

    # -- asking --

    def ask(
        self,
        request: type[Request],
        owner: QObject,
        then: Then,
        failed: Failed | None = None,
        *,
        reply: type[Any] | None = None,
        repeat: bool = True,
        timeout_s: float = 10.0,
        **fields: Any,
    ) -> int:
        """Asks the broker; ``then`` gets the reply, unless the owner is gone by then.

        Args:
            request: Of ``farm.protocol.client``.
            owner: Whose question it is; answers to a deleted owner are dropped.
            then: Takes the reply.
            failed: Takes the error; without it the error goes to the signal ``failed``.
            reply: What is expected; another message is an error.
            repeat: Whether asking twice does no harm.
            timeout_s: How long to wait.
            fields: Of the request.

        Returns:
            The number of the request, for ``forget``.
        """
        self._number += 1
        return self._post(
            Ask(self._number, request(id=self._number, **fields), False, repeat, timeout_s),
            _Waiting(owner, then, failed, reply),
        )

    def ask_bulk(
        self,
        make: Callable[[int], msgspec.Struct],
        owner: QObject,
        then: Then,
        failed: Failed | None = None,
        *,
        reply: type[Any] | None = None,
        timeout_s: float = 10.0,
    ) -> int:
        """Asks the bulk socket (logs, previews, columns); ``make`` makes the message with its id."""
        self._number += 1
        return self._post(
            Ask(self._number, make(self._number), True, True, timeout_s),
            _Waiting(owner, then, failed, reply),
        )

    def _post(self, ask: Ask, waiting: _Waiting) -> int:
        self._waiting[ask.number] = waiting
        self._port.post(ask)
        return ask.number

    def forget(self, number: int) -> None:
        """The answer is of no use any more."""
        if self._waiting.pop(number, None) is not None:
            self._port.post(Cancel(number))

    # -- following --

    def look(
        self, who: str, *, jobs: bool = False, nodes: bool = False, opened: frozenset[int] = frozenset()
    ) -> None:
        """Says what somebody (a dock, by its name) looks at now; what nobody looks at is not followed.

        Args:
            who: The looker; each call replaces what it looked at before.
            jobs, nodes: The lists.
            opened: Jobs whose steps and frames are shown.
        """
        lists = frozenset(name for name, wanted in (("jobs", jobs), ("nodes", nodes)) if wanted)
        if lists or opened:
            self._lookers[who] = (lists, frozenset(opened))
        else:
            self._lookers.pop(who, None)
        wanted: set[str] = set().union(*(lists for lists, _ in self._lookers.values()))
        jobs_wanted: set[int] = set().union(*(found for _, found in self._lookers.values()))
        before = self.store.topics()
        self.store.follow(jobs="jobs" in wanted, nodes="nodes" in wanted)
        for job in self.store.opened - jobs_wanted:
            self._tell(self.store.close_job(job))
        for job in jobs_wanted - self.store.opened:
            self._tell(self.store.open_job(job))
        if self.store.topics() != before:
            self._port.post(Follow(self.store.topics()))

    # -- the mailbox --

    def drain(self) -> None:
        """Takes what has come: answers at once, the state of the farm as far as there is time."""
        self._take_all()
        self._feed()

    @Slot()
    def _take_all(self) -> None:
        """Empties the mailbox; changes of the farm wait for the next tick, so that they come together."""
        for message in self._port.take():
            self._take(message)
        if self._slices is None and any(isinstance(one.message, SnapshotMsg) for one in self._news):
            self._more.start()  # somebody opened a job, and waits for its frames

    def _take(self, message: Incoming) -> None:
        match message:
            case News():
                self._news.append(message)
            case Answer():
                self._answer(message)
            case Heard():
                self.store.heard(self.now_us(), message.round_trip_us)
                self.stood.emit()
            case Standing():
                self.standing = message
                if message.link is not Link.LIVE:
                    # Of the session that has ended: the next one begins with the whole state.
                    self._news.clear()
                    self._slices = None
                    self._release_garbage()
                retry_us = None
                if message.retry_in_s is not None:
                    retry_us = self.now_us() + int(message.retry_in_s * 1e6)
                self.store.connection(message.link, message.trouble, retry_us)
                self.stood.emit()
            case Welcomed():
                self._welcome(message)

    def _welcome(self, message: Welcomed) -> None:
        identity = message.farm_id or message.farm
        moved = self.welcome is not None and identity != self._farm_id
        self._farm_id = identity
        self.elsewhere = False
        self.welcome, self.farm, self.place = message.welcome, message.farm, message.place
        if moved:
            self._forget_farm()
        self.store.heard(self.now_us())
        self.welcomed.emit()
        if moved:
            self.moved.emit()
        self.stood.emit()

    def _forget_farm(self) -> None:
        """Empties the store: what is in it is of another farm."""
        store = self.store
        before = store.topics()
        everything = ("jobs", "nodes", *(topic for topic in before if topic.startswith("job:")))
        stands = store.link, store.trouble, store.retry_at_us
        change = store.snapshot(SnapshotMsg(id=0, n=0), 0, everything)
        store.connection(*stands)
        store.n = None
        self._lookers = {who: (lists, frozenset()) for who, (lists, _) in self._lookers.items()}
        self._tell(change)
        if store.topics() != before:
            self._port.post(Follow(store.topics()))

    def _answer(self, answer: Answer) -> None:
        waiting = self._waiting.pop(answer.number, None)
        if answer.error is None:
            # How long it took says how much was asked; the round trip is that of a question about nothing.
            self.store.heard(self.now_us())
        if waiting is None or not shiboken6.isValid(waiting.owner):
            return
        error = answer.error
        if error is None and waiting.reply is not None and not isinstance(answer.reply, waiting.reply):
            error = PeerError(f"the broker answered with {type(answer.reply).__name__}")
        if error is None:
            waiting.then(answer.reply)
        elif waiting.failed is not None:
            waiting.failed(error)
        else:
            self.failed.emit(error)

    @property
    def feeding(self) -> bool:
        """Whether more is waiting to go into the store."""
        return self._slices is not None or bool(self._news)

    def _feed(self) -> None:
        """Feeds the store, a few milliseconds at a time; goes on as soon as the window had its turn."""
        ends_s = time.perf_counter() + SLICE_S
        while time.perf_counter() < ends_s:
            if self._slices is not None:
                change = next(self._slices, None)
                if change is None:
                    self._slices = None
                    if self._state_comes:
                        self._state_comes = False
                        self._release_garbage()
                        self.stood.emit()
                    self._ask_again()
                    continue
                self._tell(change)
            elif self._news:
                news = self._news.popleft()
                message = news.message
                if isinstance(message, SnapshotMsg):
                    self._state_comes = True
                    self._hold_garbage(len(message.jobs) + len(message.nodes))
                    self._slices = self.store.snapshot_slices(message, self.now_us(), news.topics)
                    continue
                if max(len(message.jobs), len(message.nodes)) > SLICE_ROWS:
                    self._state_comes = False
                    self._slices = self.store.delta_slices(message, self.now_us())
                    continue
                self._tell(self.store.delta(message, self.now_us()))
                self._ask_again()
            else:
                return
        if self.feeding:
            self._more.start()

    def _ask_again(self) -> None:
        """Numbers were missed: only the whole state helps."""
        if self.store.link is Link.RESYNC and not self._news:
            self._port.post(Follow(self.store.topics()))

    def _hold_garbage(self, rows: int) -> None:
        """Looks for no garbage while a large state comes: it is all objects that stay.

        Going through the rows of fifty thousand jobs takes a fifth of a second, in which nothing is drawn.
        """
        if rows > LARGE and gc.isenabled():
            gc.disable()
            self._held = True

    def _release_garbage(self) -> None:
        """Looks for garbage again, among what comes from now on."""
        if self._held:
            self._held = False
            gc.freeze()
            gc.enable()

    def _tell(self, change: FarmChange) -> None:
        if change:
            self.changed.emit(change)
