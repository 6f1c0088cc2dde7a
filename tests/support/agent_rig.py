"""A broker at message level and an agent joined to it: no sockets, real processes and files.

What belongs here: the far end of an agent's two lines, written from the messages' documentation alone, and
the rig that starts an agent on it.  What it may not know: the agent's inside beyond its constructor.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import OpenImageIO as oiio  # noqa: N813 - the name all its documentation uses

from farm.model.errors import FarmUnreachable
from farm.model.ids import KeyText
from farm.model.outputs import PictureSpec
from farm.model.resources import Resources
from farm.protocol.agent import (
    AgentWelcome,
    BatchMsg,
    BeatAckMsg,
    BeatMsg,
    ByeMsg,
    GrantMsg,
    LeaseMsg,
    OutputPlan,
    ReportMsg,
    StepTemplate,
    StopMsg,
    Timings,
    UnitReport,
    VerifiedMsg,
)
from farm.protocol.bulk import LogAckMsg, LogPutMsg, LogsAckMsg, LogsPutMsg, PreviewPutMsg
from farm.protocol.codec import broker_codec, bulk_in_codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, WelcomeMsg
from farm.renderers.registry import get_renderer
from farm.transport.keyring import KeyEntry, Keyring, Role
from farm.transport.keys import generate_keypair, save_keypair
from farm.transport.poller import Poller, Waker
from farm.transport.server_link import ServerLink
from farm.transport.sockets import recv_nowait, send_nowait
from node_agent.agent import Agent
from node_agent.options import AgentOptions, write_options
from node_agent.outputs import Hooks
from node_agent.plan import Site
from node_agent.probe import HardwareFacts
from tests.support.real import require

PATIENCE_S = 20.0
#: Lease times of the tests: a thirtieth of the farm's.
FAST = Timings(heartbeat_s=0.1, suspect_s=0.5, lost_s=2.0, lease_ttl_s=1.5, kill_grace_s=0.5)


def wait_until(condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Polls a condition until it is true."""
    deadline = time.monotonic() + patience_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {patience_s} s for: {what}"
        time.sleep(0.005)
    return value


class FakeLine:
    """An agent's line whose far end is a function; both ends in this process."""

    def __init__(self, answer: Callable[[FakeLine, bytes], None]) -> None:
        self._answer = answer
        self._news = threading.Condition()
        self._inbox: deque[bytes] = deque()
        self._woken = False
        self._up = True
        self._connections = 1
        self.refusal = ""
        self.dials = 1
        self.closed = False

    @property
    def connections(self) -> int:
        return self._connections

    def send(self, body: bytes) -> bool:
        if not self._up:
            return False
        self._answer(self, body)
        return True

    def recv(self) -> bytes | None:
        with self._news:
            if self.refusal:
                raise FarmUnreachable(self.refusal)
            return self._inbox.popleft() if self._inbox else None

    def trouble(self) -> str:
        return "" if self._up else "the wire is cut"

    def wait(self, timeout_s: float | None) -> None:
        with self._news:
            self._news.wait_for(lambda: self._inbox or self._woken, timeout_s)
            self._woken = False

    def wake(self) -> None:
        with self._news:
            self._woken = True
            self._news.notify_all()

    def reconnect(self) -> None:
        with self._news:
            self.dials += 1
            self._inbox.clear()
            if self._up:
                self._connections += 1
            self._news.notify_all()

    def close(self, linger_s: float = 0.0) -> None:
        self.closed = True

    # -- the test's side --

    def push(self, message: Any) -> None:
        """Sends a message to the agent."""
        with self._news:
            if self._up:
                self._inbox.append(message if isinstance(message, bytes) else encode(message))
                self._news.notify_all()

    def cut(self) -> None:
        """The broker is gone: nothing comes, nothing goes."""
        with self._news:
            self._up = False
            self._inbox.clear()

    def mend(self) -> None:
        """The broker is back, on a new connection."""
        with self._news:
            self._up = True
            self._connections += 1
            self._woken = True
            self._news.notify_all()


