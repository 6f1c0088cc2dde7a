"""What the agent needs of a connection, and its ZeroMQ form.

What belongs here: the interface the link and the uploader are written against, and the adapter.  What it may
not know: messages.  Tests bring their own lines.
"""

from __future__ import annotations

from typing import Protocol

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
    """A line over ``farm.transport``."""

    def __init__(self, address: str, pair: KeyPair, server_public: str) -> None:
        """Dials.

        Raises:
            CallError: The address or a key cannot be used.
        """
        self._link = ClientLink(address, pair, server_public)
        self._waker = Waker()
        self._poller = Poller([self._link, self._waker])

    @property
    def connections(self) -> int:
        """See Line.connections."""
        return self._link.connections

    def send(self, body: bytes) -> bool:
        """See Line.send."""
        return self._link.send(body)

    def recv(self) -> bytes | None:
        """See Line.recv."""
        return self._link.recv(0.0)

    def trouble(self) -> str:
        """See Line.trouble."""
        status = self._link.status
        if status.state is LinkState.UP:
            return ""
        return f"{status.reason} ({status.hint})" if status.hint else status.reason

    def wait(self, timeout_s: float | None) -> None:
        """See Line.wait."""
        self._poller.wait(timeout_s)
        self._waker.clear()

    def wake(self) -> None:
        """See Line.wake."""
        self._waker.wake()

    def reconnect(self) -> None:
        """See Line.reconnect."""
        self._link.reconnect()

    def close(self, linger_s: float = 0.0) -> None:
        """See Line.close."""
        self._link.close(linger_s)
        self._waker.close()
