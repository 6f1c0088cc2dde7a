"""Why is it not running?  Answers made of the very tests and records the scheduler decides by.

What belongs here: putting the refusals of ``match``, ``shares``, ``reserve``, ``chunks`` and ``dependencies`` into
an order people can act on, each with its cure.  What may not: a second opinion.  Where a reason is given here it is
because the function that placing calls gave it; nothing is guessed from outside.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from farm.core import pace
from farm.core.apply import BLOCKED, DONE, FAILED, QUEUED, RUNNING, SKIPPED
from farm.core.chunks import form_chunk, queued_us, slots_and_speed
from farm.core.match import (
    avoided,
    excluded,
    lack,
    out_of_service,
    refused,
    site_closed,
)
from farm.core.openings import takes_work
from farm.core.reserve import room_at, room_before
from farm.core.shares import kept_back, limit_named, limit_short
from farm.core.state import Farm, Job, Node, Shape, Step
from farm.core.work import Edge
from farm.model.failures import RULES
from farm.model.states import FailureClass, UnitState

#: Nodes named per reason; more are counted.
NAMED = 5
#: Work looked at when the wait is estimated; beyond it the answer says "at least".
LOOK = 20_000


class Verdict(msgspec.Struct, frozen=True):
    """What one filter says of some nodes.

    Attributes:
        filter: Which: ``service``, ``hours``, ``slots``, ``pool`` and other capabilities (``capability``),
            ``room``, ``site``, ``limit``, ``failed-here``, ``reserved``, ``order`` or ``free``.
        reason: In words, after the node's name: "has 2 of 8 cores free, 4 needed".
        cure: What would change it; "" when only time does.
        nodes: Names of some of them.
        count: How many there are.
    """

    filter: str
    reason: str
    cure: str
    nodes: tuple[str, ...]
    count: int


class Wait(msgspec.Struct, frozen=True):
    """When queued work is expected to start, in microseconds since the epoch; None = it cannot be told.

    Attributes:
        low_us, high_us: Earliest and latest expected.
        ahead: Units that wait and come before it.
        share: Part of the farm its user may expect while everybody waiting wants work, 0..1.
    """

    low_us: int | None
    high_us: int | None
    ahead: int
    share: float


class Answer(msgspec.Struct, frozen=True):
    """Why a step, or one unit of it, is in the state it is in.

    Attributes:
        state: Word of the state.
        causes: What holds it, most important first: (what, cure) in words.
        nodes: Verdicts over the farm's nodes, those nearest to taking it first; only for queued work.
        wait: Expected start; only for queued work.
        failure: Class of the last failure, "" for none.
        failed_on: Names of nodes it failed on.
        tries: Failures that counted.
    """

    state: str
    causes: tuple[tuple[str, str], ...] = ()
    nodes: tuple[Verdict, ...] = ()
    wait: Wait | None = None
    failure: str = ""
    failed_on: tuple[str, ...] = ()
    tries: int = 0


class _Found(NamedTuple):
    rank: int
    filter: str
    reason: str
    cure: str


#: Order of verdicts: how near a node is to taking the work.
_RANKS = {
    word: rank
    for rank, word in enumerate(
        (
            "free",
            "order",
            "reserved",
            "failed-here",
            "limit",
            "room",
            "slots",
            "hours",
            "service",
            "site",
            "capability",
        )
    )
}


def why(farm: Farm, step: Step, unit: int | None, now_us: int) -> Answer:
    """Why a step (or one unit of it) is as it is."""
    if unit is not None:
        state = step.state[unit]
        if state == QUEUED:
            return _queued(farm, step, unit, now_us)
        if state == BLOCKED:
            return Answer(UnitState.BLOCKED.word, _blocked(farm, step, unit))
        if state == FAILED:
            return _failed(farm, step, unit)
        if state == RUNNING:
            return Answer(UnitState.RUNNING.word, _running(farm, step, unit, now_us))
        reason = step.notes[unit].reason if unit in step.notes else step.reason
        return Answer(UnitState(state).word, ((reason, ""),) if reason else ())
    counts = step.counts
    if counts[QUEUED]:
        return _queued(farm, step, None, now_us)
    if counts[FAILED] and not counts[RUNNING]:
        return _failed(farm, step, step.state.find(FAILED))
    if counts[BLOCKED] and not counts[RUNNING]:
        return Answer(UnitState.BLOCKED.word, _blocked(farm, step, step.state.find(BLOCKED)))
    return Answer(step.shown().value, ((step.reason, ""),) if step.reason else ())


# ---------------------------------------------------------------- work that waits


def _queued(farm: Farm, step: Step, unit: int | None, now_us: int) -> Answer:
    job, shape = step.job, step.shape
    causes: list[tuple[str, str]] = []
    if job.paused:
        causes.append(_paused(job))
    if unit is not None and unit in step.parked:
        causes.append(_parked(step, unit, now_us))
    elif unit is None and step.parked and step.counts[QUEUED] <= len(step.parked):
        causes.append(_parked(step, min(step.parked), now_us))
    if (
        unit is not None
        and not causes
        and job.scouting
        and step.frames is not None
        and unit not in step.scouts
    ):
        causes.append(("its job renders a few scout frames first", f"farm resume J{job.id}"))
    capped = kept_back(farm, step)
    if capped:
        causes.append((capped, f"farm set J{job.id} max_cores=N, or a wrangler: farm policy"))
    if step.limits:
        short = limit_short(farm, step.limits)
        if short:
            causes.append((short, _limit_cure(farm, step)))
    verdicts = _verdicts(farm, step, unit, now_us) if shape is not None else ()
    wait = _wait(farm, step, shape, now_us) if shape is not None else None
    if not causes and verdicts:
        first = verdicts[0]
        if not any(verdict.filter != "capability" and verdict.filter != "site" for verdict in verdicts):
            causes.append(("no node can ever take it", first.cure or "add a node that can"))
        elif wait is not None and wait.ahead:
            causes.append((f"{wait.ahead} frames come before it", f"farm priority J{job.id} N"))
        elif first.filter == "free":
            causes.append(("a node is free: it starts at the next turn", ""))
        else:
            causes.append(("every node that could take it is busy or kept", ""))
    if not verdicts and shape is not None:
        causes.append(("the farm has no node", "farm agent"))
    note = step.notes.get(unit) if unit is not None else None
    return Answer(
        UnitState.QUEUED.word,
        tuple(causes),
        verdicts,
        wait,
        note.failure if note is not None else "",
        _names(farm, note.failed_on) if note is not None else (),
        step.tries[unit] if step.tries is not None and unit is not None else 0,
    )


def _paused(job: Job) -> tuple[str, str]:
    by = {
        "farm": "the job paused itself",
        "clock": "the job starts later",
        "scout": "the job waits for approval",
    }
    words = by.get(job.paused_by, f"the job is paused by {job.paused_by or 'nobody'}")
    return (f"{words}: {job.reason}" if job.reason else words, f"farm resume J{job.id}")


def _parked(step: Step, unit: int, now_us: int) -> tuple[str, str]:
    until_us = step.parked[unit]
    if not until_us:
        return "its last attempt must be confirmed stopped first", ""
    note = step.notes.get(unit)
    why_text = f" after: {note.reason}" if note is not None and note.reason else ""
    return f"it is tried again in {max(0, until_us - now_us) / 1e6:.0f} s{why_text}", ""


def _limit_cure(farm: Farm, step: Step) -> str:
    for name, count in step.limits:
        limit = limit_named(farm, name)
        if limit.total is None:
            return f"a wrangler: farm policy set limits.{name}.total=N"
        if limit.used + count > limit.total:
            holders: dict[str, None] = {}
            for attempt in farm.attempts.values():
                if any(held == name for held, _ in attempt.limits):
                    holders[attempt.step.address] = None
            named = ", ".join(list(holders)[:NAMED])
            return f"held by {named}" if named else f"a wrangler: farm policy set limits.{name}.total=N"
    return ""


def _verdicts(farm: Farm, step: Step, unit: int | None, now_us: int) -> tuple[Verdict, ...]:
    groups: dict[_Found, list[str]] = {}
    for node in farm.nodes.values():
        if not node.forgotten:
            groups.setdefault(judge(farm, step, unit, node, now_us), []).append(node.name)
    return tuple(
        Verdict(found.filter, found.reason, found.cure, tuple(names[:NAMED]), len(names))
        for found, names in sorted(groups.items(), key=lambda item: (item[0].rank, item[0].reason))
    )


def judge(farm: Farm, step: Step, unit: int | None, node: Node, now_us: int) -> _Found:
    """The first filter that keeps a step (or unit) off a node now, in the order placing applies them."""
    shape = step.shape
    assert shape is not None
    reason = refused(shape, node)
    if reason:
        return _found("capability", reason, _capability_cure(step, node))
    reason = site_closed(farm, step.job, node.site) if farm.policy.sites else ""
    if reason:
        return _found("site", f"is closed to it: {reason}", "a wrangler: farm policy")
    reason = out_of_service(node)
    if reason:
        cure = f"farm node enable {node.name}" if not node.enabled else "start its agent"
        return _found("service", reason, cure)
    if node.closed:
        return _found("hours", f"starts nothing now: {node.closed}", "wait, or farm node set NAME schedule=")
    slots = node.settings.slots
    if slots and len(node.attempts) >= slots:
        return _found("slots", f"runs {len(node.attempts)} attempts and has {slots} slots", "")
    reason = lack(shape, node)
    if reason:
        return _found("room", reason, "")
    if not takes_work(node):
        return _found("room", "has no core free", "")
    if step.limits:
        reason = limit_short(farm, step.limits, node.id)
        if reason:
            return _found("limit", f"could take it, but {reason}", _limit_cure(farm, step))
    if step.node_failures and excluded(farm, step, node):
        count = step.node_failures.get(node.id, 0)
        return _found(
            "failed-here",
            f"failed {count} times for this step",
            f"farm retry J{step.job.id}/{step.spec.name}",
        )
    if unit is not None and step.notes and avoided(farm, step, unit, node):
        return _found("failed-here", "is where this frame failed; another node can take it", "")
    if node.reserved is not None and room_before(farm, node, step, now_us) < 0:
        other = farm.steps.get(node.reserved.step_id)
        return _found("reserved", f"is kept for {other.address if other else 'a large request'}", "")
    if step.job.paused or kept_back(farm, step) or (step.limits and limit_short(farm, step.limits)):
        return _found("free", "is free and could take it", "")
    if unit is None and not form_chunk(farm, step, node):
        return _found("failed-here", "is free, but every frame left has to go to another node", "")
    return _found("free", "is free and could take it", "")


def _found(word: str, reason: str, cure: str) -> _Found:
    return _Found(_RANKS[word], word, reason, cure)


def _capability_cure(step: Step, node: Node) -> str:
    """What of the request would have to change for this node; "" when nothing sensible would do."""
    need, total, where = step.resources, node.facts.total, f"J{step.job.id}/{step.spec.name}"
    if need.cores > total.cores:
        return f"farm set {where} resources.cores={total.cores}"
    if need.ram_mib > total.ram_mib:
        return f"farm set {where} resources.ram_mib={total.ram_mib}"
    if need.gpus > len(node.facts.gpus):
        return f"farm set {where} resources.gpus={len(node.facts.gpus)}"
    if step.spec.pools and node.pool not in step.spec.pools:
        return f"farm set {where} pools={','.join((*step.spec.pools, node.pool)).strip(',')}"
    return ""


# ---------------------------------------------------------------- when


def _wait(farm: Farm, step: Step, shape: Shape, now_us: int) -> Wait:
    """Expected start: from the order of work, what is ahead of it, and when nodes have room."""
    ahead, ahead_us, complete = _ahead(farm, step)
    share = expected_share(farm, step)
    slots, speed = slots_and_speed(farm, shape)
    if not slots or step.job.paused:
        return Wait(None, None, ahead, share)
    first_us: int | None = None
    for node in farm.nodes.values():
        if node.live and not refused(shape, node) and not node.closed:
            at_us = room_at(farm, node, shape, now_us)
            if first_us is None or at_us < first_us:
                first_us = at_us
                if at_us <= now_us:
                    break
    if first_us is None:
        return Wait(None, None, ahead, share)
    # At best its user's share lets it in as soon as there is room; at worst all that is ahead runs first.
    mean_wait_us = int(ahead_us / max(speed, 0.01))
    if not complete:
        return Wait(first_us, None, ahead, share)
    low_us = first_us + (mean_wait_us // 2 if ahead else 0)
    return Wait(low_us, first_us + 2 * mean_wait_us, ahead, share)


def _ahead(farm: Farm, step: Step) -> tuple[int, float, bool]:
    """Units that come before a step's, their work in microseconds of speed 1, whether all were looked at."""
    mine = _key(step)
    units, work_us, looked = 0, 0.0, 0
    for shape in farm.busy.values():
        for other in shape.queue.each():
            looked += 1
            if looked > LOOK:
                return units, work_us, False
            if other is not step and _key(other) < mine:
                units += other.counts[QUEUED]
                work_us += queued_us(other)
    return units, work_us, True


