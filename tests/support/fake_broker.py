"""A broker in memory, for tests of the client and the command line.

It speaks the real messages over an injected link: every request is decoded by the broker's codec, every
reply encoded.  No socket, no thread, no sleep: a link that has nothing to give moves a clock forward.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from farm.core.policies import flat
from farm.model.errors import FarmUnreachable, OvercrankError, UnknownName
from farm.model.frames import FrameRange
from farm.model.ids import parse_address
from farm.model.policy import Policy
from farm.protocol import client as wire
from farm.protocol.agent import ByeMsg
from farm.protocol.bulk import BulkErrorMsg, LogGetMsg, LogPageMsg, PreviewGetMsg, PreviewMsg
from farm.protocol.codec import broker_codec, bulk_in_codec, encode
from farm.protocol.common import HelloMsg, RefusedMsg, RehelloMsg, WelcomeMsg
from farm.sdk.client import Farm

T0_US = 1_900_000_000_000_000


class Clock:
    """Seconds that move only when somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


class FakeLink:
    """One connection to the fake broker."""

    def __init__(self, broker: FakeBroker, handle: Callable[[FakeLink, bytes], None]) -> None:
        self.connections = 1
        self.closed = False
        self.known = False
        self.inbox: deque[bytes] = deque()
        self._broker = broker
        self._handle = handle

    def send(self, body: bytes) -> bool:
        assert not self.closed
        if not self._broker.up:
            return False
        self._handle(self, body)
        return True

    def recv(self, timeout_s: float | None = 0.0) -> bytes | None:
        assert not self.closed
        # A look (0 s) is no wait.
        if not self.inbox and timeout_s and self._broker.script:
            self._broker.script.popleft()(self)
        if self.inbox:
            return self.inbox.popleft()
        assert timeout_s is not None, "a test must not wait for ever"
        self._broker.clock.wait(timeout_s)
        return None

    def wait_up(self, timeout_s: float) -> None:
        if not self._broker.up:
            self._broker.clock.wait(timeout_s)
            raise FarmUnreachable("nothing answers at 127.0.0.1:7460")

    def close(self, linger_s: float = 0.0) -> None:
        self.closed = True

    def put(self, message: msgspec.Struct) -> None:
        """The broker sends this."""
        self.inbox.append(encode(message))

    def drop(self) -> None:
        """The connection is lost and comes back: the broker knows nothing of the new one."""
        self.inbox.clear()
        self.connections += 1
        self.known = False


