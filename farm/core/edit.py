"""What people change of a job or step after submit, and jobs that start by the clock.

What belongs here: which fields can be set, the checks of the whole set before any of it is applied, the
frames that come and go, and the waking of jobs whose time has come.  What may not: changing the state: that
is done by ``farm.core.apply`` from the rows made here, so that a replay does it again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core.apply import (
    BLOCKED,
    CANCELED,
    CLOCK,
    FAILED,
    QUEUED,
    RUNNING,
    SKIPPED,
    apply_job_state,
    apply_step_edit,
    grown,
    starts_text,
)
from farm.core.dependencies import (
    move,
    note_rest,
    refit,
    release,
    requeue,
    settle,
)
from farm.core.events import ActEvent
from farm.core.looks import ask_verify, void_requests
from farm.core.outcome import ActAnswer, Outcome
from farm.core.possible import check_edit
from farm.core.rows import JobStateRow, StepEditRow
from farm.core.state import Farm, Job, Step
from farm.core.submit import writer_of
from farm.model.edits import BOTH_KEYS, JOB_KEYS, changed_step, check_step_key, settable
from farm.model.errors import CallError, FrameRangeError, IllegalMove, UnknownName
from farm.model.frames import FrameRange
from farm.model.jobs import StepSpec
from farm.model.moment import read_moment
from farm.model.orders import RANK_MOST, missing_frames
from farm.model.paths import has_frame_token

_NOT_DONE = (BLOCKED, QUEUED, RUNNING, FAILED, SKIPPED, CANCELED)


def set_fields(farm: Farm, job: Job, event: ActEvent, out: Outcome) -> None:
    """Sets fields of a job or of a step.

    Raises:
        UnknownName: There is no such step or field; names what can be set.
        CallError: A value is wrong; nothing was changed.
        JobFileError: No node could ever take the step then, and nobody forces it.
        IllegalMove: Frames that would be added are written by another job.
    """
    values = _read(event.value)
    if event.frames:
        raise CallError("frames have no settings of their own", hint=f"say J{job.id}/{event.step}")
    step = _step_of(job, event.step, values)
    of_job = {key: value for key, value in values.items() if key in JOB_KEYS and not event.step}
    of_step = {key: value for key, value in values.items() if key not in of_job}
    wanted = _job_values(job, of_job, event.now_us)
    spec = None
    warnings: list[str] = []
    if step is not None and of_step:
        spec = changed_step(job.spec, step.index, of_step)
        if spec.version and not step.app:
            raise CallError(f"version: {spec.renderer} has no application to constrain")
    if step is not None and spec is not None:
        cap = int(wanted["max_cores"][1]) if "max_cores" in wanted else job.max_cores
        warnings = check_edit(farm, step, spec, cap, force=event.force)
        _check_frames(farm, step, spec)
        for name in [name for name in ("first", "last") if name in of_step]:
            warnings += missing_frames(getattr(spec, name), spec.frame_range(), name)
    changed = sum(old != new for old, new in wanted.values())
    changed += step is not None and spec is not None and spec != step.spec
    told = [text for text in (_set_job(farm, job, wanted, event, out),) if text]
    if step is not None and spec is not None:
        told.append(_set_step(farm, step, spec, event, out))
    told = told or [f"J{job.id} is like that already"]
    told += [f"warning: {warning}" for warning in warnings]
    out.reply = ActAnswer(changed, "; ".join(told))


def _read(text: str) -> dict[str, Any]:
    try:
        values = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CallError(f"what to set is no JSON object: {error}") from error
    if not isinstance(values, dict) or not values:
        raise CallError("nothing is to be set", hint=settable())
    return values


def _step_of(job: Job, name: str, values: dict[str, Any]) -> Step | None:
    """The step that is meant: by name, or the job's only one when one of its fields is named."""
    if name:
        step = job.step(name)
        if step is None:
            names = ", ".join(other.spec.name for other in job.steps)
            raise UnknownName(f"J{job.id} has no step {name!r}", hint=f"it has {names}")
        for key in values:
            if key in JOB_KEYS and key not in BOTH_KEYS:
                raise CallError(f"{key} is of the whole job", hint=f"say J{job.id}")
            check_step_key(key)
        return step
    others = [key for key in values if key not in JOB_KEYS]
    for key in others:
        check_step_key(key)
    if not others:
        return None
    if len(job.steps) > 1:
        names = " or ".join(step.address for step in job.steps)
        raise CallError(f"{others[0]} is of a step", hint=f"say {names}")
    return job.steps[0]


