"""Why is it not running?  Every verdict is tested: what it blames does keep work away, its cure cures."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core import explain, idle
from farm.core.events import PolicyEvent
from farm.core.explain import Answer
from farm.core.outcome import LeaseCommand
from farm.core.state import Step
from farm.model.jobs import AfterSpec
from farm.model.policy import LimitRule, Policy, SiteRule
from farm.model.reports import FAILED, UnitReport
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step


def policy(rig: Rig, **fields: Any) -> None:
    """A wrangler sets the farm's policy."""
    rig.handle(PolicyEvent(rig.now_us, Policy(**fields), "", "wim"))


def why(rig: Rig, address: str = "J1/beauty", unit: int | None = None) -> Answer:
    """The answer for a step or one of its units."""
    return explain.why(rig.core.farm, rig.step(address), unit, rig.now_us)


def words(answer: Answer) -> str:
    """All that an answer says."""
    causes = [f"{what} -> {cure}" for what, cure in answer.causes]
    nodes = [f"{one.filter}: {', '.join(one.nodes)} {one.reason} -> {one.cure}" for one in answer.nodes]
    return "\n".join(causes + nodes)


def test_nothing_in_the_farm_can_take_it() -> None:
    rig = Rig()
    rig.join("a", 2)
    rig.submit(step(resources=Resources(cores=1, gpus=3)), force=True)
    answer = why(rig)
    assert answer.state == "queued"
    assert answer.causes[0][0] == "no node can ever take it"
    assert "has 0 GPUs, not 3" in words(answer)
    assert answer.wait is not None
    assert answer.wait.low_us is None
    rig.join("big", 2, vram=(8_000,) * 3)
    assert len(rig.dispatch()) == 1


def test_the_cure_of_a_request_that_is_too_large_cures() -> None:
    rig = Rig()
    rig.join("a", 2)
    rig.submit(step(frames="1", resources=Resources(cores=8)), force=True)
    cure = why(rig).causes[0][1]
    assert cure == "farm set J1/beauty resources.cores=2"
    rig.act("set", "J1/beauty", '{"resources.cores":2}')
    assert len(rig.dispatch()) == 1


def test_a_paused_job_says_who_and_why() -> None:
    rig = Rig()
    rig.join("a")
    rig.submit(step())
    rig.act("pause", "J1", reason="client changed the shot")
    answer = why(rig)
    assert answer.causes[0] == ("the job is paused by ann: client changed the shot", "farm resume J1")
    assert [one.filter for one in answer.nodes] == ["free"]


def test_a_paused_job_does_not_say_who_paused_it_twice() -> None:
    rig = Rig()
    rig.join("a")
    rig.submit(step())
    rig.act("pause", "J1")
    assert rig.job().reason == "paused by ann"
    assert why(rig).causes[0] == ("the job is paused by ann", "farm resume J1")


def test_a_job_that_paused_itself_says_how_many_had_failed_then() -> None:
    """Frames that ran when it paused may fail later: the figure is of a moment, and the words say so."""
    rig = Rig()
    rig.join("a", 8)
    rig.submit(step(frames="1-20"))
    running = rig.dispatch()
    assert len(running) == 8
    for lease in running[:6]:
        rig.fail(lease, "config")
    assert rig.states()[:20].count("F") == 6
    assert why(rig).causes[0] == (
        "the job paused itself when 5 of 20 frames had failed",
        "farm resume J1",
    )
    assert "itself: paused itself" not in words(why(rig))


def test_busy_nodes_and_what_is_ahead() -> None:
    rig = Rig()
    rig.join("a", 1)
    rig.submit(step("first", "1-10"))
    rig.dispatch()
    rig.submit(step())
    answer = why(rig, "J2/beauty")
    assert "9 frames come before it" in words(answer)
    assert "has 0 of 1 cores free, 1 needed" in words(answer)
    assert answer.wait is not None
    assert answer.wait.ahead == 9
    assert answer.wait.low_us is not None
    assert answer.wait.high_us is not None
    assert rig.now_us <= answer.wait.low_us <= answer.wait.high_us


