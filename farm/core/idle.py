"""Why does a node take no (more) work?  The counterpart of ``farm.core.explain``, asked of a machine.

What belongs here: what keeps a node from work, and what keeps the work that waits from the node.  What may
not: a second opinion; verdicts on work are ``explain.judge``'s.
"""

from __future__ import annotations

import msgspec

from farm.core import cures
from farm.core.apply import BLOCKED
from farm.core.explain import cure_for, frames, judge
from farm.core.gather import left_to
from farm.core.match import out_of_service
from farm.core.order import order_key
from farm.core.shares import kept_back
from farm.core.state import Farm, Node


class IdleAnswer(msgspec.Struct, frozen=True):
    """Why a node is idle (or has room).

    Attributes:
        reason: What holds it, in words; "" when only the work below tells.
        work: What waits and why it does not run there: (address, reason, cure), first in order first.
        waiting: Steps that wait in the whole farm.
    """

    reason: str
    work: tuple[tuple[str, str, str], ...]
    waiting: int


def why_idle(farm: Farm, node: Node, now_us: int, most: int = 10) -> IdleAnswer:
    """Why a node does not take more work."""
    steps = sorted((step for shape in farm.busy.values() for step in shape.queue.each()), key=order_key)
    for waiting in (
        *(one.capped for one in farm.holders.values()),
        *(job.capped for job in farm.jobs.values()),
    ):
        steps += waiting.values()
    work = []
    for step in steps[:most]:
        left = left_to(farm, step, now_us) if farm.outbid else None
        found = judge(farm, step, None, node, now_us, left)
        capped = kept_back(farm, step)
        cure = cures.of_cap(farm, step) if capped else cure_for(found.cure, [node.name])
        work.append((step.address, capped or f"{node.name} {found.reason}", cure))
    reason = out_of_service(node) or (f"starts nothing now: {node.closed}" if node.closed else "")
    if not reason and node.reserved is not None:
        other = farm.steps.get(node.reserved.step_id)
        reason = f"is kept for {other.address if other else 'a large request'}, which needs its room"
    if not reason and node.attempts and node.cores_free <= 0:
        count = len(node.attempts)
        holds = "1 attempt holds" if count == 1 else f"{count} attempts hold"
        reason = f"is full: {holds} all its cores"
    if not reason and not steps:
        reason = (
            ("has room, but " if node.attempts else "is idle: ")
            + "nothing waits in the farm"
            + _withheld(farm)
        )
    return IdleAnswer(reason, tuple(work), len(steps))


def _withheld(farm: Farm) -> str:
    """What is there to do, but not now, in words; "" when there is nothing."""
    blocked = tried_again = paused = 0
    for job in farm.jobs.values():
        if not job.open_units:
            continue
        if job.paused:
            paused += 1
            continue
        for step in job.steps:
            blocked += step.counts[BLOCKED]
            tried_again += len(step.parked)
    words = []
    if blocked:
        words.append(f"{frames(blocked)} blocked by others")
    if tried_again:
        words.append(f"{frames(tried_again)} tried again later")
    if paused:
        words.append("1 job is paused" if paused == 1 else f"{paused} jobs are paused")
    return f" ({', '.join(words)})" if words else ""
