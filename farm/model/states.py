"""States of units, attempts and nodes, with every legal move as data.

A *unit* is a frame of a per-frame step, a segment of a per-segment step, or the one unit of a single
step.  The tables here are the only place that says what may become what; the core, the property
tests and the docs read them.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class UnitState(IntEnum):
    """State of one unit; the value is its byte in a step's state map."""

    BLOCKED = 0
    QUEUED = 1
    RUNNING = 2
    DONE = 3
    FAILED = 4
    SKIPPED = 5
    CANCELED = 6

    @property
    def word(self) -> str:
        """The word people see."""
        return self.name.lower()


_B, _Q, _R, _D, _F, _S, _C = UnitState

#: Moves that happen in the ordinary run of work or by an action.
LEGAL_MOVES: frozenset[tuple[UnitState, UnitState]] = frozenset(
    {
        (_B, _Q),
        (_Q, _B),
        (_B, _S),
        (_B, _C),
        (_Q, _S),
        (_Q, _C),
        (_Q, _R),
        (_R, _D),
        (_R, _F),
        (_R, _Q),
        (_R, _C),
        (_F, _S),
        (_F, _C),
        # Retry and render again; they land in BLOCKED while a dependency is unmet.
        *((old, new) for old in (_F, _S, _C, _D) for new in (_Q, _B)),
        # What depended on a unit that left DONE is blocked; a running dependant is stopped first.
        (_R, _B),
    }
)
#: "Mark done" verifies first and may move anything but DONE to DONE.
MARK_DONE_MOVES: frozenset[tuple[UnitState, UnitState]] = frozenset(
    (old, _D) for old in UnitState if old is not _D
)

#: States in which a unit satisfies what depends on it.
SATISFIES = frozenset({_D, _S})


class WorkState(StrEnum):
    """What a step or job shows: the first that applies, in this order."""

    PAUSED = "paused"
    RUNNING = "running"
    QUEUED = "queued"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELED = "canceled"
    DONE = "done"


def shown_state(counts: list[int], *, paused: bool) -> WorkState:
    """State a step or job shows.

    Args:
        counts: Units per UnitState value, length 7.
        paused: Whether it (or its job) is paused; only shown while units are left to do.
    """
    unfinished = counts[_B] + counts[_Q] + counts[_R]
    if paused and (unfinished or counts[_F]):
        return WorkState.PAUSED
    if counts[_R]:
        return WorkState.RUNNING
    if counts[_Q]:
        return WorkState.QUEUED
    if counts[_F]:
        return WorkState.FAILED
    if counts[_B]:
        return WorkState.BLOCKED
    if counts[_C]:
        return WorkState.CANCELED
    return WorkState.DONE


class NodeState(StrEnum):
    """State of a node as people see it."""

    ONLINE = "online"
    SUSPECT = "suspect"
    LOST = "lost"
    OFFLINE = "offline"


class AttemptKind(IntEnum):
    """What an attempt was leased for."""

    RENDER = 0
    VERIFY = 1
    ADOPT = 2
    #: A second copy of a frame that takes too long; publishes only by grant.
    COPY = 3


class FailureClass(StrEnum):
    """Why a unit did not get done; decides what happens next (see ``farm.model.failures``)."""

    RENDERER = "renderer"
    OUTPUT = "output"
    OOM_VRAM = "oom-vram"
    OOM_RAM = "oom-ram"
    LICENCE = "licence"
    CONFIG = "config"
    PATH = "path"
    NODE = "node"
    LOST = "lost"
    PREEMPTED = "preempted"
    TIMEOUT = "timeout"
    SILENT = "silent"
