"""Life of nodes: hello, heartbeat, suspect, lost, bye; and what people do to them.

What a node does by the clock is in ``farm.core.nodelife``, updating many of them in ``farm.core.rollout``.
"""

from __future__ import annotations

import msgspec

from farm.core import edit, meter, nodelife, openings, reserve, rollout, scout
from farm.core.apply import QUEUED
from farm.core.apply_nodes import apply_node
from farm.core.dependencies import move, settle
from farm.core.drain import drain_node, store_node, tell
from farm.core.events import BeatEvent, ByeEvent, HelloEvent, NodeActEvent, RestartEvent, TickEvent
from farm.core.outcome import ActAnswer, DrainCommand, HelloAnswer, Outcome, StopCommand
from farm.core.results import end_attempt
from farm.core.rows import NodeRow
from farm.core.specs import stop_first
from farm.core.state import Farm, Node
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.nodes import NodeChange, UpdateOrder
from farm.model.states import FailureClass, NodeState

_ENCODE = msgspec.msgpack.Encoder().encode
_CHANGE = msgspec.json.Decoder(NodeChange)
_ORDER = msgspec.json.Decoder(UpdateOrder)


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
        _ENCODE(node.settings) if node is not None else b"",
    )
    out.rows.append(row)
    apply_node(farm, row)
    node = farm.nodes[number]
    old = node.state
    node.state = NodeState.ONLINE
    node.ending = event.ending
    node.seen_us = now_us
    node.deadline_us = now_us + farm.settings.lost_us
    rate_nano_h = meter.rate_at(node, now_us)
    was_on = node.meter_on and node.meter_rate == rate_nano_h
    meter.start(node, now_us, rate_nano_h)
    keep: list[int] = []
    for attempt in list(node.attempts.values()):
        if attempt.id in event.running or attempt.id in event.pending:
            keep.append(attempt.id)
            if attempt.dropped:
                # The stop may have been lost with the connection.
                part = tuple(sorted(attempt.dropped)) if attempt.open else ()
                reason = "its units were taken back"
                out.commands.append(StopCommand(node.id, attempt.id, reason, part))
            for unit in attempt.step.copy_waits:
                if unit in attempt.open and attempt.step.copies.get(unit) is not attempt:
                    stop_first(attempt.step, unit, out)
            if node.settings.disabled and not attempt.dropped:
                out.commands.append(StopCommand(node.id, attempt.id, node.reason, ()))
        else:
            step = attempt.step
            end_attempt(farm, attempt, now_us, FailureClass.LOST.value, "its agent no longer holds it", out)
            settle(farm, step, now_us, out)
    if not was_on:
        out.rows.append(meter.meter_row(farm, node))
    nodelife.note_hours(farm, node, now_us)
    openings.refresh(farm, node)
    nodelife.arm(farm, node, now_us)
    if old is not NodeState.ONLINE:
        tell(farm, node, old.value, "online", "said hello", "farm", now_us, out)
    rollout.heard(farm, node, now_us, out)
    if not node.enabled:
        out.commands.append(DrainCommand(node.id, True, node.reason))
    out.reply = HelloAnswer(node.id, tuple(keep))


def _unique_name(farm: Farm, wanted: str, number: int) -> str:
    base = wanted or f"node-{number}"
    name, n = base, 2
    while _is_taken(farm, name, number):
        name, n = f"{base}-{n}", n + 1
    return name


def _is_taken(farm: Farm, name: str, number: int) -> bool:
    """Whether another node that may still be about is called so."""
    return any(
        node.id != number and not node.forgotten and node.state is not NodeState.OFFLINE
        for node in farm.node_names.get(name, {}).values()
    )


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
        openings.refresh(farm, node)
        nodelife.arm(farm, node, event.now_us)
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
    node.ending = False
    nodelife.note_hours(farm, node, now_us)
    openings.refresh(farm, node)
    meter.stop(node, at_us)
    out.rows.append(meter.meter_row(farm, node))
    store_node(farm, node, out)
    tell(farm, node, old.value, state.value, reason, "farm", now_us, out)


def on_tick(farm: Farm, event: TickEvent, out: Outcome) -> None:
    """Time passed: nodes that fell silent, hours and rates that change, units whose back-off is over."""
    now_us, due = event.now_us, farm.due
    for node_id in due.take(now_us):
        node = farm.nodes[node_id]
        if nodelife.look(farm, node, now_us, out):
            _lose(farm, node, now_us, out)
    nodelife.note_seen(farm, now_us, out)
    for step in list(due.parked.values()):
        over = [unit for unit, until_us in step.parked.items() if 0 < until_us <= now_us]
        if over:
            units = tuple(sorted(over))
            move(farm, step, units, QUEUED, QUEUED, "its back-off is over", "farm", now_us, out)
        if not any(step.parked.values()):
            del due.parked[step.id]
    edit.wake(farm, now_us, out)
    scout.look(farm, now_us, out)
    rollout.step(farm, now_us, out)
    reserve.review(farm, now_us, out)


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
    """The broker is back, from its disk or from sleep: nothing is requeued before the grace is over."""
    now_us = event.now_us
    for node in farm.nodes.values():
        node.closed = nodelife.closed_reason(node, now_us)
        if node.meter_on or node.attempts:
            if node.state is NodeState.ONLINE:  # the broker only did not listen: whoever follows must know
                tell(farm, node, "online", "suspect", "the broker was away", "farm", now_us, out)
            node.deadline_us = now_us + event.grace_us
            node.state = NodeState.SUSPECT
        openings.refresh(farm, node)
        nodelife.arm(farm, node, now_us)
    rollout.restore(farm)
    farm.due.parked = {step.id: step for step in farm.steps.values() if any(step.parked.values())}
    for step in farm.steps.values():
        settle(farm, step, now_us, out)


