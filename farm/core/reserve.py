"""Reservations and preemption: large requests get their turn, small work fills the time until then.

What belongs here: noticing that a step was overtaken because it fits nowhere, keeping a node for it, saying
what may still start there, and (where the policy says so) stopping work of lower priority.  What may not: the
order of work.  Nothing here is stored: after a restart it is worked out again.
"""

from __future__ import annotations

from typing import TypeAlias

from farm.core.apply import QUEUED, RUNNING
from farm.core.chunks import Hunger, picky
from farm.core.dependencies import move
from farm.core.match import able_nodes, avoided, excluded, lack, nodes_for, pick_gpus, refused, site_closed
from farm.core.openings import free_vram
from farm.core.order import STEP, order_key
from farm.core.outcome import Outcome, StopCommand
from farm.core.pace import frame_us, known, left_us
from farm.core.shares import limit_named, limit_short
from farm.core.state import Attempt, Entry, Farm, Node, Outbid, Reservation, Shape, Step
from farm.model.failures import NODE_FAILURES_PER_STEP
from farm.model.states import AttemptKind

#: A step that was not overtaken for so long is no longer noted.
FORGET_US = 60_000_000
#: The same for one that lacks tokens or cores of a cap: where few are counted, attempts that take them are
#: minutes apart, and it waits all the time.
FORGET_OUTBID_US = 3_600_000_000
#: How long tokens, or cores of a cap, are left to a step the first time.
GATHER_US = 600_000_000
#: Reservations made in one look at most: each looks at many nodes.
PER_LOOK = 4
#: Able nodes that are judged for one reservation; of more, every second, third ... one, others next time.
JUDGED = 256

#: Time after which other ones of many nodes are judged.
LOOK_US = 250_000
#: Able nodes by shape and job, within one look.
_Able: TypeAlias = "dict[tuple[int, int], list[Node]]"


def note_passed(farm: Farm, steps: list[Step], now_us: int) -> None:
    """Notes that work behind these steps was leased while they fitted no free node; empties the list."""
    for step in steps:
        since = farm.passed.get(step.id)
        farm.passed[step.id] = (since[0] if since is not None else now_us, now_us)
    steps.clear()


def note_misfits(farm: Farm, leased: Entry, now_us: int) -> None:
    """Notes what fits no free node and comes before what was leased; a few times a second is enough."""
    if now_us - farm.misfits_noted_us < LOOK_US:
        return
    farm.misfits_noted_us = now_us
    passed: list[Step] = []
    for shape in list(farm.misfits.values()):
        head = shape.queue.head()
        if head is None:
            del farm.misfits[shape.id]
            farm.busy.pop(shape.id, None)
        elif head < leased:
            passed.append(head[STEP])
    note_passed(farm, passed, now_us)


def is_kept_off(farm: Farm, step: Step) -> bool:
    """Whether nodes that have room for a step may be closed to it, so that work behind it overtakes it there.

    It found nothing for any free node: all its units failed there or need more memory, the step failed there
    too often, the policy keeps it off the site, or its tokens are other nodes'.  What it may go to has no
    room, so it needs its turn too.
    """
    if step.notes and picky(farm, step) is not None:
        return True
    if any(times >= NODE_FAILURES_PER_STEP for times in step.node_failures.values()):
        return True
    if any(site_closed(farm, step.job, site) for site in farm.policy.sites):
        return True
    return any(farm.limits[name].per_node for name, _ in step.limits if name in farm.limits)


def note_leased(farm: Farm, step: Step, node: Node) -> None:
    """A step got a lease: it waits no longer, or (on the node kept for it) goes on waiting for the next."""
    kept = farm.reservations.get(step.id)
    if kept is not None:
        _drop(farm, kept)
        if kept.node_id == node.id:
            return
    farm.passed.pop(step.id, None)
    farm.outbid.pop(step.id, None)


def note_outbid(farm: Farm, step: Step, now_us: int) -> None:
    """Others took tokens (or cores of its user's cap) while a step before them found too few."""
    noted = farm.outbid.get(step.id)
    if noted is None:
        farm.outbid[step.id] = Outbid(now_us, now_us, 0, GATHER_US)
    else:
        noted.last_us = now_us


def waited_long(farm: Farm, step: Step, now_us: int) -> bool:
    """Whether that went on for so long that what comes free is to be left to it; changes nothing."""
    noted = farm.outbid.get(step.id)
    return noted is not None and now_us - noted.since_us >= farm.policy.reserve_after_s * 1e6


