"""What must be true of a farm, judged from outside: events in, stored rows and commands out.

What belongs here: the bench, which shows every handled event to each judge in turn.  A promise belongs to the
judge of its subject: ``core_truth_moves``, ``_needs``, ``_leases``, ``_fit``, ``_order``, ``_results``,
``_pictures`` and ``_money``.  What neither it nor they may do: look into the core's own bookkeeping of
attempts, notes or queues (they read the maps of unit states, nodes' connection states and totals, which
people see too).
"""

from __future__ import annotations

from typing import Any

from farm.core.events import ActEvent, DispatchEvent
from farm.core.outcome import LeaseCommand, Outcome
from farm.core.rows import BulkRow, LeaseRow, ResultRow, SpecRow, StaleRow
from farm.core.state import Farm
from farm.model.states import UnitState
from tests.support.core_account import Account
from tests.support.core_truth_fit import Fit
from tests.support.core_truth_leases import Leases
from tests.support.core_truth_money import Money
from tests.support.core_truth_moves import Moves
from tests.support.core_truth_needs import Needs
from tests.support.core_truth_order import Order
from tests.support.core_truth_pictures import Pictures
from tests.support.core_truth_results import Results


class Truth(Account):
    """The account, and the judges who keep it and judge by it."""

    def __init__(self) -> None:
        super().__init__()
        self.money, self.pictures = Money(self), Pictures(self)
        self.moves, self.needs = Moves(self), Needs(self)
        self.beginnings = Leases(self, self.money)
        self.results = Results(self, self.money, self.pictures)
        self.order = Order(self, Fit(self))

    def judge(self, event: Any, out: Outcome, farm: Farm) -> None:
        """Takes one handled event.

        Raises:
            Broken: A promise does not hold.
        """
        self.money.before(event, out, farm)
        before = dict(self.maps)
        commands = {c.attempt: c for c in out.commands if isinstance(c, LeaseCommand)}
        for row in out.rows:
            if isinstance(row, LeaseRow):
                self.beginnings.lease(row, commands.get(row.id), farm)
            elif isinstance(row, ResultRow):
                self.results.result(row, event, farm)
                if row.new == UnitState.DONE and row.old != row.new:
                    self.moves.second_is_stopped(row, out)
            elif isinstance(row, BulkRow):
                self.moves.bulk(row, before, out)
                if isinstance(event, ActEvent) and row.who != "farm":
                    self.moves.wills_change(row)
            elif isinstance(row, StaleRow):
                self.seen["stale"] += 1
            elif isinstance(row, SpecRow):
                self.pictures.spec(row)
        self.moves.judge(out, farm)
        self.needs.judge(out, self.moves.changed, before, farm)
        self.pictures.judge_grants(event, out)
        self.money.hear(event, out)
        self.money.judge(farm)
        self.moves.judge_pauses(out, farm)
        self.results.judge_kept(event, out)
        if isinstance(event, DispatchEvent):
            self.order.judge(out, farm)
            self.needs.judge_sequence(out, farm)
        self.order.keep(out, farm)

    def restarted(self, now_us: int, grace_us: int) -> None:
        """The broker came back: silence counts from here, less the grace it must give."""
        self.money.restarted(now_us, grace_us)
        self.pictures.restarted()

    def may_publish(self, number: int, unit: int) -> None:
        """A file of an attempt moves to its final name now.

        Raises:
            Broken: Another attempt of the same unit published it, or still may.
        """
        self.pictures.may_publish(number, unit)
