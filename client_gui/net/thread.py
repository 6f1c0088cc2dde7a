"""The one thread that owns the client's sockets, and the two mailboxes between it and the window.

What belongs here: the thread's life, waiting, waking.  What may not: what is decided about a connection
(``line``), and anything of the window.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QThread

from client_gui.net.dialer import Dialer
from client_gui.net.line import Line
from client_gui.net.mailbox import Mailbox
from client_gui.net.port import Incoming, News, Outgoing
from farm.model.errors import OvercrankError
from farm.protocol.client import SnapshotMsg
from farm.transport.poller import Poller, PollSource, Waker

log = logging.getLogger("overcrank.client")

#: Threads that did not end in time.  Qt ends the program when one is thrown away while it runs.
_STUCK: Final[list[QThread]] = []


class SocketsThread(QThread):
    """Owns the sockets; a ``client_gui.net.port.Port``.

    Args:
        dialer: Finds farms and opens connections; tests bring their own.
    """

    def __init__(self, dialer: Dialer | None = None) -> None:
        super().__init__()
        self.setObjectName("sockets")
        self._dialer = dialer or Dialer()
        self._waker: Waker | None = None
        self._in: Mailbox[Incoming] = Mailbox(urgent=_urgent)
        self._out: Mailbox[Outgoing] = Mailbox(self._wake)
        self._ending = False

    # -- for the window's thread: client_gui.net.port.Port --

    def start(self, priority: QThread.Priority = QThread.Priority.InheritPriority) -> None:
        """Begins; nothing is dialled before a ``Dial``."""
        if self._waker is None and not self._ending:
            self._waker = Waker()
            super().start(priority)

    def post(self, message: Outgoing) -> None:
        """Hands something over."""
        self._out.put(message)

    def take(self) -> list[Incoming]:
        """All that has come since the last call, in order."""
        return self._in.take()

    def listen(self, on_mail: Callable[[], None]) -> None:
        """Has somebody called, from the sockets' thread, when there is more than changes of the farm."""
        self._in.on_mail = on_mail

    def stop(self, wait_s: float = 3.0) -> bool:
        """Ends; whether it did within the wait.  May be called twice."""
        self._ending = True
        self._in.on_mail = None
        self._wake()
        if self.isRunning() and not self.wait(round(wait_s * 1000)):
            if self not in _STUCK:
                _STUCK.append(self)
            return False
        if self._waker is not None:
            self._waker.close()
        return True

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker.wake()

    # -- the thread --

    def run(self) -> None:
        """What the thread does: take, turn, wait."""
        waker = self._waker
        assert waker is not None
        line = Line(self._in.put, self._dialer, waker.wake)
        poller = Poller([waker])
        watched: list[PollSource] = []
        try:
            while not self._ending:
                waker.clear()
                try:
                    for message in self._out.take():
                        line.post(message)
                    wait_s = line.turn()
                except Exception as error:  # a fault must not leave a window that waits for ever
                    log.exception("sockets-fault")
                    line.fault(OvercrankError(f"a fault in the client: {type(error).__name__}: {error}"))
                    wait_s = 0.0
                sources = line.sources()
                if sources != watched:
                    for gone in watched:
                        poller.unregister(gone)
                    for one in sources:
                        poller.register(one)
                    watched = sources
                poller.wait(wait_s)
        finally:
            line.close()


def _urgent(message: Incoming) -> bool:
    """Whether it should not wait for the window's next tick: answers, and the state somebody asked for."""
    return not isinstance(message, News) or isinstance(message.message, SnapshotMsg)
