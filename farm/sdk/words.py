"""Words and figures for people, the same on a terminal and in a window: times, sizes, money.

What belongs here: turning a value into a short text.  What must not: where it is shown, and how wide that is.
"""

from __future__ import annotations

import time

from farm.model.money import usd_text

#: Shown where there is nothing to show.
NOTHING = "-"


def clean(text: str) -> str:
    """Text with everything a terminal would obey made visible.

    Names of jobs and nodes come from other people; an escape sequence in one must not move a cursor.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable()
        else "\N{SYMBOL FOR NEWLINE}"
        if char == "\n"
        else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def size_text(count: int) -> str:
    """Bytes in a sensible unit: ``512 B``, ``1.5 MiB``."""
    if count < 1024:
        return f"{count} B"
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        amount /= 1024
        if amount < 999.5 or unit == "PiB":
            return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"
    raise AssertionError


def mib_text(mib: int) -> str:
    """Memory in a sensible unit."""
    return size_text(mib * 1024 * 1024)


def duration_text(seconds: float | None) -> str:
    """A length of time: ``0.42 s``, ``12 s``, ``3 m 05 s``, ``2 h 10 m``, ``3 d 4 h``."""
    if seconds is None or seconds < 0:
        return NOTHING
    if seconds < 9.95:
        return f"{seconds:.2g} s" if seconds < 0.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def time_text(at_us: int, now_s: float | None = None) -> str:
    """A moment in local time: the hour today, the date on other days; ``-`` for never."""
    if at_us <= 0:
        return NOTHING
    at = time.localtime(at_us / 1e6)
    now = time.localtime(time.time() if now_s is None else now_s)
    return time.strftime("%H:%M:%S" if at[:3] == now[:3] else "%Y-%m-%d %H:%M", at)


def iso_time(at_us: int) -> str | None:
    """A moment for JSON: ISO 8601 in UTC with microseconds; None for never."""
    if at_us <= 0:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_us // 1_000_000)) + f".{at_us % 1_000_000:06d}Z"


def money_text(nano: int) -> str:
    """An amount: ``0.001234 USD``."""
    return f"{usd_text(nano)} USD"


def plural(count: int, word: str) -> str:
    """``1 frame``, ``2 frames``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def price_text(nano: int | None) -> str:
    """An amount as lists show it, rounded to what is worth reading: ``12.34 USD``, ``0.0012 USD``."""
    if nano is None:
        return NOTHING
    usd = nano / 1e9
    if usd == 0:
        return "0 USD"
    if abs(usd) >= 100_000:
        return f"{usd:,.0f} USD"
    if abs(usd) >= 0.0995:
        return f"{usd:,.2f} USD"
    places = 3
    while abs(usd) < 0.995 * 10.0 ** (1 - places) and places < 9:
        places += 1
    return f"{usd:.{places}f} USD"
