"""Why is it not running?  Answers made of the very tests and records the scheduler decides by.

What belongs here: putting the refusals of ``match``, ``shares``, ``reserve``, ``chunks`` and ``dependencies``
into an order people can act on, each with its cure.  What may not: a second opinion.  Where a reason is given
here it is because the function that placing calls gave it; nothing is guessed from outside.  What people can
do about it is ``farm.core.cures``.

Longer than most: a state each has its answer, and each is short.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from farm.core import cures, pace
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
from farm.core.shares import kept_back, limit_short
from farm.core.state import Attempt, Farm, Node, Shape, Step
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
    #: ``{node}`` stands for the names of the nodes it is about.
    cure: str
    #: Of nodes that can never take it: how far they are from it.
    far: float = 0.0


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
    return _whole(farm, step, now_us)


def _whole(farm: Farm, step: Step, now_us: int) -> Answer:
    """Of a step: what holds the most important of its units, then what else is to be known."""
    counts, where = step.counts, step.address
    if counts[QUEUED]:
        answer, about = _queued(farm, step, None, now_us), QUEUED
    elif counts[RUNNING]:
        nodes = {attempt.node.name: None for attempt in step.attempts.values() if attempt.open}
        more = f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
        text = f"{frames(counts[RUNNING])} being rendered on {', '.join(list(nodes)[:NAMED])}{more}"
        answer, about = Answer(UnitState.RUNNING.word, ((text, ""),)), RUNNING
    elif counts[FAILED]:
        answer, about = _all_failed(farm, step), FAILED
    elif counts[BLOCKED]:
        answer, about = (
            Answer(UnitState.BLOCKED.word, _blocked(farm, step, step.state.find(BLOCKED))),
            BLOCKED,
        )
    else:
        return Answer(step.shown().value, ((step.reason, ""),) if step.reason else ())
    causes = list(answer.causes)
    if counts[RUNNING] and about == QUEUED:
        causes.append((f"{frames(counts[RUNNING])} being rendered", ""))
    if counts[FAILED] and about != FAILED:
        causes.append(
            (f"{frames(counts[FAILED])} failed", f"farm why {_named(step, step.state.find(FAILED))}")
        )
    if counts[BLOCKED] and about != BLOCKED:
        what = _blocked(farm, step, step.state.find(BLOCKED))[0][0]
        one = step.state.find(BLOCKED)
        causes.append((f"{frames(counts[BLOCKED])} blocked: {_named(step, one)} {what}", f"farm why {where}"))
    return msgspec.structs.replace(answer, causes=tuple(causes))


def frames(count: int) -> str:
    """A number of units in words, with a verb."""
    return "1 frame is" if count == 1 else f"{count} frames are"


def _named(step: Step, unit: int) -> str:
    """Address of a unit."""
    frame = step.frame_of(unit)
    return f"{step.address}/{frame}" if frame is not None else step.address


# ---------------------------------------------------------------- work that waits


def _queued(farm: Farm, step: Step, unit: int | None, now_us: int) -> Answer:
    job, shape = step.job, step.shape
    causes: list[tuple[str, str]] = []
    if job.paused:
        causes.append(_paused(step))
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
        causes.append((capped, cures.of_cap(farm, step)))
    if step.limits:
        short = limit_short(farm, step.limits)
        if short:
            causes.append((short, cures.of_limit(farm, step)))
    verdicts = _verdicts(farm, step, unit, now_us) if shape is not None else ()
    wait = _wait(farm, step, shape, now_us) if shape is not None else None
    if not verdicts and shape is not None:
        causes.append(("the farm has no node", "farm agent"))
    elif verdicts and all(one.filter in ("capability", "site") for one in verdicts):
        causes.insert(0, ("no node can ever take it", verdicts[0].cure or "add a node that can"))
    elif not causes and verdicts:
        causes.append(_waits(farm, step, verdicts[0], wait))
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


def _waits(farm: Farm, step: Step, first: Verdict, wait: Wait | None) -> tuple[str, str]:
    """What nothing but the nodes holds: said of the one that is nearest to taking it."""
    if first.filter in ("service", "hours"):
        # The nodes' own lines say how each comes back.
        word = "out of service" if first.filter == "service" else "out of its hours or out of service"
        return f"every node that could take it is {word}", ""
    if wait is not None and wait.ahead:
        before = "1 frame comes" if wait.ahead == 1 else f"{wait.ahead} frames come"
        jobs = _jobs_ahead(farm, step)
        return f"{before} before it{jobs}", f"farm priority J{step.job.id} N"
    if first.filter == "free":
        return "a node is free: it starts at the next turn", ""
    if first.filter == "failed-here":
        return "the free nodes are those where it failed; it goes to another one first", ""
    if first.filter == "reserved":
        return "the free nodes are kept for a large request", ""
    return "every node that could take it is busy", ""


def _jobs_ahead(farm: Farm, step: Step) -> str:
    """The first jobs whose work comes before a step's, in words."""
    mine, found = _key(step), []
    for looked, other in enumerate(one for shape in farm.busy.values() for one in shape.queue.each()):
        if looked > LOOK:
            return ""
        key = _key(other)
        if other is not step and key < mine:
            found.append((key, other.job))
    found.sort(key=lambda pair: pair[0])
    jobs = list({job.id: job for _, job in found}.values())
    named = ", ".join(f"J{job.id} of {job.user or 'nobody'}" for job in jobs[:NAMED])
    more = f" and {len(jobs) - NAMED} more jobs" if len(jobs) > NAMED else ""
    return f": {named}{more}" if named else ""


