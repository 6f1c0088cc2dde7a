"""Places work: one pass over the open nodes after each drain of the socket.

Order: priority, then age, then step order; nodes in the order they became free.  Deterministic.
"""

from __future__ import annotations

import msgspec

from farm.core.apply import BLOCKED, DONE, QUEUED, RUNNING, apply_lease, units_text
from farm.core.dependencies import settle_request
from farm.core.events import DispatchEvent
from farm.core.match import avoided, capable_shapes, excluded, fits, pick_gpus
from farm.core.outcome import LeaseCommand, Outcome
from farm.core.rows import LeaseRow
from farm.core.state import Farm, Node, Shape, Step, VerifyRequest
from farm.model.resources import Resources, dominant_share_ppm
from farm.model.states import AttemptKind, NodeState

_MASK = (1 << 64) - 1
#: Most units one lease may carry, whatever the chunk size says.
CHUNK_MOST = 10_000


class Entropy(msgspec.Struct):
    """A stream of 63-bit numbers from 64 random bits (SplitMix64, Steele et al. 2014)."""

    state: int

    def draw(self) -> int:
        """The next number."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return (mixed ^ (mixed >> 31)) >> 1


def dispatch(farm: Farm, event: DispatchEvent, out: Outcome) -> None:
    """Leases work to every open node until nothing fits any more."""
    if not farm.open_nodes:
        return
    entropy = Entropy(event.entropy)
    if farm.verify:
        _place_verify(farm, event.now_us, entropy, out)
    hopeless: set[tuple[object, ...]] = set()
    for node in list(farm.open_nodes.values()):
        while node.cores_free > 0 and node.state is NodeState.ONLINE and node.enabled:
            vector = (id(node.klass), node.cores_free, node.ram_free, _free_vram(node), not node.attempts)
            if vector in hopeless:
                break
            shapes = [shape for shape in capable_shapes(farm, node) if shape.heap and fits(shape, node)]
            found = _best(farm, node, shapes)
            if found is None:
                if not any(shape.head() for shape in shapes):
                    hopeless.add(vector)
                break
            step, units = found
            _lease(farm, node, step, units, AttemptKind.RENDER, event.now_us, entropy.draw(), out)
        if node.cores_free <= 0:
            farm.open_nodes.pop(node.id, None)


def _free_vram(node: Node) -> tuple[int, ...]:
    """Memory of the node's free GPUs: what tells nodes of a class apart besides amounts."""
    if not node.gpus_free:
        return ()
    free = set(node.gpus_free)
    return tuple(sorted(gpu.vram_mib for gpu in node.facts.gpus if gpu.index in free))


def _best(farm: Farm, node: Node, shapes: list[Shape]) -> tuple[Step, list[int]] | None:
    """The first step in order that has units for this node, with those units."""
    best = None
    for shape in shapes:
        head = shape.head()
        if head is not None and (best is None or head < best):
            best = head
    if best is None:
        return None
    step = best[4]
    if not (step.node_failures and excluded(farm, step, node)):
        units = form_chunk(farm, step, node)
        if units:
            return step, units
    # The head has nothing for this very node (it failed here): look further, in order.
    entries = sorted(entry for shape in shapes for entry in shape.heap)
    for entry in entries:
        step = entry[4]
        if step.heap_key != entry[:4] or not step.leasable() or excluded(farm, step, node):
            continue
        units = form_chunk(farm, step, node)
        if units:
            return step, units
    return None


