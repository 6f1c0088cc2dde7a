"""Rows people see: jobs, steps, frames, attempts, nodes, money, keys, reasons; answers to clients hold them.

What belongs here: records of what is shown.  What may not: requests and replies (``farm.protocol.client``).

Rows that come by the ten thousand are nothing the garbage collector has to look at (``gc=False``): they hold
no lists or dicts, so that none of them can be part of a circle.
"""

from __future__ import annotations

import msgspec

from farm.model.nodes import GpuLoad


class StepRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A step as lists show it; ``counts`` has one figure per UnitState value.

    ``able``: whether any node in service could ever take it; None while it needs none.
    ``expected_frame_s``: what a frame that is left is expected to take on an average node, 0 = not known.
    ``rank``: its place among the steps of its job, smaller first; ``first``, ``last``: frames that go before
    and after all others.
    """

    name: str
    kind: str
    renderer: str
    state: str
    frames: str
    units: int
    counts: tuple[int, ...]
    reason: str = ""
    mean_frame_s: float = 0.0
    attempts: int = 0
    able: bool | None = None
    expected_frame_s: float = 0.0
    rank: int = 0
    first: str = ""
    last: str = ""


class JobRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job as lists show it.

    The ranges say when it will be done and what it will have cost; they hold in about four of five cases.
    None: nothing is known.  ``not_estimated`` names steps that are not in them.
    ``rank``: its place among the jobs of its user and project at its priority, smaller first.
    """

    job: int
    name: str
    user: str
    project: str
    priority: int
    state: str
    reason: str
    submitted_us: int
    started_us: int
    ended_us: int
    units: int
    done: int
    failed: int
    running: int
    spend_nano: int
    waste_nano: int
    archived: bool = False
    steps: tuple[StepRow, ...] = ()
    eta_low_us: int | None = None
    eta_high_us: int | None = None
    cost_low_nano: int | None = None
    cost_high_nano: int | None = None
    not_estimated: tuple[str, ...] = ()
    rank: int = 0


class FrameRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A unit as lists show it.

    Attributes:
        unit: Index in the step.
        frame: Frame number, None for a single step.
        state: Word of its state.
        reason: Why it is in that state.
        attempts: Attempts it was leased under so far.
        attempt: Number of the last attempt.
        node: Name of the last node.
        elapsed_s: Seconds its last finished attempt spent on it.
        cost_nano: What it cost so far, waste included.
        failure: Class of its last failure.
        verified: True: files verified; False: they are not; None: the step expects no files.
        files: Final paths.
        progress: Part done while running.
        warning: Worth telling though done.
    """

    unit: int
    frame: int | None
    state: str
    reason: str = ""
    attempts: int = 0
    attempt: int | None = None
    node: str = ""
    elapsed_s: float | None = None
    cost_nano: int = 0
    failure: str = ""
    verified: bool | None = None
    files: tuple[str, ...] = ()
    progress: float | None = None
    warning: str = ""


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt as lists show it."""

    attempt: int
    no: int
    step: str
    node: str
    kind: str
    frames: str
    started_us: int
    ended_us: int
    outcome: str
    reason: str
    charge_nano: int
    waste_nano: int


class NodeRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node as lists show it.

    ``slots``: most attempts at once, 0 = as many as fit.  ``closed``: why its hours keep it from starting
    work now, "" = they do not.  ``update``: its state in the last roll-out of another version, "" = it was
    in none.  ``ram_used_mib``: what the machine uses, other programs among it (of a node that is a slice: of
    the whole machine); -1 = not known.  ``gpu_loads``: in the order of ``gpu_names``, empty = not known;
    ``gpu_vram_mib``: what each GPU has, 0 = not known.
    """

    node: int
    name: str
    host: str
    state: str
    enabled: bool
    reason: str
    pool: str
    site: str
    cores: int
    cores_free: int
    ram_mib: int
    ram_free_mib: int
    gpus: int
    gpus_free: int
    gpu_names: tuple[str, ...]
    apps: tuple[str, ...]
    renderers: tuple[str, ...]
    running: tuple[str, ...]
    rate_nano_h: int
    spent_nano: int
    idle_nano: int
    seen_us: int
    software: str
    cpu_percent: float = 0.0
    slots: int = 0
    schedule: str = ""
    closed: str = ""
    disabled: bool = False
    update: str = ""
    update_reason: str = ""
    ram_used_mib: int = -1
    gpu_vram_mib: tuple[int, ...] = ()
    gpu_loads: tuple[GpuLoad, ...] = ()


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded change: when, what, old, new, why, by whom."""

    at_us: int
    what: str
    old: str
    new: str
    reason: str
    who: str = ""


class SpendLine(msgspec.Struct, frozen=True, kw_only=True):
    """Money by one key (job, user, project, node or site), in nano-USD.

    ``useful + waste + idle == total`` exactly.
    """

    key: str
    total_nano: int
    useful_nano: int
    waste_nano: int
    idle_nano: int
    busy_s: float = 0.0
    frames: int = 0


class WhyCause(msgspec.Struct, frozen=True):
    """What holds something, and what would cure it ("" = only time does)."""

    what: str
    cure: str = ""


class WhyNodes(msgspec.Struct, frozen=True, kw_only=True):
    """What one filter of the scheduler says of some nodes.

    Attributes:
        filter: ``free``, ``order``, ``reserved``, ``failed-here``, ``limit``, ``room``, ``slots``, ``hours``,
            ``service``, ``site`` or ``capability``.
        reason: In words, after a node's name.
        cure: What would change it.
        nodes: Names of some of them.
        count: How many there are.
    """

    filter: str
    reason: str
    cure: str
    nodes: tuple[str, ...]
    count: int


class WhyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Why a step, or units of it that share an answer, are in their state.

    Attributes:
        address: What it is about.
        state: Word of the state.
        units: How many units it is about.
        causes: What holds it, most important first.
        nodes: The scheduler's verdict on each node, those nearest to taking it first.
        start_low_us, start_high_us: Expected start, microseconds since the epoch; None = cannot be told.
        ahead: Units that come before it, None where that means nothing.
        share: Part of the farm its user may expect, 0..1, None where that means nothing.
        failure: Class of the last failure.
        failed_on: Nodes it failed on.
        tries: Failures that counted.
    """

    address: str
    state: str
    units: int
    causes: tuple[WhyCause, ...] = ()
    nodes: tuple[WhyNodes, ...] = ()
    start_low_us: int | None = None
    start_high_us: int | None = None
    ahead: int | None = None
    share: float | None = None
    failure: str = ""
    failed_on: tuple[str, ...] = ()
    tries: int = 0


class WhyWork(msgspec.Struct, frozen=True):
    """Work that waits and why a node does not take it."""

    address: str
    reason: str
    cure: str = ""


class LimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A limit as people see it.

    Attributes:
        name: Its name.
        total: How many there are, None = the policy does not name it.
        per: ``lease`` or ``node``.
        used: Tokens in use.
        holders: Tokens by user who holds them.
        waiting: Addresses of steps that ask for it and have work that waits.
    """

    name: str
    total: int | None
    per: str
    used: int
    holders: dict[str, int] = {}
    waiting: tuple[str, ...] = ()


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key as lists show it; never its secret."""

    public: str
    role: str
    user: str
    pool: str
    site: str
    label: str
    revoked: bool


class RecordingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A recording as lists show it.

    Attributes:
        name: Its name.
        path: Where it lies on the broker's machine.
        size: Bytes.
        running: Whether it is being written.
        events: How many it holds so far, while it is being written.
        trouble: Why it ended before its time, "" = it did not.
    """

    name: str
    path: str
    size: int
    running: bool = False
    events: int = 0
    trouble: str = ""
