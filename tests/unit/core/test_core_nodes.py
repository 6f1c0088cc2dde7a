"""Nodes: hours, slots, rates that change, disable, roll-outs, and ticks that cost only what is due."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core import explain, idle, invariants, meter, nodelife
from farm.core.events import BeatEvent, HelloEvent, NodeActEvent, TickEvent
from farm.core.outcome import DrainCommand, StopCommand, UpdateCommand
from farm.core.rows import MeterRow, NodeRow, SeenRow
from farm.core.state import Node
from farm.model.errors import CallError, IllegalMove, UnknownName
from farm.model.nodes import NodeChange, RateFrom, UpdateOrder
from farm.model.states import NodeState
from tests.support.core_rig import Rig, step
from tests.support.core_world import facts

HOUR_US = 3_600_000_000
#: A rate that costs 1,000 nano-USD a second.
KILO = 3_600 * 1_000


def at(text: str) -> int:
    """Microseconds of a moment in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def act(rig: Rig, action: str, node: int, value: object = None, reason: str = "") -> Any:
    text = msgspec.json.encode(value).decode() if value is not None else ""
    return rig.handle(NodeActEvent(rig.now_us, action, node, reason, "wim", text)).reply


def set_(rig: Rig, node: int, **change: Any) -> Any:
    return act(rig, "node-set", node, NodeChange(**change))


def run_to(rig: Rig, until_us: int, *beating: int, step_s: int = 5) -> None:
    """Ticks and heartbeats until a time."""
    while rig.now_us < until_us:
        rig.wait(min(step_s, (until_us - rig.now_us) / 1e6), *beating)


# ---------------------------------------------------------------- hours


def test_outside_its_hours_a_node_starts_nothing_and_finishes_what_runs() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T18:58:00")
    node = rig.join(cores=2)
    set_(rig, node, schedule="mon-fri 19:00-07:00")
    rig.submit(step(frames="1-4"))
    assert rig.dispatch() == []
    assert rig.node(node).closed == "accepts work mon-fri 19:00-07:00; next mon 19:00"
    run_to(rig, at("2026-11-30T19:00:00"), node)
    assert "accepts work mon-fri 19:00-07:00" in rig.told()
    leases = rig.dispatch()
    assert len(leases) == 2
    rig.now_us = at("2026-12-01T06:59:58")
    rig.beat(node)
    rig.wait(2, node)
    assert rig.node(node).closed
    assert rig.states() == "RRQQ", "what runs goes on"
    rig.done(leases[0])
    assert rig.dispatch() == []
    assert rig.states() == "DRQQ"


def test_hours_follow_the_wall_clock_of_their_zone() -> None:
    spring_us = at("2026-03-29T01:00:00")
    rig = Rig()
    rig.now_us = at("2026-03-28T12:00:00")
    node = rig.join()
    zone = ((0, 3600), (spring_us, 7200))
    set_(rig, node, schedule="08:00-09:00 Europe/Berlin", offsets=zone)
    assert nodelife.closed_reason(rig.node(node), at("2026-03-28T07:30:00")) == "", "08:30 in winter"
    assert nodelife.closed_reason(rig.node(node), at("2026-03-29T06:30:00")) == "", "08:30 in summer"
    assert nodelife.closed_reason(rig.node(node), at("2026-03-29T07:30:00")).endswith("next mon 08:00")


def test_an_empty_schedule_opens_the_node_at_once() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T12:00:00")
    node = rig.join()
    rig.submit(step(frames="1"))
    set_(rig, node, schedule="sat-sun")
    assert rig.dispatch() == []
    assert set_(rig, node, schedule="").message == "ant: accepts work always"
    assert len(rig.dispatch()) == 1


def test_hours_hold_after_a_restart_and_a_new_hello() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T12:00:00")
    node = rig.join()
    set_(rig, node, schedule="20:00-06:00", slots=3)
    rig.submit(step(frames="1"))
    rig.restart(down_s=10)
    rig.join()
    assert rig.node(node).settings.slots == 3
    assert rig.dispatch() == []
    rig.now_us = at("2026-11-30T20:00:00")
    rig.beat(node)
    rig.wait(0, node)
    assert len(rig.dispatch()) == 1


