"""Why is it not running?  Answers made of the very tests and records the scheduler decides by.

What belongs here: putting the refusals of ``match``, ``shares``, ``reserve``, ``chunks`` and ``dependencies``
into an order people can act on.  What may not: a second opinion.  Where a reason is given here it is because
the function that placing calls gave it; nothing is guessed from outside.  What people can do about it is
``farm.core.cures``, when it may start ``farm.core.turn``, why a node is idle ``farm.core.idle``.

Longer than most: every state has its answer, and each is short.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from farm.core import cures, pace
from farm.core.apply import BLOCKED, DONE, FAILED, QUEUED, RUNNING, SKIPPED
from farm.core.causes import given_up_for
from farm.core.chunks import form_chunk, hunger, hunger_of
from farm.core.gather import Left, left_to
from farm.core.match import (
    avoided,
    excluded,
    lack,
    out_of_service,
    refused,
    site_closed,
)
from farm.core.needs import Edge
from farm.core.openings import takes_work
from farm.core.reserve import short_of
from farm.core.shares import kept_back, limit_short
from farm.core.state import Farm, Node, Step
from farm.core.turn import Wait, expected_start, jobs_ahead, may_start_before
from farm.model.failures import RULES
from farm.model.states import FailureClass, UnitState

#: Nodes named per reason; more are counted.
NAMED = 5
#: Failed units whose reasons are put together.
FAILURES_LOOKED_AT = 5_000


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
    #: ``{node}`` stands for the names of the nodes it is about, ``{one}`` for the only one of them.
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
        note = step.notes.get(unit)
        reason = given_up_for(step, unit) or (note.reason if note is not None else "") or step.reason
        return Answer(UnitState(state).word, ((reason, ""),) if reason else ())
    return _whole(farm, step, now_us)


def _whole(farm: Farm, step: Step, now_us: int) -> Answer:
    """Of a step: what holds the most important of its units, then what else is to be known."""
    counts = step.counts
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
        reason = given_up_for(step) or step.reason
        return Answer(step.shown().value, ((reason, ""),) if reason else ())
    causes = list(answer.causes)
    if counts[RUNNING] and about == QUEUED:
        causes.append((f"{frames(counts[RUNNING])} being rendered", ""))
    if counts[FAILED] and about != FAILED:
        causes.append(
            (f"{frames(counts[FAILED])} failed", f"farm why {_named(step, step.state.find(FAILED))}")
        )
    if counts[BLOCKED] and about != BLOCKED:
        one = step.state.find(BLOCKED)
        what, cure = _blocked(farm, step, one)[0]
        causes.append((f"{frames(counts[BLOCKED])} blocked: {_named(step, one)} {what}", cure))
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
    left = left_to(farm, step, now_us) if farm.outbid else None
    if left is not None and not causes:
        since_s = (now_us - left.since_us) / 1e6
        causes.append((f"{left.what} and has waited {since_s:.0f} s", cures.of_left(step, left.other)))
    verdicts = _verdicts(farm, step, unit, now_us, left) if shape is not None else ()
    wait = expected_start(farm, step, unit, shape, now_us) if shape is not None else None
    if not verdicts and shape is not None:
        causes.append(("the farm has no node", "farm agent"))
    elif verdicts and all(one.filter in ("capability", "site") for one in verdicts):
        causes.insert(0, ("no node can ever take it", verdicts[0].cure or "add a node that can"))
    elif not causes and verdicts:
        causes.append(_waits(farm, step, unit, verdicts[0], wait))
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


def _waits(farm: Farm, step: Step, unit: int | None, first: Verdict, wait: Wait | None) -> tuple[str, str]:
    """What nothing but the nodes holds: said of the one that is nearest to taking it."""
    kept = farm.reservations.get(step.id)
    if kept is not None and kept.node_id in farm.nodes:
        return f"{farm.nodes[kept.node_id].name} is kept for it and takes nothing that would hold it up", ""
    if first.filter in ("service", "hours"):
        # The nodes' own lines say how each comes back.
        word = "out of service" if first.filter == "service" else "out of its hours or out of service"
        return f"every node that could take it is {word}", ""
    need = hunger(farm, step) if unit is None else hunger_of(farm, step, unit)
    if need is not None and first.filter == "room":
        what = f"{need.ram_mib} MiB of memory" if need.ram_mib else "a larger GPU"
        return f"a try ran out of memory, and the next one waits for {what} on {_some(first)}", ""
    if wait is not None and wait.ahead:
        before = "1 frame comes" if wait.ahead == 1 else f"{wait.ahead} frames come"
        jobs, cure = jobs_ahead(farm, step)
        return f"{before} before it{jobs}", cure
    if first.filter == "free":
        return "a node is free: it starts at the next turn", ""
    if first.filter == "failed-here":
        return "the free nodes are those where it failed; it goes to another one first", ""
    if first.filter == "reserved":
        return "the free nodes are kept for a large request", ""
    return "every node that could take it is busy", ""


def _some(verdict: Verdict) -> str:
    """The nodes a verdict is about, the first by name."""
    more = verdict.count - len(verdict.nodes)
    return ", ".join(verdict.nodes) + (f" and {more} more" if more else "")


def _paused(step: Step) -> tuple[str, str]:
    job = step.job
    if job.paused_by == "clock":
        return (
            f"its job {job.reason}" if job.reason else "its job starts later",
            f"farm resume J{job.id} (at once)",
        )
    by = {"farm": "the job paused itself", "scout": "the job waits for approval"}
    words = by.get(job.paused_by, f"the job is paused by {job.paused_by or 'nobody'}")
    reason = job.reason
    # Without somebody's own words the reason says who paused it, which is said already.
    if job.paused_by == "farm" and reason.startswith("paused itself"):
        return f"the job {reason}", f"farm resume J{job.id}"
    if reason == f"paused by {job.paused_by}":
        reason = ""
    return (f"{words}: {reason}" if reason else words, f"farm resume J{job.id}")


def _parked(step: Step, unit: int, now_us: int) -> tuple[str, str]:
    until_us = step.parked[unit]
    if not until_us:
        return "its last attempt must be confirmed stopped first", ""
    note = step.notes.get(unit)
    why_text = f" after: {note.reason}" if note is not None and note.reason else ""
    return f"it is tried again in {max(0, until_us - now_us) / 1e6:.0f} s{why_text}", ""


def _verdicts(
    farm: Farm, step: Step, unit: int | None, now_us: int, left: Left | None
) -> tuple[Verdict, ...]:
    groups: dict[_Found, list[str]] = {}
    for node in farm.nodes.values():
        if not node.forgotten:
            groups.setdefault(judge(farm, step, unit, node, now_us, left), []).append(node.name)
    found = sorted(groups.items(), key=lambda item: (item[0].rank, item[0].far, item[0].reason))
    return tuple(_verdict(one, names) for one, names in found)


def _verdict(found: _Found, names: list[str]) -> Verdict:
    some = tuple(names[:NAMED])
    return Verdict(found.filter, found.reason, cure_for(found.cure, names), some, len(names))


def cure_for(cure: str, names: list[str]) -> str:
    """A verdict's cure with the names of the nodes it is about."""
    one = names[0] if len(names) == 1 else "NAME"
    return cure.replace("{node}", " ".join(names[:NAMED])).replace("{one}", one)


