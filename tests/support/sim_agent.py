"""A simulated render agent and the disk it writes to: what physically happens, whatever the core believes.

What belongs here: attempts held, units rendered, files in attempt folders and at their final names, the
publish fence, the durable outbox.  What it may not know: the core.  The rules are those the real agent keeps
(verify, ask while the specification is unknown, rename only behind a fresh heartbeat answer, report, close).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from farm.core.outcome import LeaseCommand
from farm.model.ids import attempt_folder
from farm.model.nodes import NodeFacts
from farm.model.outputs import FileFacts, PictureSpec
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.states import AttemptKind, FailureClass

GOOD = PictureSpec(64, 48, ("R", "G", "B"), ("half",) * 3)
ODD = PictureSpec(32, 48, ("R", "G", "B"), ("half",) * 3)
LEASE_TTL_US = 45_000_000
FAILURES = tuple(word.value for word in FailureClass if word not in ("lost", "preempted"))

TODO, ASKING, READY, PUBLISHED, SETTLED = "todo", "asking", "ready", "published", "settled"


@dataclass
class Disk:
    """Files all nodes see: final names, and what lies in attempts' folders."""

    #: (pattern, frame) -> (picture, attempt that put it there; 0 = was there before the farm).
    files: dict[tuple[str, int | None], tuple[PictureSpec, int]] = field(default_factory=dict)
    folders: dict[str, dict[int, PictureSpec]] = field(default_factory=dict)


@dataclass
class Held:
    """An attempt on this agent."""

    lease: LeaseCommand
    units: dict[int, str]
    reports: list[UnitReport] = field(default_factory=list)
    dropped: set[int] = field(default_factory=set)
    stop: bool = False
    lost: bool = False
    fence_us: int | None = None

    @property
    def folder(self) -> str:
        """Name of its folder."""
        step = self.lease.step
        return attempt_folder(step.job.id, step.spec.name, self.lease.no, self.lease.nonce)


@dataclass(frozen=True)
class Report:
    """An outbox entry."""

    attempt: int
    nonce: int
    units: tuple[UnitReport, ...]
    closed: bool
    kept: tuple[int, ...] = ()


