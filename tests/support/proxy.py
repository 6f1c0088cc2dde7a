"""A TCP proxy of the test's own, to cut and heal the connection between two programs.

What belongs here: bytes between two sockets, and three ways of losing them: a silent cut (nothing passes,
nobody is told, as when a switch dies), a hard cut (connections break, new ones are refused), and one
direction alone.  What it may not know: what the bytes mean.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import Self

_PIECE = 65536


class _Side:
    """One end of a connection: its socket and what waits to be written to it."""

    def __init__(self, sock: socket.socket, up: bool) -> None:
        self.sock = sock
        #: Whether this is the end towards the target.
        self.up = up
        self.out = bytearray()
        self.other: _Side | None = None


class Proxy:
    """Forwards ``127.0.0.1:port`` to a target; a context manager.

    Attributes:
        address: ``host:port`` to dial instead of the target.
        bytes_up: Bytes that came from clients, forwarded or not.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.setblocking(False)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.bytes_up = 0
        self._lock = threading.Lock()
        self._pass_up = self._pass_down = True
        self._refuse = False
        self._drop_all = False
        self._inject = b""
        self._sides: dict[socket.socket, _Side] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    # -- the test's side --

    def cut(self, *, up: bool = True, down: bool = True) -> None:
        """Silently drops what comes from clients (``up``), from the target (``down``), or both."""
        self._set(pass_up=not up, pass_down=not down)

    def cut_hard(self) -> None:
        """Breaks every connection and closes new ones at once."""
        self._set(pass_up=False, pass_down=False, refuse=True, drop_all=True)

    def heal(self) -> None:
        """Lets everything through again, on new connections: bytes were lost on the old ones."""
        self._set(pass_up=True, pass_down=True, refuse=False, drop_all=True)

    def inject_up(self, data: bytes) -> None:
        """Puts bytes of the test's own into every open connection towards the target."""
        with self._lock:
            self._inject += data
        self._wake_write.send(b"x")

    def close(self) -> None:
        """Ends the proxy and every connection."""
        self._ended = True
        with contextlib.suppress(OSError):
            self._wake_write.send(b"x")
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _set(self, *, pass_up: bool, pass_down: bool, refuse: bool = False, drop_all: bool = False) -> None:
        with self._lock:
            self._pass_up, self._pass_down = pass_up, pass_down
            self._refuse = refuse
            self._drop_all = self._drop_all or drop_all
        self._wake_write.send(b"x")

    # -- the thread --

    def _run(self) -> None:
        try:
            while not self._ended:
                for key, events in self._selector.select():
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._wake_read:
                        with contextlib.suppress(BlockingIOError):
                            self._wake_read.recv(4096)
                    else:
                        side = self._sides.get(key.fileobj)  # type: ignore[call-overload]
                        if side is not None:
                            self._serve(side, events)
                self._obey()
        finally:
            for side in list(self._sides.values()):
                self._drop(side)
            self._selector.close()
            for sock in (self._listener, self._wake_read, self._wake_write):
                sock.close()

    def _obey(self) -> None:
        with self._lock:
            drop_all, self._drop_all = self._drop_all, False
            inject, self._inject = self._inject, b""
        if drop_all:
            for side in list(self._sides.values()):
                self._drop(side)
        if inject:
            for side in self._sides.values():
                if side.up:
                    side.out += inject
                    self._watch(side)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            client.setblocking(False)
            if self._refuse:
                client.close()
                return
            target = socket.socket()
            target.setblocking(False)
            target.connect_ex(self._target)
            near, far = _Side(client, up=False), _Side(target, up=True)
            near.other, far.other = far, near
            for side in (near, far):
                self._sides[side.sock] = side
                self._selector.register(side.sock, selectors.EVENT_READ)

    def _serve(self, side: _Side, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                data = side.sock.recv(_PIECE)
                if not data:
                    # With the line cut nobody hears that the other end is gone.
                    if self._pass_up and self._pass_down:
                        self._drop(side)
                    else:
                        self._mute(side)
                    return
                if not side.up:
                    self.bytes_up += len(data)
                if self._pass_down if side.up else self._pass_up:
                    assert side.other is not None
                    side.other.out += data
                    self._watch(side.other)
            if events & selectors.EVENT_WRITE and side.out:
                sent = side.sock.send(side.out)
                del side.out[:sent]
            self._watch(side)
        except BlockingIOError:
            return
        except OSError:
            self._drop(side)

    def _mute(self, side: _Side) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(side.sock)

    def _watch(self, side: _Side) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if side.out else 0)
        with contextlib.suppress(KeyError):
            self._selector.modify(side.sock, events)

    def _drop(self, side: _Side) -> None:
        for end in (side, side.other):
            if end is not None and self._sides.pop(end.sock, None) is not None:
                self._mute(end)
                if end.out and end is not side:
                    # The last words before an orderly end.
                    with contextlib.suppress(OSError):
                        end.sock.send(end.out)
                end.sock.close()
