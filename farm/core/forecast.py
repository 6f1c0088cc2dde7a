"""When a job will be done and what it will cost, as ranges; what a job that is not submitted would take.

What belongs here: expectations made of measured frame times, of the nodes in service and of what else waits
for them.  What may not: decisions, and any change of state: people look at these figures at any moment, and
nothing that decides may depend on whether somebody looked.

A range holds in about four of five cases.  Where nothing was measured there is no figure: a step of which
nothing is known goes by steps like it (``farm.core.likeness``), and is named when there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from farm.core import meter, pace
from farm.core.chunks import slots_on
from farm.core.likeness import Likeness
from farm.core.match import refusal
from farm.core.state import Job, Shape, Step
from farm.model.resources import Resources, dominant_share_ppm
from farm.model.states import AttemptKind, UnitState

if TYPE_CHECKING:
    from farm.core.pace import Pace
    from farm.core.state import Farm, Node
    from farm.model.jobs import JobSpec, StepSpec

_BLOCKED, _QUEUED, _RUNNING = UnitState.BLOCKED.value, UnitState.QUEUED.value, UnitState.RUNNING.value
#: Standard deviations to either side: four of five normal deviates lie within.
_Z = 1.2816
#: What is never known better, relative: who else will come, how speeds were measured.
_ALWAYS = 0.06
#: How much dearer frames may be where none was measured: shots grow towards their end more often than not.
_BLIND = 0.6
_US_PER_HOUR = 3.6e9


class Forecast(msgspec.Struct, frozen=True):
    """A range of ends and a range of costs.

    Attributes:
        eta_low_us, eta_high_us: When it will be done, microseconds since the epoch; None: it stands still, or
            no node in service can do it.
        cost_low_nano, cost_high_nano: What it will have cost in all; None where no node in service can do it.
        unknown: Steps of which nothing is known: not in the figures.
    """

    eta_low_us: int | None
    eta_high_us: int | None
    cost_low_nano: int | None
    cost_high_nano: int | None
    unknown: tuple[str, ...] = ()


class _Crew(msgspec.Struct, frozen=True):
    """Nodes in service that could take a shape: slots, their speeds, the slowest, cost of a microsecond."""

    slots: int
    speed: float
    slowest: float
    nano_per_us: float


class _Part(msgspec.Struct):
    """What is left of a step.

    Attributes:
        frames: Frames not done.
        work_us: What they take on a node of speed 1, start-ups included.
        frame_us: What one takes.
        running_us: How long what runs goes on at least.
        doubt: Relative standard deviation of ``work_us``.
        spread: Of one frame.
        crew: Who can do it.
        blind: The part of the work that lies where no frame was measured yet.
    """

    name: str
    needs: tuple[str, ...]
    cores: int
    frames: int
    work_us: float
    frame_us: float
    running_us: float
    doubt: float
    spread: float
    crew: _Crew
    blind: float


class Outlook:
    """Forecasts at one moment; what they share is worked out once."""

    def __init__(self, farm: Farm, now_us: int) -> None:
        self._farm = farm
        self._now_us = now_us
        self._crews: dict[int, _Crew] = {}
        self._work: dict[int, float] | None = None
        self._likeness: Likeness | None = None

    @property
    def _like(self) -> Likeness:
        """Measured steps, for those that are not."""
        if self._likeness is None:
            self._likeness = Likeness(self._farm)
        return self._likeness

    # -- submitted jobs --

    def job(self, job: Job) -> Forecast | None:
        """The forecast of a job; None when nothing is known of it, or nothing is left to do."""
        parts: list[_Part] = []
        unknown: list[str] = []
        for step in job.steps:
            if not sum(step.counts[:3]):
                continue
            part = self._part(step)
            if part is None:
                unknown.append(step.spec.name)
            else:
                parts.append(part)
        if not parts:
            return None
        spent = sum(step.spend_nano for step in job.steps)
        for step in job.steps:
            for attempt in step.attempts.values():
                spent += meter.projected(attempt.node, self._now_us)[1][attempt.id]
        spend, waste = sum(s.spend_nano for s in job.steps), sum(s.waste_nano for s in job.steps)
        wasted = waste / spend if spend else 0.0
        held = job.paused
        before, share = (0.0, 1.0) if held else self._competition(job)
        return self._sum(parts, tuple(unknown), before, share, spent, wasted, held=held)

    def _part(self, step: Step) -> _Part | None:
        like, doubt = (step.pace, 0.0) if pace.known(step) else self._like.pace(step)
        if like is None:
            return None
        waiting, running_us, unmeasured = 0.0, 0.0, 0.0
        table = like.table()
        state, units = step.state, step.units
        frames = 0
        for place in range(pace.PLACES):
            low, high = -(-place * units // pace.PLACES), -(-(place + 1) * units // pace.PLACES)
            count = state.count(_BLOCKED, low, high) + state.count(_QUEUED, low, high)
            waiting += count * table[place]
            frames += count
            if not like.counts[place]:
                unmeasured += count * table[place]
        for attempt in step.attempts.values():
            if attempt.kind is AttemptKind.VERIFY or not attempt.open:
                continue
            left_us = pace.left_us(attempt, self._now_us)
            frames += len(attempt.open)
            waiting += left_us * attempt.node.speed
            if len(attempt.open) == 1:
                running_us = max(running_us, float(left_us))
        mean_us = like.mean_us()
        work_us = waiting + _starts(self._farm, step.spec, frames, mean_us, like.start_us)
        return _Part(
            step.spec.name,
            tuple(
                edge.need.spec.name for edge in step.needs if edge.need.job is step.job and not edge.by_frame
            ),
            max(1, step.resources.cores),
            frames,
            work_us,
            mean_us,
            running_us,
            _doubt(like, frames, doubt),
            like.spread(),
            self._crew(step.shape),
            unmeasured / work_us if work_us else 0.0,
        )

    def _crew(self, shape: Shape | None) -> _Crew:
        if shape is None:
            return _Crew(0, 0.0, 1.0, 0.0)
        crew = self._crews.get(shape.id) if shape.id >= 0 else None
        if crew is None:
            crew = _count_crew(self._farm, shape)
            if shape.id >= 0:
                self._crews[shape.id] = crew
        return crew

    def _competition(self, job: Job) -> tuple[float, float]:
        """Work in core-microseconds that goes before a job's own, and the part of the farm it may count on.

        Work of which nothing is known counts for nothing.
        """
        farm = self._farm
        if self._work is None:
            self._work = {}
            for other in farm.jobs.values():
                if other.open_units and not other.paused:
                    us = sum(self._waiting(step) for step in other.steps)
                    if us:
                        self._work[other.id] = us
        before = 0.0
        projects: dict[str, int] = {}
        users: dict[str, int] = {}
        for number, us in self._work.items():
            found = farm.jobs.get(number)
            # It may have been canceled and deleted since the work was counted.
            if found is None or found is job or found.priority < job.priority:
                continue
            other = found
            if other.priority > job.priority:
                before += us
                continue
            projects[other.project] = other.project_account.weight
            if other.project == job.project:
                users[other.user] = other.user_account.weight
                if other.user == job.user and (other.rank, other.id) < (job.rank, job.id):
                    before += us
        share = 1.0
        for mine, weight, others in (
            (job.project, job.project_account.weight, projects),
            (job.user, job.user_account.weight, users),
        ):
            others[mine] = weight
            share *= weight / sum(others.values())
        return before, share

    def _waiting(self, step: Step) -> float:
        count = step.counts[_QUEUED] + step.counts[_RUNNING]
        if not count:
            return 0.0
        like = step.pace if pace.known(step) else self._like.pace(step)[0]
        if like is None:
            return 0.0
        mean_us = like.mean_us()
        starts_us = _starts(self._farm, step.spec, count, mean_us, like.start_us)
        return (count * mean_us + starts_us) * max(1, step.resources.cores)

    # -- sums --

    def _sum(
        self,
        parts: list[_Part],
        unknown: tuple[str, ...],
        before: float,
        share: float,
        spent: int,
        wasted: float,
        *,
        held: bool,
    ) -> Forecast:
        able = all(part.crew.slots for part in parts)
        low_us = high_us = 0.0
        nano = variance = blind = 0.0
        done: dict[str, tuple[float, float]] = {}
        if able:
            first = parts[0].crew
            whole = max(first.speed * parts[0].cores, 1e-9)
            # Others may run dry at once, or all go first.
            low_us, high_us = 0.0, 1.3 * before / whole / max(share, 1e-6)
            if before:
                low_us = 0.8 * before / whole
        for part in parts:
            cost = part.work_us * part.crew.nano_per_us
            nano += cost
            variance += (cost * part.doubt) ** 2
            blind += cost * part.blind * _BLIND
            if not able:
                continue
            fast, slow = _time_of(part, share)
            ready = [done[name] for name in part.needs if name in done]
            low_us = max([low_us, *(one[0] for one in ready)]) + fast
            high_us = max([high_us, *(one[1] for one in ready)]) + slow
            done[part.name] = (low_us, high_us)
        doubt = (variance**0.5 + 0.03 * nano) * _Z
        eta = (None, None)
        cost_low: int | None = None
        cost_high: int | None = None
        if able:
            cost_low = spent + int(max(nano * 0.2, nano - doubt))
            cost_high = spent + int((nano + doubt + blind) * (1.0 + wasted))
        if able and not held:
            return Forecast(
                self._now_us + int(low_us), self._now_us + int(high_us), cost_low, cost_high, unknown
            )
        return Forecast(*eta, cost_low, cost_high, unknown)

    # -- jobs that are not submitted --

    def estimate(self, spec: JobSpec) -> Forecast | None:
        """What a job would take if it were submitted now; None when no step is like any of its."""
        parts: list[_Part] = []
        unknown: list[str] = []
        job = Job(0, spec, b"", self._now_us)
        for index, asked in enumerate(spec.steps):
            model = self._like.step(spec.user, asked)
            if model is None:
                unknown.append(asked.name)
                continue
            found, doubt = model
            like = found.pace
            step = Step(0, job, index, found.app, found.whole, UnitState.QUEUED)
            mean_us = like.mean_us()
            starts_us = _starts(self._farm, asked, step.units, mean_us, like.start_us)
            parts.append(
                _Part(
                    asked.name,
                    tuple(need.step for need in asked.needs() if need.step),
                    max(1, asked.resources.cores),
                    step.units,
                    step.units * mean_us + starts_us,
                    mean_us,
                    0.0,
                    _doubt(like, step.units, doubt),
                    like.spread(),
                    self._crew(Shape(-1, (), step)),
                    0.0,
                )
            )
        if not parts:
            return None
        work: float = sum(
            self._waiting(step)
            for other in self._farm.jobs.values()
            if other.open_units and not other.paused and other.priority >= spec.priority
            for step in other.steps
        )
        return self._sum(parts, tuple(unknown), work, 1.0, 0, 0.0, held=False)


def job_forecast(farm: Farm, job: Job, now_us: int) -> Forecast | None:
    """The forecast of one job; None when nothing is known of it, or nothing is left to do."""
    return Outlook(farm, now_us).job(job)


def estimate(farm: Farm, spec: JobSpec, now_us: int) -> Forecast | None:
    """What a job would take if it were submitted now; None when no step is like any of its."""
    return Outlook(farm, now_us).estimate(spec)


def expected_frame_s(step: Step) -> float:
    """Seconds a frame that is left is expected to take on a node of average speed, 0 = not known."""
    if not pace.known(step):
        return 0.0
    table, state, units = step.pace.table(), step.state, step.units
    total, frames = 0.0, 0
    for place in range(pace.PLACES):
        low, high = -(-place * units // pace.PLACES), -(-(place + 1) * units // pace.PLACES)
        count = sum(state.count(one, low, high) for one in (_BLOCKED, _QUEUED, _RUNNING))
        total, frames = total + count * table[place], frames + count
    return total / frames / 1e6 if frames else 0.0


# ---------------------------------------------------------------- times


def _time_of(part: _Part, share: float) -> tuple[float, float]:
    """Short and long time of a step's rest, once its turn has come."""
    crew = part.crew
    each = crew.speed / crew.slots
    speed = max(min(crew.speed * share, part.frames * each), min(each, crew.speed))
    flow_us = part.work_us / speed
    width = _Z * (part.doubt**2 + _ALWAYS**2) ** 0.5
    more = width + _BLIND * part.blind
    # Towards the end nodes run out of frames one by one; the last frame decides, and may be on a slow node.
    frame_us = part.frame_us / each
    last_us = part.frame_us / max(crew.slowest, each / 4.0)
    short = max(flow_us / (1.0 + width), part.running_us * (1.0 - min(0.8, part.spread)))
    worst = min(crew.slots, part.frames)
    extremes = 1.0 + part.spread * (_Z + 0.35 * worst.bit_length())
    alone = part.frames <= crew.slots
    if alone:
        # All run at once: nothing is over before the longest of them is.
        short = max(short, min(flow_us, frame_us) * (1.0 - min(0.6, part.spread)))
        return short, max(flow_us * (1.0 + more), last_us * extremes)
    part_of_last = 0.5 if part.frames > 8 * crew.slots else 1.0
    return short, flow_us * (1.0 + more) + last_us * part_of_last * extremes


