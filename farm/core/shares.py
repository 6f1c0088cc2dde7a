"""Fair share, caps and limits: who used how much, and what is held now.

What belongs here: the accounts and their arithmetic, and the policy's effect on them.  What may not: which
work goes next (``farm.core.order``) or where (``farm.core.place``).

Use is counted in core-milliseconds: the dominant share of its node an attempt holds, times the node's cores,
times how long.  A lease is charged what it is expected to take; its end adds what was short, or gives credit
against the next charge, so a level only ever grows.  Old use fades by letting new use weigh more: the weight
of a charge doubles every half-life, which orders accounts exactly as halving the old would.  All figures are
integers, so that a replay of the stored rows gives the same levels on any machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from farm.core.order import Account, Queue
from farm.core.work import Holder
from farm.model.policy import Policy

if TYPE_CHECKING:
    from farm.core.attempts import Attempt
    from farm.core.rows import PolicyRow
    from farm.core.state import Farm
    from farm.core.work import Job, Step

#: Weight of a charge at the origin of time.
UNIT = 1 << 20
#: Steps in which the weight of charges doubles.
PARTS = 64
#: UNIT * 2 ** (i / PARTS), made once with integers only: floats may differ between machines in the last
#: place.
_FACTORS: list[int] = []
#: What a frame is taken to last before any was measured.
GUESS_US = 30_000_000
#: Core-milliseconds of today that an account's use must have faded below to be forgotten: one core-second.
#: A thousand core-hours fade to that in 22 half-lives; a first lease is charged thirty times as much.
FADED_CORE_MS = 1_000
#: Half-lives after which levels are written smaller again.
REBASE_HALF_LIVES = 64
_POLICY = msgspec.json.Decoder(Policy)


def _make_factors() -> None:
    """Fills the table: each entry is the integer root of an exact power of two."""
    for part in range(PARTS):
        # x = UNIT * 2 ** (part / PARTS)  <=>  x ** PARTS = UNIT ** PARTS * 2 ** part, by halving intervals.
        target = UNIT**PARTS << part
        low, high = UNIT, 2 * UNIT
        while high - low > 1:
            middle = (low + high) // 2
            if middle**PARTS <= target:
                low = middle
            else:
                high = middle
        _FACTORS.append(low)


_make_factors()


class Limit:
    """A counted token.  ``total`` None: the policy does not name it."""

    __slots__ = ("name", "nodes", "per_node", "total", "used")

    def __init__(self, name: str) -> None:
        self.name = name
        self.total: int | None = None
        self.per_node = False
        #: Tokens held; with ``per_node`` each node counts once.
        self.used = 0
        #: Attempts that hold it, by node id; only with ``per_node``.
        self.nodes: dict[int, int] = {}


# ---------------------------------------------------------------- accounts


def project_account(farm: Farm, project: str) -> Account:
    """The account of a project, made when it is new."""
    account = farm.projects.get(project)
    if account is None:
        weight = farm.policy.projects.get(project, 1)
        account = farm.projects[project] = Account(project, weight, farm.next_account)
        farm.next_account += 1
    return account


def user_account(farm: Farm, project: str, user: str) -> Account:
    """The account of a user within a project, made when it is new."""
    key = (project, user)
    account = farm.users.get(key)
    if account is None:
        weight = farm.policy.users.get(user, 1)
        account = farm.users[key] = Account(user, weight, farm.next_account)
        farm.next_account += 1
    return account


def join_accounts(farm: Farm, job: Job) -> None:
    """Points a job at the accounts it is charged to (new, or its project changed)."""
    holder = farm.holders.get(job.user)
    if holder is None:
        holder = farm.holders[job.user] = Holder(job.user)
    if job.joined:
        job.project_account.jobs -= 1
        job.user_account.jobs -= 1
    job.holder = holder
    job.project_account = project_account(farm, job.project)
    job.user_account = user_account(farm, job.project, job.user)
    job.project_account.jobs += 1
    job.user_account.jobs += 1
    job.joined = True


def leave_accounts(farm: Farm, job: Job, at_us: int) -> None:
    """A job leaves memory, and with it accounts nobody else has jobs on if what they used weighs nothing."""
    project, user = job.project_account, job.user_account
    project.jobs -= 1
    user.jobs -= 1
    job.joined = False
    if project.jobs and user.jobs:
        return
    weight = weight_at(farm, at_us)
    if _may_go(project, weight):
        farm.projects.pop(project.name, None)
    if _may_go(user, weight):
        farm.users.pop((job.project, user.name), None)


def _may_go(account: Account, weight: int) -> bool:
    """Whether an account has no jobs, and a new one would begin the same."""
    faded = max(account.level * account.weight, account.credit) < FADED_CORE_MS * weight
    return faded and not account.jobs


def weight_now(farm: Farm, at_us: int) -> int:
    """What a core-millisecond charged now weighs."""
    part = (at_us - farm.share_origin_us) * PARTS // farm.half_life_us
    if part >= REBASE_HALF_LIVES * PARTS:
        rebase(farm, at_us)
        part = 0
    part = max(part, 0)
    # Kept as the times at which it holds: whoever charges something compares and need not divide.
    origin_us, half_life_us = farm.share_origin_us, farm.half_life_us
    farm.share_from_us = origin_us - (-part * half_life_us // PARTS) if part else 0
    farm.share_until_us = origin_us - (-(part + 1) * half_life_us // PARTS)
    farm.share_weight = _weight(part)
    return farm.share_weight


def weight_at(farm: Farm, at_us: int) -> int:
    """As ``weight_now``, but changes nothing."""
    return _weight(max(0, (at_us - farm.share_origin_us) * PARTS // farm.half_life_us))


def _weight(part: int) -> int:
    return _FACTORS[part % PARTS] << (part // PARTS)


def charge_lease(farm: Farm, attempt: Attempt, at_us: int) -> None:
    """Charges what a lease is expected to take."""
    step = attempt.step
    done = step.done_timed
    lasts_us = (step.busy_us // done if done else GUESS_US) * len(attempt.units)
    attempt.rate = rate = attempt.share_ppm * attempt.node.facts.total.cores
    attempt.charged = amount = rate * lasts_us // 1_000_000_000
    weighed = amount * (
        farm.share_weight if farm.share_from_us <= at_us < farm.share_until_us else weight_now(farm, at_us)
    )
    job = step.job
    # Written out for both accounts: this runs at every lease.
    account = job.project_account
    account.used += amount
    if account.credit >= weighed:
        account.credit -= weighed
    else:
        account.level += (weighed - account.credit) // account.weight
        account.credit = 0
    account = job.user_account
    account.used += amount
    if account.credit >= weighed:
        account.credit -= weighed
    else:
        account.level += (weighed - account.credit) // account.weight
        account.credit = 0


def settle_lease(farm: Farm, attempt: Attempt, at_us: int) -> None:
    """At the end of an attempt: adds what was charged too little, or gives credit."""
    lasted_us = at_us - attempt.started_us
    difference = (attempt.rate * lasted_us // 1_000_000_000 if lasted_us > 0 else 0) - attempt.charged
    if not difference:
        return
    weighed = difference * (
        farm.share_weight if farm.share_from_us <= at_us < farm.share_until_us else weight_now(farm, at_us)
    )
    job = attempt.step.job
    account = job.project_account
    account.used += difference
    if account.credit >= weighed:
        account.credit -= weighed  # less than nothing adds to it
    else:
        account.level += (weighed - account.credit) // account.weight
        account.credit = 0
    account = job.user_account
    account.used += difference
    if account.credit >= weighed:
        account.credit -= weighed
    else:
        account.level += (weighed - account.credit) // account.weight
        account.credit = 0


def rebase(farm: Farm, at_us: int) -> None:
    """Writes levels as seen from a new origin of time, which keeps their figures short; their order stays.

    Accounts without jobs that faded go: a farm that runs for years has those of the last few months.

    Happens while a stored row is applied, so a replay does it at the same point.
    """
    weight = _weight(max(0, (at_us - farm.share_origin_us) * PARTS // farm.half_life_us))
    for account in [*farm.projects.values(), *farm.users.values()]:
        account.level = account.level * UNIT // weight
        account.credit = account.credit * UNIT // weight
    farm.projects = {key: one for key, one in farm.projects.items() if not _may_go(one, UNIT)}
    farm.users = {key: one for key, one in farm.users.items() if not _may_go(one, UNIT)}
    farm.share_origin_us = at_us
    farm.share_until_us = 0
    # Levels became smaller, which the heaps do not expect.
    requeue_all(farm)


def requeue_all(farm: Farm) -> None:
    """Makes every queue anew."""
    for shape in farm.shapes.values():
        shape.queue = Queue()
        shape.lined = None
    farm.busy.clear()
    farm.fresh.clear()
    farm.unable.clear()
    farm.misfits.clear()
    farm.lineup.clear()
    for holder in farm.holders.values():
        holder.kept.clear()
    for job in farm.jobs.values():
        job.capped.clear()
    for step in farm.steps.values():
        step.line = None
        if step.leasable() and step.shape is not None:
            step.shape.push(farm, step)


# ---------------------------------------------------------------- what attempts hold


def take_limits(farm: Farm, attempt: Attempt) -> None:
    """Counts what an attempt holds of limits."""
    for name, count in attempt.limits:
        _take(limit_named(farm, name), attempt.node.id, count)


def release(farm: Farm, attempt: Attempt) -> None:
    """Gives back what an attempt held of limits; what may have its cores now queues again."""
    job = attempt.step.job
    for name, count in attempt.limits:
        _give(limit_named(farm, name), attempt.node.id, count)
    if job.capped:
        wake(farm, job.capped)
    if job.holder.kept:
        wake_lines(farm, job.holder)


def wake(farm: Farm, waiting: dict[int, Step]) -> None:
    """Queues steps that their job's cap kept back."""
    steps = list(waiting.values())
    waiting.clear()
    for step in steps:
        if step.leasable() and step.shape is not None:
            step.shape.push(farm, step)


