"""How soon an idle farm starts a process: from sending a submit until a real agent's program is executed.

A real broker and a real ``farm agent``: the job and the lease are on disk, the attempt is planned and its
supervisor has been told.  The moment of the start is the kernel's: the program is a copy that nobody else
opens, and inotify tells when it is opened to be executed.  Beside it two round trips, one fsync and one
spawn, in alternating rounds.

    python benchmarks/latency.py
    python benchmarks/latency.py --rounds 5 --submits 100
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import shutil
import tempfile
import time
from pathlib import Path

from agent import running_agents
from bench_farm import PATIENCE_S, BenchFarm, job_file
from common import (
    Report,
    base_parser,
    describe_machine,
    fail,
    median,
    percentile,
    quiet_rounds,
    spread,
    verdict,
)
from limit_loop import chain_limit

#: Bars of the time over its limit.
P50_BARS = ((11.0, "floor"), (4.0, "must"), (2.0, "goal"))
P99_BARS = ((12.0, "must"), (5.0, "goal"))
_IN_OPEN = 0x20
#: First submits, which load renderers and touch pages.
_WARM = 5


class Opens:
    """Tells when a file is opened."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_OPEN) < 0:
            fail(f"inotify: {os.strerror(ctypes.get_errno())}")
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def close(self) -> None:
        """Frees the descriptor."""
        os.close(self._fd)

    def wait_ns(self) -> int:
        """``perf_counter_ns`` of the next opening."""
        if not self._poll.poll(PATIENCE_S * 1000):
            fail("no process was started")
        now_ns = time.perf_counter_ns()
        os.read(self._fd, 4096)
        return now_ns


def job_of(program: Path, name: str) -> bytes:
    """A job of one frame that runs a program."""
    job = json.loads(job_file(name, 1))
    job["steps"][0]["params"]["command"] = [str(program)]
    return json.dumps(job).encode()


def measure(farm: BenchFarm, program: Path, times: int) -> list[float]:
    """Milliseconds from sending a submit to the start of its process."""
    waits_ms: list[float] = []
    opens = Opens(program)
    try:
        with farm.connect() as client:
            for number in range(times + _WARM):
                job = job_of(program, f"one {number}")
                sent_ns = time.perf_counter_ns()
                made = client.submit(job).job
                started_ns = opens.wait_ns()
                if number >= _WARM:
                    waits_ms.append((started_ns - sent_ns) / 1e6)
                end_s = time.monotonic() + PATIENCE_S
                while client.job(made).job.done != 1:
                    if time.monotonic() > end_s:
                        fail(f"job J{made} did not end")
                    time.sleep(0.005)
                time.sleep(0.02)  # until the farm is idle again
    finally:
        opens.close()
    return waits_ms


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds of limit and farm")
    parser.add_argument("--submits", type=int, default=60, help="submits a round")
    parser.add_argument("--dir", help="where state is written; a real disk")
    arguments = parser.parse_args()
    report = Report(arguments.json)
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-", dir=arguments.dir) as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        describe_machine(report, folder)
        program = folder / "true"
        shutil.copy("/bin/true", program)
        ours: list[list[float]] = []
        limits: list[list[float]] = []
        with BenchFarm(folder, 0) as farm:
            farm.start()
            with running_agents(farm, 1):
                for _ in quiet_rounds(arguments.rounds, arguments.quiet_s):
                    limits.append(chain_limit(folder, arguments.submits)[1])
                    ours.append(measure(farm, program, arguments.submits))
        for part, bars in ((0.5, P50_BARS), (0.99, P99_BARS)):
            values = [percentile(run, part) for run in ours]
            beside = [percentile(run, part) for run in limits]
            over = median([a / b for a, b in zip(values, beside, strict=True)])
            words = f"p{part * 100:.0f}"
            report.emit(f"latency.limit_{words}", median(beside), "ms", spread(beside))
            report.emit(
                f"latency.submit_to_start_{words}",
                median(values),
                "ms",
                f"ratio {over:.3g}x",
                spread(values),
                *(verdict(over, bar, bar_name, more_is_better=False) for bar, bar_name in bars),
            )
    report.close()


if __name__ == "__main__":
    main()
