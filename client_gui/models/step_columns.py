"""Columns of a list of steps.

What belongs here: what each column says.  What may not: painting, and the list itself.
"""

from __future__ import annotations

from typing import Final

from client_gui.models.column import NOTHING, Paint, Reading, Shown, count_of, text_of
from client_gui.models.figures import length
from client_gui.models.job_columns import counts_text
from farm.model.states import UnitState


def _counts(reading: Reading, slot: int) -> tuple[int, ...]:
    found: tuple[int, ...] = reading.table.values("counts")[slot] or ()
    return found


def _of_state(state: UnitState, reading: Reading, slot: int) -> int:
    counts = _counts(reading, slot)
    return counts[state] if state < len(counts) else 0


def _progress(reading: Reading, slot: int) -> str:
    part = reading.get(slot, "progress")
    return NOTHING if part is None else f"{int(part)} %"


def _spoken(reading: Reading, slot: int) -> str:
    return f"{_progress(reading, slot)} done: {counts_text(_counts(reading, slot)) or 'nothing to do'}"


def _failed(reading: Reading, slot: int) -> str:
    return f"{_of_state(UnitState.FAILED, reading, slot):,}"


def _pace(name: str, reading: Reading, slot: int) -> str:
    found = reading.get(slot, name)
    return length(found if found and found > 0 else None)


def _state_tip(reading: Reading, slot: int) -> str:
    lines = [str(reading.get(slot, "state"))]
    if reason := reading.get(slot, "reason"):
        lines[0] += f": {reason}"
    if reading.get(slot, "able") is False:
        lines.append("no node in service could take it")
    return "\n".join(lines)


STEP_SHOWN: Final = (
    Shown("name", "Step", ("name",), text_of("name"), "Its name", sort="name", width=8),
    Shown(
        "state", "State", ("state", "reason", "able"), lambda r, s: str(r.get(s, "state")), "What it shows",
        paint=Paint.STATE, value=lambda r, s: r.get(s, "state"), tip=_state_tip, sort="state", width=6.2,
        field="state",
    ),
    Shown(
        "progress", "Progress", ("progress", "counts"), _progress, "Its frames by state", paint=Paint.PARTS,
        value=_counts, tip=lambda r, s: counts_text(_counts(r, s)), spoken=_spoken, sort="progress",
        largest_first=True, width=9.5,
    ),
    Shown(
        "done", "Done", ("counts", "units"),
        lambda r, s: f"{_of_state(UnitState.DONE, r, s):,}/{r.number(s, 'units'):,}",
        "Frames that are done, of how many", right=True, width=5.5,
    ),
    Shown(
        "failed", "Failed", ("counts",), _failed, "Frames that failed", right=True, paint=Paint.BAD, width=4,
    ),
    Shown(
        "mean", "Per frame", ("mean_frame_s",), lambda r, s: _pace("mean_frame_s", r, s),
        "What a frame took on average", right=True, sort="mean_frame_s", largest_first=True, width=5.2,
    ),
    Shown(
        "expected", "Expected", ("expected_frame_s",), lambda r, s: _pace("expected_frame_s", r, s),
        "What a frame that is left is expected to take on an average node", right=True,
        sort="expected_frame_s", largest_first=True, width=5.2, hidden=True,
    ),
    Shown(
        "attempts", "Attempts", ("attempts",), count_of("attempts"), "Attempts so far", right=True,
        sort="attempts", largest_first=True, width=5,
    ),
    Shown("frames", "Frames", ("frames",), text_of("frames"), "Its frames", width=7),
    Shown(
        "renderer", "Renderer", ("renderer",), text_of("renderer"), "Its renderer", sort="renderer", width=6,
    ),
    Shown("kind", "Kind", ("kind",), text_of("kind"), "What it does", sort="kind", width=5, hidden=True),
    Shown(
        "reason", "Reason", ("reason",), text_of("reason"), "Why it is in its state", paint=Paint.DIM,
        sort="reason", width=12,
    ),
)  # fmt: skip
