"""Sessions of clients that went without a word end; those that are used or follow something stay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from farm.broker import state as broker_state
from farm.broker.routes import Routes
from farm.broker.state import IDLE_S, BrokerState
from farm.protocol.agent import ByeMsg
from farm.protocol.session import BrokerSession

NOW_US = int(IDLE_S * 10e6)


class State(SimpleNamespace):
    """As much of the broker's state as sessions need."""

    end_idle = BrokerState.end_idle
    drop = BrokerState.drop

    def __init__(self) -> None:
        entry = SimpleNamespace(revoked=False, label="kim", key_id="k")
        super().__init__(
            now_us=NOW_US,
            sessions={},
            agents={},
            publisher=SimpleNamespace(forget=lambda _routing_id: None),
            keydesk=SimpleNamespace(keyring=SimpleNamespace(lookup=lambda _key: entry)),
            codec=SimpleNamespace(decode=lambda _body: ByeMsg()),
            outbound=SimpleNamespace(reply=lambda *_: None),
        )

    def add(self, name: str, silent_s: float, **fields: Any) -> None:
        self.sessions[name.encode()] = BrokerSession(
            routing_id=name.encode(),
            key="key",
            version=1,
            session=1,
            role="artist",
            user="kim",
            heard_us=self.now_us - int(silent_s * 1e6),
            **fields,
        )

    def names(self) -> set[str]:
        return {name.decode() for name in self.sessions}


def test_only_the_idle_that_follow_nothing_end() -> None:
    state = State()
    state.add("gone", IDLE_S + 1)
    state.add("polling", 5)
    state.add("watching", IDLE_S * 3, topics=("jobs",))
    state.add("agent", IDLE_S * 3, node_id=4)
    state.end_idle()
    assert state.names() == {"polling", "watching", "agent"}


def test_of_too_many_the_longest_silent_end_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_state, "IDLE_MOST", 3)
    state = State()
    for number in (4, 1, 3, 0, 2):
        state.add(f"c{number}", number)
    state.add("agent", IDLE_S * 3, node_id=4)
    state.end_idle()
    assert state.names() == {"c0", "c1", "c2", "agent"}


def test_a_client_s_goodbye_ends_its_session_at_once() -> None:
    state = State()
    state.add("done", 1)
    state.add("other", 1)
    Routes(state).take(b"done", b"", "key")  # type: ignore[arg-type]
    assert state.names() == {"other"}
