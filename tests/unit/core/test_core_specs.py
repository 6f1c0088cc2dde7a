"""The specification of a step's pictures: who may publish first, who waits, who is refused."""

from __future__ import annotations

from farm.core.outcome import GrantCommand, LeaseCommand, StopCommand
from farm.core.rows import SpecRow
from farm.model.reports import DONE, UnitReport
from farm.model.states import AttemptKind
from tests.support.core_rig import Rig, step
from tests.support.sim_agent import GOOD, ODD

REFUSAL = "the picture is 32x48, not 64x48 as the first frame of the step"


def asking(count: int = 2, **fields: object) -> tuple[Rig, list[LeaseCommand]]:
    rig = Rig()
    for number in range(count):
        rig.join(f"n{number}")
    rig.submit(step(frames="1-9", out=True, **fields))  # type: ignore[arg-type]
    leases = rig.dispatch()
    assert all(lease.ask and lease.specs == () for lease in leases)
    return rig, leases


def grants(commands: list) -> list[tuple[int, int, str]]:
    return [(c.attempt, c.unit, c.reason) for c in commands if isinstance(c, GrantCommand)]


def test_the_first_frame_is_granted_and_its_likes_with_it() -> None:
    rig, (one, two) = asking()
    assert grants(rig.verified(one, 0, GOOD)) == [(one.attempt, 0, "")]
    assert grants(rig.verified(two, 1, GOOD)) == [(two.attempt, 1, "")]


def test_a_frame_unlike_the_first_waits_until_that_is_done_and_is_then_refused() -> None:
    rig, (one, two) = asking()
    rig.verified(one, 0, GOOD)
    assert rig.verified(two, 1, ODD) == []
    out = rig.done(one)
    assert grants(out.commands) == [(two.attempt, 1, REFUSAL)]
    assert [row.unit for row in out.rows if isinstance(row, SpecRow)] == [0]
    assert rig.step("J1/beauty").specs == (GOOD,)


def test_it_is_refused_too_when_the_first_frames_attempt_goes_on_with_others() -> None:
    rig, (one, two) = asking(chunk=3)
    rig.verified(one, 0, GOOD)
    rig.verified(two, 3, ODD)
    out = rig.done(one, 0, closed=False)
    assert grants(out.commands) == [(two.attempt, 3, REFUSAL)]


def test_when_the_first_frame_fails_the_next_that_waits_becomes_the_first() -> None:
    rig, (one, two, three) = asking(3)
    rig.verified(one, 0, GOOD)
    rig.verified(two, 1, ODD)
    rig.verified(three, 2, ODD)
    out = rig.fail(one, "output")
    assert grants(out.commands) == [(two.attempt, 1, ""), (three.attempt, 2, "")]
    rig.done(two, picture=ODD)
    assert rig.step("J1/beauty").specs == (ODD,)


def test_when_the_first_frames_node_is_lost_the_next_that_waits_becomes_the_first() -> None:
    rig, (one, two) = asking()
    rig.verified(one, 0, GOOD)
    rig.verified(two, 1, ODD)
    out = rig.wait(61, two.node_id)
    assert (two.attempt, 1, "") in grants(out.commands)


def test_when_the_first_frame_is_canceled_the_next_that_waits_becomes_the_first() -> None:
    """Even if the attempt goes on: the frame may wait in that very attempt, which could then never end."""
    rig, (one,) = asking(1, chunk=3)
    rig.verified(one, 0, GOOD)
    assert rig.verified(one, 1, ODD) == []
    rig.act("cancel", "J1/beauty/1")
    assert grants(rig.out.commands) == [(one.attempt, 1, "")]
    assert rig.commands(StopCommand) == [StopCommand(one.node_id, one.attempt, "canceled by ann", (0,))]


def test_when_the_first_frame_is_gone_one_granted_for_its_likeness_takes_its_place() -> None:
    """It may be published already, so that a frame unlike it must go on waiting."""
    rig, (one, two, three) = asking(3)
    rig.verified(one, 0, GOOD)
    rig.verified(two, 1, GOOD)
    assert rig.verified(three, 2, ODD) == []
    assert grants(rig.fail(one, "output").commands) == []
    assert grants(rig.done(two).commands) == [(three.attempt, 2, REFUSAL)]


def test_after_the_first_frame_is_done_leases_carry_the_specification_and_ask_no_more() -> None:
    rig, (one, _) = asking()
    rig.verified(one, 0, GOOD)
    rig.done(one)
    lease = rig.lease()
    assert lease.specs == (GOOD,)
    assert not lease.ask


def test_a_repeated_question_gets_the_same_answer() -> None:
    rig, (one, two) = asking()
    for _ in range(3):
        assert grants(rig.verified(one, 0, GOOD)) == [(one.attempt, 0, "")]
    rig.verified(two, 1, ODD)
    rig.done(one)
    assert grants(rig.verified(two, 1, ODD)) == [(two.attempt, 1, REFUSAL)]


