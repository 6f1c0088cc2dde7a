"""A real farm with simulated agents: a scenario's nodes connect to a broker, its jobs are submitted.

What belongs here: agents that speak the product's own protocol and render nothing, and the scenario's jobs
and failures on the clock of this machine times ``speed``.  What may not: starting the broker (``farm.cli``
does) and policies.  Clients connect to such a farm as to any other, which is what it is for: to watch, to
try, to demonstrate. Agents wait the virtual times; the broker's own times (heartbeats, lost nodes) are real.

Long because an agent's session and its work answer each other message by message.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import msgspec

from farm.config.places import Endpoint
from farm.model.errors import FarmUnreachable, NotBuiltYet
from farm.model.nodes import AttemptProgress, NodeLoad
from farm.model.outputs import FileFacts
from farm.model.policy import Policy
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.states import AttemptKind, FailureClass
from farm.protocol.agent import (
    AgentHello,
    BatchMsg,
    BeatAckMsg,
    ByeMsg,
    GrantMsg,
    LeaseMsg,
    ReportMsg,
    StepTemplate,
    StopMsg,
    VerifiedMsg,
)
from farm.protocol.codec import agent_codec, decode_template, encode
from farm.protocol.common import HelloMsg, WelcomeMsg
from farm.protocol.session import PeerSession, Phase
from farm.sdk.client import Farm
from farm.sim.agent import LOOK_US, PICTURE
from farm.sim.faults import NEVER_US, Outage, outages, slow_factors
from farm.sim.scenario import Scenario
from farm.sim.trace import trace_jobs
from farm.sim.workload import PlannedJob, PlannedNode, PlannedStep, plan_jobs, plan_nodes, stream
from farm.transport.keys import generate_keypair
from farm.transport.many import ManyClients

#: What a frame of somebody else's job takes, virtual seconds.
_FOREIGN_S = 10.0
#: How often a hello is repeated that got no answer, seconds.
_AGAIN_S = 2.0
_RENDER, _COPY = AttemptKind.RENDER.value, AttemptKind.COPY.value


class _Work:
    """An attempt on an agent."""

    __slots__ = ("asking", "began_s", "ends_s", "lease", "template", "ticket", "todo", "unit")

    def __init__(self, lease: LeaseMsg) -> None:
        self.lease = lease
        self.template: StepTemplate = decode_template(lease.template)
        self.todo = list(reversed(lease.units))
        self.unit = -1
        self.began_s = self.ends_s = 0.0
        self.asking: dict[int, int] = {}
        self.ticket = 0


class _Agent:
    """One agent on its connection."""

    def __init__(self, show: _Show, number: int, plan: PlannedNode) -> None:
        self.show = show
        self.number = number
        self.plan = plan
        self.session = PeerSession(agent_codec(), self._hello)
        self.work: dict[int, _Work] = {}
        self.outbox: dict[int, ReportMsg] = {}
        self.alive = False
        self.cut = 0
        self.factor = 1.0
        self.trouble = stream(show.seed, "trouble", plan.index)
        self._reports = 0
        #: What each unanswered heartbeat of this session named.
        self._listed: dict[int, tuple[int, ...]] = {}
        self._beats = 0
        self._greeted_s = -_AGAIN_S

    # -- session --

    def _hello(self, oldest: int, newest: int) -> HelloMsg:
        pending = tuple({report.attempt: None for report in self.outbox.values()})
        farm_id = self.show.farm_id
        agent = AgentHello(facts=self.plan.facts, farm_id=farm_id, running=tuple(self.work), pending=pending)
        return HelloMsg(oldest=oldest, newest=newest, agent=agent)

    @property
    def connected(self) -> bool:
        return self.alive and not self.cut

    def tend(self, now_s: float) -> None:
        """Says hello or sends a heartbeat, whichever is due."""
        if not self.connected:
            return
        if self.session.phase is Phase.OPEN:
            self._beats += 1
            self._listed[self._beats] = held = tuple(self.work)
            self._say(self.session.beat(int(now_s * 1e6), held, self._progress(now_s), self._load()))
        elif self.session.phase is not Phase.REFUSED and now_s - self._greeted_s >= _AGAIN_S:
            self._greeted_s = now_s
            if not self._say(self.session.greet()):
                # The connection is still being made.
                self._greeted_s = now_s - _AGAIN_S
                self.show.at(now_s + 0.05, self._try_again)

    def _try_again(self) -> None:
        if self.session.phase is Phase.GREETING:
            self.tend(time.monotonic())

    def _progress(self, now_s: float) -> tuple[AttemptProgress, ...]:
        found = []
        for attempt, work in self.work.items():
            length_s = max(1e-6, work.ends_s - work.began_s)
            part = min(1.0, max(0.0, (now_s - work.began_s) / length_s))
            found.append(AttemptProgress(attempt, work.unit, part if work.unit >= 0 else 0.0))
        return tuple(found)

    def _load(self) -> NodeLoad:
        total = self.plan.facts.total
        held = sum(work.lease.resources.cores for work in self.work.values())
        ram_mib = sum(work.lease.resources.ram_mib for work in self.work.values())
        return NodeLoad(100.0 * held / total.cores, max(0, total.ram_mib - ram_mib), 100_000)

    def _say(self, body: bytes) -> bool:
        return self.show.clients.send(self.number, body)

    def take(self, body: bytes, now_s: float) -> None:
        """A message came."""
        if not self.connected:
            return
        phase = self.session.phase
        for message in self.session.receive(body):
            kind = type(message)
            if kind is BatchMsg:
                self._batch(message, now_s)
            elif kind is BeatAckMsg:
                self.session.beat_answered(message)
                for attempt in self._listed.pop(message.n, ()):
                    work = self.work.get(attempt)
                    if work is not None and attempt not in message.held:
                        self._close(work, FailureClass.LOST.value, "the farm gave it to others")
            elif kind is WelcomeMsg:
                self._welcome(message)
        if phase is Phase.OPEN and self.session.phase is Phase.NEW:
            self._greeted_s = now_s
            self._say(self.session.greet())
        if self.session.phase is Phase.REFUSED:
            raise self.session.refusal or FarmUnreachable("the broker refuses a simulated agent")

    def _welcome(self, welcome: WelcomeMsg) -> None:
        if welcome.agent is None:
            return
        self.show.farm_id = welcome.agent.farm_id
        self.show.beat_s = welcome.agent.timings.heartbeat_s
        for attempt in [attempt for attempt in self.work if attempt not in welcome.agent.keep]:
            self._close(self.work[attempt], FailureClass.LOST.value, "the farm gave it to others")
        for report in self.outbox.values():
            self._say(encode(report))
        for work in self.work.values():
            for unit in work.asking:
                self._ask(work, unit)

    def _batch(self, batch: BatchMsg, now_s: float) -> None:
        for n in batch.acks:
            self.outbox.pop(n, None)
        for lease in batch.leases:
            if lease.attempt not in self.work:
                work = self.work[lease.attempt] = _Work(lease)
                self._start(work, now_s)
        for grant in batch.grants:
            self._grant(grant)
        for stop in batch.stops:
            self._stop(stop, now_s)

    # -- work --

    def _start(self, work: _Work, now_s: float) -> None:
        startup_s = 0.0
        if work.lease.kind in (_RENDER, _COPY):
            startup_s = self.plan.startup_s + self.show.times(work.template).startup_s / self._speed
        self._next(work, now_s + startup_s / self.show.speed)

    @property
    def _speed(self) -> float:
        return self.plan.speed * self.factor

    def _next(self, work: _Work, begin_s: float) -> None:
        work.ticket += 1
        if not work.todo:
            work.unit = -1
            return
        work.unit = unit = work.todo.pop()
        took_s = LOOK_US / 1e6
        if work.lease.kind in (_RENDER, _COPY):
            times = self.show.times(work.template).frame_s
            took_s = (times[unit] if unit < len(times) else _FOREIGN_S) / self._speed
        work.began_s, work.ends_s = begin_s, begin_s + took_s / self.show.speed
        self.show.at(work.ends_s, self._over, work, work.ticket, took_s)

    def _over(self, work: _Work, ticket: int, took_s: float) -> None:
        if work.ticket != ticket or work.lease.attempt not in self.work:
            return
        unit, took_us = work.unit, max(1, int(took_s * 1e6))
        self._next(work, work.ends_s)
        kind = work.lease.kind
        if (
            kind == AttemptKind.VERIFY
            and (work.template.job, work.template.step, unit) not in self.show.published
        ):
            self._settle(work, UnitReport(unit, FAILED, "output", "there is no such file", took_us))
        elif kind == AttemptKind.ADOPT:
            self._settle(work, UnitReport(unit, FAILED, "output", "the kept file is gone", took_us))
        elif kind == _RENDER and self.trouble.random() < self.show.frame_failure:
            self._settle(work, UnitReport(unit, FAILED, "renderer", "the renderer crashed", took_us))
        elif work.lease.ask:
            work.asking[unit] = took_us
            self._ask(work, unit)
        else:
            self._settle(work, self._done(work, unit, took_us))

    def _ask(self, work: _Work, unit: int) -> None:
        specs = tuple(None if output.kind == "movie" else PICTURE for output in work.template.outputs)
        self._say(encode(VerifiedMsg(work.lease.attempt, work.lease.nonce, unit, specs)))

    def _grant(self, grant: GrantMsg) -> None:
        work = self.work.get(grant.attempt)
        if work is None or grant.unit not in work.asking:
            return
        took_us = work.asking.pop(grant.unit)
        if grant.reason:
            self._settle(work, UnitReport(grant.unit, FAILED, "output", grant.reason, took_us))
        else:
            self._settle(work, self._done(work, grant.unit, took_us))

    def _done(self, work: _Work, unit: int, took_us: int) -> UnitReport:
        self.show.published.add((work.template.job, work.template.step, unit))
        files = tuple(
            FileFacts(output.pattern, 1, "00" * 32, index, None if output.kind == "movie" else PICTURE)
            for index, output in enumerate(work.template.outputs)
        )
        return UnitReport(unit, DONE, "", "", took_us, files)

    def _stop(self, stop: StopMsg, now_s: float) -> None:
        work = self.work.get(stop.attempt)
        if work is None:
            return
        named = set(stop.units) if stop.units else {*work.todo, work.unit, *work.asking}
        dropped = [unit for unit in reversed(work.todo) if unit in named]
        work.todo = [unit for unit in work.todo if unit not in named]
        if not stop.take_back:
            dropped += [unit for unit in work.asking if unit in named]
            work.asking = {unit: took for unit, took in work.asking.items() if unit not in named}
            if work.unit >= 0 and work.unit in named:
                dropped.append(work.unit)
                work.unit = -1
                work.ticket += 1
                if work.todo:
                    self._start(work, now_s)
        self._settle(work, *(UnitReport(unit, RELEASED, "", "stopped") for unit in dropped))

    def _close(self, work: _Work, failure: str, reason: str) -> None:
        """Gives everything back that is not settled."""
        units = [*work.asking, *reversed(work.todo)]
        if work.unit >= 0:
            units.append(work.unit)
        work.todo.clear()
        work.asking.clear()
        work.unit = -1
        work.ticket += 1
        self._settle(work, *(UnitReport(unit, RELEASED, failure, reason) for unit in units))

    def _settle(self, work: _Work, *units: UnitReport) -> None:
        over = work.unit < 0 and not work.todo and not work.asking
        if over:
            self.work.pop(work.lease.attempt, None)
        if not (units or over):
            return
        self._reports += 1
        report = ReportMsg(self._reports, work.lease.attempt, work.lease.nonce, units, over)
        self.outbox[report.n] = report
        if self.connected and self.session.phase is Phase.OPEN:
            self._say(encode(report))

    # -- faults --

    def rise(self, now_s: float) -> None:
        """Its machine is there (again)."""
        self.alive = True
        self.session = PeerSession(agent_codec(), self._hello)
        self._listed.clear()
        self._beats = 0
        self._greeted_s = -_AGAIN_S
        self.tend(now_s)

    def fall(self) -> None:
        """Its machine dies."""
        self.alive = False
        for work in list(self.work.values()):
            self._close(work, FailureClass.LOST.value, "the machine died")

    def bye(self) -> None:
        """It leaves in order."""
        if self.connected and self.session.phase is Phase.OPEN:
            for work in list(self.work.values()):
                self._close(work, FailureClass.PREEMPTED.value, "the simulation ends")
            self._say(encode(ByeMsg("the simulation ends")))


class _Show:
    """The running farm: agents, what is due, and the clock."""

    def __init__(self, scenario: Scenario, clients: ManyClients, speed: float, seed: int) -> None:
        self.scenario = scenario
        self.clients = clients
        self.speed = speed
        self.seed = seed
        self.frame_failure = scenario.faults.frame_failure
        self.farm_id = ""
        self.beat_s = 2.0
        self.published: set[tuple[int, str, int]] = set()
        self._times: dict[tuple[int, str], PlannedStep] = {}
        self._foreign = PlannedStep([], 0.0)
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self.origin_s = time.monotonic()

    def at(self, at_s: float, action: Callable[..., None], *args: Any) -> None:
        """Calls ``action`` at a moment of this machine's clock."""
        self._order += 1
        heappush(self._due, (at_s, self._order, action, args))

    def at_virtual(self, at_us: int, action: Callable[..., None], *args: Any) -> None:
        """The same, for a moment of virtual time."""
        self.at(self.origin_s + at_us / 1e6 / self.speed, action, *args)

    def times(self, template: StepTemplate) -> PlannedStep:
        """Times of a step's frames; those of somebody else's job are all alike."""
        return self._times.get((template.job, template.step), self._foreign)

    def submitted(self, number: int, job: PlannedJob) -> None:
        """The broker calls this job so."""
        for spec, times in zip(job.spec.steps, job.steps, strict=True):
            self._times[number, spec.name] = times

    def run_due(self, now_s: float) -> float:
        """Does what is due; returns how long nothing more is."""
        while self._due and self._due[0][0] <= now_s:
            _, _, action, args = heappop(self._due)
            action(*args)
        return self._due[0][0] - now_s if self._due else 1.0


