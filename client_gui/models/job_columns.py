"""Columns of the list of jobs.

What belongs here: what each column says.  What may not: painting, and the list itself.
"""

from __future__ import annotations

from typing import Any, Final

from client_gui.models.column import NOTHING, Paint, Reading, Shown, count_of, text_of
from client_gui.models.figures import age, age_of, exact_of, length, moment_of, money, money_of, money_range
from client_gui.models.job_groups import (
    counts_of_group,
    group_cost_tip,
    group_count,
    group_done,
    group_eta,
    group_eta_tip,
    group_money,
    group_parts_tip,
    group_progress,
)
from client_gui.store.columns import summed_counts
from client_gui.store.eta import eta_text, left_text, standstill
from farm.model.states import UnitState, WorkState
from farm.protocol.rows import StepRow
from farm.sdk.words import plural, price_text

#: Words of the parts of a job's bar, in the order of ``UnitState``.
UNIT_WORDS: Final = tuple(state.word for state in UnitState)
_ENDED: Final = frozenset({WorkState.DONE.value, WorkState.CANCELED.value})


def steps_of(reading: Reading, slot: int) -> tuple[StepRow, ...]:
    """The steps of a job."""
    found: tuple[StepRow, ...] = reading.table.values("steps")[slot] or ()
    return found


def counts_of(reading: Reading, slot: int) -> tuple[int, ...]:
    """A job's units by state; worked out of its totals where its steps are not known."""
    if steps := steps_of(reading, slot):
        return summed_counts(steps)
    units, done = reading.number(slot, "units"), reading.number(slot, "done")
    failed, running = reading.number(slot, "failed"), reading.number(slot, "running")
    counts = [0] * len(UnitState)
    counts[UnitState.DONE], counts[UnitState.FAILED], counts[UnitState.RUNNING] = done, failed, running
    counts[UnitState.QUEUED] = max(0, units - done - failed - running)
    return tuple(counts)


def counts_text(counts: tuple[int, ...]) -> str:
    """Units by state in words: ``40 done, 10 running, 50 queued``."""
    order = (UnitState.DONE, UnitState.RUNNING, UnitState.FAILED, UnitState.QUEUED, UnitState.BLOCKED)
    places = [*map(int, order), *(n for n in range(len(counts)) if n not in order)]
    return ", ".join(
        f"{counts[n]:,} {UNIT_WORDS[n] if n < len(UNIT_WORDS) else 'in another state'}"
        for n in places
        if n < len(counts) and counts[n]
    )


def _progress(reading: Reading, slot: int) -> str:
    part = reading.get(slot, "progress")
    # Rounded down: what is not done yet must not say that it is.
    return NOTHING if part is None else f"{int(part)} %"


def _progress_spoken(reading: Reading, slot: int) -> str:
    return f"{_progress(reading, slot)} done: {counts_text(counts_of(reading, slot)) or 'nothing to do'}"


def _done(reading: Reading, slot: int) -> str:
    return f"{reading.number(slot, 'done'):,}/{reading.number(slot, 'units'):,}"


def _waiting(reading: Reading, slot: int) -> str:
    found = reading.number(slot, "waiting")
    return f"{found:,}" if found else ""


def _mean(reading: Reading, slot: int) -> str:
    return length(reading.get(slot, "mean_frame_s"))


def _mean_tip(reading: Reading, slot: int) -> str:
    lines = [
        f"{step.name}: {length(step.mean_frame_s if step.mean_frame_s > 0 else None)} a frame"
        for step in steps_of(reading, slot)
    ]
    return "\n".join(lines)


def _stands_still(reading: Reading, slot: int) -> str:
    return standstill(str(reading.get(slot, "state")), reading.number(slot, "running"))


def _eta(reading: Reading, slot: int) -> str:
    if reading.get(slot, "state") in _ENDED:
        return ""
    if _stands_still(reading, slot):
        return NOTHING
    low, high = reading.get(slot, "eta_low_us"), reading.get(slot, "eta_high_us")
    return eta_text(low, high, reading.now_us, reading.zone)