def test_a_question_of_an_attempt_that_does_not_hold_the_unit_is_answered_by_a_stop() -> None:
    rig, (one, two) = asking()
    (stop,) = rig.verified(one, 1, GOOD)
    assert stop == StopCommand(one.node_id, one.attempt, "the attempt does not hold this unit", (1,))
    assert rig.step("J1/beauty").spec_holder is None
    rig.done(two, picture=GOOD)
    rig.wait(61)
    (stop,) = rig.verified(one, 0, GOOD)
    assert isinstance(stop, StopCommand)


def test_rendering_the_only_done_frame_again_drops_the_specification() -> None:
    rig, (one, _) = asking()
    rig.done(one)
    rig.act("retry", "J1/beauty/1")
    assert rig.step("J1/beauty").specs is None
    assert rig.lease().ask


def test_rendering_one_of_two_done_frames_again_keeps_it() -> None:
    rig, (one, two) = asking()
    rig.done(one)
    rig.done(two)
    rig.act("retry", "J1/beauty/1")
    assert rig.step("J1/beauty").specs == (GOOD,)


def test_the_specification_outlives_a_restart_and_who_held_its_place_does_not() -> None:
    rig, (one, two) = asking()
    rig.verified(one, 0, GOOD)
    rig.restart()
    assert rig.step("J1/beauty").specs is None
    rig.done(two, picture=ODD)
    rig.restart()
    assert rig.step("J1/beauty").specs == (ODD,)


def test_a_frame_reported_done_unlike_the_others_does_not_count() -> None:
    """Two frames may both be granted as the first one: by a broker before and after its restart."""
    rig, (one, two) = asking()
    rig.verified(one, 0, GOOD)
    rig.restart()
    assert grants(rig.verified(two, 1, ODD)) == [(two.attempt, 1, "")]
    rig.done(one)
    assert rig.states() == "DR" + "Q" * 7
    rig.done(two, picture=ODD)
    assert rig.states() == "DQ" + "Q" * 7
    assert rig.results()[0].failure == "output"
    assert rig.results()[0].reason == REFUSAL
    assert rig.results()[0].files == b""


def test_a_file_marked_done_does_not_count_if_it_is_unlike_a_frame_that_may_be_published_already() -> None:
    rig, (one, two) = asking()
    rig.act("mark-done", "J1/beauty/8-9")
    rig.join("n2")
    verify = rig.lease()
    assert grants(rig.verified(one, 0, ODD)) == [(one.attempt, 0, "")]
    assert rig.verified(two, 1, GOOD) == []
    assert grants(rig.done(verify, 7, picture=GOOD, closed=False).commands) == []
    assert rig.states()[7] == "Q"
    assert rig.results()[0].reason == "the picture is 64x48, not 32x48 as the first frame of the step"
    rig.done(verify, 8, picture=ODD)
    assert rig.states()[8] == "D"
    assert rig.step("J1/beauty").specs == (ODD,)
    rig.done(one, picture=ODD)
    assert rig.states()[0] == "D"


def test_movies_and_steps_without_pictures_never_ask() -> None:
    from farm.model.jobs import OutputSpec

    rig = Rig()
    rig.join(cores=2)
    movie = OutputSpec(pattern="/out/film.mov", kind="movie")
    rig.submit(step("film", None, outputs=(movie,)), step("log", None))
    assert [lease.ask for lease in rig.dispatch()] == [False, False]


def test_a_look_at_existing_files_publishes_nothing_and_so_never_asks() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-2", out=True, existing="skip"))
    lease = rig.lease()
    assert lease.kind == AttemptKind.VERIFY
    assert not lease.ask


def test_a_picture_marked_done_gives_the_step_its_specification() -> None:
    rig = Rig()
    rig.submit(step(frames="1-2", out=True))
    rig.act("mark-done", "J1/beauty/1")
    rig.join(cores=3)
    verify, _, render = rig.dispatch()
    assert verify.kind == AttemptKind.VERIFY
    rig.done(verify, picture=ODD)
    assert rig.step("J1/beauty").specs == (ODD,)
    (_, _, reason) = grants(rig.verified(render, 1, GOOD))[0]
    assert reason == "the picture is 64x48, not 32x48 as the first frame of the step"


def test_files_of_a_unit_done_without_any_are_no_reason_to_ask_for_ever() -> None:
    rig, (one, two) = asking()
    rig.report(one, UnitReport(0, DONE))
    assert rig.step("J1/beauty").specs == (None,)
    assert grants(rig.verified(two, 1, ODD)) == [(two.attempt, 1, "")]
