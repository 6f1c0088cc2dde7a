"""Moments people write: ISO 8601 with an offset, read to microseconds since the epoch.

What belongs here: one reading of a moment and one way to show it in a reason.  What may not: the clock, and
local time: a farm has artists in several time zones, so a moment without an offset means nothing to it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from farm.model.errors import CallError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The last moment that can be shown in UTC.
_LATEST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_EXAMPLE = "write e.g. 2030-01-31T18:00:00+01:00 or 2030-01-31T17:00:00Z"


def read_moment(text: str) -> int:
    """Microseconds since the epoch of ISO 8601 text with an offset.

    Raises:
        CallError: It is no moment, has no offset, is before 1970, or beyond the year 9999 in UTC.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise CallError(f"{text!r} is not a moment", hint=_EXAMPLE) from error
    if moment.tzinfo is None:
        raise CallError(f"{text!r} does not say in which time zone", hint=_EXAMPLE)
    try:
        at_us = (moment - _EPOCH) // timedelta(microseconds=1)
    except OverflowError as error:
        raise CallError(f"{text!r} is beyond what a farm can plan", hint=_EXAMPLE) from error
    if at_us <= 0:
        raise CallError(f"{text!r} is before 1970", hint=_EXAMPLE)
    check_showable(at_us, text)
    return at_us


def check_showable(at_us: int, text: str) -> None:
    """Refuses a moment that cannot be shown: whoever plans with it could never be told of it.

    Raises:
        CallError: It is beyond the year 9999 in UTC.
    """
    if at_us > _LATEST_US:
        raise CallError(f"{text!r} is beyond the year 9999 in UTC, and what a farm can plan", hint=_EXAMPLE)


def moment_text(at_us: int) -> str:
    """A moment for people, ``2030-01-31 18:00 UTC``; seconds only where there are any."""
    moment = _EPOCH + timedelta(microseconds=at_us)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC" if moment.second else "%Y-%m-%d %H:%M UTC")
