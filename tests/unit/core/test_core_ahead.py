"""Run next and run last: of jobs among those of their user, steps among those of their job, and frames.

What it must not change: anybody's share, any priority, and what waits of others.
"""

from __future__ import annotations

import msgspec
import pytest

from farm.core import invariants
from farm.core.explain import why
from farm.core.rows import HistoryRow, JobRow, JobStateRow, StepEditRow
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.orders import RANK_MOST
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step


def jobs(*users: str, nodes: int = 1, frames: str = "1-2") -> Rig:
    """A job for each of these users, in order."""
    rig = Rig()
    for number in range(nodes):
        rig.join(f"n{number}")
    for user in users:
        rig.submit(step(frames=frames), user=user, project="film")
    return rig


def order(rig: Rig, count: int = 0) -> list[int]:
    """Numbers of the jobs whose frames are leased, one after the other."""
    found: list[int] = []
    while leases := rig.dispatch():
        for lease in leases:
            found.append(lease.step.job.id)
            rig.now_us += 1_000_000
            rig.done(lease)
        if count and len(found) >= count:
            break
    return found


def frames_of(rig: Rig, address: str = "J1/beauty") -> list[int]:
    """Frames of a step as they are leased, with whatever else is."""
    found: list[int] = []
    while leases := rig.dispatch():
        for lease in leases:
            if lease.step.address == address:
                found += [frame for frame in map(lease.step.frame_of, lease.units) if frame is not None]
            rig.done(lease)
    return found


# ---------------------------------------------------------------- jobs


def test_a_job_goes_before_the_others_of_its_user() -> None:
    rig = jobs("ann", "ann", "ann")
    answer = rig.act("next", "J3")
    assert answer.message == (
        "J3 goes before all others of ann's jobs in film at priority 50 (rank -1, had 0)"
    )
    assert order(rig) == [3, 3, 1, 1, 2, 2]


def test_a_job_goes_behind_the_others_of_its_user() -> None:
    rig = jobs("ann", "ann", "ann")
    rig.act("last", "J1")
    assert order(rig) == [2, 2, 3, 3, 1, 1]


def test_the_newest_wish_counts_most() -> None:
    rig = jobs("ann", "ann", "ann", "ann")
    rig.act("next", "J2")
    rig.act("next", "J3")
    rig.act("last", "J2")
    rig.act("last", "J4")
    assert [rig.job(number).rank for number in (1, 2, 3, 4)] == [0, 1, -2, 2]
    assert order(rig) == [3, 3, 1, 1, 2, 2, 4, 4]


def test_what_comes_later_goes_behind_what_is_next_and_before_what_is_last() -> None:
    rig = jobs("ann", "ann")
    rig.act("next", "J2")
    rig.act("last", "J1")
    rig.submit(step(), user="ann", project="film")
    assert list(dict.fromkeys(order(rig))) == [2, 3, 1]


def test_what_is_there_already_stays_and_says_so() -> None:
    rig = jobs("ann", "ann")
    rig.act("next", "J2")
    seq = rig.core.farm.seq
    answer = rig.act("next", "J2")
    assert (answer.changed, answer.message) == (
        0,
        "J2 goes before all others of ann's jobs in film at priority 50 already (rank -1)",
    )
    assert rig.core.farm.seq == seq


def test_only_jobs_of_the_same_user_project_and_priority_with_work_left_are_looked_at() -> None:
    rig = Rig()
    for fields in ({"user": "bob"}, {"project": "other"}, {"priority": 60}, {}, {}):
        rig.submit(step(), **{"user": "ann", "project": "film", **fields})
    for number in (1, 2, 3):
        rig.act("set", f"J{number}", '{"rank": -7}')
    rig.act("set", "J4", '{"rank": -9}')
    rig.act("cancel", "J4")
    rig.act("next", "J5")
    assert rig.job(5).rank == -1


