"""What must be true of a farm, judged from outside: events in, stored rows and commands out.

What belongs here: an account of attempts, failures, money and moves kept from rows and commands alone, and
the complaints when the core breaks a promise.  What it may not do: look into the core's own bookkeeping of
attempts, notes or queues (it reads the maps of unit states, nodes' connection states and totals, which people
see too).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec

from farm.core.apply import units_of
from farm.core.events import (
    ActEvent,
    BeatEvent,
    ByeEvent,
    DispatchEvent,
    HelloEvent,
    ReportEvent,
    TickEvent,
    VerifiedEvent,
)
from farm.core.outcome import DiscardCommand, GrantCommand, LeaseCommand, Outcome, StopCommand
from farm.core.rows import BulkRow, LeaseRow, NodeRow, ResultRow, SeenRow, SpecRow, StaleRow, StepEditRow
from farm.core.state import Farm, Node, Step
from farm.model.ids import attempt_folder
from farm.model.money import rate_cost
from farm.model.reports import DONE as SAYS_DONE
from farm.model.states import LEGAL_MOVES, AttemptKind, NodeState, UnitState
from farm.model.versions import version_ok
from tests.support.core_needs import frames_of, verdicts, work_order

#: Kinds of attempts that render: they hold all that their step asks for.
RENDERS = (AttemptKind.RENDER, AttemptKind.COPY)
BLAMES_NODE = frozenset({"renderer", "output", "timeout", "silent", "config", "path"})
LOST_US = 60_000_000
_GIVEN_UP = {UnitState.SKIPPED.value: "skip", UnitState.CANCELED.value: "cancel"}


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


@dataclass
class Share:
    """Use of a project or user as fair share counts it, in floats: inflated core-seconds by weight."""

    level: float = 0.0
    credit: float = 0.0

    def charge(self, amount: float, weight: int) -> None:
        """Adds use, paid from credit first; negative = credit."""
        if amount < 0:
            self.credit -= amount
            return
        taken = min(self.credit, amount)
        self.credit -= taken
        self.level += (amount - taken) / weight


@dataclass
class Truth:
    """The account."""

    shares: dict[tuple[str, ...], Share] = field(default_factory=dict)
    #: Attempt -> (core share it holds, what it was charged).
    charges: dict[int, tuple[float, float]] = field(default_factory=dict)
    #: Step -> frames measured, and seconds they took.
    measured: dict[int, tuple[int, float]] = field(default_factory=dict)
    first_us: int = 0
    #: Steps of which the present event changed units.
    changed: set[int] = field(default_factory=set)
    #: Nodes kept for a large request before this event.
    reserved: set[int] = field(default_factory=set)

    leases: dict[int, Lease] = field(default_factory=dict)
    maps: dict[int, bytes] = field(default_factory=dict)
    failed_on: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    node_failures: Counter[tuple[int, int]] = field(default_factory=Counter)
    lost_folders: dict[tuple[int, int], set[str]] = field(default_factory=dict)
    marked: set[tuple[int, int]] = field(default_factory=set)
    waits_licence: set[tuple[int, int]] = field(default_factory=set)
    #: Units that ever failed: they may have to go alone, or elsewhere, whatever their place in the order.
    hurt: set[tuple[int, int]] = field(default_factory=set)
    #: Memory a try of the unit had when it ran out; the next one must have more, or all there is.
    ran_out: dict[tuple[int, int], int] = field(default_factory=dict)
    short_of_vram: set[tuple[int, int]] = field(default_factory=set)
    heard_us: dict[int, int] = field(default_factory=dict)
    meters: dict[int, Meter] = field(default_factory=dict)
    published: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    asked: dict[tuple[int, int], tuple[object, ...]] = field(default_factory=dict)
    granted: dict[tuple[int, int], tuple[object, ...]] = field(default_factory=dict)
    pictures: dict[tuple[int, int], object] = field(default_factory=dict)

    # -- every event --

    def judge(self, event: Any, out: Outcome, farm: Farm) -> None:
        """Takes one handled event.

        Raises:
            Broken: A promise does not hold.
        """
        self._meter_before(event, out, farm)
        before = dict(self.maps)
        commands = {c.attempt: c for c in out.commands if isinstance(c, LeaseCommand)}
        for row in out.rows:
            if isinstance(row, LeaseRow):
                self._lease(row, commands.get(row.id), farm)
            elif isinstance(row, ResultRow):
                self._result(row, event, farm)
                if row.new == UnitState.DONE and row.old != row.new:
                    self._second_is_stopped(row, out)
            elif isinstance(row, BulkRow):
                self._bulk(row, before, out)
                if isinstance(event, ActEvent) and row.who != "farm":
                    self._wills_change(row)
            elif isinstance(row, StaleRow):
                self.seen["stale"] += 1
            elif isinstance(row, SpecRow):
                self.seen["spec"] += 1
                if not row.specs or not self._was_granted(row.step_id, row.unit):
                    self._specs_dropped(row.step_id)
        self._moves(out, farm)
        self._needs(out, before, farm)
        self._grants(event, out)
        self._hear(event, out)
        self._money(event, farm)
        self._pauses(out, farm)
        self._keeps(event, out)
        if isinstance(event, DispatchEvent):
            self._order(out, before, farm)
            self._sequence(out, farm)
        self._shares(out, farm)
        self.reserved = {node.id for node in farm.nodes.values() if node.reserved is not None}

    def _moves(self, out: Outcome, farm: Farm) -> None:
        """Only legal moves, and rows that explain every one of them."""
        told: dict[int, set[tuple[int, int]]] = {}
        for row in out.rows:
            if isinstance(row, ResultRow | BulkRow | LeaseRow) and row.old != row.new:
                verify = isinstance(row, LeaseRow) and row.kind == AttemptKind.VERIFY
                if not verify:
                    told.setdefault(row.step_id, set()).add((row.old, row.new))
        self.changed = set()
        for step in farm.steps.values():
            old = self.maps.get(step.id)
            if old == step.state:
                continue
            now = bytes(step.state)
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
            self.maps[step.id] = now

    def _needs(self, out: Outcome, before: dict[int, bytes], farm: Farm) -> None:
        """What waits for something is blocked, what waits for nothing is not, what has no hope is given up.

        Judged are the steps that changed, and those that wait for a step that did.
        """
        changed = self.changed
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
            gives_up = isinstance(row, BulkRow) and row.who == "farm" and row.new in _GIVEN_UP
            if gives_up and row.units != "*":
                word = _GIVEN_UP[row.new]
                for unit in units_of(row.units):
                    step = farm.steps[row.step_id]
                    said = verdicts(farm, step, unit, self.maps)
                    if word not in said:
                        # What had failed may be made anew by the same act, after this was given up for it.
                        with contextlib.suppress(KeyError, IndexError):
                            said = verdicts(farm, step, unit, before)
                    must(word in said, f"{step.address} {unit} was given up, but its needs say {said}")
                    self.seen[f"given-up-{word}"] += 1

    def _need(
        self, farm: Farm, step: Step, unit: int, state: int, looked: bool, before: dict[int, bytes]
    ) -> None:
        where = f"{step.address} unit {unit}"
        said = verdicts(farm, step, unit, self.maps)
        waits = any(word != "met" for word in said)
        if state in (UnitState.QUEUED, UnitState.RUNNING):
            must(not waits, f"{where} is {UnitState(state).word} but its needs say {said}")
        elif state == UnitState.BLOCKED:
            must(waits or looked, f"{where} is blocked but waits for nothing")
            must("skip" not in said and "cancel" not in said, f"{where} waits for what has failed: {said}")
            self.seen["waits"] += 1
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

    def _sequence(self, out: Outcome, farm: Farm) -> None:
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
            held = {unit for lease in self.leases.values() if not lease.over for unit in lease.may_run
                    if lease.row.step_id == step.id and lease.row.kind != AttemptKind.VERIFY}  # fmt: skip
            for unit, state in enumerate(step.state):
                key = (step.id, unit)
                if state == UnitState.QUEUED and order_of[unit] < places[-1]:
                    excused = unit in held or key in self.hurt or key in self.waits_licence
                    must(excused, f"{step.address} leased {units} before {unit} ({step.spec.order})")
            self.seen[f"order-{step.spec.order.partition(':')[0]}"] += 1

    def _was_granted(self, step_id: int, unit: int) -> bool:
        return any(
            self.leases[attempt].row.step_id == step_id and other == unit for attempt, other in self.granted
        )

    def _specs_dropped(self, step_id: int) -> None:
        """The looks that counted count no more: what was granted by them is refused once it is done.

        Either the only done frame is rendered again, or a file marked done came before the frame that was
        granted as the first.
        """
        for attempt, unit in list(self.granted):
            if self.leases[attempt].row.step_id == step_id:
                del self.granted[attempt, unit]

    def _grants(self, event: Any, out: Outcome) -> None:
        """All pictures that may be published or are done look alike, as far as anyone could know."""
        if isinstance(event, VerifiedEvent):
            self.asked[event.attempt, event.unit] = event.specs
        for command in out.commands:
            if not isinstance(command, GrantCommand):
                continue
            key = (command.attempt, command.unit)
            self.seen["refused-picture" if command.reason else "granted"] += 1
            lease = self.leases[command.attempt]
            if command.reason or lease.over or command.unit not in lease.owed:
                continue
            step_id, mine = lease.row.step_id, self.asked[key]
            self.granted[key] = mine
            if lease.row.kind == AttemptKind.COPY:
                told = {*command.supersedes, *lease.supersedes}
                missing = self.lost_folders.get((step_id, command.unit), set()) - told
                must(not missing, f"{key}: the grant does not supersede {missing}")
                for other in self.leases.values():
                    rival = other is not lease and not other.over and other.row.kind != AttemptKind.VERIFY
                    mine_too = other.row.step_id == step_id and command.unit in other.owed
                    must(not (rival and mine_too), f"{key} may publish while @{other.row.no} may")
            first = mine[0] if mine else None
            for (other_step, unit), picture in self.pictures.items():
                if other_step == step_id and picture and first and self.maps[step_id][unit] == UnitState.DONE:
                    must(picture == first, f"{key} may publish what looks unlike done unit {unit}")
            for (attempt, unit), other in self.granted.items():
                peer = self.leases[attempt]
                if (
                    peer.row.step_id == step_id
                    and not peer.over
                    and unit in peer.owed
                    and unit in peer.may_run
                ):
                    must(
                        self._alike(step_id, unit, other, mine),
                        f"{key} and {(attempt, unit)} may both publish",
                    )

    def _alike(self, step_id: int, unit: int, one: object, two: object) -> bool:
        running = self.maps[step_id][unit] == UnitState.RUNNING
        return one == two or not running

    # -- leases --

    def _lease(self, row: LeaseRow, command: LeaseCommand | None, farm: Farm) -> None:
        step, node = farm.steps[row.step_id], farm.nodes[row.node_id]
        units = units_of(row.units)
        must(command is not None and command.units == units, f"{step.address}@{row.no}: no lease was sent")
        must(row.id not in self.leases, f"attempt {row.id} was leased twice")
        self.seen[f"lease-{AttemptKind(row.kind).name.lower()}"] += 1
        if row.kind == AttemptKind.RENDER:
            must(not step.job.paused, f"{step.address} was leased though its job is paused")
        if row.kind != AttemptKind.VERIFY:
            self._lease_units(row, units, command, step, node, farm)
        self._cut(row.node_id, row.at_us)
        lease = Lease(row, units, set(units), set(units), command.supersedes if command else ())
        if row.kind in RENDERS:
            lease.disk_mib, lease.tokens = step.resources.disk_mib, step.resources.tokens
        self.leases[row.id] = lease
        self._resources(node, step, row)

    def _lease_units(
        self, row: LeaseRow, units: tuple[int, ...], command: Any, step: Step, node: Node, farm: Farm
    ) -> None:
        for other in self.leases.values():
            if other.row.step_id == step.id and not other.over and other.row.kind != AttemptKind.VERIFY:
                both = other.may_run & set(units)
                if row.kind == AttemptKind.COPY and both <= other.owed and other.row.kind != AttemptKind.COPY:
                    continue
                must(not both, f"{step.address} {sorted(both)} is leased while @{other.row.no} may run it")
        if row.kind == AttemptKind.COPY:
            self._copy(row, units, command, step)
        told = {*command.supersedes, command.adopt_folder}
        for unit in units:
            key = (step.id, unit)
            missing = self.lost_folders.get(key, set()) - told
            must(not missing, f"{step.address} {unit}: the lease does not supersede {missing}")
            if row.kind == AttemptKind.RENDER:
                self._other_node(step, unit, node, farm)
                must(key not in self.waits_licence, f"{step.address} {unit} is leased during its back-off")
            if row.kind in RENDERS:
                self._more_memory(row, step, unit, farm)

    def _copy(self, row: LeaseRow, units: tuple[int, ...], command: Any, step: Step) -> None:
        """A second copy is of one running unit, elsewhere, asks before it publishes, of work with files."""
        where = f"{step.address}@{row.no}, a second copy,"
        must(len(units) == 1 and row.old == row.new == UnitState.RUNNING, f"{where} has units {units}")
        must(command.ask and bool(step.spec.outputs), f"{where} does not ask before it publishes")
        firsts = [
            x for x in self.leases.values() if not x.over and x.row.step_id == step.id and units[0] in x.owed
        ]
        firsts = [x for x in firsts if x.row.kind != AttemptKind.VERIFY]
        must(len(firsts) == 1, f"{where} is one of {len(firsts) + 1} attempts of its unit")
        must(firsts[0].row.node_id != row.node_id, f"{where} runs where the first attempt does")
        must(not step.job.paused, f"{where} was leased though its job is paused")

    def may_publish(self, number: int, unit: int) -> None:
        """A file of an attempt moves to its final name now.

        Raises:
            Broken: Another attempt of the same unit published it, or still may.
        """
        mine = self.leases[number]
        for other in self.leases.values():
            if other is mine or other.over or other.row.step_id != mine.row.step_id:
                continue
            if other.row.kind == AttemptKind.VERIFY or unit not in other.units:
                continue
            done = other.row.id in self.published.get((mine.row.step_id, unit), ())
            must(
                not (done and unit in other.owed),
                f"unit {unit}: @{mine.row.no} and @{other.row.no} published",
            )
            if mine.row.kind == AttemptKind.COPY:
                must(
                    unit not in other.owed,
                    f"unit {unit}: copy @{mine.row.no} published before @{other.row.no} ended",
                )

    def _more_memory(self, row: LeaseRow, step: Step, unit: int, farm: Farm) -> None:
        before = self.ran_out.get((step.id, unit))
        if before is None or step.whole:
            return
        able = [other for other in farm.nodes.values() if in_service(other) and capable(step, other)]
        most = max((other.facts.total.ram_mib for other in able), default=0)
        enough = row.ram_mib > before or row.ram_mib >= min(most, farm.nodes[row.node_id].facts.total.ram_mib)
        must(enough, f"{step.address} {unit} ran out of {before} MiB and got {row.ram_mib}")

    def _other_node(self, step: Step, unit: int, node: Node, farm: Farm) -> None:
        able = [other for other in farm.nodes.values() if in_service(other) and capable(step, other)]
        fresh = [other for other in able if self.node_failures[step.id, other.id] < 3]
        must(node in able, f"{step.address} was leased to {node.name}, which cannot take it")
        if self.node_failures[step.id, node.id] >= 3:
            must(not fresh, f"{step.address} went to {node.name}, which failed 3 times for it")
        failed = self.failed_on.get((step.id, unit), set())
        hungry = (step.id, unit) in self.ran_out or (step.id, unit) in self.short_of_vram
        if node.id in failed and not hungry:  # memory comes before another node
            others = [other.name for other in (fresh or able) if other.id not in failed]
            must(not others, f"{step.address} {unit} went to {node.name} again though {others} can take it")
            self.seen["same-node-again"] += 1

    def _resources(self, node: Node, step: Step, row: LeaseRow) -> None:
        held = [x for x in self.leases.values() if not x.over and x.row.node_id == node.id]
        mine, total, need = [x.row for x in held], node.facts.total, step.resources
        if row.kind in RENDERS:
            enough = row.cores >= need.cores and row.ram_mib >= need.ram_mib
            must(enough, f"{step.address} got {row.cores} cores and {row.ram_mib} MiB, not what it asks for")
            disk_mib = sum(x.disk_mib for x in held)
            must(disk_mib <= total.disk_mib, f"{node.name}: more disk leased than it has")
            for name in need.tokens:
                count = sum(x.tokens.get(name, 0) for x in held)
                must(count <= total.tokens.get(name, 0), f"{node.name}: more {name} leased than it has")
        must(sum(x.cores for x in mine) <= total.cores, f"{node.name}: more cores leased than it has")
        must(sum(x.ram_mib for x in mine) <= total.ram_mib, f"{node.name}: more memory leased than it has")
        gpus = [index for x in mine for index in x.gpus.split(",") if index]
        must(len(gpus) == len(set(gpus)), f"{node.name}: a GPU is leased twice")
        memory = {str(gpu.index): gpu.vram_mib for gpu in node.facts.gpus}
        for index in filter(None, row.gpus.split(",")):
            must(memory[index] >= step.resources.vram_mib, f"{node.name}: GPU {index} is too small")
        if row.kind in RENDERS:
            must(row.gpus.count(",") + bool(row.gpus) == need.gpus, f"{step.address}: GPUs missing")
        if any(x.kind in RENDERS and x.cores == total.cores for x in mine):
            must(len(mine) == 1, f"{node.name}: a whole-slice attempt shares its node")

    # -- results --

    def _result(self, row: ResultRow, event: Any, farm: Farm) -> None:
        lease = self.leases.get(row.attempt_id)
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
                self._picture(row, said, where)
            if row.failure:
                self.hurt.add(key)
                self.seen[f"failed-{row.failure}"] += 1
            if row.old == row.new == UnitState.RUNNING and lease.row.kind != AttemptKind.VERIFY:
                others = [x for x in self.leases.values() if not x.over and x.row.step_id == row.step_id]
                must(any(row.unit in x.owed for x in others), f"{where} goes on, but in no attempt")
                copy = lease.row.kind == AttemptKind.COPY
                self.seen["copy-ended" if copy else "goes-on-in-copy"] += 1
            if lease.row.kind == AttemptKind.COPY and row.new == UnitState.DONE:
                self.seen["copy-done"] += 1
            if lease.row.kind != AttemptKind.VERIFY:
                self._blame(row, lease, key)
        if row.lost and lease.row.kind != AttemptKind.VERIFY:
            folder = attempt_folder(step.job.id, step.spec.name, lease.row.no, lease.row.nonce)
            for unit in lease.units:
                told_here = unit in lease.may_run or unit == row.unit
                if told_here and self.maps[step.id][unit] != UnitState.DONE:
                    self.lost_folders.setdefault((step.id, unit), set()).add(folder)
        if row.closes:
            self._closed(row, lease, event, where)

    def _second_is_stopped(self, row: ResultRow, out: Outcome) -> None:
        """Whoever else renders a unit that got done is told to stop, and owes it no more."""
        stops = stopped_units(out)
        for number, lease in self.leases.items():
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
                self.seen["copy-beaten"] += lease.row.kind == AttemptKind.COPY
                lease.owed.discard(row.unit)

    def _done(self, row: ResultRow, lease: Lease, where: str) -> None:
        key = (row.step_id, row.unit)
        if lease.row.kind == AttemptKind.VERIFY:
            skip = row.old == UnitState.BLOCKED
            must(skip or key in self.marked, f"{where}: {UnitState(row.old).word} became done unasked")
            self.seen["marked-done"] += key in self.marked
            self.seen["skipped-existing"] += skip and key not in self.marked
        else:
            must(row.attempt_id in self.published.get(key, ()), f"{where} is done but was never published")
            must(row.old == UnitState.RUNNING, f"{where} was not running")
        self.seen["done"] += 1
        self.failed_on.pop(key, None)
        self.ran_out.pop(key, None)
        self.lost_folders.pop(key, None)
        self.waits_licence.discard(key)
        self.marked.discard(key)

    def _picture(self, row: ResultRow, said: list[Any], where: str) -> None:
        """All done frames of a step look alike."""
        files = [file for unit in said for file in unit.files]
        mine = files[0].spec if files else None
        state = self.maps[row.step_id]
        for (step_id, unit), other in self.pictures.items():
            if (
                step_id == row.step_id
                and unit != row.unit
                and state[unit] == UnitState.DONE
                and mine
                and other
            ):
                must(mine == other, f"{where} is done but looks unlike unit {unit}")
        self.pictures[row.step_id, row.unit] = mine

    def _blame(self, row: ResultRow, lease: Lease, key: tuple[int, int]) -> None:
        if row.failure in BLAMES_NODE or row.failure == "node":
            self.failed_on.setdefault(key, set()).add(lease.row.node_id)
        if row.failure in BLAMES_NODE:
            self.node_failures[row.step_id, lease.row.node_id] += 1
        if row.failure == "licence" and row.new == UnitState.QUEUED:
            self.waits_licence.add(key)
        if row.failure == "oom-ram":
            self.ran_out[key] = max(self.ran_out.get(key, 0), lease.row.ram_mib)
        elif row.failure == "oom-vram":
            self.short_of_vram.add(key)

    def _closed(self, row: ResultRow, lease: Lease, event: Any, where: str) -> None:
        node, number = lease.row.node_id, row.attempt_id
        if isinstance(event, ReportEvent):
            must(event.attempt == number and event.closed, f"{where} was closed by another's report")
        elif isinstance(event, TickEvent):
            silent_us = event.now_us - self.heard_us[node]
            must(silent_us >= LOST_US, f"{where} was given up after {silent_us / 1e6} s of silence")
            must(bool(row.lost), f"{where}: the node is silent but the attempt not lost")
            self.seen["lost"] += 1
        elif isinstance(event, HelloEvent):
            named = number in event.running or number in event.pending
            must(not named, f"{where} was closed though its agent named it")
        elif isinstance(event, BeatEvent):
            must(number in event.missing and event.node_id == node, f"{where} was closed by a heartbeat")
        else:
            must(isinstance(event, ByeEvent) and event.node_id == node, f"{where} was closed by {event!r}")
        self._cut(node, row.at_us)
        off = abs(row.charge_nano - lease.owes)
        must(off <= lease.cuts + 1, f"{where} was charged {row.charge_nano}, not {float(lease.owes)}")
        must(0 <= row.waste_nano <= row.charge_nano, f"{where}: waste {row.waste_nano} of {row.charge_nano}")
        lease.over = True

    def _pauses(self, out: Outcome, farm: Farm) -> None:
        """A job of which a tenth (at least five) of the frames have failed stands still."""
        for row in out.rows:
            if isinstance(row, ResultRow) and row.new == UnitState.FAILED != row.old:
                job = farm.steps[row.step_id].job
                states = b"".join(bytes(step.state) for step in job.steps)
                failed = states.count(UnitState.FAILED)
                if failed >= 5 and failed * 10 >= len(states) and any(state < 3 for state in states):
                    must(job.paused, f"J{job.id} goes on though {failed} frames have failed")
                    self.seen["paused-itself"] += 1

    def _keeps(self, event: Any, out: Outcome) -> None:
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
            for x in self.leases.values()
        )
        discards = any(isinstance(c, DiscardCommand) for c in out.commands)
        must(adopts or running or discards, f"kept files of attempt {event.attempt} are forgotten")

    def _bulk(self, row: BulkRow, before: dict[int, bytes], out: Outcome) -> None:
        state = self.maps.get(row.step_id) or before.get(row.step_id, b"")
        units = [u for u, s in enumerate(state) if s == row.old] if row.units == "*" else units_of(row.units)
        if row.old != row.new:
            move = UnitState(row.old), UnitState(row.new)
            must(move in LEGAL_MOVES, f"bulk move {move} is illegal")
        if row.old == UnitState.RUNNING:
            self._stopped(row.step_id, set(units), out)
        for unit in units:
            key = (row.step_id, unit)
            self.waits_licence.discard(key)
            if row.fresh:
                self.failed_on.pop(key, None)
                self.ran_out.pop(key, None)
        if row.fresh:
            for found in [key for key in self.node_failures if key[0] == row.step_id]:
                del self.node_failures[found]

    def _wills_change(self, row: BulkRow) -> None:
        """A user wants something else of these units than what was marked done before."""
        state = self.maps[row.step_id]
        units = [u for u, s in enumerate(state) if s == row.old] if row.units == "*" else units_of(row.units)
        self.marked -= {(row.step_id, unit) for unit in units}

    def _stopped(self, step_id: int, units: set[int], out: Outcome) -> None:
        """Whoever runs units that were taken back was told to stop them."""
        stops = stopped_units(out)
        for number, lease in self.leases.items():
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
                self.seen["stopped"] += 1
                lease.owed -= mine

    # -- silence and money --

    def _hear(self, event: Any, out: Outcome) -> None:
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

    # -- money --

    def _meter_before(self, event: Any, out: Outcome, farm: Farm) -> None:
        """Rates that change and meters that stop cut time before anything else of the event does."""
        if isinstance(event, HelloEvent):
            number = out.reply.node_id
            mine = self.meters.setdefault(number, Meter())
            if mine.on and mine.rate != event.rate_nano_h:
                self._cut(number, event.now_us)
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
                    self._cut(number, end_us)
                    mine.base += mine.cost(end_us)
                    mine.on = False

    def _cut(self, number: int, at_us: int) -> None:
        """Time up to here is paid by who was on the node, by shares, exactly."""
        mine = self.meters[number]
        if not mine.on or at_us <= mine.cut_us:
            return
        live = [x for x in self.leases.values() if not x.over and x.row.node_id == number]
        whole = max(1_000_000, sum(lease.row.share_ppm for lease in live))
        for lease in live:
            part = mine.rate * (at_us - mine.cut_us) * lease.row.share_ppm
            lease.owes += Fraction(part, whole * 3_600_000_000)
            lease.cuts += 1
        mine.cut_us = at_us

    def _money(self, event: Any, farm: Farm) -> None:
        """Every node's total is the cost of its intervals, each from its own origin, to the nano-USD."""
        for number, mine in self.meters.items():
            node = farm.nodes[number]
            must(mine.on == node.meter_on, f"{node.name}: its meter {'runs' if node.meter_on else 'stands'}")
            cost = mine.cost(node.metered_us) if mine.on else 0
            must(node.total_nano == mine.base + cost, f"{node.name}: {node.total_nano} is not what it cost")
            must(not mine.on or node.metered_us == mine.cut_us, f"{node.name}: its meter was cut elsewhere")

    # -- order --

    def _accounts(self, step: Step) -> tuple[Share, Share]:
        job = step.job
        project = self.shares.setdefault((job.project,), Share())
        return project, self.shares.setdefault((job.project, job.user), Share())

    def _weight(self, farm: Farm, at_us: int) -> float:
        """What use counts now: twice as much every half-life."""
        return 2.0 ** ((at_us - self.first_us) / 3.6e9 / farm.policy.half_life_h)

    def _shares(self, out: Outcome, farm: Farm) -> None:
        """Charges leases with what they are expected to take and corrects that when they end."""
        for row in out.rows:
            if isinstance(row, LeaseRow) and row.kind in (
                AttemptKind.RENDER,
                AttemptKind.ADOPT,
                AttemptKind.COPY,
            ):
                self._charge_use(row, farm)
            elif isinstance(row, ResultRow):
                if row.new == UnitState.DONE and self.leases[row.attempt_id].row.kind == AttemptKind.RENDER:
                    count, seconds = self.measured.get(row.step_id, (0, 0.0))
                    self.measured[row.step_id] = (count + 1, seconds + row.elapsed_us / 1e6)
                if row.closes and row.attempt_id in self.charges:
                    held, charged = self.charges.pop(row.attempt_id)
                    lasted_s = (row.at_us - self.leases[row.attempt_id].row.at_us) / 1e6
                    more = (held * lasted_s - charged) * self._weight(farm, row.at_us)
                    self._charge_both(farm.steps[row.step_id], more, farm)

    def _charge_use(self, row: LeaseRow, farm: Farm) -> None:
        self.first_us = self.first_us or row.at_us
        count, seconds = self.measured.get(row.step_id, (0, 0.0))
        held = row.share_ppm / 1e6 * farm.nodes[row.node_id].facts.total.cores
        amount = held * len(units_of(row.units)) * (seconds / count if count else 30.0)
        self.charges[row.id] = (held, amount)
        self._charge_both(farm.steps[row.step_id], amount * self._weight(farm, row.at_us), farm)

    def _charge_both(self, step: Step, amount: float, farm: Farm) -> None:
        project, user = self._accounts(step)
        project.charge(amount, farm.policy.projects.get(step.job.project, 1))
        user.charge(amount, farm.policy.users.get(step.job.user, 1))

    def _before(self, one: Step, other: Step) -> bool:
        """Whether ``one`` certainly comes first; shares too near to tell apart count as equal."""
        if one.job.priority != other.job.priority:
            return one.job.priority > other.job.priority
        for mine, theirs in zip(self._accounts(one), self._accounts(other), strict=True):
            if mine is not theirs:
                near = 0.03 * max(mine.level, theirs.level, 1.0)
                if abs(mine.level - theirs.level) > near:
                    return mine.level < theirs.level
                return False
        return (one.job.id, one.index) < (other.job.id, other.index)

    def _learns(self, other: Step, step: Step) -> bool:
        """Whether a step of which nothing is known, but enough runs to learn from, lets others go first."""
        running = sum(1 for lease in self.leases.values() if lease.row.step_id == other.id and not lease.over)
        known = self.measured.get(other.id, (0, 0.0))[0]
        same = other.job.priority == step.job.priority
        return same and other.spec.chunk == "auto" and not known and running >= 8

    def _order(self, out: Outcome, before: dict[int, bytes], farm: Farm) -> None:
        """No unit waits that a node could take now, or could have taken instead of one that comes later."""
        left = [step for step in farm.steps.values() if self._leasable(step)]
        leased = [row for row in out.rows if isinstance(row, LeaseRow)]
        if leased:
            kept = (
                {key: (share.level, share.credit) for key, share in self.shares.items()},
                dict(self.charges),
            )
        later: Counter[int] = Counter(row.node_id for row in leased)
        for row in leased:
            node, step = farm.nodes[row.node_id], farm.steps[row.step_id]
            without = later[node.id]
            later[node.id] -= 1
            if row.kind != AttemptKind.RENDER:
                continue
            for other in left if node.id not in self.reserved else ():
                if (
                    self._before(other, step)
                    and not self._learns(other, step)
                    and self._could_take(other, node, without=without, leased=leased)
                ):
                    must(False, f"{step.address} was leased to {node.name} before {other.address}")
            self._charge_use(row, farm)
        if leased:
            self.shares = {key: Share(*figures) for key, figures in kept[0].items()}
            self.charges = kept[1]
        for node in farm.nodes.values():
            if in_service(node) and node.state is NodeState.ONLINE and node.reserved is None:
                for step in left:
                    free = self._could_take(step, node, without=0, leased=leased)
                    must(not free, f"{node.name} idles though {step.address} waits")

    def _leasable(self, step: Step) -> bool:
        if step.job.paused:
            return False
        return any(step.state[unit] == UnitState.QUEUED for unit in self._offered(step))

    def _offered(self, step: Step) -> Iterable[int]:
        """Units that may be leased: while a job is scouting only its scout frames."""
        return step.scouts if step.job.scouting and step.frames is not None else range(step.units)

    def _could_take(self, step: Step, node: Node, *, without: int, leased: list[LeaseRow]) -> bool:
        if not capable(step, node) or self.node_failures[step.id, node.id] >= 3:
            return False
        held = [x for x in self.leases.values() if not x.over and x.row.node_id == node.id]
        mine = [x.row for x in held]
        gone = (
            {row.id for row in [row for row in leased if row.node_id == node.id][-without:]}
            if without
            else set()
        )
        mine = [row for row in mine if row.id not in gone]
        held = [x for x in held if x.row.id not in gone]
        total, need = node.facts.total, step.resources
        if step.whole and mine:
            return False
        if need.cores > total.cores - sum(row.cores for row in mine):
            return False
        if total.cores == sum(row.cores for row in mine) or need.ram_mib > total.ram_mib - sum(
            r.ram_mib for r in mine
        ):
            return False
        if need.disk_mib > total.disk_mib - sum(x.disk_mib for x in held):
            return False
        for name, count in need.tokens.items():
            if count > total.tokens.get(name, 0) - sum(x.tokens.get(name, 0) for x in held):
                return False
        used = {index for row in mine for index in row.gpus.split(",")}
        able = [g for g in node.facts.gpus if str(g.index) not in used and g.vram_mib >= need.vram_mib]
        if len(able) < need.gpus:
            return False
        running = set()
        for lease in self.leases.values():
            if lease.row.step_id == step.id and not lease.over and lease.row.kind != AttemptKind.VERIFY:
                running |= lease.may_run
        for unit in self._offered(step):
            key = (step.id, unit)
            if step.state[unit] != UnitState.QUEUED or unit in running or key in self.waits_licence:
                continue
            if (
                key in self.ran_out or key in self.short_of_vram
            ):  # what it needs now is more than its step says
                continue
            if node.id not in self.failed_on.get(key, ()):
                return True
        return False


