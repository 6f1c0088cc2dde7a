"""Messages between a client (CLI, GUI, scripts) and the broker, on the control socket.

A request carries an id that its reply repeats.  Replies that fail are ErrorReply.  Subscriptions answer
with a SnapshotMsg and go on with numbered DeltaMsg; a gap in the numbers means: subscribe again.
The rows of their answers are in ``farm.protocol.rows`` and named here too.

Long because what may be said on this socket is one list, and a request stands beside its reply.
"""

from __future__ import annotations

import msgspec

from farm.protocol import rows

# Named here too: who asks needs but one import.
AttemptRow = rows.AttemptRow
FrameRow = rows.FrameRow
HistoryRow = rows.HistoryRow
JobRow = rows.JobRow
KeyRow = rows.KeyRow
LimitRow = rows.LimitRow
NodeRow = rows.NodeRow
RecordingRow = rows.RecordingRow
SpendLine = rows.SpendLine
StepRow = rows.StepRow
WhyCause = rows.WhyCause
WhyNodes = rows.WhyNodes
WhyRow = rows.WhyRow
WhyWork = rows.WhyWork

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
        force: Of ``set``: also when no node of the farm could ever take the step then.
    """

    action: str
    address: str
    value: str = ""
    reason: str = ""
    force: bool = False


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


class PingReq(Request, frozen=True, kw_only=True, tag="ping"):
    """Nothing is asked for: OkReply comes as soon as the broker's turn is stored, however large the farm."""


class SeriesReq(Request, frozen=True, kw_only=True, tag="series"):
    """How the farm went since a moment (microseconds since the epoch), for plots; 0 = as far as is known."""

    since_us: int = 0


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


class SubscribeReq(Request, frozen=True, kw_only=True, omit_defaults=True, tag="subscribe"):
    """Follow topics: ``jobs``, ``nodes``, ``job:12``.  Replaces the session's earlier topics.

    Attributes:
        topics: All that is followed from now on.
        state_of: Those of them the snapshot is to tell of; of the others, which this session followed before,
            the client has the state and goes on with deltas.  None = all of them.
    """

    topics: tuple[str, ...]
    state_of: tuple[str, ...] | None = None


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
    """The action was committed; ``changed`` units (or 1 for a job), in words what happened.

    ``lost_core_us``: core-microseconds of work that were thrown away by it.
    """

    id: int
    changed: int
    message: str = ""
    lost_core_us: int = 0


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
    """The farm at a glance.

    Attributes:
        cores, cores_used, gpus, gpus_used: Of nodes in service; 0 where the broker does not tell.
    """

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
    cores: int = 0
    cores_used: int = 0
    gpus: int = 0
    gpus_used: int = 0


class SeriesReply(msgspec.Struct, frozen=True, kw_only=True, tag="series-is"):
    """How the farm went: one value a point in every field, oldest first.

    What is longer ago is told more coarsely, by means.  A broker that starts anew begins anew.

    Attributes:
        now_us: The broker's time.
        at_us: When.
        cores, cores_used, gpus, gpus_used: Of nodes in service.
        queued, running: Frames.
        nodes: Nodes in service.
        burn_nano_h: What the farm costs an hour, in nano-USD.
        done_s, failed_s: Frames that got done, and tries that failed, a second since the point before.
        projects: Cores in use by project, the largest ones; ``(others)`` is the rest.
    """

    id: int
    now_us: int
    at_us: tuple[int, ...]
    cores: tuple[float, ...]
    cores_used: tuple[float, ...]
    gpus: tuple[float, ...]
    gpus_used: tuple[float, ...]
    queued: tuple[float, ...]
    running: tuple[float, ...]
    nodes: tuple[float, ...]
    burn_nano_h: tuple[float, ...]
    done_s: tuple[float, ...]
    failed_s: tuple[float, ...]
    projects: dict[str, tuple[float, ...]] = {}


class KeysReply(msgspec.Struct, frozen=True, kw_only=True, tag="keys-are"):
    """Keys, or the token of an invitation."""

    id: int
    keys: tuple[KeyRow, ...] = ()
    token: str = ""


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


class UnitDelta(msgspec.Struct, frozen=True, gc=False, array_like=True):
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
    | PingReq
    | SeriesReq
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
    | SeriesReply
    | SnapshotMsg
    | DeltaMsg
)
