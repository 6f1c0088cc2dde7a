"""Whether units move as they may, and whoever works on what was taken back is told to stop.

What belongs here: the judge of changes of unit states: legal, explained by rows, passed on to agents.  What
it may not know: why a unit should move (needs, results and the order have judges of their own).
"""

from __future__ import annotations

from farm.core.apply import units_of
from farm.core.outcome import Outcome
from farm.core.rows import BulkRow, LeaseRow, ResultRow, StepEditRow
from farm.core.state import Farm
from farm.model.states import LEGAL_MOVES, AttemptKind, UnitState
from tests.support.core_account import Account, must, stopped_units


class Moves:
    """Judges changes of states and keeps the maps.

    Attributes:
        changed: Steps of which the present event changed units.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.changed: set[int] = set()

    def judge(self, out: Outcome, farm: Farm) -> None:
        """Only legal moves, and rows that explain every one of them."""
        told: dict[int, set[tuple[int, int]]] = {}
        for row in out.rows:
            if isinstance(row, ResultRow | BulkRow | LeaseRow) and row.old != row.new:
                verify = isinstance(row, LeaseRow) and row.kind == AttemptKind.VERIFY
                if not verify:
                    told.setdefault(row.step_id, set()).add((row.old, row.new))
        self.changed = set()
        for step in farm.steps.values():
            old = self.account.maps.get(step.id)
            now = bytes(step.state)
            if old == now:
                continue
            self.changed.add(step.id)
            if old is not None:
                edited = any(isinstance(row, StepEditRow) and row.step_id == step.id for row in out.rows)
                must(len(now) >= len(old), f"{step.address} lost units")
                must(len(now) == len(old) or edited, f"{step.address} got units from nowhere")
                # Units that were added start blocked; rows of their own say what then became of them.
                pairs = set(zip(old.ljust(len(now), bytes([UnitState.BLOCKED])), now, strict=True))
                for one, two in pairs:
                    if one != two:
                        move = UnitState(one), UnitState(two)
                        rows = told.get(step.id, set())
                        # What is rendered again lands in blocked; what it waits for may be lost already.
                        via = {(one, UnitState.BLOCKED.value), (UnitState.BLOCKED.value, two)} <= rows
                        legal = move in LEGAL_MOVES or two == UnitState.DONE or via
                        must(legal, f"{step.address}: {move[0].word} became {move[1].word}")
                        must(bool(told.get(step.id)), f"{step.address} changed without a row")
            self.account.maps[step.id] = now

    def bulk(self, row: BulkRow, before: dict[int, bytes], out: Outcome) -> None:
        """Takes a move of many units at once, by a user or by the farm."""
        state = self.account.maps.get(row.step_id) or before.get(row.step_id, b"")
        units = [u for u, s in enumerate(state) if s == row.old] if row.units == "*" else units_of(row.units)
        if row.old != row.new:
            move = UnitState(row.old), UnitState(row.new)
            must(move in LEGAL_MOVES, f"bulk move {move} is illegal")
        if row.old == UnitState.RUNNING:
            self._stopped(row.step_id, set(units), out)
        for unit in units:
            key = (row.step_id, unit)
            self.account.waits_licence.discard(key)
            if row.fresh:
                self.account.failed_on.pop(key, None)
                self.account.ran_out.pop(key, None)
        if row.fresh:
            for found in [key for key in self.account.node_failures if key[0] == row.step_id]:
                del self.account.node_failures[found]

    def wills_change(self, row: BulkRow) -> None:
        """A user wants something else of these units than what was marked done before."""
        state = self.account.maps[row.step_id]
        units = [u for u, s in enumerate(state) if s == row.old] if row.units == "*" else units_of(row.units)
        self.account.marked -= {(row.step_id, unit) for unit in units}

    def _stopped(self, step_id: int, units: set[int], out: Outcome) -> None:
        """Whoever runs units that were taken back was told to stop them."""
        stops = stopped_units(out)
        for number, lease in self.account.leases.items():
            mine = lease.owed & lease.may_run & units
            if (
                lease.row.step_id == step_id
                and not lease.over
                and lease.row.kind != AttemptKind.VERIFY
                and mine
            ):
                told = stops.get(number)
                must(
                    told is not None and (not told or mine <= {*told}),
                    f"@{lease.row.no} was not told to stop {mine}",
                )
                self.account.seen["stopped"] += 1
                lease.owed -= mine

    def second_is_stopped(self, row: ResultRow, out: Outcome) -> None:
        """Whoever else renders a unit that got done is told to stop, and owes it no more."""
        stops = stopped_units(out)
        for number, lease in self.account.leases.items():
            if (
                lease.row.step_id == row.step_id
                and not lease.over
                and lease.row.kind != AttemptKind.VERIFY
                and row.unit in lease.owed & lease.may_run
                and lease.row.kind == AttemptKind.COPY
            ):
                told = stops.get(number)
                must(
                    told is not None and (not told or row.unit in told),
                    f"@{lease.row.no} was not told to stop",
                )
                self.account.seen["copy-beaten"] += lease.row.kind == AttemptKind.COPY
                lease.owed.discard(row.unit)

    def judge_pauses(self, out: Outcome, farm: Farm) -> None:
        """A job of which a tenth (at least five) of the frames have failed stands still."""
        for row in out.rows:
            if isinstance(row, ResultRow) and row.new == UnitState.FAILED != row.old:
                job = farm.steps[row.step_id].job
                states = b"".join(bytes(step.state) for step in job.steps)
                failed = states.count(UnitState.FAILED)
                if failed >= 5 and failed * 10 >= len(states) and any(state < 3 for state in states):
                    must(job.paused, f"J{job.id} goes on though {failed} frames have failed")
                    self.account.seen["paused-itself"] += 1
