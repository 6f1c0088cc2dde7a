"""When an action is possible, and why not when it is not, in words.

What belongs here: rules over facts, roles and the connection; they agree with what the broker takes and
refuses as far as a client can know.  What may not: Qt, and doing anything.

A state or role that only a newer farm knows forbids nothing: the broker has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from client_gui.actions.context import ActionContext
from client_gui.actions.facts import OPEN, B, C, D, F, Facts, JobFacts, NodeFacts, Q, R, S, UnitsFacts
from client_gui.actions.records import Record, Scope, Value, works_on_rows
from farm.model.errors import CallError, Denied
from farm.model.roles import (
    ACTIONS,
    ARTIST_PRIORITY_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
    Role,
    check_allowed,
    check_priority,
)
from farm.model.states import NodeState, UnitState, WorkState

#: How far one key moves a priority.
PRIORITY_STEP: Final = 5
_KNOWN_STATES: Final = frozenset(state.value for state in WorkState)
_LIVE: Final = (NodeState.ONLINE.value, NodeState.SUSPECT.value)
#: A node in a roll-out that is not over.
UPDATING: Final = ("waiting", "draining", "updating")


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks, and how the connection stands.

    Attributes:
        role: Role of the key; None before the first session, or one this client does not know.
        user: User of the key.
        live: Whether the farm can be asked.
        trouble: Why it cannot, "" when it can.
        software: Version of the broker.
        updating: Whether a roll-out is under way.
        waits: Whether what may be sent later can wait for the farm to be back.
    """

    role: Role | None
    user: str
    live: bool
    trouble: str = ""
    software: str = ""
    updating: bool = False
    waits: bool = False


def unit_states(action: str, units: UnitsFacts | None) -> tuple[UnitState, ...]:
    """States of units that an action of work moves (``farm.core.actions`` has the same).

    Args:
        action: Id of the action.
        units: What is selected; None for a whole job.
    """
    named = units is not None and units.named
    match action:
        case "retry":
            return (F, C)
        case "retry-selection":
            return (F, C, S, D)
        case "requeue":
            return (R,)
        case "next" | "last":
            return (B, Q)
        case "skip":
            return (B, Q, F)
        case "mark-done":
            return (B, Q, R, F, S, C)
        case "cancel":
            # Failed frames are only meant when they are named.
            return (R, Q, B, F) if units is not None and not units.whole else (R, Q, B)
        case _:
            return tuple(UnitState) if named else OPEN


def why_not_here(record: Record, context: ActionContext, who: Who) -> str:
    """Why an action is not possible whatever is selected in detail; "" when that decides it."""
    if record.farm and record.farm in ACTIONS and who.role is not None:
        # Whose it is comes later; what the role can never do is told first.
        needed = ACTIONS[record.farm]
        try:
            check_allowed(who.role, record.farm, user=who.user, owner=who.user)
        except Denied:
            if who.role is Role.AGENT:
                return "this key is an agent's: it may change nothing"
            if who.user or needed.role is not Role.ARTIST:
                return f"takes the role {needed.role.value}; ask {_a(needed.role.value)}"
            return "this key belongs to no user, so nothing is its own; ask a wrangler"
    if works_on_rows(record):
        scopes = {scope.value for scope in record.scopes}
        if not context.scope or not (context.jobs or context.units or context.nodes):
            return "nothing is selected"
        if context.scope not in scopes:
            return f"works on {_either(record)}, not on {context.scope}"
    if record.id == "resubmit" and max(len(context.jobs), len(context.units)) > 1:
        return f"works on one {'job' if context.scope == 'jobs' else 'step'} at a time"
    if (record.changes or record.id == "resubmit") and not who.live:
        return _away(record, context, who)
    return ""


