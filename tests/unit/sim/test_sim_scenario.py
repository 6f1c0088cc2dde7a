"""Scenario files: what is refused, and by what name; what figures are drawn."""

from __future__ import annotations

import copy
import statistics
from pathlib import Path
from typing import Any

import pytest

from farm.model.errors import CallError, StorageError
from farm.sim.scenario import Spread, load_scenario, read_scenario
from farm.sim.workload import draw, plan_jobs, plan_nodes, stream

BASE: dict[str, Any] = {
    "nodes": [{"name": "a", "count": 2}],
    "jobs": [{"steps": [{"frames": 3, "frame_s": 2.0}]}],
}


def changed(*path: Any, value: Any) -> dict[str, Any]:
    """The base scenario with one value set."""
    raw = copy.deepcopy(BASE)
    at: Any = raw
    for key in path[:-1]:
        at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
    at[path[-1]] = value
    return raw


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (changed("sped", value=1), "`sped`"),
        (changed("nodes", 0, "speeed", value=1), "nodes[0]: there is no key `speeed`"),
        (changed("nodes", 0, "speed", value=0), "nodes[0].speed"),
        (changed("nodes", 0, "speed", value=[2, 1]), "nodes[0].speed: 2 to 1 is no range"),
        (changed("nodes", 0, "speed", value=[1, 2, 3]), "nodes[0].speed: a range has two figures"),
        (changed("nodes", 0, "slots", value=9), "nodes[0].slots"),
        (changed("nodes", value=[]), "nodes: a farm needs"),
        (changed("nodes", value=[{"name": "a"}, {"name": "a"}]), "nodes[1].name"),
        (changed("jobs", 0, "steps", value=[]), "jobs[0].steps"),
        (changed("jobs", 0, "priority", value=101), "jobs[0].priority"),
        (changed("jobs", 0, "steps", 0, "frame_s", value={"kind": "lognormal"}), "frame_s.mean"),
        (changed("jobs", 0, "steps", 0, "frame_s", value={"kind": "zipf", "mean": 1}), "frame_s.kind"),
        (
            changed("jobs", 0, "steps", 0, "resources", value={"coers": 1}),
            "resources: there is no key `coers`",
        ),
        (changed("faults", "crash", value=[{"mtbf_s": 10, "nodes": ["b"]}]), "there is no group 'b'"),
        (
            changed("faults", "crash", value=[{"repair_s": 10}]),
            "faults.crash[0]: this key is missing: `mtbf_s`",
        ),
        (changed("faults", "partition", value=[{"from_s": 5, "to_s": 5}]), "faults.partition[0].to_s"),
        (changed("policy", "project", value={}), "policy: there is no key `project`"),
        ({"nodes": BASE["nodes"]}, "there is nothing to do"),
    ],
)
def test_a_wrong_key_is_refused_by_name(raw: dict[str, Any], words: str) -> None:
    with pytest.raises(CallError) as refused:
        read_scenario(raw)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"name": "not a name"}, "jobs[0].steps[0].name"),
        ({"frames": "9-"}, "jobs[0].steps[0].frames"),
        ({"after": ["nowhere"]}, "jobs[0].steps[0].after"),
        ({"resources": {"cores": 0}}, "jobs[0].steps[0].resources.cores"),
    ],
)
def test_a_job_no_farm_takes_is_refused_by_name(step: dict[str, Any], words: str) -> None:
    raw = changed("jobs", 0, "steps", value=[{"frames": 3, **step}])
    with pytest.raises(CallError) as refused:
        plan_jobs(read_scenario(raw), 0)
    assert words in str(refused.value)


def test_a_file_that_is_no_scenario_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(StorageError, match=r"x\.toml"):
        load_scenario(path)
    path.write_text("nodes = [", encoding="utf-8")
    with pytest.raises(CallError, match=r"x\.toml is not TOML"):
        load_scenario(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="not UTF-8"):
        load_scenario(path)


def test_the_example_of_the_docs_can_be_read() -> None:
    folder = Path(__file__).resolve().parents[3] / "docs" / "examples" / "scenarios"
    scenarios = [load_scenario(path) for path in sorted(folder.glob("*.toml"))]
    assert [scenario.name for scenario in scenarios] == ["studio"]
    assert sum(len(step.frame_s) for job in plan_jobs(scenarios[0], 1) for step in job.steps) > 5000


@pytest.mark.parametrize(
    ("amount", "mean", "least", "most"),
    [
        (3.0, 3.0, 3.0, 3.0),
        ((1.0, 3.0), 2.0, 1.0, 3.0),
        (Spread(kind="lognormal", mean=10.0, sigma=0.5), 10.0, 0.5, 200.0),
        (Spread(kind="exponential", mean=10.0), 10.0, 0.0, 1e9),
        (Spread(kind="uniform", low=4.0, high=6.0), 5.0, 4.0, 6.0),
    ],
)
def test_figures_have_the_mean_they_say(amount: Any, mean: float, least: float, most: float) -> None:
    rng = stream(1, "test")
    drawn = [draw(amount, rng) for _ in range(4000)]
    assert statistics.mean(drawn) == pytest.approx(mean, rel=0.06)
    assert least <= min(drawn) <= max(drawn) <= most


def test_a_ramp_goes_from_the_first_frame_to_the_last() -> None:
    raw = changed("jobs", 0, "steps", 0, "frame_s", value={"kind": "ramp", "low": 10, "high": 30})
    (job,) = plan_jobs(read_scenario(raw), 0)
    assert job.steps[0].frame_s == [10.0, 20.0, 30.0]


def test_one_more_job_changes_no_other_jobs_frames() -> None:
    raw = changed("jobs", 0, "steps", 0, "frame_s", value=[1, 9])
    one = plan_jobs(read_scenario(raw), 5)
    raw["jobs"][0]["count"] = 2
    two = plan_jobs(read_scenario(raw), 5)
    assert two[0].steps == one[0].steps
    assert two[1].steps != one[0].steps


def test_slots_share_a_machine_and_its_rate() -> None:
    raw = changed("nodes", value=[{"count": 1, "cores": 10, "gpus": 2, "slots": 3, "rate_usd_h": 0.9}])
    nodes = plan_nodes(read_scenario(raw), 0)
    assert [node.facts.total.cores for node in nodes] == [4, 3, 3]
    assert [len(node.facts.gpus) for node in nodes] == [1, 1, 0]
    assert {node.rate_nano_h for node in nodes} == {300_000_000}
    assert len({node.facts.name for node in nodes}) == len({node.key for node in nodes}) == 3
    assert {node.machine for node in nodes} == {0}


def test_arrivals_of_a_poisson_process_have_its_rate() -> None:
    raw = changed("jobs", 0, "count", value=2000)
    raw["jobs"][0] |= {"every_s": 30.0, "poisson": True}
    jobs = plan_jobs(read_scenario(raw), 3)
    assert jobs[-1].at_us / 1e6 / 1999 == pytest.approx(30.0, rel=0.1)
    raw["jobs"][0] |= {"poisson": False}
    assert [job.at_us for job in plan_jobs(read_scenario(raw), 3)[:3]] == [0, 30_000_000, 60_000_000]
