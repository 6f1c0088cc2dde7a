"""Dependencies between steps, and what follows when a step or job comes to rest.

What belongs here: who may go, who must wait again, who is given up, when units end or leave their end.  What
may not: which units a user means, how results are judged, and how waiting is put in words (``causes``).

A step waits for others as a whole (every unit done or skipped) or frame by frame.  What waits is blocked; it
is queued when all it needs is there, and blocked again (running units stopped first) when a unit it was
made of leaves done.  ``settle`` is called after every move that may matter to others.
"""

from __future__ import annotations

from farm.core.apply import (
    BLOCKED,
    CANCELED,
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    SKIPPED,
    apply_spec,
    units_text,
)
from farm.core.apply_moves import apply_bulk
from farm.core.causes import ended_text, frames_text
from farm.core.looks import ask_verify, is_looked_at
from farm.core.needs import Edge
from farm.core.outcome import Outcome, StopCommand
from farm.core.rows import BulkRow, HistoryRow, SpecRow
from farm.core.scout import review
from farm.core.specs import review_holder
from farm.core.state import Farm, Job, Step
from farm.model.states import AttemptKind, UnitState

_WORDS = [state.word for state in UnitState]
_IS_BLOCKED = bytes(state == BLOCKED for state in range(256))


def move(
    farm: Farm,
    step: Step,
    units: tuple[int, ...] | None,
    old: int,
    new: int,
    reason: str,
    who: str,
    now_us: int,
    out: Outcome,
    *,
    fresh: bool = False,
) -> int:
    """Moves units that are in state ``old`` (all of them when ``units`` is None); stops running ones.

    Returns:
        How many units moved.
    """
    if (
        units is None
        and step.wanted is not None
        and new in (QUEUED, BLOCKED)
        and old not in (QUEUED, BLOCKED, RUNNING)
    ):
        # Frames that are no longer wanted do not come back with the others.
        units = step.wanted_units()
    chosen = None if units is None else tuple(unit for unit in units if step.state[unit] == old)
    count = step.counts[old] if chosen is None else len(chosen)
    if not count:
        return 0
    if old == RUNNING:
        stop_units(step, chosen, reason, out)
    text = "*" if chosen is None else units_text(chosen)
    row = BulkRow(farm.next_seq(), step.id, text, old, new, now_us, reason, who, int(fresh))
    out.rows.append(row)
    apply_bulk(farm, row)
    if old == RUNNING:
        review_holder(farm, step, out)
    if old == DONE and step.counts[DONE] == 0 and step.specs is not None:
        spec = SpecRow(farm.next_seq(), step.id, -1, b"")
        out.rows.append(spec)
        apply_spec(farm, spec)
    return count


def stop_units(step: Step, units: tuple[int, ...] | None, reason: str, out: Outcome) -> None:
    """Tells agents to stop attempts whose units are all meant, and to drop units of the others."""
    chosen = None if units is None else set(units)
    for attempt in step.attempts.values():
        if attempt.kind is AttemptKind.VERIFY:
            continue
        hit = tuple(unit for unit in attempt.open if chosen is None or unit in chosen)
        if not hit:
            continue
        part = () if len(hit) == len(attempt.open) else hit
        out.commands.append(StopCommand(attempt.node.id, attempt.id, reason, part))


def settle(farm: Farm, step: Step, now_us: int, out: Outcome) -> None:
    """Works out what a step's change means for all that wait for it, and for the jobs concerned.

    Costs what the changed units' dependants cost: a step that nothing waits for pays a look at its list of
    dependants, a chain of any length one row a step and state.
    """
    todo, jobs = {step.id: step}, {step.job.id: step.job}
    while todo:
        one = todo.pop(next(iter(todo)))
        counts = one.counts
        one.satisfied = counts[DONE] + counts[SKIPPED] + one.left_out == one.units
        if one.dependants:
            for waiter in _pass_on(farm, one, now_us, out):
                todo[waiter.id] = waiter
                jobs[waiter.job.id] = waiter.job
    for job in jobs.values():
        note_rest(farm, job, now_us, out)


