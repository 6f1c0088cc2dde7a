"""Waiting for many things at once, and being woken by another thread.

What belongs here: a poller over ZeroMQ sockets, links and plain file descriptors, and the waker.  What it
may not know: what arrives on any of them.
"""

from __future__ import annotations

import math
import socket as stdlib_socket
from collections.abc import Hashable, Iterable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import zmq

from farm.transport.sockets import Socket


@runtime_checkable
class PollSource(Protocol):
    """Something that stands for several sockets, which may be exchanged for new ones."""

    def poll_sockets(self) -> tuple[Socket, ...]:
        """The sockets to watch at this moment."""


class HasFileno(Protocol):
    """Something with a file descriptor."""

    def fileno(self) -> int:
        """The descriptor."""


#: What can be waited for: a ZeroMQ socket, a link, a file descriptor, or an object that has one.
Pollable: TypeAlias = "Socket | PollSource | HasFileno | int"


class Poller:
    """Waits until one of the registered things can be read.

    Use from one thread.  Things are reported in the order they were registered.
    """

    def __init__(self, things: Iterable[Pollable] = ()) -> None:
        self._things: list[Pollable] = []
        self._watched: list[tuple[Any, ...]] = []
        self._poller = zmq.Poller()
        self._has_sources = False
        for thing in things:
            self.register(thing)

    def register(self, thing: Pollable) -> None:
        """Watches a thing from now on; again is harmless."""
        if not any(thing is known for known in self._things):
            self._things.append(thing)
            self._rebuild()

    def unregister(self, thing: Pollable) -> None:
        """Stops watching a thing; do this before closing it."""
        self._things = [known for known in self._things if known is not thing]
        self._rebuild()

    def wait(self, timeout_s: float | None) -> list[Pollable]:
        """Waits for the first of the things.

        Args:
            timeout_s: Longest wait; 0 only looks, None waits for ever.

        Returns:
            What can be read; empty after the timeout.
        """
        if self._has_sources and self._watched != [_watched(thing) for thing in self._things]:
            self._rebuild()
        # Rounded up: a wait cut short to 0 ms would turn the rest of a millisecond into a busy loop.
        timeout_ms = None if timeout_s is None else max(0, math.ceil(timeout_s * 1000))
        ready: set[Hashable] = {found for found, _ in self._poller.poll(timeout_ms)}
        if not ready:
            return []
        return [
            thing
            for thing, watched in zip(self._things, self._watched, strict=True)
            if not ready.isdisjoint(watched)
        ]

    def _rebuild(self) -> None:
        self._poller = zmq.Poller()
        self._watched = [_watched(thing) for thing in self._things]
        self._has_sources = any(_is_source(thing) for thing in self._things)
        for watched in self._watched:
            for one in watched:
                self._poller.register(one, zmq.POLLIN)


def _is_source(thing: Pollable) -> bool:
    return not isinstance(thing, zmq.Socket) and isinstance(thing, PollSource)


def _watched(thing: Pollable) -> tuple[Any, ...]:
    """What zmq.Poller is given, and gives back, for a thing."""
    if isinstance(thing, (zmq.Socket, int)):
        return (thing,)
    if isinstance(thing, PollSource):
        return thing.poll_sockets()
    return (thing.fileno(),)


class Waker:
    """Wakes a thread that waits in a :class:`Poller`.

    A socket pair and not a ZeroMQ socket, because it may be used from any thread, and works on Windows.
    """

    def __init__(self) -> None:
        self._read, self._write = stdlib_socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def wake(self) -> None:
        """Makes the waiting thread go on; from any thread, any number of times, also after close."""
        try:
            self._write.send(b"w")
        except OSError:  # full: a wake is pending already; closed: nobody waits any more
            pass

    def clear(self) -> bool:
        """Takes all pending wakes; True if there was one.  Call it before looking at what was announced."""
        woken = False
        try:
            while self._read.recv(4096):
                woken = True
        except OSError:
            pass
        return woken

    def fileno(self) -> int:
        """Descriptor that becomes readable on a wake."""
        return self._read.fileno()

    def close(self) -> None:
        """Frees both ends."""
        self._read.close()
        self._write.close()

    def __enter__(self) -> Waker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
