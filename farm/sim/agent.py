"""A synthetic agent: what a node does with its leases in virtual time, and what it tells the broker.

What belongs here: attempts held, the frame being rendered, what waits for a grant, the outbox, and the ways
all of it is lost.  What may not: what the core believes.  It keeps the rules the real agent keeps: one frame
after another behind one start-up, a report per frame, ``closed`` once nothing of the attempt runs, nothing
published that was not held by a recent answer, results kept while the broker is away.

Long because what is lost in each way must be read beside how it was made.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from farm.core.events import ByeEvent, HelloEvent, ReportEvent, VerifiedEvent
from farm.core.outcome import LeaseCommand
from farm.model.outputs import FileFacts, PictureSpec
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.states import AttemptKind, FailureClass

if TYPE_CHECKING:
    from farm.sim.engine import Simulation
    from farm.sim.workload import PlannedNode

#: What all simulated pictures look like.
PICTURE = PictureSpec(1920, 1080, ("R", "G", "B"), ("half",) * 3)
#: Seconds it takes to look at a file that exists.
LOOK_US = 100_000
_VERIFY, _ADOPT = AttemptKind.VERIFY.value, AttemptKind.ADOPT.value


class Held:
    """An attempt on an agent.

    Attributes:
        todo: Units not started, in order, the next one last.
        unit: The one being rendered, -1 for none; ``began_us`` when its rendering began.
        started_us: When the process that renders now was started.
        asking: Units that wait for their grant: what they took.
        ready: Units that are verified and may not be published while the broker is away: what they took.
        ticket: Grows with every change of plan; an alarm with an older one means nothing.
    """

    __slots__ = (
        "asking",
        "began_us",
        "lease",
        "ready",
        "started_us",
        "ticket",
        "todo",
        "unit",
        "warm",
    )

    def __init__(self, lease: LeaseCommand) -> None:
        self.lease = lease
        self.todo = list(reversed(lease.units))
        self.unit = -1
        self.began_us = 0
        self.started_us = 0
        self.warm = False
        self.asking: dict[int, int] = {}
        self.ready: dict[int, int] = {}
        self.ticket = 0

    @property
    def over(self) -> bool:
        """Whether nothing of it is left to do or to say."""
        return self.unit < 0 and not (self.todo or self.asking or self.ready)


class Agent:
    """One agent.

    Attributes:
        plan: What it is.
        node_id: What the broker calls it, 0 before its first hello.
        alive: Its machine runs.
        cut: How many partitions keep it from the broker.
        greeted: It has an open session.
        leaving: It was told that its machine will be taken away.
        factor: What its speed is multiplied by (slow machines).
    """

    __slots__ = (
        "alive",
        "answered_us",
        "cut",
        "factor",
        "greeted",
        "held",
        "kept",
        "leaving",
        "node_id",
        "outbox",
        "plan",
        "sim",
        "trouble",
    )

    def __init__(self, sim: Simulation, plan: PlannedNode, trouble: random.Random) -> None:
        self.sim = sim
        self.plan = plan
        self.trouble = trouble
        self.node_id = 0
        self.alive = False
        self.cut = 0
        self.greeted = False
        self.leaving = False
        self.factor = 1.0
        self.answered_us = 0
        self.held: dict[int, Held] = {}
        self.outbox: list[tuple[LeaseCommand, tuple[UnitReport, ...], bool, tuple[int, ...]]] = []
        #: Attempt that was given up -> unit -> what it took: files kept in case they are adopted.
        self.kept: dict[int, dict[int, int]] = {}

    @property
    def reachable(self) -> bool:
        """Whether a message between it and the broker arrives."""
        return self.alive and not self.cut and self.sim.serving

    @property
    def speed(self) -> float:
        """Its speed now."""
        return self.plan.speed * self.factor

    # -- sessions --

    def greet(self) -> None:
        """Says hello, tells what it kept, and goes on as the broker answers."""
        if not self.reachable:
            return
        plan = self.plan
        pending = tuple({lease.attempt: None for lease, *_ in self.outbox})
        out = self.sim.handle(
            HelloEvent(
                self.sim.now_us,
                plan.key,
                plan.facts,
                plan.pool,
                plan.site,
                plan.rate_nano_h,
                tuple(self.held),
                pending,
            )
        )
        self.sim.know(self, out.reply.node_id)
        self.greeted = True
        self.answered_us = self.sim.now_us
        for attempt in [attempt for attempt in self.held if attempt not in out.reply.keep]:
            self.give_up(attempt)
        outbox, self.outbox = self.outbox, []
        for lease, units, closed, kept in outbox:
            self._send(lease, units, closed, kept)
        for held in list(self.held.values()):
            for unit in held.asking:
                self._ask(held, unit)
            ready, held.ready = held.ready, {}
            for unit, took_us in ready.items():
                self._settle(held, self._done(held, unit, took_us))
        if self.leaving:
            self.sim.drain(self)

    def beat(self, held: tuple[int, ...] | None) -> None:
        """The broker answered a heartbeat with what it thinks this agent holds; None = say hello."""
        if held is None:
            self.greeted = False
            self.greet()
            return
        self.answered_us = self.sim.now_us
        if len(self.held) > len(held) or any(attempt not in held for attempt in self.held):
            for attempt in [attempt for attempt in self.held if attempt not in held]:
                self.give_up(attempt)

    # -- what the broker says --

    def take(self, lease: LeaseCommand) -> None:
        """Begins an attempt; a lease that does not arrive is found missing at the next hello."""
        if not self.reachable or not self.greeted or lease.attempt in self.held:
            return
        if self.leaving:
            units = tuple(
                UnitReport(unit, RELEASED, FailureClass.PREEMPTED.value, "the machine goes away")
                for unit in lease.units
            )
            self._report(lease, units, closed=True)
            return
        held = self.held[lease.attempt] = Held(lease)
        self.sim.meters.begin(self, lease)
        self._start(held)

    def grant(self, attempt: int, unit: int, reason: str) -> None:
        """A waiting unit may be published, or is refused."""
        held = self.held.get(attempt)
        if held is None or unit not in held.asking:
            return
        took_us = held.asking.pop(unit)
        if reason:
            self._settle(held, UnitReport(unit, FAILED, FailureClass.OUTPUT.value, reason, took_us))
        else:
            self._settle(held, self._done(held, unit, took_us))

    def stop(self, attempt: int, units: tuple[int, ...], take_back: bool) -> None:
        """Stops an attempt, or drops some of its units; ``take_back`` asks only for those not started."""
        held = self.held.get(attempt)
        if held is None or not self.reachable:
            return
        named = set(units) if units else {*held.todo, held.unit, *held.asking, *held.ready}
        dropped = [unit for unit in reversed(held.todo) if unit in named]
        held.todo = [unit for unit in held.todo if unit not in named]
        if not take_back:
            for waiting in (held.asking, held.ready):
                for unit in [unit for unit in waiting if unit in named]:
                    self.sim.meters.wasted(held.lease, waiting.pop(unit))
                    dropped.append(unit)
            if held.unit >= 0 and held.unit in named:
                dropped.append(held.unit)
                self._kill(held)
                if held.todo:
                    self._start(held)
        reports = tuple(UnitReport(unit, RELEASED, "", "stopped") for unit in dropped)
        self._finish(held, reports)

    def discard(self, attempt: int) -> None:
        """Deletes kept files."""
        for took_us in self.kept.pop(attempt, {}).values():
            self.sim.meters.thrown_us += took_us

    # -- rendering --

    def _start(self, held: Held) -> None:
        """Starts the process that renders what is to do."""
        sim, lease = self.sim, held.lease
        held.started_us = sim.now_us
        held.warm = lease.kind in (_VERIFY, _ADOPT)
        startup_us = 0
        if not held.warm:
            startup_us = int((self.plan.startup_s + sim.times(lease.step).startup_s / self.speed) * 1e6)
        self._next(held, sim.now_us + startup_us)

    def _next(self, held: Held, begin_us: int) -> None:
        held.ticket += 1
        if not held.todo:
            held.unit = -1
            return
        held.unit = unit = held.todo.pop()
        held.began_us = begin_us
        if held.lease.kind in (_VERIFY, _ADOPT):
            took_us = LOOK_US
        else:
            took_us = max(1, int(self.sim.times(held.lease.step).frame_s[unit] / self.speed * 1e6))
        self.sim.at(begin_us + took_us, self._frame_over, held, held.ticket)

    def _frame_over(self, held: Held, ticket: int) -> None:
        if ticket != held.ticket:
            return
        sim, lease, unit = self.sim, held.lease, held.unit
        now_us = sim.now_us
        took_us = now_us - held.began_us
        if not held.warm:
            held.warm = True
            sim.meters.startup(lease, held.began_us - held.started_us)
        self._next(held, now_us)
        if lease.kind == _VERIFY:
            there = (lease.step.id, unit) in sim.published
            what = (DONE, "", "") if there else (FAILED, FailureClass.OUTPUT.value, "there is no such file")
            self._settle(held, UnitReport(unit, *what, took_us, self._files(held) if there else ()))
        elif lease.kind == _ADOPT:
            self._adopt(held, unit, took_us)
        elif sim.frame_failure and self.trouble.random() < sim.frame_failure:
            failure = FailureClass.RENDERER.value
            self._settle(held, UnitReport(unit, FAILED, failure, "the renderer crashed", took_us))
        elif lease.ask:
            held.asking[unit] = took_us
            self._ask(held, unit)
        elif not self.reachable and now_us - self.answered_us >= sim.lease_ttl_us:
            held.ready[unit] = took_us
        else:
            self._settle(held, self._done(held, unit, took_us))

    def _adopt(self, held: Held, unit: int, took_us: int) -> None:
        found = None
        for attempt, files in self.kept.items():
            if unit in files and self.sim.step_of.get(attempt) == held.lease.step.id:
                found = files.pop(unit)
                break
        if found is None:
            failure = FailureClass.OUTPUT.value
            self._settle(held, UnitReport(unit, FAILED, failure, "the kept file is gone", took_us))
        else:
            self._settle(held, self._done(held, unit, found))

    def _ask(self, held: Held, unit: int) -> None:
        if self.reachable and self.greeted:
            lease = held.lease
            specs = tuple(PICTURE for _ in lease.step.spec.outputs)
            self.sim.handle(
                VerifiedEvent(self.sim.now_us, self.node_id, lease.attempt, lease.nonce, unit, specs)
            )

    def _files(self, held: Held) -> tuple[FileFacts, ...]:
        outputs = held.lease.step.spec.outputs
        return tuple(
            FileFacts(output.pattern, 1, "00", index, None if output.kind == "movie" else PICTURE)
            for index, output in enumerate(outputs)
        )

    def _done(self, held: Held, unit: int, took_us: int) -> UnitReport:
        files = self._files(held) if held.lease.step.spec.outputs else ()
        return UnitReport(unit, DONE, "", "", took_us, files)

    def _kill(self, held: Held) -> None:
        """Ends the running process: what it began is thrown away."""
        now_us = self.sim.now_us
        if held.unit >= 0:
            if not held.warm:
                begun_us = min(now_us, held.began_us)
                self.sim.meters.startup(held.lease, begun_us - held.started_us)
            self.sim.meters.wasted(held.lease, max(0, now_us - held.began_us))
        held.unit = -1
        held.ticket += 1

    # -- results --

    def _settle(self, held: Held, report: UnitReport) -> None:
        self._finish(held, (report,))

    def _finish(self, held: Held, reports: tuple[UnitReport, ...]) -> None:
        over = held.over
        if over:
            self._drop(held)
        if reports or over:
            self._report(held.lease, reports, closed=over)

    def _drop(self, held: Held) -> None:
        del self.held[held.lease.attempt]
        self.sim.meters.end(self, held.lease)

    def _report(
        self, lease: LeaseCommand, units: tuple[UnitReport, ...], *, closed: bool, kept: tuple[int, ...] = ()
    ) -> None:
        if self.reachable and self.greeted:
            self._send(lease, units, closed, kept)
        else:
            self.outbox.append((lease, units, closed, kept))

    def _send(
        self, lease: LeaseCommand, units: tuple[UnitReport, ...], closed: bool, kept: tuple[int, ...]
    ) -> None:
        event = ReportEvent(self.sim.now_us, self.node_id, lease.attempt, lease.nonce, units, closed, kept)
        self.sim.report(lease, event)

    # -- losses --

    def give_up(self, attempt: int) -> None:
        """The broker has given this attempt to others: it is killed, finished files are offered."""
        held = self.held[attempt]
        self._kill(held)
        kept = held.asking | held.ready
        units = tuple(
            UnitReport(unit, RELEASED, FailureClass.LOST.value, "kept" if unit in kept else "stopped")
            for unit in (*kept, *reversed(held.todo))
        )
        held.todo.clear()
        if kept:
            self.kept[attempt] = kept
        self._drop(held)
        self._report(held.lease, units, closed=True, kept=tuple(kept))

    def crash(self) -> None:
        """The machine dies: what it was rendering is gone, its outbox is on its disk."""
        for held in list(self.held.values()):
            unsettled = [*held.asking, *held.ready, *reversed(held.todo)]
            if held.unit >= 0:
                unsettled.append(held.unit)
            for took_us in (*held.asking.values(), *held.ready.values()):
                self.sim.meters.wasted(held.lease, took_us)
            self._kill(held)
            self._drop(held)
            lost = tuple(
                UnitReport(unit, RELEASED, FailureClass.LOST.value, "the machine died") for unit in unsettled
            )
            self.outbox.append((held.lease, lost, True, ()))
        for files in self.kept.values():
            self.sim.meters.thrown_us += sum(files.values())
        self.kept.clear()
        self.alive = self.greeted = self.leaving = False

    def prepare_to_leave(self, gone_us: int) -> None:
        """The machine will be taken away: finish what can be, give the rest back."""
        self.leaving = True
        for held in list(self.held.values()):
            dropped = list(reversed(held.todo))
            held.todo.clear()
            if held.unit >= 0 and self._ends_us(held) > gone_us:
                dropped.append(held.unit)
                self._kill(held)
            reason = FailureClass.PREEMPTED.value
            self._finish(
                held, tuple(UnitReport(unit, RELEASED, reason, "the machine goes away") for unit in dropped)
            )

    def _ends_us(self, held: Held) -> int:
        if held.lease.kind in (_VERIFY, _ADOPT):
            return held.began_us + LOOK_US
        return held.began_us + int(self.sim.times(held.lease.step).frame_s[held.unit] / self.speed * 1e6)

    def leave(self) -> None:
        """The machine is taken away in order, as far as there was time."""
        if self.reachable and self.greeted and not self.held:
            self.sim.handle(ByeEvent(self.sim.now_us, self.node_id, "the machine was taken away"))
        self.crash()
