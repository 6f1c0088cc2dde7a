"""The order of work: priority, then project, then user by their share of use, then rank, then age.

What belongs here: the heaps that answer "what comes next" without looking at every job.  What may not:
whether it fits a node (``farm.core.match``), or how use is charged (``farm.core.shares``).

A shape (steps whose needs are alike) has a tier for each priority, a tier a heap of projects, a project one
of users, a user one of steps: there their jobs stand by rank (``farm next``, ``farm last``), which so never
changes anybody's share.  The level of an account (its use, weighted) only ever grows, so an entry found
at the top with an old level is put back with the new one and is never too low: no heap is ever rebuilt.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final, TypeAlias

from farm.core.needs import QUEUED

if TYPE_CHECKING:
    from farm.core.work import Step

#: What a line sorts by: (job's rank, job id, step's rank, step index, step id, step).
Ticket: TypeAlias = "tuple[int, int, int, int, int, Step]"
#: (-priority, project's level and number, user's level and number, then as a Ticket): smaller goes first.
Entry: TypeAlias = "tuple[int, int, int, int, int, int, int, int, int, int, Step]"
#: The same without the step.
Place: TypeAlias = "tuple[int, int, int, int, int, int, int, int, int, int]"
#: Where the step stands in an Entry.
STEP: Final = 10


class Account:
    """Use of one project, or of one user within a project.

    Attributes:
        number: Counts up as accounts come: of equal levels the older account goes first.
        level: Inflated core-milliseconds divided by the weight; only grows.
        credit: Inflated core-milliseconds charged too much, taken off the next charges.
        jobs: How many jobs in memory are charged to it.
    """

    __slots__ = ("credit", "jobs", "level", "name", "number", "used", "weight")

    def __init__(self, name: str, weight: int, number: int) -> None:
        self.name = name
        self.number = number
        self.jobs = 0
        self.weight = weight
        self.level = 0
        self.credit = 0
        #: Core-milliseconds charged in all, not inflated and not weighted: what people are shown.
        self.used = 0


class Line:
    """Steps of one user of one project in a tier, by their jobs' rank and then the oldest job first.

    A step's ``ticket`` is the one entry that counts: those of before its job (or it) got another rank stay
    in the heap until they come to its top.

    ``held``: it is out of its group's heap until ``Queue.free``, though it counts as queued there.
    """

    __slots__ = ("account", "group", "heap", "held", "queued")

    def __init__(self, account: Account, group: Group) -> None:
        self.account = account
        self.group = group
        self.heap: list[Ticket] = []
        self.queued = False
        self.held = False

    def head(self) -> Step | None:
        """The first step that has leasable units."""
        heap = self.heap
        while heap:
            ticket = heap[0]
            step = ticket[5]
            counts = step.line is self and step.ticket is ticket
            if counts and step.leasable():
                return step
            heappop(heap)
            if counts:
                step.line = None
        return None

    def each(self) -> Iterator[Step]:
        """Its steps that have leasable units, in no order that means anything."""
        for ticket in self.heap:
            step = ticket[5]
            if step.line is self and step.ticket is ticket and step.leasable():
                yield step


class Group:
    """Users of one project in a tier."""

    __slots__ = ("account", "heap", "lines", "queued", "tier")

    def __init__(self, account: Account, tier: Tier) -> None:
        self.account = account
        self.tier = tier
        self.lines: dict[str, Line] = {}
        self.heap: list[tuple[int, int, Line]] = []
        self.queued = False

    def head(self) -> Step | None:
        """The first step of the user who used least."""
        heap = self.heap
        while heap:
            level, number, line = heap[0]
            step = line.head()
            if step is None:
                line.queued = False
                heappop(heap)
            elif line.account.level != level:
                heapreplace(heap, (line.account.level, number, line))
            else:
                return step
        return None


class Tier:
    """Projects in one priority of a shape."""

    __slots__ = ("groups", "heap", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.groups: dict[str, Group] = {}
        self.heap: list[tuple[int, int, Group]] = []

    def head(self) -> Step | None:
        """The first step of the project that used least."""
        heap = self.heap
        while heap:
            level, number, group = heap[0]
            step = group.head()
            if step is None:
                group.queued = False
                heappop(heap)
            elif group.account.level != level:
                heapreplace(heap, (group.account.level, number, group))
            else:
                return step
        return None


class Queue:
    """Steps of one shape that wait.  ``best`` remembers the head while nothing changed it."""

    __slots__ = ("_best", "_negative", "_stale", "_tiers")

    def __init__(self) -> None:
        self._tiers: dict[int, Tier] = {}
        #: Priorities with a tier, negated, so that the first comes first.
        self._negative: list[int] = []
        self._best: Entry | None = None
        self._stale = True

    def push(self, step: Step) -> None:
        """Puts a step that has leasable units into its user's line, unless it is there."""
        job = step.job
        tier = self._tiers.get(job.priority)
        if tier is None:
            tier = self._tiers[job.priority] = Tier(job.priority)
            insort(self._negative, -job.priority)
        group = tier.groups.get(job.project)
        if group is None or group.account is not job.project_account:
            group = tier.groups[job.project] = Group(job.project_account, tier)
        line = group.lines.get(job.user)
        if line is None or line.account is not job.user_account:
            line = group.lines[job.user] = Line(job.user_account, group)
        if step.line is not line:
            step.line = line
            step.ticket = ticket = (job.rank, job.id, step.rank, step.index, step.id, step)
            heappush(line.heap, ticket)
            self._stale = True
        if not line.queued:
            line.queued = True
            heappush(group.heap, (line.account.level, line.account.number, line))
            self._stale = True
        if not group.queued:
            group.queued = True
            heappush(tier.heap, (group.account.level, group.account.number, group))
            self._stale = True

    def look_again(self) -> None:
        """A step was taken out of its line here: what was found first may be no more."""
        self._stale = True

    def hold(self, line: Line) -> None:
        """Takes a whole line out, with what comes to it meanwhile: its user may have nothing more now."""
        heap = line.group.heap
        if heap and heap[0][2] is line:
            heappop(heap)
        else:
            heap[:] = [entry for entry in heap if entry[2] is not line]
            heapify(heap)
        line.held = True
        self._stale = True

    def free(self, line: Line) -> None:
        """Puts a line back that was held."""
        group = line.group
        line.held = False
        heappush(group.heap, (line.account.level, line.account.number, line))
        if not group.queued:
            group.queued = True
            heappush(group.tier.heap, (group.account.level, group.account.number, group))
        self._stale = True

    def head(self) -> Entry | None:
        """The first entry, the same object while it is still true; None when nothing waits."""
        best = self._best
        if best is not None and not self._stale:
            step = best[STEP]
            line, job = step.line, step.job
            if (
                line is not None
                and line.account.level == best[3]
                and line.group.account.level == best[1]
                and line.group.tier.priority == -best[0]
                # As ``Step.leasable`` says, which is asked where that is not plain.
                and step.counts[QUEUED] > len(step.parked)
                and not job.paused
                and not (job.scouting and not step.leasable())
            ):
                return best
        self._stale = False
        for negative in self._negative:
            found = self._tiers[-negative].head()
            if found is not None:
                line = found.line
                assert line is not None
                group = line.group
                self._best = (
                    negative,
                    group.account.level,
                    group.account.number,
                    line.account.level,
                    line.account.number,
                    found.job.rank,
                    found.job.id,
                    found.rank,
                    found.index,
                    found.id,
                    found,
                )
                return self._best
        self._best = None
        return None

    def each(self) -> Iterator[Step]:
        """Every step that waits here, in no order that means anything; not those of lines that are held."""
        for tier in self._tiers.values():
            for group in tier.groups.values():
                for line in group.lines.values():
                    if not line.held:
                        yield from line.each()

    def waiting(self) -> list[Step]:
        """Those of ``each``, in the order they would come now (for explanations: it is slow)."""
        found: dict[int, tuple[Place, Step]] = {}
        for priority, tier in self._tiers.items():
            for group in tier.groups.values():
                for line in group.lines.values():
                    for step in () if line.held else line.each():
                        key = (
                            -priority,
                            group.account.level,
                            group.account.number,
                            line.account.level,
                            line.account.number,
                            step.job.rank,
                            step.job.id,
                            step.rank,
                            step.index,
                            step.id,
                        )
                        found[step.id] = (key, step)
        return [step for _, step in sorted(found.values(), key=lambda pair: pair[0])]


def order_key(step: Step) -> Place:
    """Where a step comes in the whole order, as an Entry without the step: smaller goes first."""
    job = step.job
    project, user = job.project_account, job.user_account
    return (
        -job.priority,
        project.level,
        project.number,
        user.level,
        user.number,
        job.rank,
        job.id,
        step.rank,
        step.index,
        step.id,
    )
