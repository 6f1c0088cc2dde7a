"""What people see: rows made from the core's state and the stored history.  Reads, never writes.

Long because every kind of row is made here, and what they say of the same work must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from farm.broker.ports import Store
from farm.broker.unitledger import split_charge
from farm.core import meter
from farm.core.actions import find_units
from farm.core.apply import DONE, FAILED, RUNNING, units_of
from farm.core.causes import given_up_for, waits_for
from farm.core.forecast import Forecast, Outlook, expected_frame_s
from farm.core.match import why_nobody
from farm.core.rows import BulkRow, LeaseRow, ResultRow
from farm.core.shelves import failure_reason, raise_gone
from farm.core.state import Attempt, Farm, Job, Node, Step
from farm.core.sums import Sums
from farm.model.errors import CallError
from farm.model.frames import format_indices
from farm.model.ids import Address
from farm.model.nodes import AttemptProgress, NodeLoad
from farm.model.outputs import FileFacts
from farm.model.states import AttemptKind, UnitState
from farm.protocol.client import AttemptRow, FrameRow, JobRow, NodeRow, SpendLine, StepRow

_FILES = msgspec.msgpack.Decoder(tuple[FileFacts, ...])
_WORDS = [state.word for state in UnitState]
#: Forecasts are made anew this often.
FORECAST_EVERY_US = 1_000_000


class Views:
    """Read side of the broker.

    Args:
        farm: The core's state.
        store: Where the history is.
    """

    def __init__(self, farm: Farm, store: Store) -> None:
        self._farm = farm
        self._store = store
        #: Last progress by attempt id, and load by node id, as heartbeats told.
        self.progress: dict[int, AttemptProgress] = {}
        self.load: dict[int, NodeLoad] = {}
        self._outlook: Outlook | None = None
        self._outlook_us = 0
        self._forecasts: dict[int, Forecast | None] = {}

    def note_progress(self, told: Iterable[AttemptProgress]) -> None:
        """Remembers how far attempts are, while they are open."""
        progress, attempts = self.progress, self._farm.attempts
        for one in told:
            if one.attempt in attempts:
                progress[one.attempt] = one
        if len(progress) > 2 * len(attempts) + 1_000:
            # Attempts that ended without their agent's word.
            self.progress = {number: one for number, one in progress.items() if number in attempts}

    @property
    def farm(self) -> Farm:
        """What is looked at: the farm, or one job of the archive by itself."""
        return self._farm

    # -- jobs --

    def find_job(self, number: int) -> Job:
        """The job.

        Raises:
            UnknownName: There is none.
        """
        job = self._farm.jobs.get(number)
        if job is None:
            raise_gone(self._farm, number)
        return job

    def job_row(self, job: Job, now_us: int, *, steps: bool = True) -> JobRow:
        """A job as lists show it."""
        spend = waste = 0
        for step in job.steps:
            spend += step.spend_nano + self._running(step, now_us)
            waste += step.waste_nano
        counts = job.counts()
        ahead = self._forecast(job, now_us)
        return JobRow(
            job=job.id,
            name=job.spec.name,
            user=job.user,
            project=job.project,
            priority=job.priority,
            state=job.shown().value,
            reason=job.reason or failure_reason(job),
            submitted_us=job.submitted_us,
            started_us=job.started_us,
            ended_us=job.ended_us,
            units=sum(counts) - sum(step.left_out for step in job.steps),
            done=counts[DONE],
            failed=counts[FAILED],
            running=counts[RUNNING],
            spend_nano=spend,
            waste_nano=waste,
            archived=job.archived,
            steps=tuple(self.step_row(step) for step in job.steps) if steps else (),
            eta_low_us=ahead.eta_low_us if ahead is not None else None,
            eta_high_us=ahead.eta_high_us if ahead is not None else None,
            cost_low_nano=ahead.cost_low_nano if ahead is not None else None,
            cost_high_nano=ahead.cost_high_nano if ahead is not None else None,
            not_estimated=ahead.unknown if ahead is not None else (),
            rank=job.rank,
        )

    def _forecast(self, job: Job, now_us: int) -> Forecast | None:
        """When a job will be done and at what cost; worked out once a second at most."""
        if not job.open_units:
            return None
        if self._outlook is None or not 0 <= now_us - self._outlook_us < FORECAST_EVERY_US:
            self._outlook, self._outlook_us = Outlook(self._farm, now_us), now_us
            self._forecasts.clear()
        if job.id not in self._forecasts:
            self._forecasts[job.id] = self._outlook.job(job)
        return self._forecasts[job.id]

    def _charge(self, attempt: Attempt, now_us: int) -> int:
        return meter.projected_charge(attempt, now_us)

    @staticmethod
    def _running(step: Step, now_us: int) -> int:
        """What the open attempts of a step are charged up to now; a node with several is asked once."""
        total = 0
        by_node: dict[int, dict[int, int]] = {}
        for attempt in step.attempts.values():
            node = attempt.node
            if len(node.attempts) < 2:
                total += meter.projected_charge(attempt, now_us)
                continue
            charges = by_node.get(node.id)
            if charges is None:
                charges = by_node[node.id] = meter.projected(node, now_us)[1]
            total += charges[attempt.id]
        return total

    def step_row(self, step: Step) -> StepRow:
        """A step as lists show it."""
        mean_s = step.busy_us / step.done_timed / 1e6 if step.done_timed else 0.0
        waits = step.counts[UnitState.QUEUED] > 0 and not step.counts[RUNNING]
        nobody = why_nobody(self._farm, step) if waits else ""
        return StepRow(
            name=step.spec.name,
            kind=step.spec.kind,
            renderer=step.spec.renderer,
            state=step.shown().value,
            frames=str(step.frames) if step.frames is not None else "",
            units=step.units,
            counts=tuple(step.counts),
            reason=nobody or self._step_reason(step),
            mean_frame_s=mean_s,
            attempts=step.attempt_no,
            able=not nobody if waits else None,
            expected_frame_s=expected_frame_s(step),
            rank=step.rank,
            first=step.spec.first,
            last=step.spec.last,
        )

    def _step_reason(self, step: Step) -> str:
        if step.counts[UnitState.BLOCKED]:
            return waits_for(step) or step.reason
        if step.counts[UnitState.SKIPPED] or step.counts[UnitState.CANCELED]:
            return given_up_for(step) or step.reason
        return step.reason

    # -- frames --

    def frame_rows(self, step: Step, units: Iterable[int], now_us: int) -> list[FrameRow]:
        """Rows of these units, in order."""
        wanted = list(units)
        told = self._history(step, set(wanted), now_us) if wanted else {}
        live: dict[int, Attempt] = {}
        for attempt in step.attempts.values():
            if attempt.kind is not AttemptKind.VERIFY:
                live.update(dict.fromkeys(attempt.open, attempt))
        rows = []
        for unit in wanted:
            past = told.get(unit, _Past())
            current = live.get(unit)
            progress = self.progress.get(current.id) if current is not None else None
            note = step.notes.get(unit)
            state = step.state[unit]
            files = past.files if state == DONE else ()
            rows.append(
                FrameRow(
                    unit=unit,
                    frame=step.frame_of(unit),
                    state=_WORDS[state],
                    reason=self._unit_reason(step, unit, past, note.reason if note else ""),
                    attempts=past.attempts,
                    attempt=current.no if current is not None else past.no or None,
                    node=current.node.name if current is not None else past.node,
                    elapsed_s=past.elapsed_us / 1e6 if past.elapsed_us else None,
                    cost_nano=past.cost_nano,
                    failure=past.failure if state != DONE else "",
                    verified=self._verified(step, state),
                    files=tuple(file.path for file in files),
                    progress=progress.fraction if progress is not None and progress.unit == unit else None,
                    warning=past.warning if state == DONE else "",
                )
            )
        return rows

    @staticmethod
    def _verified(step: Step, state: int) -> bool | None:
        if not step.spec.outputs:
            return None
        return state == DONE

    def _unit_reason(self, step: Step, unit: int, past: _Past, note: str) -> str:
        state = step.state[unit]
        if state == UnitState.BLOCKED and (waits := waits_for(step, unit)):
            return waits
        if state == UnitState.QUEUED and unit in step.parked:
            return f"{note}; waits before it is tried again" if note else "waits for its last attempt to end"
        if state in (DONE, RUNNING):
            return past.reason
        if state in (UnitState.SKIPPED, UnitState.CANCELED):
            return _left_by(step, unit, past)
        moved = max((move for move in past.moves if move.new == state), default=None)
        told = moved.reason if moved is not None else step.reason
        return note or told or past.reason

    def _history(self, step: Step, wanted: set[int], now_us: int) -> dict[int, _Past]:
        """What is stored of units: attempts, nodes, times, their share of each attempt's cost."""
        rows = self._store.step_history(step.id, (min(wanted), max(wanted)))
        leases = {row.id: row for row in rows if type(row) is LeaseRow}
        results = [row for row in rows if type(row) is ResultRow]
        past: dict[int, _Past] = {}
        charges: dict[int, int] = {}
        spent: dict[int, dict[int, int]] = {}
        for row in results:
            if row.closes:
                charges[row.attempt_id] = row.charge_nano
            if row.unit >= 0:
                spent.setdefault(row.attempt_id, {})[row.unit] = row.elapsed_us
        for lease in leases.values():
            units = units_of(lease.units)
            if wanted.isdisjoint(units):
                continue
            node = self._farm.nodes.get(lease.node_id)
            charge = charges.get(lease.id)
            if charge is None:
                attempt = self._farm.attempts.get(lease.id)
                charge = self._charge(attempt, now_us) if attempt is not None else 0
            shares = split_charge(charge, units, spent.get(lease.id, {}))
            for unit, share in zip(units, shares, strict=True):
                if unit not in wanted:
                    continue
                entry = past.setdefault(unit, _Past())
                entry.cost_nano += share
                if lease.kind != AttemptKind.VERIFY:
                    entry.attempts += 1
                    entry.no, entry.node = lease.no, node.name if node is not None else ""
                    entry.reason = lease.reason
        for row in results:
            if row.unit in wanted:
                _take_result(past.setdefault(row.unit, _Past()), row)
        for bulk in rows:
            if type(bulk) is BulkRow and bulk.old != bulk.new:
                for unit in wanted if bulk.units == "*" else wanted.intersection(units_of(bulk.units)):
                    past.setdefault(unit, _Past()).moves.append(_Move.of(bulk))
        return past

    def attempt_rows(
        self, step: Step, units: set[int] | None, now_us: int, *, newest: int = 0
    ) -> list[AttemptRow]:
        """Attempts of a step (or those that held some of these units), oldest first.

        Args:
            step: Which step.
            units: Indices of units, None = all.
            now_us: Time up to which running attempts are charged.
            newest: With all units, so many of the newest attempts are enough; 0 = all of them.
        """
        if units is not None:
            history = self._store.step_history(step.id, (min(units), max(units))) if units else []
        elif newest:
            history = self._store.recent_history(step.id, newest)
        else:
            history = self._store.step_history(step.id, None)
        ends: dict[int, ResultRow] = {}
        words: dict[int, list[str]] = {}
        for row in history:
            if type(row) is not ResultRow:
                continue
            if row.closes:
                ends[row.attempt_id] = row
            if row.unit >= 0:
                words.setdefault(row.attempt_id, []).append(row.failure or _WORDS[row.new])
        rows = []
        for lease in history:
            if type(lease) is not LeaseRow:
                continue
            held = units_of(lease.units)
            if units is not None and not units & set(held):
                continue
            rows.append(
                self._attempt_row(step, lease, held, ends.get(lease.id), words.get(lease.id, []), now_us)
            )
        return rows

    def _attempt_row(
        self,
        step: Step,
        lease: LeaseRow,
        held: tuple[int, ...],
        end: ResultRow | None,
        words: list[str],
        now_us: int,
    ) -> AttemptRow:
        node = self._farm.nodes.get(lease.node_id)
        attempt = self._farm.attempts.get(lease.id)
        charge = end.charge_nano if end else self._charge(attempt, now_us) if attempt else 0
        return AttemptRow(
            attempt=lease.id,
            no=lease.no,
            step=step.address,
            node=node.name if node is not None else "",
            kind=AttemptKind(lease.kind).name.lower(),
            frames=format_indices(step.frames, held) if step.frames is not None else "",
            started_us=lease.at_us,
            ended_us=end.at_us if end else 0,
            outcome=", ".join(dict.fromkeys(words)) if end else "running",
            reason=end.reason if end else lease.reason,
            charge_nano=charge,
            waste_nano=end.waste_nano if end else 0,
        )

    def units_at(self, address: Address) -> list[tuple[Step, Sequence[int]]]:
        """Steps and unit indices an address names."""
        job = self.find_job(address.job)
        return [
            (step, range(step.units) if units is None else units)
            for step, units in find_units(job, address.step or "", address.frames or "")
        ]

    # -- nodes and money --

    def node_row(self, node: Node, now_us: int) -> NodeRow:
        """A node as lists show it."""
        facts = node.facts
        total, _, idle = meter.projected(node, now_us)
        load = self.load.get(node.id)
        mark = node.settings.update
        return NodeRow(
            node=node.id,
            name=node.name,
            host=facts.host,
            state=node.state.value,
            enabled=node.enabled,
            reason=node.reason,
            pool=node.pool,
            site=node.site,
            cores=facts.total.cores,
            cores_free=node.cores_free,
            ram_mib=facts.total.ram_mib,
            ram_free_mib=node.ram_free,
            gpus=len(facts.gpus),
            gpus_free=len(node.gpus_free),
            gpu_names=tuple(gpu.name for gpu in facts.gpus),
            apps=tuple(f"{app.name} {app.version}" for app in facts.apps),
            renderers=facts.renderers,
            running=tuple(attempt.address for attempt in node.attempts.values()),
            rate_nano_h=meter.rate_at(node, now_us),
            spent_nano=total,
            idle_nano=idle,
            seen_us=node.seen_us,
            software=facts.software,
            cpu_percent=load.cpu_percent if load is not None else 0.0,
            slots=node.settings.slots,
            schedule=node.settings.schedule,
            closed=node.closed,
            disabled=node.settings.disabled,
            update=mark.state if mark is not None else "",
            update_reason=mark.reason if mark is not None else "",
            ram_used_mib=load.ram_used_mib if load is not None else -1,
            gpu_vram_mib=tuple(gpu.vram_mib for gpu in facts.gpus),
            gpu_loads=load.gpus if load is not None else (),
        )

    def spend(
        self, by: str, job_number: int, now_us: int, only_user: str | None = None
    ) -> tuple[list[SpendLine], SpendLine]:
        """Money by key; the lines add up to the total exactly.

        Args:
            by: ``job``, ``user``, ``project``, ``node`` or ``site``.
            job_number: Only this job, 0 = all.
            now_us: Time up to which running work is charged.
            only_user: Only this user's jobs (idle is nobody's then), None = everybody's.

        Raises:
            CallError: No such key.
        """
        if by in ("node", "site") and not job_number and only_user is None:
            lines = self._spend_by_node(by, now_us)
        elif by in ("job", "user", "project"):
            lines = self._spend_by_job(by, job_number, now_us, only_user)
        elif by in ("node", "site"):
            raise CallError("the spend of jobs is shown by job, user or project")
        else:
            raise CallError(f"spend is shown by job, user, project, node or site, not {by!r}")
        total = SpendLine(
            key="total",
            total_nano=sum(line.total_nano for line in lines),
            useful_nano=sum(line.useful_nano for line in lines),
            waste_nano=sum(line.waste_nano for line in lines),
            idle_nano=sum(line.idle_nano for line in lines),
            busy_s=sum(line.busy_s for line in lines),
            frames=sum(line.frames for line in lines),
        )
        return lines, total

    def _spend_by_job(self, by: str, job_number: int, now_us: int, only_user: str | None) -> list[SpendLine]:
        sums: dict[str, list[int]] = {}
        jobs = [self.find_job(job_number)] if job_number else list(self._farm.jobs.values())
        for job in jobs:
            if only_user is not None and job.user != only_user:
                continue
            key = {"job": f"J{job.id}", "user": job.user, "project": job.project}[by] or "(none)"
            entry = sums.setdefault(key, [0, 0, 0, 0])
            for step in job.steps:
                entry[0] += step.spend_nano + self._running(step, now_us)
                entry[1] += step.waste_nano
                entry[2] += step.busy_us
                entry[3] += step.counts[DONE]
        if not job_number:
            self._add_gone(by, sums, only_user)
        lines = [
            _line(key, total, waste, 0, busy, frames) for key, (total, waste, busy, frames) in sums.items()
        ]
        if not job_number and only_user is None:
            idle = sum(meter.projected(node, now_us)[2] for node in self._farm.nodes.values())
            lines.append(_line("(idle)", idle, 0, idle, 0, 0))
        return lines

    def _add_gone(self, by: str, sums: dict[str, list[int]], only_user: str | None) -> None:
        """Adds what jobs cost that are not in memory any more: to their user or project, or in a line."""
        gone = self._farm.shelved
        for name, ledger in (("archived jobs", gone.archived), ("deleted jobs", gone.deleted)):
            for (project, user), one in ledger.items():
                if only_user is None or user == only_user:
                    key = {"job": f"({name})", "user": user, "project": project}[by] or "(none)"
                    _add(sums.setdefault(key, [0, 0, 0, 0]), one)

    def _spend_by_node(self, by: str, now_us: int) -> list[SpendLine]:
        sums: dict[str, list[int]] = {}
        for node in self._farm.nodes.values():
            total, _, idle = meter.projected(node, now_us)
            entry = sums.setdefault(node.name if by == "node" else node.site or "local", [0, 0, 0])
            entry[0] += total
            entry[1] += node.waste_nano
            entry[2] += idle
        return [_line(key, total, waste, idle, 0, 0) for key, (total, waste, idle) in sums.items()]


