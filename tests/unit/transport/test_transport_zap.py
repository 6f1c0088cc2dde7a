"""The authenticator, asked directly: its answers by domain and mechanism, and its survival of bad questions.

What belongs here: requests and replies of the authentication protocol, without a peer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import zmq

from farm.model.errors import FarmUnreachable
from farm.transport.zap import ENDPOINT, ZapServer
from tests.support.curve import DEADLINE_S, Farm, running_farm


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
