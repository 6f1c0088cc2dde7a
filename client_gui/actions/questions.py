"""What is asked before something that cannot be taken back: who is meant, what is kept, what is lost.

What belongs here: the words of questions.  What may not: Qt (``confirm`` asks them), and what is done after.

Only what nothing takes back is asked about: for the rest there is undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from client_gui.actions.facts import D, Facts, JobFacts, NodeFacts, R, UnitsFacts
from client_gui.actions.records import Record
from farm.sdk.words import plural, price_text

#: Of more jobs than this the count has to be typed before they are canceled or deleted.
TYPE_ABOVE: Final = 20
#: So many names are read out in a question.
NAMES_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked before something that cannot be taken back.

    Attributes:
        title: The question.
        lines: What it means: names, what is kept, what is lost.
        yes: What the button says that does it.
        typed: Has to be typed first; "" = nothing has to.
        running: Addresses whose running attempts lose their work: what that cost can be asked for.
    """

    title: str
    lines: tuple[str, ...]
    yes: str
    typed: str = ""
    running: tuple[str, ...] = ()


def question_of(record: Record, chosen: Sequence[Facts]) -> Question | None:
    """The question, None when nothing is lost for good or nothing is chosen."""
    if not chosen:
        return None
    match record.id:
        case "cancel":
            return _cancel_question(chosen)
        case "delete":
            jobs = [one for one in chosen if isinstance(one, JobFacts)]
            lines = (*_names(jobs), "Logs, previews and records go for good; the pictures stay.")
            title = f"Delete {_what(jobs)}?"
            return Question(title, lines, f"Delete {_short(jobs)}", _typed(jobs))
        case "archive":
            jobs = [one for one in chosen if isinstance(one, JobFacts)]
            lines = (*_names(jobs), "They leave the list for good; the archive keeps what can be looked at.")
            return Question(f"Archive {_what(jobs)}?", lines, f"Archive {_short(jobs)}", _typed(jobs))
        case "retry-selection":
            units = [one for one in chosen if isinstance(one, UnitsFacts)]
            done = sum(one.count(D) for one in units)
            if not done:
                return None
            lines = tuple(one.address for one in units[:NAMES_MOST])
            told = f"{plural(done, 'frame')} of these {'is' if done == 1 else 'are'} done: rendered again "
            told += "they cost again, and their files are replaced."
            return Question(f"Render {_what(units)} again?", (*lines, told), "Render again")
        case "node-disable":
            nodes = [one for one in chosen if isinstance(one, NodeFacts) and one.running]
            if not nodes:
                return None
            running = [address for one in nodes for address in one.running]
            lines = (
                f"{plural(len(running), 'attempt')} {'runs' if len(running) == 1 else 'run'} there: "
                f"{_listed(running)}",
                "They are given back and begin again elsewhere; no try is spent, but what they did is lost.",
            )
            return Question(f"Disable {_what(chosen)} now?", lines, "Disable", "", tuple(running))
        case "node-forget":
            nodes = [one for one in chosen if isinstance(one, NodeFacts)]
            lines = (_listed([one.address for one in nodes]), "It comes back only when its agent does.")
            return Question(f"Forget {_what(nodes)}?", lines, "Forget")
        case "node-update":
            lines = (
                _listed([one.address for one in chosen]),
                "At most 10% are out of service at once; it stops when one fails. A node that was updated "
                "stays so.",
            )
            return Question(f"Update the software of {_what(chosen)}?", lines, "Update")
        case _:
            return None


def _cancel_question(chosen: Sequence[Facts]) -> Question:
    jobs = [one for one in chosen if isinstance(one, JobFacts)]
    units = [one for one in chosen if isinstance(one, UnitsFacts)]
    lines = [*_names(jobs), *(one.address for one in units[:NAMES_MOST])]
    if len(units) > NAMES_MOST:
        lines.append(f"and {len(units) - NAMES_MOST} more")
    if jobs:
        done, total = sum(one.done for one in jobs), sum(one.units for one in jobs)
        running = sum(one.running for one in jobs)
        spent = sum(one.spend_nano for one in jobs)
        lines.append(f"{done:,} of {total:,} frames are done; their files stay.")
        if spent:
            lines.append(f"So far it cost {price_text(spent)}.")
    else:
        running = sum(one.count(R) for one in units) if all(one.exact for one in units) else 0
    if running:
        lines.append(
            f"{plural(running, 'frame')} {'is' if running == 1 else 'are'} running: "
            "what was done of them so far is lost."
        )
    addresses = tuple([one.address for one in jobs] + [one.address for one in units]) if running else ()
    return Question(
        f"Cancel {_what(chosen)}?", tuple(lines), f"Cancel {_short(chosen)}", _typed(jobs), addresses
    )


def _names(jobs: Sequence[JobFacts]) -> list[str]:
    lines = [
        f"{one.address}  {one.name}  \N{MIDDLE DOT}  {one.state}, "
        f"{one.done:,} of {one.units:,} done, {one.user}"
        for one in jobs[:NAMES_MOST]
    ]
    if len(jobs) > NAMES_MOST:
        lines.append(f"and {len(jobs) - NAMES_MOST} more")
    return lines


def _typed(jobs: Sequence[JobFacts]) -> str:
    return str(len(jobs)) if len(jobs) > TYPE_ABOVE else ""


def _listed(words: Sequence[str]) -> str:
    shown = ", ".join(words[:NAMES_MOST])
    return shown if len(words) <= NAMES_MOST else f"{shown} and {len(words) - NAMES_MOST} more"


def _what(chosen: Sequence[Facts]) -> str:
    """What is meant, in words: ``J12 sh0420_fx`` or ``37 jobs``."""
    if len(chosen) == 1:
        one = chosen[0]
        return f"{one.address} {one.name}" if isinstance(one, JobFacts) and one.name else one.address
    first = chosen[0]
    word = (
        "job"
        if isinstance(first, JobFacts)
        else "node"
        if isinstance(first, NodeFacts)
        else "range of frames"
    )
    return plural(len(chosen), word).replace("range of framess", "ranges of frames")


def _short(chosen: Sequence[Facts]) -> str:
    return chosen[0].address if len(chosen) == 1 else _what(chosen)
