"""A whole farm in real processes for one test: a broker, agents, clients, and nothing left of them after.

What belongs here: starting, killing, freezing and ending those processes, the keys of clients, the logs when
a test fails, and the search for what was left running.  What it may not know: jobs and what is asserted.

Everything lives under one folder with XDG homes of its own.  Lease times are a thirtieth of the farm's.
Ports lie outside the range the kernel hands out, so that a broker that was killed finds its own again, and
are reserved against tests that run beside this one.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from farm.config.places import Endpoint, read_endpoint
from farm.model.errors import FarmUnreachable
from farm.protocol.client import JobRow, NodeRow
from farm.sdk.client import Farm
from farm.sdk.connect import Access, dial
from farm.transport.keys import KeyPair, generate_keypair, load_keypair, save_keypair
from node_agent import proctree
from node_agent.options import AgentOptions
from tests.support.managed import AgentProcess, Managed, command_line, reserve_ports
from tests.support.waiting import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
#: Lease times in seconds: a fifteenth of the defaults, as a process of a busy machine may stand still for two
#: seconds and is not to be lost for that; heartbeats twice as often.
FAST: Mapping[str, float] = {
    "heartbeat_s": 0.0667,
    "suspect_s": 1.0,
    "lost_s": 4.0,
    "lease_ttl_s": 3.0,
    "kill_grace_s": 0.5,
    # Longer than 60 s / 15: a client dials a broker that was away at most every 5 s, whatever the scale.
    "restart_grace_s": 15.0,
}
#: Marks every process a house starts in its environment.
TAG = "OVERCRANK_TEST_HOUSE"
_TAIL = 6_000

T = TypeVar("T")


class Farmhouse:
    """A farm; a context manager.

    Attributes:
        folder: Everything of it lies below.
        name: The farm's name.
        env: Environment of its processes and of ``farm`` commands.
        broker: The broker's process.
        agents: Agents by name.
        proxies: Closed with the house; append yours.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "test",
        rate_usd_h: str = "3.6",
        broker_flags: Iterable[str] = (),
        state_home: Path | None = None,
        times: Mapping[str, float] = FAST,
        broker_module: str = "farm",
    ) -> None:
        """Prepares; nothing runs yet.

        Args:
            folder: An empty folder.
            name: The farm's name.
            rate_usd_h: Price of each node.
            broker_flags: Further flags of ``farm broker``.
            state_home: Where the broker keeps its state, if not below ``folder``.
            times: Lease times.
            broker_module: Module run as the broker (tests may bring one with a fault).
        """
        self.folder = folder
        self.name = name
        self.tag = f"{os.getpid()}-{random.SystemRandom().getrandbits(48):x}"
        self._state_home = state_home or folder / "state"
        self.env = self.home_env(folder / "config", self._state_home)
        self.logs = folder / "process-logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._ports = reserve_ports(3)
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in times.items()]
        for kind, (port, _) in zip(("control", "join", "bulk"), self._ports, strict=True):
            flags.append(f"--{kind}-port={port}")
        flags += ["--rate-usd-h", rate_usd_h, *broker_flags]
        self._broker_argv = ["-m", broker_module, "--farm", name, "broker", *flags]
        self.broker = Managed("broker", self.logs / "broker.log", self.env, folder)
        self.agents: dict[str, AgentProcess] = {}
        self.proxies: list[Any] = []
        self._keys: dict[tuple[str, str], KeyPair] = {}
        self._clients: list[Farm] = []
        self._admin: Farm | None = None

    # -- places --

    def home_env(self, config_home: Path, state_home: Path) -> dict[str, str]:
        """The environment of somebody with XDG homes of their own."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("OVERCRANK_")}
        return env | {
            "XDG_CONFIG_HOME": str(config_home),
            "XDG_STATE_HOME": str(state_home),
            "OVERCRANK_FARM": self.name,
            "PYTHONPATH": str(ROOT),
            "PYTHONFAULTHANDLER": "1",
            TAG: self.tag,
        }

    @property
    def state(self) -> Path:
        """The broker's state folder."""
        return self._state_home / "overcrank" / self.name

    @property
    def config(self) -> Path:
        """The folder of options and keys."""
        return self.folder / "config" / "overcrank" / self.name

    @property
    def database(self) -> Path:
        """The broker's database."""
        return self.state / "farm.db"

    @property
    def endpoint(self) -> Endpoint:
        """Where the broker says it listens."""
        found = read_endpoint(self.state / "broker.json")
        assert found is not None
        return found

    # -- the broker --

    def start_broker(self) -> Endpoint:
        """Starts it and waits until it serves."""
        self.broker.spawn(self._broker_argv)
        path = self.state / "broker.json"

        def serves() -> bool:
            assert self.broker.running, f"the broker ended at once:\n{self.broker.text()[-_TAIL:]}"
            found = read_endpoint(path)
            return found is not None and found.pid == self.broker.pid

        eventually(serves, "the broker serves")
        return self.endpoint

    def restart_broker(self) -> None:
        """``kill -9``, then a new one on the same ports."""
        self.broker.kill()
        self.start_broker()

    # -- agents --

    def agent(
        self, name: str, *, pool: str = "", site: str = "", start: bool = True, **options: Any
    ) -> AgentProcess:
        """Adds an agent with a key of its own and starts it.

        Args:
            name: The node's name.
            pool: Its pool.
            site: Its site.
            start: Whether to start it now.
            options: Fields of ``node_agent.options.AgentOptions``.
        """
        folder = self.folder / "agents" / name
        key_file = folder / "agent.key"
        pair = generate_keypair()
        folder.mkdir(parents=True, exist_ok=True)
        save_keypair(key_file, pair)
        self.admin.keys(
            "keys-add", role="agent", key=pair.public, label=f"agent {name}", pool=pool, site=site
        )
        endpoint = self.endpoint
        fields: dict[str, Any] = {"cores": 2, "ram_mib": 1024, "preview_px": 0, "log_level": "info"} | options
        made = AgentOptions(
            name=name,
            state_dir=str(folder / "state"),
            control=fields.pop("control", endpoint.control),
            bulk=fields.pop("bulk", endpoint.bulk),
            key_file=str(key_file),
            broker_key=endpoint.public,
            pool=pool,
            site=site,
            **fields,
        )
        apps = Path(os.environ.get("OVERCRANK_TEST_APPS", self.folder / "apps.json"))
        agent = AgentProcess(made, self.logs / f"{name}.log", self.env, self.folder, apps)
        self.agents[name] = agent
        if start:
            agent.start()
        return agent

    def wait_online(self, *names: str) -> None:
        """Waits until the broker counts these agents (default: all) as online."""
        wanted = set(names or self.agents)

        def online() -> bool:
            for name in wanted:
                assert self.agents[name].running, f"agent {name} ended:\n{self.agents[name].text()[-_TAIL:]}"
            return wanted <= {row.name for row in self.nodes() if row.state == "online"}

        eventually(online, lambda: f"{sorted(wanted)} online; there are {self.nodes()}")
        for name in wanted:
            self.agents[name].remember_apps()

    # -- clients --

    @property
    def admin(self) -> Farm:
        """The local administrator's session, shared by the test and the helpers."""
        if self._admin is None:
            self._admin = self._open(load_keypair(self.config / "local-admin.key"))
        return self._admin

    def key(self, role: str, user: str) -> KeyPair:
        """A key of that role and user, made known to the broker when it is new."""
        pair = self._keys.get((role, user))
        if pair is None:
            pair = self._keys[role, user] = generate_keypair()
            self.admin.keys("keys-add", role=role, user=user, key=pair.public, label=f"{role} {user}")
        return pair

    def client(self, role: str, user: str, *, pair: KeyPair | None = None, timeout_s: float = 10.0) -> Farm:
        """A session of its own; closed with the house."""
        return self._open(pair or self.key(role, user), timeout_s)

    def access(self, pair: KeyPair, endpoint: Endpoint | None = None) -> Access:
        """What it takes to dial the broker with that key."""
        return Access(self.name, endpoint or self.endpoint, pair)

    def _open(self, pair: KeyPair, timeout_s: float = 10.0) -> Farm:
        access = self.access(pair)
        control = dial(access, access.endpoint.control, timeout_s)
        client = Farm(
            control,
            lambda: dial(access, access.endpoint.bulk, timeout_s),
            timeout_s=timeout_s,
            name=self.name,
            place=access.endpoint.control,
        )
        self._clients.append(client)
        client.open()
        return client

    def ask(self, question: Callable[[Farm], T]) -> T:
        """Asks as administrator, again and again while the broker is away (reads only)."""

        def answer() -> list[T]:
            try:
                return [question(self.admin)]
            except FarmUnreachable:
                return []

        return eventually(answer, "an answer of the broker")[0]

    def job(self, number: int) -> JobRow:
        """A job."""
        return self.ask(lambda farm: farm.job(number)).job

    def nodes(self) -> tuple[NodeRow, ...]:
        """The nodes."""
        return self.ask(lambda farm: farm.nodes()).nodes

    def node(self, name: str) -> NodeRow:
        """The node of that name."""
        return next(row for row in self.nodes() if row.name == name)

    def wait_beats(self, name: str, count: int = 3) -> None:
        """Waits until so many more heartbeats of a node have come: all but the last were answered."""
        seen = {self.node(name).seen_us}

        def beaten() -> bool:
            seen.add(self.node(name).seen_us)
            return len(seen) > count

        eventually(beaten, f"{count} heartbeats of {name}")

    def wait_job(
        self,
        number: int,
        condition: Callable[[JobRow], bool] | str = "done",
        patience_s: float = 2 * PATIENCE_S,
    ) -> JobRow:
        """Waits until a job shows a state (``"done"``), or a condition on its row holds."""
        last: list[JobRow] = []

        def there() -> JobRow | None:
            row = self.job(number)
            last[:] = [row]
            met = row.state == condition if isinstance(condition, str) else condition(row)
            return row if met else None

        found = eventually(there, lambda: f"J{number} {condition}; it is {last}", patience_s)
        assert found is not None
        return found

    def farm(
        self, *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 60.0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs the ``farm`` command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "farm", *arguments],
            env=dict(env or self.env),
            cwd=options.pop("cwd", self.folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            **options,
        )

    # -- the end --

    def __enter__(self) -> Self:
        try:
            self.start_broker()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            print(self.report())
        self.close()

    def report(self) -> str:
        """The ends of all logs."""
        return "\n".join(
            f"---- {path.name}\n{path.read_text('utf-8', 'replace')[-_TAIL:]}"
            for path in sorted(self.logs.glob("*.log"))
        )

    def close(self) -> None:
        """Ends everything and makes sure that nothing of the farm still runs."""
        wrong: list[str] = []
        for client in self._clients:
            client.close()
        self._clients.clear()
        self._admin = None
        for agent in self.agents.values():
            agent.thaw()
            agent.signal(signal.SIGTERM)
        for managed in (*self.agents.values(), self.broker):
            if managed is self.broker:
                # Last, so that it hears what the agents report.
                managed.thaw()
                managed.signal(signal.SIGTERM)
            try:
                managed.wait()
            except AssertionError as error:
                wrong.append(str(error))
        for proxy in self.proxies:
            proxy.close()
        self.proxies.clear()
        wrong += self.leftovers()
        for _, holder in self._ports:
            holder.close()
        self._ports = []
        assert not wrong, "\n".join(wrong)

    def running(self) -> dict[int, str]:
        """Living processes with this farm's tags: the house's own and what its agents started."""
        ids = {agent.agent_id for agent in self.agents.values()} - {""}
        table = proctree.snapshot()
        found = proctree.tagged(TAG, lambda value: value == self.tag, table)
        found |= proctree.tagged(proctree.AGENT_TAG, lambda value: value in ids, table)
        return {pid: command_line(pid) for pid in found - {os.getpid()}}

    def leftovers(self, patience_s: float = PATIENCE_S) -> list[str]:
        """What still runs though everything was ended; it is killed then."""
        deadline_s = time.monotonic() + patience_s
        while (left := self.running()) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [f"process {pid} was left running: {line}" for pid, line in left.items()]
