"""A message of one agent that cannot be taken ends that agent's session and leaves the turn alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from farm.broker.routes import Routes
from farm.model.errors import CallError, StorageError
from farm.protocol.agent import ReportMsg
from farm.protocol.common import RefusedMsg


class State(SimpleNamespace):
    """As much of the broker's state as a report passes through."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.now_us = 1
        self.error = error
        self.replies: list[tuple[bytes, Any]] = []
        self.acks: list[tuple[int, int]] = []
        entry = SimpleNamespace(revoked=False, label="agent", key_id="k")
        self.keydesk = SimpleNamespace(keyring=SimpleNamespace(lookup=lambda _key: entry))
        self.codec = SimpleNamespace(decode=lambda _body: ReportMsg(7, 1, 2))
        self.outbound = SimpleNamespace(
            reply=lambda routing_id, message: self.replies.append((routing_id, message)),
            ack=lambda node_id, n: self.acks.append((node_id, n)),
        )
        self.sessions = {
            name: SimpleNamespace(key="key", node_id=number, routing_id=name, leases={})
            for number, name in ((3, b"bad"), (4, b"good"))
        }

    def apply(self, event: Any) -> None:
        if event.node_id == 3 and self.error is not None:
            raise self.error

    def drop(self, routing_id: bytes) -> None:
        del self.sessions[routing_id]


@pytest.mark.allow_log("message-failed|bad-message")
@pytest.mark.parametrize(
    ("error", "words"),
    [(KeyError("no such thing"), "KeyError"), (CallError("the unit is odd"), "the unit is odd")],
)
def test_one_agent_s_bad_message_costs_its_session_only(error: Exception, words: str) -> None:
    state = State(error)
    routes = Routes(state)  # type: ignore[arg-type]
    routes.take(b"bad", b"", "key")
    routes.take(b"good", b"", "key")
    assert list(state.sessions) == [b"good"]
    assert state.acks == [(4, 7)], "what was not taken is not acknowledged: the agent keeps it"
    ((routing_id, refusal),) = state.replies
    assert routing_id == b"bad"
    assert isinstance(refusal, RefusedMsg)
    assert words in refusal.reason


def test_a_disk_that_fails_is_no_message_s_fault() -> None:
    state = State(StorageError("the disk is full"))
    with pytest.raises(StorageError):
        Routes(state).take(b"bad", b"", "key")  # type: ignore[arg-type]
    assert set(state.sessions) == {b"bad", b"good"}
