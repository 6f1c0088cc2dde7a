"""What a run is measured by while it runs: use, waste, waiting, shares.

What belongs here: sums that need every lease and result as it comes.  What may not: how they are told
(``farm.sim.report``).  Seconds are of attempts unless a name says otherwise; waste and start-ups are what
agents did, not what the core believes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.core.apply import QUEUED, units_of
from farm.core.outcome import LeaseCommand
from farm.core.rows import BulkRow, ResultRow, StepRow
from farm.core.state import Farm, Job, Step
from farm.model.resources import dominant_share_ppm
from farm.model.states import AttemptKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farm.core.rows import AnyRow
    from farm.sim.agent import Agent

_RENDER = AttemptKind.RENDER.value


class Shares:
    """Resource-seconds of some parties, and of them those while all parties had work waiting.

    What an attempt holds is its dominant share of its node, times the node's part of the farm's cores, which
    is what the scheduler charges.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.total = dict.fromkeys(names, 0.0)
        self.contended = dict.fromkeys(names, 0.0)
        self.rate = dict.fromkeys(names, 0.0)
        self.window_us = 0
        self.all_wait = False
        self._since_us = 0
        self._seen = dict.fromkeys(names, 0)

    def change(self, name: str, by: float, now_us: int) -> None:
        """A party holds so much more (or less) from now on."""
        self._settle(name, now_us)
        rate = self.rate[name] + by
        self.rate[name] = rate if abs(rate) > 1e-12 else 0.0

    def _settle(self, name: str, now_us: int) -> None:
        took = self.rate[name] * (now_us - self._seen[name]) / 1e6
        self._seen[name] = now_us
        self.total[name] += took
        if self.all_wait:
            self.contended[name] += took

    def contention(self, all_wait: bool, now_us: int) -> None:
        """All parties have work waiting from now on, or no longer."""
        if all_wait == self.all_wait:
            return
        for name in self.names:
            self._settle(name, now_us)
        if self.all_wait:
            self.window_us += now_us - self._since_us
        self.all_wait, self._since_us = all_wait, now_us

    def finish(self, now_us: int) -> None:
        """Ends the measurement."""
        self.contention(False, now_us)
        for name in self.names:
            self._settle(name, now_us)


