"""Drives a core with a simulated farm and checks every promise after every event.

What belongs here: which operations there are and how likely each is, and how a history comes to its end.
What agents do is in ``core_lines`` and ``core_work``, what people do in ``core_people``, the core with its
broker in ``core_stage``; the judge is ``core_truth``.  What it may not know: who drives it; hypothesis and
the long runner both do.
"""

from __future__ import annotations

import random

from farm.core.checkpoint import restore_shelved
from farm.core.events import ActEvent, CheckpointEvent, NodeActEvent, TickEvent
from farm.core.rows import ShelfRow
from farm.core.state import Step
from farm.model.states import UnitState
from tests.support.core_account import must
from tests.support.core_needs import verdicts
from tests.support.core_people import People
from tests.support.core_work import Work

#: Operation and how likely it is.
OPERATIONS: dict[str, int] = {
    "work": 40,
    "send_reports": 20,
    "deliver": 10,
    "advance": 14,
    "beat": 6,
    "submit": 5,
    "act": 12,
    "edit": 6,
    "policy": 1,
    "echo": 4,
    "hello": 3,
    "cut": 2,
    "crash": 1,
    "silence": 2,
    "stall": 2,
    "linger": 5,
    "bye": 1,
    "node_act": 2,
    "checkpoint": 2,
    "restart": 1,
    "shelve": 2,
    "delete": 1,
}


class Driver(Work, People):
    """A farm under test, with agents who work on it and people who use it."""

    def step(self, rng: random.Random) -> None:
        """One random operation, likely ones more often; placing follows as in the broker's loop."""
        name = rng.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        getattr(self, name)(rng)
        if rng.random() < 0.7:
            self.dispatch(rng)
        if rng.random() < 0.5:
            for agent in self.agents:
                self._deliver(agent)

    def shelve(self, rng: random.Random) -> None:
        """A while passes with heartbeats alone; then a checkpoint puts what is at rest into the archive."""
        jobs = [job.id for job in self.core.farm.jobs.values() if job.open_units]
        if jobs and rng.random() < 0.5:
            self.handle(ActEvent(self.now_us, "cancel", rng.choice(jobs), "", "", "", "", "ann"))
        self.now_us += rng.choice((10_000_000, 40_000_000))
        for agent in self.agents:
            if agent.session and not agent.muted:
                self._beat(agent)
        before = set(self.core.farm.jobs)
        out = self.handle(CheckpointEvent(self.now_us))
        assert out is not None
        gone = {row.job_id for row in out.rows if isinstance(row, ShelfRow)}
        must(set(self.core.farm.jobs) == before - gone, "other jobs left memory than rows tell of")
        for number in gone:
            stored = self.store.shelved_job(number)
            assert stored is not None
            shown = restore_shelved(self.core.farm, stored)
            for step in shown.steps.values():
                must(bytes(step.state) == self.truth.maps[step.id], f"{step.address} is not as it was")
        self.truth.seen["shelved"] += len(gone)

    # -- endings --

    def finish(self, rng: random.Random) -> None:
        """From here on all cooperate: every unit that nobody gave up must get done."""
        self.cooperative = True
        for agent in self.agents:
            agent.muted = False
        for _ in range(400):
            for agent in self.agents:
                if not agent.session:
                    self._hello(agent)
            self._mend(rng)
            self.now_us += 5_000_000
            self.dispatch(rng)
            for agent in self.agents:
                self._deliver(agent)
                self._beat(agent)
                for held in list(agent.held.values()):
                    for _ in range(3):
                        for unit in held.units:
                            self._work(agent, held, unit, rng)
                        self._deliver(agent)
                    agent.report(held, split=False)
                for report in agent.outbox:
                    self.handle(self._report_event(agent, report))
                agent.outbox.clear()
            self.handle(TickEvent(self.now_us))
            if (
                not any(self._open(step) for step in self.core.farm.steps.values())
                and not self.core.farm.verify
                and not self.core.farm.attempts  # a second copy that is not needed is told to stop
            ):
                break
        stuck = [step.address for step in self.core.farm.steps.values() if self._open(step)]
        must(not stuck, f"these never came to rest: {stuck}")
        must(not self.core.farm.attempts, f"attempts were left: {self.core.farm.attempts}")
        must(not self.core.farm.verify, f"requests were left: {self.core.farm.verify}")
        self.restored()

    def _mend(self, rng: random.Random) -> None:
        for node in list(self.core.farm.nodes.values()):
            if not node.enabled and not node.forgotten:
                self.handle(NodeActEvent(self.now_us, "node-enable", node.id, "", "wim"))
        for job in list(self.core.farm.jobs.values()):
            if job.paused and job.open_units:
                self.handle(ActEvent(self.now_us, "resume", job.id, "", "", "", "", "wim"))

    def _open(self, step: Step) -> bool:
        """Whether any unit of a step still has to move."""
        if step.counts[UnitState.QUEUED] or step.counts[UnitState.RUNNING]:
            return True
        if not step.counts[UnitState.BLOCKED]:
            return False
        maps = {one.id: bytes(one.state) for one in self.core.farm.steps.values()}
        blocked = [unit for unit, state in enumerate(step.state) if state == UnitState.BLOCKED]
        return any(
            all(word == "met" for word in verdicts(self.core.farm, step, unit, maps)) for unit in blocked
        )
