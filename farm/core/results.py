"""Results: units get done, fail, come back; attempts end; publish grants.

Fencing: a report counts only if its attempt is open, the nonce is the lease's and it comes from the node
the attempt was leased to.  Anything else is acknowledged, recorded and changes nothing.
"""

from __future__ import annotations

import msgspec

from farm.core import meter
from farm.core.apply import (
    BLOCKED,
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    apply_job_state,
)
from farm.core.apply_results import apply_result
from farm.core.blame import quarantine
from farm.core.dependencies import settle, stop_units
from farm.core.drain import drain_node
from farm.core.events import ReportEvent
from farm.core.looks import settle_request, void_requests
from farm.core.match import preferred_nodes
from farm.core.outcome import DiscardCommand, Outcome, StopCommand
from farm.core.place import lease_adoption
from farm.core.rows import JobStateRow, ResultRow, StaleRow
from farm.core.specs import (
    Specs,
    known_specs,
    learn_spec,
    review_holder,
    spec_difference,
    specs_of,
    take_over,
)
from farm.core.state import Attempt, Farm, Job, Step
from farm.model import reports
from farm.model.failures import BLAMES_NODE, PAUSE_MIN, PAUSE_SHARE, RULES
from farm.model.ids import attempt_folder
from farm.model.reports import UnitReport
from farm.model.states import AttemptKind, FailureClass, NodeState

_ENCODE = msgspec.msgpack.Encoder().encode
_VERIFY = AttemptKind.VERIFY
_RENDER = AttemptKind.RENDER
_COPY = AttemptKind.COPY
_LOST, _OFFLINE = NodeState.LOST, NodeState.OFFLINE
_DONE = reports.DONE
_RENDERED, _RENDERED_NONE = "rendered and verified", "rendered; no files expected"
#: Largest figure of an agent that is believed; a wilder one would not fit the store.
_MOST = (1 << 53) - 1


def on_report(farm: Farm, event: ReportEvent, out: Outcome) -> None:
    """Takes the results of an attempt."""
    attempt, node, now_us = farm.attempts.get(event.attempt), farm.nodes.get(event.node_id), event.now_us
    if node is not None and node.state is not _LOST and node.state is not _OFFLINE:
        node.seen_us = now_us
        node.deadline_us = now_us + farm.settings.lost_us
    if attempt is None or attempt.nonce != event.nonce or attempt.node.id != event.node_id:
        _stale(farm, event, out)
        return
    step, owed, closed = attempt.step, attempt.open, event.closed
    left = len(event.units)
    #: Whether the row of a unit, the last one, closes the attempt.
    closing = False
    for report in event.units:
        left -= 1
        if report.unit not in owed:
            reason = "the unit was taken from this attempt"
            unit = _clip(report.unit)
            out.rows.append(StaleRow(farm.next_seq(), attempt.id, unit, event.node_id, now_us, reason))
            continue
        if attempt.kind is _VERIFY and report.outcome not in (reports.DONE, reports.FAILED):
            # Given back unlooked at: it stays owed, so that the request goes to another node.
            continue
        closing = closed and not left and len(owed) == 1
        _settle_unit(farm, attempt, report, now_us, closing, out)
    if closed and not closing:
        # Counted as a loss: an agent that does this again and again must not keep a frame for ever.
        failure = FailureClass.LOST.value if owed and attempt.kind is not _VERIFY else ""
        end_attempt(farm, attempt, now_us, failure, "the agent ended the attempt without a result", out)
    counts, job = step.counts, step.job
    if (
        not (counts[RUNNING] or counts[QUEUED])
        or step.satisfied
        or step.touched
        or job.told_rest
        or job.scouting
        or not job.open_units
    ):
        settle(farm, step, now_us, out)  # else it would find nothing to settle


def _clip(number: int) -> int:
    """A number of an agent's, within what the store can hold."""
    return max(-_MOST, min(_MOST, number))


def _checked(step: Step, report: UnitReport, known: Specs | None) -> UnitReport:
    """The report, figures made sane; files unlike the step's other pictures do not count as done.

    An agent compares before it publishes; but two frames may both have been granted as the first one, by
    a broker before and after a restart.  And a file that was there already may be unlike a frame that was
    allowed to be published and is not done yet: ``known`` holds that frame's pictures then.
    """
    elapsed_us, ram_mib = max(0, _clip(report.elapsed_us)), max(0, _clip(report.ram_mib))
    changes: dict[str, object] = {}
    if (elapsed_us, ram_mib) != (report.elapsed_us, report.ram_mib):
        changes = {"elapsed_us": elapsed_us, "ram_mib": ram_mib}
    if report.outcome == reports.DONE and report.files:
        difference = spec_difference(known or (), specs_of(step, report.files))
        if difference:
            changes |= {"outcome": reports.FAILED, "failure": FailureClass.OUTPUT.value}
            changes |= {"reason": difference, "files": ()}
    return msgspec.structs.replace(report, **changes) if changes else report


