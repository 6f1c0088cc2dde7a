"""Whether work is leased in the farm's order: by priority, then by shares, then by rank and age; and no node
idles.

What belongs here: use by projects and users as fair share counts it, in floats, and the judge of every
placement by it.  What it may not know: the core's queues, and how it counts use in whole numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from farm.core.apply import units_of
from farm.core.outcome import Outcome
from farm.core.rows import LeaseRow, ResultRow
from farm.core.state import Farm, Step
from farm.model.states import AttemptKind, NodeState, UnitState
from tests.support.core_account import Account, must
from tests.support.core_truth_fit import Fit, in_service


@dataclass
class Share:
    """Use of a project or user as fair share counts it, in floats: inflated core-seconds by weight."""

    level: float = 0.0
    credit: float = 0.0

    def charge(self, amount: float, weight: int) -> None:
        """Adds use, paid from credit first; negative = credit."""
        if amount < 0:
            self.credit -= amount
            return
        taken = min(self.credit, amount)
        self.credit -= taken
        self.level += (amount - taken) / weight


class Order:
    """Judges who came first.

    Attributes:
        shares: Use of each project, and of each user in it.
        charges: Attempt -> (core share it holds, what it was charged).
        measured: Step -> frames measured, and seconds they took.
        reserved: Nodes kept for a large request before the present event.
    """

    def __init__(self, account: Account, fit: Fit) -> None:
        self.account, self.fit = account, fit
        self.shares: dict[tuple[str, ...], Share] = {}
        self.charges: dict[int, tuple[float, float]] = {}
        self.measured: dict[int, tuple[int, float]] = {}
        self.reserved: set[int] = set()
        self.first_us = 0

    def keep(self, out: Outcome, farm: Farm) -> None:
        """Writes down what the next event is judged by."""
        self._shares(out, farm)
        self.reserved = {node.id for node in farm.nodes.values() if node.reserved is not None}

    def judge(self, out: Outcome, farm: Farm) -> None:
        """No unit waits that a node could take now, or could have taken instead of one that comes later."""
        left = [step for step in farm.steps.values() if self.fit.leasable(step)]
        leased = [row for row in out.rows if isinstance(row, LeaseRow)]
        if leased:
            kept = (
                {key: (share.level, share.credit) for key, share in self.shares.items()},
                dict(self.charges),
            )
        later: Counter[int] = Counter(row.node_id for row in leased)
        for row in leased:
            node, step = farm.nodes[row.node_id], farm.steps[row.step_id]
            without = later[node.id]
            later[node.id] -= 1
            if row.kind != AttemptKind.RENDER:
                continue
            for other in left if node.id not in self.reserved else ():
                if (
                    self._before(other, step)
                    and not self._learns(other, step)
                    and self.fit.could_take(other, node, without=without, leased=leased)
                ):
                    must(False, f"{step.address} was leased to {node.name} before {other.address}")
            self._charge_use(row, farm)
        if leased:
            self.shares = {key: Share(*figures) for key, figures in kept[0].items()}
            self.charges = kept[1]
        for node in farm.nodes.values():
            if in_service(node) and node.state is NodeState.ONLINE and node.reserved is None:
                for step in left:
                    free = self.fit.could_take(step, node, without=0, leased=leased)
                    must(not free, f"{node.name} idles though {step.address} waits")

    def _before(self, one: Step, other: Step) -> bool:
        """Whether ``one`` certainly comes first; shares too near to tell apart count as equal."""
        if one.job.priority != other.job.priority:
            return one.job.priority > other.job.priority
        for mine, theirs in zip(self._accounts(one), self._accounts(other), strict=True):
            if mine is not theirs:
                near = 0.03 * max(mine.level, theirs.level, 1.0)
                if abs(mine.level - theirs.level) > near:
                    return mine.level < theirs.level
                return False
        place, than = ((s.job.rank, s.job.id, s.rank, s.index) for s in (one, other))
        return place < than

    def _learns(self, other: Step, step: Step) -> bool:
        """Whether a step of which nothing is known, but enough runs to learn from, lets others go first."""
        running = sum(
            1 for lease in self.account.leases.values() if lease.row.step_id == other.id and not lease.over
        )
        known = self.measured.get(other.id, (0, 0.0))[0]
        same = other.job.priority == step.job.priority
        return same and other.spec.chunk == "auto" and not known and running >= 8

    def _accounts(self, step: Step) -> tuple[Share, Share]:
        job = step.job
        project = self.shares.setdefault((job.project,), Share())
        return project, self.shares.setdefault((job.project, job.user), Share())

    def _weight(self, farm: Farm, at_us: int) -> float:
        """What use counts now: twice as much every half-life."""
        return float(2.0 ** ((at_us - self.first_us) / 3.6e9 / farm.policy.half_life_h))

    def _shares(self, out: Outcome, farm: Farm) -> None:
        """Charges leases with what they are expected to take and corrects that when they end."""
        for row in out.rows:
            if isinstance(row, LeaseRow) and row.kind in (
                AttemptKind.RENDER,
                AttemptKind.ADOPT,
                AttemptKind.COPY,
            ):
                self._charge_use(row, farm)
            elif isinstance(row, ResultRow):
                if (
                    row.new == UnitState.DONE
                    and self.account.leases[row.attempt_id].row.kind == AttemptKind.RENDER
                ):
                    count, seconds = self.measured.get(row.step_id, (0, 0.0))
                    self.measured[row.step_id] = (count + 1, seconds + row.elapsed_us / 1e6)
                if row.closes and row.attempt_id in self.charges:
                    held, charged = self.charges.pop(row.attempt_id)
                    lasted_s = (row.at_us - self.account.leases[row.attempt_id].row.at_us) / 1e6
                    more = (held * lasted_s - charged) * self._weight(farm, row.at_us)
                    self._charge_both(farm.steps[row.step_id], more, farm)

    def _charge_use(self, row: LeaseRow, farm: Farm) -> None:
        self.first_us = self.first_us or row.at_us
        count, seconds = self.measured.get(row.step_id, (0, 0.0))
        held = row.share_ppm / 1e6 * farm.nodes[row.node_id].facts.total.cores
        amount = held * len(units_of(row.units)) * (seconds / count if count else 30.0)
        self.charges[row.id] = (held, amount)
        self._charge_both(farm.steps[row.step_id], amount * self._weight(farm, row.at_us), farm)

    def _charge_both(self, step: Step, amount: float, farm: Farm) -> None:
        project, user = self._accounts(step)
        project.charge(amount, farm.policy.projects.get(step.job.project, 1))
        user.charge(amount, farm.policy.users.get(step.job.user, 1))
