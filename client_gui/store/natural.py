"""Texts in the order people expect: ``fx_2`` before ``fx_10``, whatever the case.

What belongs here: the key of a text, and numbers that stand for texts in that order, kept as texts come and
go.  What may not: tables and Qt.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_DIGITS = re.compile(r"[0-9]+")
#: Neighbours closer than this have no number between them.
_GAP: Final = 1e-6
_APART: Final = 1024.0


def natural_key(text: str) -> str:
    """Text that sorts as people expect: digits by their number, letters whatever their case.

    Only equal texts have equal keys.  One string and no tuple: there may be a hundred thousand names.
    """
    folded = text.casefold()
    if _DIGITS.search(folded) is not None:
        folded = _DIGITS.sub(_number_key, folded)
    return f"{folded}\0{text}"


def _number_key(found: re.Match[str]) -> str:
    """Digits with how many there are before them: longer numbers are larger."""
    digits = found[0].lstrip("0")
    return f"0{chr(len(digits) + 1)}{digits}"


class Ranks:
    """A number per text, in natural order.

    A text that comes later gets a number between its neighbours'; only when there is none left are all of
    them given anew, and ``renumbered`` counts up.
    """

    def __init__(self) -> None:
        self.renumbered = 0
        self._ranks: dict[str, float] = {}
        #: Keys in order, and the number of each.
        self._keys: list[str] = []
        self._numbers: npt.NDArray[np.float64] = np.zeros(0)

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Numbers of some texts.

        Numbers given out before hold as long as ``renumbered`` stays the same.
        """
        ranks = self._ranks
        new = {text for text in texts if text not in ranks}
        if len(new) * 2 > len(ranks):
            self._renumber([*ranks, *new])
        elif new:
            self._insert(new)
        return np.fromiter((self._ranks[text] for text in texts), np.float64, len(texts))

    def __len__(self) -> int:
        return len(self._ranks)

    def keep_only(self, texts: Iterable[str]) -> None:
        """Forgets all others, and gives numbers anew."""
        self._renumber(set(texts))

    def _renumber(self, texts: Iterable[str]) -> None:
        pairs = sorted((natural_key(text), text) for text in texts)
        self._keys = [key for key, _ in pairs]
        self._numbers = np.arange(len(pairs), dtype=np.float64) * _APART
        self._ranks = {text: number for (_, text), number in zip(pairs, self._numbers.tolist(), strict=True)}
        self.renumbered += 1

    def _insert(self, texts: set[str]) -> None:
        """Puts new texts between those that are there."""
        pairs = sorted((natural_key(text), text) for text in texts)
        places = np.array([bisect_left(self._keys, key) for key, _ in pairs])
        edged = np.concatenate([[self._numbers[0] - _APART], self._numbers, [self._numbers[-1] + _APART]])
        below, above = edged[places], edged[places + 1]
        # Those that come between the same two share the room there.
        firsts = np.searchsorted(places, places, "left")
        each = (above - below) / (np.searchsorted(places, places, "right") - firsts + 1)
        if each.min() < _GAP:
            self._renumber([*self._ranks, *texts])
            return
        numbers = below + each * (np.arange(len(places)) - firsts + 1)
        self._ranks.update(zip((text for _, text in pairs), numbers.tolist(), strict=True))
        self._numbers = np.insert(self._numbers, places, numbers).astype(np.float64, copy=False)
        keys: list[str] = []
        start = 0
        for place, (key, _) in zip(places.tolist(), pairs, strict=True):
            keys += self._keys[start:place]
            keys.append(key)
            start = place
        self._keys = keys + self._keys[start:]