def wake_lines(farm: Farm, holder: Holder, *, every: bool = False) -> None:
    """Queues lines that a user's cap kept back, unless it would keep them back again."""
    room = cap_of_user(farm.policy, holder.user) - holder.cores
    for line, shape in list(holder.kept.items()):
        if every or not holder.cores or max(1, shape.requires.cores) <= room:
            del holder.kept[line]
            shape.free(farm, line)


def wake_all(farm: Farm) -> None:
    """Queues everything that any cap kept back (a cap was changed)."""
    for holder in farm.holders.values():
        if holder.kept:
            wake_lines(farm, holder, every=True)
    for job in farm.jobs.values():
        if job.capped:
            wake(farm, job.capped)


def cap_of_user(policy: Policy, user: str) -> int:
    """Most cores of a user, 0 = no cap."""
    caps = policy.user_max_cores
    return caps.get(user, caps.get("*", 0)) if caps else 0


def kept_back(farm: Farm, step: Step) -> str:
    """Which cap keeps a step from another lease now, in words; "" when none does."""
    job, cores = step.job, max(1, step.resources.cores)
    most = job.max_cores
    if most and job.cores and job.cores + cores > most:
        return f"J{job.id} holds {job.cores} cores and may hold {most}"
    most = cap_of_user(farm.policy, job.user)
    if most:
        held = job.holder.cores
        if held and held + cores > most:
            return f"{job.user or 'nobody'} holds {held} cores and may hold {most}"
    return ""


