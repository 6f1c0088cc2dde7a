"""Words and texts of which many rows have the same, as small numbers.

What belongs here: which number a word has.  What may not: what words mean, and rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt


class Words:
    """Words and their bytes.

    A word that is not known gets the next free byte, so that a newer farm's states are shown as they are
    called.  Beyond 255 words the last byte stands for all others.
    """

    __slots__ = ("_codes", "words")

    OTHER: Final = 255

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.words: list[str] = []
        self._codes: dict[str, int] = {}
        for word in words:
            self.code(word)

    def code(self, word: str) -> int:
        """The byte of a word."""
        code = self._codes.get(word)
        if code is not None:
            return code
        if len(self.words) >= self.OTHER:
            return self.OTHER
        self.words.append(word)
        self._codes[word] = len(self.words) - 1
        return len(self.words) - 1

    def codes(self, words: Iterable[str]) -> Iterable[int]:
        """The bytes of some words."""
        words = list(words)
        try:
            return list(map(self._codes.__getitem__, words))
        except KeyError:  # one that is new
            return list(map(self.code, words))

    def word(self, code: int) -> str:
        """The word of a byte."""
        return self.words[code] if code < len(self.words) else "?"


class Coded:
    """Texts of which there are few, and the number of each.

    Attributes:
        texts: By number; the first is "".
        codes: By slot: the number of its text.
    """

    __slots__ = ("_numbers", "codes", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self.codes: npt.NDArray[np.int32] = np.zeros(0, np.int32)

    def code(self, text: str) -> int:
        """The number of a text."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def fit(self, capacity: int) -> None:
        """Makes room for so many slots."""
        grown = np.zeros(capacity, np.int32)
        grown[: len(self.codes)] = self.codes
        self.codes = grown

    def forget_unused(self) -> None:
        """Forgets texts that no slot has any more."""
        used, codes = np.unique(self.codes, return_inverse=True)
        self.texts = [self.texts[code] for code in used.tolist()]
        self.codes = codes.astype(np.int32)
        if self.texts[0] != "":
            self.texts.insert(0, "")
            self.codes += np.int32(1)
        self._numbers = {text: number for number, text in enumerate(self.texts)}
