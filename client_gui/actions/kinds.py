"""Of very many selected rows one of each kind: what is possible is judged by those few.

What belongs here: in what rows differ as far as the rules ask (``possible``), and picking the first of each
kind.  What may not: Qt, and the rules themselves.

Every rule says the same of two rows of one kind, so that a menu over fifty thousand jobs opens as one over
fifty does.  Rules that ask for something new need it here, too: a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from client_gui.actions.context import ActionContext
from client_gui.actions.facts import job_facts
from client_gui.actions.possible import UPDATING, Who
from client_gui.store.farmstore import FarmStore
from client_gui.store.table import Table
from farm.model.roles import ARTIST_PRIORITY_MAX, PRIORITY_MAX, PRIORITY_MIN
from farm.model.states import UnitState, WorkState

#: Up to so many rows all of them are judged.
JUDGED_ALL: Final = 50
#: Jobs in these states say by it whether canceled units are among those that are over.
_SAYS_CANCELED: Final = (WorkState.DONE, WorkState.CANCELED)

Flags = npt.NDArray[np.int64]


def sample(store: FarmStore, context: ActionContext, who: Who) -> ActionContext:
    """The same selection, of very many rows only the first of each kind."""
    if context.scope == "jobs" and len(context.jobs) > JUDGED_ALL:
        kinds = _job_kinds(store, context, who)
        return replace(context, jobs=_first_of_each(context.jobs, kinds))
    if context.scope == "nodes" and len(context.nodes) > JUDGED_ALL:
        kinds = _node_kinds(store, context, who)
        return replace(context, nodes=_first_of_each(context.nodes, kinds))
    return context


def sample_with(
    store: FarmStore, context: ActionContext, who: Who, marks: Callable[[str, int], Hashable]
) -> ActionContext:
    """``sample`` where rows are judged by more than the store has of them.

    Args:
        store: The farm.
        context: What is selected.
        who: Who asks.
        marks: What more that is, by kind (``jobs``) and number of a row.
    """
    ids = {"jobs": context.jobs, "nodes": context.nodes}.get(context.scope, ())
    if len(ids) <= JUDGED_ALL:
        return context
    alike: dict[Hashable, list[int]] = {}
    for one in ids:
        alike.setdefault(marks(context.scope, one), []).append(one)
    few: list[int] = []
    for some in alike.values():
        part = sample(store, _with(context, some), who)
        few += part.jobs if context.scope == "jobs" else part.nodes
    return _with(context, few)


# -- inside --


def _with(context: ActionContext, ids: Sequence[int]) -> ActionContext:
    """The same selection of other rows."""
    chosen = tuple(ids)
    return replace(context, jobs=chosen) if context.scope == "jobs" else replace(context, nodes=chosen)


def _slots(table: Table[int], ids: Sequence[int]) -> npt.NDArray[np.int64]:
    """Places of rows in their table, -1 for those that are not in it."""
    return np.fromiter(map(table.slot, ids), np.int64, len(ids))


def _first_of_each(ids: Sequence[int], kinds: Flags) -> tuple[int, ...]:
    _, firsts = np.unique(kinds, return_index=True)
    return tuple(ids[place] for place in np.sort(firsts).tolist())


def _packed(slots: npt.NDArray[np.int64], columns: Sequence[tuple[Flags, int]]) -> Flags:
    """One number for each row out of small ones; rows that are not there are a kind of their own."""
    kinds = np.zeros(len(slots), np.int64)
    for column, most in columns:
        kinds = kinds * most + np.clip(column, 0, most - 1)
    return np.where(slots < 0, -1, kinds)


def _job_kinds(store: FarmStore, context: ActionContext, who: Who) -> Flags:
    table = store.jobs
    slots = _slots(table, context.jobs)
    known = np.maximum(slots, 0)
    if not len(table):
        return np.full(len(slots), -1, np.int64)

    def numbers(name: str) -> Flags:
        return table.numbers(name)[known].astype(np.int64)

    users, steps = table.values("user"), table.values("steps")
    places = known.tolist()
    mine = np.fromiter((users[slot] == who.user for slot in places), np.int64, len(places))
    told = np.fromiter((bool(steps[slot]) for slot in places), np.int64, len(places))
    done, failed, running, waiting = map(numbers, ("done", "failed", "running", "waiting"))
    rest = numbers("units") - done - failed - running - waiting
    priority = numbers("priority")
    state = numbers("state")
    words = table.words("state")
    says = np.isin(state, [words.code(word.value) for word in _SAYS_CANCELED])
    canceled = np.zeros(len(slots), np.int64)
    for place in np.flatnonzero((rest > 0) & ~says & (told > 0) & (slots >= 0)).tolist():
        counts = job_facts(store, context.jobs[place]).counts
        canceled[place] = int(counts is not None and counts[UnitState.CANCELED] > 0)
    flags = [
        numbers("archived"),
        mine,
        told,
        canceled,
        *((count > 0).astype(np.int64) for count in (done, failed, running, waiting, rest)),
        *(
            (priority == edge).astype(np.int64) for edge in (PRIORITY_MIN, PRIORITY_MAX)
        ),
        (priority >= ARTIST_PRIORITY_MAX).astype(np.int64),
    ]  # fmt: skip
    return _packed(slots, [(state, 256), *((flag, 2) for flag in flags)])


def _node_kinds(store: FarmStore, context: ActionContext, who: Who) -> Flags:
    table = store.nodes
    slots = _slots(table, context.nodes)
    if not len(table):
        return np.full(len(slots), -1, np.int64)
    known = np.maximum(slots, 0)
    places = known.tolist()
    busy, updates, software = table.values("running"), table.values("update"), table.values("software")

    def flags(found: Sequence[bool]) -> Flags:
        return np.array(found, np.int64)

    columns = [
        table.numbers("enabled")[known].astype(np.int64),
        table.numbers("disabled")[known].astype(np.int64),
        flags([bool(busy[slot]) for slot in places]),
        flags([updates[slot] in UPDATING for slot in places]),
        flags([software[slot] == who.software for slot in places]),
    ]
    state = table.numbers("state")[known].astype(np.int64)
    return _packed(slots, [(state, 256), *((column, 2) for column in columns)])
