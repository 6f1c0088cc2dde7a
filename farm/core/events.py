"""What may happen to the farm: frozen events that carry the time (``now_us``) and any entropy.

The core reads no clock and draws no random number; the same list of events gives the same state.
``now_us`` is microseconds since the epoch.
"""

from __future__ import annotations

import msgspec

from farm.core.rows import ShelfRow
from farm.model.jobs import JobSpec
from farm.model.nodes import NodeFacts
from farm.model.outputs import PictureSpec
from farm.model.policy import Policy
from farm.model.reports import UnitReport


class Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Base of all events; the name of its class is its tag in recordings."""

    now_us: int


class SubmitEvent(Event, frozen=True, gc=False):
    """A checked job arrives.

    Attributes:
        spec: The job.
        source: The job file as JSON, stored as it is.
        apps: Per step: the application its renderer needs ("" = none).
        whole: Per step: whether one attempt takes its node's whole slice.
        force: Also when no node of the farm could ever take it.
    """

    spec: JobSpec
    source: bytes
    apps: tuple[str, ...]
    whole: tuple[bool, ...]
    force: bool = False


class HelloEvent(Event, frozen=True, gc=False):
    """An agent opened a session.

    Attributes:
        key: Its public key: identifies the node.
        facts: What it says of itself.
        pool: Pool of its key.
        site: Site of its key.
        rate_nano_h: What the node costs, nano-USD per hour.
        running: Attempts it holds.
        pending: Attempts with reports still in its outbox.
        ending: It takes nothing new and ends once what runs has ended.
    """

    key: str
    facts: NodeFacts
    pool: str
    site: str
    rate_nano_h: int
    running: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    ending: bool = False


class BeatEvent(Event, frozen=True, gc=False):
    """A heartbeat; ``missing`` are attempts that were sent to the agent and that it does not hold."""

    node_id: int
    missing: tuple[int, ...] = ()


class ByeEvent(Event, frozen=True, gc=False):
    """An agent left in order: nothing of it runs any more."""

    node_id: int
    reason: str


class ReportEvent(Event, frozen=True, gc=False):
    """Results of an attempt.  See ``farm.protocol.agent.ReportMsg``."""

    node_id: int
    attempt: int
    nonce: int
    units: tuple[UnitReport, ...]
    closed: bool
    kept: tuple[int, ...] = ()


class VerifiedEvent(Event, frozen=True, gc=False):
    """A unit waits for its publish grant, with the specification of each output's picture."""

    node_id: int
    attempt: int
    nonce: int
    unit: int
    specs: tuple[PictureSpec | None, ...]


class DispatchEvent(Event, frozen=True, gc=False):
    """Place work on all free nodes.  ``entropy`` is 64 random bits that the nonces come from."""

    entropy: int


class TickEvent(Event, frozen=True, gc=False):
    """Time passed: lost nodes, back-offs, grace periods."""


class ActEvent(Event, frozen=True, gc=False):
    """A user action on work that was already authorised.

    Attributes:
        action: pause, resume, cancel, requeue, retry, skip, mark-done, priority, next, last, set, archive.
        job: Job number.
        step: Step name, "" for the whole job.
        frames: Frame range text, "" for the whole step.
        value: The action's argument.
        reason: What the user says.
        who: User name.
        force: Of ``set``: also when no node of the farm could ever take the step then.
    """

    action: str
    job: int
    step: str
    frames: str
    value: str
    reason: str
    who: str
    force: bool = False


class DeleteEvent(Event, frozen=True, gc=False):
    """A user deletes a job for good; who may was checked before.

    Attributes:
        job: Job number.
        reason: What the user says.
        who: User name.
        shelf: The row of a job that is in the archive, which the core itself does not remember.
    """

    job: int
    reason: str
    who: str
    shelf: ShelfRow | None = None


class NodeActEvent(Event, frozen=True, gc=False):
    """A user action on a node: drain, enable, forget, set; ``value`` is the action's argument."""

    action: str
    node_id: int
    reason: str
    who: str
    value: str = ""


class PolicyEvent(Event, frozen=True, gc=False):
    """A wrangler replaces the farm's policy."""

    policy: Policy
    reason: str
    who: str


class CheckpointEvent(Event, frozen=True, gc=False):
    """Write maps and meters, so that a restart replays only what comes after."""


class RestartEvent(Event, frozen=True, gc=False):
    """The broker came back: nodes get a grace period from now before anything of theirs is requeued."""

    grace_us: int


AnyEvent = (
    SubmitEvent
    | HelloEvent
    | BeatEvent
    | ByeEvent
    | ReportEvent
    | VerifiedEvent
    | DispatchEvent
    | TickEvent
    | ActEvent
    | DeleteEvent
    | NodeActEvent
    | PolicyEvent
    | CheckpointEvent
    | RestartEvent
)
