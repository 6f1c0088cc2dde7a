"""Actions that wait for a farm that is away: what each one wants, what replaces what, what cells show.

What belongs here: the queue.  What may not: Qt, sending (``later``), and whether an action is still wanted
when the farm is back (``judged``).

Each says how one field of one thing shall be, with what it was when somebody asked.  Of two about the same
field only the later one waits; one that wants what was there before is nothing.  Nothing of it is kept on
disk: what somebody meant yesterday is not what they mean today.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from client_gui.actions.facts import Facts, JobFacts, NodeFacts, job_facts, node_facts
from client_gui.actions.plan import Cell, Item, Plan, fields_of
from client_gui.actions.records import BY_ID, LATER_FIELDS, Record
from client_gui.actions.slices import Steps, whole
from client_gui.store.farmstore import FarmStore
from farm.model.ids import parse_address
from farm.model.states import WorkState
from farm.sdk.words import plural

#: Column in which each field is shown.
_COLUMNS: Final = {"paused": "state", "serves": "state", "priority": "priority", "name": "name"}
#: States of jobs that are over.
OVER: Final = (WorkState.DONE.value, WorkState.CANCELED.value)
#: A field of a row: ``("jobs", 12, "priority")``.
Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Wait:
    """An action that waits.

    Attributes:
        number: Counts up; never given twice.
        gesture: Of what was asked at once; the higher, the later.
        record: The action as it will be sent: of raising a priority, that of setting it.
        key: What it is about.
        before: What the field was when it was asked.
        wanted: What it shall be.
        target: Address of work, or number of a node.
        value: Its argument as it is sent.
        label: What it concerns, as people call it.
        title: The job's name, "" for a node.
        asked_us: When.
        over: Whether the job was over by then.
        reason: What was said about it.
        cells: What is shown meanwhile.
        earlier: What waited before it for the same field.
        held: Why it was not sent when the farm came back, "" when it was not judged so.
    """

    number: int
    gesture: int
    record: Record
    key: Key
    before: str
    wanted: str
    target: str
    value: str
    label: str
    title: str
    asked_us: int
    over: bool = False
    reason: str = ""
    cells: tuple[Cell, ...] = ()
    earlier: Wait | None = field(default=None, repr=False)
    held: str = ""

    @property
    def text(self) -> str:
        """What it does: ``Pause J12``, ``Priority 60 for J12``."""
        match self.key[2]:
            case "priority":
                return f"Priority {self.wanted} for {self.label}"
            case "name":
                return f"Call {self.label} {self.wanted}"
            case _:
                return f"{self.record.text} {self.label}"


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a gesture that was asked while the farm is away.

    Attributes:
        waits: What waits now because of it.
        undone: What waited before and is nothing any more: labels.
    """

    waits: tuple[Wait, ...] = ()
    undone: tuple[str, ...] = ()


