"""What is known of a farm under test from rows and commands alone, and the words in which promises break.

What belongs here: the attempts that rows told of, the maps of unit states as they last were, failures by unit
and node, what was published.  What it may not know: which promises there are (that is for the judges, the
``core_truth_*`` beside it), nor the core's own bookkeeping of attempts, notes or queues.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from farm.core.outcome import Outcome, StopCommand
from farm.core.rows import LeaseRow
from farm.model.states import AttemptKind

#: Kinds of attempts that render: they hold all that their step asks for.
RENDERS = (AttemptKind.RENDER, AttemptKind.COPY)


class Broken(AssertionError):
    """The core broke a promise."""


def must(holds: bool, what: str) -> None:
    """Raises Broken unless it holds."""
    if not holds:
        raise Broken(what)


@dataclass
class Lease:
    """An attempt as rows told of it."""

    row: LeaseRow
    units: tuple[int, ...]
    may_run: set[int]
    owed: set[int]
    supersedes: tuple[str, ...] = ()
    over: bool = False
    owes: Fraction = Fraction(0)
    cuts: int = 0
    #: Scratch disk and custom tokens it holds: what its step asked for when it was leased.
    disk_mib: int = 0
    tokens: dict[str, int] = field(default_factory=dict)


@dataclass
class Account:
    """What all judges look at, and write down for each other.

    Attributes:
        leases: Every attempt there ever was, by its number.
        maps: Step -> states of its units after the last event that was judged.
        published: (step, unit) -> attempts that put a file at its final name, oldest first.
        seen: How often each thing happened, for people: a promise nobody tried to break proves nothing.
    """

    leases: dict[int, Lease] = field(default_factory=dict)
    maps: dict[int, bytes] = field(default_factory=dict)
    published: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    # -- troubles of units, as (step, unit) --

    #: Nodes that failed it.
    failed_on: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    #: Failures by (step, node).
    node_failures: Counter[tuple[int, int]] = field(default_factory=Counter)
    #: Folders of attempts that were lost with it, which whoever comes next supersedes.
    lost_folders: dict[tuple[int, int], set[str]] = field(default_factory=dict)
    #: A user said that it is done.
    marked: set[tuple[int, int]] = field(default_factory=set)
    #: It waits out the back-off after a licence was missing.
    waits_licence: set[tuple[int, int]] = field(default_factory=set)
    #: Units that ever failed: they may have to go alone, or elsewhere, whatever their place in the order.
    hurt: set[tuple[int, int]] = field(default_factory=set)
    #: Memory a try of the unit had when it ran out; the next one must have more, or all there is.
    ran_out: dict[tuple[int, int], int] = field(default_factory=dict)
    short_of_vram: set[tuple[int, int]] = field(default_factory=set)


def stopped_units(out: Outcome) -> dict[int, tuple[int, ...]]:
    """Units that agents were told to drop, by attempt; none = all of it."""
    stops: dict[int, tuple[int, ...]] = {}
    for command in out.commands:
        if isinstance(command, StopCommand):
            before = stops.get(command.attempt)
            whole = not command.units or before == ()
            stops[command.attempt] = () if whole else (*(before or ()), *command.units)
    return stops