def cap_name(farm: Farm, step: Step) -> str:
    """Which cap keeps a step back: ``job 12`` or ``user ann``."""
    return f"job {step.job.id}" if over_job_cap(step) else f"user {step.job.user}"


def keep_back(farm: Farm, step: Step) -> None:
    """Takes a step out of its queue until an attempt of its job ends, or its line until one of its user does.

    Only what the cap refuses now may be kept back: nothing else wakes it.
    """
    job, line, shape = step.job, step.line, step.shape
    if over_job_cap(step):
        step.line = None
        job.capped[step.id] = step
    elif line is not None and shape is not None:
        shape.queue.hold(line)
        job.holder.kept[line] = shape


def over_job_cap(step: Step) -> bool:
    """Whether its job may not hold what another lease of the step would take."""
    job = step.job
    return bool(job.max_cores and job.cores and job.cores + max(1, step.resources.cores) > job.max_cores)


# ---------------------------------------------------------------- limits


def limit_named(farm: Farm, name: str) -> Limit:
    """The limit, made (without a total) when nobody named it yet."""
    limit = farm.limits.get(name)
    if limit is None:
        limit = farm.limits[name] = Limit(name)
        rule = farm.policy.limits.get(name)
        if rule is not None:
            limit.total, limit.per_node = rule.total, rule.per == "node"
    return limit


