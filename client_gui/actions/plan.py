"""What a gesture asks of the farm: one request per thing, what cells show meanwhile, what takes it back.

What belongs here: turning an action and a selection into requests, with what was there before.  What may not:
Qt, sending, questions (``questions``) and texts of results (``results``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from client_gui.actions.facts import Facts, JobFacts, NodeFacts, Places, UnitsFacts
from client_gui.actions.possible import (
    Who,
    new_priority,
    priority_problem,
    toggles_to,
    unit_states,
    why_not_one,
)
from client_gui.actions.questions import Question, question_of
from client_gui.actions.records import BY_ID, LATER_FIELDS, Record
from client_gui.actions.slices import Steps, whole
from client_gui.store.farmstore import FarmStore
from client_gui.store.undo import Act
from farm.model.states import UnitState
from farm.protocol.client import UpdateAsk
from farm.sdk.words import plural

#: Fields of a job that its row shows, and those of a node.
JOB_FIELDS: Final = ("name", "project", "priority")
NODE_FIELDS: Final = ("slots", "schedule")

Reached = Callable[[FarmStore], bool]
_TO: Final = {
    "retry": UnitState.QUEUED,
    "requeue": UnitState.QUEUED,
    "skip": UnitState.SKIPPED,
    "cancel": UnitState.CANCELED,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell is about to show.

    Attributes:
        kind: ``jobs``, ``steps``, ``units`` or ``nodes``.
        row_id: Of its row; of ``units`` the address of the step.
        field: Its column.
        shown: What it will show.
        reached: Whether the store has it like that by now.
        units: Of ``units``: a byte for each of the step's, 1 for those that are meant.
    """

    kind: str
    row_id: object
    field: str
    shown: str
    reached: Reached
    units: bytes = b""


