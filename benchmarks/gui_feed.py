"""A farm of any size for a real window, without sockets: what a broker would say, from a thread of its own.

What belongs here: rows, states, figures and logs, and the port that hands them over as the client's own does.
What may not: Qt, and measuring.
"""

from __future__ import annotations

import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from client_gui.net.decoding import GentleCodec
from client_gui.net.mailbox import Mailbox
from client_gui.net.port import (
    Answer,
    Ask,
    Follow,
    Heard,
    Incoming,
    News,
    Outgoing,
    Resync,
    Standing,
    Welcomed,
)
from client_gui.store.farmstore import Link
from client_gui.store.unitcolumns import unpacked
from farm.model.errors import CallError
from farm.protocol.bulk import ColumnsGetMsg, ColumnsMsg, LogGetMsg, LogPageMsg
from farm.protocol.client import (
    AttemptRow,
    AttemptsReply,
    AttemptsReq,
    DeltaMsg,
    FramesReply,
    FramesReq,
    JobRow,
    NodeRow,
    SnapshotMsg,
    StepRow,
)
from farm.protocol.codec import encode
from farm.protocol.common import WelcomeMsg

_STATES = ("running", "queued", "done", "blocked", "failed", "paused")
_USERS = ("ana", "bo", "chen", "dana", "emil", "fay", "gus", "hana")
_PROJECTS = ("ember", "tidewater", "library", "spots")
_KINDS = ("lgt", "fx", "cmp", "anim", "env")
#: Most rows of jobs in a message.
ROWS_MOST = 500
#: How often a client asks whether the broker is there.
_HEARD_S = 2.0
#: Frames in a page of figures.
_PAGE = 100_000
_NOW_US = time.time_ns() // 1000


def _urgent(message: Incoming) -> bool:
    return not isinstance(message, News) or isinstance(message.message, SnapshotMsg)


def step_row(frames: int, done: int) -> StepRow:
    """A step of so many frames."""
    running = min(40, frames - done)
    counts = (0, frames - done - running, running, done, 0, 0, 0)
    return StepRow(
        name="beauty", kind="render", renderer="blender", state="running", frames=f"1-{frames}", units=frames,
        counts=counts, mean_frame_s=41.5, attempts=done, able=True, expected_frame_s=40.0,
    )  # fmt: skip


def job_row(job: int, *, frames: int = 0, turn: int = 0) -> JobRow:
    """A job; another ``turn`` has other progress, state and cost."""
    units = frames or 50 + job * 37 % 400
    done = (job * 13 + turn * 7) % units
    low_us = _NOW_US + (job * 7919 % 86_400) * 1_000_000
    return JobRow(
        job=job,
        name=f"sh{job // 5 * 10:05d}_{_KINDS[job % 5]}_v{job % 31:03d}",
        user=_USERS[job * 7 % len(_USERS)],
        project=_PROJECTS[job * 3 % len(_PROJECTS)],
        priority=job % 101,
        state=_STATES[(job + turn) % len(_STATES)],
        reason="",
        submitted_us=_NOW_US - job * 1_000_000,
        started_us=_NOW_US - job * 500_000,
        ended_us=0,
        units=units,
        done=done,
        failed=job % 11 if job % 4 == 0 else 0,
        running=min(40, units - done),
        spend_nano=(job * 1_000_003 + turn * 977) % 40_000_000_000,
        waste_nano=job * 1009 % 400_000_000,
        steps=(step_row(units, done),),
        eta_low_us=low_us,
        eta_high_us=low_us + 900_000_000,
        cost_low_nano=2_800_000_000,
        cost_high_nano=3_400_000_000,
    )


def node_row(node: int) -> NodeRow:
    """A node that works."""
    return NodeRow(
        node=node, name=f"rack-{node:04d}", host=f"rack-{node:04d}.farm", state="online", enabled=True,
        reason="", pool="gpu" if node % 3 else "render", site="london" if node % 2 else "frankfurt", cores=32,
        cores_free=node % 32, ram_mib=131072, ram_free_mib=65536, gpus=2, gpus_free=node % 3,
        gpu_names=("RTX 6000",) * 2, apps=("blender 4.2.3",), renderers=("blender",),
        running=(f"J{node}/beauty@{node}",), rate_nano_h=2_500_000_000, spent_nano=7_000_000_000,
        idle_nano=1_000_000_000, seen_us=_NOW_US, software="0.1.0", cpu_percent=48.0,
    )  # fmt: skip