def why_not_one(record: Record, facts: Facts, who: Who, value: str = "") -> str:
    """Why an action is not possible on one thing; "" when it is."""
    if not record.changes:
        return _look(record, facts)
    if isinstance(facts, NodeFacts):
        return _node(record.id, facts, who)
    job = facts if isinstance(facts, JobFacts) else facts.job
    denied = _denied(record, job, who)
    if denied:
        return denied
    if not job.known:
        return f"{job.address} is not in the list any more"
    if job.archived and not job.steps and record.id != "delete":
        return f"{job.address} is in the archive"
    if isinstance(facts, UnitsFacts):
        return _units(record.id, facts)
    return _job(record, facts, who, value)


def toggles_to(facts: Sequence[Facts]) -> str:
    """What the pause key does to a selection: ``resume`` when all that can be paused is, else ``pause``."""
    jobs = [one for one in facts if isinstance(one, JobFacts)]
    return (
        "resume" if any(one.paused for one in jobs) and not any(_can_pause(one) for one in jobs) else "pause"
    )


def new_priority(record: Record, job: JobFacts, role: Role | None) -> int:
    """The priority that raising or lowering gives a job."""
    if record.id == "priority-down":
        return max(PRIORITY_MIN, job.priority - PRIORITY_STEP)
    most = ARTIST_PRIORITY_MAX if role is Role.ARTIST else PRIORITY_MAX
    return max(job.priority, min(most, job.priority + PRIORITY_STEP))