@dataclass(frozen=True, slots=True)
class Item:
    """One request.

    Attributes:
        act: The action as it is sent.
        label: What it concerns, as people call it.
        frames: How many frames it concerns; 0 = it is about a job, step or node as a whole.
        cells: What is shown as under way meanwhile.
        undo: What ``store.undo`` makes the way back of: actions with what was there before.
        reason: What was said about this one alone, "" when what was said is about all of them.
    """

    act: Act
    label: str
    frames: int = 0
    cells: tuple[Cell, ...] = ()
    undo: tuple[tuple[Act, str], ...] = ()
    reason: str = ""

    @property
    def of_node(self) -> bool:
        """Whether it goes to nodes."""
        return self.act.action.startswith("node-")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a gesture asks.

    Attributes:
        record: The action.
        items: Requests in order.
        left_out: What it cannot be done to, and why.
        question: To be answered first, None when nothing is lost.
        done: What its notice begins with.
        things: What one of its requests is called when they are of different kinds; "" = by what they are
            about.
    """

    record: Record
    items: tuple[Item, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    question: Question | None = None
    done: str = ""
    things: str = ""


def make_plan(
    record: Record,
    facts: Sequence[Facts],
    who: Who,
    value: str = "",
    before: Mapping[str, Mapping[str, str]] | None = None,
) -> Plan:
    """Works out what to send.

    Args:
        record: The action.
        facts: What is selected.
        who: Who asks.
        value: What was given: a priority, or settings as a JSON object of texts.
        before: What the fields that are set had, by address, as far as it is known beyond the store.
    """
    return whole(plan_steps(record, facts, who, value, before))


def plan_steps(
    record: Record,
    facts: Sequence[Facts],
    who: Who,
    value: str = "",
    before: Mapping[str, Mapping[str, str]] | None = None,
) -> Steps[Plan]:
    """``make_plan``, a step for each thing that is selected."""
    if record.id == "pause-toggle":
        record = BY_ID[toggles_to(facts)]
    items: list[Item] = []
    left_out: list[tuple[str, str]] = []
    chosen: list[Facts] = []
    only_now = "" if who.live else _only_now(record, value, who)
    for one in facts:
        yield
        reason = why_not_one(record, one, who, value) or only_now
        if reason:
            left_out.append((one.address, reason))
            continue
        chosen.append(one)
        if record.id not in ("node-update", "node-update-stop"):
            # Each goes before all others: what stands first in the selection is put there last.
            items.append(item_of(record, one, who, value, (before or {}).get(one.address, {})))
    if record.id == "next":
        items.reverse()
    if record.id == "node-update" and chosen:
        ask = UpdateAsk(nodes=tuple(str(one.node) for one in chosen if isinstance(one, NodeFacts)))
        text = msgspec.json.encode(ask).decode()
        items = [Item(Act("node-update", "", text), plural(len(chosen), "node"))]
    elif record.id == "node-update-stop" and chosen:
        items = [Item(Act("node-update-stop", ""), "the update")]
    return Plan(record, tuple(items), tuple(left_out), question_of(record, chosen), record.done)


def _only_now(record: Record, value: str, who: Who) -> str:
    """Why settings that were given cannot wait for a farm that is away."""
    if record.id != "set":
        return ""
    given = fields_of(value)
    limits = [name for name in given if name not in LATER_FIELDS]
    if limits:
        return f"{limits[0]} is not sent later: work goes on meanwhile"
    return priority_problem(given["priority"], who) if "priority" in given else ""


# -- requests --


def item_of(record: Record, facts: Facts, who: Who, value: str, before: Mapping[str, str]) -> Item:
    """The request of an action on one thing."""
    if isinstance(facts, JobFacts):
        return _job_item(record, facts, who, value, before)
    if isinstance(facts, UnitsFacts):
        return _units_item(record, facts, value, before)
    return _node_item(record, facts, value)


def _job_item(record: Record, job: JobFacts, who: Who, value: str, before: Mapping[str, str]) -> Item:
    number, address = job.job, job.address
    if record.farm == "priority":
        wanted = value if record.id == "priority" else str(new_priority(record, job, who.role))
        act = Act("priority", address, wanted)
        cell = Cell("jobs", number, "priority", wanted, _is_job(number, "priority", int(wanted)))
        return Item(act, address, 0, (cell,), ((act, str(job.priority)),))
    if record.id == "set":
        act = Act("set", address, value)
        given = fields_of(value)
        old = {"name": job.name, "project": job.project, "priority": str(job.priority), **before}
        cells = tuple(
            Cell("jobs", number, name, text, _is_job(number, name, int(text) if name == "priority" else text))
            for name, text in given.items()
            if name in JOB_FIELDS and (name != "priority" or text.isdecimal())
        )
        return Item(act, address, 0, cells, _set_undo(act, given, old))
    act = Act(record.farm, address)
    return Item(act, address, 0, _job_cells(record.farm, job), ((act, _before(record.farm, job)),))


def _before(action: str, job: JobFacts) -> str:
    if action in ("next", "last"):
        return json.dumps({"rank": str(job.rank)})
    return job.state if action in ("pause", "resume") else ""


def _job_cells(action: str, job: JobFacts) -> tuple[Cell, ...]:
    number, counts = job.job, list(job.counts) if job.counts is not None else None
    if action in ("archive", "delete"):
        shown = {"archive": "archived", "delete": "deleted"}[action]
        return (Cell("jobs", number, "state", shown, _is_gone(number)),)
    if action == "pause":
        return (Cell("jobs", number, "state", "paused", _is_job(number, "state", "paused")),)
    if action in ("next", "last"):
        return ()
    if counts is None:
        shown = {"resume": "queued", "cancel": "canceled", "retry": "queued", "requeue": "queued"}[action]
        return (Cell("jobs", number, "state", shown, _changed_from(number, job.state)),)
    if action in ("cancel", "retry", "requeue"):
        to = _TO[action]
        for state in unit_states(action, None):
            counts[to] += counts[state]
            counts[state] = 0
    shown = job.after(counts, paused=job.paused and action != "resume")
    if shown == job.state:
        return ()
    return (Cell("jobs", number, "state", shown, _changed_from(number, job.state)),)


def _units_item(record: Record, facts: UnitsFacts, value: str, before: Mapping[str, str]) -> Item:
    action, address = record.farm, facts.address
    if record.id == "set":
        act = Act("set", address, value)
        return Item(act, address, 0, (), _set_undo(act, fields_of(value), before))
    states = unit_states(record.id, facts)
    if facts.named and record.id in ("retry", "retry-selection"):
        # Frames that are named are rendered again whatever they are: only those that are meant are named.
        part = facts.part(*states)
        address = part.address if part is not None and facts.has_frames else address
    if record.id == "retry-selection" and facts.whole and facts.has_frames:
        # A step as a whole means its failed frames, so its frames are named.
        part = facts.part(*states)
        if part is not None:
            address = part.address
        elif facts.frames is not None:
            address = f"J{facts.units.job}/{facts.units.step}/{facts.frames}"
    act = Act(action, address)
    frames = facts.count(*states) if facts.exact else len(facts.units.units)
    return Item(act, address, frames, _unit_cells(record, facts, states), _unit_undo(act, facts))


def _unit_cells(record: Record, facts: UnitsFacts, states: tuple[UnitState, ...]) -> tuple[Cell, ...]:
    places = facts.at(*states)
    if not len(places) or record.farm in ("next", "last"):
        return ()
    mask = np.zeros(int(places[-1]) + 1, np.uint8)
    mask[places] = 1
    step = f"J{facts.units.job}/{facts.units.step}"
    to = _TO.get(record.farm)
    shown = to.word if to is not None else "verifying"
    wanted = UnitState.DONE if to is None else to
    return (Cell("units", step, "state", shown, _are_units(step, places, wanted), mask.tobytes()),)


def _unit_undo(act: Act, facts: UnitsFacts) -> tuple[tuple[Act, str], ...]:
    if act.action in ("next", "last") and facts.row is not None:
        row = facts.row
        before = {"rank": str(row.rank)} if facts.whole else {"first": row.first, "last": row.last}
        return ((act, json.dumps(before)),)
    if act.action == "requeue":
        part = facts.part(UnitState.RUNNING)
        return ((act, part.address if part is not None else ""),)
    if act.action != "skip":
        return ((act, ""),)
    found: list[tuple[Act, str]] = []
    for state in (UnitState.QUEUED, UnitState.BLOCKED):
        places = facts.at(state)
        if not len(places):
            continue
        if facts.has_frames and facts.frames is not None:
            found.append((Act("skip", facts.of(places).address), state.word))
        elif not facts.has_frames:
            found.append((act, state.word))
    return tuple(found) or ((act, ""),)


def _node_item(record: Record, node: NodeFacts, value: str) -> Item:
    target, number = str(node.node), node.node
    act = Act(record.farm, target, value)
    if record.id == "node-set":
        given = fields_of(value)
        old = {"slots": str(node.slots), "schedule": node.schedule}
        cells = tuple(
            Cell("nodes", number, name, given[name], _is_node(number, name, given[name]))
            for name in NODE_FIELDS
            if name in given
        )
        return Item(act, node.address, 0, cells, _set_undo(act, given, old))
    if record.id == "node-forget":
        cell = Cell("nodes", number, "state", "forgotten", lambda store: store.nodes.slot(number) < 0)
        return Item(act, node.address, 0, (cell,), ((act, ""),))
    shown = {"node-drain": "drained", "node-disable": "disabled", "node-enable": "enabled"}[record.id]
    cell = Cell("nodes", number, "state", shown, _serves(number, shown))
    return Item(act, node.address, 0, (cell,), ((act, node.service),))


# -- settings --


def fields_of(value: str) -> dict[str, str]:
    """Settings given as a JSON object, as texts; empty when it is none."""
    try:
        found = json.loads(value)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): one if isinstance(one, str) else json.dumps(one) for name, one in found.items()}


def _set_undo(act: Act, given: Mapping[str, str], old: Mapping[str, str]) -> tuple[tuple[Act, str], ...]:
    # Frames that were taken out and put back have lost what ran, so that is not the same as before.
    if not given or "frames" in given or any(name not in old for name in given):
        return ((act, ""),)
    return ((act, json.dumps({name: old[name] for name in given})),)


# -- what has come true --


def _is_job(number: int, name: str, wanted: object) -> Reached:
    def reached(store: FarmStore) -> bool:
        slot = store.jobs.slot(number)
        return slot < 0 or store.jobs.get(slot, name) == wanted

    return reached


def _changed_from(number: int, old: str) -> Reached:
    def reached(store: FarmStore) -> bool:
        slot = store.jobs.slot(number)
        return slot < 0 or store.jobs.get(slot, "state") != old

    return reached


def _is_gone(number: int) -> Reached:
    def reached(store: FarmStore) -> bool:
        slot = store.jobs.slot(number)
        return slot < 0 or bool(store.jobs.get(slot, "archived"))

    return reached


def _is_node(number: int, name: str, wanted: str) -> Reached:
    def reached(store: FarmStore) -> bool:
        slot = store.nodes.slot(number)
        return slot < 0 or str(store.nodes.get(slot, name)) == wanted

    return reached


def _serves(number: int, wanted: str) -> Reached:
    def reached(store: FarmStore) -> bool:
        slot = store.nodes.slot(number)
        if slot < 0:
            return True
        enabled, disabled = store.nodes.get(slot, "enabled"), store.nodes.get(slot, "disabled")
        return bool(enabled if wanted == "enabled" else not enabled and disabled == (wanted == "disabled"))

    return reached


def _are_units(step: str, places: Places, wanted: UnitState) -> Reached:
    def reached(store: FarmStore) -> bool:
        known = store.maps.get(step)
        if known is None:
            return True
        inside = places[places < len(known)]
        return bool((known.array[inside] == wanted).all())

    return reached
