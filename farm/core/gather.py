"""Gathering: tokens of a limit, or cores of a cap, are left to a step that needs more than come free at once.

What belongs here: who of those that found too little is left what comes free, who has to leave it, and what
that is called.  What may not: counting what is held (``farm.core.shares``), since when others took of it
(``farm.core.reserve``), and the order of work.

A step is left something only while it could start with it: no limit it asks for is less than that, and a free
node has room for it.  Of several limits it gathers one after the other, by name, and keeps what it has: two
steps can never wait for each other.
"""

from __future__ import annotations

from typing import NamedTuple

from farm.core.chunks import form_chunk
from farm.core.match import able_count, excluded, score, site_closed
from farm.core.order import order_key
from farm.core.reserve import is_outbid, never_enough, note_outbid, room_before, waited_long
from farm.core.shares import cap_name, kept_back, limit_named, limit_short
from farm.core.state import Farm, Node, Step


class Gatherers:
    """Those of one pass that found too little, the first in order by what they lack.

    Attributes:
        first: What comes free of it may be left to them: with it they could start.
        roomless: They would have no room even with it.
    """

    __slots__ = ("first", "roomless")

    def __init__(self) -> None:
        self.first: dict[str, Step] = {}
        self.roomless: dict[str, Step] = {}

    def found_short(
        self, farm: Farm, step: Step, names: tuple[str, ...], passed: list[Step], now_us: int
    ) -> bool:
        """Takes in a step that lacks the last of these; returns whether it has to be looked at each time.

        A step that others took from for long, and has no room either, counts as passed over: a node is kept
        for it, and only then is anything left to it.
        """
        if all(name in self.first for name in names):
            return False
        if could_start(farm, step, now_us):
            for name in names:
                self.first.setdefault(name, step)
            return True
        leads = [name for name in names if self.roomless.setdefault(name, step) is step]
        if leads and waited_long(farm, step, now_us):
            passed.append(step)
        return bool(leads)

    def note_lease(self, farm: Farm, step: Step, now_us: int) -> None:
        """A lease takes of what steps before it need."""
        for waiting in (self.first, self.roomless):
            if waiting:
                for other in _robbed(farm, step, waiting):
                    note_outbid(farm, other, now_us)


def waits_for_tokens(farm: Farm, step: Step, first: dict[str, Step], now_us: int) -> bool:
    """Whether a step has to leave tokens to one before it that others took from for long."""
    return any(
        (other := first.get(f"limit {name}")) is not None
        and _takes_tokens(farm, name, count, step, other)
        and is_outbid(farm, other, now_us)
        for name, count in step.limits
    )


def waits_for_cap(farm: Farm, step: Step, first: dict[str, Step], now_us: int) -> str:
    """The same for the cores its user or job may hold: ``user ann`` or ``job 12``; "" when it need not."""
    for name in (f"job {step.job.id}", f"user {step.job.user}"):
        other = first.get(name)
        if other is not None and other is not step and is_outbid(farm, other, now_us):
            return name
    return ""


def _robbed(farm: Farm, step: Step, waiting: dict[str, Step]) -> list[Step]:
    """The steps that a lease of this one takes from."""
    found = [
        other
        for name, count in step.limits
        if (other := waiting.get(f"limit {name}")) is not None
        and _takes_tokens(farm, name, count, step, other)
    ]
    for name in (f"job {step.job.id}", f"user {step.job.user}"):
        other = waiting.get(name)
        if other is not None and other is not step:
            found.append(other)
    return found


def _takes_tokens(farm: Farm, name: str, count: int, step: Step, other: Step) -> bool:
    """Whether too few tokens would be left for the other one."""
    limit = limit_named(farm, name)
    needs = next((needed for asked, needed in other.limits if asked == name), 0)
    return other is not step and limit.total is not None and limit.used + count + needs > limit.total


# ---------------------------------------------------------------- who may gather


def lacks_tokens(farm: Farm, step: Step) -> tuple[str, ...]:
    """What a step has to gather that finds too few tokens: its limits by name, up to the first short one.

    Nothing when it can never have enough, when it could not start with them, or when whoever else asks for
    them finds too few as well.
    """
    limits, shape = step.limits, step.shape
    if shape is None or (len(limits) == 1 and limits[0][1] == 1):
        return ()
    found: list[str] = []
    short = False
    for name, count in limits:
        limit = limit_named(farm, name)
        if not short and not limit.per_node and limit.total is not None:
            found.append(f"limit {name}")
            short = limit.used + count > limit.total
    if not short or never_enough(farm, step) or not able_count(farm, shape) or kept_back(farm, step):
        return ()
    return tuple(found)


