"""How the connection stands, in words: what the farm's chip says, and what is said when nothing comes.

What belongs here: texts and tones from the state of the client and the time.  What may not: Qt, and asking
the clock.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from client_gui.net.troubles import ended_here
from client_gui.store.farmstore import LATE_US, STALE_US, Link

if TYPE_CHECKING:
    from client_gui.net.client import FarmClient

#: How long a connection may take before it is said that it takes long.
_PATIENCE_US: Final = LATE_US


class Tone(StrEnum):
    """How alarming it is; also the name of the colour."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


#: Drawn beside the words, so that nothing rests on colour.
TONE_GLYPHS: Final = {Tone.GOOD: "done", Tone.WARN: "warning", Tone.BAD: "offline"}


@dataclass(frozen=True, slots=True)
class ChipText:
    """What the farm's chip says.

    Attributes:
        tone: How alarming it is.
        farm: Name of the farm, as people see it.
        word: How the connection stands: ``live``, ``no word for 4 s``.
        details: Lines of label and text for whoever wants to know more.
    """

    tone: Tone
    farm: str
    word: str
    details: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """All of it in a line."""
        return f"{self.farm}  {self.word}"


def chip_text(client: FarmClient, now_us: int) -> ChipText:
    """What the farm's chip says now."""
    tone, word = _stands(client, now_us)
    return ChipText(tone, farm_text(client), word, _details(client, now_us))


def farm_text(client: FarmClient) -> str:
    """What people call the farm."""
    if client.welcome is not None and client.welcome.farm_name:
        return client.welcome.farm_name
    return client.farm or "no farm"


def _stands(client: FarmClient, now_us: int) -> tuple[Tone, str]:
    store = client.store
    age_us = store.age_us(now_us)
    if store.link is Link.REFUSED:
        return Tone.BAD, "refused"
    if age_us is None:
        if store.link is Link.CONNECTING and not store.trouble:
            return Tone.WARN, "connecting"
        return Tone.BAD, "not connected"
    if age_us >= STALE_US:
        return Tone.BAD, f"no word for {seconds_text(age_us)}"
    if age_us >= LATE_US:
        return Tone.WARN, f"no word for {seconds_text(age_us)}"
    if store.link is Link.LIVE:
        return Tone.GOOD, f"{round_trip_text(store.round_trip_us)}  live".strip()
    if store.link is Link.RESYNC:
        return Tone.WARN, "catching up"
    return Tone.WARN, "connection lost" if store.link is Link.LOST else "connecting"


def _details(client: FarmClient, now_us: int) -> tuple[tuple[str, str], ...]:
    store, welcome = client.store, client.welcome
    age_us = store.age_us(now_us)
    lines = [("Farm", farm_text(client))]
    if client.place:
        lines.append(("Broker", client.place))
    if welcome is not None:
        lines.append(("Version", welcome.software))
        lines.append(("You are", user_text(client)))
    if store.round_trip_us is not None:
        lines.append(("Round trip", round_trip_text(store.round_trip_us)))
    if age_us is not None:
        lines.append(("Last heard", f"{seconds_text(age_us)} ago, at {clock_text(store.heard_us)}"))
    if store.trouble:
        lines.append(("Trouble", store.trouble))
    if client.standing.hint:
        lines.append(("What to do", client.standing.hint))
    if retry := retry_text(client, now_us):
        lines.append(("Next try", retry))
    return tuple(lines)


def user_text(client: FarmClient) -> str:
    """Who this user is to the farm: ``ana, wrangler``."""
    if client.welcome is None:
        return ""
    return f"{client.welcome.user or 'nobody'}, {client.welcome.role}"


def offline_text(client: FarmClient, now_us: int) -> str:
    """What is said while what is shown cannot be relied on; "" while it can.

    It begins when the chip turns red: a hiccup of three seconds needs no banner.
    """
    store = client.store
    age_us = store.age_us(now_us)
    if age_us is None or (age_us < STALE_US and store.link is not Link.REFUSED):
        return ""
    what = (
        f"{farm_text(client)} refuses this client"
        if store.link is Link.REFUSED
        else f"No answer from {farm_text(client)}"
    )
    if store.trouble:
        what += f": {store.trouble}"
    text = f"{what}. Everything is as of {clock_text(store.heard_us)}."
    # Where a button beside it starts the farm nobody needs the command.
    if client.standing.hint and not ended_here(client.standing):
        hint = client.standing.hint
        text += f" {hint[0].upper()}{hint[1:]}{'' if hint[-1] in '.?!' else '.'}"
    if retry := retry_text(client, now_us):
        text += f" Next try {retry}."
    return text


def retry_text(client: FarmClient, now_us: int) -> str:
    """When the next try is made: ``in 4 s``; "" when nobody knows."""
    at_us = client.store.retry_at_us
    if at_us is None or client.live:
        return ""
    return f"in {seconds_text(at_us - now_us)}" if at_us - now_us >= 500_000 else "now"


def seconds_text(length_us: int) -> str:
    """Whole seconds, then minutes and hours: ``4 s``, ``3 m 20 s``, ``2 h 05 m``."""
    whole = max(0, length_us) // 1_000_000
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"


def round_trip_text(round_trip_us: int | None) -> str:
    """How long an answer takes: ``0.4 ms``, ``12 ms``; "" before the first."""
    if round_trip_us is None:
        return ""
    ms = round_trip_us / 1000
    return f"{ms:.1f} ms" if ms < 9.95 else f"{ms:.0f} ms"


def clock_text(at_us: int) -> str:
    """A moment as people read a clock, in local time."""
    return time.strftime("%H:%M:%S", time.localtime(at_us / 1e6))


def upgraded_text(before: str, now: str) -> str:
    """What is said when the broker came back in another version than it had when the client started."""
    return f"The farm was upgraded from {before} to {now}. Start the client anew to have what is new in it."
