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
from farm.protocol.bulk import PIECE, LogPutMsg, PreviewPutMsg
from farm.protocol.codec import agent_codec, decode_template, encode
from farm.protocol.common import HelloMsg, WelcomeMsg
from farm.protocol.session import PeerSession, Phase
from farm.sdk.client import Farm
from farm.sim import scenery
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
#: Attempts that get a log and pieces of logs, and frames that get a preview, a second: a large farm must not
#: be slowed by them.
_LOGS_S, PREVIEWS_S = 40.0, 60.0
#: Longest time between two looks at what the bulk socket answered, seconds.
_BULK_LOOK_S = 0.25
_RENDER, _COPY = AttemptKind.RENDER.value, AttemptKind.COPY.value


class _Work:
    """An attempt on an agent."""

    __slots__ = (
        "asking", "began_s", "ends_s", "lease", "log", "ram_mib", "template", "ticket", "todo", "unit",
    )  # fmt: skip

    def __init__(self, lease: LeaseMsg) -> None:
        self.lease = lease
        self.template: StepTemplate = decode_template(lease.template)
        self.todo = list(reversed(lease.units))
        self.unit = -1
        self.began_s = self.ends_s = 0.0
        self.asking: dict[int, int] = {}
        self.ticket = 0
        self.log: _Log | None = None
        self.ram_mib = scenery.used_mib(lease.resources.ram_mib, lease.attempt)

    def frame(self, unit: int) -> int:
        """The number of a frame; of a single step its unit."""
        frames = self.lease.frames
        return frames[self.lease.units.index(unit)] if frames else unit

    @property
    def renders(self) -> bool:
        """Whether pictures come of it."""
        return self.lease.kind in (_RENDER, _COPY)


class _Log:
    """The log of an attempt: words gather and go to the broker now and then, and at its end."""

    __slots__ = ("_lease", "_place", "_show", "_size", "_template", "_words")

    def __init__(self, show: _Show, place: int, lease: LeaseMsg, template: StepTemplate) -> None:
        self._show = show
        self._place = place
        self._lease = lease
        self._template = template
        self._size = 0
        self._words: list[str] = []

    def say(self, text: str) -> None:
        """Adds words."""
        self._words.append(text)

    def send(self, *, end: bool = False) -> None:
        """Sends what has gathered; nothing waits for it to arrive, and what cannot be sent is sent later."""
        data = "".join(self._words).encode()[:PIECE]
        if not (data or end):
            return
        lease, template = self._lease, self._template
        message = LogPutMsg(template.job, template.step, lease.no, lease.attempt, self._size, data, end)
        if self._show.bulk.send(self._place, encode(message)):
            self._words.clear()
            self._size += len(data)


