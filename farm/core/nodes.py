"""Life of nodes: hello, heartbeat, suspect, lost, bye; drain, enable, forget."""

from __future__ import annotations

import msgspec

from farm.core import meter
from farm.core.apply import QUEUED
from farm.core.apply_nodes import apply_node
from farm.core.dependencies import move, settle
from farm.core.drain import drain_node, store_node, tell
from farm.core.events import BeatEvent, ByeEvent, HelloEvent, NodeActEvent, RestartEvent, TickEvent
from farm.core.outcome import ActAnswer, DrainCommand, HelloAnswer, Outcome, StopCommand
from farm.core.results import end_attempt
from farm.core.rows import NodeRow
from farm.core.state import Farm, Node
from farm.model.errors import IllegalMove, UnknownName
from farm.model.states import FailureClass, NodeState

_ENCODE = msgspec.msgpack.Encoder().encode
#: A node's last heartbeat is stored this often, so that a restart can charge up to it.
SEEN_EVERY_US = 10_000_000


def on_hello(farm: Farm, event: HelloEvent, out: Outcome) -> None:
    """An agent opened a session: a new node, or one that comes back with what it still holds."""
    now_us = event.now_us
    node = farm.node_by_key.get(event.key)
    number = node.id if node is not None else farm.next_node
    row = NodeRow(
        number,
        farm.next_seq(),
        event.key,
        _unique_name(farm, event.facts.name, number),
        event.pool,
        event.site,
        _ENCODE(event.facts),
        int(node.enabled if node is not None else True),
        node.reason if node is not None else "",
        event.rate_nano_h,
        now_us,
        0,
    )
    out.rows.append(row)
    apply_node(farm, row)
    node = farm.nodes[number]
    old = node.state
    node.state = NodeState.ONLINE
    node.seen_us = now_us
    node.deadline_us = now_us + farm.settings.lost_us
    was_on = node.meter_on and node.meter_rate == event.rate_nano_h
    meter.start(node, now_us, event.rate_nano_h)
    keep: list[int] = []
    for attempt in list(node.attempts.values()):
        if attempt.id in event.running or attempt.id in event.pending:
            keep.append(attempt.id)
            if attempt.dropped:
                # The stop may have been lost with the connection.
                part = tuple(sorted(attempt.dropped)) if attempt.open else ()
                reason = "its units were taken back"
                out.commands.append(StopCommand(node.id, attempt.id, reason, part))
        else:
            step = attempt.step
            end_attempt(farm, attempt, now_us, FailureClass.LOST.value, "its agent no longer holds it", out)
            settle(farm, step, now_us, out)
    if not was_on:
        out.rows.append(meter.meter_row(farm, node))
    _open(farm, node)
    if old is not NodeState.ONLINE:
        tell(farm, node, old.value, "online", "said hello", "farm", now_us, out)
    if not node.enabled:
        out.commands.append(DrainCommand(node.id, True, node.reason))
    out.reply = HelloAnswer(node.id, tuple(keep))


def _unique_name(farm: Farm, wanted: str, number: int) -> str:
    taken = {
        node.name
        for node in farm.nodes.values()
        if node.id != number and not node.forgotten and node.state is not NodeState.OFFLINE
    }
    base = wanted or f"node-{number}"
    name, n = base, 2
    while name in taken:
        name, n = f"{base}-{n}", n + 1
    return name


def _open(farm: Farm, node: Node) -> None:
    if node.state is NodeState.ONLINE and node.enabled and node.cores_free > 0:
        farm.open_nodes[node.id] = node
    else:
        farm.open_nodes.pop(node.id, None)


def on_beat(farm: Farm, event: BeatEvent, out: Outcome) -> None:
    """A heartbeat.  The reply is the attempts the agent holds, None when it must say hello again."""
    node = farm.nodes.get(event.node_id)
    if node is None or node.state in (NodeState.LOST, NodeState.OFFLINE):
        out.reply = None
        return
    node.seen_us = event.now_us
    node.deadline_us = event.now_us + farm.settings.lost_us
    if node.state is NodeState.SUSPECT:
        node.state = NodeState.ONLINE
        tell(farm, node, "suspect", "online", "its heartbeat came", "farm", event.now_us, out)
        _open(farm, node)
    for number in event.missing:
        attempt = node.attempts.get(number)
        if attempt is not None:
            step = attempt.step
            end_attempt(farm, attempt, event.now_us, FailureClass.LOST.value, "never reached its agent", out)
            settle(farm, step, event.now_us, out)
    out.reply = tuple(node.attempts)