def is_outbid(farm: Farm, step: Step, now_us: int) -> bool:
    """Whether what comes free is left to a step now, which could start if it had enough.

    Not for ever: when that took too long (an attempt of hours holds what is missing) the others have as much
    time, and the next try may take twice as long.
    """
    if not waited_long(farm, step, now_us):
        return False
    noted = farm.outbid[step.id]
    noted.last_us = now_us
    if not noted.held_us:
        noted.held_us = now_us
    elif now_us - noted.held_us >= noted.span_us:
        noted.since_us, noted.held_us = now_us + noted.span_us, 0
        noted.span_us *= 2
        farm.passed.pop(step.id, None)
        kept = farm.reservations.get(step.id)
        if kept is not None:
            _drop(farm, kept)
        return False
    return True


def prune_outbid(farm: Farm, now_us: int) -> None:
    """Forgets steps that wait no longer, and those nobody took anything from for long."""
    for step_id, noted in list(farm.outbid.items()):
        step = farm.steps.get(step_id)
        if step is None or not step.leasable() or now_us - noted.last_us > FORGET_OUTBID_US:
            del farm.outbid[step_id]


def never_enough(farm: Farm, step: Step) -> bool:
    """Whether a step asks for more tokens than there are at all (or for ones that nobody named)."""
    return any(
        (total := limit_named(farm, name).total) is None or count > total for name, count in step.limits
    )


def room_before(farm: Farm, node: Node, step: Step, now_us: int) -> int:
    """How long work of a step may run on a reserved node: 0 = as long as it likes, -1 = not at all."""
    kept = node.reserved
    if kept is None or kept.step_id == step.id:
        return 0
    owner = farm.steps.get(kept.step_id)
    if (
        owner is None
        or step.job.priority > owner.job.priority
        or _beside(farm, node, step, owner, kept, now_us)
    ):
        return 0
    if kept.preempts or not known(step):
        return -1
    left = kept.at_us - now_us
    return left if left > 0 else -1


def _beside(farm: Farm, node: Node, step: Step, owner: Step, kept: Reservation, now_us: int) -> bool:
    """Whether both fit together, with what will still run when the node is due."""
    need, other, total = step.resources, owner.resources, node.facts.total
    if step.whole or owner.whole or (need.gpus and other.gpus) or (need.tokens and other.tokens):
        return False
    other_ram_mib = max(other.ram_mib, kept.hunger.ram_mib if kept.hunger is not None else 0)
    stay = [attempt for attempt in node.attempts.values() if now_us + left_us(attempt, now_us) > kept.at_us]
    return (
        need.cores + other.cores + sum(attempt.cores for attempt in stay) <= total.cores
        and need.ram_mib + other_ram_mib + sum(attempt.ram_mib for attempt in stay) <= total.ram_mib
        and need.disk_mib + other.disk_mib + sum(attempt.disk_mib for attempt in stay) <= total.disk_mib
    )


# ---------------------------------------------------------------- looking after them, at ticks


def review(farm: Farm, now_us: int, out: Outcome) -> None:
    """Drops reservations that lost their reason, makes those that are due, preempts where allowed."""
    for kept in list(farm.reservations.values()):
        step, node = farm.steps.get(kept.step_id), farm.nodes.get(kept.node_id)
        if (
            step is None
            or node is None
            or not node.live
            or not step.leasable()
            or step.shape is None
            or refused(step.shape, node)
            or node.closed
            or _is_closed_to(farm, step, node)
            or not _still_wanted(farm, step, kept)
            or (step.limits and never_enough(farm, step))
        ):
            _drop(farm, kept)
        elif not kept.preempts:
            kept.at_us = max(now_us, room_at(farm, node, step.shape, now_us, kept.hunger))
    if farm.policy.preempt.on:
        _note_waiting(farm, now_us)
    if farm.outbid:
        prune_outbid(farm, now_us)
    if not farm.passed:
        return
    policy, due = farm.policy, []
    for step_id, (since_us, last_us) in list(farm.passed.items()):
        step = farm.steps.get(step_id)
        if step is None or now_us - last_us > FORGET_US or not step.leasable():
            del farm.passed[step_id]
        elif step_id not in farm.reservations:
            waited_s = (now_us - since_us) / 1e6
            if waited_s >= policy.reserve_after_s:
                due.append((step, False))
            elif policy.preempt.on and waited_s >= policy.preempt.after_s:
                due.append((step, True))
    due.sort(key=lambda pair: order_key(pair[0]))
    able: _Able = {}
    for step, only_preempt in due[:PER_LOOK]:
        if policy.preempt.on and _preempt(farm, step, able, now_us, out):
            continue
        if not only_preempt and len(farm.reservations) < policy.reservations:
            _reserve(farm, step, able, now_us)


