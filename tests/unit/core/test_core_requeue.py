"""Running frames stopped and queued again: what is lost, that no try is spent, and that each counts once."""

from __future__ import annotations

import itertools

import pytest

from farm.core.outcome import DiscardCommand, LeaseCommand, StopCommand
from farm.core.rows import BulkRow
from farm.model.errors import IllegalMove
from farm.model.jobs import AfterSpec
from farm.model.reports import RELEASED, UnitReport
from farm.model.resources import Resources
from farm.model.states import AttemptKind
from tests.support.core_rig import Rig, step
from tests.support.sim_agent import GOOD


def farm(frames: str = "1-4", *, nodes: int = 1, cores: int = 1, **fields: object) -> Rig:
    rig = Rig()
    for number in range(nodes):
        rig.join(f"n{number}", cores)
    rig.submit(step(frames=frames, **fields))  # type: ignore[arg-type]
    return rig


def test_what_runs_is_stopped_and_queued_again_without_a_try() -> None:
    rig = farm(nodes=2)
    one, two = rig.dispatch()
    answer = rig.act("requeue", "J1/beauty/1")
    assert rig.states() == "QRQQ"
    assert [(stop.attempt, stop.units) for stop in rig.commands(StopCommand)] == [(one.attempt, ())]
    assert answer.changed == 1
    assert rig.step("J1/beauty").tries is None
    rig.release(one)
    again = rig.lease()
    assert (again.units, again.attempt) == ((0,), 3), "it is the first of its step again"
    rig.done(again)
    rig.done(two)
    assert rig.states() == "DDQQ"


def test_it_is_not_leased_again_before_its_attempt_is_known_to_have_stopped() -> None:
    rig = farm("1", nodes=2)
    lease = rig.lease()
    rig.act("requeue", "J1")
    assert rig.states() == "Q"
    assert rig.dispatch() == [], "the other node is free, but the frame may be rendering still"
    rig.release(lease)
    assert rig.lease().units == (0,)


def test_a_result_that_comes_after_it_counts_for_nothing_and_the_frame_is_rendered_once_more() -> None:
    rig = farm("1", nodes=2, out=True)
    lease = rig.lease()
    assert rig.verified(lease, 0, GOOD), "its file may be moved to its place"
    rig.act("requeue", "J1/beauty/1")
    rig.done(lease)
    assert rig.states() == "Q", "the file may be there: nobody but the next attempt says so"
    assert [row.reason for row in rig.stale()] == ["the unit was taken from this attempt"]
    again = rig.lease()
    rig.verified(again, 0, GOOD)
    rig.done(again)
    assert rig.states() == "D"
    assert rig.job().steps[0].done_timed == 1


def test_a_result_that_came_before_it_stands_and_there_is_nothing_to_stop() -> None:
    rig = farm("1")
    rig.done(rig.lease())
    with pytest.raises(IllegalMove, match="nothing there can be stopped: all is done"):
        rig.act("requeue", "J1/beauty/1")
    assert rig.states() == "D"


@pytest.mark.parametrize("phase", ["leased", "granted", "waits for its picture", "second copy"])
def test_in_every_phase_a_frame_has_exactly_one_attempt_that_counts(phase: str) -> None:
    rig = farm("1-2", nodes=3, out=True)
    first, other = rig.dispatch()
    if phase == "granted":
        assert rig.verified(first, 0, GOOD)
    elif phase == "waits for its picture":
        rig.verified(other, 1, GOOD)
        rig.verified(first, 0, GOOD)
    elif phase == "second copy":
        rig.done(other)
        rig.wait(100.0, 1, 2, 3)
        copies = rig.dispatch()
        assert [copy.units for copy in copies] == [(0,)]
    rig.act("requeue", "J1/beauty/1")
    held = {stop.attempt for stop in rig.commands(StopCommand)}
    assert first.attempt in held
    assert len(held) == (2 if phase == "second copy" else 1)
    rig.restart()
    for node in (1, 2, 3):
        rig.join(f"n{node - 1}", running=tuple(rig.node(node).attempts))
    assert {stop.attempt for stop in rig.commands(StopCommand)} <= held
    assert all(lease.units != (0,) for lease in rig.dispatch()), "it may run still"
    for attempt in sorted(held):
        known = rig.core.farm.attempts[attempt]
        stopped = UnitReport(0, RELEASED, "stopped")
        rig.report(first, stopped, node_id=known.node.id, attempt=attempt, nonce=known.nonce)
    again = rig.lease()
    assert again.units == (0,)
    rig.verified(again, 0, GOOD)
    rig.done(again)
    assert rig.states()[0] == "D"
    assert rig.step("J1/beauty").tries is None


