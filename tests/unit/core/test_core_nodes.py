"""Nodes that are drained, disabled, forgotten, ended or silent, and ticks that cost only what is due.

What belongs here: states of nodes and what they do to work.  Hours, rates and roll-outs have tests of their
own.
"""

from __future__ import annotations

import pytest

from farm.core import explain, idle
from farm.core.events import BeatEvent, HelloEvent, TickEvent
from farm.core.outcome import DrainCommand, StopCommand
from farm.core.rows import NodeRow, SeenRow
from farm.core.state import Node
from farm.model.errors import IllegalMove, UnknownName
from farm.model.states import NodeState
from tests.support.core_node_acts import act, at, set_
from tests.support.core_rig import Rig, step
from tests.support.core_world import facts

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
