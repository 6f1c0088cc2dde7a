"""Changing the farm's policy: single fields by dotted keys, or the whole; and what its limits hold now.

What belongs here: the checks of a change, its row and its history.  What may not: what the policy does
(``farm.core.shares`` applies it, ``farm.core.place`` acts on it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from farm.core.events import PolicyEvent
from farm.core.outcome import ActAnswer, Outcome
from farm.core.rows import HistoryRow, PolicyRow
from farm.core.shares import apply_policy
from farm.core.state import Farm, Step
from farm.model.errors import CallError, UnknownName
from farm.model.policy import LimitRule, Policy, PreemptRule, SiteRule, TailRule

#: Fields that are tables by name, with what an entry of each is: a figure, or a record.
_TABLES: dict[str, type[msgspec.Struct] | None] = {
    "projects": None,
    "users": None,
    "user_max_cores": None,
    "limits": LimitRule,
    "sites": SiteRule,
}
#: Steps that a change of limits warns of by name.
WARNED = 5
#: Fields that are records.
_RECORDS: dict[str, type[msgspec.Struct]] = {"preempt": PreemptRule, "tail": TailRule}


def settable() -> tuple[str, ...]:
    """Every key that can be set, with NAME where people's own names stand."""
    found: list[str] = []
    for field in Policy.__struct_fields__:
        record = _RECORDS.get(field)
        if field in _TABLES:
            entry = _TABLES[field]
            found += (
                [f"{field}.NAME"] if entry is None else [f"{field}.NAME.{n}" for n in entry.__struct_fields__]
            )
        elif record is not None:
            found += [f"{field}.{name}" for name in record.__struct_fields__]
        else:
            found.append(field)
    return tuple(found)


def changed(policy: Policy, values: Mapping[str, Any]) -> Policy:
    """The policy with these dotted keys set, e.g. ``{"limits.nuke.total": "10"}``.

    An empty value takes an entry of a table away (``projects.film``, ``limits.nuke``).  Names may have dots.

    Raises:
        UnknownName: A key does not exist; names what can be set.
        CallError: A value is wrong; names its key.
    """
    record: dict[str, Any] = msgspec.to_builtins(policy)
    for key, value in values.items():
        _put(record, key, value)
    for name, rule in record.get("limits", {}).items():
        if isinstance(rule, dict) and "total" not in rule:
            raise CallError(f"limits.{name}.total is missing", hint="say how many there are")
    # Text is read as what the field is: people type it.
    try:
        return msgspec.convert(record, Policy, strict=False)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise CallError(f"{_where(path.rstrip('`').lstrip('.'), values)}: {text}") from error


def _where(path: str, values: Mapping[str, Any]) -> str:
    """The keys that a complaint is about: it does not say which entry of a table is wrong."""
    head, entry, tail = path.partition("[...]")
    if not entry:
        return path or "policy"
    found = [key for key in values if key.startswith(f"{head}.") and key.endswith(tail)]
    return " or ".join(found) or path


def _put(record: dict[str, Any], key: str, value: Any) -> None:
    field, _, rest = key.partition(".")
    if field in _TABLES and rest:
        table = dict(record.get(field, {}))
        record[field] = table
        entry = _TABLES[field]
        name, _, inner = rest.rpartition(".")
        if entry is not None and name and inner in entry.__struct_fields__:
            fields = dict(table.get(name, {}))
            if isinstance(value, str) and inner in ("projects", "users"):
                value = [word for word in value.replace(",", " ").split() if word]
            fields[inner] = value
            table[name] = fields
        elif value in ("", None):
            table.pop(rest, None)
        elif entry is not None and not isinstance(value, dict):
            first = entry.__struct_fields__[0]
            raise UnknownName(f"policy has no {key!r}", hint=f"say e.g. {field}.{rest}.{first}=...")
        else:
            table[rest] = value
    elif field in _RECORDS and rest in _RECORDS[field].__struct_fields__:
        record[field] = {**record.get(field, {}), rest: value}
    elif not rest and field in Policy.__struct_fields__ and (isinstance(value, dict) or field not in _TABLES):
        record[field] = value
    else:
        raise UnknownName(f"policy has no {key!r}", hint="what can be set: " + ", ".join(settable()))


