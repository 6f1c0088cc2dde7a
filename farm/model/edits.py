"""Which fields of a job and its steps can be changed after submit, and reading what people write for them.

What belongs here: the one list of settable fields, and a step's record with some of them set, checked with
the rest of its job.  What may not: what a change means for units that exist (``farm.core.edit``).  The
command line uses it too, to submit part of a job again with other settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from farm.model.errors import CallError, JobFileError, UnknownName
from farm.model.jobs import FailureSpec, JobSpec, StepSpec, check_job
from farm.model.resources import Resources
from farm.model.versions import check_constraint

JOB_KEYS = ("name", "project", "priority", "rank", "max_cores", "start_after")
#: Fields of a step that are set whole.
_PLAIN = ("frames", "chunk", "order", "first", "last", "rank", "site", "version", "timeout_s", "attempts")
#: What both have: of a job unless a step is named.
BOTH_KEYS = ("rank",)
#: Fields of a step that are records: their fields are set one by one.
_RECORDS: dict[str, tuple[str, ...]] = {
    "resources": tuple(name for name in Resources.__struct_fields__ if name not in ("nvlink", "tokens")),
    "failure": FailureSpec.__struct_fields__,
}
#: Fields that are lists of words, and those that are tables (``limits.nuke``, or the whole table).
_LISTS = ("pools",)
_TABLES = ("limits", "attributes", "resources.tokens")
_TEXTS = frozenset({"frames", "order", "first", "last", "site", "version"})


def settable() -> str:
    """What can be set, in words."""
    step = [*_PLAIN, *_LISTS, *_TABLES]
    step += [f"{record}.{name}" for record, names in _RECORDS.items() for name in names]
    return f"what can be set of a job: {', '.join(JOB_KEYS)}; of a step: {', '.join(step)}"


def check_step_key(key: str) -> None:
    """Checks that a step has a field of that name which can be set.

    Raises:
        UnknownName: It has none; says what can be set.
    """
    head, _, rest = key.partition(".")
    table = _table_of(key)
    if key in _PLAIN or key in _LISTS or rest in _RECORDS.get(head, ()):
        return
    if table is None or len(key) == len(table) + 1:
        raise UnknownName(f"{key!r} cannot be set", hint=settable())


def _table_of(key: str) -> str | None:
    return next((name for name in _TABLES if key == name or key.startswith(name + ".")), None)


def changed_step(job: JobSpec, index: int, values: Mapping[str, Any]) -> StepSpec:
    """A step's record with these fields set, checked with the rest of the job.

    Args:
        job: The job. index: Which step of it. values: Values by dotted key.  Text is read as what the field
        is: people type it.  A list is words with
            commas between, a table ``nuke=1,maya=2``; an empty value takes an entry of a table away.

    Raises:
        UnknownName: There is no such field.
        CallError: A value is wrong; names the field.
    """
    step = job.steps[index]
    record: dict[str, Any] = msgspec.to_builtins(step)
    for key, value in values.items():
        check_step_key(key)
        _put(record, key, value)
    try:
        spec = msgspec.convert(record, StepSpec, strict=False)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise CallError(f"{path.rstrip('`').lstrip('.') or 'step'}: {text}") from error
    if spec.version:
        check_constraint(spec.version)
    if "frames" in values and step.frames is None:
        raise CallError(f"step {step.name!r} is one unit without frames")
    try:
        check_job(msgspec.structs.replace(job, steps=(*job.steps[:index], spec, *job.steps[index + 1 :])))
    except JobFileError as error:
        where = error.path.partition("].")[2] or error.path
        text = error.message.removeprefix(f"{error.path}: ")
        raise CallError(f"{where}: {text}" if where else text, hint=error.hint) from error
    return spec


def _put(record: dict[str, Any], key: str, value: Any) -> None:
    table = _table_of(key)
    if table is not None:
        _put_in_table(record, table, key, value)
    elif key in _LISTS:
        record[key] = value.replace(",", " ").split() if isinstance(value, str) else value
    elif "." in key:
        head, _, rest = key.partition(".")
        record[head] = {**record.get(head, {}), rest: value}
    else:
        record[key] = str(value) if key in _TEXTS and type(value) in (int, float) else value


def _put_in_table(record: dict[str, Any], table: str, key: str, value: Any) -> None:
    """Sets a whole table, or one entry of it."""
    head, _, inner = table.partition(".")
    holder, last = (record, head) if not inner else ({**record.get(head, {})}, inner)
    if inner:
        record[head] = holder
    if key == table:
        holder[last] = _pairs(key, value)
        return
    name = key[len(table) + 1 :]
    entries = {**holder.get(last, {})}
    counts = table != "attributes"
    if value in ("", None) or (counts and str(value) == "0"):
        entries.pop(name, None)
    else:
        entries[name] = value if counts else str(value)
    holder[last] = entries


def _pairs(key: str, value: Any) -> Any:
    """A table given as text: ``nuke=1,maya=2``."""
    if not isinstance(value, str):
        return value
    found: dict[str, str] = {}
    for part in value.replace(",", " ").split():
        name, equals, amount = part.partition("=")
        if not equals or not name:
            raise CallError(f"{key}: {part!r} is not NAME=VALUE", hint="e.g. nuke=1,maya=2")
        found[name] = amount
    return found
