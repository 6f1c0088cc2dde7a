"""Places work: one pass over what waits, in order, after each drain of the socket.

The first entry of the whole order goes to the node it fits best; what fits no free node is passed over, which
is noted, so that ``farm.core.reserve`` can keep a node for it.  What waits is looked at by shape, one entry
each: shapes that fit no free node only once there is one that they could fit, those that no node in service
can take only once the nodes change, those that a limit keeps back each time.  Deterministic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import shake_128
from heapq import heappop, heappush, heapreplace

import msgspec

from farm.core import tail
from farm.core.apply import BLOCKED, DONE, QUEUED, RUNNING, begin, units_text
from farm.core.chunks import form_chunk, scouts_out
from farm.core.events import DispatchEvent
from farm.core.gather import Gatherers, lacks_cores, lacks_tokens, waits_for_cap, waits_for_tokens
from farm.core.looks import settle_request
from farm.core.match import (
    able_count,
    excluded,
    pick_gpus,
    refused,
    score,
    site_closed,
    wanted_ram_mib,
    wanted_vram_over_mib,
)
from farm.core.openings import Bucket
from farm.core.order import STEP, Line
from farm.core.outcome import LeaseCommand, Outcome
from farm.core.pace import chunk_us, silent_us
from farm.core.reserve import is_kept_off, note_leased, note_misfits, note_passed, room_before
from farm.core.rows import LeaseRow
from farm.core.shares import keep_back, kept_back, limit_short, over_job_cap
from farm.core.state import Entry, Farm, Node, Shape, Step, VerifyRequest
from farm.model.resources import Resources, dominant_share_ppm
from farm.model.states import AttemptKind

_MASK = (1 << 64) - 1
_UNKNOWN: tuple[int, ...] = (-1,)
_RENDER, _VERIFY, _COPY = AttemptKind.RENDER, AttemptKind.VERIFY, AttemptKind.COPY
_NUMBER = {kind: kind.value for kind in AttemptKind}
#: Numbers drawn at once.
_NUMBERS = struct.Struct("<32Q")


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
    """Leases work until nothing that waits fits a node any more."""
    if not farm.buckets:
        return
    entropy = Entropy(event.entropy)
    if farm.verify:
        _place_verify(farm, event.now_us, entropy, out)
    now_us, kept = event.now_us, len(farm.reservations)
    later = _place_work(farm, now_us, entropy.draw, out, spread=True)
    if later:
        for step in later:
            if step.leasable() and step.shape is not None:
                step.shape.push(farm, step)
        if farm.buckets:
            _place_work(farm, now_us, entropy.draw, out, spread=False)
    if len(farm.reservations) < kept and farm.buckets:
        # A node that was kept for work that went elsewhere is free for what was refused it.
        _place_work(farm, now_us, entropy.draw, out, spread=False)
    if farm.buckets and now_us >= farm.tail_due_us:
        tail.help(farm, now_us, entropy, lease_copy, out)


def _place_work(
    farm: Farm, now_us: int, draw: Callable[[], int], out: Outcome, *, spread: bool
) -> list[Step]:
    """Leases what waits, in order.

    With ``spread`` a step of which nothing is known yet, but enough frames run to learn from, lets other
    steps of its priority go first: chunks of one frame are dear, and soon it is known how large they should
    be.

    Returns:
        Steps that let others go first; they are in no queue.
    """
    later: list[Step] = []
    #: Steps that had nothing for any free node; those that were overtaken if anything is leased after them.
    aside: list[Step] = []
    passed: list[Step] = []
    #: The last that was leased while other shapes fitted no free node.
    last: Entry | None = None
    #: Entries of shapes that cannot go now, put back at the end.
    back: list[tuple[Entry, Shape]] = []
    #: Those that found too little of a limit or cap; None while there are none.
    gather: Gatherers | None = None
    #: Lines that leave what is free of a cap to others, put back at the end.
    held: list[tuple[Line, Shape]] = []
    #: Whether the policy or limits could tell nodes apart that are alike.
    choosy = bool(farm.policy.sites or farm.limits)
    order = _line_up(farm)
    while order and farm.buckets:
        entry, shape = order[0]
        if entry is not shape.lined:
            heappop(order)  # a better one of it was put there meanwhile
            continue
        head = shape.queue.head()
        if head is not entry:
            shape.lined = head
            if head is None:
                farm.busy.pop(shape.id, None)
                heappop(order)
            else:
                heapreplace(order, (head, shape))
            continue
        step = entry[STEP]
        if spread:
            if later and later[0].job.priority != -entry[0]:
                break
            if type(step.spec.chunk) is not int and scouts_out(step):
                step.line = None
                later.append(step)
                continue
        if shape.limits:
            if limit_short(farm, shape.limits):
                lacks = lacks_tokens(farm, step)
                if lacks:
                    gather = gather or Gatherers()
                    gather.found_short(farm, step, lacks, passed, now_us)
                back.append(heappop(order))
                continue
            if gather is not None and waits_for_tokens(farm, step, gather.first, now_us):
                back.append(heappop(order))
                continue
        if step.job.max_cores or farm.policy.user_max_cores:
            if kept_back(farm, step):
                lacks = lacks_cores(farm, step)
                if lacks:
                    gather = gather or Gatherers()
                    if gather.found_short(farm, step, lacks, passed, now_us):
                        # It comes before others of the cap in every turn, not only when cores come free.
                        _set_aside(step, aside, held, alone=over_job_cap(step))
                        continue
                keep_back(farm, step)
                continue
            if gather is not None and (name := waits_for_cap(farm, step, gather.first, now_us)):
                _set_aside(step, aside, held, alone=name.startswith("job "))
                continue
        if len(farm.buckets) == 1 and not (step.node_failures or farm.reservations or choosy):
            # As a rule all free nodes are alike and nothing tells them apart: the first one it is.
            (bucket,) = farm.buckets.values()
            fit = bucket.scores.get(shape.id, _UNKNOWN)
            if fit is _UNKNOWN:
                fit = score(farm, shape, bucket)
            if fit is None:
                _pass_over(farm, order, passed)
                continue
            node = next(iter(bucket.nodes.values()))
            units = form_chunk(farm, step, node)
            if not units and len(bucket.nodes) > 1:
                node, units = _find(farm, step, [bucket], now_us)
        else:
            buckets = _fitting(farm, shape)
            if not buckets:
                _pass_over(farm, order, passed)
                continue
            node, units = _find(farm, step, buckets, now_us)
        if not units:
            step.line = None
            aside.append(step)
            if (step.notes or step.node_failures or choosy) and is_kept_off(farm, step):
                passed.append(step)
            continue
        if passed:
            note_passed(farm, passed, now_us)
        if farm.misfits:
            last = entry
        if gather is not None:
            gather.note_lease(farm, step, now_us)
        _lease(farm, node, step, units, _RENDER, now_us, draw(), out)
    if last is not None:
        note_misfits(farm, last, now_us)
    for waiting in back:
        heappush(order, waiting)
    for step in aside:
        if step.leasable() and step.shape is not None:
            step.shape.push(farm, step)
    for line, shape in held:
        shape.free(farm, line)
    return later


def _set_aside(step: Step, aside: list[Step], held: list[tuple[Line, Shape]], *, alone: bool) -> None:
    """Takes a step, or all of its user's line in its shape, out until the end of the pass."""
    line, shape = step.line, step.shape
    if alone or line is None or shape is None:
        step.line = None
        aside.append(step)
    else:
        shape.queue.hold(line)
        held.append((line, shape))


