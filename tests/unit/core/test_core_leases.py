"""Leases: fencing, silence, what is lost, kept or superseded, and restarts of the broker."""

from __future__ import annotations

import pytest

from farm.core.outcome import DiscardCommand, LeaseCommand, StopCommand
from farm.model.ids import attempt_folder
from farm.model.reports import DONE, RELEASED, UnitReport
from farm.model.resources import Resources
from farm.model.states import AttemptKind
from tests.support.core_rig import Rig, step


def rendering(frames: str = "1", **fields: object) -> tuple[Rig, int, LeaseCommand]:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames=frames, **fields))  # type: ignore[arg-type]
    return rig, node, rig.lease()


def folder(lease: LeaseCommand) -> str:
    return attempt_folder(lease.step.job.id, lease.step.spec.name, lease.no, lease.nonce)


# ---------------------------------------------------------------- fencing


@pytest.mark.parametrize("change", [{"nonce": 1}, {"node_id": 2}, {"attempt": 999}])
def test_a_report_that_is_not_of_the_lease_changes_nothing_and_is_recorded(change: dict[str, int]) -> None:
    rig, *_, lease = rendering()
    rig.join("bee")
    rig.report(lease, UnitReport(0, DONE), **change)
    assert rig.states() == "R"
    assert [row.reason for row in rig.stale()] == ["the attempt is closed or was leased to another"]
    assert rig.results() == []
    assert rig.commands(DiscardCommand) == []


def test_a_result_counts_once() -> None:
    rig, _, lease = rendering()
    rig.done(lease)
    rig.done(lease)
    assert rig.results() == []
    assert len(rig.stale()) == 1
    assert rig.step("J1/beauty").done_timed == 1


def test_a_unit_twice_in_one_report_counts_once() -> None:
    rig, _, lease = rendering("1-2", chunk=2)
    rig.report(lease, UnitReport(0, DONE), UnitReport(0, DONE), UnitReport(1, DONE))
    assert [row.unit for row in rig.results()] == [0, 1]
    assert [row.unit for row in rig.stale()] == [0]


def test_a_unit_that_was_never_leased_is_stale() -> None:
    rig, _, lease = rendering("1-2")
    rig.report(lease, UnitReport(1, DONE), UnitReport(77, DONE), closed=False)
    assert rig.states() == "RQ"
    assert [row.unit for row in rig.stale()] == [1, 77]


def test_an_attempt_that_ends_without_a_result_gives_its_units_back() -> None:
    rig, _, lease = rendering("1-3", chunk=3)
    rig.report(lease, UnitReport(1, DONE), closed=True)
    assert rig.states() == "QDQ"
    assert {row.reason for row in rig.results()} >= {"the agent ended the attempt without a result"}


def test_reports_out_of_order_lose_work_but_never_truth() -> None:
    rig, _, lease = rendering("1-2", chunk=2)
    rig.report(lease, UnitReport(1, DONE), closed=True)
    rig.report(lease, UnitReport(0, DONE), closed=False)
    assert rig.states() == "QD"
    assert len(rig.stale()) == 1


@pytest.mark.parametrize("wild", [-1, -(1 << 63), 1 << 63, (1 << 64) - 1])
def test_wild_figures_of_an_agent_are_never_stored(wild: int) -> None:
    rig, _, lease = rendering("1-2", chunk=2)
    rig.report(
        lease, UnitReport(wild, DONE), UnitReport(0, DONE, elapsed_us=wild, ram_mib=wild), closed=False
    )
    assert rig.states() == "DR"
    assert 0 <= rig.results()[0].elapsed_us < 1 << 53
    rig.report(lease, UnitReport(wild, DONE), attempt=abs(wild))
    rig.wait(5)
    rig.done(lease, 1)


# ---------------------------------------------------------------- silence


def test_a_silent_node_is_suspect_at_15_s_and_lost_at_60_s() -> None:
    rig, node, _lease = rendering()
    rig.wait(14.9)
    assert rig.node(node).state == "online"
    rig.wait(0.1)
    assert rig.node(node).state == "suspect"
    assert rig.states() == "R"
    rig.wait(44.9)
    assert rig.states() == "R"
    rig.wait(0.1)
    assert rig.node(node).state == "lost"
    assert rig.states() == "Q"
    assert rig.results()[0].reason == "ant was not heard of for 60 s"
    assert rig.beat(node) is None, "it must say hello again"


def test_a_suspect_node_gets_no_work_until_its_heartbeat_comes() -> None:
    rig = Rig()
    node = rig.join()
    rig.wait(20)
    rig.submit(step())
    assert rig.dispatch() == []
    rig.beat(node)
    assert rig.lease().node_id == node


def test_reports_are_signs_of_life_too() -> None:
    rig, node, lease = rendering("1-2", chunk=2)
    rig.wait(50)
    rig.done(lease, 0, closed=False)
    rig.wait(50)
    assert rig.node(node).state != "lost"