def test_the_expected_start_holds() -> None:
    rig = Rig()
    rig.join("a", 1)
    rig.submit(step("first", "1-20"))
    lease = rig.lease()
    for _ in range(4):
        rig.now_us += 10_000_000
        rig.done(lease, elapsed_s=10.0)
        lease = rig.lease()
    rig.submit(step("second", "1"))
    wait = why(rig, "J2/second").wait
    assert wait is not None
    assert wait.low_us is not None
    assert wait.high_us is not None
    while lease.step.spec.name != "second":
        rig.now_us += 10_000_000
        rig.done(lease, elapsed_s=10.0)
        lease = rig.lease()
    assert wait.low_us <= rig.now_us <= wait.high_us


def test_limits_say_who_holds_them() -> None:
    rig = Rig()
    policy(rig, limits={"nuke": LimitRule(total=1)})
    rig.join("a", 4)
    rig.submit(step("comp", "1", limits={"nuke": 1}))
    lease = rig.lease()
    rig.submit(step(frames="1", limits={"nuke": 1}))
    answer = why(rig, "J2/beauty")
    assert answer.causes[0] == ("limit nuke: 1 of 1 in use, 1 needed", "held by J1/comp")
    rig.done(lease)
    assert len(rig.dispatch()) == 1


def test_caps_say_what_is_held() -> None:
    rig = Rig()
    policy(rig, user_max_cores={"ann": 2})
    rig.join("a", 8)
    rig.submit(step(frames="1-4"))
    assert len(rig.dispatch()) == 2
    assert why(rig).causes[0][0] == "ann holds 2 cores and may hold 2"
    policy(rig, user_max_cores={"ann": 4})
    assert len(rig.dispatch()) == 2


def test_drained_closed_and_lost_nodes() -> None:
    rig = Rig()
    policy(rig, sites={"cloud": SiteRule(projects=("film",))})
    for name in ("drained", "gone"):
        rig.join(name)
    rig.join("far", site="cloud")
    rig.node_act("node-drain", 1, "disk replaced")
    rig.bye(2)
    rig.submit(step())
    told = words(why(rig))
    assert "service: drained is drained (disk replaced) -> farm node enable drained" in told
    assert "service: gone is offline" in told
    assert "site: far is closed to it: site cloud is for the projects film" in told
    assert rig.dispatch() == []


def test_blocked_work_names_what_it_waits_for_and_its_state() -> None:
    rig = Rig()
    rig.join("a", 4)
    rig.submit(
        step("sim", "1-3"),
        step("beauty", "1-3", after=(AfterSpec(step="sim", frames=True),)),
        step("film", None, after=("beauty",)),
    )
    leases = rig.dispatch()
    rig.done(leases[0])
    rig.fail(leases[1], "config")
    assert why(rig, "J1/beauty", 1).causes[0] == (
        "waits for J1/sim/2, which is failed",
        "farm retry J1/sim/2",
    )
    assert why(rig, "J1/beauty", 2).causes[0][0] == "waits for J1/sim/3, which is running"
    assert "waits for J1/beauty" in why(rig, "J1/film", 0).causes[0][0]
    rig.act("retry", "J1/sim/2")
    for lease in rig.dispatch():
        if lease.step.spec.name == "sim":
            rig.done(lease)
    assert why(rig, "J1/beauty", 1).state == "queued"


def test_a_failure_says_what_where_and_what_the_rule_is() -> None:
    rig = Rig()
    for name in ("a", "b", "c"):
        rig.join(name)
    rig.submit(step(frames="7"))
    for _ in range(3):
        rig.fail(rig.lease(), "renderer")
    answer = why(rig, unit=0)
    assert answer.state == "failed"
    assert answer.failure == "renderer"
    assert answer.causes[0] == ("because of renderer", "farm log J1/beauty/7")
    assert set(answer.failed_on) == {"a", "b", "c"}
    assert answer.tries == 3


