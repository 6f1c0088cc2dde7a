"""Colours by name for each look; nothing else in the client says a colour.

What belongs here: the values.  What may not: Qt, and what is painted with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Look:
    """One look.

    Attributes:
        name: ``dark``, ``light`` or ``contrast``.
        dark: Whether text is lighter than what is behind it.
        window, base, raised, line: Behind docks, behind rows, behind buttons and cards, between things.
        text, dim, accent, on_accent: Words, less important words, what is chosen, words on that.
        selected, hover, shade: Behind a selected row, behind what the pointer is on, behind every other row;
            words, glyphs and states can be read on each.
        focus: Round what has the keyboard.
        disabled: Words of what is not possible just now.
        veil: Over a window that a question stands on, as ``#AARRGGBB``.
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
    selected: str
    hover: str
    shade: str
    focus: str
    disabled: str
    veil: str
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
    selected="#1F3A55",
    hover="#26292D",
    shade="#1A1C1F",
    focus="#6FB6F5",
    disabled="#6B737B",
    veil="#A0000000",
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
    accent="#1967B1",
    on_accent="#FFFFFF",
    selected="#D3E6F8",
    hover="#EDF0F3",
    shade="#F8F9FA",
    focus="#1967B1",
    disabled="#8A9199",
    veil="#78000000",
    good="#1D7340",
    warn="#856400",
    bad="#C5301C",
    states={
        "queued": "#5B7086",
        "blocked": "#7A55B8",
        "starting": "#1B7398",
        "running": "#856400",
        "done": "#1F7742",
        "failed": "#C5301C",
        "retry pending": "#A65500",
        "paused": "#686D72",
        "skipped": "#7B6350",
        "canceled": "#696E73",
    },
    ramp=tuple(reversed(_VIRIDIS)),
    none="#E7E9EC",
)
CONTRAST: Final = Look(
    name="contrast",
    dark=True,
    window="#000000",
    base="#000000",
    raised="#1C1C1C",
    line="#A6A6A6",
    text="#FFFFFF",
    dim="#D9D9D9",
    accent="#FFD60A",
    on_accent="#000000",
    selected="#1B3A6B",
    hover="#262626",
    shade="#0D0D0D",
    focus="#FFD60A",
    disabled="#9E9E9E",
    veil="#B0000000",
    good="#5CF08E",
    warn="#FFD60A",
    bad="#FF9C8C",
    states={
        "queued": "#C3D3E6",
        "blocked": "#D9C2FF",
        "starting": "#9BDDFF",
        "running": "#FFD60A",
        "done": "#5CF08E",
        "failed": "#FF9C8C",
        "retry pending": "#FFB870",
        "paused": "#D0D3D6",
        "skipped": "#DCC3AE",
        "canceled": "#BFC4C9",
    },
    ramp=_VIRIDIS,
    none="#333333",
)
LOOKS: Final = {look.name: look for look in (DARK, LIGHT, CONTRAST)}

#: States for those who do not tell red from green: good is blue, bad is orange, and what matters most differs
#: in lightness too.  After Okabe and Ito, "Color universal design" (2008), in this client's contrasts.
_SAFE_ON_DARK: Final = {
    "queued": "#C4DCEB",
    "blocked": "#DC6CB3",
    "starting": "#3DEBB0",
    "running": "#F4EC3A",
    "done": "#6A9CFF",
    "failed": "#F27A24",
    "retry pending": "#BD8D5F",
    "paused": "#A8ADB3",
    "skipped": "#A38B78",
    "canceled": "#878D93",
}
_SAFE_ON_LIGHT: Final = {
    "queued": "#556078",
    "blocked": "#6A0E92",
    "starting": "#06403E",
    "running": "#6E6805",
    "done": "#0F3CD4",
    "failed": "#7A2400",
    "retry pending": "#80603F",
    "paused": "#686D72",
    "skipped": "#7B6350",
    "canceled": "#696E73",
}
_SAFE_ON_BLACK: Final = {
    "queued": "#E1EAFC",
    "blocked": "#D98BCB",
    "starting": "#3DFDB9",
    "running": "#FDFD4A",
    "done": "#75A5FF",
    "failed": "#FF8A3A",
    "retry pending": "#CC8E62",
    "paused": "#D0D3D6",
    "skipped": "#DCC3AE",
    "canceled": "#BFC4C9",
}
_SAFE: Final = {"dark": _SAFE_ON_DARK, "light": _SAFE_ON_LIGHT, "contrast": _SAFE_ON_BLACK}


def look_of(name: str, safe: bool = False) -> Look:
    """A look by its name.

    Args:
        name: ``dark``, ``light`` or ``contrast``.
        safe: With states in colours that do not rest on telling red from green.
    """
    look = LOOKS[name]
    if not safe:
        return look
    states = _SAFE[name]
    return replace(look, states=states, good=states["done"], warn=states["running"], bad=states["failed"])


#: Colours of the program's own icon, the same in every look.
APP_ICON: Final = {"back": "#24272B", "film": "#3A3E44", "crank": "#F2C94C", "hole": "#17191B"}
