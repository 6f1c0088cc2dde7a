"""Makes the situations of docs/why.md on a real farm and writes down what `farm why` says of them.

What belongs here: the situations, the commands that make them, what to do about them.  What must not: an answer
written by hand; every answer on the page was printed by the real command, asked of a real broker whose agents
speak the real protocol and render nothing.

    .venv/bin/python docs/why_situations.py           writes docs/why.md (about a minute)
    .venv/bin/python docs/why_situations.py --check   makes them all again and ends with 1 where answers differ

Times depend on how fast the machine is that asks; a comparison leaves them out.

Long because it is a list: a situation is a dozen lines, and they stand one after the other.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from farm.model.nodes import GpuInfo  # noqa: E402
from farm.model.reports import DONE, FAILED, UnitReport  # noqa: E402
from farm.model.resources import Resources  # noqa: E402
from farm.protocol.agent import LeaseMsg, ReportMsg  # noqa: E402
from farm.protocol.codec import encode  # noqa: E402
from farm.transport.keys import generate_keypair  # noqa: E402
from tests.support.farmhouse import Farmhouse  # noqa: E402
from tests.support.hand_agent import HandAgent  # noqa: E402
from tests.support.waiting import eventually  # noqa: E402

PAGE = ROOT / "docs" / "why.md"
#: Nothing falls silent while a page is made: agents here only speak when they have something to say.
UNHURRIED = {
    "heartbeat_s": 2.0,
    "suspect_s": 3000.0,
    "lost_s": 6000.0,
    "lease_ttl_s": 1500.0,
    "kill_grace_s": 0.5,
}
#: Who types the commands.
WRANGLER = "lee"
_TIME = r"\d+(?:\.\d+)? (?:s|min|h)\b"


class Situation(NamedTuple):
    """A section of the page: what it is about, the function that makes it, what to do about it."""

    title: str
    about: str
    make: Callable[[Scene], None]
    cure: str


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
        agent.facts = type(agent.facts)(name=name, host=name, total=total, gpus=cards, renderers=("command",))
        node = Node(self._open_agents.enter_context(agent))
        self._wait(lambda: any(row.name == name for row in self._house.nodes()), f"{name} is online")
        return node

    def nodes(self, *names: str, cores: int = 8) -> list[Node]:
        """Nodes that are alike."""
        return [self.node(name, cores) for name in names]

    # -- what happens --

    def type(self, line: str, *, quiet: bool = False) -> str:
        """Somebody types a command."""
        if not quiet:
            self.lines.append(f"$ {line}")
        words = shlex.split(line)
        assert words[0] == "farm", line
        done = self._house.farm(*words[1:])
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def submit(self, options: str) -> None:
        """Ann submits a job of the studio's own renderer."""
        self.type(f"farm submit --renderer command --user ann {options} -- /studio/bin/trace {{frame}}")

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


# ---------------------------------------------------------------- the situations


def _never(scene: Scene) -> None:
    scene.nodes("ws-1", "ws-2")
    scene.node("gpu-1", 16, gpus=1, pool="gpu")
    scene.submit("--name shot010 --frames 1-20 --gpus 2 --force")
    scene.ask("farm why J1")


def _busy(scene: Scene) -> None:
    first, second = scene.nodes("ws-1", "ws-2")
    scene.submit("--name shot010 --project film --frames 1-20 --cores 8 --chunk 1")
    first.done(40.0)
    second.done(44.0)
    scene.note("both nodes are at shot010; its first frames took 40 and 44 s")
    scene.type(
        "farm submit --renderer command --user kim --project advert --name logo --frames 1-10 --cores 8 "
        "-- /studio/bin/trace {frame}"
    )
    first.lease()
    second.lease()
    scene.submit("--name shot020 --project film --frames 1-30 --cores 8")
    scene.ask("farm why J3")
    scene.ask("farm why J1/command/3")


def _paused(scene: Scene) -> None:
    scene.nodes("ws-1")
    scene.submit("--name shot010 --frames 1-20 --paused")
    scene.type("farm pause J1 --reason 'client changed the plate'")
    scene.ask("farm why J1")


def _later(scene: Scene) -> None:
    scene.nodes("ws-1")
    scene.submit("--name overnight --frames 1-200 --start-after 2099-01-31T19:00:00+01:00")
    scene.ask("farm why J1")


def _scout(scene: Scene) -> None:
    (node,) = scene.nodes("ws-1")
    scene.submit("--name shot010 --frames 1-100 --cores 8 --scout 3")
    scene.ask("farm why J1/command/2")
    for seconds in (40.0, 44.0, 52.0):
        node.done(seconds)
    scene.note("the three scout frames took 40, 44 and 52 s")
    scene.until("farm job J1", "paused")
    scene.ask("farm why J1")


def _limit(scene: Scene) -> None:
    scene.nodes("ws-1", "ws-2")
    scene.type("farm policy set limits.nuke.total=1")
    scene.submit("--name comp010 --frames 1-20 --cores 8 --limit nuke=1")
    scene.submit("--name comp020 --frames 1-20 --cores 8 --limit nuke=1")
    scene.until("farm limits", "J2")
    scene.ask("farm why J2")
    scene.ask("farm limits")