def _settle_unit(
    farm: Farm, attempt: Attempt, report: UnitReport, now_us: int, closing: bool, out: Outcome
) -> None:
    step, unit, kind = attempt.step, report.unit, attempt.kind
    elapsed_us, ram_mib = report.elapsed_us, report.ram_mib
    if report.files or not (0 <= elapsed_us <= _MOST and 0 <= ram_mib <= _MOST):
        report = _checked(step, report, step.specs if kind is _VERIFY else known_specs(step))
        elapsed_us, ram_mib = report.elapsed_us, report.ram_mib
    old = step.state[unit]
    copy = step.copies.get(unit) if step.copies else None
    # As a rule an attempt that is the only one of its unit got it done, and nothing else is to be thought of.
    plain = report.outcome == _DONE and copy is None and kind is not _VERIFY
    if plain:
        new, failure = DONE, ""
        if kind is _RENDER:
            reason = report.reason or (_RENDERED if report.files else _RENDERED_NONE)
        else:
            reason = report.reason or _done_reason(attempt, report)
    else:
        new, failure, reason = _judged(attempt, report, old, copy)
    charge = waste = 0
    if closing:
        if new != DONE and (kind is not _VERIFY or failure):
            attempt.wasted = True
        meter.advance(attempt.node, now_us)
        charge = attempt.charge_nano
        if attempt.wasted:
            useful_us = elapsed_us if new == DONE and (kind is _RENDER or kind is _COPY) else 0
            waste = _final_waste(attempt, useful_us)
    farm.seq = seq = farm.seq + 1
    row = ResultRow(
        seq,
        attempt.id,
        step.id,
        unit,
        old,
        new,
        failure,
        reason,
        now_us,
        elapsed_us,
        ram_mib,
        _ENCODE(report.files) if report.files else b"",
        report.warning,
        1 if closing else 0,
        0,
        charge,
        waste,
    )
    if not plain and kind is _VERIFY and old == RUNNING and new == DONE:
        stop_units(step, (unit,), "its files are there and good", out)
    out.rows.append(row)
    apply_result(farm, row)
    if farm.verify and new == DONE:
        # It is as was wanted: a look that is still owed must not count if it is to be rendered once more.
        void_requests(farm, step, (unit,), (DONE,), now_us, out, attempt.verify)
    if step.asks and new == DONE and report.outcome == _DONE:
        # Before the attempt is closed: else a frame that waits would take its place.
        learn_spec(farm, step, unit, report.files, out)
    if step.spec_holder is not None:
        review_holder(farm, step, out)
    if copy is not None and copy is not attempt and kind is not _VERIFY:
        if new == DONE:
            reason = f"the first attempt on {attempt.node.name} was faster"
            out.commands.append(StopCommand(copy.node.id, copy.id, reason, ()))
        else:
            take_over(farm, copy, out)
    if closing and (attempt.verify is not None or step.waiting or step.spec_holder is not None):
        _after_close(farm, attempt, now_us, out)
    if not failure:
        return
    if copy is attempt:
        # Of a second copy only what it says of its node: the unit itself goes on.
        if RULES[FailureClass(failure)].drains_node and attempt.node.enabled:
            drain_node(farm, attempt.node, f"drained by the farm: {reason}", "farm", now_us, out)
    elif kind is not _VERIFY:
        _consequences(farm, attempt, unit, FailureClass(failure), reason, now_us, out)


def _judged(attempt: Attempt, report: UnitReport, old: int, copy: Attempt | None) -> tuple[int, str, str]:
    """Where a unit goes whose result is not plainly "done", with the failure and the reason."""
    step, unit, kind, outcome = attempt.step, report.unit, attempt.kind, report.outcome
    failure, reason = "", report.reason
    if kind is _VERIFY:
        new, failure = _verified_state(attempt, unit, report)
        reason = reason or (_done_reason(attempt, report) if new == DONE else "")
    elif copy is attempt:
        new = old
        failure, reason = _end_of_copy(report)
    elif outcome == _DONE:
        new = DONE
        reason = reason or _done_reason(attempt, report)
    elif outcome == reports.FAILED:
        failure = _class_word(report.failure)
        new = next_state(step, unit, FailureClass(failure))
    else:
        new = QUEUED
        failure = report.failure if report.failure in (FailureClass.LOST, FailureClass.PREEMPTED) else ""
        if failure == FailureClass.LOST:
            new = next_state(step, unit, FailureClass.LOST)
        reason = reason or "given back unrendered"
    if copy is not None and copy is not attempt and new != DONE and kind is not _VERIFY:
        new, reason = old, f"{reason}; goes on in its second copy on {copy.node.name}"
    return new, failure, reason


