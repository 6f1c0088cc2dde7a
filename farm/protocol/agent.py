"""Messages between an agent and the broker, on the control socket.

Agent -> broker:  HelloMsg (common), BeatMsg, ReportMsg, VerifiedMsg, ByeMsg
Broker -> agent:  WelcomeMsg (common), BeatAckMsg, BatchMsg (acks, leases, grants, stops), DrainMsg, UpdateMsg

Every message about work carries the attempt it speaks for and the lease's nonce.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.model.nodes import AppInfo, AttemptProgress, GpuInfo, NodeFacts, NodeLoad
from farm.model.outputs import PictureSpec
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.resources import Resources

__all__ = [
    "DONE",
    "FAILED",
    "RELEASED",
    "AgentHello",
    "AgentWelcome",
    "AppInfo",
    "AttemptProgress",
    "BatchMsg",
    "BeatAckMsg",
    "BeatMsg",
    "ByeMsg",
    "DrainMsg",
    "GpuInfo",
    "GrantMsg",
    "InputPlan",
    "LeaseMsg",
    "NodeFacts",
    "NodeLoad",
    "OutputPlan",
    "ReportMsg",
    "StepTemplate",
    "StopMsg",
    "Timings",
    "UnitReport",
    "UpdateMsg",
    "VerifiedMsg",
]


class AgentHello(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's part of a hello.

    Attributes:
        facts: What this node is.
        farm_id: The farm the outbox belongs to, "" when it is empty and never joined.
        running: Attempts (ids) still alive here: rendering, or held for publishing.
        pending: Attempts with reports in the outbox that no broker acknowledged yet.
        instance: Random id of this agent process; a new one means the old process is gone.
        ending: It ends once what runs has ended, and takes nothing new; its facts stay true.
    """

    facts: NodeFacts
    farm_id: str = ""
    running: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    instance: str = ""
    ending: bool = False


class Timings(msgspec.Struct, frozen=True):
    """Lease times in seconds; the broker decides them for the whole farm."""

    heartbeat_s: float = 2.0
    suspect_s: float = 15.0
    lost_s: float = 60.0
    lease_ttl_s: float = 45.0
    kill_grace_s: float = 15.0


# ---------------------------------------------------------------- agent -> broker


class BeatMsg(msgspec.Struct, frozen=True, tag="beat"):
    """Heartbeat.

    Attributes:
        n: Counts up per session; the answer repeats it.
        held: Attempts this agent believes it holds.
        got: Number of the last BatchMsg received in this session.
    """

    n: int
    held: tuple[int, ...] = ()
    got: int = 0
    progress: tuple[AttemptProgress, ...] = ()
    load: NodeLoad | None = None


class ReportMsg(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="report"):
    """Results, durable in the agent's outbox until acknowledged.

    Attributes:
        n: Outbox number; the acknowledgement repeats it.
        attempt: Attempt id.
        nonce: The lease's nonce.
        units: What became of units.
        closed: Nothing of this attempt runs any more; no further report will come.
        kept: Files of these units (indices) are still in the attempt's folder, verified but unpublished.
    """

    n: int
    attempt: int
    nonce: int
    units: tuple[UnitReport, ...] = ()
    closed: bool = False
    kept: tuple[int, ...] = ()


class VerifiedMsg(msgspec.Struct, frozen=True, tag="verified"):
    """A unit's files are good but the step has no specification yet: waits for a grant.

    Not in the outbox: the agent repeats it in every new session until a grant or a stop comes.

    Attributes:
        specs: Picture specification per output, None for outputs that are no pictures.
    """

    attempt: int
    nonce: int
    unit: int
    specs: tuple[PictureSpec | None, ...]


class ByeMsg(msgspec.Struct, frozen=True, tag="bye"):
    """The agent is going away in order: its processes are gone and its outbox is empty or kept."""

    reason: str = ""


# ---------------------------------------------------------------- broker -> agent


class OutputPlan(msgspec.Struct, frozen=True):
    """One expected output: the final pattern (as the artist's machine sees it) and its kind."""

    pattern: str
    kind: str


class InputPlan(msgspec.Struct, frozen=True):
    """An input resolved to a pattern and the frames planned, in order ("" = one file)."""

    pattern: str
    frames: str = ""


class StepTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What all leases of a step share; encoded once per step by the broker.

    Attributes:
        job: Job number.
        step: Step name.
        kind: ``per_frame`` or ``single``.
        renderer: Renderer name.
        params: The renderer's parameters, unmapped.
        outputs: Expected outputs.
        inputs: Resolved inputs by parameter name.
        frames: Canonical text of the whole step's frame range, "" for a single step.
        env: Extra environment.
        cwd: Working folder or "".
        version: Constraint on the application's version.
        timeout_s: Wall-clock limit of the chunk, 0 = none.
        checks: Optional picture checks.
        movie_frames: Frames a movie output must have, None = only decoded.
        pre: Command run before the renderer of every chunk, in its environment; empty = none.
        post: Command run after a chunk's frames were rendered.
        min_run_s: A frame that ends well in less counts as failed, 0 = off.
        frame_timeout_s: Wall-clock limit of one frame, 0 = none.
        user: Whose job it is.
        project: Its project.
        job_name: Its name.
    """

    job: int
    step: str
    kind: str
    renderer: str
    params: dict[str, Any] = {}
    outputs: tuple[OutputPlan, ...] = ()
    inputs: dict[str, InputPlan] = {}
    frames: str = ""
    env: dict[str, str] = {}
    cwd: str = ""
    version: str = ""
    timeout_s: float = 0.0
    checks: tuple[str, ...] = ()
    movie_frames: int | None = None
    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()
    min_run_s: float = 0.0
    frame_timeout_s: float = 0.0
    user: str = ""
    project: str = ""
    job_name: str = ""


class LeaseMsg(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="lease"):
    """Work for an agent.

    Attributes:
        attempt: Attempt id, unique in the farm.
        no: Attempt number within the step (``J12/beauty@7``).
        nonce: Random number that every report must repeat.
        kind: AttemptKind: 0 render, 1 verify existing files, 2 adopt files kept from ``adopt_folder``, 3 a
            second copy of a frame that runs elsewhere (always asks before it publishes).
        units: Unit indices, in order.
        frames: Frame numbers of the units, in the same order; empty for a single step.
        template: Encoded StepTemplate.
        resources: What is leased.
        gpus: CUDA indices leased.
        specs: Per output: the specification every file must have, or None while unknown.
        ask: True while the specification is unknown and the step writes pictures: report VerifiedMsg
            and wait for the grant before publishing.
        supersedes: Names of lost attempts' folders to empty before publishing.
        adopt_folder: Folder name of the lost attempt whose kept files to adopt.
        silent_s: Stop as ``silent`` after so many seconds without output while CPU and disk are idle; 0 =
        never.
    """

    attempt: int
    no: int
    nonce: int
    kind: int
    units: tuple[int, ...]
    frames: tuple[int, ...]
    template: msgspec.Raw
    resources: Resources = Resources()
    gpus: tuple[int, ...] = ()
    specs: tuple[PictureSpec | None, ...] = ()
    ask: bool = False
    supersedes: tuple[str, ...] = ()
    adopt_folder: str = ""
    silent_s: float = 0.0


class GrantMsg(msgspec.Struct, frozen=True):
    """The unit may be published (``reason`` empty) or is rejected (why).

    ``supersedes`` names folders to empty before it is published, beyond those of the lease: an attempt was
    lost while this one, its second copy, was rendering.
    """

    attempt: int
    unit: int
    reason: str = ""
    supersedes: tuple[str, ...] = ()


class StopMsg(msgspec.Struct, frozen=True):
    """Stop an attempt (``units`` empty) or drop some of its units; the agent confirms by ``closed``.

    ``take_back`` asks only for units not yet started; the agent releases those.
    """

    attempt: int
    reason: str
    units: tuple[int, ...] = ()
    take_back: bool = False


class BatchMsg(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="batch"):
    """Everything one turn of the broker's loop has for one agent.

    Attributes:
        n: Counts up per session.
        acks: Outbox numbers that are committed (or known stale): forget them.
        discard: Attempts whose kept files must be deleted (late results that lost).
    """

    n: int
    acks: tuple[int, ...] = ()
    leases: tuple[LeaseMsg, ...] = ()
    grants: tuple[GrantMsg, ...] = ()
    stops: tuple[StopMsg, ...] = ()
    discard: tuple[int, ...] = ()


class BeatAckMsg(msgspec.Struct, frozen=True, tag="beat-ack"):
    """Answer to heartbeat ``n``: attempts the broker agrees this agent holds."""

    n: int
    held: tuple[int, ...] = ()


class DrainMsg(msgspec.Struct, frozen=True, tag="drain"):
    """No new leases will come (``on``) or they will again."""

    on: bool
    reason: str = ""


class UpdateMsg(msgspec.Struct, frozen=True, tag="update"):
    """Update this node's software: run the command its administrator configured, then start anew.

    Only sent to agents whose facts say that they can (``NodeFacts.updates``) and that run nothing.  How it
    went is in the facts of the next hello.

    Attributes:
        rollout: Number of the roll-out; the facts repeat it.
        version: Version of Overcrank to get.
    """

    rollout: int
    version: str


class AgentWelcome(msgspec.Struct, frozen=True, kw_only=True):
    """The broker's answer to an agent's hello.

    Attributes:
        node_id: The node's id in this farm.
        farm_id: The farm's random id; an outbox of another farm is set aside.
        timings: Lease times.
        keep: Attempts (of ``running`` and ``pending``) that are still this agent's; it stops all others.
        log_cap: Bytes of log kept per attempt.
        path_rules: Path mapping rules for this site: (source, target) pairs.
    """

    node_id: int
    farm_id: str
    timings: Timings
    keep: tuple[int, ...] = ()
    log_cap: int = 1 << 30
    path_rules: tuple[tuple[str, str], ...] = ()
