"""Submitting a job: numbers, steps, dependencies, conflicts, idempotence."""

from __future__ import annotations

from farm.core.apply import BLOCKED, QUEUED, apply_job, apply_step, needed_steps, token_key
from farm.core.dependencies import note_rest, open_up, settle
from farm.core.events import SubmitEvent
from farm.core.outcome import Outcome, SubmitAnswer
from farm.core.possible import impossible
from farm.core.rows import HistoryRow, JobRow, StepRow
from farm.core.state import Farm, Job, Step
from farm.model.errors import JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec, StepSpec

#: What to do about a need of a job that is archived.
_NOTHING_CHANGES = "nothing of it will change: leave it out"


def on_submit(farm: Farm, event: SubmitEvent, out: Outcome) -> None:
    """Stores a job.  A token that is known gives the same job back.

    Raises:
        JobFileError: A live job would write the same file, or no node could ever take a step.
    """
    spec = event.spec
    if spec.token:
        known = farm.tokens.get(token_key(spec.user, spec.token))
        if known is not None:
            out.reply = SubmitAnswer(known, True)
            return
    check_conflicts(farm, spec)
    check_other_jobs(farm, spec)
    warnings = impossible(farm, spec, event.apps, event.whole, force=event.force)
    row = JobRow(
        farm.next_job,
        farm.next_seq(),
        spec.name,
        spec.user,
        spec.project,
        spec.priority,
        spec.token,
        int(spec.paused),
        event.now_us,
        event.source,
    )
    out.rows.append(row)
    apply_job(farm, row, spec)
    job = farm.jobs[row.id]
    for index, step_spec in enumerate(spec.steps):
        frames = step_spec.frame_range()
        waits = bool(step_spec.after) or step_spec.existing == "skip"
        step_row = StepRow(
            farm.next_step,
            farm.next_seq(),
            job.id,
            index,
            step_spec.name,
            event.apps[index],
            int(event.whole[index]),
            len(frames) if frames is not None else 1,
            BLOCKED if waits else QUEUED,
        )
        out.rows.append(step_row)
        apply_step(farm, step_row)
    reason = f"submitted by {spec.user}" if spec.user else "submitted"
    out.rows.append(
        HistoryRow(farm.next_seq(), event.now_us, job.id, "job", "", job.shown().value, reason, spec.user)
    )
    for step in job.steps:
        if step.needs or step.check_existing:
            open_up(farm, step, event.now_us, out)
        settle(farm, step, event.now_us, out)
    note_rest(farm, job, event.now_us, out)
    out.reply = SubmitAnswer(job.id, False, tuple(warnings))


def check_other_jobs(farm: Farm, spec: JobSpec) -> None:
    """Refuses a job that waits for a job or step that is not there, or for frames of what has none.

    Raises:
        JobFileError: Names the field, and the job or step.
    """
    for index, step in enumerate(spec.steps):
        for need_index, need in enumerate(step.needs()):
            number = need.job_number()
            if not number:
                continue
            path = f"steps[{index}].after[{need_index}]"
            job = farm.jobs.get(number)
            if job is None:
                if 0 < number < farm.next_job:
                    raise JobFileError(
                        f"J{number} is archived or deleted", f"{path}.job", hint=_NOTHING_CHANGES
                    )
                raise JobFileError(f"there is no job J{number}", f"{path}.job")
            if job.archived:
                raise JobFileError(f"J{number} is archived", f"{path}.job", hint=_NOTHING_CHANGES)
            steps = needed_steps(farm, job, need)
            if not steps:
                names = ", ".join(other.spec.name for other in job.steps)
                raise JobFileError(
                    f"J{number} has no step {need.step!r}", f"{path}.step", hint=f"it has {names}"
                )
            without = next((other for other in steps if other.frames is None), None)
            if need.frames and without is not None:
                raise JobFileError(
                    f"{without.address} has no frames",
                    f"{path}.frames",
                    hint="name a step that has, or leave frames out",
                )


def check_conflicts(farm: Farm, spec: JobSpec) -> None:
    """Refuses a job that would write a file that a live job (or another step of it) writes.

    Compared are mapped patterns whose frames overlap.

    Raises:
        JobFileError: Names the pattern, the frames and the other step.
    """
    own: dict[str, list[StepSpec]] = {}
    for index, step in enumerate(spec.steps):
        for output_index, output in enumerate(step.outputs):
            path = f"steps[{index}].outputs[{output_index}].pattern"
            frames = step.frame_range()
            for other_spec in own.setdefault(output.pattern, []):
                if _overlap(frames, other_spec.frame_range()):
                    raise JobFileError(f"step {other_spec.name!r} writes {output.pattern} too", path)
            own[output.pattern].append(step)
            other = writer_of(farm, output.pattern, frames, None)
            if other is not None:
                raise JobFileError(
                    f"{other.address} is still writing {output.pattern}",
                    path,
                    hint="wait for it, or cancel it",
                )


def writer_of(farm: Farm, pattern: str, frames: FrameRange | None, but: Job | None) -> Step | None:
    """A step of a live job (other than ``but``) that writes any of these files."""
    for other in farm.patterns.get(pattern, ()):
        if (
            other.job is not but
            and other.job.open_units > 0
            and _overlap(frames, other.wanted or other.frames)
        ):
            return other
    return None


def _overlap(one: FrameRange | None, other: FrameRange | None) -> bool:
    return one is None or other is None or one.intersects(other)
