"""The scenario file: what a simulated farm has, what is asked of it and what goes wrong, as typed records.

What belongs here: the records, reading them from TOML, and checks that types cannot make.  What may not:
drawing random numbers (``farm.sim.workload``) and the run (``farm.sim.engine``).  An unknown key is refused
by name: a misspelt fault that silently never happens makes a simulation worthless.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from farm.model.errors import CallError, StorageError
from farm.model.money import parse_usd
from farm.model.policy import Policy
from farm.model.resources import Resources, split_slices

_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tables of a scenario."""


class Spread(_Record, frozen=True, kw_only=True):
    """A distribution of a figure.

    Attributes:
        kind: ``constant`` (``mean``), ``uniform`` (``low`` to ``high``), ``lognormal`` (``mean`` and
            ``sigma`` of the logarithm; cut at 20 times the mean), ``exponential`` (``mean``) or ``ramp``
            (from ``low`` at the first frame to ``high`` at the last, times a lognormal factor of mean 1 and
            ``sigma``).
    """

    kind: Literal["constant", "uniform", "lognormal", "exponential", "ramp"]
    mean: _Seconds = 0.0
    sigma: Annotated[float, msgspec.Meta(ge=0, le=5)] = 0.0
    low: _Seconds = 0.0
    high: _Seconds = 0.0


#: A figure: constant, uniform in ``[low, high]``, or a distribution.  (A tuple of a fixed length in a union
#: makes msgspec read beyond its end, so its length is checked here.)
Amount = _Seconds | tuple[_Seconds, ...] | Spread


class NodeGroup(_Record, frozen=True, kw_only=True):
    """Machines that are alike but for their speed.

    Attributes:
        name: Their names are ``name-1``, ``name-2`` ...; faults name groups by it.
        count: How many machines.
        cores, ram_mib, gpus, vram_mib: What each has; ``vram_mib`` per GPU.
        speed: Times the reference speed that frame times are given for.
        rate_usd_h: What a machine costs per hour.
        pool, site, attributes, renderers, apps: As agents and their keys tell; ``apps`` maps a name to a
            version.
        startup_s: Seconds every chunk takes to begin here, on top of the step's own.
        slots: Agents that share the machine evenly (as ``farm agent --agents N``); each is a node.
        join_s: When they join.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "node"
    count: _Count = 1
    cores: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 8
    ram_mib: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 32_768
    gpus: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    vram_mib: Annotated[int, msgspec.Meta(ge=0, le=100_000_000)] = 0
    speed: Amount = 1.0
    rate_usd_h: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 0.0
    pool: str = ""
    site: str = "local"
    attributes: dict[str, str] = {}
    renderers: tuple[str, ...] = ("command",)
    apps: dict[str, str] = {}
    startup_s: _Seconds = 0.0
    slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    join_s: Amount = 0.0


class StepGroup(_Record, frozen=True, kw_only=True):
    """A step of every job of a group.

    Attributes:
        name: Its name.
        frames: How many frames, or a frame range; 0 = a single step.
        frame_s: Seconds a frame takes at reference speed.
        startup_s: Seconds every chunk takes to begin at reference speed (the application and scene load).
        resources: ``cores``, ``ram_mib``, ``gpus``, ``vram_mib`` ... of an attempt.
        pictures: Whether it writes pictures, so that the first frame's publication is granted by the broker.
        whole: Whether an attempt takes its node's whole slice.
        app: Application it needs, "" = none.
        renderer, chunk, order, limits, after, pools, attributes, site, version, attempts, params: As in a job
            file.
    """

    name: str = "render"
    frames: int | str = 1
    frame_s: Amount = 10.0
    startup_s: _Seconds = 0.0
    resources: dict[str, Any] = {}
    pictures: bool = False
    whole: bool = False
    app: str = ""
    renderer: str = "command"
    chunk: Literal["auto"] | int = "auto"
    order: str = "forward"
    limits: dict[str, int] = {}
    after: tuple[Any, ...] = ()
    pools: tuple[str, ...] = ()
    attributes: dict[str, str] = {}
    site: str = ""
    version: str = ""
    attempts: int = 0
    params: dict[str, Any] = {}


class JobGroup(_Record, frozen=True, kw_only=True):
    """Jobs that are alike but for their frames' times.

    Attributes:
        name: Their names are ``name-1`` ...
        count: How many.
        user, project: One, or several to be taken in turn.
        priority: 0-100.
        at_s: When the first one comes.
        every_s: Seconds between two of them, 0 = all at once.
        poisson: Whether ``every_s`` is the mean of a Poisson process instead.
        steps: At least one.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "job"
    count: _Count = 1
    user: str | tuple[str, ...] = "artist"
    project: str | tuple[str, ...] = ""
    priority: Annotated[int, msgspec.Meta(ge=0, le=100)] = 50
    at_s: _Seconds = 0.0
    every_s: _Seconds = 0.0
    poisson: bool = False
    steps: tuple[StepGroup, ...] = (StepGroup(),)


