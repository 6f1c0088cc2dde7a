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


class _ForAgent(msgspec.Struct):
    """What a turn has for one agent.  Most turns bring one acknowledgement and one lease."""

    acks: tuple[int, ...] = ()
    leases: tuple[LeaseMsg, ...] = ()
    grants: tuple[GrantMsg, ...] = ()
    stops: tuple[StopMsg, ...] = ()
    discard: tuple[int, ...] = ()


class Outbound:
    """Gathers and sends.

    Args:
        template: Encoded template of a step, by step id.
    """

    def __init__(self, template: Callable[[int], msgspec.Raw]) -> None:
        self._template = template
        #: By node, in the order it came.
        self._waiting: dict[int, _ForAgent] = {}
        self._direct: list[tuple[bytes, object]] = []
        self._drains: list[DrainCommand | UpdateCommand] = []

    def ack(self, node_id: int, n: int) -> None:
        """Acknowledges an outbox entry of an agent."""
        waiting = self._waiting.get(node_id)
        if waiting is None:
            self._waiting[node_id] = _ForAgent((n,))
        else:
            waiting.acks += (n,)

    def reply(self, routing_id: bytes, message: object) -> None:
        """Sends a message to one connection."""
        self._direct.append((routing_id, message))

    def add(self, commands: list[AnyCommand]) -> None:
        """Takes the core's commands."""
        for command in commands:
            # By exact type: asking whether it is an instance of another kind costs more than the rest.
            if type(command) is LeaseCommand:
                lease = self._lease(command)
                waiting = self._waiting.get(command.node_id)
                if waiting is None:
                    self._waiting[command.node_id] = _ForAgent((), (lease,))
                else:
                    waiting.leases += (lease,)
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
        waiting = self._waiting.get(node_id)
        if waiting is None:
            waiting = self._waiting[node_id] = _ForAgent()
        return waiting

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
        for node_id, waiting in self._waiting.items():
            session = sessions.get(node_id)
            if session is None:
                continue
            n, leases = session.next_batch(), waiting.leases
            for lease in leases:
                session.leases[lease.attempt] = n
            batch = BatchMsg(n, waiting.acks, leases, waiting.grants, waiting.stops, waiting.discard)
            if not send(session.routing_id, encode(batch)):
                gone.append(node_id)
        self._waiting.clear()
        return gone

    def drop(self) -> None:
        """Forgets everything gathered: its rows did not become durable."""
        self._waiting.clear()
        self._direct.clear()
        self._drains.clear()
