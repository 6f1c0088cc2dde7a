"""Finding brokers on the local network: announcing one, and listening for announcements (mDNS, DNS-SD).

What belongs here: ``zeroconf``, its threads and its errors.  What may not: who announces when, and what is
made of what was found.

An announcement is a hint and nothing more: anybody on the network can send one.  It carries no secret and
opens nothing; a newcomer still needs a join token, which names the broker's key.  zeroconf is imported when
it is used: nobody else pays for it.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from farm.model.errors import FarmUnreachable
from farm.transport.addresses import HostPort

if TYPE_CHECKING:
    from zeroconf import ServiceInfo, Zeroconf

log = logging.getLogger("overcrank.discovery")

SERVICE: Final = "_overcrank._tcp.local."
#: Longest text kept of what somebody on the network sent, in characters.
_TEXT_MOST: Final = 120
#: Most farms kept: a network that sends more is not to be listened to.
_FOUND_MOST: Final = 200
#: How long one announcement is asked for its details.
_DETAILS_MS: Final = 3000


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """A broker as it is announced.

    Attributes:
        farm: Name of the farm on the broker's machine.
        farm_id: The farm's random id.
        key: Fingerprint of the broker's public key.
        software: Its Overcrank version.
        host: Host to dial: a name, or an address when it told no name.
        control_port: Port of its control socket.
    """

    farm: str
    farm_id: str
    key: str
    software: str
    host: str
    control_port: int

    @property
    def place(self) -> str:
        """``host:port`` of the control socket."""
        return str(HostPort(self.host, self.control_port))


class Announcer:
    """Announces one broker until stopped; never fails, a network that forbids it is logged once.

    Args:
        broker: What to tell.
        addresses: Numeric addresses it listens on; empty = all of this machine's but loopback.
        interfaces: Addresses of the interfaces to speak on; None = all.
    """

    def __init__(
        self, broker: Announced, addresses: Sequence[str] = (), interfaces: Sequence[str] | None = None
    ) -> None:
        self._broker = broker
        self._addresses = tuple(addresses)
        self._interfaces = interfaces
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announce", daemon=True)
        #: Set once the network was told.
        self.told = threading.Event()

    def start(self) -> None:
        """Begins; returns at once."""
        self._thread.start()

    def stop(self, wait_s: float = 3.0) -> None:
        """Takes the announcement back."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            node = _open(self._interfaces)
        except FarmUnreachable as error:
            log.info("not-announced reason=%s", error.message)
            return
        try:
            info = self._info()
            node.register_service(info, allow_name_change=True)
            self.told.set()
            self._stop.wait()
        except Exception as error:  # zeroconf has many of its own; none is worth a broker
            log.info("not-announced reason=%s", error)
        finally:
            with contextlib.suppress(Exception):
                node.close()  # says goodbye for what was registered

    def _info(self) -> ServiceInfo:
        from zeroconf import ServiceInfo

        broker = self._broker
        addresses = self._addresses or own_addresses()
        # A label of DNS has at most 63 bytes; what makes it unique comes last and is kept whole.
        tail = f" ({broker.farm_id[:8]})"
        head = re.sub(r"[^A-Za-z0-9_-]", "-", broker.farm)[: 63 - len(tail)]
        words = {
            "farm": broker.farm,
            "id": broker.farm_id,
            "key": broker.key,
            "v": broker.software,
            "host": broker.host,
        }
        return ServiceInfo(
            SERVICE,
            f"{head}{tail}.{SERVICE}",
            addresses=[_packed(address) for address in addresses],
            port=broker.control_port,
            properties={name: text[:_TEXT_MOST].encode() for name, text in words.items() if text},
        )