def test_hours_that_changed_while_the_broker_was_away_count_at_once() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T19:59:00")
    node = rig.join()
    set_(rig, node, schedule="20:00-06:00")
    assert rig.node(node).closed
    rig.restart(down_s=120)
    assert not rig.node(node).closed


# ---------------------------------------------------------------- slots


def test_slots_are_the_most_attempts_at_once() -> None:
    rig = Rig()
    node = rig.join(cores=8)
    set_(rig, node, slots=2)
    rig.submit(step(frames="1-6"))
    leases = rig.dispatch()
    assert len(leases) == 2
    rig.done(leases[0])
    assert len(rig.dispatch()) == 1
    assert set_(rig, node, slots=0).message == "ant: as many attempts as fit"
    assert len(rig.dispatch()) == 3


def test_fewer_slots_than_run_stop_nothing() -> None:
    rig = Rig()
    node = rig.join(cores=3)
    rig.submit(step(frames="1-6"))
    leases = rig.dispatch()
    set_(rig, node, slots=1)
    assert rig.commands(StopCommand) == []
    rig.done(leases[0])
    rig.done(leases[1])
    assert rig.dispatch() == []
    rig.done(leases[2])
    assert len(rig.dispatch()) == 1


def test_setting_what_is_so_already_changes_nothing() -> None:
    rig = Rig()
    node = rig.join()
    set_(rig, node, slots=2)
    answer = set_(rig, node, slots=2)
    assert (answer.changed, answer.message) == (0, "ant: is so already")
    assert rig.out.rows == []
    with pytest.raises(CallError, match="what to set"):
        act(rig, "node-set", node, {"slots": "many"})
    with pytest.raises(UnknownName):
        set_(rig, 99, slots=2)


# ---------------------------------------------------------------- rates


def test_the_meter_is_cut_at_the_very_moment_a_rate_begins() -> None:
    rig = Rig()
    node = rig.join(cores=4, rate=KILO)
    rig.submit(step(frames="1"))
    lease = rig.lease()
    change_us = rig.now_us + 7_300_000
    set_(rig, node, rates=(RateFrom(change_us, 10 * KILO),))
    run_to(rig, rig.now_us + 20_000_000, node)
    rig.done(lease, elapsed_s=20)
    # 7.3 s at 1,000 and 12.7 s at 10,000 a second; the attempt has a quarter of the node.
    assert rig.node(node).total_nano == 7_300 + 127_000
    assert rig.step("J1/beauty").spend_nano == (7_300 + 127_000) // 4
    assert rig.node(node).meter_rate == 10 * KILO


def test_a_tick_at_its_moment_tells_people_and_stores_the_meter() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    set_(rig, node, rates=(RateFrom(rig.now_us + 4_000_000, 2 * KILO),))
    rig.wait(3.9, node)
    assert not any(isinstance(row, MeterRow) for row in rig.out.rows)
    rig.wait(0.2, node)
    assert any(isinstance(row, MeterRow) for row in rig.out.rows)
    assert rig.told() == ["it was set to begin now"]
    rig.wait(1, node)
    assert rig.out.rows == [], "once"


def test_a_lease_between_the_moment_and_the_tick_does_not_blur_it() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    set_(rig, node, rates=(RateFrom(rig.now_us + 5_000_000, 3 * KILO),))
    rig.submit(step(frames="1"))
    rig.now_us += 6_000_000
    lease = rig.lease()
    assert rig.node(node).total_nano == 5_000 + 3_000
    rig.now_us += 1_000_000
    rig.done(lease)
    assert rig.step("J1/beauty").spend_nano == 3_000


def test_a_rate_without_a_time_counts_from_now_and_none_gives_the_farms_back() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    rig.wait(10, node)
    assert "costs 0.010800 USD/h" in set_(rig, node, rates=(RateFrom(0, 3 * KILO),)).message
    rig.wait(10, node)
    assert set_(rig, node, rates=()).message == "ant: costs what the farm says"
    rig.wait(10, node)
    rig.bye(node)
    assert rig.node(node).total_nano == 10_000 + 30_000 + 10_000


