"""A way to the supervisor of one thread's own: it starts one process after another and hears of each itself.

What belongs here: the client of the supervisor's lanes.  What it may not know: what is started.

An answer that comes over the agent's one connection to its supervisor wakes the reader's thread, which wakes
the thread the answer is for: two changes of threads for a process that took a millisecond.  A lane is a
descriptor the waiting thread polls beside the process's output.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import socket
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from node_agent.supervisor import ProcessHandle, SpawnFailed, Supervisor, SupervisorGone


class Lane:
    """One connection; for one thread, and one process at a time.

    Attributes:
        supervisor: Whose lane it is.
        fd: Becomes readable when ``receive`` should be called.
        usable: Whether a process can be started over it.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        """Opens a connection.

        Raises:
            OSError: The system has no descriptors left.
        """
        self.supervisor = supervisor
        self._sock, theirs = socket.socketpair()
        try:
            supervisor.add_lane(theirs)
        finally:
            theirs.close()
        self.fd = self._sock.fileno()
        self.usable = True
        self._incoming = bytearray()
        self._env: Mapping[str, str] | None = None
        self._handle: ProcessHandle | None = None

    def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        more: Mapping[str, str],
        cwd: str,
        tag: str,
        output_fd: int,
        stdin_fd: int | None,
    ) -> ProcessHandle:
        """Starts a program as ``Supervisor.spawn`` does without waiting.

        Args:
            argv: Program and arguments.
            env: Environment; the very same object as the last time is not sent again.
            more: Variables of this process alone, added to it.
            cwd: Working folder.
            tag: Names the attempt.
            output_fd: Write end for its standard output and error.
            stdin_fd: Read end for its standard input; None = empty input.

        Raises:
            SupervisorGone: There is no supervisor.
            SpawnFailed: A descriptor is closed.
        """
        handle = self.supervisor.register(tag, argv[0] if argv else "")
        fds = [output_fd] if stdin_fd is None else [output_fd, stdin_fd]
        message: dict[str, Any] = {
            "op": "spawn",
            "id": handle.key,
            "argv": list(argv),
            "env": None if env is self._env else dict(env),
            "more": dict(more),
            "cwd": cwd,
            "tag": tag,
            "stdin": stdin_fd is not None,
            "wait": False,
        }
        data = marshal.dumps(message)
        data = len(data).to_bytes(4, "big") + data
        self._handle = handle
        try:
            sent = self._sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))])
            if sent < len(data):
                self._sock.sendall(data[sent:])
        except OSError as error:
            if error.errno == errno.EBADF:
                self._handle = None
                self.supervisor.forget(handle)
                text = f"cannot start {handle.program}: its output pipe is closed"
                raise SpawnFailed(text, errno.EBADF, handle.program) from error
            self._gone()
            raise SupervisorGone(f"cannot start {handle.program}: the supervisor is not running") from error
        self._env = env
        return handle

    @property
    def busy(self) -> bool:
        """Whether a process was started whose end is not told yet."""
        return self._handle is not None

    def kill(self, grace_s: float) -> None:
        """Begins to end the process and its tree; over the lane, so that it cannot overtake the start."""
        handle = self._handle
        if handle is None:
            return
        data = marshal.dumps({"op": "kill_tree", "id": handle.key, "grace_s": grace_s})
        with contextlib.suppress(OSError):  # gone: ``receive`` will tell
            self._sock.sendall(len(data).to_bytes(4, "big") + data)

    def wait(self) -> None:
        """Waits until the process and its tree are gone."""
        while self._handle is not None:
            self.receive()

    def receive(self) -> None:
        """Waits for words of the supervisor; after that the handle may have its facts or its error."""
        try:
            data = self._sock.recv(32768)
        except OSError:
            data = b""
        handle = self._handle
        if not data:
            if handle is not None:
                self._gone()
            self.usable = False
            return
        incoming = self._incoming
        incoming += data
        while len(incoming) >= 4 and len(incoming) >= 4 + (size := int.from_bytes(incoming[:4], "big")):
            message = marshal.loads(incoming[4 : 4 + size])
            del incoming[: 4 + size]
            if handle is None or message["id"] != handle.key:
                continue  # of one that was given up
            if message["op"] == "spawned":
                handle.tell_start(message["pid"])
                continue
            self.supervisor.forget(handle)
            self._handle = None
            if message["op"] == "exited":
                handle.tell_exit(message)
            else:
                handle.tell_failure(message)

    def _gone(self) -> None:
        """The supervisor died: the handle has its facts once everything it held is dead."""
        self.usable = False
        self._handle = None
        self.supervisor.wait_gone()

    def close(self) -> None:
        """Ends the connection; what still runs of it is killed."""
        self.usable = False
        self._sock.close()
        handle, self._handle = self._handle, None
        if handle is not None:
            self.supervisor.forget(handle)