def _paused(step: Step) -> tuple[str, str]:
    job = step.job
    if job.paused_by == "clock":
        return (
            f"its job {job.reason}" if job.reason else "its job starts later",
            f"farm resume J{job.id} (at once)",
        )
    by = {"farm": "the job paused itself", "scout": "the job waits for approval"}
    words = by.get(job.paused_by, f"the job is paused by {job.paused_by or 'nobody'}")
    return (f"{words}: {job.reason}" if job.reason else words, f"farm resume J{job.id}")


def _parked(step: Step, unit: int, now_us: int) -> tuple[str, str]:
    until_us = step.parked[unit]
    if not until_us:
        return "its last attempt must be confirmed stopped first", ""
    note = step.notes.get(unit)
    why_text = f" after: {note.reason}" if note is not None and note.reason else ""
    return f"it is tried again in {max(0, until_us - now_us) / 1e6:.0f} s{why_text}", ""


def _verdicts(farm: Farm, step: Step, unit: int | None, now_us: int) -> tuple[Verdict, ...]:
    groups: dict[_Found, list[str]] = {}
    for node in farm.nodes.values():
        if not node.forgotten:
            groups.setdefault(judge(farm, step, unit, node, now_us), []).append(node.name)
    found = sorted(groups.items(), key=lambda item: (item[0].rank, item[0].far, item[0].reason))
    return tuple(_verdict(one, names) for one, names in found)


def _verdict(found: _Found, names: list[str]) -> Verdict:
    some = tuple(names[:NAMED])
    return Verdict(found.filter, found.reason, found.cure.replace("{node}", " ".join(some)), some, len(names))


def judge(farm: Farm, step: Step, unit: int | None, node: Node, now_us: int) -> _Found:
    """The first filter that keeps a step (or unit) off a node now, in the order placing applies them."""
    shape = step.shape
    assert shape is not None
    reason = refused(shape, node)
    if reason:
        change = cures.of_capability(step, node)
        return _Found(_RANKS["capability"], "capability", reason, change.cure, change.far)
    reason = site_closed(farm, step.job, node.site) if farm.policy.sites else ""
    if reason:
        return _found("site", f"is closed to it: {reason}", cures.of_site(farm, step.job, node.site))
    reason = out_of_service(node)
    if reason:
        cure = "farm node enable {node}" if not node.enabled else "start its agent"
        return _found("service", reason, cure)
    if node.closed:
        return _found(
            "hours", f"starts nothing now: {node.closed}", "farm node set NAME schedule= (always open)"
        )
    slots = node.settings.slots
    if slots and len(node.attempts) >= slots:
        count = len(node.attempts)
        running = "1 attempt" if count == 1 else f"{count} attempts"
        reason = f"runs {running} and has {slots} {'slot' if slots == 1 else 'slots'}"
        return _found("slots", reason, "farm node set NAME slots=N")
    reason = lack(shape, node)
    if reason:
        return _found("room", reason, "")
    if not takes_work(node):
        return _found("room", "has no core free", "")
    if step.limits:
        reason = limit_short(farm, step.limits, node.id)
        if reason:
            return _found("limit", f"has room, but {reason}", "")
    if step.node_failures and excluded(farm, step, node):
        count = step.node_failures.get(node.id, 0)
        return _found(
            "failed-here",
            f"failed {count} times for this step",
            f"farm retry {step.address}",
        )
    if unit is not None and step.notes and avoided(farm, step, unit, node):
        return _found("failed-here", "is where this frame failed; another node can take it", "")
    if node.reserved is not None and room_before(farm, node, step, now_us) < 0:
        other = farm.steps.get(node.reserved.step_id)
        return _found("reserved", f"is kept for {other.address if other else 'a large request'}", "")
    if step.job.paused or kept_back(farm, step) or (step.limits and limit_short(farm, step.limits)):
        return _found("free", "has room for it", "")
    if unit is None and not form_chunk(farm, step, node):
        return _found("failed-here", "is free, but every frame left has to go to another node", "")
    return _found("free", "is free and could take it", "")