def test_shares_between_users_do_not_change() -> None:
    rigs = [jobs(*(["ann", "bob"] * 3), frames="1-4") for _ in range(2)]
    for number in (5, 3):
        rigs[1].act("next", f"J{number}")
    turns = [[rig.job(number).user for number in order(rig)] for rig in rigs]
    assert turns[0] == turns[1], "whose turn it is stays as it was; only which of their jobs it is changes"
    accounts = [[*rig.core.farm.projects.values(), *rig.core.farm.users.values()] for rig in rigs]
    plain, changed = ([(one.name, one.level, one.used) for one in found] for found in accounts)
    assert plain == changed


def test_priority_stays_above_it() -> None:
    rig = jobs("ann", "ann")
    rig.act("priority", "J1", "60")
    rig.act("next", "J2")
    assert order(rig) == [1, 1, 2, 2]


def test_a_job_of_another_shape_goes_by_it_too() -> None:
    rig = Rig()
    rig.join("n0", 4)
    rig.submit(step(resources=Resources(cores=4)), user="ann")
    rig.submit(step(resources=Resources(cores=3)), user="ann")
    rig.act("next", "J2")
    assert order(rig, 1)[0] == 2


def test_back_at_a_priority_of_before_the_newest_rank_counts() -> None:
    rig = jobs("ann", "ann", "ann")
    rig.act("priority", "J3", "60")
    rig.act("next", "J3")
    rig.act("priority", "J3", "50")
    assert order(rig) == [3, 3, 1, 1, 2, 2]
    rig = jobs("ann", "ann", "ann")
    rig.act("next", "J2")
    rig.act("priority", "J2", "40")
    rig.act("last", "J2")
    rig.act("priority", "J2", "50")
    assert order(rig) == [1, 1, 3, 3, 2, 2], "its place of before is still in the heap, and does not count"


def test_a_cap_of_the_user_does_not_forget_it() -> None:
    rig = Rig()
    rig.join("n0", 4)
    rig.core.farm.policy = msgspec.structs.replace(rig.core.farm.policy, user_max_cores={"ann": 1})
    for _ in range(3):
        rig.submit(step(frames="1-2"), user="ann")
    leases = rig.dispatch()
    assert [lease.step.job.id for lease in leases] == [1]
    rig.act("next", "J3")
    rig.done(leases[0])
    assert rig.lease().step.job.id == 3


def test_undo_is_to_set_the_rank_of_before() -> None:
    rig = jobs("ann", "ann")
    before = invariants.digest(rig.core.farm)
    rig.act("next", "J2")
    answer = rig.act("set", "J2", '{"rank": "0"}')
    assert answer.message == "J2: rank is 0 (was -1)"
    assert order(rig) == [1, 1, 2, 2]
    assert before != invariants.digest(rig.core.farm)


@pytest.mark.parametrize("value", ['"first"', "1.5", f"{RANK_MOST + 1}", "true", "null", '"--1"', '"٣"'])
def test_a_rank_that_is_none_is_refused(value: str) -> None:
    rig = jobs("ann")
    for address in ("J1", "J1/beauty"):
        with pytest.raises(CallError):
            rig.act("set", address, f'{{"rank": {value}}}')


def test_nothing_goes_farther_than_the_farthest_rank() -> None:
    rig = jobs("ann", "ann")
    rig.act("set", "J1", f'{{"rank": {-RANK_MOST}}}')
    with pytest.raises(IllegalMove, match="cannot go farther"):
        rig.act("next", "J2")


def test_a_job_without_work_that_waits_is_refused() -> None:
    rig = jobs("ann", frames="1")
    lease = rig.lease()
    with pytest.raises(IllegalMove, match="nothing there can be run next: all is running"):
        rig.act("next", "J1")
    rig.done(lease)
    with pytest.raises(IllegalMove, match="nothing there can be run last: all is done"):
        rig.act("last", "J1")


