"""Drives a core with a simulated farm and checks every promise after every event.

What belongs here: the operations a farm may go through (each takes a ``random.Random`` for its choices), the
delivery of messages (late, twice, out of order, from the wrong one), restarts of the broker from what was
stored.  The judge is ``tests.support.core_truth``, the agents ``tests.support.sim_agent``; hypothesis
and the long runner both drive this class.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from farm.core import invariants
from farm.core.checkpoint import restore, restore_shelved
from farm.core.core import Core
from farm.core.events import (
    ActEvent,
    BeatEvent,
    ByeEvent,
    CheckpointEvent,
    DeleteEvent,
    DispatchEvent,
    HelloEvent,
    NodeActEvent,
    PolicyEvent,
    ReportEvent,
    RestartEvent,
    SubmitEvent,
    TickEvent,
    VerifiedEvent,
)
from farm.core.outcome import DiscardCommand, GrantCommand, LeaseCommand, Outcome, StopCommand
from farm.core.rows import ShelfRow
from farm.core.state import Farm, Settings, Step
from farm.model.errors import CallError
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec
from farm.model.policy import Policy, TailRule
from farm.model.reports import UnitReport
from farm.model.states import AttemptKind, NodeState, UnitState
from farm.protocol.session import BrokerSession, never_arrived
from farm.storage.memory import MemoryStore
from tests.support.core_needs import verdicts
from tests.support.core_truth import Truth, must
from tests.support.core_world import fleet, make_job, moment
from tests.support.sim_agent import ASKING, FAILURES, PUBLISHED, READY, TODO, Disk, Held, Report, SimAgent

GRACE_US = 60_000_000
RATES = (0, 1, 500_000_000, 3_333_333_333)
#: A restart of the broker in the list of events, so that the list can be replayed.
RESTART = "restart"


def load(store: MemoryStore, settings: Settings) -> Farm:
    """The farm as the store remembers it."""
    stored = store.load()
    return restore(settings, stored, store.replay(stored.after))


class Driver:
    """A farm under test.

    Attributes:
        core, store: What is driven; a broker's restart replaces the core by one restored from the store.
        truth: The judge.
        events: Everything handled so far, restarts included.
        last: The latest operations in words, for the report of a failure.
        broken: A promise was broken; nothing after that means anything.
    """

    def __init__(
        self, rng: random.Random, *, agents: int = 5, keep_events: bool = True, check_every: int = 1
    ) -> None:
        # Jobs leave memory after minutes of the farm's own time, so that a short history has some that do.
        self.settings = Settings(archive_after_us=rng.choice((0, 20_000_000, 60_000_000)))
        self.store = MemoryStore()
        self.core = Core(self.settings)
        self.truth = Truth()
        self.disk = Disk()
        self.now_us = 1_700_000_000_000_000
        self.agents = [
            SimAgent(key, facts, self.disk, pool=pool, site=site) for key, facts, pool, site in fleet()
        ]
        del self.agents[agents:]
        for agent in self.agents:
            agent.flaky = rng.choice((0.05, 0.2, 0.2, 0.8))
        self.sessions: dict[str, BrokerSession] = {}
        self.wires: dict[str, deque[tuple[int, int, list[Any]]]] = {
            agent.key: deque() for agent in self.agents
        }
        self.events: list[Any] = []
        self.keep_events = keep_events
        self.handled = 0
        self.delivered: deque[ReportEvent] = deque(maxlen=50)
        self.last: deque[Any] = deque(maxlen=40)
        #: The core's own invariants are checked after every so many events; the judge looks at every one.
        self.check_every = check_every
        self.cooperative = False
        self.broken = False
        self.tokens: dict[tuple[str, str], int] = {}
        self.last_job = 0
        self._sessions_made = 0
        if rng.random() < 0.7:
            # Second copies and split chunks come early, so that a short history has many.
            eager = Policy(tail=TailRule(straggler=1.1, least_s=2.0))
            self.handle(PolicyEvent(self.now_us, eager, "", "wim"))

    # -- the core --

    def handle(self, event: Any) -> Outcome | None:
        """Handles one event and judges what came of it; None when it was refused."""
        self.handled += 1
        if self.keep_events:
            self.events.append(event)
        self.last.append(event)
        asks = isinstance(event, SubmitEvent | ActEvent | NodeActEvent | DeleteEvent)
        thorough = self.handled % self.check_every == 0
        before = invariants.digest(self.core.farm) if asks and thorough else ""
        self.broken = True
        try:
            out = self.core.handle(event)
        except CallError as error:
            must(asks, f"{event!r} was refused: {error}")
            same = not thorough or invariants.digest(self.core.farm) == before
            must(same, f"a refused call changed something: {error}")
            self.truth.seen["refused"] += 1
            self.broken = False
            return None
        self.store.commit(out.rows)
        farm = self.core.farm
        if thorough:
            invariants.check(farm)
            invariants.check_money(farm)
        self.truth.judge(event, out, farm)
        self.broken = False
        self._send(out)
        return out

    def _send(self, out: Outcome) -> None:
        by_node: dict[int, list[Any]] = {}
        for command in out.commands:
            by_node.setdefault(command.node_id, []).append(command)
        for agent in self.agents:
            commands = by_node.get(agent.node_id) if agent.node_id else None
            session = self.sessions.get(agent.key)
            if not commands or session is None:
                continue
            n = session.next_batch()
            for command in commands:
                if isinstance(command, LeaseCommand):
                    session.leases[command.attempt] = n
            self.wires[agent.key].append((session.session, n, commands))

    def restored(self) -> Farm:
        """The farm as a restart would make it now, which must be the one that wrote the rows."""
        farm = load(self.store, self.settings)
        must(
            invariants.digest(farm) == invariants.digest(self.core.farm),
            "a restart would not give the same farm",
        )
        return farm

    def restart_broker(self, rng: random.Random) -> None:
        """The broker ends (perhaps after a checkpoint) and comes back from what it stored."""
        if rng.random() < 0.3:
            self.handle(CheckpointEvent(self.now_us))
        farm = self.restored()
        self.store.close()
        self.store = MemoryStore(self.store.disk)
        self.core = Core(farm=farm)
        if self.keep_events:
            self.events.append(RESTART)
        self.last.append(RESTART)
        self.sessions.clear()
        for agent in self.agents:
            agent.session = 0
            self.wires[agent.key].clear()
        self.now_us += rng.choice((0, 1_000_000, 100_000_000))
        self.truth.restarted(self.now_us, GRACE_US)
        self.truth.granted.clear()
        self.handle(RestartEvent(self.now_us, GRACE_US))
        self.truth.seen["restarts"] += 1

    # -- operations --

    def step(self, rng: random.Random) -> None:
        """One random operation, likely ones more often; placing follows as in the broker's loop."""
        name = rng.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        getattr(self, name)(rng)
        if rng.random() < 0.7:
            self.dispatch(rng)
        if rng.random() < 0.5:
            for agent in self.agents:
                self._deliver(agent)

    def submit(self, rng: random.Random) -> None:
        """A job arrives; now and then with a token or files that are taken."""
        spec: JobSpec = make_job(rng, self)
        apps = tuple("blender" if step.renderer == "blender" else "" for step in spec.steps)
        whole = tuple(step.renderer == "whole" for step in spec.steps)
        known = self.tokens.get((spec.user, spec.token)) if spec.token else None
        force = rng.random() < 0.8
        out = self.handle(SubmitEvent(self.now_us, spec, msgspec.json.encode(spec), apps, whole, force))
        if out is not None:
            must(out.reply.again == (known is not None), "a known token made a second job")
            must(known is None or out.reply.job == known, "a known token gave another job")
            self.tokens[spec.user, spec.token] = out.reply.job
            must(out.reply.again or out.reply.job > self.last_job, "a number was given twice")
            self.last_job = max(self.last_job, out.reply.job)

    def dispatch(self, rng: random.Random) -> None:
        """Work is placed."""
        self.handle(DispatchEvent(self.now_us, rng.getrandbits(63)))

    def advance(self, rng: random.Random) -> None:
        """Time passes; who is connected mostly sends a heartbeat."""
        self.now_us += rng.choice((10_000, 1_000_000, 4_000_000, 14_000_000, 20_000_000))
        for agent in self.agents:
            if agent.session and not agent.muted and rng.random() < 0.95:
                self._beat(agent)
        self.handle(TickEvent(self.now_us))

    def hello(self, rng: random.Random) -> None:
        """An agent connects (again)."""
        agent = rng.choice(self.agents)
        rate = rng.choice(RATES) if rng.random() < 0.2 or not agent.node_id else None
        self._hello(agent, rate)

    def _hello(self, agent: SimAgent, rate: int | None = None) -> None:
        self.wires[agent.key].clear()
        node = self.core.farm.nodes.get(agent.node_id)
        if rate is None:
            rate = node.rate_nano_h if node is not None else RATES[2]
        running, pending = tuple(agent.held), tuple({report.attempt: None for report in agent.outbox})
        event = HelloEvent(
            self.now_us, agent.key, agent.facts, agent.pool, agent.site, rate, running, pending
        )
        out = self.handle(event)
        assert out is not None
        agent.node_id = out.reply.node_id
        self._sessions_made += 1
        agent.session = self._sessions_made
        self.sessions[agent.key] = BrokerSession(
            b"", agent.key, 1, agent.session, "agent", "", agent.node_id, leases={}
        )
        # What the hello's outcome had to say was sent before the session existed here: send it now.
        self._send(out)
        agent.got = 0
        for attempt in [number for number in agent.held if number not in out.reply.keep]:
            agent.lose(attempt)
        for attempt, held in list(agent.held.items()):
            for unit, state in held.units.items():
                if state == ASKING:
                    self._ask(agent, attempt, unit)

    def beat(self, rng: random.Random) -> None:
        """One heartbeat."""
        agent = rng.choice(self.agents)
        if agent.session and not agent.muted:
            self._beat(agent)

    def silence(self, rng: random.Random) -> None:
        """An agent stalls, or one that did comes back to itself."""
        agent = rng.choice(self.agents)
        agent.muted = not agent.muted and rng.random() < 0.4

    def stall(self, rng: random.Random) -> None:
        """An agent with verified files is cut off until it is lost, comes back and offers them."""
        busy = [
            a
            for a in self.agents
            if a.session and any({READY, ASKING} & {*h.units.values()} for h in a.held.values())
        ]
        if not busy:
            return
        agent = rng.choice(busy)
        self.wires[agent.key].clear()
        for _ in range(8):
            self.now_us += 10_000_000
            for other in self.agents:
                if other is not agent and other.session and not other.muted:
                    self._beat(other)
            self.handle(TickEvent(self.now_us))
        self._hello(agent)
        for held in list(agent.held.values()):
            agent.report(held, split=False)
        self._send_reports(agent, rng)

    def linger(self, rng: random.Random) -> None:
        """One agent takes very long over what it holds while the others finish all they can."""
        busy = [
            a for a in self.agents if a.session and any(TODO in h.units.values() for h in a.held.values())
        ]
        if not busy:
            return
        slow = rng.choice(busy)
        for _ in range(rng.choice((4, 8))):
            self.now_us += 10_000_000
            for agent in self.agents:
                if not agent.session or agent.muted:
                    continue
                self._deliver(agent)
                self._beat(agent)
                if agent is slow:
                    continue
                for held in list(agent.held.values()):
                    for _ in range(3):
                        for unit in held.units:
                            self._work(agent, held, unit, rng)
                    agent.report(held, split=False)
                self._send_reports(agent, rng)
            self.handle(TickEvent(self.now_us))
            self.dispatch(rng)
        self.truth.seen["lingered"] += 1

    def _beat(self, agent: SimAgent) -> None:
        session = self.sessions[agent.key]
        # A closing report in the outbox goes out before a heartbeat that no longer names its attempt.
        listed = (*agent.held, *{report.attempt for report in agent.outbox} - set(agent.held))
        missing = never_arrived(session, listed, agent.got)
        out = self.handle(BeatEvent(self.now_us, agent.node_id, missing))
        assert out is not None
        if out.reply is None:
            self._hello(agent)
        else:
            agent.answered(self.now_us, listed, out.reply)

    def deliver(self, rng: random.Random) -> None:
        """An agent reads what the broker sent."""
        self._deliver(rng.choice(self.agents))

    def _deliver(self, agent: SimAgent) -> None:
        wire = self.wires[agent.key]
        while wire:
            session, n, commands = wire.popleft()
            if session != agent.session:
                continue
            agent.got = n
            for command in commands:
                if isinstance(command, LeaseCommand):
                    agent.take(command)
                elif isinstance(command, GrantCommand):
                    agent.grant(command.attempt, command.unit, command.reason, command.supersedes)
                elif isinstance(command, StopCommand):
                    agent.stop(command.attempt, command.units, take_back=command.take_back)
                    self.truth.seen["asked-back"] += command.take_back
                elif isinstance(command, DiscardCommand):
                    self.truth.seen["discards"] += 1
                    agent.discard(command.attempt)

    def work(self, rng: random.Random) -> None:
        """A unit on some agent goes on by one stage or several."""
        agent = rng.choice(self.agents)
        for held in list(agent.held.values()):
            for unit in held.units:
                if rng.random() < 0.7:
                    self._work(agent, held, unit, rng)
            if rng.random() < 0.6:
                agent.report(held, split=rng.random() < 0.3)

    def _work(self, agent: SimAgent, held: Held, unit: int, rng: random.Random) -> None:
        state = held.units[unit]
        unwanted = held.stop or unit in held.dropped
        if state == TODO and not unwanted:
            outcome = "good"
            if not self.cooperative and rng.random() < agent.flaky:
                outcome = rng.choice(("odd", "odd", "renderer", "renderer", "oom-ram", "oom-vram", *FAILURES))
            agent.render(held, unit, outcome, rng, self.now_us)
            if held.units[unit] == ASKING:
                self._ask(agent, held.lease.attempt, unit)
        elif state == READY and not unwanted and agent.may_publish(held, self.now_us):
            self._publish(agent, held, unit)
        elif state == PUBLISHED:
            agent.settle_published(held, unit, rng)
        elif state == ASKING and agent.session and rng.random() < 0.2:
            self._ask(agent, held.lease.attempt, unit)

    def _publish(self, agent: SimAgent, held: Held, unit: int) -> None:
        step = held.lease.step
        key = (step.id, unit)
        number = held.lease.attempt
        if not agent.publish(held, unit):
            return
        self.truth.may_publish(number, unit)
        for other in self.truth.leases.values():
            if other.row.id > number and other.row.step_id == step.id and unit in other.units:
                done = other.row.id in self.truth.published.get(key, ())
                verify = other.row.kind == AttemptKind.VERIFY
                must(verify or not done, f"{step.address} {unit}: @{held.lease.no} overwrote a newer file")
        self.truth.published.setdefault(key, []).append(number)
        self.truth.seen["published"] += 1

    def _ask(self, agent: SimAgent, attempt: int, unit: int) -> None:
        if not agent.session:
            return
        held = agent.held[attempt]
        picture = self.disk.folders.get(held.folder, {}).get(unit)
        if picture is not None:
            specs = tuple(
                None if output.kind == "movie" else picture for output in held.lease.step.spec.outputs
            )
            self.handle(VerifiedEvent(self.now_us, agent.node_id, attempt, held.lease.nonce, unit, specs))
            self.truth.seen["asked"] += 1

    def send_reports(self, rng: random.Random) -> None:
        """An agent's outbox goes out: all, some, or in another order; acknowledged or not."""
        self._send_reports(rng.choice(self.agents), rng)

    def _send_reports(self, agent: SimAgent, rng: random.Random) -> None:
        if not agent.session or agent.muted:
            return
        order = list(agent.outbox)
        if rng.random() < 0.1:
            rng.shuffle(order)
        for report in order[: rng.randrange(len(order) + 1)] if rng.random() < 0.3 else order:
            event = self._report_event(agent, report)
            self.handle(event)
            self.delivered.append(event)
            if rng.random() < 0.9:
                agent.outbox.remove(report)

    def _report_event(self, agent: SimAgent, report: Report) -> ReportEvent:
        return ReportEvent(
            self.now_us,
            agent.node_id,
            report.attempt,
            report.nonce,
            report.units,
            report.closed,
            report.kept,
        )

    def echo(self, rng: random.Random) -> None:
        """An old report comes again, or a forged one: another nonce, another node, another attempt."""
        if not self.delivered:
            return
        event = msgspec.structs.replace(rng.choice(self.delivered), now_us=self.now_us)
        live = [lease for lease in self.truth.leases.values() if not lease.over]
        kind = rng.randrange(4)
        if kind == 1:
            number = rng.choice((0, 1 << 40, (1 << 64) - 1, self.core.farm.next_attempt))
            event = msgspec.structs.replace(event, attempt=number)
        elif kind > 1 and live:
            row, units = rng.choice(live).row, rng.choice(live).units
            node, nonce = (row.node_id, row.nonce ^ 1) if kind == 2 else (row.node_id % 5 + 1, row.nonce)
            reports = tuple(UnitReport(unit, rng.choice((1, 2, 3)), "renderer") for unit in units)
            event = ReportEvent(self.now_us, node, row.id, nonce, reports, closed=True, kept=units)
        self.handle(event)

    def cut(self, rng: random.Random) -> None:
        """A line is cut: what was in flight to the agent is lost; perhaps it comes back at once."""
        agent = rng.choice(self.agents)
        agent.session = 0
        self.wires[agent.key].clear()
        self.sessions.pop(agent.key, None)
        if rng.random() < 0.6:
            self._hello(agent)

    def crash(self, rng: random.Random) -> None:
        """An agent's process dies and starts again."""
        agent = rng.choice(self.agents)
        agent.crash()
        self.sessions.pop(agent.key, None)
        self.wires[agent.key].clear()
        if rng.random() < 0.8:
            self._hello(agent)

    def bye(self, rng: random.Random) -> None:
        """An agent leaves in order: it stops everything, reports, says goodbye."""
        agent = rng.choice(self.agents)
        if not agent.session:
            return
        for held in list(agent.held.values()):
            for unit, state in held.units.items():
                if state == PUBLISHED:
                    agent.settle_published(held, unit, rng)
            held.stop = True
            agent.report(held, split=False)
        self.handle(ByeEvent(self.now_us, agent.node_id, "it was told to end"))
        agent.session = 0
        self.sessions.pop(agent.key, None)

    def act(self, rng: random.Random) -> None:
        """A user acts on work."""
        jobs = list(self.core.farm.jobs.values())
        if not jobs:
            return
        busy = [job for job in jobs if any(UnitState.RUNNING in step.state for step in job.steps)]
        job = rng.choice(busy if busy and rng.random() < 0.6 else jobs[-6:])
        action = rng.choice(
            (
                "retry",
                "cancel",
                "pause",
                "resume",
                "resume",
                "cancel",
                "retry",
                "retry",
                "skip",
                "mark-done",
                "priority",
                "archive",
                "eat",
            )
        )
        name, frames, value, low = "", "", "", 0
        wanted = {"retry": (3, 4, 6), "skip": (0, 1, 4), "mark-done": (2, 4), "cancel": (1, 2)}.get(
            action, ()
        )
        likely = [(s, u) for s in job.steps for u, state in enumerate(s.state) if state in wanted]
        step = rng.choice(job.steps)
        if likely and rng.random() < 0.8:
            step, low = rng.choice(likely)
        if action in ("cancel", "retry", "skip", "mark-done") and rng.random() < 0.9:
            name = step.spec.name if rng.random() < 0.95 else "nothing"
            if step.frames is not None and rng.random() < 0.8:
                high = min(step.units, low + rng.randrange(1, 4))
                numbers = [step.frames.frame_at(unit) for unit in range(low, high)]
                frames = ",".join(map(str, numbers if rng.random() < 0.95 else [*numbers, 99]))
        if action == "priority":
            value = rng.choice(("0", "10", "50", "90", "100", "101", "high"))
        before = {one.id: bytes(one.state) for one in job.steps}
        out = self.handle(ActEvent(self.now_us, action, job.id, name, frames, value, "", "ann"))
        if out is not None:
            self.truth.seen[action] += 1
        if out is not None and action == "mark-done":
            for one in [step] if name else job.steps:
                state = before[one.id]
                units: Iterable[int] = range(one.units)
                if frames and one.frames is not None:
                    units = map(one.frames.index_of, FrameRange.parse(frames))
                self.truth.marked.update((one.id, unit) for unit in units if state[unit] != UnitState.DONE)

    def edit(self, rng: random.Random) -> None:
        """A user changes a job or a step: mostly frames, which come and go."""
        jobs = list(self.core.farm.jobs.values())[-8:]
        if not jobs:
            return
        job = rng.choice(jobs)
        step = rng.choice(job.steps)
        values: dict[str, Any] = {}
        name = ""
        if rng.random() < 0.3:
            key = rng.choice(("name", "project", "priority", "start_after", "start_after", "nothing"))
            later = moment(self.now_us + rng.choice((15, 60)) * 1_000_000)
            new = {"project": ("", "film"), "priority": (10, 50, 90, 101), "start_after": ("", later, "soon")}
            values[key] = rng.choice(new.get(key, ("a", "b")))
        else:
            name = step.spec.name
            if step.frames is not None and rng.random() < 0.8:
                values["frames"] = self._other_frames(step, rng)
            if rng.random() < 0.3:
                values["chunk"] = rng.choice(("auto", 1, 2, 0))
            if rng.random() < 0.3:
                values["resources.cores"] = rng.choice((1, 2))
            if rng.random() < 0.2:
                values["resources.ram_mib"] = rng.choice((0, 1_024, 2_048))
            if rng.random() < 0.2 and step.spec.renderer == "command" and not step.resources.gpus:
                values["pools"] = rng.choice(("", "film"))
        text = msgspec.json.encode(values).decode()
        out = self.handle(ActEvent(self.now_us, "set", job.id, name, "", text, "", "ann"))
        if out is not None:
            self.truth.seen["edit"] += 1
            self.truth.seen["frames"] += "frames" in values
            wanted = step.spec.frame_range()
            if "frames" in values and wanted is not None:
                assert step.frames is not None
                for unit, state in enumerate(step.state):
                    idle = state not in (UnitState.DONE, UnitState.SKIPPED, UnitState.CANCELED)
                    must(
                        not idle or step.frames.frame_at(unit) in wanted,
                        f"{step.address} goes on with frames nobody wants",
                    )

    @staticmethod
    def _other_frames(step: Step, rng: random.Random) -> str:
        assert step.frames is not None
        frames = list(step.wanted or step.frames)
        kind = rng.randrange(4)
        if kind == 0:
            frames = [frame for frame in frames if rng.random() < 0.6] or frames[:1]
        elif kind == 1:
            frames += [rng.randrange(-3, 14) for _ in range(rng.randrange(1, 4))]
        elif kind == 2:
            frames = [*step.frames]
        else:
            frames = [*range(rng.randrange(1, 4), rng.randrange(4, 12))]
        return str(FrameRange.from_frames(frames))

    def policy(self, rng: random.Random) -> None:
        """A wrangler changes how the farm shares itself."""
        users = {name: rng.choice((1, 2, 5)) for name in ("ann", "bob") if rng.random() < 0.6}
        projects = {"film": rng.choice((1, 3))} if rng.random() < 0.5 else {}
        policy = msgspec.structs.replace(self.core.farm.policy, users=users, projects=projects)
        self.handle(PolicyEvent(self.now_us, policy, "", "wim"))
        self.truth.seen["policy"] += 1

    def node_act(self, rng: random.Random) -> None:
        """A wrangler acts on a node."""
        action = rng.choice(("node-drain", "node-enable", "node-enable", "node-forget", "node-paint"))
        number = rng.randrange(1, 7)
        out = self.handle(NodeActEvent(self.now_us, action, number, "", "wim"))
        if out is not None and action == "node-forget":
            for agent in self.agents:
                if agent.node_id == number:
                    agent.node_id = agent.session = 0
                    self.sessions.pop(agent.key, None)

    def checkpoint(self, rng: random.Random) -> None:
        """Maps and meters are written."""
        self.handle(CheckpointEvent(self.now_us))
        if rng.random() < 0.5:
            self.restored()

    def shelve(self, rng: random.Random) -> None:
        """A while passes with heartbeats alone; then a checkpoint puts what is at rest into the archive."""
        jobs = [job.id for job in self.core.farm.jobs.values() if job.open_units]
        if jobs and rng.random() < 0.5:
            self.handle(ActEvent(self.now_us, "cancel", rng.choice(jobs), "", "", "", "", "ann"))
        self.now_us += rng.choice((10_000_000, 40_000_000))
        for agent in self.agents:
            if agent.session and not agent.muted:
                self._beat(agent)
        before = set(self.core.farm.jobs)
        out = self.handle(CheckpointEvent(self.now_us))
        assert out is not None
        gone = {row.job_id for row in out.rows if isinstance(row, ShelfRow)}
        must(set(self.core.farm.jobs) == before - gone, "other jobs left memory than rows tell of")
        for number in gone:
            stored = self.store.shelved_job(number)
            assert stored is not None
            shown = restore_shelved(self.core.farm, stored)
            for step in shown.steps.values():
                must(bytes(step.state) == self.truth.maps[step.id], f"{step.address} is not as it was")
        self.truth.seen["shelved"] += len(gone)

    def delete(self, rng: random.Random) -> None:
        """Somebody deletes a job, be it in memory or in the archive."""
        numbers = range(max(1, self.core.farm.next_job - 8), self.core.farm.next_job + 1)
        resting = [job.id for job in self.core.farm.jobs.values() if not job.open_units]
        number = rng.choice(resting if resting and rng.random() < 0.5 else numbers)
        shelf = None if number in self.core.farm.jobs else self.store.shelf(number)
        if number in self.core.farm.shelved.clearing:
            shelf = None  # as the broker does: its row goes with the next checkpoint
        out = self.handle(DeleteEvent(self.now_us, number, "", "ann", shelf))
        if out is None:
            return
        must(number not in self.core.farm.jobs, f"J{number} was deleted and is there")
        self.tokens = {key: known for key, known in self.tokens.items() if known != number}
        self.truth.seen["deleted"] += 1
        if rng.random() < 0.5:
            self.handle(CheckpointEvent(self.now_us))
            must(self.store.shelved_job(number) is None, f"J{number} was deleted and is in the archive")

    def restart(self, rng: random.Random) -> None:
        """The broker restarts."""
        self.restart_broker(rng)

    # -- endings --

    def finish(self, rng: random.Random) -> None:
        """From here on all cooperate: every unit that nobody gave up must get done."""
        self.cooperative = True
        for agent in self.agents:
            agent.muted = False
        for _ in range(400):
            for agent in self.agents:
                if not agent.session:
                    self._hello(agent)
            self._mend(rng)
            self.now_us += 5_000_000
            self.dispatch(rng)
            for agent in self.agents:
                self._deliver(agent)
                self._beat(agent)
                for held in list(agent.held.values()):
                    for _ in range(3):
                        for unit in held.units:
                            self._work(agent, held, unit, rng)
                        self._deliver(agent)
                    agent.report(held, split=False)
                for report in agent.outbox:
                    self.handle(self._report_event(agent, report))
                agent.outbox.clear()
            self.handle(TickEvent(self.now_us))
            if (
                not any(self._open(step) for step in self.core.farm.steps.values())
                and not self.core.farm.verify
                and not self.core.farm.attempts  # a second copy that is not needed is told to stop
            ):
                break
        stuck = [step.address for step in self.core.farm.steps.values() if self._open(step)]
        must(not stuck, f"these never came to rest: {stuck}")
        must(not self.core.farm.attempts, f"attempts were left: {self.core.farm.attempts}")
        must(not self.core.farm.verify, f"requests were left: {self.core.farm.verify}")
        self.restored()

    def _mend(self, rng: random.Random) -> None:
        for node in list(self.core.farm.nodes.values()):
            if not node.enabled and not node.forgotten:
                self.handle(NodeActEvent(self.now_us, "node-enable", node.id, "", "wim"))
        for job in list(self.core.farm.jobs.values()):
            if job.paused and job.open_units:
                self.handle(ActEvent(self.now_us, "resume", job.id, "", "", "", "", "wim"))

    def _open(self, step: Step) -> bool:
        """Whether any unit of a step still has to move."""
        if step.counts[UnitState.QUEUED] or step.counts[UnitState.RUNNING]:
            return True
        if not step.counts[UnitState.BLOCKED]:
            return False
        maps = {one.id: bytes(one.state) for one in self.core.farm.steps.values()}
        blocked = [unit for unit, state in enumerate(step.state) if state == UnitState.BLOCKED]
        return any(
            all(word == "met" for word in verdicts(self.core.farm, step, unit, maps)) for unit in blocked
        )

    def replay(self) -> str:
        """Handles the same events with a new core; returns the digest, which must be the same."""
        store, core = MemoryStore(), Core(self.settings)
        for event in self.events:
            if event == RESTART:
                core = Core(farm=load(store, self.settings))
                continue
            try:
                out = core.handle(event)
            except CallError:
                continue
            store.commit(out.rows)
        must(store.disk.tables == self.store.disk.tables, "the same events gave other rows")
        return invariants.digest(core.farm)

    def online(self) -> int:
        """Nodes that are online."""
        return sum(node.state is NodeState.ONLINE for node in self.core.farm.nodes.values())


#: Operation and how likely it is.
OPERATIONS: dict[str, int] = {
    "work": 40,
    "send_reports": 20,
    "deliver": 10,
    "advance": 14,
    "beat": 6,
    "submit": 5,
    "act": 12,
    "edit": 6,
    "policy": 1,
    "echo": 4,
    "hello": 3,
    "cut": 2,
    "crash": 1,
    "silence": 2,
    "stall": 2,
    "linger": 5,
    "bye": 1,
    "node_act": 2,
    "checkpoint": 2,
    "restart": 1,
    "shelve": 2,
    "delete": 1,
}
Operation = Callable[[Driver, random.Random], None]
