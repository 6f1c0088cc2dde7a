"""What runs, or is looked at: units leased to a node, requests to look at files, attempts that were lost.

What belongs here: the data alone; ``farm.core.apply`` makes and changes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from farm.model.states import AttemptKind

if TYPE_CHECKING:
    from farm.core.state import Node
    from farm.core.work import Step

#: Shared by all attempts that hold none: never written to.
_NO_TOKENS: dict[str, int] = {}
_NOTHING: frozenset[int] = frozenset()


class Attempt:
    """Units leased to a node.  ``open`` are those it still owes a result for.

    ``dropped`` units were taken from it (cancelled, rendered again elsewhere) but may still be rendering
    there: they are parked in the step until the attempt is closed.
    """

    __slots__ = (
        "asked_back",
        "charge_nano",
        "charged",
        "cores",
        "disk_mib",
        "dropped",
        "gpus",
        "id",
        "kind",
        "limits",
        "no",
        "node",
        "nonce",
        "open",
        "ram_mib",
        "rate",
        "share_ppm",
        "started_us",
        "step",
        "tokens",
        "units",
        "useful_us",
        "verify",
        "wasted",
    )

    def __init__(
        self,
        number: int,
        no: int,
        nonce: int,
        kind: AttemptKind,
        step: Step,
        node: Node,
        units: tuple[int, ...],
    ) -> None:
        self.id = number
        self.no = no
        self.nonce = nonce
        self.kind = kind
        self.step = step
        self.node = node
        self.open = dict.fromkeys(units)
        self.dropped: set[int] = set()
        self.units = units
        self.cores = 0
        self.ram_mib = 0
        self.disk_mib = 0
        self.tokens: dict[str, int] = _NO_TOKENS
        self.limits: tuple[tuple[str, int], ...] = ()
        #: Core-ppm it holds, core-milliseconds charged to the accounts at the lease.
        self.rate = 0
        self.charged = 0
        self.gpus: tuple[int, ...] = ()
        self.share_ppm = 1
        self.charge_nano = 0
        self.started_us = 0
        self.useful_us = 0
        self.wasted = False
        #: Units its agent was asked to give back unless begun (not stored: after a restart it may be asked
        #: again).
        self.asked_back: frozenset[int] = _NOTHING
        self.verify: VerifyRequest | None = None

    @property
    def user(self) -> str:
        """Whose work it is: whose cap it counts for, who judges its node."""
        return self.step.job.user

    @property
    def address(self) -> str:
        """``J12/beauty@7``."""
        return f"{self.step.address}@{self.no}"


class VerifyRequest(msgspec.Struct):
    """Existing files to verify: for ``mark-done`` by a user, or to ``skip`` what is already there."""

    id: int
    step_id: int
    units: tuple[int, ...]
    purpose: str
    who: str
    leased: bool = False


class LostAttempt(NamedTuple):
    """What is remembered of an attempt that ended without its agent's word."""

    step_id: int
    no: int
    nonce: int
    node_id: int
    units: tuple[int, ...]