def _add(entry: list[int], one: Sums) -> None:
    for at, figure in enumerate((one.spend_nano, one.waste_nano, one.busy_us, one.frames)):
        entry[at] += figure


class _Move(NamedTuple):
    """A move of many units; with ``all_of`` of every unit that was in state ``old`` then."""

    seq: int
    new: int
    old: int
    all_of: bool
    who: str
    reason: str

    @classmethod
    def of(cls, row: BulkRow) -> _Move:
        return cls(row.seq, row.new, row.old, row.units == "*", row.who, row.reason)


def _left_by(step: Step, unit: int, past: _Past) -> str:
    """Why a unit was skipped or canceled: by the one move that did it, not by later ones of other units."""
    state, last = step.state[unit], None
    for move in sorted(past.moves):
        over = last is not None and last.new in (UnitState.SKIPPED, UnitState.CANCELED)
        if not (move.all_of and over and last is not None and move.old != last.new):
            last = move
    if last is None or last.new != state:
        return given_up_for(step, unit) or step.reason
    # The farm gives up many frames in one row: which frame's failure it was for this one, the needs say.
    return (given_up_for(step, unit) if last.who == "farm" else "") or last.reason


class _Past(msgspec.Struct):
    attempts: int = 0
    no: int = 0
    node: str = ""
    elapsed_us: int = 0
    cost_nano: int = 0
    failure: str = ""
    reason: str = ""
    warning: str = ""
    files: tuple[FileFacts, ...] = ()
    #: Moves of many units at once that may have moved this one.
    moves: list[_Move] = []


def _take_result(entry: _Past, row: ResultRow) -> None:
    entry.reason, entry.failure, entry.warning = row.reason, row.failure, row.warning
    if row.elapsed_us:
        entry.elapsed_us = row.elapsed_us
    if row.new == DONE:
        entry.files = _FILES.decode(row.files) if row.files else ()


def _line(key: str, total: int, waste: int, idle: int, busy_us: int, frames: int) -> SpendLine:
    return SpendLine(
        key=key,
        total_nano=total,
        useful_nano=total - waste - idle,
        waste_nano=waste,
        idle_nano=idle,
        busy_s=busy_us / 1e6,
        frames=frames,
    )
