"""Whether units are leased only when and where they may be: to one attempt at a time, on a node with room.

What belongs here: the judge of new attempts and second copies, who enters them in the account.  What it may
not know: which step has the next turn (the order has a judge of its own), nor what becomes of attempts.
"""

from __future__ import annotations

from typing import Any

from farm.core.apply import units_of
from farm.core.outcome import LeaseCommand
from farm.core.rows import LeaseRow
from farm.core.state import Farm, Node, Step
from farm.model.states import AttemptKind, UnitState
from tests.support.core_account import RENDERS, Account, Lease, must
from tests.support.core_truth_fit import capable, in_service
from tests.support.core_truth_money import Money


class Leases:
    """Judges how attempts begin."""

    def __init__(self, account: Account, money: Money) -> None:
        self.account, self.money = account, money

    def lease(self, row: LeaseRow, command: LeaseCommand | None, farm: Farm) -> None:
        """Takes a new attempt: it may begin, and what it holds is there."""
        step, node = farm.steps[row.step_id], farm.nodes[row.node_id]
        units = units_of(row.units)
        must(command is not None and command.units == units, f"{step.address}@{row.no}: no lease was sent")
        must(row.id not in self.account.leases, f"attempt {row.id} was leased twice")
        self.account.seen[f"lease-{AttemptKind(row.kind).name.lower()}"] += 1
        if row.kind == AttemptKind.RENDER:
            must(not step.job.paused, f"{step.address} was leased though its job is paused")
        if row.kind != AttemptKind.VERIFY:
            self._lease_units(row, units, command, step, node, farm)
        self.money.cut(row.node_id, row.at_us)
        lease = Lease(row, units, set(units), set(units), command.supersedes if command else ())
        if row.kind in RENDERS:
            lease.disk_mib, lease.tokens = step.resources.disk_mib, step.resources.tokens
        self.account.leases[row.id] = lease
        self._resources(node, step, row)

    def _lease_units(
        self, row: LeaseRow, units: tuple[int, ...], command: Any, step: Step, node: Node, farm: Farm
    ) -> None:
        for other in self.account.leases.values():
            if other.row.step_id == step.id and not other.over and other.row.kind != AttemptKind.VERIFY:
                both = other.may_run & set(units)
                if row.kind == AttemptKind.COPY and both <= other.owed and other.row.kind != AttemptKind.COPY:
                    continue
                must(not both, f"{step.address} {sorted(both)} is leased while @{other.row.no} may run it")
        if row.kind == AttemptKind.COPY:
            self._copy(row, units, command, step)
        told = {*command.supersedes, command.adopt_folder}
        for unit in units:
            key = (step.id, unit)
            missing = self.account.lost_folders.get(key, set()) - told
            must(not missing, f"{step.address} {unit}: the lease does not supersede {missing}")
            if row.kind == AttemptKind.RENDER:
                self._other_node(step, unit, node, farm)
                must(
                    key not in self.account.waits_licence,
                    f"{step.address} {unit} is leased during its back-off",
                )
            if row.kind in RENDERS:
                self._more_memory(row, step, unit, farm)

    def _copy(self, row: LeaseRow, units: tuple[int, ...], command: Any, step: Step) -> None:
        """A second copy is of one running unit, elsewhere, asks before it publishes, of work with files."""
        where = f"{step.address}@{row.no}, a second copy,"
        must(len(units) == 1 and row.old == row.new == UnitState.RUNNING, f"{where} has units {units}")
        must(command.ask and bool(step.spec.outputs), f"{where} does not ask before it publishes")
        firsts = [
            x
            for x in self.account.leases.values()
            if not x.over and x.row.step_id == step.id and units[0] in x.owed
        ]
        firsts = [x for x in firsts if x.row.kind != AttemptKind.VERIFY]
        must(len(firsts) == 1, f"{where} is one of {len(firsts) + 1} attempts of its unit")
        must(firsts[0].row.node_id != row.node_id, f"{where} runs where the first attempt does")
        must(not step.job.paused, f"{where} was leased though its job is paused")

    def _other_node(self, step: Step, unit: int, node: Node, farm: Farm) -> None:
        able = [other for other in farm.nodes.values() if in_service(other) and capable(step, other)]
        fresh = [other for other in able if self.account.node_failures[step.id, other.id] < 3]
        must(node in able, f"{step.address} was leased to {node.name}, which cannot take it")
        if self.account.node_failures[step.id, node.id] >= 3:
            must(not fresh, f"{step.address} went to {node.name}, which failed 3 times for it")
        failed = self.account.failed_on.get((step.id, unit), set())
        hungry = (step.id, unit) in self.account.ran_out or (step.id, unit) in self.account.short_of_vram
        if node.id in failed and not hungry:  # memory comes before another node
            others = [other.name for other in (fresh or able) if other.id not in failed]
            must(not others, f"{step.address} {unit} went to {node.name} again though {others} can take it")
            self.account.seen["same-node-again"] += 1

    def _more_memory(self, row: LeaseRow, step: Step, unit: int, farm: Farm) -> None:
        before = self.account.ran_out.get((step.id, unit))
        if before is None or step.whole:
            return
        able = [other for other in farm.nodes.values() if in_service(other) and capable(step, other)]
        most = max((other.facts.total.ram_mib for other in able), default=0)
        enough = row.ram_mib > before or row.ram_mib >= min(most, farm.nodes[row.node_id].facts.total.ram_mib)
        must(enough, f"{step.address} {unit} ran out of {before} MiB and got {row.ram_mib}")

    def _resources(self, node: Node, step: Step, row: LeaseRow) -> None:
        held = [x for x in self.account.leases.values() if not x.over and x.row.node_id == node.id]
        mine, total, need = [x.row for x in held], node.facts.total, step.resources
        if row.kind in RENDERS:
            enough = row.cores >= need.cores and row.ram_mib >= need.ram_mib
            must(enough, f"{step.address} got {row.cores} cores and {row.ram_mib} MiB, not what it asks for")
            disk_mib = sum(x.disk_mib for x in held)
            must(disk_mib <= total.disk_mib, f"{node.name}: more disk leased than it has")
            for name in need.tokens:
                count = sum(x.tokens.get(name, 0) for x in held)
                must(count <= total.tokens.get(name, 0), f"{node.name}: more {name} leased than it has")
        must(sum(x.cores for x in mine) <= total.cores, f"{node.name}: more cores leased than it has")
        must(sum(x.ram_mib for x in mine) <= total.ram_mib, f"{node.name}: more memory leased than it has")
        gpus = [index for x in mine for index in x.gpus.split(",") if index]
        must(len(gpus) == len(set(gpus)), f"{node.name}: a GPU is leased twice")
        memory = {str(gpu.index): gpu.vram_mib for gpu in node.facts.gpus}
        for index in filter(None, row.gpus.split(",")):
            must(memory[index] >= step.resources.vram_mib, f"{node.name}: GPU {index} is too small")
        if row.kind in RENDERS:
            must(row.gpus.count(",") + bool(row.gpus) == need.gpus, f"{step.address}: GPUs missing")
        if any(x.kind in RENDERS and x.cores == total.cores for x in mine):
            must(len(mine) == 1, f"{node.name}: a whole-slice attempt shares its node")