class Crash(_Record, frozen=True, kw_only=True):
    """Machines that die without a word and come back.

    Attributes:
        mtbf_s: Mean seconds of a machine between two failures (exponential).
        repair_s: How long it is away.
        nodes: Names of node groups; empty = all.
        from_s: Not before.
    """

    mtbf_s: _Positive
    repair_s: Amount = 600.0
    nodes: tuple[str, ...] = ()
    from_s: _Seconds = 0.0


class Spot(_Record, frozen=True, kw_only=True):
    """Spot machines that are taken away with notice.

    Attributes:
        mtbf_s: Mean seconds until a machine is taken (exponential).
        notice_s: Seconds it is told before.
        back_s: How long until another takes its place; null (left out) = never.
        nodes: Names of node groups; empty = all.
    """

    mtbf_s: _Positive
    notice_s: _Seconds = 120.0
    back_s: Amount | None = None
    nodes: tuple[str, ...] = ()


class Slow(_Record, frozen=True, kw_only=True):
    """A share of machines turns slow: ``factor`` times its speed from ``from_s`` on."""

    share: _Share
    factor: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.25
    from_s: _Seconds = 0.0
    nodes: tuple[str, ...] = ()


class Partition(_Record, frozen=True, kw_only=True):
    """The network between the broker and machines of these groups is cut from ``from_s`` to ``to_s``."""

    from_s: _Seconds
    to_s: _Seconds
    nodes: tuple[str, ...] = ()


class Restart(_Record, frozen=True, kw_only=True):
    """The broker is away from ``at_s`` for ``down_s`` seconds."""

    at_s: _Seconds
    down_s: _Seconds = 5.0


class Faults(_Record, frozen=True, kw_only=True):
    """What goes wrong.

    Attributes:
        frame_failure: Share of frames whose renderer fails (each try anew).
    """

    crash: tuple[Crash, ...] = ()
    spot: tuple[Spot, ...] = ()
    slow: tuple[Slow, ...] = ()
    partition: tuple[Partition, ...] = ()
    restart: tuple[Restart, ...] = ()
    frame_failure: _Share = 0.0


class Timing(_Record, frozen=True, kw_only=True):
    """The farm's own times, in seconds: those of the broker's options, and what the wire takes.

    Attributes:
        latency_s: From the broker's decision to the agent's start.
        beat_s: Between two heartbeats of an agent.
        tick_s: Between two looks of the broker at its deadlines.
    """

    chunk_target_s: _Positive = 120.0
    suspect_s: _Positive = 15.0
    lost_s: _Positive = 60.0
    lease_ttl_s: _Positive = 45.0
    restart_grace_s: _Positive = 60.0
    latency_s: _Seconds = 0.005
    beat_s: _Positive = 5.0
    tick_s: _Positive = 5.0


class Compare(_Record, frozen=True, kw_only=True):
    """What to compare with in the same run.

    Attributes:
        fifo: A plain farm: jobs in order of submission, fixed chunks, nothing at the tail.
        chunk: Frames of its chunks.
    """

    fifo: bool = False
    chunk: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10


class Scenario(_Record, frozen=True, kw_only=True):
    """A whole scenario.

    Attributes:
        name: What people see.
        seed: Of all random numbers; the same seed gives the same run.
        end_s: Virtual seconds after which the run ends whatever is left.
        check_every: Events between two checks of the core's invariants; 0 = only at the end.
        trace: A file of jobs and frame times, beside those of ``jobs``; relative to the scenario.
    """

    name: str = "scenario"
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 62))] = 0
    end_s: _Positive = 7 * 86_400.0
    check_every: Annotated[int, msgspec.Meta(ge=0)] = 20_000
    trace: str = ""
    nodes: tuple[NodeGroup, ...]
    jobs: tuple[JobGroup, ...] = ()
    faults: Faults = Faults()
    policy: Policy = Policy()
    farm: Timing = Timing()
    compare: Compare = Compare()


