"""The agent's connection: what has arrived is given at once, on whatever it shows."""

from __future__ import annotations

import contextlib

import pytest

from farm.transport.client_link import ClientLink
from farm.transport.keys import generate_keypair
from node_agent.line import ZmqLine


def test_what_waits_in_the_link_is_given_without_news_and_without_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float | None] = []
    with contextlib.closing(ZmqLine("127.0.0.1:9", generate_keypair(), generate_keypair().public)) as line:
        line.recv()
        waiting = [b"two", b"three"]
        monkeypatch.setattr(ClientLink, "pending", property(lambda _: bool(waiting)))
        monkeypatch.setattr(ClientLink, "recv", lambda _, __: waiting.pop(0) if waiting else None)
        monkeypatch.setattr(line, "_look", looks.append)
        line._news = False
        line.wait(30.0)
        assert [line.recv(), line.recv(), line.recv()] == [b"two", b"three", None]
        line.wait(30.0)
    assert (looks[0], looks[-1]) == (0.0, 30.0)
