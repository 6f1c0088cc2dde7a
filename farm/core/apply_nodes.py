"""Applies stored rows of nodes and their meters to the state; ``farm.core.apply`` has those of work."""

from __future__ import annotations

import msgspec

from farm.core import openings
from farm.core.rows import MeterRow, NodeRow, SeenRow
from farm.core.state import Farm, Node, NodeClass
from farm.model.nodes import NodeFacts, NodeSettings

_FACTS = msgspec.msgpack.Decoder(NodeFacts)
_SETTINGS = msgspec.msgpack.Decoder(NodeSettings)
_CHARGES = msgspec.msgpack.Decoder(dict[int, int])
_SEEN = msgspec.msgpack.Decoder(dict[int, int])


def apply_node(farm: Farm, row: NodeRow) -> None:
    """Adds or updates a node; what its attempts hold stays taken."""
    node = farm.nodes.get(row.id)
    if node is None:
        node = farm.nodes[row.id] = Node(row.id, row.key)
        farm.node_by_key[row.key] = node
        farm.next_node = max(farm.next_node, row.id + 1)
    facts = _FACTS.decode(row.facts)
    _call(farm, node, row.name)
    node.pool, node.site, node.facts = row.pool, row.site, facts
    if row.enabled and not node.enabled:
        node.blame.clear()  # somebody vouches for it
    node.enabled, node.reason, node.rate_nano_h = bool(row.enabled), row.reason, row.rate_nano_h
    node.seen_us = max(node.seen_us, row.seen_us)
    node.seen_stored_us = row.seen_us
    node.forgotten = bool(row.forgotten)
    if row.settings:
        node.settings = _SETTINGS.decode(row.settings)
    if node.forgotten:
        farm.node_by_key.pop(row.key, None)
    attempts, total = node.attempts.values(), facts.total
    used = {index for attempt in attempts for index in attempt.gpus}
    node.cores_free = total.cores - sum(attempt.cores for attempt in attempts)
    node.ram_free = total.ram_mib - sum(attempt.ram_mib for attempt in attempts)
    node.disk_free = total.disk_mib - sum(attempt.disk_mib for attempt in attempts)
    node.tokens_free = dict(total.tokens)
    for attempt in attempts:
        for name, count in attempt.tokens.items():
            node.tokens_free[name] = node.tokens_free.get(name, 0) - count
    node.gpus_free = [gpu.index for gpu in facts.gpus if gpu.index not in used]
    klass = class_of(farm, node)
    if klass is not node.klass:
        node.klass.live.pop(node.id, None)
        node.live = False
        node.klass = klass
        farm.live_version += 1
    openings.refresh(farm, node)


def _call(farm: Farm, node: Node, name: str) -> None:
    """Gives the node its name, and the index of names its place."""
    same = farm.node_names.get(node.name)
    if same is not None and node.name != name and same.pop(node.id, None) is not None and not same:
        del farm.node_names[node.name]
    node.name = name
    farm.node_names.setdefault(name, {})[node.id] = node


def class_of(farm: Farm, node: Node) -> NodeClass:
    """The class of nodes alike."""
    facts = node.facts
    key = (
        facts.total.key(),
        tuple(sorted(gpu.vram_mib for gpu in facts.gpus)),
        tuple(sorted((app.name, app.version) for app in facts.apps)),
        tuple(sorted(facts.renderers)),
        tuple(sorted(facts.attributes.items())),
        node.pool,
        node.site,
    )
    klass = farm.classes.get(key)
    if klass is None:
        klass = farm.classes[key] = NodeClass(key, len(farm.classes) + 1)
        total = facts.total
        klass.whole = (
            klass.id,
            total.cores,
            total.ram_mib,
            total.disk_mib,
            tuple(sorted(gpu.vram_mib for gpu in facts.gpus)),
            tuple(sorted(total.tokens.items())),
            True,
        )
    return klass


def apply_meter(farm: Farm, row: MeterRow) -> None:
    """Sets a node's meter and what its open attempts were charged (live code changed both itself)."""
    node = farm.nodes[row.node_id]
    node.meter_on, node.meter_rate = bool(row.running), row.rate_nano_h
    node.origin_us, node.metered_us = row.origin_us, row.metered_us
    node.total_nano, node.idle_nano = row.total_nano, row.idle_nano
    node.waste_nano = row.waste_nano
    charges = _CHARGES.decode(row.charges)
    for attempt in node.attempts.values():
        attempt.charge_nano = charges.get(attempt.id, attempt.charge_nano)


def apply_seen(farm: Farm, row: SeenRow) -> None:
    """When nodes were last heard of."""
    for number, seen_us in _SEEN.decode(row.nodes).items():
        node = farm.nodes.get(number)
        if node is not None:
            node.seen_us = max(node.seen_us, seen_us)
            node.seen_stored_us = node.seen_us
