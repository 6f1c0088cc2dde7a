"""What is said in place of a log: every state in which there is none has its own words.

What belongs here: these words.  What may not: Qt, asking, and rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from farm.model.errors import Denied, FarmUnreachable, OvercrankError


@dataclass(frozen=True, slots=True)
class LogStanding:
    """How it stands with the log of what is looked at.

    Attributes:
        job, step: What is looked at.
        address: As the farm calls it.
        trouble: Why it cannot be had; None = nothing is known to be wrong.
        known: Whether the attempts are known.
        live: Whether the farm can be asked.
        attempt: The number of the attempt, None when there is none.
        running: Whether it goes on.
        asked: Whether the farm has said anything of the log.
        ended: Whether the farm has said that it is all.
    """

    job: int
    step: str
    address: str
    trouble: OvercrankError | None
    known: bool
    live: bool
    attempt: int | None
    running: bool
    asked: bool
    ended: bool


def instead_of_log(log: LogStanding) -> str:
    """What is said in place of a log."""
    if not log.job:
        return "Choose a frame to read what it printed."
    if not log.step:
        return f"Choose a step or a frame of J{log.job} to read what it printed."
    if isinstance(log.trouble, Denied):
        return f"You may not read this log: {log.trouble}"
    if isinstance(log.trouble, FarmUnreachable):
        return f"The log cannot be fetched: {log.trouble}\nIt is fetched when the connection is back."
    if log.trouble is not None:
        return f"The log cannot be shown: {log.trouble}"
    if not log.known:
        if log.live:
            return "Looking for attempts …"
        return "There is no connection to the farm, and this log was not read before."
    if log.attempt is None:
        return (
            f"{log.address} was not attempted yet, so there is no log.\nThe Why dock tells what it waits for."
        )
    if not log.asked:
        return "Fetching the log …"
    if log.running:
        return "Nothing was printed yet. It appears here as soon as the renderer says something."
    if log.ended:
        return f"Attempt {log.attempt} printed nothing."
    return f"The farm has no log of attempt {log.attempt}: none arrived, or it was deleted with its job."
