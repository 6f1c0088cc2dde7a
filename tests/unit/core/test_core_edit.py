"""Changing a job that is on the farm: what is refused whole, what happens to frames, and the clock."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farm.core import invariants
from farm.core.outcome import StopCommand
from farm.core.rows import BulkRow, JobStateRow, StepEditRow
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.jobs import AfterSpec, OutputSpec
from farm.model.moment import read_moment
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step

MINUTE_US = 60_000_000


def edit(rig: Rig, address: str, *, force: bool = False, **values: Any) -> Any:
    """Sets fields; a dot in a key is written as two underscores."""
    keys = {key.replace("__", "."): value for key, value in values.items()}
    return rig.act("set", address, msgspec.json.encode(keys).decode(), force=force)


def farm(frames: str = "1-4", *, nodes: int = 1, **fields: Any) -> Rig:
    rig = Rig()
    for number in range(nodes):
        rig.join(f"n{number}")
    rig.submit(step(frames=frames, **fields))
    return rig


def finish(rig: Rig) -> None:
    """Renders everything that is left, one frame at a time."""
    while leases := rig.dispatch():
        for lease in leases:
            rig.done(lease)


# ---------------------------------------------------------------- refused whole


@pytest.mark.parametrize(
    ("address", "values", "error", "words"),
    [
        ("J1/beauty", {"speed": 1}, UnknownName, "'speed' cannot be set"),
        ("J1", {"speed": 1}, UnknownName, "'speed' cannot be set"),
        ("J1/beauty", {"resources.nvlink": "require"}, UnknownName, "resources.nvlink"),
        ("J1/beauty", {"resources.": 1}, UnknownName, "cannot be set"),
        ("J1/beauty", {"limits.": 1}, UnknownName, "cannot be set"),
        ("J1/beauty", {"priority": 1}, CallError, "of the whole job"),
        ("J1/comp", {"chunk": 1}, UnknownName, "no step"),
        ("J1/beauty/2", {"chunk": 1}, CallError, "frames have no settings"),
        ("J1/beauty", {}, CallError, "nothing is to be set"),
        ("J1", {"priority": 101}, CallError, "0 to 100"),
        ("J1", {"priority": "high"}, CallError, "0 to 100"),
        ("J1", {"priority": "\u0663"}, CallError, "0 to 100"),
        ("J1/beauty", {"resources.gpus": 4}, CallError, "no node can take it: asks for 4 GPUs"),
        ("J1/beauty", {"pools": "nope"}, CallError, "no node can take it: nearest is n0"),
        ("J1", {"priority": True}, CallError, "0 to 100"),
        ("J1", {"name": ""}, CallError, "1 to 255"),
        ("J1", {"max_cores": -1}, CallError, "max_cores"),
        ("J1", {"start_after": "tomorrow"}, CallError, "not a moment"),
        ("J1", {"start_after": "2030-01-31T18:00:00"}, CallError, "time zone"),
        ("J1/beauty", {"frames": "1-"}, CallError, "frames"),
        ("J1/beauty", {"chunk": 0}, CallError, "chunk"),
        ("J1/beauty", {"chunk": "some"}, CallError, "chunk"),
        ("J1/beauty", {"resources.cores": 0}, CallError, "core"),
        ("J1/beauty", {"resources.ram_mib": "lots"}, CallError, "ram_mib"),
        ("J1/beauty", {"limits": "nuke"}, CallError, "NAME=VALUE"),
        ("J1/beauty", {"limits.nuke": 1}, CallError, "no limit 'nuke'"),
        ("J1/beauty", {"version": ">=4"}, CallError, "no application"),
        ("J1/beauty", {"attempts": 101}, CallError, "attempts"),
        ("J1/beauty", {"failure.silent_x": -1}, CallError, "silent_x"),
        ("J1/beauty", {"timeout_s": "long"}, CallError, "timeout_s"),
    ],
)
def test_a_wrong_value_is_refused_and_leaves_no_trace(
    address: str, values: dict[str, Any], error: type[Exception], words: str
) -> None:
    rig = farm(nodes=2)
    rig.dispatch()
    before, seq = invariants.digest(rig.core.farm), rig.core.farm.seq
    # A right one beside the wrong one: a set is applied whole or not at all.
    mixed = {"site": "", **values} if values and address != "J1" else values
    text = msgspec.json.encode(mixed).decode()
    with pytest.raises(error, match=words):
        rig.act("set", address, text)
    assert invariants.digest(rig.core.farm) == before
    assert rig.core.farm.seq == seq


def test_what_is_no_object_is_refused() -> None:
    rig = farm()
    for text in ("", "[1]", "chunk=1", "[" * 100_000):
        with pytest.raises(CallError):
            rig.act("set", "J1", text)


def test_a_right_value_beside_a_wrong_one_is_not_set() -> None:
    rig = farm()
    with pytest.raises(CallError):
        edit(rig, "J1", priority=70, max_cores="many")
    with pytest.raises(CallError):
        edit(rig, "J1", name="new name", chunk=0)
    assert rig.job().priority == 50
    assert rig.job().spec.name == "job"


def test_the_refusal_lists_what_can_be_set() -> None:
    rig = farm()
    with pytest.raises(UnknownName) as caught:
        edit(rig, "J1/beauty", frame="1-4")
    for name in ("frames", "resources.ram_mib", "failure.min_run_s", "start_after", "limits", "pools"):
        assert name in caught.value.hint


def test_a_field_of_a_step_needs_the_step_when_there_are_several() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("a"), step("b"))
    with pytest.raises(CallError, match="of a step") as caught:
        edit(rig, "J1", chunk=2)
    assert "J1/a or J1/b" in caught.value.hint


# ---------------------------------------------------------------- fields


def test_fields_of_a_job_are_stored_one_by_one_and_its_job_file_follows() -> None:
    rig = farm()
    reply = edit(rig, "J1", name="shot 9", project="film", priority="70", max_cores=8)
    rows = [row for row in rig.out.rows if isinstance(row, JobStateRow)]
    assert [(row.what, row.old, row.new, row.who) for row in rows] == [
        ("name", "job", "shot 9", "ann"),
        ("project", "", "film", "ann"),
        ("priority", "50", "70", "ann"),
        ("max_cores", "0", "8", "ann"),
    ]
    assert reply.changed == 4
    assert "name is shot 9 (was job)" in reply.message
    source = msgspec.json.decode(rig.job().source)
    assert (source["name"], source["project"], source["priority"], source["max_cores"]) == (
        "shot 9",
        "film",
        70,
        8,
    )
    rig.restart()
    assert rig.job().spec.name == "shot 9"


def test_setting_what_is_so_already_stores_nothing() -> None:
    rig = farm()
    assert edit(rig, "J1", name="job", priority=50).changed == 0
    assert not rig.out.rows
    assert edit(rig, "J1/beauty", frames="1-4", chunk=1).changed == 0
    assert not rig.out.rows


def test_text_is_read_as_what_the_field_is() -> None:
    rig = farm()
    rig.join("big", 8, pool="film", attributes={"os": "linux", "rack": "r2"}, vram=(8_000,))
    edit(
        rig,
        "J1/beauty",
        force=True,  # no node has such a card
        chunk="3",
        resources__cores="2",
        resources__tokens="card=1",
        pools="film, anim",
        attributes="rack=r2",
        timeout_s="90.5",
        attempts="5",
        failure__min_run_s="2",
        site="local",
        order="reverse",
    )
    spec = rig.step("J1/beauty").spec
    assert (spec.chunk, spec.pools, spec.attributes) == (3, ("film", "anim"), {"rack": "r2"})
    assert spec.resources == Resources(cores=2, tokens={"card": 1})
    assert (spec.timeout_s, spec.attempts, spec.failure.min_run_s) == (90.5, 5, 2.0)
    edit(rig, "J1/beauty", resources__tokens__card="", attributes__rack="", pools="", chunk="auto")
    spec = rig.step("J1/beauty").spec
    assert (spec.resources.tokens, spec.attributes, spec.pools, spec.chunk) == ({}, {}, (), "auto")
    rig.restart()
    assert rig.step("J1/beauty").spec == spec


def test_new_needs_count_from_the_next_lease_on() -> None:
    rig = farm("1-6", nodes=0)
    rig.join("small", 1)
    first = rig.lease()
    edit(rig, "J1/beauty", resources__cores=4, force=True)
    attempt = rig.core.farm.attempts[first.attempt]
    assert attempt.cores == 1
    rig.done(first)
    assert not rig.dispatch(), "the small node is not able any more"
    big = rig.join("big", 8)
    leases = rig.dispatch()
    assert [(lease.node_id, lease.resources.cores) for lease in leases] == [(big, 4), (big, 4)]
    edit(rig, "J1/beauty", resources__cores=1)
    assert len(rig.dispatch()) == 1, "the small node takes it again"
    rig.restart()
    rig.done(leases[0])


def test_a_step_moved_to_another_pool_is_not_leased_where_it_was() -> None:
    rig = Rig()
    rig.join("a", pool="a")
    b = rig.join("b", pool="b")
    rig.submit(step(pools=("a",)))
    edit(rig, "J1/beauty", pools="b")
    assert [lease.node_id for lease in rig.dispatch()] == [b]
    edit(rig, "J1/beauty", pools="nowhere", force=True)
    edit(rig, "J1/beauty", pools="b")
    edit(rig, "J1/beauty", pools="")
    assert len(rig.dispatch()) == 1
    rig.restart()


def test_a_cap_below_what_a_step_asks_is_refused() -> None:
    rig = Rig()
    rig.join("big", 8)
    rig.submit(step(resources=Resources(cores=4)))
    with pytest.raises(CallError, match="4 cores J1/beauty asks for"):
        edit(rig, "J1", max_cores=2)
    edit(rig, "J1", max_cores=4)
    with pytest.raises(CallError, match="max_cores of the job is 4"):
        edit(rig, "J1/beauty", resources__cores=5)
    edit(rig, "J1", max_cores=8, resources__cores=8)
    assert rig.step("J1/beauty").resources.cores == 8


# ---------------------------------------------------------------- frames


def test_added_frames_come_after_the_old_ones_whatever_their_number() -> None:
    rig = farm("3-4", nodes=2)
    one, _ = rig.dispatch()
    rig.done(one)
    edit(rig, "J1/beauty", frames="1-5")
    beauty = rig.step("J1/beauty")
    assert str(beauty.frames) == "3-4,1-2,5"
    assert rig.states() == "DRQQQ"
    assert beauty.spec.frames == "1-5"
    rig.restart()
    assert rig.states() == "DRQQQ"
    finish(rig)


def test_frames_no_longer_wanted_are_canceled_and_running_ones_stopped() -> None:
    rig = farm("1-6", nodes=2)
    one, _two = rig.dispatch()
    rig.done(one)
    rig.dispatch()
    assert rig.states() == "DRRQQQ"
    edit(rig, "J1/beauty", frames="1,2,6")
    assert rig.states() == "DRCCCQ"
    (stop,) = rig.commands(StopCommand)
    assert stop.units == ()
    reasons = {row.reason for row in rig.out.rows if isinstance(row, BulkRow)}
    assert reasons == {"frames are 1,2,6 now, says ann"}
    rig.restart()
    assert rig.step("J1/beauty").left_out == 3


def test_a_job_that_was_made_shorter_ends_as_done_and_what_waits_for_it_goes_on() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-4"), step("film", None, after=("beauty",)))
    rig.done(rig.lease())
    edit(rig, "J1/beauty", frames="1-2")
    assert (rig.states(), rig.states("J1/film")) == ("DQCC", "B")
    rig.done(rig.lease())
    assert rig.states("J1/film") == "Q"
    assert rig.step("J1/beauty").shown().value == "done"
    rig.restart()
    rig.join()
    rig.done(rig.lease())
    assert rig.job().shown().value == "done"
    # Nobody wants the rest: it does not come back with the others.
    rig.act("retry", "J1/beauty/1-2")
    assert (rig.states(), rig.states("J1/film")) == ("QQCC", "B")
    with pytest.raises(UnknownName, match="not wanted any more"):
        rig.act("retry", "J1/beauty/3")
    finish(rig)
    with pytest.raises(IllegalMove):
        rig.act("retry", "J1/beauty")


def test_making_a_step_shorter_than_what_is_done_ends_it_at_once() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-3"), step("film", None, after=("beauty",)))
    rig.done(rig.lease())
    edit(rig, "J1/beauty", frames="1")
    assert (rig.states(), rig.states("J1/film")) == ("DCC", "Q")


def test_done_frames_that_are_not_wanted_are_not_rendered_again() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("plate", "1-2"), step(frames="1-3", after=("plate",)))
    finish(rig)
    assert rig.states() == "DDD"
    edit(rig, "J1/beauty", frames="1-2")
    assert (rig.states(), rig.step("J1/beauty").left_out) == ("DDD", 0)
    rig.act("retry", "J1/plate/1")
    assert rig.states() == "BBD", "frame 3 is not wanted, so its input does not matter"
    finish(rig)
    assert rig.job().shown().value == "done"
    rig.restart()


def test_frames_taken_back_are_queued_again_with_a_fresh_start() -> None:
    rig = farm("1-4", attempts=1)
    rig.fail(rig.lease(), "renderer")
    assert rig.states() == "FQQQ"
    edit(rig, "J1/beauty", frames="2-4")
    assert rig.states() == "CQQQ"
    edit(rig, "J1/beauty", frames="1-2")
    assert rig.states() == "QQCC"
    rig.fail(rig.lease(), "renderer")
    assert rig.states() == "FQCC", "its one attempt was given back to it"
    rig.restart()


def test_frames_a_user_canceled_stay_canceled() -> None:
    rig = farm("1-4")
    rig.act("cancel", "J1/beauty/2")
    edit(rig, "J1/beauty", frames="1-6")
    assert rig.states() == "QCQQQQ"


def test_added_frames_wait_for_what_the_step_waits_for() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("plate", "1"), step(frames="1-2", after=("plate",)))
    edit(rig, "J1/beauty", frames="1-3")
    assert rig.states() == "BBB"
    rig.done(rig.lease())
    assert rig.states() == "QQQ"


def test_a_finished_job_comes_back_with_the_frames_that_are_added() -> None:
    rig = farm("1")
    rig.done(rig.lease())
    assert rig.job().ended_us
    rig.now_us += MINUTE_US
    edit(rig, "J1/beauty", frames="1-2")
    assert (rig.job().ended_us, rig.job().shown().value) == (0, "queued")
    assert "has work again" in rig.told()
    rig.done(rig.lease())
    assert rig.job().ended_us == rig.now_us


def test_existing_files_of_added_frames_are_looked_at_first() -> None:
    rig = farm("1-2", out=True, existing="skip")
    look = rig.lease()
    rig.done(look)
    assert rig.states() == "DD"
    edit(rig, "J1/beauty", frames="1-3")
    assert rig.states() == "DDB"
    look = rig.lease()
    assert look.units == (2,)
    rig.fail(look, "output")
    assert rig.states() == "DDQ"
    rig.restart()
    finish(rig)


def test_added_frames_may_not_be_written_by_another_job() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-4", out=True))
    rig.submit(step(frames="5-8", out=True))
    before = invariants.digest(rig.core.farm)
    with pytest.raises(IllegalMove, match="J2/beauty is writing"):
        edit(rig, "J1/beauty", frames="1-5")
    assert invariants.digest(rig.core.farm) == before
    edit(rig, "J2/beauty", frames="6-8")
    edit(rig, "J1/beauty", frames="1-5")
    assert rig.states() == "QQQQQ"


def test_one_file_cannot_hold_several_frames() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="7", outputs=(OutputSpec(pattern="/out/still.exr"),)))
    with pytest.raises(CallError, match="all 2 frames would write /out/still"):
        edit(rig, "J1/beauty", frames="7-8")
    edit(rig, "J1/beauty", frames="8")
    assert rig.states() == "CQ"


def test_a_single_step_has_no_frames_to_set() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("film", None))
    with pytest.raises(CallError, match="without frames"):
        edit(rig, "J1/film", frames="1-2")


def test_the_same_rows_again_give_the_same_state() -> None:
    rig = farm("1-4", nodes=2)
    rig.done(rig.dispatch()[0])
    edit(rig, "J1/beauty", frames="2-6")
    edit(rig, "J1/beauty", frames="9,1-2", resources__ram_mib=100)
    rig.checkpoint()
    edit(rig, "J1/beauty", frames="1-10")
    state = rig.states()
    rig.restart()
    assert rig.states() == state
    assert str(rig.step("J1/beauty").frames) == "1-6,9,7-8,10"
    from farm.core.apply import apply_step_edit

    rows = [row for row in rig.out.rows if isinstance(row, StepEditRow)]
    before = invariants.digest(rig.core.farm)
    for row in rows:
        apply_step_edit(rig.core.farm, row)
    assert invariants.digest(rig.core.farm) == before


# ---------------------------------------------------------------- start later

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


# ---------------------------------------------------------------- scout frames and approval


def test_scout_frames_are_spread_and_nothing_else_is_leased() -> None:
    rig = Rig()
    for number in range(5):
        rig.join(f"n{number}")
    rig.submit(step(frames="1-9"), scout=3)
    leases = rig.dispatch()
    assert [lease.units for lease in leases] == [(0,), (4,), (8,)]
    assert rig.states() == "RQQQRQQQR"


def test_the_job_waits_with_an_estimate_until_it_is_approved() -> None:
    rig = Rig()
    nodes = [rig.join(f"n{number}") for number in range(3)]
    rig.submit(step(frames="1-10"), scout=2)
    one, two = rig.dispatch()
    rig.wait(4, *nodes)
    rig.done(one, elapsed_s=2.0)
    assert not rig.job().paused
    rig.done(two, elapsed_s=4.0)
    job = rig.job()
    assert (job.shown().value, job.paused_by, job.scouting) == ("paused", "scout", False)
    for words in ("2 scout frames are done", "8 frames are left", "3.0 s a frame", "`farm resume J1`", "USD"):
        assert words in job.reason
    assert not rig.dispatch()
    rig.restart()
    for number in range(3):
        rig.join(f"n{number}")
    assert not rig.dispatch()
    rig.act("resume", "J1")
    assert len(rig.dispatch()) == 3
    finish(rig)


def test_a_scout_frame_that_fails_does_not_hold_up_the_verdict() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-9", attempts=1), scout=2)
    rig.fail(rig.lease(), "renderer")
    rig.done(rig.lease())
    assert rig.job().paused_by == "scout"
    assert "1 scout frames are done, 1 failed" in rig.job().reason


def test_a_scout_frame_is_tried_again_before_the_verdict() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-9"), scout=1)
    rig.fail(rig.lease(), "renderer")
    assert not rig.job().paused
    rig.done(rig.lease())
    assert rig.job().paused_by == "scout"


def test_a_job_of_nothing_but_scouts_is_not_held() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-3"), step("film", None, after=("beauty",)), scout=5)
    for _ in range(4):
        rig.done(rig.lease())
    assert rig.job().shown().value == "done"


def test_every_step_is_scouted_and_one_that_waits_is_not_waited_for() -> None:
    rig = Rig()
    for number in range(4):
        rig.join(f"n{number}")
    rig.submit(step("a", "1-5"), step("b", "1-5"), step("c", "1-5", after=("a",)), scout=2)
    leases = rig.dispatch()
    assert [(lease.step.spec.name, lease.units) for lease in leases] == [
        ("a", (0,)),
        ("a", (4,)),
        ("b", (0,)),
        ("b", (4,)),
    ]
    for lease in leases[:3]:
        rig.done(lease)
    assert not rig.job().paused
    rig.done(leases[3])
    assert rig.job().paused_by == "scout"


def test_a_pause_during_scouting_lasts_and_the_verdict_comes_after_it() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-5"), scout=1)
    lease = rig.lease()
    rig.act("pause", "J1")
    rig.done(lease)
    assert (rig.job().paused_by, rig.job().scouting) == ("ann", True)
    reply = rig.act("resume", "J1")
    assert rig.job().paused_by == "scout"
    assert "scout frames are done" in reply.message
    rig.restart()


def test_scouts_are_chosen_anew_when_frames_are_set() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-100"), scout=2)
    edit(rig, "J1/beauty", frames="11-20")
    assert rig.step("J1/beauty").scouts == (10, 19)
    rig.restart()
    assert rig.step("J1/beauty").scouts == (10, 19)


def test_scout_frames_that_wait_for_ever_do_not_hold_the_job_unasked() -> None:
    """The scout frame waits for a frame canceled elsewhere, while others could go: somebody is asked."""
    rig = Rig()
    rig.join("a", 4)
    rig.submit(step("sim", "1-5"))
    rig.act("cancel", "J1/sim/3")
    after = (AfterSpec(step="sim", job="J1", frames=True),)
    rig.submit(step("beauty", "1-5", after=after), scout=1, priority=40)
    for lease in rig.dispatch():
        rig.done(lease)
    rig.wait(1.0, 1)
    job = rig.job(2)
    assert (job.paused, job.paused_by) == (True, "scout")
    assert "0 scout frames are done" in job.reason
    rig.act("resume", "J2")
    assert len(rig.dispatch()) == 4


def test_scout_frames_that_wait_for_frames_on_their_way_are_waited_for() -> None:
    rig = Rig()
    rig.join("a", 1)
    rig.submit(step("sim", "1-5"))
    after = (AfterSpec(step="sim", job="J1", frames=True),)
    rig.submit(step("beauty", "1-5", after=after), scout=1, priority=90)
    seen = []
    for _ in range(4):
        lease = rig.lease()
        seen.append(f"{lease.step.spec.name} {lease.step.frame_of(lease.units[0])}")
        rig.done(lease)
    scout = rig.step("J2/beauty").frame_of(rig.step("J2/beauty").scouts[0])
    assert seen == [f"sim {frame}" for frame in range(1, scout + 1)] + [f"beauty {scout}"]
    assert rig.job(2).paused_by == "scout"


def test_what_no_node_can_take_is_set_by_force_and_the_answer_warns() -> None:
    rig = farm()
    with pytest.raises(CallError) as refused:
        edit(rig, "J1/beauty", pools="nope")
    assert "--force" in refused.value.hint
    answer = edit(rig, "J1/beauty", pools="nope", force=True)
    assert "warning: steps[0].pools: step 'beauty': no node can take it" in answer.message
    assert not rig.dispatch()
    # It is on its way: what does not lead to a node yet is no reason to refuse it, but is said.
    answer = edit(rig, "J1/beauty", chunk=2, site="local")
    assert "warning: " in answer.message
    answer = edit(rig, "J1/beauty", chunk=1)
    assert "warning: " not in answer.message, "it changes nothing about where it can run"
    answer = edit(rig, "J1/beauty", pools="")
    assert "warning: " not in answer.message
    assert rig.dispatch()


def test_a_farm_without_nodes_refuses_no_needs() -> None:
    rig = farm(nodes=0)
    assert "warning: " not in edit(rig, "J1/beauty", resources__gpus=4).message


def test_scout_frames_that_wait_for_ever_through_others_do_not_hold_the_job() -> None:
    rig = Rig()
    rig.join("a", 4)
    by_frame = {"frames": True}
    rig.submit(step("sim", "1-5"), step("fx", "1-5", after=(AfterSpec(step="sim", **by_frame),)))
    rig.act("cancel", "J1/sim/3")
    rig.submit(step("beauty", "1-5", after=(AfterSpec(step="fx", job="J1", **by_frame),)), scout=1)
    for _ in range(3):
        for lease in rig.dispatch():
            rig.done(lease)
    rig.wait(1.0, 1)
    assert rig.job(2).paused_by == "scout"
