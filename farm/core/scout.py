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
#: Units looked at in one look, along all chains of needs of all jobs; others next time.
LOOK_MOST = 3_000


class Walks:
    """What one look finds along needs: each unit is looked at once, whichever chains and jobs it is part of.

    Attributes:
        left: Units that may still be looked at.
    """

    def __init__(self, most: int) -> None:
        self.left = most
        #: By step and unit: whether it waits for ever, as things are.
        self._known: dict[tuple[int, int], bool] = {}

    def has_no_hope(self, step: Step, unit: int) -> bool:
        """Whether a blocked unit waits, itself or through what it waits for, for what ended badly.

        False as well when that is too far to be found in what is left of this look.
        """
        #: Who led to each that was looked at.
        came: dict[tuple[int, int], tuple[int, int] | None] = {}
        waiting: list[tuple[Step, int, tuple[int, int] | None]] = [(step, unit, None)]
        while waiting:
            here, at, before = waiting.pop()
            key = (here.id, at)
            if key in came:
                continue
            lost = self._known.get(key)
            if lost is None:
                if self.left <= 0:
                    return False
                self.left -= 1
                came[key] = before
                lost = _next_of(here, at, key, waiting)
            if lost:
                back: tuple[int, int] | None = before if key not in came else key
                while back is not None:
                    self._known[back] = True
                    back = came[back]
                return True
        self._known.update(dict.fromkeys(came, False))
        return False


def _next_of(
    step: Step, unit: int, key: tuple[int, int], waiting: list[tuple[Step, int, tuple[int, int] | None]]
) -> bool:
    """Adds what a blocked unit waits for that is blocked too; True = it waits for what ended badly.

    Only where its need says ``wait``.  With ``go`` a failure is as good as an end, and it is waited for no
    longer than until the others there end; with ``skip`` and ``cancel`` it would have ended in the same turn.
    """
    for edge in step.needs:
        if edge.met_for(unit):
            continue
        need = edge.need
        there = edge.need_unit(unit) if edge.by_frame else need.state.find(BLOCKED)
        if there is None:
            continue
        if edge.on_failure == "wait" and (edge.fails_at(there) if edge.by_frame else edge.lost()):
            return True
        if there >= 0 and need.state[there] == BLOCKED:
            waiting.append((need, there, key))
    return False


def review(farm: Farm, job: Job, now_us: int, out: Outcome, walks: Walks | None = None) -> None:
    """Ends scouting once no scout frame is left to do, and pauses the job when there is more to render.

    Steps that still wait for others are not waited for: they cannot start before those are rendered whole.  A
    job that is paused is looked at again when it goes on.

    Args:
        farm: The state.
        job: The job.
        now_us: The time.
        out: Where rows go.
        walks: Of a look now and then; None = something changed, and what waits for ever is left to the next
            look: a job may change with every frame of another.
    """
    if not job.scouting or job.paused or any(_busy(step) for step in job.steps):
        return
    if not any(step.state[unit] > RUNNING for step in job.steps for unit in step.scouts) and (
        walks is None or not _waits_for_ever(job, walks, now_us)
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
    """Now and then: whether scout frames have come to wait for ever, by what happened to other jobs.

    It costs no more than ``LOOK_MOST`` units; jobs it does not come to are the first of the next one.
    """
    if not farm.scouting or now_us < farm.scouts_due_us:
        return
    farm.scouts_due_us = now_us + LOOK_US
    walks, jobs = Walks(LOOK_MOST), list(farm.scouting.values())
    for place, job in enumerate(jobs):
        if job.paused:
            continue
        review(farm, job, now_us, out, walks)
        cut = walks.left <= 0
        walks.left -= 1 + sum([len(step.scouts) for step in job.steps])
        if walks.left <= 0:
            # One that was cut short goes on next time, unless it had the whole look for itself.
            for seen in jobs[: place if cut and place else place + 1]:
                if farm.scouting.pop(seen.id, None) is not None:
                    farm.scouting[seen.id] = seen
            return


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


def _waits_for_ever(job: Job, walks: Walks, now_us: int) -> bool:
    """Whether a scout frame waits for what failed or was canceled, while other frames could go.

    It may never come, so somebody is asked instead of holding the job back for it.  Each look begins with
    another frame, so that one with too much before it does not hide the others.
    """
    blocked = [
        (step, unit)
        for step in job.steps
        if step.counts[QUEUED]
        for unit in step.scouts
        if step.state[unit] == BLOCKED
    ]
    first = now_us // LOOK_US % len(blocked) if blocked else 0
    return any(walks.has_no_hope(step, unit) for step, unit in (*blocked[first:], *blocked[:first]))


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
