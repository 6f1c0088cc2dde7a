"""When a job will be done, in words: as the range that it is.

What belongs here: turning two moments into a short text that promises no more than they do.  What may not:
clocks and the machine's time zone; both are handed in.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

UNKNOWN: Final = "—"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_US: Final = 60_000_000
#: Moments beyond this are not worth a date.
_FAR: Final = timedelta(days=365)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def eta_text(low_us: int | None, high_us: int | None, now_us: int, zone: tzinfo = UTC) -> str:
    """The range on the clock: ``14:20–14:45``, ``tomorrow 02:10–06:00``, ``Thu 22:00 – Fri 04:00``.

    Args:
        low_us, high_us: Earliest and latest moment expected; None = not known.
        now_us: Now.
        zone: The time zone of whoever reads it.
    """
    if low_us is None or high_us is None:
        return UNKNOWN
    low_us, high_us = min(low_us, high_us), max(low_us, high_us)
    if high_us < now_us + _MINUTE_US:
        return "any minute"
    now = _moment(now_us, zone)
    high = _moment(high_us, zone)
    if high is None or now is None or high - now > _FAR:
        return "more than a year"
    low = _moment(low_us, zone)
    if low is None or low_us < now_us + _MINUTE_US:
        return f"by {_full(high, now)}"
    if low.replace(second=0, microsecond=0) == high.replace(second=0, microsecond=0):
        return _full(high, now)
    if low.date() == high.date():
        return f"{_full(low, now)}–{high:%H:%M}"
    return f"{_full(low, now)} – {_full(high, now)}"


def standstill(state: str, running: int) -> str:
    """Why nobody can say when a job will be done: it does not go on by itself; "" when it does.

    What runs of a paused job ends, and the rest waits all the same; a job that failed or is blocked may still
    have frames that run.

    Args:
        state: What the job shows.
        running: How many of its frames run.
    """
    if state == "paused":
        return "paused: it goes on when it is resumed"
    if state == "failed" and not running:
        return "failed: nothing of it runs until what failed is tried again"
    if state == "blocked" and not running:
        return "blocked: nothing of it runs until what it waits for is done"
    return ""


def left_text(low_us: int | None, high_us: int | None, now_us: int) -> str:
    """The range as time that is left: ``25–50 min``, ``2–3 h``, ``40 min – 3 h``."""
    if low_us is None or high_us is None:
        return UNKNOWN
    low_us, high_us = min(low_us, high_us), max(low_us, high_us)
    low, low_unit = _amount(low_us - now_us)
    high, high_unit = _amount(high_us - now_us)
    if not high:
        return "any minute"
    if not low:
        return f"up to {high} {high_unit}"
    if (low, low_unit) == (high, high_unit):
        return f"{high} {high_unit}"
    if low_unit == high_unit:
        return f"{low}–{high} {high_unit}"
    return f"{low} {low_unit} – {high} {high_unit}"


def _moment(at_us: int, zone: tzinfo) -> datetime | None:
    try:
        return (_EPOCH + timedelta(microseconds=at_us)).astimezone(zone)
    except OverflowError:
        return None


def _full(moment: datetime, now: datetime) -> str:
    """A moment with as much of its date as it takes."""
    clock = f"{moment:%H:%M}"
    days = (moment.date() - now.date()).days
    if days == 0:
        return clock
    if days == 1:
        return f"tomorrow {clock}"
    if 1 < days < 7:
        return f"{_DAYS[moment.weekday()]} {clock}"
    return f"{moment.day} {_MONTHS[moment.month - 1]} {clock}"


def _amount(left_us: int) -> tuple[int, str]:
    """A time in the unit that suits it; 0 when it is less than a minute."""
    minutes = round(left_us / _MINUTE_US) if left_us > 0 else 0
    if minutes < 100:
        return minutes, "min"
    if minutes < 48 * 60:
        return round(minutes / 60), "h"
    return round(minutes / 1440), "days"