class SimAgent:
    """One agent.

    Attributes:
        node_id: What the broker called it, 0 before the first hello.
        session: Number of its open session, 0 while it has none.
        flaky: How likely a unit fails on it.
        muted: Its line is up but nothing gets through (a stalled machine, a half-open connection).
    """

    def __init__(
        self, key: str, facts: NodeFacts, disk: Disk, *, pool: str = "", site: str = "local"
    ) -> None:
        self.key, self.facts, self.disk, self.pool, self.site = key, facts, disk, pool, site
        self.node_id = 0
        self.session = 0
        self.muted = False
        self.flaky = 0.0
        self.got = 0
        self.held: dict[int, Held] = {}
        self.outbox: list[Report] = []
        self.kept: dict[str, dict[int, PictureSpec]] = {}
        self.kept_of: dict[int, str] = {}

    # -- what the broker says --

    def take(self, lease: LeaseCommand) -> None:
        """Takes an attempt on; what it supersedes is emptied before anything is published."""
        if lease.attempt in self.held:
            return
        held = self.held[lease.attempt] = Held(lease, dict.fromkeys(lease.units, TODO))
        for name in lease.supersedes:
            self.disk.folders.pop(name, None)
        if lease.kind == AttemptKind.ADOPT:
            found = self.disk.folders.get(lease.adopt_folder, {})
            for unit in lease.units:
                if unit in found:
                    self.disk.folders.setdefault(held.folder, {})[unit] = found.pop(unit)
                    held.units[unit] = ASKING if lease.ask else READY
                else:
                    self._settle(held, UnitReport(unit, FAILED, "output", "the kept file is gone"))

    def grant(self, attempt: int, unit: int, reason: str, supersedes: tuple[str, ...] = ()) -> None:
        """A waiting unit may be published, or is refused; what it supersedes is emptied before."""
        held = self.held.get(attempt)
        if held is None or held.stop or held.units.get(unit) != ASKING:
            return
        if reason:
            self._settle(held, UnitReport(unit, FAILED, "output", reason))
        else:
            held.units[unit] = READY
            for name in supersedes:
                self.disk.folders.pop(name, None)

    def stop(self, attempt: int, units: tuple[int, ...], *, take_back: bool = False) -> None:
        """Stops an attempt or drops some of its units (or only those not begun); what is published stays."""
        held = self.held.get(attempt)
        if held is None:
            return
        if take_back:
            held.dropped.update(unit for unit in units if held.units.get(unit) == TODO)
            return
        if not units:
            held.stop = True
        held.dropped.update(units)

    def discard(self, attempt: int) -> None:
        """Deletes kept files."""
        folder = self.kept_of.pop(attempt, "")
        self.disk.folders.pop(folder, None)

    def answered(self, sent_us: int, listed: tuple[int, ...], held: tuple[int, ...]) -> None:
        """A heartbeat was answered: the fence opens for what both sides hold; the rest is lost."""
        for attempt in listed:
            mine = self.held.get(attempt)
            if mine is None:
                continue
            if attempt in held:
                mine.fence_us = sent_us if not mine.lost else None
            else:
                self.lose(attempt)

    def lose(self, attempt: int) -> None:
        """The farm gave an attempt up: nothing of it may be published any more."""
        held = self.held[attempt]
        held.lost = held.stop = True
        held.fence_us = None

    # -- what the work does --

    def render(self, held: Held, unit: int, outcome: str, rng: random.Random, now_us: int) -> None:
        """A unit is rendered (or its existing file looked at): ``good``, ``odd`` or a failure class."""
        lease, step = held.lease, held.lease.step
        elapsed_us = rng.randrange(1, 30_000_000)
        if lease.kind == AttemptKind.VERIFY:
            found = self.disk.files.get(self.path(held, unit)) if step.spec.outputs else (GOOD, 0)
            if found is None:
                self._settle(held, UnitReport(unit, FAILED, "output", "there is no such file", elapsed_us))
            else:
                self._settle(
                    held, UnitReport(unit, DONE, "", "", elapsed_us, self._facts(held, unit, found[0]))
                )
            return
        if outcome not in ("good", "odd"):
            self._settle(held, UnitReport(unit, FAILED, outcome, f"it failed ({outcome})", elapsed_us))
            return
        picture = ODD if outcome == "odd" else GOOD
        if lease.specs and lease.specs[0] is not None and lease.specs[0] != picture:
            self._settle(held, UnitReport(unit, FAILED, "output", "not as the first frame", elapsed_us))
            return
        self.disk.folders.setdefault(held.folder, {})[unit] = picture
        held.units[unit] = ASKING if lease.ask else READY

    def may_publish(self, held: Held, now_us: int) -> bool:
        """The fence."""
        return not held.lost and held.fence_us is not None and now_us - held.fence_us < LEASE_TTL_US

    def publish(self, held: Held, unit: int) -> bool:
        """Moves a ready unit's file to its final name; False when its source is gone."""
        picture = self.disk.folders.get(held.folder, {}).pop(unit, None)
        if picture is None:
            self._settle(held, UnitReport(unit, FAILED, "output", "the file is gone"))
            return False
        if held.lease.step.spec.outputs:
            self.disk.files[self.path(held, unit)] = (picture, held.lease.attempt)
        held.units[unit] = PUBLISHED
        return True

    def settle_published(self, held: Held, unit: int, rng: random.Random) -> None:
        """A published unit's result is written down (a crash may come between)."""
        picture = GOOD
        if held.lease.step.spec.outputs:
            picture = self.disk.files[self.path(held, unit)][0]
        report = UnitReport(
            unit, DONE, "", "", rng.randrange(1, 30_000_000), self._facts(held, unit, picture)
        )
        self._settle(held, report)

    def path(self, held: Held, unit: int) -> tuple[str, int | None]:
        """Final name of a unit's file."""
        step = held.lease.step
        return step.spec.outputs[0].pattern, step.frame_of(unit)

    def _facts(self, held: Held, unit: int, picture: PictureSpec) -> tuple[FileFacts, ...]:
        outputs = held.lease.step.spec.outputs
        if not outputs:
            return ()
        spec = None if outputs[0].kind == "movie" else picture
        return (FileFacts(f"{outputs[0].pattern}:{unit}", 100, "00" * 32, 0, spec),)

    def _settle(self, held: Held, report: UnitReport) -> None:
        held.units[report.unit] = SETTLED
        held.reports.append(report)

    # -- reports --

    def report(self, held: Held, *, split: bool) -> None:
        """Writes what is known of an attempt to the outbox, its end too once nothing of it runs."""
        for unit, state in held.units.items():
            if state in (TODO, ASKING, READY) and (held.stop or unit in held.dropped):
                kept = held.lost and state != TODO and held.lease.kind != AttemptKind.VERIFY
                why = "lost" if held.lost else ""
                held.units[unit] = SETTLED
                held.reports.append(UnitReport(unit, RELEASED, why, "kept" if kept else "stopped"))
        over = all(state == SETTLED for state in held.units.values())
        lease = held.lease
        units, held.reports = tuple(held.reports), []
        if not over:
            if units:
                self.outbox.append(Report(lease.attempt, lease.nonce, units, closed=False))
            return
        kept = tuple(self.disk.folders.get(held.folder, ())) if held.lost else ()
        if kept:
            self.kept_of[lease.attempt] = held.folder
        else:
            self.disk.folders.pop(held.folder, None)
        if split and units:
            self.outbox.append(Report(lease.attempt, lease.nonce, units, closed=False))
            units = ()
        self.outbox.append(Report(lease.attempt, lease.nonce, units, closed=True, kept=kept))
        del self.held[lease.attempt]

    def crash(self) -> None:
        """The agent's process dies and its renderers with it; on its return it reports what it began."""
        for held in list(self.held.values()):
            held.lost = held.stop = True
            for unit, state in held.units.items():
                if state == PUBLISHED:
                    held.units[unit] = TODO
            self.disk.folders.pop(held.folder, None)
            self.report(held, split=False)
        self.session = 0
