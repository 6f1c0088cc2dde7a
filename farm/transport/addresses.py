"""Where a broker listens: host and port, written the one way people and sockets both read.

What belongs here: parsing and printing ``host:port``, the default ports and the names of the three
sockets.  What it may not know: ZeroMQ, and what is said on a connection.
"""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum

import msgspec

from farm.model.errors import CallError

CONTROL_PORT = 7460
JOIN_PORT = 7461
BULK_PORT = 7462


class Domain(StrEnum):
    """The three sockets of a broker; also the ZAP domain each of them enforces."""

    CONTROL = "control"
    JOIN = "join"
    BULK = "bulk"


_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?\Z"
)
_WILDCARDS = frozenset({"*", "0.0.0.0", "::"})


class HostPort(msgspec.Struct, frozen=True):
    """A host and a TCP port.

    Attributes:
        host: Host name, IPv4 or IPv6 text without brackets; ``*`` when listening everywhere.
        port: TCP port; 0 asks for a free one when listening.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> str:
        """The address as ZeroMQ writes it."""
        return f"tcp://{self}"

    @property
    def is_ipv6(self) -> bool:
        """True for IPv6 text (not for a name that may resolve to one)."""
        return ":" in self.host

    @property
    def is_name(self) -> bool:
        """True when the host has to be looked up."""
        if self.host in _WILDCARDS:
            return False
        try:
            ipaddress.ip_address(self.host.partition("%")[0])
        except ValueError:
            return True
        return False

    @property
    def is_wildcard(self) -> bool:
        """True for an address one can listen on but nobody can dial."""
        return self.host in _WILDCARDS

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> HostPort:
        """Parses ``host:port``, ``[v6]:port`` or, with a default port, a bare host.

        Raises:
            CallError: Not such an address; says which part is wrong.
        """
        text = text.strip().removeprefix("tcp://")
        if text.startswith("["):
            host, bracket, rest = text[1:].partition("]")
            if not bracket or (rest and not rest.startswith(":")):
                raise CallError(f"{text!r} is no address", hint="write an IPv6 address as [::1]:7460")
            port_text = rest[1:] if rest else None
        elif text.count(":") > 1:
            host, port_text = text, None
        else:
            host, colon, after = text.partition(":")
            port_text = after if colon else None
        if port_text is None:
            if default_port is None:
                raise CallError(f"{text!r} names no port", hint=f"write {text or 'host'}:{CONTROL_PORT}")
            port = default_port
        else:
            if not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > 65535:
                raise CallError(f"{port_text!r} in {text!r} is no TCP port", hint="a port is 1 to 65535")
            port = int(port_text)
        if ":" in host:
            try:
                ipaddress.IPv6Address(host.partition("%")[0])
            except ValueError:
                raise CallError(f"{host!r} is no IPv6 address") from None
        elif host != "*" and not _NAME.match(host):
            raise CallError(f"{host!r} in {text!r} is no host name or IP address")
        return cls(host, port)


def as_host_port(address: HostPort | str, default_port: int | None = None) -> HostPort:
    """Accepts an address in either form."""
    return address if isinstance(address, HostPort) else HostPort.parse(address, default_port)
