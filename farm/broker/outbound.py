"""What one turn of the loop has to say, gathered until its rows are durable.

One message per agent and turn, whatever it holds; replies and deltas to clients one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from farm.core.outcome import (
    AnyCommand,
    DiscardCommand,
    DrainCommand,
    GrantCommand,
    LeaseCommand,
    StopCommand,
    UpdateCommand,
)
from farm.protocol.agent import BatchMsg, DrainMsg, GrantMsg, LeaseMsg, StopMsg, UpdateMsg
from farm.protocol.codec import encode
from farm.protocol.session import BrokerSession

#: Sends (routing id, body); False when the peer is gone.
Send = Callable[[bytes, bytes], bool]


class _ForAgent:
    """What a turn has for one agent; kept for the next turn, since the same agents come again and again.

    Most turns bring acknowledgements and leases alone.
    """

    __slots__ = ("acks", "discard", "grants", "leases", "node_id", "stops", "waits")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.waits = False
        self.acks: list[int] = []
        self.leases: list[LeaseMsg] = []
        self.grants: tuple[GrantMsg, ...] = ()
        self.stops: tuple[StopMsg, ...] = ()
        self.discard: tuple[int, ...] = ()

    def take(self, n: int) -> BatchMsg:
        """The batch of that number; nothing waits afterwards."""
        acks, leases = self.acks, self.leases
        batch = BatchMsg(n, tuple(acks), tuple(leases), self.grants, self.stops, self.discard)
        self.clear()
        return batch

    def clear(self) -> None:
        """Forgets what waits."""
        self.waits = False
        self.acks.clear()
        self.leases.clear()
        self.grants = self.stops = self.discard = ()


class Outbound:
    """Gathers and sends.

    Args:
        template: Encoded template of a step, by step id.
    """

    def __init__(self, template: Callable[[int], msgspec.Raw]) -> None:
        self._template = template
        self._agents: dict[int, _ForAgent] = {}
        #: Those of them that something waits for, in the order it came.
        self._waiting: list[_ForAgent] = []
        self._direct: list[tuple[bytes, object]] = []
        self._drains: list[DrainCommand | UpdateCommand] = []

    def ack(self, node_id: int, n: int) -> None:
        """Acknowledges an outbox entry of an agent."""
        self._agent(node_id).acks.append(n)

    def reply(self, routing_id: bytes, message: object) -> None:
        """Sends a message to one connection."""
        self._direct.append((routing_id, message))

    def add(self, commands: list[AnyCommand]) -> None:
        """Takes the core's commands."""
        for command in commands:
            # By exact type: asking whether it is an instance of another kind costs more than the rest.
            if type(command) is LeaseCommand:
                self._agent(command.node_id).leases.append(self._lease(command))
            elif type(command) is DrainCommand or type(command) is UpdateCommand:
                self._drains.append(command)
            elif type(command) is StopCommand:
                stop = StopMsg(command.attempt, command.reason, command.units, command.take_back)
                self._agent(command.node_id).stops += (stop,)
            elif type(command) is GrantCommand:
                grant = GrantMsg(command.attempt, command.unit, command.reason, command.supersedes)
                self._agent(command.node_id).grants += (grant,)
            elif type(command) is DiscardCommand:
                self._agent(command.node_id).discard += (command.attempt,)

    def _agent(self, node_id: int) -> _ForAgent:
        agent = self._agents.get(node_id)
        if agent is None:
            agent = self._agents[node_id] = _ForAgent(node_id)
        if not agent.waits:
            agent.waits = True
            self._waiting.append(agent)
        return agent

    def _lease(self, command: LeaseCommand) -> LeaseMsg:
        step, units = command.step, command.units
        frames: tuple[int, ...] = ()
        if step.frames is not None:
            frame_at = step.frames.frame_at
            frames = (frame_at(units[0]),) if len(units) == 1 else tuple([frame_at(unit) for unit in units])
        return LeaseMsg(
            command.attempt,
            command.no,
            command.nonce,
            command.kind,
            units,
            frames,
            self._template(step.id),
            command.resources,
            command.gpus,
            command.specs,
            command.ask,
            command.supersedes,
            command.adopt_folder,
            command.silent_us / 1e6 if command.silent_us else 0.0,
        )

    def flush(self, sessions: dict[int, BrokerSession], send: Send) -> list[int]:
        """Sends everything gathered.

        Args:
            sessions: Session of each node that has one.
            send: Sends on the control socket.

        Returns:
            Nodes whose connection is gone.
        """
        gone: list[int] = []
        if self._direct:
            for routing_id, message in self._direct:
                send(routing_id, encode(message))
            self._direct.clear()
        for drain in self._drains:
            session = sessions.get(drain.node_id)
            if session is not None:
                told: object
                if isinstance(drain, DrainCommand):
                    told = DrainMsg(drain.on, drain.reason)
                else:
                    told = UpdateMsg(drain.rollout, drain.version)
                send(session.routing_id, encode(told))
        self._drains.clear()
        for agent in self._waiting:
            session = sessions.get(agent.node_id)
            if session is None:
                agent.clear()
                continue
            n = session.next_batch()
            for lease in agent.leases:
                session.leases[lease.attempt] = n
            if not send(session.routing_id, encode(agent.take(n))):
                gone.append(agent.node_id)
        self._waiting.clear()
        return gone

    def drop(self) -> None:
        """Forgets everything gathered: its rows did not become durable."""
        for agent in self._waiting:
            agent.clear()
        self._waiting.clear()
        self._direct.clear()
        self._drains.clear()
