"""Messages between a client (CLI, GUI, scripts) and the broker, on the control socket.

A request carries an id that its reply repeats.  Replies that fail are ErrorReply.  Subscriptions answer
with a SnapshotMsg and go on with numbered DeltaMsg; a gap in the numbers means: subscribe again.
"""

from __future__ import annotations

from typing import Any

import msgspec

# ---------------------------------------------------------------- rows people see


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step as lists show it; ``counts`` has one figure per UnitState value.

    ``able``: whether any node in service could ever take it; None while it needs none.
    ``expected_frame_s``: what a frame that is left is expected to take on an average node, 0 = not known.
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


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as lists show it.

    The ranges say when it will be done and what it will have cost; they hold in about four of five cases.
    None: nothing is known.  ``not_estimated`` names steps that are not in them.
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


class FrameRow(msgspec.Struct, frozen=True, kw_only=True):
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


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node as lists show it.

    ``slots``: most attempts at once, 0 = as many as fit.  ``closed``: why its hours keep it from starting
    work now, "" = they do not.  ``update``: its state in the last roll-out of another version, "" = it was
    in none.
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


# ---------------------------------------------------------------- requests


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all requests; ``id`` counts up per session."""

    id: int


class SubmitReq(Request, frozen=True, kw_only=True, tag="submit"):
    """Submit a job file (JSON bytes, checked again by the broker).

    ``force``: also when no node of the farm could ever take a step.
    """

    job: bytes
    force: bool = False


class JobsReq(Request, frozen=True, kw_only=True, tag="jobs"):
    """List jobs, newest first.

    Attributes:
        states: Only these shown states; empty = all.
        user: Only this user's.
        archived: Also archived ones.
        before: Only jobs with a smaller number (paging).
        limit: At most this many (1-1000).
    """

    states: tuple[str, ...] = ()
    user: str = ""
    archived: bool = False
    before: int = 0
    limit: int = 200


class JobReq(Request, frozen=True, kw_only=True, tag="job"):
    """One job with its steps, and its spec if asked."""

    job: int
    spec: bool = False


class FramesReq(Request, frozen=True, kw_only=True, tag="frames"):
    """Units of a job, a step or some frames of it.

    Attributes:
        address: ``J12``, ``J12/beauty`` or ``J12/beauty/17-20``.
        states: Only these states.
        offset: Skip so many rows.
        limit: At most this many (1-5000).
    """

    address: str
    states: tuple[str, ...] = ()
    offset: int = 0
    limit: int = 1000


class AttemptsReq(Request, frozen=True, kw_only=True, tag="attempts"):
    """Attempts of a job, a step or a frame, newest first."""

    address: str
    limit: int = 200


class HistoryReq(Request, frozen=True, kw_only=True, tag="history"):
    """Recorded changes of a job (or of the farm), newest first."""

    job: int = 0
    before_us: int = 0
    limit: int = 200


class ActReq(Request, frozen=True, kw_only=True, tag="act"):
    """A user action on work.

    Attributes:
        action: Name in ``farm.model.roles.ACTIONS``.
        address: What it concerns.
        value: Its argument (a priority), "" for none.
        reason: What the user says about it.
    """

    action: str
    address: str
    value: str = ""
    reason: str = ""


class PolicyReq(Request, frozen=True, kw_only=True, tag="policy"):
    """The farm's policy, and what its limits hold now."""


class PolicySetReq(Request, frozen=True, kw_only=True, tag="policy-set"):
    """Change the policy.

    Attributes:
        values: Dotted keys and their values as text, e.g. ``limits.nuke.total`` and ``10``; an empty value
            takes an entry of a table away.
        whole: The whole policy as JSON instead; empty = change only ``values``.
        reason: What the user says about it.
    """

    values: dict[str, str] = {}
    whole: bytes = b""
    reason: str = ""


class EstimateReq(Request, frozen=True, kw_only=True, tag="estimate"):
    """What a job file (JSON) would take if it were submitted now; nothing is stored."""

    job: bytes


class NodesReq(Request, frozen=True, kw_only=True, tag="nodes"):
    """List nodes."""


class NodeActReq(Request, frozen=True, kw_only=True, tag="node-act"):
    """A user action on a node (name or id): node-drain, node-disable, node-enable, node-forget, node-set.

    ``node-update`` and ``node-update-stop`` concern many nodes; ``node`` is empty then.

    Attributes:
        action: Name in ``farm.model.roles.ACTIONS``.
        node: Name or number of the node.
        reason: What the user says about it.
        value: Argument as JSON: of node-set an object of texts (``slots``, ``schedule``, ``rate``), of
            node-update an UpdateAsk.
    """

    action: str
    node: str
    reason: str = ""
    value: str = ""


