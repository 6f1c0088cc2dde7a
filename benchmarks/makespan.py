"""How near the scheduler comes to what no schedule can beat: makespan over the lower bound, and fairness.

What belongs here: the scenario that is measured and its limits.  What may not: the simulator (``farm.sim``).

200 jobs of four projects stand at time 0 before 1,000 nodes of unequal speed; each has work for more than
twenty times the longest chunk it may get.  The same jobs go to a plain farm (order of submission, chunks of
ten frames), and then to both with machines that die.  Everything is drawn from a seed: the figures repeat.

    python benchmarks/makespan.py                 # the whole size, some minutes
    python benchmarks/makespan.py --nodes 100 --jobs 40
"""

from __future__ import annotations

import sys
import time
from typing import Any

from common import Report, base_parser

from farm.sim.engine import Simulation
from farm.sim.report import Report as SimReport
from farm.sim.report import make_report
from farm.sim.scenario import read_scenario

#: Makespan over bound, and the largest deviation of a project's share: what must hold and what is aimed at.
MUST_RATIO, GOAL_RATIO = 1.05, 1.03
MUST_DEVIATION = 0.05
CHUNK_TARGET_S = 120.0
#: Work a node has, in chunks of the target time.
DEPTH = 22.0
FRAME_S = 30.0
STARTUP_S = 3.0
MEAN_SPEED = 1.25
WEIGHTS = {"film": 4, "series": 3, "advert": 2, "trailer": 1}


def scenario(nodes: int, jobs: int, failures: bool) -> dict[str, Any]:
    """The scenario as a file would have it."""
    work_s = nodes * MEAN_SPEED * CHUNK_TARGET_S * DEPTH
    made: dict[str, Any] = {
        "name": "makespan",
        "end_s": 10 * 86400,
        "check_every": 500_000,
        "nodes": [{"count": nodes, "cores": 1, "ram_mib": 4096, "speed": [0.5, 2.0], "rate_usd_h": 0.5}],
        "jobs": [],
        "policy": {"projects": WEIGHTS},
        "compare": {"fifo": True, "chunk": 10},
        "faults": {},
    }
    # Each project has work in proportion to its weight, so that all of them are backlogged for long.
    weights = sum(WEIGHTS.values())
    left = jobs
    for index, (project, weight) in enumerate(WEIGHTS.items()):
        count = left if index == len(WEIGHTS) - 1 else max(1, round(jobs * weight / weights))
        left -= count
        frames = max(1, round(work_s / jobs / FRAME_S))
        frame_s = {"kind": "lognormal", "mean": FRAME_S, "sigma": 0.3}
        made["jobs"].append(
            {
                "name": project,
                "count": count,
                "project": project,
                "user": ["ann", "bob"],
                "steps": [{"frames": frames, "frame_s": frame_s, "startup_s": STARTUP_S}],
            }
        )
    if failures:
        # About one machine in three dies once while the work lasts.
        made["faults"] = {"crash": [{"mtbf_s": 3 * CHUNK_TARGET_S * DEPTH, "repair_s": [300, 900]}]}
    return made


def measure(report: Report, name: str, raw: dict[str, Any], seed: int) -> SimReport:
    """Runs one scenario and prints its figures."""
    began_s = time.perf_counter()
    simulation = Simulation(read_scenario(raw), seed)
    simulation.run()
    result = make_report(simulation)
    took_s = time.perf_counter() - began_s
    if result.bound is None or result.ratio is None or result.makespan_s is None:
        raise SystemExit(f"{name}: {result.frames - result.frames_done} frames are left ({result.ended})")
    verdict = "goal" if result.ratio <= GOAL_RATIO else "ok" if result.ratio <= MUST_RATIO else "TOO SLOW"
    report.emit(
        f"{name}.ratio", result.ratio, "of the bound", f"must <= {MUST_RATIO}, goal {GOAL_RATIO}", verdict
    )
    report.emit(f"{name}.strict_ratio", result.strict_ratio or 0.0, "of the bound with one start-up a step")
    fifo_s = result.fifo.makespan_s if result.fifo is not None else None
    if result.fifo_ratio is not None and fifo_s is not None:
        gain = fifo_s / result.makespan_s
        report.emit(f"{name}.fifo_ratio", result.fifo_ratio, "of the bound", f"{gain:.2f} x ours")
    for fairness in result.fairness:
        if fairness.of == "projects" and fairness.deviation is not None:
            fair = "ok" if fairness.deviation <= MUST_DEVIATION else "UNFAIR"
            window = f"over {fairness.window_s:.0f} s"
            report.emit(f"{name}.unfairness", fairness.deviation, "of a share", window, fair)
    report.emit(f"{name}.makespan", result.makespan_s, "s", f"bound {result.bound.chunked_s:.1f} s")
    report.emit(f"{name}.chunks", result.chunks, "leases", f"{result.frames} frames", f"{result.leases}")
    report.emit(f"{name}.startup_share", result.startup_share, "of attempts' time")
    report.emit(f"{name}.thrown_share", result.thrown_share, "of attempts' time")
    report.emit(
        f"{name}.run", took_s, "s", f"{result.events} events", f"{result.events / took_s:.0f} a second"
    )
    return result


def main(argv: list[str]) -> int:
    """Measures; 1 when a limit is missed."""
    parser = base_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-failures", action="store_true", help="leave the run with failures out")
    arguments = parser.parse_args(argv)
    report = Report(arguments.json)
    results = [measure(report, "calm", scenario(arguments.nodes, arguments.jobs, False), arguments.seed)]
    if not arguments.no_failures:
        raw = scenario(arguments.nodes, arguments.jobs, True)
        results.append(measure(report, "failures", raw, arguments.seed))
    report.close()
    missed = any(result.ratio is None or result.ratio > MUST_RATIO for result in results)
    for fairness in results[0].fairness:
        if fairness.of == "projects":
            missed = missed or (fairness.deviation or 0.0) > MUST_DEVIATION
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