class FakeBroker:
    """The far end of an agent's control line.

    Attributes:
        answer_beats: Whether heartbeats are answered.
        ack: Whether reports are acknowledged.
        known: Attempts it counts as the agent's.
    """

    def __init__(self, timings: Timings = FAST, farm_id: str = "farm-1") -> None:
        self.timings = timings
        self.farm_id = farm_id
        self.line = FakeLine(self._on_message)
        self.bulk = FakeLine(self._on_bulk)
        self.changed = threading.Condition()
        self.answer_beats = True
        self.ack = True
        self.refuse = ""
        self.path_rules: tuple[tuple[str, str], ...] = ()
        self.grant: Callable[[VerifiedMsg], str | None] | None = lambda _message: ""
        self.known: set[int] = set()
        self.hellos: list[HelloMsg] = []
        self.beats: list[tuple[float, BeatMsg]] = []
        self.reports: list[ReportMsg] = []
        self.verified: list[VerifiedMsg] = []
        self.byes: list[ByeMsg] = []
        self.logs: dict[int, bytes] = {}
        self.ended_logs: set[int] = set()
        self.previews: list[PreviewPutMsg] = []
        self._decode = broker_codec().decode
        self._decode_bulk = bulk_in_codec().decode
        self._n = 0
        self._attempts = itertools.count(1)

    # -- from the agent --

    def _on_message(self, line: FakeLine, body: bytes) -> None:
        message = self._decode(body)
        with self.changed:
            if isinstance(message, HelloMsg):
                self._hello(message)
            elif isinstance(message, BeatMsg):
                self.beats.append((time.monotonic(), message))
                if self.answer_beats:
                    held = tuple(attempt for attempt in message.held if attempt in self.known)
                    line.push(BeatAckMsg(message.n, held))
            elif isinstance(message, ReportMsg):
                self.reports.append(message)
                if message.closed:
                    self.known.discard(message.attempt)
                if self.ack:
                    self.batch(acks=(message.n,))
            elif isinstance(message, VerifiedMsg):
                self.verified.append(message)
                reason = self.grant(message) if self.grant is not None else None
                if reason is not None:
                    self.batch(grants=(GrantMsg(message.attempt, message.unit, reason),))
            elif isinstance(message, ByeMsg):
                self.byes.append(message)
            self.changed.notify_all()

    def _hello(self, message: HelloMsg) -> None:
        self.hellos.append(message)
        self._n = 0
        if self.refuse:
            self.line.push(RefusedMsg("denied", self.refuse))
            return
        assert message.agent is not None
        keep = {*message.agent.running, *message.agent.pending} & self.known
        self.line.push(
            WelcomeMsg(
                version=1,
                session=len(self.hellos),
                farm_name="test",
                software="test",
                role="agent",
                user="",
                agent=AgentWelcome(
                    node_id=1,
                    farm_id=self.farm_id,
                    timings=self.timings,
                    keep=tuple(sorted(keep)),
                    path_rules=self.path_rules,
                ),
            )
        )

    def _on_bulk(self, line: FakeLine, body: bytes) -> None:
        message = self._decode_bulk(body)
        with self.changed:
            if isinstance(message, LogsPutMsg):
                for short in message.logs:
                    self.logs[short.attempt] = short.data
                    self.ended_logs.add(short.attempt)
                line.push(LogsAckMsg(tuple(LogAckMsg(one.attempt, len(one.data)) for one in message.logs)))
            elif isinstance(message, LogPutMsg):
                have = self.logs.setdefault(message.attempt, b"")
                if message.offset != len(have):
                    line.push(LogAckMsg(message.attempt, len(have), "there is a gap"))
                else:
                    self.logs[message.attempt] = have + message.data
                    if message.end:
                        self.ended_logs.add(message.attempt)
                    line.push(LogAckMsg(message.attempt, len(self.logs[message.attempt])))
            elif isinstance(message, PreviewPutMsg):
                self.previews.append(message)
            self.changed.notify_all()

    # -- to the agent --

    def batch(self, **fields: Any) -> None:
        """Sends a numbered batch."""
        with self.changed:
            self._n += 1
            self.line.push(BatchMsg(self._n, **fields))

    def lease(self, template: StepTemplate, frames: Iterable[int] = (), **fields: Any) -> LeaseMsg:
        """Leases a new attempt; single without frames."""
        frames = tuple(frames)
        attempt = fields.pop("attempt", None) or next(self._attempts)
        lease = LeaseMsg(
            attempt=attempt,
            no=fields.pop("no", attempt),
            nonce=fields.pop("nonce", 0x1234_5678_9ABC_0000 + attempt),
            kind=fields.pop("kind", 0),
            units=fields.pop("units", tuple(range(len(frames))) if frames else (0,)),
            frames=frames,
            template=msgspec.Raw(encode(template)),
            resources=fields.pop("resources", Resources(cores=1)),
            **fields,
        )
        with self.changed:
            self.known.add(attempt)
            self.batch(leases=(lease,))
        return lease

    def stop(self, attempt: int, reason: str = "canceled", **fields: Any) -> None:
        """Stops an attempt or takes units back."""
        self.batch(stops=(StopMsg(attempt, reason, **fields),))

    def lose(self, attempt: int) -> None:
        """Counts the attempt as lost from now on."""
        with self.changed:
            self.known.discard(attempt)

    # -- what the test asks --

    def wait_for(self, condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
        """Waits for a condition on what was received."""
        with self.changed:
            assert self.changed.wait_for(condition, patience_s), (
                f"waited {patience_s} s for: {what}; reports: {self.reports}"
            )
            return condition()

    def closed(self, attempt: int, patience_s: float = PATIENCE_S) -> dict[int, UnitReport]:
        """Waits for an attempt's close; returns the outcomes by unit, each told exactly once."""
        self.wait_for(
            lambda: any(r.closed and r.attempt == attempt for r in self.reports),
            f"the close of attempt {attempt}",
            patience_s,
        )
        return self.units(attempt)

    def units(self, attempt: int) -> dict[int, UnitReport]:
        """Outcomes by unit so far (a report that was sent again counts once)."""
        found: dict[int, UnitReport] = {}
        seen: set[int] = set()
        for report in self.reports:
            if report.attempt != attempt or report.n in seen:
                continue
            seen.add(report.n)
            for unit in report.units:
                assert unit.unit not in found, f"unit {unit.unit} was reported twice"
                found[unit.unit] = unit
        return found

    def log_text(self, attempt: int) -> str:
        """The whole log of a closed attempt."""
        self.wait_for(lambda: attempt in self.ended_logs, f"the log of attempt {attempt}")
        return self.logs[attempt].decode("utf-8", "replace")


class Rig:
    """An agent on a fake broker; a context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        broker: FakeBroker | None = None,
        find: Callable[[str], Any] = get_renderer,
        hooks: Hooks | None = None,
        ram_mib: int = 4096,
        **options: Any,
    ) -> None:
        self.broker = broker or FakeBroker()
        self.options = AgentOptions(
            name="node",
            state_dir=str(folder / "state"),
            control="",
            bulk="",
            key_file="",
            broker_key="",
            preview_px=0,
            **options,
        )
        self.agent = Agent(
            self.options,
            control=self.broker.line,
            bulk=self.broker.bulk,
            planner_site=Site(find=find, slice_cores=2, hooks=hooks or Hooks()),
            hardware=HardwareFacts(cores=2, ram_mib=ram_mib),
        )

    def __enter__(self) -> Rig:
        self.agent.start()
        self.broker.wait_for(lambda: self.broker.beats, "the first heartbeat")
        return self

    def __exit__(self, *error: object) -> None:
        self.agent.force()
        assert self.agent.desk.wait_idle(PATIENCE_S)
        self.agent.close(patience_s=1.0)


def python_step(
    code: str, *arguments: str, outputs: Iterable[str] = (), kind: str = "per_frame", **fields: Any
) -> StepTemplate:
    """A step of the ``command`` renderer that runs Python code; tokens only in the arguments."""
    code = code.replace("{", "{{").replace("}", "}}")
    return StepTemplate(
        job=fields.pop("job", 12),
        step=fields.pop("step", "beauty"),
        kind=kind,
        renderer="command",
        params={"command": [sys.executable, "-S", "-c", code, *arguments]},
        outputs=tuple(
            OutputPlan(pattern, "sequence" if kind == "per_frame" or "####" in pattern else "single")
            for pattern in outputs
        ),
        frames=fields.pop("frames", "1-100" if kind == "per_frame" else ""),
        user="ada",
        project="film",
        **fields,
    )


def make_picture(path: Path, value: float = 0.5, size: tuple[int, int] = (32, 16)) -> Path:
    """Writes a small PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = oiio.ImageSpec(size[0], size[1], 3, "uint8")
    out = oiio.ImageOutput.create(str(path))
    assert out is not None
    assert out.open(str(path), spec)
    rng = np.random.default_rng(int(value * 1000))
    out.write_image(rng.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))
    out.close()
    return path