def _pass_on(farm: Farm, need: Step, now_us: int, out: Outcome) -> list[Step]:
    """Moves what waits for a step that changed; returns the steps of which units moved."""
    changes = need.take_changes() if need.watched else []
    moved: dict[int, Step] = {}
    for edge in tuple(need.dependants):
        if edge.by_frame:
            changed = bool(changes) and _pass_on_frames(farm, edge, changes, now_us, out)
        else:
            changed = _pass_on_whole(farm, edge, now_us, out)
        if changed:
            moved[edge.waiter.id] = edge.waiter
    return list(moved.values())


def _pass_on_whole(farm: Farm, edge: Edge, now_us: int, out: Outcome) -> bool:
    need, waiter, met = edge.need, edge.waiter, edge.holds()
    moved = 0
    if met is not edge.met:
        edge.met = met
        waiter.unmet += -1 if met else 1
        if not met and waiter.unmet == 1:
            reason = f"waits for {need.address}, which is rendered again"
            moved += _block(farm, waiter, None, reason, now_us, out)
        elif met:
            moved += release(farm, waiter, None, f"{need.address} is finished", now_us, out)
    if edge.gives_up and waiter.counts[BLOCKED] and edge.lost():
        moved += _give_up(farm, edge, None, now_us, out)
    return bool(moved)


def _pass_on_frames(
    farm: Farm, edge: Edge, changes: list[tuple[int, int]], now_us: int, out: Outcome
) -> bool:
    need, waiter, good = edge.need, edge.waiter, edge.good
    lost: dict[int, int] = {}
    gained: dict[int, int] = {}
    failed: dict[int, int] = {}
    for unit, old in changes:
        now_good, fails = edge.good_at(unit), edge.gives_up and edge.fails_at(unit)
        if bool(good[old]) is now_good and not fails:
            continue
        here = edge.waiter_unit(unit)
        if here is not None:
            (failed if fails else gained if now_good else lost)[here] = unit
            if fails and good[old]:
                lost[here] = unit
    moved = 0
    if lost:
        reason = f"waits for {frames_text(need, lost.values())}, rendered again"
        moved += _block(farm, waiter, _downstream(waiter, tuple(lost)), reason, now_us, out)
    if failed:
        moved += _give_up(farm, edge, tuple(failed), now_us, out)
    if gained and not waiter.unmet and waiter.counts[BLOCKED]:
        moved += release(farm, waiter, tuple(gained), ended_text(need, gained.values()), now_us, out)
    return bool(moved)


def _block(
    farm: Farm, step: Step, units: tuple[int, ...] | None, reason: str, now_us: int, out: Outcome
) -> int:
    """What a step made, or is making, of input that is made anew waits for it again."""
    count = 0
    if units is not None and step.wanted is not None:
        units = tuple(unit for unit in units if step.is_wanted(unit))
    for old in (RUNNING, QUEUED, DONE, FAILED):
        # What was finished starts anew on new input; what is under way keeps its spent attempts.
        fresh = old in (DONE, FAILED)
        count += _move_these(farm, step, units, old, BLOCKED, reason, now_us, out, fresh=fresh)
    if count:
        count += _give_up_hopeless(farm, step, units, now_us, out)
    return count


def _downstream(step: Step, units: tuple[int, ...]) -> tuple[int, ...]:
    """Units that lose their input, and those of the same step that were made of them, and so on."""
    own = [edge for edge in step.frame_needs if edge.need is step]
    if not own:
        return units
    found = dict.fromkeys(units)
    todo = list(units)
    while todo:
        unit = todo.pop()
        state = step.state[unit]
        if state not in (DONE, FAILED) or not step.is_wanted(unit):
            continue  # it is not made anew, so what was made of it need not be
        for edge in own:
            later = edge.waiter_unit(unit) if edge.good[state] else None
            if later is not None and later not in found:
                found[later] = None
                todo.append(later)
    return tuple(sorted(found))


