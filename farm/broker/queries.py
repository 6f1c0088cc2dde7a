"""Answers to requests that only read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice

import farm
from farm.broker.estimates import estimate_reply
from farm.broker.reasons import why_reply
from farm.broker.setting import policy_reply
from farm.broker.state import BrokerState
from farm.core import meter
from farm.core.apply import units_of
from farm.core.rows import BulkRow
from farm.core.state import Job, Step
from farm.model.errors import CallError, UnknownName
from farm.model.frames import format_indices
from farm.model.ids import parse_address
from farm.model.roles import Role, check_allowed
from farm.model.states import NodeState, UnitState
from farm.protocol.client import (
    AttemptRow,
    AttemptsReply,
    AttemptsReq,
    EstimateReq,
    FramesReply,
    FramesReq,
    HistoryReply,
    HistoryReq,
    HistoryRow,
    JobReply,
    JobReq,
    JobRow,
    JobsReply,
    JobsReq,
    NodesReply,
    NodesReq,
    OkReply,
    PingReq,
    PolicyReq,
    Request,
    SeriesReq,
    SpendReply,
    SpendReq,
    StatusReply,
    StatusReq,
    WhyReq,
)

_UNIT_WORDS = {state.word: state.value for state in UnitState}


def answer(s: BrokerState, request: Request, role: Role, user: str) -> object:
    """The reply to a reading request.

    Raises:
        CallError: It asks for what does not exist or may not be read.
    """
    if isinstance(request, JobsReq):
        check_allowed(role, "jobs", user=user, owner="")
        return _jobs(s, request)
    if isinstance(request, JobReq):
        check_allowed(role, "job", user=user, owner="")
        views = s.views_of(request.job)
        job = views.find_job(request.job)
        return JobReply(
            id=request.id, job=views.job_row(job, s.now_us), spec=job.source if request.spec else b""
        )
    if isinstance(request, FramesReq):
        check_allowed(role, "frames", user=user, owner="")
        return _frames(s, request)
    if isinstance(request, AttemptsReq):
        check_allowed(role, "frames", user=user, owner="")
        return _attempts(s, request)
    if isinstance(request, HistoryReq):
        check_allowed(role, "job", user=user, owner="")
        return _history(s, request)
    if isinstance(request, EstimateReq):
        check_allowed(role, "estimate", user=user, owner="")
        return estimate_reply(s, request, role, user)
    if isinstance(request, PolicyReq):
        check_allowed(role, "policy", user=user, owner="")
        return policy_reply(s, request)
    if isinstance(request, NodesReq):
        check_allowed(role, "nodes", user=user, owner="")
        nodes = (node for node in s.core.farm.nodes.values() if not node.forgotten)
        return NodesReply(id=request.id, nodes=tuple(s.views.node_row(node, s.now_us) for node in nodes))
    if isinstance(request, WhyReq):
        check_allowed(role, "why", user=user, owner="")
        return why_reply(s, request)
    if isinstance(request, SpendReq):
        return _spend(s, request, role, user)
    if isinstance(request, StatusReq):
        check_allowed(role, "status", user=user, owner="")
        return _status(s, request)
    if isinstance(request, SeriesReq):
        check_allowed(role, "status", user=user, owner="")
        return s.series.reply(request.id, request.since_us, s.now_us)
    if isinstance(request, PingReq):
        check_allowed(role, "status", user=user, owner="")
        return OkReply(id=request.id)
    raise UnknownName(f"this broker has no answer to {type(request).__name__}")


def _page(limit: int, most: int) -> int:
    if not 1 <= limit <= most:
        raise CallError(f"a page has 1 to {most} rows, not {limit}")
    return limit


def _jobs(s: BrokerState, request: JobsReq) -> JobsReply:
    limit = _page(request.limit, 1000)
    chosen = list(islice(_chosen_jobs(s, request), limit + 1))
    rows: list[JobRow] = []
    if request.archived:
        # One more than a page of each, so that the page is right however they mix.
        rows = s.archive.rows(request.before, request.user, request.states, limit + 1)
        numbers = sorted([*(job.id for job in chosen), *(row.job for row in rows)], reverse=True)
        last = numbers[limit - 1] if len(numbers) > limit else 0
        rows = [row for row in rows if row.job >= last]
        more = len(numbers) > limit
        chosen = [job for job in chosen if job.id >= last]
    else:
        more = len(chosen) > limit
    rows += [s.views.job_row(job, s.now_us) for job in chosen[:limit]]
    rows.sort(key=lambda row: -row.job)
    return JobsReply(id=request.id, jobs=tuple(rows), more=more)


def _chosen_jobs(s: BrokerState, request: JobsReq) -> Iterator[Job]:
    """Jobs in memory that are asked for, newest first."""
    for job in reversed(s.core.farm.jobs.values()):
        if (request.before and job.id >= request.before) or (job.archived and not request.archived):
            continue
        if request.user and job.user != request.user:
            continue
        if request.states and job.shown().value not in request.states:
            continue
        yield job


def _frames(s: BrokerState, request: FramesReq) -> FramesReply:
    limit = _page(request.limit, 5000)
    unknown = [word for word in request.states if word not in _UNIT_WORDS]
    if unknown:
        raise CallError(f"there is no state {unknown[0]!r}", hint="states are " + ", ".join(_UNIT_WORDS))
    states = {_UNIT_WORDS[word] for word in request.states}
    skip, left, more = max(0, request.offset), limit, False
    steps = {}
    address = parse_address(request.address)
    views = s.views_of(address.job)
    for step, units in views.units_at(address):
        page, found = _chosen(step, units, states, skip, left)
        skip = max(0, skip - found)
        more = more or (found > len(page) and left == len(page))
        left -= len(page)
        steps[step.spec.name] = tuple(views.frame_rows(step, page, s.now_us))
    return FramesReply(id=request.id, steps=steps, more=more)


def _chosen(
    step: Step, units: Sequence[int], states: set[int], skip: int, most: int
) -> tuple[Sequence[int], int]:
    """A page of the units that are in one of these states (in any, when none is named), and how many are.

    A step may have a million units, so nothing here makes a list of them.
    """
    if not states:
        return units[skip : skip + most], len(units)
    if isinstance(units, range):
        wanted = bytes(state in states for state in range(256))
        marks: Iterable[int] = step.state.translate(wanted)
        found = sum(step.counts[state] for state in states)
    else:
        state_of = step.state
        marks = [state_of[unit] in states for unit in units]
        found = sum(marks)
    return list(islice(compress(units, marks), skip, skip + most)), found


def _attempts(s: BrokerState, request: AttemptsReq) -> AttemptsReply:
    limit = _page(request.limit, 5000)
    address = parse_address(request.address)
    rows: list[AttemptRow] = []
    views = s.views_of(address.job)
    for step, units in views.units_at(address):
        wanted = set(units) if address.frames else None
        # One attempt may be any of them; else those that are shown are enough.
        newest = limit if address.attempt is None else 0
        rows += views.attempt_rows(step, wanted, s.now_us, newest=newest)
    if address.attempt is not None:
        rows = [row for row in rows if row.no == address.attempt]
    rows.sort(key=lambda row: -row.attempt)
    return AttemptsReply(id=request.id, attempts=tuple(rows[:limit]))


def _history(s: BrokerState, request: HistoryReq) -> HistoryReply:
    limit = _page(request.limit, 1000)
    steps: list[Step] = []
    if request.job and s.archive.deleted(request.job) is None:
        steps = s.views_of(request.job).find_job(request.job).steps
    rows = [
        HistoryRow(at_us=row.at_us, what=row.what, old=row.old, new=row.new, reason=row.reason, who=row.who)
        for row in s.store.history(request.job, request.before_us, limit)
    ]
    if request.job:
        rows += [
            HistoryRow(
                at_us=row.at_us, what=row.what, old=row.old, new=row.new, reason=row.reason, who=row.who
            )
            for row in s.store.job_states(request.job, limit)
            if not request.before_us or row.at_us < request.before_us
        ]
        for step in steps:
            rows += [
                HistoryRow(
                    at_us=row.at_us,
                    what=_moved(step, row),
                    old=UnitState(row.old).word,
                    new=UnitState(row.new).word,
                    reason=row.reason,
                    who=row.who,
                )
                for row in s.store.bulks_of_step(step.id)
                if row.old != row.new and (not request.before_us or row.at_us < request.before_us)
            ]
    rows.sort(key=lambda row: -row.at_us)
    return HistoryReply(id=request.id, rows=tuple(rows[:limit]))


def _moved(step: Step, row: BulkRow) -> str:
    """The address of what a row moved."""
    if row.units == "*" or step.frames is None:
        return step.address
    return f"{step.address}/{format_indices(step.frames, units_of(row.units))}"


def _spend(s: BrokerState, request: SpendReq, role: Role, user: str) -> SpendReply:
    only = None
    views = s.views
    if request.job:
        views = s.views_of(request.job)
        check_allowed(role, "spend", user=user, owner=views.find_job(request.job).user)
    elif role is Role.ARTIST:
        # Artists see what their own jobs cost.
        only = user
    else:
        check_allowed(role, "spend", user=user, owner="")
    lines, total = views.spend(request.by, request.job, s.now_us, only)
    return SpendReply(id=request.id, by=request.by, lines=tuple(lines), total=total)


def _status(s: BrokerState, request: StatusReq) -> StatusReply:
    state = s.core.farm
    jobs: dict[str, int] = {}
    units = dict.fromkeys(_UNIT_WORDS, 0)
    for job in state.jobs.values():
        if job.archived:
            continue
        word = job.shown().value
        jobs[word] = jobs.get(word, 0) + 1
        for name, count in zip(_UNIT_WORDS, job.counts(), strict=True):
            units[name] += count
    nodes: dict[str, int] = {}
    spend = burn = cores = cores_used = gpus = gpus_used = 0
    alerts = list(s.keydesk.alerts)
    if state.due.rollout is not None:
        alerts.append(state.due.rollout.words())
    for node in state.nodes.values():
        if node.forgotten:
            continue
        word = node.state.value if node.enabled else "drained"
        nodes[word] = nodes.get(word, 0) + 1
        spend += meter.projected(node, s.now_us)[0]
        if node.meter_on:
            burn += node.meter_rate
        if node.state in (NodeState.ONLINE, NodeState.SUSPECT):
            facts = node.facts
            cores += facts.total.cores
            cores_used += facts.total.cores - node.cores_free
            gpus += len(facts.gpus)
            gpus_used += len(facts.gpus) - len(node.gpus_free)
        if not node.enabled:
            alerts.append(f"{node.name} is drained: {node.reason}")
        elif node.state in (NodeState.LOST, NodeState.SUSPECT):
            alerts.append(f"{node.name} is {node.state.value}")
    return StatusReply(
        id=request.id,
        farm_name=s.farm_name,
        farm_id=s.farm_id,
        software=farm.__version__,
        up_s=(s.now_us - s.started_us) / 1e6,
        jobs=jobs,
        units=units,
        nodes=nodes,
        spend_nano=spend,
        burn_nano_h=burn,
        alerts=tuple(alerts + s.alerts),
        cores=cores,
        cores_used=cores_used,
        gpus=gpus,
        gpus_used=gpus_used,
    )
