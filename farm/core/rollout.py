"""A roll-out: nodes are drained, updated and put back into service, a few at a time.

What belongs here: whose turn it is, what counts as updated, when to stop.  What may not: how an agent updates
itself.

Every node carries its own part of the roll-out in its settings (``UpdateMark``), so the rows of nodes are
all a restart needs to go on.  A node that has nothing to update with, is away, or has the version already
is passed over and not drained.  A node that fails stays drained and says why; too many failures stop the
roll-out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core import openings
from farm.core.drain import drain_node, store_node, tell
from farm.core.outcome import ActAnswer, DrainCommand, Outcome, UpdateCommand
from farm.core.rows import HistoryRow
from farm.core.state import Farm, Node
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.nodes import UpdateMark, UpdateOrder
from farm.model.states import NodeState

#: States of a node that the roll-out is not done with.
_OPEN = frozenset({"waiting", "draining", "updating"})
_LIVE = (NodeState.ONLINE, NodeState.SUSPECT)


class Rollout:
    """The roll-out under way.

    Attributes:
        number: Its number; a later one has a greater.
        version: Version the nodes are to get.
        batch: Most nodes out of service at once.
        failures_most: It stops when so many have failed.
        waiting: Ids of nodes whose turn has not come, in order.
        active: Ids of nodes that are drained or update.
        results: Nodes by the state they ended in.
    """

    __slots__ = ("active", "batch", "failures_most", "number", "results", "version", "waiting", "who")

    def __init__(self, number: int, version: str, batch: int, failures_most: int, who: str) -> None:
        self.number = number
        self.version = version
        self.batch = batch
        self.failures_most = failures_most
        self.who = who
        self.waiting: dict[int, None] = {}
        self.active: dict[int, None] = {}
        self.results: dict[str, int] = {}

    def words(self) -> str:
        """How far it is, in words."""
        done = self.results.get("updated", 0)
        total = len(self.waiting) + len(self.active) + sum(self.results.values())
        parts = [f"{done} of {total} nodes updated"]
        if self.active:
            parts.append(f"{len(self.active)} under way")
        parts += [f"{self.results[word]} {word}" for word in ("failed", "skipped") if self.results.get(word)]
        return f"update to {self.version}: " + ", ".join(parts)


def start(farm: Farm, order: UpdateOrder, who: str, now_us: int, out: Outcome) -> None:
    """Starts a roll-out.

    Raises:
        IllegalMove: Another one is under way.
        CallError: No node needs it.
    """
    if farm.due.rollout is not None:
        raise IllegalMove(
            farm.due.rollout.words(), hint="wait for it, or end it with `farm node update --stop`"
        )
    nodes: list[Node] = []
    for node_id in order.nodes:
        node = farm.nodes.get(node_id)
        if node is None or node.forgotten:
            raise UnknownName(f"there is no node {node_id}")
        nodes.append(node)
    wanting = [node for node in nodes if node.facts.software != order.version]
    if not wanting:
        raise CallError(f"all {len(nodes)} nodes have version {order.version} already")
    number = max((n.settings.update.rollout for n in farm.nodes.values() if n.settings.update), default=0) + 1
    rollout = Rollout(number, order.version, order.batch, order.failures, who)
    for node in wanting:
        mark = UpdateMark(
            rollout=number,
            state="waiting",
            version=order.version,
            at_us=now_us,
            batch=order.batch,
            failures=order.failures,
            patience_us=order.patience_us,
            who=who,
            enabled=node.enabled,
        )
        node.settings = msgspec.structs.replace(node.settings, update=mark)
        store_node(farm, node, out)
        rollout.waiting[node.id] = None
    farm.due.rollout = rollout
    _tell_farm(farm, "", rollout.words(), f"started by {who}", who, now_us, out)
    step(farm, now_us, out)
    same = len(nodes) - len(wanting)
    also = f"; {same} have that version already" if same else ""
    out.reply = ActAnswer(len(wanting), rollout.words() + also)


def halt(farm: Farm, reason: str, who: str, now_us: int, out: Outcome) -> None:
    """Ends the roll-out: nodes that only wait or drain are let go; those that update go on.

    Raises:
        IllegalMove: None is under way.
    """
    rollout = farm.due.rollout
    if rollout is None:
        raise IllegalMove("no update is under way")
    for node_id in [*rollout.waiting, *rollout.active]:
        node = farm.nodes[node_id]
        mark = _mark(node)
        if mark.state == "updating":
            continue
        drained = mark.state == "draining"
        _end(farm, rollout, node, "stopped", reason, now_us, out)
        if drained and mark.enabled:
            _enable(farm, node, reason, who, now_us, out)
    _tell_farm(farm, "update", "stopped", reason, who, now_us, out)
    _finish_if_done(farm, rollout, now_us, out)


def step(farm: Farm, now_us: int, out: Outcome) -> None:
    """Moves the roll-out on; costs nothing while there is none, else a look at the few nodes under way."""
    rollout = farm.due.rollout
    if rollout is None:
        return
    for node_id in list(rollout.active):
        node = farm.nodes[node_id]
        mark = _mark(node)
        if mark.state == "draining":
            if node.state not in _LIVE:
                _pass_over(farm, rollout, node, f"is {node.state.value}", now_us, out)
            elif not node.attempts:
                _tell_agent(farm, node, now_us, out)
        elif now_us - mark.at_us >= mark.patience_us:
            waited_s = mark.patience_us / 1e6
            reason = f"did not come back with another version within {waited_s:.0f} s"
            _fail(farm, rollout, node, reason, now_us, out)
    while farm.due.rollout is rollout and rollout.waiting and len(rollout.active) < rollout.batch:
        _begin(farm, rollout, farm.nodes[next(iter(rollout.waiting))], now_us, out)
    _finish_if_done(farm, rollout, now_us, out)


def heard(farm: Farm, node: Node, now_us: int, out: Outcome) -> None:
    """A node said hello: whether that ends its update."""
    mark, rollout = node.settings.update, farm.due.rollout
    if mark is None or mark.state != "updating" or rollout is None:
        return
    facts = node.facts
    if facts.software != mark.before:
        _end(farm, rollout, node, "updated", f"{mark.before} -> {facts.software}", now_us, out)
        if mark.enabled:
            _enable(farm, node, f"updated to {facts.software}", "farm", now_us, out)
        step(farm, now_us, out)
    elif facts.update_no == mark.rollout:
        reason = facts.update_failure or f"came back with version {facts.software} as before"
        _fail(farm, rollout, node, reason, now_us, out)
        step(farm, now_us, out)
    else:
        # It never heard of it: the connection broke, or the agent was started anew before it had begun.
        out.commands.append(UpdateCommand(node.id, mark.rollout, mark.version))


def let_go(farm: Farm, node: Node, reason: str, now_us: int, out: Outcome) -> None:
    """Somebody enabled the node by hand: the roll-out does not touch it any more."""
    rollout, mark = farm.due.rollout, node.settings.update
    if rollout is None or mark is None or mark.state not in _OPEN or mark.rollout != rollout.number:
        return
    _end(farm, rollout, node, "stopped", reason, now_us, out)


def keep_drained(farm: Farm, node: Node) -> None:
    """Somebody drained the node by hand while the roll-out has it: it stays so after its update."""
    mark = node.settings.update
    if mark is not None and mark.state in _OPEN and mark.enabled:
        node.settings = msgspec.structs.replace(
            node.settings, update=msgspec.structs.replace(mark, enabled=False)
        )


def restore(farm: Farm) -> None:
    """The roll-out as the nodes' marks tell, after a restart."""
    rollout: Rollout | None = None
    newest = max((n.settings.update.rollout for n in farm.nodes.values() if n.settings.update), default=0)
    for node in farm.nodes.values():
        mark = node.settings.update
        if mark is None or mark.rollout != newest:
            continue
        if rollout is None:
            rollout = Rollout(newest, mark.version, mark.batch, mark.failures, mark.who)
        if mark.state == "waiting":
            rollout.waiting[node.id] = None
        elif mark.state in _OPEN:
            rollout.active[node.id] = None
        else:
            rollout.results[mark.state] = rollout.results.get(mark.state, 0) + 1
    farm.due.rollout = rollout if rollout is not None and (rollout.waiting or rollout.active) else None


