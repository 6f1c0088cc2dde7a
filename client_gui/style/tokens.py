"""Colours by name for each look; nothing else in the client says a colour.

What belongs here: the values.  What may not: Qt, and what is painted with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Look:
    """One look.

    Attributes:
        name: ``dark``, ``light`` or ``contrast``.
        dark: Whether text is lighter than what is behind it.
        window, base, raised, line: Behind docks, behind rows, behind buttons and cards, between things.
        text, dim, accent, on_accent: Words, less important words, what is chosen, words on that.
        good, warn, bad: What is well, doubtful, wrong.
        states: Colour of each shown state by its word.
        ramp: Colours of heat, from little to much, evenly spaced.
        none: A cell of which nothing is known.
    """

    name: str
    dark: bool
    window: str
    base: str
    raised: str
    line: str
    text: str
    dim: str
    accent: str
    on_accent: str
    good: str
    warn: str
    bad: str
    states: dict[str, str]
    ramp: tuple[str, ...]
    none: str


#: Of a state's word: said beside the colour, never instead of the word for those who do not see it.
GLYPHS: Final[dict[str, str]] = {
    "queued": "○",
    "blocked": "⧗",
    "starting": "◔",
    "running": "▶",
    "done": "✓",
    "failed": "✕",
    "retry pending": "↻",
    "paused": "⏸",
    "skipped": "∅",
    "canceled": "⊘",
}

_VIRIDIS: Final = (
    "#440154",
    "#472d7b",
    "#3b528b",
    "#2c728e",
    "#21918c",
    "#28ae80",
    "#5ec962",
    "#addc30",
    "#fde725",
)

DARK: Final = Look(
    name="dark",
    dark=True,
    window="#1F2124",
    base="#17191B",
    raised="#2A2D31",
    line="#3A3E44",
    text="#E4E6E8",
    dim="#9AA3AC",
    accent="#4C9FE8",
    on_accent="#0B1621",
    good="#4FB477",
    warn="#F2C94C",
    bad="#FF6B57",
    states={
        "queued": "#8FA3B8",
        "blocked": "#B79CE6",
        "starting": "#7CC4E8",
        "running": "#F2C94C",
        "done": "#4FB477",
        "failed": "#FF6B57",
        "retry pending": "#FFA14A",
        "paused": "#9AA0A6",
        "skipped": "#A38B78",
        "canceled": "#878D93",
    },
    ramp=_VIRIDIS,
    none="#2A2D31",
)
LIGHT: Final = Look(
    name="light",
    dark=False,
    window="#F4F5F6",
    base="#FFFFFF",
    raised="#E7E9EC",
    line="#C9CDD2",
    text="#1C1F22",
    dim="#5A626A",
    accent="#1A6FBF",
    on_accent="#FFFFFF",
    good="#217C46",
    warn="#856400",
    bad="#C5301C",
    states={
        "queued": "#5B7086",
        "blocked": "#7A55B8",
        "starting": "#1B7398",
        "running": "#856400",
        "done": "#217C46",
        "failed": "#C5301C",
        "retry pending": "#A65500",
        "paused": "#686D72",
        "skipped": "#7B6350",
        "canceled": "#6E7378",
    },
    ramp=tuple(reversed(_VIRIDIS)),
    none="#E7E9EC",
)
LOOKS: Final = {look.name: look for look in (DARK, LIGHT)}
