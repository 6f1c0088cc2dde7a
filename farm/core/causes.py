"""What steps wait for, and what ended that they waited for, in words.

What belongs here: these words, worked out from how units stand now.  What may not: moving units, and
anything that is stored; ``farm.core.dependencies`` does that, and writes some of these words into its rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.needs import CANCELED, DONE, FAILED, SKIPPED
from farm.core.work import Step
from farm.model.frames import format_indices

#: Most units looked at to say why units of a step were given up.
GIVEN_UP_MOST = 1_000


def frames_text(step: Step, units: Iterable[int]) -> str:
    """``frames 1-4 of J3/sim``; a single step is named alone."""
    if step.frames is None:
        return step.address
    units = list(units)
    if len(units) == 1:
        return f"frame {step.frames.frame_at(units[0])} of {step.address}"
    few = format_indices(step.frames, units, most=6)
    return f"frames {few} of {step.address}"


def ended_text(step: Step, units: Iterable[int]) -> str:
    """``frame 12 of J3/sim is done``, or how else it ended."""
    units = list(units)
    states = {step.state[unit] for unit in units}
    one = len(units) == 1
    if states <= {DONE} or len(states) > 1:
        verb = "is done" if one else "are done"
    elif states == {FAILED}:
        verb = "failed"
    else:
        word = "skipped" if states == {SKIPPED} else "canceled"
        verb = f"{'was' if one else 'were'} {word}"
    return f"{frames_text(step, units)} {verb}"


def given_up_for(step: Step, unit: int | None = None) -> str:
    """Which frames' failure a step's skipped or canceled units (or one of them) were given up for, in words.

    Worked out from the needs by frame as they are, since one row tells of many units at once: its words may
    be about others.

    Args:
        step: The step.
        unit: The unit; None = all of them together.

    Returns:
        "" when no need by frame says so.
    """
    found: dict[int, dict[int, None]] = {}
    edges = {number: edge for number, edge in enumerate(step.frame_needs) if edge.gives_up}
    if not edges:
        return ""
    units = _given_up(step) if unit is None else (unit,)
    for here in units:
        state = step.state[here]
        if not step.is_wanted(here):
            continue
        for number, edge in edges.items():
            if state != (SKIPPED if edge.on_failure == "skip" else CANCELED):
                continue
            there = edge.need_unit(here)
            if there is not None and edge.fails_at(there):
                found.setdefault(number, {})[there] = None
                break
    return "; ".join(ended_text(edges[number].need, culprits) for number, culprits in found.items())


def _given_up(step: Step) -> list[int]:
    """The first skipped and canceled units of a step."""
    units: list[int] = []
    for state in (SKIPPED, CANCELED):
        unit = step.state.find(state)
        while unit >= 0 and len(units) < GIVEN_UP_MOST:
            units.append(unit)
            unit = step.state.find(state, unit + 1)
    return units


def waits_for(step: Step, unit: int | None = None) -> str:
    """What a step's blocked units (or one of them) wait for, in words; "" = nothing of another step.

    Args:
        step: The step.
        unit: The unit; None = what holds all of them.
    """
    names: dict[str, None] = {}
    for edge in step.needs:
        if not edge.by_frame:
            if not edge.met:
                same = edge.need.job is step.job
                names[edge.need.spec.name if same else edge.need.address] = None
        elif unit is None:
            names[f"{'earlier ' * (edge.need is step)}frames of {edge.need.address}"] = None
        elif not edge.met_for(unit):
            there = edge.need_unit(unit)
            names[frames_text(edge.need, () if there is None else (there,))] = None
    return f"waits for {', '.join(names)}" if names else ""
