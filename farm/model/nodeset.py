"""What people type to set a node, read: ``slots=2``, ``schedule=...``, ``rate=0.80@2026-12-01``, ``10%``.

What belongs here: the words and their checks.  What may not: what a setting does (``farm.core``), and where
the offsets of a named time zone come from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from farm.model.errors import CallError
from farm.model.moment import check_showable
from farm.model.money import parse_usd
from farm.model.nodes import NodeChange, RateFrom
from farm.model.schedule import read_schedule

#: Most rates a node remembers.
RATES_MOST = 100
SLOTS_MOST = 100_000
_FIELDS = ("slots", "schedule", "rate")
_SHARE = re.compile(r"([0-9]{1,7})(%?)\Z")


def read_change(given: Mapping[str, str]) -> NodeChange:
    """What ``farm node set`` was told, less the offsets of a named time zone.

    Raises:
        CallError: A field does not exist or a value is wrong; names it.
    """
    if not given:
        raise CallError("nothing to set", hint="set " + ", ".join(f"{name}=..." for name in _FIELDS))
    unknown = [name for name in given if name not in _FIELDS]
    if unknown:
        raise CallError(f"a node has no {unknown[0]!r} to set", hint="there are " + ", ".join(_FIELDS))
    slots: int | None = None
    schedule: str | None = None
    rates: tuple[RateFrom, ...] | None = None
    if "slots" in given:
        text = given["slots"].strip() or "0"
        if not (text.isascii() and text.isdecimal()) or int(text) > SLOTS_MOST:
            raise CallError(
                f"slots={text}: that is no number from 0 to {SLOTS_MOST}", hint="0 = as many as fit"
            )
        slots = int(text)
    if "schedule" in given:
        schedule = read_schedule(given["schedule"]).text
    if "rate" in given:
        rates = read_rates(given["rate"])
    return NodeChange(slots=slots, schedule=schedule, rates=rates)


def read_rates(text: str) -> tuple[RateFrom, ...]:
    """Rates in USD per hour, each from a time on: ``0.80``, ``0.80@2026-12-01``, several with commas.

    A time without an offset is in UTC; a rate without a time counts from now (``from_us`` 0).

    Raises:
        CallError: One is none; names it.
    """
    found: dict[int, RateFrom] = {}
    for piece in text.split(","):
        if not piece.strip():
            continue
        amount, at, when = piece.strip().partition("@")
        from_us = _moment(when.strip(), piece.strip()) if at else 0
        if from_us in found:
            raise CallError(f"rate={text}: two rates count from the same time")
        found[from_us] = RateFrom(from_us, parse_usd(amount.strip()))
    if len(found) > RATES_MOST:
        raise CallError(f"rate: a node remembers at most {RATES_MOST} rates, not {len(found)}")
    return tuple(found[from_us] for from_us in sorted(found))


def _moment(text: str, piece: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CallError(
            f"rate={piece}: {text!r} is no date", hint="write 2026-12-01 or 2026-12-01T08:00+01:00"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    at_us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if at_us <= 0:
        raise CallError(f"rate={piece}: {text!r} is before 1970")
    check_showable(at_us, text)
    return at_us


def read_share(text: str, of: int) -> int:
    """How many of so many nodes ``10%`` or ``5`` are: at least one.

    Raises:
        CallError: It is neither.
    """
    match = _SHARE.match(text.strip())
    amount = int(match[1]) if match is not None else 0
    if match is None or amount < 1 or (match[2] and amount > 100):
        raise CallError(f"{text!r} is no share of the nodes", hint="write 10% or a number of nodes")
    return max(1, of * amount // 100) if match[2] else amount
