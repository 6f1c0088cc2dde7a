"""A core with a store, for tests that tell a short story: join, submit, lease, report, look.

Every event is stored and checked (invariants, money); ``restarted`` gives the farm a restart would make.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core import invariants
from farm.core.core import Core
from farm.core.events import (
    ActEvent,
    BeatEvent,
    ByeEvent,
    CheckpointEvent,
    DispatchEvent,
    HelloEvent,
    NodeActEvent,
    ReportEvent,
    RestartEvent,
    SubmitEvent,
    TickEvent,
    VerifiedEvent,
)
from farm.core.outcome import LeaseCommand, Outcome
from farm.core.rows import HistoryRow, JobStateRow, ResultRow, StaleRow
from farm.core.state import Job, Node, Settings, Step
from farm.model.ids import parse_address
from farm.model.jobs import JobSpec, OutputSpec, StepSpec, check_job
from farm.model.outputs import FileFacts, PictureSpec
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.storage.memory import MemoryStore
from tests.support.core_stage import load
from tests.support.core_world import facts
from tests.support.sim_agent import GOOD

LETTERS = "BQRDFSC"
#: 1 USD an hour, so that an hour costs 1_000_000_000.
RATE = 1_000_000_000


def step(name: str = "beauty", frames: str | None = "1-4", *, out: bool = False, **fields: Any) -> StepSpec:
    """A step of the ``command`` renderer, one frame a chunk; with ``out`` it writes pictures."""
    fields.setdefault("chunk", 1)
    fields.setdefault("kind", "per_frame" if frames else "single")
    if out:
        kind = "sequence" if frames else "single"
        fields["outputs"] = (OutputSpec(pattern=f"/out/{name}.####.exr", kind=kind),)  # type: ignore[arg-type]
    return StepSpec(name=name, renderer=fields.pop("renderer", "command"), frames=frames, **fields)


class Rig:
    """The core under test; ``now_us`` starts at 1 000 s."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.store = MemoryStore()
        self.core = Core(self.settings)
        self.now_us = 1_000_000_000
        self.out = Outcome()
        self._entropy = 0

    # -- events --

    def handle(self, event: Any) -> Outcome:
        """Handles, stores and checks one event."""
        self.out = self.core.handle(event)
        self.store.commit(self.out.rows)
        invariants.check(self.core.farm)
        invariants.check_money(self.core.farm)
        return self.out

    def join(
        self,
        name: str = "ant",
        cores: int = 1,
        *,
        running: Any = (),
        pending: Any = (),
        rate: int = RATE,
        ending: bool = False,
        **more: Any,
    ) -> int:
        """An agent says hello; its key is made of its name."""
        key, pool, site = more.pop("key", f"key-{name}"), more.pop("pool", ""), more.pop("site", "local")
        said = (tuple(running), tuple(pending), ending)
        event = HelloEvent(self.now_us, key, facts(name, cores, **more), pool, site, rate, *said)
        reply: Any = self.handle(event).reply
        return int(reply.node_id)

    def submit(self, *steps: StepSpec, **job: Any) -> int:
        """Submits a job, also one that no node can take: most tests look at what it then waits for."""
        force = job.pop("force", True)
        apps = job.pop("apps", tuple("" for _ in steps))
        whole = job.pop("whole", tuple(one.renderer == "whole" for one in steps))
        spec = JobSpec(overcrank_job=1, name="job", steps=steps, user=job.pop("user", "ann"), **job)
        check_job(spec)
        event = SubmitEvent(self.now_us, spec, msgspec.json.encode(spec), apps, whole, force)
        return int(self.handle(event).reply.job)

    def dispatch(self) -> list[LeaseCommand]:
        """Places work; returns the leases."""
        self._entropy += 1
        out = self.handle(DispatchEvent(self.now_us, self._entropy))
        return [command for command in out.commands if isinstance(command, LeaseCommand)]

    def lease(self) -> LeaseCommand:
        """Places work and expects exactly one lease."""
        (lease,) = self.dispatch()
        return lease

    def wait(self, seconds: float, *beating: int) -> Outcome:
        """Time passes; these nodes send a heartbeat at its end; then a tick."""
        self.now_us += int(seconds * 1e6)
        for node in beating:
            self.beat(node)
        return self.handle(TickEvent(self.now_us))

    def beat(self, node: int, missing: tuple[int, ...] = ()) -> Any:
        """A heartbeat; returns what the broker says the node holds."""
        return self.handle(BeatEvent(self.now_us, node, missing)).reply

    def bye(self, node: int) -> Outcome:
        """An agent leaves in order."""
        return self.handle(ByeEvent(self.now_us, node, "it was told to end"))

    def report(
        self,
        lease: LeaseCommand,
        *units: UnitReport,
        closed: bool = True,
        kept: tuple[int, ...] = (),
        **change: Any,
    ) -> Outcome:
        """A report of an attempt, with fields changed as asked."""
        event = ReportEvent(self.now_us, lease.node_id, lease.attempt, lease.nonce, units, closed, kept)
        return self.handle(msgspec.structs.replace(event, **change))

    def done(
        self,
        lease: LeaseCommand,
        *units: int,
        picture: PictureSpec = GOOD,
        elapsed_s: float = 1.0,
        closed: bool = True,
    ) -> Outcome:
        """Units (all of the lease by default) are done, their files verified."""
        files = (FileFacts("/out/x", 1, "00", 0, picture),) if lease.step.spec.outputs else ()
        found = [UnitReport(unit, DONE, "", "", int(elapsed_s * 1e6), files) for unit in units or lease.units]
        return self.report(lease, *found, closed=closed)

    def fail(self, lease: LeaseCommand, failure: str, *units: int, closed: bool = True) -> Outcome:
        """Units (all by default) failed."""
        found = [
            UnitReport(unit, FAILED, failure, f"because of {failure}", 1) for unit in units or lease.units
        ]
        return self.report(lease, *found, closed=closed)

    def release(self, lease: LeaseCommand, *units: int, why: str = "", closed: bool = True) -> Outcome:
        """Units (all by default) are given back unrendered."""
        return self.report(
            lease, *(UnitReport(u, RELEASED, why) for u in units or lease.units), closed=closed
        )

    def verified(self, lease: LeaseCommand, unit: int, picture: PictureSpec) -> list[Any]:
        """A unit asks to be published; returns the commands."""
        event = VerifiedEvent(self.now_us, lease.node_id, lease.attempt, lease.nonce, unit, (picture,))
        return self.handle(event).commands

    def act(
        self,
        action: str,
        address: str,
        value: str = "",
        *,
        who: str = "ann",
        reason: str = "",
        force: bool = False,
    ) -> Any:
        """A user's action; returns the answer."""
        at = parse_address(address)
        event = ActEvent(
            self.now_us, action, at.job, at.step or "", at.frames or "", value, reason, who, force
        )
        return self.handle(event).reply

    def node_act(self, action: str, node: int, reason: str = "") -> Any:
        """A user's action on a node."""
        return self.handle(NodeActEvent(self.now_us, action, node, reason, "wim")).reply

    def checkpoint(self) -> Outcome:
        """A checkpoint."""
        return self.handle(CheckpointEvent(self.now_us))

    def restart(self, *, down_s: float = 0.0, grace_s: float = 60.0) -> None:
        """The broker restarts from what it stored, after ``down_s``; the state must be the same."""
        before = invariants.digest(self.core.farm)
        farm = load(self.store, self.settings)
        assert invariants.digest(farm) == before
        self.core = Core(farm=farm)
        self.now_us += int(down_s * 1e6)
        self.handle(RestartEvent(self.now_us, int(grace_s * 1e6)))

    # -- looking --

    def job(self, number: int = 1) -> Job:
        """A job."""
        return self.core.farm.jobs[number]

    def node(self, number: int) -> Node:
        """A node."""
        return self.core.farm.nodes[number]

    def step(self, address: str) -> Step:
        """A step."""
        at = parse_address(address)
        found = self.job(at.job).step(at.step or "")
        assert found is not None
        return found

    def states(self, address: str = "J1/beauty") -> str:
        """States of a step's units, a letter each (Blocked Queued Running Done Failed Skipped Canceled)."""
        return "".join(LETTERS[state] for state in self.step(address).state)

    def commands(self, kind: type) -> list[Any]:
        """Commands of that kind that the last event gave."""
        return [command for command in self.out.commands if isinstance(command, kind)]

    def told(self) -> list[str]:
        """Reasons the last event stored of jobs and nodes."""
        return [row.reason for row in self.out.rows if isinstance(row, HistoryRow | JobStateRow)]

    def results(self) -> list[ResultRow]:
        """Result rows the last event stored."""
        return [row for row in self.out.rows if isinstance(row, ResultRow)]

    def stale(self) -> list[StaleRow]:
        """Stale rows the last event stored."""
        return [row for row in self.out.rows if isinstance(row, StaleRow)]
