"""Which steps a node can take: capability by class, fit by what is free now, how well it fits.

What belongs here: the tests between one shape (or step, or unit) and one node, and the words for their
refusals, which explanations repeat.  What may not: choosing.  ``farm.core.place`` picks among what fits.
"""

from __future__ import annotations

from typing import NamedTuple

from farm.core.openings import ENDING, Bucket
from farm.core.state import Farm, Job, Node, Shape, Step, UnitNote
from farm.model.failures import NODE_FAILURES_PER_STEP
from farm.model.policy import Policy
from farm.model.states import NodeState
from farm.model.versions import version_ok

_MISSING = object()
#: Answers kept of which nodes have the memory a unit needs.
_ROOMY_KEPT = 16


def refusal(shape: Shape, node: Node) -> str:
    """Why a node of this class can never take the shape; "" when it can."""
    facts = node.facts
    if shape.pools and node.pool not in shape.pools:
        return f"is in pool {node.pool or '(none)'}, not {' or '.join(sorted(shape.pools))}"
    if shape.site and node.site != shape.site:
        return f"is at site {node.site}, not {shape.site}"
    if shape.renderer not in facts.renderers:
        return f"does not run the renderer {shape.renderer}"
    if shape.commands and "command" not in facts.renderers:
        return "runs no commands (the step has pre or post)"
    if shape.app:
        versions = [app.version for app in facts.apps if app.name == shape.app]
        if not versions:
            return f"has no {shape.app}"
        if shape.version and not any(version_ok(version, shape.version) for version in versions):
            return f"has {shape.app} {', '.join(versions)}, not {shape.version}"
    for name, wanted in shape.attributes.items():
        have = facts.attributes.get(name)
        if have is None or (wanted not in ("*", have)):
            return f"has {name}={have}, not {wanted}" if have is not None else f"has no attribute {name}"
    return _too_small(shape, node)


def _too_small(shape: Shape, node: Node) -> str:
    need, total = shape.requires, node.facts.total
    if need.cores > total.cores:
        return f"has {total.cores} cores, not {need.cores}"
    if need.ram_mib > total.ram_mib:
        return f"has {total.ram_mib} MiB of memory, not {need.ram_mib}"
    if need.gpus:
        able = sum(gpu.vram_mib >= need.vram_mib for gpu in node.facts.gpus)
        if able < need.gpus:
            size = f" of {need.vram_mib} MiB" if need.vram_mib else ""
            return f"has {able} GPUs{size}, not {need.gpus}"
    if need.disk_mib > total.disk_mib:
        return f"has {total.disk_mib} MiB of scratch disk, not {need.disk_mib}"
    for name, count in need.tokens.items():
        if count > total.tokens.get(name, 0):
            return f"has {total.tokens.get(name, 0)} {name}, not {count}"
    return ""


def refused(shape: Shape, node: Node) -> str:
    """As ``refusal``, worked out once per class of nodes and shape."""
    known = node.klass.refused
    told = known.get(shape.id)
    if told is None:
        told = known[shape.id] = refusal(shape, node)
    return told


def lack(shape: Shape, node: Node) -> str:
    """What a node that could take the shape has too little of now; "" when it fits."""
    need, total = shape.requires, node.facts.total
    if shape.whole and node.attempts:
        return f"is not empty ({len(node.attempts)} attempts run) and the step takes a whole node"
    if need.cores > node.cores_free:
        return f"has {node.cores_free} of {total.cores} cores free, {need.cores} needed"
    if need.ram_mib > node.ram_free:
        return f"has {node.ram_free} of {total.ram_mib} MiB of memory free, {need.ram_mib} needed"
    if need.disk_mib > node.disk_free:
        return f"has {node.disk_free} of {total.disk_mib} MiB of scratch disk free, {need.disk_mib} needed"
    for name, count in need.tokens.items():
        if count > node.tokens_free.get(name, 0):
            free = node.tokens_free.get(name, 0)
            return f"has {free} of {total.tokens.get(name, 0)} {name} free, {count} needed"
    if need.gpus and len(pick_gpus(shape, node)) < need.gpus:
        return f"has {len(node.gpus_free)} of {len(node.facts.gpus)} GPUs free, {need.gpus} needed"
    return ""


def pick_gpus(shape: Shape, node: Node, over_mib: int = 0) -> tuple[int, ...]:
    """The GPUs the shape would get: the smallest with enough memory, lower indices first; fewer = too few."""
    need = shape.requires
    if not need.gpus:
        return ()
    memory = {gpu.index: gpu.vram_mib for gpu in node.facts.gpus}
    least_mib = max(need.vram_mib, over_mib + 1) if over_mib else need.vram_mib
    able = [index for index in node.gpus_free if memory.get(index, 0) >= least_mib]
    if len(able) > need.gpus:
        able.sort(key=lambda index: (memory[index], index))
    return tuple(sorted(able[: need.gpus]))


