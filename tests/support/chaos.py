"""A farm in real processes, and one fault after the other while it renders.

What belongs here: bringing each kind of fault, healing it, submitting the work in waves, and noticing what no
fault explains (a process that ended by itself, a farm that stands still).  What it may not know: dice
(``chaos_plan``) and what is true in the end (``chaos_judge``).

Long because each kind of fault stands beside what heals it.
"""

from __future__ import annotations

import contextlib
import heapq
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from farm.model.errors import FarmUnreachable, OvercrankError
from farm.protocol.client import JobRow, NodeRow
from node_agent import proctree
from tests.support.chaos_broker import WISH
from tests.support.chaos_plan import ON_AGENT, Fault
from tests.support.chaos_work import STEP, Task, Work
from tests.support.farmhouse import FAST, Farmhouse
from tests.support.managed import AgentProcess, command_line
from tests.support.postgres import PostgresServer
from tests.support.proxy import Proxy
from tests.support.renames import Renames

#: Patience with a farm that publishes nothing though nothing is broken.
STALL_S = 120.0
#: A thirtieth of the farm's own times: whoever stands still a moment too long is one more fault.
HASTY = {**FAST, "suspect_s": 0.5, "lost_s": 2.0, "lease_ttl_s": 1.5, "restart_grace_s": 8.0}
_POLL_S = 0.02
#: Between two looks at what a wrangler would see to.
_ROUND_S = 1.0
#: Between two looks whether all is done.
_LOOK_S = 0.2

T = TypeVar("T")


class Violation(Exception):
    """Something no fault explains; its text is the evidence."""


