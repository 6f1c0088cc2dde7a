"""A broker that only its machine can reach keeps quiet; any other is announced unless told not to be."""

from __future__ import annotations

import pytest

from farm.broker.announce import announcer, only_here
from farm.config.options import BrokerOptions
from farm.transport.addresses import HostPort
from farm.transport.server_link import ServerLink


class _Link(ServerLink):
    """Sockets that were never opened."""

    def __init__(self, host: str) -> None:
        self.control_address = HostPort(host, 7999)
        self.public = "x" * 40


@pytest.mark.parametrize(
    ("listen", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("*", False),
        ("::", False),
        ("10.0.0.5", False),
        ("fd00::5", False),
        ("farm.studio.lan", False),
    ],
)
def test_who_can_be_reached_is_announced(listen: str, here: bool) -> None:
    assert only_here(listen) is here
    made = announcer(BrokerOptions(listen=listen), "studio", "f00d", _Link(listen))
    assert (made is None) is here


def test_an_announcement_can_be_turned_off() -> None:
    options = BrokerOptions(listen="0.0.0.0", discovery="off")
    assert announcer(options, "studio", "f00d", _Link("0.0.0.0")) is None


def test_what_is_announced_is_where_others_dial_it() -> None:
    made = announcer(
        BrokerOptions(listen="10.0.0.5", advertise="farm.studio.lan"), "studio", "f00d", _Link("10.0.0.5")
    )
    assert made is not None
    info = made._info()
    assert info.port == 7999
    assert info.parsed_addresses() == ["10.0.0.5"]
    assert info.properties[b"host"] == b"farm.studio.lan"
    assert info.properties[b"farm"] == b"studio"
