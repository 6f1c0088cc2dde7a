"""One message of every kind on the wire, as plain values written by hand.

``tests/fixtures/wire/NAME.hex`` holds the bytes of each, made once and never again: what an agent or a client
in the field sends must be understood as long as its version is spoken.  ``python -m
tests.unit.protocol.wire_samples`` writes the file of a new kind and touches no other.  When a kind grows a
field, its old file moves to ``wire/older/`` (as ``NAME.2.hex`` when it grows again) and stays readable for as
long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import msgspec

from farm.protocol import bulk, codec
from farm.protocol.agent import BatchMsg

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "wire"

PICTURE = {
    "width": 1920,
    "height": 1080,
    "channels": ["R", "G", "B"],
    "formats": ["half", "half", "half"],
    "subimages": 1,
}
FILE = {
    "path": "/out/a.0017.exr",
    "size": 1234567,
    "sha256": "ab" * 32,
    "output": 0,
    "spec": PICTURE,
    "frames": None,
    "warnings": ["black"],
}
RESOURCES = {"cores": 4, "ram_mib": 8192, "gpus": 1, "vram_mib": 24000, "nvlink": "none"}
RESOURCES |= {"disk_mib": 1000, "tokens": {"fx-card": 1}}
FACTS = {
    "name": "render-7",
    "host": "render-7.lan",
    "machine": "5f",
    "total": RESOURCES,
    "gpus": [{"index": 0, "uuid": "GPU-1", "name": "RTX 4090", "vram_mib": 24564}],
    "apps": [{"name": "blender", "version": "4.2.3"}],
    "renderers": ["blender", "command"],
    "attributes": {"os": "linux"},
    "slices": 2,
    "slice": 1,
    "software": "0.1.0",
    "updates": True,
    "update_no": 3,
    "update_failure": "no disk left",
}
TIMINGS = {"heartbeat_s": 2.0, "suspect_s": 15.0, "lost_s": 60.0, "lease_ttl_s": 45.0, "kill_grace_s": 15.0}
TEMPLATE = {
    "job": 12,
    "step": "beauty",
    "kind": "per_frame",
    "renderer": "blender",
    "params": {"scene": "/p/a.blend", "deep": [[1]]},
    "outputs": [{"pattern": "/out/a.####.exr", "kind": "sequence"}],
    "inputs": {"input": {"pattern": "/in/b", "frames": "1-3"}},
    "frames": "1-100",
    "env": {"A": "b"},
    "cwd": "",
    "version": ">=4",
    "timeout_s": 60.0,
    "checks": ["nan"],
    "movie_frames": None,
    "pre": ["mount", "/p"],
    "post": ["umount", "/p"],
    "min_run_s": 0.5,
    "frame_timeout_s": 600.0,
    "user": "ann",
    "project": "film",
    "job_name": "shot 7",
}
LEASE = {
    "type": "lease",
    "attempt": 7,
    "no": 3,
    "nonce": 2**63 - 1,
    "kind": 0,
    "units": [16, 17],
    "frames": [17, 18],
    "template": TEMPLATE,
    "resources": RESOURCES,
    "gpus": [0],
    "specs": [PICTURE, None],
    "ask": True,
    "supersedes": [".overcrank-J12-beauty-2-00000000000000ff"],
    "silent_s": 300.0,
}
STEP_ROW = {
    "name": "beauty",
    "kind": "per_frame",
    "renderer": "blender",
    "state": "running",
    "frames": "1-100",
    "units": 100,
    "counts": [0, 90, 2, 8, 0, 0, 0],
    "reason": "",
    "mean_frame_s": 1.5,
    "attempts": 9,
    "able": None,
    "expected_frame_s": 1.75,
}
JOB_ROW = {
    "job": 12,
    "name": "shot 7",
    "user": "ann",
    "project": "film",
    "priority": 50,
    "state": "running",
    "reason": "",
    "submitted_us": 1_700_000_000_000_000,
    "started_us": 1,
    "ended_us": 0,
    "units": 100,
    "done": 8,
    "failed": 0,
    "running": 2,
    "spend_nano": 10**12,
    "waste_nano": 5,
    "archived": False,
    "steps": [STEP_ROW],
    "eta_low_us": 1_700_000_060_000_000,
    "eta_high_us": None,
    "cost_low_nano": 10**9,
    "cost_high_nano": 2 * 10**9,
    "not_estimated": ["film"],
}
NODE_ROW = {
    "node": 3,
    "name": "render-7",
    "host": "render-7.lan",
    "state": "online",
    "enabled": True,
    "reason": "",
    "pool": "",
    "site": "local",
    "cores": 8,
    "cores_free": 4,
    "ram_mib": 16000,
    "ram_free_mib": 8000,
    "gpus": 1,
    "gpus_free": 0,
    "gpu_names": ["RTX 4090"],
    "apps": ["blender 4.2.3"],
    "renderers": ["blender"],
    "running": ["J12/beauty@3"],
    "rate_nano_h": 500_000_000,
    "spent_nano": 7,
    "idle_nano": 2,
    "seen_us": 9,
    "software": "0.1.0",
    "cpu_percent": 12.5,
    "slots": 2,
    "schedule": "mon-fri 19:00-07:00",
    "closed": "accepts work mon-fri 19:00-07:00; next mon 19:00",
    "disabled": True,
    "update": "failed",
    "update_reason": "no disk left",
    "ram_used_mib": 70000,
    "gpu_vram_mib": [24564],
    "gpu_loads": [[97, 71, 20000]],
}
FRAME_ROW = {
    "unit": 16,
    "frame": 17,
    "state": "done",
    "reason": "rendered and verified",
    "attempts": 1,
    "attempt": 3,
    "node": "render-7",
    "elapsed_s": 1.25,
    "cost_nano": 42,
    "failure": "",
    "verified": True,
    "files": ["/out/a.0017.exr"],
    "progress": None,
    "warning": "",
}
ATTEMPT_ROW = {
    "attempt": 7,
    "no": 3,
    "step": "J12/beauty",
    "node": "render-7",
    "kind": "render",
    "frames": "17-18",
    "started_us": 1,
    "ended_us": 2,
    "outcome": "done",
    "reason": "",
    "charge_nano": 3,
    "waste_nano": 0,
}
HISTORY_ROW = {
    "at_us": 1,
    "what": "job",
    "old": "",
    "new": "queued",
    "reason": "submitted by ann",
    "who": "ann",
}
SPEND = {
    "key": "J12",
    "total_nano": 9,
    "useful_nano": 6,
    "waste_nano": 2,
    "idle_nano": 1,
    "busy_s": 1.5,
    "frames": 8,
}
WHY_ROW = {
    "address": "J12/beauty/17",
    "state": "queued",
    "units": 1,
    "causes": [{"what": "J9 comes first", "cure": "raise its priority"}],
    "nodes": [
        {
            "filter": "room",
            "reason": "has 2 of 4 cores free",
            "cure": "",
            "nodes": ["render-7", "render-8"],
            "count": 5,
        }
    ],
    "start_low_us": 1_700_000_000_000_000,
    "start_high_us": None,
    "ahead": 12,
    "share": 0.25,
    "failure": "oom-ram",
    "failed_on": ["render-9"],
    "tries": 1,
}
KEY_ROW = {
    "public": "k" * 40,
    "role": "agent",
    "user": "",
    "pool": "film",
    "site": "local",
    "label": "render-7",
    "revoked": False,
}

#: Name of the fixture -> (who reads it, the message as plain values).
SAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
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
    "acted": ("client", {"type": "acted", "id": 7, "changed": 4, "message": "4 units canceled"}),
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

CODECS: dict[str, codec.Codec[Any]] = {
    "broker": codec.broker_codec(),
    "agent": codec.agent_codec(),
    "client": codec.client_codec(),
    "bulk-in": codec.bulk_in_codec(),
    "bulk-out": codec.bulk_out_codec(),
    "join-in": codec.join_in_codec(),
    "join-out": codec.join_out_codec(),
}
UNIONS: dict[str, Any] = {
    "broker": codec.AnyFromPeer,
    "agent": codec.AnyToAgent,
    "client": codec.AnyToClient,
    "bulk-in": bulk.AnyBulkIn,
    "bulk-out": bulk.AnyBulkOut,
    "join-in": bulk.JoinMsg,
    "join-out": bulk.AnyJoinOut,
}


def message_of(reader: str, plain: dict[str, Any]) -> Any:
    """The typed message of plain values, made without the codec."""
    if plain["type"] == "batch":
        leases = [
            {key: value for key, value in lease.items() if key != "template"} for lease in plain["leases"]
        ]
        template = msgspec.Raw(msgpack.packb(TEMPLATE))
        made = msgspec.convert({**plain, "leases": []}, BatchMsg)
        from farm.protocol.agent import LeaseMsg

        typed = []
        for lease in leases:
            # A stand-in for the raw template while the rest is converted.
            # What has its default is left out.
            fields = {name: lease[name] for name in LeaseMsg.__struct_fields__ if name in lease}
            hints = {field.name: field.type for field in msgspec.structs.fields(LeaseMsg)}
            values = {name: msgspec.convert(value, hints[name]) for name, value in fields.items()}
            typed.append(LeaseMsg(template=template, **values))
        return msgspec.structs.replace(made, leases=tuple(typed))
    return msgspec.convert(plain, UNIONS[reader])


def golden(name: str) -> bytes:
    """The bytes of a fixture."""
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text(encoding="ascii"))


def write_missing() -> list[str]:
    """Writes the fixtures that are not there yet; returns their names."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = []
    for name, (reader, plain) in SAMPLES.items():
        path = FOLDER / f"{name}.hex"
        if not path.exists():
            text = codec.encode(message_of(reader, plain)).hex()
            lines = [text[start : start + 96] for start in range(0, len(text), 96)]
            path.write_text("\n".join(lines) + "\n", encoding="ascii")
            made.append(name)
    return made


if __name__ == "__main__":
    print("\n".join(write_missing()))
