"""A farm in real processes, and one fault after the other while it renders.

What belongs here: bringing each kind of fault, healing it, submitting the work in waves, and noticing what no
fault explains (a process that ended by itself, a farm that stands still).  What it may not know: dice
(``chaos_plan``) and what is true in the end (``chaos_judge``).
"""

from __future__ import annotations

import contextlib
import heapq
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from farm.model.errors import FarmUnreachable, OvercrankError
from farm.model.frames import FrameRange
from farm.protocol.client import JobRow
from farm.sdk.client import Farm
from node_agent import proctree
from tests.support.chaos_broker import WISH
from tests.support.chaos_plan import ON_AGENT, Fault
from tests.support.chaos_work import STEP, Task, Work
from tests.support.farmhouse import FAST, Farmhouse
from tests.support.managed import AgentProcess, command_line
from tests.support.postgres import PostgresServer
from tests.support.proxy import Proxy
from tests.support.renames import Renames
from tests.support.waiting import eventually

#: Patience with a farm that publishes nothing though nothing is broken.
STALL_S = 120.0
_POLL_S = 0.02
#: Between two looks at what a wrangler would see to.
_ROUND_S = 1.0


class Violation(Exception):
    """Something no fault explains; its text is the evidence."""


class ChaosHouse(Farmhouse):
    """A farm whose broker's commits can be made to go wrong, with an agent behind proxies each."""

    def __init__(self, folder: Path, server: PostgresServer | None, extra: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.wish = folder / "next-commit"
        self.server = server
        self._extra = {WISH: str(self.wish), **extra}
        flags: list[str] = ["--log-level", "info"]
        if server is not None:
            parts = urlsplit(server.make_database())
            self.server_database = parts.path.strip("/")
            self._extra["PGPASSWORD"] = server.password
            flags += [
                "--database",
                f"postgresql://{parts.username}@{parts.hostname}:{parts.port}{parts.path}",
            ]
        super().__init__(
            folder, name="chaos", broker_flags=flags, times=FAST, broker_module="tests.support.chaos_broker"
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
        self._client: Farm | None = None
        self._next_round_s = 0.0
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
                    self._bring(fault)
                    self.counts[fault.kind] += 1
            elif wave == len(waves) and not self._heals and not self._wished and self._all_done():
                return
            time.sleep(_POLL_S)

    def rows(self) -> dict[int, JobRow]:
        """Jobs by number."""
        found: dict[int, JobRow] = {}
        before = 0
        while True:
            reply = self._asked(lambda farm: farm.jobs(before=before))
            found |= {row.job: row for row in reply.jobs}
            if not reply.more:
                return found
            before = min(found)

    def _submit(self, wave: int) -> None:
        for task in self.work.waves[wave]:
            folder = Path(task.pattern).parent
            folder.mkdir(parents=True, exist_ok=True)
            self.renames.watch(folder)
            body = self.work.job_of(task)

            def ask(farm: Farm, body: bytes = body) -> int:
                return farm.submit(body, repeat=True).job

            self.tasks.append(task._replace(job=self._patiently(ask)))

    def _all_done(self) -> bool:
        self._round(force=False)
        try:
            rows = self.rows()
        except FarmUnreachable:
            return False
        return all(rows[task.job].state == "done" for task in self.tasks)

    # -- asking the broker --

    def _asked(self, question: Callable[[Farm], object]) -> object:  # type: ignore[empty-body]
        ...
