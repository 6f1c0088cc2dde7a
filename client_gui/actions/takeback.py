"""What takes a gesture back, as a plan like any other.

What belongs here: the requests of an undo with the cells they change.  What may not: which undo there is
(``store.undo``).
"""

from __future__ import annotations

from client_gui.actions.context import UnitsOf
from client_gui.actions.facts import Facts, facts_of_address, node_facts
from client_gui.actions.plan import Item, Plan, item_of
from client_gui.actions.possible import Who
from client_gui.actions.records import BY_ID, Menu, Record, Scope
from client_gui.actions.slices import Steps, whole
from client_gui.store.farmstore import FarmStore
from client_gui.store.undo import Act, Undo

#: How an undo is told: no action of its own, but told like one.
_UNDO = Record("undo", "Undo", BY_ID["undo"].summary, Menu.EDIT, frozenset({Scope.APP}), done="Took back")


def undo_plan(undo: Undo, store: FarmStore, who: Who) -> Plan:
    """The requests that take something back, in order."""
    return whole(undo_steps(undo, store, who))


def undo_steps(undo: Undo, store: FarmStore, who: Who) -> Steps[Plan]:
    """``undo_plan``, a step for each request."""
    items = []
    for act in undo.acts:
        items.append(_item(act, store, who))
        yield
    return Plan(_UNDO, tuple(items), done=f"Took back {undo.text!r}:")


def _item(act: Act, store: FarmStore, who: Who) -> Item:
    record = BY_ID.get(act.action)
    if record is None:
        return Item(act, act.target)
    facts: Facts | None
    if act.action.startswith("node-"):
        facts = node_facts(store, int(act.target)) if act.target.isdecimal() else None
    else:
        facts = facts_of_address(store, act.target)
    if facts is None:
        return Item(act, act.target)
    if record.id == "retry" and isinstance(getattr(facts, "units", None), UnitsOf):
        record = BY_ID["retry-selection"]
    made = item_of(record, facts, who, act.value, {})
    return Item(act, made.label, made.frames, made.cells)