def lacks_cores(farm: Farm, step: Step) -> tuple[str, ...]:
    """What a step has to gather that a cap keeps back: the cap's cores, and meanwhile its tokens."""
    if step.resources.cores <= 1 or step.shape is None or not able_count(farm, step.shape):
        return ()
    tokens = [f"limit {name}" for name, _ in step.limits if not limit_named(farm, name).per_node]
    return (*tokens, cap_name(farm, step))


def could_start(farm: Farm, step: Step, now_us: int) -> bool:
    """Whether a free node would take the step now if its tokens and caps allowed it."""
    shape = step.shape
    if shape is None:
        return False
    each = tuple(pair for pair in step.limits if limit_named(farm, pair[0]).per_node)
    spent = [
        limit
        for limit, count in ((limit_named(farm, name), count) for name, count in each)
        if limit.total is not None and limit.used + count > limit.total
    ]
    if spent:
        # Of a limit by node that has no token left, only nodes that hold one take more: as a rule very few.
        holding = [farm.nodes[number] for number in min((limit.nodes for limit in spent), key=len)]
        return any(
            node.bucket is not None
            and score(farm, shape, node.bucket) is not None
            and not (farm.policy.sites and site_closed(farm, step.job, node.site))
            and not limit_short(farm, each, node.id)
            and _takes(farm, step, node, now_us)
            for node in holding
        )
    for bucket in farm.buckets.values():
        if score(farm, shape, bucket) is None:
            continue
        for node in bucket.nodes.values():
            if farm.policy.sites and site_closed(farm, step.job, node.site):
                break  # nodes of a bucket are at one site
            if not (each and limit_short(farm, each, node.id)) and _takes(farm, step, node, now_us):
                return True
    return False


def _takes(farm: Farm, step: Step, node: Node, now_us: int) -> bool:
    if step.node_failures and excluded(farm, step, node):
        return False
    if node.reserved is not None and room_before(farm, node, step, now_us):
        return False
    return bool(form_chunk(farm, step, node, ask=True))


# ---------------------------------------------------------------- for people who ask


class Left(NamedTuple):
    """What a step has to leave to another.

    Attributes:
        other: To whom.
        what: In words, e.g. "tokens of limit nuke are left to J2/comp, which needs 4 of them at once".
        names: What the other one gathers, e.g. "limit nuke".
        since_us: When others first took of it.
    """

    other: Step
    what: str
    names: tuple[str, ...]
    since_us: int


def left_to(farm: Farm, step: Step, now_us: int) -> Left | None:
    """To whom a step has to leave tokens or cores now, by the tests of placing; changes nothing."""
    mine, found = order_key(step), []
    for step_id, noted in farm.outbid.items():
        other = farm.steps.get(step_id)
        if other is None or other is step or not noted.held_us or not other.leasable():
            continue
        if now_us - noted.held_us < noted.span_us and order_key(other) < mine:
            found.append(other)
    for other in sorted(found, key=order_key):
        names = lacks_now(farm, other)
        left = dict.fromkeys(names, other)
        if not names or all(one is not other for one in _robbed(farm, step, left)):
            continue
        if could_start(farm, other, now_us):
            return Left(other, _words(farm, step, other, left), names, farm.outbid[other.id].since_us)
    return None


def lacks_now(farm: Farm, step: Step) -> tuple[str, ...]:
    """What a step has to gather before it starts, be it tokens or a cap's cores; nothing when it need not."""
    if step.limits and limit_short(farm, step.limits):
        return lacks_tokens(farm, step)
    return lacks_cores(farm, step) if kept_back(farm, step) else ()


def _words(farm: Farm, step: Step, other: Step, left: dict[str, Step]) -> str:
    for name, count in step.limits:
        if f"limit {name}" in left and _takes_tokens(farm, name, count, step, other):
            needs = next(needed for asked, needed in other.limits if asked == name)
            return f"tokens of limit {name} are left to {other.address}, which needs {needs} of them at once"
    whose = f"{step.job.user or 'nobody'}'s cap"
    if f"user {step.job.user}" not in left:
        whose = f"the cap of J{step.job.id}"
    needs = other.resources.cores
    return f"cores of {whose} are left to {other.address}, which needs {needs} of them at once"
