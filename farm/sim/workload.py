"""Makes a scenario's nodes and jobs: every random figure is drawn here, from streams with names.

What belongs here: numbers of nodes, jobs and frames.  What may not: what happens to them.  Each stream has
its own name under the seed, so that one more job does not change another one's frames, and a policy changes
no draw.
"""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec

from farm.model.errors import CallError, JobFileError, NotBuiltYet
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec, read_job
from farm.model.money import parse_usd
from farm.model.nodes import AppInfo, GpuInfo, NodeFacts
from farm.model.resources import Resources, split_slices
from farm.sim.scenario import Amount, JobGroup, NodeGroup, Scenario, Spread, StepGroup

#: Virtual time 0 in microseconds since the epoch (a Monday, 2024-01-01): all times of a run are above it.
ORIGIN_US = 1_704_067_200_000_000
#: A lognormal frame takes at most so many times the mean.
_LONGEST = 20.0
#: No frame takes less: a frame of no time would be no event.
_SHORTEST_S = 0.001


class PlannedNode(msgspec.Struct, frozen=True):
    """A node to be: one slice of a machine.

    Attributes:
        index: Its place among all nodes.
        machine: Its machine's place among all machines; what happens to a machine happens to all its nodes.
        group: Name of its group.
        join_us: When it joins, microseconds of virtual time.
    """

    index: int
    machine: int
    group: str
    key: str
    facts: NodeFacts
    pool: str
    site: str
    rate_nano_h: int
    speed: float
    startup_s: float
    join_us: int


class PlannedStep(msgspec.Struct, frozen=True):
    """Times of a step at reference speed: seconds per unit, and of every chunk's start-up."""

    frame_s: list[float]
    startup_s: float


class PlannedJob(msgspec.Struct, frozen=True):
    """A job to be submitted at ``at_us`` of virtual time."""

    at_us: int
    spec: JobSpec
    source: bytes
    apps: tuple[str, ...]
    whole: tuple[bool, ...]
    steps: tuple[PlannedStep, ...]


def stream(seed: int, *name: object) -> random.Random:
    """A stream of random numbers of its own."""
    return random.Random("/".join(map(str, (seed, *name))))


def draw(amount: Amount, rng: random.Random, position: float = 0.0) -> float:
    """A figure; ``position`` is 0 at the first and 1 at the last of a row (for ramps)."""
    if isinstance(amount, tuple):
        low, high = amount
        return rng.uniform(low, high) if low < high else low
    if not isinstance(amount, Spread):
        return amount
    if amount.kind == "uniform":
        return rng.uniform(amount.low, amount.high)
    if amount.kind == "exponential":
        return rng.expovariate(1 / amount.mean)
    mean = amount.mean
    if amount.kind == "ramp":
        mean = amount.low + (amount.high - amount.low) * position
    if not amount.sigma or amount.kind == "constant":
        return mean
    factor = math.exp(rng.gauss(-(amount.sigma**2) / 2, amount.sigma))
    return mean * min(factor, _LONGEST)


def plan_nodes(scenario: Scenario, seed: int) -> list[PlannedNode]:
    """Every node of the scenario."""
    nodes: list[PlannedNode] = []
    machine = 0
    for group in scenario.nodes:
        rng = stream(seed, "nodes", group.name)
        for number in range(1, group.count + 1):
            speed, join_s = draw(group.speed, rng), draw(group.join_s, rng)
            nodes += _machine(group, number, machine, len(nodes), max(0.001, speed), join_s)
            machine += 1
    return nodes


def _machine(
    group: NodeGroup, number: int, machine: int, first: int, speed: float, join_s: float
) -> list[PlannedNode]:
    total = Resources(
        cores=group.cores,
        ram_mib=group.ram_mib,
        gpus=group.gpus,
        vram_mib=group.vram_mib if group.gpus else 0,
    )
    host, nodes, gpu = f"{group.name}-{number}", [], 0
    for index, part in enumerate(split_slices(total, group.slots)):
        cards = tuple(
            GpuInfo(card, f"GPU-{machine}-{card}", "simulated GPU", group.vram_mib)
            for card in range(gpu, gpu + part.gpus)
        )
        gpu += part.gpus
        facts = NodeFacts(
            name=host if group.slots == 1 else f"{host}-{index + 1}",
            host=host,
            machine=f"machine-{machine}",
            total=part,
            gpus=cards,
            apps=tuple(AppInfo(name, version) for name, version in sorted(group.apps.items())),
            renderers=group.renderers,
            attributes=dict(group.attributes),
            slice=index,
            slices=group.slots,
            software="simulated",
        )
        nodes.append(
            PlannedNode(
                index=first + index,
                machine=machine,
                group=group.name,
                key=f"sim-{machine}/{index}",
                facts=facts,
                pool=group.pool,
                site=group.site,
                rate_nano_h=parse_usd(group.rate_usd_h) // group.slots,
                speed=speed,
                startup_s=group.startup_s,
                join_us=int(join_s * 1e6),
            )
        )
    return nodes


