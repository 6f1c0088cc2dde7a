"""Reads /proc: who descends from whom, who carries which tag, how to signal exactly that process.

What belongs here: the process table as plain records, ancestry, environment tags, signals that
cannot hit a recycled pid.  What it may not know: attempts, the broker, any package outside the
standard library; the supervisor imports it in an interpreter without site-packages, so it also stays
away from slow modules (typing, dataclasses, pathlib).
"""
# pathlib costs more to import than the rest of the supervisor together:
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import errno
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # slow to import
    from collections.abc import Callable, Iterable, Sequence

#: Environment tags of every process started for an attempt.
AGENT_TAG = "OVERCRANK_AGENT"
ATTEMPT_TAG = "OVERCRANK_ATTEMPT"
#: Unique per started process (supervisor's random name, then a number): tags may repeat, this does not.
SPAWN_TAG = "OVERCRANK_SPAWN"


class Proc:
    """One row of the process table.

    Attributes:
        pid: Process id.
        ppid: Parent.
        pgrp: Process group.
        session: Session id.
        state: The kernel's letter (R, S, D, Z ...).
        threads: Number of threads; a zombie leader with more than one still runs.
        start: Start time in clock ticks since boot; with the pid it names a process for good.
    """

    __slots__ = ("pgrp", "pid", "ppid", "session", "start", "state", "threads")

    def __init__(
        self, pid: int, ppid: int, pgrp: int, session: int, state: str, threads: int, start: int
    ) -> None:
        self.pid = pid
        self.ppid = ppid
        self.pgrp = pgrp
        self.session = session
        self.state = state
        self.threads = threads
        self.start = start

    @property
    def alive(self) -> bool:
        """Whether it can still do anything (zombies cannot, unless threads outlive their leader)."""
        return self.state not in "ZX" or self.threads > 1


def read_proc(pid: int) -> Proc | None:
    """The table row of one process, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return None
    # The command name may hold blanks and brackets: fields start after the last bracket.
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Proc(
        pid,
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        fields[0].decode("ascii", "replace"),
        int(fields[17]),
        int(fields[19]),
    )


def snapshot() -> dict[int, Proc]:
    """The whole process table.  Not atomic: what forks meanwhile may be missing, so callers repeat."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            proc = read_proc(int(name))
            if proc is not None:
                table[proc.pid] = proc
    return table


def own_children() -> set[int]:
    """Direct children of the calling single-threaded process, unreaped zombies among them.

    The kernel's list can only grow while we read it, because nobody but us reaps our children; so it
    is exact for what existed before the call.  Kernels without it get a full scan instead.
    """
    me = os.getpid()
    try:
        fd = os.open(f"/proc/{me}/task/{me}/children", os.O_RDONLY)
        try:
            data = b""
            while chunk := os.read(fd, 65536):
                data += chunk
        finally:
            os.close(fd)
        return {int(word) for word in data.split()}
    except OSError:
        return {proc.pid for proc in snapshot().values() if proc.ppid == me}


def descendants(table: dict[int, Proc], tops: Iterable[int]) -> set[int]:
    """``tops`` (those in the table) and everything below them."""
    return set(parents_first(table, tops))


def parents_first(table: dict[int, Proc], tops: Iterable[int]) -> list[int]:
    """As ``descendants``, every process before those below it.

    Who ends a tree goes in this order: a shell whose command died before it was told goes on with its next.
    """
    below: dict[int, list[int]] = {}
    for proc in table.values():
        below.setdefault(proc.ppid, []).append(proc.pid)
    chosen = {pid for pid in tops if pid in table}
    # A top that lies below another one comes with that.
    todo = [pid for pid in chosen if not _is_below(table, pid, chosen)] or list(chosen)
    found = dict.fromkeys(todo)
    for pid in todo:
        for child in below.get(pid, ()):
            if child not in found:
                found[child] = None
                todo.append(child)
    return list(found)


