"""A core that fails in the middle of an event ends the turn, and the same message not twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from farm.broker.falls import FALLS_MOST, REMEMBERED_MOST, REMEMBERED_S, Falls, TurnLost
from farm.broker.state import BrokerState
from farm.model.errors import CallError
from farm.protocol.client import ActReq, SubmitReq


def applied(error: Exception, *, changes: bool) -> Any:
    """What comes of an event at which the core raises, before or after it made rows."""
    state = SimpleNamespace(core=SimpleNamespace(farm=SimpleNamespace(seq=7)), rows=[], fresh=False)

    def handle(_event: object) -> None:
        state.core.farm.seq += changes
        raise error

    state._handle = handle
    return BrokerState.apply(state, object())  # type: ignore[arg-type]


def test_a_refusal_that_changed_nothing_is_the_caller_s() -> None:
    with pytest.raises(CallError):
        applied(CallError("no"), changes=False)


@pytest.mark.parametrize(
    ("error", "changes"), [(CallError("no"), True), (KeyError("x"), False), (OverflowError(), True)]
)
def test_any_other_failure_loses_the_turn(error: Exception, changes: bool) -> None:
    with pytest.raises(TurnLost) as caught:
        applied(error, changes=changes)
    assert caught.value.__cause__ is error


def test_a_request_is_known_again_under_another_number_and_from_its_sender_only() -> None:
    falls = Falls()
    request = ActReq(id=3, action="set", address="J1", value="{}")
    assert falls.refusal_of("key", request) is None
    falls.note_request("key", request, "KeyError")
    assert falls.refusal_of("key", ActReq(id=9, action="set", address="J1", value="{}")) == "KeyError"
    assert falls.refusal_of("other", request) is None
    assert falls.refusal_of("key", ActReq(id=3, action="set", address="J2", value="{}")) is None
    assert falls.refusal_of("key", SubmitReq(id=3, job=b"{}")) is None


def test_a_node_is_refused_after_the_same_report_failed_twice() -> None:
    falls = Falls()
    for attempt in range(1, 10):
        falls.note_message("node", "wolf", "report", attempt, "KeyError")
    assert falls.node_refusal("node") is None
    assert not falls.alerts
    for _ in range(FALLS_MOST - 1):
        falls.note_message("node", "wolf", "report", 3, "KeyError")
    assert "report about attempt 3 brought the broker down 2 times (KeyError)" in (
        falls.node_refusal("node") or ""
    )
    assert falls.node_refusal("other") is None
    assert falls.alerts[0].startswith("wolf is refused: ")


def test_falls_far_apart_do_not_add_up_and_a_refusal_ends_with_the_day() -> None:
    now_s = [0.0]
    falls = Falls(lambda: now_s[0])
    request = ActReq(id=3, action="set", address="J1", value="{}")
    for _ in range(5):  # months apart
        falls.note_message("node", "wolf", "heartbeat", 0, "KeyError")
        now_s[0] += 60 * REMEMBERED_S
    assert falls.node_refusal("node") is None
    for _ in range(FALLS_MOST):
        falls.note_message("node", "wolf", "heartbeat", 0, "KeyError")
        now_s[0] += REMEMBERED_S / 2
    falls.note_request("key", request, "KeyError")
    assert falls.node_refusal("node")
    assert falls.refusal_of("key", request)
    assert len(falls.alerts) == 1
    now_s[0] += REMEMBERED_S + 1
    assert falls.node_refusal("node") is None
    assert falls.refusal_of("key", request) is None
    assert falls.alerts == []
    falls.note_message("node", "wolf", "heartbeat", 0, "KeyError")
    assert falls.node_refusal("node") is None, "it counts anew"


@pytest.mark.parametrize("said", ["key/1", "wolf"])
def test_somebody_lets_a_node_in_again_and_its_falls_are_forgotten(said: str) -> None:
    falls = Falls()
    for node_key, name in (("key/1", "wolf"), ("key/2", "hare")):
        for _ in range(FALLS_MOST):
            falls.note_message(node_key, name, "hello", 0, "KeyError")
    assert falls.pardon(said)
    assert not falls.pardon(said), "it is in"
    assert falls.node_refusal("key/1") is None
    assert falls.node_refusal("key/2")
    (alert,) = falls.alerts
    assert alert.startswith("hare")
    falls.note_message("key/1", "wolf", "hello", 0, "KeyError")
    assert falls.node_refusal("key/1") is None
    falls.note_message("key/1", "wolf", "hello", 0, "KeyError")
    assert falls.node_refusal("key/1")


def test_a_submit_is_known_again_under_another_token() -> None:
    falls = Falls()
    falls.note_request("key", SubmitReq(id=1, job=b'{"name": "a", "token": "1"}'), "KeyError")
    assert falls.refusal_of("key", SubmitReq(id=2, job=b'{"name": "a", "token": "2"}'))
    assert falls.refusal_of("key", SubmitReq(id=2, job=b'{"name":"a"}'))
    assert falls.refusal_of("key", SubmitReq(id=2, job=b'{"name":"b"}')) is None
    for odd in (b"{", b"[1]", b"\xff", b"[" * 100_000):
        falls.note_request("key", SubmitReq(id=1, job=odd), "KeyError")
        assert falls.refusal_of("key", SubmitReq(id=2, job=odd))


def test_suspects_are_bounded_and_a_culprit_clears_the_others() -> None:
    falls = Falls()
    falls.note_turn((("node", "report", number) for number in range(REMEMBERED_MOST + 50)), "x", "KeyError")
    assert not falls.is_suspect(("node", "report", 49))
    assert falls.is_suspect(("node", "report", 50))
    falls.note_message("node", "wolf", "report", 7, "KeyError")
    assert falls.suspecting_agents, "that one was no suspect"
    falls.note_message("node", "wolf", "report", 60, "KeyError", alone=True)
    assert not falls.suspecting
    assert falls.node_refusal("node"), "the fall it was suspected of counts too"
    assert len(falls.alerts) == 1
