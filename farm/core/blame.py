"""Whose work a node let down: failures of several users in a row take a node out of service.

What belongs here: the judgement; ``farm.core.apply_results`` remembers the failures as results are applied.
What may not: what a failure means for its unit.

A frame that fails says little about its node: scenes crash.  But when the work of several people, who share
no scene, fails on one machine and nothing succeeds there in between, the machine is the likelier culprit.
"""

from __future__ import annotations

from farm.core.drain import drain_node
from farm.core.match import able_nodes, refused
from farm.core.order import STEP
from farm.core.outcome import Outcome
from farm.core.state import Farm, Node, Shape, Step

#: Steps named in the reason.
_NAMED = 5


def quarantine(farm: Farm, node: Node, now_us: int, out: Outcome) -> None:
    """Drains the node if it failed the work of enough users and nothing worked since."""
    policy = farm.policy
    if not policy.quarantine_users or len(node.blame) < policy.quarantine_users or not node.enabled:
        return
    since_us = now_us - int(policy.quarantine_h * 3.6e9)
    recent = sorted(
        (at_us, user, address) for user, (at_us, address) in node.blame.items() if at_us >= since_us
    )
    if len(recent) < policy.quarantine_users or _last_able(farm, node):
        return
    named = ", ".join(f"{address} of {user}" for _, user, address in recent[-_NAMED:])
    reason = f"quarantined: {named} failed here and nothing worked since"
    drain_node(farm, node, reason, "farm", now_us, out)


def _last_able(farm: Farm, node: Node) -> bool:
    """Whether something waits that only this node could take."""
    return any(
        not refused(shape, node) and not any(other is not node for other in able_nodes(farm, step))
        for shape in list(farm.busy.values())
        for step in _waiting(farm, shape)
    )


def _waiting(farm: Farm, shape: Shape) -> list[Step]:
    """Steps of a shape that wait: one speaks for all, unless sites are kept for some."""
    if farm.policy.sites:
        return [step for step in shape.queue.waiting() if step.leasable()]
    head = shape.head()
    return [head[STEP]] if head is not None else []
