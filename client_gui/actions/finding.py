"""What the palette finds: actions with reasons, jobs and nodes by name, and what others offer.

What belongs here: entries made from records and the store.  What may not: how they are shown (``palette``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from client_gui.actions.context import ActionContext
from client_gui.actions.keys import KeyMap
from client_gui.actions.keysheet import shown
from client_gui.actions.palette import Entry
from client_gui.actions.records import RECORDS
from client_gui.store.farmstore import FarmStore


def actions(
    context: ActionContext,
    keymap: KeyMap,
    why_not: Callable[[str], str],
    run: Callable[[str, ActionContext], object],
) -> Iterator[Entry]:
    """Every action, those that are not possible with the reason."""
    for record in RECORDS:
        if record.id == "palette":
            continue
        key = keymap.shown(record.id)
        yield Entry(
            f"action:{record.id}",
            "action",
            record.text,
            record.summary,
            shown(key) if key else "",
            why_not(record.id),
            lambda name=record.id: run(name, context),  # type: ignore[misc]
            f"{record.id} {record.summary}",
        )


def jobs(query: str, store: FarmStore, go: Callable[[int], object]) -> Iterator[Entry]:
    """Jobs whose name, number or user holds every word; none before something was typed."""
    words = query.split()
    if not words:
        return
    names, users = store.jobs.values("name"), store.jobs.values("user")
    for job in list(store.jobs.all_ids()):
        slot = store.jobs.slot(job)
        if slot < 0:
            continue
        told = f"j{job} {names[slot]} {users[slot]}".casefold()
        if not all(word in told for word in words):
            # Asked for bit by bit: who does not fit must give way as well as who does.
            continue
        state = store.jobs.get(slot, "state")
        yield Entry(
            f"job:{job}",
            "job",
            f"J{job} {names[slot]}",
            f"{state}, {users[slot]}",
            do=lambda job=job: go(job),  # type: ignore[misc]
            words=str(users[slot]),
        )


def nodes(query: str, store: FarmStore, go: Callable[[int], object]) -> Iterator[Entry]:
    """Nodes whose name, host or pool holds every word; none before something was typed."""
    words = query.split()
    if not words:
        return
    for node in list(store.nodes.all_ids()):
        slot = store.nodes.slot(node)
        if slot < 0:
            continue
        name, host = store.nodes.get(slot, "name"), store.nodes.get(slot, "host")
        pool, state = store.nodes.get(slot, "pool"), store.nodes.get(slot, "state")
        if all(word in f"{name} {host} {pool}".casefold() for word in words):
            yield Entry(
                f"node:{node}",
                "node",
                str(name),
                f"{state}, {pool}" if pool else str(state),
                do=lambda node=node: go(node),  # type: ignore[misc]
                words=f"{host} {pool}",
            )