def chunk_size(farm: Farm, step: Step) -> int:
    """Frames a lease of the step takes: as asked, or enough for the target time, fewer near the end.

    Until the first frame is done chunks are of one frame (scout).
    """
    wanted = step.spec.chunk
    if wanted != "auto":
        return min(int(wanted), CHUNK_MOST)
    if not step.done_timed:
        return 1
    mean_us = max(1, step.busy_us // step.done_timed)
    by_time = max(1, farm.settings.chunk_target_us // mean_us)
    nodes = sum(1 for node in farm.nodes.values() if node.state is NodeState.ONLINE and node.enabled)
    by_tail = max(1, -(-step.counts[QUEUED] // max(1, 2 * nodes)))
    return min(by_time, by_tail, CHUNK_MOST)


def form_chunk(farm: Farm, step: Step, node: Node) -> list[int]:
    """The next units of the step for this node, in order; empty when there is none for it."""
    wanted = chunk_size(farm, step)
    state, parked, notes = step.state, step.parked, step.notes
    units: list[int] = []
    at = first = state.find(QUEUED, step.cursor)
    if first < 0:
        return units
    step.cursor = first
    while at >= 0 and len(units) < wanted:
        if not (parked and at in parked) and not (notes and avoided(farm, step, at, node)):
            units.append(at)
        at = state.find(QUEUED, at + 1)
    return units


def _lease(
    farm: Farm,
    node: Node,
    step: Step,
    units: list[int],
    kind: AttemptKind,
    now_us: int,
    nonce: int,
    out: Outcome,
    adopt_folder: str = "",
    request: int = 0,
) -> None:
    """Opens an attempt and tells its agent."""
    shape = step.shape
    total = node.facts.total
    if kind is AttemptKind.RENDER and shape is not None:
        gpus = pick_gpus(shape, node)
        cores = total.cores if step.whole else step.resources.cores
        ram_mib = total.ram_mib if step.whole else step.resources.ram_mib
    else:
        gpus, cores, ram_mib = (), min(1, node.cores_free), 0
    asked = Resources(cores=cores, ram_mib=ram_mib, gpus=len(gpus))
    number = farm.next_attempt
    row = LeaseRow(
        number,
        farm.next_seq(),
        step.id,
        step.attempt_no + 1,
        node.id,
        nonce,
        kind.value,
        units_text(units),
        cores,
        ram_mib,
        ",".join(map(str, gpus)),
        dominant_share_ppm(asked, total),
        request,
        now_us,
        QUEUED,
        RUNNING,
        f"leased to {node.name}",
    )
    out.rows.append(row)
    attempt = apply_lease(farm, row)
    folders: tuple[str, ...] = ()
    if step.notes:
        seen = {folder: None for unit in units if unit in step.notes for folder in step.notes[unit].folders}
        folders = tuple(folder for folder in seen if folder != adopt_folder)
    known = step.specs if step.specs is not None and step.spec_holder is None else None
    out.commands.append(
        LeaseCommand(
            node.id,
            number,
            step,
            attempt.no,
            nonce,
            kind.value,
            tuple(units),
            asked,
            gpus,
            known or (),
            known is None and step.asks and kind is not AttemptKind.VERIFY,
            folders,
            adopt_folder,
        )
    )
    if node.cores_free <= 0:
        farm.open_nodes.pop(node.id, None)


def lease_adoption(
    farm: Farm, node: Node, step: Step, units: list[int], folder: str, now_us: int, nonce: int, out: Outcome
) -> None:
    """Leases units to the agent that still has their verified files in a lost attempt's folder."""
    _lease(farm, node, step, units, AttemptKind.ADOPT, now_us, nonce, out, adopt_folder=folder)


def _place_verify(farm: Farm, now_us: int, entropy: Entropy, out: Outcome) -> None:
    """Leases requests to verify existing files to nodes that see the same paths."""
    for request in list(farm.verify.values()):
        step = farm.steps[request.step_id]
        if request.leased or (request.purpose == "skip" and step.job.paused):
            continue
        units = [unit for unit in request.units if _worth_looking(step, unit, request)]
        if not units:
            settle_request(farm, request, (), now_us, out)
            continue
        node = _verifier(farm, request)
        if node is not None:
            kind, nonce = AttemptKind.VERIFY, entropy.draw()
            _lease(farm, node, step, units, kind, now_us, nonce, out, request=request.id)


def _worth_looking(step: Step, unit: int, request: VerifyRequest) -> bool:
    """Whether the answer would still change anything."""
    if request.purpose == "skip":
        return step.state[unit] == BLOCKED and not step.unmet
    return step.state[unit] != DONE


def _verifier(farm: Farm, request: VerifyRequest) -> Node | None:
    step = farm.steps[request.step_id]
    for node in farm.open_nodes.values():
        if step.shape in capable_shapes(farm, node):
            return node
    return None