class UpdateAsk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which nodes to update, and how carefully.

    Attributes:
        nodes: Names or numbers; empty = all that are not forgotten.
        at_most: How many may be out of service at once: ``10%`` or a number.
        failures: Stop when so many have failed.
        patience_s: How long the update of a node may take.
    """

    nodes: tuple[str, ...] = ()
    at_most: str = "10%"
    failures: int = 1
    patience_s: float = 1800.0


class SpendReq(Request, frozen=True, kw_only=True, tag="spend"):
    """Money by ``job``, ``user``, ``project``, ``node`` or ``site``; ``job`` > 0 limits it to one job."""

    by: str = "job"
    job: int = 0


class StatusReq(Request, frozen=True, kw_only=True, tag="status"):
    """The farm at a glance."""


class WhyReq(Request, frozen=True, kw_only=True, tag="why"):
    """Why work waits, failed or runs; or (``node``) why a node is idle.

    Attributes:
        address: ``J12``, ``J12/beauty`` or ``J12/beauty/17-20``; "" with ``node``.
        node: Name or number of a node; "" with ``address``.
    """

    address: str = ""
    node: str = ""


class KeysReq(Request, frozen=True, kw_only=True, tag="keys"):
    """Manage keys.

    Attributes:
        action: ``keys-list``, ``keys-invite``, ``keys-add`` or ``keys-revoke``.
        role, user, pool, site, label: What the invited or added key gets.
        key: Public key (add) or label/fingerprint/public key (revoke).
        ttl_s: Life of an invitation.
    """

    action: str
    role: str = ""
    user: str = ""
    pool: str = ""
    site: str = ""
    label: str = ""
    key: str = ""
    ttl_s: float = 900.0


class SubscribeReq(Request, frozen=True, kw_only=True, tag="subscribe"):
    """Follow topics: ``jobs``, ``nodes``, ``job:12``.  Replaces the session's earlier topics."""

    topics: tuple[str, ...]


class ShutdownReq(Request, frozen=True, kw_only=True, tag="shutdown"):
    """Stop the broker in order (administrators)."""

    reason: str = ""


class RecordReq(Request, frozen=True, kw_only=True, tag="record"):
    """Recordings of the farm's events (administrators).

    Attributes:
        action: ``start``, ``stop``, ``list`` or ``get`` (where it lies).
        name: Of the recording, for start and get.
    """

    action: str
    name: str = ""


# ---------------------------------------------------------------- replies


class ErrorReply(msgspec.Struct, frozen=True, kw_only=True, tag="error"):
    """The request failed; nothing was changed."""

    id: int
    code: str
    message: str
    hint: str = ""


class SubmitReply(msgspec.Struct, frozen=True, kw_only=True, tag="submitted"):
    """The job is stored.  ``again``: the token was known, this is the job of then."""

    id: int
    job: int
    warnings: tuple[str, ...] = ()
    again: bool = False


class JobsReply(msgspec.Struct, frozen=True, kw_only=True, tag="jobs-are"):
    """Jobs; ``more``: there are further ones."""

    id: int
    jobs: tuple[JobRow, ...]
    more: bool = False


class JobReply(msgspec.Struct, frozen=True, kw_only=True, tag="job-is"):
    """One job."""

    id: int
    job: JobRow
    spec: bytes = b""


class FramesReply(msgspec.Struct, frozen=True, kw_only=True, tag="frames-are"):
    """Units by step name; ``more``: there are further ones."""

    id: int
    steps: dict[str, tuple[FrameRow, ...]]
    more: bool = False


class AttemptsReply(msgspec.Struct, frozen=True, kw_only=True, tag="attempts-are"):
    """Attempts."""

    id: int
    attempts: tuple[AttemptRow, ...]


class HistoryReply(msgspec.Struct, frozen=True, kw_only=True, tag="history-is"):
    """Recorded changes."""

    id: int
    rows: tuple[HistoryRow, ...]


class ActReply(msgspec.Struct, frozen=True, kw_only=True, tag="acted"):
    """The action was committed; ``changed`` units (or 1 for a job), in words what happened."""

    id: int
    changed: int
    message: str = ""


