"""A real agent: what it adds to starting a process, and what it costs while it has nothing to do.

Real ``farm agent`` processes run ``/bin/true`` for the real broker, a process for each frame: process tree,
log, report and outbox, everything durable at both ends.  Beside them a bare ``posix_spawn`` of the same
program.  Two agents run it as users do, in adaptive chunks (each frame still a process, an outcome and a row
of its own), and one frame a chunk, which is the dearest there is.

    python benchmarks/agent.py
    python benchmarks/agent.py --chunks 300 --idle-s 20
    python benchmarks/agent.py --only two --rounds 5
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from bench_farm import NAME, PATIENCE_S, BenchFarm, job_file
from common import (
    Report,
    base_parser,
    cap_words,
    cpu_by_thread_us,
    cpu_us,
    describe_machine,
    fail,
    median,
    memory_mib,
    quiet_rounds,
    spread,
    verdict,
)
from limit_loop import spawn_limit_ms

#: Bars: milliseconds a chunk over a bare spawn, CPU of an idle agent in percent of a core, its memory.
CHUNK_MUST_MS, CHUNK_GOAL_MS = 3.0, 1.0
IDLE_MUST, IDLE_GOAL = 0.5, 0.2
MEMORY_MUST_MIB, MEMORY_GOAL_MIB = 60.0, 45.0
#: Bars of the rate of two agents over two threads that only spawn.
RATE_MUST, RATE_GOAL = 0.35, 0.6


@contextlib.contextmanager
def running_agents(farm: BenchFarm, count: int) -> Iterator[psutil.Process]:
    """``farm agent`` with so many agents of one core, joined and idle."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "farm", "--farm", NAME, "agent", "--agents", str(count)),
            *("--cores", str(count), "--allow", "command", "--log-level", "warning"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        with farm.connect() as client:
            end_s = time.monotonic() + PATIENCE_S
            while len(client.nodes().nodes) < count:
                if process.poll() is not None or time.monotonic() > end_s:
                    fail("the agents did not join")
                time.sleep(0.05)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_frames(farm: BenchFarm, name: str, frames: int, chunk: int | str = 1) -> float:
    """Seconds from the first lease to the last result of a job of so many frames."""
    with farm.connect() as client:
        number = client.submit(job_file(name, frames, chunk=chunk)).job
        end_s = time.monotonic() + PATIENCE_S
        while True:
            job = client.job(number).job
            if job.done == frames:
                return (job.ended_us - job.started_us) / 1e6
            if job.failed or time.monotonic() > end_s:
                fail(f"{job.done} of {frames} frames done, {job.failed} failed: {job.reason}")
            time.sleep(0.05)


def two_threads_rate(times: int) -> float:
    """Processes a second of two threads that do nothing but spawn."""

    def spawn() -> None:
        for _ in range(times // 2):
            os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], os.environ), 0)

    threads = [threading.Thread(target=spawn) for _ in range(2)]
    started_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times // 2 * 2 / (time.perf_counter() - started_s)


def own_cpu_us() -> float:
    """CPU this process and its ended children have used, microseconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) * 1e6


class Spent(NamedTuple):
    """CPU of some processes, microseconds: their own, and that of the programs they waited for."""

    own_us: float
    programs_us: float

    @classmethod
    def of(cls, launcher: psutil.Process) -> Spent:
        """What the agents below a launcher have used so far."""
        own = programs = 0.0
        for process in launcher.children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                times = process.cpu_times()
                own += cpu_us(process.pid)
                programs += (times.children_user + times.children_system) * 1e6
        return cls(own, programs)


class Limit(NamedTuple):
    """What two threads reach that only spawn: processes a second, and CPU of one in microseconds."""

    rate: float
    cpu_us: float

    @classmethod
    def measure(cls, times: int) -> Limit:
        """Spawns so many times."""
        before_us = own_cpu_us()
        rate = two_threads_rate(times)
        return cls(rate, (own_cpu_us() - before_us) / times)


class Runs:
    """What rounds of two agents took, beside the limit loop of the same round."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.ratios: list[float] = []
        self.costs: list[float] = []
        self.parts: list[tuple[float, float, float, float]] = []

    def add(
        self, farm: BenchFarm, launcher: psutil.Process, frames: int, chunk: int | str, limit: Limit
    ) -> None:
        """Runs a job and keeps its rate and its CPU."""
        before, broker_us = Spent.of(launcher), cpu_us(farm.pid)
        rate = frames / run_frames(farm, f"two {chunk} {len(self.rates)}", frames, chunk)
        after = Spent.of(launcher)
        agents_us = (after.own_us - before.own_us) / frames
        programs_us = (after.programs_us - before.programs_us) / frames
        broker_us = (cpu_us(farm.pid) - broker_us) / frames
        self.rates.append(rate)
        self.ratios.append(rate / limit.rate)
        self.costs.append((agents_us + programs_us + broker_us) / limit.cpu_us)
        self.parts.append((limit.cpu_us, programs_us, agents_us, broker_us))

    def tell(self, report: Report, name: str, words: str, *, judged: bool) -> None:
        """Prints the rate, its ratio and where the CPU went."""
        ratio = median(self.ratios)
        report.emit(f"agent.two_agents_{name}", median(self.rates), "frames/s", words, spread(self.rates))
        caps = (verdict(ratio, RATE_MUST, "must"), verdict(ratio, RATE_GOAL, "goal")) if judged else ()
        report.emit(f"agent.two_agents_{name}_ratio", ratio, "x", *caps, spread(self.ratios))
        limit_us, programs_us, agents_us, broker_us = (
            median(list(values)) for values in zip(*self.parts, strict=True)
        )
        report.emit(
            f"agent.two_agents_{name}_cpu",
            median(self.costs),
            "x",
            f"all CPU of a frame over the limit's {limit_us:.0f} us: program {programs_us:.0f}, "
            f"agent {agents_us:.0f}, broker {broker_us:.0f} us",
            f"on full cores the rate's ratio is at most {1 / median(self.costs):.2f}x",
        )


