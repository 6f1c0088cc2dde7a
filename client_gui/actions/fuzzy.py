"""How well a few typed letters fit a text, as palettes of editors do it.

What belongs here: the score.  What may not: Qt, and what is searched.
"""

from __future__ import annotations

#: What a word counts that only stands in what is said besides.
_BESIDES = 40


def score(query: str, text: str, besides: str = "") -> int | None:
    """How well every word of a query fits a text: more is better, None when one does not fit.

    A word that stands in the text counts more than its letters apart, at the beginning of a word more than
    inside one, and early more than late.

    Args:
        query: What was typed, casefolded.
        text: The text, casefolded.
        besides: Further words, casefolded: what was typed has to stand there as it is.
    """
    total = 0
    for word in query.split():
        found = _word(word, text)
        if found is None and len(word) > 1 and word in besides:
            found = _BESIDES
        if found is None:
            return None
        total += found
    return total


def _word(word: str, text: str) -> int | None:
    at = text.find(word)
    if at >= 0:
        start = at
        while start >= 0 and not _begins(text, start):
            start = text.find(word, start + 1)
        if start >= 0:
            return 200 + 10 * len(word) - min(start, 60) + (40 if start == 0 else 0)
        return 120 + 10 * len(word) - min(at, 60)
    if len(word) < 2:
        return None
    # Letters in order; only with the first at the beginning of a word, or nearly everything fits.
    total, place, last = 0, 0, -2
    for index, char in enumerate(word):
        found = text.find(char, place)
        if index == 0:
            while found >= 0 and not _begins(text, found):
                found = text.find(char, found + 1)
        if found < 0:
            return None
        total += 8 if found == last + 1 else 5 if _begins(text, found) else 1
        last, place = found, found + 1
    spread = last + 1 - len(word)
    return max(1, total * 2 - min(spread, 30))


def _begins(text: str, at: int) -> bool:
    return at == 0 or not text[at - 1].isalnum()
