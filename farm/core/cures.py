"""What people can do about a refusal: the command that would change the scheduler's mind.

What belongs here: a cure for each test that ``farm.core.explain`` repeats.  What may not: the tests
themselves.  A cure is given only where it would really help; where only time does, or nothing sensible would,
there is none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from farm.core.match import refused
from farm.core.shares import cap_of_user, limit_named
from farm.core.state import Farm, Job, Node, Step
from farm.model.versions import version_ok

#: Holders of a limit that are named.
_NAMED = 5
#: How far a node is that only lies in the wrong pool or at the wrong site: further than one half too small.
_ELSEWHERE = 2.5


class Change(NamedTuple):
    """What of a request would have to change for a node to take it.

    Attributes:
        cure: The command; "" when nothing sensible would do.
        far: How far the node is from what is asked for, to tell the nearest: the largest of wanted / there.
    """

    cure: str
    far: float


def of_capability(step: Step, node: Node) -> Change:
    """For a node that can never take the step as it is."""
    shape, facts = step.shape, node.facts
    if shape is None or not refused(shape, node):
        return Change("", 1.0)
    lacking = shape.renderer not in facts.renderers or (shape.commands and "command" not in facts.renderers)
    if shape.app and not lacking:
        lacking = not any(
            app.name == shape.app and _version_fits(app.version, shape.version) for app in facts.apps
        )
    have = facts.attributes
    if lacking or any(
        name not in have or wanted not in ("*", have[name]) for name, wanted in shape.attributes.items()
    ):
        return Change("", math.inf)
    need, total = step.resources, facts.total
    values: list[str] = []
    far = 1.0
    if step.spec.pools and node.pool not in step.spec.pools:
        if not node.pool:
            return Change("", math.inf)
        values.append(f"pools={','.join((*step.spec.pools, node.pool))}")
        far = max(far, _ELSEWHERE)
    if step.spec.site and node.site != step.spec.site:
        values.append("site=")
        far = max(far, _ELSEWHERE)
    sizes = [("cores", need.cores, total.cores), ("ram_mib", need.ram_mib, total.ram_mib)]
    sizes.append(("disk_mib", need.disk_mib, total.disk_mib))
    if need.gpus:
        sizes.append(("gpus", need.gpus, len(facts.gpus)))
        memory = sorted((gpu.vram_mib for gpu in facts.gpus), reverse=True)
        if memory:
            sizes.append(("vram_mib", need.vram_mib, memory[min(need.gpus, len(memory)) - 1]))
    sizes += [(f"tokens.{name}", count, total.tokens.get(name, 0)) for name, count in need.tokens.items()]
    for name, wanted, there in sizes:
        if wanted <= there:
            continue
        if not there:
            # Without any of it the work would not be the same.
            return Change("", math.inf)
        values.append(f"resources.{name}={there}")
        far = max(far, wanted / there)
    return Change(f"farm set {step.address} {' '.join(values)}" if values else "", far)


def _version_fits(version: str, wanted: str) -> bool:
    return not wanted or version_ok(version, wanted)


def of_site(farm: Farm, job: Job, site: str) -> str:
    """For a site the policy keeps the job's work off."""
    rule = farm.policy.sites[site]
    if rule.projects and job.project not in rule.projects and job.project:
        return f"a wrangler: farm policy set sites.{site}.projects={','.join((*rule.projects, job.project))}"
    if rule.users and job.user not in rule.users and job.user:
        return f"a wrangler: farm policy set sites.{site}.users={','.join((*rule.users, job.user))}"
    return "a wrangler: farm policy"


def of_cap(farm: Farm, step: Step) -> str:
    """For a cap that keeps a step back (``shares.kept_back``)."""
    job, cores = step.job, max(1, step.resources.cores)
    if job.max_cores and job.cores and job.cores + cores > job.max_cores:
        return f"farm set J{job.id} max_cores=N (0 = no cap)"
    user = job.user if job.user in farm.policy.user_max_cores else "*"
    if cap_of_user(farm.policy, job.user):
        whose = job.user or "theirs"
        lift = f"a wrangler: farm policy set 'user_max_cores.{user}=N'"
        return f"one of {whose}'s frames must end first; or {lift}"
    return ""


def of_left(step: Step, other: Step) -> str:
    """For tokens or cores that a step has to leave to another (``gather.left_to``)."""
    if step.job is other.job:
        return ""
    if other.job.priority < 100:
        return f"farm priority J{step.job.id} {other.job.priority + 1}"
    return f"farm pause J{other.job.id}"


def of_limit(farm: Farm, step: Step) -> str:
    """For a limit with too few tokens left: who holds them, or who must name it."""
    for name, count in step.limits:
        limit = limit_named(farm, name)
        if limit.total is None or limit.total < count:
            return f"a wrangler: farm policy set limits.{name}.total=N"
        if limit.used + count > limit.total:
            holders: dict[str, None] = {}
            for attempt in farm.attempts.values():
                if any(held == name for held, _ in attempt.limits):
                    holders[attempt.step.address] = None
            if not holders:
                return f"a wrangler: farm policy set limits.{name}.total=N"
            more = f" and {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
            return f"held by {', '.join(list(holders)[:_NAMED])}{more}"
    return ""
