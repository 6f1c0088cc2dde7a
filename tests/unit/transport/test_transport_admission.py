"""Who gets in, and as whom, on real sockets: known keys, unknown ones, revoked ones, and forged names.

What belongs here: admission as peers see it.  The authenticator's own answers are in test_transport_zap.
"""

from __future__ import annotations

import contextlib
import time

import pytest
import zmq

from farm.model.errors import FarmUnreachable
from farm.transport.addresses import Domain
from farm.transport.client_link import ClientLink, LinkState
from farm.transport.keyring import Role
from farm.transport.keys import generate_keypair
from farm.transport.sockets import new_context, send_nowait, server_socket
from farm.transport.zap import ENDPOINT
from tests.support.curve import DEADLINE_S, Farm, raw_zmq, receive, wait_until

#: Long enough for a handshake that would succeed to have done so many times over.
SETTLE_S = 0.3


def stays_out(link: ClientLink, seconds: float = SETTLE_S) -> None:
    """Fails if the link comes up within the time."""
    with pytest.raises(FarmUnreachable):
        link.wait_up(seconds)
    assert link.connections == 0


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
            wait_until(lambda: "breaks off the handshake" in late.status.reason, "why it is not let in")
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
        wait_until(lambda: client.state is LinkState.UNREACHABLE, "unreachable")
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
