"""Whether and how a broker tells its network that it is there.

What belongs here: who is told what.  What may not: mDNS itself (``farm.transport.discovery``), and anything
secret.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from farm import __version__
from farm.config.options import BrokerOptions
from farm.transport.addresses import HostPort
from farm.transport.keys import fingerprint
from farm.transport.server_link import ServerLink

if TYPE_CHECKING:
    from farm.transport.discovery import Announcer


def announcer(options: BrokerOptions, farm: str, farm_id: str, link: ServerLink) -> Announcer | None:
    """What announces this broker; None for one that only this machine can reach, or that is to be quiet.

    It is not started yet.

    Args:
        options: The broker's.
        farm: Name of the farm.
        farm_id: Its random id.
        link: The sockets, bound.
    """
    if options.discovery == "off" or only_here(options.listen):
        return None
    from farm.transport.discovery import Announced, Announcer

    listens = HostPort(options.listen, link.control_address.port)
    told = Announced(
        farm=farm,
        farm_id=farm_id,
        key=fingerprint(link.public),
        software=__version__,
        host=options.advertise,
        control_port=listens.port,
    )
    return Announcer(told, () if listens.is_wildcard or listens.is_name else (options.listen,))


def only_here(listen: str) -> bool:
    """Whether an address to listen on is one that no other machine can dial."""
    if HostPort(listen, 0).is_wildcard:
        return False
    try:
        return ipaddress.ip_address(listen.partition("%")[0]).is_loopback
    except ValueError:
        return listen.rstrip(".").lower() in ("localhost", "localhost.localdomain", "ip6-localhost")