def priority_problem(text: str, who: Who) -> str:
    """Why a text is no priority for whoever asks, "" when it is one."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 3:
        return f"a priority is a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}, not {text!r}"
    try:
        check_priority(who.role or Role.ADMIN, int(text))
    except (CallError, Denied) as error:
        return str(error)
    return ""


# -- inside --


def _away(record: Record, context: ActionContext, who: Who) -> str:
    """Why an action is not possible without a connection; "" when it may wait for one."""
    trouble = f"not connected: {who.trouble}" if who.trouble else "not connected"
    if not who.waits or not record.changes:
        return trouble
    if record.id == "set" and context.scope != "jobs":
        return f"{trouble}; what a step needs is not sent later: work goes on meanwhile"
    return "" if record.later else f"{trouble}; it is not sent later: {record.only_now}"


def _a(word: str) -> str:
    return f"an {word}" if word[:1] in "aeiou" else f"a {word}"


def _either(record: Record) -> str:
    names = [scope.value for scope in Scope if scope in record.scopes]
    return " or ".join(names)


def _denied(record: Record, job: JobFacts, who: Who) -> str:
    if who.role is not Role.ARTIST or not ACTIONS[record.farm].own_only or not job.known:
        return ""
    try:
        check_allowed(who.role, record.farm, user=who.user, owner=job.user)
    except Denied:
        whose = f"belongs to {job.user}" if job.user else "belongs to nobody"
        return f"{job.address} {whose}; artists act on their own jobs, ask a wrangler"
    return ""


def _look(record: Record, facts: Facts) -> str:
    if isinstance(facts, NodeFacts):
        return ""
    job = facts if isinstance(facts, JobFacts) else facts.job
    if record.id == "folder" and isinstance(facts, UnitsFacts) and facts.exact and not facts.count(D):
        return f"nothing of {facts.address} is done: it has no files yet"
    if record.id == "folder" and job.known and not job.done and not isinstance(facts, UnitsFacts):
        return f"nothing of {job.address} is done: it has no files yet"
    return ""


def _can_pause(job: JobFacts) -> bool:
    if job.paused:
        return False
    if job.counts is not None:
        return any(job.counts[state] for state in (*OPEN, F)) or len(job.counts) > len(UnitState)
    return job.state not in (WorkState.DONE, WorkState.CANCELED)


def _open_units(job: JobFacts) -> int:
    if job.counts is not None:
        return sum(job.counts[state] for state in OPEN)
    busy = (WorkState.RUNNING, WorkState.QUEUED, WorkState.BLOCKED)
    return int(job.state in busy)


def _job(record: Record, job: JobFacts, who: Who, value: str) -> str:
    match record.id:
        case "pause":
            if job.paused:
                return f"{job.address} is paused already"
            return "" if _can_pause(job) else f"{job.address} is {job.state}: nothing to pause"
        case "resume":
            if job.state not in _KNOWN_STATES:
                return ""
            return "" if job.paused else f"{job.address} is {job.state}, not paused"
        case "pause-toggle":
            return "" if job.paused or _can_pause(job) else f"{job.address} is {job.state}: nothing to pause"
        case "priority-up" | "priority-down":
            if new_priority(record, job, who.role) != job.priority:
                return ""
            if record.id == "priority-down":
                return f"{job.address} has the lowest priority"
            if who.role is Role.ARTIST:
                return f"{job.address} has priority {job.priority}; more takes the role wrangler"
            return f"{job.address} has the highest priority"
        case "priority":
            return _priority(job, who, value)
        case "archive":
            if job.archived:
                return f"{job.address} is archived already"
            return f"{job.address} still has work; cancel it first" if _open_units(job) else ""
        case "delete":
            return f"{job.address} still has work; cancel it first" if _open_units(job) else ""
        case "retry" | "cancel" | "requeue" | "next" | "last":
            states = unit_states(record.id, None)
            if job.counts is None or len(job.counts) > len(UnitState):
                return ""
            if any(job.counts[state] for state in states):
                return ""
            if record.id == "retry":
                return f"{job.address} is {job.state}: nothing failed or was canceled"
            nothing = {"cancel": "nothing to cancel", "requeue": "nothing of it runs"}
            return f"{job.address} is {job.state}: {nothing.get(record.id, 'nothing of it waits')}"
        case _:
            return ""


def _priority(job: JobFacts, who: Who, value: str) -> str:
    if not value:
        return ""
    if problem := priority_problem(value, who):
        return problem
    return f"{job.address} has priority {value} already" if int(value) == job.priority else ""


def _units(action: str, facts: UnitsFacts) -> str:
    if action == "set":
        return "" if facts.whole else "frames have no settings of their own: select the step"
    if action in ("next", "last") and facts.whole and facts.job.steps == 1:
        return f"{facts.address} is the only step of {facts.job.address}: select the job"
    states = unit_states(action, facts)
    if facts.count(*states) or not sum(facts.counts):
        return ""  # also when nothing is known of them
    words = [state.word for state in UnitState if facts.counts[state]]
    verb = {
        "retry": "nothing failed or was canceled",
        "retry-selection": "nothing can be rendered again",
        "skip": "nothing to skip",
        "mark-done": "nothing to mark",
        "cancel": "nothing to cancel",
        "requeue": "nothing of it runs",
        "next": "nothing of it waits",
        "last": "nothing of it waits",
    }.get(action, "not possible")
    if action == "retry-selection":
        verb = "it is not done yet"
    return f"{facts.address} is {' and '.join(words)}: {verb}"


def _node(action: str, node: NodeFacts, who: Who) -> str:
    if not node.known:
        return f"{node.address} is not in the list any more"
    match action:
        case "node-drain":
            held = node.update in UPDATING
            return "" if node.enabled or held else f"{node.address} is {node.service} already"
        case "node-disable":
            return f"{node.address} is disabled already" if node.service == "disabled" else ""
        case "node-enable":
            return f"{node.address} takes work already" if node.enabled else ""
        case "node-forget":
            if node.state in _LIVE:
                return f"{node.address} is {node.state}; stop its agent first"
            return f"{node.address} still holds {', '.join(node.running)}" if node.running else ""
        case "node-update":
            if who.updating:
                return "an update is under way; wait for it, or stop it"
            if who.software and node.software == who.software:
                return f"{node.address} has version {node.software} already"
            return ""
        case "node-update-stop":
            return "" if who.updating else "no update is under way"
        case _:
            return ""


def needs_value(record: Record) -> bool:
    """Whether something has to be given first."""
    return record.value is not Value.NONE
