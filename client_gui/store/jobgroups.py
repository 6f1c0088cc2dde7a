"""What jobs can be grouped by, and what is summed up of them.

What belongs here: the groupings of the list of jobs.  What may not: keeping sums (``groups``), what columns
say of them (``models.job_columns``), and Qt.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import Any, Final

from client_gui.store.groups import Grouping
from client_gui.store.natural import natural_key
from client_gui.store.table import MISSING, Slots, Table
from farm.model.states import WorkState
from farm.protocol.rows import StepRow

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: No time zone has ever changed within a shorter time, nor has an offset that is no multiple of it.
_QUARTER_US: Final = 900_000_000
#: Sorts after every name.
_LAST: Final = "\U0010ffff"
_STATES: Final = {state.value: place for place, state in enumerate(WorkState)}
SUMS: Final = ("units", "done", "failed", "running", "waiting", "spend_nano", "waste_nano")
_ALIKE: Final[dict[str, Any]] = {
    "sums": SUMS,
    "state": "state",
    "words": (WorkState.RUNNING.value, WorkState.FAILED.value),
    "shown": ("eta_low_us", "eta_high_us"),
    "sorted_by": {
        "progress": ("done", "units"),
        "done": ("done",),
        "failed": ("failed",),
        "running": ("running",),
        "waiting": ("waiting",),
        "spend_nano": ("spend_nano",),
        "waste_nano": ("waste_nano",),
    },
    "latest": frozenset({"eta_high_us"}),
    "first": frozenset({"job", "priority", "submitted_us", "started_us", "ended_us", "cost_high_nano"}),
}
#: What groupings are called, in the order in which they are offered.
TITLES: Final = {
    "project": "project",
    "user": "user",
    "state": "state",
    "renderer": "renderer",
    "day": "day submitted",
}


def job_grouping(by: str, zone: Callable[[], tzinfo]) -> Grouping | None:
    """A grouping of jobs; None for a name that is none.

    Args:
        by: One of ``TITLES``.
        zone: The time zone of whoever reads, asked for with every job: days begin at its midnight.
    """
    match by:
        case "project" | "user":
            return _of_text(by)
        case "state":
            key: Callable[[str], Any] = _state_key
            return Grouping(
                "state", TITLES[by], ("state",), _states, key, named=frozenset({"state", "name"}), **_ALIKE
            )
        case "renderer":
            return Grouping(
                "renderer",
                TITLES[by],
                ("steps",),
                _renderers,
                _name_key,
                partial(_or_nothing, "no renderer"),
                named=frozenset({"name"}),
                **_ALIKE,
            )
        case "day":
            return Grouping(
                "day",
                TITLES[by],
                ("submitted_us",),
                partial(_days, zone),
                _name_key,
                _day_label,
                named=frozenset({"name"}),
                **_ALIKE,
            )
    return None


def _of_text(column: str) -> Grouping:
    def read(table: Table[Any], slots: Slots) -> list[str]:
        values = table.values(column)
        return [values[slot] or "" for slot in slots.tolist()]

    return Grouping(
        column,
        TITLES[column],
        (column,),
        read,
        _name_key,
        partial(_or_nothing, f"no {column}"),
        named=frozenset({column, "name"}),
        **_ALIKE,
    )


def _name_key(name: str) -> str:
    """Names as people expect them, what has none last."""
    return natural_key(name) if name else _LAST


def _or_nothing(nothing: str, name: str, now_us: int, zone: tzinfo) -> str:
    return name or nothing


# -- states --


def _states(table: Table[Any], slots: Slots) -> list[str]:
    word = table.words("state").word
    return [word(code) for code in table.numbers("state")[slots].tolist()]


def _state_key(name: str) -> tuple[int, str]:
    """What is under way first, what is over last, as states are told; what is not known after them."""
    return (_STATES.get(name, len(_STATES)), name)


# -- renderers --


def _renderers(table: Table[Any], slots: Slots) -> list[str]:
    steps_of = table.values("steps")
    found = []
    for slot in slots.tolist():
        steps: tuple[StepRow, ...] = steps_of[slot] or ()
        if len(steps) == 1:
            found.append(steps[0].renderer)
        else:
            found.append(", ".join(dict.fromkeys(step.renderer for step in steps if step.renderer)))
    return found


# -- days --


def _days(zone: Callable[[], tzinfo], table: Table[Any], slots: Slots) -> list[str]:
    known: dict[int, str] = {}
    here = zone()
    found = []
    for at_us in table.numbers("submitted_us")[slots].tolist():
        quarter = at_us // _QUARTER_US
        day = known.get(quarter)
        if day is None:
            day = known[quarter] = _day(at_us, here)
        found.append(day)
    return found


def _day(at_us: int, zone: tzinfo) -> str:
    if at_us <= 0 or at_us == MISSING:
        return ""
    try:
        return (_EPOCH + timedelta(microseconds=at_us)).astimezone(zone).date().isoformat()
    except OverflowError:
        return ""


def _day_label(name: str, now_us: int, zone: tzinfo) -> str:
    """A day as people call it: ``Today``, ``Yesterday``, ``Mon 23 Nov``, ``Mon 23 Nov 2025``."""
    if not name:
        return "no day"
    day = date.fromisoformat(name)
    today = (_EPOCH + timedelta(microseconds=max(0, now_us))).astimezone(zone).date()
    if day == today:
        return "Today"
    if (today - day).days == 1:
        return "Yesterday"
    text = f"{day:%a} {day.day} {day:%b}"
    return text if day.year == today.year else f"{text} {day.year}"
