"""A farm to measure: the real broker as a process of its own, and synthetic agents that do no work.

What belongs here: starting and ending those, and reading the broker's database afterwards.  What may not:
figures and limits.

The broker is what ``farm broker`` runs: CURVE and its authenticator on, SQLite with synchronous=FULL, every
part of the scheduler on.  The agents are not: each is one encrypted socket with the product's own session
and codec, that answers a lease with "done" at once.  A hundred of them share two processes, because a
hundred real agents on one machine would measure the machine.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import zmq
from common import cpu_by_thread_us
from limit_scale import raise_file_limit

from farm.broker.app import restore_core
from farm.broker.ports import KeyRecord
from farm.config.places import Endpoint, Places, read_endpoint
from farm.core.checkpoint import BEFORE_ALL
from farm.core.rows import LeaseRow, ResultRow, StaleRow
from farm.core.state import Settings
from farm.model.nodes import NodeFacts
from farm.model.resources import Resources
from farm.model.states import UnitState
from farm.protocol.agent import DONE, AgentHello, BatchMsg, BeatAckMsg, ReportMsg, UnitReport
from farm.protocol.codec import agent_codec, encode
from farm.protocol.common import HelloMsg, WelcomeMsg
from farm.protocol.session import PeerSession, Phase
from farm.sdk.client import Farm
from farm.storage.sqlite import SqliteReader, SqliteStore
from farm.transport.keys import KeyPair, generate_keypair
from farm.transport.sockets import client_socket, new_context

SPAWN = multiprocessing.get_context("spawn")
NAME = "bench"
#: How long anything may take that should take a moment.
PATIENCE_S = 120.0
#: Fields of the shared figures of an agents' process.
OPEN, ACKED, FIRST_NS, LAST_NS, LEASED_NS, STARTED_NS, BEAT_MS = range(7)


class BenchFarm:
    """A broker process with a state folder of its own; a context manager.

    Attributes:
        folder: Where its state is; gone at the end.
        pid: Process id of the broker.
    """

    def __init__(self, folder: Path, agents: int) -> None:
        """Prepares a farm that knows ``agents`` agents' keys; nothing runs before ``start``."""
        self.folder = Path(tempfile.mkdtemp(prefix="overcrank-bench-", dir=folder))
        os.environ["XDG_STATE_HOME"] = str(self.folder / "state")
        os.environ["XDG_CONFIG_HOME"] = str(self.folder / "config")
        self.places = Places(NAME)
        self.places.make()
        self.pairs = [generate_keypair() for _ in range(agents)]
        with SqliteStore(self.places.database) as store:
            for pair in self.pairs:
                store.put_key(KeyRecord(public=pair.public, role="agent", user="", site="local"))
        self._process: subprocess.Popen[bytes] | None = None
        self._agents: list[Any] = []
        self._pipes: list[Connection] = []
        self.shared: list[Any] = []

    def __enter__(self) -> BenchFarm:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_agents()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *flags: str) -> None:
        """Starts the broker; returns once it serves."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "farm", "--farm", NAME, "broker", "--announce"),
                *("--control-port", "0", "--join-port", "0", "--bulk-port", "0"),
                *("--rate-usd-h", "0.50", "--log-level", "warning", *flags),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        line = self._process.stdout.readline() if ready else b""
        if b'"control"' not in line:
            raise RuntimeError("the broker did not start")

    def kill(self) -> None:
        """Ends the broker as a power cut would: nothing is flushed, nothing is closed."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    @property
    def endpoint(self) -> Endpoint:
        """Where the broker listens."""
        endpoint = read_endpoint(self.places.endpoint)
        assert endpoint is not None
        return endpoint

    def connect(self) -> Farm:
        """An administrator's session."""
        return Farm.connect(NAME, PATIENCE_S)

    # -- synthetic agents --

    def start_agents(self, processes: int, slots: int, *, spawn: bool = False) -> None:
        """Starts the synthetic agents; returns once all have an open session."""
        count = len(self.pairs)
        shares = [self.pairs[number::processes] for number in range(processes)]
        for share in shares:
            mine, theirs = SPAWN.Pipe()
            shared = SPAWN.RawArray("q", 7)
            shared[BEAT_MS] = 2_000
            process = SPAWN.Process(
                target=run_agents,
                args=(self.endpoint.control, self.endpoint.public, share, slots, spawn, shared, theirs),
            )
            process.start()
            theirs.close()
            self._agents.append(process)
            self._pipes.append(mine)
            self.shared.append(shared)
        self.wait(lambda: self.total(OPEN) >= count, f"{count} agents to join")

    def agents_cpu_us(self) -> float:
        """CPU time the agents' processes have used, microseconds."""
        return sum(sum(cpu_by_thread_us(process.pid).values()) for process in self._agents)

    def total(self, field: int) -> int:
        """Sum of one figure over the agents' processes."""
        return sum(shared[field] for shared in self.shared)

    def wait(self, condition: Any, what: str) -> None:
        """Waits for a condition; fails when an agents' process or the broker ends before."""
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end_s:
                raise RuntimeError(f"waited {PATIENCE_S:.0f} s for {what}")
            if any(process.exitcode for process in self._agents):
                raise RuntimeError("a process of synthetic agents failed")
            if self._process is not None and self._process.poll() is not None:
                raise RuntimeError("the broker ended")
            time.sleep(0.002)

    def stop_agents(self) -> list[float]:
        """Ends the synthetic agents; returns every task's turnaround in milliseconds."""
        waits_ms: list[float] = []
        for pipe in self._pipes:
            with contextlib.suppress(OSError, EOFError):
                pipe.send("stop")
                waits_ms += pipe.recv()
            pipe.close()
        for process in self._agents:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._pipes.clear()
        self._agents.clear()
        self.shared.clear()
        return waits_ms

    # -- afterwards --

    def audit(self, units: int) -> list[str]:
        """Opens the killed broker's database and counts: every unit done exactly once?

        Returns:
            What is wrong, empty when nothing is.
        """
        return [*_audit_rows(self.places.database, units), *_audit_state(self.places.database, units)]


