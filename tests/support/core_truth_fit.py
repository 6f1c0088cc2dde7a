"""What fits on a node, written down once more: who can take a step, who has room for another of its units.

What belongs here: filters by facts alone, and room by facts and by the attempts that rows told of.  What it
may not know: the core's indexes of nodes and of free room, nor in which order steps have a turn.
"""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.rows import LeaseRow
from farm.core.state import Node, Step
from farm.model.states import AttemptKind, NodeState, UnitState
from farm.model.versions import version_ok
from tests.support.core_account import Account


def in_service(node: Node) -> bool:
    """Whether the node may be counted on for work."""
    return node.enabled and not node.forgotten and node.state in (NodeState.ONLINE, NodeState.SUSPECT)


def capable(step: Step, node: Node) -> bool:
    """Whether the node, empty, could take the step: filters written down once more, independently."""
    spec, facts, need = step.spec, node.facts, step.resources
    versions = [app.version for app in facts.apps if app.name == step.app]
    return (
        (not spec.pools or node.pool in spec.pools)
        and spec.site in ("", node.site)
        and spec.renderer in facts.renderers
        and (not step.app or any(version_ok(version, spec.version) for version in versions))
        and all(
            facts.attributes.get(k) in ((v,) if v != "*" else (facts.attributes.get(k) or "",))
            for k, v in spec.attributes.items()
        )
        and need.cores <= facts.total.cores
        and need.ram_mib <= facts.total.ram_mib
        and sum(gpu.vram_mib >= need.vram_mib for gpu in facts.gpus) >= need.gpus
        and need.disk_mib <= facts.total.disk_mib
        and all(count <= facts.total.tokens.get(name, 0) for name, count in need.tokens.items())
    )


class Fit:
    """Finds units that may go, and room that is left for them."""

    def __init__(self, account: Account) -> None:
        self.account = account

    def leasable(self, step: Step) -> bool:
        """Whether a step has a unit that waits for nothing but a node."""
        if step.job.paused:
            return False
        return any(step.state[unit] == UnitState.QUEUED for unit in self._offered(step))

    def _offered(self, step: Step) -> Iterable[int]:
        """Units that may be leased: while a job is scouting only its scout frames."""
        return step.scouts if step.job.scouting and step.frames is not None else range(step.units)

    def could_take(self, step: Step, node: Node, *, without: int, leased: list[LeaseRow]) -> bool:
        """Whether a node has room for a unit of a step, were its last ``without`` new leases not there."""
        if not capable(step, node) or self.account.node_failures[step.id, node.id] >= 3:
            return False
        held = [x for x in self.account.leases.values() if not x.over and x.row.node_id == node.id]
        mine = [x.row for x in held]
        gone = (
            {row.id for row in [row for row in leased if row.node_id == node.id][-without:]}
            if without
            else set()
        )
        mine = [row for row in mine if row.id not in gone]
        held = [x for x in held if x.row.id not in gone]
        total, need = node.facts.total, step.resources
        if step.whole and mine:
            return False
        if need.cores > total.cores - sum(row.cores for row in mine):
            return False
        if total.cores == sum(row.cores for row in mine) or need.ram_mib > total.ram_mib - sum(
            r.ram_mib for r in mine
        ):
            return False
        if need.disk_mib > total.disk_mib - sum(x.disk_mib for x in held):
            return False
        for name, count in need.tokens.items():
            if count > total.tokens.get(name, 0) - sum(x.tokens.get(name, 0) for x in held):
                return False
        used = {index for row in mine for index in row.gpus.split(",")}
        able = [g for g in node.facts.gpus if str(g.index) not in used and g.vram_mib >= need.vram_mib]
        if len(able) < need.gpus:
            return False
        running = set()
        for lease in self.account.leases.values():
            if lease.row.step_id == step.id and not lease.over and lease.row.kind != AttemptKind.VERIFY:
                running |= lease.may_run
        for unit in self._offered(step):
            key = (step.id, unit)
            if step.state[unit] != UnitState.QUEUED or unit in running or key in self.account.waits_licence:
                continue
            if (
                key in self.account.ran_out or key in self.account.short_of_vram
            ):  # what it needs now is more than its step says
                continue
            if node.id not in self.account.failed_on.get(key, ()):
                return True
        return False
