"""What units wait for, and the order they are leased in, once more, from job files and maps alone.

What belongs here: the rules people read, in the plainest form there is.  What may not: anything of the
core's own bookkeeping of edges, cursors or counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from farm.core.state import Farm, Step
from farm.model.frames import FrameRange
from farm.model.jobs import AfterSpec
from farm.model.states import UnitState

Maps = Mapping[int, bytes]
_GOOD = (UnitState.DONE, UnitState.SKIPPED)
_BAD = (UnitState.FAILED, UnitState.CANCELED)


def frames_of(step: Step) -> list[int]:
    """Frame of each unit."""
    return list(step.frames) if step.frames is not None else []


def verdict(farm: Farm, step: Step, unit: int, need: AfterSpec, maps: Maps) -> str:
    """``met``, or what a unit is to do about a need that is not: ``wait``, ``skip`` or ``cancel``."""
    job = farm.jobs.get(int(need.job[1:])) if need.job else step.job
    if job is None:
        return "met"  # somebody deleted it: nothing is left to wait for
    states: list[int] = []
    for other in job.steps:
        if need.step not in ("", other.spec.name):
            continue
        wanted = list(other.wanted) if other.wanted is not None else frames_of(other)
        state = maps[other.id]
        for there, frame in enumerate(frames_of(other) or [None]):
            unwanted = frame is not None and frame not in wanted and state[there] == UnitState.CANCELED
            if not unwanted and (not need.frames or frame == frames_of(step)[unit] + need.offset):
                states.append(state[there])
    if need.on_failure == "go":
        return "met" if all(state in (*_GOOD, *_BAD) for state in states) else "wait"
    if all(state in _GOOD for state in states):
        return "met"
    lost = any(state in _BAD for state in states)
    return need.on_failure if lost else "wait"


def verdicts(farm: Farm, step: Step, unit: int, maps: Maps) -> list[str]:
    """The verdict of each of a step's needs on a unit."""
    return [verdict(farm, step, unit, need, maps) for need in step.spec.needs()]


def work_order(step: Step) -> list[int]:
    """The units in the order they are to be leased."""
    last = _named(step, step.spec.last)
    first = [unit for unit in _named(step, step.spec.first) if unit not in last]
    return first + [unit for unit in _preset(step) if unit not in first and unit not in last] + last


def _named(step: Step, text: str) -> list[int]:
    frames = frames_of(step)
    return [frames.index(frame) for frame in FrameRange.parse(text) if frame in frames] if text else []


def _preset(step: Step) -> list[int]:
    frames = frames_of(step)
    up = sorted(range(len(frames)), key=lambda unit: frames[unit])
    word, _, number = step.spec.order.partition(":")
    if not frames:
        return [0]
    if word == "forward":
        return up
    if word == "reverse":
        return up[::-1]
    if word == "listed":
        return list(range(len(frames)))
    if word == "first-last-middle":
        first = [up[0], up[-1], up[(len(up) - 1) // 2]]
        return list(dict.fromkeys(first + up))
    every = int(number or 10)
    first = up[::every]
    # What comes between: the nearer to the middle of its gap a place is, the earlier by halving.
    rest = sorted(
        (place for place in range(len(up)) if place % every),
        key=lambda place: (_depth(place % every, min(every, len(up))), place),
    )
    return first + [up[place] for place in rest]


def _depth(at: int, width: int) -> int:
    low, high, depth = 0, width, 0
    while (low + high) // 2 != at:
        middle = (low + high) // 2
        low, high = (low, middle) if at < middle else (middle, high)
        depth += 1
    return depth