def test_a_frame_that_failed_on_the_only_free_node_says_so() -> None:
    rig = Rig()
    rig.join("a")
    rig.join("b", 2)
    rig.submit(step("busy", "1-9", resources=Resources(cores=2)), priority=90)
    rig.dispatch()
    rig.submit(step(frames="1"))
    lease = rig.lease()
    rig.fail(lease, "renderer")
    assert rig.dispatch() == []
    told = words(why(rig, "J2/beauty", 0))
    assert "failed-here: a is where this frame failed" in told


def test_back_off_says_how_long() -> None:
    rig = Rig()
    rig.join("a")
    rig.submit(step(frames="1"))
    rig.fail(rig.lease(), "licence")
    assert why(rig, unit=0).causes[0][0] == "it is tried again in 15 s after: because of licence"


def test_why_a_node_is_idle() -> None:
    rig = Rig()
    node = rig.join("a", 2)
    answer = idle.why_idle(rig.core.farm, rig.node(node), rig.now_us)
    assert answer.reason == "is idle: nothing waits in the farm"
    rig.submit(step(frames="1", resources=Resources(cores=1, gpus=1)), force=True)
    answer = idle.why_idle(rig.core.farm, rig.node(node), rig.now_us)
    assert answer.work == (("J1/beauty", "a has 0 GPUs, not 1", ""),)
    rig.act("pause", "J1")
    answer = idle.why_idle(rig.core.farm, rig.node(node), rig.now_us)
    assert answer.reason == "is idle: nothing waits in the farm (1 job is paused)"
    rig.node_act("node-drain", node, "fan")
    assert idle.why_idle(rig.core.farm, rig.node(node), rig.now_us).reason == "is drained (fan)"


def test_the_nearest_node_is_named_first_and_its_cure_changes_all_that_is_needed() -> None:
    rig = Rig()
    rig.join("tiny", 1)
    rig.join("far", 2)
    rig.join("near", 8, vram=(24_000,))
    rig.submit(step(frames="1", resources=Resources(cores=12, gpus=1, vram_mib=48_000)), force=True)
    answer = why(rig)
    assert answer.causes[0][0] == "no node can ever take it"
    assert answer.nodes[0].nodes == ("near",)
    cure = "farm set J1/beauty resources.cores=8 resources.vram_mib=24000"
    assert answer.causes[0][1] == answer.nodes[0].cure == cure
    # A node without any GPU could be given the work only by making other work of it.
    assert {one.cure for one in answer.nodes[1:]} == {""}
    rig.act("set", "J1/beauty", '{"resources.cores":8,"resources.vram_mib":24000}')
    assert len(rig.dispatch()) == 1


def test_nodes_that_lack_the_program_or_an_attribute_have_no_cure() -> None:
    rig = Rig()
    rig.join("a", 4)
    rig.submit(step(frames="1", attributes={"room": "b"}, resources=Resources(cores=9)), force=True)
    assert why(rig).causes[0] == ("no node can ever take it", "add a node that can")


def test_a_node_kept_for_others_is_never_called_free() -> None:
    rig = Rig()
    policy(rig, reserve_after_s=1)
    node = rig.join("a", 4)
    rig.submit(step("small", "1-40"))
    leases = rig.dispatch()
    rig.submit(step("large", "1", resources=Resources(cores=4)), user="kim")
    rig.done(leases.pop(0), elapsed_s=600.0)
    leases += rig.dispatch()
    rig.wait(2.0, node)
    rig.done(leases.pop(0), elapsed_s=600.0)
    assert rig.dispatch() == []
    small = why(rig, "J1/small")
    assert small.nodes[0].filter == "reserved"
    assert small.nodes[0].reason == "is kept for J2/large, which this would hold up"
    large = why(rig, "J2/large")
    assert large.causes[0][0] == "a is kept for it and takes nothing that would hold it up"
    assert small.wait is not None
    assert large.wait is not None
    assert small.wait.low_us is not None
    assert large.wait.low_us is not None
    assert small.wait.low_us > large.wait.low_us > rig.now_us
    idle_answer = idle.why_idle(rig.core.farm, rig.node(node), rig.now_us)
    assert idle_answer.reason == "is kept for J2/large, which needs its room"