# ---------------------------------------------------------------- jobs


def _job_values(job: Job, values: dict[str, Any], now_us: int) -> dict[str, tuple[str, str]]:
    """Old and new text of every field of the job that is set.

    Raises:
        CallError: A value is wrong.
    """
    found: dict[str, tuple[str, str]] = {}
    for key, value in values.items():
        text = str(value).strip() if not isinstance(value, bool | dict | list) else ""
        if key == "name":
            if not text or len(text) > 255:
                raise CallError("a name has 1 to 255 characters")
            found[key] = (job.spec.name, text)
        elif key == "project":
            if not isinstance(value, str) or len(value) > 255:
                raise CallError("a project is a name of at most 255 characters")
            found[key] = (job.project, text)
        elif key == "priority":
            found[key] = (str(job.priority), str(_whole(key, text, 100)))
        elif key == "rank":
            found[key] = (str(job.rank), str(_rank(text)))
        elif key == "max_cores":
            most = _whole(key, text, 1_000_000_000)
            for step in job.steps:
                if 0 < most < step.resources.cores:
                    raise CallError(
                        f"max_cores {most} is below the {step.resources.cores} cores {step.address} asks for",
                        hint="0 is no cap",
                    )
            found[key] = (str(job.max_cores), str(most))
        elif key == "start_after":
            found[key] = _start_value(job, value, now_us)
    return found