def test_an_agents_hello_brings_the_farms_rate_and_not_the_nodes_own_back() -> None:
    rig = Rig()
    node = rig.join(rate=KILO)
    set_(rig, node, rates=(RateFrom(0, 5 * KILO),))
    rig.bye(node)
    rig.wait(100)
    rig.join(rate=2 * KILO)
    rig.wait(10, node)
    rig.bye(node)
    assert rig.node(node).total_nano == 50_000
    assert meter.rate_at(rig.node(node), 0) == 2 * KILO, "before its own rate began"


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 60_000_000), st.integers(0, 10**12)), max_size=6, unique_by=lambda c: c[0]
    ),
    waits=st.lists(st.integers(1, 9_000_000), min_size=1, max_size=8),
    down=st.booleans(),
)
def test_rates_charge_every_microsecond_once_however_time_is_cut(
    changes: list[tuple[int, int]], waits: list[int], down: bool
) -> None:
    rig = Rig(lost_us=10**12, suspect_us=10**11)
    node = rig.join(cores=3, rate=KILO)
    start_us = rig.now_us
    rates = tuple(RateFrom(start_us + 1 + after, nano) for after, nano in sorted(changes))
    if rates:
        set_(rig, node, rates=rates)
    rig.submit(step(frames="1-100"))
    for wait_us in waits:
        leases = rig.dispatch()
        rig.wait(wait_us / 1e6, node)
        projected = meter.projected(rig.node(node), rig.now_us)[0]
        if leases:
            rig.done(leases[0])
            assert rig.node(node).total_nano == projected
    if down:
        rig.checkpoint()
        rig.restart(grace_s=10**5)
        rig.join(cores=3, rate=KILO, running=list(rig.node(node).attempts))
    rig.bye(node)
    cuts = [(start_us, KILO), *((entry.from_us, entry.nano_h) for entry in rates), (rig.now_us, 0)]
    expected = sum(
        rate * (min(until, rig.now_us) - since) // HOUR_US
        for (since, rate), (until, _) in pairwise(cuts)
        if since < rig.now_us
    )
    assert rig.node(node).total_nano == expected
    invariants.check_money(rig.core.farm)


# ---------------------------------------------------------------- drain, disable, enable, forget


def test_a_disabled_node_gives_its_work_back_and_no_try_is_spent() -> None:
    rig = Rig()
    node = rig.join(cores=2)
    rig.submit(step(frames="1-2"))
    first, second = rig.dispatch()
    answer = act(rig, "node-disable", node, reason="fan is loud")
    assert answer.message == "ant takes no more work and gives back 2 attempts"
    assert {stop.attempt for stop in rig.commands(StopCommand)} == {first.attempt, second.attempt}
    assert rig.states() == "RR", "not leased again before the agent says that it stopped"
    rig.release(first, why="")
    rig.release(second, why="")
    assert rig.states() == "QQ"
    assert rig.step("J1/beauty").tries is None
    assert rig.dispatch() == []
    act(rig, "node-enable", node)
    assert not rig.node(node).settings.disabled
    assert len(rig.dispatch()) == 2


def test_a_stop_that_was_lost_with_the_connection_is_said_again() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames="1"))
    lease = rig.lease()
    act(rig, "node-disable", node)
    rig.join(running=[lease.attempt])
    assert [stop.attempt for stop in rig.commands(StopCommand)] == [lease.attempt]
    rig.restart()
    rig.join(running=[lease.attempt])
    assert [stop.attempt for stop in rig.commands(StopCommand)] == [lease.attempt]


def test_a_drained_node_finishes_and_shows_why() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames="1-2"))
    lease = rig.lease()
    answer = act(rig, "node-drain", node, reason="fan is loud")
    assert answer.message == "ant finishes 1 attempt and takes no more"
    assert rig.commands(StopCommand) == []
    rig.done(lease)
    assert rig.dispatch() == []
    assert rig.node(node).reason == "fan is loud"
    with pytest.raises(IllegalMove):
        act(rig, "node-forget", node)
    rig.bye(node)
    act(rig, "node-forget", node)
    assert rig.node(node).forgotten
    with pytest.raises(UnknownName):
        act(rig, "node-enable", node)


