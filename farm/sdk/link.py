"""What the client needs of a connection, declared by the room that uses it.

``farm.transport.client_link.ClientLink`` is one; tests bring their own.  Bytes only: sessions and messages
are ``farm.sdk.client``'s.
"""

from __future__ import annotations

from typing import Protocol


class Link(Protocol):
    """One connection to a broker's socket, used from one thread."""

    #: Times the connection came up; a session says hello on each.  While one waits in ``recv`` it rises
    #: only after all that came on the connection before was given: an answer that is here is never lost.
    connections: int

    def send(self, body: bytes) -> bool:
        """Sends one message; False when there is no connection and nothing was sent."""
        ...

    def recv(self, timeout_s: float | None = 0.0) -> bytes | None:
        """Waits for one message; None after the timeout.

        Raises:
            FarmUnreachable: Nothing will ever come: the key is refused, or no broker is there.
        """
        ...

    def wait_up(self, timeout_s: float) -> None:
        """Waits until the connection is up.

        Raises:
            FarmUnreachable: It is not in time, or was refused; says why.
        """
        ...

    def close(self, linger_s: float = 0.0) -> None:
        """Closes it; may be called twice."""
        ...
