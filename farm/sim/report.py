"""What a run came to, as one record: the same seed gives the same bytes.

What belongs here: ratios and sums of what was measured.  What may not: how it is printed.  Seconds are
virtual; amounts are text in USD with six decimals.
"""

from __future__ import annotations

import msgspec

from farm.core import invariants, meter
from farm.model.money import usd_text
from farm.sim.bounds import Bound, lower_bound
from farm.sim.engine import Simulation
from farm.sim.fifo import Fifo, FifoResult
from farm.sim.meters import Shares
from farm.sim.workload import ORIGIN_US


class ShareLine(msgspec.Struct, frozen=True):
    """What one party got while all of its kind had work waiting.

    Attributes:
        name: Of the project or user.
        weight: In the policy.
        resource_s: Seconds of the whole farm it held in that time (its dominant share, integrated).
        share, expected: Its part of what all got, and what its weight says.
        deviation: ``share / expected - 1``.
        total_s: Seconds of the whole farm over the whole run.
    """

    name: str
    weight: int
    resource_s: float
    share: float
    expected: float
    deviation: float
    total_s: float


class Fairness(msgspec.Struct, frozen=True):
    """Shares of projects, and of the users of one project.

    Attributes:
        of: ``projects``, or the project whose users these are.
        window_s: For how long all of them had work waiting; nothing follows from a short time.
        deviation: The largest relative deviation, null when there never was such a time.
    """

    of: str
    window_s: float
    deviation: float | None
    lines: tuple[ShareLine, ...]


class Wait(msgspec.Struct, frozen=True):
    """The longest wait of a kind, and whose it was."""

    seconds: float
    whose: str


class Starvation(msgspec.Struct, frozen=True):
    """Who waited.

    Attributes:
        frame: From when a frame could run to its lease.
        step: With frames waiting and none running.
        large: The same of steps that ask for at least half of the largest node; null when there are none.
        never_ran: Jobs of which nothing ever ran.
    """

    frame: Wait
    step: Wait
    large: Wait | None
    never_ran: tuple[str, ...]


