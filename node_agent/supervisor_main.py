"""The supervisor: a tiny process that starts, watches and kills what one agent runs.

What belongs here: starting processes, keeping track of their trees, ending trees, reporting exits.
What it may not know: jobs, the broker, the network.  Standard library only, run by file path with
``python -I -S``, single-threaded, so that it starts in milliseconds and has nothing to crash on.

Two processes, guard and supervisor, made by one fork at the start.  Both are child subreapers: whatever
a renderer leaves behind, double-forked and setsid'ed daemons too, becomes a child of the supervisor,
and when the supervisor dies, of the guard.

    agent  <-- socketpair -->  supervisor (child of guard)  -->  renderers
    * the agent dies, even by SIGKILL: the socket closes, the supervisor kills everything and ends
    * the supervisor dies, even by SIGKILL: the guard inherits everything, kills it and ends
    * the guard dies: the supervisor is told by PR_SET_PDEATHSIG, kills everything and ends

Why not PR_SET_PDEATHSIG on each renderer: it must be set in the child between fork and exec, which rules
out posix_spawn (vfork).  Measured on a 2-core VM with Python 3.11, ``true`` started and waited for:
os.posix_spawn 0.35 ms, os.fork + prctl + execve 0.74 ms, _posixsubprocess with a preexec function
0.74 ms.  It also reaches only direct children, while the guard reaches all.

Protocol, both ways: 4 bytes big-endian length, then a dictionary as ``marshal`` writes it (both ends are the
same interpreter, and it costs a third of JSON).

    in   {"op": "spawn", "id", "argv", "env", "more", "cwd", "tag", "nice", "stdin": bool, "wait": bool}
         with the write end for stdout and stderr, then the read end for stdin, by SCM_RIGHTS
         ("env" None: that of the last start over this connection; "more" is added to it for this one)
         {"op": "lane"}                            with a socket: another connection, for spawns and kills as
                                                   this one; its end kills what was begun over it
         {"op": "kill", "id", "signal"}            to the first process alone
         {"op": "kill_tree", "id", "grace_s"}      SIGTERM, grace, SIGKILL until none is left
    out  {"op": "hello", "pid"}
         {"op": "spawned", "id", "pid"} | {"op": "spawn_failed", "id", "errno", "text"}
         (to a spawn that does not wait "spawned" comes a moment later, and not at all if it ended before)
         {"op": "exited", "id", "pid", "returncode", "max_rss_kib", "user_s", "sys_s", "leftovers",
          "lost"}
         (lost: it was killed because the guard died, not by anything it did)

Long because it is run as one file, by its path, and may import nothing of ours.
"""
# pathlib costs more to import than all else here, and the path must be set before our own import:
# ruff: noqa: PTH100, PTH120, E402

from __future__ import annotations

import ctypes
import errno
import gc
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the typing module is slow to import
    from collections.abc import Callable
    from typing import Any

if __name__ == "__main__":
    # Last, so that nothing beside this package can stand in for the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from node_agent import launch, proctree, wires

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
#: After the first process ended well, what it left may take this long to end by itself, ...
LINGER_S = 1.0
#: ... and this long after SIGTERM, before SIGKILL.
LEFTOVER_GRACE_S = 2.0
#: How long guard and supervisor try to see the last process dead before they end themselves.
LAST_KILL_S = 20.0
#: To a spawn that does not wait the pid is told only when the process lives so long.
TELL_S = 0.02
#: Renderers are the first the kernel's out-of-memory killer should think of, not the agent.
OOM_SCORE_ADJ = b"500"
_TICKS = os.sysconf("SC_CLK_TCK")

RUNNING, LINGER, TERM, KILL = range(4)


def prctl(option: int, value: int) -> None:
    """Calls prctl(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def boot_ticks() -> int:
    """Now, on the clock of a process's start time."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


class Tree:
    """One started process and all that descends from it."""

    def __init__(self, wire: wires.Wire, key: int, pid: int, marker: str, born: int) -> None:
        self.wire = wire
        self.key = key
        self.pid = pid
        self.marker = marker
        self.born = born
        self.returncode: int | None = None
        self.max_rss_kib = 0
        self.user_s = 0.0
        self.sys_s = 0.0
        self.phase = RUNNING
        self.deadline = 0.0
        self.next_look = 0.0
        self.pause_s = 0.01
        self.signalled: set[tuple[int, int]] = set()
        self.killed: set[tuple[int, int]] = set()
        self.asked = False

    def count_usage(self, usage: resource.struct_rusage) -> None:
        """Adds what a reaped member used."""
        self.max_rss_kib = max(self.max_rss_kib, usage.ru_maxrss)
        self.user_s += usage.ru_utime
        self.sys_s += usage.ru_stime


