"""Sources of rows in pages, merged in the order of ``seq``.

What belongs here: the merge and nothing of where rows come from, so that it can be tested alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

_SEQ = attrgetter("seq")


def merge_by_seq(*sources: Iterator[list[Any]]) -> Iterator[Any]:
    """Yields the rows of all sources in order of ``seq``.

    Each source yields pages (not empty) in order of ``seq``.  One page of each is held: all rows not
    later than the earliest end of a page are sorted in one go.  The pages are runs that the sort merges
    in C, where heapq.merge pays for a step in Python a row.
    """
    held: list[tuple[Iterator[list[Any]], list[Any]]] = [(source, []) for source in sources]
    while True:
        filled = []
        for source, page in held:
            full = page or next(source, [])
            if full:
                filled.append((source, full))
        if not filled:
            return
        until = min(page[-1].seq for _, page in filled)
        batch: list[Any] = []
        held = []
        for source, page in filled:
            cut = bisect_right(page, until, key=_SEQ)
            batch += page[:cut]
            held.append((source, page[cut:]))
        batch.sort(key=_SEQ)
        yield from batch
