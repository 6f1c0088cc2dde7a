"""Real sockets on this machine: binding, polling, closing, and leaving nothing.

What belongs here: the life of links.  Who gets in, and hostile peers, have tests of their own.
"""

from __future__ import annotations

import socket
import threading
import time

import pytest
import zmq

from farm.model.errors import CallError, FarmUnreachable
from farm.transport.addresses import Domain, HostPort
from farm.transport.client_link import ClientLink
from farm.transport.keyring import Keyring
from farm.transport.keys import generate_keypair
from farm.transport.poller import Poller, Waker
from farm.transport.server_link import ServerLink
from farm.transport.sockets import client_socket, new_context, send_nowait, server_socket
from farm.transport.zap import ZapServer
from tests.support.curve import (
    DEADLINE_S,
    Farm,
    nothing_left,
    raw_zmq,
    receive,
    running_farm,
    wait_until,
)


def test_a_busy_port_is_named_and_nothing_stays_open(farm: Farm) -> None:
    for name in ("control_port", "join_port", "bulk_port"):
        ports = {"control_port": 0, "join_port": 0, "bulk_port": 0, name: farm.link.bulk_address.port}
        with nothing_left(), pytest.raises(FarmUnreachable) as caught:
            ServerLink(farm.keys, farm.keyring, **ports)
        assert str(farm.link.bulk_address.port) in caught.value.message
        assert "in use" in caught.value.message
        assert caught.value.hint


def test_an_address_of_another_machine_cannot_be_listened_on(farm: Farm) -> None:
    with pytest.raises(FarmUnreachable, match=r"192\.0\.2\.1 is no address of this machine"):
        ServerLink(farm.keys, farm.keyring, host="192.0.2.1", control_port=0, join_port=0, bulk_port=0)
    with pytest.raises(FarmUnreachable, match="does not resolve"):
        ServerLink(farm.keys, farm.keyring, host="no-such-host.invalid", control_port=0)


@pytest.mark.parametrize(("listen", "dial"), [("localhost", "localhost"), ("*", "127.0.0.1"), ("::1", "::1")])
def test_listens_on_names_wildcards_and_ipv6(listen: str, dial: str) -> None:
    if ":" in listen:
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
    context, keys = new_context(), generate_keypair()
    authenticator = ZapServer(context, Keyring())
    sock, address = server_socket(context, HostPort(listen, 0), keys, Domain.JOIN)
    try:
        assert address.host == listen
        assert address.port > 0
        with ClientLink(HostPort(dial, address.port), generate_keypair(), keys.public) as client:
            client.wait_up(DEADLINE_S)
            assert client.send(b"hi")
            assert receive(sock) is not None
    finally:
        sock.close(0)
        authenticator.stop()
        context.term()


def test_sending_to_somebody_gone_says_so(farm: Farm) -> None:
    with farm.dial(farm.member()) as client:
        client.wait_up(DEADLINE_S)
        client.send(b"hello")
        message = receive(farm.link.control)
        assert message is not None
    wait_until(
        lambda: not send_nowait(farm.link.control, message[0], b"late"), "the peer is known to be gone"
    )
    assert not send_nowait(farm.link.control, b"never seen", b"x")
    farm.serves()


def test_a_peer_that_does_not_read_fills_only_its_own_queue(farm: Farm) -> None:
    with farm.dial(farm.member()) as lazy, farm.dial(farm.member()) as busy:
        lazy.wait_up(DEADLINE_S)
        lazy.send(b"hello")
        message = receive(farm.link.bulk, 0.0) or receive(farm.link.control)
        assert message is not None
        sent = 0
        while send_nowait(farm.link.control, message[0], bytes(4096)):
            sent += 1
            assert sent < 50_000, "the queue has no bound"
        farm.echo(busy)


