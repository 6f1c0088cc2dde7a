"""Waiting by frame, for other jobs, for one's own earlier frames; what a failure means for what waits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from farm.core.outcome import LeaseCommand, StopCommand
from farm.core.rows import BulkRow
from farm.model.errors import JobFileError
from farm.model.jobs import AfterSpec
from farm.model.states import UnitState
from tests.support.core_rig import Rig, step


def by_frame(name: str = "beauty", offset: int = 0, **fields: Any) -> AfterSpec:
    return AfterSpec(step=name, frames=True, offset=offset, **fields)


def farm_of(*steps: Any, cores: int = 1, **job: Any) -> Rig:
    rig = Rig()
    rig.join(cores=cores)
    rig.submit(*steps, **job)
    return rig


def pair(frames: str = "1-4", other: str = "1-4", cores: int = 8, **fields: Any) -> Rig:
    """beauty -> comp, frame by frame."""
    return farm_of(step(frames=frames), step("comp", other, after=(by_frame(**fields),)), cores=cores)


def both(rig: Rig) -> str:
    return f"{rig.states('J1/beauty')} {rig.states('J1/comp')}"


def of(leases: list[LeaseCommand], unit: int, name: str = "beauty") -> LeaseCommand:
    return next(lease for lease in leases if lease.units == (unit,) and lease.step.spec.name == name)


def finish(rig: Rig) -> list[str]:
    """Renders all that can be; returns what was leased, in order."""
    told = []
    while leases := rig.dispatch():
        for lease in leases:
            told += [f"{lease.step.spec.name}{lease.step.frame_of(unit) or ''}" for unit in lease.units]
            rig.done(lease)
    return told


def reasons(rig: Rig) -> list[str]:
    return [row.reason for row in rig.out.rows if isinstance(row, BulkRow)]


# ---------------------------------------------------------------- frame by frame


def test_each_frame_goes_as_soon_as_its_own_input_is_done() -> None:
    rig = pair()
    leases = rig.dispatch()
    assert both(rig) == "RRRR BBBB"
    rig.done(of(leases, 2))
    assert both(rig) == "RRDR BBQB"
    assert reasons(rig) == ["frame 3 of J1/beauty is done"]
    rig.done(of(leases, 0))
    assert both(rig) == "DRDR QBQB"


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, "BQBB"), (1, "QBBQ"), (-1, "QBQB"), (9, "QQQQ"), (-9, "QQQQ")]
)
def test_an_offset_is_added_to_the_frame_number_and_no_such_frame_is_not_waited_for(
    offset: int, expected: str
) -> None:
    rig = pair(offset=offset)
    leases = rig.dispatch()
    for lease in leases:
        if lease.step.spec.name == "comp":
            rig.release(lease)
    rig.done(of(leases, 1))
    assert rig.states("J1/comp") == expected


def test_frames_are_matched_by_number_not_by_place() -> None:
    rig = pair("9-1x2", "1-9", cores=9)
    leases = rig.dispatch()
    assert rig.states("J1/comp") == "BRBRBRBRB", "even frames have no input to wait for"
    rig.done(of(leases, 0))
    assert rig.states("J1/comp")[8] == "Q", "frame 9 is beauty's first unit and comp's last"


def test_a_frame_waits_for_all_it_needs() -> None:
    rig = farm_of(
        step(frames="1-2"),
        step("mask", "1-2"),
        step("plate", None),
        step("comp", "1-2", after=("plate", by_frame(), by_frame("mask"))),
        cores=8,
    )
    leases = rig.dispatch()
    rig.done(of(leases, 0))
    rig.done(of(leases, 0, "mask"))
    rig.done(of(leases, 1, "mask"))
    assert rig.states("J1/comp") == "BB"
    rig.done(of(leases, 0, "plate"))
    assert rig.states("J1/comp") == "QB"
    assert reasons(rig) == ["J1/plate is finished"]


def test_results_reported_together_free_their_dependants_in_one_row() -> None:
    rig = farm_of(step(frames="1-4", chunk=4), step("comp", "1-4", after=(by_frame(),)))
    rig.done(rig.lease())
    assert [row.units for row in rig.out.rows if isinstance(row, BulkRow)] == ["*"]
    assert reasons(rig) == ["frames 1-4 of J1/beauty are done"]


def test_a_late_fix_sends_back_only_the_frames_made_of_it_and_the_movie_is_made_again() -> None:
    rig = farm_of(
        step(frames="1-4"),
        step("comp", "1-4", after=(by_frame(),)),
        step("film", None, after=("comp",)),
        cores=8,
    )
    finish(rig)
    rig.act("retry", "J1/beauty/2")
    assert both(rig) == "DQDD DBDD"
    assert rig.states("J1/film") == "B"
    assert "waits for frame 2 of J1/beauty, rendered again" in reasons(rig)
    assert finish(rig) == ["beauty2", "comp2", "film"]


def test_a_frame_that_is_being_made_of_an_old_input_is_stopped_the_others_go_on() -> None:
    rig = pair(cores=4)
    for lease in rig.dispatch():
        rig.done(lease)
    running = rig.dispatch()
    rig.act("retry", "J1/beauty/3")
    assert both(rig) == "DDQD RRBR"
    (stop,) = rig.commands(StopCommand)
    assert stop.attempt == of(running, 2, "comp").attempt


def test_retry_of_frames_lands_in_blocked_where_their_input_is_missing() -> None:
    rig = pair()
    leases = rig.dispatch()
    rig.done(of(leases, 0))
    rig.act("cancel", "J1/comp")
    rig.act("retry", "J1/comp")
    assert rig.states("J1/comp") == "QBBB"


def test_existing_frames_are_looked_at_once_and_the_others_wait_for_their_input() -> None:
    rig = farm_of(
        step(frames="1-3"), step("comp", "1-3", out=True, existing="skip", after=(by_frame(),)), cores=8
    )
    leases = rig.dispatch()
    look = next(lease for lease in leases if lease.step.spec.name == "comp")
    assert look.units == (0, 1, 2)
    rig.done(of(leases, 1))
    assert rig.states("J1/comp") == "BBB", "its file is being looked at"
    rig.done(look, 0, closed=False)
    rig.fail(look, "output", 1, 2)
    assert rig.states("J1/comp") == "DQB"
    rig.done(of(leases, 2))
    assert rig.states("J1/comp") == "DQQ"


# ---------------------------------------------------------------- its own earlier frames


def chain(frames: str = "1-5", cores: int = 8, **fields: Any) -> Rig:
    return farm_of(step("sim", frames, after=(by_frame("sim", -1, **fields),)), cores=cores)


def test_a_simulation_goes_frame_after_frame() -> None:
    rig = chain()
    assert rig.states("J1/sim") == "QBBBB"
    assert finish(rig) == ["sim1", "sim2", "sim3", "sim4", "sim5"]


def test_a_simulations_frame_rendered_again_takes_all_later_ones_with_it_in_one_row_a_state() -> None:
    rig = chain("1-9")
    finish(rig)
    rig.act("retry", "J1/sim/4")
    assert rig.states("J1/sim") == "DDDQBBBBB"
    assert len([row for row in rig.out.rows if isinstance(row, BulkRow)]) == 2
    assert finish(rig) == [f"sim{frame}" for frame in range(4, 10)]


def test_a_simulation_can_be_given_up_behind_a_failure() -> None:
    rig = chain(on_failure="cancel")
    rig.done(rig.lease())
    rig.fail(rig.lease(), "config")
    assert rig.states("J1/sim") == "DFCCC"
    assert reasons(rig) == ["frame 2 of J1/sim failed"]
    assert rig.job().open_units == 0


def test_a_chain_of_a_hundred_thousand_frames_costs_a_result_what_a_chain_of_ten_does() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step("sim", "1-100000", after=(by_frame("sim", -1),)))
    core = rig.core
    rows = 0
    started = time.process_time()
    from farm.core.events import DispatchEvent, ReportEvent
    from farm.model.reports import DONE, UnitReport

    for number in range(500):
        (lease,) = core.handle(DispatchEvent(rig.now_us, number)).commands
        unit = UnitReport(lease.units[0], DONE, "", "", 1_000_000)
        out = core.handle(ReportEvent(rig.now_us, node, lease.attempt, lease.nonce, (unit,), True, ()))
        rows += len(out.rows)
    assert rows == 1000, "a result and a move a frame"
    assert core.farm.jobs[1].steps[0].counts[UnitState.DONE] == 500
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    ("need", "words"),
    [
        (AfterSpec(step="beauty"), "waits for itself"),
        (AfterSpec(step="beauty", frames=True), "waits for itself"),
        (AfterSpec(step="beauty", frames=True, offset=1), "waits for itself"),
        (AfterSpec(step="later"), "comes later"),
        (AfterSpec(step="nothing"), "does not exist"),
        (AfterSpec(), "neither a step nor a job"),
        (AfterSpec(job="J1/beauty"), "is not a job"),
        (AfterSpec(job="12"), "is not a job"),
        (AfterSpec(job="J0"), "is not a job"),
        (AfterSpec(job="J1", step="two words"), "is not a step name"),
        (AfterSpec(job="J1", offset=2), "an offset goes with frames"),
        (AfterSpec(step="film", frames=True), "has no frames"),
        (AfterSpec(step="film"), "the same as after[0]"),
    ],
)
def test_what_no_step_can_wait_for_is_refused_by_name(need: AfterSpec, words: str) -> None:
    after = ("film", need) if "same" in words else (need,)
    with pytest.raises(JobFileError, match=r"steps\[1\]\.after\[\d\].*") as caught:
        Rig().submit(step("film", None), step("beauty", "1-4", after=after), step("later", "1"))
    assert words in str(caught.value)


def test_a_single_step_has_no_frames_to_wait_by() -> None:
    with pytest.raises(JobFileError, match="no frames to wait frame by frame"):
        Rig().submit(step(), step("film", None, after=(by_frame(),)))


@pytest.mark.parametrize("order", ["", "backwards", "coarse:1", "coarse:", "coarse:x", "Forward", "coarse:N"])
def test_orders_that_do_not_exist_are_refused_naming_those_that_do(order: str) -> None:
    with pytest.raises(JobFileError) as caught:
        Rig().submit(step(order=order))
    assert caught.value.path == "steps[0].order"
    assert "first-last-middle" in caught.value.hint


# ---------------------------------------------------------------- other jobs


def two_jobs(**fields: Any) -> Rig:
    rig = farm_of(step(frames="1-2"), step("film", None, after=("beauty",)), cores=8)
    rig.submit(step("comp", "1-2", after=(AfterSpec(job="J1", **fields),)))
    return rig


def test_a_job_waits_for_all_of_another_job() -> None:
    rig = two_jobs()
    assert rig.states("J2/comp") == "BB"
    one, two = rig.dispatch()
    rig.done(one)
    rig.done(two)
    assert rig.states("J2/comp") == "BB", "its film is not done yet"
    rig.done(rig.lease())
    assert rig.states("J2/comp") == "QQ"


def test_a_job_waits_for_one_step_of_another_job_frame_by_frame_and_over_a_restart() -> None:
    rig = two_jobs(step="beauty", frames=True)
    leases = rig.dispatch()
    rig.checkpoint()
    rig.done(of(leases, 1))
    assert rig.states("J2/comp") == "BQ"
    rig.restart()
    rig.join(cores=8, running=[lease.attempt for lease in leases])
    rig.done(of(leases, 0))
    assert rig.states("J2/comp") == "QQ"
    rig.act("retry", "J1/beauty/2")
    assert rig.states("J2/comp") == "QB"


def test_a_job_that_comes_after_the_other_is_done_starts_at_once() -> None:
    rig = farm_of(step(frames="1-2"), cores=8)
    finish(rig)
    rig.submit(step("comp", "1-3", after=(AfterSpec(job="j1", step="beauty", frames=True),)))
    assert rig.states("J2/comp") == "QQQ"


@pytest.mark.parametrize(
    ("need", "words"),
    [
        (AfterSpec(job="J7"), "steps[0].after[0].job: there is no job J7"),
        (AfterSpec(job="J1", step="comp"), "steps[0].after[0].step: J1 has no step 'comp'"),
        (AfterSpec(job="J1", frames=True), "steps[0].after[0].frames: J1/film has no frames"),
        (AfterSpec(job="J1", step="film", frames=True), "J1/film has no frames"),
    ],
)
def test_jobs_and_steps_that_are_not_there_are_refused_at_submit(need: AfterSpec, words: str) -> None:
    rig = farm_of(step(frames="1-2"), step("film", None))
    with pytest.raises(JobFileError) as caught:
        rig.submit(step("comp", "1-2", after=(need,)))
    assert words in str(caught.value)
    assert list(rig.core.farm.jobs) == [1]


def test_an_archived_job_is_not_waited_for() -> None:
    rig = farm_of(step(frames="1"))
    finish(rig)
    rig.act("archive", "J1")
    with pytest.raises(JobFileError, match="J1 is archived"):
        rig.submit(step("comp", "1", after=(AfterSpec(job="J1"),)))


# ---------------------------------------------------------------- failure


@pytest.mark.parametrize(
    ("policy", "expected"), [("wait", "BQ"), ("go", "QQ"), ("skip", "SQ"), ("cancel", "CQ")]
)
@pytest.mark.parametrize("how", ["fail", "cancel"])
def test_what_a_lost_frame_means_for_the_frame_that_waits_for_it(
    policy: Any, expected: str, how: str
) -> None:
    rig = pair("1-2", "1-2", on_failure=policy)
    leases = rig.dispatch()
    if how == "fail":
        rig.fail(of(leases, 0), "config")
    else:
        rig.act("cancel", "J1/beauty/1")
    said = reasons(rig)
    rig.done(of(leases, 1))
    assert rig.states("J1/comp") == expected
    if policy != "wait":
        assert said[-1] == f"frame 1 of J1/beauty {'failed' if how == 'fail' else 'was canceled'}"


@pytest.mark.parametrize(("policy", "expected"), [("wait", "B"), ("go", "Q"), ("skip", "S"), ("cancel", "C")])
def test_what_a_lost_frame_means_for_a_step_that_waits_for_the_whole(policy: Any, expected: str) -> None:
    rig = farm_of(
        step(frames="1-2"), step("film", None, after=(AfterSpec(step="beauty", on_failure=policy),)), cores=8
    )
    one, two = rig.dispatch()
    rig.fail(one, "config")
    assert rig.states("J1/film") == {"go": "B", "wait": "B", "skip": "S", "cancel": "C"}[policy]
    if policy in ("skip", "cancel"):
        assert reasons(rig)[-1] == "frame 1 of J1/beauty failed"
    rig.done(two)
    assert rig.states("J1/film") == expected


def test_what_went_on_without_a_failed_frame_waits_again_when_that_is_retried() -> None:
    rig = pair("1-2", "1-2", on_failure="go")
    leases = rig.dispatch()
    rig.fail(of(leases, 0), "config")
    rig.done(of(leases, 1))
    finish(rig)
    assert both(rig) == "FD DD"
    rig.act("retry", "J1/beauty/1")
    assert both(rig) == "QD BD"


def test_what_was_given_up_comes_back_only_when_asked_for_and_once_there_is_hope() -> None:
    rig = pair("1-2", "1-2", on_failure="cancel")
    leases = rig.dispatch()
    rig.fail(of(leases, 0), "config")
    rig.act("retry", "J1/comp/1")
    assert both(rig) == "FR CB", "its input has still failed"
    rig.act("retry", "J1/beauty/1")
    assert both(rig) == "QR CB"
    rig.act("retry", "J1/comp/1")
    assert both(rig) == "QR BB"
    assert finish(rig) == ["beauty1", "comp1"]


def test_cancellation_runs_down_a_line_of_steps() -> None:
    rig = farm_of(
        step(frames="1-2"),
        step("comp", "1-2", after=(by_frame(on_failure="cancel"),)),
        step("grade", "1-2", after=(by_frame("comp", on_failure="skip"),)),
        step("film", None, after=("grade",)),
        cores=8,
    )
    leases = rig.dispatch()
    rig.fail(of(leases, 1), "config")
    assert [rig.states(f"J1/{name}") for name in ("comp", "grade", "film")] == ["BC", "BS", "B"]
    rig.done(of(leases, 0))
    finish(rig)
    assert [rig.states(f"J1/{name}") for name in ("comp", "grade", "film")] == ["DC", "DS", "D"]


# ---------------------------------------------------------------- frames that come and go


def edit(rig: Rig, address: str, frames: str) -> None:
    rig.act("set", address, f'{{"frames": "{frames}"}}')


def test_a_frame_that_is_not_wanted_any_more_is_not_waited_for() -> None:
    rig = pair("1-3", "1-3")
    leases = rig.dispatch()
    edit(rig, "J1/beauty", "1-2")
    assert rig.states("J1/comp") == "BBQ"
    rig.done(of(leases, 0))
    assert rig.states("J1/comp") == "QBQ"
    rig.restart()
    assert rig.states("J1/comp") == "QBQ"


def test_a_frame_that_is_added_is_waited_for_even_by_what_is_done() -> None:
    rig = pair("1-2", "1-3")
    finish(rig)
    assert rig.states("J1/comp") == "DDD"
    edit(rig, "J1/beauty", "1-3")
    assert both(rig) == "DDQ DDB"
    edit(rig, "J1/comp", "1-4")
    assert rig.states("J1/comp") == "DDBQ"
    assert finish(rig) == ["beauty3", "comp4", "comp3"]