def score(farm: Farm, shape: Shape, bucket: Bucket) -> tuple[int, ...] | None:
    """How well the shape fits the nodes of a bucket, smaller is better; None = it does not fit.

    Best fit: work goes where the least is left over, so that large slots stay whole; work that needs no GPU
    goes to nodes without free ones while there are any.  A site the policy wants filled first comes before.
    """
    known = bucket.scores.get(shape.id, _MISSING)
    if known is not _MISSING:
        return known  # type: ignore[return-value]
    node = next(iter(bucket.nodes.values()))
    found: tuple[int, ...] | None = None
    if not refused(shape, node) and not lack(shape, node):
        need = shape.requires
        rule = farm.policy.sites.get(node.site)
        cores = node.cores_free - (node.facts.total.cores if shape.whole else need.cores)
        found = (
            rule.order if rule is not None else 0,
            len(node.gpus_free) - need.gpus,
            cores,
            node.ram_free - need.ram_mib,
        )
    bucket.scores[shape.id] = found
    return found


def site_closed(farm: Farm, job: Job, site: str) -> str:
    """Why the policy keeps a job's work off a site; "" when it does not."""
    rule = farm.policy.sites.get(site)
    if rule is None:
        return ""
    if rule.projects and job.project not in rule.projects:
        return f"site {site} is for the projects {', '.join(rule.projects)}"
    if rule.users and job.user not in rule.users:
        return f"site {site} is for the users {', '.join(rule.users)}"
    return ""


# ---------------------------------------------------------------- nodes of a step


def able_count(farm: Farm, shape: Shape) -> int:
    """How many nodes in service could ever take the shape; counted once per change of nodes."""
    version, count = shape.able
    if version == farm.live_version:
        return count
    count = 0
    for klass in farm.classes.values():
        if klass.live and not refused(shape, next(iter(klass.live.values()))):
            count += len(klass.live)
    shape.able = (farm.live_version, count)
    return count


def _able(farm: Farm, shape: Shape, node_id: int) -> bool:
    node = farm.nodes.get(node_id)
    return node is not None and node.live and not refused(shape, node)


def able_nodes(farm: Farm, step: Step) -> list[Node]:
    """Nodes in service that could ever take the step, by id."""
    shape = step.shape
    if shape is None:
        return []
    found = [
        node
        for klass in farm.classes.values()
        if klass.live and not refused(shape, next(iter(klass.live.values())))
        for node in klass.live.values()
        if not (farm.policy.sites and site_closed(farm, step.job, node.site))
    ]
    found.sort(key=lambda node: node.id)
    return found


def why_nobody(farm: Farm, step: Step, most: int = 3) -> str:
    """Why no node in service could ever take the step; "" when one could."""
    told: list[str] = []
    shape = step.shape
    if shape is None or able_count(farm, shape):
        return ""
    for node in farm.nodes.values():
        if node.forgotten:
            continue
        if len(told) == most:
            break
        told.append(f"{node.name} {out_of_service(node) or refused(shape, node)}")
    return "no node can take it: " + "; ".join(told or ["the farm has none"])


def out_of_service(node: Node) -> str:
    """Why a node is not in service, in words; "" when it is."""
    if not node.enabled:
        return f"is drained ({node.reason})" if node.reason else "is drained"
    if node.state not in (NodeState.ONLINE, NodeState.SUSPECT):
        return f"is {node.state.value}"
    return ENDING if node.ending else ""


def preferred_nodes(farm: Farm, step: Step) -> list[Node]:
    """Able nodes that did not fail too often for the step; all able ones when each of them did."""
    able = able_nodes(farm, step)
    failures = step.node_failures
    if not failures:
        return able
    good = [node for node in able if failures.get(node.id, 0) < NODE_FAILURES_PER_STEP]
    return good or able


def excluded(farm: Farm, step: Step, node: Node) -> bool:
    """Whether the node failed too often for the step while another able node has not."""
    failures, shape = step.node_failures, step.shape
    if failures.get(node.id, 0) < NODE_FAILURES_PER_STEP:
        return False
    if shape is not None and not farm.policy.sites:
        # Counted, since a look at every node of a large farm would cost more than the lease.
        bad = sum(
            times >= NODE_FAILURES_PER_STEP and _able(farm, shape, number)
            for number, times in failures.items()
        )
        return able_count(farm, shape) > bad or not _able(farm, shape, node.id)
    return all(other is not node for other in preferred_nodes(farm, step))