class EstimateReply(msgspec.Struct, frozen=True, kw_only=True, tag="estimated"):
    """What a job would take, from steps like its own; ranges hold in about four of five cases.

    Attributes:
        frames: Frames of its per-frame steps.
        low_s, high_s: Time from now until it is done; None: no node in service can do it, or nothing is
            known.
        cost_low_nano, cost_high_nano: What it costs, likewise.
        unknown: Steps that nothing is like: not in the figures.
        warnings: What a submit would warn of.
    """

    id: int
    frames: int
    low_s: float | None = None
    high_s: float | None = None
    cost_low_nano: int | None = None
    cost_high_nano: int | None = None
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


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


class PolicyReply(msgspec.Struct, frozen=True, kw_only=True, tag="policy-is"):
    """The policy: every field in force by dotted key as text, and whole as JSON; and its limits."""

    id: int
    values: dict[str, str]
    whole: bytes
    limits: tuple[LimitRow, ...] = ()


class NodesReply(msgspec.Struct, frozen=True, kw_only=True, tag="nodes-are"):
    """Nodes."""

    id: int
    nodes: tuple[NodeRow, ...]


class WhyReply(msgspec.Struct, frozen=True, kw_only=True, tag="why-is"):
    """Answer to WhyReq.

    Attributes:
        rows: One per step, or per group of named units.
        node: The node asked about, "" for work.
        reason: Why that node takes nothing, "" when only ``work`` tells.
        work: The first work in order that waits, and why that node does not take it.
        waiting: Steps that wait in the farm.
        more: There are more units than were looked at.
    """

    id: int
    rows: tuple[WhyRow, ...] = ()
    node: str = ""
    reason: str = ""
    work: tuple[WhyWork, ...] = ()
    waiting: int = 0
    more: bool = False


class SpendReply(msgspec.Struct, frozen=True, kw_only=True, tag="spend-is"):
    """Money; ``total`` sums the lines exactly."""

    id: int
    by: str
    lines: tuple[SpendLine, ...]
    total: SpendLine


class StatusReply(msgspec.Struct, frozen=True, kw_only=True, tag="status-is"):
    """The farm at a glance."""

    id: int
    farm_name: str
    farm_id: str
    software: str
    up_s: float
    jobs: dict[str, int]
    units: dict[str, int]
    nodes: dict[str, int]
    spend_nano: int
    burn_nano_h: int
    alerts: tuple[str, ...] = ()


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key as lists show it; never its secret."""

    public: str
    role: str
    user: str
    pool: str
    site: str
    label: str
    revoked: bool


class KeysReply(msgspec.Struct, frozen=True, kw_only=True, tag="keys-are"):
    """Keys, or the token of an invitation."""

    id: int
    keys: tuple[KeyRow, ...] = ()
    token: str = ""


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


class RecordReply(msgspec.Struct, frozen=True, kw_only=True, tag="recordings-are"):
    """Recordings, or the one that was meant."""

    id: int
    recordings: tuple[RecordingRow, ...]


class OkReply(msgspec.Struct, frozen=True, kw_only=True, tag="ok"):
    """Done."""

    id: int


class SnapshotMsg(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot"):
    """State of the subscribed topics; deltas go on from ``n``.

    ``maps`` holds, for each subscribed job and step, the byte map of unit states.
    """

    id: int
    n: int
    jobs: tuple[JobRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    maps: dict[str, bytes] = {}


class UnitDelta(msgspec.Struct, frozen=True, array_like=True):
    """Step address, unit index, new state byte."""

    step: str
    unit: int
    state: int


class DeltaMsg(msgspec.Struct, frozen=True, kw_only=True, tag="delta"):
    """Changes since the last message of this session's subscription; ``n`` counts up by one."""

    n: int
    jobs: tuple[JobRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    units: tuple[UnitDelta, ...] = ()
    gone: tuple[str, ...] = ()


AnyRequest = (
    SubmitReq
    | JobsReq
    | JobReq
    | FramesReq
    | AttemptsReq
    | HistoryReq
    | ActReq
    | PolicyReq
    | PolicySetReq
    | EstimateReq
    | NodesReq
    | NodeActReq
    | SpendReq
    | StatusReq
    | KeysReq
    | WhyReq
    | SubscribeReq
    | ShutdownReq
    | RecordReq
)
AnyReply = (
    ErrorReply
    | SubmitReply
    | JobsReply
    | JobReply
    | FramesReply
    | AttemptsReply
    | HistoryReply
    | ActReply
    | PolicyReply
    | EstimateReply
    | NodesReply
    | SpendReply
    | WhyReply
    | StatusReply
    | KeysReply
    | OkReply
    | RecordReply
    | SnapshotMsg
    | DeltaMsg
)
JsonObject = dict[str, Any]
