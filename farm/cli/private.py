"""A farm of one's own for one command: a broker and agents on this machine that end with it.

What belongs here: starting those processes, waiting until they serve, and leaving nothing behind.  They
hang on a leash (a pipe): whatever becomes of this process, even SIGKILL, they end with it.  What must not:
jobs, and how progress is shown.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

from farm.config.places import (
    Endpoint,
    Places,
    make_private_folder,
    prune_private,
    read_endpoint,
    write_private,
)
from farm.model.errors import FarmUnreachable, IllegalMove
from farm.protocol.client import NodeRow
from farm.sdk.client import Farm

#: How long a broker may take to serve, and agents to join.
START_S = 60.0
#: How long the agents get to stop their renderers, and the broker to write its checkpoint.
STOP_S = 20.0


class PrivateFarm:
    """A private broker with agents; a context manager.

    Attributes:
        name: ``private/<id>``; ``farm --farm NAME log ...`` still answers from its state later.
        state: Its state folder.
    """

    def __init__(
        self,
        agents: int,
        *,
        rate_usd_h: str | None = None,
        agent_flags: Sequence[str] = (),
        broker_flags: Sequence[str] = (),
        name: str = "",
        simulated: str = "",
    ) -> None:
        """Prepares a farm; nothing runs before ``start``.

        Args:
            agents: How many agents share this machine.
            rate_usd_h: What the whole machine costs, USD per hour; None = the option.
            agent_flags: Further flags of ``farm agent``.
            broker_flags: Further flags of ``farm broker``.
            name: An earlier private farm to open again; empty = a new one.
            simulated: Name of the scenario whose agents render nothing: no later broker serves this farm.
        """
        self._simulated = simulated
        self._agents = agents
        self._rate = rate_usd_h
        self._agent_flags = tuple(agent_flags)
        self._broker_flags = tuple(broker_flags)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.name = name or f"private/{stamp}-{secrets.token_hex(3)}"
        self._places = Places(self.name)
        self.state = self._places.state
        self._leash: tuple[int, int] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def __enter__(self) -> PrivateFarm:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the broker and the agents; returns once the broker serves.

        Raises:
            FarmUnreachable: The broker did not come up; says what it printed.
        """
        make_private_folder(self.state)
        prune_private()
        read, write = os.pipe()
        os.set_inheritable(read, True)
        self._leash = (read, write)
        try:
            self._start_broker(read)
            if self._simulated:
                write_private(self._places.simulated, self._simulated + "\n")
            if self._agents:
                self._start_agents(read)
        except BaseException:
            self.close()
            raise

    def _start_broker(self, leash: int) -> None:
        flags = ["--control-port", "0", "--join-port", "0", "--bulk-port", "0", *self._broker_flags]
        if self._rate is not None:
            flags += ["--rate-usd-h", self._rate]
        process = self._spawn(
            "broker", ["broker", "--announce", "--leash", str(leash), *flags], leash, subprocess.PIPE
        )
        assert process.stdout is not None
        with process.stdout as stdout:
            line = _first_line(stdout, START_S)
        if b'"control"' not in line:
            process.wait(STOP_S)
            raise FarmUnreachable("the private broker did not start", hint=self._last_words("broker"))

    def _start_agents(self, leash: int) -> None:
        flags = ["--agents", str(self._agents), "--leash", str(leash), *self._agent_flags]
        self._spawn("agent", ["agent", *flags], leash, subprocess.DEVNULL)

    def _spawn(self, verb: str, arguments: list[str], leash: int, stdout: int) -> subprocess.Popen[bytes]:
        log = (self.state / f"{verb}.log").open("ab")
        self._logs.append(log)
        process = subprocess.Popen(
            [sys.executable, "-m", "farm", "--farm", self.name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=log,
            pass_fds=(leash,),
            # Ctrl-C is for us alone; we end them in order.
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    @property
    def endpoint(self) -> Endpoint:
        """Where the private broker listens.

        Raises:
            FarmUnreachable: It has ended.
        """
        endpoint = read_endpoint(self._places.endpoint)
        if endpoint is None:
            raise FarmUnreachable("the private broker has ended", hint=self._last_words("broker"))
        return endpoint

    def connect(self) -> Farm:
        """A session with the private broker."""
        return Farm.connect(self.name)

    def wait_for_agents(self, farm: Farm) -> tuple[NodeRow, ...]:
        """Waits until all agents have joined.

        Raises:
            FarmUnreachable: They did not; says what they printed.
        """
        deadline_s = time.monotonic() + START_S
        for mirror in farm.subscribe("nodes", idle_s=0.2):
            if len(mirror.nodes) >= self._agents:
                return tuple(sorted(mirror.nodes.values(), key=lambda row: row.node))
            if self._processes[-1].poll() is not None or time.monotonic() > deadline_s:
                break
        raise FarmUnreachable("the private agents did not join", hint=self._last_words("agent"))

    def _last_words(self, verb: str) -> str:
        path = self.state / f"{verb}.log"
        with contextlib.suppress(OSError):
            lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
            if lines:
                return f"{lines[-1].strip()} (more in {path})"
        return f"see {path}"

    def close(self) -> None:
        """Ends agents, then the broker, and reaps them; may be called twice."""
        processes, self._processes = self._processes, []
        leash, self._leash = self._leash, None
        if leash is not None:
            # Agents first: the broker must still hear what they report.
            for process in reversed(processes[1:]):
                process.terminate()
                _reap(process, STOP_S)
            for process in processes[:1]:
                process.terminate()
                _reap(process, STOP_S)
            for fd in leash:
                os.close(fd)
        for log in self._logs:
            log.close()
        self._logs.clear()


def refuse_simulated(places: Places) -> None:
    """Refuses work on what is left of a simulated farm: nothing would ever run it.

    Raises:
        IllegalMove: A scenario was served as this farm.
    """
    try:
        scenario = places.simulated.read_text("utf-8", "replace").strip()
    except OSError:
        return
    raise IllegalMove(
        f"{places.farm} is what is left of the simulated farm {scenario!r}: it has no agents, and had none"
        " that render",
        hint="`farm simulate SCENARIO --serve` serves a scenario anew; name a real farm with --farm",
    )


def _reap(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _first_line(stream: IO[bytes], timeout_s: float) -> bytes:
    """The first line of a pipe, what there is of it at its end or after the timeout."""
    data = b""
    deadline_s = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while b"\n" not in data:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                break
            piece = os.read(stream.fileno(), 65536)
            if not piece:
                break
            data += piece
    return data.partition(b"\n")[0].strip()