def on_node_act(farm: Farm, event: NodeActEvent, out: Outcome) -> None:
    """Drain, disable, enable, forget, set; update many.

    Raises:
        UnknownName: No such node.
        IllegalMove: A node in service cannot be forgotten.
        CallError: The value is wrong.
    """
    if event.action == "node-update":
        rollout.start(farm, _ORDER.decode(event.value), event.who, event.now_us, out)
        return
    if event.action == "node-update-stop":
        reason = event.reason or f"stopped by {event.who}"
        rollout.halt(farm, reason, event.who, event.now_us, out)
        out.reply = ActAnswer(1, f"the update is over: {reason}")
        return
    node = farm.nodes.get(event.node_id)
    if node is None or node.forgotten:
        raise UnknownName(f"there is no node {event.node_id}")
    _NODE_ACTS.get(event.action, _unknown_act)(farm, node, event, out)


def _unknown_act(farm: Farm, node: Node, event: NodeActEvent, out: Outcome) -> None:
    raise UnknownName(f"there is no node action {event.action!r}")


def _drain(farm: Farm, node: Node, event: NodeActEvent, out: Outcome) -> None:
    """No new work; what runs finishes."""
    reason = event.reason or f"drained by {event.who}"
    rollout.keep_drained(farm, node)
    if node.enabled or node.reason != reason:
        drain_node(farm, node, reason, event.who, event.now_us, out)
    count = len(node.attempts)
    what = f"finishes {count} {'attempt' if count == 1 else 'attempts'} and takes no more"
    out.reply = ActAnswer(1, f"{node.name} {what if count else 'takes no more work'}")


def _disable(farm: Farm, node: Node, event: NodeActEvent, out: Outcome) -> None:
    """No new work, and what runs is given back: no try is spent."""
    reason = event.reason or f"disabled by {event.who}"
    rollout.keep_drained(farm, node)
    node.settings = msgspec.structs.replace(node.settings, disabled=True)
    drain_node(farm, node, reason, event.who, event.now_us, out)
    for attempt in node.attempts.values():
        out.commands.append(StopCommand(node.id, attempt.id, reason, ()))
    count = len(node.attempts)
    stopped = f" and gives back {count} {'attempt' if count == 1 else 'attempts'}" if count else ""
    out.reply = ActAnswer(1, f"{node.name} takes no more work{stopped}")


def _enable(farm: Farm, node: Node, event: NodeActEvent, out: Outcome) -> None:
    if not node.enabled:
        rollout.let_go(farm, node, f"enabled by {event.who}", event.now_us, out)
        node.enabled, node.reason = True, ""
        node.blame.clear()
        node.settings = msgspec.structs.replace(node.settings, disabled=False)
        store_node(farm, node, out)
        tell(farm, node, "drained", "enabled", event.reason, event.who, event.now_us, out)
        out.commands.append(DrainCommand(node.id, False, ""))
        openings.refresh(farm, node)
    out.reply = ActAnswer(1, f"{node.name} takes work" if not node.closed else f"{node.name} {node.closed}")


def _forget(farm: Farm, node: Node, event: NodeActEvent, out: Outcome) -> None:
    if node.state in (NodeState.ONLINE, NodeState.SUSPECT) or node.attempts:
        raise IllegalMove(f"{node.name} is {node.state.value}", hint="stop its agent first")
    node.forgotten = True
    farm.node_by_key.pop(node.key, None)
    openings.refresh(farm, node)
    store_node(farm, node, out)
    tell(farm, node, node.state.value, "forgotten", event.reason, event.who, event.now_us, out)
    out.reply = ActAnswer(1, f"{node.name} is forgotten")


def _set(farm: Farm, node: Node, event: NodeActEvent, out: Outcome) -> None:
    try:
        wanted = _CHANGE.decode(event.value)
    except msgspec.DecodeError as error:
        raise CallError(f"what to set of {node.name} cannot be read: {error}") from error
    told = nodelife.change(farm, node, wanted, event.who, event.now_us, out)
    for words in told:
        tell(farm, node, "set", words, event.reason, event.who, event.now_us, out)
    out.reply = ActAnswer(int(bool(told)), f"{node.name}: {', '.join(told) or 'is so already'}")


_NODE_ACTS = {
    "node-drain": _drain,
    "node-disable": _disable,
    "node-enable": _enable,
    "node-forget": _forget,
    "node-set": _set,
}