def on_bye(farm: Farm, event: ByeEvent, out: Outcome) -> None:
    """The agent left in order; nothing of it runs."""
    node = farm.nodes.get(event.node_id)
    if node is None:
        return
    for attempt in list(node.attempts.values()):
        step = attempt.step
        end_attempt(farm, attempt, event.now_us, "", f"{node.name} left: {event.reason}", out)
        settle(farm, step, event.now_us, out)
    _leave(farm, node, NodeState.OFFLINE, event.reason or "left", event.now_us, event.now_us, out)


def _leave(
    farm: Farm, node: Node, state: NodeState, reason: str, at_us: int, now_us: int, out: Outcome
) -> None:
    old = node.state
    node.state = state
    farm.open_nodes.pop(node.id, None)
    meter.stop(node, at_us)
    out.rows.append(meter.meter_row(farm, node))
    store_node(farm, node, out)
    tell(farm, node, old.value, state.value, reason, "farm", now_us, out)


def on_tick(farm: Farm, event: TickEvent, out: Outcome) -> None:
    """Time passed: nodes that fell silent, units whose back-off is over."""
    now_us, settings = event.now_us, farm.settings
    for node in list(farm.nodes.values()):
        if node.state in (NodeState.ONLINE, NodeState.SUSPECT) or node.attempts:
            if now_us >= node.deadline_us:
                _lose(farm, node, now_us, out)
            elif (
                node.state is NodeState.ONLINE
                and now_us >= node.deadline_us - settings.lost_us + settings.suspect_us
            ):
                node.state = NodeState.SUSPECT
                farm.open_nodes.pop(node.id, None)
                silent_s = (now_us - node.seen_us) / 1e6
                tell(farm, node, "online", "suspect", f"silent for {silent_s:.1f} s", "farm", now_us, out)
        if node.seen_us - node.seen_stored_us >= SEEN_EVERY_US:
            store_node(farm, node, out)
    for step in farm.steps.values():
        if step.parked:
            over = [unit for unit, until_us in step.parked.items() if 0 < until_us <= now_us]
            if over:
                units = tuple(sorted(over))
                move(farm, step, units, QUEUED, QUEUED, "its back-off is over", "farm", now_us, out)


def _lose(farm: Farm, node: Node, now_us: int, out: Outcome) -> None:
    """The node is lost: its attempts are closed for good and charged to its last heartbeat."""
    silent_s = (now_us - node.seen_us) / 1e6
    reason = f"{node.name} was not heard of for {silent_s:.0f} s"
    meter.stop(node, node.seen_us)
    for attempt in list(node.attempts.values()):
        step = attempt.step
        end_attempt(farm, attempt, now_us, FailureClass.LOST.value, reason, out, lost=True)
        settle(farm, step, now_us, out)
    _leave(farm, node, NodeState.LOST, reason, node.seen_us, now_us, out)


def on_restart(farm: Farm, event: RestartEvent, out: Outcome) -> None:
    """The broker is back: nothing is requeued before the grace period is over."""
    for node in farm.nodes.values():
        if node.meter_on or node.attempts:
            node.deadline_us = event.now_us + event.grace_us
            node.state = NodeState.SUSPECT
    for step in farm.steps.values():
        settle(farm, step, event.now_us, out)


def on_node_act(farm: Farm, event: NodeActEvent, out: Outcome) -> None:
    """Drain, enable, forget.

    Raises:
        UnknownName: No such node.
        IllegalMove: A node in service cannot be forgotten.
    """
    node = farm.nodes.get(event.node_id)
    if node is None or node.forgotten:
        raise UnknownName(f"there is no node {event.node_id}")
    if event.action == "node-drain":
        reason = event.reason or f"drained by {event.who}"
        if node.enabled:
            drain_node(farm, node, reason, event.who, event.now_us, out)
        out.reply = ActAnswer(1, f"{node.name} finishes {len(node.attempts)} attempts and takes no more")
    elif event.action == "node-enable":
        if not node.enabled:
            node.enabled, node.reason = True, ""
            store_node(farm, node, out)
            tell(farm, node, "drained", "enabled", event.reason, event.who, event.now_us, out)
            out.commands.append(DrainCommand(node.id, False, ""))
            _open(farm, node)
        out.reply = ActAnswer(1, f"{node.name} takes work")
    elif event.action == "node-forget":
        if node.state in (NodeState.ONLINE, NodeState.SUSPECT) or node.attempts:
            raise IllegalMove(f"{node.name} is {node.state.value}", hint="stop its agent first")
        node.forgotten = True
        farm.node_by_key.pop(node.key, None)
        store_node(farm, node, out)
        tell(farm, node, node.state.value, "forgotten", event.reason, event.who, event.now_us, out)
        out.reply = ActAnswer(1, f"{node.name} is forgotten")
    else:
        raise UnknownName(f"there is no node action {event.action!r}")