def job_file(
    name: str, frames: int, *, project: str = "demo", priority: int = 50, chunk: int | str = 1
) -> bytes:
    """A job of frames without outputs, for the command renderer."""
    step = {
        "name": "work",
        "kind": "per_frame",
        "renderer": "command",
        "frames": f"1-{frames}" if frames > 1 else "1",
        "chunk": chunk,
        "params": {"command": ["/bin/true"]},
        "resources": {"cores": 1, "ram_mib": 64},
    }
    job = {"overcrank_job": 1, "name": name, "project": project, "priority": priority, "steps": [step]}
    return json.dumps(job).encode()


def _audit_rows(database: Path, units: int) -> Iterator[str]:
    """Looks at the rows, in the journal and in the history made of it."""
    done, running = UnitState.DONE.value, UnitState.RUNNING.value
    finished: list[tuple[int, int]] = []
    leases = stale = 0
    closed = set()
    with SqliteReader(database) as store:
        for row in store.replay(BEFORE_ALL):
            if type(row) is LeaseRow:
                leases += 1
            elif type(row) is ResultRow:
                if (row.old, row.new) == (running, done):
                    finished.append((row.step_id, row.unit))
                if row.closes:
                    closed.add(row.attempt_id)
            elif type(row) is StaleRow:
                stale += 1
    once, rows = len(set(finished)), len(finished)
    if once != units:
        yield f"{once} units are done, not {units}: {units - once} lost"
    if rows != once:
        yield f"{rows - once} units were done twice"
    if leases != rows or len(closed) != leases:
        yield f"{leases} leases, {len(closed)} ended, {rows} results: they do not match"
    if stale:
        yield f"{stale} stale results"


def _audit_state(database: Path, units: int) -> Iterator[str]:
    """Restores the scheduler as a restarted broker would, and asks it."""
    with SqliteStore(database) as store:
        farm = restore_core(store, Settings()).farm
    done = sum(step.counts[UnitState.DONE] for step in farm.steps.values())
    if done != units:
        yield f"a restarted broker sees {done} units done, not {units}"
    if farm.attempts:
        yield f"a restarted broker sees {len(farm.attempts)} open attempts"


# ---------------------------------------------------------------- in the agents' processes


class _Agent:
    """One synthetic agent: its socket, its session, what it sent and when."""

    __slots__ = ("n", "sent_s", "session", "socket")

    def __init__(self, socket: Any, session: PeerSession) -> None:
        self.socket = socket
        self.session = session
        self.n = 0
        self.sent_s: dict[int, float] = {}