# ---------------------------------------------------------------- one node


def _mark(node: Node) -> UpdateMark:
    mark = node.settings.update
    assert mark is not None
    return mark


def _set(farm: Farm, node: Node, now_us: int, out: Outcome, **fields: Any) -> None:
    old = _mark(node)
    mark = msgspec.structs.replace(old, at_us=now_us, **fields)
    node.settings = msgspec.structs.replace(node.settings, update=mark)
    store_node(farm, node, out)
    if mark.state != old.state:
        tell(farm, node, f"update: {old.state}", mark.state, mark.reason, mark.who, now_us, out)


def _begin(farm: Farm, rollout: Rollout, node: Node, now_us: int, out: Outcome) -> None:
    """A node's turn has come."""
    if node.forgotten or node.state not in _LIVE:
        reason = "was forgotten" if node.forgotten else f"is {node.state.value}"
        _pass_over(farm, rollout, node, reason, now_us, out)
        return
    if not node.facts.updates:
        _pass_over(farm, rollout, node, "its agent has no update_command", now_us, out)
        return
    if node.facts.software == rollout.version:
        _pass_over(farm, rollout, node, f"has version {rollout.version} by now", now_us, out)
        return
    del rollout.waiting[node.id]
    rollout.active[node.id] = None
    reason = f"to be updated to {rollout.version}"
    _set(farm, node, now_us, out, state="draining", reason=reason, enabled=node.enabled)
    if node.enabled:
        drain_node(farm, node, reason, rollout.who, now_us, out)
    if not node.attempts:
        _tell_agent(farm, node, now_us, out)