def _key(step: Step) -> tuple[int, int, int, int, int, int, int, int]:
    job = step.job
    project, user = job.project_account, job.user_account
    return (-job.priority, project.level, project.number, user.level, user.number, job.id, step.index, step.id)


def expected_share(farm: Farm, step: Step) -> float:
    """Part of the farm the step's user may expect while all that waits at its priority wants work."""
    mine = step.job
    projects: dict[str, int] = {}
    users: dict[str, int] = {}
    for job in farm.jobs.values():
        if job.priority == mine.priority and job.open_units and not job.paused:
            projects[job.project] = job.project_account.weight
            if job.project == mine.project:
                users[job.user] = job.user_account.weight
    projects.setdefault(mine.project, mine.project_account.weight)
    users.setdefault(mine.user, mine.user_account.weight)
    part = projects[mine.project] / sum(projects.values())
    return part * users[mine.user] / sum(users.values())


# ---------------------------------------------------------------- other states


def _blocked(farm: Farm, step: Step, unit: int) -> tuple[tuple[str, str], ...]:
    causes: list[tuple[str, str]] = []
    for edge in step.needs:
        if not (edge.met_for(unit) if edge.by_frame else edge.holds()):
            causes.append(_missing(edge, unit))
    if not causes and step.check_existing:
        causes.append(("its files on disk are looked at first", ""))
    if not causes:
        looked = any(request.step_id == step.id and unit in request.units for request in farm.verify.values())
        causes.append(("its files on disk are looked at first", "") if looked else (step.reason, ""))
    return tuple(causes)