@pytest.mark.parametrize("order", list(itertools.permutations(["requeue", "requeue too", "result"])))
def test_two_of_them_racing_with_the_result_render_it_once_more_at_most(order: tuple[str, ...]) -> None:
    rig = farm("1", nodes=2, out=True)
    lease = rig.lease()
    rig.verified(lease, 0, GOOD)
    said = []
    for what in order:
        if what == "result":
            rig.done(lease)
            continue
        try:
            said.append(rig.act("requeue", "J1").changed)
        except IllegalMove:
            said.append(0)
    assert sorted(said) == ([0, 0] if order[0] == "result" else [0, 1])
    leases = rig.dispatch()
    assert len(leases) == (order[0] != "result")
    for again in leases:
        rig.verified(again, 0, GOOD)
        rig.done(again)
    assert rig.states() == "D"
    assert rig.step("J1/beauty").done_timed == 1


def test_of_a_chunk_only_the_frames_that_are_named_are_taken() -> None:
    rig = farm("1-4", chunk=4)
    lease = rig.lease()
    rig.done(lease, 0, closed=False)
    rig.act("requeue", "J1/beauty/3")
    assert rig.states() == "DRQR"
    assert [stop.units for stop in rig.commands(StopCommand)] == [(2,)]
    rig.done(lease, 1, 3)
    assert rig.states() == "DDQD"
    assert rig.lease().units == (2,)


def test_it_says_how_much_core_time_is_lost() -> None:
    rig = farm("1-2", nodes=2, cores=4, resources=Resources(cores=4))
    rig.dispatch()
    rig.now_us += 1_800_000_000
    answer = rig.act("requeue", "J1", reason="the scene was wrong")
    assert answer.lost_core_us == 2 * 4 * 1_800_000_000
    assert answer.message == "2 units are stopped and queued again; 4.00 core-hours lost"
    (row,) = (row for row in rig.out.rows if isinstance(row, BulkRow))
    assert (row.reason, row.who, row.fresh) == ("the scene was wrong", "ann", 0)


def test_frames_of_the_chunk_that_are_done_are_not_lost() -> None:
    rig = farm("1-3", chunk=3)
    lease = rig.lease()
    rig.now_us += 100_000_000
    rig.done(lease, 0, elapsed_s=90.0, closed=False)
    rig.now_us += 20_000_000
    assert rig.act("requeue", "J1").lost_core_us == 30_000_000


def test_a_frame_that_its_chunk_has_not_come_to_loses_nothing() -> None:
    rig = farm("1-3", chunk=3)
    rig.lease()
    rig.now_us += 100_000_000
    answer = rig.act("requeue", "J1/beauty/3")
    assert (answer.lost_core_us, answer.message) == (
        0,
        "1 unit is stopped and queued again; 0 core-hours lost",
    )


def test_spent_tries_and_nodes_to_avoid_are_remembered() -> None:
    rig = farm("1", nodes=2)
    rig.fail(rig.lease(), "renderer")
    lease = rig.lease()
    rig.act("requeue", "J1/beauty/1")
    rig.release(lease)
    rigged = rig.step("J1/beauty")
    assert rigged.tries is not None
    assert list(rigged.tries) == [1]
    assert rigged.notes[0].failed_on == {1}


def test_a_paused_job_gives_its_nodes_back_and_stays_paused() -> None:
    rig = farm("1-2", nodes=2)
    leases = rig.dispatch()
    rig.act("pause", "J1")
    rig.act("requeue", "J1")
    for lease in leases:
        rig.release(lease)
    assert rig.states() == "QQ"
    assert rig.dispatch() == []
    rig.act("resume", "J1")
    assert len(rig.dispatch()) == 2


def test_what_waits_for_the_frame_goes_on_waiting_and_is_not_touched() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step(frames="1-2"), step("comp", "1-2", after=(AfterSpec("beauty", frames=True),)))
    lease = rig.lease()
    rig.act("requeue", "J1/beauty")
    assert (rig.states(), rig.states("J1/comp")) == ("QQ", "BB")
    rig.release(lease)
    rig.done(rig.lease())
    assert rig.states("J1/comp") == "QB"


