"""The farm's state: dicts of slotted objects; frames live in byte maps, never in objects.

What belongs here: the data and the small operations that keep fields of one object agreeing.  What
may not: decisions.  Comments above the attributes say which must agree (``farm.core.invariants``
checks them).  Jobs, steps and attempts are in ``farm.core.work`` and named here too.
"""

from __future__ import annotations

import msgspec

from farm.core.work import Attempt, Entry, Job, LostAttempt, Shape, Step, UnitNote, VerifyRequest
from farm.model.nodes import NodeFacts
from farm.model.resources import Resources
from farm.model.states import NodeState

__all__ = [
    "Attempt",
    "Entry",
    "Farm",
    "Job",
    "LostAttempt",
    "Node",
    "NodeClass",
    "Settings",
    "Shape",
    "Step",
    "UnitNote",
    "VerifyRequest",
]


class Settings(msgspec.Struct, frozen=True):
    """Figures the core works with; every one is an option of the broker."""

    suspect_us: int = 15_000_000
    lost_us: int = 60_000_000
    chunk_target_us: int = 120_000_000


class NodeClass:
    """Nodes that are alike: which shapes they can ever take, and what each takes, is worked out once."""

    __slots__ = ("asks", "capable", "key", "known")

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        #: Shapes a node of this class can take when empty, and how many shapes were looked at.
        self.capable: list[Shape] = []
        self.known = 0
        #: What a lease of a shape takes of such a node, and its dominant share, by shape number.
        self.asks: dict[int, tuple[Resources, int]] = {}


class Node:
    """A node.  free = total - what its attempts hold; ``gpus_free`` are CUDA indices."""

    __slots__ = (
        "attempts",
        "cores_free",
        "deadline_us",
        "enabled",
        "facts",
        "forgotten",
        "gpus_free",
        "id",
        "idle_nano",
        "key",
        "klass",
        "meter_on",
        "meter_rate",
        "meter_seq",
        "metered_us",
        "name",
        "origin_us",
        "pool",
        "ram_free",
        "rate_nano_h",
        "reason",
        "seen_stored_us",
        "seen_us",
        "site",
        "state",
        "total_nano",
        "waste_nano",
    )

    def __init__(self, number: int, key: str) -> None:
        self.id = number
        self.key = key
        self.name = ""
        self.pool = ""
        self.site = ""
        self.facts = NodeFacts(name="")
        self.klass = NodeClass(())
        self.enabled = True
        self.reason = ""
        self.state = NodeState.OFFLINE
        self.seen_us = 0
        self.seen_stored_us = 0
        #: When it is lost unless heard before; only matters while it holds attempts or is online.
        self.deadline_us = 0
        #: Rows up to this one are in the meter already (set on restart).
        self.meter_seq = 0
        self.forgotten = False
        self.cores_free = 0
        self.ram_free = 0
        self.gpus_free: list[int] = []
        self.attempts: dict[int, Attempt] = {}
        self.rate_nano_h = 0
        self.meter_on = False
        self.meter_rate = 0
        self.origin_us = 0
        self.metered_us = 0
        self.total_nano = 0
        self.idle_nano = 0
        self.waste_nano = 0


class Farm:
    """The whole state.

    ``open_nodes`` holds the nodes that are online, enabled and have a core free, in the order they
    became so.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.seq = 0
        self.next_job = 1
        self.next_step = 1
        self.next_attempt = 1
        self.next_node = 1
        self.jobs: dict[int, Job] = {}
        self.steps: dict[int, Step] = {}
        self.attempts: dict[int, Attempt] = {}
        self.nodes: dict[int, Node] = {}
        self.node_by_key: dict[str, Node] = {}
        self.open_nodes: dict[int, Node] = {}
        self.shapes: dict[tuple[object, ...], Shape] = {}
        self.classes: dict[tuple[object, ...], NodeClass] = {}
        self.tokens: dict[str, int] = {}
        #: Pattern of an output -> steps of live jobs that write it.
        self.patterns: dict[str, list[Step]] = {}
        self.verify: dict[int, VerifyRequest] = {}
        self.lost: dict[int, LostAttempt] = {}
        self.checkpoint_seq = 0
        #: Only during a restart: what open attempts were charged up to their node's stored meter.
        self.restored_charges: dict[int, int] = {}

    def next_seq(self) -> int:
        """The next number of the one order all rows share."""
        self.seq += 1
        return self.seq
