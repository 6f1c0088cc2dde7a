"""The JSON that verbs print: stable, documented in docs/cli.md.

What belongs here: turning rows of the wire into plain dictionaries.  Field names only ever get added.
Amounts are text with six decimals, moments ISO 8601 in UTC or null, lengths in seconds.
"""

from __future__ import annotations

from typing import Any

from farm.cli.text import iso_time
from farm.model.money import usd_text
from farm.model.states import UnitState
from farm.protocol import client as wire

Shape = dict[str, Any]

_STATES = [state.word for state in UnitState]


def counts_of(counts: tuple[int, ...]) -> dict[str, int]:
    """Units by state."""
    return dict(zip(_STATES, counts, strict=False))


def step_shape(job: int, row: wire.StepRow) -> Shape:
    """A step of a job."""
    return {
        "address": f"J{job}/{row.name}",
        "name": row.name,
        "kind": row.kind,
        "renderer": row.renderer,
        "state": row.state,
        "reason": row.reason,
        "frames": row.frames,
        "units": row.units,
        "counts": counts_of(row.counts),
        "mean_frame_s": round(row.mean_frame_s, 6),
        "expected_frame_s": round(row.expected_frame_s, 6),
        "attempts": row.attempts,
        "rank": row.rank,
        "first": row.first,
        "last": row.last,
    }


def job_shape(row: wire.JobRow) -> Shape:
    """A job."""
    return {
        "job": f"J{row.job}",
        "name": row.name,
        "user": row.user,
        "project": row.project,
        "priority": row.priority,
        "rank": row.rank,
        "state": row.state,
        "reason": row.reason,
        "submitted": iso_time(row.submitted_us),
        "started": iso_time(row.started_us),
        "ended": iso_time(row.ended_us),
        "units": row.units,
        "done": row.done,
        "failed": row.failed,
        "running": row.running,
        "spend_usd": usd_text(row.spend_nano),
        "waste_usd": usd_text(row.waste_nano),
        "eta_low": iso_time(row.eta_low_us or 0),
        "eta_high": iso_time(row.eta_high_us or 0),
        "cost_low_usd": None if row.cost_low_nano is None else usd_text(row.cost_low_nano),
        "cost_high_usd": None if row.cost_high_nano is None else usd_text(row.cost_high_nano),
        "not_estimated": list(row.not_estimated),
        "archived": row.archived,
        "steps": [step_shape(row.job, step) for step in row.steps],
    }


def frame_shape(job: int, step: str, row: wire.FrameRow) -> Shape:
    """A unit of a step."""
    address = f"J{job}/{step}" if row.frame is None else f"J{job}/{step}/{row.frame}"
    return {
        "address": address,
        "step": step,
        "frame": row.frame,
        "unit": row.unit,
        "state": row.state,
        "reason": row.reason,
        "attempts": row.attempts,
        "attempt": None if row.attempt is None else f"J{job}/{step}@{row.attempt}",
        "node": row.node,
        "elapsed_s": row.elapsed_s,
        "cost_usd": usd_text(row.cost_nano),
        "failure": row.failure,
        "verified": row.verified,
        "files": list(row.files),
        "progress": row.progress,
        "warning": row.warning,
    }


def attempt_shape(job: int, row: wire.AttemptRow) -> Shape:
    """An attempt."""
    return {
        "attempt": f"J{job}/{row.step}@{row.no}",
        "step": row.step,
        "no": row.no,
        "node": row.node,
        "kind": row.kind,
        "frames": row.frames,
        "started": iso_time(row.started_us),
        "ended": iso_time(row.ended_us),
        "outcome": row.outcome,
        "reason": row.reason,
        "charge_usd": usd_text(row.charge_nano),
        "waste_usd": usd_text(row.waste_nano),
    }


def history_shape(row: wire.HistoryRow) -> Shape:
    """A recorded change."""
    return {
        "at": iso_time(row.at_us),
        "what": row.what,
        "old": row.old,
        "new": row.new,
        "reason": row.reason,
        "who": row.who,
    }


def node_shape(row: wire.NodeRow) -> Shape:
    """A node."""
    return {
        "node": row.node,
        "name": row.name,
        "host": row.host,
        "state": row.state,
        "enabled": row.enabled,
        "reason": row.reason,
        "pool": row.pool,
        "site": row.site,
        "cores": row.cores,
        "cores_free": row.cores_free,
        "ram_mib": row.ram_mib,
        "ram_free_mib": row.ram_free_mib,
        "gpus": row.gpus,
        "gpus_free": row.gpus_free,
        "gpu_names": list(row.gpu_names),
        "apps": list(row.apps),
        "renderers": list(row.renderers),
        "running": list(row.running),
        "cpu_percent": round(row.cpu_percent, 1),
        "rate_usd_h": usd_text(row.rate_nano_h),
        "spent_usd": usd_text(row.spent_nano),
        "idle_usd": usd_text(row.idle_nano),
        "seen": iso_time(row.seen_us),
        "software": row.software,
        "slots": row.slots,
        "schedule": row.schedule,
        "closed": row.closed,
        "disabled": row.disabled,
        "update": row.update,
        "update_reason": row.update_reason,
    }


def spend_shape(row: wire.SpendLine) -> Shape:
    """Money by one key."""
    return {
        "key": row.key,
        "total_usd": usd_text(row.total_nano),
        "useful_usd": usd_text(row.useful_nano),
        "waste_usd": usd_text(row.waste_nano),
        "idle_usd": usd_text(row.idle_nano),
        "busy_s": round(row.busy_s, 3),
        "frames": row.frames,
    }


def status_shape(reply: wire.StatusReply) -> Shape:
    """The farm at a glance."""
    return {
        "farm": reply.farm_name,
        "farm_id": reply.farm_id,
        "software": reply.software,
        "up_s": round(reply.up_s, 3),
        "jobs": reply.jobs,
        "units": reply.units,
        "nodes": reply.nodes,
        "spend_usd": usd_text(reply.spend_nano),
        "burn_usd_h": usd_text(reply.burn_nano_h),
        "alerts": list(reply.alerts),
    }


def key_shape(row: wire.KeyRow) -> Shape:
    """A key."""
    return {
        "public": row.public,
        "role": row.role,
        "user": row.user,
        "pool": row.pool,
        "site": row.site,
        "label": row.label,
        "revoked": row.revoked,
    }