# ---------------------------------------------------------------- an agent that ends


def test_a_node_whose_agent_ends_takes_nothing_new_and_is_not_thought_unable() -> None:
    rig = Rig()
    node = rig.join(cores=2)
    rig.submit(step(frames="1-3", chunk=1))
    first, _ = rig.dispatch()
    running = list(rig.node(node).attempts)
    rig.release(first)
    rig.join(cores=2, running=running[1:], ending=True)
    assert rig.node(node).state is NodeState.ONLINE
    assert "command" in rig.node(node).facts.renderers
    assert rig.dispatch() == []
    (verdict,) = explain.why(rig.core.farm, rig.step("J1/beauty"), 2, rig.now_us).nodes
    assert (verdict.filter, verdict.reason) == ("service", "is ending: its agent takes no more work")
    assert idle.why_idle(rig.core.farm, rig.node(node), rig.now_us).reason == verdict.reason
    # Not refused either: the node can, it only does not now.
    assert rig.submit(step(frames="1"), force=False) == 2
    rig.bye(node)
    assert rig.submit(step(frames="1"), force=False) == 3
    assert (rig.node(node).state, rig.node(node).closed) == (NodeState.OFFLINE, "")
    rig.join(cores=2)
    assert rig.node(node).closed == ""
    assert len(rig.dispatch()) == 2


def test_the_end_of_an_agent_outlives_neither_its_silence_nor_a_restart_nor_its_hours() -> None:
    rig = Rig()
    rig.now_us = at("2026-11-30T20:00:00")
    node = rig.join()
    set_(rig, node, schedule="mon-fri 19:00-07:00")
    rig.join(ending=True)
    assert rig.node(node).closed.startswith("is ending")
    # What opens by the clock does not open a node that ends.
    set_(rig, node, schedule="")
    assert rig.node(node).closed.startswith("is ending")
    rig.wait(1000)
    assert (rig.node(node).state, rig.node(node).closed) == (NodeState.LOST, "")
    rig.join(ending=True)
    rig.restart()
    rig.join(ending=True)
    rig.submit(step(frames="1"))
    assert rig.dispatch() == []
    rig.join()
    assert len(rig.dispatch()) == 1


# ---------------------------------------------------------------- roll-outs


class Studio:
    """Ten nodes with version 1, and a roll-out of version 2."""

    def __init__(self, count: int = 10, **more: Any) -> None:
        self.rig = Rig()
        self.more = {"updates": True} | more
        self.nodes = [self.join(f"n{index}", "1") for index in range(count)]

    def join(self, name: str, software: str, **more: Any) -> int:
        return self.rig.join(name, software=software, **(self.more | more))

    def start(self, **order: Any) -> Any:
        fields = {"nodes": tuple(self.nodes), "version": "2"} | order
        return act(self.rig, "node-update", 0, UpdateOrder(**fields))

    def state(self, node: int) -> str:
        mark = self.rig.node(node).settings.update
        return mark.state if mark is not None else ""

    def count(self, state: str) -> int:
        return sum(self.state(node) == state for node in self.nodes)

    def asked(self) -> list[int]:
        return [command.node_id for command in self.rig.commands(UpdateCommand)]

    def beat_all(self, seconds: float = 2.0) -> None:
        self.rig.wait(seconds, *(n for n in self.nodes if self.rig.node(n).state is NodeState.ONLINE))


def test_nodes_are_updated_a_few_at_a_time_until_all_are() -> None:
    studio = Studio()
    answer = studio.start(batch=2)
    assert answer.message == "update to 2: 0 of 10 nodes updated, 2 under way"
    for turn in range(10):
        node = studio.nodes[turn]
        assert studio.count("updating") == min(2, 10 - turn)
        assert not studio.rig.node(node).enabled
        studio.rig.bye(node)
        studio.join(f"n{turn}", "2", update_no=1)
        assert studio.state(node) == "updated"
        assert studio.rig.node(node).enabled
    assert studio.rig.core.farm.due.rollout is None
    assert studio.rig.told()[-1] == "update to 2: 10 of 10 nodes updated"


