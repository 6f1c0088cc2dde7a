"""What idle nodes may do near the end: take frames from slow chunks, run second copies of stragglers.

What belongs here: which frames are asked back and which are copied.  What may not: what becomes of the
answers (``farm.core.results``), and how a second copy gets to publish (``farm.core.specs``).

Stealing changes nothing by itself: the agent is asked to give back what it has not begun; what it gives back
is queued again as any frame is.  An answer that never comes changes nothing, and no frame is asked for twice.

A second copy waits for its grant until the first attempt is known to have stopped, so whichever way their
messages cross, one of them publishes.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Protocol

from farm.core import pace
from farm.core.chunks import has_memory
from farm.core.match import avoided, excluded, lack, refused, site_closed
from farm.core.outcome import Outcome, StopCommand
from farm.core.reserve import room_before
from farm.core.shares import kept_back, limit_short
from farm.model.states import AttemptKind

if TYPE_CHECKING:
    from farm.core.state import Attempt, Farm, Node, Step

#: A farm with idle nodes looks for something for them this often.
EVERY_US = 1_000_000
_RENDER = AttemptKind.RENDER
#: A unit that failed on this many nodes is not copied: the next failure would be like the last.
_FAILED_NODES = 2
#: Helpers beyond one a unit, since a unit is not copied to a node it failed on.
_SPARE_HELPERS = 16


class Draw(Protocol):
    """Where nonces come from."""

    def draw(self) -> int:
        """The next number."""


class Lease(Protocol):
    """Leases a second copy (``farm.core.place.lease_copy``)."""

    def __call__(
        self,
        farm: Farm,
        node: Node,
        step: Step,
        unit: int,
        reason: str,
        now_us: int,
        nonce: int,
        out: Outcome,
    ) -> None:
        """Leases it."""


def help(farm: Farm, now_us: int, entropy: Draw, lease: Lease, out: Outcome) -> None:  # noqa: A001
    """Finds something for nodes that are left without work at the end of a placing pass."""
    rule = farm.policy.tail
    if now_us < farm.tail_due_us or not farm.attempts or not (rule.steal or rule.copies):
        return
    farm.tail_due_us = now_us + EVERY_US
    least_us = rule.least_s * 1e6
    idle: list[Node] | None = None
    for step, attempts in _slow_steps(farm, now_us, least_us):
        if idle is None:
            idle = [node for bucket in farm.buckets.values() for node in bucket.nodes.values()]
            # Fast ones first: they gain most.
            idle.sort(key=lambda node: (-node.speed, node.id))
        helpers = _helpers(farm, step, attempts, idle, now_us)
        if not helpers:
            continue
        if rule.steal:
            _steal(step, attempts, helpers, now_us, least_us, out)
        if rule.copies and step.spec.outputs and not step.spec.post:
            _copy(farm, step, attempts, helpers, now_us, entropy, lease, out)


def _slow_steps(farm: Farm, now_us: int, least_us: float) -> list[tuple[Step, list[Attempt]]]:
    """Steps of which something may be worth taking over, with their attempts; cheap to rule out first."""
    found: dict[int, tuple[Step, list[Attempt]]] = {}
    for attempt in farm.attempts.values():
        if attempt.kind is not _RENDER or not attempt.open:
            continue
        step = attempt.step
        # One unit that is not even due yet can neither be split nor be a straggler.
        if len(attempt.open) == 1 and now_us - attempt.started_us < least_us:
            continue
        if step.job.paused or not any(step.pace.counts):
            continue
        entry = found.get(step.id)
        if entry is None:
            found[step.id] = (step, [attempt])
        else:
            entry[1].append(attempt)
    return [found[step_id] for step_id in sorted(found)]


def _helpers(farm: Farm, step: Step, attempts: list[Attempt], idle: list[Node], now_us: int) -> list[Node]:
    """Idle nodes that could be leased something of the step, the fast ones first, no more than can be of use.

    Nodes of a bucket are alike to every shape, so one of each answers for all: a look at every idle node for
    every slow step would stop a large farm.
    """
    shape = step.shape
    if shape is None:
        return []
    fitting = set()
    for bucket in farm.buckets.values():
        node = next(iter(bucket.nodes.values()))
        if not refused(shape, node) and not lack(shape, node):
            fitting.add(bucket.key)
    if not fitting:
        return []
    most = sum(len(attempt.open) for attempt in attempts) + _SPARE_HELPERS
    found: list[Node] = []
    for node in idle:
        if node.bucket is not None and node.bucket.key in fitting and _may_help(farm, step, node, now_us):
            found.append(node)
            if len(found) == most:
                break
    return found


def _may_help(farm: Farm, step: Step, node: Node, now_us: int) -> bool:
    """Whether a node could be leased something of the step now."""
    shape = step.shape
    if shape is None or node.bucket is None or refused(shape, node) or lack(shape, node):
        return False
    if step.node_failures and excluded(farm, step, node):
        return False
    if farm.policy.sites and site_closed(farm, step.job, node.site):
        return False
    if step.limits and (limit_short(farm, step.limits) or limit_short(farm, step.limits, node.id)):
        return False
    if (step.job.max_cores or farm.policy.user_max_cores) and kept_back(farm, step):
        return False
    return node.reserved is None or room_before(farm, node, step, now_us) == 0


# ---------------------------------------------------------------- stealing


class _Chunk:
    """A running chunk, and what would be left of it without what is taken."""

    __slots__ = ("attempt", "left_us", "rest", "taken")

    def __init__(self, attempt: Attempt, left_us: float, rest: list[int]) -> None:
        self.attempt = attempt
        self.left_us = left_us
        #: Units that may not have begun, the next one to be rendered first.
        self.rest = rest
        self.taken: list[int] = []

    def __lt__(self, other: _Chunk) -> bool:
        return (-self.left_us, self.attempt.id) < (-other.left_us, other.attempt.id)


def _steal(
    step: Step, attempts: list[Attempt], helpers: list[Node], now_us: int, least_us: float, out: Outcome
) -> None:
    chunks = []
    for attempt in attempts:
        if len(attempt.open) < 2:
            continue
        rest = [unit for unit in list(attempt.open)[1:] if unit not in attempt.asked_back]
        left_us = float(pace.left_us(attempt, now_us))
        if rest and left_us > least_us:
            chunks.append(_Chunk(attempt, left_us, rest))
    if not chunks:
        return
    heapify(chunks)
    for node in helpers:
        longest = chunks[0]
        if longest.left_us <= least_us:
            break
        if not _take(step, longest, node):
            # A slower node gains even less.
            break
        heapreplace(chunks, longest)
    for chunk in sorted(chunks, key=lambda one: one.attempt.id):
        if chunk.taken:
            attempt = chunk.attempt
            attempt.asked_back = attempt.asked_back | frozenset(chunk.taken)
            out.commands.append(
                StopCommand(
                    attempt.node.id,
                    attempt.id,
                    "given back for a node that has nothing to do",
                    tuple(sorted(chunk.taken)),
                    take_back=True,
                )
            )


def _take(step: Step, chunk: _Chunk, node: Node) -> bool:
    """Moves the last units of a chunk to a node while both end sooner for it; whether there were any."""
    there_us = pace.start_us(step, node)
    taken = False
    while chunk.rest:
        unit = chunk.rest[-1]
        there_us += pace.frame_us(step, unit, node)
        if there_us >= chunk.left_us:
            break
        chunk.rest.pop()
        chunk.taken.append(unit)
        chunk.left_us -= pace.frame_us(step, unit, chunk.attempt.node)
        taken = True
    return taken


# ---------------------------------------------------------------- second copies


def _copy(
    farm: Farm,
    step: Step,
    attempts: list[Attempt],
    helpers: list[Node],
    now_us: int,
    entropy: Draw,
    lease: Lease,
    out: Outcome,
) -> None:
    rule = farm.policy.tail
    late: list[tuple[float, int, Attempt]] = []
    spread = step.pace.spread()
    for attempt in attempts:
        unit = next(iter(attempt.open))
        rest = attempt.open.keys() - attempt.asked_back - {unit}
        if rest or unit in step.copies or attempt.asked_back.intersection(attempt.open):
            # Frames that were asked back come first: their answer is still on its way.
            continue
        ran_us = pace.running_us(attempt, now_us)
        expected_us = pace.frame_us(step, unit, attempt.node)
        left_us = pace.current_left_us(expected_us, ran_us, spread)
        if ran_us > rule.straggler * expected_us:
            # Nobody knows what holds it up: judged by how long it has run, it may take as long again.
            left_us = ran_us
        if left_us > rule.least_s * 1e6:
            note = step.notes.get(unit)
            if note is None or len(note.failed_on) < _FAILED_NODES:
                late.append((-left_us, unit, attempt))
    late.sort(key=lambda one: one[:2])
    for negative_us, unit, attempt in late:
        for node in helpers:
            if node is attempt.node or not _may_help(farm, step, node, now_us):
                continue
            if step.notes and (avoided(farm, step, unit, node) or not has_memory(farm, step, unit, node)):
                continue
            there_us = pace.start_us(step, node) + pace.frame_us(step, unit, node)
            ran_us = pace.running_us(attempt, now_us)
            if there_us >= -negative_us or there_us * rule.straggler > ran_us - negative_us:
                break
            late_by = ran_us > rule.straggler * pace.frame_us(step, unit, attempt.node)
            why = "takes long" if late_by else "is slower"
            reason = f"a second copy on {node.name}, since @{attempt.no} on {attempt.node.name} {why}"
            lease(farm, node, step, unit, reason, now_us, entropy.draw(), out)
            break
