"""The graph of the core's objects, written as plain values and built again."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec
import pytest

from farm.core import invariants
from farm.core.attempts import LostAttempt
from farm.core.core import Core
from farm.core.events import DispatchEvent
from farm.core.graph import Entry, read_graph, write_graph
from farm.core.work import UnitNote
from farm.model.nodes import NodeFacts
from farm.model.states import NodeState
from tests.support.core_rig import Rig, step

_PLAIN = msgspec.msgpack.Decoder(list[Entry])


def again(root: Any) -> Any:
    """Written, sent through MessagePack, and built."""
    return read_graph(_PLAIN.decode(msgspec.msgpack.encode(write_graph(root))))


def test_values_of_every_kind_come_back_as_they_were() -> None:
    value = [
        {1: "a", (2, 3): [None, True, 2.5, b"x"]},
        {4, 5},
        frozenset({6}),
        bytearray(b"\0\1\2"),
        array("q", [1, -(1 << 40)]),
        array("d", [0.1]),
        1 << 100,
        -(1 << 90),
        NodeState.SUSPECT,
        NodeFacts(name="ant", attributes={"os": "linux"}),
        UnitNote(failed_on={3}, counts={"lost": 1}),
        LostAttempt(1, 2, 3, 4, (5, 6)),
    ]
    made = again(value)
    assert made == value
    assert [type(item) for item in made] == [type(item) for item in value]


def test_what_was_shared_is_shared_and_circles_close() -> None:
    shared: list[Any] = []
    shared.append(shared)
    one = {"a": shared, "b": shared}
    made = again(one)
    assert made["a"] is made["b"]
    assert made["a"][0] is made["a"]


def test_a_farm_comes_back_whole_and_decides_the_same() -> None:
    rig = Rig()
    rig.join("ant", 2)
    rig.join("bee", 1)
    rig.submit(step(frames="1-6", out=True), step("comp", frames="1-6", after=("beauty",)))
    leases = rig.dispatch()
    rig.done(leases[0])
    farm = again(rig.core.farm)
    assert invariants.digest(farm) == invariants.digest(rig.core.farm)
    invariants.check(farm)
    job = farm.jobs[1]
    assert farm.steps[1] is job.steps[0]
    assert farm.steps[1].job is job
    assert all(attempt.node is farm.nodes[attempt.node.id] for attempt in farm.attempts.values())
    original = rig.core.farm
    event = DispatchEvent(rig.now_us, 99)
    expected, made = (Core(farm=each).handle(event).rows for each in (original, farm))
    assert expected
    assert made == expected
    assert invariants.digest(farm) == invariants.digest(original)


def test_what_is_no_data_of_the_core_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="builtins:function"):
        write_graph([test_a_farm_comes_back_whole_and_decides_the_same])


@pytest.mark.parametrize(
    "entries",
    [
        [("object", "os:PathLike", (), [])],
        [("object", "farm.core.graph:write_graph", (), [])],
        [("object", "farm.core.graph:msgspec.Struct", (), [])],
        [("record", "farm.model.nodes:NodeFacts", ("nothing",), [1])],
        [("tuple", "", (), [[7]])],
        [("spoon", "", (), [])],
        [("tuple", "", (), [[0]])],
        [],
    ],
)
def test_a_damaged_graph_is_refused(entries: list[Entry]) -> None:
    with pytest.raises(ValueError):
        read_graph(entries)
