"""What columns of the list of jobs say of a group of jobs, in its header.

What belongs here: figures of a group as text.  What may not: which columns there are (``job_columns``), and
keeping sums (``store.groups``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from client_gui.models.column import NOTHING, GroupOf, GroupSays, Reading
from client_gui.models.figures import money
from client_gui.store.eta import eta_text, left_text
from client_gui.store.table import MISSING
from farm.model.states import UnitState, WorkState
from farm.sdk.filters import percent_done
from farm.sdk.words import plural, price_text

_ENDED: Final = (WorkState.DONE.value, WorkState.CANCELED.value)


def counts_of_group(reading: Reading, group: GroupOf) -> tuple[int, ...]:
    """Frames of a group by state, for its bar; what waits as queued, what is left out as skipped."""
    counts = [0] * len(UnitState)
    for state, column in (
        (UnitState.DONE, "done"),
        (UnitState.FAILED, "failed"),
        (UnitState.RUNNING, "running"),
        (UnitState.QUEUED, "waiting"),
    ):
        counts[state] = max(0, group.total(column))
    counts[UnitState.SKIPPED] = max(0, group.total("units") - sum(counts))
    return tuple(counts)


def group_progress(reading: Reading, group: GroupOf) -> str:
    """How much of its frames is done, rounded down."""
    part = percent_done(group.total("done"), group.total("units"))
    return NOTHING if part is None else f"{int(part)} %"


def group_parts_tip(reading: Reading, group: GroupOf) -> str:
    """Its frames by state in words: ``400 done, 10 running, 3 failed, 87 waiting``."""
    counts = counts_of_group(reading, group)
    parts = (
        (UnitState.DONE, "done"),
        (UnitState.RUNNING, "running"),
        (UnitState.FAILED, "failed"),
        (UnitState.QUEUED, "waiting"),
        (UnitState.SKIPPED, "skipped or canceled"),
    )
    return ", ".join(f"{counts[state]:,} {word}" for state, word in parts if counts[state]) or "no frames"


def group_done(reading: Reading, group: GroupOf) -> str:
    """``1,240/2,000``."""
    return f"{group.total('done'):,}/{group.total('units'):,}"


def group_count(column: str, *, nothing: str = "0") -> GroupSays:
    """A sum of frames; 0 as ``nothing`` says."""

    def text(reading: Reading, group: GroupOf) -> str:
        found = group.total(column)
        return f"{found:,}" if found else nothing

    return text


def group_money(column: str, *, nothing: bool = True) -> GroupSays:
    """A sum of money; "" for none of it unless that is worth saying."""

    def text(reading: Reading, group: GroupOf) -> str:
        found = group.total(column)
        return money(found) if found or nothing else ""

    return text


def group_cost_tip(reading: Reading, group: GroupOf) -> str:
    """What its jobs have cost, and how much of that bought nothing."""
    spent, wasted = group.total("spend_nano"), group.total("waste_nano")
    text = f"{price_text(spent)} for {plural(group.count, 'job')}"
    return f"{text}, {100 * wasted / spent:.0f} % of it wasted" if spent and wasted else text


def _latest(reading: Reading, group: GroupOf) -> tuple[int | None, int | None, int]:
    """When the last of its jobs will be done, and how many are not over but have no such moment."""
    table, slots = reading.table, group.slots
    words = table.words("state")
    over = np.isin(table.numbers("state")[slots], [words.code(word) for word in _ENDED])
    slots = slots[~over]
    high = table.numbers("eta_high_us")[slots]
    without = int((high == MISSING).sum())
    if without == len(slots):
        return None, None, without
    last = int(slots[int(high.argmax())])
    return reading.get(last, "eta_low_us"), reading.get(last, "eta_high_us"), without


def group_eta(reading: Reading, group: GroupOf) -> str:
    """When the last of its jobs will be done; with a plus where some of them may take longer."""
    low, high, without = _latest(reading, group)
    if high is None:
        return NOTHING if without else ""
    return eta_text(low, high, reading.now_us, reading.zone) + (" +" if without else "")


def group_eta_tip(reading: Reading, group: GroupOf) -> str:
    """The same in words, with what is not known."""
    low, high, without = _latest(reading, group)
    lacking = f"{plural(without, 'job')} of it: nobody can say when" if without else ""
    if high is None:
        return lacking
    text = f"the last of its jobs: {left_text(low, high, reading.now_us)} to go"
    return f"{text}\n{lacking}" if lacking else text