def test_history_tells_who_did_it_and_why() -> None:
    rig = jobs("ann", "ann")
    rig.act("next", "J2", reason="for dailies", who="kim")
    (row,) = rig.out.rows
    assert isinstance(row, JobStateRow)
    assert (row.what, row.old, row.new, row.reason, row.who) == ("rank", "0", "-1", "for dailies", "kim")


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_restart_keeps_every_place(checkpoint: bool) -> None:
    rig = Rig()
    rig.join("n0")
    for _ in range(3):
        rig.submit(step(frames="1-4"), step("comp"), user="ann")
    rig.act("next", "J3")
    rig.act("last", "J1")
    rig.act("next", "J2/comp")
    rig.act("next", "J3/beauty/3-4")
    rig.act("last", "J3/beauty/1")
    if checkpoint:
        rig.checkpoint()
    rig.restart()
    rig.join("n0")
    assert frames_of(rig, "J3/beauty") == [3, 4, 2, 1]
    assert (rig.job(1).rank, rig.step("J2/comp").rank) == (1, -1)


def test_a_job_file_may_say_it() -> None:
    rig = jobs("ann")
    rig.submit(step(first="3,2"), user="ann", project="film", rank=-1)
    assert order(rig, 1) == [2]
    assert frames_of(rig, "J2/beauty") == [2, 1, 4]


def test_what_nobody_put_anywhere_is_stored_as_it_ever_was() -> None:
    """So that a journal and checkpoint of an older broker, which know no ranks, mean the same here."""
    rig = jobs("ann")
    submitted = next(row.spec for row in rig.out.rows if isinstance(row, JobRow))
    rig.act("set", "J1/beauty", '{"chunk": 2}')
    changed = next(row.spec for row in rig.out.rows if isinstance(row, StepEditRow))
    for text in (submitted, changed):
        assert not [key for key in (b'"rank"', b'"first"', b'"last"') if key in text]
    rig.checkpoint()
    rig.restart()
    assert (rig.job().rank, rig.step("J1/beauty").rank) == (0, 0)


# ---------------------------------------------------------------- steps


def test_a_step_goes_before_the_others_of_its_job() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step("a", "1-2"), step("b", "1-2"), step("c", "1-2"))
    answer = rig.act("next", "J1/c")
    assert answer.message == "J1/c goes before all other steps of J1 (rank -1, had 0)"
    rig.act("last", "J1/a")
    told = []
    while leases := rig.dispatch():
        told += [lease.step.spec.name for lease in leases]
        rig.done(leases[0])
    assert told == ["c", "c", "b", "b", "a", "a"]


def test_a_step_that_is_alone_is_refused_with_what_to_do_instead() -> None:
    rig = jobs("ann")
    with pytest.raises(IllegalMove) as caught:
        rig.act("next", "J1/beauty")
    assert str(caught.value) == (
        "J1/beauty is the only step of J1 (`farm next J1` moves the job, `farm next J1/beauty/FRAMES` frames)"
    )


def test_a_step_never_leaves_its_job() -> None:
    rig = Rig()
    rig.join("n0")
    for _ in range(2):
        rig.submit(step("a", "1"), step("b", "1"))
    rig.act("next", "J2/b")
    assert order(rig) == [1, 1, 2, 2]


def test_history_tells_of_steps_and_frames() -> None:
    rig = Rig()
    rig.submit(step(), step("comp"))
    rig.act("next", "J1/comp")
    edit, told = rig.out.rows
    assert isinstance(edit, StepEditRow)
    assert isinstance(told, HistoryRow)
    assert (told.what, told.old, told.new) == ("rank of comp", "0", "-1")
    rig.act("next", "J1/beauty/3", reason="the director looks")
    told = rig.out.rows[1]
    assert isinstance(told, HistoryRow)
    assert (told.what, told.old, told.new, told.reason) == ("next of beauty", "", "3", "the director looks")


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize("preset", ["forward", "reverse", "first-last-middle", "coarse:3", "listed"])
def test_frames_go_before_the_others_in_the_order_given(preset: str) -> None:
    plain = Rig()
    plain.join("n0")
    plain.submit(step(frames="9-12,1-8", order=preset))
    usual = frames_of(plain)
    rig = Rig()
    rig.join("n0")
    rig.submit(step(frames="9-12,1-8", order=preset))
    rig.act("next", "J1/beauty/7,5-6")
    rig.act("last", "J1/beauty/10,9")
    rest = [frame for frame in usual if frame not in (5, 6, 7, 9, 10)]
    assert frames_of(rig) == [7, 5, 6, *rest, 10, 9]


