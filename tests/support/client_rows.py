"""Rows as a broker sends them to clients, for tests: a running job of one step, a node at work.

What belongs here: rows with sensible values.  What may not: Qt, and who sends them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.protocol.client import JobRow, NodeRow, StepRow

#: Mon Nov 30 2026 12:00:00 UTC.
NOW_US = 1_796_040_000_000_000


def step_row(name: str = "beauty", **fields: Any) -> StepRow:
    """A step of 100 frames, 40 done, 10 running, 50 queued."""
    base: dict[str, Any] = {
        "kind": "render",
        "renderer": "blender",
        "state": "running",
        "frames": "1-100",
        "units": 100,
        "counts": (0, 50, 10, 40, 0, 0, 0),
        "mean_frame_s": 12.5,
        "attempts": 50,
        "able": True,
        "expected_frame_s": 12.0,
    }
    return StepRow(name=name, **(base | fields))


def job_row(job: int = 1, **fields: Any) -> JobRow:
    """A running job of one step."""
    base: dict[str, Any] = {
        "name": f"sh{job:04d}_lgt_v001",
        "user": "ana",
        "project": "dune",
        "priority": 50,
        "state": "running",
        "reason": "",
        "submitted_us": NOW_US - 3_600_000_000,
        "started_us": NOW_US - 3_000_000_000,
        "ended_us": 0,
        "units": 100,
        "done": 40,
        "failed": 0,
        "running": 10,
        "spend_nano": 1_250_000_000,
        "waste_nano": 50_000_000,
        "steps": (step_row(),),
        "eta_low_us": NOW_US + 600_000_000,
        "eta_high_us": NOW_US + 900_000_000,
        "cost_low_nano": 2_800_000_000,
        "cost_high_nano": 3_400_000_000,
    }
    return JobRow(job=job, **(base | fields))


def node_row(node: int = 1, **fields: Any) -> NodeRow:
    """A node that works on one frame."""
    base: dict[str, Any] = {
        "name": f"rack-{node:03d}",
        "host": f"rack-{node:03d}.farm",
        "state": "online",
        "enabled": True,
        "reason": "",
        "pool": "gpu",
        "site": "local",
        "cores": 32,
        "cores_free": 16,
        "ram_mib": 131072,
        "ram_free_mib": 65536,
        "gpus": 2,
        "gpus_free": 1,
        "gpu_names": ("NVIDIA RTX 6000",) * 2,
        "apps": ("blender 4.2.3",),
        "renderers": ("blender",),
        "running": ("J1/beauty/41",),
        "rate_nano_h": 2_500_000_000,
        "spent_nano": 7_000_000_000,
        "idle_nano": 1_000_000_000,
        "seen_us": NOW_US - 1_000_000,
        "software": "0.1.0",
        "cpu_percent": 48.0,
    }
    return NodeRow(node=node, **(base | fields))


def replaced(row: Any, **fields: Any) -> Any:
    """A row with other values."""
    return msgspec.structs.replace(row, **fields)
