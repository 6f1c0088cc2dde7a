"""When machines fail: outages drawn machine by machine, the same whatever runs on them.

What belongs here: times.  What may not: what an outage does to work (``farm.sim.agent``).  A machine's
outages depend on the seed and the machine alone, so that two policies are compared under the very same bad
luck.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from farm.sim.scenario import Amount, Faults
from farm.sim.workload import PlannedNode, draw, stream

#: The end of an outage that has none.
NEVER_US = 1 << 62


class Outage(NamedTuple):
    """A machine is away from ``down_us`` to ``up_us`` of virtual time; spot machines are told before."""

    down_us: int
    up_us: int
    notice_us: int


def outages(faults: Faults, seed: int, node: PlannedNode) -> Iterator[Outage]:
    """All outages of a node's machine in order, without end while a rule of failures meets it."""
    sources: list[tuple[float, Amount | None, float, random.Random, float]] = []
    for number, crash in enumerate(faults.crash):
        if not crash.nodes or node.group in crash.nodes:
            rng = stream(seed, "crash", number, node.machine)
            first_s = max(crash.from_s, node.join_us / 1e6)
            sources.append((crash.mtbf_s, crash.repair_s, 0.0, rng, first_s))
    for number, spot in enumerate(faults.spot):
        if not spot.nodes or node.group in spot.nodes:
            rng = stream(seed, "spot", number, node.machine)
            sources.append((spot.mtbf_s, spot.back_s, spot.notice_s, rng, node.join_us / 1e6))
    due_s = [first_s + rng.expovariate(1 / mtbf_s) for mtbf_s, _, _, rng, first_s in sources]
    while sources:
        which = min(range(len(due_s)), key=due_s.__getitem__)
        _, repair_s, notice_s, rng, _ = sources[which]
        down_s = due_s[which]
        if repair_s is None:
            yield Outage(int(down_s * 1e6), NEVER_US, int(notice_s * 1e6))
            return
        up_s = down_s + max(0.001, draw(repair_s, rng))
        yield Outage(int(down_s * 1e6), int(up_s * 1e6), int(notice_s * 1e6))
        # A machine that is away does not age: what was due meanwhile is drawn anew.
        for index, (other_mtbf_s, _, _, other_rng, _) in enumerate(sources):
            if due_s[index] <= up_s:
                due_s[index] = up_s + other_rng.expovariate(1 / other_mtbf_s)


def slow_factors(faults: Faults, seed: int, node: PlannedNode) -> list[tuple[int, float]]:
    """(time in microseconds, factor of the speed from then on) of a node's machine, in order of time."""
    found: list[tuple[int, float]] = []
    for number, slow in enumerate(faults.slow):
        if slow.nodes and node.group not in slow.nodes:
            continue
        if stream(seed, "slow", number, node.machine).random() < slow.share:
            found.append((int(slow.from_s * 1e6), slow.factor))
    return sorted(found)