def test_chunks_follow_it() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step(frames="1-6", chunk=4))
    rig.act("next", "J1/beauty/5-6")
    assert [rig.step("J1/beauty").frame_of(unit) for unit in rig.lease().units] == [5, 6, 1, 2]


def test_only_frames_that_wait_are_put_first() -> None:
    rig = jobs("ann", nodes=2, frames="1-6")
    one, _two = rig.dispatch()
    rig.done(one)
    answer = rig.act("next", "J1/beauty/1-4")
    assert (answer.changed, answer.message) == (2, "2 frames go before the others of J1/beauty")
    assert rig.step("J1/beauty").spec.first == "3-4"
    with pytest.raises(IllegalMove, match="all is running and done"):
        rig.act("next", "J1/beauty/1-2")


def test_a_frame_is_in_one_list_only() -> None:
    rig = jobs("ann", frames="1-6")
    rig.act("next", "J1/beauty/4-5")
    rig.act("last", "J1/beauty/5")
    rig.act("next", "J1/beauty/2")
    spec = rig.step("J1/beauty").spec
    assert (spec.first, spec.last) == ("2,4", "5")
    assert frames_of(rig) == [2, 4, 1, 3, 6, 5]


def test_frames_in_the_middle_of_the_work_go_next_at_once() -> None:
    rig = jobs("ann", frames="1-9")
    for _ in range(3):
        rig.done(rig.lease())
    rig.act("next", "J1/beauty/8")
    assert frames_of(rig) == [8, 4, 5, 6, 7, 9]


def test_undo_of_frames_is_to_set_what_was_there() -> None:
    rig = jobs("ann", frames="1-6")
    rig.act("next", "J1/beauty/5")
    before = rig.step("J1/beauty").spec
    rig.act("next", "J1/beauty/3")
    rig.act("set", "J1/beauty", '{"first": "5", "last": ""}')
    assert rig.step("J1/beauty").spec == before
    assert frames_of(rig) == [5, 1, 2, 3, 4, 6]


def test_blocked_frames_are_next_once_they_may_go() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step("sim", None), step(frames="1-3", after=("sim",)))
    rig.act("next", "J1/beauty/3")
    assert frames_of(rig) == [3, 1, 2]


def test_a_frame_that_was_stopped_can_be_first_again() -> None:
    rig = jobs("ann", nodes=1, frames="1-4")
    rig.done(rig.lease())
    lease = rig.lease()
    rig.act("requeue", "J1/beauty/2")
    rig.act("last", "J1/beauty/2")
    rig.release(lease)
    assert frames_of(rig) == [3, 4, 2]


def test_frames_that_come_and_go_leave_the_order_whole() -> None:
    rig = jobs("ann", frames="1-6")
    rig.act("next", "J1/beauty/5-6")
    rig.act("set", "J1/beauty", '{"frames": "1-5"}')
    rig.act("set", "J1/beauty", '{"frames": "1-8"}')
    assert frames_of(rig) == [5, 6, 1, 2, 3, 4, 7, 8]


def test_a_million_frames_keep_their_order_as_ranges() -> None:
    rig = jobs("ann", frames="1-1000000")
    rig.act("next", "J1/beauty/900000-900009")
    spec = rig.step("J1/beauty").spec
    assert spec.first == "900000-900009"
    (lease,) = rig.dispatch()
    assert rig.step("J1/beauty").frame_of(lease.units[0]) == 900_000


