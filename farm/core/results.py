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
    apply_result,
    apply_spec,
    apply_verify,
    units_text,
)
from farm.core.dependencies import settle
from farm.core.drain import drain_node
from farm.core.events import ReportEvent, VerifiedEvent
from farm.core.match import able_nodes
from farm.core.outcome import DiscardCommand, GrantCommand, Outcome, StopCommand
from farm.core.place import lease_adoption
from farm.core.rows import JobStateRow, ResultRow, SpecRow, StaleRow, VerifyRow
from farm.core.state import Attempt, Farm, Job, Step
from farm.model import reports
from farm.model.failures import PAUSE_MIN, PAUSE_SHARE, RULES
from farm.model.ids import attempt_folder
from farm.model.outputs import FileFacts, PictureSpec
from farm.model.reports import UnitReport
from farm.model.states import AttemptKind, FailureClass

_ENCODE = msgspec.msgpack.Encoder().encode
_VERIFY = AttemptKind.VERIFY


def on_report(farm: Farm, event: ReportEvent, out: Outcome) -> None:
    """Takes the results of an attempt."""
    attempt = farm.attempts.get(event.attempt)
    node = farm.nodes.get(event.node_id)
    if node is not None:
        node.seen_us = event.now_us
        node.deadline_us = event.now_us + farm.settings.lost_us
    if attempt is None or attempt.nonce != event.nonce or attempt.node.id != event.node_id:
        _stale(farm, event, out)
        return
    step = attempt.step
    last = len(event.units) - 1
    closed_by_row = False
    for index, report in enumerate(event.units):
        if report.unit not in attempt.open:
            reason = "the unit was taken from this attempt"
            out.rows.append(
                StaleRow(farm.next_seq(), attempt.id, report.unit, event.node_id, event.now_us, reason)
            )
            continue
        closing = event.closed and index == last and len(attempt.open) == 1
        closed_by_row = closed_by_row or closing
        _settle_unit(farm, attempt, report, event.now_us, closing, out)
    if event.closed and not closed_by_row:
        end_attempt(farm, attempt, event.now_us, "", "the agent ended the attempt without a result", out)
    settle(farm, step, event.now_us, out)


def _settle_unit(
    farm: Farm, attempt: Attempt, report: UnitReport, now_us: int, closing: bool, out: Outcome
) -> None:
    step, unit = attempt.step, report.unit
    old = step.state[unit]
    failure, reason = "", report.reason
    if report.outcome == reports.DONE:
        new = DONE
        reason = reason or _done_reason(attempt, report)
    elif attempt.kind is _VERIFY:
        new = QUEUED if old == BLOCKED and not step.unmet else old
        failure = "" if attempt.verify and attempt.verify.purpose == "skip" else report.failure
    elif report.outcome == reports.FAILED:
        failure = _class_word(report.failure)
        new = next_state(step, unit, FailureClass(failure))
    else:
        new = QUEUED
        failure = report.failure if report.failure in (FailureClass.LOST, FailureClass.PREEMPTED) else ""
        if failure == FailureClass.LOST:
            new = next_state(step, unit, FailureClass.LOST)
        reason = reason or "given back unrendered"
    charge, waste = (0, 0)
    if closing:
        attempt.wasted = attempt.wasted or new != DONE
        if new == DONE and attempt.kind is AttemptKind.RENDER:
            charge, waste = _final_charge(attempt, now_us, report.elapsed_us)
        else:
            charge, waste = _final_charge(attempt, now_us, 0)
    row = ResultRow(
        farm.next_seq(),
        attempt.id,
        step.id,
        unit,
        old,
        new,
        failure,
        reason,
        now_us,
        report.elapsed_us,
        report.ram_mib,
        _ENCODE(report.files) if report.files else b"",
        report.warning,
        int(closing),
        0,
        charge,
        waste,
    )
    out.rows.append(row)
    apply_result(farm, row)
    if closing:
        _after_close(farm, attempt, now_us, out)
    if new == DONE:
        _learn_spec(farm, attempt, unit, report.files, out)
    elif attempt.kind is not _VERIFY:
        _holder_gone(farm, step, attempt, unit, now_us, out)
        if failure:
            _consequences(farm, attempt, unit, FailureClass(failure), reason, now_us, out)


