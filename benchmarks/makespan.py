"""How near the scheduler comes to what no schedule can beat: makespan over the lower bound, and fairness.

What belongs here: the scenario that is measured and its limits.  What may not: the simulator (``farm.sim``).

200 jobs of four projects stand at time 0 before 1,000 nodes of unequal speed; each has work for more than
twenty times the longest chunk it may get.  The same jobs go to a plain farm (order of submission, chunks of
ten frames), and then to both with machines that die.  A third scenario has nodes of 8 to 32 cores, and work
of 1 to 8 cores and of little and much memory that must be packed on them.  Everything is drawn from a seed:
the figures repeat.

Two bounds are printed; the limit is on the first.  ``bound`` is the larger of (a) the time the nodes, at
their speeds while they were there, need for all frames and for as many start-ups as chunks of the chunk time
need at least, and (b) the longest chain of steps.  ``strict bound`` counts one start-up a step instead, less
than any farm pays that keeps chunks short.  Where work asks for several resources, (a) is the largest over
cores, memory, GPUs and what fits a node of each kind of request.

Exit code 1 when in any scenario the makespan is over the limit, the plain farm was not slower, or a project
or a user of a project deviates from its share, or never waited together with the others, so that nothing
could be told.  Of the third scenario the shares of projects are printed without a limit (of its users they
have one): a project that asks for 8 cores at once waits for them to come free together.

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
MIXED_DEPTH = 22.0
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


def mixed_scenario(nodes: int, jobs: int) -> dict[str, Any]:
    """Nodes of many cores, and work of several sizes on them."""
    made = scenario(nodes, jobs, False)
    made["name"] = "mixed"
    made["nodes"] = [
        {"name": f"n{cores}", "count": count, "cores": cores, "ram_mib": cores * 4096, "speed": [0.5, 2.0],
         "rate_usd_h": 0.5}
        for cores, count in ((8, nodes // 2), (16, nodes - nodes // 2 - nodes // 5), (32, nodes // 5))
    ]  # fmt: skip
    cores = sum(group["count"] * group["cores"] for group in made["nodes"])
    weights = sum(WEIGHTS.values())
    # Cores and MiB a frame takes; each project has work in proportion to its weight.
    asks = {"film": (4, 16_384), "series": (2, 4_096), "advert": (8, 16_384), "trailer": (1, 8_192)}
    for group in made["jobs"]:
        need, ram_mib = asks[group["project"]]
        held = max(need, ram_mib / 4096)
        part = WEIGHTS[group["project"]] / weights / group["count"]
        work_s = cores * MEAN_SPEED * CHUNK_TARGET_S * MIXED_DEPTH * part / held
        (step,) = group["steps"]
        step["resources"] = {"cores": need, "ram_mib": ram_mib}
        step["frames"] = max(1, round(work_s / FRAME_S))
    return made


def misses(result: SimReport, *, packs_alike: bool = True) -> list[str]:
    """Which limits a run misses, in words; a figure that could not be worked out is missed.

    Args:
        result: The run.
        packs_alike: Whether all projects ask for the same of a node.  Where they do not, their shares have no
            limit: work that asks for more has to wait until so much comes free at once.
    """
    found = []
    if result.ratio is None or result.ratio > MUST_RATIO:
        found.append(f"makespan is {result.ratio} of the bound")
    fifo_s = result.fifo.makespan_s if result.fifo is not None else None
    if fifo_s is None or result.makespan_s is None or fifo_s <= result.makespan_s:
        found.append(f"the plain farm took {fifo_s} s, this one {result.makespan_s} s")
    seen = {fairness.of for fairness in result.fairness}
    if "projects" not in seen or len(seen) < 2:
        found.append("fairness of projects and of their users was not measured")
    for fairness in result.fairness:
        if fairness.of == "projects" and not packs_alike:
            continue
        if fairness.deviation is None or fairness.deviation > MUST_DEVIATION:
            found.append(f"{fairness.of}: deviation {fairness.deviation}")
    return found


def measure(
    report: Report, name: str, raw: dict[str, Any], seed: int, *, packs_alike: bool = True
) -> SimReport:
    """Runs one scenario and prints its figures."""
    began_s = time.perf_counter()
    simulation = Simulation(read_scenario(raw), seed)
    simulation.run()
    result = make_report(simulation)
    took_s = time.perf_counter() - began_s
    if result.bound is None or result.ratio is None or result.makespan_s is None:
        raise SystemExit(f"{name}: {result.frames - result.frames_done} frames are left ({result.ended})")
    verdict = "goal" if result.ratio <= GOAL_RATIO else "ok" if result.ratio <= MUST_RATIO else "TOO SLOW"
    report.emit(f"{name}.ratio", result.ratio, "bounds", f"must <= {MUST_RATIO}, goal {GOAL_RATIO}", verdict)
    bound = result.bound
    report.emit(
        f"{name}.bound",
        bound.chunked_s,
        "s",
        f"the larger of {bound.work_s:.1f} s (work with the fewest start-ups of {CHUNK_TARGET_S:g} s chunks,"
        f" over the nodes' speed while there) and {bound.chain_s:.1f} s (longest chain); the limit is on it",
    )
    report.emit(
        f"{name}.strict_bound",
        bound.strict_s,
        "s",
        f"the same with one start-up a step: {result.strict_ratio or 0.0:.4g} of it; no limit",
    )
    fifo_s = result.fifo.makespan_s if result.fifo is not None else None
    if result.fifo_ratio is not None and fifo_s is not None:
        slower = fifo_s / result.makespan_s
        word = "ok" if slower > 1 else "NOT BEATEN"
        report.emit(f"{name}.fifo_ratio", result.fifo_ratio, "bounds", f"{slower:.2f} x ours", word)
    else:
        report.emit(f"{name}.fifo_ratio", "none", "bounds", "the plain farm did not end", "NOT BEATEN")
    for fairness in result.fairness:
        of = "projects" if fairness.of == "projects" else f"users of {fairness.of}"
        if fairness.deviation is None:
            report.emit(
                f"{name}.unfairness.{fairness.of}", "none", "shares", of, "never did all wait", "UNFAIR"
            )
            continue
        fair = "ok" if fairness.deviation <= MUST_DEVIATION else "UNFAIR"
        if fairness.of == "projects" and not packs_alike:
            fair = "no limit: what asks for more waits until so much comes free at once"
        window = f"over {fairness.window_s:.0f} s"
        report.emit(f"{name}.unfairness.{fairness.of}", fairness.deviation, "shares", of, window, fair)
    report.emit(f"{name}.makespan", result.makespan_s, "s")
    report.emit(f"{name}.chunks", result.chunks, "leases", f"{result.frames} frames", f"{result.leases}")
    report.emit(f"{name}.startup_share", result.startup_share, "part", "of attempts' time")
    report.emit(f"{name}.thrown_share", result.thrown_share, "part", "of attempts' time")
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
    nodes, jobs, seed = arguments.nodes, arguments.jobs, arguments.seed
    missed = {"calm": misses(measure(report, "calm", scenario(nodes, jobs, False), seed))}
    mixed_nodes, mixed_jobs = max(20, nodes // 10), max(16, jobs // 5)
    mixed = measure(report, "mixed", mixed_scenario(mixed_nodes, mixed_jobs), seed, packs_alike=False)
    missed["mixed"] = misses(mixed, packs_alike=False)
    if not arguments.no_failures:
        missed["failures"] = misses(measure(report, "failures", scenario(nodes, jobs, True), seed))
    report.close()
    for name, texts in missed.items():
        for text in texts:
            print(f"MISSED: {name}: {text}", file=sys.stderr)
    return int(any(missed.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