def _other(agent: _Agent, body: bytes, shared: Any) -> None:
    """Takes a message that is no batch."""
    for message in agent.session.receive(body):
        if type(message) is BeatAckMsg:
            agent.session.beat_answered(message)
        elif type(message) is WelcomeMsg:
            shared[OPEN] += 1
        else:
            raise RuntimeError(f"the broker said {message!r}")
    if agent.session.phase is not Phase.OPEN:
        raise RuntimeError(f"an agent's session is {agent.session.phase.value}")


def _start_process(shared: Any) -> None:
    """Does what a real agent does with a lease, as little of it as counts: a process runs."""
    shared[LEASED_NS] = time.perf_counter_ns()
    child = os.posix_spawn("/bin/true", ["/bin/true"], os.environ)
    shared[STARTED_NS] = time.perf_counter_ns()
    os.waitpid(child, 0)


def _hello(number: int, slots: int) -> Any:
    facts = NodeFacts(
        name=f"node{number}",
        host=f"host{number}",
        total=Resources(cores=slots, ram_mib=64 * slots),
        renderers=("command",),
        attributes={"os": "linux"},
    )

    def make(oldest: int, newest: int) -> HelloMsg:
        return HelloMsg(oldest=oldest, newest=newest, agent=AgentHello(facts=facts))

    return make


def run_agents(
    control: str,
    public: str,
    pairs: list[KeyPair],
    slots: int,
    spawn: bool,
    shared: Any,
    pipe: Connection,
) -> None:
    """Runs some synthetic agents until told to stop; then sends what each task took, in milliseconds."""
    raise_file_limit()
    context = new_context()
    context.set(zmq.MAX_SOCKETS, max(1024, 2 * len(pairs)))
    poller = zmq.Poller()
    agents: dict[Any, _Agent] = {}
    codec = agent_codec()
    for start in range(0, len(pairs), 100):
        # A few at a time: what all at once cost is another benchmark.
        fresh = []
        for number, pair in enumerate(pairs[start : start + 100], start):
            socket = client_socket(context, control, pair, public)
            socket.setsockopt(zmq.SNDTIMEO, 30_000)
            agents[socket] = agent = _Agent(socket, PeerSession(codec, _hello(number, slots)))
            poller.register(socket, zmq.POLLIN)
            fresh.append(agent)
        for agent in fresh:
            agent.socket.send(agent.session.greet())
    poller.register(pipe.fileno(), zmq.POLLIN)
    waits_ms: list[float] = []
    clock_s, clock_ns = time.perf_counter, time.perf_counter_ns
    decode = codec.decode
    acked = 0
    turn, beats = list(agents.values()), 0
    next_beat_s = clock_s() + 2.0 / len(turn)
    running = True
    while running:
        for source, _ in poller.poll(max(1, int((next_beat_s - clock_s()) * 1000))):
            if source not in agents:
                running = False
                break
            agent = agents[source]
            body = source.recv()
            message = decode(body)
            if type(message) is not BatchMsg:
                _other(agent, body, shared)
                continue
            session = agent.session
            if session.phase is not Phase.OPEN or message.n != session.got + 1:
                raise RuntimeError(f"batch {message.n} came after {session.got}: a message was lost")
            session.got = message.n
            if message.acks:
                now_s = clock_s()
                waits_ms += [(now_s - agent.sent_s.pop(n)) * 1e3 for n in message.acks]
                acked += len(message.acks)
            for lease in message.leases:
                if spawn:
                    _start_process(shared)
                elif not shared[FIRST_NS]:
                    shared[FIRST_NS] = clock_ns()
                agent.n = n = agent.n + 1
                units = tuple([UnitReport(unit, DONE, "", "", 1000) for unit in lease.units])
                agent.sent_s[n] = clock_s()
                source.send(encode(ReportMsg(n, lease.attempt, lease.nonce, units, True)))
        if acked != shared[ACKED]:
            shared[LAST_NS] = clock_ns()
            shared[ACKED] = acked
        every_s = shared[BEAT_MS] / 1e3 / len(turn)
        due = min(len(turn), int((clock_s() - next_beat_s) / every_s) + 1)
        for _ in range(due):
            # Heartbeats every 2 s (unless told otherwise), as real agents send, spread over the agents.
            agent = turn[beats % len(turn)]
            agent.socket.send(agent.session.beat(time.monotonic_ns() // 1000, ()))
            beats += 1
        if due > 0:
            next_beat_s = max(next_beat_s + due * every_s, clock_s())
    pipe.recv()
    pipe.send(waits_ms)
    pipe.close()
    for agent in agents.values():
        agent.socket.close(0)
    context.term()
