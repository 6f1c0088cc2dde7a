"""Where the broker's time goes: the same broker and agents as ``dispatch.py``, but looked at from inside.

The broker runs in this process's main thread.  By default each stage of its loop is timed and printed in
microseconds of CPU a task; ``--functions`` prints a cProfile listing instead (which makes small functions
look dearer than they are).  Rates are not comparable with ``dispatch.py``'s: a thread of this process watches
the run, and looking costs time.

    python benchmarks/profile_dispatch.py
    python benchmarks/profile_dispatch.py --functions --tasks 10000
"""

from __future__ import annotations

import argparse
import cProfile
import getpass
import os
import pstats
import tempfile
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench_farm import ACKED, FIRST_NS, LAST_NS, NAME, BenchFarm, job_file
from common import Report, base_parser, cpu_by_thread_us, describe_machine, fail, median

import farm.broker.loop as loop_module
from farm.broker.app import Broker
from farm.broker.outbound import Outbound
from farm.broker.publish import Publisher
from farm.broker.state import BrokerState
from farm.config.options import BrokerOptions
from farm.core.core import Core
from farm.core.events import DispatchEvent, ReportEvent
from farm.protocol.codec import Codec
from farm.storage.sqlite import SqliteStore
from farm.transport.poller import Poller

#: Stages in the order of a turn; those with a mark lie inside the stage above them.
STAGES = {
    "wait": "waiting for a message (poll)",
    "drain": "drain: receive, decode, route, core",
    "- receive": "take a message off the socket",
    "- decode": "decode and check its types",
    "- result": "core: a report (fencing, maps, money, rows)",
    "dispatch": "place work on all free agents, form leases",
    "- place": "core: placing",
    "commit": "store the turn's rows in one transaction",
    "note": "tell the bulk thread and the followers",
    "send": "encode one message an agent, send",
}


class Stages:
    """CPU time of the loop's thread by stage; what reading the clock costs is taken off."""

    def __init__(self) -> None:
        self.us = dict.fromkeys(STAGES, 0.0)
        self._undo: list[tuple[Any, str, Any]] = []
        self._overhead_us = _clock_cost_us()

    def watch(self, owner: Any, name: str, stage: str | Callable[..., str]) -> None:
        """Times a function or method from now on."""
        inner = getattr(owner, name)
        self._undo.append((owner, name, inner))
        setattr(owner, name, self._timed(inner, stage))

    def _timed(self, inner: Callable[..., Any], stage: str | Callable[..., str]) -> Callable[..., Any]:
        us, clock, overhead_us = self.us, time.thread_time_ns, self._overhead_us

        def call(*arguments: Any) -> Any:
            started_ns = clock()
            try:
                return inner(*arguments)
            finally:
                spent_us = (clock() - started_ns) / 1000 - overhead_us
                us[stage if isinstance(stage, str) else stage(*arguments)] += spent_us

        return call

    def restore(self) -> None:
        """Takes the watches off."""
        for owner, name, inner in reversed(self._undo):
            setattr(owner, name, inner)


def _clock_cost_us() -> float:
    """What reading the clock twice adds to a span."""
    clock = time.thread_time_ns
    return median([-clock() + clock() for _ in range(10_000)]) / 1000


def watch_stages(stages: Stages) -> None:
    """Puts a watch on each stage of the loop."""

    def of_event(_core: Core, event: object) -> str:
        kind = type(event)
        return "- result" if kind is ReportEvent else "- place" if kind is DispatchEvent else "drain"

    stages.watch(Poller, "wait", "wait")
    stages.watch(loop_module.Loop, "_drain_control", "drain")
    stages.watch(loop_module, "recv_nowait", "- receive")
    stages.watch(Codec, "decode", "- decode")
    stages.watch(Core, "handle", of_event)
    stages.watch(loop_module.Loop, "_place", "dispatch")
    stages.watch(SqliteStore, "commit", "commit")
    stages.watch(BrokerState, "note_leases", "note")
    stages.watch(Publisher, "note", "note")
    stages.watch(Outbound, "flush", "send")


def run(
    folder: Path, tasks: int, agents: int, slots: int, begin: Callable[[], None], end: Callable[[], None]
) -> Any:
    """Runs the broker in this thread; calls ``begin`` when tasks start and ``end`` when all are done."""
    result: dict[str, float] = {}
    with BenchFarm(folder, agents) as farm:
        options = BrokerOptions(
            control_port=0, join_port=0, bulk_port=0, rate_usd_h=Decimal("0.50"), log_level="warning"
        )
        drivers: list[threading.Thread] = []

        def drive() -> None:
            try:
                farm.start_agents(2, slots)
                with farm.connect() as client:
                    before = cpu_by_thread_us(os.getpid())
                    begin()
                    for number in range(4):
                        frames = tasks // 4 + (number < tasks % 4)
                        client.submit(job_file(f"bench {number}", frames, project=f"project{number % 2}"))
                    farm.wait(lambda: farm.total(ACKED) >= tasks, f"{tasks} tasks")
                    end()
                    after = cpu_by_thread_us(os.getpid())
                spent_ns = max(s[LAST_NS] for s in farm.shared) - min(s[FIRST_NS] for s in farm.shared)
                result["rate"] = tasks / spent_ns * 1e9
                result["main_us"] = (after[os.getpid()] - before[os.getpid()]) / tasks
            finally:
                farm.stop_agents()
                broker.stop()

        def announce(_endpoint: object) -> None:
            driver = threading.Thread(target=drive, name="driver")
            drivers.append(driver)
            driver.start()

        broker = Broker(NAME, options, user=getpass.getuser(), announce=announce)
        broker.run()
        for driver in drivers:
            driver.join()
    if not result:
        fail("the run did not end")
    return result


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--functions", action="store_true", help="a cProfile listing")
    parser.add_argument("--sort", default="tottime", help="order of the listing")
    parser.add_argument("--dir", help="where the database is written; a real disk")
    arguments = parser.parse_args()
    report = Report(arguments.json)
    size = (arguments.tasks, arguments.agents, arguments.slots)
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-", dir=arguments.dir) as name:
        describe_machine(report, Path(name))
        if arguments.functions:
            profile = cProfile.Profile()
            profile.enable()
            result = run(Path(name), *size, lambda: None, lambda: None)
            profile.disable()
            pstats.Stats(profile).sort_stats(arguments.sort).print_stats(45)
        else:
            stages = Stages()
            watch_stages(stages)
            marks: list[dict[str, float]] = []
            try:
                result = run(
                    Path(name),
                    *size,
                    lambda: marks.append(dict(stages.us)),
                    lambda: marks.append(dict(stages.us)),
                )
            finally:
                stages.restore()
            for stage, words in STAGES.items():
                us = (marks[1][stage] - marks[0][stage]) / arguments.tasks
                report.emit(f"profile.{stage.replace('- ', 'in_')}", us, "us/task", words)
            report.emit("profile.main_thread", result["main_us"], "us/task", "as the kernel counts it")
        report.emit("profile.rate", result["rate"], "tasks/s", "with the watches on")
    report.close()


if __name__ == "__main__":
    main()