def _line_up(farm: Farm) -> list[tuple[Entry, Shape]]:
    """The heap of what comes next, one entry a shape; only what changed is looked at."""
    if farm.unable and farm.unable_version != farm.live_version:
        farm.fresh.update(farm.unable)
        farm.unable.clear()
    order = farm.lineup
    if farm.misfits:
        _try_misfits(farm)
    if farm.fresh:
        for shape in farm.fresh.values():
            head = shape.queue.head()
            if head is None:
                farm.busy.pop(shape.id, None)
                shape.lined = None
            elif shape.id not in farm.unable and (shape.lined is None or head < shape.lined):
                farm.misfits.pop(shape.id, None)
                shape.lined = head
                heappush(order, (head, shape))
        farm.fresh.clear()
    return order


def _try_misfits(farm: Farm) -> None:
    """Lines up again what fitted no free node and fits one by now.

    Each bucket remembers how many had been found when it was last looked at: a node that ends and begins the
    same work over and over costs nothing here, however much waits that does not fit it.
    """
    found = farm.misfits_found
    for bucket in farm.buckets.values():
        if bucket.misfits == found:
            continue
        fits = []
        for shape in reversed(farm.misfits.values()):
            if shape.misfit <= bucket.misfits:
                break
            if score(farm, shape, bucket) is not None:
                fits.append(shape)
        bucket.misfits = found
        for shape in fits:
            del farm.misfits[shape.id]
            farm.fresh[shape.id] = shape


def _pass_over(farm: Farm, order: list[tuple[Entry, Shape]], passed: list[Step]) -> None:
    """Takes the first entry out: its shape fits no free node, or no node at all."""
    entry, shape = heappop(order)
    shape.lined = None
    if able_count(farm, shape):
        passed.append(entry[STEP])
        farm.misfits_found += 1
        shape.misfit = farm.misfits_found
        farm.misfits[shape.id] = shape
    else:
        # Not looked at again before a node comes, goes or changes.
        farm.unable[shape.id] = shape
        farm.unable_version = farm.live_version


