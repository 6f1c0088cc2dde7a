"""Runs one process of an attempt: starts it, reads every line it prints, ends it when told.

What belongs here: one invocation from its scratch files to its exit.  What it may not know: leases, units,
the broker; what the lines mean for the attempt is told through callables.
"""

# Paths are data: their text stays as the job and the renderer say it.
# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH120, PTH123, PTH211

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import select
import shlex
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec

from farm.model.errors import OvercrankError
from farm.model.states import FailureClass
from farm.renderers.base import Invocation, LogEvent, LogParser
from node_agent.lane import Lane
from node_agent.lines import LineSplitter
from node_agent.logs import LogSpool
from node_agent.supervisor import ExitFacts, ProcessHandle, SpawnFailed, SupervisorGone
from node_agent.troubles import WorkTrouble, own_trouble

log = logging.getLogger("overcrank.agent")

_READ = 65536
#: How long the output of a process that was just started is left in its pipe.
QUIET_S = 0.005
#: Start errors that are the machine's fault; any other is the job's.
_NODE_ERRORS = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETIMEDOUT, errno.EIO, errno.EBADF}
)


class Spawner(Protocol):
    """What starts processes: the agent's supervisor, started anew if it died."""

    def take_lane(self) -> Lane:
        """A lane to it that nobody else uses.

        Raises:
            SupervisorGone: There is no supervisor and none can be started.
        """
        ...

    def give_lane(self, lane: Lane) -> None:
        """Takes a lane back; one over which something still runs is closed, which ends that."""
        ...


class Order(msgspec.Struct, frozen=True):
    """Why a process must be ended before its time.

    Attributes:
        failure: Class of failure for what it was at; None when nothing of it is wanted any more.
        reason: In words.
    """

    failure: FailureClass | None
    reason: str


class Ended(msgspec.Struct, frozen=True):
    """How a process ended, the order that ended it, and when (``time.time_ns()``) that was given."""

    facts: ExitFacts
    order: Order | None
    seconds: float
    asked_ns: int = 0