def load_scenario(path: Path) -> Scenario:
    """Reads a scenario file.

    Raises:
        StorageError: It cannot be read.
        CallError: It is no TOML, or a key is wrong; names the key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StorageError(f"the scenario {path} cannot be read: {reason}") from error
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CallError(f"{path} is not TOML: {error}") from error
    scenario = read_scenario(raw, str(path))
    if scenario.trace:
        scenario = msgspec.structs.replace(scenario, trace=str(path.parent / scenario.trace))
    return scenario


def read_scenario(raw: Any, where: str = "scenario") -> Scenario:
    """The scenario of a decoded file.

    Raises:
        CallError: A key does not exist or a value is wrong; names it.
    """
    try:
        scenario = msgspec.convert(raw, Scenario)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        key = path.rstrip("`").lstrip(".")
        text = text.replace("Object contains unknown field", "there is no key")
        text = text.replace("Object missing required field", "this key is missing:")
        raise CallError(f"{where}: {key + ': ' if key else ''}{text}") from error
    try:
        _check(scenario)
    except CallError as error:
        raise CallError(f"{where}: {error.message}", hint=error.hint) from error
    return scenario


def _check(scenario: Scenario) -> None:
    if not scenario.nodes:
        raise CallError("nodes: a farm needs at least one group of nodes")
    if not scenario.jobs and not scenario.trace:
        raise CallError("jobs: there is nothing to do", hint="add a [[jobs]] table or a trace")
    seen: set[str] = set()
    for index, group in enumerate(scenario.nodes):
        where = f"nodes[{index}]"
        if group.name in seen:
            raise CallError(f"{where}.name: two groups are named {group.name!r}")
        seen.add(group.name)
        check_amount(group.speed, f"{where}.speed", above_zero=True)
        check_amount(group.join_s, f"{where}.join_s")
        parse_usd(group.rate_usd_h)
        total = Resources(cores=group.cores, ram_mib=group.ram_mib, gpus=group.gpus, vram_mib=group.vram_mib)
        try:
            split_slices(total, group.slots)
        except CallError as error:
            raise CallError(f"{where}.slots: {error.message}") from error
    for index, jobs in enumerate(scenario.jobs):
        where = f"jobs[{index}]"
        if not jobs.steps:
            raise CallError(f"{where}.steps: a job needs at least one step")
        for name in ("user", "project"):
            if getattr(jobs, name) == ():
                raise CallError(f"{where}.{name}: the list is empty")
        for number, step in enumerate(jobs.steps):
            check_amount(step.frame_s, f"{where}.steps[{number}].frame_s")
            for key in step.resources:
                if key not in Resources.__struct_fields__:
                    raise CallError(f"{where}.steps[{number}].resources: there is no key `{key}`")
    _check_faults(scenario, seen)


def _check_faults(scenario: Scenario, groups: set[str]) -> None:
    faults = scenario.faults
    for kind in ("crash", "spot", "slow", "partition"):
        for index, fault in enumerate(getattr(faults, kind)):
            where = f"faults.{kind}[{index}]"
            for name in fault.nodes:
                if name not in groups:
                    known = ", ".join(sorted(groups))
                    raise CallError(f"{where}.nodes: there is no group {name!r}", hint=f"groups: {known}")
            if kind == "crash":
                check_amount(fault.repair_s, f"{where}.repair_s")
            elif kind == "spot" and fault.back_s is not None:
                check_amount(fault.back_s, f"{where}.back_s")
            elif kind == "partition" and fault.to_s <= fault.from_s:
                raise CallError(f"{where}.to_s: it ends before it begins")


def check_amount(amount: Amount, where: str, *, above_zero: bool = False) -> None:
    """Checks a figure or distribution.

    Raises:
        CallError: Its fields do not fit its kind; names the key.
    """
    if isinstance(amount, Spread):
        needs = {"constant": "mean", "lognormal": "mean", "exponential": "mean"}.get(amount.kind, "high")
        if getattr(amount, needs) <= 0:
            raise CallError(f"{where}.{needs}: {amount.kind} needs it above 0")
        low, high = (amount.low, amount.high) if needs == "high" else (1.0, 1.0)
        if amount.kind == "uniform" and low > high:
            raise CallError(f"{where}.high: it is below low")
        if above_zero and low <= 0:
            raise CallError(f"{where}.low: it must be above 0")
        return
    if isinstance(amount, tuple) and len(amount) != 2:
        raise CallError(f"{where}: a range has two figures, not {len(amount)}")
    low, high = amount if isinstance(amount, tuple) else (amount, amount)
    if low > high:
        raise CallError(f"{where}: {low:g} to {high:g} is no range")
    if above_zero and low <= 0:
        raise CallError(f"{where}: it must be above 0")
