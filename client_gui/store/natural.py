"""Texts in the order people expect: ``fx_2`` before ``fx_10``, whatever the case.

What belongs here: the key of a text, and numbers that stand for texts in that order, kept as texts come and
go.  What may not: tables and Qt.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
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


def _merged(one: list[str], other: list[str]) -> list[str]:
    """Two sorted lists as one: sorting notices that they are."""
    found = one + other
    found.sort()
    return found


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
        try:
            return np.fromiter(map(ranks.__getitem__, texts), np.float64, len(texts))
        except KeyError:
            pass
        new = {text for text in texts if text not in ranks}
        if len(new) * 2 > len(ranks):
            self._renumber([*ranks, *new])
        elif new:
            self._insert(new)
        return np.fromiter((self._ranks[text] for text in texts), np.float64, len(texts))

    def prepare(self, texts: Iterable[str], at_once: int = 400) -> Iterator[None]:
        """Gets ready for texts bit by bit: the first order of a hundred thousand names takes half a second.

        Sorts small pieces and merges equally long ones, so that no piece takes more than a few milliseconds.
        What was numbered by ``of`` in the meantime counts, and the work is dropped.

        Args:
            texts: All texts there are; read as it goes on.
            at_once: How many make a piece.
        """
        text_of: dict[str, str] = {}
        runs: list[list[str]] = []
        piece: list[str] = []
        for text in texts:
            if (key := natural_key(text)) not in text_of:
                text_of[key] = text
                piece.append(key)
            if len(piece) == at_once:
                yield from self._take_run(runs, piece)
                piece = []
        runs.append(sorted(piece))
        while len(runs) > 1:
            shorter = runs.pop()
            runs[-1] = _merged(runs[-1], shorter)
            yield
        keys = runs[0]
        ranks: dict[str, float] = {}
        for start in range(0, len(keys), 8 * at_once):
            part = keys[start : start + 8 * at_once]
            ranks.update((text_of[key], (start + place) * _APART) for place, key in enumerate(part))
            yield
        if not self._ranks:
            self._keys, self._ranks = keys, ranks
            self._numbers = np.arange(len(keys), dtype=np.float64) * _APART
            self.renumbered += 1

    @staticmethod
    def _take_run(runs: list[list[str]], piece: list[str]) -> Iterator[None]:
        runs.append(sorted(piece))
        yield
        while len(runs) > 1 and len(runs[-1]) >= len(runs[-2]):
            shorter = runs.pop()
            runs[-1] = _merged(runs[-1], shorter)
            yield

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
