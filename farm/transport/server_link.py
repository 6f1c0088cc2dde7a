"""The broker's end: three guarded sockets and their authenticator as one thing to open and close.

What belongs here: their joint life.  What is said on them is the broker's.
"""

from __future__ import annotations

from farm.transport.addresses import BULK_PORT, CONTROL_PORT, JOIN_PORT, Domain, HostPort
from farm.transport.keyring import Keyring
from farm.transport.keys import KeyPair
from farm.transport.sockets import new_context, server_socket
from farm.transport.zap import ZapServer


class ServerLink:
    """Control, join and bulk sockets of one broker.

    The control and join sockets belong to the broker's loop, the bulk socket to its own thread; each is used
    by one thread at a time.  Stop the bulk thread before closing.

    Args:
        pair: The broker's keys.
        keyring: Keys that may use control and bulk; changes to it take effect at once for new connections.
        host: Address to listen on; ``*`` for every interface.
        control_port, join_port, bulk_port: TCP ports; 0 takes a free one.
        control_limit: Longest body on the control socket, bytes; default as in ``farm.transport.sockets``.

    Raises:
        FarmUnreachable: A port is taken or the address is not of this machine; nothing stays open.
    """

    def __init__(
        self,
        pair: KeyPair,
        keyring: Keyring,
        *,
        host: str = "127.0.0.1",
        control_port: int = CONTROL_PORT,
        join_port: int = JOIN_PORT,
        bulk_port: int = BULK_PORT,
        control_limit: int | None = None,
    ) -> None:
        self._context = new_context()
        self._closed = False
        self._zap: ZapServer | None = None
        try:
            # The authenticator first: with the domain enforced a peer that is early would be turned away.
            self._zap = ZapServer(self._context, keyring)
            self.control, self.control_address = server_socket(
                self._context, HostPort(host, control_port), pair, Domain.CONTROL, max_message=control_limit
            )
            self.join, self.join_address = server_socket(
                self._context, HostPort(host, join_port), pair, Domain.JOIN
            )
            self.bulk, self.bulk_address = server_socket(
                self._context, HostPort(host, bulk_port), pair, Domain.BULK
            )
        except BaseException:
            self.close()
            raise
        self.public = pair.public

    @property
    def zap(self) -> ZapServer:
        """The authenticator: its refusals, and whether it lives."""
        assert self._zap is not None
        return self._zap

    def close(self, linger_s: float = 0.0) -> None:
        """Closes everything; may be called twice.

        Args:
            linger_s: Longest wait for replies that are still on their way out.
        """
        if self._closed:
            return
        self._closed = True
        for name in Domain:
            socket = getattr(self, name.value, None)
            if socket is not None:
                socket.close(max(0, int(linger_s * 1000)))
        if self._zap is not None:
            self._zap.stop()
        self._context.term()

    def __enter__(self) -> ServerLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
