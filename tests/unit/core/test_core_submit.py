"""Submitting: numbers, tokens, conflicts over files, and what a job shows."""

from __future__ import annotations

import pytest

from farm.core import invariants
from farm.model.errors import JobFileError
from farm.model.jobs import OutputSpec
from tests.support.core_rig import Rig, step


def test_jobs_and_steps_are_numbered_in_order_even_over_a_restart() -> None:
    rig = Rig()
    assert rig.submit(step(), step("comp", after=("beauty",))) == 1
    rig.restart()
    assert rig.submit(step()) == 2
    assert sorted(rig.core.farm.steps) == [1, 2, 3]


def test_the_same_token_gives_the_same_job_also_after_a_restart() -> None:
    rig = Rig()
    assert rig.submit(step(), token="t-1") == 1
    rig.restart()
    assert rig.submit(step("changed"), token="t-1") == 1
    assert rig.out.reply.again
    assert rig.out.rows == []
    assert len(rig.core.farm.jobs) == 1


def test_tokens_count_per_user() -> None:
    rig = Rig()
    assert rig.submit(step(), token="t-1", user="ann") == 1
    assert rig.submit(step(), token="t-1", user="bob") == 2
    assert rig.submit(step()) == 3, "no token, no memory"
    assert rig.submit(step()) == 4


def test_a_token_answers_before_files_are_compared() -> None:
    rig = Rig()
    rig.submit(step(out=True), token="t-1")
    assert rig.submit(step(out=True), token="t-1") == 1


def test_two_live_jobs_that_would_write_the_same_file_are_refused_without_a_trace() -> None:
    rig = Rig()
    rig.submit(step(frames="1-10", out=True))
    before = invariants.digest(rig.core.farm)
    with pytest.raises(JobFileError) as caught:
        rig.submit(step(frames="10-20", out=True))
    where = "steps[0].outputs[0].pattern"
    reason = "J1/beauty is still writing /out/beauty.####.exr"
    assert str(caught.value) == f"{where}: {reason} (wait for it, or cancel it)"
    assert invariants.digest(rig.core.farm) == before


def test_the_same_pattern_with_other_frames_is_no_conflict() -> None:
    rig = Rig()
    rig.submit(step(frames="1-10x2", out=True))
    rig.submit(step(frames="2-10x2", out=True))
    with pytest.raises(JobFileError):
        rig.submit(step(frames="4", out=True))


def test_a_job_that_came_to_rest_may_be_written_over() -> None:
    rig = Rig()
    rig.submit(step(out=True))
    rig.act("cancel", "J1")
    assert rig.submit(step(out=True)) == 2


def test_conflicts_are_known_after_a_restart() -> None:
    rig = Rig()
    rig.submit(step(out=True))
    rig.restart()
    with pytest.raises(JobFileError):
        rig.submit(step(out=True))


def test_two_steps_of_one_job_may_not_write_the_same_file_either() -> None:
    rig = Rig()
    same = (OutputSpec(pattern="/out/a.mov", kind="movie"),)
    with pytest.raises(JobFileError, match=r"step 'a' writes /out/a.mov too"):
        rig.submit(step("a", None, outputs=same), step("b", None, outputs=same))
    assert rig.core.farm.jobs == {}


def test_what_a_job_shows_is_the_first_that_applies() -> None:
    rig = Rig()
    rig.join(cores=1)
    rig.submit(step(frames="1-3"), step("film", None, after=("beauty",)))
    assert rig.job().shown() == "queued"
    lease = rig.lease()
    assert rig.job().shown() == "running"
    rig.fail(lease, "config")
    assert rig.job().shown() == "queued"
    rig.act("cancel", "J1/beauty/2-3")
    assert rig.job().shown() == "failed"
    rig.act("cancel", "J1/beauty/1")
    assert rig.job().shown() == "blocked"
    rig.act("cancel", "J1")
    assert rig.job().shown() == "canceled"
    rig.act("pause", "J1")
    assert rig.job().shown() == "canceled", "a job at rest cannot be paused"


def test_a_jobs_end_is_told_once_and_so_is_its_going_on() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    rig.done(rig.lease())
    assert "1 done, 0 failed, 0 skipped, 0 canceled" in rig.told()
    rig.wait(1, 1)
    assert rig.told() == []
    ended_us = rig.job().ended_us
    rig.restart()
    assert rig.job().ended_us == ended_us
    rig.act("retry", "J1/beauty/1")
    assert "has work again" in rig.told()


def test_a_jobs_end_is_when_its_last_unit_moved_not_when_a_stopped_attempt_closed() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames="1"))
    lease = rig.lease()
    rig.act("cancel", "J1")
    ended_us = rig.now_us
    rig.wait(10, node)
    rig.report(lease, closed=True)
    assert rig.job().ended_us == ended_us
    rig.restart()
    assert rig.job().ended_us == ended_us
