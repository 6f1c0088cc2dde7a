"""Places work: one pass over the open nodes after each drain of the socket.

Order: priority, then age, then step order; nodes in the order they became free.  Deterministic.
"""

from __future__ import annotations

import struct
from hashlib import shake_128

from farm.core.apply import BLOCKED, DONE, QUEUED, RUNNING, apply_lease, units_text
from farm.core.dependencies import settle_request
from farm.core.events import DispatchEvent
from farm.core.match import avoided, capable_shapes, excluded, fits, pick_gpus, wanted_ram_mib
from farm.core.outcome import LeaseCommand, Outcome
from farm.core.rows import LeaseRow
from farm.core.state import Entry, Farm, Node, Shape, Step, VerifyRequest
from farm.model.resources import Resources, dominant_share_ppm
from farm.model.states import AttemptKind, NodeState

_MASK = (1 << 64) - 1
_ONLINE = NodeState.ONLINE
_RENDER, _VERIFY = AttemptKind.RENDER, AttemptKind.VERIFY
_NUMBER = {kind: kind.value for kind in AttemptKind}
#: Numbers drawn at once.
_NUMBERS = struct.Struct("<32Q")
#: Most units one lease may carry, whatever the chunk size says.
CHUNK_MOST = 10_000


class Entropy:
    """A stream of 63-bit numbers from 64 random bits: SHAKE-128 of the seed, a block at a time.

    A lease's number must not tell its holder the next one's; and a block at once costs less than as many
    steps of a generator written in Python.
    """

    __slots__ = ("_block", "_left", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._block = 0
        self._left: list[int] = []

    def draw(self) -> int:
        """The next number."""
        if not self._left:
            name = struct.pack("<QQ", self._seed & _MASK, self._block)
            self._block += 1
            self._left = list(_NUMBERS.unpack(shake_128(name).digest(_NUMBERS.size)))
        return self._left.pop() >> 1


def dispatch(farm: Farm, event: DispatchEvent, out: Outcome) -> None:
    """Leases work to every open node until nothing fits any more."""
    if not farm.open_nodes:
        return
    entropy = Entropy(event.entropy)
    if farm.verify:
        _place_verify(farm, event.now_us, entropy, out)
    now_us, draw = event.now_us, entropy.draw
    hopeless: set[tuple[object, ...]] = set()
    for node in list(farm.open_nodes.values()):
        while node.cores_free > 0 and node.state is _ONLINE and node.enabled:
            # Worked out only when it can save a search: as a rule the first search finds something.
            if hopeless and _vector(node) in hopeless:
                break
            head, shapes = _head(farm, node)
            found = _best(farm, node, head, shapes) if head is not None else None
            if found is None:
                if head is None:
                    hopeless.add(_vector(node))
                break
            step, units = found
            _lease(farm, node, step, units, _RENDER, now_us, draw(), out)
        if node.cores_free <= 0:
            farm.open_nodes.pop(node.id, None)


def _vector(node: Node) -> tuple[object, ...]:
    """What decides whether anything fits a node: nodes with the same one are the same to every shape."""
    return (id(node.klass), node.cores_free, node.ram_free, _free_vram(node), not node.attempts)


def _free_vram(node: Node) -> tuple[int, ...]:
    """Memory of the node's free GPUs: what tells nodes of a class apart besides amounts."""
    if not node.gpus_free:
        return ()
    free = set(node.gpus_free)
    return tuple(sorted(gpu.vram_mib for gpu in node.facts.gpus if gpu.index in free))


def _head(farm: Farm, node: Node) -> tuple[Entry | None, list[Shape]]:
    """The first entry in order among the shapes that fit the node now, and the shapes it can ever take."""
    klass = node.klass
    shapes = klass.capable if klass.known == len(farm.shapes) else capable_shapes(farm, node)
    best: Entry | None = None
    for shape in shapes:
        if shape.heap:
            head = shape.head()
            if head is not None and (best is None or head < best) and fits(shape, node):
                best = head
    return best, shapes


def _best(farm: Farm, node: Node, head: Entry, shapes: list[Shape]) -> tuple[Step, tuple[int, ...]] | None:
    """The first step in order that has units for this node, with those units."""
    step = head[4]
    if not (step.node_failures and excluded(farm, step, node)):
        units = form_chunk(farm, step, node)
        if units:
            return step, units
    # The head has nothing for this very node (it failed here): look further, in order.
    entries = sorted(entry for shape in shapes if shape.heap and fits(shape, node) for entry in shape.heap)
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
    if type(wanted) is int:
        return wanted if wanted < CHUNK_MOST else CHUNK_MOST
    if not step.done_timed:
        return 1
    mean_us = max(1, step.busy_us // step.done_timed)
    by_time = max(1, farm.settings.chunk_target_us // mean_us)
    nodes = sum(1 for node in farm.nodes.values() if node.state is NodeState.ONLINE and node.enabled)
    by_tail = max(1, -(-step.counts[QUEUED] // max(1, 2 * nodes)))
    return min(by_time, by_tail, CHUNK_MOST)


def form_chunk(farm: Farm, step: Step, node: Node) -> tuple[int, ...]:
    """The next units of the step for this node, in order; empty when there is none for it."""
    wanted = chunk_size(farm, step)
    state, parked, notes = step.state, step.parked, step.notes
    at = first = state.find(QUEUED, step.cursor)
    if first < 0:
        return ()
    step.cursor = first
    if wanted == 1 and not parked and not notes:
        return (first,)
    units: list[int] = []
    while at >= 0:
        if not (parked and at in parked) and not (notes and avoided(farm, step, at, node)):
            ram_mib = wanted_ram_mib(farm, step, at) if notes else 0
            if ram_mib:
                # A unit that ran out of memory goes alone: only it takes more than the step asks for.
                if not units and (ram_mib <= node.ram_free or (step.whole and not node.attempts)):
                    return (at,)
                at = state.find(QUEUED, at + 1)
                continue
            units.append(at)
            if len(units) >= wanted:
                break
        at = state.find(QUEUED, at + 1)
    return tuple(units)


def _lease(
    farm: Farm,
    node: Node,
    step: Step,
    units: tuple[int, ...],
    kind: AttemptKind,
    now_us: int,
    nonce: int,
    out: Outcome,
    adopt_folder: str = "",
    request: int = 0,
) -> None:
    """Opens an attempt and tells its agent."""
    shape = step.shape
    gpus: tuple[int, ...] = ()
    if kind is _RENDER and shape is not None:
        if step.resources.gpus:
            gpus = pick_gpus(shape, node)
        # A shape that fits takes the same of every node of a class.
        ask = node.klass.asks.get(shape.id)
        if ask is None:
            ask = node.klass.asks[shape.id] = _ask(step, node, len(gpus))
        asked, share_ppm = ask
        if step.notes and not step.whole:
            ram_mib = wanted_ram_mib(farm, step, units[0])
            if ram_mib > asked.ram_mib:
                asked = Resources(cores=asked.cores, ram_mib=ram_mib, gpus=asked.gpus)
                share_ppm = dominant_share_ppm(asked, node.facts.total)
    else:
        asked = Resources(cores=min(1, node.cores_free))
        share_ppm = dominant_share_ppm(asked, node.facts.total)
    number, kind_number = farm.next_attempt, _NUMBER[kind]
    farm.seq = seq = farm.seq + 1
    row = LeaseRow(
        number,
        seq,
        step.id,
        step.attempt_no + 1,
        node.id,
        nonce,
        kind_number,
        str(units[0]) if len(units) == 1 else units_text(units),
        asked.cores,
        asked.ram_mib,
        ",".join(map(str, gpus)) if gpus else "",
        share_ppm,
        request,
        now_us,
        QUEUED,
        RUNNING,
        f"leased to {node.name}",
    )
    out.rows.append(row)
    apply_lease(farm, row, units)
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
            row.no,
            nonce,
            kind_number,
            units,
            asked,
            gpus,
            known or (),
            known is None and step.asks and kind is not _VERIFY,
            folders,
            adopt_folder,
        )
    )
    if node.cores_free <= 0:
        farm.open_nodes.pop(node.id, None)


def _ask(step: Step, node: Node, gpus: int) -> tuple[Resources, int]:
    """What a lease of the step takes of the node, and its dominant share."""
    total, need = node.facts.total, step.resources
    held = total if step.whole else need
    asked = Resources(cores=held.cores, ram_mib=held.ram_mib, gpus=gpus)
    return asked, dominant_share_ppm(asked, total)


def lease_adoption(
    farm: Farm, node: Node, step: Step, units: list[int], folder: str, now_us: int, nonce: int, out: Outcome
) -> None:
    """Leases units to the agent that still has their verified files in a lost attempt's folder."""
    _lease(farm, node, step, tuple(units), AttemptKind.ADOPT, now_us, nonce, out, adopt_folder=folder)


def _place_verify(farm: Farm, now_us: int, entropy: Entropy, out: Outcome) -> None:
    """Leases requests to verify existing files to nodes that see the same paths."""
    for request in list(farm.verify.values()):
        step = farm.steps[request.step_id]
        if request.leased:
            continue
        units = tuple(unit for unit in request.units if _worth_looking(step, unit, request))
        if not units:
            settle_request(farm, request, (), now_us, out)
            continue
        if request.purpose == "skip" and step.job.paused:
            continue
        node = _verifier(farm, request)
        if node is not None:
            nonce = entropy.draw()
            _lease(farm, node, step, units, _VERIFY, now_us, nonce, out, request=request.id)


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
