"""Decides what becomes of the units of a process that ended: pure.

What belongs here: from what the process said, how it ended and what its files are worth, to an outcome per
unit.  What it may not know: files, processes, the broker.

The rules, in the order they are tried:

* Files decide.  A unit whose files are all good is done, with a warning when the process crashed.
* A process that we ended answers for nothing, whatever its exit code: the frame it was at has failed, and
  of the others only those count whose files were complete before it was told to end (``ended_by_us``).
* A fatal line vetoes that ("the library was missing": the picture decodes, and is pink).
* A process that says it ended well answers for all its frames: each one missing or bad has failed.
* Trouble of the job or machine as a whole (scene missing, no licence, broken GPU) fails every frame left,
  since each would meet it again.
* Any other end is charged to the frame that was being rendered.  Frames not begun are given back; they
  cost no attempt.  When nothing tells which frame it was, it is the first one left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from farm.model.reports import DONE, FAILED, RELEASED
from farm.model.states import FailureClass
from farm.renderers.base import Problem

#: Trouble that meets every frame of the chunk alike.
WHOLE = frozenset({FailureClass.CONFIG, FailureClass.PATH, FailureClass.LICENCE, FailureClass.NODE})


class End(msgspec.Struct, frozen=True):
    """How a process ended.

    Attributes:
        failure: Class of failure, None when it ended well.
        reason: In words.
        crashed: It ended otherwise than well, so a unit that is done all the same carries a warning.
    """

    failure: FailureClass | None
    reason: str
    crashed: bool = False


class Left(msgspec.Struct, frozen=True):
    """A unit without an outcome when its process ended, in rendered order.

    Attributes:
        index: Index of the unit.
        frame: Frame number, None for a single step.
        begun: The process said that it began it.
        bad: What is wrong with its files, "" when they are all good (or none are expected and the
            process ended well).
        disk: Class of failure when the disk under the files explains it, else None.
    """

    index: int
    frame: int | None
    begun: bool
    bad: str = ""
    disk: FailureClass | None = None


class Fate(msgspec.Struct, frozen=True):
    """What becomes of a unit."""

    index: int
    outcome: int
    failure: str = ""
    reason: str = ""
    warning: str = ""


def fatal_for(problems: Sequence[Problem], frame: int | None) -> Problem | None:
    """The fatal problem that vetoes a frame whatever its files look like, None if there is none."""
    for problem in problems:
        if problem.fatal and not problem.warning and (problem.frame is None or problem.frame == frame):
            return problem
    return None


def ended_by_us(left: Sequence[Left], late: Collection[int], reason: str) -> list[Left]:
    """The units of a process that was told to end, with what is wrong with those that look good.

    A shell whose command was killed goes on with the next one, which may copy half a picture to its place
    and end with exit code 0: good files prove nothing here, unless they lay there before.

    Args:
        left: Units without an outcome, in rendered order.
        late: Units of which a file was written after the process was told to end.
        reason: Why it was.
    """
    begun = [unit.index for unit in left if unit.begun]
    # Nothing tells which one it was at: it is the last it wrote anything good for.
    good = [unit.index for unit in left if not unit.bad]
    at = begun[-1:] or good[-1:]
    doubted = {*late, *at}
    return [
        # One that was only finished too late spends no try: it is given back like one that was not begun.
        msgspec.structs.replace(unit, bad=reason, begun=unit.begun and unit.index in at)
        if unit.index in doubted and not unit.bad
        else unit
        for unit in left
    ]


def fates(left: Sequence[Left], end: End, problems: Sequence[Problem], *, outputs: bool) -> list[Fate]:
    """An outcome for every unit the process left.

    Args:
        left: Units without an outcome, in rendered order.
        end: How the process ended.
        problems: What its parser found.
        outputs: Whether the step expects files; without, the end of the process alone decides.
    """
    found: dict[int, Fate] = {}
    bad: list[Left] = []
    for unit in left:
        veto = fatal_for(problems, unit.frame)
        if veto is not None:
            found[unit.index] = Fate(unit.index, FAILED, veto.failure, veto.text)
        elif not unit.bad and (outputs or end.failure is None):
            warning = f"the files are good, but {end.reason}" if end.crashed else ""
            found[unit.index] = Fate(unit.index, DONE, warning=warning)
        else:
            bad.append(unit)
    found.update((fate.index, fate) for fate in _bad_fates(bad, end, problems, outputs=outputs))
    return [found[unit.index] for unit in left]


def _bad_fates(bad: Sequence[Left], end: End, problems: Sequence[Problem], *, outputs: bool) -> list[Fate]:
    if end.failure is None:
        licence = _licence(problems)
        if licence is not None:
            # Some programs go on without a licence, write nothing and say that all is well.
            return [Fate(unit.index, FAILED, licence.failure, f"{unit.bad}; {licence.text}") for unit in bad]
        hint = next((problem.text for problem in problems if not problem.warning), "")
        return [_output_fate(unit, hint) for unit in bad]
    if end.failure in WHOLE:
        return [Fate(unit.index, FAILED, end.failure, end.reason) for unit in bad]
    begun = [unit for unit in bad if unit.begun]
    current = begun[-1] if begun else (bad[0] if bad else None)
    result = []
    for unit in bad:
        if unit is current:
            failure, reason = end.failure, end.reason
            if unit.disk is not None:
                failure, reason = unit.disk, unit.bad
            result.append(Fate(unit.index, FAILED, failure, reason))
        elif unit.begun:
            fate = _output_fate(unit) if outputs else Fate(unit.index, FAILED, end.failure, end.reason)
            result.append(fate)
        else:
            result.append(Fate(unit.index, RELEASED, "", f"not begun: {end.reason}"))
    return result


def _licence(problems: Sequence[Problem]) -> Problem | None:
    return next(
        (problem for problem in problems if problem.failure is FailureClass.LICENCE and not problem.warning),
        None,
    )


def _output_fate(unit: Left, hint: str = "") -> Fate:
    failure = unit.disk or FailureClass.OUTPUT
    reason = f"{unit.bad}; {hint}" if hint and hint not in unit.bad else unit.bad
    return Fate(unit.index, FAILED, failure, reason)
