"""Which faults a chaos run brings, on whom, when and for how long: all of it from a seed.

What belongs here: the kinds of faults and the dice.  What it may not know: processes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

#: Kinds of faults and how often each comes.
WEIGHTS: Mapping[str, int] = {
    "broker-kill": 12,
    "broker-stop": 2,
    "broker-freeze": 4,
    "commit-before": 4,
    "commit-middle": 6,
    "commit-after": 6,
    "commit-fails": 4,
    "agent-kill": 12,
    "agent-stop": 3,
    "tree-kill": 8,
    "supervisor-kill": 5,
    "guard-kill": 3,
    "agent-freeze": 8,
    "tree-freeze": 4,
    "cut-silent": 6,
    "cut-up": 4,
    "cut-down": 4,
    "cut-hard": 5,
    "all-kill": 2,
    "drain": 6,
    "retry": 10,
}
#: Those of a farm whose database is a server.
SERVER_WEIGHTS: Mapping[str, int] = {"server-crash": 10, "server-and-broker-crash": 3}
#: Kinds that take hold of one agent until they are healed.
ON_AGENT = frozenset(
    {"agent-kill", "agent-stop", "tree-kill", "agent-freeze", "tree-freeze", "drain"}
    | {"supervisor-kill", "guard-kill", "cut-silent", "cut-up", "cut-down", "cut-hard"}
)
#: How long silence may last, as parts of the time after which an agent is lost: nobody notices, it is lost
#: and back at once, twice as often, and it is back long after its work was done by others.
_LASTS = ((0.05, 0.4), (1.1, 1.7), (1.1, 1.7), (1.7, 3.0))


class Fault(NamedTuple):
    """One fault.

    Attributes:
        at: It comes once so many files were published.
        kind: Of ``WEIGHTS``.
        agent: Number of the agent it hits, where it hits one.
        seconds: Until it is healed.
        where: A place in the work, 0..1, for faults that choose frames.
        size: How many of them.
    """

    at: int
    kind: str
    agent: int
    seconds: float
    where: float
    size: int


def plan_faults(
    seed: int, count: int, frames: int, agents: int, *, lost_s: float, server: bool = False
) -> list[Fault]:
    """The faults of a run, in order.

    Kinds come as often as they weigh, and each once before any comes twice, so that a short run has as
    many kinds as it can.  A few heal before anybody could notice, most after the agent counts as lost.

    Args:
        seed: Of all choices.
        count: How many.
        frames: Frames of the whole run; the faults are spread over nine tenths of them.
        agents: How many agents there are.
        lost_s: Silence after which an agent is lost.
        server: Whether the database is a server that can crash.
    """
    dice = random.Random(seed)
    weights = {**WEIGHTS, **SERVER_WEIGHTS} if server else dict(WEIGHTS)
    kinds = sorted(weights)
    dice.shuffle(kinds)
    while len(kinds) < count:
        deck = [kind for kind in sorted(weights) for _ in range(weights[kind])]
        dice.shuffle(deck)
        kinds += deck
    faults = []
    for number, kind in enumerate(kinds[:count]):
        at = int((number + dice.random()) / count * frames * 0.9)
        if kind.endswith(("freeze", "drain")) or kind.startswith("cut"):
            low, high = dice.choice(_LASTS)
            seconds = lost_s * dice.uniform(low, high)
        else:
            seconds = 0.0 if dice.random() < 0.5 else lost_s * dice.uniform(0.1, 1.3)
        faults.append(Fault(at, kind, dice.randrange(agents), seconds, dice.random(), dice.randint(1, 6)))
    return faults
