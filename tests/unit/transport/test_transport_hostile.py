"""Hostile peers on real sockets: noise, sizes that lie, floods; none of them disturbs the served.

What belongs here: what peers send that they may not.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import subprocess
import sys

import pytest
import zmq

from farm.transport.addresses import Domain, HostPort
from farm.transport.poller import Poller
from farm.transport.sockets import LIMITS, recv_nowait, send_nowait
from tests.support.curve import DEADLINE_S, Farm, raw_zmq, receive, rss_mib, wait_until

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"CURVE".ljust(20, b"\0") + b"\0" + bytes(31)


def shout(address: HostPort, data: bytes, read: bool = True) -> None:
    """Sends raw bytes; whatever the other side does about it is fine."""
    with contextlib.suppress(OSError), socket.create_connection((address.host, address.port), 5) as peer:
        peer.settimeout(0.02)
        peer.sendall(data)
        if read:
            with contextlib.suppress(TimeoutError):
                peer.recv(4096)


@pytest.mark.parametrize("name", ["control", "join", "bulk"])
def test_random_bytes_do_not_disturb_the_served(farm: Farm, name: str) -> None:
    rng = random.Random(f"fuzz {name}")
    address = getattr(farm.link, f"{name}_address")
    with farm.dial(farm.member(), address) as client:
        farm.echo(client, getattr(farm.link, name))
        for turn in range(60):
            data = rng.randbytes(rng.randrange(1, 600))
            match turn % 4:
                case 1:  # a good greeting, then noise
                    data = GREETING + data
                case 2:  # a good greeting and a HELLO of the right length with a forged box
                    data = GREETING + b"\x04\xc8\x05HELLO\x01\x00" + bytes(72) + rng.randbytes(120)
                case 3:  # cut anywhere
                    data = (GREETING + b"\x04\xc8\x05HELLO\x01\x00")[: rng.randrange(1, 70)]
            shout(address, data, read=turn % 2 == 0)
        farm.echo(client, getattr(farm.link, name))
    assert farm.link.zap.alive
    farm.serves()


@pytest.mark.parametrize("name", ["control", "join", "bulk"])
def test_a_frame_that_claims_a_gigabyte_takes_no_memory(farm: Farm, name: str) -> None:
    address = getattr(farm.link, f"{name}_address")
    farm.serves()
    before = rss_mib()
    for flags in (b"\x02", b"\x06"):  # long message, long command
        for size in (1 << 30, (1 << 63) - 1, (1 << 64) - 1):
            assert hung_up(address, GREETING + flags + struct.pack(">Q", size) + bytes(8 << 20)), size
    assert rss_mib() - before < 24
    farm.serves()


def hung_up(address: HostPort, data: bytes) -> bool:
    """Sends raw bytes; True if the broker closes the connection long before its handshake timeout."""
    with socket.create_connection((address.host, address.port), 15) as peer:
        peer.settimeout(15)
        try:
            peer.sendall(data)
            while peer.recv(4096):
                pass
        except TimeoutError:
            return False
        except OSError:  # reset while we were still talking
            return True
        return True


SENDER = """
import sys, zmq
address, server, public, secret, size = sys.argv[1:]
context = zmq.Context()
sock = context.socket(zmq.DEALER)
sock.linger = 0
sock.curve_serverkey, sock.curve_publickey = server.encode(), public.encode()
sock.curve_secretkey = secret.encode()
monitor = sock.get_monitor_socket(zmq.EVENT_DISCONNECTED)
sock.connect(address)
sock.send(b"before")
sock.send(bytes(int(size)))
assert monitor.poll(20000), "not thrown out"
sock.send(b"after")
assert sock.poll(20000), "not served again"
sock.disable_monitor()
sock.close(0)
monitor.close(0)
context.term()
"""


def test_a_huge_message_of_a_known_key_is_dropped_and_costs_nothing(farm: Farm) -> None:
    member = farm.member()
    farm.serves()
    before = rss_mib()
    arguments = (farm.link.control_address.endpoint, farm.keys.public, member.public, member.secret)
    sender = subprocess.Popen([sys.executable, "-c", SENDER, *arguments, str(64 << 20)])
    try:
        bodies = []
        for _ in range(2):
            message = receive(farm.link.control, 30.0)
            assert message is not None
            bodies.append(message[1])
        assert send_nowait(farm.link.control, message[0], b"heard")
        assert bodies == [b"before", b"after"]
        assert sender.wait(30) == 0
    finally:
        sender.kill()
        sender.wait()
    assert rss_mib() - before < 24
    farm.serves()


@pytest.mark.parametrize("domain", list(Domain))
def test_the_limit_holds_to_the_byte(farm: Farm, domain: Domain) -> None:
    sock, limit = getattr(farm.link, domain.value), LIMITS[domain].max_message
    with farm.dial(farm.member(), getattr(farm.link, f"{domain.value}_address")) as client:
        farm.echo(client, sock, bytes(limit))
        assert client.send(bytes(limit + 1))
        wait_until(lambda: client.status and client.connections == 2, "thrown out and back again")
        farm.echo(client, sock)


def test_messages_of_many_parts_are_dropped_whole(farm: Farm) -> None:
    member = farm.member()
    with raw_zmq(
        zmq.DEALER,
        curve_serverkey=farm.keys.public.encode(),
        curve_publickey=member.public.encode(),
        curve_secretkey=member.secret.encode(),
    ) as sock:
        sock.connect(farm.link.control_address.endpoint)
        sock.send_multipart([b"two", b"parts"])
        sock.send_multipart([b""] * 50)
        sock.send_multipart([b"", b"", b"x"])
        sock.send(b"one")
        message = receive(farm.link.control)
        assert message is not None
        assert message[1:] == (b"one", member.public)
    assert recv_nowait(farm.link.control) is None


def test_a_flood_of_bad_messages_gives_the_loop_back(farm: Farm) -> None:
    member = farm.member()
    with raw_zmq(
        zmq.DEALER,
        curve_serverkey=farm.keys.public.encode(),
        curve_publickey=member.public.encode(),
        curve_secretkey=member.secret.encode(),
        sndhwm=0,
    ) as sock:
        sock.connect(farm.link.control_address.endpoint)
        for _ in range(300):
            sock.send_multipart([b"a", b"b"])
        sock.send(b"good")
        message, calls = None, 0
        poller = Poller([farm.link.control])
        while message is None:
            assert poller.wait(DEADLINE_S), "the good message never came"
            message = recv_nowait(farm.link.control)
            calls += 1
        assert message[1] == b"good"
        assert calls >= 3