def flat(policy: Policy) -> dict[str, str]:
    """Every field of a policy in force by dotted key, in words: what ``farm policy show`` prints."""
    found: dict[str, str] = {}
    for field in Policy.__struct_fields__:
        _flatten(field, getattr(policy, field), found)
    return found


def _flatten(key: str, value: Any, found: dict[str, str]) -> None:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _flatten(f"{key}.{name}", getattr(value, name), found)
    elif isinstance(value, dict):
        for name in sorted(value):
            _flatten(f"{key}.{name}", value[name], found)
    elif isinstance(value, bool):
        found[key] = "true" if value else "false"
    elif isinstance(value, tuple):
        found[key] = ",".join(value)
    else:
        found[key] = f"{value:g}" if isinstance(value, float) else str(value)


def on_policy(farm: Farm, event: PolicyEvent, out: Outcome) -> None:
    """Replaces the policy.  Each field that differs is recorded for people."""
    before, after = flat(farm.policy), flat(event.policy)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if not keys:
        out.reply = ActAnswer(0, "the policy is like that already")
        return
    reason = event.reason or f"set by {event.who}"
    row = PolicyRow(farm.next_seq(), event.now_us, msgspec.json.encode(event.policy), reason, event.who)
    out.rows.append(row)
    apply_policy(farm, row)
    for key in keys:
        old, new = before.get(key, ""), after.get(key, "")
        out.rows.append(
            HistoryRow(farm.next_seq(), event.now_us, 0, f"policy {key}", old, new, reason, event.who)
        )
    told = ", ".join(
        f"{key} is {after.get(key) or 'not set'} (was {before.get(key) or 'not set'})" for key in keys
    )
    if any(key.startswith("limits.") for key in keys):
        told = "; ".join((told, *_never_enough(farm)))
    out.reply = ActAnswer(len(keys), told)


def _never_enough(farm: Farm) -> list[str]:
    """Warnings of live steps that ask for more of a limit than there is, the first of them."""
    found = []
    for step in farm.steps.values():
        if not sum(step.counts[:3]):
            continue
        for name, count in step.limits:
            rule = farm.policy.limits.get(name)
            if rule is None:
                found.append(f"warning: {step.address} asks for limit {name}, which is not set: it waits")
            elif count > rule.total:
                asks = f"{step.address} asks for {count} of limit {name}, which has {rule.total}"
                found.append(f"warning: {asks}: it waits until there are as many, or it asks for less")
    more = len(found) - WARNED
    return [*found[:WARNED], f"warning: and {more} more"] if more > 0 else found


class LimitUse(msgspec.Struct, frozen=True):
    """A limit as people see it.

    Attributes:
        name: Its name.
        total: How many there are, None = the policy does not name it.
        per: ``lease`` or ``node``.
        used: Tokens in use.
        holders: Tokens by user who holds them.
        waiting: Addresses of steps that ask for it and have work that waits, in order of their jobs.
    """

    name: str
    total: int | None
    per: str
    used: int
    holders: dict[str, int]
    waiting: tuple[str, ...]


def limits_now(farm: Farm) -> list[LimitUse]:
    """Every limit that the policy names or work asks for.  Reads; for people, not for the hot path."""
    waiting: dict[str, list[str]] = {}
    for step in farm.steps.values():
        for name, _ in step.limits:
            if _waits(step):
                waiting.setdefault(name, []).append(step.address)
    holders: dict[str, dict[str, int]] = {}
    for attempt in farm.attempts.values():
        for name, count in attempt.limits:
            mine = holders.setdefault(name, {})
            mine[attempt.user] = mine.get(attempt.user, 0) + count
    found = []
    for name in sorted({*farm.policy.limits, *farm.limits, *waiting}):
        limit = farm.limits.get(name)
        rule = farm.policy.limits.get(name)
        found.append(
            LimitUse(
                name,
                rule.total if rule is not None else None,
                rule.per if rule is not None else "lease",
                limit.used if limit is not None else 0,
                dict(sorted(holders.get(name, {}).items())),
                tuple(waiting.get(name, ())),
            )
        )
    return [use for use in found if use.total is not None or use.used or use.waiting]


def _waits(step: Step) -> bool:
    return step.leasable() and not step.job.archived
