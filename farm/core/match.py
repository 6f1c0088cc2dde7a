"""Which steps a node can take: capability by class, fit by what is free now.

The next room to read is ``farm.core.place``, which picks among what fits.
"""

from __future__ import annotations

from farm.core.state import Farm, Node, NodeClass, Shape, Step, UnitNote
from farm.model.failures import NODE_FAILURES_PER_STEP
from farm.model.states import NodeState
from farm.model.versions import version_ok


def refusal(shape: Shape, node: Node) -> str:
    """Why a node of this class can never take the shape; "" when it can."""
    facts, need = node.facts, shape.requires
    if shape.pools and node.pool not in shape.pools:
        return f"is in pool {node.pool or '(none)'}, not {' or '.join(sorted(shape.pools))}"
    if shape.site and node.site != shape.site:
        return f"is at site {node.site}, not {shape.site}"
    if shape.renderer not in facts.renderers:
        return f"does not run the renderer {shape.renderer}"
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
    total = facts.total
    if need.cores > total.cores:
        return f"has {total.cores} cores, not {need.cores}"
    if need.ram_mib > total.ram_mib:
        return f"has {total.ram_mib} MiB of memory, not {need.ram_mib}"
    if need.gpus:
        able = sum(gpu.vram_mib >= need.vram_mib for gpu in facts.gpus)
        if able < need.gpus:
            return f"has {able} GPUs of {need.vram_mib} MiB, not {need.gpus}"
    return ""


def capable_shapes(farm: Farm, node: Node) -> list[Shape]:
    """Shapes the node could take when empty; worked out once per class and shape."""
    klass: NodeClass = node.klass
    if klass.known < len(farm.shapes):
        shapes = list(farm.shapes.values())
        klass.capable += [shape for shape in shapes[klass.known :] if not refusal(shape, node)]
        klass.known = len(shapes)
    return klass.capable


def fits(shape: Shape, node: Node) -> bool:
    """Whether the shape fits in what the node has free now."""
    need = shape.requires
    if shape.whole and node.attempts:
        return False
    if need.cores > node.cores_free or need.ram_mib > node.ram_free:
        return False
    return not need.gpus or len(pick_gpus(shape, node)) == need.gpus


def pick_gpus(shape: Shape, node: Node) -> tuple[int, ...]:
    """The GPUs the shape would get: lowest indices with enough memory."""
    need = shape.requires
    if not need.gpus:
        return ()
    memory = {gpu.index: gpu.vram_mib for gpu in node.facts.gpus}
    able = [index for index in node.gpus_free if memory.get(index, 0) >= need.vram_mib]
    return tuple(able[: need.gpus])


def able_nodes(farm: Farm, step: Step) -> list[Node]:
    """Nodes in service that could ever take the step."""
    shape = step.shape
    return [
        node
        for node in farm.nodes.values()
        if node.enabled
        and node.state in (NodeState.ONLINE, NodeState.SUSPECT)
        and shape in capable_shapes(farm, node)
    ]


def why_nobody(farm: Farm, step: Step, most: int = 3) -> str:
    """Why no node in service could ever take the step; "" when one could."""
    told: list[str] = []
    shape = step.shape
    if shape is None:
        return ""
    for node in farm.nodes.values():
        if node.forgotten:
            continue
        if not node.enabled:
            reason = f"is drained ({node.reason})" if node.reason else "is drained"
        elif node.state not in (NodeState.ONLINE, NodeState.SUSPECT):
            reason = f"is {node.state.value}"
        else:
            reason = refusal(shape, node)
            if not reason:
                return ""
        if len(told) < most:
            told.append(f"{node.name} {reason}")
    return "no node can take it: " + "; ".join(told or ["the farm has none"])


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
    if step.node_failures.get(node.id, 0) < NODE_FAILURES_PER_STEP:
        return False
    return all(other is not node for other in preferred_nodes(farm, step))


def avoided(farm: Farm, step: Step, unit: int, node: Node) -> bool:
    """Whether the unit must not go to this node now: it failed here, or ran out of memory, and another
    node that would do is in service.

    A node the step no longer uses is none: the unit would wait for it for ever.
    """
    note = step.notes.get(unit)
    if note is None or not (note.failed_on or note.short_on or note.ram_mib):
        return False
    good = _roomy_nodes(farm, step, note)
    if all(other is not node for other in good):
        return True
    return node.id in note.failed_on and any(other.id not in note.failed_on for other in good)


def _roomy_nodes(farm: Farm, step: Step, note: UnitNote) -> list[Node]:
    """The preferred nodes with the memory the unit needs by now; the largest ones when none has it."""
    nodes = preferred_nodes(farm, step)
    if note.short_on:
        tried_mib = max((_gpu_mib(farm.nodes[n]) for n in note.short_on if n in farm.nodes), default=0)
        nodes = [node for node in nodes if _gpu_mib(node) > tried_mib] or nodes
    if note.ram_mib:
        largest_mib = max((node.facts.total.ram_mib for node in nodes), default=0)
        need_mib = min(note.ram_mib, largest_mib)
        nodes = [node for node in nodes if node.facts.total.ram_mib >= need_mib]
    return nodes


def _gpu_mib(node: Node) -> int:
    """Memory of the node's largest GPU."""
    return max((gpu.vram_mib for gpu in node.facts.gpus), default=0)


def wanted_ram_mib(farm: Farm, step: Step, unit: int) -> int:
    """Memory a unit's next try takes after one ran out of it; 0 = what the step asks for.

    Never more than the largest node that would do has: the last try gets a whole machine's.
    """
    note = step.notes.get(unit)
    if note is None or not note.ram_mib:
        return 0
    largest_mib = max((node.facts.total.ram_mib for node in _roomy_nodes(farm, step, note)), default=0)
    return max(step.resources.ram_mib, min(note.ram_mib, largest_mib))