def _whole(key: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > most:
        raise CallError(f"{key} is a whole number from 0 to {most}, not {text!r}")
    return int(text)


def _rank(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10 or int(digits) > RANK_MOST:
        raise CallError(f"rank is a whole number from -{RANK_MOST} to {RANK_MOST}, not {text!r}")
    return int(text)


def _start_value(job: Job, value: Any, now_us: int) -> tuple[str, str]:
    if value not in (None, "") and not isinstance(value, str):
        raise CallError(f"start_after is a moment, not {value!r}")
    text = (value or "").strip()
    if text and read_moment(text) > now_us and job.started_us and job.paused_by != CLOCK:
        raise IllegalMove(
            f"J{job.id} has started already", hint=f"`farm pause J{job.id}` lets what runs finish"
        )
    return job.start_after, text


def _set_job(farm: Farm, job: Job, wanted: dict[str, tuple[str, str]], event: ActEvent, out: Outcome) -> str:
    told = []
    reason = event.reason or f"set by {event.who}"
    for key, (old, new) in wanted.items():
        if old == new:
            continue
        _state(farm, job, key, old, new, reason, event.who, event.now_us, out)
        told.append(f"{key} is {new or 'not set'} (was {old or 'not set'})")
    if "start_after" in wanted:
        told += _start(farm, job, event, out)
    return f"J{job.id}: {', '.join(told)}" if told else ""


def _start(farm: Farm, job: Job, event: ActEvent, out: Outcome) -> list[str]:
    """Pauses or resumes the job as its new time says; a job somebody paused stays so."""
    later = bool(job.start_after) and read_moment(job.start_after) > event.now_us
    if later and (not job.paused or job.paused_by == CLOCK):
        reason = starts_text(job.start_after)
        if reason != job.reason or not job.paused:
            old = "paused" if job.paused else ""
            _state(farm, job, "paused", old, "paused", reason, CLOCK, event.now_us, out)
        return [reason]
    if not later and job.paused and job.paused_by == CLOCK:
        reason = event.reason or f"set to start now by {event.who}"
        _state(farm, job, "paused", "paused", "", reason, event.who, event.now_us, out)
        return ["it starts now"]
    return []


def _state(
    farm: Farm, job: Job, what: str, old: str, new: str, reason: str, who: str, now_us: int, out: Outcome
) -> None:
    row = JobStateRow(farm.next_seq(), job.id, now_us, what, old, new, reason, who)
    out.rows.append(row)
    apply_job_state(farm, row)


def wake(farm: Farm, now_us: int, out: Outcome) -> None:
    """Starts the jobs whose time has come; the next one is always at the front."""
    while farm.starts and farm.starts[0][0] <= now_us:
        job = farm.jobs[farm.starts[0][1]]
        _state(farm, job, "paused", "paused", "", "its time has come", CLOCK, now_us, out)
        note_rest(farm, job, now_us, out)


# ---------------------------------------------------------------- steps


def _check_frames(farm: Farm, step: Step, spec: StepSpec) -> None:
    """Refuses frames whose files somebody else writes.

    Raises:
        CallError: All frames would write one file, or another step of the job writes it.
        IllegalMove: Another live job writes it.
        FrameRangeError: They are too many.
    """
    wanted = spec.frame_range()
    if wanted is None or step.frames is None or spec.frames == step.spec.frames:
        return
    added = wanted.difference(step.wanted or step.frames)
    if not len(added):
        return
    try:
        grown(step.frames, wanted)
    except FrameRangeError as error:
        raise CallError(
            f"frames: {error.message}", hint="submit a job of its own for the new frames"
        ) from error
    for output in spec.outputs:
        if len(wanted) > 1 and not has_frame_token(output.pattern):
            raise CallError(
                f"all {len(wanted)} frames would write {output.pattern}", hint="a pattern needs ####"
            )
        for other in step.job.steps:
            if other is not step and any(one.pattern == output.pattern for one in other.spec.outputs):
                theirs = other.wanted or other.frames
                if theirs is None or theirs.intersects(added):
                    raise CallError(f"{other.address} writes {output.pattern} too")
        writer = writer_of(farm, output.pattern, added, step.job)
        if writer is not None:
            raise IllegalMove(
                f"{writer.address} is writing {output.pattern} now", hint="wait for it, or cancel it"
            )


def _set_step(farm: Farm, step: Step, spec: StepSpec, event: ActEvent, out: Outcome) -> str:
    """Stores the new record and moves the frames that came or went; says what changed."""
    if spec == step.spec:
        return f"{step.address} is like that already"
    changed = _differences(step.spec, spec)
    units = step.units
    before = step.wanted or step.frames
    reason = event.reason or f"set by {event.who}"
    row = StepEditRow(
        farm.next_seq(), step.id, event.now_us, msgspec.json.encode(spec), reason, event.who
    )  # fmt: skip
    out.rows.append(row)
    apply_step_edit(farm, row)
    if before is not None and "frames" in {name for name, _, _ in changed}:
        _move_frames(farm, step, before, units, event, out)
    else:
        settle(farm, step, event.now_us, out)
    return f"{step.address}: " + ", ".join(f"{name} is {new} (was {old})" for name, old, new in changed)


def _move_frames(
    farm: Farm, step: Step, before: FrameRange, units: int, event: ActEvent, out: Outcome
) -> None:
    """Frames no longer wanted are canceled; those wanted again and those that are new are queued."""
    now_us, who = event.now_us, event.who
    frames, wanted = step.frames, step.wanted or step.frames
    assert frames is not None
    assert wanted is not None
    gone = tuple(frames.index_of(frame) for frame in before.difference(wanted))
    again = tuple(unit for unit in map(frames.index_of, wanted.difference(before)) if unit < units)
    added = tuple(range(units, step.units))
    reason = event.reason or f"frames are {step.spec.frames} now, says {who}"
    # What a look at their files will find must not count: they are meant otherwise now.
    void_requests(farm, step, (*gone, *again), _NOT_DONE, now_us, out)
    if gone:
        for old in (RUNNING, QUEUED, BLOCKED, FAILED):
            move(farm, step, gone, old, CANCELED, reason, who, now_us, out)
    if again:
        requeue(farm, step, again, CANCELED, QUEUED, reason, who, now_us, out, fresh=True)
    if added and not step.unmet:
        if step.check_existing:
            # As when a step unblocks: what is there already is looked at, and only the rest is rendered.
            move(
                farm, step, None, BLOCKED, BLOCKED, "existing files are looked at first", "farm", now_us, out
            )
            ask_verify(farm, step, added, "skip", step.job.user, now_us, out)
        else:
            release(farm, step, added, reason, now_us, out)
    refit(farm, step, (*again, *added), now_us, out)
    settle(farm, step, now_us, out)


def _differences(old: StepSpec, new: StepSpec) -> list[tuple[str, str, str]]:
    """Fields that differ: name, old and new value in words."""
    found: list[tuple[str, str, str]] = []
    for name in StepSpec.__struct_fields__:
        one, other = getattr(old, name), getattr(new, name)
        if one == other:
            continue
        if isinstance(one, msgspec.Struct):
            for field in one.__struct_fields__:
                before, after = getattr(one, field), getattr(other, field)
                if before != after:
                    found.append((f"{name}.{field}", _shown(before), _shown(after)))
        else:
            found.append((name, _shown(one), _shown(other)))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={one}" for key, one in value.items()) or "none"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "none" if value in ("", None) else str(value)
