"""Brokers and clients with real sockets on this machine, and the means to see what they leave behind.

What belongs here: helpers for tests of the transport.  Waiting is always for a condition with a deadline.
"""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import zmq

from farm.model.ids import KeyText
from farm.transport.addresses import HostPort
from farm.transport.client_link import ClientLink
from farm.transport.keyring import KeyEntry, Keyring, Role
from farm.transport.keys import KeyPair, generate_keypair
from farm.transport.poller import Poller
from farm.transport.server_link import ServerLink
from farm.transport.sockets import Socket, recv_nowait, send_nowait
from tests.support.waiting import PATIENCE_S

DEADLINE_S = PATIENCE_S


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Waits until a condition holds; fails with its name otherwise."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.002)


@contextmanager
def closed_port() -> Iterator[int]:
    """A TCP port of this machine that nothing listens on, and nobody else can take meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def receive(sock: Socket, timeout_s: float = DEADLINE_S) -> tuple[bytes, bytes, str] | None:
    """Next message of a ROUTER socket, or None after the timeout."""
    poller = Poller([sock])
    end_s = time.monotonic() + timeout_s
    while True:
        message = recv_nowait(sock)
        left_s = end_s - time.monotonic()
        if message is not None or left_s <= 0:
            return message
        poller.wait(left_s)


class Farm:
    """A broker's sockets with a few known keys."""

    def __init__(self) -> None:
        self.keys = generate_keypair()
        self.keyring = Keyring()
        self.link = ServerLink(self.keys, self.keyring, control_port=0, join_port=0, bulk_port=0)

    def member(self, role: Role = Role.AGENT, user: str = "") -> KeyPair:
        """A key pair that the farm knows."""
        pair = generate_keypair()
        self.keyring.add(
            KeyEntry(key_id=self.keyring.allocate_id(), public=KeyText(pair.public), role=role, user=user)
        )
        return pair

    def dial(
        self, pair: KeyPair, address: HostPort | None = None, *, server: str | None = None
    ) -> ClientLink:
        """A link to this farm, by default to its control socket."""
        return ClientLink(address or self.link.control_address, pair, server or self.keys.public)

    def echo(self, client: ClientLink, sock: Socket | None = None, body: bytes = b"ping") -> str:
        """One round trip; returns the key the broker saw."""
        sock = self.link.control if sock is None else sock
        client.wait_up(DEADLINE_S)
        assert client.send(body)
        message = receive(sock)
        assert message is not None, "the broker got nothing"
        routing_id, got, user = message
        assert got == body
        assert send_nowait(sock, routing_id, b"re:" + got[:16])
        assert client.recv(DEADLINE_S) == b"re:" + body[:16]
        return user

    def serves(self) -> None:
        """Checks that a newcomer with a good key is served on control."""
        with self.dial(self.member()) as client:
            self.echo(client)


@contextmanager
def running_farm() -> Iterator[Farm]:
    """A farm's sockets, closed at the end."""
    farm = Farm()
    try:
        yield farm
    finally:
        farm.link.close()


@contextmanager
def raw_zmq(kind: int, **options: object) -> Iterator[zmq.Socket[bytes]]:
    """A plain ZeroMQ socket of a context of its own, for peers that do not play by our rules."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sock = context.socket(kind)
    sock.linger = 0
    try:
        for name, value in options.items():
            setattr(sock, name, value)
        yield sock
    finally:
        sock.close(0)
        context.term()


def open_fds() -> int:
    """File descriptors of this process."""
    return int(psutil.Process().num_fds())


def native_threads() -> int:
    """Threads of this process, ZeroMQ's own included."""
    return psutil.Process().num_threads()


def rss_mib() -> float:
    """Memory of this process."""
    return float(psutil.Process().memory_info().rss) / (1 << 20)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fails if threads or descriptors outlive the block."""
    gc.collect()
    before = (open_fds(), native_threads(), threading.active_count())
    yield
    wait_until(
        lambda: (
            open_fds() <= before[0]
            and native_threads() <= before[1]
            and threading.active_count() <= before[2]
        ),
        f"descriptors, threads back at {before}",
    )
