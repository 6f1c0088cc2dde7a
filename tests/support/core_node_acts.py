"""What a wrangler does to nodes in the tests of the core, and moments as people write them.

What belongs here: acting on a node, and letting time pass until a moment.  What it may not know: what should
come of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from farm.core.events import NodeActEvent
from farm.model.nodes import NodeChange
from tests.support.core_rig import Rig


def at(text: str) -> int:
    """Microseconds of a moment in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def act(rig: Rig, action: str, node: int, value: object = None, reason: str = "") -> Any:
    text = msgspec.json.encode(value).decode() if value is not None else ""
    return rig.handle(NodeActEvent(rig.now_us, action, node, reason, "wim", text)).reply


def set_(rig: Rig, node: int, **change: Any) -> Any:
    return act(rig, "node-set", node, NodeChange(**change))


def run_to(rig: Rig, until_us: int, *beating: int, step_s: int = 5) -> None:
    """Ticks and heartbeats until a time."""
    while rig.now_us < until_us:
        rig.wait(min(step_s, (until_us - rig.now_us) / 1e6), *beating)
