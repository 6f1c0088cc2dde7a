"""A situation on a farm, made with the real commands: what was typed, what happened, what the farm says.

What belongs here: a broker of its own, agents that report what the situation wants, commands run and written
down.  What it may not know: which situations there are (``docs/why_situations.py``).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from farm.model.nodes import GpuInfo, NodeFacts
from farm.model.reports import DONE, FAILED, UnitReport
from farm.model.resources import Resources
from farm.protocol.agent import ByeMsg, LeaseMsg, ReportMsg
from farm.protocol.codec import encode
from farm.transport.keys import generate_keypair
from tests.support.farmhouse import Farmhouse
from tests.support.hand_agent import HandAgent
from tests.support.waiting import eventually

#: Nothing falls silent while a page is made: agents here only speak when they have something to say.
UNHURRIED = {
    "heartbeat_s": 2.0,
    "suspect_s": 3000.0,
    "lost_s": 6000.0,
    "lease_ttl_s": 1500.0,
    "kill_grace_s": 0.5,
}


class Node:
    """A simulated agent: takes leases, and reports what the situation wants."""

    def __init__(self, agent: HandAgent) -> None:
        self.agent = agent
        self.name = agent.facts.name
        self._reports = 0

    def lease(self) -> LeaseMsg:
        """The next lease it got."""
        self.agent.until(lambda: self.agent.leases, f"a lease for {self.name}")
        return next(iter(self.agent.leases.values()))

    def done(self, seconds: float) -> None:
        """The chunk it has is rendered, each frame in so many seconds."""
        lease = self.lease()
        self._report(lease, tuple(UnitReport(unit, DONE, "", "", int(seconds * 1e6)) for unit in lease.units))

    def fail(self, failure: str, reason: str) -> None:
        """The chunk it has fails."""
        lease = self.lease()
        self._report(
            lease, tuple(UnitReport(unit, FAILED, failure, reason, 1_000_000) for unit in lease.units)
        )

    def leave(self) -> None:
        """Its agent is stopped."""
        self.agent.send_raw(encode(ByeMsg("stopped")))

    def _report(self, lease: LeaseMsg, units: tuple[UnitReport, ...]) -> None:
        self._reports += 1
        number = self._reports
        del self.agent.leases[lease.attempt]
        self.agent.send_raw(encode(ReportMsg(number, lease.attempt, lease.nonce, units, True)))
        self.agent.until(lambda: number in self.agent.acks, f"report {number} of {self.name} is acknowledged")


class Scene:
    """One situation on a farm of its own, and what the page says of it.

    Attributes:
        lines: How it was made: commands, and what agents did.
        answers: Commands asked, with what they printed.
    """

    def __init__(self, house: Farmhouse, open_agents: ExitStack) -> None:
        self._house = house
        self._open_agents = open_agents
        self._env = house.env
        self.lines: list[str] = []
        self.answers: list[tuple[str, str]] = []

    # -- what there is --

    def node(
        self,
        name: str,
        cores: int = 8,
        *,
        ram_gib: int = 32,
        gpus: int = 0,
        pool: str = "",
        site: str = "local",
    ) -> Node:
        """A node joins."""
        pair = generate_keypair()
        self._house.admin.keys("keys-add", role="agent", key=pair.public, label=name, pool=pool, site=site)
        agent = HandAgent(self._house.access(pair), name)
        cards = tuple(GpuInfo(i, f"{name}-{i}", "RTX A5000", 24_564) for i in range(gpus))
        total = Resources(cores=cores, ram_mib=ram_gib << 10, gpus=gpus, vram_mib=24_564 if gpus else 0)
        agent.facts = NodeFacts(name=name, host=name, total=total, gpus=cards, renderers=("command",))
        node = Node(self._open_agents.enter_context(agent))
        self._wait(lambda: any(row.name == name for row in self._house.nodes()), f"{name} is online")
        return node

    def nodes(self, *names: str, cores: int = 8) -> list[Node]:
        """Nodes that are alike."""
        return [self.node(name, cores) for name in names]

    # -- what happens --

    def log_in(self, role: str, user: str) -> None:
        """Commands are typed by this person from now on (else by the broker's own administrator)."""
        told = self.type(f"farm keys invite --role {role} --user {user} --json", quiet=True)
        home = self._house.folder / user
        self._env = self._house.home_env(home / "config", home / "state")
        self.type(f"farm join {json.loads(told)['token']}", quiet=True)

    def type(self, line: str, *, quiet: bool = False) -> str:
        """Somebody types a command."""
        if not quiet:
            self.lines.append(f"$ {line}")
        words = shlex.split(line)
        assert words[0] == "farm", line
        done = self._house.farm(*words[1:], env=self._env)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def submit(self, options: str, user: str = "ann") -> None:
        """Somebody submits a job of the studio's own renderer."""
        self.type(f"farm submit --renderer command --user {user} {options} -- /studio/bin/trace {{frame}}")

    def file(self, name: str, job: object) -> None:
        """Somebody writes a job file."""
        (self._house.folder / name).write_text(json.dumps(job), encoding="utf-8")

    def note(self, text: str) -> None:
        """Something happens that nobody types."""
        self.lines.append(f"# {text}")

    def until(self, line: str, words: str) -> None:
        """Waits until a command prints these words."""
        self._wait(lambda: words in self.type(line, quiet=True), f"{line} says {words!r}")

    @staticmethod
    def _wait(condition: Callable[[], bool], what: str) -> None:
        eventually(condition, what)

    # -- what is asked --

    def ask(self, line: str) -> None:
        """The answer goes onto the page."""
        self.answers.append((line, self.type(line, quiet=True).rstrip()))


def play(make: Callable[[Scene], None], folder: Path) -> Scene:
    """Makes a situation on a farm of its own."""
    folder.mkdir()
    with ExitStack() as stack:
        house = Farmhouse(folder, name="studio", times=UNHURRIED)
        stack.enter_context(house)
        with ExitStack() as agents:
            scene = Scene(house, agents)
            make(scene)
    return scene
