"""Many client connections to one broker in one thread, each an encrypted socket of its own.

What belongs here: sockets, sending without waiting, taking what came.  What may not: messages and sessions.
A ``ClientLink`` watches its connection and says why it fails, at the price of a context and threads; this is
for programs that stand for hundreds of peers at once, all of which see the same broker.
"""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from farm.transport.keys import KeyPair
from farm.transport.sockets import Context, Socket, client_socket, new_context

#: Most messages taken from one connection at once, so that none keeps the others waiting.
_AT_ONCE = 64


class ManyClients:
    """Connections by number, from 0; a context manager.

    Args:
        control: Address of the broker's control socket.
        public: Its public key.
        pairs: The key pair of each connection.
    """

    def __init__(self, control: str, public: str, pairs: Sequence[KeyPair]) -> None:
        self._context: Context = new_context()
        self._context.setsockopt(zmq.MAX_SOCKETS, max(1024, 2 * len(pairs)))
        self._sockets: list[Socket] = []
        self._numbers: dict[Socket, int] = {}
        self._poller = zmq.Poller()
        try:
            for number, pair in enumerate(pairs):
                socket = client_socket(self._context, control, pair, public)
                self._sockets.append(socket)
                self._numbers[socket] = number
                self._poller.register(socket, zmq.POLLIN)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ManyClients:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, number: int, body: bytes) -> bool:
        """Queues a message; False when the connection is not there (yet) or takes nothing more."""
        try:
            self._sockets[number].send(body, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def wait(self, timeout_s: float) -> list[tuple[int, bytes]]:
        """What came, by connection, after waiting at most so long for the first."""
        found: list[tuple[int, bytes]] = []
        for socket, _ in self._poller.poll(max(0, round(timeout_s * 1000))):
            number = self._numbers[socket]
            for _ in range(_AT_ONCE):
                try:
                    body = socket.recv(zmq.NOBLOCK)
                except zmq.Again:
                    break
                found.append((number, body))
        return found

    def close(self) -> None:
        """Closes everything."""
        for socket in self._sockets:
            socket.close(0)
        self._sockets.clear()
        self._context.term()