class ChaosHouse(Farmhouse):
    """A farm whose broker's commits can be made to go wrong, with an agent behind proxies each."""

    def __init__(self, folder: Path, server: PostgresServer | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.wish = folder / "next-commit"
        self.server = server
        self._extra = {WISH: str(self.wish)}
        self.server_database = self.server_url = ""
        flags: list[str] = []
        if server is not None:
            parts = urlsplit(server.make_database())
            self.server_database = parts.path.strip("/")
            self.server_url = f"postgresql://{parts.username}@{parts.hostname}:{parts.port}{parts.path}"
            self._extra["PGPASSWORD"] = server.password
            flags = ["--database", self.server_url]
        super().__init__(
            folder, name="chaos", broker_flags=flags, times=HASTY, broker_module="tests.support.chaos_broker"
        )
        self.control: dict[str, Proxy] = {}
        self.bulk: dict[str, Proxy] = {}

    def home_env(self, config_home: Path, state_home: Path) -> dict[str, str]:
        """See Farmhouse; with what the broker needs for its faults and its database."""
        return super().home_env(config_home, state_home) | self._extra

    def add_agents(self, count: int) -> None:
        """Adds agents with two slots each, and waits for them."""
        for number in range(count):
            name = f"n{number}"
            control, bulk = Proxy(self.endpoint.control), Proxy(self.endpoint.bulk)
            self.proxies += [control, bulk]
            self.control[name], self.bulk[name] = control, bulk
            self.agent(name, control=control.address, bulk=bulk.address, allow_renderers=("command",))
        self.wait_online()


class Chaos:
    """Brings the faults of a plan to a farm at work.

    Attributes:
        house: The farm.
        work: What it renders.
        renames: Who counts what is published.
        counts: What was done, by word.
        asked: Retries that were answered, by job and frame.
        unsure: Retries whose answer was lost, likewise.
        tasks: Jobs submitted so far.
        client: An administrator's session of its own.
    """

    def __init__(
        self,
        house: ChaosHouse,
        work: Work,
        renames: Renames,
        faults: list[Fault],
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.house = house
        self.work = work
        self.renames = renames
        self.counts: Counter[str] = Counter()
        self.asked: Counter[tuple[int, int]] = Counter()
        self.unsure: Counter[tuple[int, int]] = Counter()
        self.tasks: list[Task] = []
        self._faults = faults
        self._say = say
        self._names = sorted(house.agents)
        self._heals: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        #: Agents in the grip of a fault, and processes that are down on purpose.
        self._held: set[str] = set()
        self._down: set[str] = set()
        self._wished = ""
        self.client = house.client("admin", "chaos", timeout_s=3.0)
        self._next_round_s = self._next_look_s = 0.0
        self._progress = (0, time.monotonic())

    # -- the run --

    def run(self) -> None:
        """Submits, breaks and heals until every job is done.

        Raises:
            Violation: Something ended, failed or stands still that no fault explains.
        """
        number = wave = 0
        total = len(self._faults)
        waves = self.work.waves
        while True:
            while wave < len(waves) and number >= (wave - 0.5) * total / len(waves):
                self._submit(wave)
                wave += 1
            self._heal()
            self._watch()
            if number < total:
                fault = self._faults[number]
                if len(self.renames.seen) >= fault.at and self._free_for(fault):
                    number += 1
                    self._say(f"fault {number}: {fault}")
                    self.counts[fault.kind] += 1
                    self._bring(fault)
            elif wave == len(waves) and not self._heals and not self._wished and self._all_done():
                return
            time.sleep(_POLL_S)

    def rows(self) -> dict[int, JobRow]:
        """Jobs by number."""
        found: dict[int, JobRow] = {}
        more, before = True, 0
        while more:
            reply = self.client.jobs(before=before)
            found |= {row.job: row for row in reply.jobs}
            more, before = reply.more, min(found, default=0)
        return found

    def _submit(self, wave: int) -> None:
        for task in self.work.waves[wave]:
            folder = Path(task.pattern).parent
            folder.mkdir(parents=True, exist_ok=True)
            self.renames.watch(folder)
            body = self.work.job_of(task)
            job = self.patiently(lambda body=body: self.client.submit(body, repeat=True).job)  # type: ignore[misc]
            self.tasks.append(task._replace(job=job))

    def _all_done(self) -> bool:
        if time.monotonic() < self._next_look_s:
            return False
        self._next_look_s = time.monotonic() + _LOOK_S
        self._round()
        try:
            rows = self.rows()
        except FarmUnreachable:
            return False
        return all(rows[task.job].state == "done" for task in self.tasks)

    def patiently(self, question: Callable[[], T], patience_s: float = STALL_S) -> T:
        """Asks until there is an answer; what heals meanwhile is healed."""
        give_up_s = time.monotonic() + patience_s
        while True:
            try:
                return question()
            except FarmUnreachable as error:
                if time.monotonic() > give_up_s:
                    raise Violation(f"the broker gave no answer for {patience_s:g} s: {error}") from error
                self._heal()
                self._watch()

    # -- looking after it --

    def _watch(self) -> None:
        """Notices what nobody did on purpose."""
        house, now_s = self.house, time.monotonic()
        if self._wished:
            if not house.broker.running:
                self._wished = ""
                house.broker.kill()
                self._down.add("broker")
                self._later(0.0, self._start_broker)
            elif self._wished == "fails" and not house.wish.exists():
                # It stops, and starts again from its disk by itself.
                self._wished = ""
        for name, managed in (("broker", house.broker), *house.agents.items()):
            if not managed.running and name not in self._down:
                code = managed.process.returncode if managed.process is not None else None
                raise Violation(f"{name} ended by itself with code {code}:\n{managed.text()[-4000:]}")
        if now_s >= self._next_round_s and "broker" not in self._down:
            self._round()
        published = len(self.renames.seen)
        if published != self._progress[0] or self._held or self._down:
            self._progress = (published, now_s)
        elif now_s - self._progress[1] > STALL_S:
            raise Violation(
                f"nothing was published for {STALL_S:g} s though nothing is broken:\n{self.why()}"
            )

    def _round(self) -> None:
        """What a wrangler would do now and then: look for failures, enable nodes that drained themselves."""
        self._next_round_s = time.monotonic() + _ROUND_S
        try:
            status = self.client.status()
            if status.units.get("failed") or status.jobs.get("paused"):
                raise Violation(f"frames failed though nothing is wrong with them:\n{self.why()}")
            for row in self.client.nodes().nodes:
                if not row.enabled and row.name not in self._held:
                    self._excuse_drain(row)
                    self.client.node_act("node-enable", row.name, reason="looked at it")
                    self.counts["nodes enabled by hand"] += 1
        except FarmUnreachable:
            return

    def _excuse_drain(self, row: NodeRow) -> None:
        """A node drains itself when its supervisor was killed, which only some faults do."""
        killed = sum(self.counts[kind] for kind in ("supervisor-kill", "guard-kill", "tree-kill"))
        if self.counts["nodes enabled by hand"] > 2 * killed:
            log = self.house.agents[row.name].text()[-3000:]
            raise Violation(f"{row.name} was drained without a fault: {row.reason}\n{log}")

    def why(self) -> str:
        """What the farm itself says of work that is not done, and of its nodes."""
        lines: list[str] = []
        with contextlib.suppress(OvercrankError):
            for task in self.tasks:
                row = self.client.job(task.job).job
                if row.state == "done":
                    continue
                lines.append(f"J{task.job} {task.name}: {row.state}, {row.done}/{row.units}, {row.reason}")
                lines += [f"  {cause}" for cause in self.client.why(f"J{task.job}").rows[:5]]
                states = ("failed", "running", "blocked")
                for rows in self.client.frames(f"J{task.job}", states=states, limit=5).steps.values():
                    lines += [f"  {frame}" for frame in rows]
            lines += [
                f"{row.name}: {row.state} {row.reason} {row.running}" for row in self.client.nodes().nodes
            ]
        return "\n".join(lines)

    # -- healing --

    def _later(self, seconds: float, heal: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heals, (time.monotonic() + seconds, self._serial, heal))

    def _heal(self) -> None:
        while self._heals and self._heals[0][0] <= time.monotonic():
            heapq.heappop(self._heals)[2]()

    def _start_broker(self) -> None:
        self.house.start_broker()
        self._down.discard("broker")
        self.counts["broker starts"] += 1

    def _start_agent(self, name: str) -> None:
        self.house.agents[name].start()
        self._down.discard(name)
        self._held.discard(name)
        self.counts["agent starts"] += 1

    def _thaw(self, name: str, pids: list[proctree.Proc]) -> None:
        for proc in pids:
            proctree.send_signal(proc, signal.SIGCONT)
        self._held.discard(name)

    def _mend_line(self, name: str) -> None:
        self.house.control[name].heal()
        self.house.bulk[name].heal()
        self._held.discard(name)

    def _enable(self, name: str) -> None:
        self.patiently(lambda: self.client.node_act("node-enable", name, reason="chaos"))
        self._held.discard(name)

    # -- bringing --

    def _free_for(self, fault: Fault) -> bool:
        if self._wished or "broker" in self._down:
            return False
        if fault.kind == "all-kill":
            return not self._held
        return fault.kind not in ON_AGENT or self._names[fault.agent] not in self._held

    def _bring(self, fault: Fault) -> None:
        word, _, rest = fault.kind.partition("-")
        if word == "commit":
            self._wished = rest
            beside = self.house.wish.with_suffix(".new")
            beside.write_text(rest, "ascii")
            beside.replace(self.house.wish)
        elif fault.kind in ON_AGENT:
            name = self._names[fault.agent]
            self._held.add(name)
            self._on_agent(fault, name, self.house.agents[name])
        elif word == "server":
            self._crash_server(fault)
        elif word == "retry":
            self._retry(fault)
        else:
            self._on_broker(fault)

    def _on_broker(self, fault: Fault) -> None:
        broker = self.house.broker
        if fault.kind == "broker-freeze":
            broker.freeze()
            self._down.add("broker")

            def thaw() -> None:
                broker.thaw()
                self._down.discard("broker")

            self._later(fault.seconds, thaw)
            return
        self._down.add("broker")
        if fault.kind == "broker-stop":
            broker.stop()
        else:
            broker.kill()
        if fault.kind == "all-kill":
            for name, agent in self.house.agents.items():
                self._held.add(name)
                self._down.add(name)
                agent.kill()
                self._later(fault.seconds / 2, lambda name=name: self._start_agent(name))  # type: ignore[misc]
        self._later(fault.seconds, self._start_broker)

    def _on_agent(self, fault: Fault, name: str, agent: AgentProcess) -> None:
        kind = fault.kind
        if kind.startswith("cut"):
            for proxy in (self.house.control[name], self.house.bulk[name]):
                if kind == "cut-hard":
                    proxy.cut_hard()
                else:
                    proxy.cut(up=kind != "cut-down", down=kind != "cut-up")
            self._later(fault.seconds, lambda: self._mend_line(name))
        elif kind.endswith("freeze"):
            family = self._family(agent)
            frozen = family if kind == "tree-freeze" else [proc for proc in family if proc.pid == agent.pid]
            for proc in frozen:
                proctree.send_signal(proc, signal.SIGSTOP)
            self._later(fault.seconds, lambda: self._thaw(name, frozen))
        elif kind == "drain":
            self.patiently(lambda: self.client.node_act("node-drain", name, reason="chaos"))
            self._later(fault.seconds, lambda: self._enable(name))
        elif kind in ("supervisor-kill", "guard-kill"):
            self._kill_supervisor(agent, guard=kind == "guard-kill")
            self._held.discard(name)
        else:
            self._down.add(name)
            family = self._family(agent) if kind == "tree-kill" else []
            if kind == "agent-stop":
                agent.stop()
            else:
                agent.kill()
            for proc in family:
                proctree.send_signal(proc, signal.SIGKILL)
            self._later(fault.seconds, lambda: self._start_agent(name))

    def _family(self, agent: AgentProcess) -> list[proctree.Proc]:
        """The agent's process and all below it, itself first."""
        table = proctree.snapshot()
        pids = proctree.descendants(table, [agent.pid]) | proctree.tagged(
            proctree.AGENT_TAG, lambda value: value == agent.agent_id, table
        )
        return [table[pid] for pid in sorted(pids, key=lambda pid: pid != agent.pid) if pid in table]

    def _kill_supervisor(self, agent: AgentProcess, *, guard: bool) -> None:
        pair = [proc for proc in self._family(agent) if "supervisor_main.py" in command_line(proc.pid)]
        pids = {proc.pid for proc in pair}
        # The guard is the parent of the supervisor; right after one died there may be none.
        chosen = [proc for proc in pair if (proc.ppid in pids) is not guard]
        if not chosen:
            self.counts["no supervisor to kill"] += 1
        for proc in chosen:
            proctree.send_signal(proc, signal.SIGKILL)

    def _crash_server(self, fault: Fault) -> None:
        server = self.house.server
        assert server is not None
        both = fault.kind == "server-and-broker-crash"
        self._down.add("broker")
        if both:
            self.house.broker.kill()
        server.crash()

        def start() -> None:
            server.start()
            if both:
                self._start_broker()
            else:
                # The broker goes on by itself.
                self._down.discard("broker")

        self._later(fault.seconds, start)

    def _retry(self, fault: Fault) -> None:
        """Renders frames again that are done."""
        task = self.tasks[int(fault.where * len(self.tasks))]
        first = 1 + int(fault.where * len(self.tasks) % 1 * task.frames)
        last = min(task.frames, first + fault.size - 1)
        for address in (f"J{task.job}/{STEP}/{first}-{last}", f"J{task.job}/{STEP}"):
            reply = self.patiently(
                lambda address=address: self.client.frames(address, states=("done",), limit=fault.size)  # type: ignore[misc]
            )
            frames = [row.frame for row in reply.steps.get(STEP, ()) if row.frame is not None]
            if frames:
                break
        else:
            self.counts["nothing to retry"] += 1
            return
        self.counts["frames retried"] += len(frames)
        for frame in frames:
            address = f"J{task.job}/{STEP}/{frame}"
            try:
                self.client.act("retry", address, reason="chaos")
            except FarmUnreachable:
                self.unsure[task.job, frame] += 1
            else:
                self.asked[task.job, frame] += 1