def _take(limit: Limit, node_id: int, count: int) -> None:
    if not limit.per_node:
        limit.used += count
        return
    held = limit.nodes.get(node_id, 0)
    if not held:
        limit.used += count
    limit.nodes[node_id] = held + 1


def _give(limit: Limit, node_id: int, count: int) -> None:
    if not limit.per_node:
        limit.used -= count
        return
    held = limit.nodes.get(node_id, 0) - 1
    if held > 0:
        limit.nodes[node_id] = held
    else:
        limit.nodes.pop(node_id, None)
        limit.used -= count


def limit_short(farm: Farm, limits: tuple[tuple[str, int], ...], node_id: int = 0) -> str:
    """Which limit has too few tokens left, in words; "" when all have enough.

    Args:
        farm: The state.
        limits: Names and counts asked for.
        node_id: A node that may hold tokens that count once a node; 0 = any node.
    """
    for name, count in limits:
        limit = limit_named(farm, name)
        if limit.total is None:
            return f"the farm has no limit {name!r}"
        if limit.used + count > limit.total:
            if limit.per_node and ((node_id and node_id in limit.nodes) or (not node_id and limit.nodes)):
                continue
            return f"limit {name}: {limit.used} of {limit.total} in use, {count} needed"
    return ""


# ---------------------------------------------------------------- policy


def apply_policy(farm: Farm, row: PolicyRow) -> None:
    """The policy from now on; levels keep their order, weights count from now."""
    policy = _POLICY.decode(row.policy)
    half_life_us = int(policy.half_life_h * 3_600_000_000)
    if half_life_us != farm.half_life_us:
        rebase(farm, row.at_us)
        farm.half_life_us = half_life_us
        farm.share_until_us = 0
    farm.policy = policy
    set_figures(farm)
    for bucket in [*farm.buckets.values(), *farm.empty_buckets.values()]:
        bucket.scores.clear()
    wake_all(farm)
    for step in farm.steps.values():
        if step.leasable() and step.shape is not None:
            step.shape.push(farm, step)


def set_figures(farm: Farm) -> None:
    """Gives accounts and limits the policy's figures."""
    policy = farm.policy
    for name, account in farm.projects.items():
        account.weight = policy.projects.get(name, 1)
    for (_, user), account in farm.users.items():
        account.weight = policy.users.get(user, 1)
    for name in policy.limits:
        limit_named(farm, name)
    for name, limit in farm.limits.items():
        rule = policy.limits.get(name)
        limit.total = rule.total if rule is not None else None
        per_node = rule is not None and rule.per == "node"
        if per_node is not limit.per_node:
            limit.per_node = per_node
            limit.used = 0
            limit.nodes.clear()
            for attempt in farm.attempts.values():
                for held, count in attempt.limits:
                    if held == name:
                        _take(limit, attempt.node.id, count)


def dump(farm: Farm) -> dict[str, Any]:
    """What a checkpoint keeps of accounts: plain values for MessagePack, big integers as text."""
    return {
        "origin_us": farm.share_origin_us,
        "half_life_us": farm.half_life_us,
        "next": farm.next_account,
        "projects": [(a.name, str(a.level), str(a.credit), a.used, a.number) for a in farm.projects.values()],
        "users": [
            (project, a.name, str(a.level), str(a.credit), a.used, a.number)
            for (project, _), a in farm.users.items()
        ],
    }


def load(farm: Farm, saved: dict[str, Any]) -> None:
    """Takes what ``dump`` kept; the policy and the jobs are there already, attempts come afterwards."""
    farm.share_origin_us = saved["origin_us"]
    farm.half_life_us = saved["half_life_us"]
    farm.share_until_us = 0
    for name, level, credit, used, number in saved["projects"]:
        account = project_account(farm, name)
        account.level, account.credit = int(level), int(credit)
        account.used, account.number = used, number
    for project, name, level, credit, used, number in saved["users"]:
        account = user_account(farm, project, name)
        account.level, account.credit = int(level), int(credit)
        account.used, account.number = used, number
    numbers = [account.number for account in (*farm.projects.values(), *farm.users.values())]
    farm.next_account = saved.get("next", max(numbers, default=0) + 1)
    # In the order in which they were made, also those of jobs that are no longer in memory.
    farm.projects = {name: farm.projects[name] for name, *_ in saved["projects"]}
    farm.users = {(project, name): farm.users[project, name] for project, name, *_ in saved["users"]}
    set_figures(farm)
    requeue_all(farm)