def _note_waiting(farm: Farm, now_us: int) -> None:
    """With preemption on, the first of each shape is noted too when it merely finds everything taken."""
    waiting = []
    for shape in farm.busy.values():
        head = shape.head()
        if head is None:
            continue
        if not any(bucket.scores.get(shape.id) for bucket in farm.buckets.values()) or is_kept_off(
            farm, head[STEP]
        ):
            waiting.append(head[STEP])
    note_passed(farm, waiting, now_us)


def _is_closed_to(farm: Farm, step: Step, node: Node) -> bool:
    """Whether something else than room keeps a step off a node that could take it."""
    if step.node_failures and excluded(farm, step, node):
        return True
    if farm.policy.sites and site_closed(farm, step.job, node.site):
        return True
    # Tokens that count once a node: other nodes have them, and none is left for this one.
    limits = step.limits
    return bool(limits and limit_short(farm, limits, node.id) and not limit_short(farm, limits))


def _still_wanted(farm: Farm, step: Step, kept: Reservation) -> bool:
    """Whether what the node is kept for still needs it, and may go there.

    Not a node of more memory once that is not needed, and not one that the step's units keep off by now.
    """
    need = picky(farm, step)
    if _needs_more(kept.hunger) and not _needs_more(need):
        return False
    if need is not None and avoided(farm, step, need.unit, farm.nodes[kept.node_id]):
        return False
    kept.hunger = need
    return True


def _needs_more(need: Hunger | None) -> bool:
    return need is not None and bool(need.ram_mib or need.vram_over_mib)


def _drop(farm: Farm, kept: Reservation) -> None:
    farm.reservations.pop(kept.step_id, None)
    node = farm.nodes.get(kept.node_id)
    if node is not None and node.reserved is kept:
        node.reserved = None


def _keep(farm: Farm, step: Step, node: Node, at_us: int, need: Hunger | None, *, preempts: bool) -> None:
    kept = Reservation(step.id, node.id, at_us, preempts, need)
    farm.reservations[step.id] = kept
    node.reserved = kept


