"""The virtual clock and the run: events drive agents, they and users drive the core, its commands agents.

What belongs here: order of events, one dispatch after all that happened at one moment (as
``farm.broker.loop`` does after each drain), ticks, heartbeats, faults, the end.  What may not: what agents do
(``farm.sim.agent``), what is measured (``farm.sim.meters``), policies.  Commands the core gains later pass
through ``_obey``; one that is unknown there is an error, not a silence.

Long because the order of a run (what happens at one moment, what follows it) must be read in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import msgspec

from farm.core import invariants
from farm.core.checkpoint import Stored, restore
from farm.core.core import Core
from farm.core.events import (
    BeatEvent,
    CheckpointEvent,
    DispatchEvent,
    NodeActEvent,
    PolicyEvent,
    ReportEvent,
    RestartEvent,
    SubmitEvent,
    TickEvent,
)
from farm.core.outcome import (
    AnyCommand,
    DiscardCommand,
    DrainCommand,
    GrantCommand,
    LeaseCommand,
    Outcome,
    StopCommand,
)
from farm.core.rows import (
    AnyRow,
    CheckpointRow,
    JobRow,
    JobStateRow,
    NodeMapRow,
    PolicyRow,
    ResultRow,
    StepEditRow,
    StepMapRow,
    StepRow,
)
from farm.core.state import Farm, Settings, Step
from farm.model.errors import CallError
from farm.model.policy import Policy
from farm.model.reports import FAILED
from farm.model.states import UnitState, WorkState
from farm.sim.agent import Agent
from farm.sim.faults import NEVER_US, outages, slow_factors
from farm.sim.meters import Meters
from farm.sim.scenario import Scenario
from farm.sim.trace import trace_jobs
from farm.sim.workload import ORIGIN_US, PlannedJob, PlannedNode, PlannedStep, plan_jobs, plan_nodes, stream

_DONE = UnitState.DONE.value
#: A run in which nothing was leased for so long, with nothing more to come, is over.
_STALL_US = 4 * 3600 * 1_000_000
#: Rows a restart needs from the first one on.
_GROUND = (JobRow, StepRow, JobStateRow, StepEditRow, PolicyRow)
#: Jobs in these states have something that may still happen by itself.
_LIVE = (WorkState.RUNNING, WorkState.QUEUED)


class Change(msgspec.Struct, frozen=True):
    """A node's speed from ``at_us`` on; 0 while it is away."""

    at_us: int
    node: int
    speed: float


class _Base:
    """What the broker's disk would hold of a farm, as much as a restart behind a checkpoint needs."""

    def __init__(self) -> None:
        self._ground: list[AnyRow] = []
        self._nodes: dict[int, NodeMapRow] = {}
        self._maps: dict[int, StepMapRow] = {}
        self._checkpoint: CheckpointRow | None = None

    def keep(self, rows: list[AnyRow]) -> None:
        """Stores rows."""
        for row in rows:
            if isinstance(row, _GROUND):
                self._ground.append(row)
            elif type(row) is NodeMapRow:
                self._nodes[row.node_id] = row
            elif type(row) is StepMapRow:
                self._maps[row.step_id] = row
            elif type(row) is CheckpointRow:
                self._checkpoint = row

    def restored(self, core: Core) -> Farm:
        """The farm a restart makes; the last row was a checkpoint's."""
        nodes, maps = list(self._nodes.values()), list(self._maps.values())
        stored = Stored(self._checkpoint, list(self._ground), nodes, maps, core.farm.seq)  # type: ignore[arg-type]
        return restore(core.farm.settings, stored, ())


