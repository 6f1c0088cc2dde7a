"""What can never run, said when a job is submitted or changed instead of shown as waiting for ever.

What belongs here: the farm's policy and its nodes held against what a job asks for.  What may not: whether
there is room now (``farm.core.match``): a node that is offline or drained counts, one that was forgotten
does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from farm.core.match import refusal
from farm.core.shares import cap_of_user
from farm.core.state import Farm, Job, Node, Shape, Step
from farm.model.errors import JobFileError
from farm.model.jobs import JobSpec, StepSpec
from farm.model.resources import Resources
from farm.model.states import UnitState

_HINT = "`--force` submits it all the same, to wait for a node that can"
_SET_HINT = "`--force` sets it all the same: it waits then for a node that can"


def impossible(
    farm: Farm, spec: JobSpec, apps: Sequence[str], whole: Sequence[bool], *, force: bool = False
) -> list[str]:
    """Checks that every step could run on some node of the farm.

    Args:
        farm: The state.
        spec: The job.
        apps: Per step, the application its renderer needs.
        whole: Per step, whether an attempt takes its node's whole slice.
        force: Only warn.

    Returns:
        Warnings for the submitter.

    Raises:
        JobFileError: It could not; names the step, what is in the way and the nearest node.
    """
    warnings: list[str] = []
    nodes = [node for node in farm.nodes.values() if not node.forgotten]
    if not nodes:
        warnings.append("the farm has no node yet: nothing is checked against one, and the job waits")
    for index, step in enumerate(spec.steps):
        try:
            warnings += check_policy(farm, spec.user, spec.max_cores, index, step)
            if nodes:
                _check_nodes(nodes, spec, index, apps[index], whole[index])
        except JobFileError as error:
            if not force:
                raise
            warnings.append(error.message)
    return warnings


def check_edit(farm: Farm, step: Step, spec: StepSpec, max_cores: int, *, force: bool = False) -> list[str]:
    """Checks that a step could still run on some node with its new record, as ``impossible`` does at submit.

    What no node can take already may be changed in any way: it is on its way to something better.

    Args:
        farm: The state.
        step: The step as it is.
        spec: Its new record.
        max_cores: Cap of the job from then on.
        force: Only warn.

    Returns:
        Warnings.

    Raises:
        JobFileError: It could not; names what is in the way and the nearest node.
    """
    job, index = step.job, step.index
    warnings: list[str] = []
    try:
        warnings += check_policy(farm, job.user, max_cores, index, spec, before=step.spec)
    except JobFileError as error:
        if not force:
            raise
        warnings.append(error.message)
    nodes = [node for node in farm.nodes.values() if not node.forgotten]
    steps = [*job.spec.steps]
    steps[index] = spec
    after = msgspec.structs.replace(job.spec, steps=tuple(steps))
    if not nodes or _needs(spec) == _needs(step.spec):
        return warnings
    try:
        _check_nodes(nodes, after, index, step.app, step.whole, _SET_HINT)
    except JobFileError as error:
        old = _shape(job.spec, step.spec, step.app, step.whole)
        if not force and any(not refusal(old, node) for node in nodes):
            raise
        warnings.append(error.message)
    return warnings


def _needs(spec: StepSpec) -> tuple[object, ...]:
    """What decides which nodes can take a step."""
    commands = bool(spec.pre or spec.post)
    return (spec.resources, spec.pools, spec.attributes, spec.site, spec.renderer, spec.version, commands)


def check_policy(
    farm: Farm, user: str, max_cores: int, index: int, step: StepSpec, *, before: StepSpec | None = None
) -> list[str]:
    """Checks a step against limits and caps; with ``before`` only where it asks for more than that.

    Returns:
        Warnings: limits that are closed for now.

    Raises:
        JobFileError: It asks for a limit nobody named, or for more than there can ever be.
    """
    where = f"steps[{index}]"
    warnings: list[str] = []
    known = farm.policy.limits
    for name, count in step.limits.items():
        if before is not None and before.limits.get(name, 0) >= count:
            continue
        rule = known.get(name)
        if rule is None:
            named = ", ".join(sorted(known)) or "none yet; a wrangler names them with `farm policy set`"
            raise JobFileError(
                f"the farm has no limit {name!r}", f"{where}.limits.{name}", hint=f"it has {named}"
            )
        if count > rule.total > 0:
            raise JobFileError(
                f"step {step.name!r} asks for {count} of limit {name}, which has {rule.total}",
                f"{where}.limits.{name}",
            )
        if not rule.total:
            warnings.append(
                f"{where}: limit {name} is closed (0 of it): step {step.name!r} waits until it is not"
            )
    cores = step.resources.cores
    if before is not None and before.resources.cores >= cores:
        return warnings
    cap = cap_of_user(farm.policy, user)
    if 0 < cap < cores:
        raise JobFileError(
            f"step {step.name!r} asks for {cores} cores; {user or 'nobody'} may hold {cap} at once",
            f"{where}.resources.cores",
        )
    if 0 < max_cores < cores:
        raise JobFileError(
            f"step {step.name!r} asks for {cores} cores; max_cores of the job is {max_cores}",
            f"{where}.resources.cores",
        )
    return warnings


def _check_nodes(
    nodes: list[Node], spec: JobSpec, index: int, app: str, whole: bool, hint: str = _HINT
) -> None:
    step = spec.steps[index]
    shape = _shape(spec, step, app, whole)
    if any(not refusal(shape, node) for node in nodes):
        return
    where = f"steps[{index}]"
    over = _largest(step.resources, nodes)
    if over:
        field, text = over
        raise JobFileError(
            f"step {step.name!r}: no node can take it: {text}", f"{where}.resources.{field}", hint=hint
        )
    for field, relaxed in _relaxed(step):
        easier = _shape(spec, relaxed, app, whole)
        near = next((node for node in nodes if not refusal(easier, node)), None)
        if near is not None:
            raise JobFileError(
                f"step {step.name!r}: no node can take it: "
                f"nearest is {near.name}, which {refusal(shape, near)}",
                f"{where}.{field}",
                hint=hint,
            )
    told = "; ".join(f"{node.name} {refusal(shape, node)}" for node in nodes[:3])
    more = f"; and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    raise JobFileError(f"step {step.name!r}: no node can take it: {told}{more}", where, hint=hint)


def _shape(spec: JobSpec, step: StepSpec, app: str, whole: bool) -> Shape:
    """The shape the step would have, with one unit: nothing here looks at its frames."""
    one = msgspec.structs.replace(step, frames=None, kind="single")
    job = Job(0, msgspec.structs.replace(spec, steps=(one,)), b"", 0)
    return Shape(0, (), Step(0, job, 0, app, whole, UnitState.QUEUED))


def _largest(need: Resources, nodes: list[Node]) -> tuple[str, str] | None:
    """An amount that is more than any node has: its field, and words for it."""
    words: tuple[tuple[str, str, Callable[[Node], int]], ...] = (
        ("cores", "cores", lambda node: node.facts.total.cores),
        ("ram_mib", "MiB of memory", lambda node: node.facts.total.ram_mib),
        ("gpus", "GPUs", lambda node: len(node.facts.gpus)),
    )
    for field, unit, amount in words:
        asked = getattr(need, field)
        best = max(nodes, key=amount)
        if asked > amount(best):
            return field, f"asks for {asked} {unit}, the largest node ({best.name}) has {amount(best)}"
    if need.gpus:
        memory = {node.name: max((gpu.vram_mib for gpu in node.facts.gpus), default=0) for node in nodes}
        name = max(memory, key=lambda one: memory[one])
        if need.vram_mib > memory[name]:
            return (
                "vram_mib",
                f"asks for GPUs of {need.vram_mib} MiB, the largest one ({name}) has {memory[name]}",
            )
    return None


def _relaxed(step: StepSpec) -> list[tuple[str, StepSpec]]:
    """The step without one of its filters, for each: the node that would do then is the nearest."""
    change = msgspec.structs.replace
    need = step.resources
    found: list[tuple[str, StepSpec]] = []
    for field, empty in (("version", ""), ("attributes", {}), ("pools", ()), ("site", "")):
        if getattr(step, field) != empty:
            found.append((field, change(step, **{field: empty})))
    for field, least in (
        ("vram_mib", 0),
        ("gpus", 0),
        ("disk_mib", 0),
        ("tokens", {}),
        ("cores", 1),
        ("ram_mib", 0),
    ):
        if getattr(need, field) != least:
            found.append((f"resources.{field}", change(step, resources=change(need, **{field: least}))))
    return found