def measure_two(report: Report, farm: BenchFarm, launcher: psutil.Process, arguments: Any) -> None:
    """Rate and CPU of two agents, beside two threads that only spawn."""
    limits, auto, one = [], Runs(), Runs()
    frames = arguments.chunks * 5  # enough that the first and the last one do not count
    for _ in quiet_rounds(arguments.rounds, arguments.quiet_s):
        limit = Limit.measure(frames)
        limits.append(limit.rate)
        # An adaptive job needs a few frames alone before it knows what a chunk is worth.
        auto.add(farm, launcher, frames * 4, "auto", limit)
        one.add(farm, launcher, frames, 1, limit)
    report.emit("agent.two_threads_limit", median(limits), "proc/s", spread(limits))
    auto.tell(report, "auto", "chunks as they are by default, a process a frame", judged=True)
    one.tell(report, "one", "one frame a chunk", judged=False)


def measure_idle(report: Report, launcher: psutil.Process, idle_s: float) -> None:
    """CPU and memory of one idle agent, by process."""
    family = [launcher, *launcher.children(recursive=True)]
    before = {process.pid: sum(cpu_by_thread_us(process.pid).values()) for process in family}
    time.sleep(idle_s)
    shares, memory = {}, {}
    for process in family:
        used_us = sum(cpu_by_thread_us(process.pid).values()) - before[process.pid]
        shares[process.pid] = used_us / 1e4 / idle_s
        memory[process.pid] = memory_mib(process.pid)
    names: dict[str, int] = {}
    for process in family:
        role = "launcher" if process is launcher else _role(process)
        names[role] = names.get(role, 0) + 1
        role += str(names[role]) if names[role] > 1 else ""
        report.emit(f"agent.idle_cpu.{role}", shares[process.pid], "%", "of one core")
        rss, pss = memory[process.pid]
        report.emit(f"agent.memory.{role}", pss, "MiB", f"proportional; resident {rss:.1f} MiB")
    work = [process for process in family if process is not launcher]
    share = sum(shares[process.pid] for process in work)
    total = sum(memory[process.pid][1] for process in work)
    words = "agent with its helpers, of one core"
    report.emit("agent.idle_cpu", share, "%", words, *cap_words(share, IDLE_MUST, IDLE_GOAL))
    words = "agent with its helpers, proportional"
    report.emit("agent.memory", total, "MiB", words, *cap_words(total, MEMORY_MUST_MIB, MEMORY_GOAL_MIB))


def _role(process: psutil.Process) -> str:
    """What a process of an agent is for, from its command line."""
    words = " ".join(process.cmdline())
    for role in ("supervisor", "checker", "decode"):
        if role in words:
            return role
    return "agent" if "node_agent" in words else process.name()


def measure_one(report: Report, folder: Path, arguments: Any) -> None:
    """What one agent adds to a process, and what it costs while it is idle."""
    with BenchFarm(folder, 0) as farm:
        farm.start()
        with running_agents(farm, 1) as launcher:
            run_frames(farm, "warm", 5)
            spawns, chunks = [], []
            for number in quiet_rounds(arguments.rounds, arguments.quiet_s):
                spawns.append(spawn_limit_ms(arguments.chunks))
                chunks.append(run_frames(farm, f"one {number}", arguments.chunks) / arguments.chunks * 1e3)
            over = median([chunk - spawn for chunk, spawn in zip(chunks, spawns, strict=True)])
            report.emit("agent.spawn_limit", median(spawns), "ms", "posix_spawn and wait", spread(spawns))
            report.emit("agent.chunk", median(chunks), "ms", "lease to result on disk", spread(chunks))
            caps = cap_words(over, CHUNK_MUST_MS, CHUNK_GOAL_MS)
            report.emit("agent.overhead", over, "ms", "a chunk, over a bare spawn", *caps)
            measure_idle(report, launcher, arguments.idle_s)


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of spawn and agent")
    parser.add_argument("--chunks", type=int, default=150, help="chunks a round")
    parser.add_argument("--idle-s", type=float, default=10.0, help="seconds of idleness measured")
    parser.add_argument("--dir", help="where state is written; a real disk")
    parser.add_argument("--only", choices=("one", "two"), help="measure one agent only, or two")
    arguments = parser.parse_args()
    report = Report(arguments.json)
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-", dir=arguments.dir) as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        describe_machine(report, folder)
        if arguments.only != "two":
            measure_one(report, folder, arguments)
        if arguments.only != "one":
            with BenchFarm(folder, 0) as farm:
                farm.start()
                with running_agents(farm, 2) as launcher:
                    run_frames(farm, "warm", 50)
                    measure_two(report, farm, launcher, arguments)
    report.close()


if __name__ == "__main__":
    main()