def _missing(edge: Edge, unit: int) -> tuple[str, str]:
    """What an edge waits for, and what would cure it."""
    need = edge.need
    there = edge.need_unit(unit) if edge.by_frame else None
    if there is not None:
        frame = need.frame_of(there)
        where, word = f"{need.address}/{frame}", UnitState(need.state[there]).word
        return (
            f"waits for {where}, which is {word}",
            f"farm retry {where}" if word == "failed" else f"farm why {where}",
        )
    counts = need.counts
    left = need.units - need.left_out - counts[DONE] - counts[SKIPPED]
    text = f"waits for {need.address}, which is {need.shown().value} ({left} of {need.units} frames to go"
    if counts[FAILED]:
        return f"{text}, {counts[FAILED]} failed)", f"farm why {need.address}"
    return f"{text})", f"farm why {need.address}"


def _failed(farm: Farm, step: Step, unit: int) -> Answer:
    """Why it failed, where, and what the farm's rule for that kind of failure says."""
    note = step.notes.get(unit)
    if note is None:
        return Answer(UnitState.FAILED.word, ((step.reason or "no reason was recorded", ""),))
    frame = step.frame_of(unit)
    where = f"{step.address}/{frame}" if frame is not None else step.address
    causes = [(note.reason or "no reason was recorded", f"farm log {where}")]
    try:
        rule = RULES[FailureClass(note.failure)]
    except ValueError:
        rule = None
    if rule is not None:
        if rule.attempts == 0:
            causes.append((f"failures of class {note.failure} are not tried again", f"farm retry {where}"))
        else:
            causes.append((f"it used up its tries ({note.failure})", f"farm retry {where}"))
    tries = step.tries[unit] if step.tries is not None else 0
    failed_on = _names(farm, note.failed_on)
    return Answer(UnitState.FAILED.word, tuple(causes), (), None, note.failure, failed_on, tries)


