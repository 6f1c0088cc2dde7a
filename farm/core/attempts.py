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

_NOTHING: frozenset[int] = frozenset()


class Attempt(msgspec.Struct, eq=False):
    """Units leased to a node.  ``open`` are those it still owes a result for.

    ``dropped`` units were taken from it (cancelled, rendered again elsewhere) but may still be rendering
    there: they are parked in the step until the attempt is closed.

    A struct because one is made at every lease, and what most of them never need costs nothing to set.
    """

    id: int
    no: int
    nonce: int
    kind: AttemptKind
    step: Step
    node: Node
    units: tuple[int, ...]
    open: dict[int, None]
    cores: int
    ram_mib: int
    share_ppm: int
    started_us: int
    disk_mib: int
    #: Its step's, or a checkpoint's: never written to.
    tokens: dict[str, int]
    limits: tuple[tuple[str, int], ...]
    gpus: tuple[int, ...] = ()
    #: Core-ppm it holds, core-milliseconds charged to the accounts at the lease.
    rate: int = 0
    charged: int = 0
    charge_nano: int = 0
    useful_us: int = 0
    wasted: bool = False
    dropped: frozenset[int] = _NOTHING
    #: Units its agent was asked to give back unless begun (not stored: after a restart it may be asked
    #: again).
    asked_back: frozenset[int] = _NOTHING
    verify: VerifyRequest | None = None

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