def _verified_state(attempt: Attempt, unit: int, report: UnitReport) -> tuple[int, str]:
    """Where a unit goes after a look at its existing files, and the failure to tell of.

    A look that was asked for to skip what exists counts only while the unit waits for it: what was
    canceled, retried or blocked again since then has a newer will behind it.
    """
    step, request = attempt.step, attempt.verify
    old = step.state[unit]
    if request is None or unit not in request.units:
        return old, ""
    skip = request.purpose == "skip"
    waits = old == BLOCKED and not step.unmet
    if report.outcome == reports.DONE and (waits or not skip):
        return DONE, ""
    return (QUEUED if waits and not step.waits(unit) else old), (
        "" if skip or old == DONE else _class_word(report.failure or FailureClass.OUTPUT.value)
    )


def _final_waste(attempt: Attempt, more_useful_us: int) -> int:
    """The part of its charge that bought nothing, with what its last unit took counted as useful."""
    attempt.useful_us += more_useful_us
    waste = meter.waste_of(attempt, attempt.node.metered_us)
    attempt.useful_us -= more_useful_us
    return waste


def _end_of_copy(report: UnitReport) -> tuple[str, str]:
    """Failure and reason of a second copy that ended while its first attempt goes on."""
    if report.outcome == _DONE:
        # It may publish only once the first attempt is known to have stopped: then it is no copy any more.
        return FailureClass.OUTPUT.value, "a second copy said it was done without being allowed to publish"
    reason = report.reason or "ended"
    failure = _class_word(report.failure) if report.outcome == reports.FAILED else ""
    return failure, f"the second copy: {reason}; the first attempt goes on"


def _done_reason(attempt: Attempt, report: UnitReport) -> str:
    if attempt.kind is _VERIFY:
        purpose = attempt.verify.purpose if attempt.verify else ""
        return "already there, verified" if purpose == "skip" else "marked done, verified"
    if attempt.kind is AttemptKind.ADOPT:
        return "files kept from a lost attempt, verified"
    return _RENDERED if report.files else _RENDERED_NONE


def _class_word(word: str) -> str:
    try:
        return FailureClass(word).value
    except ValueError:
        return FailureClass.RENDERER.value


def next_state(step: Step, unit: int, failure: FailureClass) -> int:
    """Where a running unit goes after a failure of this class (see ``farm.model.failures``)."""
    rule = RULES[failure]
    if rule.attempts is not None:
        limit = rule.attempts if not (step.spec.attempts and rule.attempts) else step.spec.attempts
        tries = (step.tries[unit] if step.tries is not None else 0) + 1
        return FAILED if tries >= limit else QUEUED
    if rule.cap is not None and not rule.pauses_job:
        note = step.notes.get(unit)
        so_far = note.counts.get(failure.value, 0) if note else 0
        return FAILED if so_far + 1 > rule.cap else QUEUED
    return QUEUED


def _consequences(
    farm: Farm, attempt: Attempt, unit: int, failure: FailureClass, reason: str, now_us: int, out: Outcome
) -> None:
    """What a failure brings beyond its unit: a drained node, a job that pauses itself."""
    step, rule = attempt.step, RULES[failure]
    job = step.job
    if rule.drains_node and attempt.node.enabled:
        drain_node(farm, attempt.node, f"drained by the farm: {reason}", "farm", now_us, out)
    if rule.pauses_job and not job.paused:
        note = step.notes.get(unit)
        nodes_left = note is not None and any(
            other.id not in note.failed_on for other in preferred_nodes(farm, step)
        )
        if note is not None and (note.counts.get(failure.value, 0) > (rule.cap or 0) or not nodes_left):
            pause_job(farm, job, f"paused itself: {reason}", now_us, out)
    if failure in BLAMES_NODE:
        quarantine(farm, attempt.node, now_us, out)
    if step.state[unit] == FAILED:
        _pause_if_many_failed(farm, step, now_us, out)


def _pause_if_many_failed(farm: Farm, step: Step, now_us: int, out: Outcome) -> None:
    """Pauses the job when too many frames failed: of the step by its own figures, else of all without any."""
    job, rule = step.job, step.spec.failure
    if job.paused or not job.open_units:
        return
    own = _own_pause(step)
    judged = [step] if own else [other for other in job.steps if not _own_pause(other)]
    failed = sum(other.counts[FAILED] for other in judged)
    units = sum(other.units - other.left_out for other in judged)
    least = (own and rule.pause_least) or PAUSE_MIN
    share = (own and rule.pause_share) or PAUSE_SHARE
    if failed >= least and failed >= share * units:
        of = f"of {step.spec.name} " if own else ""
        # What runs goes on and may fail too: the figure is of that moment and says so.
        pause_job(farm, job, f"paused itself when {failed} of {units} frames {of}had failed", now_us, out)