def _give_up_hopeless(
    farm: Farm, step: Step, units: tuple[int, ...] | None, now_us: int, out: Outcome
) -> int:
    """Skips or cancels blocked units that wait for what has failed, where their needs say so."""
    count = 0
    for edge in step.needs:
        if not edge.gives_up or not step.counts[BLOCKED] or not edge.lost():
            continue
        if not edge.by_frame:
            count += _give_up(farm, edge, units, now_us, out)
            continue
        chosen = range(step.units) if units is None else units
        there = ((unit, edge.need_unit(unit)) for unit in chosen if step.state[unit] == BLOCKED)
        hopeless = tuple(unit for unit, other in there if other is not None and edge.fails_at(other))
        if hopeless:
            count += _give_up(farm, edge, hopeless, now_us, out)
    return count


def _give_up(farm: Farm, edge: Edge, units: tuple[int, ...] | None, now_us: int, out: Outcome) -> int:
    """Skips or cancels blocked units of the waiter, since what they need failed."""
    step, need = edge.waiter, edge.need
    new = SKIPPED if edge.on_failure == "skip" else CANCELED
    if units is None or not edge.by_frame:
        culprits = [next(unit for unit in range(need.units) if edge.fails_at(unit))]
    else:
        units = tuple(unit for unit in units if step.state[unit] == BLOCKED)
        culprits = [unit for unit in map(edge.need_unit, units) if unit is not None]
        if new == CANCELED:
            units = _doomed(step, units)
    return _move_these(farm, step, units, BLOCKED, new, ended_text(need, culprits), now_us, out)


def _doomed(step: Step, units: tuple[int, ...]) -> tuple[int, ...]:
    """Units that are canceled, and those of the same step that are canceled with them, and so on."""
    own = [edge for edge in step.frame_needs if edge.need is step and edge.on_failure == "cancel"]
    if not own:
        return units
    found = dict.fromkeys(units)
    todo = list(units)
    while todo:
        unit = todo.pop()
        for edge in own:
            later = edge.waiter_unit(unit)
            if later is not None and later not in found and step.state[later] == BLOCKED:
                found[later] = None
                todo.append(later)
    return tuple(sorted(found))


def _move_these(
    farm: Farm,
    step: Step,
    units: tuple[int, ...] | None,
    old: int,
    new: int,
    reason: str,
    now_us: int,
    out: Outcome,
    *,
    fresh: bool = False,
) -> int:
    """As ``move`` by the farm; all units in a state are one short row, however they were found."""
    if not step.counts[old]:
        return 0
    if units is not None:
        units = tuple(unit for unit in units if step.state[unit] == old)
        if len(units) == step.counts[old] > 1:
            units = None
    return move(farm, step, units, old, new, reason, "farm", now_us, out, fresh=fresh)


# ---------------------------------------------------------------- into the queue


def release(
    farm: Farm, step: Step, units: tuple[int, ...] | None, reason: str, now_us: int, out: Outcome
) -> int:
    """Queues blocked units (all when None) that wait for nothing any more; returns how many moved.

    Existing files that shall be kept are looked at first, all of the step's at once.
    """
    if step.unmet or not step.counts[BLOCKED]:
        return 0
    if step.check_existing:
        # A move from blocked to blocked: stored, so that a restart does not ask a second time.
        looks = "existing files are looked at first"
        row = BulkRow(farm.next_seq(), step.id, "*", BLOCKED, BLOCKED, now_us, looks, "farm", 0)
        out.rows.append(row)
        apply_bulk(farm, row)
        state = step.state
        blocked = tuple(unit for unit in range(step.units) if state[unit] == BLOCKED)
        ask_verify(farm, step, blocked, "skip", step.job.user, now_us, out)
        return 0
    if step.frame_needs:
        if units is None:
            units = _ready_units(step)
        else:
            units = tuple(unit for unit in units if step.state[unit] == BLOCKED and not step.waits(unit))
        if step.spec.existing == "skip":
            units = tuple(unit for unit in units if not is_looked_at(farm, step, unit))
    return _move_these(farm, step, units, BLOCKED, QUEUED, reason, now_us, out)


