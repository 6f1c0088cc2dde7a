"""Who may do what: the roles, and every user action as a record.

What belongs here: the one table of user actions.  The command line, the client's menus, the broker's
permission check and the reference docs are derived from it, so an action that is not here does not
exist.  What must not: keys, sockets, and what an action does.

Everybody with a user's role may read the queue, the nodes and the logs, since "why does my job wait"
is often answered by somebody else's job; what changes work or shows money is bound to its owner.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from farm.model.errors import CallError, Denied, UnknownName


class Role(StrEnum):
    """Role of a key.

    An artist acts on own jobs, a wrangler on all jobs and on nodes, an admin on keys and the broker
    too.  An agent renders: its key may do none of the users' actions.
    """

    ARTIST = "artist"
    WRANGLER = "wrangler"
    ADMIN = "admin"
    AGENT = "agent"


class Action(msgspec.Struct, frozen=True):
    """One thing a user can do.

    Attributes:
        name: Stable name, as on the wire and (with a blank for the hyphen in groups) on the command line.
        summary: What it does, a sentence that starts with the verb.
        role: The least role that may do it.
        own_only: Whether artists may do it only to what their user owns.
    """

    name: str
    summary: str
    role: Role = Role.ARTIST
    own_only: bool = False


_ARTIST, _WRANGLER, _ADMIN = Role.ARTIST, Role.WRANGLER, Role.ADMIN

#: Every user action by name, in the order menus and docs show them.
ACTIONS: Final[dict[str, Action]] = {
    action.name: action
    for action in (
        # Reading.
        Action("status", "Show the farm at a glance"),
        Action("jobs", "List jobs"),
        Action("job", "Show a job and its steps"),
        Action("frames", "Show the state of frames"),
        Action("log", "Read the log of an attempt"),
        Action("preview", "Show a preview of a frame"),
        Action("why", "Explain why work waits or failed"),
        Action("nodes", "List nodes"),
        Action("gpus", "Show GPUs and how they are linked"),
        Action("policy", "Show the policy and its limits"),
        Action("estimate", "Estimate time and cost of a job before it is submitted"),
        Action("spend", "Show what work has cost", own_only=True),
        # Work.
        Action("submit", "Submit a job", own_only=True),
        Action("pause", "Pause a job or step; running frames finish", own_only=True),
        Action("resume", "Resume a paused job or step", own_only=True),
        Action("cancel", "Cancel a job or part of it", own_only=True),
        Action("requeue", "Stop running frames and queue them again; no try is spent", own_only=True),
        Action("retry", "Render frames again", own_only=True),
        Action("skip", "Skip frames, so that what depends on them goes on", own_only=True),
        Action("mark-done", "Mark frames done after their files were verified", own_only=True),
        Action("priority", "Change the priority of a job", own_only=True),
        Action("next", "Run a job, step or frames before others of their owner", own_only=True),
        Action("last", "Run a job, step or frames after others of their owner", own_only=True),
        Action("set", "Change a setting of a job or step", own_only=True),
        Action("archive", "Archive a finished job", own_only=True),
        Action("delete", "Delete a job and its logs; its pictures stay", own_only=True),
        # Nodes.
        Action("node-drain", "Drain a node; running frames finish", _WRANGLER),
        Action("node-disable", "Drain a node and give back what it runs; no try is spent", _WRANGLER),
        Action("node-enable", "Let a drained node work again", _WRANGLER),
        Action("node-forget", "Forget a node that is gone for good", _WRANGLER),
        Action("node-set", "Set a node's slots, hours or rate", _WRANGLER),
        Action("node-update", "Update the software of nodes, a few at a time", _WRANGLER),
        Action("node-update-stop", "Stop updating nodes", _WRANGLER),
        # The farm itself.
        Action("policy-set", "Change the policy", _WRANGLER),
        Action("keys-list", "List keys and invitations", _ADMIN),
        Action("keys-invite", "Make a join token", _ADMIN),
        Action("keys-revoke", "Revoke a key", _ADMIN),
        Action("record", "Record the farm's events into a file", _ADMIN),
        Action("shutdown", "Stop the broker", _ADMIN),
    )
}

PRIORITY_MIN: Final = 0
PRIORITY_MAX: Final = 100
#: Above this only wranglers and admins may set a priority.
ARTIST_PRIORITY_MAX: Final = 75

_RANK: Final = {Role.AGENT: 0, Role.ARTIST: 1, Role.WRANGLER: 2, Role.ADMIN: 3}


def parse_role(text: str) -> Role:
    """The role of that name.

    Raises:
        UnknownName: There is none.
    """
    try:
        return Role(text)
    except ValueError as error:
        raise UnknownName(f"there is no role {text!r}", hint="roles are " + ", ".join(Role)) from error


def action_named(name: str) -> Action:
    """The action of that name.

    Raises:
        UnknownName: There is none.
    """
    action = ACTIONS.get(name)
    if action is None:
        raise UnknownName(f"there is no action {name!r}")
    return action


def allowed_actions(role: Role) -> tuple[Action, ...]:
    """The actions a role may do at all (artists some of them only to their own jobs)."""
    return tuple(action for action in ACTIONS.values() if _has_rank(role, action))


def check_allowed(role: Role, action: str, *, user: str, owner: str) -> None:
    """Checks that a key may do something.

    For ``submit`` the owner is the job's user: only wranglers and above submit for others.

    Args:
        role: The key's role.
        action: Name of the action.
        user: The key's user.
        owner: User who owns what is acted on; empty where it has no owner (nodes, keys, the farm).

    Raises:
        Denied: It may not; says who, what and why.
        UnknownName: There is no such action.
    """
    record = action_named(action)
    what = record.summary[0].lower() + record.summary[1:].partition(";")[0]
    who = f"{user or 'a key without a user'} ({role.value})"
    if role is Role.AGENT:
        raise Denied(f"{who} may not {what}: the key of an agent only renders", hint="use a user's key")
    if not _has_rank(role, record):
        raise Denied(
            f"{who} may not {what}: that takes the role {record.role.value}",
            hint=f"ask {'an' if record.role is _ADMIN else 'a'} {record.role.value}",
        )
    if record.own_only and role is Role.ARTIST and (not user or owner != user):
        whose = f"it belongs to {owner}" if owner else "it covers more than their own jobs"
        if action == "submit":
            whose = f"the job's user is {owner or 'not given'}"
        raise Denied(
            f"{who} may not {what}: {whose}, and artists act on their own jobs", hint="ask a wrangler"
        )


def check_priority(role: Role, priority: int) -> None:
    """Checks that a role may give a job this priority.

    Raises:
        CallError: The priority is not between 0 and 100.
        Denied: It is above what artists may set, or the key is an agent's.
    """
    if not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        raise CallError(f"priority {priority} is not between {PRIORITY_MIN} and {PRIORITY_MAX}")
    if role is Role.AGENT:
        raise Denied("the key of an agent may not set a priority: it only renders", hint="use a user's key")
    if role is Role.ARTIST and priority > ARTIST_PRIORITY_MAX:
        raise Denied(
            f"an artist may not set priority {priority}: above {ARTIST_PRIORITY_MAX} takes the role wrangler",
            hint=f"use at most {ARTIST_PRIORITY_MAX}, or ask a wrangler",
        )


def _has_rank(role: Role, action: Action) -> bool:
    return _RANK[role] >= _RANK[action.role] > 0
