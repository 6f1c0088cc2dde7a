"""What the broker keeps in memory: a million waiting frames, the same after all ran, a connected agent.

Each figure is the growth of the broker process's proportional set size over what it was before.  Frames are
scaled to a million; the more are asked for, the less the scaling matters.

    python benchmarks/memory.py
    python benchmarks/memory.py --ran 1000000 --agents 1000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench_farm import ACKED, BenchFarm, job_file
from common import Report, base_parser, cap_words, describe_machine, memory_mib

#: MiB for a million frames: waiting, and after all ran.
WAITING_MUST, WAITING_GOAL = 16.0, 4.0
RAN_MUST, RAN_GOAL = 32.0, 16.0
#: KiB for an agent.
AGENT_MUST, AGENT_GOAL = 48.0, 36.0
#: Agents that do the frames of the second figure.
WORKERS, SLOTS = 20, 16


def settled_mib(pid: int) -> float:
    """The process's size once it does not change any more."""
    last = memory_mib(pid)[1]
    end_s = time.monotonic() + 10
    while time.monotonic() < end_s:
        time.sleep(0.3)
        now = memory_mib(pid)[1]
        if abs(now - last) < 0.05:
            break
        last = now
    return last


def waiting(report: Report, folder: Path, frames: int) -> None:
    """Frames that nobody takes."""
    with BenchFarm(folder, 0) as farm:
        farm.start()
        with farm.connect() as client:
            client.submit(job_file("first", 1_000))  # loads renderers and touches pages
            before = settled_mib(farm.pid)
            client.submit(job_file("million", frames))
            grown = (settled_mib(farm.pid) - before) * 1e6 / frames
    report.emit("memory.waiting", grown, "MiB/Mframes", *cap_words(grown, WAITING_MUST, WAITING_GOAL))


def ran(report: Report, folder: Path, frames: int) -> None:
    """Frames that all ran."""
    with BenchFarm(folder, WORKERS) as farm:
        farm.start()
        farm.start_agents(2, SLOTS)
        with farm.connect() as client:
            client.submit(job_file("first", 2_000))
            farm.wait(lambda: farm.total(ACKED) >= 2_000, "the first frames")
            before = settled_mib(farm.pid)
            client.submit(job_file("many", frames))
            farm.wait(lambda: farm.total(ACKED) >= frames + 2_000, f"{frames} frames")
            grown = (settled_mib(farm.pid) - before) * 1e6 / frames
        farm.stop_agents()
    report.emit("memory.ran", grown, "MiB/Mframes", f"of {frames}", *cap_words(grown, RAN_MUST, RAN_GOAL))


def agents(report: Report, folder: Path, count: int) -> None:
    """Agents that are connected, registered and idle."""
    with BenchFarm(folder, 0) as farm:
        farm.start()
        empty = settled_mib(farm.pid)
    with BenchFarm(folder, count) as farm:
        farm.start()
        keys = settled_mib(farm.pid) - empty
        before = settled_mib(farm.pid)
        farm.start_agents(2, 1)
        grown = (settled_mib(farm.pid) - before) * 1024 / count
        farm.stop_agents()
    beside = f"of {count}; {keys * 1024 / count:.3g} KiB more for its key, connected or not"
    report.emit("memory.agent", grown, "KiB/agent", beside, *cap_words(grown, AGENT_MUST, AGENT_GOAL))


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--frames", type=int, default=1_000_000, help="frames that wait")
    parser.add_argument("--ran", type=int, default=1_000_000, help="frames that run")
    parser.add_argument("--agents", type=int, default=400, help="agents that connect")
    parser.add_argument("--dir", type=Path, help="folder for the databases")
    arguments = parser.parse_args()
    report = Report(arguments.json)
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-", dir=arguments.dir) as name:
        folder = Path(name)
        describe_machine(report, folder)
        waiting(report, folder, arguments.frames)
        agents(report, folder, arguments.agents)
        ran(report, folder, arguments.ran)
    report.close()


if __name__ == "__main__":
    main()