def _final_charge(attempt: Attempt, now_us: int, more_useful_us: int) -> tuple[int, int]:
    meter.advance(attempt.node, now_us)
    attempt.useful_us += more_useful_us
    waste = meter.waste_of(attempt, now_us)
    attempt.useful_us -= more_useful_us
    return attempt.charge_nano, waste


def _done_reason(attempt: Attempt, report: UnitReport) -> str:
    if attempt.kind is _VERIFY:
        purpose = attempt.verify.purpose if attempt.verify else ""
        return "already there, verified" if purpose == "skip" else "marked done, verified"
    if attempt.kind is AttemptKind.ADOPT:
        return "files kept from a lost attempt, verified"
    return "rendered and verified" if report.files else "rendered; no files expected"


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
            other.id not in note.failed_on for other in able_nodes(farm, step)
        )
        if note is not None and (note.counts.get(failure.value, 0) > (rule.cap or 0) or not nodes_left):
            pause_job(farm, job, f"paused itself: {reason}", now_us, out)
    if not job.paused and step.state[unit] == FAILED:
        counts = job.counts()
        if counts[FAILED] >= PAUSE_MIN and counts[FAILED] >= PAUSE_SHARE * sum(counts) and job.open_units:
            pause_job(
                farm, job, f"paused itself: {counts[FAILED]} of {sum(counts)} frames have failed", now_us, out
            )


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
    charge, waste = attempt.charge_nano, meter.waste_of(attempt, now_us)
    # A verify lease moves no unit: one bare closing row, and its request waits for another node.
    units = [-1] if attempt.kind is _VERIFY or not owed else owed
    for unit in units:
        last = unit == units[-1]
        old = step.state[unit] if unit >= 0 else RUNNING
        new = QUEUED
        if unit >= 0 and failure:
            new = next_state(step, unit, FailureClass(failure))
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
            reason if unit >= 0 else ("" if not lost else reason),
            now_us,
            0,
            0,
            b"",
            "",
            int(last),
            int(lost),
            charge if last else 0,
            waste if last else 0,
        )
        out.rows.append(row)
        apply_result(farm, row)
        if unit >= 0:
            _holder_gone(farm, step, attempt, unit, now_us, out)
    _after_close(farm, attempt, now_us, out)


def _after_close(farm: Farm, attempt: Attempt, now_us: int, out: Outcome) -> None:
    """Settles the verify request of a closed attempt, and the units that waited for its specification."""
    request = attempt.verify
    if request is not None:
        left = tuple(unit for unit in request.units if unit in attempt.open)
        if left:
            request.units, request.leased = left, False
        else:
            row = VerifyRow(
                request.id, farm.next_seq(), request.step_id, units_text(request.units), request.purpose,
                request.who, now_us, 1,
            )  # fmt: skip
            out.rows.append(row)
            apply_verify(farm, row)
    step = attempt.step
    for key in [key for key in step.waiting if key[0] == attempt.id]:
        del step.waiting[key]
    if step.spec_holder is not None and step.spec_holder[0] == attempt.id:
        _holder_gone(farm, step, attempt, step.spec_holder[1], now_us, out)


def _stale(farm: Farm, event: ReportEvent, out: Outcome) -> None:
    """A result that does not count; a file kept by a lost attempt may be adopted."""
    reason = "the attempt is closed or was leased to another"
    for report in event.units or (None,):
        unit = report.unit if report is not None else -1
        out.rows.append(StaleRow(farm.next_seq(), event.attempt, unit, event.node_id, event.now_us, reason))
    if not event.kept:
        return
    lost = farm.lost.get(event.attempt)
    node = farm.nodes.get(event.node_id)
    units: list[int] = []
    if lost is not None and node is not None and lost.nonce == event.nonce and lost.node_id == event.node_id:
        step = farm.steps.get(lost.step_id)
        if step is not None and not step.job.paused and node.cores_free > 0 and node.enabled:
            units = [
                u for u in event.kept if u in lost.units and step.state[u] == QUEUED and u not in step.parked
            ]
        if units and step is not None:
            folder = attempt_folder(step.job.id, step.spec.name, lost.no, lost.nonce)
            # The nonce need only be unguessable by others; it is this agent's own secret already.
            lease_adoption(
                farm, node, step, units, folder, event.now_us, (lost.nonce * 5 + 1) & ((1 << 63) - 1), out
            )
            return
    out.commands.append(DiscardCommand(event.node_id, event.attempt))