class Loop:
    """The supervisor's event loop."""

    def __init__(self, sock: socket.socket, agent_id: str, agent_pid: int, guard_pid: int) -> None:
        self.main = wires.Wire(sock)
        self.agent_id = agent_id
        self.agent_pid = agent_pid
        self.guard_pid = guard_pid
        self.bereft = False
        self.name = os.urandom(8).hex()
        self.me = os.getpid()
        self.trees: dict[int, Tree] = {}
        #: Trees whose start is not told yet, and when it must be; the oldest first.
        self.untold: dict[int, float] = {}
        self.roots: dict[int, Tree] = {}
        #: Orphans that came back to us and the tree each belongs to.  They are our children, so
        #: their pids cannot be used again before we reap them.
        self.adopted: dict[int, Tree] = {}
        #: Connections by descriptor: the main one, and one for each thread of the agent that has its own.
        self.wires: dict[int, wires.Wire] = {}
        #: Those of them whose socket took not all.
        self.clogged: set[int] = set()
        #: Whether the last look found that we have no children at all.
        self.childless = True
        self.null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self.poll = select.poll()
        self.wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.add_wire(self.main)
        self.poll.register(self.wake, select.POLLIN)
        # A socket end that another child of the agent inherited would hide the agent's death.
        self.agent_fd = -1
        try:
            self.agent_fd = os.pidfd_open(agent_pid)
            self.poll.register(self.agent_fd, select.POLLIN)
        except OSError:
            pass

    # -- messages ---------------------------------------------------------------------------------

    def add_wire(self, wire: wires.Wire) -> None:
        """Listens to a connection."""
        fd = wire.sock.fileno()
        self.wires[fd] = wire
        self.poll.register(fd, select.POLLIN)

    def send(self, wire: wires.Wire, message: dict[str, object]) -> None:
        """Queues a message and sends what the socket takes."""
        if not wire.send(message):
            self.clog(wire)

    def clog(self, wire: wires.Wire) -> None:
        """Waits until the socket takes more."""
        fd = wire.sock.fileno()
        self.clogged.add(fd)
        self.poll.modify(fd, select.POLLIN | select.POLLOUT)

    def serve(self, fd: int, event: int) -> bool:
        """Sends and takes what a connection allows; False once the agent has closed the main one."""
        wire = self.wires[fd]
        if event & select.POLLOUT and fd in self.clogged and wire.flush():
            self.clogged.discard(fd)
            self.poll.modify(fd, select.POLLIN)
        if event & ~select.POLLOUT:
            for message in wire.receive():
                self.handle(wire, message)
        if not wire.closed:
            return True
        if wire is not self.main:
            self.drop_wire(fd, wire)
        return wire is not self.main

    def drop_wire(self, fd: int, wire: wires.Wire) -> None:
        """A thread of the agent is gone: what it began has nobody to wait for it."""
        del self.wires[fd]
        self.clogged.discard(fd)
        self.poll.unregister(fd)
        wire.sock.close()
        for number in wire.fds:
            os.close(number)
        for tree in self.trees.values():
            if tree.wire is wire:
                tree.wire = self.main
                self.kill_tree(tree, 0.0)

    def handle(self, wire: wires.Wire, message: dict[str, Any]) -> None:
        """Does what one message asks."""
        if message["op"] == "spawn":
            self.spawn(wire, message["id"], message)
            return
        if message["op"] == "lane":
            if wire.fds:
                self.add_wire(wires.Wire(socket.socket(fileno=wire.fds.popleft())))
            return
        key: int = message["id"]
        tree = self.trees.get(key)
        if tree is None:  # ended while the request was on its way
            return
        if message["op"] == "kill":
            if tree.returncode is None:  # unreaped: the pid is still its own
                os.kill(tree.pid, message["signal"])
        elif message["op"] == "kill_tree":
            self.kill_tree(tree, message["grace_s"])

    @staticmethod
    def kill_tree(tree: Tree, grace_s: float) -> None:
        """Begins to end a tree; ``advance`` goes on with it."""
        deadline = time.monotonic() + max(0.0, grace_s)
        tree.asked = tree.asked or tree.returncode is None
        tree.deadline = min(deadline, tree.deadline) if tree.phase in (TERM, KILL) else deadline
        tree.phase = max(tree.phase, TERM)
        tree.next_look = 0.0
        tree.pause_s = 0.01

    # -- starting ---------------------------------------------------------------------------------

    def spawn(self, wire: wires.Wire, key: int, message: dict[str, Any]) -> None:
        """Starts a process and answers ``spawned`` or ``spawn_failed``."""
        fds = wire.fds
        output = fds.popleft() if fds else -1
        stdin = fds.popleft() if message.get("stdin") and fds else -1
        marker = f"{self.name}-{key}"
        born = boot_ticks()
        try:
            if output < 0:
                raise OSError(errno.EBADF, "no output pipe came with the request")
            if message["env"] is not None:
                wire.env = message["env"]
            tags = {
                proctree.AGENT_TAG: self.agent_id,
                proctree.ATTEMPT_TAG: message["tag"],
                proctree.SPAWN_TAG: marker,
            }
            pid = launch.launch(
                message["argv"],
                {**wire.env, **message["more"], **tags},
                message["cwd"],
                stdin if stdin >= 0 else self.null,
                output,
                IGNORED,
            )
        except OSError as error:
            told = {"op": "spawn_failed", "id": key, "errno": error.errno or 0, "text": error.strerror}
            self.send(wire, told)
            return
        finally:
            for fd in (output, stdin):
                if fd >= 0:
                    os.close(fd)
        self.childless = False
        tree = Tree(wire, key, pid, marker, born)
        self.trees[key] = self.roots[pid] = tree
        try:
            fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY)
            try:
                os.write(fd, OOM_SCORE_ADJ)
            finally:
                os.close(fd)
            if message.get("nice"):
                os.setpriority(os.PRIO_PROCESS, pid, message["nice"])
        except OSError:
            pass  # ended already, or a kernel that forbids it; neither is worth a frame
        if message.get("wait", True):
            self.send(wire, {"op": "spawned", "id": key, "pid": pid})
        else:
            self.untold[key] = time.monotonic() + TELL_S

    def tell(self) -> None:
        """Tells of starts that nobody waited for and whose process goes on."""
        now = time.monotonic()
        while self.untold:
            key, due = next(iter(self.untold.items()))
            if due > now:
                return
            del self.untold[key]
            tree = self.trees[key]
            self.send(tree.wire, {"op": "spawned", "id": key, "pid": tree.pid})

    # -- ending -----------------------------------------------------------------------------------

    def reap(self) -> bool:
        """Collects every dead child; False once there are no children at all."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return False
            if pid == 0:
                return True
            tree = self.roots.pop(pid, None)
            if tree is not None:
                tree.returncode = os.waitstatus_to_exitcode(status)
                tree.count_usage(usage)
            elif (owner := self.adopted.pop(pid, None)) is not None:
                owner.count_usage(usage)

    def adopt(self) -> set[Tree]:
        """Says to which tree each orphan of ours belongs; returns the trees that still own one.

        The tag tells, else the session.  One that wiped its environment *and* left its session belongs
        to a tree that was there when it was born: if that leaves one it is settled, else it waits until
        all but one of them ended.
        """
        for pid in proctree.own_children() - self.roots.keys() - self.adopted.keys():
            proc = proctree.read_proc(pid)
            if proc is None:
                continue
            marker = proctree.env_value(pid, proctree.SPAWN_TAG)
            able = [tree for tree in self.trees.values() if tree.born <= proc.start]
            told = [tree for tree in able if tree.marker == marker] or [
                tree for tree in able if tree.pid == proc.session
            ]
            if len(told or able) == 1:
                self.adopted[pid] = (told or able)[0]
            elif not able:  # its tree is gone and reported: nobody's any more
                proctree.kill_hard([proc])
        return set(self.adopted.values())

    def advance(self, woken: bool) -> None:
        """Moves every tree that is ending one step on, and reports those that are gone.

        Any living descendant has an ancestor that is our child (we are the subreaper), so a tree is gone
        exactly when its first process is reaped and no child of ours belongs to it: one short read of
        the kernel's list, no scan, when nothing is left over.
        """
        ending = [
            tree for tree in self.trees.values() if tree.phase != RUNNING or tree.returncode is not None
        ]
        if not ending:
            return
        for _ in range(50):
            owners = set() if self.childless else self.adopt()
            for tree in ending:
                if tree.returncode is not None and tree not in owners:
                    self.finish(tree)
            now = time.monotonic()
            ending = [tree for tree in ending if tree.key in self.trees]
            due = [tree for tree in ending if woken or tree.next_look <= now]
            if not due:
                return
            table = proctree.snapshot()
            again = False
            for tree in due:
                again = self.press(tree, table, now) or again
                tree.pause_s = min(tree.pause_s * 1.5, 0.25)
                tree.next_look = now + tree.pause_s
                if now < tree.deadline:
                    tree.next_look = min(tree.next_look, tree.deadline)
            self.reap()
            # Something new turned up under SIGKILL: look again at once, or it keeps ahead of us.
            if not again:
                return
            woken = True

    def press(self, tree: Tree, table: dict[int, proctree.Proc], now: float) -> bool:
        """Signals a tree as its phase asks; True if SIGKILL met processes not seen before."""
        if tree.phase == RUNNING:
            tree.phase, tree.deadline = LINGER, now + LINGER_S
        if tree.phase == LINGER and now >= tree.deadline:
            tree.phase, tree.deadline = TERM, now + LEFTOVER_GRACE_S
        if tree.phase == TERM and now >= tree.deadline:
            tree.phase = KILL
        if tree.phase == LINGER:
            return False
        tops = [pid for pid, owner in self.adopted.items() if owner is tree]
        if tree.returncode is None:
            tops.append(tree.pid)
        living = [table[pid] for pid in proctree.parents_first(table, tops) if table[pid].alive]
        names = {(proc.pid, proc.start) for proc in living}
        if tree.phase == KILL:
            proctree.kill_hard(living)
            fresh = bool(names - tree.killed)
            tree.killed |= names
            tree.signalled |= names
            return fresh
        proctree.end_softly([proc for proc in living if (proc.pid, proc.start) not in tree.signalled])
        tree.signalled |= names
        return False

    def finish(self, tree: Tree) -> None:
        """Reports a tree that is gone."""
        del self.trees[tree.key]
        self.untold.pop(tree.key, None)
        self.send(
            tree.wire,
            {
                "op": "exited",
                "id": tree.key,
                "pid": tree.pid,
                "returncode": tree.returncode,
                "max_rss_kib": tree.max_rss_kib,
                "user_s": tree.user_s,
                "sys_s": tree.sys_s,
                "leftovers": 0 if tree.asked else len(tree.signalled),
                "lost": self.bereft,
            },
        )

    # -- life -------------------------------------------------------------------------------------

    def timeout_ms(self) -> int | None:
        """How long poll may sleep: for ever, unless a tree is ending."""
        looks = [tree.next_look for tree in self.trees.values() if tree.phase != RUNNING]
        if self.untold:
            looks.append(next(iter(self.untold.values())))
        if not looks:
            return None
        return max(0, int((min(looks) - time.monotonic()) * 1000) + 1)

    def run(self) -> None:
        """Serves until the agent or the guard is gone; then kills everything."""
        self.send(self.main, {"op": "hello", "pid": self.me, "name": self.name})
        gc.collect()
        gc.freeze()
        serving = os.getppid() == self.guard_pid
        while serving:
            woken = False
            for fd, event in self.poll.poll(self.timeout_ms()):
                if fd == self.wake:
                    woken = True
                    os.read(self.wake, 4096)
                    serving = serving and os.getppid() == self.guard_pid
                elif fd == self.agent_fd:
                    serving = False
                elif fd in self.wires:
                    serving = self.serve(fd, event) and serving
            if woken:
                self.reap()
            self.advance(woken)
            if self.untold:
                self.tell()
        self.bereft = os.getppid() != self.guard_pid
        destroy_children(self.reap)
        for tree in list(self.trees.values()):
            if tree.returncode is not None:
                self.finish(tree)


def reap_any() -> bool:
    """Collects every dead child; False once there are no children at all."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def destroy_children(reap: Callable[[], bool]) -> None:
    """Kills all descendants of this process at once, and again until none is left."""
    deadline = time.monotonic() + LAST_KILL_S
    pause_s = 0.0005
    me = os.getpid()
    while time.monotonic() < deadline:
        table = proctree.snapshot()
        below = proctree.parents_first(table, [me])
        proctree.kill_hard(table[pid] for pid in below if pid != me and table[pid].alive)
        if not reap():
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.05)


#: Only the closing of the socket ends the supervisor; a terminal's or a service manager's signals do not.
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main(argv: list[str]) -> int:
    """Entry point: ``supervisor_main.py FD AGENT_ID AGENT_PID``."""
    fd, agent_id, agent_pid = int(argv[1]), argv[2], int(argv[3])
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(fd, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard_pid = os.getpid()
    pid = os.fork()
    if pid:
        os.close(fd)
        # Orphans come to the guard only once the supervisor is dead, so the first to be waited for is it.
        while os.waitpid(-1, 0)[0] != pid:
            pass
        destroy_children(reap_any)
        return 0
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    Loop(socket.socket(fileno=fd), agent_id, agent_pid, guard_pid).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