def test_a_node_is_told_only_once_it_runs_nothing() -> None:
    studio = Studio(1)
    rig, node = studio.rig, studio.nodes[0]
    rig.submit(step(frames="1-2"))
    lease = rig.lease()
    studio.start()
    assert studio.state(node) == "draining"
    studio.beat_all()
    assert studio.asked() == []
    rig.done(lease)
    assert rig.dispatch() == [], "it is drained"
    studio.beat_all()
    assert studio.asked() == [node]
    rig.bye(node)
    studio.join("n0", "2", update_no=1)
    assert len(rig.dispatch()) == 1


def test_a_node_that_fails_stays_drained_with_its_reason_and_stops_the_roll_out() -> None:
    studio = Studio(4)
    studio.start(batch=2)
    first, second, third, _ = studio.nodes
    studio.join("n0", "1", update_no=1, update_failure="the update command ended with code 3")
    assert studio.state(first) == "failed"
    assert not studio.rig.node(first).enabled
    assert studio.rig.node(first).reason == "update failed: the update command ended with code 3"
    assert (studio.state(third), studio.count("stopped")) == ("stopped", 2)
    assert studio.rig.node(third).enabled
    assert studio.state(second) == "updating", "what has begun ends"
    studio.rig.bye(second)
    studio.join("n1", "2", update_no=1)
    assert studio.state(second) == "updated"
    assert studio.rig.core.farm.due.rollout is None


def test_it_goes_on_while_fewer_fail_than_allowed() -> None:
    studio = Studio(4)
    studio.start(batch=1, failures=2)
    studio.join("n0", "1", update_no=1)
    assert studio.rig.node(studio.nodes[0]).reason.endswith("came back with version 1 as before")
    assert studio.state(studio.nodes[1]) == "updating"
    studio.rig.bye(studio.nodes[1])
    studio.join("n1", "1", update_no=1, update_failure="no disk")
    assert studio.count("stopped") == 2


def test_a_node_that_does_not_come_back_in_time_has_failed() -> None:
    studio = Studio(2)
    studio.start(batch=1, patience_us=100_000_000, failures=5)
    studio.rig.bye(studio.nodes[0])
    for _ in range(49):
        studio.beat_all()
    assert studio.state(studio.nodes[0]) == "updating"
    studio.beat_all()
    assert studio.state(studio.nodes[0]) == "failed"
    assert "did not come back" in studio.rig.node(studio.nodes[0]).reason
    assert studio.state(studio.nodes[1]) == "updating"


def test_a_message_that_was_lost_is_sent_again() -> None:
    studio = Studio(1)
    studio.start()
    studio.join("n0", "1")
    assert studio.asked() == studio.nodes
    assert studio.state(studio.nodes[0]) == "updating"


def test_who_cannot_or_need_not_is_passed_over_and_never_drained() -> None:
    studio = Studio(2)
    plain = studio.join("plain", "1", updates=False)
    new = studio.join("new", "2")
    gone = studio.join("gone", "1")
    studio.rig.bye(gone)
    answer = studio.start(nodes=(plain, new, gone, *studio.nodes), batch=5)
    assert answer.changed == 4
    assert "1 have that version already" in answer.message
    assert (studio.state(plain), studio.state(gone), studio.state(new)) == ("skipped", "skipped", "")
    assert studio.rig.node(plain).enabled
    mark = studio.rig.node(plain).settings.update
    assert mark is not None
    assert mark.reason == "its agent has no update_command"
    assert studio.count("updating") == 2
    with pytest.raises(CallError, match="already"):
        Studio(1).start(version="1")


