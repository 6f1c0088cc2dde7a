"""What the farm says would help, as an action that can be pressed.

What belongs here: reading the commands of the farm's answers (``farm resume J1``).  What may not: Qt, and
doing anything.

A cure that is no single action of the client (``farm set J1/beauty ram=32GiB``) stays words to copy.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.store.attempts import units_of
from client_gui.store.farmstore import FarmStore
from farm.model.errors import OvercrankError
from farm.model.ids import parse_address

#: Verbs that are actions of the same id, or of another one.
_WORK = {"resume": "resume", "pause": "pause", "retry": "retry", "log": "log", "why": "why"}
_NODE = {"enable": "node-enable", "drain": "node-drain"}


@dataclass(frozen=True, slots=True)
class Cure:
    """An action that would help.

    Attributes:
        action: Its id.
        context: What it acts on.
        about: What that is called, for the button: ``J1``.
        value: What it is given, "" = it asks.
    """

    action: str
    context: ActionContext
    about: str
    value: str = ""


def read_cure(text: str, store: FarmStore) -> Cure | None:
    """The action a cure's words stand for; None when they are no single one.

    Args:
        text: The words: a command of ``farm``, perhaps with a remark in brackets behind it.
        store: Names frames and nodes.
    """
    command, _, remark = text.partition(" (")
    try:
        parts = shlex.split(command)
    except ValueError:
        return None
    if len(parts) < 3 or parts[0] != "farm" or (remark and not remark.endswith(")")):
        return None
    verb, *rest = parts[1:]
    if verb == "node" and len(rest) == 2 and rest[0] in _NODE:
        return _of_node(_NODE[rest[0]], rest[1], store)
    if verb == "priority" and len(rest) == 2:
        value = rest[1] if rest[1].isdecimal() else ""
        return _of_work("priority", rest[0], store, value)
    if verb in _WORK and len(rest) == 1:
        return _of_work(_WORK[verb], rest[0], store)
    return None


def _of_node(action: str, name: str, store: FarmStore) -> Cure | None:
    names = store.nodes.values("name")
    for node in store.nodes.all_ids():
        if names[store.nodes.slot(node)] == name:
            return Cure(action, ActionContext("nodes", nodes=(node,)), name)
    return None


def _of_work(action: str, text: str, store: FarmStore, value: str = "") -> Cure | None:
    try:
        address = parse_address(text)
    except OvercrankError:
        return None
    job = int(address.job)
    if address.step is None:
        return Cure(action, ActionContext("jobs", (job,)), f"J{job}", value)
    step = next((row for row in store.steps_of(job) if row.name == address.step), None)
    if step is None:
        return None
    frames = address.frames or ""
    units = tuple(units_of(step, frames))
    states = frozenset({"failed"}) if action == "retry" else frozenset[str]()
    some = UnitsOf(job, step.name, units, frames, states)
    return Cure(action, ActionContext("frames", (job,), (some,)), some.address, value)