PNG_SPEC = PictureSpec(width=32, height=16, channels=("R", "G", "B"), formats=("uint8",) * 3)

#: Copies a file to the output: argv source, target.
COPY = "import sys, shutil; shutil.copyfile(sys.argv[1], sys.argv[2])"


def wait_for_file(path: Path) -> str:
    """Code by which a program waits until the test makes a file."""
    return f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)\n"


def programs_run(rig: Rig, count: int = 1) -> None:
    """Waits until so many programs run."""
    attempts = rig.agent._attempts
    wait_until(lambda: sum(1 for a in list(attempts.values()) if a.pid) == count, f"{count} programs run")


def folders_left(folder: Path) -> list[str]:
    """Attempt folders in a destination."""
    return sorted(entry.name for entry in folder.glob(".overcrank-*")) if folder.is_dir() else []


@contextlib.contextmanager
def small_disk(folder: Path, size_kib: int = 1024, options: str = "") -> Iterator[Path]:
    """A file system of its own that is soon full; skips the test where mounting is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = f"size={size_kib}k{options}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", flags, "tmpfs", str(folder)], capture_output=True, check=False
    )
    require(mounted.returncode == 0, "a small disk of its own", "run as root, with mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(folder: Path) -> Path:
    """Fills a disk to the last byte."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
    return filler


