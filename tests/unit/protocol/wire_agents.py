"""One message of every kind that is said to or by an agent, or by every peer; see ``wire_samples``."""

from __future__ import annotations

from typing import Any

from tests.unit.protocol.wire_values import FACTS, FILE, LEASE, PICTURE, TIMINGS

#: By name: whose codec reads it, and its plain values.
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    # Both kinds of peers.
    "hello": (
        "broker",
        {
            "type": "hello",
            "oldest": 1,
            "newest": 1,
            "software": "0.1.0",
            "agent": {
                "facts": FACTS,
                "farm_id": "f0",
                "running": [7],
                "pending": [5, 6],
                "instance": "i1",
                "ending": True,
            },
        },
    ),
    "welcome": (
        "agent",
        {
            "type": "welcome",
            "version": 1,
            "session": 2**62,
            "farm_name": "local",
            "software": "0.1.0",
            "role": "agent",
            "user": "",
            "bulk_port": 7462,
            "agent": {
                "node_id": 3,
                "farm_id": "f0",
                "timings": TIMINGS,
                "keep": [7],
                "log_cap": 1 << 30,
                "path_rules": [["P:\\", "/p"]],
            },
        },
    ),
    "refused": (
        "client",
        {"type": "refused", "code": "denied", "reason": "this key is revoked", "hint": "ask for a token"},
    ),
    "rehello": ("agent", {"type": "rehello"}),
    # Agent to broker.
    "beat": (
        "broker",
        {
            "type": "beat",
            "n": 9,
            "held": [7, 8],
            "got": 4,
            "progress": [[7, 16, 0.5, 900]],
            "load": {
                "cpu_percent": 99.5,
                "ram_free_mib": 100,
                "disk_free_mib": 5,
                "ram_used_mib": 900,
                "gpus": [[97, 71, 20000], [-1, -1, -1]],
            },
        },
    ),
    "report": (
        "broker",
        {
            "type": "report",
            "n": 1 << 40,
            "attempt": 7,
            "nonce": 2**63 - 1,
            "units": [
                [16, 1, "", "", 1_250_000, [FILE], "ended with 139", 900],
                [17, 2, "oom-ram", "killed", 0, [], "", 0],
            ],
            "closed": True,
            "kept": [17],
        },
    ),
    "verified": (
        "broker",
        {"type": "verified", "attempt": 7, "nonce": 1, "unit": 16, "specs": [PICTURE, None]},
    ),
    "bye": ("broker", {"type": "bye", "reason": "it was told to end"}),
    # Broker to agent.
    "batch": (
        "agent",
        {
            "type": "batch",
            "n": 5,
            "acks": [1 << 40],
            "leases": [LEASE],
            "grants": [
                {
                    "attempt": 7,
                    "unit": 16,
                    "reason": "the picture is 1x1",
                    "supersedes": [".overcrank-J12-beauty-2-00000000000000fe"],
                }
            ],
            "stops": [{"attempt": 8, "reason": "canceled by ann", "units": [3], "take_back": True}],
            "discard": [2],
        },
    ),
    "beat-ack": ("agent", {"type": "beat-ack", "n": 9, "held": [7]}),
    "drain": ("agent", {"type": "drain", "on": True, "reason": "new disk"}),
    "update": ("agent", {"type": "update", "rollout": 3, "version": "0.2.0"}),
}
