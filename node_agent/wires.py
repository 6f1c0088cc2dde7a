"""One connection of the supervisor: messages and descriptors in, messages out, never a wait.

What belongs here: framing, and what a full or closed socket means.  What it may not know: what a message
asks.  Standard library only: the supervisor imports it.
"""

from __future__ import annotations

import array
import marshal
import socket
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:  # the typing module is slow to import
    from collections.abc import Iterator
    from typing import Any

#: A message larger than this is a bug of the agent (the kernel takes about 2 MiB of arguments).
MAX_MESSAGE = 64 << 20
#: Most bytes taken from the socket at once; a larger buffer would be mapped anew for every message.
READ_BYTES = 32768
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)
_CONTROL_BYTES = socket.CMSG_SPACE(8 * 4)


class Wire:
    """One socket to the agent.

    Attributes:
        sock: The socket, made non-blocking.
        fds: Descriptors that came and nobody took yet, in order.
        env: Environment of the last process started over it.
        closed: The agent closed its end, or sent nonsense.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fds: deque[int] = deque()
        self.env: dict[str, str] = {}
        self.closed = False
        self._incoming = bytearray()
        self._outgoing = bytearray()
        sock.setblocking(False)

    def send(self, message: dict[str, object]) -> bool:
        """Queues a message and sends what the socket takes; False when some is left."""
        data = marshal.dumps(message)
        self._outgoing += len(data).to_bytes(4, "big") + data
        return self.flush()

    def flush(self) -> bool:
        """Sends queued bytes; False when some are left.

        Never blocks, or a stuck agent would keep us from killing.
        """
        outgoing = self._outgoing
        try:
            while outgoing:
                del outgoing[: self.sock.send(outgoing)]
        except BlockingIOError:
            return False
        except OSError:
            outgoing.clear()
        return True

    def receive(self) -> Iterator[dict[str, Any]]:
        """The messages that came; ``closed`` is set at the end of the stream."""
        try:
            data, control, _, _ = self.sock.recvmsg(READ_BYTES, _CONTROL_BYTES, _CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            self.closed = True
            return
        for level, kind, payload in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
                self.fds.extend(numbers)
        if not data:
            self.closed = True
            return
        incoming = self._incoming
        incoming += data
        while len(incoming) >= 4:
            size = int.from_bytes(incoming[:4], "big")
            if size > MAX_MESSAGE:
                self.closed = True
                return
            if len(incoming) < 4 + size:
                return
            message = marshal.loads(incoming[4 : 4 + size])
            del incoming[: 4 + size]
            yield message
