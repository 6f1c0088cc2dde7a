"""Acting: `farm pause` and its like, `delete`, `priority`, `node`, `keys`, `shutdown`.

What belongs here: that an action reaches the broker as it was meant, and is told; and what is asked first.
"""

from __future__ import annotations

import io

import pytest

from farm.protocol import client as wire
from tests.support.cli_rig import Run
from tests.support.fake_broker import FakeBroker


@pytest.mark.parametrize(
    "action", ["pause", "resume", "cancel", "requeue", "retry", "skip", "mark-done", "last", "archive"]
)
def test_actions_reach_the_broker_as_they_are(run: Run, broker: FakeBroker, action: str) -> None:
    result = run(action, "J12", "J13", "--reason", "because")
    assert (result.code, result.out) == (0, f"J12 {action}\nJ13 {action}\n")
    assert [(r.action, r.address, r.reason) for r in broker.requests] == [
        (action, "J12", "because"),
        (action, "J13", "because"),
    ]


def test_of_several_that_run_next_the_first_goes_first(run: Run, broker: FakeBroker) -> None:
    # Each goes before all others, so the first has to come last.
    assert run("next", "J12", "J13", "--reason", "dailies").out == "J13 next\nJ12 next\n"
    assert [(r.action, r.address, r.reason) for r in broker.requests] == [
        ("next", "J13", "dailies"),
        ("next", "J12", "dailies"),
    ]
    assert run("next", "J12/beauty/17-20").code == 0
    assert broker.requests[-1].address == "J12/beauty/17-20"
    assert run("next", "J12/beauty@3").code == 2
    assert run("next").code == 2


def test_requeue_says_how_much_was_lost(run: Run, broker: FakeBroker) -> None:
    broker.lost_core_us = 7_200_500_000
    assert run("requeue", "J12/beauty/4", "--json").json == {
        "action": "requeue",
        "results": [
            {
                "address": "J12/beauty/4",
                "changed": 1,
                "message": "J12/beauty/4 requeue",
                "lost_core_s": 7200.5,
            }
        ],
    }
    assert "lost_core_s" not in run("retry", "J12", "--json").json["results"][0]


def test_delete_asks_where_somebody_can_answer(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acted() -> list[str]:
        return [request.address for request in broker.requests if isinstance(request, wire.ActReq)]

    typed = io.StringIO("y\n")
    monkeypatch.setattr("sys.stdin", typed)
    for words in (("J12",), ("J12", "--json")):
        result = run("delete", *words)
        assert result.code == 2
        assert "say --yes" in (result.err or result.out)
    monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
    assert run("delete", "J12", "--json").code == 2, "nobody is asked in the middle of a document"
    assert acted() == []
    result = run("delete", "J12")
    assert (result.code, acted()) == (0, ["J12"])
    assert "Delete? [y/N]" in result.err
    assert "J12 " in result.err
    for answer in ("n\n", "", "yes please\n"):
        refusing = io.StringIO(answer)
        monkeypatch.setattr(refusing, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", refusing)
        result = run("delete", "J12")
        assert (result.code, result.err.splitlines()[-1]) == (2, "farm: nothing was deleted")
    assert run("delete", "J12", "J13", "--yes", "--reason", "old").out == "J12 delete\nJ13 delete\n"
    assert acted() == ["J12", "J12", "J13"]
    assert run("delete", "J12/beauty", "--yes").code == 2


def test_priority(run: Run, broker: FakeBroker) -> None:
    assert run("priority", "J12", "75", "--json").json == {
        "action": "priority",
        "results": [{"address": "J12", "changed": 1, "message": "J12 priority 75"}],
    }
    assert run("priority", "J12", "101").code == 2
    assert run("priority", "J12", "high").code == 2
    assert run("priority", "J12/beauty", "5").code == 2


def test_node_actions(run: Run, broker: FakeBroker) -> None:
    assert run("node", "drain", "ws-12", "--reason", "fan").out == "ws-12: node-drain\n"
    assert broker.requests[-1].reason == "fan"
    result = run("node", "forget", "ws-99")
    assert (result.code, result.err) == (2, "farm: there is no node 'ws-99'\n")


def test_keys(run: Run, broker: FakeBroker) -> None:
    broker.keys = [
        wire.KeyRow(
            public="k" * 40, role="artist", user="kim", pool="", site="", label="kim@ws", revoked=False
        )
    ]
    assert "kim@ws" in run("keys", "list").out
    result = run("keys", "invite", "--role", "agent", "--pool", "gpu", "--ttl-s", "60")
    assert result.out == "ovc1-abc\n"
    assert "valid for 1 m 00 s" in result.err
    assert (broker.requests[-1].role, broker.requests[-1].pool, broker.requests[-1].ttl_s) == (
        "agent",
        "gpu",
        60.0,
    )
    assert run("keys", "invite", "--role", "artist").code == 2
    assert run("keys", "invite", "--role", "agent", "--user", "kim").code == 2
    assert run("keys", "revoke", "kim@ws").out == "revoked: kim@ws\n"
    assert run("keys", "list", "--json").json["keys"][0]["user"] == "kim"
    assert run("keys").code == 2


def test_shutdown(run: Run, broker: FakeBroker) -> None:
    result = run("shutdown", "--reason", "kernel")
    assert "the broker of local stops" in result.out
    assert "2 frames still running" in result.out
    assert broker.requests[-1].reason == "kernel"
