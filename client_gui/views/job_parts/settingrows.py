"""A job's file as rows that can be read: what it is, what each step runs, needs, writes, and may be set to.

What belongs here: which fields there are, in which words, and by which key they are set.  What may not: Qt,
and setting anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from farm.model.edits import JOB_KEYS, check_step_key
from farm.model.errors import UnknownName
from farm.model.jobs import FailureSpec, JobSpec, StepSpec
from farm.model.resources import Resources
from farm.sdk.words import NOTHING, duration_text, mib_text

#: Names of variables whose values nobody should read over a shoulder.
_SECRET: Final = re.compile(r"PASSW|SECRET|TOKEN|API_?KEY|CREDENTIAL|PRIVATE", re.IGNORECASE)
HIDDEN: Final = "hidden, its name looks like a secret's"
_JOB_FIELDS: Final = (
    "name",
    "user",
    "project",
    "priority",
    "rank",
    "max_cores",
    "start_after",
    "paused",
    "scout",
    "app",
    "token",
    "assets",
    "warnings",
)
#: Fields of a step in the order in which they are read, by heading.
_STEP_FIELDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "Work",
        (
            "kind",
            "renderer",
            "version",
            "frames",
            "chunk",
            "order",
            "first",
            "last",
            "rank",
            "after",
            "existing",
            "checks",
            "movie_frames",
        ),
    ),
    ("Parameters", ("params",)),
    ("Outputs", ("outputs",)),
    ("Resources", ("resources",)),
    ("Where", ("limits", "pools", "attributes", "site")),
    ("Failure", ("attempts", "timeout_s", "failure")),
    ("Commands", ("pre", "post", "cwd")),
    ("Environment", ("env",)),
)
_RECORDS: Final[Mapping[str, type[msgspec.Struct]]] = {"resources": Resources, "failure": FailureSpec}
_MIB: Final = frozenset({"ram_mib", "vram_mib", "disk_mib"})


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A row.

    Attributes:
        step: Name of the step, "" for the job.
        section: Its heading.
        name: What is set.
        value: What it is, in words.
        key: By which it is set, "" when it cannot be.
        raw: What an editor begins with.
        default: Whether it is what it is when nobody says anything.
    """

    step: str
    section: str
    name: str
    value: str
    key: str = ""
    raw: str = ""
    default: bool = False


def value_words(value: Any, name: str = "") -> str:
    """A value in words."""
    if value is None or value == "" or value == [] or value == () or value == {}:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _MIB and isinstance(value, int):
        return mib_text(value) if value else NOTHING
    if name.endswith("_s") and isinstance(value, int | float):
        return duration_text(float(value)) if value else "no limit" if "timeout" in name else NOTHING
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={value_words(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(value_words(one) for one in value)
    if isinstance(value, msgspec.Struct):
        return value_words(msgspec.to_builtins(value))
    return str(value)


def raw_text(value: Any) -> str:
    """A value as somebody would type it to set it again."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def is_secret(name: str) -> bool:
    """Whether a variable's value should not be shown."""
    return _SECRET.search(name) is not None


def _settable(key: str) -> bool:
    try:
        check_step_key(key)
    except UnknownName:
        return False
    return True


def setting_rows(spec: Mapping[str, Any]) -> list[SettingRow]:
    """All rows of a job file; what this version does not know is shown under its own name."""
    found = [*_job_rows(spec)]
    steps = spec.get("steps")
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict):
            found += _step_rows(step)
    return found


def _job_rows(spec: Mapping[str, Any]) -> list[SettingRow]:
    defaults = _defaults(JobSpec)
    rows = []
    others = [name for name in spec if name not in _JOB_FIELDS and name not in ("steps", "overcrank_job")]
    for name in (*_JOB_FIELDS, *others):
        value = spec.get(name, defaults.get(name))
        if name == "token" and value:
            # Whoever has it can claim to have submitted the job.
            rows.append(SettingRow("", "Job", name, "hidden"))
            continue
        key = name if name in JOB_KEYS else ""
        rows.append(
            SettingRow("", "Job", name, value_words(value, name), key, raw_text(value), name not in spec)
        )
    return rows


def _step_rows(step: Mapping[str, Any]) -> list[SettingRow]:
    name = str(step.get("name", ""))
    defaults = _defaults(StepSpec)
    known = {field for _, fields in _STEP_FIELDS for field in fields} | {"name"}
    rows: list[SettingRow] = []
    for section, fields in _STEP_FIELDS:
        for field in fields:
            rows += _field_rows(name, section, field, step, defaults)
    for field in step:
        if field not in known:
            rows.append(SettingRow(name, "Other", field, value_words(step[field], field)))
    return rows


def _field_rows(
    step: str, section: str, field: str, spec: Mapping[str, Any], defaults: Mapping[str, Any]
) -> list[SettingRow]:
    value = spec.get(field, defaults.get(field))
    if field in _RECORDS:
        return _record_rows(step, section, field, value if isinstance(value, Mapping) else {})
    if field == "params":
        items = value.items() if isinstance(value, Mapping) else ()
        return [SettingRow(step, section, str(key), _long(one)) for key, one in items]
    if field == "env":
        items = value.items() if isinstance(value, Mapping) else ()
        return [
            SettingRow(step, section, str(key), HIDDEN if is_secret(str(key)) else str(one))
            for key, one in items
        ]
    if field == "outputs":
        return _output_rows(step, section, value)
    if field in ("pre", "post") and value:
        return [SettingRow(step, section, field, msgspec.json.encode(list(value)).decode())]
    if field == "after":
        words = ", ".join(_after(item) for item in value or ()) or NOTHING
        return [SettingRow(step, section, field, words)]
    single = field == "frames" and value is None
    key = field if _settable(field) and not single else ""
    return [
        SettingRow(step, section, field, value_words(value, field), key, raw_text(value), field not in spec)
    ]


def _record_rows(step: str, section: str, field: str, value: Mapping[str, Any]) -> list[SettingRow]:
    defaults = _defaults(_RECORDS[field])
    rows = []
    for name in (*defaults, *(one for one in value if one not in defaults)):
        one = value.get(name, defaults.get(name))
        key = f"{field}.{name}" if _settable(f"{field}.{name}") else ""
        rows.append(
            SettingRow(step, section, name, value_words(one, name), key, raw_text(one), name not in value)
        )
    return rows


def _output_rows(step: str, section: str, value: Any) -> list[SettingRow]:
    rows = []
    for number, output in enumerate(value or ()):
        if isinstance(output, Mapping):
            kind = output.get("kind", "sequence")
            rows.append(SettingRow(step, section, f"{number}: {kind}", str(output.get("pattern", ""))))
    return rows


def _after(item: Any) -> str:
    if isinstance(item, str):
        return item
    if not isinstance(item, Mapping):
        return str(item)
    what = "/".join(str(item[key]) for key in ("job", "step") if item.get(key))
    by_frame = " frame by frame" if item.get("frames") else ""
    offset = f" {item['offset']:+d}" if isinstance(item.get("offset"), int) and item["offset"] else ""
    return f"{what}{by_frame}{offset}"


def _long(value: Any) -> str:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value_words(value)


def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
        else:
            found[field.name] = None
    return found
