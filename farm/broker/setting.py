"""Requests that change settings: of a job or step, and the farm's policy.

What belongs here: wire to event, and what only the sender's role decides.  What may not: whether the values
are right, which the core knows.
"""

from __future__ import annotations

import msgspec

from farm.broker.state import BrokerState
from farm.core.events import PolicyEvent
from farm.core.policies import changed, flat, limits_now
from farm.model.errors import CallError
from farm.model.policy import read_policy
from farm.model.roles import Role, check_priority
from farm.protocol.client import LimitRow, PolicyReply, PolicyReq, PolicySetReq


def check_set(value: str, role: Role) -> None:
    """Checks what only the role decides of fields that are to be set: the priority.

    Raises:
        Denied: The role may not set it that high.
        CallError: It is no priority.
    """
    try:
        values = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return  # the core says so, with what can be set
    priority = values.get("priority") if isinstance(values, dict) else None
    if isinstance(priority, int | str) and str(priority).lstrip("-").isdecimal():
        check_priority(role, int(priority))


def policy_event(s: BrokerState, request: PolicySetReq, user: str) -> PolicyEvent:
    """The event of a change of the policy.

    Raises:
        CallError: A key does not exist or a value is wrong; names it.
    """
    if request.whole:
        try:
            policy = read_policy(msgspec.json.decode(request.whole))
        except (msgspec.DecodeError, RecursionError) as error:
            raise CallError(f"the policy is no JSON: {error}") from error
        if request.values:
            raise CallError("a whole policy and single fields were sent", hint="send one of them")
    else:
        if not request.values:
            raise CallError("nothing is to be set", hint="e.g. limits.nuke.total=10; see `farm policy show`")
        policy = changed(s.core.farm.policy, request.values)
    return PolicyEvent(s.now_us, policy, request.reason[:500], user)


def policy_reply(s: BrokerState, request: PolicyReq) -> PolicyReply:
    """The policy and what its limits hold."""
    farm = s.core.farm
    limits = tuple(
        LimitRow(
            name=use.name,
            total=use.total,
            per=use.per,
            used=use.used,
            holders={user or "(nobody)": count for user, count in use.holders.items()},
            waiting=use.waiting,
        )
        for use in limits_now(farm)
    )
    whole = msgspec.json.encode(farm.policy)
    return PolicyReply(id=request.id, values=flat(farm.policy), whole=whole, limits=limits)
