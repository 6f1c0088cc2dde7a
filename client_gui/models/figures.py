"""Texts of figures in tables: money without its unit, moments, ages, memory.

What belongs here: what several tables' columns say the same way, in the words of ``farm.sdk.words``, and the
time zone that moments are told in.  What may not: which columns there are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from client_gui.models.column import NOTHING, Reading, Says
from farm.sdk.words import duration_text, price_text

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GIB: Final = 1024


def money(nano: int | None) -> str:
    """An amount without its unit: the column's head says it."""
    return NOTHING if nano is None else price_text(nano).removesuffix(" USD")


def money_range(low_nano: int | None, high_nano: int | None) -> str:
    """A range of amounts: ``2.80–3.40``."""
    if low_nano is None or high_nano is None:
        return NOTHING
    low, high = money(min(low_nano, high_nano)), money(max(low_nano, high_nano))
    return low if low == high else f"{low}–{high}"


def local_zone() -> tzinfo:
    """The time zone of this machine, as it is now."""
    return datetime.now(UTC).astimezone().tzinfo or UTC


def moment(at_us: int, now_us: int, zone: tzinfo) -> str:
    """A moment in local time: the hour today, the date on other days."""
    if at_us <= 0:
        return NOTHING
    try:
        at = (_EPOCH + timedelta(microseconds=at_us)).astimezone(zone)
        now = (_EPOCH + timedelta(microseconds=max(0, now_us))).astimezone(zone)
    except OverflowError:
        return NOTHING
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%d %b %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d %H:%M}"


def length(seconds: float | None) -> str:
    """A length of time, as the command line writes it."""
    return NOTHING if seconds is None or seconds < 0 else duration_text(seconds)


def age(at_us: int, now_us: int) -> str:
    """How long ago a moment was, no finer than needed: ``now``, ``12 s``, ``3 m``, ``2 h``, ``4 d``."""
    if at_us <= 0:
        return NOTHING
    seconds = max(0, now_us - at_us) // 1_000_000
    if seconds < 2:
        return "now"
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 86400} d"


def gib(mib: int) -> str:
    """Memory in GiB, without its unit: the column's head says it."""
    if mib >= 10 * _GIB or mib % _GIB == 0:
        return f"{round(mib / _GIB):,}"
    return f"{mib / _GIB:.1f}"


def money_of(name: str) -> Says:
    """A column of money."""
    return lambda reading, slot: money(reading.get(slot, name))


def moment_of(name: str) -> Says:
    """A column of moments."""
    return lambda reading, slot: moment(reading.number(slot, name), reading.now_us, reading.zone)


def age_of(name: str) -> Says:
    """How long ago the moments of a column were."""
    return lambda reading, slot: age(reading.number(slot, name), reading.now_us)


def exact_of(name: str) -> Says:
    """The moments of a column to the second, with their date."""

    def text(reading: Reading, slot: int) -> str:
        at_us = reading.number(slot, name)
        if at_us <= 0:
            return ""
        try:
            at = (_EPOCH + timedelta(microseconds=at_us)).astimezone(reading.zone)
        except OverflowError:
            return ""
        return f"{at:%Y-%m-%d %H:%M:%S %Z}"

    return text
