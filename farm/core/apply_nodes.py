"""Applies stored rows of nodes and their meters to the state; ``farm.core.apply`` has those of work."""

from __future__ import annotations

import msgspec

from farm.core.rows import MeterRow, NodeRow
from farm.core.state import Farm, Node, NodeClass
from farm.model.nodes import NodeFacts

_FACTS = msgspec.msgpack.Decoder(NodeFacts)
_CHARGES = msgspec.msgpack.Decoder(dict[int, int])


def apply_node(farm: Farm, row: NodeRow) -> None:
    """Adds or updates a node; what its attempts hold stays taken."""
    node = farm.nodes.get(row.id)
    if node is None:
        node = farm.nodes[row.id] = Node(row.id, row.key)
        farm.node_by_key[row.key] = node
        farm.next_node = max(farm.next_node, row.id + 1)
    facts = _FACTS.decode(row.facts)
    node.name, node.pool, node.site, node.facts = row.name, row.pool, row.site, facts
    node.enabled, node.reason, node.rate_nano_h = bool(row.enabled), row.reason, row.rate_nano_h
    node.seen_us = max(node.seen_us, row.seen_us)
    node.seen_stored_us = row.seen_us
    node.forgotten = bool(row.forgotten)
    if node.forgotten:
        farm.node_by_key.pop(row.key, None)
    used = {index for attempt in node.attempts.values() for index in attempt.gpus}
    node.cores_free = facts.total.cores - sum(attempt.cores for attempt in node.attempts.values())
    node.ram_free = facts.total.ram_mib - sum(attempt.ram_mib for attempt in node.attempts.values())
    node.gpus_free = [gpu.index for gpu in facts.gpus if gpu.index not in used]
    node.klass = class_of(farm, node)


def class_of(farm: Farm, node: Node) -> NodeClass:
    """The class of nodes alike."""
    facts = node.facts
    key = (
        facts.total,
        tuple(sorted(gpu.vram_mib for gpu in facts.gpus)),
        tuple(sorted((app.name, app.version) for app in facts.apps)),
        tuple(sorted(facts.renderers)),
        tuple(sorted(facts.attributes.items())),
        node.pool,
        node.site,
    )
    klass = farm.classes.get(key)
    if klass is None:
        klass = farm.classes[key] = NodeClass(key)
    return klass


def apply_meter(farm: Farm, row: MeterRow) -> None:
    """Sets a node's meter (only a restart needs this; live code changed the meter itself)."""
    node = farm.nodes[row.node_id]
    node.meter_on, node.meter_rate = bool(row.running), row.rate_nano_h
    node.origin_us, node.metered_us = row.origin_us, row.metered_us
    node.total_nano, node.idle_nano = row.total_nano, row.idle_nano
    node.waste_nano = row.waste_nano
    node.meter_seq = row.seq
    farm.restored_charges.update(_CHARGES.decode(row.charges))
