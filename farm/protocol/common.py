"""Messages both kinds of peers use on the control socket: hello, welcome, refusal."""

from __future__ import annotations

import msgspec

from farm.protocol.agent import AgentHello, AgentWelcome


class HelloMsg(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """First message of a session.

    Attributes:
        oldest: Oldest protocol version the peer speaks.
        newest: Newest protocol version the peer speaks.
        software: Its Overcrank version.
        agent: Present when the peer is an agent.
    """

    oldest: int
    newest: int
    software: str = ""
    agent: AgentHello | None = None


class WelcomeMsg(msgspec.Struct, frozen=True, kw_only=True, tag="welcome"):
    """The session is open.

    Attributes:
        version: Negotiated protocol version.
        session: Random number of the session.
        farm_name: Name people see.
        software: The broker's Overcrank version.
        role: Role of the peer's key.
        user: User of the peer's key.
        bulk_port: Port of the bulk socket, on the same host.
        agent: Present when the peer is an agent.
    """

    version: int
    session: int
    farm_name: str
    software: str
    role: str
    user: str
    bulk_port: int = 0
    agent: AgentWelcome | None = None


class RefusedMsg(msgspec.Struct, frozen=True, tag="refused"):
    """The session is not opened, or a message was refused: error code, reason and cure."""

    code: str
    reason: str
    hint: str = ""


class RehelloMsg(msgspec.Struct, frozen=True, tag="rehello"):
    """The broker does not know this connection (it restarted, or the line was cut): say hello again."""