def stopped_units(out: Outcome) -> dict[int, tuple[int, ...]]:
    """Units that agents were told to drop, by attempt; none = all of it."""
    stops: dict[int, tuple[int, ...]] = {}
    for command in out.commands:
        if isinstance(command, StopCommand):
            before = stops.get(command.attempt)
            whole = not command.units or before == ()
            stops[command.attempt] = () if whole else (*(before or ()), *command.units)
    return stops


def in_service(node: Node) -> bool:
    """Whether the node may be counted on for work."""
    return node.enabled and not node.forgotten and node.state in (NodeState.ONLINE, NodeState.SUSPECT)


def capable(step: Step, node: Node) -> bool:
    """Whether the node, empty, could take the step: filters written down once more, independently."""
    spec, facts, need = step.spec, node.facts, step.resources
    versions = [app.version for app in facts.apps if app.name == step.app]
    return (
        (not spec.pools or node.pool in spec.pools)
        and spec.site in ("", node.site)
        and spec.renderer in facts.renderers
        and (not step.app or any(version_ok(version, spec.version) for version in versions))
        and all(
            facts.attributes.get(k) in ((v,) if v != "*" else (facts.attributes.get(k) or "",))
            for k, v in spec.attributes.items()
        )
        and need.cores <= facts.total.cores
        and need.ram_mib <= facts.total.ram_mib
        and sum(gpu.vram_mib >= need.vram_mib for gpu in facts.gpus) >= need.gpus
        and need.disk_mib <= facts.total.disk_mib
        and all(count <= facts.total.tokens.get(name, 0) for name, count in need.tokens.items())
    )