def _tell_agent(farm: Farm, node: Node, now_us: int, out: Outcome) -> None:
    mark = _mark(node)
    before = node.facts.software
    _set(farm, node, now_us, out, state="updating", before=before, reason=f"{before} -> {mark.version}")
    out.commands.append(UpdateCommand(node.id, mark.rollout, mark.version))


def _end(
    farm: Farm, rollout: Rollout, node: Node, state: str, reason: str, now_us: int, out: Outcome
) -> None:
    rollout.waiting.pop(node.id, None)
    rollout.active.pop(node.id, None)
    rollout.results[state] = rollout.results.get(state, 0) + 1
    _set(farm, node, now_us, out, state=state, reason=reason)


def _pass_over(farm: Farm, rollout: Rollout, node: Node, reason: str, now_us: int, out: Outcome) -> None:
    """Nothing is done to the node; one that was drained for it takes work again when it is back."""
    mark = _mark(node)
    _end(farm, rollout, node, "skipped", reason, now_us, out)
    if mark.state == "draining" and mark.enabled:
        _enable(farm, node, f"not updated: {reason}", "farm", now_us, out)


def _fail(farm: Farm, rollout: Rollout, node: Node, reason: str, now_us: int, out: Outcome) -> None:
    _end(farm, rollout, node, "failed", reason, now_us, out)
    node.reason = f"update failed: {reason}"
    store_node(farm, node, out)
    failed = rollout.results["failed"]
    if (
        failed >= rollout.failures_most
        and farm.due.rollout is rollout
        and (rollout.waiting or rollout.active)
    ):
        halt(farm, f"{failed} {'node' if failed == 1 else 'nodes'} failed", "farm", now_us, out)


def _enable(farm: Farm, node: Node, reason: str, who: str, now_us: int, out: Outcome) -> None:
    if node.enabled:
        return
    node.enabled, node.reason = True, ""
    node.blame.clear()
    store_node(farm, node, out)
    openings.refresh(farm, node)
    tell(farm, node, "drained", "enabled", reason, who, now_us, out)
    out.commands.append(DrainCommand(node.id, False, ""))


def _finish_if_done(farm: Farm, rollout: Rollout, now_us: int, out: Outcome) -> None:
    if farm.due.rollout is rollout and not rollout.waiting and not rollout.active:
        farm.due.rollout = None
        _tell_farm(farm, "update", "ended", rollout.words(), "farm", now_us, out)


def _tell_farm(farm: Farm, old: str, new: str, reason: str, who: str, now_us: int, out: Outcome) -> None:
    out.rows.append(HistoryRow(farm.next_seq(), now_us, 0, "update", old, new, reason, who))
