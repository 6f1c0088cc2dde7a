"""How the broker scales: many slots, much work waiting, many agents, all of them connecting at once.

Each figure is read beside its limit in the same run, in alternating rounds, and ends in a ratio; the last
lines say PASS or FAIL for each ratio that must hold.  Costs are CPU time (of the broker's loop, or of its
whole process), not wall time, so that company on the machine disturbs them least.

    python benchmarks/scale.py
    python benchmarks/scale.py --only depth --rounds 5
    python benchmarks/scale.py --only agents --agents 100,1000
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import zmq
from bench_farm import ACKED, BEAT_MS, BenchFarm, job_file
from common import (
    Report,
    base_parser,
    cpu_by_thread_us,
    describe_machine,
    fail,
    median,
    memory_mib,
    percentile,
    quiet_rounds,
    spread,
)
from dispatch import GOAL_16, MUST_16, dispatch
from limit_loop import broker_limit
from limit_scale import AgentsLimit, agents_limit, raise_file_limit, storm_limit

from farm.broker.admission import admit
from farm.broker.app import restore_core
from farm.core.state import Settings
from farm.model.nodes import NodeFacts
from farm.model.resources import Resources
from farm.model.roles import Role
from farm.protocol.agent import AgentHello
from farm.protocol.codec import agent_codec
from farm.protocol.common import HelloMsg, WelcomeMsg
from farm.protocol.session import PeerSession
from farm.storage.sqlite import SqliteStore
from farm.transport.keys import KeyPair
from farm.transport.sockets import client_socket, new_context

SPAWN = multiprocessing.get_context("spawn")
#: Frames that are submitted for every so many done, so that a queue stays as deep as it was.
TOP_UP = 500
#: Tasks before a measurement begins: renderers are loaded and templates made by then.
WARM = 1_000
PROJECTS = 4


class Verdicts:
    """The ratios of a run and whether each is what it must be."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.lines: list[tuple[str, bool, str]] = []

    def ratio(
        self, name: str, value: float, must: float, goal: float, *beside: str, more_is_better: bool = False
    ) -> None:
        """One ratio beside its must and goal."""
        sign = ">=" if more_is_better else "<="

        def met(bar: float) -> bool:
            return value >= bar if more_is_better else value <= bar

        words = [
            f"{name} {sign} {bar:.4g}: {'met' if met(bar) else 'MISSED'}"
            for name, bar in (("must", must), ("goal", goal))
        ]
        self._report.emit(name, value, "x", *words, *beside)
        self.lines.append((name, met(must), f"{value:.3g} (must {sign} {must:.4g}, goal {sign} {goal:.4g})"))

    def close(self) -> None:
        """A line a must at the end."""
        for name, passed, words in self.lines:
            self._report.emit(f"{name}.verdict", "PASS" if passed else "FAIL", "word", words)


# ---------------------------------------------------------------- 16 slots


def slots16(report: Report, verdicts: Verdicts, folder: Path, options: argparse.Namespace) -> None:
    """A hundred agents with 16 slots each, beside the bare loop with 16 tasks a message."""
    tasks, ratios, rates, limits = options.tasks * 4, [], [], []
    for number in quiet_rounds(options.rounds, options.quiet_s):
        inner = folder / f"slots{number}"
        inner.mkdir()
        limit = broker_limit(inner, 2 * tasks, 100, 16)
        run = dispatch(inner, tasks, 100, 16)
        for wrong in run.wrong:
            fail(wrong)
        limits.append(limit.rate)
        rates.append(run.rate)
        ratios.append(run.rate / limit.rate)
    report.emit("scale.slots16.limit", median(limits), "tasks/s", spread(limits))
    report.emit("scale.slots16.rate", median(rates), "tasks/s", spread(rates), "audited after kill -9")
    verdicts.ratio("scale.slots16", median(ratios), MUST_16, GOAL_16, spread(ratios), more_is_better=True)


# ---------------------------------------------------------------- much work waiting


class Cost(NamedTuple):
    """What a task cost the broker, microseconds of CPU, and tasks a second meanwhile."""

    loop_us: float
    whole_us: float
    rate: float
    seconds: float


def prepare(database: Path, jobs: list[bytes]) -> None:
    """Stores jobs as a broker that had taken them in would have."""
    now_us = time.time_ns() // 1000
    with SqliteStore(database) as store:
        core = restore_core(store, Settings())
        for start in range(0, len(jobs), 500):
            rows = []
            for source in jobs[start : start + 500]:
                event, _ = admit(source, Role.ADMIN, "bench", now_us)
                rows += core.handle(event).rows
            store.commit(rows)


