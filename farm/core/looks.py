"""Looks at files that exist already: asked for, gone on with, settled, void when something else is wanted.

What belongs here: the requests, and whether a unit is still to be looked at.  What may not: who looks
(``place``), what is concluded from what was found (``results``), and who waits for whom (``dependencies``).
"""

from __future__ import annotations

from bisect import bisect_left

from farm.core.apply import apply_verify, units_text
from farm.core.outcome import Outcome
from farm.core.rows import VerifyRow
from farm.core.state import Farm, Step, VerifyRequest

#: Most units one request to look at existing files holds, so that several nodes share a long step.
VERIFY_MOST = 1_000


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
    farm: Farm,
    step: Step,
    units: tuple[int, ...] | None,
    olds: tuple[int, ...],
    now_us: int,
    out: Outcome,
    but: VerifyRequest | None = None,
) -> None:
    """Something else is wanted of units now: what a look at their files will find must not count.

    ``but``: a request that stays as it is.
    """
    chosen = None if units is None else set(units)
    for request in [one for one in farm.verify.values() if one.step_id == step.id and one is not but]:
        left = tuple(
            unit
            for unit in request.units
            if step.state[unit] not in olds or (chosen is not None and unit not in chosen)
        )
        if len(left) < len(request.units):
            settle_request(farm, request, left, now_us, out)


def is_looked_at(farm: Farm, step: Step, unit: int) -> bool:
    """Whether an agent is still to say whether the unit's files are there."""
    for request in farm.verify.values():
        if request.step_id != step.id or request.purpose != "skip":
            continue
        at = bisect_left(request.units, unit)
        if at == len(request.units) or request.units[at] != unit:
            continue
        looks = [attempt for attempt in step.attempts.values() if attempt.verify is request]
        if not looks or any(unit in attempt.open for attempt in looks):
            return True
    return False