def avoided(farm: Farm, step: Step, unit: int, node: Node) -> bool:
    """Whether the unit must not go to this node now: it failed here, or ran out of memory, and another
    node that would do is in service.

    A node the step no longer uses is none: the unit would wait for it for ever.
    """
    note = step.notes.get(unit)
    if note is None:
        return False
    if not (note.short_on or note.ram_mib):
        # The usual case: no memory in question, so only a node it failed on can be one to avoid.
        if node.id not in note.failed_on:
            return False
        if not step.node_failures and step.shape is not None and not farm.policy.sites:
            failed = sum(_able(farm, step.shape, number) for number in note.failed_on)
            return able_count(farm, step.shape) > failed
    good = _roomy_nodes(farm, step, note).nodes
    if node.id not in good:
        return True
    return node.id in note.failed_on and any(number not in note.failed_on for number in good)


def nodes_for(farm: Farm, step: Step, unit: int) -> list[Node]:
    """The nodes in service a unit may go to (those of which ``avoided`` is false), by id."""
    note = step.notes.get(unit)
    if note is None:
        return preferred_nodes(farm, step)
    good = list(_roomy_nodes(farm, step, note).nodes.values())
    return [node for node in good if node.id not in note.failed_on] or good


class Roomy(NamedTuple):
    """Nodes in service with the memory a unit needs.

    Attributes:
        policy: The policy under which they were found.
        nodes: By id, in that order.
        most_mib: Memory of the largest one.
    """

    policy: Policy
    nodes: dict[int, Node]
    most_mib: int


def _roomy_nodes(farm: Farm, step: Step, note: UnitNote) -> Roomy:
    """The preferred nodes with the memory the unit needs by now; the largest ones when none has it.

    Found once for units alike: every free node asks, and each answer looks at all nodes.
    """
    key = (
        farm.live_version,
        step.shape.id if step.shape is not None else -1,
        step.job.project,
        step.job.user,
        note.ram_mib,
        note.vram_mib,
        *sorted(step.node_failures.items()),
    )
    found = farm.roomy.get(key)
    if found is None or found.policy is not farm.policy:
        if len(farm.roomy) >= _ROOMY_KEPT:
            farm.roomy.clear()
        nodes = _find_roomy(farm, step, note)
        most_mib = max((node.facts.total.ram_mib for node in nodes), default=0)
        found = farm.roomy[key] = Roomy(farm.policy, {node.id: node for node in nodes}, most_mib)
    return found


def _find_roomy(farm: Farm, step: Step, note: UnitNote) -> list[Node]:
    nodes = preferred_nodes(farm, step)
    if note.vram_mib:
        nodes = [node for node in nodes if _has_larger_gpus(step, node, note.vram_mib)] or nodes
    if note.ram_mib:
        largest_mib = max((node.facts.total.ram_mib for node in nodes), default=0)
        need_mib = min(note.ram_mib, largest_mib)
        nodes = [node for node in nodes if node.facts.total.ram_mib >= need_mib]
    return nodes


def _has_larger_gpus(step: Step, node: Node, vram_mib: int) -> bool:
    """Whether the node has as many GPUs as the step asks for with more memory than this."""
    return sum(gpu.vram_mib > vram_mib for gpu in node.facts.gpus) >= max(1, step.resources.gpus)


def wanted_vram_over_mib(farm: Farm, step: Step, unit: int) -> int:
    """More memory than this its GPUs must have for a unit's next try; 0 = what the step asks for.

    Where no node has larger ones, any will do: what else ran beside it may have been the reason.
    """
    note = step.notes.get(unit)
    if note is None or not note.vram_mib or not step.resources.gpus:
        return 0
    # If any has larger ones, the roomy nodes are among those.
    first = next(iter(_roomy_nodes(farm, step, note).nodes.values()), None)
    return note.vram_mib if first is not None and _has_larger_gpus(step, first, note.vram_mib) else 0


def wanted_ram_mib(farm: Farm, step: Step, unit: int) -> int:
    """Memory a unit's next try takes after one ran out of it; 0 = what the step asks for.

    Never more than the largest node that would do has: the last try gets a whole machine's.
    """
    note = step.notes.get(unit)
    if note is None or not note.ram_mib:
        return 0
    most_mib = _roomy_nodes(farm, step, note).most_mib
    return max(step.resources.ram_mib, min(note.ram_mib, most_mib))