def measure(farm: BenchFarm, client: Any, warm: int, tasks: int, *, top_up: bool) -> Cost:
    """CPU a task in a stretch of a run that is under way."""
    submitted = next_up = 0

    def reached(count: int) -> bool:
        nonlocal submitted, next_up
        acked = farm.total(ACKED)
        if top_up and acked >= next_up:
            # The same submits in every variant, so that their cost cancels out.
            project = f"project{submitted % PROJECTS}"
            client.submit(job_file(f"more {submitted}", TOP_UP, project=project))
            submitted += 1
            next_up += TOP_UP
        return acked >= count

    farm.wait(lambda: reached(warm), f"{warm} tasks")
    before, at_s, had = cpu_by_thread_us(farm.pid), time.perf_counter(), farm.total(ACKED)
    farm.wait(lambda: reached(had + tasks), f"{tasks} tasks")
    after, spent_s, done = cpu_by_thread_us(farm.pid), time.perf_counter() - at_s, farm.total(ACKED) - had
    used = {thread: us - before.get(thread, 0.0) for thread, us in after.items()}
    return Cost(used[farm.pid] / done, sum(used.values()) / done, done / spent_s, spent_s)


def queue_cost(folder: Path, jobs: list[bytes], tasks: int) -> Cost:
    """What a task costs a broker that finds these jobs waiting."""
    with BenchFarm(folder, 100) as farm:
        prepare(farm.places.database, jobs)
        farm.start()
        farm.start_agents(2, 1)
        with farm.connect() as client:
            return measure(farm, client, WARM, tasks, top_up=True)