class Waits:
    """The queue, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[Key, Wait] = {}
        self._number = 0
        self._gesture = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Wait]:
        return iter(self._kept.values())

    # -- coming --

    def take(self, plan: Plan, store: FarmStore, now_us: int, reason: str = "") -> Taken:
        """Has the requests of a plan wait.

        Args:
            plan: Of an action that may be sent later.
            store: The farm as it was heard of last.
            now_us: Now.
            reason: What somebody says about it.
        """
        return whole(self.take_steps(plan, store, now_us, reason))

    def take_steps(self, plan: Plan, store: FarmStore, now_us: int, reason: str = "") -> Steps[Taken]:
        """``take``, a step for each request."""
        self._gesture += 1
        gesture, waits, undone = self._gesture, [], []
        for item in plan.items:
            yield
            for wanted in wants_of(item):
                found = self._take(wanted, item, gesture, store, now_us, reason)
                if found is None:
                    undone.append(item.label)
                else:
                    waits.append(found)
        return Taken(tuple(waits), tuple(undone))

    def _take(
        self, want: Want, item: Item, gesture: int, store: FarmStore, now_us: int, reason: str
    ) -> Wait | None:
        earlier = self._kept.pop(want.key, None)
        if earlier is not None and earlier.held:
            earlier = None  # it is not being sent, so what is there now counts
        now, title, over = _stands(store, want.key)
        before = earlier.before if earlier is not None else now
        if before == want.wanted:
            return None
        self._number += 1
        made = Wait(
            self._number,
            gesture,
            want.record,
            want.key,
            before,
            want.wanted,
            item.act.target,
            want.value,
            item.label,
            title,
            now_us,
            earlier.over if earlier is not None else over,
            reason,
            tuple(cell for cell in item.cells if cell.field == _COLUMNS[want.key[2]]),
            earlier,
        )
        self._kept[want.key] = made
        return made

    def give_back(self, waits: Iterable[Wait]) -> tuple[Wait, ...]:
        """Has some wait again that could not be sent, unless something newer waits for the same field."""
        back = [one for one in waits if one.key not in self._kept]
        kept = self._kept
        self._kept = {one.key: replace(one, earlier=None) for one in back} | kept
        return tuple(back)

    # -- going --

    def remove(self, numbers: Collection[int]) -> tuple[Wait, ...]:
        """Takes some out, and what waited before them for good."""
        gone = tuple(one for one in self._kept.values() if one.number in numbers)
        for one in gone:
            del self._kept[one.key]
        return gone

    def remove_last(self) -> tuple[Wait, ...]:
        """Takes the last gesture out; what it replaced waits again."""
        last = max((one.gesture for one in self._kept.values()), default=0)
        gone = tuple(one for one in self._kept.values() if one.gesture == last)
        for one in gone:
            del self._kept[one.key]
            if one.earlier is not None:
                self._kept[one.key] = one.earlier
        return gone

    def remove_meant(self, plan: Plan) -> tuple[Wait, ...]:
        """Takes out what a gesture that is sent now replaces."""
        if not self._kept:
            return ()
        keys = {want.key for item in plan.items for want in wants_of(item)}
        return self.remove({one.number for one in self._kept.values() if one.key in keys})

    def hold(self, number: int, why: str) -> None:
        """One is not to be sent without being asked for again."""
        for one in self._kept.values():
            if one.number == number:
                self._kept[one.key] = replace(one, held=why)
                return

    def clear(self) -> tuple[Wait, ...]:
        """Takes all out."""
        gone = tuple(self._kept.values())
        self._kept = {}
        return gone

    # -- what is seen meanwhile --

    def shown(self, kind: str, row_id: object, column: str) -> str | None:
        """What a cell will show if it is sent, None when nothing waits for it."""
        if not self._kept or not isinstance(row_id, int):
            return None
        for name, shown in _COLUMNS.items():
            one = self._kept.get((kind, row_id, name)) if shown == column else None
            if one is not None and not one.held:
                return next((cell.shown for cell in one.cells), None)
        return None

    def marks(self, kind: str, row_id: int) -> tuple[tuple[str, str], ...]:
        """What waits for a row: fields and what they shall be."""
        found = ((name, self._kept.get((kind, row_id, name))) for name in _COLUMNS)
        return tuple((name, one.wanted) for name, one in found if one is not None and not one.held)

    def seen(self, facts: Facts) -> Facts:
        """Something as it will be: what is asked next is asked of that."""
        if not self._kept:
            return facts
        if isinstance(facts, JobFacts):
            wanted = dict(self.marks("jobs", facts.job))
            if wanted.get("priority", "").isdecimal():
                facts = replace(facts, priority=int(wanted["priority"]))
            if "name" in wanted:
                facts = replace(facts, name=wanted["name"])
            if "paused" in wanted:
                facts = replace(facts, state=wanted["paused"] or _resumed(facts))
        elif isinstance(facts, NodeFacts) and (found := dict(self.marks("nodes", facts.node))):
            facts = replace(facts, enabled=found["serves"] == "enabled", disabled=False)
        return facts


@dataclass(frozen=True, slots=True)
class Want:
    """What a request wants of a field.

    Attributes:
        record: The action that says just that.
        key: The field.
        wanted: What it shall be.
        value: The action's argument.
    """

    record: Record
    key: Key
    wanted: str
    value: str = ""


def together(waits: Sequence[Wait]) -> str:
    """What several do, in words: ``Pause 3 jobs``."""
    first = waits[0]
    if len(waits) == 1:
        return first.text
    if any((one.key[::2], one.wanted) != (first.key[::2], first.wanted) for one in waits):
        return plural(len(waits), "action")
    return replace(first, label=plural(len(waits), first.key[0][:-1])).text


def may_wait(plan: Plan) -> bool:
    """Whether all a plan asks for may be sent later."""
    if not plan.record.later:
        return False
    return all(one in LATER_FIELDS for item in plan.items for one in _fields(item))


def wants_of(item: Item) -> Sequence[Want]:
    """What a request wants, field by field."""
    act = item.act
    if item.of_node:
        shall = {"node-drain": "drained", "node-enable": "enabled"}.get(act.action)
        if shall is None or not act.target.isdecimal():
            return ()
        return (Want(BY_ID[act.action], ("nodes", int(act.target), "serves"), shall),)
    at = parse_address(act.target)
    if at.step is not None:
        return ()
    match act.action:
        case "pause" | "resume":
            shall = "paused" if act.action == "pause" else ""
            return (Want(BY_ID[act.action], ("jobs", at.job, "paused"), shall),)
        case "priority":
            return (_priority(at.job, act.value),)
        case "set":
            found = fields_of(act.value)
            return [
                _priority(at.job, text)
                if name == "priority"
                else Want(BY_ID["set"], ("jobs", at.job, name), text, json.dumps({name: text}))
                for name, text in found.items()
                if name in LATER_FIELDS
            ]
        case _:
            return ()


def value_of(facts: Facts, name: str) -> str:
    """What a field is now, as ``Wait.before`` has it."""
    if isinstance(facts, NodeFacts):
        return facts.service
    job = facts if isinstance(facts, JobFacts) else facts.job
    match name:
        case "paused":
            return "paused" if job.paused else ""
        case "priority":
            return str(job.priority)
        case _:
            return job.name


def facts_of_key(store: FarmStore, key: Key) -> JobFacts | NodeFacts:
    """What a key is about, as it is now."""
    return job_facts(store, key[1]) if key[0] == "jobs" else node_facts(store, key[1])


# -- inside --


def _priority(job: int, text: str) -> Want:
    # As the number it is: ``060`` and ``60`` are the same.
    shall = str(int(text)) if text.isascii() and text.isdecimal() else text
    return Want(BY_ID["priority"], ("jobs", job, "priority"), shall, shall)


def _fields(item: Item) -> Iterable[str]:
    return fields_of(item.act.value) if item.act.action == "set" else ()


def _stands(store: FarmStore, key: Key) -> tuple[str, str, bool]:
    """What a field is now, what its job is called, and whether that is over."""
    facts = facts_of_key(store, key)
    if isinstance(facts, JobFacts):
        return value_of(facts, key[2]), facts.name, facts.state in OVER
    return value_of(facts, key[2]), "", False


def _resumed(job: JobFacts) -> str:
    """What a paused job shows once it is resumed."""
    if job.counts is None:
        return WorkState.QUEUED.value
    return job.after(list(job.counts), paused=False)
