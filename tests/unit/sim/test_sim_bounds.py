"""Lower bounds and the plain farm, on farms small enough to reckon by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.sim.bounds import Bound, lower_bound
from farm.sim.engine import Change, Simulation
from farm.sim.fifo import Fifo
from farm.sim.report import make_report
from farm.sim.scenario import read_scenario
from farm.sim.workload import ORIGIN_US, plan_jobs, plan_nodes


def bound(nodes: list[dict[str, Any]], jobs: list[dict[str, Any]], *gone: tuple[int, float]) -> Bound:
    """The bound of jobs on nodes, some of which (index, second) go away."""
    scenario = read_scenario(
        {"nodes": [{"name": f"n{i}", **node} for i, node in enumerate(nodes)], "jobs": jobs}
    )
    planned = plan_nodes(scenario, 0)
    changes = [Change(ORIGIN_US, node.index, node.speed) for node in planned]
    changes += [Change(ORIGIN_US + int(at_s * 1e6), index, 0.0) for index, at_s in gone]
    return lower_bound(plan_jobs(scenario, 0), planned, changes, 120.0)


def step(**fields: Any) -> list[dict[str, Any]]:
    """A job of one step."""
    return [{"steps": [fields]}]


def test_work_over_speed() -> None:
    found = bound([{"cores": 1}, {"cores": 1, "speed": 3.0}], step(frames=40, frame_s=10))
    assert found.strict_s == pytest.approx(100.0)


def test_a_node_takes_as_many_attempts_as_fit() -> None:
    work = {"frames": 40, "frame_s": 10, "resources": {"cores": 3}}
    # Two of three cores' attempts on eight cores: the two cores left help nobody.
    assert bound([{"cores": 8}], step(**work)).strict_s == pytest.approx(200.0)
    assert bound([{"cores": 8}], step(**work, whole=True)).strict_s == pytest.approx(400.0)
    memory = {"cores": 1, "ram_mib": 20_000}
    assert bound([{"cores": 8}], step(**work | {"resources": memory})).strict_s == pytest.approx(400.0)


def test_only_nodes_that_could_take_the_step_count() -> None:
    nodes = [{"cores": 1}, {"cores": 1, "pool": "gpu", "gpus": 1, "vram_mib": 8000}]
    for fields in (
        {"pools": ["gpu"]},
        {"resources": {"gpus": 1}},
        {"resources": {"gpus": 1, "vram_mib": 8000}},
    ):
        assert bound(nodes, step(frames=10, frame_s=10, **fields)).strict_s == pytest.approx(100.0)


def test_a_node_that_goes_away_helps_until_then() -> None:
    found = bound([{"cores": 1}, {"cores": 1}], step(frames=10, frame_s=10), (1, 20.0))
    assert found.strict_s == pytest.approx(80.0)


def test_late_work_bounds_from_when_it_comes() -> None:
    jobs = [*step(frames=1, frame_s=10), {"at_s": 500, "steps": [{"frames": 10, "frame_s": 10}]}]
    assert bound([{"cores": 1}], jobs).strict_s == pytest.approx(600.0)


def test_a_chain_bounds_however_many_nodes_there_are() -> None:
    jobs = [
        {
            "steps": [
                {"name": "a", "frames": 2, "frame_s": 30, "startup_s": 4},
                {"name": "b", "frames": 0, "frame_s": 60, "startup_s": 6, "after": ["a"]},
            ]
        }
    ]
    found = bound([{"cores": 1, "count": 100, "speed": 2.0}], jobs)
    assert found.chain_s == pytest.approx(50.0)
    assert found.strict_s == found.chunked_s == found.chain_s


def test_start_ups_are_counted_once_or_as_chunks_need_them() -> None:
    fixed = bound([{"cores": 1}], step(frames=100, frame_s=10, startup_s=5, chunk=10))
    assert (fixed.strict_s, fixed.chunked_s) == (pytest.approx(1005.0), pytest.approx(1050.0))
    # 1,000 s in chunks of 120 s.
    auto = bound([{"cores": 1}], step(frames=100, frame_s=10, startup_s=5))
    assert auto.chunked_s == pytest.approx(1045.0)


SMALL = st.fixed_dictionaries(
    {
        "nodes": st.lists(
            st.fixed_dictionaries(
                {
                    "cores": st.integers(2, 5),
                    "speed": st.sampled_from([0.5, 1.0, 2.0]),
                    "startup_s": st.sampled_from([0.0, 1.0]),
                    "join_s": st.sampled_from([0.0, 30.0]),
                }
            ),
            min_size=1,
            max_size=4,
        ),
        "jobs": st.lists(
            st.fixed_dictionaries(
                {
                    "at_s": st.sampled_from([0.0, 20.0, 100.0]),
                    "project": st.sampled_from(["film", "series"]),
                    "frames": st.integers(1, 12),
                    "cores": st.integers(1, 2),
                    "startup_s": st.sampled_from([0.0, 3.0]),
                    "chunk": st.sampled_from(["auto", 1, 4]),
                }
            ),
            min_size=1,
            max_size=4,
        ),
        "seed": st.integers(0, 1000),
    }
)


@settings(max_examples=40, deadline=None)
@given(SMALL)
def test_neither_the_farm_nor_the_plain_one_beats_the_strict_bound(drawn: dict[str, Any]) -> None:
    jobs = [
        {
            "at_s": job["at_s"],
            "project": job["project"],
            "steps": [
                {
                    "frames": job["frames"],
                    "frame_s": [4, 20],
                    "startup_s": job["startup_s"],
                    "chunk": job["chunk"],
                    "resources": {"cores": job["cores"]},
                },
                {"name": "film", "frames": 0, "frame_s": 9, "after": ["render"]},
            ],
        }
        for job in drawn["jobs"]
    ]
    nodes = [{"name": f"n{index}", **node} for index, node in enumerate(drawn["nodes"])]
    raw = {"nodes": nodes, "jobs": jobs, "compare": {"fifo": True, "chunk": 3}, "check_every": 50}
    simulation = Simulation(read_scenario(raw), drawn["seed"])
    simulation.run()
    report = make_report(simulation)
    assert report.ended == "done"
    assert report.bound is not None
    assert report.fifo is not None
    assert report.makespan_s is not None
    assert report.fifo.makespan_s is not None
    slack_s = 1e-3
    assert report.bound.strict_s <= report.makespan_s + slack_s
    assert report.bound.strict_s <= report.fifo.makespan_s + slack_s
    assert report.bound.strict_s <= report.bound.chunked_s + slack_s
    # Every second an attempt held a core is a start-up, a frame that counts, or thrown away.
    assert report.utilisation <= 1.0


def plain(raw: dict[str, Any], chunk: int) -> Any:
    """The plain farm's result."""
    scenario = read_scenario(raw | {"compare": {"fifo": True, "chunk": chunk}})
    return Fifo(scenario, 0, plan_nodes(scenario, 0), plan_jobs(scenario, 0)).run()


def test_the_plain_farm_takes_jobs_in_order_and_chunks_as_they_come() -> None:
    raw = {
        "nodes": [{"cores": 1, "count": 2}],
        "jobs": [{"steps": [{"frames": 5, "frame_s": 10, "startup_s": 2}]}],
    }
    # Chunks of 2, 2 and 1: the last one is begun when the first two end, at 22 s.
    result = plain(raw, 2)
    assert (result.makespan_s, result.chunks, result.startup_s) == (34.0, 3, 6.0)
    result = plain(raw, 5)
    assert (result.makespan_s, result.chunks) == (52.0, 1)


def test_a_chunk_of_the_plain_farm_dies_as_a_whole() -> None:
    raw = {
        "nodes": [{"name": "a", "cores": 1}, {"name": "b", "cores": 1}],
        "jobs": [{"steps": [{"frames": 8, "frame_s": 10}]}],
        "faults": {"spot": [{"mtbf_s": 1e-9, "nodes": ["b"]}]},
    }
    result = plain(raw, 4)
    # The second machine is gone at once; its chunk is found missing after 60 s and done after that.
    assert (result.frames_done, result.frames_left) == (8, 0)
    assert result.makespan_s in (80.0, 100.0)
