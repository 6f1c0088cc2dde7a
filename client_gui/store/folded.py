"""All texts of a column as one, to look for a part of a text in all of them at once.

What belongs here: making that of a column, keeping it as rows change, and looking.  What may not: the filter
language, and Qt.

A hundred thousand names, looked through one by one with every key that somebody presses, take longer than
anybody waits for a letter.  Here they stand behind each other in one array of bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from client_gui.store.table import NO_SLOTS, Slots, Table

Mask = npt.NDArray[np.bool_]
#: Fewer rows than this are looked at one by one.
FEW: Final = 500
#: When this part of all texts changed, all are taken anew.
_RENEW: Final = 0.05
#: Bytes behind the last text, so that looking a little further is always possible.
_MARGIN: Final = 1024
_END: Final = 10


class Folded:
    """The texts of a column, in small letters.

    Args:
        table: The table.
        column: A TEXT column of it.
    """

    def __init__(self, table: Table[Any], column: str) -> None:
        self._table = table
        self._column = column
        self._bytes = np.zeros(_MARGIN, np.uint8)
        self._often = np.zeros(256, np.int64)
        self._starts = np.zeros(0, np.int64)
        self._slots: Slots = NO_SLOTS
        self._fresh: set[int] = set()
        self._made = False

    def having(self, part: str, slots: Slots) -> Mask:
        """Which of these slots have a text with a part (in small letters) in it."""
        if len(slots) < FEW or not part or "\n" in part or len(part) > _MARGIN // 8:
            texts = self._table.values(self._column)
            return np.array([part in texts[slot].casefold() for slot in slots.tolist()], np.bool_)
        self._renew()
        found = np.zeros(self._table.capacity, np.bool_)
        found[self._slots[self._places(part.encode("utf-8", "surrogatepass"))]] = True
        if self._fresh:
            texts = self._table.values(self._column)
            for slot in self._fresh:
                text = texts[slot]
                found[slot] = text is not None and part in text.casefold()
        asked: Mask = found[slots]
        return asked

    def _places(self, part: bytes) -> npt.NDArray[np.intp]:
        """Which of the texts have it, by place."""
        values, wanted = self._bytes, np.frombuffer(part, np.uint8)
        # By the byte that is seldom, then by the others of what is left.
        order = np.argsort(self._often[wanted], kind="stable").tolist()
        starts = np.flatnonzero(values[: len(values) - _MARGIN] == wanted[order[0]]) - order[0]
        starts = starts[starts >= 0]
        for place in order[1:]:
            starts = starts[values[starts + place] == wanted[place]]
        found: npt.NDArray[np.intp] = np.searchsorted(self._starts, starts, "right") - 1
        return found

    def _renew(self) -> None:
        """Takes note of what changed, and everything anew when that is much."""
        since = self._table.texts_since(self._column)
        if since is not None:
            for slots in since:
                self._fresh.update(slots.tolist())
        if not self._made or since is None or len(self._fresh) > FEW + _RENEW * len(self._table):
            self._make()

    def _make(self) -> None:
        texts = self._table.values(self._column)
        self._slots = self._table.slots()
        whole = "\n".join([texts[slot] for slot in self._slots.tolist()]).casefold()
        if whole.count("\n") != max(0, len(self._slots) - 1):
            # A line break is no end of a text: nobody can ask for one.
            whole = "\n".join([texts[slot].casefold().replace("\n", "\0") for slot in self._slots.tolist()])
        data = whole.encode("utf-8", "surrogatepass")
        self._bytes = np.frombuffer(data + b"\n" * _MARGIN, np.uint8)
        ends = np.flatnonzero(self._bytes[: len(data)] == _END)
        self._starts = np.concatenate([np.zeros(min(1, len(self._slots)), np.int64), ends + 1])
        self._often = np.bincount(self._bytes, minlength=256)
        self._fresh.clear()
        self._made = True