def judge(
    farm: Farm, step: Step, unit: int | None, node: Node, now_us: int, left: Left | None = None
) -> _Found:
    """The first filter that keeps a step (or unit) off a node now, in the order placing applies them.

    Args:
        farm: The state.
        step: What is asked about.
        unit: One unit of it, None = the next ones.
        node: The node.
        now_us: The time.
        left: To whom the step has to leave tokens or cores (``gather.left_to``), found once for all nodes.
    """
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
            "hours", f"starts nothing now: {node.closed}", "farm node set {one} schedule= (always open)"
        )
    slots = node.settings.slots
    if slots and len(node.attempts) >= slots:
        count = len(node.attempts)
        running = "1 attempt" if count == 1 else f"{count} attempts"
        reason = f"runs {running}, and its slots are {slots}"
        return _found("slots", reason, "farm node set {one} slots=N")
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
        # Only a retry forgets it, and only what ended badly can be retried.
        cure = f"farm retry {step.address}" if step.counts[FAILED] else ""
        return _found("failed-here", f"failed {count} times for this step", cure)
    if unit is not None and step.notes and avoided(farm, step, unit, node):
        return _found("failed-here", "is where this frame failed; another node can take it", "")
    if node.reserved is not None and not may_start_before(farm, step, node, now_us):
        other = farm.steps.get(node.reserved.step_id)
        kept = f"is kept for {other.address if other else 'a large request'}"
        return _found("reserved", f"{kept}, which this would hold up", "")
    if step.job.paused or kept_back(farm, step) or (step.limits and limit_short(farm, step.limits)):
        return _found("free", "has room for it", "")
    if left is not None:
        return _found("limit", f"has room, but {left.what}", "")
    need = hunger(farm, step) if unit is None else hunger_of(farm, step, unit)
    if need is not None and not avoided(farm, step, need.unit, node):
        reason = short_of(shape, node, need)
        if reason:
            return _found("room", reason, "")
    if unit is None and not form_chunk(farm, step, node, ask=True):
        return _found("failed-here", "is free, but every frame left has to go to another node", "")
    return _found("free", "is free and could take it", "")


def _found(word: str, reason: str, cure: str) -> _Found:
    return _Found(_RANKS[word], word, reason, cure)


# ---------------------------------------------------------------- other states


def _blocked(farm: Farm, step: Step, unit: int) -> tuple[tuple[str, str], ...]:
    causes = [
        _missing(edge, unit)
        for edge in step.needs
        if not (edge.met_for(unit) if edge.by_frame else edge.holds())
    ]
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
    units: list[int] = []
    unit = step.state.find(FAILED)
    while unit >= 0 and len(units) < FAILURES_LOOKED_AT:
        units.append(unit)
        unit = step.state.find(FAILED, unit + 1)
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
