"""The agent's side of the supervisor: start processes, wait for them, kill their whole trees.

What belongs here: the client of ``supervisor_main.py`` and the search for what a crashed agent left
running.  What it may not know: jobs, renderers, the broker.  Safe to call from any thread; one reader
thread delivers the answers.  ``node_agent.lane`` is a way beside it for one thread.

Long because the other side runs with the standard library alone, so that what both say to each other, and
what is done when it says nothing any more, is written out here.
"""

from __future__ import annotations

import errno
import logging
import marshal
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from farm.model.errors import OvercrankError, WorkFailed
from node_agent import proctree

_LOG = logging.getLogger(__name__)
#: SIGTERM to SIGKILL, unless told otherwise.
KILL_GRACE_S = 15.0
#: A start that takes longer hangs on a dead file system.
SPAWN_TIMEOUT_S = 120.0
#: Longest wait for the supervisor to end after it was told to (it kills everything first).
_END_TIMEOUT_S = 25.0


class SpawnFailed(WorkFailed):
    """A program could not be started.

    Attributes:
        errno: The system's error number (``errno.ENOENT`` ...).
        program: What was to be started.
    """

    code = "spawn-failed"

    def __init__(self, message: str, number: int, program: str) -> None:
        super().__init__(message)
        self.errno = number
        self.program = program


class SupervisorGone(OvercrankError):
    """The supervisor is not running, so nothing can be started."""

    code = "supervisor-gone"


class ExitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How a process tree ended.  Only given once the whole tree is gone.

    Attributes:
        returncode: Of the first process, as ``subprocess`` gives it: negative = killed by that signal.
        max_rss_kib: Largest resident size of any one process of the tree that was waited for.
        user_s: CPU seconds in user mode, of the tree as far as its processes were waited for.
        sys_s: CPU seconds in the kernel, likewise.
        leftovers: Processes that outlived the first one and had to be killed.
        lost: It was killed because supervisor or guard died, not by anything it did.  Figures are unknown (0)
            where the supervisor itself could not tell them any more.
    """

    returncode: int
    max_rss_kib: int = 0
    user_s: float = 0.0
    sys_s: float = 0.0
    leftovers: int = 0
    lost: bool = False


_LOST = ExitFacts(returncode=-signal.SIGKILL, lost=True)


class ProcessHandle:
    """A started process and everything that descends from it.

    Attributes:
        key: Number of the process within its supervisor.
        pid: Process id of the first process, also its session id.
        tag: The attempt's tag.
        program: What was started.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        key: int,
        tag: str,
        program: str,
        on_exit: Callable[[ProcessHandle], None] | None = None,
        *,
        waited_for: bool = True,
        events: bool = True,
    ) -> None:
        self.key = key
        self.pid = 0
        self.tag = tag
        self.program = program
        self._supervisor = supervisor
        self._on_exit = on_exit
        # Two events cost more than all else here, and whoever has a lane waits for its descriptor.
        self._started = threading.Event() if events else None
        self._ended = threading.Event() if events else None
        self._facts: ExitFacts | None = None
        self._error: OvercrankError | None = None
        self._waited_for = waited_for
        self._asked_s = time.monotonic()

    def __repr__(self) -> str:
        return f"<{self.program} pid {self.pid} of {self.tag}: {self._facts or 'running'}>"

    @property
    def facts(self) -> ExitFacts | None:
        """How the tree ended, None while any process of it is left."""
        return self._facts

    @property
    def error(self) -> OvercrankError | None:
        """Why it was never started, None while it may have been."""
        return self._error

    def start_left_s(self) -> float:
        """How much longer the start may take; for ever once it was told.

        Raises:
            SpawnFailed: Nobody told of it in time.
        """
        if self.pid or (self._started is not None and self._started.is_set()):
            return math.inf
        left_s = self._asked_s + SPAWN_TIMEOUT_S - time.monotonic()
        if left_s > 0:
            return left_s
        raise SpawnFailed(
            f"cannot start {self.program}: no answer in {SPAWN_TIMEOUT_S:.0f} s (a file system hangs?)",
            errno.ETIMEDOUT,
            self.program,
        )

    def wait(self, timeout_s: float | None = None) -> ExitFacts | None:
        """Waits until the whole tree is gone; None if it is not after ``timeout_s``.

        Not for one that was started over a lane, which tells by itself.
        """
        if self._ended is not None:
            self._ended.wait(timeout_s)
        return self._facts

    def kill(self, grace_s: float = KILL_GRACE_S) -> None:
        """Begins to end the whole tree: SIGTERM, ``grace_s``, then SIGKILL until none is left.

        Returns at once; ``wait`` tells when it is done.  A second call can only shorten the grace.
        """
        self._supervisor._send({"op": "kill_tree", "id": self.key, "grace_s": grace_s})

    def send_signal(self, number: int) -> None:
        """Sends a signal to the first process alone."""
        self._supervisor._send({"op": "kill", "id": self.key, "signal": int(number)})

    def tell_exit(self, message: dict[str, Any]) -> None:
        """Takes the supervisor's word that the tree is gone."""
        self.pid = message["pid"]
        self._finish(
            ExitFacts(
                returncode=message["returncode"],
                max_rss_kib=message["max_rss_kib"],
                user_s=message["user_s"],
                sys_s=message["sys_s"],
                leftovers=message["leftovers"],
                lost=message["lost"],
            )
        )

    def tell_start(self, pid: int) -> None:
        """Takes the supervisor's word that it runs."""
        self.pid = pid
        if self._started is not None:
            self._started.set()

    def tell_failure(self, message: dict[str, Any]) -> None:
        """Takes the supervisor's word that it cannot be started."""
        self._fail(SpawnFailed(message["text"], message["errno"], self.program))

    def _finish(self, facts: ExitFacts) -> None:
        self._facts = facts
        self._tell()

    def _tell(self) -> None:
        self._set_events()
        if self._on_exit is not None:
            try:
                self._on_exit(self)
            except Exception:
                _LOG.exception("the exit callback of %s failed", self)

    def _fail(self, error: OvercrankError) -> None:
        self._error = error
        if self._waited_for:
            self._set_events()
        else:
            self._tell()

    def _set_events(self) -> None:
        if self._started is not None and self._ended is not None:
            self._started.set()
            self._ended.set()