class Simulation:
    """One run of a scenario.

    Args:
        scenario: What to run.
        seed: Replaces the scenario's.
        watch: Called with every event before the core handles it (a recorder, a test).

    Attributes:
        now_us: Virtual time, microseconds since the epoch.
        serving: The broker is there.
        events: How many events the core has handled.
        changes: Nodes' speeds over time, for the bounds.
        published: (step id, unit) of every frame that was published.
    """

    def __init__(
        self, scenario: Scenario, seed: int | None = None, watch: Callable[[Any], None] | None = None
    ) -> None:
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        timing = scenario.farm
        self.core = Core(
            Settings(
                suspect_us=int(timing.suspect_s * 1e6),
                lost_us=int(timing.lost_s * 1e6),
                chunk_target_us=int(timing.chunk_target_s * 1e6),
            )
        )
        self.nodes: list[PlannedNode] = plan_nodes(scenario, self.seed)
        jobs = plan_jobs(scenario, self.seed)
        if scenario.trace:
            jobs = sorted(jobs + trace_jobs(scenario.trace), key=lambda job: job.at_us)
        self.jobs: list[PlannedJob] = jobs
        self.now_us = ORIGIN_US
        self.end_us = ORIGIN_US + int(scenario.end_s * 1e6)
        self.serving = True
        self.events = 0
        self.lease_ttl_us = int(timing.lease_ttl_s * 1e6)
        self.frame_failure = scenario.faults.frame_failure
        self.agents = [Agent(self, node, stream(self.seed, "trouble", node.index)) for node in self.nodes]
        self.changes: list[Change] = []
        self.published: set[tuple[int, int]] = set()
        self.step_of: dict[int, int] = {}
        self.meters = self._meters()
        self._base = _Base() if scenario.faults.restart else None
        self._watch = watch
        self._handle = self.core.handle
        self._entropy = stream(self.seed, "entropy")
        self._times: dict[int, PlannedStep] = {}
        self._by_id: dict[int, Agent] = {}
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._commands: list[AnyCommand] = []
        self._fresh = False
        self._over = False
        self._to_come = len(self.jobs)
        self._leased_us = ORIGIN_US
        self._check_at = scenario.check_every or NEVER_US
        self._latency_us = int(timing.latency_s * 1e6)

    def _meters(self) -> Meters:
        largest = {
            name: max(getattr(node.facts.total, name) for node in self.nodes)
            for name in ("cores", "ram_mib", "gpus")
        }
        cores = sum(node.facts.total.cores for node in self.nodes)
        projects: dict[str, set[str]] = {}
        for job in self.jobs:
            projects.setdefault(job.spec.project, set()).add(job.spec.user)
        return Meters(cores, largest, projects)

    # -- what agents use --

    def at(self, at_us: int, action: Callable[..., None], *args: Any) -> None:
        """Calls ``action`` at a moment of virtual time; those of one moment as they were asked for."""
        self._order += 1
        heappush(self._heap, (at_us, self._order, action, args))

    def handle(self, event: Any) -> Outcome:
        """Lets the core handle an event; its commands are carried out at the end of this moment."""
        if self._watch is not None:
            self._watch(event)
        out = self._handle(event)
        self.events += 1
        if out.rows:
            self._fresh = True
            self.meters.rows(self.core.farm, out.rows)
            if self._base is not None:
                self._base.keep(out.rows)
        if out.commands:
            self._commands += out.commands
        if self.events >= self._check_at:
            self._check_at = self.events + self.scenario.check_every
            self.check()
        return out

    def report(self, lease: LeaseCommand, event: ReportEvent) -> None:
        """Results reach the broker: what counts is useful, the rest is waste."""
        out = self.handle(event)
        # After a restart of the broker the lease's own step is of the farm before.
        step, meters = self.core.farm.steps[lease.step.id], self.meters
        counted = {
            row.unit
            for row in out.rows
            if type(row) is ResultRow and row.attempt_id == lease.attempt and row.new == _DONE != row.old
        }
        for report in event.units:
            if report.unit in counted:
                self.published.add((step.id, report.unit))
                meters.useful(lease, report.elapsed_us)
            elif report.outcome <= FAILED:
                meters.wasted(lease, report.elapsed_us)
        if event.closed:
            meters.waits.rest(step, self.now_us)
            self.step_of[lease.attempt] = step.id
            if not step.job.open_units and not self._to_come:
                self._over = self._at_rest()

    def times(self, step: Step) -> PlannedStep:
        """Seconds of a step's frames."""
        return self._times[step.id]

    def know(self, agent: Agent, node_id: int) -> None:
        """The broker calls this agent so."""
        agent.node_id = node_id
        self._by_id[node_id] = agent

    def drain(self, agent: Agent) -> None:
        """Its machine will be taken away: no more work for it."""
        if self.core.farm.nodes[agent.node_id].enabled:
            self._node_act(agent, "node-drain")

    def check(self) -> None:
        """Checks the core's invariants.

        Raises:
            Violation: One does not hold: a bug of the core, not of the scenario.
        """
        invariants.check(self.core.farm)
        invariants.check_money(self.core.farm)

    # -- the run --

    def run(self) -> None:
        """Runs to the end: of all work, of the scenario's time, or of hope."""
        self._plan()
        heap, end_us, meters = self._heap, self.end_us, self.meters
        while heap and not self._over:
            now_us = heap[0][0]
            if now_us > end_us:
                self.now_us = meters.now_us = end_us
                break
            self.now_us = meters.now_us = now_us
            while heap and heap[0][0] == now_us:
                _, _, action, args = heappop(heap)
                action(*args)
            self._turn()
        for agent in self.agents:
            for held in list(agent.held.values()):
                meters.end(agent, held.lease)
            for files in agent.kept.values():
                meters.thrown_us += sum(files.values())
        meters.finish(self.core.farm)
        self.check()

    def _plan(self) -> None:
        timing, faults = self.scenario.farm, self.scenario.faults
        if self.scenario.policy != Policy():
            self.handle(PolicyEvent(ORIGIN_US, self.scenario.policy, "of the scenario", "simulator"))
        for agent in self.agents:
            self.at(ORIGIN_US + agent.plan.join_us, self._join, agent)
        for job in self.jobs:
            self.at(ORIGIN_US + job.at_us, self._submit, job)
        for agent in self.agents:
            for from_us, factor in slow_factors(faults, self.seed, agent.plan):
                self.at(ORIGIN_US + from_us, self._slow, agent, factor)
            self._next_outage(agent, outages(faults, self.seed, agent.plan))
        for part in faults.partition:
            cut = [agent for agent in self.agents if not part.nodes or agent.plan.group in part.nodes]
            self.at(ORIGIN_US + int(part.from_s * 1e6), self._cut, cut)
            self.at(ORIGIN_US + int(part.to_s * 1e6), self._heal, cut)
        for restart in faults.restart:
            self.at(ORIGIN_US + int(restart.at_s * 1e6), self._broker_down, restart.down_s)
        self.at(ORIGIN_US + int(timing.tick_s * 1e6), self._tick)
        self.at(ORIGIN_US + int(timing.beat_s * 1e6), self._beats)

    def _turn(self) -> None:
        """One turn of the broker's loop: place once, then send."""
        while self._fresh or self._commands:
            if self._fresh and self.serving:
                self._fresh = False
                # The lease rows of a dispatch are no reason for another one.
                self.handle(DispatchEvent(self.now_us, self._entropy.getrandbits(63)))
                self._fresh = False
            commands, self._commands = self._commands, []
            if not commands:
                break
            for command in commands:
                if type(command) is LeaseCommand:
                    self.meters.leased(command)
                    self._leased_us = self.now_us
            if self._latency_us:
                self.at(self.now_us + self._latency_us, self._obey, commands)
            else:
                self._obey(commands)
        self.meters.look()

    def _obey(self, commands: list[AnyCommand]) -> None:
        for command in commands:
            agent = self._by_id[command.node_id]
            kind = type(command)
            if kind is LeaseCommand:
                agent.take(command)  # type: ignore[arg-type]
            elif not (agent.reachable and agent.greeted):
                continue
            elif isinstance(command, GrantCommand):
                agent.grant(command.attempt, command.unit, command.reason)
            elif isinstance(command, StopCommand):
                agent.stop(command.attempt, command.units, command.take_back)
            elif isinstance(command, DiscardCommand):
                agent.discard(command.attempt)
            elif not isinstance(command, DrainCommand):
                raise AssertionError(f"the simulator knows no {kind.__name__}")

    # -- users and the broker --

    def _submit(self, job: PlannedJob) -> None:
        if not self.serving:
            self.at(self.now_us + 1_000_000, self._submit, job)
            return
        self._to_come -= 1
        try:
            # Forced: the node that could take it may join later, and one that never comes is worth a report.
            out = self.handle(SubmitEvent(self.now_us, job.spec, job.source, job.apps, job.whole, force=True))
        except CallError as error:
            raise type(error)(
                f"the farm refuses {job.spec.name}: {error.message}", hint=error.hint
            ) from error
        made = self.core.farm.jobs[out.reply.job]
        for step, times in zip(made.steps, job.steps, strict=True):
            self._times[step.id] = times
        self.meters.submitted(made)

    def _tick(self) -> None:
        self.at(self.now_us + int(self.scenario.farm.tick_s * 1e6), self._tick)
        if self.serving:
            self.handle(TickEvent(self.now_us))
        if self._to_come or not self._quiet():
            return
        live = any(job.shown() in _LIVE for job in self.core.farm.jobs.values() if job.open_units)
        if not live or self.now_us - self._leased_us > _STALL_US:
            self._over = True

    def _quiet(self) -> bool:
        """Whether nothing runs, as far as broker and agents know."""
        return not self.core.farm.attempts and not any(agent.outbox and agent.alive for agent in self.agents)

    def _at_rest(self) -> bool:
        """Whether all work is over, one way or another."""
        return all(not job.open_units for job in self.core.farm.jobs.values()) and self._quiet()

    def _beats(self) -> None:
        self.at(self.now_us + int(self.scenario.farm.beat_s * 1e6), self._beats)
        now_us, handle = self.now_us, self.handle
        for agent in self.agents:
            if agent.greeted and agent.reachable:
                agent.beat(handle(BeatEvent(now_us, agent.node_id)).reply)

    def _broker_down(self, down_s: float) -> None:
        if not self.serving:
            return
        self._turn()
        self.handle(CheckpointEvent(self.now_us))
        self._commands.clear()
        self.serving = False
        for agent in self.agents:
            agent.greeted = False
        self.at(self.now_us + int(down_s * 1e6), self._broker_up)

    def _broker_up(self) -> None:
        self.serving = True
        if self._base is not None:
            before = invariants.digest(self.core.farm)
            farm = self._base.restored(self.core)
            if invariants.digest(farm) != before:
                raise invariants.Violation("a restart does not give the farm that wrote the rows")
            self.core = Core(farm=farm)
            self._handle = self.core.handle
            self.meters.restarted(farm)
        self.handle(RestartEvent(self.now_us, int(self.scenario.farm.restart_grace_s * 1e6)))
        for agent in self.agents:
            agent.greet()

    # -- machines --

    def _note(self, agent: Agent) -> None:
        speed = agent.speed if agent.alive else 0.0
        self.changes.append(Change(self.now_us, agent.plan.index, speed))

    def _join(self, agent: Agent) -> None:
        agent.alive = True
        self._note(agent)
        agent.greet()
        if agent.node_id and not self.core.farm.nodes[agent.node_id].enabled:
            self._node_act(agent, "node-enable")

    def _node_act(self, agent: Agent, action: str) -> None:
        if self.serving and agent.node_id:
            self.handle(NodeActEvent(self.now_us, action, agent.node_id, "spot notice", "simulator"))

    def _slow(self, agent: Agent, factor: float) -> None:
        agent.factor *= factor
        if agent.alive:
            self._note(agent)

    def _next_outage(self, agent: Agent, rest: Any) -> None:
        outage = next(rest, None)
        if outage is None or ORIGIN_US + outage.down_us > self.end_us:
            return
        down_us = ORIGIN_US + outage.down_us
        if outage.notice_us:
            self.at(max(self.now_us, down_us - outage.notice_us), self._notice, agent, down_us)
            self.at(down_us, self._leave, agent)
        else:
            self.at(down_us, self._crash, agent)
        if outage.up_us < NEVER_US:
            self.at(ORIGIN_US + outage.up_us, self._return, agent, rest)

    def _notice(self, agent: Agent, gone_us: int) -> None:
        if not agent.alive:
            return
        if agent.reachable and agent.greeted:
            self.drain(agent)
        agent.prepare_to_leave(gone_us)

    def _crash(self, agent: Agent) -> None:
        if agent.alive:
            agent.crash()
            self._note(agent)

    def _leave(self, agent: Agent) -> None:
        if agent.alive:
            agent.leave()
            self._note(agent)

    def _return(self, agent: Agent, rest: Any) -> None:
        self._join(agent)
        self._next_outage(agent, rest)

    def _cut(self, agents: list[Agent]) -> None:
        for agent in agents:
            agent.cut += 1
            agent.greeted = False

    def _heal(self, agents: list[Agent]) -> None:
        for agent in agents:
            agent.cut -= 1
            agent.greet()
