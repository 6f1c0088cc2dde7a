"""The failure table, row by row: what a failure costs, where the unit goes next, and what else follows."""

from __future__ import annotations

import pytest

from farm.core.match import why_nobody
from farm.core.outcome import DrainCommand
from farm.model.jobs import FailureSpec
from farm.model.nodes import AppInfo
from farm.model.reports import DONE, RELEASED, UnitReport
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step


def two_nodes(**job: object) -> tuple[Rig, int, int]:
    rig = Rig()
    one, two = rig.join("ant"), rig.join("bee")
    rig.submit(step(frames="1"), **job)
    return rig, one, two


@pytest.mark.parametrize("failure", ["renderer", "output", "timeout", "silent"])
def test_three_failures_of_a_unit_are_its_end_each_on_another_node_while_there_is_one(failure: str) -> None:
    rig, one, two = two_nodes()
    nodes = []
    for state in ("Q", "Q", "F"):
        lease = rig.lease()
        nodes.append(lease.node_id)
        rig.fail(lease, failure)
        assert rig.states() == state
    assert nodes[:2] == [one, two], "the second try goes to the other node"
    assert rig.dispatch() == []
    assert rig.job().shown() == "failed"
    assert rig.step("J1/beauty").notes[0].failure == failure


def test_classes_that_spend_attempts_share_one_count() -> None:
    rig, *_ = two_nodes()
    for failure in ("renderer", "timeout", "silent"):
        rig.fail(rig.lease(), failure)
    assert rig.states() == "F"


def test_a_step_may_ask_for_another_number_of_attempts() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1", attempts=1))
    rig.fail(rig.lease(), "renderer")
    assert rig.states() == "F"
    rig.submit(step("other", frames="1", attempts=5))
    for state in "QQQQF":
        rig.fail(rig.lease(), "output")
        assert rig.states("J2/other") == state


@pytest.mark.parametrize("failure", ["oom-vram", "oom-ram"])
def test_out_of_memory_has_a_cap_of_its_own_and_blames_no_node(failure: str) -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    rig.fail(rig.lease(), "renderer")
    for state in "QQQF":
        rig.fail(rig.lease(), failure)
        assert rig.states() == state
    assert rig.step("J1/beauty").node_failures == {1: 1}, "only the renderer failure counts against the node"


def test_config_is_not_tried_again() -> None:
    rig, *_ = two_nodes()
    rig.fail(rig.lease(), "config")
    assert rig.states() == "F"


def test_config_is_not_tried_again_whatever_the_step_asks_for() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1", attempts=5))
    rig.fail(rig.lease(), "config")
    assert rig.states() == "F"


