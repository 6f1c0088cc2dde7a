"""Limits of scale: what many connections cost a bare socket, with no farm in it at all.

What belongs here: loops that any reader can check at a glance.  What may not: anything of the farm.

``agents_limit`` is a ROUTER that echoes, with so many DEALERs connected: what a round trip costs its process,
and what a connection costs in memory.  ``storm_limit`` lets so many DEALERs connect at once to the bare
durable loop of ``limit_loop``: how long each waits for its first answer, which is on disk then.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import zmq
from common import cpu_by_thread_us, memory_mib
from limit_loop import _serve

_SPAWN = multiprocessing.get_context("spawn")
_BODY = b"x" * 300
#: How long anything may take that should take a moment.
PATIENCE_S = 120.0


class AgentsLimit(NamedTuple):
    """CPU of a round trip in the server (all its threads), and memory of a connection there."""

    cpu_us: float
    kib: float


def raise_file_limit() -> int:
    """Lets this process open as many files as the system allows it; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _echo_server(peers: int, trips: int, out: Connection) -> None:
    raise_file_limit()
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.sndhwm = router.rcvhwm = 0
    router.backlog = 8192
    out.send(router.bind_to_random_port("tcp://127.0.0.1"))
    base_mib = memory_mib(os.getpid())[0]
    connected = [router.recv_multipart()[0] for _ in range(peers)]
    kib = (memory_mib(os.getpid())[0] - base_mib) / peers * 1024
    receive, send = router.recv_multipart, router.send_multipart
    before = sum(cpu_by_thread_us(os.getpid()).values())
    for peer in connected:
        send((peer, _BODY))
    left = trips
    while left:
        router.poll()
        try:
            while left:
                peer, body = receive(zmq.NOBLOCK)
                left -= 1
                send((peer, body if left >= peers else b""), zmq.NOBLOCK)
        except zmq.Again:
            pass
    spent = sum(cpu_by_thread_us(os.getpid()).values()) - before
    out.send(AgentsLimit(spent / trips, kib))
    router.close(1000)
    context.term()


def _echo_peers(port: int, count: int) -> None:
    raise_file_limit()
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, max(1024, 2 * count))
    poller = zmq.Poller()
    dealers = []
    for _ in range(count):
        dealer = context.socket(zmq.DEALER)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        poller.register(dealer, zmq.POLLIN)
        dealer.send(_BODY)
        dealers.append(dealer)
    live = count
    while live:
        for dealer, _ in poller.poll():
            if dealer.recv():
                dealer.send(_BODY)
            else:
                live -= 1
                poller.unregister(dealer)
    for dealer in dealers:
        dealer.close(0)
    context.term()


def agents_limit(peers: int) -> AgentsLimit:
    """One run of the echo with so many connections from two processes."""
    trips = max(20_000, 4 * peers)
    mine, theirs = _SPAWN.Pipe()
    server = _SPAWN.Process(target=_echo_server, args=(peers, trips, theirs))
    server.start()
    theirs.close()
    port = mine.recv()
    helpers = [
        _SPAWN.Process(target=_echo_peers, args=(port, share)) for share in (peers // 2, peers - peers // 2)
    ]
    for helper in helpers:
        helper.start()
    if not mine.poll(PATIENCE_S):
        raise RuntimeError(f"the echo of {peers} connections did not end")
    found: AgentsLimit = mine.recv()
    for process in (server, *helpers):
        process.join()
        process.close()
    mine.close()
    return found


# ---------------------------------------------------------------- all at once


def _storm_peers(port: int, first: int, count: int, out: Connection, public: bytes = b"") -> None:
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    raise_file_limit()
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, max(1024, 2 * count))
    poller = zmq.Poller()
    keys = [zmq.curve_keypair() for _ in range(count)] if public else []
    out.send("ready")
    out.recv()
    started_s = time.perf_counter()
    dealers: list[Any] = []
    for number in range(first, first + count):
        dealer = context.socket(zmq.DEALER)
        if public:
            dealer.curve_serverkey = public
            dealer.curve_publickey, dealer.curve_secretkey = keys[number - first]
        dealer.connect(f"tcp://127.0.0.1:{port}")
        dealer.send(encode([number]))  # a row to store: the answer waits for its transaction
        poller.register(dealer, zmq.POLLIN)
        dealers.append(dealer)
    waits_ms: list[float] = []
    while len(waits_ms) < count:
        for dealer, _ in poller.poll():
            decode(dealer.recv())
            waits_ms.append((time.perf_counter() - started_s) * 1e3)
    out.send(waits_ms)
    out.recv()
    # All are served.  The loop ends when nothing is left for anybody.
    for dealer in dealers:
        dealer.send(encode([]))
    live = count
    while live:
        for dealer, _ in poller.poll():
            message = decode(dealer.recv())
            if message is None:
                live -= 1
                poller.unregister(dealer)
            else:
                dealer.send(encode([]))
    for dealer in dealers:
        dealer.close(0)
    context.term()


def storm_limit(folder: Path, peers: int, *, encrypted: bool = False) -> list[float]:
    """Milliseconds from the start of the storm until each peer has its first answer.

    Args:
        folder: Where its database is written.
        peers: How many connect.
        encrypted: With CURVE and a key of its own for each peer; no key is looked up.
    """
    public, secret = zmq.curve_keypair() if encrypted else (b"", b"")
    mine, theirs = _SPAWN.Pipe()
    database = folder / f"storm{int(encrypted)}.db"
    server = _SPAWN.Process(target=_serve, args=(database, 2 * peers, peers, 1, theirs, secret))
    server.start()
    theirs.close()
    port = mine.recv()
    helpers = []
    half = peers // 2
    for first, share in ((1, half), (half + 1, peers - half)):
        end, far_end = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_storm_peers, args=(port, first, share, far_end, public))
        process.start()
        far_end.close()
        helpers.append((process, end))
    for _, end in helpers:
        end.recv()
    for _, end in helpers:
        end.send("go")
    waits_ms = [wait for _, end in helpers for wait in end.recv()]
    for _, end in helpers:
        end.send("end")
    mine.recv()
    for process in (server, *(helper for helper, _ in helpers)):
        process.join()
        process.close()
    return waits_ms
