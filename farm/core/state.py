"""The farm's state: dicts of slotted objects; frames live in byte maps, never in objects.

What belongs here: the data and the small operations that keep fields of one object agreeing.  What
may not: decisions.  Comments above the attributes say which must agree (``farm.core.invariants``
checks them).  Jobs and steps are in ``farm.core.work``, attempts in ``farm.core.attempts``; both are
named here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from farm.core.attempts import Attempt, LostAttempt, VerifyRequest
from farm.core.due import Due
from farm.core.order import Account, Entry
from farm.core.shares import Limit
from farm.core.sums import Shelved
from farm.core.work import Holder, Job, Shape, Step, UnitNote
from farm.model.nodes import NodeFacts, NodeSettings
from farm.model.policy import Policy
from farm.model.resources import Resources
from farm.model.states import NodeState

if TYPE_CHECKING:
    from farm.core.chunks import Hunger
    from farm.core.match import Roomy
    from farm.core.openings import Bucket

__all__ = [
    "Attempt",
    "Entry",
    "Farm",
    "Job",
    "LostAttempt",
    "Node",
    "NodeClass",
    "Reservation",
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
    #: Jobs at rest for so long leave memory for the archive, 0 = never.
    archive_after_us: int = 0


class NodeClass:
    """Nodes that are alike: which shapes they can ever take, and what each takes, is worked out once."""

    __slots__ = ("asks", "home", "id", "key", "live", "refused", "whole")

    def __init__(self, key: tuple[object, ...], number: int = 0) -> None:
        self.key = key
        self.id = number
        #: Nodes in service, by id.
        self.live: dict[int, Node] = {}
        #: Why a node of this class can never take a shape ("" = it can), by shape number.
        self.refused: dict[int, str] = {}
        #: What tells an empty node of this class apart from all others, see ``farm.core.openings.vector``.
        self.whole: tuple[object, ...] = (number,)
        #: The bucket that empty nodes of this class were last put into; in use while it has any.
        self.home: Bucket | None = None
        #: What a lease of a shape takes of such a node, and its dominant share, by shape number.
        self.asks: dict[int, tuple[Resources, int]] = {}


class Node:
    """A node.  free = total - what its attempts hold; ``gpus_free`` are CUDA indices."""

    __slots__ = (
        "attempts",
        "blame",
        "bucket",
        "closed",
        "cores_free",
        "deadline_us",
        "disk_free",
        "enabled",
        "ending",
        "facts",
        "forgotten",
        "gpus_free",
        "id",
        "idle_nano",
        "key",
        "klass",
        "live",
        "meter_on",
        "meter_rate",
        "metered_us",
        "name",
        "origin_us",
        "pool",
        "ram_free",
        "rate_nano_h",
        "reason",
        "reserved",
        "seen_stored_us",
        "seen_us",
        "settings",
        "site",
        "slow",
        "speed",
        "state",
        "tokens_free",
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
        self.settings = NodeSettings()
        self.enabled = True
        self.reason = ""
        self.state = NodeState.OFFLINE
        self.seen_us = 0
        self.seen_stored_us = 0
        #: When it is lost unless heard before; only matters while it holds attempts or is online.
        self.deadline_us = 0
        self.forgotten = False
        self.cores_free = 0
        self.ram_free = 0
        self.disk_free = 0
        self.tokens_free: dict[str, int] = {}
        #: Where it stands in the index of nodes that take work; None = it takes none.
        self.bucket: Bucket | None = None
        #: Whether it is online or suspect, and enabled.
        self.live = False
        #: Its agent said that it ends, and takes nothing new.
        self.ending = False
        #: Why it starts nothing now though it is online (its hours, its agent's end); "" = it does.
        self.closed = ""
        #: The large request it is kept for.
        self.reserved: Reservation | None = None
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
        #: How much faster it is than others for the same steps, and what says so (``farm.core.pace``): frames
        #: compared, and the sum of how many times longer they took here.
        self.speed = 1.0
        self.slow = (0.0, 0.0)
        #: Users whose work failed here since something last worked: when, and which step.
        self.blame: dict[str, tuple[int, str]] = {}


class Reservation(msgspec.Struct):
    """A node kept for a step that fits nowhere now.

    Attributes:
        step_id: The step.
        node_id: The node.
        at_us: When the node is expected to have room.
        preempts: Whether work was stopped for it.
        hunger: What its unit needs beyond what the step asks for, None = nothing.
    """

    step_id: int
    node_id: int
    at_us: int
    preempts: bool = False
    hunger: Hunger | None = None


class Outbid(msgspec.Struct):
    """A step that found too few tokens, or too small a cap, while others took of them.

    Attributes:
        since_us: Since when; later than now while it is the others' turn.
        last_us: When that was last seen.
        held_us: Since when what comes free is left to it, 0 = it is not.
        span_us: How long it is left to it at most.
    """

    since_us: int
    last_us: int
    held_us: int
    span_us: int


class Farm:
    """The whole state.

    ``buckets`` holds the nodes that take work now, see ``farm.core.openings``.
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
        #: Nodes of each name, in service or not, by id: so that a new one's name is found without a search.
        self.node_names: dict[str, dict[int, Node]] = {}
        self.buckets: dict[tuple[object, ...], Bucket] = {}
        self.empty_buckets: dict[tuple[object, ...], Bucket] = {}
        #: Counts up whenever a node enters or leaves service or changes class.
        self.live_version = 0
        #: Shapes in which something may wait.
        self.busy: dict[int, Shape] = {}
        #: A heap of the first entry of each of them, as it was when it was put there; those that may have a
        #: better one by now; those that no node in service could take, as of ``unable_version``.
        self.lineup: list[tuple[Entry, Shape]] = []
        self.fresh: dict[int, Shape] = {}
        self.unable: dict[int, Shape] = {}
        self.unable_version = -1
        #: Shapes that fitted none of the free nodes there were, the last found last; looked at again once a
        #: bucket is there that could take them.  How many were found so far, and when it was last noted that
        #: work behind them was leased.
        self.misfits: dict[int, Shape] = {}
        self.misfits_found = 0
        self.misfits_noted_us = 0
        #: Jobs that render scout frames first, by number; when they are looked at next.
        self.scouting: dict[int, Job] = {}
        self.scouts_due_us = 0
        #: Steps that found too few tokens (or too small a cap) while others took of them.
        self.outbid: dict[int, Outbid] = {}
        self.policy = Policy()
        self.projects: dict[str, Account] = {}
        self.users: dict[tuple[str, str], Account] = {}
        self.limits: dict[str, Limit] = {}
        #: What users' attempts hold, by user.
        self.holders: dict[str, Holder] = {}
        self.half_life_us = int(self.policy.half_life_h * 3_600_000_000)
        #: Of the next account; no number is given twice, since heaps may still hold that of one that went.
        self.next_account = 1
        self.share_origin_us = 0
        #: The weight of a charge now, see ``farm.core.shares.weight_now``.
        self.share_from_us = self.share_until_us = 0
        self.share_weight = 1
        #: Steps that work behind them overtook since, because they fitted nowhere: (first time, last time).
        self.passed: dict[int, tuple[int, int]] = {}
        self.reservations: dict[int, Reservation] = {}
        #: Nodes with the memory some units need, found for one and kept for the next (``farm.core.match``).
        self.roomy: dict[tuple[object, ...], Roomy] = {}
        #: When idle nodes are next looked after (``farm.core.tail``).
        self.tail_due_us = 0
        self.shapes: dict[tuple[object, ...], Shape] = {}
        #: Never given twice, since much is known of shapes by number; not stored.
        self.next_shape = 0
        self.classes: dict[tuple[object, ...], NodeClass] = {}
        self.tokens: dict[str, int] = {}
        #: Pattern of an output -> steps of live jobs that write it.
        self.patterns: dict[str, list[Step]] = {}
        self.verify: dict[int, VerifyRequest] = {}
        #: Jobs that wait for their time, the next one first: (microseconds, job number).
        self.starts: list[tuple[int, int]] = []
        self.lost: dict[int, LostAttempt] = {}
        #: What falls due when; not stored.
        self.due = Due()
        self.checkpoint_seq = 0
        #: What jobs that are archived or deleted cost (``farm.core.shelves``).
        self.shelved = Shelved()

    def next_seq(self) -> int:
        """The next number of the one order all rows share."""
        self.seq += 1
        return self.seq
