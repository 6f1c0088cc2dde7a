"""Scout frames: a few frames of every step first, then the job waits until somebody says that it may go on.

What belongs here: when scouting is over, and what people are told to decide by.  What may not: which frames
are scouts (``farm.core.work``).
"""

from __future__ import annotations

from farm.core.apply import BLOCKED, DONE, FAILED, QUEUED, RUNNING, apply_job_state
from farm.core.forecast import job_forecast
from farm.core.outcome import Outcome
from farm.core.rows import JobStateRow
from farm.core.state import Farm, Job, Step
from farm.model.money import usd_text

#: Who pauses a job when its scout frames are done.
SCOUT = "scout"
#: How often jobs that scout are looked at though nothing of theirs changed.
LOOK_US = 5_000_000
#: Units looked at along a chain of needs.
CHAIN_MOST = 2_000


def review(farm: Farm, job: Job, now_us: int, out: Outcome) -> None:
    """Ends scouting once no scout frame is left to do, and pauses the job when there is more to render.

    Steps that still wait for others are not waited for: they cannot start before those are rendered whole.  A
    job that is paused is looked at again when it goes on.
    """
    if not job.scouting or job.paused or any(_busy(step) for step in job.steps):
        return
    if not any(
        step.state[unit] > RUNNING or _hopeless(step, unit) for step in job.steps for unit in step.scouts
    ):
        return  # it has not begun: all of it waits for other jobs
    row = JobStateRow(
        farm.next_seq(), job.id, now_us, "scout", "scouting", "", "its scout frames are final", SCOUT
    )
    out.rows.append(row)
    left = sum(sum(step.counts[: RUNNING + 1]) for step in job.steps if step.frames is not None)
    reason = _reason(farm, job, left, now_us) if left else ""
    apply_job_state(farm, row)
    if left:
        pause = JobStateRow(farm.next_seq(), job.id, now_us, "paused", "", "paused", reason, SCOUT)
        out.rows.append(pause)
        apply_job_state(farm, pause)


def look(farm: Farm, now_us: int, out: Outcome) -> None:
    """Now and then: whether scout frames have come to wait for ever, by what happened to other jobs."""
    if farm.scouting and now_us >= farm.scouts_due_us:
        farm.scouts_due_us = now_us + LOOK_US
        for job in list(farm.scouting.values()):
            review(farm, job, now_us, out)


def _busy(step: Step) -> bool:
    """Whether a scout frame (or a step without frames) can still come to something by itself."""
    if step.frames is None:
        return bool(step.counts[QUEUED] or step.counts[RUNNING])
    state = step.state
    if step.counts[RUNNING]:
        return True
    # A blocked one is waited for only while its existing files are looked at.
    return any(
        state[unit] == QUEUED or (state[unit] == BLOCKED and not step.waits(unit)) for unit in step.scouts
    )


def _hopeless(step: Step, unit: int) -> bool:
    """Whether a scout frame waits for what failed or was canceled, while other frames could go.

    It may never come, so somebody is asked instead of holding the job back for it.
    """
    return step.state[unit] == BLOCKED and bool(step.counts[QUEUED]) and _has_no_hope(step, unit)


def _has_no_hope(step: Step, unit: int) -> bool:
    """Whether a blocked unit waits, itself or through what it waits for, for what failed or was canceled."""
    looked: set[tuple[int, int]] = set()
    waiting = [(step, unit)]
    while waiting and len(looked) < CHAIN_MOST:
        here, at = waiting.pop()
        if (here.id, at) in looked:
            continue
        looked.add((here.id, at))
        for edge in here.needs:
            if edge.met_for(at):
                continue
            need = edge.need
            there = edge.need_unit(at) if edge.by_frame else need.state.find(BLOCKED)
            if edge.fails_at(there) if edge.by_frame and there is not None else edge.lost():
                return True
            if there is not None and there >= 0 and need.state[there] == BLOCKED:
                waiting.append((need, there))
    return False


def _reason(farm: Farm, job: Job, left: int, now_us: int) -> str:
    done = failed = 0
    for step in job.steps:
        done += sum(step.state[unit] == DONE for unit in step.scouts)
        failed += sum(step.state[unit] == FAILED for unit in step.scouts)
    told = f"{done} scout frames are done" + (f", {failed} failed" if failed else "")
    takes = _estimate(farm, job, now_us)
    return f"{told}; {left} frames are left: {takes}; `farm resume J{job.id}` renders them"


def _estimate(farm: Farm, job: Job, now_us: int) -> str:
    """What the rest will take, in words: from the mean of the frames that are done."""
    core_us = busy_us = known = 0
    for step in job.steps:
        if step.done_timed:
            left = sum(step.counts[: RUNNING + 1])
            core_us += step.busy_us // step.done_timed * left * max(1, step.resources.cores)
            known, busy_us = known + step.done_timed, busy_us + step.busy_us
    if not known:
        return "none was timed, so what they will take is not known"
    told = f"{busy_us / known / 1e6:.1f} s a frame, about {core_us / 3.6e9:.2f} core-hours more"
    found = job_forecast(farm, job, now_us)
    if found is None or found.cost_low_nano is None or found.cost_high_nano is None:
        return told
    low, high = usd_text(found.cost_low_nano), usd_text(found.cost_high_nano)
    return f"{told}, {low} to {high} USD in all"
