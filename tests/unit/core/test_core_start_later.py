"""Jobs that start at a time of their own, by the farm's clock.

What belongs here: the time as submitted, set, moved and taken away, and what pause and resume do to it.
"""

from __future__ import annotations

import pytest

from farm.core.rows import JobStateRow
from farm.model.errors import IllegalMove
from farm.model.moment import read_moment
from tests.support.core_edits import edit, farm
from tests.support.core_rig import Rig, step

NOON = "1970-01-01T12:00:00+00:00"


def test_a_job_starts_at_its_time_and_says_when() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(), start_after=NOON)
    job = rig.job()
    assert (job.shown().value, job.paused_by, job.reason) == (
        "paused",
        "clock",
        "starts 1970-01-01 12:00 UTC",
    )
    assert not rig.dispatch()
    rig.restart()
    rig.now_us = read_moment(NOON) - 1
    rig.wait(0, node)
    assert rig.job().paused
    rig.wait(0.000001, node)
    assert not rig.job().paused
    (row,) = [row for row in rig.out.rows if isinstance(row, JobStateRow)]
    assert (row.what, row.old, row.new, row.who) == ("paused", "paused", "", "clock")
    rig.join()
    assert rig.dispatch()
    rig.restart()


def test_a_time_that_has_passed_starts_at_once() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(), start_after="1970-01-01T00:00:01Z")
    assert not rig.job().paused


def test_jobs_start_in_the_order_of_their_times() -> None:
    rig = Rig()
    node = rig.join()
    for hour in (13, 12, 14):
        rig.submit(step(frames=str(hour)), start_after=f"1970-01-01T{hour}:00:00Z")
    rig.now_us = read_moment("1970-01-01T13:30:00Z")
    rig.wait(0, node)
    resumed = [row.job_id for row in rig.out.rows if isinstance(row, JobStateRow)]
    assert resumed == [2, 1]
    assert rig.job(3).paused


def test_resume_starts_it_at_once_and_pause_takes_it_from_the_clock() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(), start_after=NOON)
    rig.submit(step("b"), start_after=NOON)
    rig.act("resume", "J1")
    assert not rig.job(1).paused
    rig.act("pause", "J2", reason="not today")
    rig.now_us = read_moment(NOON) + 1
    rig.wait(1, node)
    assert (rig.job(2).paused, rig.job(2).paused_by, rig.job(2).reason) == (True, "ann", "not today")
    rig.restart()


def test_a_job_submitted_paused_is_not_started_by_the_clock() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(), start_after=NOON, paused=True)
    assert rig.job().paused_by == "ann"
    rig.now_us = read_moment(NOON) + 1
    rig.wait(1, node)
    assert rig.job().paused


def test_the_time_can_be_set_moved_and_taken_away() -> None:
    rig = farm()
    edit(rig, "J1", start_after="1970-01-01T12:00:00+02:00")
    assert (rig.job().paused_by, rig.job().reason) == ("clock", "starts 1970-01-01 10:00 UTC")
    edit(rig, "J1", start_after=NOON)
    assert rig.job().reason == "starts 1970-01-01 12:00 UTC"
    rig.restart()
    edit(rig, "J1", start_after="")
    assert not rig.job().paused
    rig.join()
    assert rig.dispatch()
    with pytest.raises(IllegalMove, match="started already"):
        edit(rig, "J1", start_after=NOON)


def test_a_time_set_on_a_job_somebody_paused_does_not_start_it() -> None:
    rig = farm(nodes=0)
    node = rig.join()
    rig.act("pause", "J1")
    edit(rig, "J1", start_after=NOON)
    assert rig.job().paused_by == "ann"
    rig.now_us = read_moment(NOON) + 1
    rig.wait(1, node)
    assert rig.job().paused