def _running(farm: Farm, step: Step, unit: int, now_us: int) -> tuple[tuple[str, str], ...]:
    for attempt in step.attempts.values():
        if unit in attempt.open:
            since_s = (now_us - attempt.started_us) / 1e6
            left_s = pace.left_us(attempt, now_us) / 1e6
            text = f"runs on {attempt.node.name} as {attempt.address} since {since_s:.0f} s"
            expected = f", about {left_s:.0f} s left for its chunk" if pace.known(step) else ""
            return ((text + expected, ""),)
    return ()


def _names(farm: Farm, numbers: set[int]) -> tuple[str, ...]:
    return tuple(farm.nodes[number].name for number in sorted(numbers) if number in farm.nodes)


# ---------------------------------------------------------------- nodes


class IdleAnswer(msgspec.Struct, frozen=True):
    """Why a node is idle (or has room).

    Attributes:
        reason: What holds it, in words; "" when only the work below tells.
        work: What waits and why it does not run there: (address, reason, cure), first in order first.
        waiting: Steps that wait in the whole farm.
    """

    reason: str
    work: tuple[tuple[str, str, str], ...]
    waiting: int


def why_idle(farm: Farm, node: Node, now_us: int, most: int = 10) -> IdleAnswer:
    """Why a node does not take more work."""
    steps = sorted((step for shape in farm.busy.values() for step in shape.queue.each()), key=_key)
    for waiting in (*(one.capped for one in farm.holders.values()), *(job.capped for job in farm.jobs.values())):
        steps += waiting.values()
    work = []
    for step in steps[:most]:
        found = judge(farm, step, None, node, now_us)
        capped = kept_back(farm, step)
        reason = capped or (f"{node.name} {found.reason}")
        work.append((step.address, reason, found.cure))
    reason = out_of_service(node) or (f"starts nothing now: {node.closed}" if node.closed else "")
    if not reason and node.reserved is not None:
        other = farm.steps.get(node.reserved.step_id)
        reason = f"is kept for {other.address if other else 'a large request'}, which needs its room"
    if not reason and not node.attempts and not steps:
        blocked = sum(job.counts()[BLOCKED] for job in farm.jobs.values() if job.open_units)
        paused = sum(1 for job in farm.jobs.values() if job.paused and job.open_units)
        reason = "nothing waits in the farm"
        if blocked or paused:
            reason += f" ({blocked} frames are blocked by others, {paused} jobs are paused)"
    if not reason and node.attempts and node.cores_free <= 0:
        reason = f"is full: {len(node.attempts)} attempts hold all its cores"
    return IdleAnswer(reason, tuple(work), len(steps))
