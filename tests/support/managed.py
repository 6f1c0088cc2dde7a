"""Processes a test starts: run, killed, frozen, ended, and found again by what they carry.

What belongs here: one process under one name and log, an agent as such a process, free ports that stay ours,
and looks at the process table.  What it may not know: brokers and jobs.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from node_agent import proctree
from node_agent.options import AgentOptions, write_options
from tests.support.waiting import PATIENCE_S, eventually

#: Outside of what the kernel hands out by itself, so that a broker that was killed finds its ports free.
_PORTS = range(12_000, 31_000)


class Managed:
    """One process of the farm, started again under the same name and log.

    Attributes:
        name: As it is called in the logs.
        log: File of its standard error and output, all runs in a row.
        process: The present (or last) run.
    """

    def __init__(self, name: str, log: Path, env: Mapping[str, str], cwd: Path) -> None:
        self.name = name
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self._env = dict(env)
        self._cwd = cwd
        self._leash: int | None = None

    def spawn(self, argv: list[str]) -> None:
        """Starts it; it ends with this process, whatever becomes of that."""
        assert not self.running, f"{self.name} runs already"
        self._let_go()
        read, self._leash = os.pipe()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *argv, "--leash", str(read)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=self._cwd,
                pass_fds=(read,),
                start_new_session=True,
            )
        os.close(read)

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        if self.running:
            assert self.process is not None
            self.process.send_signal(number)

    def kill(self) -> None:
        """``kill -9``; returns once it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self._let_go()

    def freeze(self) -> None:
        """SIGSTOP; returns once every thread of it stands."""
        self.signal(signal.SIGSTOP)
        pid = self.pid

        def stands() -> bool:
            proc = proctree.read_proc(pid)
            return proc is not None and proc.state == "T"

        eventually(stands, f"{self.name} stands still")

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def stop(self, patience_s: float = PATIENCE_S) -> int:
        """SIGTERM; returns the exit code.  One that does not end in time is killed and failed."""
        self.signal(signal.SIGTERM)
        return self.wait(patience_s)

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """Waits for its end; returns the exit code.  One that does not end in time is killed and failed."""
        if self.process is None:
            return 0
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            # What every thread of it was at goes into its log.
            self.process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end within {patience_s:g} s") from None
        finally:
            self._let_go()

    def text(self) -> str:
        """All it has written."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def _let_go(self) -> None:
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None


class AgentProcess(Managed):
    """One agent.

    Attributes:
        options: What it was started with; change before ``start`` to change the next run.
    """

    def __init__(
        self, options: AgentOptions, log: Path, env: Mapping[str, str], cwd: Path, apps: Path
    ) -> None:
        super().__init__(f"agent {options.name}", log, env, cwd)
        self.options = options
        self._apps = apps

    @property
    def state(self) -> Path:
        """Its state folder."""
        return Path(self.options.state_dir)

    @property
    def agent_id(self) -> str:
        """The tag every process it starts carries; "" before its first start."""
        path = self.state / "agent.id"
        return path.read_text("ascii").strip() if path.exists() else ""

    def descendants(self) -> set[int]:
        """What it has started for attempts and what still lives of that."""
        mine = self.agent_id
        return proctree.tagged(proctree.AGENT_TAG, lambda value: value == mine)

    def start(self) -> None:
        """Starts it; ``Farmhouse.wait_online`` tells when the broker knows it."""
        self.state.mkdir(parents=True, exist_ok=True)
        cache = self.state / "apps.json"
        if self._apps.exists() and not cache.exists():
            # Asking Blender for its version takes a second; one agent asks for all.
            cache.write_bytes(self._apps.read_bytes())
        file = self.state / "options.json"
        write_options(file, self.options)
        self.spawn(["-m", "node_agent", "--options", str(file)])

    def changed(self, **options: Any) -> None:
        """Changes options of the next run."""
        self.options = msgspec.structs.replace(self.options, **options)

    def remember_apps(self) -> None:
        """Keeps the versions it found for agents to come."""
        found = self.state / "apps.json"
        if found.exists() and not self._apps.exists():
            beside = self._apps.with_name(f"{self._apps.name}.{os.getpid()}")
            beside.write_bytes(found.read_bytes())
            beside.replace(self._apps)


def processes_with(text: str) -> dict[int, str]:
    """Living processes with that text in their command line, whoever started them."""
    found = {}
    for pid, proc in proctree.snapshot().items():
        if proc.alive and pid != os.getpid() and text in (line := command_line(pid)):
            found[pid] = line
    return found


def reserve_ports(count: int) -> list[tuple[int, socket.socket]]:
    """Free TCP ports, each with what keeps them from other tests until it is closed."""
    found: list[tuple[int, socket.socket]] = []
    source = random.SystemRandom()
    while len(found) < count:
        port = source.choice(_PORTS)
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Abstract names vanish with their socket: a test that is killed leaves no lock behind.
            holder.bind(f"\0overcrank-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        found.append((port, holder))
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return "(gone)"
