"""The benchmark of the makespan misses what it should: a limit that nothing can miss says nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm.sim.engine import Simulation
from farm.sim.report import Report, make_report
from farm.sim.scenario import read_scenario


@pytest.fixture(scope="module")
def makespan() -> Any:
    """The benchmark as a module."""
    folder = str(Path(__file__).parents[3] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        import makespan
    finally:
        sys.path.remove(folder)
    return makespan


@pytest.fixture(scope="module")
def good(makespan: Any) -> Report:
    """A run that meets all limits."""
    simulation = Simulation(read_scenario(makespan.scenario(20, 20, False)), 1)
    simulation.run()
    return make_report(simulation)


def test_a_good_run_misses_nothing(makespan: Any, good: Report) -> None:
    assert makespan.misses(good) == []


def test_a_plain_farm_that_is_as_fast_or_never_ends_is_a_miss(makespan: Any, good: Report) -> None:
    assert good.fifo is not None
    for took_s in (good.makespan_s, None):
        fifo = msgspec.structs.replace(good.fifo, makespan_s=took_s)
        assert "plain farm" in makespan.misses(msgspec.structs.replace(good, fifo=fifo))[0]
    assert makespan.misses(msgspec.structs.replace(good, fifo=None))


def test_a_long_makespan_or_none_is_a_miss(makespan: Any, good: Report) -> None:
    for ratio in (1.051, None):
        assert makespan.misses(msgspec.structs.replace(good, ratio=ratio))


@pytest.mark.parametrize("deviation", [None, 0.06])
def test_unfairness_to_projects_and_to_users_is_a_miss(
    makespan: Any, good: Report, deviation: float | None
) -> None:
    for index, fairness in enumerate(good.fairness):
        lines = [*good.fairness]
        lines[index] = msgspec.structs.replace(fairness, deviation=deviation)
        run = msgspec.structs.replace(good, fairness=tuple(lines))
        assert makespan.misses(run) == [f"{fairness.of}: deviation {deviation}"]
    assert makespan.misses(msgspec.structs.replace(good, fairness=()))


def test_projects_that_ask_for_different_amounts_have_no_limit_but_their_users(
    makespan: Any, good: Report
) -> None:
    lines = tuple(msgspec.structs.replace(one, deviation=0.2) for one in good.fairness)
    found = makespan.misses(msgspec.structs.replace(good, fairness=lines), packs_alike=False)
    assert len(found) == len(lines) - 1
    assert not any(text.startswith("projects") for text in found)