def plan_jobs(scenario: Scenario, seed: int) -> list[PlannedJob]:
    """Every job of the scenario's groups, in the order they come.

    Raises:
        JobFileError: A group makes no job a farm would take; names the key.
    """
    jobs: list[PlannedJob] = []
    for index, group in enumerate(scenario.jobs):
        arrivals = stream(seed, "arrivals", index)
        at_s = group.at_s
        for number in range(group.count):
            if number and group.every_s:
                at_s += arrivals.expovariate(1 / group.every_s) if group.poisson else group.every_s
            raw = _raw_job(group, index, number)
            times = [
                step_times(step, _units(raw["steps"][place]), stream(seed, "frames", index, number, place))
                for place, step in enumerate(group.steps)
            ]
            jobs.append(make_job(raw, int(at_s * 1e6), times, f"jobs[{index}].", group.steps))
    return sorted(jobs, key=lambda job: job.at_us)


def _raw_job(group: JobGroup, index: int, number: int) -> dict[str, Any]:
    def turn(names: str | tuple[str, ...]) -> str:
        return names if isinstance(names, str) else names[number % len(names)]

    return {
        "overcrank_job": 1,
        "name": f"{group.name}-{number + 1}" if group.count > 1 else group.name,
        "user": turn(group.user),
        "project": turn(group.project),
        "priority": group.priority,
        "steps": [raw_step(step, f"{index}-{number}") for step in group.steps],
    }


def raw_step(step: StepGroup, tag: str) -> dict[str, Any]:
    """The step as a job file has it; ``tag`` makes its outputs its own."""
    single = step.frames in (0, "")
    frames = f"1-{step.frames}" if isinstance(step.frames, int) else step.frames
    raw: dict[str, Any] = {
        name: getattr(step, name)
        for name in ("name", "renderer", "chunk", "order", "resources", "site", "version", "attempts")
    }
    raw |= {name: list(getattr(step, name)) for name in ("after", "pools")}
    raw |= {name: dict(getattr(step, name)) for name in ("limits", "attributes", "params")}
    raw["kind"] = "single" if single else "per_frame"
    if not single:
        raw["frames"] = "1" if frames == "1-1" else frames
    if step.renderer == "command" and not step.params:
        raw["params"] = {"command": ["true"]}
    if step.pictures:
        name = f"{step.name}.exr" if single else f"{step.name}.####.exr"
        kind = "single" if single else "sequence"
        raw["outputs"] = [{"pattern": f"/sim/{tag}/{name}", "kind": kind}]
    return raw


def _units(raw: dict[str, Any]) -> int:
    if raw["kind"] == "single":
        return 1
    try:
        return len(FrameRange.parse(raw["frames"]))
    except CallError:
        return 0  # said with its place when the job is made


def step_times(step: StepGroup, units: int, rng: random.Random) -> PlannedStep:
    """Seconds of every frame of a step."""
    last = max(1, units - 1)
    times = [max(_SHORTEST_S, draw(step.frame_s, rng, unit / last)) for unit in range(units)]
    return PlannedStep(times, step.startup_s)


def make_job(
    raw: dict[str, Any],
    at_us: int,
    times: list[PlannedStep],
    where: str,
    groups: tuple[StepGroup, ...],
) -> PlannedJob:
    """A job of its file, checked as the farm checks it.

    Raises:
        JobFileError: The farm would refuse it; names the key.
        NotBuiltYet: It uses what is not built yet.
    """
    try:
        spec, warnings = read_job(raw)
    except JobFileError as error:
        raise JobFileError(f"{where}{error.message}", hint=error.hint) from error
    except NotBuiltYet as error:
        raise NotBuiltYet(f"{where}{error.message}", hint=error.hint) from error
    if warnings:
        raise JobFileError(f"{where}{warnings[0]}")
    apps, whole = tuple(group.app for group in groups), tuple(group.whole for group in groups)
    return PlannedJob(at_us, spec, msgspec.json.encode(spec), apps, whole, tuple(times))
