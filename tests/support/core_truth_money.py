"""What nodes and attempts must have cost, counted once more from events: the judge of meters and charges.

What belongs here: each node's meter (its intervals, each from its own origin), signs of life as far as time
is charged by them, who owes which part of it.  What it may not know: how the core's meters cut time.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec

from farm.core.events import BeatEvent, ByeEvent, HelloEvent, ReportEvent, TickEvent
from farm.core.outcome import Outcome
from farm.core.rows import NodeRow, SeenRow
from farm.core.state import Farm
from farm.model.money import rate_cost
from tests.support.core_account import Account, must

LOST_US = 60_000_000


@dataclass
class Meter:
    """What a node must have cost: closed intervals, and the open one since ``origin_us``.

    ``cut_us``: up to when attempts were charged; ``heard_us``: its last sign of life, ``stored_us`` the last
    one that a restart of the broker knows of.
    """

    base: int = 0
    rate: int = 0
    origin_us: int = 0
    cut_us: int = 0
    heard_us: int = 0
    stored_us: int = 0
    on: bool = False

    def cost(self, until_us: int) -> int:
        """Cost of the open interval."""
        return rate_cost(self.rate, self.origin_us, until_us, self.origin_us)


class Money:
    """Meters of nodes, and when each was last heard."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.meters: dict[int, Meter] = {}
        self.heard_us: dict[int, int] = {}

    def before(self, event: Any, out: Outcome, farm: Farm) -> None:
        """Rates that change and meters that stop cut time before anything else of the event does."""
        if isinstance(event, HelloEvent):
            number = out.reply.node_id
            mine = self.meters.setdefault(number, Meter())
            if mine.on and mine.rate != event.rate_nano_h:
                self.cut(number, event.now_us)
                mine.base += mine.cost(event.now_us)
                mine.on = False
            if not mine.on:
                mine.on, mine.rate = True, event.rate_nano_h
                mine.origin_us = mine.cut_us = event.now_us
        elif isinstance(event, TickEvent | ByeEvent):
            for number, mine in self.meters.items():
                if mine.on and not farm.nodes[number].meter_on:
                    bye = isinstance(event, ByeEvent)
                    end_us = event.now_us if bye else max(mine.cut_us, mine.heard_us)
                    self.cut(number, end_us)
                    mine.base += mine.cost(end_us)
                    mine.on = False

    def hear(self, event: Any, out: Outcome) -> None:
        """Takes signs of life, and those that a restart of the broker will know of."""
        for row in out.rows:
            if isinstance(row, NodeRow) and row.id in self.meters:
                self.meters[row.id].stored_us = row.seen_us
            elif isinstance(row, SeenRow):
                for number, seen_us in msgspec.msgpack.decode(row.nodes, type=dict[int, int]).items():
                    self.meters[number].stored_us = seen_us
        node = out.reply.node_id if isinstance(event, HelloEvent) else getattr(event, "node_id", 0)
        beat = isinstance(event, BeatEvent) and out.reply is not None
        report = isinstance(event, ReportEvent) and node in self.heard_us and self.meters[node].on
        if isinstance(event, HelloEvent) or beat or report:
            self.heard_us[node] = max(self.heard_us.get(node, 0), event.now_us)
            self.meters[node].heard_us = event.now_us

    def restarted(self, now_us: int, grace_us: int) -> None:
        """The broker came back: silence counts from here, less the grace it must give."""
        for node in self.heard_us:
            self.heard_us[node] = now_us + grace_us - LOST_US
        for mine in self.meters.values():
            mine.heard_us = mine.stored_us

    def cut(self, number: int, at_us: int) -> None:
        """Time up to here is paid by who was on the node, by shares, exactly."""
        mine = self.meters[number]
        if not mine.on or at_us <= mine.cut_us:
            return
        live = [x for x in self.account.leases.values() if not x.over and x.row.node_id == number]
        whole = max(1_000_000, sum(lease.row.share_ppm for lease in live))
        for lease in live:
            part = mine.rate * (at_us - mine.cut_us) * lease.row.share_ppm
            lease.owes += Fraction(part, whole * 3_600_000_000)
            lease.cuts += 1
        mine.cut_us = at_us

    def judge(self, farm: Farm) -> None:
        """Every node's total is the cost of its intervals, each from its own origin, to the nano-USD."""
        for number, mine in self.meters.items():
            node = farm.nodes[number]
            must(mine.on == node.meter_on, f"{node.name}: its meter {'runs' if node.meter_on else 'stands'}")
            cost = mine.cost(node.metered_us) if mine.on else 0
            must(node.total_nano == mine.base + cost, f"{node.name}: {node.total_nano} is not what it cost")
            must(not mine.on or node.metered_us == mine.cut_us, f"{node.name}: its meter was cut elsewhere")
