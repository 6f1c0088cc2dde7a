"""Whether only results count that may, every failure is remembered, and attempts are closed for a reason.

What belongs here: the judge of reports and ends of attempts, who enters failures in the account.  What it may
not know: how the core decides on another try.
"""

from __future__ import annotations

from typing import Any

from farm.core.events import BeatEvent, ByeEvent, HelloEvent, ReportEvent, TickEvent
from farm.core.outcome import DiscardCommand, Outcome
from farm.core.rows import LeaseRow, ResultRow
from farm.core.state import Farm
from farm.model.ids import attempt_folder
from farm.model.reports import DONE as SAYS_DONE
from farm.model.states import AttemptKind, UnitState
from tests.support.core_account import Account, Lease, must
from tests.support.core_truth_money import LOST_US, Money
from tests.support.core_truth_pictures import Pictures

BLAMES_NODE = frozenset({"renderer", "output", "timeout", "silent", "config", "path"})


class Results:
    """Judges what reports do, and how attempts end."""

    def __init__(self, account: Account, money: Money, pictures: Pictures) -> None:
        self.account, self.money, self.pictures = account, money, pictures

    def result(self, row: ResultRow, event: Any, farm: Farm) -> None:
        """Takes what became of a unit, or the end of an attempt."""
        lease = self.account.leases.get(row.attempt_id)
        must(lease is not None and not lease.over, f"a result of closed attempt {row.attempt_id} counts")
        assert lease is not None
        step = farm.steps[row.step_id]
        where = f"{step.address}@{lease.row.no} unit {row.unit}"
        key = (row.step_id, row.unit)
        spoke = isinstance(event, ReportEvent) and event.attempt == row.attempt_id
        if spoke:
            good = event.nonce == lease.row.nonce and event.node_id == lease.row.node_id
            must(good, f"{where}: a report of another counts")
        if row.unit >= 0:
            must(row.unit in lease.owed, f"{where} counts twice or was never leased")
            lease.owed.discard(row.unit)
            said = [u for u in event.units if u.unit == row.unit] if spoke else []
            if said:
                lease.may_run.discard(row.unit)
            if row.new == UnitState.DONE and row.old != UnitState.DONE:
                must(any(u.outcome == SAYS_DONE for u in said), f"{where} is done without a report")
                self._done(row, lease, where)
                self.pictures.judge_done(row, said, where)
            if row.failure:
                self.account.hurt.add(key)
                self.account.seen[f"failed-{row.failure}"] += 1
            if row.old == row.new == UnitState.RUNNING and lease.row.kind != AttemptKind.VERIFY:
                others = [
                    x for x in self.account.leases.values() if not x.over and x.row.step_id == row.step_id
                ]
                must(any(row.unit in x.owed for x in others), f"{where} goes on, but in no attempt")
                copy = lease.row.kind == AttemptKind.COPY
                self.account.seen["copy-ended" if copy else "goes-on-in-copy"] += 1
            if lease.row.kind == AttemptKind.COPY and row.new == UnitState.DONE:
                self.account.seen["copy-done"] += 1
            if lease.row.kind != AttemptKind.VERIFY:
                self._blame(row, lease, key)
        if row.lost and lease.row.kind != AttemptKind.VERIFY:
            folder = attempt_folder(step.job.id, step.spec.name, lease.row.no, lease.row.nonce)
            for unit in lease.units:
                told_here = unit in lease.may_run or unit == row.unit
                if told_here and self.account.maps[step.id][unit] != UnitState.DONE:
                    self.account.lost_folders.setdefault((step.id, unit), set()).add(folder)
        if row.closes:
            self._closed(row, lease, event, where)

    def _done(self, row: ResultRow, lease: Lease, where: str) -> None:
        key = (row.step_id, row.unit)
        if lease.row.kind == AttemptKind.VERIFY:
            skip = row.old == UnitState.BLOCKED
            must(
                skip or key in self.account.marked, f"{where}: {UnitState(row.old).word} became done unasked"
            )
            self.account.seen["marked-done"] += key in self.account.marked
            self.account.seen["skipped-existing"] += skip and key not in self.account.marked
        else:
            must(
                row.attempt_id in self.account.published.get(key, ()),
                f"{where} is done but was never published",
            )
            must(row.old == UnitState.RUNNING, f"{where} was not running")
        self.account.seen["done"] += 1
        self.account.failed_on.pop(key, None)
        self.account.ran_out.pop(key, None)
        self.account.lost_folders.pop(key, None)
        self.account.waits_licence.discard(key)
        self.account.marked.discard(key)

    def _blame(self, row: ResultRow, lease: Lease, key: tuple[int, int]) -> None:
        if row.failure in BLAMES_NODE or row.failure == "node":
            self.account.failed_on.setdefault(key, set()).add(lease.row.node_id)
        if row.failure in BLAMES_NODE:
            self.account.node_failures[row.step_id, lease.row.node_id] += 1
        if row.failure == "licence" and row.new == UnitState.QUEUED:
            self.account.waits_licence.add(key)
        if row.failure == "oom-ram":
            self.account.ran_out[key] = max(self.account.ran_out.get(key, 0), lease.row.ram_mib)
        elif row.failure == "oom-vram":
            self.account.short_of_vram.add(key)

    def _closed(self, row: ResultRow, lease: Lease, event: Any, where: str) -> None:
        node, number = lease.row.node_id, row.attempt_id
        if isinstance(event, ReportEvent):
            must(event.attempt == number and event.closed, f"{where} was closed by another's report")
        elif isinstance(event, TickEvent):
            silent_us = event.now_us - self.money.heard_us[node]
            must(silent_us >= LOST_US, f"{where} was given up after {silent_us / 1e6} s of silence")
            must(bool(row.lost), f"{where}: the node is silent but the attempt not lost")
            self.account.seen["lost"] += 1
        elif isinstance(event, HelloEvent):
            named = number in event.running or number in event.pending
            must(not named, f"{where} was closed though its agent named it")
        elif isinstance(event, BeatEvent):
            must(number in event.missing and event.node_id == node, f"{where} was closed by a heartbeat")
        else:
            must(isinstance(event, ByeEvent) and event.node_id == node, f"{where} was closed by {event!r}")
        self.money.cut(node, row.at_us)
        off = abs(row.charge_nano - lease.owes)
        must(off <= lease.cuts + 1, f"{where} was charged {row.charge_nano}, not {float(lease.owes)}")
        must(0 <= row.waste_nano <= row.charge_nano, f"{where}: waste {row.waste_nano} of {row.charge_nano}")
        lease.over = True

    def judge_kept(self, event: Any, out: Outcome) -> None:
        """Files kept by a lost attempt are adopted or discarded, never forgotten."""
        if (
            not isinstance(event, ReportEvent)
            or not event.kept
            or any(isinstance(r, ResultRow) for r in out.rows)
        ):
            return
        adopts = any(isinstance(r, LeaseRow) and r.kind == AttemptKind.ADOPT for r in out.rows)
        running = any(
            not x.over and x.row.kind == AttemptKind.ADOPT and x.row.node_id == event.node_id
            for x in self.account.leases.values()
        )
        discards = any(isinstance(c, DiscardCommand) for c in out.commands)
        must(adopts or running or discards, f"kept files of attempt {event.attempt} are forgotten")
