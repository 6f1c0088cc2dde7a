"""Rows of nodes, and taking a node out of service."""

from __future__ import annotations

import msgspec

from farm.core import openings
from farm.core.outcome import DrainCommand, Outcome
from farm.core.rows import HistoryRow, NodeRow
from farm.core.state import Farm, Node

_ENCODE = msgspec.msgpack.Encoder().encode


def store_node(farm: Farm, node: Node, out: Outcome) -> None:
    """Stores the node as it is."""
    out.rows.append(
        NodeRow(
            node.id,
            farm.next_seq(),
            node.key,
            node.name,
            node.pool,
            node.site,
            _ENCODE(node.facts),
            int(node.enabled),
            node.reason,
            node.rate_nano_h,
            node.seen_us,
            int(node.forgotten),
            _ENCODE(node.settings),
        )
    )
    node.seen_stored_us = node.seen_us


def tell(
    farm: Farm, node: Node, old: str, new: str, reason: str, who: str, now_us: int, out: Outcome
) -> None:
    """Records a change of a node for people."""
    out.rows.append(HistoryRow(farm.next_seq(), now_us, 0, f"node {node.name}", old, new, reason, who))


def drain_node(farm: Farm, node: Node, reason: str, who: str, now_us: int, out: Outcome) -> None:
    """No new work for the node; what runs finishes."""
    old, new = "enabled" if node.enabled else "drained", "disabled" if node.settings.disabled else "drained"
    node.enabled, node.reason = False, reason
    openings.refresh(farm, node)
    store_node(farm, node, out)
    tell(farm, node, old, new, reason, who, now_us, out)
    out.commands.append(DrainCommand(node.id, True, reason))