def test_a_lost_attempt_is_closed_for_good() -> None:
    rig, _, lease = rendering()
    rig.wait(61)
    rig.join(running=[lease.attempt])
    assert rig.out.reply.keep == ()
    rig.done(lease)
    assert rig.states() == "Q"
    assert len(rig.stale()) == 1


def test_an_agent_that_comes_back_in_time_keeps_its_attempt() -> None:
    rig, node, lease = rendering()
    rig.wait(50)
    assert rig.join(running=[lease.attempt]) == node
    assert rig.out.reply.keep == (lease.attempt,)
    rig.done(lease)
    assert rig.states() == "D"


def test_an_attempt_whose_reports_wait_in_the_outbox_is_kept() -> None:
    rig, _, lease = rendering()
    rig.join(pending=[lease.attempt])
    assert rig.out.reply.keep == (lease.attempt,)
    rig.done(lease)
    assert rig.states() == "D"


def test_what_an_agent_no_longer_holds_is_queued_at_once() -> None:
    rig, _, _lease = rendering()
    rig.join()
    assert rig.states() == "Q"
    assert rig.results()[0].reason == "its agent no longer holds it"


def test_a_lease_that_never_reached_its_agent_is_queued_again() -> None:
    rig, node, lease = rendering()
    assert rig.beat(node, missing=(lease.attempt,)) == ()
    assert rig.states() == "Q"
    assert rig.beat(node, missing=(lease.attempt, 12345)) == ()


def test_an_agent_that_leaves_gives_everything_back_and_its_meter_stops() -> None:
    rig, node, _lease = rendering()
    rig.bye(node)
    assert rig.states() == "Q"
    assert rig.results()[0].reason == "ant left: it was told to end"
    assert rig.node(node).state == "offline"
    assert not rig.node(node).meter_on
    rig.bye(node)
    assert rig.node(node).state == "offline"


def test_the_stop_of_a_kept_attempt_is_repeated_in_a_new_session() -> None:
    """The first one may have been lost with the connection; without it the agent would render on."""
    rig, node, lease = rendering("1-3", chunk=3)
    rig.act("cancel", "J1/beauty/2")
    rig.join(running=[lease.attempt])
    assert rig.commands(StopCommand) == [StopCommand(node, lease.attempt, "its units were taken back", (1,))]
    rig.act("cancel", "J1")
    rig.join(running=[lease.attempt])
    assert rig.commands(StopCommand) == [StopCommand(node, lease.attempt, "its units were taken back", ())]


# ---------------------------------------------------------------- what lost attempts leave behind


def test_who_renders_a_lost_frame_again_empties_the_lost_folder_first() -> None:
    rig, _, lost = rendering()
    rig.wait(61)
    rig.join("bee")
    again = rig.lease()
    assert again.supersedes == (folder(lost),)
    rig.wait(61)
    rig.join("cat")
    assert rig.lease().supersedes == (folder(lost), folder(again))


def test_a_frame_taken_from_an_attempt_that_is_then_lost_is_fenced_off_too() -> None:
    rig, _, lost = rendering("1-2", chunk=2)
    rig.act("cancel", "J1/beauty/1")
    rig.act("retry", "J1/beauty/1")
    rig.wait(61)
    rig.join("bee")
    assert rig.lease().supersedes == (folder(lost),)
    rig.restart()
    assert rig.step("J1/beauty").notes[0].folders == [folder(lost)]


def test_a_frame_that_is_done_has_nothing_to_supersede() -> None:
    rig, _, _lost = rendering()
    rig.wait(61)
    rig.join("bee")
    rig.done(rig.lease())
    rig.act("retry", "J1/beauty/1")
    assert rig.lease().supersedes == ()


def lost_and_back(frames: str = "1") -> tuple[Rig, int, LeaseCommand]:
    rig, node, lease = rendering(frames, chunk=9)
    rig.wait(61)
    assert rig.join() == node
    return rig, node, lease


def offer(rig: Rig, lease: LeaseCommand, *kept: int) -> list[LeaseCommand]:
    found = tuple(UnitReport(unit, RELEASED, "lost") for unit in lease.units)
    return [c for c in rig.report(lease, *found, kept=kept).commands if isinstance(c, LeaseCommand)]


def test_a_kept_file_is_adopted_under_a_new_attempt_while_its_frame_is_queued() -> None:
    rig, node, lost = lost_and_back("1-2")
    (adopt,) = offer(rig, lost, 1)
    assert adopt.kind == AttemptKind.ADOPT
    assert (adopt.node_id, adopt.units, adopt.adopt_folder) == (node, (1,), folder(lost))
    assert adopt.attempt != lost.attempt
    assert adopt.nonce != lost.nonce
    assert folder(lost) not in adopt.supersedes
    assert rig.commands(DiscardCommand) == []
    assert rig.states() == "QR"
    rig.done(adopt)
    assert rig.results()[0].reason == "files kept from a lost attempt, verified"
    assert rig.step("J1/beauty").done_timed == 0, "it tells nothing of how long a frame takes"


