"""A core that fails in the middle of an event ends the turn, and the same message not twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from farm.broker.falls import FALLS_MOST, Falls, TurnLost
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
