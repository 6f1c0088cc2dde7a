"""How a farm shares itself: weights, caps, limits, sites, reservations, preemption, the tail.

What belongs here: the one typed record a wrangler edits (``farm policy``), its checks and its defaults.  What
may not: how the scheduler acts on it (``farm.core``).  Reading names the field that is wrong; a key that does
not exist is refused, since a policy that silently does nothing is worse than none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from farm.model.errors import CallError

_Weight = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class LimitRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A counted token, for example licences of a renderer.

    Attributes:
        total: How many there are; 0 stops all work that needs it.
        per: ``lease``: every attempt holds its own; ``node``: attempts on one node share one (as licences
            that count machines do).
    """

    total: _Count
    per: Literal["lease", "node"] = "lease"


class SiteRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may use a site, and how gladly.

    Attributes:
        projects: Only work of these projects runs there; empty = of all.
        users: Only work of these users; empty = of all.
        order: Nodes of a site with a lower figure are filled first.
    """

    projects: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    order: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 0


class PreemptRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether waiting work of higher priority may take nodes from running work.

    Attributes:
        on: Off by default.
        gap: How much higher the priority must be.
        at: ``frame``: the running frame is finished, the rest of the chunk given back; ``now``: killed, and
            what it cost is waste.
        after_s: How long the waiting work must have waited.
    """

    on: bool = False
    gap: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    at: Literal["frame", "now"] = "frame"
    after_s: _Seconds = 30.0


class TailRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What idle nodes may do near the end of a step.

    Attributes:
        steal: Take frames that were leased but not started from slow chunks.
        copies: Run a second copy of a frame that takes much longer than its siblings.
        straggler: A frame is one when it ran this many times what was expected.
        least_s: Frames shorter than this are never copied; chunks with less left are not split.
    """

    steal: bool = True
    copies: bool = True
    straggler: Annotated[float, msgspec.Meta(ge=1.1, le=1000)] = 2.0
    least_s: _Seconds = 10.0


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The whole policy.

    Attributes:
        half_life_h: Use of this many hours ago counts half (fair share).
        projects: Weight of each project; one that is not named has weight 1.
        users: Weight of each user within a project; one that is not named has weight 1.
        limits: Counted tokens by name.  A step that asks for one that is not named waits, and says so.
        user_max_cores: Most cores a user's work may hold at once; ``*`` = everybody not named; 0 = no cap.
        sites: Rules by site.
        reserve_after_s: Work that fits nowhere for this long gets a node reserved.
        reservations: Most nodes reserved at once.
        preempt: Preemption.
        tail: The end of a step.
        quarantine_users: A node on which work of this many users failed, and nothing succeeded since, is
            drained; 0 = never.
        quarantine_h: Failures older than this do not count for it.
    """

    half_life_h: Annotated[float, msgspec.Meta(gt=0, le=100_000)] = 24.0
    projects: dict[str, _Weight] = {}
    users: dict[str, _Weight] = {}
    limits: dict[str, LimitRule] = {}
    user_max_cores: dict[str, _Count] = {}
    sites: dict[str, SiteRule] = {}
    reserve_after_s: _Seconds = 20.0
    reservations: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 16
    preempt: PreemptRule = PreemptRule()
    tail: TailRule = TailRule()
    quarantine_users: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3
    quarantine_h: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 6.0


def read_policy(raw: Any) -> Policy:
    """The policy of decoded JSON or TOML.

    Raises:
        CallError: A key does not exist or a value is wrong; names it.
    """
    try:
        return msgspec.convert(raw, Policy)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        where = path.rstrip("`").lstrip(".")
        raise CallError(f"policy{'.' + where if where else ''}: {text}") from error