def check_servable(scenario: Scenario) -> None:
    """Checks that nothing is asked for that only the simulation can do.

    Raises:
        NotBuiltYet: Something is; names the key.
    """
    if scenario.faults.restart:
        raise NotBuiltYet("faults.restart cannot be served", hint="leave it out, or stop the broker yourself")


def serve(
    scenario: Scenario,
    farm: Farm,
    endpoint: Endpoint,
    stop: threading.Event,
    *,
    speed: float = 1.0,
    on_turn: Callable[[], None] | None = None,
) -> None:
    """Runs the scenario's agents and submits its jobs until told to stop.

    Args:
        scenario: What to run.
        farm: An administrator's session with the broker.
        endpoint: Where the broker is.
        stop: Ends it.
        speed: Virtual seconds a second.
        on_turn: Called in every turn (tests).

    Raises:
        NotBuiltYet: The scenario wants what only the simulation can do.
        FarmUnreachable: The broker refuses the agents.
    """
    check_servable(scenario)
    nodes = _renumbered(plan_nodes(scenario, scenario.seed))
    jobs = plan_jobs(scenario, scenario.seed)
    if scenario.trace:
        jobs = jobs + trace_jobs(scenario.trace)
    pairs = {}
    for node in nodes:
        place = (node.pool, node.site)
        if place not in pairs:
            pairs[place] = generate_keypair()
            label = f"simulated agents {node.pool or 'of no pool'} at {node.site}"
            farm.keys(
                "keys-add", role="agent", key=pairs[place].public, label=label, pool=node.pool, site=node.site
            )
    if scenario.policy != Policy():
        farm.set_policy(whole=msgspec.json.encode(scenario.policy), reason="of the scenario")
    keys = [pairs[node.pool, node.site] for node in nodes]
    with ManyClients(endpoint.control, endpoint.public, keys) as clients:
        show = _Show(scenario, clients, speed, scenario.seed)
        agents = [_Agent(show, number, node) for number, node in enumerate(nodes)]
        for agent in agents:
            show.at_virtual(agent.plan.join_us, _rise, agent)
        for job in jobs:
            show.at_virtual(job.at_us, _submit, show, farm, job)
        _plan_faults(show, agents)
        try:
            _loop(show, agents, stop, on_turn)
        finally:
            for agent in agents:
                agent.bye()