def _eta_tip(reading: Reading, slot: int) -> str:
    if reading.get(slot, "state") in _ENDED:
        return ""
    if still := _stands_still(reading, slot):
        return still
    low, high = reading.get(slot, "eta_low_us"), reading.get(slot, "eta_high_us")
    if low is None or high is None:
        text = "not enough is known to say when it will be done"
    else:
        left = left_text(low, high, reading.now_us)
        text = f"{left} to go; about four of five jobs end within such a range"
    if left_out := reading.get(slot, "not_estimated"):
        text += f"\nnot in it: {', '.join(left_out)}"
    return text


def _forecast(reading: Reading, slot: int) -> str:
    return money_range(reading.get(slot, "cost_low_nano"), reading.get(slot, "cost_high_nano"))


def _waste_tip(reading: Reading, slot: int) -> str:
    spent, wasted = reading.number(slot, "spend_nano"), reading.number(slot, "waste_nano")
    return f"{100 * wasted / spent:.0f} % of {price_text(spent)}" if wasted and spent else ""


def _money_nonzero(reading: Reading, slot: int) -> str:
    found = reading.number(slot, "waste_nano")
    return money(found) if found else ""


def _state_tip(reading: Reading, slot: int) -> str:
    reason = reading.get(slot, "reason") or ""
    return f"{reading.get(slot, 'state')}: {reason}" if reason else str(reading.get(slot, "state"))


def _steps(reading: Reading, slot: int) -> str:
    return ", ".join(step.name for step in steps_of(reading, slot))


def _renderers(reading: Reading, slot: int) -> str:
    return ", ".join(dict.fromkeys(step.renderer for step in steps_of(reading, slot) if step.renderer))


def _name_tip(reading: Reading, slot: int) -> str:
    lines = [f"J{reading.number(slot, 'job')}  {reading.get(slot, 'name')}"]
    lines += [
        f"{step.name}: {step.state}, {counts_text(step.counts)}" for step in steps_of(reading, slot)[:12]
    ]
    if (more := len(steps_of(reading, slot)) - 12) > 0:
        lines.append(f"and {plural(more, 'more step')}")
    return "\n".join(lines)


