"""The limits: what a broker in Python could do at most on this machine, with no farm in it at all.

What belongs here: loops that any reader can check at a glance.  What may not: anything of the farm.

``broker_limit`` is a ROUTER socket, an SQLite table and nothing else: take whatever has arrived, mark the
rows in one durable transaction, then answer each with the next row's number.  No encryption, no types, no
decisions.  ``chain_limit`` is the shortest way from a submit to a running process: two round trips, one
fsync and one spawn.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import zmq
from common import cpu_us, percentile

_SPAWN = multiprocessing.get_context("spawn")
#: What a task is told: about as long as a lease.
_TASK: dict[str, Any] = {
    "numbers": [],
    "job": 12,
    "step": "beauty",
    "command": ["/usr/bin/render", "--scene", "/proj/demo/sq010/sh020/scene.blend"],
    "environment": {"PROJECT": "demo", "SHOT": "sq010_sh020", "OCIO": "/cfg/ocio/config.ocio"},
    "nonce": 1 << 60,
    "padding": "x" * 80,
}


class BrokerLimit(NamedTuple):
    """One run of the loop: tasks a second, CPU a task, turnaround of a task."""

    rate: float
    cpu_task_us: float
    p50_ms: float
    p99_ms: float


def _serve(database: Path, tasks: int, peers: int, window: int, out: Connection, secret: bytes = b"") -> None:
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    db = sqlite3.connect(database, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE task (id INTEGER PRIMARY KEY, state INTEGER, peer BLOB, at REAL)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO task (id, state) VALUES (?, 0)", ((i,) for i in range(1, tasks + 1)))
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.sndhwm = router.rcvhwm = 0
    router.backlog = 8192
    if secret:
        router.curve_server, router.curve_secretkey = True, secret
    out.send(router.bind_to_random_port("tcp://127.0.0.1"))
    receive, send = router.recv_multipart, router.send_multipart
    ahead = iter(range(1, tasks + 1))
    done = said_bye = 0
    rows: list[tuple[int, bytes, float, int]] = []
    answers: list[tuple[bytes, bytes]] = []
    router.poll()
    started_s, started_cpu_us = time.perf_counter(), cpu_us(os.getpid())
    result = None
    while said_bye < peers:
        router.poll(5)
        at_s = time.time()
        try:
            for _ in range(2000):
                peer, body = receive(zmq.NOBLOCK)
                finished = decode(body)
                for number in finished:
                    rows.append((2, peer, at_s, number))  # noqa: PERF401
                done += len(finished)
                _TASK["numbers"] = given = list(islice(ahead, window))
                said_bye += not given
                answers.append((peer, encode(_TASK if given else None)))
        except zmq.Again:
            pass
        if rows:
            db.execute("BEGIN")
            db.executemany("UPDATE task SET state = ?, peer = ?, at = ? WHERE id = ?", rows)
            db.execute("COMMIT")
            rows.clear()
        for answer in answers:
            send(answer, zmq.NOBLOCK)
        answers.clear()
        if result is None and done >= tasks:
            spent_s = time.perf_counter() - started_s
            result = (tasks / spent_s, (cpu_us(os.getpid()) - started_cpu_us) / tasks)
    left = db.execute("SELECT count(*) FROM task WHERE state <> 2").fetchone()[0]
    db.close()
    router.close(500)
    context.term()
    out.send((*(result or (0.0, 0.0)), left))


def _peers(port: int, count: int, out: Connection) -> None:
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    context = zmq.Context()
    poller = zmq.Poller()
    sent_s: dict[Any, float] = {}
    waits_ms: list[float] = []
    for _ in range(count):
        dealer = context.socket(zmq.DEALER)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        poller.register(dealer, zmq.POLLIN)
        sent_s[dealer] = 0.0
    for dealer in sent_s:
        sent_s[dealer] = time.perf_counter()
        dealer.send(encode([]))
    live = count
    while live:
        for dealer, _ in poller.poll():
            message = decode(dealer.recv())
            waits_ms.append((time.perf_counter() - sent_s[dealer]) * 1e3)
            if message is None:
                live -= 1
                poller.unregister(dealer)
                continue
            sent_s[dealer] = time.perf_counter()
            dealer.send(encode(message["numbers"]))
    for dealer in sent_s:
        dealer.close(0)
    context.term()
    out.send(waits_ms)


def broker_limit(folder: Path, tasks: int, peers: int = 100, window: int = 1) -> BrokerLimit:
    """One run of the bare loop with ``peers`` sockets in two processes, ``window`` tasks a message."""
    mine, theirs = _SPAWN.Pipe()
    server = _SPAWN.Process(target=_serve, args=(folder / "limit.db", tasks, peers, window, theirs))
    server.start()
    theirs.close()
    port = mine.recv()
    helpers = []
    for share in (peers // 2, peers - peers // 2):
        end, far_end = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_peers, args=(port, share, far_end))
        process.start()
        far_end.close()
        helpers.append((process, end))
    rate, cpu_task_us, left = mine.recv()
    waits_ms = [wait for _, end in helpers for wait in end.recv()]
    for process in (server, *(helper for helper, _ in helpers)):
        process.join()
        process.close()
    if left:
        raise RuntimeError(f"the limit loop left {left} tasks undone")
    return BrokerLimit(rate, cpu_task_us, percentile(waits_ms, 0.5), percentile(waits_ms, 0.99))


# ---------------------------------------------------------------- submit to start


def _echo(path: Path, out: Connection) -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    out.send(router.bind_to_random_port("tcp://127.0.0.1"))
    with path.open("ab", buffering=0) as file:
        while True:
            peer, body = router.recv_multipart()
            if body == b"bye":
                break
            if body == b"store":
                file.write(b"\0" * 4096)
                os.fsync(file.fileno())
            router.send_multipart([peer, body])
    router.close(0)
    context.term()


def chain_limit(folder: Path, times: int) -> tuple[list[float], list[float]]:
    """The shortest way from a submit to a running process, ``times`` over.

    Returns:
        Milliseconds of (round trip with an fsync, round trip), and of that with a spawn after it.
    """
    mine, theirs = _SPAWN.Pipe()
    server = _SPAWN.Process(target=_echo, args=(folder / "limit.bin", theirs))
    server.start()
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    dealer.connect(f"tcp://127.0.0.1:{mine.recv()}")
    bare, with_spawn = [], []
    for number in range(times + 5):
        started_s = time.perf_counter()
        dealer.send(b"store")
        dealer.recv()
        dealer.send(b"lease")
        dealer.recv()
        leased_s = time.perf_counter()
        child = os.posix_spawn("/bin/true", ["/bin/true"], os.environ)
        spawned_s = time.perf_counter()
        os.waitpid(child, 0)
        if number >= 5:  # the first ones connect
            bare.append((leased_s - started_s) * 1e3)
            with_spawn.append((spawned_s - started_s) * 1e3)
        time.sleep(0.002)
    dealer.send(b"bye")
    server.join()
    server.close()
    dealer.close(0)
    context.term()
    return bare, with_spawn


def spawn_limit_ms(times: int) -> float:
    """Milliseconds of starting ``/bin/true`` and waiting for its end, mean of ``times``."""
    started_s = time.perf_counter()
    for _ in range(times):
        os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], os.environ), 0)
    return (time.perf_counter() - started_s) / times * 1e3