def _renumbered(nodes: list[PlannedNode]) -> list[PlannedNode]:
    """Nodes as slices of their key: a key may have a node for each slice; the rate is not split."""
    counts: dict[tuple[str, str], int] = {}
    found = []
    for node in nodes:
        number = counts.get((node.pool, node.site), 0)
        counts[node.pool, node.site] = number + 1
        facts = msgspec.structs.replace(node.facts, slice=number, slices=1)
        found.append(msgspec.structs.replace(node, facts=facts))
    return found


def _loop(
    show: _Show, agents: list[_Agent], stop: threading.Event, on_turn: Callable[[], None] | None
) -> None:
    turn, next_beat_s = 0, time.monotonic()
    while not stop.is_set():
        now_s = time.monotonic()
        wait_s = show.run_due(now_s)
        while next_beat_s <= now_s:
            agents[turn % len(agents)].tend(now_s)
            turn += 1
            next_beat_s += show.beat_s / len(agents)
        wait_s = min(wait_s, next_beat_s - now_s, 0.25)
        for number, body in show.clients.wait(max(0.0, wait_s)):
            agents[number].take(body, time.monotonic())
        if on_turn is not None:
            on_turn()


def _submit(show: _Show, farm: Farm, job: PlannedJob) -> None:
    show.submitted(farm.submit(job.source).job, job)


def _rise(agent: _Agent) -> None:
    agent.rise(time.monotonic())


def _plan_faults(show: _Show, agents: list[_Agent]) -> None:
    faults = show.scenario.faults
    for agent in agents:
        for from_us, factor in slow_factors(faults, show.seed, agent.plan):
            show.at_virtual(from_us, setattr, agent, "factor", factor)
        _next_outage(show, agent, outages(faults, show.seed, agent.plan))
    for part in faults.partition:
        for agent in agents:
            if not part.nodes or agent.plan.group in part.nodes:
                show.at_virtual(int(part.from_s * 1e6), _cut, agent, 1)
                show.at_virtual(int(part.to_s * 1e6), _cut, agent, -1)


def _cut(agent: _Agent, by: int) -> None:
    agent.cut += by


def _next_outage(show: _Show, agent: _Agent, rest: Any) -> None:
    outage: Outage | None = next(rest, None)
    if outage is None:
        return
    show.at_virtual(outage.down_us, agent.fall)
    if outage.up_us < NEVER_US:
        show.at_virtual(outage.up_us, _return, show, agent, rest)


def _return(show: _Show, agent: _Agent, rest: Any) -> None:
    agent.rise(time.monotonic())
    _next_outage(show, agent, rest)
