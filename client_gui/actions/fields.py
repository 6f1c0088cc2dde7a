"""Settings of jobs, steps and nodes as a form shows them: names, what they mean, what they are now.

What belongs here: reading them from a job's record as texts, and checking what was typed before it is sent.
What may not: Qt, and which fields there are (``farm.model.edits`` and ``farm.model.nodeset`` say).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from farm.model.edits import JOB_KEYS, changed_step
from farm.model.errors import CallError, OvercrankError
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec, read_job
from farm.model.moment import read_moment
from farm.model.nodeset import read_change
from farm.model.roles import Role, check_priority

#: Fields of a job and what they are.
OF_JOB: Final[Mapping[str, str]] = {
    "name": "what people see",
    "project": "what it is accounted to",
    "priority": "0 to 100, 100 first",
    "rank": "among your jobs of that priority, smaller first: -1, 0, 2",
    "max_cores": "most cores at once, 0 = no cap",
    "start_after": "not before: 2030-01-31T18:00:00+01:00, empty = now",
}
#: Fields of a step and what they are, those that are changed most first.
OF_STEP: Final[Mapping[str, str]] = {
    "frames": "1-240, 1-100x5, 1,7,9",
    "chunk": "frames a node takes at once, or auto",
    "attempts": "failures a frame may have, 0 = the farm's",
    "timeout_s": "seconds a chunk may take, 0 = no limit",
    "pools": "names of pools, empty = any",
    "resources.cores": "cores an attempt needs",
    "resources.ram_mib": "memory in MiB",
    "resources.gpus": "whole GPUs",
    "resources.vram_mib": "memory of each GPU in MiB",
    "resources.disk_mib": "scratch disk in MiB",
    "resources.tokens": "fx-card=1",
    "limits": "licences: nuke=1,maya=2",
    "attributes": "of nodes: os=linux",
    "site": "where, empty = anywhere",
    "version": "of the application: >=4.2,<5",
    "order": "forward, reverse, first-last-middle, coarse, listed",
    "first": "frames before all others: 17-20",
    "last": "frames after all others",
    "failure.frame_timeout_s": "seconds a frame may take, 0 = no limit",
    "failure.silent_x": "ended when silent for so many median times, 0 = never",
    "failure.min_run_s": "a frame that ends sooner has failed, 0 = off",
    "failure.pause_share": "the job pauses when this share failed, 0 = the farm's",
    "failure.pause_least": "... and at least so many, 0 = the farm's",
}
#: Settings of a node and what they are.
OF_NODE: Final[Mapping[str, str]] = {
    "slots": "most attempts at once, 0 = as many as fit",
    "schedule": "mon-fri 19:00-07:00 Europe/Berlin, empty = always",
    "rate": "USD per hour: 0.80, or 0.80@2026-12-01; empty = the farm's",
}


def text_of(value: Any) -> str:
    """A value as somebody would type it."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def job_texts(spec: JobSpec) -> dict[str, str]:
    """What a job's own fields are."""
    return {name: text_of(getattr(spec, name)) for name in OF_JOB}


def step_texts(spec: JobSpec, step: str) -> dict[str, str]:
    """What a step's fields are; empty when the job has no such step."""
    found = next((one for one in spec.steps if one.name == step), None)
    if found is None:
        return {}
    texts: dict[str, str] = {}
    for name in OF_STEP:
        value: Any = found
        for part in name.split("."):
            value = getattr(value, part)
        texts[name] = text_of(value)
    return texts


def read_spec(data: bytes) -> JobSpec | None:
    """A job's record; None when it cannot be read, for example of a newer farm."""
    try:
        return read_job(data)[0]
    except OvercrankError:
        return None


def problem(values: Mapping[str, str], spec: JobSpec | None, step: str, role: Role | None) -> str:
    """What is wrong with what was typed, "" when nothing is; the broker has the last word.

    Args:
        values: Texts by field.
        spec: The job as it is; None = not known.
        step: The step that is meant, "" for the job's own fields.
        role: Of who asks.
    """
    try:
        for name, text in values.items():
            _check(name, text, role)
        of_step = {name: text for name, text in values.items() if name not in JOB_KEYS}
        if of_step and spec is not None:
            place = next((place for place, one in enumerate(spec.steps) if one.name == step), -1)
            if place >= 0:
                changed_step(spec, place, of_step)
    except OvercrankError as error:
        return str(error)
    except (msgspec.ValidationError, ValueError) as error:
        return str(error)
    return ""


def _check(name: str, text: str, role: Role | None) -> None:
    if name == "name" and not 0 < len(text.strip()) <= 255:
        raise CallError("a name has 1 to 255 characters")
    if name in ("priority", "max_cores"):
        if not (text.isascii() and text.isdecimal()) or len(text) > 9:
            raise CallError(f"{name} is a whole number, not {text!r}")
        if name == "priority":
            check_priority(role or Role.ADMIN, int(text))
    if name == "rank" and not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise CallError(f"rank is a whole number like -1 or 2, not {text!r}")
    if name == "start_after" and text.strip():
        read_moment(text.strip())
    if name == "frames":
        FrameRange.parse(text)


def node_problem(values: Mapping[str, str]) -> str:
    """What is wrong with settings of a node, "" when nothing is."""
    try:
        read_change(values)
    except OvercrankError as error:
        return str(error)
    return ""