class _FarEnd:
    """What a fake broker pushes into, when its agent is at the other end of a real socket."""

    def __init__(self, waker: Waker) -> None:
        self.queue: deque[bytes] = deque()
        self._waker = waker

    def push(self, message: Any) -> None:
        self.queue.append(encode(message))
        self._waker.wake()


class SocketBroker(FakeBroker):
    """The fake broker behind real sockets with real keys, for agents that are processes of their own."""

    def __init__(self, timings: Timings = FAST) -> None:
        super().__init__(timings)
        self.pair = generate_keypair()
        self.agent_pair = generate_keypair()
        keyring = Keyring()
        keyring.add(
            KeyEntry(
                key_id=keyring.allocate_id(), public=KeyText(self.agent_pair.public), role=Role.AGENT, user=""
            )
        )
        self._server = ServerLink(self.pair, keyring, control_port=0, join_port=0, bulk_port=0)
        self._waker = Waker()
        self._over = threading.Event()
        self.line = _FarEnd(self._waker)  # type: ignore[assignment]
        self.bulk = _FarEnd(self._waker)  # type: ignore[assignment]
        self._thread = threading.Thread(target=self._loop, name="socket-broker")

    def options(self, folder: Path, **fields: Any) -> Path:
        """Writes the options file (and key) of an agent of this farm."""
        key = folder / "keys" / "agent.key"
        if not key.exists():
            save_keypair(key, self.agent_pair)
        fields.setdefault("allow_renderers", ("command",))
        path = folder / "agent.json"
        write_options(
            path,
            AgentOptions(
                name="node",
                state_dir=str(folder / "state"),
                control=str(self._server.control_address),
                bulk=str(self._server.bulk_address),
                key_file=str(key),
                broker_key=self.pair.public,
                **fields,
            ),
        )
        return path

    def __enter__(self) -> SocketBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._waker.wake()
        self._thread.join()
        self._server.close()
        self._waker.close()

    def _loop(self) -> None:
        ends = (
            (self._server.control, self.line, self._on_message),
            (self._server.bulk, self.bulk, self._on_bulk),
        )
        poller = Poller([self._server.control, self._server.bulk, self._waker])
        peers: dict[int, bytes] = {}
        while not self._over.is_set():
            poller.wait(1.0)
            self._waker.clear()
            for number, (sock, end, take) in enumerate(ends):
                while (found := recv_nowait(sock)) is not None:
                    peers[number] = found[0]
                    take(end, found[1])
                while end.queue and number in peers:  # type: ignore[attr-defined]
                    send_nowait(sock, peers[number], end.queue.popleft())  # type: ignore[attr-defined]


class AgentProcess:
    """``python -m node_agent`` as a process; ended and reaped whatever happens."""

    def __init__(self, options: Path) -> None:
        self.log = options.with_suffix(".log")
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "node_agent", "--options", str(options)],
                stderr=file,
                stdout=file,
                stdin=subprocess.DEVNULL,
            )

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    def end(self, number: int) -> int:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def text(self) -> str:
        """What it logged."""
        return self.log.read_text()