def test_a_missing_licence_waits_longer_each_time_and_spends_nothing() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames="1"))
    for wait_s in (15, 30, 60, 120, 240, 480, 600, 600):
        rig.fail(rig.lease(), "licence")
        assert rig.states() == "Q"
        for _ in range(wait_s // 15 - 1):
            rig.wait(15, node)
            assert rig.dispatch() == [], f"leased before {wait_s} s had passed"
        rig.wait(14, node)
        assert rig.dispatch() == []
        rig.wait(1, node)
    assert rig.step("J1/beauty").tries is None
    assert rig.step("J1/beauty").node_failures == {}
    assert rig.lease().node_id == node


def test_while_one_frame_waits_for_a_licence_the_others_go_on() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-2"))
    rig.fail(rig.lease(), "licence")
    assert rig.lease().units == (1,)


def test_path_tries_one_other_node_then_the_job_pauses_with_the_reason_and_no_node_is_drained() -> None:
    rig, one, two = two_nodes()
    first = rig.lease()
    rig.fail(first, "path")
    assert rig.states() == "Q"
    assert not rig.job().paused
    second = rig.lease()
    assert {first.node_id, second.node_id} == {one, two}
    rig.fail(second, "path")
    assert rig.job().paused
    assert rig.job().paused_by == "farm"
    assert rig.job().reason == "paused itself: because of path"
    assert rig.states() == "Q", "the frame can go on once the path is there"
    assert rig.node(one).enabled
    assert rig.node(two).enabled


def test_path_pauses_at_once_where_there_is_no_other_node() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-3"))
    rig.fail(rig.lease(), "path")
    assert rig.job().paused


def test_node_drains_the_node_says_why_and_spends_no_attempt() -> None:
    rig, one, two = two_nodes()
    rig.fail(rig.lease(), "node")
    assert not rig.node(one).enabled
    assert rig.node(one).reason == "drained by the farm: because of node"
    assert rig.commands(DrainCommand) == [DrainCommand(one, True, rig.node(one).reason)]
    assert rig.step("J1/beauty").tries is None
    assert rig.lease().node_id == two


def test_lost_spends_no_attempt_but_comes_back_five_times_only() -> None:
    rig = Rig()
    rig.submit(step(frames="1"))
    for count in range(1, 7):
        node = rig.join()
        rig.lease()
        rig.wait(61)
        assert rig.node(node).state == "lost"
        assert rig.states() == ("F" if count == 6 else "Q")
    assert rig.step("J1/beauty").tries is None


def test_preempted_spends_no_attempt_however_often() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    for _ in range(20):
        rig.release(rig.lease(), why="preempted")
        assert rig.states() == "Q"
    assert rig.step("J1/beauty").tries is None


def test_a_class_this_version_does_not_know_counts_as_the_renderers() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    rig.fail(rig.lease(), "sunspots")
    assert rig.step("J1/beauty").notes[0].failure == "renderer"


# ---------------------------------------------------------------- nodes that fail


def test_a_node_that_failed_three_times_is_not_used_for_the_step_while_another_is_able() -> None:
    rig = Rig()
    bad = rig.join("bad")
    rig.submit(step(frames="1-9"))
    for _ in range(3):
        rig.fail(rig.lease(), "renderer")
    good = rig.join("good")
    leases = rig.dispatch()
    assert [lease.node_id for lease in leases] == [good]
    other = rig.submit(step("other", frames="1"))
    assert [lease.node_id for lease in rig.dispatch()] == [bad], "for other steps it is as good as any"
    assert rig.states(f"J{other}/other") == "R"


def test_a_node_that_failed_three_times_is_used_when_it_is_the_last_able_one() -> None:
    rig = Rig()
    bad = rig.join("bad")
    rig.join("other", cores=4, renderers=("blender",))
    rig.submit(step(frames="1", attempts=9))
    for _ in range(3):
        rig.fail(rig.lease(), "renderer")
    assert rig.lease().node_id == bad, "a node that cannot take the step does not count"


def test_a_frame_never_waits_for_a_node_the_step_no_longer_uses() -> None:
    """It failed on the good node; the other node failed too often.  It must go to the good one again."""
    rig = Rig()
    bad = rig.join("bad")
    rig.submit(step(frames="1-3", attempts=9))
    for _ in range(3):
        rig.fail(rig.lease(), "renderer")
    good = rig.join("good")
    rig.done(rig.lease())
    lease = rig.lease()
    assert (lease.node_id, lease.units) == (good, (1,))
    rig.fail(lease, "output")
    assert rig.node(bad).enabled
    again = rig.lease()
    assert (again.node_id, again.units) == (good, (1,))
    rig.done(again)
    rig.done(rig.lease())
    assert rig.states() == "DDD"


# ---------------------------------------------------------------- jobs that pause themselves


def fail_frames(rig: Rig, count: int) -> None:
    for _ in range(count):
        rig.fail(rig.lease(), "config")


def test_a_job_pauses_itself_when_a_tenth_of_its_frames_failed() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-60"))
    fail_frames(rig, 5)
    assert not rig.job().paused, "5 of 60 is less than a tenth"
    fail_frames(rig, 1)
    assert rig.job().paused
    assert rig.job().reason == "paused itself when 6 of 60 frames had failed"
    assert rig.dispatch() == []


def test_fewer_than_five_failed_frames_pause_nothing() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-10"))
    fail_frames(rig, 4)
    assert not rig.job().paused
    fail_frames(rig, 1)
    assert rig.job().paused


def test_a_job_whose_last_frame_failed_shows_failed_not_paused() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-5"))
    fail_frames(rig, 5)
    assert rig.job().shown() == "failed"


def test_frames_lost_too_often_count_among_the_failed_ones() -> None:
    rig = Rig()
    rig.submit(step(frames="1-12", chunk=6))
    for _ in range(6):
        rig.join()
        rig.dispatch()
        rig.wait(61)
    assert rig.states() == "F" * 6 + "Q" * 6
    assert rig.job().paused
    assert rig.job().reason == "paused itself when 6 of 12 frames had failed"


def test_retry_lets_a_job_that_paused_itself_go_on() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-10"))
    fail_frames(rig, 5)
    answer = rig.act("retry", "J1")
    assert answer.changed == 5
    assert not rig.job().paused
    assert rig.states() == "Q" * 10


def test_a_user_who_paused_the_job_is_not_overruled_by_a_retry() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1-3"))
    fail_frames(rig, 1)
    rig.act("pause", "J1")
    rig.act("retry", "J1")
    assert rig.job().paused


def test_a_crash_after_all_files_are_good_is_done_with_a_warning() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    rig.report(rig.lease(), UnitReport(0, DONE, warning="blender ended with 139 after the last file"))
    assert rig.states() == "D"
    assert rig.results()[0].warning == "blender ended with 139 after the last file"


def test_a_unit_given_back_is_queued_at_once_and_nobody_is_blamed() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    rig.report(rig.lease(), UnitReport(0, RELEASED))
    assert rig.states() == "Q"
    assert rig.results()[0].reason == "given back unrendered"
    assert rig.step("J1/beauty").notes[0].failure == ""


# ------------------------------------------------------------------ beyond one unit


def submit_for(rig: Rig, user: str, name: str = "beauty", frames: str = "1-9", **fields: object) -> int:
    return rig.submit(step(name, frames=frames, **fields), user=user)  # type: ignore[arg-type]


def fail_of(rig: Rig, lease: object, failure: str = "renderer") -> None:
    rig.fail(lease, failure)  # type: ignore[arg-type]


def test_a_node_that_fails_the_work_of_three_users_is_quarantined_and_names_their_steps() -> None:
    rig = Rig()
    bad = rig.join("bad")
    for user, name in (("ann", "beauty"), ("bob", "fx")):
        submit_for(rig, user, name, frames="1")
        fail_of(rig, rig.lease())
        rig.act("cancel", f"J{rig.core.farm.next_job - 1}", who=user)
    rig.join("good")
    submit_for(rig, "eve", "comp", frames="1-2")
    leases = {lease.node_id: lease for lease in rig.dispatch()}
    assert rig.node(bad).enabled
    fail_of(rig, leases[bad], "silent")
    assert rig.node(bad).reason == (
        "quarantined: J1/beauty of ann, J2/fx of bob, J3/comp of eve failed here and nothing worked since"
    )
    assert [command.on for command in rig.commands(DrainCommand)] == [True]
    assert set(rig.node(bad).blame) == {"ann", "bob", "eve"}
    rig.restart()
    rig.checkpoint()
    rig.restart()
    assert not rig.node(bad).enabled
    rig.node_act("node-enable", bad)
    assert rig.node(bad).blame == {}, "somebody vouches for it"
    rig.restart()


def blamed(rig: Rig, users: tuple[str, ...], failure: str = "renderer") -> None:
    """One failure of each of these users on the only node there is, then a second node joins."""
    for user in users:
        number = submit_for(rig, user, frames="1")
        fail_of(rig, rig.lease(), failure)
        if not rig.job(number).paused and rig.job(number).open_units:
            rig.act("cancel", f"J{number}", who=user)


def test_something_that_works_in_between_clears_the_node() -> None:
    rig = Rig()
    node = rig.join("ant")
    rig.join("bee")
    rig.node_act("node-drain", 2)
    blamed(rig, ("ann", "bob"))
    submit_for(rig, "cat", frames="1")
    rig.done(rig.lease())
    assert rig.node(node).blame == {}
    blamed(rig, ("ann", "bob"))
    assert rig.node(node).enabled
    rig.restart()


def test_the_same_user_over_and_over_proves_nothing() -> None:
    rig = Rig()
    node = rig.join("ant")
    rig.join("bee")
    rig.node_act("node-drain", 2)
    blamed(rig, ("ann",) * 6 + ("bob",) * 3)
    assert rig.node(node).enabled


@pytest.mark.parametrize("failure", ["config", "licence", "oom-ram", "lost", "path"])
def test_what_is_no_nodes_doing_is_held_against_none(failure: str) -> None:
    rig = Rig()
    node = rig.join("ant")
    blamed(rig, ("ann", "bob", "eve"), failure)
    assert rig.node(node).blame == {}
    assert rig.node(node).enabled


def test_failures_of_long_ago_do_not_count() -> None:
    rig = Rig()
    node = rig.join("ant")
    blamed(rig, ("ann", "bob"))
    for _ in range(7 * 60 * 2):
        rig.wait(30, node)
    blamed(rig, ("eve",))
    assert rig.node(node).enabled


def test_the_last_able_node_of_work_that_waits_is_never_quarantined() -> None:
    rig = Rig()
    only = rig.join("only", pool="gpu")
    rig.join("other", pool="cpu")
    waits = submit_for(rig, "zoe", pools=("gpu",), frames="1-2")
    rig.act("priority", f"J{waits}", "0", who="zoe")
    for user in ("ann", "bob", "eve", "ida"):
        number = submit_for(rig, user, pools=("gpu",), frames="1")
        fail_of(rig, rig.lease())
        rig.act("cancel", f"J{number}", who=user)
    assert len(rig.node(only).blame) == 4
    assert rig.node(only).enabled
    # Once another can do its work, the next failure is one too many.
    rig.join("spare", pool="gpu")
    number = submit_for(rig, "ann", pools=("gpu",), frames="1-2")
    rig.act("priority", f"J{number}", "75", who="ann")
    for lease in rig.dispatch():
        if lease.node_id == only:
            rig.fail(lease, "renderer")
    assert not rig.node(only).enabled


def test_a_step_may_have_its_own_idea_of_too_many_failures() -> None:
    rig = Rig()
    rig.join(cores=50)
    patient = FailureSpec(pause_share=1.0, pause_least=50)
    hasty = FailureSpec(pause_least=2, pause_share=0.01)
    rig.submit(step("fx", frames="1-20", attempts=1, failure=patient))
    rig.submit(step("comp", frames="1-50", attempts=1, failure=hasty))
    for lease in rig.dispatch():
        if lease.step.spec.name == "fx":
            rig.fail(lease, "renderer")
    assert rig.job(1).shown() == "failed"
    assert not rig.job(1).paused, "20 of 20 failed, and it wants 50"
    failed = 0
    for lease in rig.dispatch():
        if lease.step.spec.name == "comp" and failed < 2:
            rig.fail(lease, "renderer")
            failed += 1
    assert rig.job(2).paused
    assert rig.job(2).reason == "paused itself when 2 of 50 frames of comp had failed"


def test_an_agent_that_ends_attempts_without_a_word_does_not_keep_a_frame_for_ever() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(frames="1"))
    for state in "QQQQQF":
        rig.report(rig.lease(), closed=True)
        assert rig.states() == state
    assert rig.step("J1/beauty").notes[0].reason == (
        "the agent ended the attempt without a result; it is given up after 6 times"
    )
    assert rig.step("J1/beauty").tries is None, "it cost the frame none of its attempts"
    rig.restart()


