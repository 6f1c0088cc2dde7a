"""A plain farm to compare with: jobs in order of submission, fixed chunks, nothing clever at the tail.

What belongs here: list scheduling over the very nodes, start-ups, frame times and outages of the simulated
    farm.
What may not: the core.  It is what farms without measured chunk sizes do: a free node takes the next chunk of
the first step in order that fits; a chunk whose machine dies is found missing after the time a lost node
takes and done again as a whole.  The network is never cut and frames never fail here, which favours it.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

import msgspec

from farm.sim.bounds import able_nodes
from farm.sim.faults import NEVER_US, Outage, outages, slow_factors
from farm.sim.scenario import Scenario
from farm.sim.workload import PlannedJob, PlannedNode


class FifoResult(msgspec.Struct, frozen=True):
    """What the plain farm took.

    Attributes:
        makespan_s: From the first arrival to the last frame; null when not all was done by the end.
        chunks: Chunks begun.
        frames_done, frames_left: Frames.
        startup_s, thrown_s: Seconds of attempts that went into start-ups and into what was lost.
    """

    makespan_s: float | None
    chunks: int
    frames_done: int
    frames_left: int
    startup_s: float
    thrown_s: float


class _Step:
    """A step in the queue; ``back`` holds chunks that were lost."""

    def __init__(self, job: PlannedJob, index: int, able: frozenset[int], chunk: int) -> None:
        spec = job.spec.steps[index]
        self.spec = spec
        self.times = job.steps[index]
        self.whole = job.whole[index]
        self.able = able
        units = len(self.times.frame_s)
        size = spec.chunk if isinstance(spec.chunk, int) else chunk
        self.chunks = [range(at, min(at + size, units)) for at in range(0, units, size)]
        self.chunks.reverse()
        self.left = units
        self.waiters: list[_Step] = []
        self.unmet = 0


class _Node:
    def __init__(self, plan: PlannedNode) -> None:
        total = plan.facts.total
        self.plan = plan
        self.cores, self.ram_mib, self.gpus = total.cores, total.ram_mib, total.gpus
        self.alive = False
        self.factor = 1.0
        self.running: dict[int, tuple[_Step, range, float]] = {}


class Fifo:
    """One run."""

    def __init__(
        self, scenario: Scenario, seed: int, nodes: list[PlannedNode], jobs: list[PlannedJob]
    ) -> None:
        self._scenario, self._seed = scenario, seed
        self._nodes = [_Node(plan) for plan in nodes]
        self._jobs = jobs
        self._able = able_nodes(jobs, nodes)
        self._heap: list[tuple[int, int, str, tuple[Any, ...]]] = []
        self._order = 0
        self._now_us = 0
        self._queue: list[_Step] = []
        self._number = 0
        self._chunks = self._done = 0
        self._startup_s = self._thrown_s = 0.0
        self._last_us = 0

    def _at(self, at_us: int, what: str, *args: Any) -> None:
        self._order += 1
        heappush(self._heap, (at_us, self._order, what, args))

    def run(self) -> FifoResult:
        """Runs to the end."""
        total = sum(len(step.frame_s) for job in self._jobs for step in job.steps)
        end_us = int(self._scenario.end_s * 1e6)
        for job in self._jobs:
            self._at(job.at_us, "submit", job)
        for node in self._nodes:
            self._at(node.plan.join_us, "up", node, outages(self._scenario.faults, self._seed, node.plan))
            for from_us, factor in slow_factors(self._scenario.faults, self._seed, node.plan):
                self._at(from_us, "slow", node, factor)
        while self._heap and self._done < total:
            at_us, _, what, args = heappop(self._heap)
            if at_us > end_us:
                break
            self._now_us = at_us
            getattr(self, f"_on_{what}")(*args)
        first_us = min((job.at_us for job in self._jobs), default=0)
        done = self._done == total
        return FifoResult(
            round((self._last_us - first_us) / 1e6, 6) if done else None,
            self._chunks,
            self._done,
            total - self._done,
            round(self._startup_s, 6),
            round(self._thrown_s, 6),
        )

    # -- events --

    def _on_submit(self, job: PlannedJob) -> None:
        by_name: dict[str, _Step] = {}
        for index, spec in enumerate(job.spec.steps):
            step = _Step(job, index, self._able[id(job), index], self._scenario.compare.chunk)
            for need in spec.needs():
                other = by_name.get(need.step)
                if other is not None and other.left:
                    other.waiters.append(step)
                    step.unmet += 1
            by_name[spec.name] = step
            self._queue.append(step)
        self._fill_all()

    def _on_up(self, node: _Node, rest: Iterator[Outage]) -> None:
        node.alive = True
        outage = next(rest, None)
        if outage is not None:
            self._at(outage.down_us, "down", node)
            if outage.up_us < NEVER_US:
                self._at(outage.up_us, "up", node, rest)
        self._fill(node)

    def _on_down(self, node: _Node) -> None:
        node.alive = False
        lost_us = self._now_us + int(self._scenario.farm.lost_s * 1e6)
        for number, (step, chunk, began_s) in list(node.running.items()):
            self._free(node, number)
            self._thrown_s += self._now_us / 1e6 - began_s
            self._at(lost_us, "lost", step, chunk)

    def _on_slow(self, node: _Node, factor: float) -> None:
        node.factor *= factor

    def _on_lost(self, step: _Step, chunk: range) -> None:
        step.chunks.append(chunk)
        if step not in self._queue:
            self._queue.insert(0, step)
        self._fill_all()

    def _on_over(self, node: _Node, number: int) -> None:
        if number not in node.running:
            return
        step, chunk, _ = self._free(node, number)
        self._done += len(chunk)
        self._last_us = self._now_us
        step.left -= len(chunk)
        if not step.left:
            for waiter in step.waiters:
                waiter.unmet -= 1
            if step.waiters:
                self._fill_all()
        self._fill(node)

    # -- placing --

    def _free(self, node: _Node, number: int) -> tuple[_Step, range, float]:
        entry = node.running.pop(number)
        need, total = entry[0].spec.resources, node.plan.facts.total
        if entry[0].whole:
            node.cores, node.ram_mib, node.gpus = total.cores, total.ram_mib, total.gpus
        else:
            node.cores += need.cores
            node.ram_mib += need.ram_mib
            node.gpus += need.gpus
        return entry

    def _fill_all(self) -> None:
        for node in self._nodes:
            if not self._queue:
                return
            self._fill(node)

    def _fill(self, node: _Node) -> None:
        while node.alive and node.cores > 0 and (step := self._first(node)) is not None:
            self._start(node, step)

    def _first(self, node: _Node) -> _Step | None:
        queue = self._queue
        while queue and not queue[0].chunks:
            queue.pop(0)
        for step in queue:
            if not step.chunks or step.unmet or node.plan.index not in step.able:
                continue
            need = step.spec.resources
            if step.whole and node.running:
                continue
            if need.cores <= node.cores and need.ram_mib <= node.ram_mib and need.gpus <= node.gpus:
                return step
        return None

    def _start(self, node: _Node, step: _Step) -> None:
        chunk = step.chunks.pop()
        need, plan = step.spec.resources, node.plan
        if step.whole:
            node.cores = node.ram_mib = node.gpus = 0
        else:
            node.cores -= need.cores
            node.ram_mib -= need.ram_mib
            node.gpus -= need.gpus
        speed = plan.speed * node.factor
        startup_s = plan.startup_s + step.times.startup_s / speed
        took_s = startup_s + sum(step.times.frame_s[chunk.start : chunk.stop]) / speed
        self._number += 1
        self._chunks += 1
        self._startup_s += startup_s
        node.running[self._number] = (step, chunk, self._now_us / 1e6)
        self._at(self._now_us + max(1, int(took_s * 1e6)), "over", node, self._number)
