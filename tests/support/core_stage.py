"""A core on a stage: its store, the agents and the lines to them, and a judge who sees every event.

What belongs here: handling an event and what must hold after each, the broker's own doings (it places work,
writes checkpoints, restarts from what was stored), the replay of everything.  What it may not know: what
agents and people do; that is for ``core_lines``, ``core_work`` and ``core_people``.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from farm.core import invariants
from farm.core.checkpoint import restore
from farm.core.core import Core
from farm.core.events import (
    ActEvent,
    CheckpointEvent,
    DeleteEvent,
    DispatchEvent,
    NodeActEvent,
    PolicyEvent,
    ReportEvent,
    RestartEvent,
    SubmitEvent,
)
from farm.core.outcome import LeaseCommand, Outcome
from farm.core.state import Farm, Settings
from farm.model.errors import CallError
from farm.model.policy import Policy, TailRule
from farm.model.states import NodeState
from farm.protocol.session import BrokerSession
from farm.storage.memory import MemoryStore
from tests.support.core_account import must
from tests.support.core_truth import Truth
from tests.support.core_world import fleet
from tests.support.sim_agent import Disk, SimAgent

GRACE_US = 60_000_000
#: A restart of the broker in the list of events, so that the list can be replayed.
RESTART = "restart"


def load(store: MemoryStore, settings: Settings) -> Farm:
    """The farm as the store remembers it."""
    stored = store.load()
    return restore(settings, stored, store.replay(stored.after))


class Stage:
    """A farm under test, with nobody on it who does anything.

    Attributes:
        core, store: What is driven; a broker's restart replaces the core by one restored from the store.
        truth: The judge.
        events: Everything handled so far, restarts included.
        last: The latest operations in words, for the report of a failure.
        broken: A promise was broken; nothing after that means anything.
    """

    def __init__(
        self, rng: random.Random, *, agents: int = 5, keep_events: bool = True, check_every: int = 1
    ) -> None:
        # Jobs leave memory after minutes of the farm's own time, so that a short history has some that do.
        self.settings = Settings(archive_after_us=rng.choice((0, 20_000_000, 60_000_000)))
        self.store = MemoryStore()
        self.core = Core(self.settings)
        self.truth = Truth()
        self.disk = Disk()
        self.now_us = 1_700_000_000_000_000
        self.agents = [
            SimAgent(key, facts, self.disk, pool=pool, site=site) for key, facts, pool, site in fleet()
        ]
        del self.agents[agents:]
        for agent in self.agents:
            agent.flaky = rng.choice((0.05, 0.2, 0.2, 0.8))
        self.sessions: dict[str, BrokerSession] = {}
        self.wires: dict[str, deque[tuple[int, int, list[Any]]]] = {
            agent.key: deque() for agent in self.agents
        }
        self.events: list[Any] = []
        self.keep_events = keep_events
        self.handled = 0
        self.delivered: deque[ReportEvent] = deque(maxlen=50)
        self.last: deque[Any] = deque(maxlen=40)
        #: The core's own invariants are checked after every so many events; the judge looks at every one.
        self.check_every = check_every
        self.cooperative = False
        self.broken = False
        self.tokens: dict[tuple[str, str], int] = {}
        self.last_job = 0
        self._sessions_made = 0
        if rng.random() < 0.7:
            # Second copies and split chunks come early, so that a short history has many.
            eager = Policy(tail=TailRule(straggler=1.1, least_s=2.0))
            self.handle(PolicyEvent(self.now_us, eager, "", "wim"))

    # -- the core --

    def handle(self, event: Any) -> Outcome | None:
        """Handles one event and judges what came of it; None when it was refused."""
        self.handled += 1
        if self.keep_events:
            self.events.append(event)
        self.last.append(event)
        asks = isinstance(event, SubmitEvent | ActEvent | NodeActEvent | DeleteEvent)
        thorough = self.handled % self.check_every == 0
        before = invariants.digest(self.core.farm) if asks and thorough else ""
        self.broken = True
        try:
            out = self.core.handle(event)
        except CallError as error:
            must(asks, f"{event!r} was refused: {error}")
            same = not thorough or invariants.digest(self.core.farm) == before
            must(same, f"a refused call changed something: {error}")
            self.truth.seen["refused"] += 1
            self.broken = False
            return None
        self.store.commit(out.rows)
        farm = self.core.farm
        if thorough:
            invariants.check(farm)
            invariants.check_money(farm)
        self.truth.judge(event, out, farm)
        self.broken = False
        self._send(out)
        return out

    def _send(self, out: Outcome) -> None:
        by_node: dict[int, list[Any]] = {}
        for command in out.commands:
            by_node.setdefault(command.node_id, []).append(command)
        for agent in self.agents:
            commands = by_node.get(agent.node_id) if agent.node_id else None
            session = self.sessions.get(agent.key)
            if not commands or session is None:
                continue
            n = session.next_batch()
            for command in commands:
                if isinstance(command, LeaseCommand):
                    session.leases[command.attempt] = n
            self.wires[agent.key].append((session.session, n, commands))

    def restored(self) -> Farm:
        """The farm as a restart would make it now, which must be the one that wrote the rows."""
        farm = load(self.store, self.settings)
        must(
            invariants.digest(farm) == invariants.digest(self.core.farm),
            "a restart would not give the same farm",
        )
        return farm

    def replay(self) -> str:
        """Handles the same events with a new core; returns the digest, which must be the same."""
        store, core = MemoryStore(), Core(self.settings)
        for event in self.events:
            if event == RESTART:
                core = Core(farm=load(store, self.settings))
                continue
            try:
                out = core.handle(event)
            except CallError:
                continue
            store.commit(out.rows)
        must(store.disk.tables == self.store.disk.tables, "the same events gave other rows")
        return invariants.digest(core.farm)

    def online(self) -> int:
        """Nodes that are online."""
        return sum(node.state is NodeState.ONLINE for node in self.core.farm.nodes.values())

    # -- the broker's operations --

    def dispatch(self, rng: random.Random) -> None:
        """Work is placed."""
        self.handle(DispatchEvent(self.now_us, rng.getrandbits(63)))

    def checkpoint(self, rng: random.Random) -> None:
        """Maps and meters are written."""
        self.handle(CheckpointEvent(self.now_us))
        if rng.random() < 0.5:
            self.restored()

    def restart(self, rng: random.Random) -> None:
        """The broker restarts."""
        self.restart_broker(rng)

    def restart_broker(self, rng: random.Random) -> None:
        """The broker ends (perhaps after a checkpoint) and comes back from what it stored."""
        if rng.random() < 0.3:
            self.handle(CheckpointEvent(self.now_us))
        farm = self.restored()
        self.store.close()
        self.store = MemoryStore(self.store.disk)
        self.core = Core(farm=farm)
        if self.keep_events:
            self.events.append(RESTART)
        self.last.append(RESTART)
        self.sessions.clear()
        for agent in self.agents:
            agent.session = 0
            self.wires[agent.key].clear()
        self.now_us += rng.choice((0, 1_000_000, 100_000_000))
        self.truth.restarted(self.now_us, GRACE_US)
        self.handle(RestartEvent(self.now_us, GRACE_US))
        self.truth.seen["restarts"] += 1