def test_a_step_with_its_own_commands_needs_a_node_that_runs_commands() -> None:
    rig = Rig()
    rig.join("ant", cores=2, renderers=("blender",), apps=(AppInfo("blender", "4.2"),))
    fields = {"renderer": "blender", "frames": "1"}
    rig.submit(step("plain", **fields), apps=("blender",))  # type: ignore[arg-type]
    assert rig.lease().step.spec.name == "plain"
    fussy = step("fussy", pre=("true",), **fields)  # type: ignore[arg-type]
    bee = rig.join("bee", renderers=("blender", "command"), apps=(AppInfo("blender", "4.2"),))
    rig.submit(fussy, apps=("blender",))
    assert rig.lease().node_id == bee
    # Were that node gone, the other would still not do.
    rig.bye(bee)
    assert "ant runs no commands" in why_nobody(rig.core.farm, rig.step("J2/fussy"))


def test_silence_is_a_multiple_of_the_median_once_it_is_known() -> None:
    rig = Rig()
    rig.join(cores=4)
    rig.submit(step(frames="1-8", failure=FailureSpec(silent_x=3.0)))
    first, *others = rig.dispatch()
    assert first.silent_us == 0
    rig.done(first, elapsed_s=20.0)
    for lease in others:
        rig.done(lease, elapsed_s=20.0)
    assert all(lease.silent_us == 60_000_000 for lease in rig.dispatch())


def test_what_ran_out_of_video_memory_gets_a_larger_gpu_of_the_same_node() -> None:
    rig = Rig()
    rig.join("ant", cores=4, vram=(8_000, 24_000))
    need = Resources(cores=1, gpus=1)
    rig.submit(step("a", frames="1", resources=need))
    first = rig.lease()
    assert first.gpus == (0,), "the smallest that will do"
    rig.fail(first, "oom-vram")
    assert rig.lease().gpus == (1,)


def test_a_small_gpu_of_a_large_node_says_nothing_of_its_large_one() -> None:
    rig = Rig()
    rig.join("ant", cores=4, vram=(8_000, 24_000))
    rig.submit(step("other", frames="1", resources=Resources(cores=1, gpus=1, vram_mib=20_000)))
    busy = rig.lease()
    assert busy.gpus == (1,)
    rig.submit(step("a", frames="1", resources=Resources(cores=1, gpus=1)))
    rig.fail(rig.lease(), "oom-vram")
    assert rig.dispatch() == [], "the larger one is busy: it waits for it"
    rig.done(busy)
    assert rig.lease().gpus == (1,)
