"""A link says why it does not come up, within the caller's deadline."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from farm.model.errors import FarmUnreachable
from farm.transport.addresses import HostPort
from farm.transport.client_link import ClientLink, LinkState
from farm.transport.keyring import KeyEntry, Keyring, Role
from farm.transport.keys import generate_keypair
from farm.transport.server_link import ServerLink
from farm.transport.sockets import send_nowait
from tests.support.curve import (
    DEADLINE_S,
    Farm,
    closed_port,
    nothing_left,
    raw_zmq,
    receive,
    running_farm,
    wait_until,
)

SERVER = generate_keypair()
ME = generate_keypair()


@pytest.fixture(autouse=True)
def _leaves_nothing() -> Iterator[None]:
    with nothing_left():
        yield


@contextlib.contextmanager
def tcp_server(talk: bytes | None) -> Iterator[HostPort]:
    """Something that is no broker: says its line to every caller (or nothing) and stays on the line."""
    peers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    peers.append(peer)
                    if talk is not None:
                        peer.sendall(talk)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield HostPort("127.0.0.1", listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for peer in peers:
                peer.close()


def test_nobody_listens() -> None:
    with closed_port() as port, ClientLink(f"127.0.0.1:{port}", ME, SERVER.public) as client:
        wait_until(lambda: client.state is LinkState.UNREACHABLE, "unreachable")
        with pytest.raises(FarmUnreachable, match=f"nothing answers at 127.0.0.1:{port}"):
            client.wait_up(0.05)
        assert client.recv(0.05) is None  # it goes on trying, so there is no error
        assert not client.send(b"x")


def test_a_name_that_does_not_resolve() -> None:
    with ClientLink("no-such-host.invalid:7460", ME, SERVER.public) as client:
        wait_until(lambda: client.state is LinkState.UNREACHABLE, "unreachable")
        assert "'no-such-host.invalid' cannot be looked up" in client.status.reason


def test_a_listener_that_says_nothing_is_not_waited_for_beyond_the_deadline() -> None:
    with tcp_server(None) as address, ClientLink(address, ME, SERVER.public) as client:
        started = time.monotonic()
        with pytest.raises(FarmUnreachable):
            client.wait_up(0.2)
        assert time.monotonic() - started < DEADLINE_S
        wait_until(lambda: "says nothing" in str(_error(client)), "silence is named")


def _error(client: ClientLink) -> FarmUnreachable:
    assert client.state is LinkState.CONNECTING
    return client.error()


@pytest.mark.parametrize(
    "line", [b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n" * 20, b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20]
)
def test_another_service_is_told_from_a_broker(line: bytes) -> None:
    with tcp_server(line) as address, ClientLink(address, ME, SERVER.public) as client:
        with pytest.raises(FarmUnreachable, match="no Overcrank broker"):
            client.wait_up(DEADLINE_S)
        assert client.state is LinkState.REFUSED


def test_an_unencrypted_zeromq_server_is_not_talked_to() -> None:
    with raw_zmq(zmq.ROUTER) as server:
        server.bind("tcp://127.0.0.1:0")
        address = HostPort.parse(server.getsockopt_string(zmq.LAST_ENDPOINT))
        with ClientLink(address, ME, SERVER.public) as client:
            with pytest.raises(FarmUnreachable, match=r"no Overcrank broker|handshake"):
                client.wait_up(DEADLINE_S)
            assert client.connections == 0
        assert not server.poll(50)


def test_a_broker_that_restarts_is_found_again_and_the_session_can_tell() -> None:
    keys, ring, ports = generate_keypair(), Keyring(), {"control_port": 0, "join_port": 0, "bulk_port": 0}
    ring.add(KeyEntry(key_id=1, public=ME.public, role=Role.AGENT))
    first = ServerLink(keys, ring, **ports)
    with ClientLink(first.control_address, ME, keys.public) as client:
        try:
            client.wait_up(DEADLINE_S)
            assert client.connections == 1
        finally:
            first.close()
        wait_until(lambda: client.state is not LinkState.UP, "the loss is noticed")
        assert not client.send(b"lost?")
        wait_until(lambda: client.state is LinkState.UNREACHABLE, "nobody listens")
        second = ServerLink(keys, ring, **{**ports, "control_port": first.control_address.port})
        try:
            client.wait_up(DEADLINE_S)
            assert client.connections == 2
            assert client.send(b"hello again")
            message = receive(second.control)
            assert message is not None
            assert message[1] == b"hello again"  # and nothing of what was said while it was down
        finally:
            second.close()


def test_a_restarted_broker_that_forgot_the_key_ends_the_wait_with_its_reason() -> None:
    keys = generate_keypair()
    ring = Keyring([KeyEntry(key_id=1, public=ME.public, role=Role.AGENT)])
    first = ServerLink(keys, ring, control_port=0, join_port=0, bulk_port=0)
    port = first.control_address.port
    with ClientLink(first.control_address, ME, keys.public) as client:
        try:
            client.wait_up(DEADLINE_S)
        finally:
            first.close()
        second = ServerLink(keys, Keyring(), control_port=port, join_port=0, bulk_port=0)
        try:
            with pytest.raises(FarmUnreachable, match="does not know this key"):
                client.recv(DEADLINE_S)
        finally:
            second.close()


class Broker:
    """A broker that knows ``ME``, says something and goes, and comes again at the same port."""

    def __init__(self) -> None:
        self.keys = generate_keypair()
        self._ring = Keyring([KeyEntry(key_id=1, public=ME.public, role=Role.AGENT)])
        self.link = ServerLink(self.keys, self._ring, control_port=0, join_port=0, bulk_port=0)
        self.address = self.link.control_address

    def greeted_by(self, client: ClientLink) -> bytes:
        """Has the client say something; returns its routing id."""
        client.wait_up(DEADLINE_S)
        assert client.send(b"hello")
        message = receive(self.link.control)
        assert message is not None
        return message[0]

    def say_and_go(self, routing_id: bytes, *bodies: bytes) -> None:
        for body in bodies:
            assert send_nowait(self.link.control, routing_id, body)
        self.link.close(DEADLINE_S)

    def come_again(self) -> None:
        """Serves again, and waits until the client's next connection is through the handshake."""
        self.link = ServerLink(
            self.keys, self._ring, control_port=self.address.port, join_port=0, bulk_port=0
        )
        monitor = self.link.control.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        try:
            assert monitor.poll(DEADLINE_S * 1000), "nobody came back"
        finally:
            self.link.control.disable_monitor()
            monitor.close(0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    try:
        yield made
    finally:
        made.link.close()


def test_what_a_broker_said_before_it_went_is_received_before_the_loss_is_told(broker: Broker) -> None:
    with ClientLink(broker.address, ME, broker.keys.public) as client:
        words = [f"word {number}".encode() for number in range(200)]
        broker.say_and_go(broker.greeted_by(client), *words)
        broker.come_again()
        # Words, loss and the next connection all wait: nothing was looked at since the hello.
        assert [(client.recv(0.0), client.connections) for _ in words] == [(word, 1) for word in words]
        client.wait_up(DEADLINE_S)
        assert client.connections == 2
        assert client.recv(0.0) is None


def test_what_comes_with_the_loss_between_two_looks_is_received_first(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ClientLink(broker.address, ME, broker.keys.public) as client:
        routing_id = broker.greeted_by(client)
        take, looks = client._take, itertools.count()

        def take_just_before() -> bytes | None:
            if next(looks):
                return take()
            found = take()
            broker.say_and_go(routing_id, b"one", b"two")
            # Past the link's own look at the news: when this has got through, the return is among them.
            client.poll_sockets()[0].send(b"still in the queue")
            broker.come_again()
            assert receive(broker.link.control) is not None
            return found

        monkeypatch.setattr(client, "_take", take_just_before)
        # A look without waiting, as at a deadline: the loss is in the news by then, and so is the return.
        assert (client.recv(0.0), client.connections) == (b"one", 1)
        assert (client.recv(0.0), client.connections) == (b"two", 1)
        client.wait_up(DEADLINE_S)
        assert (client.recv(0.0), client.connections) == (None, 2)


def test_what_came_is_received_after_the_loss_was_seen_and_not_once_the_next_connection_is_up(
    broker: Broker,
) -> None:
    with ClientLink(broker.address, ME, broker.keys.public) as client:
        broker.say_and_go(broker.greeted_by(client), b"one", b"two")
        wait_until(lambda: client.state is not LinkState.UP, "the loss is noticed")
        assert not client.send(b"lost?")
        assert client.pending, "it shows on no socket any more: who waits on sockets must ask"
        assert client.recv(0.0) == b"one"
        broker.come_again()
        client.wait_up(DEADLINE_S)
        assert client.connections == 2
        assert not client.pending
        assert client.recv(0.0) is None  # "two" must not be taken for a word of the new connection


def test_what_is_sent_before_the_first_connection_is_not_kept(broker: Broker) -> None:
    broker.link.close()
    with ClientLink(broker.address, ME, broker.keys.public) as client:
        assert not client.send(b"too early")
        wait_until(lambda: client.state is LinkState.UNREACHABLE, "nobody listens")
        assert not client.send(b"still too early")
        broker.come_again()
        broker.greeted_by(client)
        assert receive(broker.link.control, 0.0) is None


def test_messages_of_many_parts_from_the_broker_are_dropped_whole() -> None:
    with running_farm() as farm, farm.dial(farm.member()) as client:
        client.wait_up(DEADLINE_S)
        client.send(b"hello")
        message = receive(farm.link.control)
        assert message is not None
        farm.link.control.send_multipart([message[0], b"two", b"parts"])
        farm.link.control.send_multipart([message[0], b"one"])
        assert client.recv(DEADLINE_S) == b"one"
        assert client.recv(0.0) is None


def test_an_over_long_message_ends_the_link_with_a_reason_not_a_hang() -> None:
    from farm.transport.sockets import SocketLimits

    farm = Farm()
    try:
        limits = SocketLimits(max_message=1000, send_queue=10, receive_queue=10)
        member = farm.member()
        with ClientLink(farm.link.control_address, member, farm.keys.public, limits=limits) as client:
            client.wait_up(DEADLINE_S)
            client.send(b"hello")
            message = receive(farm.link.control)
            assert message is not None
            farm.link.control.send_multipart([message[0], b"short"])
            farm.link.control.send_multipart([message[0], bytes(5000)])
            wait_until(lambda: client.state is LinkState.REFUSED, "the link is given up")
            assert client.recv(0.0) == b"short"
            with pytest.raises(FarmUnreachable, match="protocol"):
                client.recv(DEADLINE_S)
            client.reconnect()
            farm.echo(client)
    finally:
        farm.link.close()


def test_a_closed_link_says_so() -> None:
    with closed_port() as port:
        client = ClientLink(f"127.0.0.1:{port}", ME, SERVER.public)
        client.close()
    client.close()
    for call in (
        lambda: client.send(b"x"),
        lambda: client.recv(1.0),
        lambda: client.wait_up(1.0),
        client.reconnect,
    ):
        with pytest.raises(FarmUnreachable, match="closed"):
            call()
