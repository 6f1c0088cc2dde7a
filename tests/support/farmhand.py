"""A supervisor with a pipe for what its processes print, and the processes that tests give it.

What belongs here: helpers for tests of process trees, which run real processes.  What it may not know: how a
supervisor does its work.
"""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import uuid
from pathlib import Path

from node_agent import proctree
from node_agent.supervisor import ProcessHandle, Supervisor
from tests.support.waiting import eventually

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}

#: Forks twice, leaves the session, ignores SIGTERM, writes its pid, then sleeps.
DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
if "wipe" in sys.argv: os.environ.clear()
if "wipe" in sys.argv and sys.argv[-1] != "again":
    os.execve(sys.executable, [sys.executable, "-I", "-S", *sys.argv, "again"], {})
with open(sys.argv[1] + ".new", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    proc = proctree.read_proc(pid)
    return proc is not None and proc.alive


class Farmhand:
    """A supervisor with an output pipe that collects what processes print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deaths = threading.Event()
        self.supervisor = Supervisor(f"test-{uuid.uuid4().hex}", on_death=self.deaths.set)
        self.supervisor.start()
        self.output = folder / "output"
        self.fd = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def spawn(self, *argv: str, **more: object) -> ProcessHandle:
        return self.supervisor.spawn(argv, ENV, "/", "J1/beauty@1", self.fd, **more)  # type: ignore[arg-type]

    def python(self, code: str, *argv: str, **more: object) -> ProcessHandle:
        return self.spawn(sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *argv, **more)

    def daemon(self, name: str, *flags: str, then: str = "exec sleep 600") -> tuple[ProcessHandle, int]:
        """A shell that leaves a daemon behind; returns its handle and the daemon's pid."""
        script = self.folder / "daemon.py"
        script.write_text(DAEMON)
        file = self.folder / name
        handle = self.spawn(
            "/bin/sh", "-c", '"$@"; ' + then, "sh", sys.executable, "-I", "-S", str(script), str(file), *flags
        )
        eventually(file.exists, "the daemon runs")
        return handle, int(file.read_text())

    def text(self) -> str:
        return self.output.read_text()

    def close(self) -> None:
        self.supervisor.close()
        os.close(self.fd)