def _fitting(farm: Farm, shape: Shape) -> list[Bucket]:
    """Nodes, bucket by bucket, that have room for the shape; the best fit first."""
    found: list[tuple[tuple[int, ...], Bucket]] = []
    for bucket in farm.buckets.values():
        fit = bucket.scores.get(shape.id, _UNKNOWN)
        if fit is _UNKNOWN:
            fit = score(farm, shape, bucket)
        if fit is not None:
            found.append((fit, bucket))
    if len(found) > 1:
        # Buckets as good as each other: in the order they came, which the sort keeps.
        found.sort(key=_first)
    return [bucket for _, bucket in found]


def _first(pair: tuple[tuple[int, ...], Bucket]) -> tuple[int, ...]:
    return pair[0]


def _find(farm: Farm, step: Step, buckets: list[Bucket], now_us: int) -> tuple[Node, tuple[int, ...]]:
    """The best node for the step's next units, with those units; none = none for any node."""
    sites, failures, limits = farm.policy.sites, step.node_failures, step.limits
    for bucket in buckets:
        for node in bucket.nodes.values():
            if failures and excluded(farm, step, node):
                continue
            if sites and site_closed(farm, step.job, node.site):
                break  # nodes of a bucket are at one site
            if limits and limit_short(farm, limits, node.id):
                continue
            most_us = 0
            if node.reserved is not None:
                most_us = room_before(farm, node, step, now_us)
                if most_us < 0:
                    continue
            units = form_chunk(farm, step, node)
            if most_us and units:
                units = _in_time(farm, step, node, units, most_us)
            if units:
                return node, units
    return node, ()


def _in_time(farm: Farm, step: Step, node: Node, units: tuple[int, ...], most_us: int) -> tuple[int, ...]:
    """As many of the units as end within the time; none when not even one does."""
    while units and chunk_us(farm, step, len(units), node) > most_us:
        units = units[: len(units) // 2]
    return units


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
    reason: str = "",
) -> None:
    """Opens an attempt and tells its agent."""
    shape = step.shape
    gpus: tuple[int, ...] = ()
    if (kind is _RENDER or kind is _COPY) and shape is not None:
        if step.resources.gpus:
            over_mib = wanted_vram_over_mib(farm, step, units[0]) if step.notes else 0
            gpus = pick_gpus(shape, node, over_mib)
            if len(gpus) < step.resources.gpus:
                # Larger ones would be better; fewer than asked for are never leased.
                gpus = pick_gpus(shape, node)
        # A shape that fits takes the same of every node of a class.
        ask = node.klass.asks.get(shape.id)
        if ask is None:
            ask = node.klass.asks[shape.id] = _ask(step, node)
        asked, share_ppm = ask
        if step.notes and not step.whole:
            ram_mib = wanted_ram_mib(farm, step, units[0])
            if ram_mib > asked.ram_mib:
                asked = msgspec.structs.replace(asked, ram_mib=ram_mib)
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
        QUEUED if kind is not _COPY else RUNNING,
        RUNNING,
        reason or f"leased to {node.name}",
    )
    out.rows.append(row)
    begin(farm, row, step, node, units)
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
            (known is None and step.asks and kind is not _VERIFY) or kind is _COPY,
            folders,
            adopt_folder,
            silent_us(step, node) if step.spec.failure.silent_x and kind is not _VERIFY else 0,
        )
    )
    if farm.reservations or farm.passed or farm.outbid:
        note_leased(farm, step, node)


def _ask(step: Step, node: Node) -> tuple[Resources, int]:
    """What a lease of the step takes of the node, and its dominant share."""
    total, need = node.facts.total, step.resources
    held = total if step.whole else need
    asked = Resources(
        cores=held.cores, ram_mib=held.ram_mib, gpus=need.gpus, disk_mib=need.disk_mib, tokens=need.tokens
    )
    return asked, dominant_share_ppm(asked, total)


def lease_adoption(
    farm: Farm, node: Node, step: Step, units: list[int], folder: str, now_us: int, nonce: int, out: Outcome
) -> None:
    """Leases units to the agent that still has their verified files in a lost attempt's folder."""
    _lease(farm, node, step, tuple(units), AttemptKind.ADOPT, now_us, nonce, out, adopt_folder=folder)


def lease_copy(
    farm: Farm, node: Node, step: Step, unit: int, reason: str, now_us: int, nonce: int, out: Outcome
) -> None:
    """Leases a second copy of a unit that runs."""
    _lease(farm, node, step, (unit,), _COPY, now_us, nonce, out, reason=reason)


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
    shape = farm.steps[request.step_id].shape
    for bucket in farm.buckets.values():
        for node in bucket.nodes.values():
            if shape is not None and not refused(shape, node) and node.reserved is None:
                return node
    return None