class _Agent:
    """One agent on its connection."""

    def __init__(self, show: _Show, number: int, plan: PlannedNode, place: int) -> None:
        self.show = show
        self.number = number
        #: Number of its key's connection to the bulk socket.
        self.place = place
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
            found.append(AttemptProgress(attempt, work.unit, part if work.unit >= 0 else 0.0, work.ram_mib))
            if work.log is not None and self.show.pieces.take(now_s):
                if work.unit >= 0 and 0.0 < part < 1.0:
                    frame, samples = work.frame(work.unit), int(128 * part)
                    work.log.say(scenery.log_frame(frame, samples, work.ram_mib, _stamp()))
                work.log.send()
        return tuple(found)

    def _load(self) -> NodeLoad:
        facts, seed, index = self.plan.facts, self.show.seed, self.plan.index
        total = facts.total
        held = sum(work.lease.resources.cores for work in self.work.values())
        ram_mib = min(total.ram_mib, total.ram_mib // 25 + sum(work.ram_mib for work in self.work.values()))
        cpu_percent = 100.0 * held / total.cores * (0.85 + 0.15 * scenery.chance(seed, index, self._beats))
        busy = {gpu: work.lease.resources.vram_mib for work in self.work.values() for gpu in work.lease.gpus}
        gpus = scenery.gpu_loads(facts.gpus, busy, seed, index, self._beats)
        return NodeLoad(cpu_percent, total.ram_mib - ram_mib, 100_000, ram_mib, gpus)

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
                self._open_log(work, now_s)
                self._start(work, now_s)
        for grant in batch.grants:
            self._grant(grant)
        for stop in batch.stops:
            self._stop(stop, now_s)

    # -- what it shows --

    def _open_log(self, work: _Work, now_s: float) -> None:
        if not (work.renders and self.show.logs.take(now_s)):
            return
        template, lease = work.template, work.lease
        work.log = _Log(self.show, self.place, lease, template)
        address = f"J{template.job}/{template.step}@{lease.no}"
        work.log.say(scenery.log_head(address, self.plan.facts.name, template.renderer, _stamp()))

    def _tell(self, work: _Work, report: UnitReport) -> None:
        """Says in the log what became of a frame, and shows it."""
        unit, frame, template = report.unit, work.frame(report.unit), work.template
        if report.outcome == FAILED:
            if work.log is not None:
                work.log.say(scenery.log_failed(frame, report.reason, _stamp(), template.job, unit))
        elif report.outcome == DONE:
            took_s = report.elapsed_us / 1e6
            if work.log is not None:
                files = tuple(file.path for file in report.files)
                work.log.say(scenery.log_done(frame, took_s, report.ram_mib, files, _stamp()))
            if work.renders and template.outputs and self.show.previews.take(time.monotonic()):
                lease, units = work.lease, len(self.show.times(template).frame_s)
                data = scenery.picture(template.job, template.step, frame, unit / max(1, units), lease.no)
                message = PreviewPutMsg(template.job, template.step, lease.no, lease.attempt, unit, data)
                if data:
                    self.show.bulk.send(self.place, encode(message))

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
            self._settle(
                work,
                UnitReport(unit, FAILED, "renderer", "the renderer crashed", took_us, (), "", work.ram_mib),
            )
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
        return UnitReport(unit, DONE, "", "", took_us, files, "", work.ram_mib if work.renders else 0)

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
        for unit in units:
            self._tell(work, unit)
        if over:
            self.work.pop(work.lease.attempt, None)
            if work.log is not None:
                work.log.send(end=True)
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


def previews_allowance() -> scenery.Allowance:
    """How many frames get a preview."""
    return scenery.Allowance(PREVIEWS_S, 4 * PREVIEWS_S)


class _Show:
    """The running farm: agents, what is due, and the clock."""

    def __init__(
        self, scenario: Scenario, clients: ManyClients, bulk: ManyClients, speed: float, seed: int
    ) -> None:
        self.scenario = scenario
        self.clients = clients
        self.bulk = bulk
        self.logs = scenery.Allowance(_LOGS_S, 4 * _LOGS_S)
        self.pieces = scenery.Allowance(_LOGS_S, 4 * _LOGS_S)
        self.previews = previews_allowance()
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


def _stamp() -> str:
    """The time of day, as logs begin their lines."""
    return time.strftime("%H:%M:%S")


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
    places = {place: number for number, place in enumerate(pairs)}
    with (
        ManyClients(endpoint.control, endpoint.public, keys) as clients,
        ManyClients(endpoint.bulk, endpoint.public, list(pairs.values())) as bulk,
    ):
        show = _Show(scenario, clients, bulk, speed, scenario.seed)
        agents = [
            _Agent(show, number, node, places[node.pool, node.site]) for number, node in enumerate(nodes)
        ]
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
    look_s = 0.0
    while not stop.is_set():
        now_s = time.monotonic()
        if now_s >= look_s:
            look_s = now_s + _BULK_LOOK_S
            show.bulk.wait(0.0)  # what the broker says of logs and pictures changes nothing here
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