class Backlog:
    """Whether a party has a frame that waits; remembers one step that has, since asking all is dear."""

    __slots__ = ("_at", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._at = 0

    def waits(self) -> bool:
        """Whether any of the party's steps has a queued unit that may be leased."""
        steps = self.steps
        if self._at < len(steps) and steps[self._at].leasable():
            return True
        for index, step in enumerate(steps):
            if step.leasable():
                self._at = index
                return True
        self._at = 0
        # Steps whose units are all settled never come back in a simulation, but for lost frames.
        self.steps = [step for step in steps if sum(step.counts[:3])]
        return False


def unit_address(step: Step, unit: int) -> str:
    """``J12/beauty/17``."""
    frame = step.frame_of(unit)
    return step.address if frame is None else f"{step.address}/{frame}"


class Waits:
    """How long frames waited for a lease, and steps with waiting frames had nothing running."""

    def __init__(self, largest: dict[str, int]) -> None:
        self._largest = largest
        self.queued_us: dict[int, int] = {}
        self.requeued_us: dict[tuple[int, int], int] = {}
        self.idle_us: dict[int, int] = {}
        #: Longest wait in microseconds and whose: of a frame, a step, a step that asks for much.
        self.frame: tuple[int, str] = (0, "")
        self.step: tuple[int, str] = (0, "")
        self.large: tuple[int, str] = (0, "")
        self.any_large = False

    def is_large(self, step: Step) -> bool:
        """Whether an attempt takes at least half of the farm's largest node."""
        need, largest = step.resources, self._largest
        if step.whole:
            return True
        asked = {"cores": need.cores, "ram_mib": need.ram_mib, "gpus": need.gpus}
        return any(largest[name] > 1 and asked[name] * 2 >= largest[name] for name in asked)

    def queued(self, step: Step, units: tuple[int, ...] | None, now_us: int) -> None:
        """Units (all) began to wait."""
        if units is None:
            self.queued_us[step.id] = now_us
        else:
            for unit in units:
                self.requeued_us[step.id, unit] = now_us
        if not step.attempts:
            self.idle_us.setdefault(step.id, now_us)

    def leased(self, step: Step, units: tuple[int, ...], now_us: int) -> None:
        """Units wait no longer."""
        begun_us = self.queued_us.get(step.id, now_us)
        for unit in units:
            since_us = self.requeued_us.pop((step.id, unit), begun_us) if self.requeued_us else begun_us
            if now_us - since_us > self.frame[0]:
                self.frame = (now_us - since_us, unit_address(step, unit))
        self.served(step, now_us)

    def served(self, step: Step, now_us: int) -> None:
        """Something of the step runs (or the run is over)."""
        idle_us = self.idle_us.pop(step.id, None)
        if idle_us is None:
            return
        wait = (now_us - idle_us, step.address)
        if wait[0] > self.step[0]:
            self.step = wait
        if self.is_large(step) and wait[0] > self.large[0]:
            self.large = wait

    def rest(self, step: Step, now_us: int) -> None:
        """An attempt of the step ended."""
        if not step.attempts and step.counts[QUEUED]:
            self.idle_us.setdefault(step.id, now_us)

    def finish(self, farm: Farm, now_us: int) -> None:
        """What waits still has waited until now."""
        for step in farm.steps.values():
            if step.counts[QUEUED]:
                unit = step.state.find(QUEUED)
                since_us = self.requeued_us.get((step.id, unit), self.queued_us.get(step.id, now_us))
                if now_us - since_us > self.frame[0]:
                    self.frame = (now_us - since_us, unit_address(step, unit))
                if not step.attempts:
                    self.served(step, now_us)


class Meters:
    """All sums of a run."""

    def __init__(self, cores: int, largest: dict[str, int], projects: dict[str, set[str]]) -> None:
        """Makes empty sums.

        Args:
            cores: The farm's cores.
            largest: Cores, memory and GPUs of its largest node.
            projects: Users by project, of all jobs to come.
        """
        self._cores = cores
        self.now_us = 0
        self.chunks = 0
        self.leases: dict[str, int] = {}
        self.frames_done = 0
        self.useful_us = 0
        self.startup_us = 0
        self.thrown_us = 0
        self.useful_core_us = 0
        self.busy_core_us = 0
        self.last_done_us = 0
        self.waits = Waits(largest)
        self.projects = Shares(sorted(projects))
        self.users = {project: Shares(sorted(users)) for project, users in sorted(projects.items())}
        self._project_backlog = {project: Backlog() for project in self.projects.names}
        self._user_backlog = {
            (project, user): Backlog() for project, users in projects.items() for user in users
        }
        self._began: dict[int, tuple[int, float]] = {}

    # -- attempts on agents --

    def begin(self, agent: Agent, lease: LeaseCommand) -> None:
        """An attempt began."""
        job, asked = lease.step.job, lease.resources
        total = agent.plan.facts.total
        # As the scheduler counts it: the dominant share of the node, in cores of the node.
        share = dominant_share_ppm(asked, total) / 1e6 * total.cores / self._cores
        self._began[lease.attempt] = (self.now_us, share)
        self.projects.change(job.project, share, self.now_us)
        self.users[job.project].change(job.user, share, self.now_us)

    def end(self, agent: Agent, lease: LeaseCommand) -> None:
        """An attempt ended, however."""
        began_us, share = self._began.pop(lease.attempt)
        job = lease.step.job
        self.projects.change(job.project, -share, self.now_us)
        self.users[job.project].change(job.user, -share, self.now_us)
        self.busy_core_us += lease.resources.cores * (self.now_us - began_us)

    def startup(self, lease: LeaseCommand, took_us: int) -> None:
        """A chunk's renderer had started (or was killed while it did)."""
        self.startup_us += took_us

    def wasted(self, lease: LeaseCommand, took_us: int) -> None:
        """Rendering that nobody gets anything of."""
        self.thrown_us += took_us

    def useful(self, lease: LeaseCommand, took_us: int) -> None:
        """A frame that counts."""
        self.useful_us += took_us
        self.useful_core_us += took_us * lease.resources.cores
        self.frames_done += 1
        self.last_done_us = self.now_us

    # -- what the core did --

    def submitted(self, job: Job) -> None:
        """A job came."""
        self._project_backlog[job.project].steps += job.steps
        self._user_backlog[job.project, job.user].steps += job.steps
        for step in job.steps:
            self.waits.any_large = self.waits.any_large or self.waits.is_large(step)

    def restarted(self, farm: Farm) -> None:
        """The broker came back with a farm of new objects."""
        for backlog in (*self._project_backlog.values(), *self._user_backlog.values()):
            backlog.steps = []
        for job in farm.jobs.values():
            self.submitted(job)

    def rows(self, farm: Farm, rows: Sequence[AnyRow]) -> None:
        """Reads from stored rows what began to wait."""
        for row in rows:
            if isinstance(row, ResultRow):
                if row.new == QUEUED != row.old and row.unit >= 0:
                    self.waits.queued(farm.steps[row.step_id], (row.unit,), self.now_us)
            elif isinstance(row, BulkRow):
                if row.new == QUEUED != row.old:
                    units = None if row.units == "*" else units_of(row.units)
                    self.waits.queued(farm.steps[row.step_id], units, self.now_us)
            elif isinstance(row, StepRow) and row.state == QUEUED:
                self.waits.queued(farm.steps[row.id], None, self.now_us)

    def leased(self, lease: LeaseCommand) -> None:
        """The core leased work."""
        self.chunks += lease.kind == _RENDER
        name = AttemptKind(lease.kind).name.lower()
        self.leases[name] = self.leases.get(name, 0) + 1
        if lease.kind == _RENDER:
            self.waits.leased(lease.step, lease.units, self.now_us)

    def look(self) -> None:
        """After every turn: does every project (and every user of one) have work waiting?"""
        projects = self._project_backlog
        if len(projects) > 1:
            self.projects.contention(all(backlog.waits() for backlog in projects.values()), self.now_us)
        for project, shares in self.users.items():
            if len(shares.names) > 1:
                waits = all(self._user_backlog[project, user].waits() for user in shares.names)
                shares.contention(waits, self.now_us)

    def finish(self, farm: Farm) -> None:
        """Ends all measurements."""
        self.waits.finish(farm, self.now_us)
        self.projects.finish(self.now_us)
        for shares in self.users.values():
            shares.finish(self.now_us)