def _runtime(reading: Reading, slot: int) -> str:
    started = reading.number(slot, "started_us")
    if started <= 0:
        return NOTHING
    return length(max(0, (reading.number(slot, "ended_us") or reading.now_us) - started) // 1_000_000)


def _state(reading: Reading, slot: int) -> Any:
    return reading.get(slot, "state")


def _age_spoken(reading: Reading, slot: int) -> str:
    return f"submitted {age(reading.number(slot, 'submitted_us'), reading.now_us)} ago"


JOB_SHOWN: Final = (
    Shown(
        "name", "Job", ("name", "steps"), text_of("name"), "Its name",
        tip=_name_tip, sort="name", width=17,
    ),
    Shown(
        "state", "State", ("state", "reason"), lambda r, s: str(r.get(s, "state")), "What it shows",
        paint=Paint.STATE, value=_state, tip=_state_tip, sort="state", width=6.2, field="state",
    ),
    Shown(
        "progress", "Progress", ("progress", "steps"), _progress, "Its frames by state",
        paint=Paint.PARTS, value=counts_of, tip=lambda r, s: counts_text(counts_of(r, s)),
        spoken=_progress_spoken, sort="progress", largest_first=True, width=9.5,
        group=group_progress, group_value=counts_of_group, group_tip=group_parts_tip,
    ),
    Shown(
        "done", "Done", ("done", "units"), _done, "Frames that are done, of how many", right=True,
        sort="done", largest_first=True, width=8.0, group=group_done,
    ),
    Shown(
        "failed", "Failed", ("failed",), count_of("failed"), "Frames that failed", right=True,
        paint=Paint.BAD, sort="failed", largest_first=True, width=4.0, group=group_count("failed"),
    ),
    Shown(
        "running", "Running", ("running",), count_of("running", nothing=" "), "Frames that are running now",
        right=True, paint=Paint.DIM, sort="running", largest_first=True, width=4.6,
        group=group_count("running", nothing=" "),
    ),
    Shown(
        "waiting", "Waiting", ("waiting",), _waiting, "Frames that are queued or blocked", right=True,
        paint=Paint.DIM, sort="waiting", largest_first=True, width=4.6, hidden=True,
        group=group_count("waiting", nothing=""),
    ),
    Shown(
        "mean", "Per frame", ("mean_frame_s",), _mean, "What a frame took on average", right=True,
        tip=_mean_tip, sort="mean_frame_s", largest_first=True, width=5.2,
    ),
    Shown(
        "eta", "Ready", ("eta_low_us", "eta_high_us", "state", "running", "not_estimated"), _eta,
        "When it will be done: a range that holds for about four of five jobs",
        tip=_eta_tip, sort="eta_high_us", width=11.5, moves=True, group=group_eta, group_tip=group_eta_tip,
    ),
    Shown(
        "priority", "Prio", ("priority",), lambda r, s: str(r.number(s, "priority")),
        "0 to 100, 100 first; F2 edits", right=True, sort="priority", largest_first=True, width=3.4,
        field="priority", edit="priority",
    ),
    Shown("user", "User", ("user",), text_of("user"), "Whose it is", sort="user", width=5.0),
    Shown("project", "Project", ("project",), text_of("project"), "Its project", sort="project", width=5.5),
    Shown(
        "age", "Age", ("submitted_us",), age_of("submitted_us"), "Time since it was submitted", right=True,
        tip=exact_of("submitted_us"), spoken=_age_spoken, sort="submitted_us", backwards=True, width=3.6,
        moves=True, paint=Paint.DIM,
    ),
    Shown(
        "cost", "Cost, USD", ("spend_nano",), money_of("spend_nano"), "What it has cost so far", right=True,
        tip=lambda r, s: price_text(r.get(s, "spend_nano")), sort="spend_nano", largest_first=True, width=5.2,
        group=group_money("spend_nano"), group_tip=group_cost_tip,
    ),
    Shown(
        "forecast", "In all, USD", ("cost_low_nano", "cost_high_nano"), _forecast,
        "What it will have cost when it is done: a range that holds for about four of five jobs", right=True,
        sort="cost_high_nano", largest_first=True, width=7.0, hidden=True,
    ),
    Shown(
        "waste", "Waste, USD", ("waste_nano", "spend_nano"), _money_nonzero,
        "What of its cost bought nothing: failed and stopped attempts", right=True,
        tip=_waste_tip, sort="waste_nano", largest_first=True, width=5.6, hidden=True,
        group=group_money("waste_nano", nothing=False), group_tip=group_cost_tip,
    ),
    Shown(
        "submitted", "Submitted", ("submitted_us",), moment_of("submitted_us"), "When it was submitted",
        right=True, tip=exact_of("submitted_us"), sort="submitted_us", largest_first=True, width=6.5,
        hidden=True, moves=True,
    ),
    Shown(
        "started", "Started", ("started_us",), moment_of("started_us"), "When its first frame started",
        right=True, tip=exact_of("started_us"), sort="started_us", largest_first=True, width=6.5,
        hidden=True, moves=True,
    ),
    Shown(
        "ended", "Ended", ("ended_us",), moment_of("ended_us"), "When its last frame ended",
        right=True, tip=exact_of("ended_us"), sort="ended_us", largest_first=True, width=6.5,
        hidden=True, moves=True,
    ),
    Shown(
        "runtime", "Runtime", ("started_us", "ended_us"), _runtime, "From its start to its end, or until now",
        right=True, width=5.2, hidden=True, moves=True,
    ),
    Shown(
        "reason", "Reason", ("reason",), text_of("reason"), "Why it is in its state",
        paint=Paint.DIM, sort="reason", width=12, hidden=True,
    ),
    Shown("steps", "Steps", ("steps",), _steps, "Its steps", width=8, hidden=True, paint=Paint.DIM),
    Shown(
        "renderer", "Renderer", ("steps",), _renderers, "Renderers of its steps", width=6, hidden=True,
        paint=Paint.DIM,
    ),
    Shown(
        "number", "Number", ("job",), lambda r, s: f"J{r.number(s, 'job')}",
        "Its number, as addresses have it", right=True, sort="job", largest_first=True, width=4.5,
        hidden=True, paint=Paint.DIM,
    ),
    Shown(
        "archived", "Archived", ("archived",), lambda r, s: "archived" if r.get(s, "archived") else "",
        "Whether it is in the archive", sort="archived", width=5, hidden=True, paint=Paint.DIM,
    ),
)  # fmt: skip
