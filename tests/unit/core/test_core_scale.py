"""What one event costs follows from what it concerns, not from how large the farm is: counted, not timed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farm.core import chunks, invariants, match, reserve, tail
from farm.core.events import BeatEvent, DispatchEvent, HelloEvent, PolicyEvent, ReportEvent, TickEvent
from farm.core.meter import projected, projected_charge
from farm.core.outcome import LeaseCommand
from farm.core.state import Node
from farm.model.policy import Policy
from farm.model.reports import DONE, UnitReport
from tests.support.core_rig import RATE, Rig, step
from tests.support.core_world import facts


class Unwalked(dict[Any, Any]):
    """A dict in which things are found, and that nobody may look through."""

    def _walked(self, *_: object) -> Any:
        raise AssertionError("all of it was looked at for one event")

    __iter__ = values = items = keys = _walked


def large(nodes: int = 40, jobs: int = 40) -> Rig:
    """A farm whose nodes, jobs, steps and attempts nobody may look through."""
    rig = Rig()
    for number in range(nodes):
        rig.join(f"n{number}")
    for _ in range(jobs):
        rig.submit(step(frames="1-50"))
    rig.wait(1.0, *range(1, nodes + 1))
    for name in ("nodes", "jobs", "steps", "attempts"):
        setattr(rig.core.farm, name, Unwalked(getattr(rig.core.farm, name)))
    return rig


def test_a_lease_a_result_a_heartbeat_a_hello_and_a_tick_look_at_nobody_else() -> None:
    rig = large()
    core, now_us = rig.core, rig.now_us
    # Idle nodes are looked after once a second by design, see farm.core.tail; not in this test.
    core.farm.tail_due_us = 1 << 62
    out = core.handle(DispatchEvent(now_us, 7))
    leases = [command for command in out.commands if isinstance(command, LeaseCommand)]
    assert len(leases) == 40
    for lease in leases[:10]:
        done = tuple(UnitReport(unit, DONE, "", "", 1_000_000) for unit in lease.units)
        core.handle(ReportEvent(now_us + 1, lease.node_id, lease.attempt, lease.nonce, done, True, ()))
        core.handle(BeatEvent(now_us + 1, lease.node_id, ()))
    again = core.handle(DispatchEvent(now_us + 2, 8))
    assert len(again.commands) == 10
    core.handle(HelloEvent(now_us + 3, "key-new", facts("new", 1), "", "local", RATE, (), ()))
    core.handle(TickEvent(now_us + 4))


def test_agents_of_one_name_get_names_of_their_own_and_free_ones_are_used_again() -> None:
    rig = Rig()
    numbers = [rig.join("ant", key=f"key-{n}") for n in range(3)]
    assert [rig.node(n).name for n in numbers] == ["ant", "ant-2", "ant-3"]
    rig.bye(numbers[1])
    late = rig.join("ant", key="key-late")
    assert rig.node(late).name == "ant-2", "the name of a node that left is free"
    rig.join("ant", key="key-1")
    assert rig.node(numbers[1]).name == "ant-4", "who comes back finds its old name taken"
    rig.join("bee", key="key-0")
    assert rig.node(numbers[0]).name == "bee"
    assert rig.node(rig.join("ant", key="key-more")).name == "ant", "a name that was given up is free"
    rig.restart()
    invariants.check(rig.core.farm)


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_a_node_that_failed_is_left_out_while_another_has_not(bad: int) -> None:
    rig = Rig()
    nodes = [rig.join(name) for name in ("ant", "bee", "cat")]
    rig.submit(step())
    one = rig.step("J1/beauty")
    for number in nodes[:bad]:
        one.node_failures[number] = match.NODE_FAILURES_PER_STEP
    left_out = [match.excluded(rig.core.farm, one, rig.node(number)) for number in nodes]
    # By its meaning: failed too often, and somebody able has not.
    assert left_out == [number in nodes[:bad] and bad < 3 for number in nodes]
    rig.core.farm.policy = msgspec.structs.replace(rig.core.farm.policy, sites={"elsewhere": _rule()})
    assert left_out == [match.excluded(rig.core.farm, one, rig.node(number)) for number in nodes]


def _rule() -> Any:
    from farm.model.policy import SiteRule

    return SiteRule(projects=("film",))


def test_why_nobody_can_looks_at_as_many_nodes_as_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    for number in range(30):
        rig.join(f"n{number}")
    rig.submit(step(renderer="nuke"))
    looked: list[Node] = []
    refused = match.refused

    def counted(shape: Any, node: Node) -> str:
        looked.append(node)
        return refused(shape, node)

    match.able_count(rig.core.farm, rig.step("J1/beauty").shape)  # type: ignore[arg-type]
    monkeypatch.setattr(match, "refused", counted)
    told = match.why_nobody(rig.core.farm, rig.step("J1/beauty"))
    assert told.count(";") == 2
    assert "n0 does not run the renderer nuke" in told
    assert len(looked) == 3


def test_no_more_idle_nodes_are_asked_to_help_than_there_are_frames_to_take() -> None:
    rig = Rig()
    rig.handle(PolicyEvent(rig.now_us, Policy(), "", "wim"))
    for number in range(60):
        rig.join(f"n{number}")
    rig.submit(step(frames="1-4"))
    rig.dispatch()
    farm, one = rig.core.farm, rig.step("J1/beauty")
    idle = [node for bucket in farm.buckets.values() for node in bucket.nodes.values()]
    assert len(idle) == 56
    found = tail._helpers(farm, one, list(one.attempts.values()), idle, rig.now_us)
    assert len(found) == 4 + tail._SPARE_HELPERS
    assert found == idle[: len(found)], "the first ones, in the order given"


def test_a_reservation_judges_some_hundreds_of_nodes_of_a_large_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserve, "JUDGED", 8)
    rig = Rig()
    for number in range(20):
        rig.join(f"n{number}", 2)
    rig.submit(step(frames="1-9"))
    one, farm = rig.step("J1/beauty"), rig.core.farm
    seen: set[int] = set()
    for look in range(3):
        nodes = reserve._candidates(farm, one, {}, rig.now_us + look * reserve.LOOK_US)
        assert len(nodes) <= 8
        seen |= {node.id for node in nodes}
    assert len(seen) == 20, "the others are judged at the next looks"


def test_what_waits_is_counted_anew_after_as_many_rows_as_steps_were_counted() -> None:
    rig = Rig()
    rig.join("ant")
    for _ in range(5):
        rig.submit(*[step(f"s{number}", chunk="auto") for number in range(150)])
    farm = rig.core.farm
    shape = rig.step("J1/s0").shape
    assert shape is not None
    crew = chunks.crew_of(farm, shape)
    assert crew.until_seq - farm.seq == 750
    assert chunks.crew_of(farm, shape) is crew


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("passed_s", [0.0, 0.37, 5.0, 3601.0])
def test_one_attempt_s_charge_is_what_the_meter_would_make_of_it(cores: int, passed_s: float) -> None:
    rig = Rig()
    rig.join("ant", cores, rate=777_777_777)
    rig.submit(step(frames="1-2"))
    rig.dispatch()
    now_us = rig.now_us + int(passed_s * 1e6)
    node = rig.node(1)
    charges = projected(node, now_us)[1]
    assert len(charges) == cores
    for attempt in node.attempts.values():
        assert projected_charge(attempt, now_us) == charges[attempt.id]
