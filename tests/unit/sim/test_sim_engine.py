"""Runs whose outcome is known by hand, the same run twice, and farms in which everything goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from farm.core import invariants
from farm.core.events import CheckpointEvent, RestartEvent
from farm.sim import engine
from farm.sim.engine import Simulation
from farm.sim.faults import NEVER_US, Outage, outages
from farm.sim.report import Report, make_report
from farm.sim.scenario import read_scenario
from farm.sim.workload import PlannedNode, plan_nodes

NO_TAIL = {"tail": {"steal": False, "copies": False}}


def scenario(**changes: Any) -> Any:
    """Two equal nodes of one core, no time on the wire; a job is added by ``step``."""
    raw: dict[str, Any] = {
        "nodes": [{"count": 2, "cores": 1, "ram_mib": 0, "rate_usd_h": 3.6}],
        "farm": {"latency_s": 0.0},
        "check_every": 1,
    }
    step = changes.pop("step", None)
    if step is not None:
        raw["jobs"] = [{"steps": [step]}]
    return read_scenario(raw | changes)


def run(*args: Any, seed: int | None = None, **changes: Any) -> tuple[Simulation, Report]:
    """A simulation that has run, and its report."""
    simulation = Simulation(scenario(**changes), seed, *args)
    simulation.run()
    return simulation, make_report(simulation)


def test_four_frames_on_two_nodes_take_the_time_of_two() -> None:
    _, report = run(step={"frames": 4, "frame_s": 10, "chunk": 1})
    assert report.ended == "done"
    assert report.makespan_s == 20.0
    assert report.bound is not None
    assert (report.bound.strict_s, report.bound.chunked_s, report.bound.chain_s) == (20.0, 20.0, 10.0)
    assert report.ratio == report.utilisation == report.useful == 1.0
    assert (report.chunks, report.frames_per_chunk, report.thrown_s) == (4, 1.0, 0.0)
    # Two nodes at 3.60 USD an hour for 20 s.
    assert report.spend.total == "0.040000"
    assert report.spend.waste == report.spend.idle == "0.000000"


def test_a_start_up_is_paid_for_each_chunk_and_not_for_each_frame() -> None:
    _, report = run(step={"frames": 4, "frame_s": 10, "startup_s": 5, "chunk": 2})
    assert report.makespan_s == 25.0
    assert report.bound is not None
    assert report.bound.strict_s == 22.5
    assert report.bound.chunked_s == 25.0
    assert (report.ratio, report.startup_s, report.startup_share) == (1.0, 10.0, 0.2)


def test_a_node_twice_as_fast_takes_half_the_time() -> None:
    nodes = [{"name": "slow", "cores": 1}, {"name": "fast", "cores": 1, "speed": 2.0, "startup_s": 1.0}]
    _, report = run(nodes=nodes, step={"frames": 2, "frame_s": 10, "startup_s": 4, "chunk": 1})
    # The slow one: 4 + 10.  The fast one: its own 1, 4 / 2 and 10 / 2.
    assert report.makespan_s == 14.0
    assert report.startup_s == 7.0
    assert report.frame_s == 15.0


def test_a_step_waits_for_the_one_before() -> None:
    steps = [
        {"name": "beauty", "frames": 2, "frame_s": 10, "chunk": 1},
        {"name": "film", "frames": 0, "frame_s": 7, "after": ["beauty"]},
    ]
    _, report = run(jobs=[{"steps": steps}])
    assert report.makespan_s == 17.0
    assert report.bound is not None
    assert report.bound.chain_s == 17.0


def test_pictures_are_granted_and_published() -> None:
    simulation, report = run(step={"frames": 6, "frame_s": 10, "chunk": 3, "pictures": True})
    assert report.frames_done == 6
    assert report.makespan_s == 30.0
    assert {unit for _, unit in simulation.published} == set(range(6))


SOUP = {
    "nodes": [
        {"name": "own", "count": 6, "cores": 4, "ram_mib": 8192, "speed": [0.5, 2.0], "rate_usd_h": 0.5},
        {"name": "spot", "count": 4, "cores": 4, "ram_mib": 8192, "rate_usd_h": 0.2, "slots": 2},
    ],
    "jobs": [
        {
            "count": 4,
            "every_s": 60,
            "poisson": True,
            "project": ["film", "series"],
            "user": ["ann", "bob"],
            "steps": [
                {
                    "frames": 25,
                    "frame_s": {"kind": "lognormal", "mean": 40, "sigma": 0.4},
                    "startup_s": 3,
                    "pictures": True,
                    "resources": {"cores": 2},
                },
                {"name": "comp", "frames": 25, "frame_s": 4, "after": ["render"]},
            ],
        }
    ],
    "faults": {
        "crash": [{"mtbf_s": 900, "repair_s": [10, 200]}],
        "spot": [{"mtbf_s": 500, "back_s": 90, "notice_s": 20, "nodes": ["spot"]}],
        "partition": [{"from_s": 100, "to_s": 220}, {"from_s": 400, "to_s": 430, "nodes": ["own"]}],
        "restart": [{"at_s": 300, "down_s": 20}],
        "slow": [{"share": 0.3, "factor": 0.3, "from_s": 150}],
        "frame_failure": 0.02,
    },
    "compare": {"fifo": True},
    "farm": {"latency_s": 0.01},
}


@pytest.mark.parametrize("seed", range(4))
def test_everything_goes_wrong_and_all_frames_get_done_once(seed: int) -> None:
    simulation, report = run(seed=seed, **SOUP)
    assert report.ended == "done"
    assert report.frames_done == report.frames == 200
    assert report.ratio is not None
    assert report.strict_ratio is not None
    # Nothing beats a bound, not even by luck; frames that count are counted once.
    assert report.strict_ratio >= 1.0
    assert simulation.meters.frames_done == 200
    assert report.thrown_s > 0
    assert 0 < report.useful < report.utilisation <= 1.0
    assert report.fifo is not None
    assert report.fifo.frames_left == 0


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two = (run(seed=7, **SOUP) for _ in range(2))
    assert msgspec.json.encode(one[1]) == msgspec.json.encode(two[1])
    assert invariants.digest(one[0].core.farm) == invariants.digest(two[0].core.farm) == one[1].digest
    assert run(seed=8, **SOUP)[1].digest != one[1].digest


def dies(index: int, *times: tuple[float, float]) -> Any:
    """Outages of one node at known times, in place of drawn ones."""

    def of(faults: Any, seed: int, node: PlannedNode) -> Iterator[Outage]:
        for down_s, up_s in times if node.index == index else ():
            yield Outage(int(down_s * 1e6), int(up_s * 1e6) if up_s else NEVER_US, 0)

    return of


def test_frames_of_a_dead_node_are_done_elsewhere_and_its_half_frame_is_waste(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "outages", dies(1, (18.0, 0.0)))
    step = {"frames": 4, "frame_s": 10, "chunk": 2}
    simulation, report = run(step=step, policy=NO_TAIL)
    assert report.frames_done == 4
    assert report.thrown_s == 8.0
    assert len(simulation.core.farm.steps[1].attempts) == 0
    # Found missing 60 s after its heartbeat at 15 s; then 10 s more.
    assert report.makespan_s == 85.0
    assert report.chunks == 3
    # The farm paid it up to that heartbeat: 5 s of the lost frame at 3.60 USD an hour.
    assert report.spend.waste == "0.005000"
    # While it was dead it is no capacity: 36 of the 40 s on two nodes, the rest on one.
    assert report.bound is not None
    assert report.bound.strict_s == 22.0


def test_a_node_that_comes_back_soon_does_its_own_frames_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "outages", dies(0, (5.0, 8.0)))
    nodes = [{"cores": 1}]
    _, report = run(nodes=nodes, step={"frames": 2, "frame_s": 10, "chunk": 1}, policy=NO_TAIL)
    assert report.makespan_s == 28.0
    assert report.thrown_s == 5.0


def test_results_are_kept_while_the_network_is_cut() -> None:
    faults = {"partition": [{"from_s": 5, "to_s": 35}]}
    nodes = [{"cores": 1}]
    _, report = run(nodes=nodes, step={"frames": 3, "frame_s": 10, "chunk": 3}, faults=faults)
    # It went on rendering; its results came when the network did.
    assert report.makespan_s == 35.0
    assert (report.chunks, report.thrown_s) == (1, 0.0)


def test_files_finished_behind_the_fence_are_adopted() -> None:
    faults = {"partition": [{"from_s": 5, "to_s": 100}]}
    step = {"frames": 2, "frame_s": 60, "chunk": 1}
    nodes = [{"cores": 1}]
    _, report = run(nodes=nodes, step=step, faults=faults, policy=NO_TAIL)
    # The frame was finished at 60 s, when no answer of the broker allowed to publish it any more; the broker
    # had given the attempt up, and took the file when the node came back.
    assert report.leases.get("adopt") == 1
    assert report.thrown_s == 0.0
    assert report.frames_done == 2


def test_a_restart_of_the_broker_loses_nothing() -> None:
    seen: list[Any] = []
    faults = {"restart": [{"at_s": 5, "down_s": 12}]}
    step = {"frames": 4, "frame_s": 10, "chunk": 1}
    _, report = run(seen.append, step=step, faults=faults)
    kinds = [type(event) for event in seen]
    assert kinds.index(CheckpointEvent) < kinds.index(RestartEvent)
    assert report.thrown_s == 0.0
    assert report.chunks == 4
    # Both were done at 10 s and could tell at 17.
    assert report.makespan_s == 27.0


def test_a_spot_node_is_left_in_order() -> None:
    faults = {"spot": [{"mtbf_s": 1e-6, "notice_s": 30.0, "back_s": 40.0, "nodes": ["spot"]}]}
    nodes = [{"name": "own", "cores": 1}, {"name": "spot", "cores": 1}]
    simulation, report = run(
        nodes=nodes, step={"frames": 12, "frame_s": 10, "chunk": 1}, faults=faults, end_s=2000
    )
    assert report.frames_done == 12
    assert report.thrown_s == 0.0
    assert len(simulation.core.farm.nodes) == 2


def test_the_scenarios_end_comes_first() -> None:
    _, report = run(step={"frames": 100, "frame_s": 10, "chunk": 1}, end_s=60)
    assert report.ended == "time"
    assert report.makespan_s is report.bound is report.ratio is None
    assert report.frames_done in (10, 12)
    assert report.virtual_s == 60.0


def test_work_that_fits_nowhere_is_told_and_ends_the_run() -> None:
    jobs = [
        {"name": "possible", "steps": [{"frames": 1, "frame_s": 10}]},
        {"name": "huge", "steps": [{"frames": 2, "resources": {"cores": 64}}]},
    ]
    _, report = run(jobs=jobs, end_s=6 * 86400)
    assert report.ended == "stalled"
    assert report.virtual_s < 86400
    assert [name.split()[-1] for name in report.starvation.never_ran] == ["huge"]


def test_equal_projects_get_equal_shares_while_both_wait() -> None:
    jobs = [
        {"project": project, "steps": [{"frames": 60, "frame_s": 10, "chunk": 1}]}
        for project in ("film", "series")
    ]
    _, report = run(nodes=[{"count": 4, "cores": 1}], jobs=jobs)
    (fairness,) = report.fairness
    assert fairness.of == "projects"
    assert sum(line.share for line in fairness.lines) == pytest.approx(1.0)
    assert [line.expected for line in fairness.lines] == [0.5, 0.5]
    # Two hundred ten-second frames on 4 nodes: each project held half of 300 farm-seconds in all.
    assert sum(line.total_s for line in fairness.lines) == pytest.approx(300.0)
    assert fairness.deviation is not None


def test_outages_are_the_machines_own_and_come_in_order() -> None:
    config = scenario(**SOUP)
    nodes = plan_nodes(config, 3)
    first, second = nodes[-2], nodes[-1]
    assert first.machine == second.machine
    mine, theirs = (
        [next(times) for _ in range(20)]
        for times in (outages(config.faults, 3, first), outages(config.faults, 3, second))
    )
    assert mine == theirs
    ends = [edge for outage in mine for edge in (outage.down_us, outage.up_us)]
    assert ends == sorted(ends)
    assert {outage.notice_us for outage in mine} == {0, 20_000_000}