def test_what_is_adopted_needs_neither_disk_nor_tokens_of_a_node_that_has_none_left() -> None:
    rig = Rig()
    node = rig.join(cores=4, disk_mib=4_000, tokens={"fx-card": 1})
    need = Resources(cores=1, disk_mib=4_000, tokens={"fx-card": 1})
    rig.submit(step(frames="1", out=True, resources=need))
    lost = rig.lease()
    rig.wait(61)
    assert rig.join(cores=4, disk_mib=4_000, tokens={"fx-card": 1}) == node
    rig.submit(step("other", "1", resources=need), priority=90)
    assert rig.lease().step.spec.name == "other", "it has the disk and the card now"
    (adopt,) = offer(rig, lost, 0)
    assert adopt.kind == AttemptKind.ADOPT
    assert (rig.node(node).disk_free, rig.node(node).tokens_free) == (0, {"fx-card": 0})


def test_the_offer_twice_neither_leases_twice_nor_deletes_what_is_being_adopted() -> None:
    rig, _, lost = lost_and_back()
    (adopt,) = offer(rig, lost, 0)
    assert offer(rig, lost, 0) == []
    assert rig.commands(DiscardCommand) == []
    rig.done(adopt)
    assert offer(rig, lost, 0) == []
    assert rig.commands(DiscardCommand) == [DiscardCommand(adopt.node_id, lost.attempt)]


def test_a_kept_file_is_discarded_once_its_frame_went_to_another() -> None:
    rig, node, lost = lost_and_back()
    rig.dispatch()
    assert offer(rig, lost, 0) == []
    assert rig.commands(DiscardCommand) == [DiscardCommand(node, lost.attempt)]


@pytest.mark.parametrize("why", ["paused", "drained", "forged"])
def test_a_kept_file_is_not_adopted_when(why: str) -> None:
    rig, node, lost = lost_and_back()
    if why == "paused":
        rig.act("pause", "J1")
    elif why == "drained":
        rig.node_act("node-drain", node)
    found = (UnitReport(0, RELEASED, "lost"),)
    rig.report(lost, *found, kept=(0,), nonce=lost.nonce ^ (why == "forged"))
    assert rig.commands(LeaseCommand) == []
    assert rig.commands(DiscardCommand) == [DiscardCommand(node, lost.attempt)]


def test_a_kept_file_is_not_adopted_while_another_may_still_render_its_frame() -> None:
    rig = Rig()
    node = rig.join(cores=2)
    rig.submit(step(frames="1"))
    lost = rig.lease()
    rig.wait(61)
    rig.join(cores=2)
    rig.dispatch()
    rig.act("cancel", "J1")
    rig.act("retry", "J1")
    assert rig.states() == "Q"
    assert rig.node(node).cores_free == 1
    assert offer(rig, lost, 0) == []
    assert rig.commands(DiscardCommand) == [DiscardCommand(node, lost.attempt)]


def test_adoption_works_across_a_restart() -> None:
    rig, _, lost = lost_and_back()
    rig.checkpoint()
    rig.restart()
    rig.join()
    assert [c.units for c in offer(rig, lost, 0)] == [(0,)]


# ---------------------------------------------------------------- restarts of the broker


@pytest.mark.parametrize("checkpoint", [False, True])
def test_after_a_restart_nothing_is_requeued_before_the_grace_is_over(checkpoint: bool) -> None:
    rig, node, _lease = rendering()
    if checkpoint:
        rig.checkpoint()
    rig.restart(down_s=3600)
    rig.wait(59.9)
    assert rig.states() == "R"
    rig.wait(0.1)
    assert rig.states() == "Q"
    assert rig.node(node).state == "lost"


@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_attempt_offered_again_within_the_grace_goes_on(checkpoint: bool) -> None:
    rig, _, lease = rendering()
    if checkpoint:
        rig.checkpoint()
    rig.restart(down_s=3600)
    rig.wait(50)
    rig.join(running=[lease.attempt])
    assert rig.out.reply.keep == (lease.attempt,)
    rig.done(lease)
    assert rig.states() == "D"


def test_attempt_numbers_are_never_used_twice_even_after_a_restart() -> None:
    rig, _, lease = rendering("1-3")
    rig.done(lease)
    rig.restart()
    rig.join()
    again = rig.lease()
    assert again.attempt > lease.attempt
    assert again.no == lease.no + 1


def test_a_unit_taken_back_stays_parked_across_a_restart() -> None:
    rig, _node, lease = rendering()
    rig.act("cancel", "J1/beauty/1")
    rig.act("retry", "J1/beauty/1")
    assert rig.states() == "Q"
    rig.checkpoint()
    rig.restart()
    rig.join(running=[lease.attempt])
    rig.join("bee")
    assert rig.dispatch() == [], "the old attempt may still render it"
    rig.report(lease, closed=True)
    assert rig.dispatch()[0].units == (0,)