def test_each_cap_has_its_own_cure_and_nothing_that_is_capped_is_promised_now() -> None:
    rig = Rig()
    policy(rig, user_max_cores={"*": 2})
    rig.join("a", 8)
    rig.submit(step(frames="1-9"), max_cores=1)
    assert len(rig.dispatch()) == 1
    answer = why(rig)
    assert answer.causes[0][1] == "farm set J1 max_cores=N (0 = no cap)"
    assert ("1 frame is being rendered", "") in answer.causes
    assert answer.wait is not None
    assert answer.wait.low_us is not None
    assert answer.wait.low_us > rig.now_us
    rig.act("set", "J1", '{"max_cores":0}')
    rig.dispatch()
    assert "farm policy set 'user_max_cores.*=N'" in why(rig).causes[0][1]


def test_the_cure_of_a_closed_site_cures() -> None:
    rig = Rig()
    policy(rig, sites={"cloud": SiteRule(projects=("film",))})
    rig.join("far", site="cloud")
    rig.submit(step(frames="1"), project="advert")
    answer = why(rig)
    cure = "a wrangler: farm policy set sites.cloud.projects=film,advert"
    assert answer.causes[0] == ("no node can ever take it", cure)
    assert answer.wait is not None
    assert answer.wait.low_us is None
    policy(rig, sites={"cloud": SiteRule(projects=("film", "advert"))})
    assert len(rig.dispatch()) == 1


def test_all_nodes_out_of_service_is_not_called_busy() -> None:
    rig = Rig()
    for number, name in enumerate(("a", "b"), start=1):
        rig.join(name)
        rig.node_act("node-drain", number, "fan")
    rig.submit(step())
    answer = why(rig)
    assert answer.causes == (("every node that could take it is out of service", ""),)
    assert answer.nodes[0].cure == "farm node enable a b"


def test_what_is_tried_again_later_does_not_start_now() -> None:
    rig = Rig()
    node = rig.join("a")
    rig.submit(step(frames="1"))
    rig.fail(rig.lease(), "licence")
    for unit in (None, 0):
        wait = why(rig, unit=unit).wait
        assert wait is not None
        assert wait.low_us == rig.now_us + 15_000_000
    answer = idle.why_idle(rig.core.farm, rig.node(node), rig.now_us)
    assert answer.reason == "is idle: nothing waits in the farm (1 frame is tried again later)"


def test_frames_behind_the_scouts_have_no_start_of_their_own() -> None:
    rig = Rig()
    rig.join("a")
    rig.submit(step(frames="1-9"), scout=2)
    rig.lease()
    answer = why(rig, unit=3)
    assert answer.causes[0] == ("its job renders a few scout frames first", "farm resume J1")
    assert answer.wait is not None
    assert answer.wait.low_us is None


def test_failures_of_a_step_are_told_by_their_words_the_most_first() -> None:
    rig = Rig()
    rig.join("a", 8)
    rig.submit(step(frames="1-4"))
    leases = rig.dispatch()
    for lease, reason in zip(leases, ("no camera", "no texture", "no texture", "no texture"), strict=True):
        rig.report(lease, UnitReport(lease.units[0], FAILED, "config", reason, 1))
    told = why(rig)
    assert told.state == "failed"
    assert told.failure == "config"
    assert told.causes[:2] == (
        ("3 frames: no texture", "farm log J1/beauty/2"),
        ("1 frame: no camera", "farm log J1/beauty/1"),
    )


