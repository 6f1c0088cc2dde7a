"""The state machine: what may be published, when, and that every unit is reported exactly once."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from farm.model.errors import IllegalMove
from farm.model.outputs import FileFacts
from farm.model.states import AttemptKind
from farm.protocol.agent import GrantMsg, LeaseMsg, StopMsg
from node_agent.machine import MOVES, Held, Machine, Phase

TTL_US = 1000


def lease(attempt: int, count: int = 2, *, ask: bool = False) -> LeaseMsg:
    return LeaseMsg(
        attempt, 1, 99, 0, tuple(range(count)), tuple(range(10, 10 + count)), msgspec.Raw(b"\xc0"), ask=ask
    )


def held_machine(**fields: bool) -> tuple[Machine, Held]:
    machine = Machine(TTL_US)
    held = machine.lease(lease(1, **fields))
    assert held is not None
    return machine, held


def ready(machine: Machine, index: int = 0, *, ask: bool = False) -> None:
    machine.move(1, index, Phase.CHECKING)
    machine.verified(1, index, (FileFacts("/x", 1, "0" * 64),), ask=ask)


def test_the_fence_opens_by_an_answer_and_closes_with_its_age() -> None:
    machine, _ = held_machine()
    assert not machine.may_publish(1, 0)
    machine.answered(100, (1,), (1,))
    assert machine.may_publish(1, 100)
    assert machine.may_publish(1, 100 + TTL_US - 1)
    assert not machine.may_publish(1, 100 + TTL_US)


def test_an_older_answer_that_comes_late_does_not_close_the_fence_early() -> None:
    machine, _ = held_machine()
    machine.answered(500, (1,), (1,))
    machine.answered(100, (1,), (1,))
    assert machine.may_publish(1, 500 + TTL_US - 1)


def test_a_heartbeat_that_did_not_name_the_attempt_says_nothing_about_it() -> None:
    machine, held = held_machine()
    assert machine.answered(100, (), ()) == []
    assert not held.lost
    assert machine.answered(200, (1,), ()) == [held]
    assert held.lost
    assert not machine.may_publish(1, 200)
    machine.answered(300, (1,), (1,))
    assert not machine.may_publish(1, 300), "a lost attempt stays lost"


def test_a_welcome_stops_what_it_does_not_keep() -> None:
    machine = Machine(TTL_US)
    for attempt in (1, 2, 3):
        machine.lease(lease(attempt))
    assert [held.attempt for held in machine.welcome((2,), 5)] == [1, 3]
    assert machine.ttl_us == 5
    assert machine.held[1].stop
    assert not machine.held[2].stop


def test_a_lease_is_taken_once() -> None:
    machine, held = held_machine()
    assert machine.lease(lease(1)) is None
    for index in (0, 1):
        machine.settle(1, index)
    machine.close(1, kept=(0,))
    assert machine.lease(lease(1)) is None
    machine.report_sent(1)
    assert machine.lease(lease(1)) is None, "its kept files still lie there"
    machine.kept.clear()
    assert machine.lease(lease(1)) is not None
    assert held.attempt == 1


def test_grants_reach_only_a_unit_that_asks() -> None:
    machine, held = held_machine()
    assert not machine.grant(GrantMsg(1, 0))
    assert not machine.grant(GrantMsg(7, 0))
    ready(machine, ask=True)
    assert [message.unit for message in machine.asking()] == [0]
    assert machine.grant(GrantMsg(1, 0, "too small"))
    assert held.units[0].rejected == "too small"
    machine.answered(1, (1,), (1,))
    assert not machine.begin_publish(1, 0, 1)
    assert machine.asking() == []


def test_taking_back_leaves_what_has_begun() -> None:
    machine, held = held_machine()
    machine.move(1, 0, Phase.RENDERING)
    assert machine.stop(StopMsg(1, "needed elsewhere", take_back=True))
    assert (held.units[0].wish, held.units[1].wish) == ("", "needed elsewhere")
    assert not machine.stop(StopMsg(1, "needed elsewhere", take_back=True)), "it was asked for before"
    # Only whoever runs the program knows whether it has begun: until then nothing is given back.
    assert machine.wanted(1, 1)
    machine.take_back(1, 1, begun=False)
    assert (held.units[1].dropped, held.units[1].wish) == ("needed elsewhere", "")
    assert not machine.wanted(1, 1)
    assert machine.wanted(1, 0)


def test_a_unit_that_began_meanwhile_is_not_taken_back() -> None:
    machine, held = held_machine()
    assert machine.stop(StopMsg(1, "needed elsewhere", units=(1,), take_back=True))
    assert held.asked
    machine.take_back(1, 1, begun=True)
    assert (held.units[1].dropped, held.units[1].wish) == ("", "")
    assert machine.wanted(1, 1)


def test_a_second_copy_always_asks_and_may_learn_late_whom_it_replaces() -> None:
    machine = Machine()
    copy = msgspec.structs.replace(lease(1), kind=AttemptKind.COPY.value, ask=False, supersedes=("a",))
    held = machine.lease(copy)
    assert held is not None
    assert held.asks
    assert held.supersedes == ("a",)
    assert not machine.lease(lease(2)).asks  # type: ignore[union-attr]


def test_a_rename_on_its_way_is_not_taken_back() -> None:
    machine, held = held_machine()
    ready(machine)
    machine.answered(1, (1,), (1,))
    assert machine.begin_publish(1, 0, 1)
    assert not machine.stop(StopMsg(1, "skipped", units=(0,)))
    assert machine.stop(StopMsg(1, "canceled"))
    assert held.units[0].dropped == ""
    assert machine.settle(1, 0)
    assert not machine.settle(1, 0)


def test_an_attempt_closes_only_when_all_is_said() -> None:
    machine, _ = held_machine()
    with pytest.raises(IllegalMove, match="without an outcome"):
        machine.close(1)
    for index in (0, 1):
        machine.settle(1, index)
    machine.close(1)
    assert machine.named() == (1,)
    assert machine.running() == ()
    machine.report_sent(1)
    assert machine.named() == ()


class MachineModel(RuleBasedStateMachine):
    """Random farms: any order of leases, answers, grants, stops and work."""

    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(TTL_US)
        self.now = 0
        self.fresh: dict[int, int] = {}
        self.lost: set[int] = set()
        self.settled: dict[int, set[int]] = {}
        self.number = 0

    @rule(target=attempts, count=st.integers(1, 3), ask=st.booleans())
    def take(self, count: int, ask: bool) -> int:
        self.number += 1
        assert self.machine.lease(lease(self.number, count, ask=ask)) is not None
        self.settled[self.number] = set()
        return self.number

    @rule(us=st.integers(1, 2 * TTL_US))
    def time_passes(self, us: int) -> None:
        self.now += us

    @rule(age=st.integers(0, 2 * TTL_US), agreed=st.sets(st.integers(1, 6)))
    def beat(self, age: int, agreed: set[int]) -> None:
        sent = max(0, self.now - age)
        listed = self.machine.named()
        gone = self.machine.answered(sent, listed, agreed)
        for attempt in listed:
            if attempt in agreed and attempt not in self.lost:
                self.fresh[attempt] = max(sent, self.fresh.get(attempt, -1))
            elif attempt not in agreed and attempt in self.machine.held:
                self.lost.add(attempt)
        assert {held.attempt for held in gone} <= self.lost

    @rule(attempt=attempts, index=st.integers(0, 2), phase=st.sampled_from(list(Phase)))
    def work(self, attempt: int, index: int, phase: Phase) -> None:
        held = self.machine.held.get(attempt)
        if held is None or index not in held.units:
            return
        unit = held.units[index]
        if phase is Phase.PUBLISHING:
            allowed = self.machine.begin_publish(attempt, index, self.now)
            if allowed:
                assert attempt not in self.lost
                assert self.now - self.fresh[attempt] < TTL_US
                assert not held.stop
                assert not unit.dropped
                assert not unit.rejected
        elif phase is Phase.SETTLED:
            said = self.machine.settle(attempt, index)
            assert said == (index not in self.settled[attempt])
            self.settled[attempt].add(index)
        elif phase is Phase.ASKING or (phase is Phase.READY and unit.phase is Phase.CHECKING):
            if unit.phase is Phase.CHECKING:
                self.machine.verified(attempt, index, (), ask=held.lease.ask)
        elif phase in MOVES[unit.phase]:
            self.machine.move(attempt, index, phase)
        else:
            with pytest.raises(IllegalMove):
                self.machine.move(attempt, index, phase)

    @rule(attempt=attempts, index=st.integers(0, 2), reason=st.sampled_from(["", "bad"]))
    def grant(self, attempt: int, index: int, reason: str) -> None:
        self.machine.grant(GrantMsg(attempt, index, reason))

    @rule(attempt=attempts, units=st.sets(st.integers(0, 2)), back=st.booleans())
    def stop(self, attempt: int, units: set[int], back: bool) -> None:
        self.machine.stop(StopMsg(attempt, "stop", tuple(units), back))

    @rule(attempt=consumes(attempts))
    def close(self, attempt: int) -> None:
        held = self.machine.held.get(attempt)
        if held is None:
            return
        for unit in held.open_units():
            self.machine.settle(attempt, unit.index)
        self.machine.close(attempt)
        self.machine.report_sent(attempt)

    @invariant()
    def fence_is_never_wider_than_the_answers(self) -> None:
        for attempt in self.machine.held:
            if self.machine.may_publish(attempt, self.now):
                assert attempt not in self.lost
                assert self.now - self.fresh[attempt] < TTL_US

    @invariant()
    def what_is_counted_is_what_a_look_through_finds(self) -> None:
        for held in self.machine.held.values():
            units = held.units.values()
            assert held.open == any(unit.phase is not Phase.SETTLED for unit in units)
            assert held.unwanted == {
                unit.index for unit in units if unit.dropped and unit.phase is not Phase.SETTLED
            }
            for unit in units:
                assert held.unit_of(unit.frame) is unit
                assert held.units_of([unit.frame or 0]) == ([unit] if unit in held.open_units() else [])
            assert held.units_of(()) == held.open_units()

    @invariant()
    def a_question_is_open_only_while_it_is_wanted(self) -> None:
        for message in self.machine.asking():
            assert self.machine.wanted(message.attempt, message.unit)


MachineModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestMachineModel = MachineModel.TestCase
