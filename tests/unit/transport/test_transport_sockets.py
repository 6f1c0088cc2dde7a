"""Real sockets on this machine: who gets in, who does not, and what hostile peers cannot do."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import zmq

from farm.model.errors import CallError, FarmUnreachable
from farm.transport.addresses import Domain, HostPort
from farm.transport.client_link import ClientLink, LinkState
from farm.transport.keyring import Keyring, Role
from farm.transport.keys import generate_keypair
from farm.transport.poller import Poller, Waker
from farm.transport.server_link import ServerLink
from farm.transport.sockets import LIMITS, client_socket, new_context, recv_nowait, send_nowait, server_socket
from farm.transport.zap import ENDPOINT, ZapServer
from tests.support.curve import (
    DEADLINE_S,
    Farm,
    free_port,
    nothing_left,
    raw_zmq,
    receive,
    rss_mib,
    running_farm,
    wait_until,
)

#: Long enough for a handshake that would succeed to have done so many times over.
SETTLE_S = 0.3


@pytest.fixture
def farm() -> Iterator[Farm]:
    with nothing_left(), running_farm() as running:
        yield running


def stays_out(link: ClientLink, seconds: float = SETTLE_S) -> None:
    """Fails if the link comes up within the time."""
    with pytest.raises(FarmUnreachable):
        link.wait_up(seconds)
    assert link.connections == 0


# -- who gets in -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["control", "bulk", "join"])
def test_a_known_key_passes_and_the_broker_reads_whose_it_is(farm: Farm, name: str) -> None:
    member = farm.member()
    with farm.dial(member, getattr(farm.link, f"{name}_address")) as client:
        assert farm.echo(client, getattr(farm.link, name)) == member.public


def test_every_message_names_its_own_sender(farm: Farm) -> None:
    members = [farm.member() for _ in range(5)]
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(farm.dial(member)) for member in members]
        for turn in range(3):
            for member, link in zip(members, links, strict=True):
                link.wait_up(DEADLINE_S)
                assert link.send(b"%d %s" % (turn, member.public.encode()))
        for _ in range(15):
            message = receive(farm.link.control)
            assert message is not None
            assert message[1].split(b" ", 1)[1].decode() == message[2]


@pytest.mark.parametrize("name", ["control", "bulk"])
def test_an_unknown_key_is_refused_and_told_so(farm: Farm, name: str) -> None:
    with farm.dial(generate_keypair(), getattr(farm.link, f"{name}_address")) as client:
        started = time.monotonic()
        with pytest.raises(FarmUnreachable, match="does not know this key") as caught:
            client.wait_up(DEADLINE_S)
        assert time.monotonic() - started < DEADLINE_S / 2  # told, not timed out
        assert "join token" in caught.value.hint
        assert client.state is LinkState.REFUSED
        assert not client.send(b"let me in")
        with pytest.raises(FarmUnreachable, match="does not know this key"):
            client.recv(DEADLINE_S)
    assert farm.link.zap.refused_count == 1
    assert farm.link.zap.refused[0].domain == name
    assert receive(getattr(farm.link, name), 0.0) is None


def test_any_key_may_use_the_join_socket_and_is_named(farm: Farm) -> None:
    stranger = generate_keypair()
    with farm.dial(stranger, farm.link.join_address) as client:
        assert farm.echo(client, farm.link.join) == stranger.public


def test_a_refused_link_comes_up_by_reconnecting_once_the_key_is_known(farm: Farm) -> None:
    member = farm.member()
    farm.keyring.revoke(member.public)
    with farm.dial(member) as client:
        with pytest.raises(FarmUnreachable, match="revoked"):
            client.wait_up(DEADLINE_S)
        entry = farm.keyring.lookup(member.public)
        assert entry is not None
        farm.keyring.add(type(entry)(key_id=entry.key_id, public=entry.public, role=Role.AGENT))
        client.reconnect()
        assert farm.echo(client) == member.public


def test_a_revoked_key_is_refused_anew_and_told_apart_while_live(farm: Farm) -> None:
    member = farm.member()
    with farm.dial(member) as live:
        farm.echo(live)
        farm.keyring.revoke(member.public)
        with farm.dial(member) as again, pytest.raises(FarmUnreachable, match="revoked"):
            again.wait_up(DEADLINE_S)
        # ZeroMQ keeps the live connection; the key on each message is how the broker knows.
        assert live.send(b"still here")
        message = receive(farm.link.control)
        assert message is not None
        assert not farm.keyring.admits(message[2])


@pytest.mark.parametrize("name", ["control", "join", "bulk"])
def test_with_the_authenticator_stopped_nobody_new_gets_in(farm: Farm, name: str) -> None:
    member, address = farm.member(), getattr(farm.link, f"{name}_address")
    with farm.dial(member, address) as before:
        farm.echo(before, getattr(farm.link, name))
        farm.link.zap.stop()
        assert not farm.link.zap.alive
        with farm.dial(member, address) as late:
            stays_out(late)
            assert "breaks off the handshake" in late.status.reason
            assert not late.send(b"x")
        farm.echo(before, getattr(farm.link, name))  # those inside are served on
        assert receive(getattr(farm.link, name), 0.0) is None


@pytest.mark.parametrize("domain", list(Domain))
def test_with_an_authenticator_that_hangs_nobody_gets_in(domain: Domain) -> None:
    context, keys = new_context(), generate_keypair()
    hung = context.socket(zmq.REP)
    hung.bind(ENDPOINT)
    sock, address = server_socket(context, "127.0.0.1:0", keys, domain)
    try:
        with ClientLink(address, generate_keypair(), keys.public) as client:
            wait_until(lambda: hung.poll(0), "the authenticator is asked")
            stays_out(client)
        assert receive(sock, 0.0) is None
    finally:
        sock.close(0)
        hung.close(0)
        context.term()


@pytest.mark.parametrize("domain", list(Domain))
def test_with_no_authenticator_at_all_nobody_gets_in(domain: Domain) -> None:
    context, keys = new_context(), generate_keypair()
    sock, address = server_socket(context, "127.0.0.1:0", keys, domain)
    try:
        with ClientLink(address, generate_keypair(), keys.public) as client:
            stays_out(client)
        assert receive(sock, 0.0) is None
    finally:
        sock.close(0)
        context.term()


def test_another_brokers_key_is_not_talked_to(farm: Farm) -> None:
    member = farm.member()
    with farm.dial(member, server=generate_keypair().public) as client:
        stays_out(client)
        assert client.state is LinkState.UNREACHABLE
        assert "its key is not the one expected" in client.status.reason
    assert receive(farm.link.control, 0.0) is None


@pytest.mark.parametrize("name", ["control", "join", "bulk"])
@pytest.mark.parametrize("plain", [False, True])
def test_an_unencrypted_client_gets_nothing(farm: Farm, name: str, plain: bool) -> None:
    address = getattr(farm.link, f"{name}_address")
    options = {"plain_username": b"admin", "plain_password": b"admin"} if plain else {}
    with raw_zmq(zmq.DEALER, **options) as sock:
        sock.connect(address.endpoint)
        sock.send(b"hello")
        assert not sock.poll(int(SETTLE_S * 1000))
    assert receive(getattr(farm.link, name), 0.0) is None
    farm.serves()


# -- hostile peers ---------------------------------------------------------------------------------------

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
    with socket.create_connection((address.host, address.port), 5) as peer:
        peer.settimeout(4)
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


def test_a_forged_user_id_in_the_handshake_is_not_believed(farm: Farm) -> None:
    member, victim = farm.member(), farm.member(Role.ADMIN, "root")
    with raw_zmq(
        zmq.DEALER,
        curve_serverkey=farm.keys.public.encode(),
        curve_publickey=member.public.encode(),
        curve_secretkey=member.secret.encode(),
        routing_id=victim.public.encode(),
    ) as sock:
        sock.setsockopt(zmq.METADATA, b"X-User-Id:" + victim.public.encode())
        sock.connect(farm.link.control_address.endpoint)
        sock.send(b"I am root")
        message = receive(farm.link.control)
        assert message is not None
        assert message[2] == member.public


def test_a_copied_routing_id_does_not_take_over_the_first_connection(farm: Farm) -> None:
    member, thief = farm.member(), farm.member()
    options = {"curve_serverkey": farm.keys.public.encode(), "routing_id": b"node-7"}
    keys = [
        {"curve_publickey": p.public.encode(), "curve_secretkey": p.secret.encode()} for p in (member, thief)
    ]
    with (
        raw_zmq(zmq.DEALER, **options, **keys[0]) as first,
        raw_zmq(zmq.DEALER, **options, **keys[1]) as second,
    ):
        first.connect(farm.link.control_address.endpoint)
        first.send(b"first")
        message = receive(farm.link.control)
        assert message is not None
        second.connect(farm.link.control_address.endpoint)
        second.send(b"second")
        assert receive(farm.link.control, SETTLE_S) is None
        assert send_nowait(farm.link.control, message[0], b"for the first")
        assert first.poll(int(DEADLINE_S * 1000))
        assert first.recv() == b"for the first"
        assert not second.poll(0)


# -- the authenticator -----------------------------------------------------------------------------------


@pytest.fixture
def zap() -> Iterator[tuple[ZapServer, zmq.Context[zmq.Socket[bytes]], Farm]]:
    with running_farm() as running:
        yield running.link.zap, running.link._context, running


def ask(context: zmq.Context[zmq.Socket[bytes]], frames: list[bytes]) -> list[bytes]:
    sock = context.socket(zmq.REQ)
    sock.linger = 0
    try:
        sock.connect(ENDPOINT)
        sock.send_multipart(frames)
        assert sock.poll(int(DEADLINE_S * 1000)), "no answer"
        return sock.recv_multipart()
    finally:
        sock.close(0)


KEY = bytes(range(32))
REQUEST = [b"1.0", b"7", b"control", b"10.0.0.9", b"", b"CURVE", KEY]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, b"400"),
        ({2: b"join"}, b"200"),
        ({2: b"bulk"}, b"400"),
        ({2: b""}, b"400"),
        ({2: b"*"}, b"400"),
        ({2: b"JOIN"}, b"400"),
        ({2: b"join", 5: b"NULL"}, b"400"),
        ({2: b"join", 5: b"PLAIN"}, b"400"),
        ({2: b"join", 6: b"short"}, b"500"),
        ({2: b"join", 6: b""}, b"500"),
        ({0: b"2.0", 2: b"join"}, b"500"),
        ({2: b"\xff\xfe", 3: b"\xff"}, b"400"),
    ],
)
def test_answers_by_domain_and_mechanism(
    zap: tuple[ZapServer, zmq.Context[zmq.Socket[bytes]], Farm], change: dict[int, bytes], status: bytes
) -> None:
    server, context, _ = zap
    request = list(REQUEST)
    for index, value in change.items():
        request[index] = value
    answer = ask(context, request)
    assert answer[:3] == [b"1.0", b"7", status]
    assert bool(answer[4]) == (status == b"200")
    assert server.refused_count == (status != b"200")


def test_malformed_requests_are_answered_500_and_it_lives_on(
    zap: tuple[ZapServer, zmq.Context[zmq.Socket[bytes]], Farm],
) -> None:
    server, context, farm = zap
    rng = random.Random(20)
    for _ in range(100):
        frames = [rng.randbytes(rng.randrange(0, 40)) for _ in range(rng.randrange(1, 12))]
        assert ask(context, frames)[2] == b"500"
    for count in range(1, 7):
        assert ask(context, REQUEST[:count])[2] in (b"500", b"400")
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.connect(ENDPOINT)
    for frames in ([b"x"], [b"no", b"envelope"], [b""], [b"", b""]):
        dealer.send_multipart(frames)
    assert ask(context, [*REQUEST[:2], b"join", *REQUEST[3:]])[2] == b"200"
    dealer.close(0)
    assert server.alive
    farm.serves()


def test_a_fault_inside_refuses_that_peer_and_lives_on(
    zap: tuple[ZapServer, zmq.Context[zmq.Socket[bytes]], Farm],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, context, farm = zap

    def broken(key: str) -> None:
        raise RuntimeError("boom")

    with monkeypatch.context() as patch:
        patch.setattr(farm.keyring, "lookup", broken)
        assert ask(context, REQUEST)[2:4] == [b"500", b"internal error"]
    assert server.alive
    farm.serves()


def test_refusals_are_kept_short_however_many_knock(
    zap: tuple[ZapServer, zmq.Context[zmq.Socket[bytes]], Farm], caplog: pytest.LogCaptureFixture
) -> None:
    server, context, _ = zap
    for _ in range(50):
        ask(context, REQUEST)
    assert [(r.times, r.address, r.domain) for r in server.refused] == [(50, "10.0.0.9", "control")]
    for n in range(300):
        ask(context, [*REQUEST[:6], n.to_bytes(32, "big")])
    assert server.refused_count == 350
    assert len(server.refused) == 64
    assert len([r for r in caplog.records if "refused" in r.message]) <= 3


def test_only_one_authenticator_a_context(
    zap: tuple[ZapServer, zmq.Context[zmq.Socket[bytes]], Farm],
) -> None:
    _, context, farm = zap
    with pytest.raises(FarmUnreachable, match="authenticator"):
        ZapServer(context, farm.keyring)
    farm.serves()


# -- binding, polling, closing ---------------------------------------------------------------------------


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
        assert 0.045 < time.monotonic() - started < 5


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
        assert time.monotonic() - started < 5


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
    assert free_port() > 0
