"""When is it a step's turn?  What comes before it, and when a node is expected to have room for it.

What belongs here: expectations for people who ask why something waits.  What may not: decisions, and any
change of state.  ``farm.core.forecast`` says when whole jobs end; this says when something that waits may
start.
"""

from __future__ import annotations

import msgspec

from farm.core import pace
from farm.core.apply import QUEUED
from farm.core.chunks import Hunger, hunger, hunger_of, queued_us, slots_and_speed
from farm.core.gather import left_to
from farm.core.match import avoided, excluded, refused, site_closed
from farm.core.order import order_key
from farm.core.pace import chunk_us
from farm.core.reserve import room_at, room_before
from farm.core.shares import kept_back, limit_short
from farm.core.state import Attempt, Farm, Node, Shape, Step

#: Jobs that are named.
NAMED = 5
#: Steps looked at when the wait is estimated; beyond it the answer says "at least".
LOOK = 20_000


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


def expected_start(farm: Farm, step: Step, unit: int | None, shape: Shape, now_us: int) -> Wait:
    """Expected start: from the order of work, what is ahead of it, and when nodes have room."""
    ahead, ahead_us, complete = _ahead(farm, step)
    share = expected_share(farm, step)
    slots, speed = slots_and_speed(farm, shape)
    if not slots or step.job.paused or (unit is not None and step.job.scouting and unit not in step.scouts):
        return Wait(None, None, ahead, share)
    parked_us = [step.parked.get(unit, 0)] if unit is not None else list(step.parked.values())
    if unit is None and len(parked_us) < step.counts[QUEUED]:
        parked_us = []
    from_us = max(now_us, min(parked_us, default=0))
    need = hunger(farm, step) if unit is None else hunger_of(farm, step, unit)
    first_us = _first_room(farm, step, unit, shape, from_us, now_us, need)
    if first_us is None:
        return Wait(None, None, ahead, share)
    if need is not None and first_us > now_us and step.id not in farm.reservations:
        # What becomes free until then may go to work that needs less, which fits sooner.
        return Wait(first_us, None, ahead, share)
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


def _first_room(
    farm: Farm,
    step: Step,
    unit: int | None,
    shape: Shape,
    from_us: int,
    now_us: int,
    need: Hunger | None = None,
) -> int | None:
    """When the first node is expected to have room for the step, from a moment on; None = none ever."""
    first_us: int | None = None
    for node in farm.nodes.values():
        if node.live and not refused(shape, node) and not node.closed:
            if farm.policy.sites and site_closed(farm, step.job, node.site):
                continue
            if step.node_failures and excluded(farm, step, node):
                continue
            about = unit if unit is not None or need is None else need.unit
            if about is not None and step.notes and avoided(farm, step, about, node):
                continue
            at_us = max(from_us, room_at(farm, node, shape, now_us, need))
            kept = node.reserved
            if kept is not None and not may_start_before(farm, step, node, now_us):
                owner = farm.steps.get(kept.step_id)
                at_us = kept.at_us + (chunk_us(farm, owner, 1, node) if owner is not None else 0)
            if first_us is None or at_us < first_us:
                first_us = at_us
                if at_us <= from_us:
                    break
    return first_us


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
    elif farm.outbid and (left := left_to(farm, step, now_us)) is not None:
        # Not before the other one has what it gathers, which somebody holds now.
        holders = [one for one in farm.attempts.values() if _holds(one, left.names[-1])]
    else:
        return None
    return min((now_us + pace.left_us(one, now_us) for one in holders), default=0)


def _holds(attempt: Attempt, name: str) -> bool:
    """Whether an attempt holds tokens of ``limit nuke``, or cores of ``user ann`` or ``job 12``."""
    held = (f"job {attempt.step.job.id}", f"user {attempt.user}")
    return name in held or any(name == f"limit {limit}" for limit, _ in attempt.limits)


def _ahead(farm: Farm, step: Step) -> tuple[int, float, bool]:
    """Units that come before a step's, their work in microseconds of speed 1, whether all were looked at."""
    mine = order_key(step)
    units, work_us, looked = 0, 0.0, 0
    for shape in farm.busy.values():
        for other in shape.queue.each():
            looked += 1
            if looked > LOOK:
                return units, work_us, False
            if other is not step and order_key(other) < mine:
                units += other.counts[QUEUED]
                work_us += queued_us(other)
    return units, work_us, True


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


def jobs_ahead(farm: Farm, step: Step) -> tuple[str, str]:
    """The first jobs whose work comes before a step's, in words; and what would put it before them."""
    mine, found = order_key(step), []
    for looked, other in enumerate(one for shape in farm.busy.values() for one in shape.queue.each()):
        if looked > LOOK:
            return "", f"farm priority J{step.job.id} N"
        key = order_key(other)
        if other is not step and key < mine:
            found.append((key, other.job))
    found.sort(key=lambda pair: pair[0])
    jobs = list({job.id: job for _, job in found}.values())
    named = ", ".join(f"J{job.id} of {job.user or 'nobody'}" for job in jobs[:NAMED])
    more = f" and {len(jobs) - NAMED} more jobs" if len(jobs) > NAMED else ""
    if jobs == [step.job]:
        cure = f"farm next {step.address}"
    elif all(key[:5] == mine[:5] for key, _ in found):
        # All of one user in one project at one priority: their own order decides, and that is theirs.
        cure = f"farm next J{step.job.id}"
    else:
        cure = f"farm priority J{step.job.id} N"
    return f": {named}{more}" if named else "", cure


def may_start_before(farm: Farm, step: Step, node: Node, now_us: int) -> bool:
    """Whether a chunk of the step may start on a node that is kept: it ends in time or is in nobody's way."""
    most_us = room_before(farm, node, step, now_us)
    return most_us == 0 or (most_us > 0 and chunk_us(farm, step, 1, node) <= most_us)