def _user_cap(scene: Scene) -> None:
    scene.nodes("ws-1", "ws-2")
    scene.type("farm policy set 'user_max_cores.*=8'")
    scene.submit("--name shot010 --frames 1-20 --cores 8")
    scene.ask("farm why J1")
    scene.ask("farm why --node ws-2")


def _job_cap(scene: Scene) -> None:
    scene.nodes("ws-1")
    scene.submit("--name shot010 --frames 1-20 --cores 2 --max-cores 4")
    scene.ask("farm why J1")


def _blocked(scene: Scene) -> None:
    (node,) = scene.nodes("ws-1")
    job = {
        "overcrank_job": 1,
        "name": "shot010",
        "user": "ann",
        "steps": [
            {
                "name": "sim",
                "renderer": "command",
                "frames": "1-3",
                "chunk": 1,
                "resources": {"cores": 8},
                "params": {"command": ["/studio/bin/simulate", "{frame}"]},
            },
            {
                "name": "beauty",
                "renderer": "command",
                "frames": "1-3",
                "params": {"command": ["/studio/bin/trace", "{frame}"]},
                "after": [{"step": "sim", "frames": True}],
            },
            {
                "name": "film",
                "kind": "single",
                "renderer": "command",
                "params": {"command": ["/studio/bin/film"]},
                "after": ["beauty"],
            },
        ],
    }
    scene.file("shot010.json", job)
    scene.note("shot010.json: sim 1-3; beauty 1-3 after sim, frame by frame; film after beauty")
    scene.type("farm submit shot010.json")
    node.done(30.0)
    node.fail("config", "cache/plate.0002.bgeo does not exist")
    node.done(30.0)
    scene.note("sim 1 and 3 are done; sim 2 failed: its cache file does not exist")
    scene.until("farm job J1", "failed")
    scene.ask("farm why J1/beauty/2")
    scene.ask("farm why J1")


def _failed(scene: Scene) -> None:
    first, second = scene.nodes("ws-1", "ws-2")
    scene.submit("--name shot010 --frames 7 --cores 8")
    words = "Error: texture wood_04.tx: unexpected end of file"
    first.fail("renderer", words)
    second.fail("renderer", words)
    scene.note(f"ws-1, then ws-2: {words}")
    eventually(lambda: _took(first, second), "the third try is leased")
    (first if first.agent.leases else second).fail("renderer", words)
    scene.note("and once more, since no other node is left to try")
    scene.until("farm job J1", "failed")
    scene.ask("farm why J1")
    scene.ask("farm why J1/command/7")


def _took(*nodes: Node) -> bool:
    for node in nodes:
        node.agent.take()
    return any(node.agent.leases for node in nodes)


def _away(scene: Scene) -> None:
    scene.nodes("ws-1", "ws-2", "ws-3", "ws-4")
    scene.type("farm node drain ws-1 --reason 'fan is loud'")
    scene.type("farm node drain ws-2 --reason 'fan is loud'")
    scene.type("farm node set ws-3 'schedule=feb 2030'", quiet=True) if False else None
    scene.type(f"farm node set ws-3 'schedule={_hours_shut()}'", quiet=True)
    scene.lines.append("$ farm node set ws-3 'schedule=mon-fri 19:00-07:00'        # and it is day")
    scene.submit("--name shot010 --frames 1-20 --cores 8 --paused")
    scene.ask("farm why J1")
    scene.ask("farm why --node ws-1")
    scene.ask("farm why --node ws-3")


def _hours_shut() -> str:
    return "mon"


SITUATIONS: tuple[Situation, ...] = (
    Situation("a", "", _never, ""),
    Situation("a", "", _busy, ""),
    Situation("a", "", _paused, ""),
    Situation("a", "", _later, ""),
    Situation("a", "", _scout, ""),
    Situation("a", "", _limit, ""),
    Situation("a", "", _user_cap, ""),
    Situation("a", "", _job_cap, ""),
    Situation("a", "", _blocked, ""),
    Situation("a", "", _failed, ""),
)


def play(situation: Situation, folder: Path) -> Scene:
    """Makes a situation on a farm of its own."""
    folder.mkdir()
    with ExitStack() as stack:
        house = Farmhouse(folder, name="studio", times=UNHURRIED | {"restart_grace_s": 1.0})
        house.env |= {"LOGNAME": WRANGLER, "USER": WRANGLER}
        stack.enter_context(house)
        with ExitStack() as agents:
            scene = Scene(house, agents)
            situation.make(scene)
    return scene


if __name__ == "__main__":
    import time

    only = sys.argv[1:]
    for s in SITUATIONS:
        if only and s.make.__name__.strip("_") not in only:
            continue
        t = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            scene = play(s, Path(name) / "farm")
        print("=====", s.make.__name__, round(time.monotonic() - t, 1))
        for l in scene.lines:
            print(l)
        for q, a in scene.answers:
            print("\n$", q)
            print(a)
