"""One message of every kind between clients and the broker; see ``wire_samples``."""

from __future__ import annotations

from typing import Any

from tests.unit.protocol.wire_values import (
    ATTEMPT_ROW,
    FRAME_ROW,
    HISTORY_ROW,
    JOB_ROW,
    KEY_ROW,
    NODE_ROW,
    SPEND,
    WHY_ROW,
)

#: By name: whose codec reads it, and its plain values.
CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    # Client to broker.
    "submit": ("broker", {"type": "submit", "id": 1, "job": b'{"overcrank_job": 1}', "force": True}),
    "jobs": (
        "broker",
        {
            "type": "jobs",
            "id": 2,
            "states": ["failed"],
            "user": "ann",
            "archived": True,
            "before": 9,
            "limit": 10,
        },
    ),
    "job": ("broker", {"type": "job", "id": 3, "job": 12, "spec": True}),
    "frames": (
        "broker",
        {"type": "frames", "id": 4, "address": "J12/beauty/1-9", "states": ["done"], "offset": 1, "limit": 2},
    ),
    "attempts": ("broker", {"type": "attempts", "id": 5, "address": "J12", "limit": 7}),
    "history": ("broker", {"type": "history", "id": 6, "job": 12, "before_us": 8, "limit": 9}),
    "act": (
        "broker",
        {
            "type": "act",
            "id": 7,
            "action": "priority",
            "address": "J12",
            "value": "75",
            "reason": "client",
            "force": True,
        },
    ),
    "estimate": ("broker", {"type": "estimate", "id": 17, "job": b'{"overcrank_job": 1}'}),
    "policy": ("broker", {"type": "policy", "id": 15}),
    "policy-set": (
        "broker",
        {
            "type": "policy-set",
            "id": 16,
            "values": {"limits.nuke.total": "10"},
            "whole": b"",
            "reason": "new licences",
        },
    ),
    "nodes": ("broker", {"type": "nodes", "id": 8}),
    "node-act": (
        "broker",
        {
            "type": "node-act",
            "id": 9,
            "action": "node-set",
            "node": "render-7",
            "reason": "disk",
            "value": '{"slots": "2"}',
        },
    ),
    "spend": ("broker", {"type": "spend", "id": 10, "by": "user", "job": 12}),
    "status": ("broker", {"type": "status", "id": 11}),
    "why": ("broker", {"type": "why", "id": 18, "address": "J12/beauty/17", "node": ""}),
    "keys": (
        "broker",
        {
            "type": "keys",
            "id": 12,
            "action": "keys-invite",
            "role": "agent",
            "user": "",
            "pool": "film",
            "site": "local",
            "label": "x",
            "key": "",
            "ttl_s": 60.0,
        },
    ),
    "subscribe": ("broker", {"type": "subscribe", "id": 13, "topics": ["jobs", "job:12"]}),
    "shutdown": ("broker", {"type": "shutdown", "id": 14, "reason": "night"}),
    "record": ("broker", {"type": "record", "id": 15, "action": "start", "name": "night"}),
    "ping": ("broker", {"type": "ping", "id": 19}),
    "series": ("broker", {"type": "series", "id": 20, "since_us": 1767225600000000}),
    # Broker to client.
    "error": (
        "client",
        {"type": "error", "id": 1, "code": "unknown", "message": "there is no job J9", "hint": ""},
    ),
    "submitted": (
        "client",
        {"type": "submitted", "id": 1, "job": 12, "warnings": ["unknown key x"], "again": True},
    ),
    "jobs-are": ("client", {"type": "jobs-are", "id": 2, "jobs": [JOB_ROW], "more": True}),
    "job-is": ("client", {"type": "job-is", "id": 3, "job": JOB_ROW, "spec": b"{}"}),
    "frames-are": (
        "client",
        {"type": "frames-are", "id": 4, "steps": {"beauty": [FRAME_ROW]}, "more": False},
    ),
    "attempts-are": ("client", {"type": "attempts-are", "id": 5, "attempts": [ATTEMPT_ROW]}),
    "history-is": ("client", {"type": "history-is", "id": 6, "rows": [HISTORY_ROW]}),
    "acted": (
        "client",
        {
            "type": "acted",
            "id": 7,
            "changed": 4,
            "message": "4 units canceled",
            "lost_core_us": 7_200_000_000,
        },
    ),
    "estimated": (
        "client",
        {
            "type": "estimated",
            "id": 17,
            "frames": 100,
            "low_s": 60.5,
            "high_s": None,
            "cost_low_nano": 10**9,
            "cost_high_nano": None,
            "unknown": ["film"],
            "warnings": ["unknown key x"],
        },
    ),
    "policy-is": (
        "client",
        {
            "type": "policy-is",
            "id": 15,
            "values": {"limits.nuke.total": "10"},
            "whole": b'{"limits":{"nuke":{"total":10}}}',
            "limits": [
                {
                    "name": "nuke",
                    "total": 10,
                    "per": "lease",
                    "used": 7,
                    "holders": {"ann": 7},
                    "waiting": ["J12/comp"],
                }
            ],
        },
    ),
    "nodes-are": ("client", {"type": "nodes-are", "id": 8, "nodes": [NODE_ROW]}),
    "spend-is": ("client", {"type": "spend-is", "id": 10, "by": "job", "lines": [SPEND], "total": SPEND}),
    "status-is": (
        "client",
        {
            "type": "status-is",
            "id": 11,
            "farm_name": "local",
            "farm_id": "f0",
            "software": "0.1.0",
            "up_s": 1.5,
            "jobs": {"running": 1},
            "units": {"done": 8},
            "nodes": {"online": 1},
            "spend_nano": 9,
            "burn_nano_h": 500_000_000,
            "alerts": ["disk"],
            "cores": 64,
            "cores_used": 48,
            "gpus": 4,
            "gpus_used": 3,
        },
    ),
    "keys-are": ("client", {"type": "keys-are", "id": 12, "keys": [KEY_ROW], "token": "ock1-x"}),
    "why-is": (
        "client",
        {
            "type": "why-is",
            "id": 18,
            "rows": [WHY_ROW],
            "node": "render-7",
            "reason": "is drained by ann",
            "work": [
                {"address": "J13/comp", "reason": "needs 32 cores, has 8", "cure": "ask for fewer cores"}
            ],
            "waiting": 4,
            "more": True,
        },
    ),
    "ok": ("client", {"type": "ok", "id": 14}),
    "recordings-are": (
        "client",
        {
            "type": "recordings-are",
            "id": 15,
            "recordings": [
                {
                    "name": "night",
                    "path": "/state/recordings/night.recording",
                    "size": 4096,
                    "running": True,
                    "events": 12,
                    "trouble": "",
                }
            ],
        },
    ),
    "series-is": (
        "client",
        {
            "type": "series-is",
            "id": 20,
            "now_us": 1767225610000000,
            "at_us": [1767225600000000],
            "cores": [64.0],
            "cores_used": [48.5],
            "gpus": [2.0],
            "gpus_used": [1.0],
            "queued": [900.0],
            "running": [12.0],
            "nodes": [3.0],
            "burn_nano_h": [2500000000.0],
            "done_s": [0.25],
            "failed_s": [0.0],
            "projects": {"film": [40.0], "(others)": [8.5]},
        },
    ),
    "snapshot": (
        "client",
        {
            "type": "snapshot",
            "id": 13,
            "n": 1,
            "jobs": [JOB_ROW],
            "nodes": [NODE_ROW],
            "maps": {"J12/beauty": b"\x03\x02\x01"},
        },
    ),
    "delta": (
        "client",
        {
            "type": "delta",
            "n": 2,
            "jobs": [JOB_ROW],
            "nodes": [],
            "units": [["J12/beauty", 16, 3]],
            "gone": ["J9"],
        },
    ),
}
