"""Whether what waited for the farm is still wanted once it is back, and what is said of what is not.

What belongs here: judging by the rows as they are now, and the plan of what is sent.  What may not: Qt, the
queue (``waiting``), and sending (``later``).

What somebody else has changed meanwhile is not changed back unasked: whoever pressed the key did not know of
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from client_gui.actions.context import ActionContext
from client_gui.actions.facts import JobFacts
from client_gui.actions.plan import Item, Plan, item_of
from client_gui.actions.possible import Who, why_not_here, why_not_one
from client_gui.actions.records import BY_ID, Menu, Record, Scope
from client_gui.actions.results import Told
from client_gui.actions.slices import Steps, whole
from client_gui.actions.waiting import OVER, Wait, facts_of_key, value_of
from client_gui.store.activity import Level
from client_gui.store.farmstore import FarmStore
from farm.sdk.words import plural

#: How several different actions are told when they are sent: no action of its own, but told like one.
_SENT: Final = Record(
    "waiting-send", "Send", BY_ID["waiting-send"].summary, Menu.EDIT, frozenset({Scope.APP}), done="Sent"
)


class Verdict(Enum):
    """What is to become of an action that waited."""

    SEND = "is sent"
    #: What it wants is so already.
    SO = "is so already"
    #: It makes no sense any more, or is not allowed.
    IDLE = "makes no sense any more"
    #: Somebody else has changed what it is about.
    CHANGED = "was changed meanwhile"


@dataclass(frozen=True, slots=True)
class Judged:
    """An action that waited, judged.

    Attributes:
        wait: The action.
        verdict: What is to become of it.
        text: Why it is not sent, "" when it is.
        item: Its request, when it is.
    """

    wait: Wait
    verdict: Verdict
    text: str = ""
    item: Item | None = None


def judge(wait: Wait, store: FarmStore, who: Who, *, anyway: bool = False) -> Judged:
    """Judges an action by the farm as it is now.

    Args:
        wait: The action.
        store: The farm.
        who: Who asks.
        anyway: Also when somebody else has changed what it is about.
    """
    kind, number, name = wait.key
    facts = facts_of_key(store, wait.key)
    context = (
        ActionContext("jobs", jobs=(number,)) if kind == "jobs" else ActionContext("nodes", nodes=(number,))
    )
    denied = why_not_here(wait.record, context, who)
    if denied:
        return Judged(wait, Verdict.IDLE, f"{wait.label}: {denied}")
    reason = why_not_one(wait.record, facts, who, wait.value)
    now = value_of(facts, name)
    if facts.known and now == wait.wanted:
        return Judged(wait, Verdict.SO, reason or f"{wait.label} is called so already")
    if reason:
        return Judged(wait, Verdict.IDLE, reason)
    if isinstance(facts, JobFacts) and facts.state in OVER and not wait.over:
        return Judged(wait, Verdict.IDLE, f"{wait.label} is {facts.state} by now")
    if now != wait.before and not anyway:
        return Judged(wait, Verdict.CHANGED, _changed(wait, now))
    return Judged(wait, Verdict.SEND, item=item_of(wait.record, facts, who, wait.value, {}))


def judge_all(
    waits: Iterable[Wait], store: FarmStore, who: Who, *, anyway: bool = False
) -> Steps[tuple[Judged, ...]]:
    """Judges several, a step for each."""
    found = []
    for wait in waits:
        found.append(judge(wait, store, who, anyway=anyway))
        yield
    return tuple(found)


def plan_of(judged: Sequence[Judged]) -> Plan:
    """The requests of what is sent, in order; several of one kind are told as that kind."""
    sent = [(one.wait, one.item) for one in judged if one.item is not None]
    records = {wait.record.id: wait.record for wait, _ in sent}
    items = tuple(_with_reason(item, wait) for wait, item in sent)
    if len(records) == 1:
        (record,) = records.values()
        return Plan(record, items, done=record.done)
    return Plan(_SENT, items, done=_SENT.done, things="waiting action")


def dropped(judged: Sequence[Judged]) -> Told | None:
    """What is said of those that are not wanted any more; None when there are none."""
    gone = [one for one in judged if one.verdict in (Verdict.SO, Verdict.IDLE)]
    if not gone:
        return None
    level = Level.INFO if all(one.verdict is Verdict.SO for one in gone) else Level.WARNING
    return _told(level, gone, "not sent any more")


def held(judged: Sequence[Judged]) -> Told | None:
    """What is said of those that somebody else has changed meanwhile; None when there are none."""
    changed = [one for one in judged if one.verdict is Verdict.CHANGED]
    if not changed:
        return None
    hint = "“Do it anyway” is above the docks and in Activity"
    return _told(Level.WARNING, changed, "not sent", hint)


def whole_judged(waits: Iterable[Wait], store: FarmStore, who: Who) -> tuple[Judged, ...]:
    """``judge_all``, at once."""
    return whole(judge_all(waits, store, who))


# -- inside --


def _with_reason(item: Item, wait: Wait) -> Item:
    return Item(item.act, item.label, item.frames, item.cells, item.undo, wait.reason)


def _changed(wait: Wait, now: str) -> str:
    label = wait.label
    match wait.key[2]:
        case "priority":
            return f"{label} has priority {now} by now, not {wait.before}: somebody else set it"
        case "name":
            return f"{label} is called {now} by now: somebody else called it so"
        case "serves":
            return f"{label} is {now} by now, not {wait.before}: somebody else has seen to it"
        case _:
            return f"{label} is no longer as it was"


def _told(level: Level, some: Sequence[Judged], what: str, hint: str = "") -> Told:
    lines = tuple(f"{one.wait.text}: {one.text}" for one in some)
    if len(some) == 1:
        return Told(level, f"“{some[0].wait.text}” was {what}: {some[0].text}", hint)
    more = f"; and {len(some) - 1} more"
    return Told(
        level,
        f"{plural(len(some), 'action')} that waited were {what}: {some[0].text}{more}",
        hint,
        lines,
    )