def open_up(farm: Farm, step: Step, now_us: int, out: Outcome) -> None:
    """Sorts a step's blocked units when it is new: which may go, which are lost, which wait."""
    _give_up_hopeless(farm, step, None, now_us, out)
    release(farm, step, None, "what it waits for is finished", now_us, out)


def refit(farm: Farm, step: Step, came: tuple[int, ...], now_us: int, out: Outcome) -> None:
    """After frames of a step came or went: what waits for them, and those of its own that are lost.

    What waits for others stays as it is: a frame whose file was there already needs nothing.
    """
    _give_up_hopeless(farm, step, None, now_us, out)
    for edge in tuple(step.dependants):
        if not edge.by_frame:
            continue
        waiter, mask = edge.waiter, edge.mask()
        waiting = (edge.waiter_unit(unit) for unit in came)
        missing = tuple(unit for unit in waiting if unit is not None and not mask[unit])
        moved = 0
        if missing:
            reason = f"waits for frames of {step.address} that were added"
            moved = _block(farm, waiter, _downstream(waiter, missing), reason, now_us, out)
        reason = f"frames of {step.address} are not waited for any more"
        if moved + release(farm, waiter, None, reason, now_us, out) and waiter is not step:
            settle(farm, waiter, now_us, out)


def requeue(
    farm: Farm,
    step: Step,
    units: tuple[int, ...] | None,
    old: int,
    new: int,
    reason: str,
    who: str,
    now_us: int,
    out: Outcome,
    *,
    fresh: bool = False,
) -> int:
    """As ``move`` to queued; what still waits for something lands in blocked (or is given up) instead."""
    if not step.unmet and not step.frame_needs:
        return move(farm, step, units, old, new, reason, who, now_us, out, fresh=fresh)
    ready: tuple[int, ...] = ()
    waiting = units
    if not step.unmet:
        chosen = range(step.units) if units is None else units
        sought = tuple(unit for unit in chosen if step.state[unit] == old)
        ready = tuple(unit for unit in sought if not step.waits(unit))
        going = frozenset(ready)
        waiting = tuple(unit for unit in sought if unit not in going)
    count = move(farm, step, waiting, old, BLOCKED, reason, who, now_us, out, fresh=fresh)
    count += move(farm, step, ready, old, new, reason, who, now_us, out, fresh=fresh)
    _give_up_hopeless(farm, step, waiting, now_us, out)
    return count


def _ready_units(step: Step) -> tuple[int, ...]:
    """Blocked units whose needs by frame are all satisfied, found by whole maps."""
    blocked = step.state.translate(_IS_BLOCKED)
    found = int.from_bytes(blocked, "little")
    for edge in step.frame_needs:
        found &= int.from_bytes(edge.mask(), "little")
    mask = found.to_bytes(step.units, "little")
    units: list[int] = []
    at = mask.find(1)
    while at >= 0:
        units.append(at)
        at = mask.find(1, at + 1)
    return tuple(units)


# ---------------------------------------------------------------- rest


def note_rest(farm: Farm, job: Job, now_us: int, out: Outcome) -> None:
    """Records once that a job came to rest, or that it moves again."""
    if job.scouting:
        review(farm, job, now_us, out)
    rests = job.open_units == 0
    if rests == job.told_rest:
        return
    job.told_rest = rests
    if rests:
        word = job.shown().value
        counts = job.counts()
        reason = ", ".join(f"{counts[state]} {_WORDS[state]}" for state in (DONE, FAILED, SKIPPED, CANCELED))
        out.rows.append(HistoryRow(farm.next_seq(), now_us, job.id, "job", "running", word, reason, "farm"))
    else:
        out.rows.append(
            HistoryRow(farm.next_seq(), now_us, job.id, "job", "ended", "open", "has work again", "farm")
        )