def _is_below(table: dict[int, Proc], pid: int, tops: set[int]) -> bool:
    """Whether a process descends from one of these."""
    return bool((ancestors(table, pid) - {pid}) & tops)


def end_softly(procs: Sequence[Proc]) -> None:
    """SIGTERM to every given process, parents first, none of which sees another one die before its own.

    All are stopped before the first is told: else a shell that waits for a program would have its exit, and
    begin its next command, before the signal reaches it.
    """
    for proc in procs:
        send_signal(proc, signal.SIGSTOP)
    for proc in procs:
        send_signal(proc, signal.SIGTERM)
    # Children first: a group whose parent died while it stood still would be sent SIGHUP by the kernel.
    for proc in reversed(procs):
        send_signal(proc, signal.SIGCONT)


def ancestors(table: dict[int, Proc], pid: int) -> set[int]:
    """``pid`` and all its ancestors."""
    found: set[int] = set()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid].ppid
    return found


def read_environ(pid: int) -> list[bytes]:
    """The environment a process was started with; empty if it is gone or not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def env_value(pid: int, name: str) -> str | None:
    """One variable of a process's starting environment."""
    prefix = name.encode() + b"="
    for entry in read_environ(pid):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def tagged(name: str, wanted: Callable[[str], bool], table: dict[int, Proc] | None = None) -> set[int]:
    """Living processes whose environment has ``name`` with a value that ``wanted`` accepts."""
    found = set()
    for proc in (snapshot() if table is None else table).values():
        if proc.alive:
            value = env_value(proc.pid, name)
            if value is not None and wanted(value):
                found.add(proc.pid)
    return found


def send_signal(proc: Proc, number: int) -> bool:
    """Signals exactly this process; False if it is gone or not ours.

    A bare kill() could hit a process that got the pid since the table was read; a pidfd cannot.
    """
    try:
        fd = os.pidfd_open(proc.pid)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            return False
        fd = -1
    try:
        now = read_proc(proc.pid)
        if now is None or now.start != proc.start:
            return False
        if fd >= 0:
            signal.pidfd_send_signal(fd, number)
        else:
            os.kill(proc.pid, number)
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return True


def kill_hard(procs: Iterable[Proc]) -> None:
    """SIGKILL to every given process and to the process groups they form.

    A group is killed in one step under the kernel's lock, so that a process that forks and exits all
    the time cannot slip through.  The caller's own group and session are never touched.
    """
    mine = (os.getpgrp(), os.getsid(0))
    todo = [proc for proc in procs if proc.pid not in (1, os.getpid())]
    # In the order given: parents first, then no shell sees its command die.
    for group in dict.fromkeys(proc.pgrp for proc in todo if proc.pgrp > 1 and proc.session != mine[1]):
        if group == mine[0]:
            continue
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
    for proc in todo:
        send_signal(proc, signal.SIGKILL)


def kill_found(find: Callable[[dict[int, Proc]], set[int]], timeout_s: float) -> tuple[int, int]:
    """Kills what ``find`` finds in the table, with all below it, until nothing is found any more.

    The calling process, its ancestors and their groups are never touched.

    Returns:
        How many were killed, how many still live after ``timeout_s`` (stuck in the kernel).
    """
    deadline = time.monotonic() + timeout_s
    seen: set[tuple[int, int]] = set()
    pause_s = 0.001
    while True:
        table = snapshot()
        shielded = ancestors(table, os.getpid())
        victims = [
            table[pid]
            for pid in parents_first(table, find(table) - shielded)
            if pid not in shielded and table[pid].alive
        ]
        seen.update((proc.pid, proc.start) for proc in victims)
        if not victims or time.monotonic() > deadline:
            return len(seen) - len(victims), len(victims)
        shielded_groups = {table[pid].pgrp for pid in shielded}
        kill_hard(proc for proc in victims if proc.pgrp not in shielded_groups)
        for proc in victims:
            if proc.pgrp in shielded_groups:
                send_signal(proc, signal.SIGKILL)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.05)