def test_scattered_frames_do_not_become_a_long_list_for_everybody() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step(frames="1-20000"))

    def scattered(low: int, high: int) -> str:
        return ",".join(str(frame) for frame in range(1, 20_001) if low <= frame**3 % 997 < high)

    rig.act("skip", f"J1/beauty/{scattered(0, 300)}")
    rig.act("next", "J1/beauty/100-8000")
    assert rig.step("J1/beauty").spec.first == "100-8000"
    with pytest.raises(IllegalMove, match="too many separate frames"):
        rig.act("last", f"J1/beauty/{scattered(300, 700)}")
    assert rig.step("J1/beauty").spec.first == "100-8000", "what was said before stays"
    (lease,) = rig.dispatch()
    assert rig.step("J1/beauty").frame_of(lease.units[0]) == next(
        frame for frame in range(100, 8001) if frame**3 % 997 >= 300
    )


def test_scout_frames_stay_first_while_the_job_scouts() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step(frames="1-9"), scout=3)
    answer = rig.act("next", "J1/beauty/2")
    assert answer.message == (
        "1 frame goes before the others of J1/beauty; scout frames go before them while the job scouts"
    )
    assert frames_of(rig) == [1, 5, 9]
    rig.act("resume", "J1")
    assert frames_of(rig)[0] == 2


@pytest.mark.parametrize("address", ["J1/beauty/99", "J1/nothing", "J9", "J1/film/1"])
def test_what_is_not_there_is_refused(address: str) -> None:
    rig = Rig()
    rig.submit(step(), step("film", None))
    before = invariants.digest(rig.core.farm)
    for action in ("next", "last"):
        with pytest.raises(UnknownName):
            rig.act(action, address)
    assert invariants.digest(rig.core.farm) == before


def test_setting_frames_the_step_does_not_have_is_told() -> None:
    rig = jobs("ann", frames="1-4")
    answer = rig.act("set", "J1/beauty", '{"first": "3-5"}')
    assert answer.message == ("J1/beauty: first is 3-5 (was none); warning: first: the step has no frames 5")
    with pytest.raises(CallError, match="first"):
        rig.act("set", "J1/beauty", '{"first": "x"}')


def test_a_step_nobody_did_this_to_needs_no_second_map() -> None:
    rig = jobs("ann", "ann")
    rig.act("next", "J2/beauty/2")
    rig.dispatch()
    rig.act("next", "J1")
    rig.dispatch()
    assert rig.step("J1/beauty").sequence is None


# ---------------------------------------------------------------- why


def test_why_takes_the_rank_into_account_and_says_what_would_help() -> None:
    rig = jobs("ann", "ann", "ann")
    rig.dispatch()
    waits = why(rig.core.farm, rig.step("J3/beauty"), None, rig.now_us)
    assert waits.causes[0] == ("3 frames come before it: J1 of ann, J2 of ann", "farm next J3")
    rig.act("next", "J3")
    waits = why(rig.core.farm, rig.step("J3/beauty"), None, rig.now_us)
    assert "come before it" not in waits.causes[0][0]
    waits = why(rig.core.farm, rig.step("J2/beauty"), None, rig.now_us)
    assert waits.causes[0] == ("3 frames come before it: J3 of ann, J1 of ann", "farm next J2")


def test_why_of_others_names_the_priority_still() -> None:
    rig = jobs("bob", "ann")
    rig.dispatch()
    rig.act("priority", "J1", "60")
    waits = why(rig.core.farm, rig.step("J2/beauty"), None, rig.now_us)
    assert waits.causes[0] == ("1 frame comes before it: J1 of bob", "farm priority J2 N")


def test_why_of_a_step_behind_its_own_jobs_steps() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step("a", "1-2"), step("b", "1-2"))
    rig.dispatch()
    waits = why(rig.core.farm, rig.step("J1/b"), None, rig.now_us)
    assert waits.causes[0] == ("1 frame comes before it: J1 of ann", "farm next J1/b")