# ---------------------------------------------------------------- specifications and grants


def on_verified(farm: Farm, event: VerifiedEvent, out: Outcome) -> None:
    """A unit's files are good and wait: grant, reject, or let it wait for the first frame."""
    attempt = farm.attempts.get(event.attempt)
    if (
        attempt is None
        or attempt.nonce != event.nonce
        or attempt.node.id != event.node_id
        or event.unit not in attempt.open
    ):
        out.commands.append(
            StopCommand(event.node_id, event.attempt, "the attempt does not hold this unit", (event.unit,))
        )
        return
    step = attempt.step
    if step.specs is None:
        step.specs = event.specs
        step.spec_holder = (attempt.id, event.unit)
        out.commands.append(GrantCommand(event.node_id, attempt.id, event.unit, ""))
        return
    _judge(farm, step, attempt, event.unit, event.specs, out)


def _judge(
    farm: Farm, step: Step, attempt: Attempt, unit: int, specs: tuple[PictureSpec | None, ...], out: Outcome
) -> None:
    difference = spec_difference(step.specs or (), specs)
    if not difference:
        out.commands.append(GrantCommand(attempt.node.id, attempt.id, unit, ""))
    elif step.spec_holder is None:
        out.commands.append(GrantCommand(attempt.node.id, attempt.id, unit, difference))
    else:
        step.waiting[(attempt.id, unit)] = specs


def spec_difference(known: tuple[PictureSpec | None, ...], specs: tuple[PictureSpec | None, ...]) -> str:
    """In words, how pictures differ from the step's specification; "" when they do not."""
    for expected, found in zip(known, specs, strict=False):
        if expected is not None and found is not None:
            text = expected.difference(found)
            if text:
                return f"the picture {text} as the first frame of the step"
    return ""


def _learn_spec(farm: Farm, attempt: Attempt, unit: int, files: tuple[FileFacts, ...], out: Outcome) -> None:
    """The first done frame's specification becomes the step's."""
    step = attempt.step
    if not step.asks or not step.spec.outputs:
        return
    holder = step.spec_holder
    if step.specs is not None and holder is None:
        return
    if holder is not None and holder != (attempt.id, unit) and step.counts[DONE] > 1:
        return
    found: list[PictureSpec | None] = [None] * len(step.spec.outputs)
    for file in files:
        if 0 <= file.output < len(found):
            found[file.output] = file.spec
    row = SpecRow(farm.next_seq(), step.id, unit, _ENCODE(tuple(found)))
    out.rows.append(row)
    apply_spec(farm, row)
    _wake_waiting(farm, step, out)


def _holder_gone(farm: Farm, step: Step, attempt: Attempt, unit: int, now_us: int, out: Outcome) -> None:
    """The unit whose specification others waited for did not get done: the next one takes its place."""
    step.waiting.pop((attempt.id, unit), None)
    if step.spec_holder != (attempt.id, unit):
        return
    step.spec_holder = None
    step.specs = None
    for (other_id, other_unit), specs in list(step.waiting.items()):
        other = farm.attempts.get(other_id)
        del step.waiting[(other_id, other_unit)]
        if other is not None and other_unit in other.open:
            step.specs, step.spec_holder = specs, (other_id, other_unit)
            out.commands.append(GrantCommand(other.node.id, other_id, other_unit, ""))
            break
    if step.spec_holder is not None:
        _wake_waiting(farm, step, out)


def _wake_waiting(farm: Farm, step: Step, out: Outcome) -> None:
    for (attempt_id, unit), specs in list(step.waiting.items()):
        del step.waiting[(attempt_id, unit)]
        attempt = farm.attempts.get(attempt_id)
        if attempt is not None and unit in attempt.open:
            _judge(farm, step, attempt, unit, specs, out)
