"""What the agent holds and what each unit may do next: a pure state machine.

What belongs here: the attempts leased to this agent, the phase of every unit, the publish fence, what a
lease, grant, stop, welcome or heartbeat answer changes.  What it may not know: threads, sockets, files
and the clock; the time comes in as an argument (microseconds of CLOCK_BOOTTIME, which counts on while
the machine is suspended).  ``node_agent.desk`` guards one of these with a lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum

import msgspec

from farm.model.errors import IllegalMove
from farm.model.outputs import FileFacts, PictureSpec
from farm.model.states import AttemptKind
from farm.protocol.agent import GrantMsg, LeaseMsg, StopMsg, VerifiedMsg


class Phase(IntEnum):
    """Where one unit of an attempt stands on this machine."""

    WAITING = 0
    RENDERING = 1
    CHECKING = 2
    #: Verified; the broker must say whether the picture fits the step.
    ASKING = 3
    #: Verified and granted; waits for a fresh heartbeat answer.
    READY = 4
    PUBLISHING = 5
    #: Its outcome is reported.
    SETTLED = 6


_W, _R, _C, _A, _Y, _P, _S = Phase

#: Legal moves; anything else is a bug of this program.
MOVES: dict[Phase, frozenset[Phase]] = {
    _W: frozenset({_R, _C, _S}),
    _R: frozenset({_C, _S}),
    # Back to rendering: a file that was announced is not complete yet; it is looked at again at the end.
    _C: frozenset({_R, _A, _Y, _S}),
    _A: frozenset({_Y, _S}),
    # Ready again: the fence closed between two files of one unit.
    _Y: frozenset({_P, _S}),
    _P: frozenset({_Y, _S}),
    _S: frozenset(),
}


class Unit(msgspec.Struct, gc=False):
    """One unit of a held attempt.

    Attributes:
        index: Index in the step.
        frame: Frame number, None for a single step.
        phase: Where it stands.
        specs: Picture specification per output, once verified.
        files: Facts of its files, once verified.
        rejected: Why the broker refused to have it published, "" if it did not.
        dropped: Why the broker takes it back, "" if it does not.
        wish: Why the broker would like it back if it has not begun, "" if it does not.  Whoever runs the
            program says whether it has (``take_back``): the phase alone cannot tell, since a program that got
            all its frames at once may begin the next one before it says so.
    """

    index: int
    frame: int | None
    phase: Phase = Phase.WAITING
    specs: tuple[PictureSpec | None, ...] = ()
    files: tuple[FileFacts, ...] = ()
    rejected: str = ""
    dropped: str = ""
    wish: str = ""


class Held(msgspec.Struct, gc=False):
    """One attempt leased to this agent.

    Attributes:
        lease: The lease.
        units: By index, in leased order.
        stop: Why it must stop, "" while it may run.
        lost: The broker no longer counts it as this agent's: nothing of it may be published any more.
        foreign: It is of a farm that does not answer any more; this one is told nothing of it.
        fence_us: When the last heartbeat was sent whose answer named this attempt; None before.
        supersedes: Names of attempts' folders to empty before anything is published.
        asked: Units were dropped or wished back since whoever runs the program last looked.
        by_frame: The same units by frame number (None: the first of a single step).
        unwanted: Units dropped that have no outcome yet, by index.
        settled: How many units have an outcome: a chunk of a thousand frames is not looked through for each.
    """

    lease: LeaseMsg
    units: dict[int, Unit]
    stop: str = ""
    lost: bool = False
    foreign: bool = False
    fence_us: int | None = None
    supersedes: tuple[str, ...] = ()
    asked: bool = False
    by_frame: dict[int | None, Unit] = {}
    unwanted: set[int] = set()
    settled: int = 0

    def __post_init__(self) -> None:
        for unit in self.units.values():
            self.by_frame.setdefault(unit.frame, unit)

    @property
    def attempt(self) -> int:
        """Its id."""
        return self.lease.attempt

    @property
    def asks(self) -> bool:
        """Whether every unit must be granted before it is published.

        A second copy always asks: which of the two is published is for the broker to say.
        """
        return self.lease.ask or self.lease.kind == AttemptKind.COPY

    @property
    def open(self) -> bool:
        """Whether any unit has no reported outcome."""
        return self.settled < len(self.units)

    def open_units(self) -> list[Unit]:
        """Units without a reported outcome, in leased order."""
        return [unit for unit in self.units.values() if unit.phase is not Phase.SETTLED]

    def unit_of(self, frame: int | None) -> Unit | None:
        """The unit of a frame number (None: the unit of a single step)."""
        return self.by_frame.get(frame)

    def units_of(self, frames: Sequence[int]) -> list[Unit]:
        """Units without a reported outcome: those of these frames, () = all, in leased order."""
        if not frames or len(frames) >= len(self.units):
            wanted = set(frames)
            return [unit for unit in self.open_units() if not wanted or unit.frame in wanted]
        found = [unit for frame in frames if (unit := self.by_frame.get(frame)) is not None]
        return [unit for unit in found if unit.phase is not Phase.SETTLED]


class Machine:
    """All attempts of one agent.

    Attributes:
        held: Attempts that run here or still have a unit without an outcome.
        leaving: Closed attempts whose closing report this session has not sent yet: the broker must
            read the report before a heartbeat that no longer names them.
        kept: Units whose verified files of a lost attempt still lie in its folder, by attempt.
        draining: Why no new work comes, "" while it may.
        ttl_us: Age of a heartbeat answer after which nothing is published any more.
    """

    def __init__(self, ttl_us: int = 45_000_000) -> None:
        self.held: dict[int, Held] = {}
        self.leaving: set[int] = set()
        self.kept: dict[int, tuple[int, ...]] = {}
        self.draining = ""
        self.ttl_us = ttl_us

    # -- the broker speaks --

    def lease(self, lease: LeaseMsg) -> Held | None:
        """Takes an attempt on; None when it is known already (a repeated message)."""
        if lease.attempt in self.held or lease.attempt in self.leaving or lease.attempt in self.kept:
            return None
        frames: tuple[int | None, ...] = lease.frames or (None,) * len(lease.units)
        held = Held(
            lease,
            {index: Unit(index, frame) for index, frame in zip(lease.units, frames, strict=True)},
            supersedes=lease.supersedes,
        )
        self.held[lease.attempt] = held
        return held

    def grant(self, message: GrantMsg) -> bool:
        """Lets a waiting unit be published, or refuses it; False when nothing waits for it."""
        held = self.held.get(message.attempt)
        unit = held.units.get(message.unit) if held is not None else None
        if held is None or unit is None or unit.phase is not Phase.ASKING or held.stop:
            return False
        unit.rejected = message.reason
        # Whom it takes the place of may be known only now: a second copy that won.
        held.supersedes += tuple(name for name in message.supersedes if name not in held.supersedes)
        self._move(unit, Phase.READY)
        return True

    def stop(self, message: StopMsg) -> bool:
        """Marks an attempt or some of its units as unwanted; False when that changes nothing.

        Units that are being published finish: their rename is one step that cannot be taken back.
        Taking back is a wish, and touches only units not begun.
        """
        held = self.held.get(message.attempt)
        if held is None:
            return False
        if message.take_back:
            return self._wish(held, message)
        if not message.units:
            changed = not held.stop
            held.stop = held.stop or message.reason or "stopped"
            return changed
        changed = False
        for index in message.units:
            unit = held.units.get(index)
            if unit is None or unit.dropped or unit.phase in (Phase.PUBLISHING, Phase.SETTLED):
                continue
            if unit.phase is Phase.READY and unit.rejected:
                continue
            unit.dropped = message.reason or "taken back"
            held.unwanted.add(index)
            changed = held.asked = True
        return changed

    @staticmethod
    def _wish(held: Held, message: StopMsg) -> bool:
        changed = False
        for index in message.units or tuple(held.units):
            unit = held.units.get(index)
            if unit is None or unit.phase is not Phase.WAITING or unit.dropped or unit.wish:
                continue
            unit.wish = message.reason or "taken back"
            changed = held.asked = True
        return changed

    def take_back(self, attempt: int, index: int, *, begun: bool) -> None:
        """Answers the wish for a unit: it is dropped, or it has begun and goes on."""
        held = self.held[attempt]
        unit = held.units[index]
        if not begun and not unit.dropped:
            unit.dropped = unit.wish
            held.unwanted.add(index)
        unit.wish = ""

    def welcome(self, keep: Collection[int], ttl_us: int) -> list[Held]:
        """A session opened; returns the attempts that are no longer this agent's."""
        self.ttl_us = ttl_us
        return self._lose(
            tuple(attempt for attempt in self.held if attempt not in keep),
            "the farm gave this attempt up while there was no contact",
        )

    def answered(self, sent_us: int, listed: Iterable[int], held: Collection[int]) -> list[Held]:
        """A heartbeat was answered.

        Args:
            sent_us: When that heartbeat was sent.
            listed: Attempts it named.
            held: Attempts the answer names.

        Returns:
            Attempts that are lost by this answer.
        """
        gone = []
        for attempt in listed:
            mine = self.held.get(attempt)
            if mine is None:
                continue
            if attempt not in held:
                gone.append(attempt)
            elif not mine.lost and (mine.fence_us is None or sent_us > mine.fence_us):
                mine.fence_us = sent_us
        return self._lose(gone, "the farm no longer counts this attempt as this node's")

    def forget_farm(self, reason: str) -> list[Held]:
        """Another farm answers: everything held belongs to none that can be reached any more."""
        self.leaving.clear()
        self.kept.clear()
        for held in self.held.values():
            held.foreign = True
        return self._lose(tuple(self.held), reason)

    def _lose(self, attempts: Iterable[int], reason: str) -> list[Held]:
        lost = []
        for attempt in attempts:
            held = self.held[attempt]
            if not held.lost:
                held.lost = True
                held.stop = held.stop or reason
                held.fence_us = None
                lost.append(held)
        return lost

    def stop_all(self, reason: str) -> list[Held]:
        """The agent itself ends: everything it holds must stop."""
        stopped = [held for held in self.held.values() if not held.stop]
        for held in stopped:
            held.stop = reason
        return stopped

    def stop_one(self, attempt: int, reason: str) -> None:
        """The agent itself gives an attempt up."""
        held = self.held.get(attempt)
        if held is not None and not held.stop:
            held.stop = reason

    # -- the work speaks --

    def wanted(self, attempt: int, index: int) -> bool:
        """Whether a unit is still to be rendered, checked and published."""
        held = self.held.get(attempt)
        if held is None or held.stop:
            return False
        unit = held.units[index]
        return not unit.dropped and unit.phase is not Phase.SETTLED

    def move(self, attempt: int, index: int, phase: Phase) -> None:
        """Moves a unit on.

        Raises:
            IllegalMove: The table of moves does not allow it.
        """
        if phase is Phase.SETTLED:
            raise IllegalMove("a unit ends by settle()")
        self._move(self.held[attempt].units[index], phase)

    def verified(self, attempt: int, index: int, files: tuple[FileFacts, ...], *, ask: bool) -> None:
        """A unit's files are good: it is ready, or asks first."""
        unit = self.held[attempt].units[index]
        outputs = max((file.output for file in files), default=-1) + 1
        specs: list[PictureSpec | None] = [None] * outputs
        for file in files:
            specs[file.output] = file.spec
        unit.files = files
        unit.specs = tuple(specs)
        self._move(unit, Phase.ASKING if ask else Phase.READY)

    def asking(self) -> list[VerifiedMsg]:
        """What waits for a grant, to be repeated in every new session."""
        return [message for held in self.held.values() for message in self.asking_of(held)]

    @staticmethod
    def asking_of(held: Held) -> list[VerifiedMsg]:
        """What waits for a grant in one attempt."""
        if held.stop:
            return []
        return [
            VerifiedMsg(held.attempt, held.lease.nonce, unit.index, unit.specs)
            for unit in held.units.values()
            if unit.phase is Phase.ASKING and not unit.dropped
        ]

    def may_publish(self, attempt: int, now_us: int) -> bool:
        """The fence: whether a file of this attempt may move to its final name at this moment.

        True only while an answer naming the attempt as held came to a heartbeat sent less than the
        lease's time to live ago.  The age counts from the sending, so a slow answer cannot stretch it.
        """
        held = self.held.get(attempt)
        if held is None or held.lost or held.fence_us is None:
            return False
        return 0 <= now_us - held.fence_us < self.ttl_us

    def begin_publish(self, attempt: int, index: int, now_us: int) -> bool:
        """Moves a ready unit to publishing if it is wanted and the fence is open."""
        if not self.wanted(attempt, index) or not self.may_publish(attempt, now_us):
            return False
        unit = self.held[attempt].units[index]
        if unit.phase is not Phase.READY or unit.rejected:
            return False
        self._move(unit, Phase.PUBLISHING)
        return True

    def settle(self, attempt: int, index: int) -> bool:
        """A unit's outcome is about to be reported; False when one was reported before."""
        held = self.held.get(attempt)
        if held is None or held.units[index].phase is Phase.SETTLED:
            return False
        self._move(held.units[index], Phase.SETTLED)
        held.settled += 1
        held.unwanted.discard(index)
        return True

    def close(self, attempt: int, kept: tuple[int, ...] = ()) -> None:
        """Nothing of the attempt runs any more and its last report is written."""
        held = self.held[attempt]
        if held.open:
            raise IllegalMove(f"attempt {attempt} still has units without an outcome")
        del self.held[attempt]
        if held.foreign:
            return
        self.leaving.add(attempt)
        if kept:
            self.kept[attempt] = kept

    def report_sent(self, attempt: int) -> None:
        """The closing report is on the wire: heartbeats need not name the attempt any more."""
        self.leaving.discard(attempt)

    def named(self) -> tuple[int, ...]:
        """Attempts that a heartbeat names: all held, and those whose closing report is not sent yet."""
        return (*self.running(), *sorted(self.leaving))

    def running(self) -> tuple[int, ...]:
        """Attempts held for the farm that answers, as a hello names them."""
        return tuple(attempt for attempt, held in self.held.items() if not held.foreign)

    @staticmethod
    def _move(unit: Unit, phase: Phase) -> None:
        if phase not in MOVES[unit.phase]:
            raise IllegalMove(f"a unit that is {unit.phase.name.lower()} cannot be {phase.name.lower()}")
        unit.phase = phase
