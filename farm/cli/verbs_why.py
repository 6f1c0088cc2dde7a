"""The verb why: what is known of the state something is in, and of what stands in its way.

This is told from the rows everybody can see: states, recorded reasons, failures, the step's needs and the
nodes.  The scheduler's own account (limits, fair share, reservations) is not among them; where these
rows do not suffice the answer says so instead of guessing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farm.cli.command import Command, address_of, connect
from farm.cli.text import mib_text, plural
from farm.model.errors import UnknownName
from farm.model.frames import FrameRange
from farm.model.jobs import StepSpec, read_job
from farm.model.states import NodeState, UnitState

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.protocol.client import FrameRow, JobRow, NodeRow, StepRow
    from farm.sdk.client import Farm

_QUEUED, _BLOCKED = UnitState.QUEUED.word, UnitState.BLOCKED.word
_RUNNING, _DONE = UnitState.RUNNING.word, UnitState.DONE.word
#: Units looked at to find reasons; more have the same few.
_LOOK = 5000
_HONEST = (
    "nothing in what the farm shows stands in the way; limits, fair share and chunking are not explained yet"
)


def _setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="J12, J12/beauty or J12/beauty/17-20")


def _why(arguments: argparse.Namespace, console: Console) -> int:
    address = address_of(arguments.address)
    with connect(arguments) as farm:
        reply = farm.job(address.job, spec=True)
        job = reply.job
        specs = {step.name: step for step in read_job(reply.spec)[0].steps} if reply.spec else {}
        if address.step is not None and all(step.name != address.step for step in job.steps):
            raise UnknownName(
                f"J{job.job} has no step {address.step!r}",
                hint="it has " + ", ".join(step.name for step in job.steps),
            )
        target = str(address).partition("@")[0]
        frames = farm.frames(target, limit=_LOOK)
        steps = [
            _step_answer(farm, job, step, list(frames.steps.get(step.name, ())), specs.get(step.name))
            for step in job.steps
            if address.step in (None, step.name)
        ]
    answer: dict[str, Any] = {
        "address": target,
        "job": {"state": job.state, "reason": job.reason},
        "steps": steps,
        "complete": not frames.more,
    }
    if console.json:
        console.document(answer)
    else:
        _show(console, job, answer)
    return 0


def _step_answer(
    farm: Farm, job: JobRow, step: StepRow, rows: list[FrameRow], spec: StepSpec | None
) -> dict[str, Any]:
    groups: dict[tuple[str, str, str], list[FrameRow]] = {}
    for row in rows:
        groups.setdefault((row.state, row.reason, row.failure), []).append(row)
    answer: dict[str, Any] = {
        "step": f"J{job.job}/{step.name}",
        "state": step.state,
        "reason": step.reason,
        "groups": [
            {
                "state": state,
                "reason": reason,
                "failure": failure,
                "count": len(found),
                "frames": _frames_text(found),
                "attempt": _last_attempt(job, step, found),
            }
            for (state, reason, failure), found in groups.items()
        ],
    }
    if any(row.state == _QUEUED for row in rows):
        answer["waiting"] = _waiting(farm, job, spec)
    if any(row.state == _BLOCKED for row in rows) and spec is not None:
        by_name = {other.name: other for other in job.steps}
        answer["needs"] = [
            {"step": f"J{job.job}/{name}", "state": by_name[name].state, "reason": by_name[name].reason}
            for name in spec.after
            if name in by_name
        ]
    return answer


def _waiting(farm: Farm, job: JobRow, spec: StepSpec | None) -> dict[str, Any]:
    """What stands between queued units and each node."""
    if job.state == "paused":
        return {"job": "the job is paused", "nodes": [], "hint": f"farm resume J{job.job}"}
    nodes = [{"node": row.name, "reason": _obstacle(row, spec)} for row in farm.nodes().nodes]
    if not nodes:
        return {"job": "the farm has no node", "nodes": [], "hint": "start one with `farm agent`"}
    free = [node["node"] for node in nodes if not node["reason"]]
    return {"job": "", "nodes": nodes, "hint": _HONEST if free else ""}


def _obstacle(row: NodeRow, spec: StepSpec | None) -> str:
    """Why a node does not take the step now, empty when nothing is seen."""
    if row.state != NodeState.ONLINE.value:
        return f"is {row.state}" + (f": {row.reason}" if row.reason else "")
    if not row.enabled:
        return "is drained" + (f": {row.reason}" if row.reason else "")
    if spec is None:
        return ""
    need = spec.resources
    if spec.pools and row.pool not in spec.pools:
        return f"is in pool {row.pool or '(none)'}, not {' or '.join(spec.pools)}"
    if spec.site and row.site != spec.site:
        return f"is at site {row.site}, not {spec.site}"
    if row.renderers and spec.renderer not in row.renderers:
        return f"does not run the renderer {spec.renderer}"
    for what, wanted, there, free in (
        ("cores", need.cores, row.cores, row.cores_free),
        ("GPUs", need.gpus, row.gpus, row.gpus_free),
    ):
        if wanted > there:
            return f"has {there} {what}, the step needs {wanted}"
        if wanted > free:
            return f"has {free} of {there} {what} free, the step needs {wanted}"
    if need.ram_mib > row.ram_mib:
        return f"has {mib_text(row.ram_mib)} of memory, the step needs {mib_text(need.ram_mib)}"
    if need.ram_mib > row.ram_free_mib:
        return f"has {mib_text(row.ram_free_mib)} of memory free, the step needs {mib_text(need.ram_mib)}"
    return ""


def _frames_text(rows: list[FrameRow]) -> str:
    numbers = [row.frame for row in rows if row.frame is not None]
    return str(FrameRange.from_frames(numbers)) if numbers else ""


def _last_attempt(job: JobRow, step: StepRow, rows: list[FrameRow]) -> str | None:
    numbers = [row.attempt for row in rows if row.attempt is not None]
    return f"J{job.job}/{step.name}@{max(numbers)}" if numbers else None


def _show(console: Console, job: JobRow, answer: dict[str, Any]) -> None:
    console.line(f"J{job.job} {job.name} is {job.state}" + (f": {job.reason}" if job.reason else ""))
    for step in answer["steps"]:
        console.line(f"{step['step']} is {step['state']}" + (f": {step['reason']}" if step["reason"] else ""))
        for group in step["groups"]:
            _show_group(console, group)
        for need in step.get("needs", ()):
            console.line(f"  needs {need['step']}, which is {need['state']}")
        waiting = step.get("waiting")
        if waiting is None:
            continue
        if waiting["job"]:
            console.line(f"  queued: {waiting['job']}")
        for node in waiting["nodes"]:
            console.line(f"  node {node['node']} {node['reason'] or 'could take it'}")
        if waiting["hint"]:
            console.line(f"  ({waiting['hint']})")
    if not answer["complete"]:
        console.line(f"(the first {plural(_LOOK, 'frame')} were looked at; name some frames to see others)")


def _show_group(console: Console, group: dict[str, Any]) -> None:
    what = f"frames {group['frames']}" if group["frames"] else "it"
    if group["count"] == 1 and group["frames"]:
        what = f"frame {group['frames']}"
    are = "is" if group["count"] == 1 else "are"
    text = f"  {what} {are} {group['state']}"
    if group["reason"]:
        text += f": {group['reason']}"
    if group["failure"] and group["state"] != _DONE:
        text += f" [{group['failure']}]"
    console.line(text)
    if group["attempt"] and group["state"] not in (_DONE, _RUNNING):
        console.line(f"    the last attempt was {group['attempt']}: `farm log {group['attempt']}`")


COMMANDS = {"why": Command(_setup, _why, ("farm why J12", "farm why J12/beauty", "farm why J12/beauty/17"))}