class Money(msgspec.Struct, frozen=True):
    """Spend in USD: everything, its idle part, and the part that bought nothing."""

    total: str
    idle: str
    waste: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report.

    Attributes:
        name, seed: Of the scenario.
        ended: ``done``, ``time`` (the scenario's end came first) or ``stalled`` (nothing more could happen).
        makespan_s: From the first arrival to the last frame; null unless all is done.
        bound: What no schedule beats; null unless all is done.
        ratio: makespan over ``bound.chunked_s``; ``strict_ratio`` over ``bound.strict_s``.
        utilisation: Core-seconds held by attempts, of those that were there.
        useful: Core-seconds of frames that count, of those that were there.
        frame_s, startup_s, thrown_s: Seconds attempts spent on frames that count, on starting, and on what
            was thrown away; ``startup_share`` and ``thrown_share`` are parts of the three.
        chunks: Render leases; ``leases`` counts all kinds.
        digest: Of the core's state at the end.
        fifo: A plain farm on the same; ``fifo_ratio`` its makespan over ``bound.chunked_s``.
    """

    name: str
    seed: int
    ended: str
    virtual_s: float
    events: int
    nodes: int
    jobs: int
    jobs_done: int
    frames: int
    frames_done: int
    makespan_s: float | None
    bound: Bound | None
    ratio: float | None
    strict_ratio: float | None
    utilisation: float
    useful: float
    frame_s: float
    startup_s: float
    thrown_s: float
    startup_share: float
    thrown_share: float
    chunks: int
    frames_per_chunk: float
    leases: dict[str, int]
    spend: Money
    fairness: tuple[Fairness, ...]
    starvation: Starvation
    digest: str
    fifo: FifoResult | None
    fifo_ratio: float | None


def make_report(sim: Simulation) -> Report:
    """The report of a simulation that has run."""
    farm, meters, scenario = sim.core.farm, sim.meters, sim.scenario
    frames = sum(len(step.frame_s) for job in sim.jobs for step in job.steps)
    jobs_done = sum(job.counts()[3] + job.counts()[5] == sum(job.counts()) for job in farm.jobs.values())
    first_us = ORIGIN_US + min((job.at_us for job in sim.jobs), default=0)
    all_done = jobs_done == len(sim.jobs)
    bound = ratio = strict = makespan_s = None
    if all_done:
        makespan_s = (meters.last_done_us - first_us) / 1e6
        bound = lower_bound(sim.jobs, sim.nodes, sim.changes, scenario.farm.chunk_target_s)
        bound = Bound(*(_figure(getattr(bound, name)) for name in Bound.__struct_fields__))
        ratio, strict = _ratio(makespan_s, bound.chunked_s), _ratio(makespan_s, bound.strict_s)
    fifo = Fifo(scenario, sim.seed, sim.nodes, sim.jobs).run() if scenario.compare.fifo else None
    fifo_ratio = None
    if fifo is not None and fifo.makespan_s is not None and bound is not None:
        fifo_ratio = _ratio(fifo.makespan_s, bound.chunked_s)
    capacity_us = _capacity_core_us(sim, meters.last_done_us if all_done else sim.now_us)
    spent_us = max(1, meters.useful_us + meters.startup_us + meters.thrown_us)
    return Report(
        name=scenario.name,
        seed=sim.seed,
        ended="done" if all_done else "time" if sim.now_us >= sim.end_us else "stalled",
        virtual_s=_figure((sim.now_us - ORIGIN_US) / 1e6),
        events=sim.events,
        nodes=len(sim.nodes),
        jobs=len(sim.jobs),
        jobs_done=jobs_done,
        frames=frames,
        frames_done=sum(step.counts[3] for step in farm.steps.values()),
        makespan_s=None if makespan_s is None else _figure(makespan_s),
        bound=bound,
        ratio=ratio,
        strict_ratio=strict,
        utilisation=_figure(meters.busy_core_us / capacity_us),
        useful=_figure(meters.useful_core_us / capacity_us),
        frame_s=_figure(meters.useful_us / 1e6),
        startup_s=_figure(meters.startup_us / 1e6),
        thrown_s=_figure(meters.thrown_us / 1e6),
        startup_share=_figure(meters.startup_us / spent_us),
        thrown_share=_figure(meters.thrown_us / spent_us),
        chunks=meters.chunks,
        frames_per_chunk=_figure(meters.frames_done / max(1, meters.chunks)),
        leases=dict(sorted(meters.leases.items())),
        spend=_money(sim),
        fairness=_fairness(sim),
        starvation=_starvation(sim),
        digest=invariants.digest(farm),
        fifo=fifo,
        fifo_ratio=fifo_ratio,
    )


def _figure(value: float) -> float:
    return round(value, 6)


def _ratio(seconds: float, bound_s: float) -> float | None:
    return _figure(seconds / bound_s) if bound_s > 0 else None


def _capacity_core_us(sim: Simulation, until_us: int) -> int:
    """Core-microseconds that nodes were there, up to a moment; at least 1."""
    since: dict[int, int] = {}
    total = 0
    for change in sim.changes:
        if change.at_us >= until_us:
            break
        began_us = since.pop(change.node, None)
        cores = sim.nodes[change.node].facts.total.cores
        if began_us is not None:
            total += cores * (change.at_us - began_us)
        if change.speed > 0:
            since[change.node] = change.at_us
    for node, began_us in since.items():
        total += sim.nodes[node].facts.total.cores * max(0, until_us - began_us)
    return max(1, total)


def _money(sim: Simulation) -> Money:
    farm = sim.core.farm
    total = idle = 0
    for node in farm.nodes.values():
        spent, _, unused = meter.projected(node, sim.now_us)
        total += spent
        idle += unused
    waste = sum(step.waste_nano for step in farm.steps.values())
    return Money(usd_text(total), usd_text(idle), usd_text(waste))


def _fairness(sim: Simulation) -> tuple[Fairness, ...]:
    policy, meters = sim.scenario.policy, sim.meters
    found = []
    if len(meters.projects.names) > 1:
        found.append(_shares("projects", meters.projects, policy.projects))
    for project, shares in meters.users.items():
        if len(shares.names) > 1:
            found.append(_shares(project or "(no project)", shares, policy.users))
    return tuple(found)


def _shares(of: str, shares: Shares, weights: dict[str, int]) -> Fairness:
    got = sum(shares.contended.values())
    weighed = sum(weights.get(name, 1) for name in shares.names)
    lines = []
    for name in shares.names:
        expected = weights.get(name, 1) / weighed
        share = shares.contended[name] / got if got > 0 else 0.0
        lines.append(
            ShareLine(
                name,
                weights.get(name, 1),
                _figure(shares.contended[name]),
                _figure(share),
                _figure(expected),
                _figure(share / expected - 1) if got > 0 else 0.0,
                _figure(shares.total[name]),
            )
        )
    deviation = max(abs(line.deviation) for line in lines) if got > 0 else None
    return Fairness(of, _figure(shares.window_us / 1e6), deviation, tuple(lines))


def _starvation(sim: Simulation) -> Starvation:
    waits = sim.meters.waits

    def wait(longest: tuple[int, str]) -> Wait:
        return Wait(_figure(longest[0] / 1e6), longest[1])

    never = tuple(f"J{job.id} {job.spec.name}" for job in sim.core.farm.jobs.values() if not job.started_us)
    large = wait(waits.large) if waits.any_large else None
    return Starvation(wait(waits.frame), wait(waits.step), large, never)