def evenly(frames: int, jobs: int = PROJECTS) -> list[bytes]:
    """So many frames in jobs of the projects."""
    return [job_file(f"wait {n}", frames // jobs, project=f"project{n % PROJECTS}") for n in range(jobs)]


def waiting_for(need: str, frames: int, number: int, *, by_frame: bool = False) -> bytes:
    """A job that waits for another one."""
    job = json.loads(job_file(f"blocked {number}", frames, project=f"project{number % PROJECTS}"))
    job["steps"][0]["after"] = [{"job": need, "step": "work", "frames": by_frame}]
    return json.dumps(job).encode()


def deep_queues() -> dict[str, tuple[str, Callable[[], list[bytes]]]]:
    """What waits in each variant; the first is what the others are read beside."""
    return {
        "1e3": ("10^3 frames wait", lambda: evenly(1_000)),
        "1e6": ("10^6 frames wait", lambda: evenly(1_000_000)),
        "jobs": ("10^4 jobs of 100 frames wait", lambda: evenly(1_000_000, 10_000)),
        "blocked": (
            "10^3 frames wait, 10^5 more in 1,000 jobs are blocked by a job that runs",
            lambda: [
                job_file("needed", 100_000, project="project0"),
                *(waiting_for("J1", 100, number) for number in range(1_000)),
            ],
        ),
    }


def depth(report: Report, verdicts: Verdicts, folder: Path, options: argparse.Namespace) -> None:
    """Cost a task with much waiting beside little waiting."""
    queues = deep_queues()
    found: dict[str, list[Cost]] = {name: [] for name in queues}
    for number in quiet_rounds(options.rounds, options.quiet_s):
        for name, (_, make) in queues.items():
            inner = folder / f"depth{number}-{name}"
            inner.mkdir()
            found[name].append(queue_cost(inner, make(), options.tasks))
    for name, (words, _) in queues.items():
        costs = [cost.loop_us for cost in found[name]]
        rate = median([cost.rate for cost in found[name]])
        report.emit(
            f"scale.depth_{name}.cpu", median(costs), "us/task", f"the loop's thread; {words}",
            f"{rate:.0f} tasks/s", spread(costs),
        )  # fmt: skip
    for name in list(queues)[1:]:
        pairs = zip(found[name], found["1e3"], strict=True)
        ratios = [deep.loop_us / shallow.loop_us for deep, shallow in pairs]
        verdicts.ratio(
            f"scale.depth_{name}",
            median(ratios),
            1.25,
            1.1,
            "CPU over that with 10^3 waiting",
            spread(ratios),
        )


# ---------------------------------------------------------------- many agents


class AgentsCost(NamedTuple):
    """What tasks, heartbeats and connections of so many agents cost the broker."""

    cost: Cost
    idle_us_s: float
    kib: float


def agents_cost(folder: Path, count: int, tasks: int) -> AgentsCost:
    """Lets so many agents join, do nothing for a while, and then work."""
    with BenchFarm(folder, count) as farm:
        farm.start("--suspect-s", "120", "--lost-s", "240")
        base_mib = memory_mib(farm.pid)[0]
        farm.start_agents(2, 1)
        kib = (memory_mib(farm.pid)[0] - base_mib) / count * 1024
        with farm.connect() as client:
            idle, at_s = sum(cpu_by_thread_us(farm.pid).values()), time.perf_counter()
            # Nothing to wait for: what is measured is the quiet.
            time.sleep(2.0)
            idle = (sum(cpu_by_thread_us(farm.pid).values()) - idle) / (time.perf_counter() - at_s)
            for shared in farm.shared:
                # What they cost is known now, and the bare socket has none.
                shared[BEAT_MS] = 60_000
            for job in evenly(2 * (tasks + 2 * count)):
                client.submit(job)
            return AgentsCost(measure(farm, client, 2 * count, tasks, top_up=False), idle, kib)


def agents(report: Report, verdicts: Verdicts, folder: Path, options: argparse.Namespace) -> None:
    """Cost a task with many agents over that with a hundred, beside the same of a bare socket."""
    sizes = [int(text) for text in options.agents.split(",")]
    files = raise_file_limit()
    ours: dict[int, list[AgentsCost]] = {size: [] for size in sizes}
    limits: dict[int, list[AgentsLimit]] = {size: [] for size in sizes}
    for number in quiet_rounds(options.rounds, options.quiet_s):
        for size in sizes:
            if size + 500 > files:
                report.emit(f"scale.agents_{size}", "skipped", "word", f"ulimit -n is {files}")
                continue
            if number and number >= (options.rounds + 1) // 2 and size > 5_000:
                continue  # the largest takes as long as all others: half the rounds
            inner = folder / f"agents{number}-{size}"
            inner.mkdir()
            limits[size].append(agents_limit(size))
            ours[size].append(agents_cost(inner, size, max(options.tasks, 2 * size)))
    for size in sizes:
        if not ours[size]:
            continue
        costs = [one.cost.whole_us for one in ours[size]]
        report.emit(
            f"scale.agents_{size}.cpu", median(costs), "us/task", "the whole process",
            f"limit {median([one.cpu_us for one in limits[size]]):.4g} us a round trip",
            f"{median([one.cost.rate for one in ours[size]]):.0f} tasks/s", spread(costs),
        )  # fmt: skip
        idle = median([one.idle_us_s for one in ours[size]]) / 1e4
        report.emit(f"scale.agents_{size}.idle_cpu", idle, "percent", "of one core: heartbeats every 2 s")
    _agents_ratios(verdicts, sizes, ours, limits)
    for size in sizes:
        if size >= 1_000 and ours[size]:
            kib = [one.kib for one in ours[size]]
            bare = median([one.kib for one in limits[size]])
            report.emit(
                f"scale.agents_{size}.memory", median(kib), "KiB/agent", f"bare socket {bare:.3g}",
                f"ratio {median(kib) / bare:.3g}x", spread(kib),
            )  # fmt: skip
    if ours.get(1_000):
        kib_1000 = median([one.kib for one in ours[1_000]])
        verdicts.ratio("scale.memory_per_agent_kib", kib_1000, 48.0, 36.0, "KiB, with 1,000 agents")


def _agents_ratios(
    verdicts: Verdicts,
    sizes: list[int],
    ours: dict[int, list[AgentsCost]],
    limits: dict[int, list[AgentsLimit]],
) -> None:
    for size in sizes[1:]:
        ratios, own, bare = [], [], []
        for one, few, limit, limit_few in zip(
            ours[size], ours[sizes[0]], limits[size], limits[sizes[0]], strict=False
        ):
            own.append(one.cost.whole_us / few.cost.whole_us)
            bare.append(limit.cpu_us / limit_few.cpu_us)
            ratios.append(own[-1] / bare[-1])
        if ratios:
            verdicts.ratio(
                f"scale.agents_{size}", median(ratios), 1.3, 1.1,
                f"CPU {median(own):.3g}x that with {sizes[0]} agents, the bare socket's {median(bare):.3g}x",
                spread(ratios),
            )  # fmt: skip


# ---------------------------------------------------------------- all at once


def _is_welcome(message: object) -> bool:
    return type(message) is WelcomeMsg


def _storm(control: str, public: str, first: int, pairs: list[KeyPair], out: Connection) -> None:
    raise_file_limit()
    context = new_context()
    context.set(zmq.MAX_SOCKETS, max(1024, 2 * len(pairs)))
    poller = zmq.Poller()
    codec = agent_codec()
    sessions: dict[Any, PeerSession] = {}
    total = Resources(cores=1, ram_mib=64)

    def hello(number: int) -> Callable[[int, int], HelloMsg]:
        facts = NodeFacts(name=f"node{number}", host=f"host{number}", total=total, renderers=("command",))
        return lambda oldest, newest: HelloMsg(oldest=oldest, newest=newest, agent=AgentHello(facts=facts))

    out.recv()
    started_s = time.perf_counter()
    for number, pair in enumerate(pairs, first):
        socket = client_socket(context, control, pair, public)
        sessions[socket] = PeerSession(codec, hello(number))
        poller.register(socket, zmq.POLLIN | zmq.POLLOUT)
    waits_ms: list[float] = []
    while len(waits_ms) < len(pairs):
        for socket, events in poller.poll():
            session = sessions[socket]
            if events & zmq.POLLOUT:  # past the handshake
                socket.send(session.greet())
                poller.modify(socket, zmq.POLLIN)
            if events & zmq.POLLIN and any(map(_is_welcome, session.receive(socket.recv()))):
                waits_ms.append((time.perf_counter() - started_s) * 1e3)
    out.send(waits_ms)
    out.recv()
    for socket in sessions:
        socket.close(0)
    context.term()


def storm_waits(folder: Path, count: int) -> tuple[list[float], float]:
    """Milliseconds until each agent has its welcome, and CPU of the broker a connection in microseconds."""
    with BenchFarm(folder, count) as farm:
        farm.start()
        half, processes = count // 2, []
        for first, share in ((0, farm.pairs[:half]), (half, farm.pairs[half:])):
            mine, theirs = SPAWN.Pipe()
            endpoint = farm.endpoint
            process = SPAWN.Process(
                target=_storm, args=(endpoint.control, endpoint.public, first, share, theirs)
            )
            process.start()
            theirs.close()
            processes.append((process, mine))
        before = sum(cpu_by_thread_us(farm.pid).values())
        for _, pipe in processes:
            pipe.send("go")
        waits_ms = [wait for _, pipe in processes for wait in pipe.recv()]
        spent = sum(cpu_by_thread_us(farm.pid).values()) - before
        for process, pipe in processes:
            pipe.send("end")
            process.join()
            process.close()
            pipe.close()
    return waits_ms, spent / count


def storm(report: Report, verdicts: Verdicts, folder: Path, options: argparse.Namespace) -> None:
    """All agents connect at once: how long until each has been answered."""
    count = options.storm
    ours: list[list[float]] = []
    limits: list[list[float]] = []
    locked: list[list[float]] = []
    cpu: list[float] = []
    for number in quiet_rounds(options.rounds, options.quiet_s):
        inner = folder / f"storm{number}"
        inner.mkdir()
        limits.append(storm_limit(inner, count))
        locked.append(storm_limit(inner, count, encrypted=True))
        waits_ms, spent = storm_waits(inner, count)
        ours.append(waits_ms)
        cpu.append(spent)
    for part in (0.5, 0.99):
        values, beside = ([percentile(run, part) for run in runs] for runs in (ours, limits))
        name = f"scale.storm_{count}.p{part * 100:.0f}"
        report.emit(name, median(values), "ms", f"limit {median(beside):.4g}", spread(values))
        if part == 0.99:
            ratios = [a / b for a, b in zip(values, beside, strict=True)]
            words = "the limit neither encrypts nor checks a key; see over_encrypted"
            verdicts.ratio(f"scale.storm_{count}", median(ratios), 3.0, 1.5, words, spread(ratios))
            fair = [a / percentile(run, part) for a, run in zip(values, locked, strict=True)]
            curve_ms = median([percentile(run, part) for run in locked])
            report.emit(
                f"scale.storm_{count}.encrypted_limit", curve_ms, "ms", "CURVE, but no key is looked up"
            )
            report.emit(f"scale.storm_{count}.over_encrypted", median(fair), "x", spread(fair))
    report.emit(f"scale.storm_{count}.cpu", median(cpu), "us/connection", "the broker's whole process")


PARTS = {"slots16": slots16, "depth": depth, "agents": agents, "storm": storm}


def main() -> None:
    """Measures and prints."""
    parser = base_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", action="append", choices=sorted(PARTS), help="measure this part only")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds")
    parser.add_argument("--tasks", type=int, default=8_000, help="tasks a measurement")
    parser.add_argument("--agents", default="100,1000,5000,10000", help="numbers of agents, the least first")
    parser.add_argument("--storm", type=int, default=1_000, help="agents that connect at once")
    parser.add_argument("--dir", help="where databases are written; a real disk")
    arguments = parser.parse_args()
    report = Report(arguments.json)
    verdicts = Verdicts(report)
    with tempfile.TemporaryDirectory(prefix="overcrank-bench-", dir=arguments.dir) as name:
        describe_machine(report, Path(name))
        for part in arguments.only or PARTS:
            PARTS[part](report, verdicts, Path(name), arguments)
    verdicts.close()
    report.close()


if __name__ == "__main__":
    main()
