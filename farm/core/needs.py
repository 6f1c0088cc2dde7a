"""What a step waits for: edges between steps, as a whole or frame by frame.

What belongs here: whether an edge is satisfied, and which unit waits for which.  What may not: moving units;
``farm.core.dependencies`` does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.model.frames import FrameRange
from farm.model.jobs import AfterSpec
from farm.model.states import UnitState

if TYPE_CHECKING:
    from farm.core.work import Step

BLOCKED, QUEUED, RUNNING, DONE, FAILED, SKIPPED, CANCELED = (state.value for state in UnitState)


class Edge:
    """One step waits for another: as a whole, or frame by frame.

    Attributes:
        need, waiter: Who is waited for, who waits.
        by_frame: Frame f of the waiter waits for frame f + ``offset`` of the need only.
        on_failure: What ``need`` failing or being canceled for good means, see ``AfterSpec``.
        good: By state of a unit of the need: whether it satisfies.
        gives_up: Whether what waits is skipped or canceled when the need fails.
        met: Of an edge as a whole: whether it is satisfied, as far as the waiter was told.
    """

    __slots__ = (
        "_frames",
        "_shift",
        "by_frame",
        "gives_up",
        "good",
        "met",
        "need",
        "offset",
        "on_failure",
        "waiter",
    )

    def __init__(self, need: Step, waiter: Step, spec: AfterSpec) -> None:
        self.need = need
        self.waiter = waiter
        self.by_frame = spec.frames
        self.offset = spec.offset
        self.on_failure = spec.on_failure
        going_on = spec.on_failure == "go"
        self.good = bytes(
            state in (DONE, SKIPPED) or (going_on and state in (FAILED, CANCELED)) for state in range(7)
        )
        self.gives_up = spec.on_failure in ("skip", "cancel")
        self.met = False
        self._frames: tuple[FrameRange | None, FrameRange | None] = (None, None)
        #: Unit u of the waiter waits for unit u + shift of the need; None = only the frames tell.
        self._shift: int | None = None

    def holds(self) -> bool:
        """Whether the need as a whole satisfies now."""
        counts = self.need.counts
        if self.on_failure == "go":
            return not (counts[BLOCKED] or counts[QUEUED] or counts[RUNNING])
        return counts[DONE] + counts[SKIPPED] + self.need.left_out == self.need.units

    def lost(self) -> bool:
        """Whether anything of the need failed or was canceled for good."""
        counts = self.need.counts
        return bool(counts[FAILED] or counts[CANCELED] > self.need.left_out)

    def fails_at(self, there: int) -> bool:
        """Whether a unit of the need failed or was canceled for good."""
        state = self.need.state[there]
        return state == FAILED or (state == CANCELED and self.need.is_wanted(there))

    def good_at(self, there: int) -> bool:
        """Whether a unit of the need satisfies: it ended well, or nobody wants it any more."""
        state = self.need.state[there]
        return bool(self.good[state]) or (state == CANCELED and not self.need.is_wanted(there))

    def met_for(self, unit: int) -> bool:
        """Whether it is satisfied for a unit of the waiter."""
        if not self.by_frame:
            return self.met
        there = self.need_unit(unit)
        return there is None or self.good_at(there)

    def told(self, unit: int) -> str:
        """What it waits for on behalf of a unit of the waiter, in words; "" when it is satisfied."""
        if self.met_for(unit):
            return ""
        need = self.need
        there = self.need_unit(unit) if self.by_frame else None
        frame = need.frame_of(there) if there is not None else None
        return f"waits for {need.address}" if frame is None else f"waits for frame {frame} of {need.address}"

    def shift(self) -> int | None:
        """What is added to a unit of the waiter to get the one it waits for; None = only frames tell.

        Worked out again when frames were added to either step.
        """
        need, waiter = self.need.frames, self.waiter.frames
        if self._frames[0] is not need or self._frames[1] is not waiter:
            self._frames = (need, waiter)
            self._shift = None
            if need is not None and waiter is not None and need.is_single_run and waiter.is_single_run:
                (there,), (here,) = need.runs, waiter.runs
                units, rest = divmod(here.first + self.offset - there.first, there.step)
                if there.step == here.step and not rest:
                    self._shift = units
        return self._shift

    def need_unit(self, unit: int) -> int | None:
        """The unit of the need that a unit of the waiter waits for, by frame; None = there is none."""
        shift = self.shift()
        if shift is None:
            return _unit_of(self.need.frames, self.waiter.frames, unit, self.offset)
        there = unit + shift
        return there if 0 <= there < self.need.units else None

    def waiter_unit(self, unit: int) -> int | None:
        """The unit of the waiter that waits for a unit of the need, by frame; None = there is none."""
        shift = self.shift()
        if shift is None:
            return _unit_of(self.waiter.frames, self.need.frames, unit, -self.offset)
        here = unit - shift
        return here if 0 <= here < self.waiter.units else None

    def mask(self) -> bytes:
        """By unit of the waiter: 1 where the edge (by frame) is satisfied, else 0."""
        total, shift = self.waiter.units, self.shift()
        if shift is None or self.need.left_out:
            return bytes(self.met_for(unit) for unit in range(total))
        good = bytes(self.need.state.translate(self.good + bytes(249)))
        low = min(total, max(0, -shift))
        high = max(low, min(total, len(good) - shift))
        return b"\1" * low + good[low + shift : high + shift] + b"\1" * (total - high)


def _unit_of(to: FrameRange | None, of: FrameRange | None, unit: int, offset: int) -> int | None:
    """The unit in ``to`` whose frame is that of ``unit`` in ``of`` plus ``offset``."""
    if to is None or of is None:
        return None
    frame = of.frame_at(unit) + offset
    return to.index_of(frame) if frame in to else None