def states_of(units: int) -> bytes:
    """States of a step's frames: most are done, some run, few failed."""
    states = np.ones(units, np.uint8)
    states[: units * 6 // 10] = 3
    states[units * 6 // 10 : units * 6 // 10 + units // 500] = 2
    states[:: max(1, units // 199)] = 4
    return states.tobytes()


def log_blocks(size: int) -> Iterator[bytes]:
    """A renderer's log of about so many bytes, in blocks, with an error now and then."""
    line = "14:02:{s:02d} INFO  Fra:1037 Mem:{m}M (Peak 58900.00M) | Time:00:{s:02d}.34 | Sample {n}/512\n"
    block = "".join(line.format(s=n % 60, m=38_000 + n, n=n % 512) for n in range(512)).encode()
    trouble = b"14:03:02 WARNING  texture cache 58.9 GB\n14:03:09 ERROR  std::bad_alloc\n"
    at, errors_at = 0, [int(size * part) for part in (0.1, 0.5, 0.97)]
    while at < size:
        while errors_at and errors_at[0] <= at:
            errors_at.pop(0)
            yield trouble
        yield block
        at += len(block)


class FeedPort:
    """The client's port, with a made-up farm behind it.

    A thread answers and feeds, as the thread with the sockets does: reading messages takes the interpreter's
    lock from the window here as it does there.

    Args:
        jobs: How many there are.
        nodes: How many there are.
        big: Frames of the first jobs, in order; all others are small.
        log: The file that every log is.
    """

    def __init__(
        self, jobs: int, nodes: int = 200, big: tuple[int, ...] = (), log: Path | None = None
    ) -> None:
        self.jobs, self.nodes, self.big = jobs, nodes, big
        self._log = log
        self._in: Mailbox[Incoming] = Mailbox(urgent=_urgent)
        self._todo: queue.SimpleQueue[Outgoing | Callable[[], None] | None] = queue.SimpleQueue()
        self._codec = GentleCodec()
        self._n = 0
        self._topics: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    # -- client_gui.net.port.Port and Wakes --

    def start(self) -> None:
        """Begins."""
        self._thread.start()
        welcome = WelcomeMsg(
            version=1, session=1, farm_name="bench", software="0.1.0", role="wrangler", user="ana"
        )
        self._in.put(Welcomed(welcome, "bench", "127.0.0.1:7460", "bench"))
        self._in.put(Standing(Link.LIVE))

    def post(self, message: Outgoing) -> None:
        """Takes a question."""
        self._todo.put(message)

    def take(self) -> list[Incoming]:
        """All there is."""
        return self._in.take()

    def listen(self, on_mail: Callable[[], None]) -> None:
        """Has somebody called when there is more than changes of the farm."""
        self._in.on_mail = on_mail

    def stop(self, wait_s: float = 3.0) -> bool:
        """Ends."""
        self._in.on_mail = None
        self._todo.put(None)
        if self._thread.is_alive():
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    # -- the thread --

    def _run(self) -> None:
        while (todo := self._next()) is not None:
            if isinstance(todo, Follow):
                self._topics = todo.topics
                self._follow(self._topics)
            elif isinstance(todo, Resync):
                self._follow(self._topics)
            elif isinstance(todo, Ask):
                self._answer(todo)
            elif callable(todo):
                todo()

    def _next(self) -> Outgoing | Callable[[], None] | None:
        """What is to be done next; while that is nothing, the broker says that it is there."""
        while True:
            try:
                return self._todo.get(timeout=_HEARD_S)
            except queue.Empty:
                self._in.put(Heard(900))

    def row(self, job: int) -> JobRow:
        """A job as it is at first; none is kept, since the window's memory is measured in this process."""
        return job_row(job, frames=self.big[job - 1] if job <= len(self.big) else 0)

    def _follow(self, topics: tuple[str, ...]) -> None:
        self._n += 1
        opened = [int(topic[4:]) for topic in topics if topic.startswith("job:")]
        jobs = range(1, self.jobs + 1) if "jobs" in topics else opened
        nodes = range(1, self.nodes + 1) if "nodes" in topics else ()
        snapshot = SnapshotMsg(
            id=1,
            n=self._n,
            jobs=tuple(self.row(job) for job in jobs),
            nodes=tuple(node_row(node) for node in nodes),
            maps={f"J{job}/beauty": states_of(self.row(job).units) for job in opened},
        )
        # There and back, as it would come over the wire; a snapshot of a tenth of a second is read in slices.
        self._in.put(News(self._codec.decode(encode(snapshot)), topics))

    def _answer(self, ask: Ask) -> None:
        body, reply = ask.body, None
        if isinstance(body, ColumnsGetMsg):
            reply = self._columns(body)
        elif isinstance(body, LogGetMsg):
            reply = self._page(body)
        elif isinstance(body, FramesReq):
            reply = FramesReply(id=body.id, steps={})
        elif isinstance(body, AttemptsReq):
            reply = AttemptsReply(id=body.id, attempts=(_attempt(body.address),))
        if reply is None:
            error = CallError("the benchmark's farm does not answer that")
            self._in.put(Answer(ask.number, None, error, 900))
        else:
            self._in.put(Answer(ask.number, reply, None, 900))

    def _columns(self, body: ColumnsGetMsg) -> ColumnsMsg:
        total = self.row(body.job).units
        if body.since:
            return ColumnsMsg(body.id, body.since, total, body.since, 0, 0)
        count = min(_PAGE, total - body.first)
        rng = np.random.default_rng(body.first)
        parts = (
            rng.lognormal(3.0, 0.5, count).astype("<f4"),
            rng.integers(1000, 30_000, count).astype("<i4"),
            np.ones(count, "<u2"),
            rng.integers(1, 200, count).astype("<i4"),
            rng.integers(10_000_000, 90_000_000, count).astype("<i8"),
        )
        data = zlib.compress(b"".join(part.tobytes() for part in parts), 1)
        # Unpacked in this thread, as it is in that of the sockets.
        return unpacked(ColumnsMsg(body.id, 1, total, 0, body.first, count, b"", data))

    def _page(self, body: LogGetMsg) -> LogPageMsg | None:
        if self._log is None:
            return None
        size = self._log.stat().st_size
        offset = body.offset if body.offset >= 0 else max(0, size + body.offset)
        with self._log.open("rb") as file:
            file.seek(offset)
            return LogPageMsg(body.id, offset, size, file.read(body.limit), True)

    # -- feeding --

    def stream(self, rows_s: int, every_s: float = 0.1) -> Stream:
        """Changes so many rows a second from now on."""
        return Stream(self, rows_s, every_s)

    def deltas(self, rows: int, kinds: int = 8) -> list[bytes]:
        """Messages with so many changed rows each, as a broker writes them."""
        found = []
        for turn in range(1, kinds + 1):
            some = (1 + (turn * 7919 + place * 13) % self.jobs for place in range(rows))
            jobs = tuple(job_row(job, turn=turn) for job in dict.fromkeys(some) if job > len(self.big))
            found.append(encode(DeltaMsg(n=0, jobs=jobs)))
        return found

    def give(self, message: bytes) -> int:
        """Reads a message and hands it over as the next one; how many rows it has.  In the feed's thread."""
        delta: Any = self._codec.decode(message)
        self._n += 1
        self._in.put(News(msgspec.structs.replace(delta, n=self._n)))
        return len(delta.jobs)

    def do(self, what: Callable[[], None]) -> None:
        """Has something done in the feed's thread."""
        self._todo.put(what)


class Stream:
    """Changes of rows at a rate, until ended."""

    def __init__(self, port: FeedPort, rows_s: int, every_s: float) -> None:
        self._port = port
        self._every_s = every_s
        # As many messages as a broker would send: it puts 500 rows into one at most.
        self._at_once = -(-round(rows_s * every_s) // ROWS_MOST)
        self._messages = port.deltas(round(rows_s * every_s) // self._at_once, 8 * self._at_once)
        self._ended = threading.Event()
        self.rows = 0
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        turn, due_s = 0, time.perf_counter()
        while not self._ended.wait(max(0.0, due_s - time.perf_counter())):
            due_s += self._every_s
            for _ in range(self._at_once):
                message = self._messages[turn % len(self._messages)]
                turn += 1
                self._port.do(lambda message=message: self._give(message))

    def _give(self, message: bytes) -> None:
        self.rows += self._port.give(message)

    def end(self) -> int:
        """Ends it; how many rows were changed."""
        self._ended.set()
        self._thread.join()
        return self.rows


def _attempt(address: str) -> AttemptRow:
    last = address.rpartition("/")[2]
    frame = int(last) if last.isdecimal() else 1
    return AttemptRow(
        no=frame, attempt=100 + frame, step="J1/beauty", node="rack-0007", kind="render", frames="1",
        started_us=_NOW_US - 600_000_000, ended_us=_NOW_US - 400_000_000, outcome="renderer",
        reason="the renderer crashed", charge_nano=1_000_000, waste_nano=1_000_000,
    )  # fmt: skip
