"""What became of a gesture, in one sentence.

What belongs here: outcomes of requests and the words for them.  What may not: Qt, and who is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from client_gui.actions.plan import Item, Plan
from client_gui.store.activity import Level
from farm.model.coretime import core_hours_text
from farm.sdk.words import plural

#: Verbs of notices where nothing was done.
_VERBS: Final = {
    "retry": "retry",
    "retry-selection": "render again",
    "pause": "pause",
    "resume": "resume",
    "priority": "set the priority of",
    "priority-up": "raise the priority of",
    "priority-down": "lower the priority of",
    "set": "set",
    "next": "put ahead",
    "last": "put behind",
    "requeue": "stop",
    "skip": "skip",
    "mark-done": "mark done",
    "cancel": "cancel",
    "archive": "archive",
    "delete": "delete",
    "node-drain": "drain",
    "node-disable": "disable",
    "node-enable": "enable",
    "node-set": "set",
    "node-update": "update",
    "node-update-stop": "stop",
    "node-forget": "forget",
    "undo": "take back",
    "waiting-send": "send",
}


class Fate(Enum):
    """What became of a request."""

    DONE = "done"
    REFUSED = "refused"
    #: It was sent, and no answer came.
    UNKNOWN = "without an answer"
    #: It was not sent, since one before it got no answer.
    UNSENT = "not sent"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request.

    Attributes:
        item: The request.
        fate: What became of it.
        text: What the broker said, or why not.
        lost_core_us: Core-microseconds of work that were lost by it.
    """

    item: Item
    fate: Fate
    text: str = ""
    lost_core_us: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """A notice of a gesture.

    Attributes:
        level: How much it matters.
        text: One sentence.
        hint: What to do, "" for nothing.
        details: Sentences for the list of what happened, one a refusal.
    """

    level: Level
    text: str
    hint: str = ""
    details: tuple[str, ...] = ()


def verb_of(plan: Plan) -> str:
    """What is done, to be put after ``could not``."""
    return _VERBS.get(plan.record.id, plan.record.text.lower())


def tell(plan: Plan, outcomes: Sequence[Outcome]) -> Told:
    """The one sentence of a gesture, and the details."""
    by_fate = {fate: [one for one in outcomes if one.fate is fate] for fate in Fate}
    done = by_fate[Fate.DONE]
    if len(outcomes) == 1 and done and not plan.left_out and done[0].text and plan.record.id != "undo":
        return Told(Level.DONE, _sentence(done[0]))
    parts = []
    if done:
        parts.append(f"{plan.done} {_noun(done, plan.things)}{_lost(plan, done)}")
    refused = [f"{_named(one.item.label, one.text)}" for one in by_fate[Fate.REFUSED]]
    if not done and len(outcomes) == 1 and refused and not plan.left_out:
        reason = by_fate[Fate.REFUSED][0].text
        return Told(Level.ERROR, f"Could not {verb_of(plan)} {outcomes[0].item.label}: {reason}")
    if refused:
        parts.append(f"{len(refused)} refused: {_some(refused)}")
    if plan.left_out:
        reasons = [_named(label, why) for label, why in plan.left_out]
        parts.append(f"{len(reasons)} left out: {_some(reasons)}")
    unknown, unsent = by_fate[Fate.UNKNOWN], by_fate[Fate.UNSENT]
    hint = ""
    if unknown:
        labels = _some([one.item.label for one in unknown])
        parts.append(f"{len(unknown)} without an answer ({labels}): looking what became of it")
        hint = unknown[0].text
    if unsent:
        parts.append(f"{len(unsent)} not sent")
    text = ", ".join(parts)
    if not done:
        text = f"Could not {verb_of(plan)} everything: {text}" if text else "Nothing to do"
    level = Level.DONE if done and len(parts) == 1 else Level.WARNING if done or unknown else Level.ERROR
    told = [f"{_named(one.item.label, one.text)}" for one in by_fate[Fate.REFUSED]]
    details = (*told, *(_named(label, why) for label, why in plan.left_out))
    return Told(level, text, hint, details if len(details) > 1 else ())


def _noun(done: Sequence[Outcome], things: str = "") -> str:
    if things:
        return plural(len(done), things)
    frames = sum(one.item.frames for one in done)
    if len(done) == 1 and not frames:
        return done[0].item.label
    if frames and len(done) == 1:
        return f"{plural(frames, 'frame')} of {done[0].item.label.rsplit('/', 1)[0]}"
    if frames:
        return plural(frames, "frame")
    if done[0].item.of_node:
        return plural(len(done), "node")
    return plural(len(done), "step" if "/" in done[0].item.label else "job")


def _lost(plan: Plan, done: Sequence[Outcome]) -> str:
    """What was thrown away, where something was stopped."""
    lost_us = sum(one.lost_core_us for one in done)
    return f" ({core_hours_text(lost_us)} lost)" if plan.record.id == "requeue" else ""


def _named(label: str, reason: str) -> str:
    """A reason that names what it is about."""
    return reason if label in reason else f"{label}: {reason}"


def _some(reasons: Sequence[str]) -> str:
    """The first reason, and how many more."""
    return reasons[0] if len(reasons) == 1 else f"{reasons[0]}; and {len(reasons) - 1} more"


def _sentence(one: Outcome) -> str:
    """What the broker said, as a sentence; a name that it begins with is left as it is."""
    text = one.text
    return text if text.startswith(one.item.label) else text[:1].upper() + text[1:]
