"""Roll-outs: nodes get a new version a few at a time, and one that fails stops it.

What belongs here: how the core leads a roll-out.  How an agent replaces itself is the agent's matter.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.outcome import UpdateCommand
from farm.model.errors import CallError, IllegalMove
from farm.model.nodes import UpdateOrder
from farm.model.states import NodeState
from tests.support.core_node_acts import act
from tests.support.core_rig import Rig, step


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
