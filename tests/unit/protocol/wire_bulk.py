"""One message of every kind on the sockets for bulk and for joining; see ``wire_samples``."""

from __future__ import annotations

from typing import Any

#: By name: whose codec reads it, and its plain values.
BULK: dict[str, tuple[str, dict[str, Any]]] = {
    # Bulk socket.
    "log-put": (
        "bulk-in",
        {
            "type": "log-put",
            "job": 12,
            "step": "beauty",
            "no": 3,
            "attempt": 7,
            "offset": 100,
            "data": b"Fra:17\n\xff",
            "end": True,
        },
    ),
    "logs-put": (
        "bulk-in",
        {"type": "logs-put", "logs": [[12, "beauty", 3, 7, b"Fra:17\n"], [12, "beauty", 4, 8, b""]]},
    ),
    "logs-ack": (
        "bulk-out",
        {
            "type": "logs-ack",
            "acks": [
                {"type": "log-ack", "attempt": 7, "size": 7, "reason": ""},
                {"type": "log-ack", "attempt": 8, "size": -1, "reason": "the disk is full"},
            ],
        },
    ),
    "log-ack": ("bulk-out", {"type": "log-ack", "attempt": 7, "size": 108, "reason": ""}),
    "preview-put": (
        "bulk-in",
        {
            "type": "preview-put",
            "job": 12,
            "step": "beauty",
            "no": 3,
            "attempt": 7,
            "unit": 16,
            "data": b"\xff\xd8",
        },
    ),
    "preview-ack": (
        "bulk-out",
        {"type": "preview-ack", "attempt": 7, "unit": 16, "reason": "no such attempt"},
    ),
    "log-get": (
        "bulk-in",
        {"type": "log-get", "id": 1, "job": 12, "step": "beauty", "no": 3, "offset": -100, "limit": 50},
    ),
    "log-page": (
        "bulk-out",
        {"type": "log-page", "id": 1, "offset": 8, "size": 108, "data": b"abc", "ended": False},
    ),
    "preview-get": ("bulk-in", {"type": "preview-get", "id": 2, "job": 12, "step": "beauty", "unit": 16}),
    "preview": ("bulk-out", {"type": "preview", "id": 2, "data": b"\xff\xd8"}),
    "columns-get": (
        "bulk-in",
        {"type": "columns-get", "id": 3, "job": 12, "step": "beauty", "since": 900, "first": 0},
    ),
    "columns": (
        "bulk-out",
        {
            "type": "columns",
            "id": 3,
            "seq": 950,
            "total": 100,
            "since": 900,
            "first": 0,
            "count": 1,
            "units": b"\x10\x00\x00\x00",
            "data": b"x\x01",
        },
    ),
    "bulk-error": (
        "bulk-out",
        {"type": "bulk-error", "id": 1, "code": "unknown", "reason": "there is no log"},
    ),
    # Join socket.
    "join": ("join-in", {"type": "join", "secret": b"\x00" * 32, "label": "render-7"}),
    "joined": (
        "join-out",
        {
            "type": "joined",
            "farm_id": "f0",
            "farm_name": "local",
            "role": "agent",
            "user": "",
            "pool": "film",
            "site": "local",
            "bulk_port": 7462,
        },
    ),
    "join-refused": ("join-out", {"type": "join-refused", "reason": "the token has expired"}),
}
