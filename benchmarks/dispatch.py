"""Durable dispatch: tasks a second of the real broker beside the bare loop, in alternating rounds.

A hundred synthetic agents, one task a message: each report is answered, after the transaction that holds it
is on disk, with its acknowledgement and the next lease.  Afterwards the broker is killed and its database is
opened anew: every unit must be there, done exactly once.  Also: how long a submit to an idle farm takes to
reach an agent and start a process there, beside two round trips, one fsync and one spawn.

    python benchmarks/dispatch.py
    python benchmarks/dispatch.py --rounds 5 --tasks 30000
    python benchmarks/dispatch.py --slots 16 --tasks 100000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench_farm import ACKED, FIRST_NS, LAST_NS, STARTED_NS, BenchFarm, job_file
from bench_farm import LEASED_NS as LEASED
from common import (
    Report,
    base_parser,
    cpu_by_thread_us,
    describe_machine,
    fail,
    median,
    percentile,
    quiet_rounds,
    spread,
    verdict,
)
from limit_loop import BrokerLimit, broker_limit, chain_limit

#: Bars of the ratio to the limit: one task a message, and 16 slots an agent.
FLOOR, MUST, GOAL = 1 / 16, 0.5, 0.6
MUST_16, GOAL_16 = 0.12, 0.2
#: Bars of the submit-to-start time over its limit.
START_FLOOR, START_MUST, START_GOAL = 11.0, 4.0, 2.0
JOBS = 4


class Run(NamedTuple):
    """One run of the broker."""

    rate: float
    cpu_task_us: float
    main_task_us: float
    agents_task_us: float
    waits_ms: list[float]
    wrong: list[str]


def dispatch(folder: Path, tasks: int, agents: int, slots: int) -> Run:
    """Runs ``tasks`` no-op tasks through a fresh broker."""
    with BenchFarm(folder, agents) as farm:
        farm.start()
        farm.start_agents(2, slots)
        before, agents_before = cpu_by_thread_us(farm.pid), farm.agents_cpu_us()
        with farm.connect() as client:
            share, rest = divmod(tasks, JOBS)
            for number in range(JOBS):
                frames = share + (number < rest)
                client.submit(job_file(f"bench {number}", frames, project=f"project{number % 2}"))
            farm.wait(lambda: farm.total(ACKED) >= tasks, f"{tasks} tasks")
        after, agents_used = cpu_by_thread_us(farm.pid), farm.agents_cpu_us() - agents_before
        spent_s = (max(s[LAST_NS] for s in farm.shared) - min(s[FIRST_NS] for s in farm.shared)) / 1e9
        used = {thread: us - before.get(thread, 0.0) for thread, us in after.items()}
        main = used[farm.pid]
        waits_ms = farm.stop_agents()
        farm.kill()
        wrong = farm.audit(tasks)
    return Run(
        tasks / spent_s, sum(used.values()) / tasks, main / tasks, agents_used / tasks, waits_ms, wrong
    )


def latency(folder: Path, agents: int, times: int) -> tuple[list[float], list[float]]:
    """Milliseconds from sending a submit to an idle farm until (its lease is received, a process runs)."""
    leased, started = [], []
    with BenchFarm(folder, agents) as farm:
        farm.start()
        farm.start_agents(2, 1, spawn=True)
        with farm.connect() as client:
            for number in range(times + 3):
                job = job_file(f"one {number}", 1)
                sent_ns = time.perf_counter_ns()
                client.submit(job)
                farm.wait(lambda done=number: farm.total(ACKED) > done, "one task")
                if number >= 3:  # the first ones load renderers and touch pages
                    leased.append((max(s[LEASED] for s in farm.shared) - sent_ns) / 1e6)
                    started.append((max(s[STARTED_NS] for s in farm.shared) - sent_ns) / 1e6)
    return leased, started


def report_rates(report: Report, runs: list[Run], limits: list[BrokerLimit], slots: int) -> None:
    """Prints the figures of the saturated farm."""
    rate, limit = median([run.rate for run in runs]), median([x.rate for x in limits])
    ratios = [run.rate / x.rate for run, x in zip(runs, limits, strict=True)]
    ratio = median(ratios)
    report.emit("dispatch.limit.rate", limit, "tasks/s", spread([x.rate for x in limits]))
    report.emit("dispatch.limit.cpu", median([x.cpu_task_us for x in limits]), "us/task")
    report.emit("dispatch.rate", rate, "tasks/s", f"limit {limit:.0f}", spread([run.rate for run in runs]))
    bars = (
        ((FLOOR, "floor"), (MUST, "must"), (GOAL, "goal"))
        if slots == 1
        else ((MUST_16, "must"), (GOAL_16, "goal"))
    )
    report.emit(
        "dispatch.ratio", ratio, "x", spread(ratios), *(verdict(ratio, bar, name) for bar, name in bars)
    )
    best_rate, best_limit = max(run.rate for run in runs), max(x.rate for x in limits)
    report.emit(
        "dispatch.ratio_best",
        best_rate / best_limit,
        "x",
        f"best round of each: {best_rate:.0f} over {best_limit:.0f}; company flatters it least",
    )
    for name, values, of_limit in (
        ("dispatch.broker_cpu", [run.cpu_task_us for run in runs], [x.cpu_task_us for x in limits]),
        ("dispatch.broker_main_thread", [run.main_task_us for run in runs], [x.cpu_task_us for x in limits]),
    ):
        beside = median([a / b for a, b in zip(values, of_limit, strict=True)])
        gated = slots == 1 and name.endswith("cpu")
        bar = (verdict(beside, 1.75, "goal", more_is_better=False),) if gated else ()
        report.emit(name, median(values), "us/task", f"{beside:.3g}x the limit's whole CPU", *bar)
    agents = median([run.agents_task_us for run in runs])
    report.emit("dispatch.agents_cpu", agents, "us/task", "the synthetic agents, which share the machine")
    for part, of_limit, caps in (
        (0.5, [x.p50_ms for x in limits], ((3.0, "must"),)),
        (0.99, [x.p99_ms for x in limits], ((5.0, "must"), (3.0, "goal"))),
    ):
        values = [percentile(run.waits_ms, part) for run in runs]
        over = median([a / b for a, b in zip(values, of_limit, strict=True)])
        report.emit(
            f"dispatch.turnaround_p{part * 100:.0f}",
            median(values),
            "ms",
            f"limit {median(of_limit):.3g}",
            f"ratio {over:.3g}x",
            *(verdict(over, cap, name, more_is_better=False) for cap, name in caps if slots == 1),
        )


def report_latency(
    report: Report, ours: list[tuple[list[float], list[float]]], limits: list[tuple[list[float], list[float]]]
) -> None:
    """Prints the figures of the idle farm."""
    for index, name in ((0, "submit_to_lease"), (1, "submit_to_start")):
        for part in (0.5, 0.99):
            values = [percentile(run[index], part) for run in ours]
            beside = [percentile(run[index], part) for run in limits]
            over = median([a / b for a, b in zip(values, beside, strict=True)])
            words = [f"limit {median(beside):.3g}", f"ratio {over:.3g}x"]
            if index == 1:
                bars = (
                    ((START_FLOOR, "floor"), (START_MUST, "must"), (START_GOAL, "goal"))
                    if part == 0.5
                    else ((12.0, "must"), (5.0, "goal"))
                )
                words += [verdict(over, bar, word, more_is_better=False) for bar, word in bars]
            report.emit(f"dispatch.{name}_p{part * 100:.0f}", median(values), "ms", *words)


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of limit and broker")
    parser.add_argument("--tasks", type=int, default=20_000, help="tasks a round")
    parser.add_argument("--agents", type=int, default=100, help="synthetic agents")
    parser.add_argument("--slots", type=int, default=1, help="tasks an agent holds at once")
    parser.add_argument("--submits", type=int, default=60, help="submits to an idle farm a round; 0 = none")
    parser.add_argument("--dir", help="where databases are written; a real disk")
    arguments = parser.parse_args()
    report = Report(arguments.json)
    runs: list[Run] = []
    limits: list[BrokerLimit] = []
    waits: list[tuple[list[float], list[float]]] = []
    chains: list[tuple[list[float], list[float]]] = []
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-", dir=arguments.dir) as name:
        folder = Path(name)
        describe_machine(report, folder)
        for number in quiet_rounds(arguments.rounds, arguments.quiet_s):
            inner = folder / str(number)
            inner.mkdir()
            limits.append(broker_limit(inner, arguments.tasks, arguments.agents, arguments.slots))
            runs.append(dispatch(inner, arguments.tasks, arguments.agents, arguments.slots))
            report.emit(
                f"dispatch.round{number + 1}", runs[-1].rate, "tasks/s", f"limit {limits[-1].rate:.0f}",
                f"ratio {runs[-1].rate / limits[-1].rate:.3f}x",
            )  # fmt: skip
            for wrong in runs[-1].wrong:
                fail(wrong)
            if arguments.submits:
                chains.append(chain_limit(inner, arguments.submits))
                waits.append(latency(inner, min(arguments.agents, 10), arguments.submits))
    report_rates(report, runs, limits, arguments.slots)
    report.emit("dispatch.audit", arguments.rounds * arguments.tasks, "units", "each done once after kill -9")
    if waits:
        report_latency(report, waits, chains)
    report.close()


if __name__ == "__main__":
    main()
