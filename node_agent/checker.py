"""Checks and publishes the units of one attempt, beside the renderer that is still at work.

What belongs here: the second thread of an attempt: verify, ask, wait for the fence, rename, report.  What it
may not know: processes, logs, sockets.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import msgspec

from farm.model.errors import OutputError
from farm.model.outputs import FileFacts
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.states import AttemptKind, FailureClass
from node_agent.desk import REPORT_BYTES, Desk
from node_agent.machine import Held, Phase, Unit
from node_agent.plan import Plan
from node_agent.troubles import Superseded, WorkTrouble

log = logging.getLogger("overcrank.agent")

#: Facts of at most this many files are reported of one unit whose files would not fit a message.
FILES_REPORTED = 1000


class Checker:
    """Verification and publication for one attempt.

    ``run`` is the body of a thread; the other methods belong to the attempt's driver.  Everything both
    touch is guarded by the desk's lock.

    Attributes:
        elapsed_us: Wall time per unit, set by the driver before it hands a unit over.
        warnings: What is worth telling of a unit that gets done.
        ram_mib: Peak memory of the process tree so far.
        suspects: What was wrong with files announced as complete; they are looked at again at the end.
        last: The last unit's report, held back to travel with the closing one.
        published: Final paths of published units, by index, until a preview was made.
    """

    def __init__(self, desk: Desk, held: Held, plan: Plan, note: Callable[[str], None]) -> None:
        self._desk = desk
        self._held = held
        self._plan = plan
        self._note = note
        self._signals = desk.signals(held.attempt)
        self._queue: deque[Unit] = deque()
        self._busy = False
        self._ended = False
        self._over = False
        self._emptied: set[str] = set()
        self._moved: dict[int, int] = {}
        self._in_place = held.lease.kind == AttemptKind.VERIFY
        self.elapsed_us: dict[int, int] = {}
        self.warnings: dict[int, str] = {}
        self.ram_mib = 0
        self.suspects: dict[int, str] = {}
        self.last: list[UnitReport] = []
        self.published: dict[int, tuple[FileFacts, ...]] = {}

    # -- the driver's side (the desk's lock must not be held) --

    def check(self, unit: Unit) -> None:
        """Queues a unit whose files are said to be complete."""
        with self._desk.lock:
            if self._desk.machine.wanted(self._held.attempt, unit.index) and unit.phase in (
                Phase.WAITING,
                Phase.RENDERING,
            ):
                self._desk.machine.move(self._held.attempt, unit.index, Phase.CHECKING)
                self._queue.append(unit)
                self._signals.changed.notify_all()

    def drain(self) -> None:
        """Waits until nothing is being checked any more."""
        with self._desk.lock:
            while (self._queue or self._busy) and not self._ended:
                self._signals.changed.wait()

    def finish(self) -> None:
        """No more units will be handed over: what is done last travels with the closing report."""
        with self._desk.lock:
            self._over = True
            self._signals.poke()

    @property
    def ended(self) -> bool:
        """Whether the thread has left."""
        return self._ended

    def partly_published(self, index: int) -> bool:
        """Whether some, but not all, files of a unit have their final names."""
        return self._moved.get(index, 0) > 0

    # -- the thread --

    def run(self) -> None:
        """Works until all units have an outcome, or the attempt stops."""
        try:
            while True:
                action = self._next()
                if action is None:
                    return
                try:
                    action()
                finally:
                    with self._desk.lock:
                        self._busy = False
                        self._signals.poke()
        except Exception:
            log.exception("event=checker-failed attempt=%s", self._plan.label)
            with self._desk.lock:
                self._desk.machine.stop_one(self._held.attempt, "the agent's checker failed; see its log")
        finally:
            with self._desk.lock:
                self._ended = True
                self._signals.poke()

    def _next(self) -> Callable[[], None] | None:
        with self._desk.lock:
            while True:
                if self._held.stop:
                    return None
                unit = self._ready()
                if unit is not None:
                    self._busy = True
                    return lambda: self._settle_or_publish(unit)
                if self._queue:
                    self._busy = True
                    queued = self._queue.popleft()
                    return lambda: self._check(queued)
                if self._over and not self._held.open:
                    return None
                self._signals.changed.wait()

    def _ready(self) -> Unit | None:
        """A unit that can be ended now; asks for a heartbeat when only the fence is missing."""
        attempt, waits = self._held.attempt, False
        for unit in self._held.units.values():
            if unit.phase is not Phase.READY or unit.dropped:
                continue
            if unit.rejected or self._in_place:
                return unit
            if self._desk.machine.may_publish(attempt, self._desk.now_us()):
                return unit
            waits = True
        if waits:
            self._desk.want_beat()
        return None

    def _check(self, unit: Unit) -> None:
        files = self._plan.files
        assert files is not None
        template, lease = self._plan.shared.template, self._held.lease
        try:
            facts = files.verify(
                self._plan.by_frame[unit.frame],
                lease.specs,
                template.checks,
                template.movie_frames,
                in_place=self._in_place,
            )
        except OutputError as error:
            if self._in_place or lease.kind == AttemptKind.ADOPT:
                self._end(unit, FAILED, FailureClass.OUTPUT, str(error))
                return
            with self._desk.lock:
                self.suspects[unit.index] = str(error)
                self._desk.machine.move(self._held.attempt, unit.index, Phase.RENDERING)
            return
        except WorkTrouble as trouble:
            self._end(unit, FAILED, trouble.failure, trouble.message)
            return
        self._desk.verified(self._held, unit.index, facts, ask=self._held.asks)

    def _settle_or_publish(self, unit: Unit) -> None:
        if unit.rejected:
            self._end(unit, FAILED, FailureClass.OUTPUT, unit.rejected)
        elif self._in_place:
            self._end(unit, DONE)
        else:
            self._publish(unit)

    def _publish(self, unit: Unit) -> None:
        files = self._plan.files
        assert files is not None
        desk, attempt = self._desk, self._held.attempt

        def allowed() -> bool:
            with desk.lock:
                return desk.machine.may_publish(attempt, desk.now_us())

        with desk.lock:
            if not desk.machine.begin_publish(attempt, unit.index, desk.now_us()):
                return
        try:
            left = tuple(name for name in self._held.supersedes if name not in self._emptied)
            if left:
                files.empty(left)
                self._emptied.update(left)
            moved = self._moved.get(unit.index, 0)
            finals = [facts.path for facts in unit.files]
            moved += files.publish(finals[moved:], allowed)
        except Superseded as gone:
            self._note(f"another attempt took over: {gone}")
            self._end(
                unit, FAILED, FailureClass.LOST, "another attempt took its place and emptied its folder"
            )
            return
        except WorkTrouble as trouble:
            self._end(unit, FAILED, trouble.failure, trouble.message)
            return
        self._moved[unit.index] = moved
        if moved < len(finals):
            with desk.lock:
                desk.machine.move(attempt, unit.index, Phase.READY)
            return
        self._end(unit, DONE)

    def _end(self, unit: Unit, outcome: int, failure: str = "", reason: str = "") -> None:
        held, desk = self._held, self._desk
        # A stop may come while files are checked; only a finished rename counts all the same.
        if outcome != DONE and (held.stop or unit.dropped):
            outcome, failure, reason = RELEASED, "", held.stop or unit.dropped
        warning = self.warnings.get(unit.index, "") if outcome == DONE else ""
        report = UnitReport(
            unit.index,
            outcome,
            failure,
            reason,
            self.elapsed_us.get(unit.index, 0),
            unit.files if outcome == DONE else (),
            warning,
            self.ram_mib,
        )
        if outcome == DONE:
            report = _fitting(report)
            self.published[unit.index] = unit.files
            self._note(f"{_unit_words(unit)} is done: {', '.join(file.path for file in unit.files[:4])}")
        else:
            self._note(f"{_unit_words(unit)} is not done: {reason}")
        with desk.lock:
            if not desk.machine.settle(held.attempt, unit.index):
                return
            # The last unit's report travels with the closing one, which is due once its program has
            # ended: it can then say that the program crashed after its work was done.
            hold_back = not held.open
            if hold_back:
                self.last.append(report)
        if not hold_back:
            desk.report(held, (report,))


def _unit_words(unit: Unit) -> str:
    return "the work" if unit.frame is None else f"frame {unit.frame}"


def _fitting(report: UnitReport) -> UnitReport:
    """The report as it is, or with the facts of its first files only when it would not fit a message."""
    if len(report.files) <= FILES_REPORTED or len(msgspec.msgpack.encode(report)) <= REPORT_BYTES:
        return report
    words = f"of {len(report.files)} verified files the first {FILES_REPORTED} are listed"
    return msgspec.structs.replace(
        report,
        files=report.files[:FILES_REPORTED],
        warning=f"{report.warning}; {words}" if report.warning else words,
    )
