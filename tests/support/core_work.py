"""Agents render, publish and report: in order, late, twice, or from the wrong one.

What belongs here: operations on units and reports (each takes a ``random.Random`` for its choices), and the
histories in which one agent is slower than the others.  What it may not know: what people want of jobs.
"""

from __future__ import annotations

import random

import msgspec

from farm.core.events import ByeEvent, ReportEvent, TickEvent
from farm.model.reports import UnitReport
from farm.model.states import AttemptKind
from tests.support.core_account import must
from tests.support.core_lines import Lines
from tests.support.sim_agent import ASKING, FAILURES, PUBLISHED, READY, TODO, Held, Report, SimAgent


class Work(Lines):
    """A farm whose agents work off what they were leased."""

    def work(self, rng: random.Random) -> None:
        """A unit on some agent goes on by one stage or several."""
        agent = rng.choice(self.agents)
        for held in list(agent.held.values()):
            for unit in held.units:
                if rng.random() < 0.7:
                    self._work(agent, held, unit, rng)
            if rng.random() < 0.6:
                agent.report(held, split=rng.random() < 0.3)

    def _work(self, agent: SimAgent, held: Held, unit: int, rng: random.Random) -> None:
        state = held.units[unit]
        unwanted = held.stop or unit in held.dropped
        if state == TODO and not unwanted:
            outcome = "good"
            if not self.cooperative and rng.random() < agent.flaky:
                outcome = rng.choice(("odd", "odd", "renderer", "renderer", "oom-ram", "oom-vram", *FAILURES))
            agent.render(held, unit, outcome, rng, self.now_us)
            if held.units[unit] == ASKING:
                self._ask(agent, held.lease.attempt, unit)
        elif state == READY and not unwanted and agent.may_publish(held, self.now_us):
            self._publish(agent, held, unit)
        elif state == PUBLISHED:
            agent.settle_published(held, unit, rng)
        elif state == ASKING and agent.session and rng.random() < 0.2:
            self._ask(agent, held.lease.attempt, unit)

    def _publish(self, agent: SimAgent, held: Held, unit: int) -> None:
        step = held.lease.step
        key = (step.id, unit)
        number = held.lease.attempt
        if not agent.publish(held, unit):
            return
        self.truth.may_publish(number, unit)
        for other in self.truth.leases.values():
            if other.row.id > number and other.row.step_id == step.id and unit in other.units:
                done = other.row.id in self.truth.published.get(key, ())
                verify = other.row.kind == AttemptKind.VERIFY
                must(verify or not done, f"{step.address} {unit}: @{held.lease.no} overwrote a newer file")
        self.truth.published.setdefault(key, []).append(number)
        self.truth.seen["published"] += 1

    def send_reports(self, rng: random.Random) -> None:
        """An agent's outbox goes out: all, some, or in another order; acknowledged or not."""
        self._send_reports(rng.choice(self.agents), rng)

    def _send_reports(self, agent: SimAgent, rng: random.Random) -> None:
        if not agent.session or agent.muted:
            return
        order = list(agent.outbox)
        if rng.random() < 0.1:
            rng.shuffle(order)
        for report in order[: rng.randrange(len(order) + 1)] if rng.random() < 0.3 else order:
            event = self._report_event(agent, report)
            self.handle(event)
            self.delivered.append(event)
            if rng.random() < 0.9:
                agent.outbox.remove(report)

    def _report_event(self, agent: SimAgent, report: Report) -> ReportEvent:
        return ReportEvent(
            self.now_us,
            agent.node_id,
            report.attempt,
            report.nonce,
            report.units,
            report.closed,
            report.kept,
        )

    def echo(self, rng: random.Random) -> None:
        """An old report comes again, or a forged one: another nonce, another node, another attempt."""
        if not self.delivered:
            return
        event = msgspec.structs.replace(rng.choice(self.delivered), now_us=self.now_us)
        live = [lease for lease in self.truth.leases.values() if not lease.over]
        kind = rng.randrange(4)
        if kind == 1:
            number = rng.choice((0, 1 << 40, (1 << 64) - 1, self.core.farm.next_attempt))
            event = msgspec.structs.replace(event, attempt=number)
        elif kind > 1 and live:
            row, units = rng.choice(live).row, rng.choice(live).units
            node, nonce = (row.node_id, row.nonce ^ 1) if kind == 2 else (row.node_id % 5 + 1, row.nonce)
            reports = tuple(UnitReport(unit, rng.choice((1, 2, 3)), "renderer") for unit in units)
            event = ReportEvent(self.now_us, node, row.id, nonce, reports, closed=True, kept=units)
        self.handle(event)

    def stall(self, rng: random.Random) -> None:
        """An agent with verified files is cut off until it is lost, comes back and offers them."""
        busy = [
            a
            for a in self.agents
            if a.session and any({READY, ASKING} & {*h.units.values()} for h in a.held.values())
        ]
        if not busy:
            return
        agent = rng.choice(busy)
        self.wires[agent.key].clear()
        for _ in range(8):
            self.now_us += 10_000_000
            for other in self.agents:
                if other is not agent and other.session and not other.muted:
                    self._beat(other)
            self.handle(TickEvent(self.now_us))
        self._hello(agent)
        for held in list(agent.held.values()):
            agent.report(held, split=False)
        self._send_reports(agent, rng)

    def linger(self, rng: random.Random) -> None:
        """One agent takes very long over what it holds while the others finish all they can."""
        busy = [
            a for a in self.agents if a.session and any(TODO in h.units.values() for h in a.held.values())
        ]
        if not busy:
            return
        slow = rng.choice(busy)
        for _ in range(rng.choice((4, 8))):
            self.now_us += 10_000_000
            for agent in self.agents:
                if not agent.session or agent.muted:
                    continue
                self._deliver(agent)
                self._beat(agent)
                if agent is slow:
                    continue
                for held in list(agent.held.values()):
                    for _ in range(3):
                        for unit in held.units:
                            self._work(agent, held, unit, rng)
                    agent.report(held, split=False)
                self._send_reports(agent, rng)
            self.handle(TickEvent(self.now_us))
            self.dispatch(rng)
        self.truth.seen["lingered"] += 1

    def bye(self, rng: random.Random) -> None:
        """An agent leaves in order: it stops everything, reports, says goodbye."""
        agent = rng.choice(self.agents)
        if not agent.session:
            return
        for held in list(agent.held.values()):
            for unit, state in held.units.items():
                if state == PUBLISHED:
                    agent.settle_published(held, unit, rng)
            held.stop = True
            agent.report(held, split=False)
        self.handle(ByeEvent(self.now_us, agent.node_id, "it was told to end"))
        agent.session = 0
        self.sessions.pop(agent.key, None)