def _candidates(farm: Farm, step: Step, able: _Able, now_us: int, need: Hunger | None = None) -> list[Node]:
    """Nodes that may be kept for a step: all of a small farm, some of a large one.

    What is judged is when each node's work ends, and that costs most; the best of some hundreds is as good.
    With a need only nodes that its unit may go to: kept for it, another would idle for ever.
    """
    shape = step.shape
    key = (shape.id if shape is not None else 0, step.job.id if farm.policy.sites else 0)
    nodes = able.get(key) if need is None else nodes_for(farm, step, need.unit)
    if nodes is None:
        nodes = able[key] = able_nodes(farm, step)
    nodes = [node for node in nodes if node.reserved is None and not node.closed]
    if len(nodes) > JUDGED:
        stride = -(-len(nodes) // JUDGED)
        nodes = nodes[now_us // LOOK_US % stride :: stride]
    return [node for node in nodes if not _is_closed_to(farm, step, node)]


def _reserve(farm: Farm, step: Step, able: _Able, now_us: int) -> None:
    """Keeps the node that will have room first."""
    shape = step.shape
    if shape is None:
        return
    best: tuple[int, int, Node] | None = None
    need = picky(farm, step)
    for node in _candidates(farm, step, able, now_us, need):
        at_us = room_at(farm, node, shape, now_us, need)
        if best is None or (at_us, node.id) < best[:2]:
            best = (at_us, node.id, node)
    if best is not None:
        _keep(farm, step, best[2], best[0], need, preempts=False)


def room_at(farm: Farm, node: Node, shape: Shape, now_us: int, need: Hunger | None = None) -> int:
    """When the node is expected to have room for the shape, and for what a unit needs beyond it."""
    if not (lack(shape, node) or short_of(shape, node, need)):
        return now_us
    ends = sorted((left_us(attempt, now_us), attempt.id) for attempt in node.attempts.values())
    if not ends:
        return now_us
    if shape.whole:
        return now_us + ends[-1][0]
    gone: list[Attempt] = []
    for left, number in ends:
        gone.append(node.attempts[number])
        if _fits_without(shape, node, gone, need):
            return now_us + left
    return now_us + ends[-1][0]


def short_of(shape: Shape, node: Node, need: Hunger | None) -> str:
    """What a node that has room for the shape lacks of what a unit needs beyond it; "" = nothing."""
    if need is None:
        return ""
    if need.ram_mib > node.ram_free:
        have = f"has {node.ram_free} of {node.facts.total.ram_mib} MiB of memory free"
        return f"{have}, {need.ram_mib} needed since a try ran out of less"
    if need.vram_over_mib and len(pick_gpus(shape, node, need.vram_over_mib)) < shape.requires.gpus:
        return f"has no GPU of more than {need.vram_over_mib} MiB free, which ran out of memory"
    return ""


def _fits_without(shape: Shape, node: Node, gone: list[Attempt], more: Hunger | None = None) -> bool:
    """Whether the shape, and what a unit needs beyond it, fits once these attempts have ended."""
    need = shape.requires
    if shape.whole and len(gone) < len(node.attempts):
        return False
    if need.cores > node.cores_free + sum(attempt.cores for attempt in gone):
        return False
    ram_mib = max(need.ram_mib, more.ram_mib if more is not None else 0)
    if ram_mib > node.ram_free + sum(attempt.ram_mib for attempt in gone):
        return False
    if need.disk_mib > node.disk_free + sum(attempt.disk_mib for attempt in gone):
        return False
    for name, count in need.tokens.items():
        if count > node.tokens_free.get(name, 0) + sum(attempt.tokens.get(name, 0) for attempt in gone):
            return False
    if not need.gpus:
        return True
    freed = {index for attempt in gone for index in attempt.gpus}
    memory = [gpu.vram_mib for gpu in node.facts.gpus if gpu.index in freed]
    least_mib = max(need.vram_mib, more.vram_over_mib + 1 if more is not None and more.vram_over_mib else 0)
    return sum(size >= least_mib for size in (*free_vram(node), *memory)) >= need.gpus


# ---------------------------------------------------------------- preemption


def _preempt(farm: Farm, step: Step, able: _Able, now_us: int, out: Outcome) -> bool:
    """Makes room on the node where that costs least; False when no node can be freed so."""
    rule, shape = farm.policy.preempt, step.shape
    most = step.job.priority - rule.gap
    best: tuple[int, int, Node, list[Attempt]] | None = None
    need = picky(farm, step)
    for node in _candidates(farm, step, able, now_us, need):
        victims = _victims(node, shape, most, now_us, need) if shape is not None else None
        if victims is not None:
            cost = sum((now_us - attempt.started_us) * attempt.share_ppm for attempt in victims)
            if best is None or (cost, node.id) < best[:2]:
                best = (cost, node.id, node, victims)
    if best is None:
        return False
    _, _, node, victims = best
    at_us = now_us
    reason = f"preempted by {step.address} (priority {step.job.priority})"
    for attempt in victims:
        if rule.at == "now":
            units = tuple(attempt.open)
            move(farm, attempt.step, units, RUNNING, QUEUED, reason, "farm", now_us, out)
        else:
            at_us = max(at_us, now_us + int(frame_us(attempt.step, next(iter(attempt.open), 0), node)))
            out.commands.append(StopCommand(node.id, attempt.id, reason, tuple(attempt.open), take_back=True))
    _keep(farm, step, node, at_us, need, preempts=True)
    return True


def _victims(
    node: Node, shape: Shape, most: int, now_us: int, need: Hunger | None = None
) -> list[Attempt] | None:
    """The attempts to stop so that the shape fits, least work lost first; None when that is not enough."""
    loose = [
        attempt
        for attempt in node.attempts.values()
        if attempt.kind is AttemptKind.RENDER and attempt.open and attempt.step.job.priority <= most
    ]
    loose.sort(key=lambda attempt: (now_us - attempt.started_us, attempt.id))
    chosen: list[Attempt] = []
    for attempt in loose:
        chosen.append(attempt)
        if _fits_without(shape, node, chosen, need):
            return chosen
    return None