class FakeBroker:
    """State and answers.

    Attributes:
        requests: Every request that was taken, in order.
        script: Steps done one by one when the client waits and nothing is there.
        up: Whether anybody answers.
        silent: Types of requests that get no answer.
        refuse: What answers a hello, instead of a welcome.
        errors: Errors raised for request types.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.requests: list[Any] = []
        #: Sessions that ended with a word.
        self.goodbyes = 0
        self.script: deque[Callable[[FakeLink], None]] = deque()
        self.up = True
        self.silent: set[type] = set()
        self.refuse: RefusedMsg | None = None
        self.errors: dict[type, OvercrankError] = {}
        self.jobs: dict[int, wire.JobRow] = {}
        self.specs: dict[int, bytes] = {}
        self.units: dict[tuple[int, str], list[wire.FrameRow]] = {}
        self.attempts: list[wire.AttemptRow] = []
        self.history: list[wire.HistoryRow] = []
        self.nodes: list[wire.NodeRow] = []
        self.keys: list[wire.KeyRow] = []
        self.spend: list[wire.SpendLine] = []
        #: What an action says was lost.
        self.lost_core_us = 0
        self.warnings: tuple[str, ...] = ()
        self.policy = Policy()
        self.limits: tuple[wire.LimitRow, ...] = ()
        #: Fields of the answer to why by address, or by name of a node.
        self.why: dict[str, dict[str, Any]] = {}
        self.role = "admin"
        self.estimated: dict[str, Any] = {"frames": 0}
        self.tokens: dict[str, int] = {}
        self.logs: dict[tuple[int, str, int], tuple[bytes, bool]] = {}
        self.previews: dict[tuple[int, str, int], bytes] = {}
        self.links: list[FakeLink] = []
        self.delta_n = 0
        self._codec = broker_codec()
        self._bulk_codec = bulk_in_codec()

    def farm(self, **options: Any) -> Farm:
        """A client of this broker."""
        options = {"timeout_s": 10.0, "name": "local", "place": "127.0.0.1:7460"} | options
        return Farm(
            self.link(),
            lambda: FakeLink(self, self._on_bulk),
            clock=self.clock,
            pause=self.clock.wait,
            **options,
        )

    def link(self) -> FakeLink:
        """A connection to the control socket."""
        made = FakeLink(self, self._on_control)
        self.links.append(made)
        return made

    def delta(self, link: FakeLink, **fields: Any) -> None:
        """Sends the next delta."""
        self.delta_n += 1
        link.put(wire.DeltaMsg(n=self.delta_n, **fields))

    def _on_control(self, link: FakeLink, body: bytes) -> None:
        message: Any = self._codec.decode(body)
        if isinstance(message, HelloMsg):
            if self.refuse is not None:
                link.put(self.refuse)
                return
            link.known = True
            self.delta_n = 0
            link.put(
                WelcomeMsg(
                    version=message.newest,
                    session=7,
                    farm_name="local",
                    software="0.1.0",
                    role=self.role,
                    user="kim",
                )
            )
            return
        if not link.known:
            link.put(RehelloMsg())
            return
        if isinstance(message, ByeMsg):
            link.known = False
            self.goodbyes += 1
            return
        self.requests.append(message)
        if type(message) in self.silent:
            return
        try:
            if type(message) in self.errors:
                raise self.errors[type(message)]
            reply = getattr(self, "_on_" + type(message).__name__)(message)
        except OvercrankError as error:
            reply = wire.ErrorReply(id=message.id, code=error.code, message=error.message, hint=error.hint)
        link.put(reply)

    # -- replies -------------------------------------------------------------------------------------

    def _job(self, number: int) -> wire.JobRow:
        if number not in self.jobs:
            raise UnknownName(f"there is no job J{number}")
        return self.jobs[number]

    def _on_SubmitReq(self, request: wire.SubmitReq) -> Any:  # noqa: N802
        token = msgspec.json.decode(request.job).get("token", "")
        again = token in self.tokens
        number = self.tokens.setdefault(token, len(self.tokens) + 1)
        self.specs[number] = request.job
        return wire.SubmitReply(id=request.id, job=number, warnings=self.warnings, again=again)

    def _on_EstimateReq(self, request: wire.EstimateReq) -> Any:  # noqa: N802
        return wire.EstimateReply(id=request.id, **self.estimated)

    def _on_PolicyReq(self, request: wire.PolicyReq) -> Any:  # noqa: N802
        whole = msgspec.json.encode(self.policy)
        return wire.PolicyReply(id=request.id, values=flat(self.policy), whole=whole, limits=self.limits)

    def _on_PolicySetReq(self, request: wire.PolicySetReq) -> Any:  # noqa: N802
        return wire.ActReply(id=request.id, changed=len(request.values) or 1, message="the policy is so now")

    def _on_JobsReq(self, request: wire.JobsReq) -> Any:  # noqa: N802
        rows = [
            row
            for row in sorted(self.jobs.values(), key=lambda row: -row.job)
            if (not request.states or row.state in request.states)
            and (not request.user or row.user == request.user)
            and (not request.before or row.job < request.before)
            and (request.archived or not row.archived)
        ]
        return wire.JobsReply(
            id=request.id, jobs=tuple(rows[: request.limit]), more=len(rows) > request.limit
        )

    def _on_JobReq(self, request: wire.JobReq) -> Any:  # noqa: N802
        spec = self.specs.get(request.job, b"") if request.spec else b""
        return wire.JobReply(id=request.id, job=self._job(request.job), spec=spec)

    def _on_FramesReq(self, request: wire.FramesReq) -> Any:  # noqa: N802
        address = parse_address(request.address)
        self._job(address.job)
        wanted = FrameRange.parse(address.frames) if address.frames else None
        rows = [
            (step, row)
            for (job, step), units in self.units.items()
            for row in units
            if job == address.job
            and address.step in (None, step)
            and (wanted is None or row.frame in wanted)
            and (not request.states or row.state in request.states)
        ]
        page = rows[request.offset : request.offset + request.limit]
        steps: dict[str, list[wire.FrameRow]] = {}
        for step, row in page:
            steps.setdefault(step, []).append(row)
        return wire.FramesReply(
            id=request.id,
            steps={step: tuple(units) for step, units in steps.items()},
            more=len(rows) > request.offset + request.limit,
        )

    def _on_AttemptsReq(self, request: wire.AttemptsReq) -> Any:  # noqa: N802
        address = parse_address(request.address)
        rows = [row for row in self.attempts if address.step in (None, row.step)]
        return wire.AttemptsReply(id=request.id, attempts=tuple(rows[: request.limit]))

    def _on_HistoryReq(self, request: wire.HistoryReq) -> Any:  # noqa: N802
        return wire.HistoryReply(id=request.id, rows=tuple(self.history[: request.limit]))

    def _on_ActReq(self, request: wire.ActReq) -> Any:  # noqa: N802
        self._job(parse_address(request.address).job)
        message = f"{request.address} {request.action} {request.value}".strip()
        return wire.ActReply(id=request.id, changed=1, message=message, lost_core_us=self.lost_core_us)

    def _on_NodesReq(self, request: wire.NodesReq) -> Any:  # noqa: N802
        return wire.NodesReply(id=request.id, nodes=tuple(self.nodes))

    def _on_NodeActReq(self, request: wire.NodeActReq) -> Any:  # noqa: N802
        if all(row.name != request.node for row in self.nodes):
            raise UnknownName(f"there is no node {request.node!r}")
        return wire.ActReply(id=request.id, changed=1, message=f"{request.node}: {request.action}")

    def _on_SpendReq(self, request: wire.SpendReq) -> Any:  # noqa: N802
        total = wire.SpendLine(
            key="",
            total_nano=sum(line.total_nano for line in self.spend),
            useful_nano=sum(line.useful_nano for line in self.spend),
            waste_nano=sum(line.waste_nano for line in self.spend),
            idle_nano=sum(line.idle_nano for line in self.spend),
            busy_s=sum(line.busy_s for line in self.spend),
            frames=sum(line.frames for line in self.spend),
        )
        return wire.SpendReply(id=request.id, by=request.by, lines=tuple(self.spend), total=total)

    def _on_StatusReq(self, request: wire.StatusReq) -> Any:  # noqa: N802
        return wire.StatusReply(
            id=request.id,
            farm_name="local",
            farm_id="f00d",
            software="0.1.0",
            up_s=3725.0,
            jobs={"running": 1, "done": 2},
            units={"queued": 40, "running": 2, "done": 58},
            nodes={"online": 1},
            spend_nano=1_234_567_890,
            burn_nano_h=500_000_000,
            alerts=("budget of project film: 80 % spent",),
        )

    def _on_WhyReq(self, request: wire.WhyReq) -> Any:  # noqa: N802
        if request.node:
            if all(row.name != request.node for row in self.nodes):
                raise UnknownName(f"there is no node {request.node!r}")
        else:
            address = parse_address(request.address)
            steps = [step.name for step in self._job(address.job).steps]
            if address.step not in (None, *steps):
                raise UnknownName(f"J{address.job} has no step {address.step!r}")
        return wire.WhyReply(id=request.id, **self.why[request.node or request.address])

    def _on_KeysReq(self, request: wire.KeysReq) -> Any:  # noqa: N802
        if request.action == "keys-invite":
            return wire.KeysReply(id=request.id, token="ovc1-abc")
        if request.action == "keys-revoke":
            return wire.KeysReply(
                id=request.id, keys=tuple(row for row in self.keys if row.label == request.key)
            )
        return wire.KeysReply(id=request.id, keys=tuple(self.keys))

    def _on_SubscribeReq(self, request: wire.SubscribeReq) -> Any:  # noqa: N802
        self.delta_n += 1
        jobs = [
            row
            for row in self.jobs.values()
            if "jobs" in request.topics or f"job:{row.job}" in request.topics
        ]
        nodes = self.nodes if "nodes" in request.topics else []
        return wire.SnapshotMsg(id=request.id, n=self.delta_n, jobs=tuple(jobs), nodes=tuple(nodes))

    def _on_ShutdownReq(self, request: wire.ShutdownReq) -> Any:  # noqa: N802
        return wire.OkReply(id=request.id)

    def _on_bulk(self, link: FakeLink, body: bytes) -> None:
        message: Any = self._bulk_codec.decode(body)
        self.requests.append(message)
        if isinstance(message, PreviewGetMsg):
            data = self.previews.get((message.job, message.step, message.unit), b"")
            link.put(PreviewMsg(id=message.id, data=data))
            return
        assert isinstance(message, LogGetMsg)
        found = self.logs.get((message.job, message.step, message.no))
        if found is None:
            link.put(
                BulkErrorMsg(
                    id=message.id,
                    code="unknown",
                    reason=f"J{message.job}/{message.step} has no attempt {message.no}",
                )
            )
            return
        text, ended = found
        start = max(0, len(text) + message.offset) if message.offset < 0 else min(message.offset, len(text))
        data = text[start : start + message.limit]
        link.put(LogPageMsg(id=message.id, offset=start, size=len(text), data=data, ended=ended))


# -- rows --------------------------------------------------------------------------------------------


def step_row(
    name: str = "beauty", counts: Sequence[int] = (0, 2, 1, 6, 1, 0, 0), **fields: Any
) -> wire.StepRow:
    """A step of ten frames."""
    made: dict[str, Any] = {
        "name": name,
        "kind": "per_frame",
        "renderer": "blender",
        "state": "running",
        "frames": "1-10",
        "units": sum(counts),
        "counts": tuple(counts),
        "mean_frame_s": 12.5,
        "attempts": 4,
    }
    return wire.StepRow(**(made | fields))


def job_row(job: int = 12, **fields: Any) -> wire.JobRow:
    """A running job."""
    made: dict[str, Any] = {
        "job": job,
        "name": "shot010",
        "user": "kim",
        "project": "film",
        "priority": 50,
        "state": "running",
        "reason": "",
        "submitted_us": T0_US,
        "started_us": T0_US + 1_000_000,
        "ended_us": 0,
        "units": 10,
        "done": 6,
        "failed": 1,
        "running": 1,
        "spend_nano": 1_234_567,
        "waste_nano": 234_567,
        "steps": (step_row(),),
    }
    return wire.JobRow(**(made | fields))


def node_row(name: str = "ws-12", **fields: Any) -> wire.NodeRow:
    """An idle workstation."""
    made: dict[str, Any] = {
        "node": 3,
        "name": name,
        "host": name,
        "state": "online",
        "enabled": True,
        "reason": "",
        "pool": "gpu",
        "site": "local",
        "cores": 16,
        "cores_free": 12,
        "ram_mib": 65536,
        "ram_free_mib": 32768,
        "gpus": 2,
        "gpus_free": 1,
        "gpu_names": ("RTX 6000", "RTX 6000"),
        "apps": ("blender 4.2.0",),
        "renderers": ("blender", "command", "stitch"),
        "running": ("J12/beauty@7",),
        "rate_nano_h": 500_000_000,
        "spent_nano": 2_000_000_000,
        "idle_nano": 1_000_000_000,
        "seen_us": T0_US,
        "software": "0.1.0",
        "cpu_percent": 25.0,
    }
    return wire.NodeRow(**(made | fields))
