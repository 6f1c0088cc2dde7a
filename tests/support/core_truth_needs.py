"""Whether units wait for what they must, and are leased in the order their step asks for.

What belongs here: the judge who holds maps and leases against ``tests.support.core_needs``, where the rules
are written down once more.  What it may not know: the core's edges, cursors and counts.
"""

from __future__ import annotations

import contextlib

from farm.core.apply import units_of
from farm.core.outcome import Outcome
from farm.core.rows import BulkRow, LeaseRow
from farm.core.state import Farm, Step
from farm.model.states import AttemptKind, UnitState
from tests.support.core_account import Account, must
from tests.support.core_needs import frames_of, verdicts, work_order

_GIVEN_UP = {UnitState.SKIPPED.value: "skip", UnitState.CANCELED.value: "cancel"}


class Needs:
    """Judges what waits, what is given up, and what goes first within a step."""

    def __init__(self, account: Account) -> None:
        self.account = account

    def judge(self, out: Outcome, changed: set[int], before: dict[int, bytes], farm: Farm) -> None:
        """What waits for something is blocked, what waits for nothing is not, what has no hope is given up.

        Judged are the steps that changed, and those that wait for a step that did.
        """
        looked = {(r.step_id, unit) for r in farm.verify.values() if r.purpose == "skip" for unit in r.units}
        for step in farm.steps.values() if changed else ():
            needs = step.spec.needs()
            jobs = [farm.jobs.get(int(need.job[1:])) if need.job else step.job for need in needs]
            seen = {step.id, *(other.id for job in jobs if job is not None for other in job.steps)}
            if not changed & seen:
                continue
            for unit, state in enumerate(step.state):
                self._need(farm, step, unit, state, (step.id, unit) in looked, before)
        for row in out.rows:
            if not isinstance(row, BulkRow) or row.who != "farm" or row.units == "*":
                continue
            word = _GIVEN_UP.get(row.new)
            for unit in units_of(row.units) if word else ():
                step = farm.steps[row.step_id]
                said = verdicts(farm, step, unit, self.account.maps)
                if word not in said:
                    # What had failed may be made anew by the same act, after this was given up for it.
                    with contextlib.suppress(KeyError, IndexError):
                        said = verdicts(farm, step, unit, before)
                must(word in said, f"{step.address} {unit} was given up, but its needs say {said}")
                self.account.seen[f"given-up-{word}"] += 1

    def _need(
        self, farm: Farm, step: Step, unit: int, state: int, looked: bool, before: dict[int, bytes]
    ) -> None:
        where = f"{step.address} unit {unit}"
        said = verdicts(farm, step, unit, self.account.maps)
        waits = any(word != "met" for word in said)
        if state in (UnitState.QUEUED, UnitState.RUNNING):
            must(not waits, f"{where} is {UnitState(state).word} but its needs say {said}")
        elif state == UnitState.BLOCKED:
            must(waits or looked, f"{where} is blocked but waits for nothing")
            must("skip" not in said and "cancel" not in said, f"{where} waits for what has failed: {said}")
            self.account.seen["waits"] += 1
        elif (
            state == UnitState.DONE
            and waits
            and before.get(step.id, b"")[unit : unit + 1] == bytes([state])
            and (step.wanted is None or frames_of(step)[unit] in step.wanted)
        ):
            # Only what was marked done, or was there before, may be done without: never what had its needs.
            try:
                had = all(word == "met" for word in verdicts(farm, step, unit, before))
            except (KeyError, IndexError):
                return  # it, or what it waits for, came with this event
            must(not had, f"{where} stays done though what it was made of is made anew: {said}")

    def judge_sequence(self, out: Outcome, farm: Farm) -> None:
        """Units are leased in the order their step asks for; only what may not go yet is left behind."""
        for row in out.rows:
            if not isinstance(row, LeaseRow) or row.kind != AttemptKind.RENDER:
                continue
            step = farm.steps[row.step_id]
            if step.frames is None or step.job.spec.scout:
                continue
            order_of = {unit: place for place, unit in enumerate(work_order(step))}
            units = units_of(row.units)
            places = sorted(order_of[unit] for unit in units)
            held = {unit for lease in self.account.leases.values() if not lease.over for unit in lease.may_run
                    if lease.row.step_id == step.id and lease.row.kind != AttemptKind.VERIFY}  # fmt: skip
            for unit, state in enumerate(step.state):
                key = (step.id, unit)
                if state == UnitState.QUEUED and order_of[unit] < places[-1]:
                    excused = unit in held or key in self.account.hurt or key in self.account.waits_licence
                    must(excused, f"{step.address} leased {units} before {unit} ({step.spec.order})")
            self.account.seen[f"order-{step.spec.order.partition(':')[0]}"] += 1
