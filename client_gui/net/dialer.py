"""Where a farm is and how to get there, step by step and without ever waiting long.

What belongs here: access and keys (``farm.sdk.connect``), host names, opening links.  What may not: sessions.

Looking up a host name may take half a minute and cannot be called off: a thread of its own does it, which
nobody has to wait for when the window closes.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Protocol

from farm.model.errors import FarmUnreachable
from farm.sdk.connect import Access, find_access, why_unreachable
from farm.transport.addresses import HostPort, as_host_port
from farm.transport.client_link import ClientLink, LinkStatus
from farm.transport.poller import PollSource


class Wire(PollSource, Protocol):
    """One connection: what the lines need of ``farm.transport.client_link.ClientLink``."""

    connections: int

    @property
    def status(self) -> LinkStatus:
        """State and reason as of now."""
        ...

    @property
    def pending(self) -> bool:
        """Whether messages wait that show on no socket any more."""
        ...

    def send(self, body: bytes) -> bool:
        """Sends one message; False when there is no connection or it takes nothing more."""
        ...

    def recv(self, timeout_s: float | None = 0.0) -> bytes | None:
        """One message, or None; raises FarmUnreachable when none will ever come."""
        ...

    def error(self) -> FarmUnreachable:
        """The present trouble as an error."""
        ...

    def close(self, linger_s: float = 0.0) -> None:
        """Closes it; may be called twice."""
        ...


class Route:
    """The way to a farm's broker; usable once ``ready``.

    Attributes:
        access: Where it is and the key to show it.
        ready: Whether the host was looked up, or needed not be.
        trouble: Why it was not found, "" while it is not known or when it was.
    """

    def __init__(self, access: Access, done: Callable[[], None]) -> None:
        self.access = access
        self.ready = False
        self.trouble = ""
        self._number = ""
        host = as_host_port(access.endpoint.control)
        if host.is_name:
            look = threading.Thread(target=self._look_up, args=(host, done), name="host name", daemon=True)
            look.start()
        else:
            self.ready = True

    def _look_up(self, address: HostPort, done: Callable[[], None]) -> None:
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            # As the transport does: IPv6 only where there is nothing else.
            found.sort(key=lambda entry: entry[0] != socket.AF_INET)
            self._number = str(found[0][4][0])
        except (OSError, UnicodeError, IndexError):
            self.trouble = f"host name {address.host!r} cannot be looked up"
        self.ready = True
        done()

    def numeric(self, address: str) -> HostPort:
        """An address of the broker, its host as a number when it was looked up."""
        parsed = as_host_port(address)
        same_host = parsed.host == as_host_port(self.access.endpoint.control).host
        return HostPort(self._number, parsed.port) if self._number and same_host else parsed


class Dialer:
    """Finds farms and opens links to them."""

    def find(self, farm: str | None, done: Callable[[], None]) -> Route:
        """Begins to find the way to a farm.

        Args:
            farm: Its name here; None = the one this user talks to as a rule.
            done: Called, from any thread, when the route is ready and was not at once.

        Raises:
            OvercrankError: The farm is not known here, or its files are damaged.
        """
        return Route(find_access(farm), done)

    def open(self, route: Route, address: str) -> Wire:
        """A link that dials from now on.

        Raises:
            OvercrankError: The address cannot be dialled.
        """
        return ClientLink(route.numeric(address), route.access.pair, route.access.endpoint.public)

    def why(self, route: Route, address: str, error: FarmUnreachable) -> FarmUnreachable:
        """The trouble of a link in words that name the farm as people know it."""
        number = str(route.numeric(address))
        if number != address:
            error = FarmUnreachable(error.message.replace(number, address), hint=error.hint)
        return why_unreachable(route.access, address, error)
