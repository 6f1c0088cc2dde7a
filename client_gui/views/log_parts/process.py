"""Searching and comparing logs in a process of its own: ``python -m client_gui.views.log_parts.process``.

What belongs here: reading a spooled log, and lines of JSON in and out.  What may not: Qt, numpy (it starts in
a few tens of milliseconds), and the farm.

Python holds its interpreter lock for the whole of one regex search, so that in a thread an expression that
runs away would hold the window as well.  A process can be killed.

In, the first line: ``{"do": "find", "path", "text", "regex", "case"}`` or ``{"do": "diff", ...}``
(``client_gui.store.logdiff``).  For ``find`` lines ``[start, end]`` follow: parts that begin and end with a
row.  Out: ``{"hits": [[row, column, length], ...]}``, ``{"at": offset}`` about every 50 ms,
``{"done": [start, end]}`` for each part; ``{"error": text, "position": n}`` when there is no such expression.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from client_gui.store.logtext import LONGEST, shown

#: Bytes read in one go.
_BLOCK = 1 << 20
#: Hits of one row, and hits told in one go.
_PER_ROW, _BATCH = 200, 2000
#: Bytes with which a row may say something else than they do.
_STEERING = (b"\x1b", b"\r", b"\t", b"\xc2")
#: How often the place is told.
_EVERY_S = 0.05


def tell(said: dict[str, Any]) -> None:
    """Writes one line."""
    sys.stdout.write(json.dumps(said, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def rows_of(line: bytes) -> Iterator[tuple[int, bytes]]:
    """The rows a line is shown in, as ``store.logindex`` cuts it: offset in the line, and bytes."""
    length = len(line) - (1 if line.endswith(b"\n") else 0)
    at = 0
    while length - at > LONGEST:
        cut = at + LONGEST
        for back in range(4):
            if line[cut - back] & 0xC0 != 0x80:
                cut -= back
                break
        yield at, line[at:cut]
        at = cut
    yield at, line[at:]


def lines_of(
    file: BinaryIO, start: int, end: int, dull: Callable[[bytes], bool] | None = None
) -> Iterator[tuple[int, bytes]]:
    """Lines of a part with their offsets; never more than a block and a line in memory.

    Args:
        file: The log.
        start, end: The part.
        dull: Whether nobody wants any line of some bytes: they are passed over as one that is empty.
    """
    file.seek(start)
    at, rest = start, b""
    while start < end:
        block = file.read(min(_BLOCK, end - start))
        if not block:
            break
        start += len(block)
        rest += block
        if dull is not None and dull(rest):
            yield at, b""
            cut = rest.rfind(b"\n") + 1
            at, parts, rest = at + cut, [], rest[cut:]
        else:
            parts = rest.split(b"\n")
            rest = parts.pop()
        for part in parts:
            yield at, part + b"\n"
            at += len(part) + 1
        if len(rest) > 64 * LONGEST:
            # A line without an end: its rows so far are given as they are cut, the last one goes on.
            rows = list(rows_of(rest))
            for offset, row in rows[:-1]:
                yield at + offset, row
            at, rest = at + rows[-1][0], rows[-1][1]
    if rest:
        yield at, rest


def _steered(line: bytes) -> bool:
    return any(byte in line for byte in _STEERING)


class Finder:
    """Looks for one expression."""

    def __init__(self, query: dict[str, Any]) -> None:
        text = query["text"] if query.get("regex") else re.escape(query["text"])
        self._search = re.compile(text, 0 if query.get("case") else re.IGNORECASE)
        plain = query["text"].encode().lower()
        #: What a row's bytes must hold in small letters; b"" where that cannot be told.
        self._needle = plain if not query.get("regex") and plain.isascii() and b"\\" not in plain else b""
        self._file = Path(query["path"]).open("rb")  # noqa: SIM115 - as long as the process
        self._hits: list[tuple[int, int, int]] = []

    def find(self, start: int, end: int) -> None:
        """Looks through a part and tells."""
        told_s = time.monotonic()
        for at, line in lines_of(self._file, start, end, self._dull if self._needle else None):
            now_s = time.monotonic()
            if now_s - told_s > _EVERY_S or len(self._hits) >= _BATCH:
                self._flush()
                tell({"at": at})
                told_s = now_s
            if not line or (self._needle and self._dull(line)):
                continue
            for offset, row in rows_of(line) if len(line) > LONGEST else ((0, line),):
                self._row(at + offset, row)
        self._flush()
        tell({"done": [start, end]})

    def _dull(self, text: bytes) -> bool:
        """Whether what is looked for is surely not in it."""
        return self._needle not in text.lower() and not _steered(text)

    def _row(self, at: int, row: bytes) -> None:
        count = 0
        for match in self._search.finditer(shown(row)[0]):
            if match.end() > match.start():
                self._hits.append((at, match.start(), match.end() - match.start()))
                count += 1
                if count >= _PER_ROW:
                    return

    def _flush(self) -> None:
        if self._hits:
            tell({"hits": self._hits})
            self._hits = []


def main() -> int:
    """Does what the first line asks, until the input ends."""
    query = json.loads(sys.stdin.readline() or "{}")
    try:
        if query.get("do") == "diff":
            from client_gui.store.logdiff import compare

            tell(compare(query))
            return 0
        try:
            finder = Finder(query)
        except re.error as error:
            tell({"error": f"no such expression: {error.msg}", "position": error.pos or 0})
            return 0
        tell({"at": 0})
        for line in sys.stdin:
            start, end = json.loads(line)
            finder.find(start, end)
    except (OSError, MemoryError, RecursionError, OverflowError) as error:
        tell({"error": f"the log cannot be looked through: {error}", "position": -1})
    return 0


if __name__ == "__main__":
    sys.exit(main())