def _found(word: str, reason: str, cure: str) -> _Found:
    return _Found(_RANKS[word], word, reason, cure)


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
    held_us = _held_until(farm, step, now_us)
    if held_us is not None:
        # When those that hold what is scarce will let go of it, and who gets it then, nobody can say.
        return Wait(max(first_us, held_us), None, ahead, share) if held_us else Wait(None, None, ahead, share)
    # At best its user's share lets it in as soon as there is room; at worst all that is ahead runs first.
    mean_wait_us = int(ahead_us / max(speed, 0.01))
    if not complete:
        return Wait(first_us, None, ahead, share)
    low_us = first_us + (mean_wait_us // 2 if ahead else 0)
    return Wait(low_us, first_us + 2 * mean_wait_us, ahead, share)


def _held_until(farm: Farm, step: Step, now_us: int) -> int | None:
    """When the first attempt ends that holds what a cap or limit keeps from the step.

    None: nothing is kept from it; 0: nobody holds any.
    """
    holders: list[Attempt] = []
    job = step.job
    if kept_back(farm, step):
        mine = [one for one in farm.attempts.values() if one.step.job is job]
        holders = mine or [one for one in farm.attempts.values() if one.user == job.user]
    elif step.limits and limit_short(farm, step.limits):
        wanted = {name for name, _ in step.limits}
        holders = [one for one in farm.attempts.values() if any(name in wanted for name, _ in one.limits)]
    else:
        return None
    return min((now_us + pace.left_us(one, now_us) for one in holders), default=0)


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
    return (
        -job.priority,
        project.level,
        project.number,
        user.level,
        user.number,
        job.id,
        step.index,
        step.id,
    )


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
    where = _named(step, unit)
    causes = [(note.reason or "no reason was recorded", f"farm log {where}")]
    causes += _rule(note.failure, where)
    tries = step.tries[unit] if step.tries is not None else 0
    failed_on = _names(farm, note.failed_on)
    return Answer(UnitState.FAILED.word, tuple(causes), (), None, note.failure, failed_on, tries)


def _rule(failure: str, where: str) -> list[tuple[str, str]]:
    """What the table of failures says of a class, with the cure."""
    try:
        rule = RULES[FailureClass(failure)]
    except ValueError:
        return []
    if rule.attempts == 0:
        return [(f"a failure of class {failure} is not tried again: mend it first", f"farm retry {where}")]
    return [(f"all its tries are used up ({failure})", f"farm retry {where}")]


def _all_failed(farm: Farm, step: Step) -> Answer:
    """Why units of a step failed: those with the same words together, the most first."""
    units = [unit for unit in range(step.units) if step.state[unit] == FAILED][:LOOK]
    if len(units) == 1:
        return _failed(farm, step, units[0])
    groups: dict[tuple[str, str], list[int]] = {}
    for unit in units:
        note = step.notes.get(unit)
        key = (note.reason, note.failure) if note is not None else (step.reason, "")
        groups.setdefault(key, []).append(unit)
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[1][0]))
    causes = []
    for (reason, _), same in ordered[:NAMED]:
        count = "1 frame" if len(same) == 1 else f"{len(same)} frames"
        causes.append((f"{count}: {reason or 'no reason was recorded'}", f"farm log {_named(step, same[0])}"))
    if len(ordered) > NAMED:
        causes.append(
            (f"and {len(ordered) - NAMED} other reasons", f"farm frames {step.address} --state failed")
        )
    kinds = {failure for _, failure in groups}
    failure = kinds.pop() if len(kinds) == 1 else ""
    causes += _rule(failure, step.address) or [("all their tries are used up", f"farm retry {step.address}")]
    nodes = {number for unit in units if unit in step.notes for number in step.notes[unit].failed_on}
    return Answer(UnitState.FAILED.word, tuple(causes), (), None, failure, _names(farm, nodes), 0)


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
    for waiting in (
        *(one.capped for one in farm.holders.values()),
        *(job.capped for job in farm.jobs.values()),
    ):
        steps += waiting.values()
    work = []
    for step in steps[:most]:
        found = judge(farm, step, None, node, now_us)
        capped = kept_back(farm, step)
        cure = cures.of_cap(farm, step) if capped else found.cure.replace("{node}", node.name)
        work.append((step.address, capped or f"{node.name} {found.reason}", cure))
    reason = out_of_service(node) or (f"starts nothing now: {node.closed}" if node.closed else "")
    if not reason and node.reserved is not None:
        other = farm.steps.get(node.reserved.step_id)
        reason = f"is kept for {other.address if other else 'a large request'}, which needs its room"
    if not reason and node.attempts and node.cores_free <= 0:
        count = len(node.attempts)
        holds = "1 attempt holds" if count == 1 else f"{count} attempts hold"
        reason = f"is full: {holds} all its cores"
    if not reason and not steps:
        reason = "has room: " if node.attempts else ""
        reason += "nothing waits in the farm" + _withheld(farm)
    return IdleAnswer(reason, tuple(work), len(steps))


def _withheld(farm: Farm) -> str:
    """What is there to do, but not now, in words; "" when there is nothing."""
    blocked = tried_again = paused = 0
    for job in farm.jobs.values():
        if not job.open_units:
            continue
        if job.paused:
            paused += 1
            continue
        for step in job.steps:
            blocked += step.counts[BLOCKED]
            tried_again += len(step.parked)
    words = []
    if blocked:
        words.append(f"{frames(blocked)} blocked by others")
    if tried_again:
        words.append(f"{frames(tried_again)} tried again later")
    if paused:
        words.append("1 job is paused" if paused == 1 else f"{paused} jobs are paused")
    return f" ({', '.join(words)})" if words else ""