def _own_pause(step: Step) -> bool:
    return bool(step.spec.failure.pause_share or step.spec.failure.pause_least)


def pause_job(farm: Farm, job: Job, reason: str, now_us: int, out: Outcome) -> None:
    """The job pauses itself."""
    row = JobStateRow(farm.next_seq(), job.id, now_us, "paused", "", "paused", reason, "farm")
    out.rows.append(row)
    apply_job_state(farm, row)


# ---------------------------------------------------------------- ends of attempts


def end_attempt(
    farm: Farm, attempt: Attempt, now_us: int, failure: str, reason: str, out: Outcome, *, lost: bool = False
) -> None:
    """Closes an attempt that still owes results; what it owes goes back to the queue."""
    step, node = attempt.step, attempt.node
    meter.advance(node, now_us)
    owed = sorted(attempt.open)
    attempt.wasted = attempt.wasted or bool(owed)
    # A lost attempt was charged to its last heartbeat, so what it did is measured against that time.
    charge, waste = attempt.charge_nano, meter.waste_of(attempt, node.metered_us)
    # A verify lease moves no unit: one bare closing row, and its request waits for another node.
    units = [-1] if attempt.kind is _VERIFY or not owed else owed
    heirs: list[Attempt] = []
    for unit in units:
        last = unit == units[-1]
        old = step.state[unit] if unit >= 0 else RUNNING
        new, said = QUEUED, reason
        copy = step.copies.get(unit) if step.copies and unit >= 0 else None
        if copy is attempt:
            new = old
        elif copy is not None:
            new, said = old, f"{reason}; goes on in its second copy on {copy.node.name}"
            heirs.append(copy)
        elif unit >= 0 and failure:
            new = next_state(step, unit, FailureClass(failure))
            if new == FAILED:
                note = step.notes.get(unit)
                times = (note.counts.get(failure, 0) if note is not None else 0) + 1
                said = f"{reason}; it is given up after {times} times"
        elif unit < 0:
            new = old
        row = ResultRow(
            farm.next_seq(),
            attempt.id,
            step.id,
            unit,
            old,
            new,
            failure if unit >= 0 else "",
            said if unit >= 0 else ("" if not lost else reason),
            now_us,
            0,
            0,
            b"",
            "",
            int(last),
            (2 if attempt.dropped else 1) if lost else 0,
            charge if last else 0,
            waste if last else 0,
        )
        out.rows.append(row)
        apply_result(farm, row)
    _after_close(farm, attempt, now_us, out)
    for heir in heirs:
        take_over(farm, heir, out)
    if any(unit >= 0 and step.state[unit] == FAILED for unit in units):
        _pause_if_many_failed(farm, step, now_us, out)


def _after_close(farm: Farm, attempt: Attempt, now_us: int, out: Outcome) -> None:
    """Settles the verify request of a closed attempt, and the units that waited for its specification."""
    request = attempt.verify
    if request is not None:
        left = tuple(unit for unit in request.units if unit in attempt.open)
        settle_request(farm, request, left, now_us, out)
    step = attempt.step
    if step.waiting:
        for key in [key for key in step.waiting if key[0] == attempt.id]:
            del step.waiting[key]
    if step.spec_holder is not None:
        review_holder(farm, step, out)


def _stale(farm: Farm, event: ReportEvent, out: Outcome) -> None:
    """A result that does not count; a file kept by a lost attempt may be adopted."""
    reason = "the attempt is closed or was leased to another"
    for report in event.units or (None,):
        unit = report.unit if report is not None else -1
        out.rows.append(
            StaleRow(farm.next_seq(), _clip(event.attempt), _clip(unit), event.node_id, event.now_us, reason)
        )
    if not event.kept:
        return
    lost = farm.lost.get(event.attempt)
    node = farm.nodes.get(event.node_id)
    units: list[int] = []
    if lost is not None and node is not None and lost.nonce == event.nonce and lost.node_id == event.node_id:
        step = farm.steps[lost.step_id]
        kept = {unit for unit in event.kept if unit in lost.units}
        if any(
            other.kind is AttemptKind.ADOPT and other.step is step and kept.intersection(other.units)
            for other in node.attempts.values()
        ):
            # The same report once more, while the files are being adopted.
            return
        if not step.job.paused and node.state is NodeState.ONLINE and node.cores_free > 0 and node.enabled:
            units = [u for u in sorted(kept) if step.state[u] == QUEUED and u not in step.parked]
        if units:
            folder = attempt_folder(step.job.id, step.spec.name, lost.no, lost.nonce)
            # The nonce need only be unguessable by others; it is this agent's own secret already.
            lease_adoption(
                farm, node, step, units, folder, event.now_us, (lost.nonce * 5 + 1) & ((1 << 63) - 1), out
            )
            return
    out.commands.append(DiscardCommand(event.node_id, event.attempt))