def test_the_poller_reports_what_is_ready_and_wakes_across_threads(farm: Farm) -> None:
    left, right = socket.socketpair()
    with left, right, Waker() as waker, farm.dial(farm.member()) as client:
        poller = Poller([farm.link.control, farm.link.join, waker, left])
        farm.echo(client)
        assert poller.wait(0.0) == []
        right.send(b"x")
        assert poller.wait(DEADLINE_S) == [left]
        thread = threading.Thread(target=lambda: [waker.wake() for _ in range(100_000)])
        thread.start()
        wait_until(lambda: waker in poller.wait(1.0), "woken")
        thread.join()
        assert waker.clear()
        assert not waker.clear()
        client.send(b"now")
        wait_until(lambda: poller.wait(1.0) == [farm.link.control, left], "both are ready, in order")
        poller.unregister(left)
        assert poller.wait(1.0) == [farm.link.control]
        assert receive(farm.link.control) is not None
    waker.wake()  # harmless after close


def test_the_poller_follows_a_link_to_its_new_socket(farm: Farm) -> None:
    with farm.dial(farm.member()) as client:
        poller = Poller([client])
        farm.echo(client)
        client.reconnect()
        client.wait_up(DEADLINE_S)
        client.send(b"again")
        message = receive(farm.link.control)
        assert message is not None
        assert send_nowait(farm.link.control, message[0], b"answer")
        wait_until(lambda: poller.wait(1.0) == [client], "the new socket wakes the poller")
        assert client.recv(DEADLINE_S) == b"answer"


def test_a_timeout_is_kept() -> None:
    with Waker() as waker:
        poller = Poller([waker])
        started = time.monotonic()
        assert poller.wait(0.05) == []
        assert 0.045 < time.monotonic() - started < DEADLINE_S


def test_opening_and_closing_leaves_nothing() -> None:
    with running_farm() as warm:  # imports and lazy pools are not a leak
        warm.serves()
    with nothing_left():
        for _ in range(5):
            with running_farm() as running, running.dial(running.member()) as client:
                running.echo(client)
                client.reconnect()
                client.wait_up(DEADLINE_S)
            running.link.close()
            client.close()


def test_closing_with_messages_unread_and_peers_connected_does_not_hang() -> None:
    with nothing_left():
        farm = Farm()
        clients = [farm.dial(farm.member()) for _ in range(3)]
        for client in clients:
            client.wait_up(DEADLINE_S)
            for _ in range(100):
                client.send(bytes(1000))
        started = time.monotonic()
        farm.link.close()
        for client in clients:
            client.close()
        assert time.monotonic() - started < DEADLINE_S


def test_a_goodbye_sent_before_closing_leaves_the_broker(farm: Farm) -> None:
    other = Farm()
    member = other.member()
    # A plain socket, as a link may lose what it had not read yet when its connection ends.
    with raw_zmq(
        zmq.DEALER,
        curve_serverkey=other.keys.public.encode(),
        curve_publickey=member.public.encode(),
        curve_secretkey=member.secret.encode(),
    ) as sock:
        sock.connect(other.link.control_address.endpoint)
        sock.send(b"hello")
        message = receive(other.link.control)
        assert message is not None
        for number in range(20):
            assert send_nowait(other.link.control, message[0], b"goodbye %d" % number)
        other.link.close(linger_s=5.0)
        for number in range(20):
            assert sock.poll(int(DEADLINE_S * 1000)), f"goodbye {number} is lost"
            assert sock.recv() == b"goodbye %d" % number


def test_many_clients_at_once_are_all_let_in(farm: Farm) -> None:
    context = new_context()
    socks = []
    try:
        for member in [farm.member() for _ in range(200)]:
            socks += [client_socket(context, farm.link.control_address, member, farm.keys.public)]
        for number, sock in enumerate(socks):
            assert sock.poll(int(DEADLINE_S * 1000), zmq.POLLOUT), f"client {number} is not let in"
            sock.send(b"%d" % number)
        seen = {message[1] for message in (receive(farm.link.control) for _ in socks) if message}
        assert len(seen) == 200
    finally:
        for sock in socks:
            sock.close(0)
        context.term()


def test_a_client_must_name_a_real_address_and_key() -> None:
    keys = generate_keypair()
    with nothing_left():
        for address in ("*:7460", "0.0.0.0:1", "127.0.0.1:0"):
            with pytest.raises(CallError, match="dialled"):
                ClientLink(address, keys, keys.public)
        with pytest.raises(CallError):
            ClientLink("127.0.0.1:7460", keys, "no key")