def _doubt(like: Pace, frames: int, more: float) -> float:
    """Relative deviation of the sum of so many frames, from those measured."""
    spread = like.spread()
    return float((spread**2 / max(1, like.frames) + spread**2 / max(1, frames) + more**2) ** 0.5)


def _starts(farm: Farm, spec: StepSpec, frames: int, mean_us: float, start_us: float) -> float:
    """What the start-ups of so many frames take."""
    if not frames or not start_us:
        return 0.0
    if type(spec.chunk) is int:
        each = float(spec.chunk)
    else:
        each = max(1.0, (farm.settings.chunk_target_us - start_us) / 2.0 / max(1.0, mean_us))
    return max(1.0, frames / each) * start_us


def _count_crew(farm: Farm, shape: Shape) -> _Crew:
    slots, speed, nano, slowest = 0, 0.0, 0.0, 0.0
    for klass in farm.classes.values():
        if not klass.live:
            continue
        one = next(iter(klass.live.values()))
        if refusal(shape, one):
            continue
        each = slots_on(shape, one)
        share = _share_of(shape, one)
        for node in klass.live.values():
            slots += each
            speed += each * node.speed
            rate = node.meter_rate if node.meter_on else node.rate_nano_h
            nano += each * rate * share / _US_PER_HOUR
            slowest = min(slowest or node.speed, node.speed)
    return _Crew(slots, speed, slowest or 1.0, nano / speed if speed else 0.0)


def _share_of(shape: Shape, node: Node) -> float:
    need, total = shape.requires, node.facts.total
    if shape.whole:
        return 1.0
    asked = Resources(
        cores=need.cores, ram_mib=need.ram_mib, gpus=need.gpus, disk_mib=need.disk_mib, tokens=need.tokens
    )
    return dominant_share_ppm(asked, total) / 1e6