def test_one_roll_out_at_a_time_and_it_can_be_stopped() -> None:
    studio = Studio(5)
    rig = studio.rig
    rig.submit(step(frames="1-5"))
    leases = rig.dispatch()
    rig.done(leases[0])
    act(rig, "node-drain", studio.nodes[4])
    studio.start(batch=3)
    with pytest.raises(IllegalMove, match="0 of 5 nodes updated"):
        studio.start()
    assert (studio.state(studio.nodes[0]), studio.count("draining")) == ("updating", 2)
    act(rig, "node-update-stop", 0)
    assert studio.count("stopped") == 4
    assert [rig.node(node).enabled for node in studio.nodes] == [False, True, True, True, False]
    rig.bye(studio.nodes[0])
    studio.join("n0", "2", update_no=1)
    assert rig.node(studio.nodes[0]).enabled
    with pytest.raises(IllegalMove, match="no update"):
        act(rig, "node-update-stop", 0)
    assert studio.start(nodes=(studio.nodes[1],)).changed == 1


def test_a_node_that_was_drained_by_hand_is_updated_and_stays_drained() -> None:
    studio = Studio(2)
    act(studio.rig, "node-drain", studio.nodes[0], reason="fan is loud")
    studio.start(batch=2)
    act(studio.rig, "node-drain", studio.nodes[1], reason="moves to another rack")
    for index in (0, 1):
        studio.rig.bye(studio.nodes[index])
        studio.join(f"n{index}", "2", update_no=1)
    assert studio.count("updated") == 2
    assert [studio.rig.node(node).enabled for node in studio.nodes] == [False, False]
    assert [studio.rig.node(node).reason for node in studio.nodes] == ["fan is loud", "moves to another rack"]


def test_who_enables_a_node_by_hand_takes_it_from_the_roll_out() -> None:
    studio = Studio(2)
    studio.rig.submit(step(frames="1-2"))
    studio.rig.dispatch()
    studio.start(batch=1)
    act(studio.rig, "node-enable", studio.nodes[0])
    assert studio.state(studio.nodes[0]) == "stopped"
    studio.beat_all()
    assert studio.state(studio.nodes[1]) == "draining"


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_restart_of_the_broker_goes_on_with_it(checkpoint: bool) -> None:
    studio = Studio(3)
    rig = studio.rig
    studio.start(batch=1)
    rig.bye(studio.nodes[0])
    studio.join("n0", "2", update_no=1)
    before = rig.core.farm.due.rollout
    assert before is not None
    if checkpoint:
        rig.checkpoint()
    rig.restart(down_s=5)
    after = rig.core.farm.due.rollout
    assert after is not None
    fields = ("number", "version", "batch", "failures_most", "waiting", "active", "results", "who")
    assert all(getattr(before, name) == getattr(after, name) for name in fields)
    for index in (1, 2):
        studio.join(f"n{index}", "1")
    assert studio.asked() == [], "the third waits"
    rig.bye(studio.nodes[1])
    studio.join("n1", "2", update_no=1)
    assert studio.asked() == [studio.nodes[2]]
    rig.bye(studio.nodes[2])
    studio.join("n2", "2", update_no=1)
    assert rig.core.farm.due.rollout is None


@given(
    data=st.data(),
    count=st.integers(1, 6),
    batch=st.integers(1, 4),
    failures=st.integers(1, 3),
)
def test_whatever_happens_no_more_are_out_of_service_than_allowed_and_it_ends(
    data: st.DataObject, count: int, batch: int, failures: int
) -> None:
    studio = Studio(count)
    rig = studio.rig
    studio.start(batch=batch, failures=failures, patience_us=60_000_000)
    for turn in range(40):
        rollout = rig.core.farm.due.rollout
        if rollout is None:
            break
        assert len(rollout.active) <= batch
        out = [node for node in studio.nodes if not rig.node(node).enabled]
        assert len(out) <= batch + studio.count("failed")
        index = data.draw(st.integers(0, count - 1), label=f"node {turn}")
        node, name = studio.nodes[index], f"n{index}"
        what = data.draw(st.sampled_from(["update", "fail", "same", "bye", "tick", "restart"]), label="what")
        if what == "update" and studio.state(node) == "updating":
            studio.join(name, "2", update_no=1)
        elif what == "fail" and studio.state(node) == "updating":
            studio.join(name, "1", update_no=1, update_failure="no")
        elif what == "bye":
            rig.bye(node)
        elif what == "same":
            studio.join(name, rig.node(node).facts.software)
        elif what == "restart":
            rig.restart()
        else:
            studio.beat_all()
    for _ in range(40 * count):
        if rig.core.farm.due.rollout is None:
            break
        studio.beat_all()
    assert rig.core.farm.due.rollout is None
    assert sum(studio.count(word) for word in ("updated", "failed", "skipped", "stopped")) == count
    for node in studio.nodes:
        assert rig.node(node).enabled is (studio.state(node) != "failed")


