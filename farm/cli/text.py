"""Text that fits a terminal: widths, cutting, tables.

What belongs here: turning values into text that fits a terminal; what they are in words is in
``farm.sdk.words``.  What must not: where it is printed.  Plain code instead of a table library: importing one
takes longer than the whole of `farm jobs` may.
"""

from __future__ import annotations

from collections.abc import Sequence

from farm.sdk.words import (
    NOTHING,
    clean,
    duration_text,
    iso_time,
    mib_text,
    money_text,
    plural,
    size_text,
    time_text,
)

__all__ = [
    "NOTHING",
    "clean",
    "cut",
    "duration_text",
    "iso_time",
    "mib_text",
    "money_text",
    "plural",
    "size_text",
    "table",
    "time_text",
    "width_of",
]


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
