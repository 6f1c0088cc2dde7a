"""Core time in words, the same in the broker's answers, on a terminal and in the client.

What belongs here: that one text.  What may not: who counts it, and of what.
"""

from __future__ import annotations

#: A core-hour in core-microseconds.
CORE_HOUR_US = 3_600_000_000
#: Less than this is told as such: more digits would be worth nothing.
_LEAST_H = 0.01


def core_hours_text(core_us: int) -> str:
    """Core-microseconds as ``1.25 core-hours``; ``less than 0.01 core-hours`` for very little."""
    hours = core_us / CORE_HOUR_US
    if hours <= 0:
        return "0 core-hours"
    if hours < _LEAST_H:
        return f"less than {_LEAST_H} core-hours"
    return f"{hours:,.2f} core-hours" if hours < 99.995 else f"{hours:,.0f} core-hours"