class Process:
    """One running invocation."""

    def __init__(
        self,
        spawner: Spawner,
        spool: LogSpool,
        parser: LogParser,
        *,
        wake_fd: int,
        clear_wake: Callable[[], None],
        on_event: Callable[[LogEvent], None],
        check: Callable[[], Order | None],
        grace_s: float,
        check_by: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Prepares; starts nothing.

        Args:
            spawner: Starts it.
            spool: Takes all it prints.
            parser: Reads its lines.
            wake_fd: Becomes readable when ``check`` should be asked.
            clear_wake: Makes it unreadable again.
            on_event: Takes what the parser finds.
            check: Says whether the process must end, and why.
            grace_s: SIGTERM to SIGKILL.
            check_by: When, of ``time.monotonic()``, ``check`` wants to be asked again at the latest.
        """
        self._spawner = spawner
        self._spool = spool
        self._parser = parser
        self._wake_fd = wake_fd
        self._clear_wake = clear_wake
        self._on_event = on_event
        self._check = check
        self._check_by = check_by
        self._grace_s = grace_s
        self._lines = LineSplitter()
        self._parser_failed = False
        self._limit: tuple[float, Order] | None = None
        self._frame_limit: tuple[float, Order] | None = None
        #: When it was told to end, by ``time.time_ns()``; 0 = it was not.
        self.asked_ns = 0
        #: Bytes it printed so far.
        self.printed = 0
        self._handle: ProcessHandle | None = None

    @property
    def pid(self) -> int:
        """First process of the tree, 0 before it runs."""
        handle = self._handle
        return handle.pid if handle is not None else 0

    def run(
        self,
        invocation: Invocation,
        env: Mapping[str, str],
        more: Mapping[str, str],
        cwd: str,
        tag: str,
        deadline_s: float | None,
    ) -> Ended:
        """Runs it to its end.

        Args:
            invocation: What to run; its files are written already.
            env: Its environment; best the same object for all processes of an attempt.
            more: Variables of this process alone.
            cwd: Working folder.
            tag: Names the attempt in the process's environment.
            deadline_s: ``time.monotonic()`` at which it times out.

        Raises:
            WorkTrouble: It cannot be started.
        """
        started = time.monotonic()
        try:
            lane = self._spawner.take_lane()
        except SupervisorGone as error:
            raise _start_trouble(error) from error
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                os.set_blocking(reader, False)
                handle = self._start(lane, invocation, env, more, cwd, tag, writer)
            finally:
                os.close(writer)
            self._handle = handle
            if deadline_s is not None:
                self.limit(deadline_s, Order(FailureClass.TIMEOUT, "it ran longer than its step allows"))
            try:
                order = self._watch(lane, handle, reader)
            except SpawnFailed as error:  # of which nothing is heard: there is nothing to wait for
                raise _start_trouble(error) from error
            except BaseException:
                lane.kill(0)
                lane.wait()
                raise
            if handle.error is not None:
                raise _start_trouble(handle.error) from handle.error
            facts = handle.facts
            assert facts is not None
            self._read_rest(reader)
        finally:
            self._handle = None
            self._spawner.give_lane(lane)
            os.close(reader)
        return Ended(facts, order, time.monotonic() - started, self.asked_ns)

    def _start(
        self,
        lane: Lane,
        invocation: Invocation,
        env: Mapping[str, str],
        more: Mapping[str, str],
        cwd: str,
        tag: str,
        writer: int,
    ) -> ProcessHandle:
        self._spool.note(f"$ {shlex.join(invocation.argv)}")
        stdin = _stdin_of(invocation)
        try:
            return lane.spawn(invocation.argv, env, more, cwd, tag, writer, stdin)
        except (SpawnFailed, SupervisorGone) as error:
            raise _start_trouble(error) from error
        finally:
            if stdin is not None:
                os.close(stdin)

    def limit(self, deadline_s: float, order: Order) -> None:
        """Ends the process at ``deadline_s`` of ``time.monotonic()``; the earliest limit counts."""
        if self._limit is None or deadline_s < self._limit[0]:
            self._limit = (deadline_s, order)

    def frame_limit(self, limit: tuple[float, Order] | None) -> None:
        """Ends the process at that time instead of the one said before; from the thread that runs it."""
        self._frame_limit = limit

    def _due(self) -> tuple[float, Order] | None:
        limit, frame = self._limit, self._frame_limit
        if limit is None or (frame is not None and frame[0] < limit[0]):
            return frame
        return limit

    def _watch(self, lane: Lane, handle: ProcessHandle, reader: int) -> Order | None:
        """Reads until the whole tree is gone; ends it when the time is up or somebody says so."""
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        poll.register(lane.fd, select.POLLIN)
        # A program that ends at once closes its pipe a moment before its end is told: not to wake up for
        # both, the pipe, which holds 64 KiB, is left alone for the first few milliseconds.
        listening = False
        order: Order | None = None
        while True:
            ready = [
                fd
                for fd, _ in poll.poll(self._pause_ms(handle, listening=listening, ending=order is not None))
            ]
            if lane.fd in ready:
                lane.receive()
                if handle.facts is not None or handle.error is not None:
                    return order
            if self._wake_fd in ready:
                self._clear_wake()
            if not listening:
                listening = True
                poll.register(reader, select.POLLIN)
            if reader in ready and not self._read(reader):
                poll.unregister(reader)
            if order is None:
                order = self._check()
                due = self._due()
                if order is None and due is not None and time.monotonic() >= due[0]:
                    order = due[1]
                if order is not None:
                    self.asked_ns = time.time_ns()
                    self._spool.note(f"ending it: {order.reason}")
                    lane.kill(self._grace_s)

    def _pause_ms(self, handle: ProcessHandle, *, listening: bool, ending: bool) -> int | None:
        """How long to wait for news; None = for ever."""
        if not listening:
            left = QUIET_S
        elif not handle.pid:
            left = handle.start_left_s()
        else:
            left = math.inf
        if not ending:
            due, by = self._due(), self._check_by()
            if due is not None:
                left = min(left, max(0.0, due[0] - time.monotonic()))
            if by is not None:
                left = min(left, max(0.0, by - time.monotonic()))
        # Longer waits than poll() takes are no waits for a deadline anybody will see.
        return None if left == math.inf else min(int(left * 1000) + 1, 1 << 30)

    def _read(self, reader: int) -> bool:
        """Takes what is there; False at the end of the stream."""
        try:
            data = os.read(reader, _READ)
        except BlockingIOError:
            return True
        if not data:
            return False
        self._take(data)
        return True

    def _read_rest(self, reader: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(reader, _READ):
                self._take(data)
        self._feed(self._lines.close())

    def _take(self, data: bytes) -> None:
        self.printed += len(data)
        self._spool.append(data)
        self._feed(self._lines.feed(data))

    def _feed(self, lines: list[str]) -> None:
        for line in lines:
            try:
                for event in self._parser.feed(line):
                    self._on_event(event)
            except Exception as error:  # a third party's parser must not take the agent down
                if not self._parser_failed:
                    self._parser_failed = True
                    self._spool.note(f"the log parser failed on a line: {type(error).__name__}: {error}")
                    log.warning("event=parser-failed error=%r", error)


def _start_trouble(error: OvercrankError) -> WorkTrouble:
    """Whose fault it is that a program cannot be started."""
    node = not isinstance(error, SpawnFailed) or error.errno in _NODE_ERRORS
    return WorkTrouble(FailureClass.NODE if node else FailureClass.CONFIG, error.message)


def _stdin_of(invocation: Invocation) -> int | None:
    if invocation.stdin is None:
        return None
    data = invocation.stdin.encode("utf-8", "surrogateescape")
    handle = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(os.dup(handle), "wb") as file:
        file.write(data)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def prepare_scratch(scratch: str, invocation: Invocation) -> None:
    """Writes an invocation's files and links; only inside the scratch folder.

    Raises:
        WorkTrouble: The renderer asks for a path outside, or the node's disk refuses.
    """
    try:
        for path, text in invocation.write.items():
            inside = _inside(scratch, path)
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            with open(inside, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        for path, target in invocation.link.items():
            inside = _inside(scratch, path)
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(inside)
            os.symlink(target, inside)
        if invocation.claims:
            os.makedirs(_inside(scratch, invocation.claims), exist_ok=True)
        for path in invocation.collect:
            os.makedirs(os.path.dirname(_inside(scratch, path)), exist_ok=True)
    except OSError as error:
        raise own_trouble(error, scratch, "cannot write to") from error


def collect(scratch: str, invocation: Invocation, folders: Collection[str]) -> None:
    """Moves what an invocation left in scratch to the expected paths; what is missing shows later.

    Raises:
        WorkTrouble: The renderer names a target that is not in one of ``folders``, the attempt's own.
        OSError: A disk refuses.
    """
    for source, target in invocation.collect.items():
        inside = _inside(scratch, source)
        if os.path.dirname(target) not in folders:
            raise WorkTrouble(FailureClass.CONFIG, f"the renderer would collect to {target}, not an output")
        try:
            os.rename(inside, target)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.copyfile(inside, target)
            os.unlink(inside)


def _inside(scratch: str, path: str) -> str:
    full = os.path.normpath(os.path.join(scratch, path))
    if not full.startswith(scratch + os.sep):
        raise WorkTrouble(FailureClass.CONFIG, f"the renderer names {path}, not in its scratch folder")
    return full