def test_a_lost_agent_is_fenced_off_the_frame_as_ever() -> None:
    rig = farm("1", nodes=2, out=True)
    lease = rig.lease()
    rig.act("requeue", "J1")
    rig.wait(61.0, 2)
    again = rig.lease()
    assert again.supersedes == (f".overcrank-J1-beauty-{lease.no}-{lease.nonce:016x}",)


@pytest.mark.parametrize("restarted", ["", "checkpoint", "replay"])
def test_what_a_lost_agent_kept_of_a_frame_that_was_stopped_is_not_adopted(restarted: str) -> None:
    rig = farm("1-3", out=True, chunk=3)
    lease = rig.lease()
    rig.act("requeue", "J1/beauty/2")
    rig.wait(61.0)
    if restarted == "checkpoint":
        rig.checkpoint()
    if restarted:
        rig.restart()
    rig.join("n0")
    assert rig.states() == "QQQ"
    rig.report(lease, kept=(0, 1))
    (adopt,) = rig.commands(LeaseCommand)
    assert (adopt.kind, adopt.units) == (AttemptKind.ADOPT, (0,)), "frame 2 is to be rendered anew"
    rig.done(adopt)
    rig.act("next", "J1/beauty/2")
    again = rig.lease()
    assert (again.kind, again.units[0]) == (AttemptKind.RENDER, 1)


def test_what_a_lost_agent_kept_of_a_stopped_frame_alone_is_discarded() -> None:
    rig = farm("1", out=True)
    lease = rig.lease()
    rig.act("requeue", "J1", reason="the texture was wrong")
    rig.wait(61.0)
    rig.join("n0")
    rig.report(lease, kept=(0,))
    assert rig.commands(LeaseCommand) == []
    assert [one.attempt for one in rig.commands(DiscardCommand)] == [lease.attempt]


def test_what_a_lost_agent_made_of_input_that_was_made_anew_meanwhile_is_not_adopted() -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step("beauty", "1", out=True), step("comp", "1", out=True, after=(AfterSpec(step="beauty"),)))
    rig.done(rig.lease())
    comp = rig.lease()
    rig.act("retry", "J1/beauty/1")
    assert rig.states("J1/comp") == "B"
    rig.wait(61.0)
    rig.join("n0")
    rig.done(rig.lease())
    assert rig.states("J1/comp") == "Q"
    rig.report(comp, kept=(0,))
    assert rig.commands(LeaseCommand) == [], "it is a picture of the old input"


@pytest.mark.parametrize("restarted", ["", "checkpoint", "replay"])
def test_what_was_lost_before_its_input_was_made_anew_is_not_adopted_either(restarted: str) -> None:
    rig = Rig()
    rig.join("n0")
    rig.submit(step("beauty", "1", out=True), step("comp", "1", out=True, after=(AfterSpec(step="beauty"),)))
    rig.done(rig.lease())
    comp = rig.lease()
    rig.wait(61.0)
    assert rig.states("J1/comp") == "Q", "it is lost"
    rig.act("retry", "J1/beauty/1")
    assert rig.states("J1/comp") == "B"
    if restarted == "checkpoint":
        rig.checkpoint()
    if restarted:
        rig.restart()
    rig.join("n0")
    rig.done(rig.lease())
    assert rig.states("J1/comp") == "Q"
    rig.report(comp, kept=(0,))
    assert rig.commands(LeaseCommand) == [], "it is a picture of the old input"
    again = rig.lease()
    assert again.kind == AttemptKind.RENDER
    assert len(again.supersedes) == 1, "and is fenced off"


def test_what_was_lost_before_the_frame_is_wanted_anew_is_not_adopted() -> None:
    rig = farm("1", out=True, nodes=2)
    lease = rig.lease()
    rig.wait(61.0)
    rig.join("n1")
    rig.done(rig.lease())
    rig.act("retry", "J1/beauty/1")
    rig.join("n0")
    rig.report(lease, kept=(0,))
    assert AttemptKind.ADOPT not in [one.kind for one in rig.commands(LeaseCommand)], "it was made before"


@pytest.mark.parametrize("before", ["checkpoint", "replay"])
def test_a_restart_knows_it(before: str) -> None:
    rig = farm("1-2", nodes=2)
    leases = rig.dispatch()
    rig.act("requeue", "J1/beauty/2")
    if before == "checkpoint":
        rig.checkpoint()
    rig.restart()
    rig.join("n1", running=(leases[1].attempt,))
    assert [stop.attempt for stop in rig.commands(StopCommand)] == [leases[1].attempt]
    assert rig.states() == "RQ"
