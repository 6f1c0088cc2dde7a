"""Agents come, go and fall silent, and messages are late, lost or cut off.

What belongs here: operations on the lines between agents and broker (each takes a ``random.Random`` for its
choices), and the passing of time that heartbeats fill.  What it may not know: how units are rendered.
"""

from __future__ import annotations

import random

from farm.core.events import BeatEvent, HelloEvent, TickEvent, VerifiedEvent
from farm.core.outcome import DiscardCommand, GrantCommand, LeaseCommand, StopCommand
from farm.protocol.session import BrokerSession, never_arrived
from tests.support.core_stage import Stage
from tests.support.sim_agent import ASKING, SimAgent

RATES = (0, 1, 500_000_000, 3_333_333_333)


class Lines(Stage):
    """A farm whose agents connect, listen and say that they live."""

    def advance(self, rng: random.Random) -> None:
        """Time passes; who is connected mostly sends a heartbeat."""
        self.now_us += rng.choice((10_000, 1_000_000, 4_000_000, 14_000_000, 20_000_000))
        for agent in self.agents:
            if agent.session and not agent.muted and rng.random() < 0.95:
                self._beat(agent)
        self.handle(TickEvent(self.now_us))

    def hello(self, rng: random.Random) -> None:
        """An agent connects (again)."""
        agent = rng.choice(self.agents)
        rate = rng.choice(RATES) if rng.random() < 0.2 or not agent.node_id else None
        self._hello(agent, rate)

    def _hello(self, agent: SimAgent, rate: int | None = None) -> None:
        self.wires[agent.key].clear()
        node = self.core.farm.nodes.get(agent.node_id)
        if rate is None:
            rate = node.rate_nano_h if node is not None else RATES[2]
        running, pending = tuple(agent.held), tuple({report.attempt: None for report in agent.outbox})
        event = HelloEvent(
            self.now_us, agent.key, agent.facts, agent.pool, agent.site, rate, running, pending
        )
        out = self.handle(event)
        assert out is not None
        agent.node_id = out.reply.node_id
        self._sessions_made += 1
        agent.session = self._sessions_made
        self.sessions[agent.key] = BrokerSession(
            b"", agent.key, 1, agent.session, "agent", "", agent.node_id, leases={}
        )
        # What the hello's outcome had to say was sent before the session existed here: send it now.
        self._send(out)
        agent.got = 0
        for attempt in [number for number in agent.held if number not in out.reply.keep]:
            agent.lose(attempt)
        for attempt, held in list(agent.held.items()):
            for unit, state in held.units.items():
                if state == ASKING:
                    self._ask(agent, attempt, unit)

    def _ask(self, agent: SimAgent, attempt: int, unit: int) -> None:
        if not agent.session:
            return
        held = agent.held[attempt]
        picture = self.disk.folders.get(held.folder, {}).get(unit)
        if picture is not None:
            specs = tuple(
                None if output.kind == "movie" else picture for output in held.lease.step.spec.outputs
            )
            self.handle(VerifiedEvent(self.now_us, agent.node_id, attempt, held.lease.nonce, unit, specs))
            self.truth.seen["asked"] += 1

    def beat(self, rng: random.Random) -> None:
        """One heartbeat."""
        agent = rng.choice(self.agents)
        if agent.session and not agent.muted:
            self._beat(agent)

    def _beat(self, agent: SimAgent) -> None:
        session = self.sessions[agent.key]
        # A closing report in the outbox goes out before a heartbeat that no longer names its attempt.
        listed = (*agent.held, *{report.attempt for report in agent.outbox} - set(agent.held))
        missing = never_arrived(session, listed, agent.got)
        out = self.handle(BeatEvent(self.now_us, agent.node_id, missing))
        assert out is not None
        if out.reply is None:
            self._hello(agent)
        else:
            agent.answered(self.now_us, listed, out.reply)

    def silence(self, rng: random.Random) -> None:
        """An agent stalls, or one that did comes back to itself."""
        agent = rng.choice(self.agents)
        agent.muted = not agent.muted and rng.random() < 0.4

    def deliver(self, rng: random.Random) -> None:
        """An agent reads what the broker sent."""
        self._deliver(rng.choice(self.agents))

    def _deliver(self, agent: SimAgent) -> None:
        wire = self.wires[agent.key]
        while wire:
            session, n, commands = wire.popleft()
            if session != agent.session:
                continue
            agent.got = n
            for command in commands:
                if isinstance(command, LeaseCommand):
                    agent.take(command)
                elif isinstance(command, GrantCommand):
                    agent.grant(command.attempt, command.unit, command.reason, command.supersedes)
                elif isinstance(command, StopCommand):
                    agent.stop(command.attempt, command.units, take_back=command.take_back)
                    self.truth.seen["asked-back"] += command.take_back
                elif isinstance(command, DiscardCommand):
                    self.truth.seen["discards"] += 1
                    agent.discard(command.attempt)

    def cut(self, rng: random.Random) -> None:
        """A line is cut: what was in flight to the agent is lost; perhaps it comes back at once."""
        agent = rng.choice(self.agents)
        agent.session = 0
        self.wires[agent.key].clear()
        self.sessions.pop(agent.key, None)
        if rng.random() < 0.6:
            self._hello(agent)

    def crash(self, rng: random.Random) -> None:
        """An agent's process dies and starts again."""
        agent = rng.choice(self.agents)
        agent.crash()
        self.sessions.pop(agent.key, None)
        self.wires[agent.key].clear()
        if rng.random() < 0.8:
            self._hello(agent)