# ---------------------------------------------------------------- ticks


def test_the_last_heartbeats_are_stored_in_one_row_every_ten_seconds() -> None:
    rig = Rig()
    nodes = [rig.join(f"n{index}") for index in range(5)]
    stored = []
    for _ in range(15):
        rig.wait(2, *nodes)
        stored += [row for row in rig.out.rows if isinstance(row, SeenRow | NodeRow)]
    assert [type(row) for row in stored] == [SeenRow] * 3
    seen = rig.node(nodes[0]).seen_us
    rig.restart()
    assert rig.node(nodes[0]).seen_us == seen


class Counting(dict[int, Node]):
    """Nodes that count how often they are looked up one by one."""

    looked = 0

    def __getitem__(self, key: int) -> Node:
        self.looked += 1
        return super().__getitem__(key)


def test_a_tick_looks_only_at_nodes_whose_time_has_come() -> None:
    rig = Rig()
    core, now_us = rig.core, rig.now_us
    for index in range(1_000):
        core.handle(HelloEvent(now_us, f"k{index}", facts(f"n{index}", 1), "", "local", 0))
    nodes = core.farm.nodes = Counting(core.farm.nodes)
    looks = 0
    # A minute of ticks every 0.25 s, everybody beats every 2 s.
    for tick in range(240):
        now_us += 250_000
        if tick % 8 == 0:
            for node_id in list(nodes):
                core.handle(BeatEvent(now_us, node_id))
        nodes.looked = 0
        core.handle(TickEvent(now_us))
        assert nodes.looked in (0, 1_000), "all joined at once, so all come up at once"
        looks += nodes.looked
    assert looks <= 5 * 1_000, "about one look at each in suspect_s, not 240"
    assert core.farm.due.of(1) is not None
    assert all(node.state is NodeState.ONLINE for node in nodes.values())


def test_nodes_fall_silent_at_their_own_times() -> None:
    rig = Rig()
    early = rig.join("early")
    rig.wait(5)
    late = rig.join("late")
    rig.wait(10)
    assert (rig.node(early).state, rig.node(late).state) == (NodeState.SUSPECT, NodeState.ONLINE)
    rig.wait(5)
    assert rig.node(late).state is NodeState.SUSPECT
    rig.beat(early)
    assert rig.node(early).state is NodeState.ONLINE
    rig.wait(15)
    assert rig.node(early).state is NodeState.SUSPECT
    rig.wait(30)
    assert rig.node(late).state is NodeState.LOST
    assert rig.node(early).state is NodeState.SUSPECT
    rig.wait(15)
    assert rig.node(early).state is NodeState.LOST
    assert rig.core.farm.due.of(early) is None


def test_a_back_off_ends_after_a_restart_too() -> None:
    rig = Rig()
    node = rig.join()
    rig.submit(step(frames="1"))
    rig.fail(rig.lease(), "licence")
    (until_us,) = rig.step("J1/beauty").parked.values()
    assert rig.dispatch() == []
    rig.restart()
    rig.join()
    while rig.now_us < until_us:
        assert rig.dispatch() == []
        rig.wait(5, node)
    assert len(rig.dispatch()) == 1
    assert rig.core.farm.due.parked == {}


def test_a_drain_command_follows_every_change() -> None:
    rig = Rig()
    node = rig.join()
    act(rig, "node-drain", node, reason="fan")
    assert rig.commands(DrainCommand) == [DrainCommand(node, True, "fan")]
    rig.join()
    assert rig.commands(DrainCommand) == [DrainCommand(node, True, "fan")]
    act(rig, "node-enable", node)
    assert rig.commands(DrainCommand) == [DrainCommand(node, False, "")]