class Browser:
    """Listens for brokers until stopped; never fails, where the network forbids it nothing is found.

    Args:
        on_change: Takes all that are there now, by name; called from a thread of zeroconf's.
        interfaces: Addresses of the interfaces to listen on; None = all.
    """

    def __init__(
        self, on_change: Callable[[tuple[Announced, ...]], None], interfaces: Sequence[str] | None = None
    ) -> None:
        self._on_change = on_change
        self._interfaces = interfaces
        self._found: dict[str, Announced] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)
        #: Why nothing can be found, "" while it can; known soon after the start.
        self.trouble = ""

    def start(self) -> None:
        """Begins; returns at once."""
        self._thread.start()

    def stop(self, wait_s: float = 3.0) -> bool:
        """Ends; nothing is told any more.  Whether it ended within the wait."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            node = _open(self._interfaces)
        except FarmUnreachable as error:
            self.trouble = error.message
            self._tell()
            return
        try:
            from zeroconf import ServiceBrowser

            # zeroconf looks for these three methods; its base class would have to be imported to inherit it.
            listener: Any = _Listener(self)
            browser = ServiceBrowser(node, SERVICE, listener=listener)
            self._stop.wait()
            browser.cancel()
        except Exception as error:
            self.trouble = f"the network cannot be listened to: {error}"
            log.info("no-discovery reason=%s", error)
            self._tell()
        finally:
            with contextlib.suppress(Exception):
                node.close()

    def _look(self, node: Zeroconf, name: str) -> None:
        if self._stop.is_set():
            return
        info = node.get_service_info(SERVICE, name, timeout=_DETAILS_MS)
        found = read_announcement(info) if info is not None else None
        with self._lock:
            if found is None or (name not in self._found and len(self._found) >= _FOUND_MOST):
                return
            if self._found.get(name) == found:
                return
            self._found[name] = found
        self._tell()

    def _gone(self, name: str) -> None:
        with self._lock:
            if self._found.pop(name, None) is None:
                return
        self._tell()

    def _tell(self) -> None:
        if self._stop.is_set():
            return
        with self._lock:
            found = tuple(sorted(self._found.values(), key=lambda one: (one.farm.casefold(), one.place)))
        self._on_change(found)


class _Listener:
    """What zeroconf calls, under its names."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def add_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self._browser._look(zc, name)

    def update_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self._browser._look(zc, name)

    def remove_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self._browser._gone(name)


def read_announcement(info: ServiceInfo) -> Announced | None:
    """What an announcement says, None when it is none of a broker; anybody can have sent it."""
    words: dict[str, str] = {}
    for raw_name, raw_text in info.properties.items():
        if isinstance(raw_name, bytes) and isinstance(raw_text, bytes):
            text = raw_text.decode("utf-8", "replace")[:_TEXT_MOST]
            words[raw_name.decode("ascii", "replace")] = "".join(c if c.isprintable() else "?" for c in text)
    addresses = info.parsed_addresses()
    host = words.get("host", "") or (addresses[0] if addresses else "")
    port = info.port or 0
    if not (words.get("farm") and words.get("id") and host and 0 < port <= 65535):
        return None
    return Announced(
        farm=words["farm"],
        farm_id=words["id"],
        key=words.get("key", ""),
        software=words.get("v", ""),
        host=host,
        control_port=port,
    )


def own_addresses() -> tuple[str, ...]:
    """The addresses of this machine that others can dial, IPv4 first."""
    import ifaddr

    found: list[str] = []
    for adapter in ifaddr.get_adapters():
        for address in adapter.ips:
            text = address.ip if isinstance(address.ip, str) else address.ip[0]
            if not text.startswith(("127.", "169.254.", "fe80")) and text != "::1":
                found.append(text)
    return tuple(sorted(dict.fromkeys(found), key=lambda text: ":" in text))


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _open(interfaces: Sequence[str] | None) -> Zeroconf:
    """Opens the network for announcements.

    Raises:
        FarmUnreachable: zeroconf is not installed, or the network forbids it.
    """
    try:
        from zeroconf import InterfaceChoice, Zeroconf
    except ImportError:
        raise FarmUnreachable(
            "farms on the network are not found: zeroconf is not installed", hint="pip install zeroconf"
        ) from None
    chosen: Any = list(interfaces) if interfaces is not None else InterfaceChoice.All
    try:
        return Zeroconf(interfaces=chosen)
    except Exception as error:  # OSError most of the time; its own kinds otherwise
        raise FarmUnreachable(f"the network cannot be listened to: {error}") from None
