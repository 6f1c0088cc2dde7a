"""What the agent needs of a connection, and its ZeroMQ form.

What belongs here: the interface the link and the uploader are written against, and the adapter.  What it may
not know: messages.  Tests bring their own lines.
"""

from __future__ import annotations

from typing import Any, Protocol

from farm.transport.client_link import ClientLink, LinkState
from farm.transport.keys import KeyPair
from farm.transport.poller import Poller, Waker


class Line(Protocol):
    """One connection to a broker's socket, used from one thread (``wake`` from any)."""

    @property
    def connections(self) -> int:
        """Times it came up; a session says hello on each."""
        ...

    def send(self, body: bytes) -> bool:
        """Sends one message; False when there is no connection or its queue is full."""
        ...

    def recv(self) -> bytes | None:
        """One message that is there, else None.

        Raises:
            FarmUnreachable: The broker refuses this key: nothing will come until ``reconnect``.
        """
        ...

    def trouble(self) -> str:
        """Why there is no connection, in words; "" when there is one."""
        ...

    def wait(self, timeout_s: float | None) -> None:
        """Waits for a message, news of the connection, a wake, or the timeout."""
        ...

    def wake(self) -> None:
        """Ends a wait; from any thread."""
        ...

    def reconnect(self) -> None:
        """Drops the connection and dials afresh."""
        ...

    def close(self, linger_s: float = 0.0) -> None:
        """Ends the connection; waits at most ``linger_s`` for what is on its way out."""
        ...


class ZmqLine:
    """A line over ``farm.transport``.

    A thread that is woken some thousand times a second pays for every look that finds nothing, so a look is
    taken only at what the last wait named, and a wake that is pending already is not sent again.
    """

    def __init__(self, address: str, pair: KeyPair, server_public: str) -> None:
        """Dials.

        Raises:
            CallError: The address or a key cannot be used.
        """
        self._link = ClientLink(address, pair, server_public)
        self._waker = Waker()
        self._watched: tuple[Any, ...] = ()
        self._poller = Poller()
        #: Whether there may be something to receive, and whether that may be news of the connection.
        self._news = self._of_connection = True
        self._woken = False

    @property
    def connections(self) -> int:
        """See Line.connections."""
        return self._link.connections

    def send(self, body: bytes) -> bool:
        """See Line.send."""
        return self._link.send(body)

    def recv(self) -> bytes | None:
        """See Line.recv."""
        if not (self._news or self._link.pending):
            return None
        body = self._link.recv(0.0)
        if body is None:
            # Nothing left, of messages and of the connection's own news: the next wait tells when there is.
            self._news = self._of_connection = False
        elif not self._of_connection:
            # A look by the poller costs a third of a receive that finds nothing.
            self._news = False
            self._look(0.0)
        return body

    def trouble(self) -> str:
        """See Line.trouble."""
        status = self._link.status
        if status.state is LinkState.UP:
            return ""
        return f"{status.reason} ({status.hint})" if status.hint else status.reason

    def wait(self, timeout_s: float | None) -> None:
        """See Line.wait."""
        watched = self._link.poll_sockets()
        if watched != self._watched:  # dialled afresh, with new sockets
            self._watched = watched
            self._poller = Poller([*watched, self._waker])
        self._look(0.0 if self._link.pending else timeout_s)

    def _look(self, timeout_s: float | None) -> None:
        for thing in self._poller.wait(timeout_s):
            if thing is self._waker:
                self._waker.clear()
                # In this order: a wake in between sends nothing, and what it announced is looked at now.
                self._woken = False
            else:
                self._news = True
                self._of_connection = self._of_connection or thing is not self._watched[0]

    def wake(self) -> None:
        """See Line.wake."""
        if not self._woken:
            self._woken = True
            self._waker.wake()

    def reconnect(self) -> None:
        """See Line.reconnect."""
        self._link.reconnect()
        self._news = self._of_connection = True

    def close(self, linger_s: float = 0.0) -> None:
        """See Line.close."""
        self._link.close(linger_s)
        self._waker.close()
