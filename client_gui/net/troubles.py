"""Why there is no farm to be seen, each reason with a text of its own and one thing to do about it.

What belongs here: the texts, from how the connection stands.  What may not: Qt.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from client_gui.net.line import VERSION_CODE
from client_gui.net.port import Standing
from client_gui.store.farmstore import Link
from farm.config.places import LOCAL
from farm.model.errors import CallError, Denied, FarmUnreachable, SessionRefused, StorageError


class Cure(StrEnum):
    """The one thing to do."""

    #: Nothing to be done but wait.
    NONE = "none"
    RETRY = "retry"
    #: Paste a join token.
    TOKEN = "token"
    #: Choose another farm, or start one.
    CHOOSE = "choose"
    #: Start the farm of this machine whose broker has ended.
    START = "start"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A page's words.

    Attributes:
        heading: What is the matter, in a few words.
        text: The reason as it was told.
        advice: What helps.
        cure: What the page's one button does.
        button: What it says.
        grave: Whether it is an error and not merely a beginning.
    """

    heading: str
    text: str
    advice: str
    cure: Cure
    button: str = ""
    grave: bool = True


#: What the button says that starts a farm of this machine.
START_WORDS: Final = "Start it again"


def ended_here(standing: Standing) -> bool:
    """Whether the farm's broker was a process of this user on this machine that has ended."""
    return standing.code == FarmUnreachable.code and "has ended" in standing.trouble


def trouble_of(standing: Standing, farm: str = "", first_time: bool = False) -> Trouble | None:
    """What to say while no farm is connected; None while there is nothing to say.

    Args:
        standing: How the connection stands.
        farm: Name of the farm that is meant, "" when nobody named one.
        first_time: Whether no farm is known on this machine at all.
    """
    if standing.link in (Link.LIVE, Link.RESYNC):
        return None
    who = "This machine's farm" if farm == LOCAL else farm or "The farm"
    text, hint = _sentence(standing.trouble), _sentence(standing.hint)
    if standing.link is Link.REFUSED:
        return _refused(standing, who, text, hint)
    if not standing.trouble:
        whom = who if farm not in ("", LOCAL) else who[0].lower() + who[1:]
        return Trouble(f"Connecting to {whom} …", "", "", Cure.NONE, grave=False)
    if first_time:
        return Trouble(
            "Welcome to Overcrank",
            "This machine knows no farm yet.",
            "Connect to one, start one here, or see a short film being rendered first.",
            Cure.NONE,
            grave=False,
        )
    if standing.code == StorageError.code:
        return Trouble("Your key cannot be used", text, hint, Cure.RETRY, "Try again")
    if standing.code == CallError.code:
        return Trouble("That farm cannot be dialled", text, hint, Cure.CHOOSE, "Choose another farm")
    if "knows no farm" in standing.trouble or "is not kept here" in standing.trouble:
        return Trouble(f"{who} is not known here", text, hint, Cure.CHOOSE, "Choose another farm")
    if ended_here(standing):
        if farm.startswith("private/"):
            # As the demo's does when the film is made: nothing went wrong.
            return Trouble("That private farm has ended", text, "", Cure.START, START_WORDS, grave=False)
        return Trouble(f"{who} has ended", text, "", Cure.START, START_WORDS)
    if standing.code == FarmUnreachable.code:
        return Trouble(f"{who} cannot be reached", text, hint, Cure.RETRY, "Try now")
    return Trouble("No connection", text, hint, Cure.RETRY, "Try now")


def _refused(standing: Standing, who: str, text: str, hint: str) -> Trouble:
    if standing.code == VERSION_CODE:
        return Trouble(f"{who} speaks another version", text, hint, Cure.RETRY, "Try again after the upgrade")
    if standing.code in (SessionRefused.code, Denied.code):
        return Trouble(f"{who} does not let you in", text, hint, Cure.TOKEN, "Paste a join token")
    return Trouble(f"{who} refuses this client", text, hint, Cure.CHOOSE, "Choose another farm")


def _sentence(text: str) -> str:
    """A message as a sentence: beginning with a capital, ending with a full stop."""
    if not text:
        return ""
    return _first_up(text) + ("" if text[-1] in ".?!…" else ".")


def _first_up(text: str) -> str:
    return text[:1].upper() + text[1:]
