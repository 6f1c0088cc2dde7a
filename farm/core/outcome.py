"""What the core answers to an event: rows to store, commands to perform, a value for the asker.

Law: the shell stores the rows first; only then it performs the commands and answers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core.rows import AnyRow
from farm.core.state import Step
from farm.model.outputs import PictureSpec
from farm.model.resources import Resources


class LeaseCommand(msgspec.Struct, frozen=True, gc=False):
    """Send a lease of units of ``step``; see ``farm.protocol.agent.LeaseMsg``."""

    node_id: int
    attempt: int
    step: Step
    no: int
    nonce: int
    kind: int
    units: tuple[int, ...]
    resources: Resources
    gpus: tuple[int, ...]
    specs: tuple[PictureSpec | None, ...]
    ask: bool
    supersedes: tuple[str, ...]
    adopt_folder: str
    silent_us: int = 0


class GrantCommand(msgspec.Struct, frozen=True, gc=False):
    """Allow a unit to be published, or (with a reason) reject it.

    ``supersedes``: folders of lost attempts to empty before, beyond those the lease named.
    """

    node_id: int
    attempt: int
    unit: int
    reason: str
    supersedes: tuple[str, ...] = ()


class StopCommand(msgspec.Struct, frozen=True, gc=False):
    """Stop an attempt, or drop some of its units; ``take_back``: only those not begun, which it releases."""

    node_id: int
    attempt: int
    reason: str
    units: tuple[int, ...]
    take_back: bool = False


class DiscardCommand(msgspec.Struct, frozen=True, gc=False):
    """Tell an agent to delete the kept files of an attempt."""

    node_id: int
    attempt: int


class DrainCommand(msgspec.Struct, frozen=True, gc=False):
    """Tell an agent whether it gets work."""

    node_id: int
    on: bool
    reason: str


class UpdateCommand(msgspec.Struct, frozen=True, gc=False):
    """Tell an agent to update itself; see ``farm.protocol.agent.UpdateMsg``."""

    node_id: int
    rollout: int
    version: str


AnyCommand = LeaseCommand | GrantCommand | StopCommand | DiscardCommand | DrainCommand | UpdateCommand


class Outcome(msgspec.Struct, eq=False):
    """Collects what one event brings about.

    Attributes:
        rows: To store, in order.
        commands: To perform after the rows are durable, in order.
        reply: Value for whoever asked (a job id, a count of units, a node's answer).
    """

    rows: list[AnyRow] = []
    commands: list[AnyCommand] = []
    reply: Any = None


class HelloAnswer(msgspec.Struct, frozen=True):
    """Answer to a HelloEvent: the node's id, and the attempts it keeps."""

    node_id: int
    keep: tuple[int, ...]


class SubmitAnswer(msgspec.Struct, frozen=True):
    """Answer to a SubmitEvent: the job's number, whether the token was known already, warnings."""

    job: int
    again: bool
    warnings: tuple[str, ...] = ()


class ActAnswer(msgspec.Struct, frozen=True):
    """Answer to an action: how many units (or jobs, nodes) changed, in words what happened.

    ``lost_core_us``: core-microseconds of work that were thrown away by it.
    """

    changed: int
    message: str
    lost_core_us: int = 0
