"""Dependencies between steps, and what follows when a step or job comes to rest.

A step is satisfied when every unit is done or skipped.  What waits for it is unblocked then, and blocked
again (running units stopped first) when a unit leaves done.
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
    apply_bulk,
    apply_spec,
    apply_verify,
    units_text,
)
from farm.core.outcome import Outcome, StopCommand
from farm.core.rows import BulkRow, HistoryRow, SpecRow, VerifyRow
from farm.core.scout import review
from farm.core.specs import review_holder
from farm.core.state import Farm, Job, Step, VerifyRequest
from farm.model.states import AttemptKind, UnitState

_WORDS = [state.word for state in UnitState]
#: Most units one request to look at existing files holds, so that several nodes share a long step.
VERIFY_MOST = 1_000


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
    if units is None and step.wanted is not None and new in (QUEUED, BLOCKED) and old not in (QUEUED, BLOCKED, RUNNING):
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
    """Works out what a step's change means for those that wait for it, and for its job."""
    counts = step.counts
    satisfied = counts[DONE] + counts[SKIPPED] + step.left_out == step.units
    if satisfied != step.satisfied:
        step.satisfied = satisfied
        for waiter in step.dependants:
            waiter.unmet += -1 if satisfied else 1
            if satisfied and waiter.unmet == 0:
                unblock(farm, waiter, f"{step.address} is finished", now_us, out)
            elif not satisfied and waiter.unmet == 1:
                _block(farm, waiter, f"waits for {step.address}, which is rendered again", now_us, out)
            settle(farm, waiter, now_us, out)
    note_rest(farm, step.job, now_us, out)


def unblock(farm: Farm, step: Step, reason: str, now_us: int, out: Outcome) -> None:
    """Its needs are met: units are queued, or checked on disk first when existing files shall be kept."""
    if step.check_existing and step.counts[BLOCKED]:
        # A move from blocked to blocked: stored, so that a restart does not ask a second time.
        looks = "existing files are looked at first"
        row = BulkRow(farm.next_seq(), step.id, "*", BLOCKED, BLOCKED, now_us, looks, "farm", 0)
        out.rows.append(row)
        apply_bulk(farm, row)
        state = step.state
        units = tuple(unit for unit in range(step.units) if state[unit] == BLOCKED)
        ask_verify(farm, step, units, "skip", step.job.user, now_us, out)
        return
    move(farm, step, None, BLOCKED, QUEUED, reason, "farm", now_us, out)


def ask_verify(
    farm: Farm, step: Step, units: tuple[int, ...], purpose: str, who: str, now_us: int, out: Outcome
) -> None:
    """Asks for existing files to be verified by agents, at most VERIFY_MOST units a request."""
    for start in range(0, len(units), VERIFY_MOST):
        seq = farm.next_seq()
        part = units_text(units[start : start + VERIFY_MOST])
        row = VerifyRow(seq, seq, step.id, part, purpose, who, now_us, 0)
        out.rows.append(row)
        apply_verify(farm, row)


def settle_request(
    farm: Farm, request: VerifyRequest, left: tuple[int, ...], now_us: int, out: Outcome
) -> None:
    """A request to look at existing files goes on with the units left, or is settled."""
    row = VerifyRow(
        request.id,
        farm.next_seq(),
        request.step_id,
        units_text(left or request.units),
        request.purpose,
        request.who,
        now_us,
        int(not left),
    )
    out.rows.append(row)
    apply_verify(farm, row)


def void_requests(
    farm: Farm, step: Step, units: tuple[int, ...] | None, olds: tuple[int, ...], now_us: int, out: Outcome
) -> None:
    """A user wants something else of units now: what a look at their files will find must not count."""
    chosen = None if units is None else set(units)
    for request in [request for request in farm.verify.values() if request.step_id == step.id]:
        left = tuple(
            unit
            for unit in request.units
            if step.state[unit] not in olds or (chosen is not None and unit not in chosen)
        )
        if len(left) < len(request.units):
            settle_request(farm, request, left, now_us, out)


def _block(farm: Farm, step: Step, reason: str, now_us: int, out: Outcome) -> None:
    for old in (RUNNING, QUEUED, DONE, FAILED):
        # What was finished starts anew on new input; what is under way keeps its spent attempts.
        move(farm, step, None, old, BLOCKED, reason, "farm", now_us, out, fresh=old in (DONE, FAILED))


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