def test_a_step_at_work_tells_of_its_frames_that_cannot_go_on() -> None:
    rig = Rig()
    rig.join("a", 8)
    rig.submit(step("sim", "1-2"), step("beauty", "1-2", after=(AfterSpec(step="sim", frames=True),)))
    good, bad = rig.dispatch()
    rig.done(good)
    rig.fail(bad, "config")
    rig.dispatch()
    answer = why(rig)
    assert answer.state == "running"
    assert answer.causes == (
        ("1 frame is being rendered on a", ""),
        ("1 frame is blocked: J1/beauty/2 waits for J1/sim/2, which is failed", "farm retry J1/sim/2"),
    )


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_explanations_never_contradict_the_scheduler(data: st.DataObject) -> None:
    """After placing, no node is called free for work that waits unless a cause is named; and work that
    nothing holds is leased."""
    rig = Rig()
    limits = {"nuke": LimitRule(total=data.draw(st.integers(0, 2)))}
    policy(rig, limits=limits, user_max_cores={"bob": 2}, reserve_after_s=1)
    for number in range(data.draw(st.integers(1, 3))):
        rig.join(
            f"n{number}", data.draw(st.integers(1, 4)), site=data.draw(st.sampled_from(["local", "cloud"]))
        )
    leases: list[LeaseCommand] = []
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(
            st.sampled_from(["submit", "done", "fail", "drain", "enable", "pause", "resume", "time"])
        ):
            case "submit":
                rig.submit(
                    step(
                        frames="1-3",
                        resources=Resources(cores=data.draw(st.integers(1, 5))),
                        limits={"nuke": 1} if data.draw(st.booleans()) else {},
                        site=data.draw(st.sampled_from(["", "cloud"])),
                    ),
                    user=data.draw(st.sampled_from(["ann", "bob"])),
                    force=True,
                )
            case "done" if leases:
                rig.done(leases.pop(0), elapsed_s=data.draw(st.sampled_from([0.5, 600.0])))
            case "time":
                rig.wait(2.0, *rig.core.farm.nodes)
            case "fail" if leases:
                rig.fail(leases.pop(0), data.draw(st.sampled_from(["renderer", "licence", "output"])))
            case "drain":
                rig.node_act("node-drain", 1)
            case "enable":
                rig.node_act("node-enable", 1)
            case "pause" | "resume" as word if rig.core.farm.jobs:
                rig.act(word, f"J{data.draw(st.sampled_from(sorted(rig.core.farm.jobs)))}")
        leases += rig.dispatch()
        for one in rig.core.farm.steps.values():
            whole = explain.why(rig.core.farm, one, None, rig.now_us)
            if whole.state == "queued" and any(node.filter == "free" for node in whole.nodes):
                assert _held(rig, one) or one.counts[1] == len(one.parked), words(whole)
            for unit in range(one.units):
                answer = explain.why(rig.core.farm, one, unit, rig.now_us)
                assert answer.causes or answer.state in ("done", "canceled", "skipped")
                if answer.state != "queued":
                    continue
                free = any(node.filter == "free" for node in answer.nodes)
                assert not free or unit in one.parked or _held(rig, one), words(answer)


def _held(rig: Rig, one: Step) -> bool:
    """Whether something holds a step that is not about nodes."""
    farm = rig.core.farm
    return one.job.paused or bool(explain.kept_back(farm, one) or explain.limit_short(farm, one.limits))


def test_a_frame_that_was_given_up_names_the_frame_that_failed() -> None:
    for on_failure in ("skip", "cancel"):
        rig = Rig()
        rig.join("ant", 4)
        need = AfterSpec(step="a", frames=True, on_failure=on_failure)  # type: ignore[arg-type]
        rig.submit(step("a", "1-4", attempts=1), step("b", "1-4", after=(need,)))
        for lease in rig.dispatch():
            rig.fail(lease, "renderer-setup")
        for unit in range(4):
            (cause,) = why(rig, "J1/b", unit).causes
            assert cause[0] == f"frame {unit + 1} of J1/a failed"
        (cause,) = why(rig, "J1/b").causes
        assert cause[0] == "frames 1-4 of J1/a failed"