class Supervisor:
    """Owner of an agent's process trees, living in a process of its own.

    Args:
        agent_id: Unique name of the agent; every started process carries it in its environment.
        on_death: Called once, from the reader thread, when the supervisor ended without ``close``.
            Everything it held is dead by then and every handle has its facts.
    """

    def __init__(self, agent_id: str, *, on_death: Callable[[], None] | None = None) -> None:
        self.agent_id = agent_id
        self._on_death = on_death
        self._lock = threading.Lock()
        self._handles: dict[int, ProcessHandle] = {}
        self._last_key = 0
        self._sock: socket.socket | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._hello = threading.Event()
        self._gone = threading.Event()
        self._closing = False
        self._dead = False
        self._name = ""
        self._pid = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the supervisor process; returns when it answers.

        Raises:
            SupervisorGone: It ended at once.
        """
        if self._sock is not None:
            raise SupervisorGone("this supervisor was started before; make a new one")
        ours, theirs = socket.socketpair()
        try:
            self._guard = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(__file__).with_name("supervisor_main.py")),
                    str(theirs.fileno()),
                    self.agent_id,
                    str(os.getpid()),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SupervisorGone(f"cannot start the supervisor with {sys.executable}: {error}") from error
        finally:
            theirs.close()
        self._sock = ours
        self._reader = threading.Thread(target=self._read, name="supervisor-reader", daemon=True)
        self._reader.start()
        if not self._hello.wait(SPAWN_TIMEOUT_S):
            self._guard.kill()
        if not self.alive:
            self.close()
            raise SupervisorGone("the supervisor ended at once; its words are on the agent's stderr")

    @property
    def alive(self) -> bool:
        """Whether processes can be started."""
        return self._hello.is_set() and not self._dead and not self._closing

    @property
    def pid(self) -> int:
        """Process id of the supervisor itself."""
        return self._pid

    @property
    def guard_pid(self) -> int:
        """Process id of the guard, the supervisor's parent."""
        return self._guard.pid if self._guard else 0

    def wait_gone(self, timeout_s: float | None = None) -> bool:
        """Waits until the supervisor is gone, for whatever reason."""
        return self._gone.wait(timeout_s)

    def close(self) -> None:
        """Kills everything at once, ends the supervisor and reaps it.  Safe to call twice."""
        with self._lock:
            first, self._closing = not self._closing, True
            if first and self._sock is not None:
                try:
                    # Only our half: the supervisor still reports how each process ended.
                    self._sock.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join()

    # -- processes --------------------------------------------------------------------------------

    def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        tag: str,
        output_fd: int,
        stdin_fd: int | None = None,
        *,
        nice: int = 0,
        on_exit: Callable[[ProcessHandle], None] | None = None,
        wait: bool = True,
    ) -> ProcessHandle:
        """Starts a program in a session of its own.

        The whole environment is ``env`` and three tags.  The caller keeps its descriptors and closes
        them itself; once ``spawn`` returned they may be closed.

        Args:
            argv: Program (looked up on the PATH in ``env`` unless it has a slash) and arguments.
            env: Environment.
            cwd: Working folder.
            tag: Names the attempt.
            output_fd: Write end for its standard output and error.
            stdin_fd: Read end for its standard input; None = empty input.
            nice: Niceness to give it.
            on_exit: Called from the reader thread when the whole tree is gone; must neither block nor spawn.
            wait: Wait until it runs.  If not, the handle comes at once: its ``pid`` is told in a moment, a
                program that ends before costs one message instead of two, and a failed start shows as the
                handle's ``error``, of which ``on_exit`` tells too.

        Raises:
            SpawnFailed: The program or folder is missing, not executable, not for this machine ...
            SupervisorGone: There is no supervisor.
        """
        program = argv[0] if argv else ""
        if threading.current_thread() is self._reader:
            raise SupervisorGone(f"cannot start {program} from an exit callback: no answer would arrive")
        with self._lock:
            self._last_key += 1
            handle = ProcessHandle(self, self._last_key, tag, program, on_exit, waited_for=wait)
            if not self.alive:
                raise SupervisorGone(f"cannot start {program}: the supervisor is not running")
            self._handles[handle.key] = handle
        message = {
            "op": "spawn",
            "id": handle.key,
            "argv": list(argv),
            "env": dict(env),
            "more": {},
            "cwd": cwd,
            "tag": tag,
            "nice": nice,
            "stdin": stdin_fd is not None,
            "wait": wait,
        }
        self._send(message, [output_fd] if stdin_fd is None else [output_fd, stdin_fd])
        if not wait:
            return handle
        assert handle._started is not None
        handle._started.wait(SPAWN_TIMEOUT_S)
        try:
            handle.start_left_s()
        except SpawnFailed:
            handle.kill(0)
            raise
        if handle._error is not None:
            raise handle._error
        return handle

    # -- for lanes --

    def register(self, tag: str, program: str) -> ProcessHandle:
        """A handle for a process whose start and end come another way; ``forget`` takes it back.

        Raises:
            SupervisorGone: There is no supervisor.
        """
        with self._lock:
            self._last_key += 1
            handle = ProcessHandle(self, self._last_key, tag, program, waited_for=False, events=False)
            if not self.alive:
                raise SupervisorGone(f"cannot start {program}: the supervisor is not running")
            self._handles[handle.key] = handle
        return handle

    def forget(self, handle: ProcessHandle) -> None:
        """Its tree is gone, or it never began."""
        with self._lock:
            self._handles.pop(handle.key, None)

    def add_lane(self, theirs: socket.socket) -> None:
        """Hands the supervisor a connection of one thread's own."""
        self._send({"op": "lane"}, [theirs.fileno()])

    def handles(self) -> list[ProcessHandle]:
        """All processes whose tree is not gone yet."""
        with self._lock:
            return list(self._handles.values())

    # -- inside -----------------------------------------------------------------------------------

    def _send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        data = marshal.dumps(message)
        data = len(data).to_bytes(4, "big") + data
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        broken: ProcessHandle | None = None
        with self._lock:
            if self._sock is None or self._closing:
                return
            try:
                sent = self._sock.sendmsg([data], control)
                if sent < len(data):
                    self._sock.sendall(data[sent:])
            except OSError as error:
                if error.errno == errno.EBADF and fds and "id" in message:
                    broken = self._handles.pop(message["id"])
                # Otherwise the supervisor is gone: the reader sees it too and ends every handle.
        if broken is not None:
            text = f"cannot start {broken.program}: its output pipe is closed"
            broken._fail(SpawnFailed(text, errno.EBADF, broken.program))

    def _read(self) -> None:
        assert self._sock is not None
        buffer = bytearray()
        while True:
            try:
                data = self._sock.recv(32768)
            except OSError:
                break
            if not data:
                break
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + (size := int.from_bytes(buffer[:4], "big")):
                message = marshal.loads(buffer[4 : 4 + size])
                del buffer[: 4 + size]
                self._handle(message)
        self._end()

    def _handle(self, message: dict[str, Any]) -> None:
        op = message.pop("op")
        if op == "hello":
            self._pid, self._name = message["pid"], message["name"]
            self._hello.set()
            return
        key = message.pop("id")
        with self._lock:
            handle = self._handles.get(key)
            if op != "spawned":
                self._handles.pop(key, None)
        if handle is None:
            return
        if op == "spawned":
            handle.tell_start(message["pid"])
        elif op == "spawn_failed":
            handle.tell_failure(message)
        elif op == "exited":
            handle.tell_exit(message)

    def _end(self) -> None:
        """The socket closed: sees to it that nothing the supervisor held lives on."""
        assert self._sock is not None
        assert self._guard is not None
        try:
            self._guard.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _LOG.error("the supervisor's guard (pid %d) does not end; killing it", self._guard.pid)
            self._guard.kill()
            self._guard.wait()
        if self._name and self._guard.returncode != 0:
            # Guard and supervisor may both have been killed; then only the tags are left to go by.  A guard
            # that ended by itself has seen the last of everything.
            prefix = f"{self._name}-"
            proctree.kill_found(
                lambda table: proctree.tagged(proctree.SPAWN_TAG, lambda v: v.startswith(prefix), table), 10.0
            )
        with self._lock:
            self._dead = True
            self._sock.close()
            handles, self._handles = list(self._handles.values()), {}
            unexpected = not self._closing and self._hello.is_set()
        self._hello.set()
        for handle in handles:
            if handle.pid or not handle._waited_for:
                handle._finish(_LOST)
            else:
                handle._fail(SupervisorGone(f"cannot start {handle.program}: the supervisor is not running"))
        self._gone.set()
        if unexpected:
            _LOG.error("the supervisor of agent %s died; what it ran was killed", self.agent_id)
            if self._on_death is not None:
                self._on_death()


def find_leftovers(agent_id: str) -> list[int]:
    """Processes that carry this agent's tag: what an earlier run of it left behind.

    For an agent that starts and has no supervisor yet; with one, its own children are found too.  The
    caller and its ancestors are never listed.
    """
    table = proctree.snapshot()
    found = proctree.tagged(proctree.AGENT_TAG, lambda value: value == agent_id, table)
    return sorted(found - proctree.ancestors(table, os.getpid()))


def kill_leftovers(agent_id: str, timeout_s: float = 10.0) -> int:
    """Kills what an earlier run of this agent left behind, and all that descends from it.

    Returns:
        How many processes were killed.
    """
    killed, stuck = proctree.kill_found(
        lambda table: proctree.tagged(proctree.AGENT_TAG, lambda value: value == agent_id, table), timeout_s
    )
    if stuck:
        _LOG.warning("%d processes of an earlier run of agent %s cannot be killed", stuck, agent_id)
    return killed
