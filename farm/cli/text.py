"""Words and figures for people: times, sizes, money, tables.

What belongs here: turning values into text that fits a terminal.  What must not: where it is printed.
Plain code instead of a table library: importing one takes longer than the whole of `farm jobs` may.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

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


def width_of(text: str) -> int:
    """Columns a text takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def cut(text: str, width: int) -> str:
    """Text cut to so many columns, with an ellipsis when something is missing."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return "\N{HORIZONTAL ELLIPSIS}"[:width]
    room, kept = width - 1, 0
    for index, char in enumerate(text):
        kept += width_of(char)
        if kept > room:
            return text[:index] + "\N{HORIZONTAL ELLIPSIS}"
    return text


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


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Lines of a table that fit a terminal.

    A head that ends in ``>`` has its column set right; one that ends in ``~`` may be cut when there is not
    enough room.  The last column is not padded.

    Args:
        heads: Column heads with their marks.
        rows: Cells.
        width: Columns of the terminal; 0 = no limit.
    """
    marks = [head[-1:] if head[-1:] in (">", "~") else "" for head in heads]
    names = [head.rstrip(">~") for head in heads]
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [
        max([width_of(names[column]), *(width_of(row[column]) for row in cells)])
        for column in range(len(heads))
    ]
    if width:
        over = sum(widths) + 2 * (len(widths) - 1) - width
        # The widest of those that may be cut gives first.
        while over > 0:
            able = [index for index, mark in enumerate(marks) if mark == "~" and widths[index] > 8]
            if not able:
                break
            widest = max(able, key=lambda index: widths[index])
            widths[widest] -= 1
            over -= 1
    lines = []
    for row in (names, *cells):
        parts = []
        for column, cell in enumerate(row):
            shown = cut(cell, widths[column])
            gap = " " * (widths[column] - width_of(shown))
            parts.append(gap + shown if marks[column] == ">" else shown + gap)
        line = "  ".join(parts).rstrip()
        lines.append(cut(line, width) if width else line)
    return lines
